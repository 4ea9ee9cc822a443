/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of paths, threads, asynchronous events and fields of completions. */
#include "check/check_rule_test.h"

#include <errno.h>

#define PATH(...)                                                                                  \
	DO(.what = CHECK_ASK, .kind = CHECK_AH, .has_path = true, .needs_grh = true, .ports = 1,   \
	   __VA_ARGS__)
#define WHOLE .is_global = true, .has_sgid = true, .has_dgid = true, .port = 1

static void a_path_that_has_all_is_right(void **state)
{
	begin(IBV_QPT_UD, 16);
	PATH(WHOLE);
	DO(.what = CHECK_ASK, .kind = CHECK_QP, .object = QP, .has_port = true, .port = 2,
	   .ports = 2);
	DO(.what = CHECK_ASK, .kind = CHECK_AH, .has_path = true, .dlid = 4, .port = 1, .ports = 1);
	assert_silent();
}

static void what_a_path_lacks_is_found(void **state)
{
	begin(IBV_QPT_UD, 16);
	PATH(.port = 1, .dlid = 4);
	assert_found(RULE_ADDRESS_001, 1);
	begin(IBV_QPT_UD, 16);
	PATH(.is_global = true, .has_dgid = true, .port = 1, .sgid_index = 9);
	assert_found(RULE_ADDRESS_002, 1);
	begin(IBV_QPT_UD, 16);
	PATH(.is_global = true, .has_sgid = true, .has_dgid = true);
	DO(.what = CHECK_ASK, .kind = CHECK_QP, .object = QP, .has_port = true, .port = 2,
	   .ports = 1);
	assert_found(RULE_ADDRESS_002, 2);
	begin(IBV_QPT_UD, 16);
	PATH(.is_global = true, .has_sgid = true, .port = 1);
	assert_found(RULE_ADDRESS_003, 1);
}

static void a_misaligned_atomic_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .remote = 0x1008, BUFFER);
	SEND(.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .remote = 0x1001, BUFFER);
	assert_silent();
	SEND(.wr_id = 3, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .remote = 0x1004, BUFFER);
	assert_found(RULE_ACCESS_004, 1);
}

static void the_field_of_a_failed_completion_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_READ, .object = CQ, .status = IBV_WC_SUCCESS);
	assert_silent();
	DO(.what = CHECK_READ, .object = CQ, .status = IBV_WC_WR_FLUSH_ERR);
	assert_found(RULE_WC_002, 1);
}

static void an_object_destroyed_under_a_call_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_ENDING, .object = CHANNEL, .inside = 2);
	assert_found(RULE_THREADS_001, 1);
	begin(IBV_QPT_RC, 16);
	ENDING(CHANNEL);
	assert_silent();
}

static void two_threads_at_once_are_found_where_one_may_be(void **state)
{
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_CQ, .object = OTHER_CQ, .one_thread = true);
	DO(.what = CHECK_POLLED, .object = CQ, .inside = 2);
	DO(.what = CHECK_POLLED, .object = OTHER_CQ);
	DO_AS(2, .what = CHECK_POLLED, .object = OTHER_CQ);	/* one after the other */
	assert_silent();
	DO(.what = CHECK_POLLED, .object = OTHER_CQ, .inside = 2);
	DO(.what = CHECK_ARM, .object = OTHER_CQ, .inside = 2);	/* told once */
	assert_found(RULE_THREADS_002, 1);
}

static const char *fake_event(const struct check_object *object)
{
	return object->kind == CHECK_QP ? "a failure" : NULL;
}

static bool no_error(const struct check_object *qp, uint32_t *status, uint64_t *wr_id)
{
	return false;
}

static void an_event_that_nobody_asks_for_is_found(void **state)
{
	static const struct check_device device = { .unread_event = fake_event,
						    .has_error = no_error };

	begin(IBV_QPT_RC, 16);
	program.device = &device;
	ENDING(QP);
	assert_found(RULE_EVENTS_003, 1);
	begin(IBV_QPT_RC, 16);
	program.device = &device;
	DO(.what = CHECK_ASYNC, .context = CONTEXT);
	ENDING(QP);
	assert_silent();
}

static void an_asynchronous_event_is_to_be_acknowledged(void **state)
{
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_ASYNC, .context = CONTEXT, .object = QP);
	ENDING(QP);
	assert_found(RULE_EVENTS_004, 1);
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_ASYNC, .context = CONTEXT, .object = QP);
	DO_AS(2, .what = CHECK_ENDING, .object = QP);	/* the other thread may still do it */
	DO(.what = CHECK_ASYNC_ACK, .object = QP);
	ENDING(QP);
	assert_silent();
}

static void other_objects_have_an_order_too(void **state)
{
	enum { TD = 30, DOMAIN };

	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_TD, .object = TD, .context = CONTEXT);
	DO(.what = CHECK_MADE, .kind = CHECK_DOMAIN, .object = DOMAIN, .pd = PD, .other = TD);
	ENDING(TD);
	DO(.what = CHECK_ENDED, .object = TD, .error = EBUSY);
	assert_found(RULE_OBJECTS_002, 1);
	assert_string_equal(last.text,
			    "thread domain 1 was not deallocated: parent domain 1 still uses it");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_that_has_all_is_right),
		cmocka_unit_test(what_a_path_lacks_is_found),
		cmocka_unit_test(a_misaligned_atomic_is_found),
		cmocka_unit_test(the_field_of_a_failed_completion_is_found),
		cmocka_unit_test(an_object_destroyed_under_a_call_is_found),
		cmocka_unit_test(two_threads_at_once_are_found_where_one_may_be),
		cmocka_unit_test(an_event_that_nobody_asks_for_is_found),
		cmocka_unit_test(an_asynchronous_event_is_to_be_acknowledged),
		cmocka_unit_test(other_objects_have_an_order_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
