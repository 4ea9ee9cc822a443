/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state machine of QPs: every pair of states, for every type, for every bit of the mask,
 * against a second table that was written the other way round (by attribute, not by
 * transition, after IBTA 11.2.5.2); then values, explanations, and what apply does.
 */
#include <errno.h>

#include "object/test_support.h"

#include "object/qp_internal.h"

#define BITS 26

enum { RC, UC, UD, TYPES };
static const enum ibv_qp_type types[TYPES] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

/* Row: from RESET, INIT, RTR, RTS, SQD, SQE, ERR; column: to the same. */
static const char *const reachable[TYPES][QP_STATES] = {
	[RC] = { "xx.....", "xxx...x", "x..x..x", "x..xx.x", "x..xx.x", ".......", "x.....x" },
	[UC] = { "xx.....", "xxx...x", "x..x..x", "x..xx.x", "x..xx.x", "x..x..x", "x.....x" },
	[UD] = { "xx.....", "xxx...x", "x..x..x", "x..xx.x", "x..xx.x", "x..x..x", "x.....x" },
};

/* Transitions by a digit per state (0 RESET .. 5 SQE): "12!" from INIT to RTR, required. */
static const struct {
	int bit;
	const char *where[TYPES];
} attributes[] = {
	{ IBV_QP_CUR_STATE, { "23 33 43", "23 33 43 53", "23 33 43 53" } },
	{ IBV_QP_EN_SQD_ASYNC_NOTIFY, { "34", "34", "34" } },
	{ IBV_QP_ACCESS_FLAGS, { "01! 11 12 23 33 44 43", "01! 11 12 23 33 44 43 53", "" } },
	{ IBV_QP_PKEY_INDEX, { "01! 11 12 44", "01! 11 12 44", "01! 11 12 44" } },
	{ IBV_QP_PORT, { "01! 11 44", "01! 11", "01! 11" } },
	{ IBV_QP_QKEY, { "", "", "01! 11 12 23 33 44 43 53" } },
	{ IBV_QP_AV, { "12! 44", "12! 44", "" } },
	{ IBV_QP_PATH_MTU, { "12!", "12!", "" } },
	{ IBV_QP_TIMEOUT, { "23! 44", "", "" } },
	{ IBV_QP_RETRY_CNT, { "23! 44", "", "" } },
	{ IBV_QP_RNR_RETRY, { "23! 44", "", "" } },
	{ IBV_QP_RQ_PSN, { "12!", "12!", "" } },
	{ IBV_QP_MAX_QP_RD_ATOMIC, { "23! 44", "", "" } },
	{ IBV_QP_ALT_PATH, { "12 23 33 44 43", "12 23 33 44 43", "" } },
	{ IBV_QP_MIN_RNR_TIMER, { "12! 23 33 44 43", "", "" } },
	{ IBV_QP_SQ_PSN, { "23!", "23!", "23!" } },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, { "12! 44", "", "" } },
	{ IBV_QP_PATH_MIG_STATE, { "23 33 44 43", "23 33 44 43", "" } },
	{ IBV_QP_DEST_QPN, { "12!", "12!", "" } },
};
#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

enum rule { FORBIDDEN, OPTIONAL, REQUIRED };

static enum rule rule_of(int bit, unsigned type, unsigned from, unsigned to)
{
	char key[3] = { (char)('0' + from), (char)('0' + to), '\0' };
	const char *found;

	for (size_t i = 0; i < ATTRIBUTES; i++) {
		if (attributes[i].bit != bit)
			continue;
		found = strstr(attributes[i].where[type], key);
		return !found ? FORBIDDEN : found[2] == '!' ? REQUIRED : OPTIONAL;
	}
	return FORBIDDEN;
}

static int required_mask(unsigned type, unsigned from, unsigned to)
{
	int mask = 0;

	for (size_t i = 0; i < ATTRIBUTES; i++)
		if (rule_of(attributes[i].bit, type, from, to) == REQUIRED)
			mask |= attributes[i].bit;
	return mask;
}

static struct qp_access access_entry;
static struct cq test_cq;

static void qp_begin(struct qp *qp, enum ibv_qp_type type, enum ibv_qp_state state) UNCHECKED_LOCKS
{
	memset(qp, 0, sizeof(*qp));
	memset(&access_entry, 0, sizeof(access_entry));
	qp->type = type;
	qp->number = 0x12345;
	qp->ports = qp->pkeys = 1;
	qp->access = &access_entry;
	qp->send_cq = qp->recv_cq = &test_cq;
	qp_set_state(qp, state);
}

