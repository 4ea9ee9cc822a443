/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective repeat at the requester: whom it asks, what it believes, and what it sends again. */
#include "transport/repair.h"
#include "transport/test_support.h"

#define WRITES	8u

static enum repair_state repair_state_of(const struct station *s) UNCHECKED_LOCKS
{
	return recovery_of(&s->qp)->repair.state;
}

static bool repair_goes_on(const struct station *s) UNCHECKED_LOCKS
{
	return repair_is_on(&s->qp);
}

/* WRITEs of one packet, WRITES of them, are under way. */
static struct station *repair_station(void)
{
	struct station *s = station_rts(IBV_QPT_RC);

	station_holds(s);
	for (unsigned i = 0; i < WRITES; i++)
		post(s, IBV_WR_RDMA_WRITE, i, 8);
	assert_int_equal(transmit(s), WRITES);
	return s;
}

/* The first of them is lost, and repaired as ever; the peer says that it holds. */
static struct station *repair_asked_station(void)
{
	struct station *s = repair_station();

	receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 1 + WRITES);
	expect_gaps(s, 0, GAPS_ASK, OUR_PSN, 0);
	expect_sent(s, 1, OPCODE_RC_WRITE_ONLY, OUR_PSN);
	receive_gaps(s, GAPS_YES, OUR_PSN, 0);
	expect_silence(s);
	return s;
}

static void at_the_first_loss_the_peer_is_asked(void **state)
{
	struct station *s = repair_asked_station();

	assert_int_equal(repair_state_of(s), REPAIR_YES);
	station_free(s);
}

/* The loss before the answer was repaired by going back. Who holds has the window of one that has lost nothing. */
static void the_loss_before_the_answer_is_forgiven(void **state)
{
	struct station *s = repair_station();
	uint32_t window = s->qp.path->window_bytes;

	receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 1 + WRITES);
	assert_int_equal(s->qp.path->window_bytes, window - window / 8);
	assert_int_equal(s->qp.path->slow_start_bytes, window - window / 8);
	assert_int_equal(s->qp.path->cautious_bytes, PATH_CAUTIOUS_BYTES);
	receive_gaps(s, GAPS_YES, OUR_PSN + 1, 0);			/* to another question */
	assert_int_equal(s->qp.path->cautious_bytes, PATH_CAUTIOUS_BYTES);
	receive_gaps(s, GAPS_YES, OUR_PSN, 0);
	assert_int_equal(s->qp.path->window_bytes, window - window / 8);
	assert_int_equal(s->qp.path->slow_start_bytes, PATH_WINDOW_CAUTIOUS);
	assert_int_equal(s->qp.path->cautious_bytes, 0);
	station_free(s);
}

static void nobody_is_asked_who_cannot_be_a_verbatim(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct station *s = repair_station();

		if (i == 0)
			s->qp.attr.dest_qp_num = 0x11;
		else if (i == 1)
			s->qp.route.link = s->info.route.link = ROUTE_ROCE_V1;
		else
			s->transport.recoveries = NULL;
		receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
		assert_int_equal(transmit(s), WRITES);
		s->transport.recoveries = s->recoveries;
		station_free(s);
	}
}

static void only_what_the_peer_lacks_is_sent_again(void **state)
{
	struct station *s = repair_asked_station();
	uint32_t in_flight = s->qp.requester.flight_bytes, window = s->qp.path->window_bytes;

	receive_gaps(s, GAPS_REPORT, OUR_PSN + 1, 1 | 4);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_SEQUENCE);	/* of the same gap */
	expect_wc(&s->send_cq, 0, IBV_WC_SUCCESS);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_ONLY, OUR_PSN + 1);
	expect_sent(s, 1, OPCODE_RC_WRITE_ONLY, OUR_PSN + 3);
	assert_true(sent(s, 0).ack_request);
	expect_silence(s);
	/* What it holds is not answered. */
	expect_no_wc(&s->send_cq);
	assert_true(s->qp.requester.flight_bytes < in_flight);
	assert_int_equal(s->qp.path->window_bytes, window - 2 * (in_flight / WRITES));
	assert_int_equal(station_counter(s, COUNTER_REPAIR), 2);
	assert_int_equal(station_counter(s, COUNTER_RETRANSMIT), 1);
	receive_ack(s, OUR_PSN + WRITES - 1);
	for (unsigned i = 1; i < WRITES; i++)
		expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);
	expect_silence(s);
	station_free(s);
}

/* It has left the network, and is counted once: at the report, not at the ACK as well. */
static void what_is_held_has_no_share_of_the_window(void **state)
{
	struct station *s = repair_asked_station();
	uint32_t one = s->qp.requester.flight_bytes / WRITES;

	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 4);
	assert_int_equal(s->qp.requester.flight_bytes, (WRITES - 2) * one);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 4);
	assert_int_equal(s->qp.requester.flight_bytes, (WRITES - 2) * one);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 4 | 8);
	assert_int_equal(s->qp.requester.flight_bytes, (WRITES - 3) * one);
	assert_int_equal(s->qp.path->in_flight_bytes, (WRITES - 3) * one);
	assert_int_equal(transmit(s), 2);			/* 0 and 2 */
	receive_ack(s, OUR_PSN + 4);				/* up to 4: two had their share */
	assert_int_equal(s->qp.requester.flight_bytes, (WRITES - 5) * one);
	receive_ack(s, OUR_PSN + WRITES - 1);
	assert_int_equal(s->qp.requester.flight_bytes, 0);
	assert_int_equal(s->qp.path->in_flight_bytes, 0);
	station_free(s);
}

