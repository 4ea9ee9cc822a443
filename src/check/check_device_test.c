/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of an adapter: what would not fit there is found and, if it is strict, refused. */
#include "check/check_rule_test.h"

#include <errno.h>

#define ASK(...) DO(.what = CHECK_ASK, __VA_ARGS__)

static void begin_for(const char *device, bool strict)
{
	begin(IBV_QPT_RC, 16);
	program.profile = check_profile_find(device);
	program.strict = strict;
	assert_non_null(program.profile);
}

static void what_does_not_fit_is_found(void **state)
{
	begin_for("bnxt", false);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_RC, .max_inline = 97);
	assert_found(RULE_DEVICE_001, 1);
	assert_int_equal(program.refusal, 0);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_RC, .max_inline = 96, .max_send_sge = 7);
	assert_found(RULE_DEVICE_001, 2);
	begin_for("rxe", true);
	ASK(.kind = CHECK_CQ, .count = 32768);
	assert_found(RULE_DEVICE_001, 1);
	assert_int_equal(program.refusal, EINVAL);
	begin_for("siw", true);
	ASK(.kind = CHECK_SRQ, .max_recv_wr = 10, .max_recv_sge = 7);
	assert_found(RULE_DEVICE_001, 1);
}

static void what_fits_or_is_not_known_is_nothing(void **state)
{
	static const uint64_t limits[CHECK_FACTS] = { [CHECK_FACT_MAX_QP_WR] = 40000 };

	begin_for("connectx-5", true);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_RC, .max_inline = 828, .max_send_wr = 32768);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_UD, .max_inline = 900);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_RC, .max_inline = 1004, .has_operations = true);
	ASK(.kind = CHECK_CQ, .count = 1000);
	DO(.what = CHECK_LOOK, .limits = limits);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_RC, .max_send_wr = 40000);	/* as it was told */
	assert_silent();
	assert_int_equal(program.refusal, 0);
	program.profile = NULL;
	ASK(.kind = CHECK_QP, .type = IBV_QPT_RC, .max_inline = 100000);
	assert_silent();
}

static void rd_atomic_is_counted(void **state)
{
	begin_for("connectx-5", true);
	ASK(.kind = CHECK_QP, .object = QP, .rd_atomic = 16, .dest_rd_atomic = 16);
	assert_silent();
	ASK(.kind = CHECK_QP, .object = QP, .rd_atomic = 17);
	assert_found(RULE_DEVICE_002, 1);
	begin_for("connectx-5", false);
	for (unsigned i = 0; i < 262144; i++) {
		DO(.what = CHECK_MADE, .kind = CHECK_QP, .object = 1000 + i, .number = 1000 + i);
		if (i % 65536)
			continue;
		ASK(.kind = CHECK_QP, .object = 1000 + i, .dest_rd_atomic = 16);
	}
	assert_silent();
}

static void a_read_into_many_sges_is_found(void **state)
{
	static const struct check_sge two[2] = { { 0x1000, 8, LKEY }, { 0x1008, 8, LKEY } };

	begin_for("siw", true);
	SEND(.wr_id = 1, .opcode = IBV_WR_RDMA_READ, BUFFER);
	SEND(.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .sge = two, .sges = 2);
	assert_silent();
	SEND(.wr_id = 3, .opcode = IBV_WR_RDMA_READ, .sge = two, .sges = 2);
	assert_found(RULE_DEVICE_001, 1);
	assert_int_equal(program.refusal, 0);
}

static void messages_and_features(void **state)
{
	begin_for("rxe", false);
	SEND(.wr_id = 1, SGE(0x1000, 8388609, 0), .inlined = true);
	assert_found(RULE_DEVICE_003, 1);
	begin_for("siw", true);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_UD);
	assert_found(RULE_DEVICE_004, 1);
	assert_int_equal(program.refusal, EOPNOTSUPP);
	SEND(.wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, BUFFER);
	assert_found(RULE_DEVICE_004, 2);
	SEND(.wr_id = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, BUFFER);
	assert_found(RULE_DEVICE_004, 3);
	ASK(.kind = CHECK_MW);
	assert_found(RULE_DEVICE_004, 4);
	begin_for("efa", true);
	DO(.what = CHECK_ARM, .object = CQ, .solicited = true);
	assert_found(RULE_DEVICE_004, 1);
	begin_for("connectx-7", true);
	ASK(.kind = CHECK_QP, .type = IBV_QPT_XRC_SEND);
	ASK(.kind = CHECK_SRQ);
	SEND(.wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, BUFFER);
	SEND(.wr_id = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, BUFFER);
	DO(.what = CHECK_ARM, .object = CQ, .solicited = true);
	assert_silent();
}

#define PATH(...)                                                                                  \
	ASK(.kind = CHECK_QP, .object = QP, .has_path = true, .has_sgid = true, .has_dgid = true,  \
	    .port = 1, .ports = 1, __VA_ARGS__)

static void an_index_that_nobody_looked_for_is_found(void **state)
{
	begin_for("connectx-5", true);
	PATH(.is_global = true, .sgid_index = 0);
	assert_found(RULE_DEVICE_005, 1);
	begin_for("connectx-5", true);
	PATH(.is_global = true, .sgid_index = 3);
	PATH(.is_global = true, .sgid_index = 0, .of_manager = true);
	DO(.what = CHECK_LOOK);
	PATH(.is_global = true, .sgid_index = 0);
	assert_silent();
	begin_for("ib", false);
	PATH(.is_global = true);
	assert_found(RULE_DEVICE_005, 1);
	begin_for("ib", false);
	PATH(.dlid = 4);
	assert_silent();
}

static void memory_that_may_not_be_locked_is_found(void **state)
{
	begin_for("rxe", true);
	ASK(.kind = CHECK_MR, .bytes = 4096, .lockable = 8192);
	ASK(.kind = CHECK_MR, .bytes = 1 << 30, .lockable = UINT64_MAX);
	assert_silent();
	ASK(.kind = CHECK_MR, .bytes = 4097, .lockable = 8192);
	assert_found(RULE_DEVICE_006, 1);
	assert_int_equal(program.refusal, ENOMEM);
}

/* What cannot be so: a limit of nothing, and an option twice. */
static void facts_are_possible(void **state)
{
	for (unsigned i = 0; i < CHECK_PROFILES; i++) {
		const struct check_profile *profile = &check_profiles[i];

		assert_ptr_equal(check_profile_find(profile->option), profile);
		assert_int_equal(check_profile_may_refuse(profile), i != CHECK_PROFILE_IB);
		for (unsigned fact = 0; fact <= CHECK_FACT_TYPES; fact++)
			if (check_profile_knows(profile, (enum check_fact)fact))
				assert_true(profile->fact[fact].value);
		for (unsigned fact = CHECK_FACT_GID_0; fact <= CHECK_FACT_GID_3; fact++)
			if (check_profile_knows(profile, (enum check_fact)fact))
				assert_true(profile->fact[fact].value <= CHECK_GID_V2_ADDRESS);
	}
	assert_null(check_profile_find("connectx"));
	assert_false(check_profile_may_refuse(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_does_not_fit_is_found),
		cmocka_unit_test(what_fits_or_is_not_known_is_nothing),
		cmocka_unit_test(rd_atomic_is_counted),
		cmocka_unit_test(a_read_into_many_sges_is_found),
		cmocka_unit_test(messages_and_features),
		cmocka_unit_test(an_index_that_nobody_looked_for_is_found),
		cmocka_unit_test(memory_that_may_not_be_locked_is_found),
		cmocka_unit_test(facts_are_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
