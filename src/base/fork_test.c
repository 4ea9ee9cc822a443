/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of fork handlers (fork.h) at real fork()s: order, who is left out, the closed call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/call.h"
#include "base/fork.h"

/* What ran: a letter each, 'A' of the first rank. The child's is seen through a pipe. */
static char ran[64];
static size_t ran_count;
static bool was_open;

static void note(char letter)
{
	if (ran_count < sizeof(ran) - 1)
		ran[ran_count++] = letter;
	was_open |= call_thread.depth < CALL_CLOSED;
}

#define NOTES(n)                                        \
	static void prepare_##n(void)                   \
	{                                               \
		note('A' + n);                          \
	}                                               \
	static void after_##n(void)                     \
	{                                               \
		note('a' + n);                          \
	}
NOTES(0)
NOTES(1)
NOTES(2)

static const struct fork_handlers nothing, both[] = {
	{ .prepare = prepare_0, .parent = after_0, .child = after_0 },
	{ .prepare = prepare_1, .parent = after_1, .child = after_1 },
	{ .prepare = prepare_2, .parent = after_2, .child = after_2 },
};

/* @child: what ran there since fork() was called. */
static void fork_once(char child[sizeof(ran)])
{
	int ends[2];
	pid_t pid;

	memset(ran, 0, sizeof(ran));
	ran_count = 0;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (call_thread.depth)
			note('!');
		_exit(write(ends[1], ran, sizeof(ran)) != sizeof(ran));
	}
	assert_int_equal(read(ends[0], child, sizeof(ran)), sizeof(ran));
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int forget(void **state)
{
	for (int rank = 0; rank < FORK_RANKS; rank++)
		fork_register(rank, &nothing);
	return 0;
}

static void ranks_decide_not_who_registers_first(void **state)
{
	char child[sizeof(ran)];

	fork_register(FORK_PROCESS, &both[1]);
	fork_register(FORK_LOG, &both[2]);
	fork_register(FORK_PRELOAD, &both[0]);
	fork_once(child);
	assert_string_equal(ran, "ABCcba");
	assert_string_equal(child, "ABCcba");
}

static void who_registers_again_is_called_once(void **state)
{
	char child[sizeof(ran)];

	fork_register(FORK_SLOTS, &both[0]);
	fork_register(FORK_SLOTS, &both[0]);
	fork_once(child);
	assert_string_equal(ran, "Aa");
}

static void what_is_not_given_is_not_called(void **state)
{
	static const struct fork_handlers only_parent = { .parent = after_0 },
					  only_child = { .child = after_1 };
	char child[sizeof(ran)];

	fork_register(FORK_SLOTS, &only_parent);
	fork_register(FORK_CM, &only_child);
	fork_once(child);
	assert_string_equal(ran, "a");
	assert_string_equal(child, "b");
}

static void handlers_run_in_a_closed_call(void **state)
{
	char child[sizeof(ran)];

	was_open = false;
	fork_register(FORK_PRELOAD, &both[0]);
	fork_register(FORK_LOG, &both[1]);
	fork_once(child);
	assert_false(was_open);
	assert_int_equal(call_thread.depth, 0);
	assert_string_equal(child, "ABba");	/* and not '!' */
}

/* As another thread may, that uses something for the first time. */
static void register_outermost(void)
{
	note('+');
	fork_register(FORK_PRELOAD, &both[0]);
}

/* First of all tests: nothing was registered yet. */
static void who_was_not_prepared_is_not_called_after_it(void **state)
{
	static const struct fork_handlers registering = { .prepare = register_outermost,
							  .child = after_2 };
	char child[sizeof(ran)];

	fork_register(FORK_LOG, &registering);
	fork_once(child);
	assert_string_equal(ran, "+");
	assert_string_equal(child, "+c");
	fork_once(child);
	assert_string_equal(ran, "A+a");
	assert_string_equal(child, "A+ca");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_not_prepared_is_not_called_after_it),
		cmocka_unit_test_setup(ranks_decide_not_who_registers_first, forget),
		cmocka_unit_test_setup(who_registers_again_is_called_once, forget),
		cmocka_unit_test_setup(what_is_not_given_is_not_called, forget),
		cmocka_unit_test_setup(handlers_run_in_a_closed_call, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
