/* SPDX-License-Identifier: BSD-2-Clause */
/* Each rule but those of notification: it finds its mistake, and says nothing of the right way
 * beside it. */
#include "check/check_rule_test.h"

#include <errno.h>

static void end_all(void)
{
	DO(.what = CHECK_ENDED, .object = QP);
	DO(.what = CHECK_ENDED, .object = MR);
	DO(.what = CHECK_ENDED, .object = CQ);
	DO(.what = CHECK_ENDED, .object = CHANNEL);
	DO(.what = CHECK_ENDED, .object = PD);
	ENDING(CONTEXT);
	DO(.what = CHECK_ENDED, .object = CONTEXT);
	DO(.what = CHECK_END);
}

static void a_region_in_use_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .signaled = true, .stack = 5, BUFFER);
	ENDING(MR);
	assert_found(RULE_LIFETIME_001, 1);
	assert_int_equal(last.cause, 5);
	assert_int_equal(last.wr_id, 1);
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, BUFFER);
	ENDING(MR);
	assert_found(RULE_LIFETIME_001, 1);
}

static void a_region_is_free_when_its_requests_have_completed(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, BUFFER);
	SEND(.wr_id = 2, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 2);
	SEND(.wr_id = 3, .signaled = true, .inlined = true, SGE(0x1000, 8, LKEY));
	ENDING(MR);
	assert_silent();
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, BUFFER);
	DO(.what = CHECK_STATE, .object = QP, .state = IBV_QPS_ERR);
	ENDING(MR);
	assert_silent();
}

static void an_address_in_use_is_found(void **state)
{
	begin(IBV_QPT_UD, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_AH, .object = AH, .pd = PD);
	SEND(.wr_id = 1, .ah = AH, .signaled = true, BUFFER);
	ENDING(AH);
	assert_found(RULE_LIFETIME_002, 1);
	begin(IBV_QPT_UD, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_AH, .object = AH, .pd = PD);
	SEND(.wr_id = 1, .ah = AH, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 1);
	ENDING(AH);
	assert_silent();
}

static void a_qp_with_sends_under_way_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	ENDING(QP);
	assert_found(RULE_LIFETIME_003, 1);
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 7, BUFFER);
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 1);
	ENDING(QP);	/* receives that nobody sent to are nothing lost */
	assert_silent();
}

static void a_queue_full_of_unsignaled_requests_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	for (unsigned i = 0; i < 5; i++)
		SEND(.wr_id = i, .stack = 10 + i, BUFFER);
	DO(.what = CHECK_POST_FAILED, .object = QP, .count = 1, .error = ENOMEM);
	assert_found(RULE_QUEUE_001, 1);
	assert_int_equal(last.cause, 10);
}

static void a_queue_full_of_what_can_complete_is_right(void **state)
{
	begin(IBV_QPT_RC, 16);
	for (unsigned i = 0; i < 5; i++)
		SEND(.wr_id = i, .signaled = i == 3, BUFFER);
	DO(.what = CHECK_POST_FAILED, .object = QP, .count = 1, .error = ENOMEM);
	assert_silent();
	COMPLETE(.wr_id = 3);
	DO(.what = CHECK_POST_FAILED, .object = QP, .count = 0, .error = ENOMEM);
	assert_silent();
}

static void a_cq_that_is_too_small_is_found_once(void **state)
{
	begin(IBV_QPT_RC, 2);
	RECEIVE(.wr_id = 1, BUFFER);
	SEND(.wr_id = 2, .signaled = true, BUFFER);
	SEND(.wr_id = 3, BUFFER);
	assert_silent();
	SEND(.wr_id = 4, .signaled = true, BUFFER);
	SEND(.wr_id = 5, .signaled = true, BUFFER);
	assert_found(RULE_QUEUE_002, 1);
}