/* Sent again from the beginning, each has its share again. */
static void who_goes_back_pays_for_what_was_held(void **state)
{
	struct station *s = repair_asked_station();
	uint32_t all = s->qp.requester.flight_bytes;

	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 4);
	assert_true(s->qp.requester.flight_bytes < all);
	receive_nak(s, OUR_PSN, AETH_RNR, 1);
	assert_int_equal(s->qp.requester.flight_bytes, 0);
	pass_time(s, MILLISECOND);
	assert_int_equal(transmit(s), WRITES);
	assert_int_equal(s->qp.requester.flight_bytes, all);
	receive_ack(s, OUR_PSN + WRITES - 1);
	assert_int_equal(s->qp.path->in_flight_bytes, 0);
	station_free(s);
}

/* With all said to be held the window is free: no more leaves than a report can tell of. */
static void no_more_is_under_way_than_can_be_told_of(void **state)
{
	struct station *s = repair_asked_station();
	const struct requester *requester = &s->qp.requester;

	receive_gaps(s, GAPS_REPORT, OUR_PSN, UINT64_MAX);
	s->qp.path->window_bytes = UINT32_MAX / 2;
	for (unsigned i = 0; i < 40; i++)
		post(s, IBV_WR_RDMA_WRITE, 0, 16 * MTU);
	while (transmit(s))
		;
	assert_int_equal(psn_diff(requester->send_psn, requester->una_psn), GAPS_REACH + 1);
	receive_ack(s, OUR_PSN + 9);
	while (transmit(s))
		;
	assert_int_equal(psn_diff(requester->send_psn, OUR_PSN), WRITES + 40 * 16);
	station_free(s);
}

static void the_same_report_again_sends_nothing(void **state)
{
	struct station *s = repair_asked_station();

	receive_gaps(s, GAPS_REPORT, OUR_PSN, 2);
	assert_int_equal(transmit(s), 2);
	for (unsigned i = 0; i < 100; i++) {
		receive_gaps(s, GAPS_REPORT, OUR_PSN, 2);
		expect_silence(s);
	}
	/* More of it is: what is new in it. */
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 2 | 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_WRITE_ONLY, OUR_PSN + 3);
	station_free(s);
}

static void a_gap_is_sent_once_more_if_what_was_sent_later_is_held(void **state)
{
	struct station *s = repair_asked_station();

	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1);
	assert_int_equal(transmit(s), 1);
	post(s, IBV_WR_RDMA_WRITE, WRITES, 8);
	assert_int_equal(transmit(s), 1);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 0x7f);	/* all that was sent before it */
	expect_silence(s);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 0xff);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_WRITE_ONLY, OUR_PSN);
	receive_ack(s, OUR_PSN + WRITES);
	for (unsigned i = 0; i <= WRITES; i++)
		expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);
	station_free(s);
}

/* A READ takes several PSNs, and is held as one packet. */
static void a_read_in_a_gap_is_asked_for_again(void **state)
{
	struct station *s = repair_asked_station();
	uint32_t first = OUR_PSN + WRITES;

	receive_ack(s, first - 1);
	post(s, IBV_WR_RDMA_WRITE, 20, 8);			/* first */
	post(s, IBV_WR_RDMA_READ, 21, 3 * MTU);			/* first + 1 .. 3 */
	post(s, IBV_WR_RDMA_READ, 25, 2 * MTU);			/* first + 4, 5 */
	post(s, IBV_WR_RDMA_WRITE, 28, 8);			/* first + 6 */
	assert_int_equal(transmit(s), 4);
	receive_gaps(s, GAPS_REPORT, first, 1u << 3 | 1u << 5);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_ONLY, first);
	expect_sent(s, 1, OPCODE_RC_READ_REQUEST, first + 1);
	assert_int_equal(sent(s, 1).reth.length, 3 * MTU);
	expect_silence(s);
	station_free(s);
}

/* The peer says what it likes: nothing but what to send again. */
static void a_liar_is_the_slower_for_it(void **state)
{
	struct station *s = repair_asked_station();

	receive_gaps(s, GAPS_REPORT, OUR_PSN, UINT64_MAX);
	assert_int_equal(transmit(s), 1);
	expect_no_wc(&s->send_cq);
	/* It is silent for as long as is needed: all is sent again, and the peer asked anew. */
	for (unsigned i = 0; i < 100 && !s->qp.requester.loss.hold; i++)
		pass_time(s, 10 * MILLISECOND);
	assert_false(repair_goes_on(s));
	receive_ack(s, OUR_PSN);
	assert_true(transmit(s) >= WRITES - 1);
	station_free(s);
}

