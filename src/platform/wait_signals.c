/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for several descriptors as read() waits for one. poll() and epoll_wait() end with EINTR after
 * every signal handler; read() goes on after those that were installed with SA_RESTART. So signals are
 * blocked while we sleep, a signalfd tells that one is pending, and what it would do is looked up
 * before it is let through.
 */
#include "platform/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include "platform/fail.h"

#define NS_PER_S 1000000000u

/* A signalfd for what @blocked leaves open; -1: there is none to be had. */
static int watch_signals(struct waiter *waiter, const sigset_t *blocked)
{
	sigset_t open;
	int signal;

	sigfillset(&open);
	for (signal = 1; signal < NSIG; signal++)
		if (sigismember(blocked, signal) == 1)
			sigdelset(&open, signal);
	waiter->signal_fd = fail_now(FAIL_EVENTFD) ? -1 :
			    signalfd(waiter->signal_fd, &open, SFD_CLOEXEC | SFD_NONBLOCK);
	return waiter->signal_fd;
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

int waiter_stand_in(struct waiter *waiter, int fd, uint64_t timeout_ns, uint32_t *ready)
{
	struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / NS_PER_S),
				    .tv_nsec = (long)(timeout_ns % NS_PER_S) };
	struct pollfd wait[3] = { { .fd = fd, .events = POLLIN },
				  { .fd = waiter->epoll_fd, .events = POLLIN },
				  { .events = POLLIN } };
	sigset_t all, blocked;
	int count, err = 0;

	*ready = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &blocked);
	wait[2].fd = watch_signals(waiter, &blocked);
	if (wait[2].fd < 0) {
		pthread_sigmask(SIG_SETMASK, &blocked, NULL);
		*ready = WAIT_FD;
		return 0;
	}
	count = ppoll(wait, 3, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
	if (count > 0 && wait[2].revents && is_interrupting(&blocked))
		err = EINTR;
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);	/* handlers run here */
	if (count > 0 && wait[0].revents)
		*ready = WAIT_FD;
	if (count > 0 && wait[1].revents)
		*ready |= waiter_wait(waiter, 0);
	return *ready & WAIT_FD ? 0 : err;
}