/* No other thread has these QPs: no lock is needed. */
static int try_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask) UNCHECKED_LOCKS
{
	return qp_modify_check(qp, attr, mask);
}

static void apply(struct qp *qp, const struct ibv_qp_attr *attr, int mask) UNCHECKED_LOCKS
{
	qp_modify_apply(qp, attr, mask);
}

static struct ibv_qp_attr query(struct qp *qp, struct ibv_qp_init_attr *init) UNCHECKED_LOCKS
{
	struct ibv_qp_attr attr;

	qp_query(qp, &attr, 0, init);
	return attr;
}

/* Values that are right wherever the attribute is allowed. */
static struct ibv_qp_attr good_values(enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {
		.qp_state = to, .cur_qp_state = from, .path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED, .qkey = 0x11111111, .rq_psn = 1, .sq_psn = 2,
		.dest_qp_num = 3, .qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.ah_attr = { .port_num = 1, .is_global = 1 }, .alt_port_num = 1,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .port_num = 1,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};

	return attr;
}

static int check(unsigned type, unsigned from, unsigned to, int mask)
{
	struct ibv_qp_attr attr = good_values((enum ibv_qp_state)from, (enum ibv_qp_state)to);
	struct qp qp;

	qp_begin(&qp, types[type], (enum ibv_qp_state)from);
	return try_modify(&qp, &attr, mask);
}

/* Each attribute bit added to, and removed from, the least mask of one transition. */
static void check_bits(unsigned type, unsigned from, unsigned to)
{
	bool allowed = reachable[type][from][to] == 'x';
	int least = required_mask(type, from, to) | IBV_QP_STATE;

	assert_int_equal(check(type, from, to, least), allowed ? 0 : EINVAL);
	for (unsigned i = 1; i < BITS; i++) {
		enum rule rule = allowed ? rule_of(1 << i, type, from, to) : FORBIDDEN;

		if (check(type, from, to, least | 1 << i) != (rule == FORBIDDEN ? EINVAL : 0))
			fail_msg("type %u, %u to %u, bit %u added: rule %d", type, from, to, i,
				 (int)rule);
		if (rule == REQUIRED && check(type, from, to, least & ~(1 << i)) != EINVAL)
			fail_msg("type %u, %u to %u, bit %u removed: accepted", type, from, to, i);
	}
}

static void every_transition_of_every_type_takes_exactly_its_attributes(void **state)
{
	for (unsigned type = 0; type < TYPES; type++)
		for (unsigned from = 0; from < QP_STATES; from++)
			for (unsigned to = 0; to < QP_STATES; to++)
				check_bits(type, from, to);
}

