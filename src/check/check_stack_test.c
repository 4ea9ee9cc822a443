/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of calls: how one is taken and named, and a process that has no memory for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/stack.h"

/* As before check_stack_init(), so if that had no memory: a program that is checked must not end by it. */
static void without_memory_there_are_none(void **state)
{
	struct check_frame frames[CHECK_STACK_FRAMES];

	assert_int_equal(check_stack_take(), 0);
	assert_int_equal(check_stack_take_at(frames, frames), 0);
	assert_false(check_stack_is_of_manager(0));
	assert_int_equal(check_stack_place(0), 0);
	assert_int_equal(check_stack_name(0, frames, CHECK_STACK_FRAMES), 0);
}

static void one_is_taken_once_and_has_a_place(void **state)
{
	uint32_t stack[2];

	check_stack_init();
	for (unsigned i = 0; i < 2; i++)
		stack[i] = check_stack_take_at(stack, stack);
	assert_int_not_equal(stack[0], 0);
	assert_int_equal(stack[0], stack[1]);
	assert_int_not_equal(check_stack_place(stack[0]), 0);
	assert_false(check_stack_is_of_manager(stack[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_memory_there_are_none),
		cmocka_unit_test(one_is_taken_once_and_has_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