static void reports_of_what_is_not_under_way_are_dropped(void **state)
{
	struct station *s = repair_asked_station();

	receive_gaps(s, GAPS_REPORT, OUR_PSN - 1, 1);
	receive_gaps(s, GAPS_REPORT, OUR_PSN + WRITES + 1, 1);
	receive_gaps(s, GAPS_REPORT, psn_add(OUR_PSN, 1u << 23), 1);
	expect_silence(s);
	expect_no_wc(&s->send_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_GAPS), 0);
	assert_int_equal(station_counter(s, COUNTER_RX_RESPONSE), 3);
	station_free(s);
}

static void answers_to_no_question_are_dropped(void **state)
{
	struct station *s = repair_station();

	receive_gaps(s, GAPS_YES, OUR_PSN, 0);			/* not asked */
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1);
	expect_silence(s);
	receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
	receive_gaps(s, GAPS_YES, OUR_PSN, 0);			/* before the question has left */
	assert_int_equal(transmit(s), 1 + WRITES);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1);		/* of who has not answered */
	receive_gaps(s, GAPS_YES, OUR_PSN + 1, 0);		/* to another one */
	expect_silence(s);
	assert_int_equal(repair_state_of(s), REPAIR_ASKED);
	station_free(s);
}

static void who_does_not_answer_is_not_asked_for_ever(void **state)
{
	struct station *s = repair_station();
	unsigned asks = 0, i, n;

	for (i = 0; i < 3 * REPAIR_ASKS; i++) {
		s->qp.requester.loss.guarded = false;
		receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
		n = transmit(s);
		assert_true(n == WRITES || n == WRITES + 1);
		asks += n - WRITES;
	}
	assert_int_equal(asks, REPAIR_ASKS);
	assert_int_equal(repair_state_of(s), REPAIR_NO);
	station_free(s);
}

/* Back to the beginning: what was known of gaps is old. */
static void not_ready_ends_a_round(void **state)
{
	struct station *s = repair_asked_station();

	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 4);
	receive_nak(s, OUR_PSN, AETH_RNR, 1);
	assert_false(repair_goes_on(s));
	expect_silence(s);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 4);
	expect_silence(s);
	pass_time(s, MILLISECOND);
	assert_int_equal(transmit(s), WRITES);
	station_free(s);
}

/* The report that nothing is missing comes before the ACK, and answers as much. */
static void a_report_may_be_the_last_answer_of_a_queue_that_drains(void **state)
{
	struct station *s = repair_asked_station();

	s->qp.attr.en_sqd_async_notify = 1;
	station_move(s, IBV_QPS_SQD);
	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1);
	assert_int_equal(transmit(s), 1);
	assert_false(event_pending(s, QP_EVENT_SQ_DRAINED));
	receive_gaps(s, GAPS_REPORT, OUR_PSN + WRITES, 0);
	assert_true(event_pending(s, QP_EVENT_SQ_DRAINED));
	assert_int_equal(s->qp.attr.sq_draining, 0);
	receive_ack(s, OUR_PSN + WRITES - 1);
	station_free(s);
}

/* Half of all PSNs later those of a repair that is over are ahead again. */
static void a_repair_that_is_over_is_forgotten(void **state)
{
	struct station *s = repair_asked_station();
	struct requester *requester = &s->qp.requester;

	receive_gaps(s, GAPS_REPORT, OUR_PSN, 1 | 2);
	assert_int_equal(transmit(s), 1);
	receive_ack(s, OUR_PSN + WRITES - 1);
	post(s, IBV_WR_RDMA_WRITE, WRITES, 8);
	assert_int_equal(transmit(s), 1);
	receive_ack(s, OUR_PSN + WRITES);
	requester->una_psn = requester->send_psn = requester->next_psn = psn_add(OUR_PSN, (1u << 23) + 100);
	assert_false(repair_goes_on(s));
	post(s, IBV_WR_RDMA_WRITE, WRITES + 1, 8);
	assert_int_equal(transmit(s), 1);
	receive_nak(s, requester->una_psn, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_WRITE_ONLY, psn_add(OUR_PSN, (1u << 23) + 100));
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(at_the_first_loss_the_peer_is_asked),
		TEST(the_loss_before_the_answer_is_forgiven),
		TEST(nobody_is_asked_who_cannot_be_a_verbatim),
		TEST(only_what_the_peer_lacks_is_sent_again),
		TEST(what_is_held_has_no_share_of_the_window),
		TEST(who_goes_back_pays_for_what_was_held),
		TEST(no_more_is_under_way_than_can_be_told_of),
		TEST(the_same_report_again_sends_nothing),
		TEST(a_gap_is_sent_once_more_if_what_was_sent_later_is_held),
		TEST(a_read_in_a_gap_is_asked_for_again),
		TEST(a_liar_is_the_slower_for_it),
		TEST(reports_of_what_is_not_under_way_are_dropped),
		TEST(answers_to_no_question_are_dropped),
		TEST(who_does_not_answer_is_not_asked_for_ever),
		TEST(not_ready_ends_a_round),
		TEST(a_report_may_be_the_last_answer_of_a_queue_that_drains),
		TEST(a_repair_that_is_over_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
