/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a sanitizer is told, by one of our own: it has the clocks of threads and fibers, and says
 * whether an access came before another one. tests/threads has the real ones.
 */
#include "device/tsan_adapter.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASKS	40u		/* threads and fibers */
#define KEYS	8192u
#define TOLD	64u

/* Vector clocks: what of each task happened before now. */
struct task {
	unsigned clock[TASKS];
	int ignores, frames;
};

static struct task tasks[TASKS];
static unsigned task_count, current, switches;
static struct {
	void *address;
	unsigned clock[TASKS];
} keys[KEYS];
static struct told {
	uintptr_t start;
	unsigned long bytes;
	unsigned task, at;
	bool writes;
	int frames;
} told[TOLD];
static unsigned told_count;

static void fake_join(unsigned *to, const unsigned *from)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (from[i] > to[i])
			to[i] = from[i];
}

static unsigned *fake_key(void *address)
{
	unsigned i;

	for (i = 0; keys[i].address && keys[i].address != address; i++)
		assert_true(i < KEYS);
	keys[i].address = address;
	return keys[i].clock;
}

static void fake_acquire(void *address)
{
	fake_join(tasks[current].clock, fake_key(address));
}

static void fake_release(void *address)
{
	fake_join(fake_key(address), tasks[current].clock);
	tasks[current].clock[current]++;
}

static void fake_range(void *address, unsigned long bytes, bool writes)
{
	assert_int_equal(tasks[current].ignores, 0);
	assert_true(told_count < TOLD);
	told[told_count++] = (struct told){ (uintptr_t)address, bytes, current, tasks[current].clock[current],
					    writes, tasks[current].frames };
}

static void fake_read(void *address, unsigned long bytes)
{
	fake_range(address, bytes, false);
}

static void fake_write(void *address, unsigned long bytes)
{
	fake_range(address, bytes, true);
}

static void fake_ignore_begin(const char *file, int line)
{
	tasks[current].ignores++;
}

static void fake_ignore_end(const char *file, int line)
{
	assert_int_equal(--tasks[current].ignores, 0);
}

static void fake_entry(void *caller)
{
	tasks[current].frames++;
}

static void fake_exit(void)
{
	tasks[current].frames--;
}

static void *fake_current(void)
{
	return &tasks[current];
}

static void *fake_create(unsigned flags)
{
	assert_true(task_count < TASKS);
	tasks[task_count].clock[task_count] = 1;
	return &tasks[task_count++];
}

static void fake_switch(void *fiber, unsigned flags)
{
	assert_int_equal(flags, 1);	/* that alone orders nothing */
	current = (unsigned)((struct task *)fiber - tasks);
	switches++;
}

static void fake_name(void *fiber, const char *name)
{
	assert_string_equal(name, "RDMA adapter");
}

static const struct tsan_runtime fake = {
	fake_ignore_begin, fake_ignore_end, fake_acquire, fake_release, fake_read, fake_write,
	fake_entry, fake_exit, fake_current, fake_create, fake_switch, fake_name,
};

/* Threads of the application: tasks 0 and 1. Fibers are made once in a process. */
static int setup(void **state)
{
	if (!task_count) {
		fake_create(0);
		fake_create(0);
	}
	current = 0;
	told_count = 0;
	tsan_attach(&fake);
	return 0;
}

static int teardown(void **state)
{
	tsan_attach(NULL);
	return 0;
}

static bool is_known(unsigned task, const struct told *access)
{
	return tasks[task].clock[access->task] >= access->at;
}

static const struct told *post(const void *queue, uint32_t number, void *memory, bool writes)
{
	const struct tsan_access access = { (uintptr_t)memory, 64, 7, writes };
	struct tsan_site site;

	tsan_enter_from(__builtin_return_address(0));
	tsan_find_site(&site);
	assert_in_range(site.frames, 1, TSAN_FRAMES);
	lock_acquire(tsan_post_lock(queue));
	tsan_record(queue, number, &site, &access, 1);
	lock_release(tsan_post_lock(queue));
	tsan_leave();
	return &told[told_count - 1];
}

static void poll_by(unsigned task, const void *queue, uint32_t number)
{
	current = task;
	tsan_polled(queue, number);
}

static char queue[8], other_queue[8], memory[256];

/* ---- tests ---- */

static void without_a_sanitizer_nothing_is_called(void **state)
{
	tsan_attach(NULL);
	tsan_enter();
	tsan_before(memory);
	tsan_after(memory);
	tsan_renumber(queue);
	tsan_emptied(queue);
	tsan_deregistered(1);
	tsan_leave();
	tsan_abandon();
	assert_int_equal(tasks[0].ignores, 0);
	assert_false(tsan_is_on());
}

static void nested_calls_are_one(void **state)
{
	tsan_enter();
	tsan_enter();
	assert_int_equal(tasks[0].ignores, 1);
	tsan_leave();
	assert_int_equal(tasks[0].ignores, 1);
	tsan_leave();
	assert_int_equal(tasks[0].ignores, 0);
	tsan_leave();
	tsan_enter();
	tsan_enter();
	tsan_abandon();
	assert_int_equal(tasks[0].ignores, 0);
}

