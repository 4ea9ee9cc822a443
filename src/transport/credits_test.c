/* SPDX-License-Identifier: BSD-2-Clause */
/* Credits: how many messages may be sent, also where sequence numbers come round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/credits.h"

static void without_a_word_all_may_be_sent(void **state)
{
	struct credits credits = { 0 };

	assert_true(credits_allow(&credits, 1));
	assert_true(credits_allow(&credits, PSN_MASK));
}

static void an_ack_says_how_far(void **state)
{
	static const uint32_t msn[] = { 0, 7, PSN_MASK - 1, PSN_MASK };
	struct credits credits = { 0 };
	unsigned i;

	for (i = 0; i < sizeof(msn) / sizeof(msn[0]); i++) {
		credits_learn(&credits, msn[i], 2);	/* code 2: two receives */
		assert_true(credits_allow(&credits, psn_add(msn[i], 1)));
		assert_true(credits_allow(&credits, psn_add(msn[i], aeth_credits(2))));
		assert_false(credits_allow(&credits, psn_add(msn[i], aeth_credits(2) + 1)));
	}
}

static void after_not_ready_the_next_message_waits(void **state)
{
	struct credits credits = { 0 };

	credits_none(&credits, 5);
	assert_true(credits_allow(&credits, 5));
	assert_false(credits_allow(&credits, 6));
}

static void the_invalid_code_lifts_the_limit(void **state)
{
	struct credits credits = { 0 };

	credits_none(&credits, 5);
	credits_learn(&credits, 6, AETH_CREDITS_INVALID);
	assert_true(credits_allow(&credits, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_word_all_may_be_sent),
		cmocka_unit_test(an_ack_says_how_far),
		cmocka_unit_test(after_not_ready_the_next_message_waits),
		cmocka_unit_test(the_invalid_code_lifts_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
