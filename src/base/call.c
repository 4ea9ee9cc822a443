/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferring signal handlers, and running those that were deferred: call.h. */
#include "base/call.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define MOMENT_NS	20000000
#define NS_PER_S	1000000000

__thread struct call_thread call_thread __attribute__((tls_model("initial-exec")));
bool call_guarded;

/*
 * Masks as the kernel has them. The mask in a handler's context has this size, whatever sigset_t says:
 * what follows it on the stack is something else.
 */
_Static_assert(sizeof(unsigned long) * 8 == _NSIG - 1, "a signal for each bit");

static unsigned long call_bit(int signal)
{
	return 1ul << (signal - 1);
}

/* Faults are handled where they happen; 32 and 33 are the C library's own. */
static unsigned long all_signals(void)
{
	return ~(call_bit(SIGSEGV) | call_bit(SIGBUS) | call_bit(SIGFPE) | call_bit(SIGILL) |
		 call_bit(SIGTRAP) | call_bit(SIGSYS) | call_bit(SIGABRT) | call_bit(32) |
		 call_bit(33));
}

static void to_set(unsigned long mask, sigset_t *set)
{
	sigemptyset(set);
	memcpy(set, &mask, sizeof(mask));
}

void call_pay(void)
{
	sigset_t mask;
	int saved = errno;

	if (call_thread.depth)
		return;
	if (call_thread.shielded) {
		call_thread.shielded = false;
		pthread_setcancelstate(call_thread.cancel_state, NULL);
	}
	if (!call_thread.owed)
		return;
	to_set(call_thread.mask, &mask);
	call_thread.owed = call_thread.interrupts = false;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);	/* handlers run here */
	errno = saved;
}

/* A handler that calls us in the middle of it finds it done. */
void call_shield_now(void)
{
	if (!call_thread.depth || call_thread.depth >= CALL_CLOSED)
		return;
	call_thread.shielded = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call_thread.cancel_state);
}

bool call_pause(void)
{
	unsigned depth = call_thread.depth;
	bool interrupts = call_thread.interrupts, shielded = call_thread.shielded;

	if (!call_thread.owed || depth >= CALL_CLOSED)
		return false;
	call_thread.depth = 0;
	call_pay();
	call_enter(depth);
	if (shielded)
		call_shield();
	return interrupts;
}

/* Send the signal to this thread, with its siginfo if it can be; false: the queue is full. */
static bool call_send_again(int signal, const siginfo_t *info)
{
	pid_t process = getpid(), thread = (pid_t)syscall(SYS_gettid);

	return !syscall(SYS_rt_tgsigqueueinfo, process, thread, signal, info) ||
	       !syscall(SYS_tgkill, process, thread, signal);
}

static bool put_off(int signal, const siginfo_t *info, void *context, int flags)
{
	sigset_t *of_context = &((ucontext_t *)context)->uc_sigmask, all, before;
	int saved = errno;
	unsigned long mask;
	bool sent;

	if (!call_thread.depth)
		return false;
	/* The signal is not delivered before we return, whatever the handler's flags are. */
	to_set(all_signals(), &all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	sent = call_send_again(signal, info);
	if (sent) {
		memcpy(&mask, of_context, sizeof(mask));
		/*
		 * With nested handlers, the outermost has the application's mask in its context and returns last.
		 * In a sleep with its own mask (ppoll) the context has the mask from before, which is ours if
		 * handlers are already owed.
		 */
		call_thread.mask = call_thread.owed ? call_thread.mask & mask : mask;
		call_thread.owed = true;
		if (!(flags & SA_RESTART))
			call_thread.interrupts = true;
		mask |= all_signals();
		memcpy(of_context, &mask, sizeof(mask));
	} else {
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	errno = saved;
	return sent;
}

void call_mask(sigset_t *mask)
{
	pthread_sigmask(SIG_SETMASK, NULL, mask);
	atomic_signal_fence(memory_order_seq_cst);
	if (call_thread.owed)
		to_set(call_thread.mask, mask);
}

void call_abandon(void *unused)
{
	call_thread.depth = 0;
	tsan_abandon();
	call_pay();
}

static int call_poll_cancellable(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
				 const sigset_t *mask)
{
	int ready;

	pthread_cleanup_push(call_abandon, NULL);
	ready = ppoll(fds, count, timeout, mask);
	pthread_cleanup_pop(0);
	return ready;
}

static int poll_guarded(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec timeout = { .tv_sec = timeout_ms / 1000,
				    .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };
	sigset_t mask;

	call_mask(&mask);
	return call_poll_cancellable(fds, count, timeout_ms < 0 ? NULL : &timeout, &mask);
}

int call_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int ready;

	call_bare();
	ready = call_guarded ? poll_guarded(fds, count, timeout_ms) : poll(fds, count, timeout_ms);
	call_cover();
	return ready;
}

int call_nap(int timeout_ms)
{
	return call_guarded ? poll_guarded(NULL, 0, timeout_ms) : poll(NULL, 0, timeout_ms);
}

int call_sleep(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int ready;

	pthread_setcancelstate(call_thread.cancel_state, NULL);
	ready = call_poll(fds, count, timeout_ms);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return ready;
}

void call_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct timespec until;

	if (!call_guarded) {
		pthread_cond_wait(cond, mutex);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += MOMENT_NS;
	if (until.tv_nsec >= NS_PER_S) {
		until.tv_nsec -= NS_PER_S;
		until.tv_sec++;
	}
	pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
}

const struct call_offer call_offered = { .version = CALL_VERSION, .put_off = put_off };

__attribute__((constructor)) static void offer(void)
{
	call_hook *hook = (call_hook *)dlsym(RTLD_DEFAULT, CALL_HOOK);

	call_guarded = hook && hook(&call_offered);
}
