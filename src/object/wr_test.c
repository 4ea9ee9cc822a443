/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the table of work requests (wr.def): it is total, and no row contradicts itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "object/wr.h"

static void every_opcode_that_may_be_posted_has_a_row(void **state)
{
	static const enum ibv_wr_opcode posted[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV,
		(enum ibv_wr_opcode)WR_FLUSH, (enum ibv_wr_opcode)WR_ATOMIC_WRITE,
	};
	unsigned rows = 0;

	for (size_t i = 0; i < sizeof(posted) / sizeof(posted[0]); i++)
		assert_ptr_equal(wr_row_of_post(posted[i]), wr_row(posted[i]));
	for (unsigned opcode = 0; opcode <= WR_FAULTY; opcode++)
		rows += wr_row_of_post((enum ibv_wr_opcode)opcode) != NULL;
	assert_int_equal(rows, sizeof(posted) / sizeof(posted[0]));
}

static void nothing_else_is_taken(void **state)
{
	static const unsigned others[] = { IBV_WR_TSO, IBV_WR_DRIVER1, WR_FAULTY, WR_FAULTY + 1,
					   99, 1u << 31, (unsigned)-1 };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_null(wr_row_of_post((enum ibv_wr_opcode)others[i]));
}

/* Where a row has one of the first properties, it has all of the second, and none of the third. */
static void no_row_contradicts_itself(void **state)
{
	static const struct { unsigned if_any, all, none; } rules[] = {
		{ WR_IS_LOCAL, 0, WR_TAKES_RECEIVE | WR_TAKES_RESOURCE | WR_HAS_DATA },
		{ WR_IS_SEND, WR_TAKES_RECEIVE, WR_HAS_TARGET | WR_TAKES_RESOURCE },
		{ WR_WRITES, WR_HAS_TARGET, WR_SCATTERS | WR_TAKES_RESOURCE },
		{ WR_SCATTERS, WR_TAKES_RESOURCE | WR_MAY_BE_DIRECT,
		  WR_MAY_BE_INLINE | WR_TAKES_RECEIVE },
		{ WR_HAS_IMM, WR_TAKES_RECEIVE, WR_HAS_INV },
		{ WR_MAY_BE_DIRECT, 0, WR_TAKES_RECEIVE | WR_HAS_WORD | WR_HAS_RANGE },
		{ WR_MAY_BE_INLINE, 0, WR_SCATTERS | WR_IS_LOCAL },
	};

	for (unsigned opcode = 0; opcode < WR_FAULTY; opcode++) {
		const struct wr_row *row = &wr_rows[opcode];

		for (size_t i = 0; row->services && i < sizeof(rules) / sizeof(rules[0]); i++)
			if (row->is & rules[i].if_any &&
			    (~row->is & rules[i].all || row->is & rules[i].none))
				fail_msg("%s, rule %zu", row->name, i);
	}
}

/* IBTA 9.4: whoever reaches the peer's memory by a key needs a right; verbs are those of packets. */
static void rights_and_verbs_are_those_of_packets(void **state)
{
	for (unsigned opcode = 0; opcode < WR_FAULTY; opcode++) {
		const struct wr_row *row = &wr_rows[opcode];
		bool by_key = row->is & (WR_HAS_TARGET | WR_IS_ATOMIC | WR_HAS_RANGE);

		if (!row->services)
			continue;
		assert_int_equal(!!row->right, by_key);
		assert_int_equal(row->verb == VERB_SEND, !by_key);
		assert_int_equal(row->verb == VERB_WRITE, !!(row->is & WR_WRITES));
		assert_int_equal(row->verb == VERB_ATOMIC, !!(row->is & WR_IS_ATOMIC));
		assert_true(row->services & WR_ON_RC);
	}
}

static void a_faulty_request_fails_as_a_local_one(void **state)
{
	assert_int_equal(wr_row(WR_FAULTY)->is, WR_IS_LOCAL);
	assert_null(wr_row(WR_FAULTY)->name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_that_may_be_posted_has_a_row),
		cmocka_unit_test(nothing_else_is_taken),
		cmocka_unit_test(no_row_contradicts_itself),
		cmocka_unit_test(rights_and_verbs_are_those_of_packets),
		cmocka_unit_test(a_faulty_request_fails_as_a_local_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