static void a_cq_is_large_enough_for_what_was_polled(void **state)
{
	begin(IBV_QPT_RC, 2);
	for (unsigned i = 0; i < 9; i++) {
		SEND(.wr_id = i, .signaled = true, BUFFER);
		COMPLETE(.wr_id = i);
	}
	SEND(.wr_id = 10, .signaled = true, BUFFER);
	SEND(.wr_id = 11, .signaled = true, BUFFER);
	DO(.what = CHECK_STATE, .object = QP, .state = IBV_QPS_RESET);
	SEND(.wr_id = 12, .signaled = true, BUFFER);
	assert_silent();
}

static bool fake_error(const struct check_object *qp, uint32_t *status, uint64_t *wr_id)
{
	*status = IBV_WC_RETRY_EXC_ERR;
	*wr_id = 3;
	return qp->sends.count > 0;
}

static void an_error_that_nobody_polled_is_found(void **state)
{
	static const struct check_device device = { .has_error = fake_error };

	begin(IBV_QPT_RC, 16);
	program.device = &device;
	SEND(.wr_id = 3, .signaled = true, BUFFER);
	DO(.what = CHECK_STATE, .object = QP, .state = IBV_QPS_ERR);
	ENDING(QP);
	assert_found(RULE_WC_001, 1);
	begin(IBV_QPT_RC, 16);
	program.device = &device;
	SEND(.wr_id = 3, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 3, .status = IBV_WC_RETRY_EXC_ERR);
	ENDING(QP);
	assert_silent();
}

static void memory_that_no_region_has_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, SGE(0x1000, 64, 0x999));
	assert_found(RULE_ACCESS_001, 1);
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, SGE(0x1fff, 2, LKEY));
	assert_found(RULE_ACCESS_001, 1);
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, SGE(0xfff, 2, LKEY));
	assert_found(RULE_ACCESS_001, 1);
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_MR, .object = OTHER_MR, .pd = OTHER_PD,
	   .number = 0x200, .address = 0x8000, .bytes = 64);
	SEND(.wr_id = 1, SGE(0x8000, 64, 0x200));
	assert_found(RULE_ACCESS_001, 1);
}

static void memory_of_a_region_is_right_to_its_last_byte(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, SGE(0x1000, 4096, LKEY));
	SEND(.wr_id = 2, SGE(0x1fff, 1, LKEY));
	SEND(.wr_id = 3, SGE(0, 0, 0x999));			/* nothing is read */
	SEND(.wr_id = 4, .inlined = true, SGE(0x7, 8, 0));	/* the lkey is not looked at */
	assert_silent();
}

static void receives_need_the_right_to_write(void **state)
{
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, BUFFER);
	assert_silent();
	DO(.what = CHECK_MADE, .kind = CHECK_MR, .object = OTHER_MR, .pd = PD, .number = 0x200,
	   .address = 0x8000, .bytes = 64);
	SEND(.wr_id = 1, SGE(0x8000, 64, 0x200));
	assert_silent();
	RECEIVE(.wr_id = 1, SGE(0x8000, 64, 0x200));
	assert_found(RULE_ACCESS_002, 1);
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_MR, .object = OTHER_MR, .pd = PD, .number = 0x200,
	   .address = 0x8000, .bytes = 64);
	SEND(.wr_id = 1, .reads = true, SGE(0x8000, 64, 0x200));
	assert_found(RULE_ACCESS_001, 1);
}

static void what_the_peer_refused_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 1, .status = IBV_WC_REM_ACCESS_ERR);
	assert_found(RULE_ACCESS_003, 1);
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 1, .status = IBV_WC_WR_FLUSH_ERR);
	assert_silent();
}

static void requests_beyond_the_cap_are_found(void **state)
{
	static const struct check_sge three[3] = { { 0x1000, 8, LKEY },
						   { 0x1000, 8, LKEY },
						   { 0x1000, 8, LKEY } };

	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_POST_FAILED, .object = QP, .count = 0, .error = EINVAL, .sge = three,
	   .sges = 3);
	assert_found(RULE_LIMITS_001, 1);
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_POST_FAILED, .object = QP, .count = 0, .error = EINVAL, .inlined = true,
	   SGE(0, 65, 0));
	assert_found(RULE_LIMITS_001, 1);
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_POST_FAILED, .object = QP, .count = 0, .error = EINVAL, .inlined = true,
	   SGE(0, 64, 0));
	assert_silent();
}

