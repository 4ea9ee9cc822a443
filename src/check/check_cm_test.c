/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of librdmacm, and of memory that goes under a request. */
#include "check/check_rule_test.h"

#include <errno.h>
#include <rdma/rdma_cma.h>

enum { ID = 40 };
#define CALL_OF(name, ...)                                                                         \
	check_model_take(&program, &(struct check_record){ .what = CHECK_CM_CALL, .object = ID,    \
							   .thread = 1, .call = name, __VA_ARGS__ })
#define CM_EVENT(type) DO(.what = CHECK_CM_EVENT, .object = ID, .state = (type))

static void begin_id(enum check_step step)
{
	begin(IBV_QPT_RC, 16);
	DO(.what = CHECK_MADE, .kind = CHECK_ID, .object = ID, .state = step);
}

static void private_data_has_a_limit(void **state)
{
	begin_id(CHECK_STEP_NEW);
	CALL_OF("rdma_connect", .bytes = 56);
	CALL_OF("rdma_connect", .bytes = 180, .type = IBV_QPT_UD);
	CALL_OF("rdma_accept", .bytes = 196);
	CALL_OF("rdma_reject", .bytes = 148);
	assert_silent();
	CALL_OF("rdma_connect", .bytes = 57, .error = EINVAL);
	CALL_OF("rdma_accept", .bytes = 197, .error = EINVAL);
	CALL_OF("rdma_reject", .bytes = 137, .type = IBV_QPT_UD, .error = EINVAL);
	assert_found(RULE_CM_001, 3);
}

static void the_order_of_a_client_is_right(void **state)
{
	begin_id(CHECK_STEP_NEW);
	CALL_OF("rdma_resolve_addr");
	CM_EVENT(RDMA_CM_EVENT_ADDR_RESOLVED);
	CALL_OF("rdma_resolve_route");
	CM_EVENT(RDMA_CM_EVENT_ROUTE_RESOLVED);
	CALL_OF("rdma_connect", .error = EINVAL);	/* for another reason */
	CALL_OF("rdma_disconnect", .error = EINVAL);
	begin_id(CHECK_STEP_REQUESTED);
	CALL_OF("rdma_accept", .error = EINVAL);
	assert_silent();
}

static void calls_out_of_turn_are_found(void **state)
{
	begin_id(CHECK_STEP_NEW);
	CALL_OF("rdma_resolve_addr");
	CALL_OF("rdma_resolve_route", .error = EINVAL);
	assert_found(RULE_CM_002, 1);
	CM_EVENT(RDMA_CM_EVENT_ADDR_RESOLVED);
	CALL_OF("rdma_connect", .error = EINVAL);
	assert_found(RULE_CM_002, 2);
	begin_id(CHECK_STEP_NEW);
	CALL_OF("rdma_listen");
	CALL_OF("rdma_accept", .error = EINVAL);
	assert_found(RULE_CM_002, 1);
}

static void an_event_of_an_id_is_to_be_acknowledged(void **state)
{
	begin_id(CHECK_STEP_NEW);
	CM_EVENT(RDMA_CM_EVENT_ADDR_RESOLVED);
	DO_AS(2, .what = CHECK_ENDING, .object = ID);	/* the other thread may still do it */
	assert_silent();
	ENDING(ID);
	assert_found(RULE_CM_003, 1);
	begin_id(CHECK_STEP_NEW);
	CM_EVENT(RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(.what = CHECK_CM_ACK, .object = ID);
	ENDING(ID);
	assert_silent();
}

static void what_librdmacm_made_must_be_destroyed(void **state)
{
	begin_id(CHECK_STEP_NEW);
	DO(.what = CHECK_MADE, .kind = CHECK_CM_CHANNEL, .object = 41, .of_manager = true);
	DO(.what = CHECK_ENDED, .object = QP);
	for (unsigned object = CONTEXT; object <= CHANNEL; object++)
		DO(.what = CHECK_ENDED, .object = object);
	DO(.what = CHECK_END, .error = 1);	/* after a failure it may end as it likes */
	assert_silent();
	DO(.what = CHECK_END);
	assert_found(RULE_CM_004, 1);
	assert_int_equal(last.object->kind, CHECK_ID);
}

static uint64_t waits_for;

static const char *waiting(const struct check_object *object)
{
	return object->handle == waits_for ? "RDMA_CM_EVENT_REJECTED" : NULL;
}

static void a_failure_that_nobody_reads_is_found(void **state)
{
	begin_id(CHECK_STEP_NEW);
	DO(.what = CHECK_MADE, .kind = CHECK_CM_CHANNEL, .object = 41);
	waits_for = ID;
	ENDING(ID);			/* nobody knows */
	program.manager = waiting;
	ENDING(41);
	assert_silent();
	ENDING(ID);
	assert_found(RULE_CM_005, 1);
	begin(IBV_QPT_RC, 16);
	program.manager = waiting;
	waits_for = 41;
	DO(.what = CHECK_MADE, .kind = CHECK_CM_CHANNEL, .object = 41);
	DO(.what = CHECK_END, .error = 1);
	assert_silent();
	ENDING(41);
	assert_found(RULE_CM_005, 1);
}

#define GONE(at, length) DO(.what = CHECK_GONE, .address = (at), .bytes = (length))

static void memory_that_goes_under_a_request_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 7, .stack = 5, BUFFER);
	GONE(0x1040, 64);
	GONE(0xf00, 0x100);
	assert_silent();
	GONE(0x103f, 1);
	assert_found(RULE_LIFETIME_004, 1);
	assert_int_equal(last.cause, 5);
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	GONE(0x1000, 4096);
	assert_found(RULE_LIFETIME_004, 1);
}

static void memory_of_requests_that_are_done_may_go(void **state)
{
	begin(IBV_QPT_RC, 16);
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	COMPLETE(.wr_id = 1);
	SEND(.wr_id = 2, BUFFER);	/* nobody can know */
	SEND(.wr_id = 3, .signaled = true, .inlined = true, BUFFER);
	GONE(0x1000, 4096);
	assert_silent();
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 7, BUFFER);
	DO(.what = CHECK_ENDED, .object = QP);
	GONE(0x1000, 4096);
	assert_silent();
}

static void what_was_posted_since_is_not_meant(void **state)
{
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 7, .sequence = 4, BUFFER);
	DO(.what = CHECK_GONE, .address = 0x1000, .bytes = 64, .sequence = 3);
	assert_silent();
	DO(.what = CHECK_GONE, .address = 0x1000, .bytes = 64, .sequence = 4);
	assert_found(RULE_LIFETIME_004, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(private_data_has_a_limit),
		cmocka_unit_test(the_order_of_a_client_is_right),
		cmocka_unit_test(calls_out_of_turn_are_found),
		cmocka_unit_test(an_event_of_an_id_is_to_be_acknowledged),
		cmocka_unit_test(what_librdmacm_made_must_be_destroyed),
		cmocka_unit_test(a_failure_that_nobody_reads_is_found),
		cmocka_unit_test(memory_that_goes_under_a_request_is_found),
		cmocka_unit_test(memory_of_requests_that_are_done_may_go),
		cmocka_unit_test(what_was_posted_since_is_not_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
