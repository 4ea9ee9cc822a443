/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker thread, which the application does not notice: it takes none of the application's
 * signals. It asks for a short slice, so that two spinning applications on two cores still let it run soon
 * (measured: worst delays of 3..7 ms in place of 13..26 ms).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tsan.h"
#include "platform/fail.h"
#include "platform/wait.h"

#define STACK_BYTES	(512u * 1024u)
#define SLICE_NS	100000u

/* First version of sched_setattr(2)'s argument; <linux/sched/types.h> collides with libc. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};
_Static_assert(sizeof(struct scheduling) == 48, "SCHED_ATTR_SIZE_VER0");

struct worker_thread {
	pthread_t thread;
	void (*run)(void *argument);
	void *argument;
	char name[16];
};

/* Best effort: kernels before 6.12 take the call and ignore the slice; sandboxes may forbid it. */
static void ask_for_short_slice(void)
{
	struct scheduling now = { .size = sizeof(now) };

	if (fail_now(FAIL_SLICE) || syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0))
		return;
	if (now.policy != SCHED_OTHER && now.policy != SCHED_BATCH)
		return;
	now.size = sizeof(now);
	now.runtime_ns = SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &now, 0);
}

static __thread bool is_worker __attribute__((tls_model("initial-exec")));

bool thread_is_worker(void)
{
	return is_worker;
}

static void *thread_run(void *argument)
{
	struct worker_thread *thread = argument;

	is_worker = true;
	pthread_setname_np(pthread_self(), thread->name);
	ask_for_short_slice();
	tsan_enter();
	thread->run(thread->argument);
	tsan_leave();
	return NULL;
}

/* All but those that the thread's own instructions raise: blocked, they would kill the process. */
static void block_signals(sigset_t *saved)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGFPE);
	sigdelset(&set, SIGILL);
	sigdelset(&set, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &set, saved);
}

int worker_thread_start(struct worker_thread **started, const char *name, void (*run)(void *),
			void *argument)
{
	struct worker_thread *thread = calloc(1, sizeof(*thread));
	pthread_attr_t attr;
	sigset_t saved;
	int err;

	if (!thread)
		return ENOMEM;
	thread->run = run;
	thread->argument = argument;
	strncpy(thread->name, name, sizeof(thread->name) - 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	block_signals(&saved);
	err = fail_now(FAIL_THREAD) ? errno
				    : pthread_create(&thread->thread, &attr, thread_run, thread);
	if (err == EINVAL)	/* much thread-local storage: the default is larger */
		err = pthread_create(&thread->thread, NULL, thread_run, thread);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		free(thread);
	else
		*started = thread;
	return err;
}

void worker_thread_join(struct worker_thread *thread)
{
	pthread_join(thread->thread, NULL);
	free(thread);
}