static void an_access_is_the_adapters_until_it_was_polled(void **state)
{
	const struct told *access = post(queue, 1, memory, true);

	assert_int_equal(current, 0);
	assert_true(access->task > 1);
	assert_true(access->frames >= 1);
	assert_true(access->writes);
	assert_false(is_known(0, access));
	poll_by(1, queue, 1);
	assert_true(is_known(1, access));
	assert_false(is_known(0, access));
}

static void what_the_poster_did_is_before_the_access_and_the_poll(void **state)
{
	unsigned before = tasks[0].clock[0];
	const struct told *access = post(queue, 2, memory, false);

	assert_true(tasks[access->task].clock[0] >= before);
	assert_false(tasks[1].clock[0] >= before);
	poll_by(1, queue, 2);
	assert_true(tasks[1].clock[0] >= before);
}

static void a_completion_names_earlier_requests_of_its_queue_alone(void **state)
{
	const struct told *first = post(queue, 3, memory, true), *second = post(queue, 4, memory + 64, true);
	const struct told *other = post(other_queue, 1, memory + 128, true);
	const struct told *third = post(queue, 5, memory + 64, true);

	assert_int_not_equal(first->task, other->task);
	poll_by(1, queue, 4);
	assert_true(is_known(1, first));
	assert_true(is_known(1, second));
	assert_false(is_known(1, third));
	assert_false(is_known(1, other));
}

static void accesses_that_overlap_are_ordered(void **state)
{
	const struct told *write = post(queue, 6, memory + 192, true);
	const struct told *apart = post(other_queue, 2, memory, false);
	const struct told *read;

	assert_false(is_known(apart->task, write));
	read = post(other_queue, 3, memory + 192 + 63, false);
	assert_true(is_known(read->task, write));
}

static void reads_that_overlap_are_not(void **state)
{
	static char shared[64];
	const struct told *read = post(queue, 7, shared, false), *other = post(other_queue, 4, shared, false);

	assert_false(is_known(other->task, read));
}

/* Out of all that is remembered, and nevertheless before what comes later. */
static void an_access_of_long_ago_comes_before(void **state)
{
	static char long_ago[64], many[2048][64];
	const struct told old = *post(queue, 8, long_ago, true), *now;

	for (unsigned i = 0; i < 2048; i++) {
		told_count = 0;
		post(other_queue, 5 + i, many[i], false);
	}
	now = post(other_queue, 4000, long_ago, true);
	assert_true(is_known(now->task, &old));
}

static void emptying_and_deregistering_give_memory_back(void **state)
{
	const struct told *access = post(queue, 9, memory, true);

	current = 1;
	tsan_emptied(other_queue);
	assert_false(is_known(1, access));
	tsan_emptied(queue);
	assert_true(is_known(1, access));
	access = post(queue, 10, memory, true);
	current = 0;
	tsan_deregistered(8);
	assert_false(is_known(0, access));
	tsan_deregistered(7);
	assert_true(is_known(0, access));
}

static void numbers_that_changed_name_all(void **state)
{
	static char renumbered[8];
	const struct told *access = post(renumbered, 100, memory, true);

	tsan_renumber(renumbered);
	poll_by(1, renumbered, 0);
	assert_true(is_known(1, access));
}

/* Two ends of 2 MiB of what is larger. */
static void of_much_memory_the_ends_are_told(void **state)
{
	const struct tsan_access access = { 1 << 20, 64u << 20, 7, false };
	const struct tsan_site site = { 0 };

	tsan_record(queue, 11, &site, &access, 1);
	assert_int_equal(told_count, 2);
	assert_int_equal(told[0].start, 1 << 20);
	assert_int_equal(told[0].bytes, 2u << 20);
	assert_int_equal(told[1].start + told[1].bytes, 65u << 20);
}

static void a_message_hands_over_what_its_sender_did(void **state)
{
	unsigned before = tasks[0].clock[0];

	tsan_sending_to(0x1234);
	current = 1;
	tsan_received_by(0x1235);
	assert_false(tasks[1].clock[0] >= before);
	tsan_received_by(0x1234);
	assert_true(tasks[1].clock[0] >= before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_a_sanitizer_nothing_is_called),
		TEST(nested_calls_are_one),
		TEST(an_access_is_the_adapters_until_it_was_polled),
		TEST(what_the_poster_did_is_before_the_access_and_the_poll),
		TEST(a_completion_names_earlier_requests_of_its_queue_alone),
		TEST(accesses_that_overlap_are_ordered),
		TEST(reads_that_overlap_are_not),
		TEST(an_access_of_long_ago_comes_before),
		TEST(emptying_and_deregistering_give_memory_back),
		TEST(numbers_that_changed_name_all),
		TEST(of_much_memory_the_ends_are_told),
		TEST(a_message_hands_over_what_its_sender_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