static void without_a_state_the_rules_are_those_of_staying(void **state)
{
	for (unsigned type = 0; type < TYPES; type++) {
		for (unsigned from = 0; from < QP_STATES; from++) {
			bool allowed = reachable[type][from][from] == 'x';

			assert_int_equal(check(type, from, IBV_QPS_ERR, 0), allowed ? 0 : EINVAL);
		}
	}
	/* attr.qp_state is not looked at then. */
	assert_int_equal(check(RC, IBV_QPS_RTS, 99, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(check(RC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS), EINVAL);
}

static void a_state_out_of_range_is_refused(void **state)
{
	assert_int_equal(check(RC, IBV_QPS_RTS, QP_STATES, IBV_QP_STATE), EINVAL);
	assert_int_equal(check(RC, IBV_QPS_RTS, (unsigned)-1, IBV_QP_STATE), EINVAL);
}

static void a_wrong_current_state_is_refused(void **state) UNCHECKED_LOCKS
{
	struct ibv_qp_attr attr = good_values(IBV_QPS_SQE, IBV_QPS_RTS);
	struct qp qp;

	qp_begin(&qp, IBV_QPT_UD, IBV_QPS_RTS);
	assert_int_equal(try_modify(&qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	qp_set_state(&qp, IBV_QPS_SQE);
	assert_int_equal(try_modify(&qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

static void nothing_but_reset_and_error_ends_a_draining_queue(void **state)
{
	struct qp qp;

	for (unsigned to = 0; to < QP_STATES; to++) {
		struct ibv_qp_attr attr = good_values(IBV_QPS_SQD, (enum ibv_qp_state)to);
		bool allowed = to == IBV_QPS_RESET || to == IBV_QPS_ERR;

		qp_begin(&qp, IBV_QPT_RC, IBV_QPS_SQD);
		qp.attr.sq_draining = 1;
		assert_int_equal(try_modify(&qp, &attr, IBV_QP_STATE), allowed ? 0 : EINVAL);
		qp.attr.sq_draining = 0;
		allowed = reachable[RC][IBV_QPS_SQD][to] == 'x';
		assert_int_equal(try_modify(&qp, &attr, IBV_QP_STATE), allowed ? 0 : EINVAL);
	}
}

/* ---- values ---- */

enum field {
	PORT, PKEY, AV_PORT, SL, MTU, DEST, TIMEOUT, RETRY, RNR, TIMER, RD, DEST_RD, ALT_PORT,
	ALT_PKEY, ALT_TIMEOUT, MIGRATION, ACCESS, FIELDS
};

static void set_field(struct ibv_qp_attr *attr, enum field field, uint32_t value)
{
	switch (field) {
	case PORT: attr->port_num = (uint8_t)value; break;
	case PKEY: attr->pkey_index = (uint16_t)value; break;
	case AV_PORT: attr->ah_attr.port_num = (uint8_t)value; break;
	case SL: attr->ah_attr.sl = (uint8_t)value; break;
	case MTU: attr->path_mtu = value; break;
	case DEST: attr->dest_qp_num = value; break;
	case TIMEOUT: attr->timeout = (uint8_t)value; break;
	case RETRY: attr->retry_cnt = (uint8_t)value; break;
	case RNR: attr->rnr_retry = (uint8_t)value; break;
	case TIMER: attr->min_rnr_timer = (uint8_t)value; break;
	case RD: attr->max_rd_atomic = (uint8_t)value; break;
	case DEST_RD: attr->max_dest_rd_atomic = (uint8_t)value; break;
	case ALT_PORT: attr->alt_port_num = (uint8_t)value; break;
	case ALT_PKEY: attr->alt_pkey_index = (uint16_t)value; break;
	case ALT_TIMEOUT: attr->alt_timeout = (uint8_t)value; break;
	case MIGRATION: attr->path_mig_state = value; break;
	case ACCESS: attr->qp_access_flags = value; break;
	case FIELDS: break;
	}
}

static void values_are_accepted_up_to_their_limits_and_refused_beyond(void **state)
{
	static const struct {
		enum field field;
		int bit;
		unsigned from, to;
		uint32_t good[2], bad[2];
	} cases[] = {
		{ PORT, IBV_QP_PORT, 0, 1, { 1, 1 }, { 0, 2 } },
		{ PKEY, IBV_QP_PKEY_INDEX, 0, 1, { 0, 0 }, { 1, 0xffff } },
		{ ACCESS, IBV_QP_ACCESS_FLAGS, 0, 1, { 0, 0x3ff003ff }, { 1 << 10, 1u << 31 } },
		{ AV_PORT, IBV_QP_AV, 1, 2, { 1, 1 }, { 0, 2 } },
		{ SL, IBV_QP_AV, 1, 2, { 0, 15 }, { 16, 255 } },
		{ MTU, IBV_QP_PATH_MTU, 1, 2, { IBV_MTU_256, IBV_MTU_4096 }, { 0, 6 } },
		{ DEST, IBV_QP_DEST_QPN, 1, 2, { 0, 0xffffff }, { 0x1000000, 0xffffffff } },
		{ DEST_RD, IBV_QP_MAX_DEST_RD_ATOMIC, 1, 2, { 0, RD_ATOMIC_MAX },
		  { RD_ATOMIC_MAX + 1, 255 } },
		{ TIMER, IBV_QP_MIN_RNR_TIMER, 1, 2, { 0, 31 }, { 32, 255 } },
		{ ALT_PORT, IBV_QP_ALT_PATH, 1, 2, { 1, 1 }, { 0, 2 } },
		{ ALT_PKEY, IBV_QP_ALT_PATH, 1, 2, { 0, 0 }, { 1, 0xffff } },
		{ ALT_TIMEOUT, IBV_QP_ALT_PATH, 1, 2, { 0, 31 }, { 32, 255 } },
		{ TIMEOUT, IBV_QP_TIMEOUT, 2, 3, { 0, 31 }, { 32, 255 } },
		{ RETRY, IBV_QP_RETRY_CNT, 2, 3, { 0, 7 }, { 8, 255 } },
		{ RNR, IBV_QP_RNR_RETRY, 2, 3, { 0, 7 }, { 8, 255 } },
		{ RD, IBV_QP_MAX_QP_RD_ATOMIC, 2, 3, { 0, RD_ATOMIC_MAX },
		  { RD_ATOMIC_MAX + 1, 255 } },
		{ MIGRATION, IBV_QP_PATH_MIG_STATE, 2, 3, { IBV_MIG_MIGRATED, IBV_MIG_MIGRATED },
		  { IBV_MIG_REARM, IBV_MIG_ARMED } },
	};
	struct qp qp;

	assert_int_equal(sizeof(cases) / sizeof(cases[0]), FIELDS);
	for (size_t i = 0; i < FIELDS; i++) {
		int mask = required_mask(RC, cases[i].from, cases[i].to) | cases[i].bit |
			   IBV_QP_STATE;

		qp_begin(&qp, IBV_QPT_RC, cases[i].from);
		for (unsigned j = 0; j < 4; j++) {
			struct ibv_qp_attr attr = good_values(cases[i].from, cases[i].to);

			set_field(&attr, cases[i].field,
				  j < 2 ? cases[i].good[j] : cases[i].bad[j - 2]);
			if (try_modify(&qp, &attr, mask) != (j < 2 ? 0 : EINVAL))
				fail_msg("field %u value %u", cases[i].field, j);
		}
	}
}

/* ---- explanations ---- */

static const char *explain_check(unsigned type, unsigned from, unsigned to, int mask)
{
	struct listening explanation;

	explanation_begin(&explanation);
	assert_int_equal(check(type, from, to, mask), EINVAL);
	return explanation_end(&explanation);
}

static void a_refusal_names_the_attribute_that_is_missing(void **state)
{
	int mask = (required_mask(RC, IBV_QPS_INIT, IBV_QPS_RTR) | IBV_QP_STATE);

	assert_mentions(explain_check(RC, IBV_QPS_INIT, IBV_QPS_RTR, mask & ~IBV_QP_MIN_RNR_TIMER),
			"modify_qp: qp 0x012345 INIT to RTR lacks "
			"IBV_QP_MIN_RNR_TIMER (min_rnr_timer)\n");
	assert_mentions(explain_check(RC, IBV_QPS_INIT, IBV_QPS_RTR,
				      mask & ~(IBV_QP_AV | IBV_QP_PATH_MTU)),
			"lacks IBV_QP_AV (ah_attr), IBV_QP_PATH_MTU (path_mtu)\n");
}

static void a_refusal_names_the_attribute_that_is_too_many(void **state)
{
	assert_mentions(explain_check(UD, IBV_QPS_INIT, IBV_QPS_RTR,
				      IBV_QP_STATE | IBV_QP_DEST_QPN | 1 << 30),
			"qp 0x012345 (UD) INIT to RTR does not take IBV_QP_DEST_QPN (dest_qp_num), "
			"unknown bits 0x40000000\n");
	assert_mentions(explain_check(RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_CAP),
			"queues cannot be resized");
}

static void a_refusal_names_the_states_that_can_be_reached(void **state)
{
	assert_mentions(explain_check(RC, IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_STATE),
			"qp 0x012345 RC cannot go from RESET to RTS, only to RESET, INIT\n");
}

/* ---- apply and query ---- */

static void apply_takes_what_the_mask_names_and_nothing_else(void **state)
{
	struct ibv_qp_attr attr = good_values(IBV_QPS_INIT, IBV_QPS_RTR), got;
	struct ibv_qp_init_attr init;
	struct qp qp;

	qp_begin(&qp, IBV_QPT_RC, IBV_QPS_INIT);
	attr.rq_psn = 0xab123456;
	apply(&qp, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU |
	      IBV_QP_DEST_QPN | IBV_QP_ACCESS_FLAGS);
	got = query(&qp, &init);
	assert_int_equal(got.qp_state, IBV_QPS_RTR);
	assert_int_equal(got.cur_qp_state, IBV_QPS_RTR);
	assert_int_equal(qp.ibv.qp_base.state, IBV_QPS_RTR);
	assert_int_equal(got.rq_psn, 0x123456);		/* 24 bits */
	assert_int_equal(got.dest_qp_num, 3);
	assert_int_equal(qp.mtu, 1024);
	assert_int_equal(got.sq_psn, 0);
	assert_int_equal(got.timeout, 0);
	assert_int_equal(atomic_load(&access_entry.state), IBV_QPS_RTR);
	assert_int_equal(atomic_load(&access_entry.access), IBV_ACCESS_REMOTE_READ);
	assert_int_equal(access_entry.dest_qpn, 3);
}

static void every_attribute_comes_back_from_query(void **state)
{
	struct ibv_qp_attr attr = good_values(IBV_QPS_RTR, IBV_QPS_RTS), got;
	struct ibv_qp_init_attr init;
	struct qp qp;

	qp_begin(&qp, IBV_QPT_RC, IBV_QPS_RTR);
	attr.alt_timeout = 5;
	attr.ah_attr.grh.sgid_index = 2;
	attr.alt_ah_attr.port_num = 1;
	attr.en_sqd_async_notify = 1;
	apply(&qp, &attr, (1 << BITS) - 1);
	got = query(&qp, &init);
#define SAME(member) assert_int_equal(got.member, attr.member)
	SAME(qp_state); SAME(path_mtu); SAME(path_mig_state); SAME(qkey); SAME(rq_psn);
	SAME(sq_psn); SAME(dest_qp_num); SAME(qp_access_flags); SAME(ah_attr.port_num);
	SAME(ah_attr.is_global); SAME(ah_attr.grh.sgid_index); SAME(alt_ah_attr.port_num);
	SAME(pkey_index); SAME(alt_pkey_index); SAME(en_sqd_async_notify); SAME(max_rd_atomic);
	SAME(max_dest_rd_atomic); SAME(min_rnr_timer); SAME(port_num); SAME(timeout);
	SAME(retry_cnt); SAME(rnr_retry); SAME(alt_port_num); SAME(alt_timeout);
#undef SAME
}

static void reset_forgets_attributes_but_not_capacities(void **state)
{
	struct ibv_qp_attr attr = good_values(IBV_QPS_RTS, IBV_QPS_RESET), got;
	struct ibv_qp_init_attr init;
	struct qp qp;

	qp_begin(&qp, IBV_QPT_RC, IBV_QPS_RTS);
	qp.cap.max_send_wr = 17;
	apply(&qp, &attr, (1 << BITS) - 1 - IBV_QP_STATE);
	assert_int_equal(qp.attr.dest_qp_num, 3);
	apply(&qp, &attr, IBV_QP_STATE);
	got = query(&qp, &init);
	assert_int_equal(got.qp_state, IBV_QPS_RESET);
	assert_int_equal(got.dest_qp_num, 0);
	assert_int_equal(got.qp_access_flags, 0);
	assert_int_equal(atomic_load(&access_entry.access), 0);
	assert_int_equal(got.cap.max_send_wr, 17);
	assert_int_equal(init.cap.max_send_wr, 17);
}

static void a_qp_without_its_queues_takes_less_than_4_kib(void **state)
{
	print_message("struct qp: %zu bytes (requester %zu, responder %zu)\n", sizeof(struct qp),
		      sizeof(struct requester), sizeof(struct responder));
	assert_true(sizeof(struct qp) + sizeof(struct qp_access) < 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transition_of_every_type_takes_exactly_its_attributes),
		cmocka_unit_test(without_a_state_the_rules_are_those_of_staying),
		cmocka_unit_test(a_state_out_of_range_is_refused),
		cmocka_unit_test(a_wrong_current_state_is_refused),
		cmocka_unit_test(nothing_but_reset_and_error_ends_a_draining_queue),
		cmocka_unit_test(values_are_accepted_up_to_their_limits_and_refused_beyond),
		cmocka_unit_test(a_refusal_names_the_attribute_that_is_missing),
		cmocka_unit_test(a_refusal_names_the_attribute_that_is_too_many),
		cmocka_unit_test(a_refusal_names_the_states_that_can_be_reached),
		cmocka_unit_test(apply_takes_what_the_mask_names_and_nothing_else),
		cmocka_unit_test(every_attribute_comes_back_from_query),
		cmocka_unit_test(reset_forgets_attributes_but_not_capacities),
		cmocka_unit_test(a_qp_without_its_queues_takes_less_than_4_kib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
