/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that run, sleep, wait for a processor, and have ended. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/patience_test.h"
#include "platform/thread_cpu.h"
#include "platform/wait.h"

#define SHORT_NS 200000u
#define LONG_NS 500000000u

enum { SPIN = 1, SLEEP, END };

struct subject {
	pthread_t thread;
	_Atomic pid_t id;
	_Atomic int what;
};

static void *live(void *argument)
{
	struct subject *subject = argument;

	atomic_store(&subject->id, thread_id());
	while (atomic_load(&subject->what) != END)
		if (atomic_load(&subject->what) == SLEEP)
			thread_sleep_ns(50000000);
	return NULL;
}

static void begin(struct subject *subject, int what)
{
	atomic_init(&subject->id, 0);
	atomic_init(&subject->what, what);
	assert_int_equal(pthread_create(&subject->thread, NULL, live, subject), 0);
	while (!atomic_load(&subject->id))
		thread_sleep_ns(SHORT_NS);
}

static void end(struct subject *subject)
{
	atomic_store(&subject->what, END);
	pthread_join(subject->thread, NULL);
}

static void a_thread_has_a_number(void **state)
{
	struct subject subject;

	assert_int_equal(thread_id(), getpid());
	begin(&subject, SLEEP);
	assert_int_not_equal(atomic_load(&subject.id), thread_id());
	end(&subject);
}

static void a_child_is_another_one(void **state)
{
	pid_t ours = thread_id(), pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		thread_id_forget();
		_exit(thread_id() == getpid() && thread_id() != ours ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void one_that_sleeps_or_has_ended_is_not_preempted(void **state)
{
	struct subject subject;
	pid_t id;

	assert_false(thread_is_preempted(0, SHORT_NS));
	assert_false(thread_is_preempted(1, SHORT_NS));	/* another process's */
	begin(&subject, SLEEP);
	id = atomic_load(&subject.id);
	/* It looks at what it is to do now and then, and may have to wait for a processor for that. */
	assert_true(comes_true(!thread_is_preempted(id, SHORT_NS)));
	end(&subject);
	assert_false(thread_is_preempted(id, SHORT_NS));
}

/* While we look on it runs for as long as it likes: over a long time, some of it. */
static void one_that_runs_is_not_preempted(void **state)
{
	struct subject subject;

	begin(&subject, SPIN);
	assert_true(comes_true(!thread_is_preempted(atomic_load(&subject.id), LONG_NS)));
	end(&subject);
}

/* Three that spin on one processor: at any time two of them wait. */
static void one_without_a_processor_is_preempted(void **state)
{
	struct subject subject[3];
	cpu_set_t one, usual;
	unsigned i, preempted = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(usual), &usual), 0);
	CPU_ZERO(&one);
	for (i = 0; !CPU_ISSET(i, &usual); i++)
		;
	CPU_SET(i, &one);
	for (i = 0; i < 3; i++) {
		begin(&subject[i], SPIN);
		assert_int_equal(sched_setaffinity(atomic_load(&subject[i].id), sizeof(one), &one), 0);
	}
	for (i = 0; i < 200 && !preempted; i++)
		preempted += thread_is_preempted(atomic_load(&subject[i % 3].id), SHORT_NS);
	for (i = 0; i < 3; i++)
		end(&subject[i]);
	assert_true(preempted > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_has_a_number),
		cmocka_unit_test(a_child_is_another_one),
		cmocka_unit_test(one_that_sleeps_or_has_ended_is_not_preempted),
		cmocka_unit_test(one_that_runs_is_not_preempted),
		cmocka_unit_test(one_without_a_processor_is_preempted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
