/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for several descriptors as read() waits for one. poll() and epoll_wait() end with EINTR after
 * every signal handler; read() goes on after those that were installed with SA_RESTART. So signals are
 * blocked during the sleep, a signalfd reports a pending one, and its action is looked up before it is
 * let through.
 *
 * Where handlers are put off during a call (base/call.h) none of this is needed: they run after this
 * function has returned, and the caller then learns their flags.
 */
#include "platform/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include "base/call.h"
#include "platform/fail.h"

#define NS_PER_S 1000000000u

/* A signalfd for the signals not in @blocked; -1: none can be made. */
static int watch_signals(struct waiter *waiter, const sigset_t *blocked)
{
	sigset_t open;
	int signal, fd;

	sigfillset(&open);
	for (signal = 1; signal < NSIG; signal++)
		if (sigismember(blocked, signal) == 1)
			sigdelset(&open, signal);
	fd = fail_now(FAIL_EVENTFD) ? -1 :
	     signalfd(waiter->signal_fd, &open, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0)
		waiter->signal_fd = fd;
	return fd;
}

/* Would a signal that is pending end a read() that waits? */
static bool is_interrupting(const sigset_t *blocked)
{
	struct sigaction action;
	sigset_t pending;
	int signal;

	sigpending(&pending);
	for (signal = 1; signal < NSIG; signal++)
		if (sigismember(&pending, signal) == 1 && sigismember(blocked, signal) != 1 &&
		    !sigaction(signal, NULL, &action) && action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
			return true;
	return false;
}

static void restore_signals(void *blocked)
{
	pthread_sigmask(SIG_SETMASK, blocked, NULL);	/* handlers run here */
}

/* The only place where the thread may be cancelled. */
static int wait_poll_cancellable(struct pollfd *wait, unsigned count,
				 const struct timespec *timeout, const sigset_t *mask,
				 int cancel_state)
{
	int ready;

	pthread_setcancelstate(cancel_state, NULL);
	ready = ppoll(wait, count, timeout, mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return ready;
}

static uint32_t what_is_ready(struct waiter *waiter, const struct pollfd *wait, int count)
{
	uint32_t ready = 0;

	if (count > 0 && wait[0].revents)
		ready = WAIT_FD;
	if (count > 0 && wait[1].revents)
		ready |= waiter_wait(waiter, 0);
	return ready;
}

int waiter_wait_progress(struct waiter *waiter, int fd, uint64_t timeout_ns, int cancel_state,
			 uint32_t *ready)
{
	struct timespec until = { .tv_sec = (time_t)(timeout_ns / NS_PER_S),
				  .tv_nsec = (long)(timeout_ns % NS_PER_S) };
	const struct timespec *timeout = timeout_ns == UINT64_MAX ? NULL : &until;
	struct pollfd wait[3] = { { .fd = fd, .events = POLLIN },
				  { .fd = waiter->epoll_fd, .events = POLLIN },
				  { .events = POLLIN } };
	sigset_t all, blocked;
	volatile int err = 0;
	int count;

	if (call_guarded) {
		call_mask(&all);
		count = wait_poll_cancellable(wait, 2, timeout, &all, cancel_state);
		*ready = what_is_ready(waiter, wait, count);
		return 0;
	}
	*ready = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &blocked);
	wait[2].fd = watch_signals(waiter, &blocked);
	if (wait[2].fd < 0) {
		pthread_sigmask(SIG_SETMASK, &blocked, NULL);
		*ready = WAIT_FD;
		return 0;
	}
	pthread_cleanup_push(restore_signals, &blocked);
	count = wait_poll_cancellable(wait, 3, timeout, NULL, cancel_state);
	if (count > 0 && wait[2].revents && is_interrupting(&blocked))
		err = EINTR;
	pthread_cleanup_pop(1);
	*ready = what_is_ready(waiter, wait, count);
	return *ready & WAIT_FD ? 0 : err;
}
