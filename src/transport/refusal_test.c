/* SPDX-License-Identifier: BSD-2-Clause */
/* What a requester says of a request that failed, when the peer's process has told why it was dropped. */
#include "base/log.h"
#include "transport/refusal.h"
#include "transport/test_support.h"

#define PEERS_QP 0x123456u

static struct station *waiting_station(void)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.attr.dest_qp_num = PEERS_QP;
	post(s, IBV_WR_SEND, 1, 1);
	assert_int_equal(transmit(s), 1);
	return s;
}

static void note(struct station *s, enum drop why, uint32_t value, uint32_t psn) UNCHECKED_LOCKS
{
	struct refusal refusal = { .why = (uint8_t)why, .value = value, .psn = psn };

	transport_refused(&s->qp, &refusal);
}

static void expect_words(struct station *s, const char *words) UNCHECKED_LOCKS
{
	char text[REFUSAL_WORDS];

	assert_int_equal(refusal_words(&s->qp, text), words != NULL);
	if (words && !strstr(text, words))
		print_error("no '%s' in: %s\n", words, text);
	assert_true(!words || strstr(text, words));
}

static void each_reason_names_both_ends(void **state)
{
	struct station *s = waiting_station();

	expect_words(s, NULL);
	note(s, DROP_QP_STATE, IBV_QPS_INIT, OUR_PSN);
	expect_words(s, "the peer's qp 0x123456 is in INIT and takes no packets: ibv_modify_qp to RTR there");
	note(s, DROP_QP_TYPE, IBV_QPT_UD, OUR_PSN);
	expect_words(s, "the peer's qp 0x123456 is of type UD, and this one of type RC");
	note(s, DROP_ADDRESS, 0, OUR_PSN);
	expect_words(s, "connected to another address");
	note(s, DROP_FIRST_PSN_BEHIND, 5, OUR_PSN);
	expect_words(s, "expects PSN 5, and these packets begin with ");
	note(s, DROP_OTHER_QP, 0x777, OUR_PSN);
	expect_words(s, "is connected to qp 0x000777, not to this one");
	station_free(s);
}

static void complaints_of_psns_do_not_hide_a_wrong_partner(void **state)
{
	struct station *s = waiting_station();

	note(s, DROP_OTHER_QP, 0x777, OUR_PSN);
	note(s, DROP_FIRST_PSN_BEHIND, 5, OUR_PSN);
	expect_words(s, "connected to qp 0x000777");
	note(s, DROP_QP_STATE, IBV_QPS_ERR, OUR_PSN);
	expect_words(s, "is in ERR: see its first error");
	station_free(s);
}

static void what_is_of_no_unanswered_request_is_not_said(void **state)
{
	struct station *s = waiting_station();

	note(s, DROP_QP_STATE, IBV_QPS_INIT, psn_add(OUR_PSN, PSN_MASK));
	expect_words(s, NULL);
	note(s, DROP_QP_STATE, IBV_QPS_INIT, psn_add(OUR_PSN, 2));
	expect_words(s, NULL);
	note(s, DROP_QP_STATE, IBV_QPS_INIT, OUR_PSN);
	expect_words(s, "is in INIT");
	station_free(s);
}

static void lies_are_ignored_or_harmless(void **state)
{
	struct station *s = waiting_station();

	note(s, DROP_NONE, 0, OUR_PSN);
	note(s, DROP_COUNT, 0, OUR_PSN);
	note(s, DROP_ICRC, 0, OUR_PSN);	/* a reason that is told nobody */
	note(s, (enum drop)255, 0, OUR_PSN);
	note(s, DROP_QP_STATE, UINT32_MAX, OUR_PSN);
	note(s, DROP_QP_STATE, IBV_QPS_INIT, UINT32_MAX);
	expect_words(s, NULL);
	note(s, DROP_QP_STATE, 0xffffff, OUR_PSN);
	expect_words(s, "is in no state");
	note(s, DROP_QP_TYPE, 0xffffff, OUR_PSN);
	expect_words(s, "is of type ");
	station_free(s);
}

/* ---- the other end: which drops are told ---- */

static struct refusal dropped(struct station *s, uint32_t psn) UNCHECKED_LOCKS
{
	struct refusal refusal = { 0 };

	s->info.refused = &refusal;
	receive_data(s, OPCODE_RC_SEND_ONLY, psn, 8);
	s->info.refused = NULL;
	return refusal;
}

static void a_dropped_request_has_a_reason(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);

	assert_int_equal(dropped(s, PEER_PSN).why, DROP_QP_STATE);
	assert_int_equal(dropped(s, PEER_PSN).value, IBV_QPS_INIT);
	assert_int_equal(dropped(s, PEER_PSN).psn, PEER_PSN);
	station_free(s);
}

static void a_first_psn_behind_the_expected_one_is_told_at_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct refusal refusal = dropped(s, PEER_PSN - 1);

	assert_int_equal(refusal.why, DROP_FIRST_PSN_BEHIND);
	assert_int_equal(refusal.value, PEER_PSN);
	assert_int_equal(refusal.psn, PEER_PSN - 1);
	station_free(s);
}

/* The requests before it may have been lost. */
static void a_first_psn_ahead_is_told_when_it_has_come_again(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	assert_int_equal(dropped(s, PEER_PSN + 9).why, DROP_NONE);
	assert_int_equal(dropped(s, PEER_PSN + 9).why, DROP_NONE);
	assert_int_equal(dropped(s, PEER_PSN + 9).why, DROP_FIRST_PSN_AHEAD);
	station_free(s);
}

static void what_is_answered_is_no_drop(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 64);
	assert_int_equal(dropped(s, PEER_PSN).why, DROP_NONE);
	assert_int_equal(dropped(s, PEER_PSN).why, DROP_NONE);	/* a duplicate */
	assert_int_equal(dropped(s, PEER_PSN + 9).why, DROP_NONE);	/* a gap */
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_reason_names_both_ends),
		cmocka_unit_test(complaints_of_psns_do_not_hide_a_wrong_partner),
		cmocka_unit_test(what_is_of_no_unanswered_request_is_not_said),
		cmocka_unit_test(lies_are_ignored_or_harmless),
		cmocka_unit_test(a_dropped_request_has_a_reason),
		cmocka_unit_test(a_first_psn_behind_the_expected_one_is_told_at_once),
		cmocka_unit_test(a_first_psn_ahead_is_told_when_it_has_come_again),
		cmocka_unit_test(what_is_answered_is_no_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