static void a_receive_that_is_too_short_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, BUFFER);
	COMPLETE(.wr_id = 1, .status = IBV_WC_LOC_LEN_ERR);
	assert_found(RULE_LIMITS_002, 1);
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, BUFFER);
	COMPLETE(.wr_id = 1, .receive = true);
	assert_silent();
}

static void a_datagram_needs_40_bytes_more(void **state)
{
	begin(IBV_QPT_UD, 16);
	RECEIVE(.wr_id = 1, SGE(0x1000, 39, LKEY));
	assert_found(RULE_DATAGRAM_001, 1);
	begin(IBV_QPT_UD, 16);
	RECEIVE(.wr_id = 1, SGE(0x1000, 40, LKEY));
	assert_silent();
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, SGE(0x1000, 1, LKEY));
	assert_silent();
}

static void what_was_never_destroyed_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	end_all();
	assert_silent();
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_AH, .object = AH, .pd = PD, .stack = 5);
	DO(.what = CHECK_MADE, .kind = CHECK_AH, .object = SRQ, .pd = PD, .stack = 5);
	DO(.what = CHECK_ENDED, .object = QP);
	DO(.what = CHECK_ENDED, .object = MR);
	DO(.what = CHECK_ENDED, .object = CQ);
	DO(.what = CHECK_ENDED, .object = CHANNEL);
	DO(.what = CHECK_ENDED, .object = PD);
	DO(.what = CHECK_ENDED, .object = CONTEXT);
	DO(.what = CHECK_END);
	assert_found(RULE_OBJECTS_001, 1);	/* both of one place */
	assert_int_equal(last.cause, 5);
}

static void a_program_that_failed_may_leave_everything(void **state)
{
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_END, .error = 1);
	assert_silent();
}

static void a_wrong_order_of_destruction_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	ENDING(CQ);
	DO(.what = CHECK_ENDED, .object = CQ, .error = EBUSY);
	assert_found(RULE_OBJECTS_002, 1);
	assert_int_equal(last.cause, 77);	/* where the QP was made */
	begin(IBV_QPT_RC, 16);
	ENDING(CQ);
	DO(.what = CHECK_ENDED, .object = CQ, .error = EBUSY, .of_manager = true);
	assert_silent();
	begin(IBV_QPT_RC, 16);
	ENDING(CONTEXT);
	assert_found(RULE_OBJECTS_003, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_in_use_is_found),
		cmocka_unit_test(a_region_is_free_when_its_requests_have_completed),
		cmocka_unit_test(an_address_in_use_is_found),
		cmocka_unit_test(a_qp_with_sends_under_way_is_found),
		cmocka_unit_test(a_queue_full_of_unsignaled_requests_is_found),
		cmocka_unit_test(a_queue_full_of_what_can_complete_is_right),
		cmocka_unit_test(a_cq_that_is_too_small_is_found_once),
		cmocka_unit_test(a_cq_is_large_enough_for_what_was_polled),
		cmocka_unit_test(an_error_that_nobody_polled_is_found),
		cmocka_unit_test(memory_that_no_region_has_is_found),
		cmocka_unit_test(memory_of_a_region_is_right_to_its_last_byte),
		cmocka_unit_test(receives_need_the_right_to_write),
		cmocka_unit_test(what_the_peer_refused_is_found),
		cmocka_unit_test(requests_beyond_the_cap_are_found),
		cmocka_unit_test(a_receive_that_is_too_short_is_found),
		cmocka_unit_test(a_datagram_needs_40_bytes_more),
		cmocka_unit_test(what_was_never_destroyed_is_found),
		cmocka_unit_test(a_program_that_failed_may_leave_everything),
		cmocka_unit_test(a_wrong_order_of_destruction_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
