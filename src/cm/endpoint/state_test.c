/* SPDX-License-Identifier: BSD-2-Clause */
/* state.def: total, and what holds of it whatever its cells are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cm/endpoint/internal.h"

static void every_cell_is_a_state_or_a_refusal(void **test)
{
	int state, i;

	for (state = 0; state < STATE_COUNT; state++) {
		for (i = 0; i < ENDPOINT_CALL_COUNT; i++) {
			enum endpoint_state next = state_after_call(state, i);

			assert_true(next < STATE_COUNT || next == STATE_REFUSE ||
				    next == STATE_STANDS);
		}
		for (i = 0; i < INPUT_COUNT; i++) {
			enum endpoint_state next = state_after_input(state, i);

			assert_true(next < STATE_COUNT || next == STATE_IGNORE);
		}
	}
}

static void what_is_not_in_the_table_is_refused(void **test)
{
	assert_int_equal(state_after_call(STATE_COUNT, ENDPOINT_CALL_BIND), STATE_REFUSE);
	assert_int_equal(state_after_call(STATE_NEW, ENDPOINT_CALL_COUNT), STATE_REFUSE);
	assert_int_equal(state_after_input(STATE_NEW, INPUT_COUNT), STATE_IGNORE);
	assert_int_equal(state_errno(STATE_REFUSE), EINVAL);
	assert_int_equal(state_errno(STATE_STANDS), EISCONN);
	assert_int_equal(state_errno(STATE_BOUND), 0);
}

/* Each state but the first is entered by some row. */
static void every_state_can_be_reached(void **test)
{
	bool reached[STATE_COUNT] = {[STATE_NEW] = true};
	int state, i;

	for (state = 0; state < STATE_COUNT; state++) {
		for (i = 0; i < ENDPOINT_CALL_COUNT; i++)
			if (state_after_call(state, i) < STATE_COUNT)
				reached[state_after_call(state, i)] = true;
		for (i = 0; i < INPUT_COUNT; i++)
			if (state_after_input(state, i) < STATE_COUNT)
				reached[state_after_input(state, i)] = true;
	}
	for (state = 0; state < STATE_COUNT; state++)
		assert_true(reached[state]);
}

/* The end of a connection is told once: after it nothing but the end of timewait. */
static void an_end_is_told_once(void **test)
{
	static const int ends[] = {STATE_DISCONNECTED, STATE_TIMEWAIT_OVER, STATE_FAILED};
	unsigned n;
	int i;

	for (n = 0; n < sizeof(ends) / sizeof(ends[0]); n++)
		for (i = 0; i < INPUT_COUNT; i++) {
			enum endpoint_state next = state_after_input(ends[n], i);

			assert_true(next == STATE_IGNORE ||
				    (ends[n] == STATE_DISCONNECTED && next == STATE_TIMEWAIT_OVER));
		}
}

/* What has no row leaves the endpoint as it is. */
static void only_rows_move_an_endpoint(void **test) UNCHECKED_LOCKS
{
	int state, i;

	for (state = 0; state < STATE_COUNT; state++) {
		for (i = 0; i <= ENDPOINT_CALL_COUNT; i++) {
			enum endpoint_state next = state_after_call(state, i);
			struct endpoint endpoint = { .state = (uint8_t)state };

			assert_int_equal(endpoint_move(&endpoint, i), next < STATE_COUNT);
			assert_int_equal(endpoint.state, next < STATE_COUNT ? (int)next : state);
		}
		for (i = 0; i <= INPUT_COUNT; i++) {
			enum endpoint_state next = state_after_input(state, i);
			struct endpoint endpoint = { .state = (uint8_t)state };

			assert_int_equal(endpoint_take(&endpoint, i), next < STATE_COUNT);
			assert_int_equal(endpoint.state, next < STATE_COUNT ? (int)next : state);
		}
	}
}

static void every_state_has_a_name(void **test)
{
	int state;

	for (state = 0; state < STATE_COUNT; state++)
		assert_non_null(state_name(state));
	assert_string_equal(state_name(STATE_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_a_state_or_a_refusal),
		cmocka_unit_test(what_is_not_in_the_table_is_refused),
		cmocka_unit_test(every_state_can_be_reached),
		cmocka_unit_test(an_end_is_told_once),
		cmocka_unit_test(only_rows_move_an_endpoint),
		cmocka_unit_test(every_state_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
