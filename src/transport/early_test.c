/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that come behind a gap: held for a Verbatim that has asked, executed in their order, and bounded. */
#include "transport/early.h"
#include "transport/test_support.h"

/* A station whose peer has asked. */
static struct station *early_station(void)
{
	struct station *s = station_rts(IBV_QPT_RC);

	station_holds(s);
	receive_gaps(s, GAPS_ASK, PEER_PSN, 0);
	assert_int_equal(transmit(s), 1);
	expect_gaps(s, 0, GAPS_YES, PEER_PSN, 0);
	expect_silence(s);
	return s;
}

static uint16_t early_count(const struct station *s) UNCHECKED_LOCKS
{
	return early_holds(&s->qp) ? recovery_of(&s->qp)->early.count : 0;
}

/* So many places of the pool are taken. */
static unsigned early_taken(struct station *s)
{
	unsigned given = 0;
	uint16_t number;

	for (number = s->recoveries->places.first; number; number = s->recoveries->place[number - 1].next)
		given++;
	return s->recoveries->places.used - given;
}

static void expect_answer(struct station *s, unsigned index, uint32_t psn, enum aeth_kind kind)
{
	expect_sent(s, index, OPCODE_RC_ACKNOWLEDGE, psn);
	assert_int_equal(aeth_kind(sent(s, index).aeth.syndrome), kind);
}

/* Report and NAK of the gap at @psn. */
static void expect_gap(struct station *s, uint32_t psn, uint64_t held)
{
	assert_int_equal(transmit(s), 2);
	expect_gaps(s, 0, GAPS_REPORT, psn, held);
	expect_answer(s, 1, psn, AETH_NAK);
}

static void nothing_is_held_for_who_has_not_asked(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	station_holds(s);
	post_recv(s, 1, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + 1, 8);
	assert_int_equal(transmit(s), 1);
	expect_answer(s, 0, PEER_PSN, AETH_NAK);
	assert_int_equal(early_taken(s), 0);
	assert_int_equal(s->qp.requester.recovery, 0);
	station_free(s);
}

static void what_came_early_is_executed_when_the_gap_is_filled(void **state)
{
	struct station *s = early_station();

	post_recv(s, 1, 64);
	post_recv(s, 2, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + 1, 43);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(s->memory[1024], 0);	/* nothing of it is anywhere yet */
	assert_int_equal(s->memory[2048], 0);
	expect_gap(s, PEER_PSN, 1);
	expect_silence(s);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 9);
	assert_int_equal(expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS).byte_len, 9);
	assert_int_equal(expect_wc(&s->recv_cq, 2, IBV_WC_SUCCESS).byte_len, 43);
	assert_memory_equal(s->memory + 2048, some_bytes, 43);
	/* That all gaps are filled is told twice: one of the two may be lost. */
	assert_int_equal(transmit(s), 2);
	expect_gaps(s, 0, GAPS_REPORT, PEER_PSN + 2, 0);
	expect_answer(s, 1, PEER_PSN + 1, AETH_ACK);
	expect_silence(s);
	assert_int_equal(early_taken(s), 0);
	assert_int_equal(station_counter(s, COUNTER_RX_HELD), 1);
	station_free(s);
}

static void they_are_executed_in_the_order_of_their_psns_each_once(void **state)
{
	static const unsigned order[] = { 5, 2, 2, 4, 1, 5 };
	struct station *s = early_station();

	for (unsigned i = 0; i < 6; i++)
		post_recv(s, i, 64);
	for (unsigned i = 0; i < sizeof(order) / sizeof(*order); i++)
		receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + order[i], 10 + order[i]);
	assert_int_equal(early_count(s), 4);
	expect_gap(s, PEER_PSN, 1 | 2 | 8 | 16);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 10);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(expect_wc(&s->recv_cq, i, IBV_WC_SUCCESS).byte_len, 10 + i);
	expect_no_wc(&s->recv_cq);
	/* The next gap: told with what is behind it. */
	assert_int_equal(transmit(s), 2);
	expect_gaps(s, 0, GAPS_REPORT, PEER_PSN + 3, 1 | 2);
	expect_answer(s, 1, PEER_PSN + 2, AETH_ACK);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + 3, 13);
	for (unsigned i = 3; i < 6; i++)
		assert_int_equal(expect_wc(&s->recv_cq, i, IBV_WC_SUCCESS).byte_len, 10 + i);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(early_taken(s), 0);
	station_free(s);
}

/* READ and atomic behind a gap: not before their turn, and once. */
static void reads_and_atomics_wait_for_their_turn(void **state)
{
	struct station *s = early_station();
	uint64_t *word = (uint64_t *)(s->memory + 8192);

	station_reserve(s, 4);
	receive_fetch_add(s, PEER_PSN + 1, 8192, 5);
	receive_read(s, PEER_PSN + 2, 8192, 3 * MTU);
	receive_fetch_add(s, PEER_PSN + 5, 8192, 7);
	receive_fetch_add(s, PEER_PSN + 1, 8192, 5);
	assert_int_equal(*word, 0);
	expect_gap(s, PEER_PSN, 1 | 2 | 16);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(*word, 12);
	assert_int_equal(transmit(s), 6);
	expect_sent(s, 0, OPCODE_RC_ATOMIC_ACKNOWLEDGE, PEER_PSN + 1);
	expect_sent(s, 1, OPCODE_RC_READ_RESPONSE_FIRST, PEER_PSN + 2);
	expect_sent(s, 3, OPCODE_RC_READ_RESPONSE_LAST, PEER_PSN + 4);
	expect_sent(s, 4, OPCODE_RC_ATOMIC_ACKNOWLEDGE, PEER_PSN + 5);
	expect_gaps(s, 5, GAPS_REPORT, PEER_PSN + 6, 0);
	expect_silence(s);
	receive_fetch_add(s, PEER_PSN + 5, 8192, 7);
	assert_int_equal(*word, 12);
	station_free(s);
}

static void a_held_send_without_a_receive_is_not_ready(void **state)
{
	struct station *s = early_station();

	post_recv(s, 1, 64);
	for (unsigned i = 1; i < 4; i++)
		receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + i, 8);
	expect_gap(s, PEER_PSN, 1 | 2 | 4);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(transmit(s), 1);
	expect_answer(s, 0, PEER_PSN + 1, AETH_RNR);
	/* The requester begins anew with the one that it names: nothing else is held meanwhile. */
	assert_int_equal(early_taken(s), 0);
	assert_int_equal(station_counter(s, COUNTER_RX_SEQUENCE), 2);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + 3, 8);
	assert_int_equal(early_taken(s), 0);
	for (unsigned i = 1; i < 4; i++)
		post_recv(s, i + 1, 64);
	for (unsigned i = 1; i < 4; i++) {
		receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + i, 8);
		expect_wc(&s->recv_cq, i + 1, IBV_WC_SUCCESS);
	}
	station_free(s);
}

static void a_bad_one_is_refused_at_its_turn_and_no_sooner(void **state)
{
	struct station *s = early_station();
	struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY, PEER_PSN + 1);

	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = s->mr.ibv.rkey + 1;
	packet.reth.length = packet.payload_bytes = 8;
	packet.payload = some_bytes;
	receive(s, &packet);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 8);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(early_taken(s), 0);
	assert_int_equal(transmit(s), 1);
	expect_answer(s, 0, PEER_PSN + 1, AETH_NAK);
	station_free(s);
}

static void no_more_is_held_than_reports_reach(void **state)
{
	struct station *s = early_station();

	for (uint32_t i = 1; i <= GAPS_REACH + 8; i++)
		receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + i, 4);
	assert_int_equal(early_count(s), GAPS_REACH);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + (1u << 22), 4);
	assert_int_equal(early_count(s), GAPS_REACH);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 4);
	assert_int_equal(early_taken(s), 0);
	assert_int_equal(s->qp.responder.expected_psn, PEER_PSN + GAPS_REACH + 1);
	station_free(s);
}

/* All places of the process are taken: as if nobody had asked. */
static void without_a_place_a_request_is_dropped(void **state)
{
	struct station *s = early_station();

	for (unsigned i = 0; i < EARLY_PLACES; i++)
		assert_int_not_equal(recovery_take_place(s->recoveries), 0);
	assert_int_equal(recovery_take_place(s->recoveries), 0);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 4);
	assert_int_equal(transmit(s), 2);
	expect_gaps(s, 0, GAPS_REPORT, PEER_PSN, 0);
	expect_answer(s, 1, PEER_PSN, AETH_NAK);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 4);
	assert_int_equal(s->qp.responder.expected_psn, PEER_PSN + 1);
	station_free(s);
}

/* Nor is anything known of a QP for which the pool has no entry. */
static void without_an_entry_a_question_has_no_answer(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	station_holds(s);
	s->recoveries->recoveries.used = RECOVERY_QPS;
	receive_gaps(s, GAPS_ASK, PEER_PSN, 0);
	expect_silence(s);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 4);
	assert_int_equal(transmit(s), 1);
	expect_answer(s, 0, PEER_PSN, AETH_NAK);
	station_free(s);
}

static void sequence_numbers_wrap_behind_a_gap(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);

	s->qp.attr.rq_psn = PSN_MASK - 1;
	station_holds(s);
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	receive_gaps(s, GAPS_ASK, PSN_MASK - 1, 0);
	assert_int_equal(transmit(s), 1);
	for (uint32_t i = 4; i > 0; i--)
		receive_data(s, OPCODE_RC_WRITE_ONLY, psn_add(PSN_MASK - 1, i), 4);
	expect_gap(s, PSN_MASK - 1, 15);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PSN_MASK - 1, 4);
	assert_int_equal(s->qp.responder.expected_psn, 3);
	assert_int_equal(early_taken(s), 0);
	station_free(s);
}

static void a_gap_that_is_not_filled_costs_no_memory_for_long(void **state)
{
	struct station *s = early_station();

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 4);
	assert_int_equal(early_taken(s), 1);
	assert_int_equal(deadline_of(s), s->now_ns + EARLY_NS);
	pass_time(s, EARLY_NS - 1);
	assert_int_equal(early_taken(s), 1);
	assert_int_equal(station_counter(s, COUNTER_RX_SEQUENCE), 0);
	pass_time(s, 1);
	assert_int_equal(early_taken(s), 0);
	assert_int_equal(station_counter(s, COUNTER_RX_SEQUENCE), 1);
	/* And more behind the same gap finds no place again. */
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 4);
	assert_int_equal(early_taken(s), 0);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 4);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 4);
	assert_int_equal(early_taken(s), 1);
	station_free(s);
}

static void a_report_is_repeated_for_who_asks_again(void **state)
{
	struct station *s = early_station();

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 4);
	transmit(s);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 4);
	expect_gap(s, PEER_PSN + 1, 1);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 4);	/* a probe */
	assert_int_equal(transmit(s), 2);
	expect_gaps(s, 0, GAPS_REPORT, PEER_PSN + 1, 1);
	expect_answer(s, 1, PEER_PSN, AETH_ACK);
	station_free(s);
}

static void strangers_ask_in_vain(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_GAPS, PEER_PSN);
	struct gaps gaps = { .kind = GAPS_ASK, .qpn = PEER_QPN + 1 };
	uint8_t bytes[GAPS_BYTES];

	station_holds(s);
	packet.payload = bytes;
	packet.payload_bytes = sizeof(bytes);
	gaps_write(&gaps, bytes);
	receive(s, &packet);			/* of another QP */
	gaps.qpn = PEER_QPN;
	gaps_write(&gaps, bytes);
	packet.payload_bytes -= 4;
	receive(s, &packet);			/* cut */
	packet.payload_bytes += 4;
	s->info.route.source[15]++;
	receive(s, &packet);			/* of another address */
	s->info.route.source[15]--;
	expect_silence(s);
	assert_int_equal(s->qp.requester.recovery, 0);
	receive(s, &packet);
	assert_int_equal(transmit(s), 1);
	expect_gaps(s, 0, GAPS_YES, PEER_PSN, 0);
	station_free(s);
}

static void other_services_know_nothing_of_gaps(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };

	for (unsigned i = 0; i < 2; i++) {
		struct station *s = station_rts(types[i]);

		station_holds(s);
		receive_gaps(s, GAPS_ASK, PEER_PSN, 0);
		expect_silence(s);
		assert_int_equal(station_counter(s, COUNTER_RX_QP_TYPE), 1);
		station_free(s);
	}
}

static void reset_and_error_give_all_back(void **state)
{
	static const enum ibv_qp_state to[] = { IBV_QPS_RESET, IBV_QPS_ERR };

	for (unsigned i = 0; i < 2; i++) {
		struct station *s = early_station();

		receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 4);
		receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 3, 4);
		assert_int_equal(early_taken(s), 2);
		receive_gaps(s, GAPS_ASK, PEER_PSN, 0);
		station_move(s, to[i]);
		assert_int_equal(early_taken(s), 0);
		assert_int_equal(s->qp.requester.recovery, 0);
		expect_silence(s);
		station_free(s);
	}
}

/* A queue pair goes over from UDP to memory: what is held came from whoever can send by UDP. */
static void what_is_held_does_not_outlive_the_way_that_it_came(void **state) UNCHECKED_LOCKS
{
	struct station *s = early_station();

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 4);
	assert_int_equal(early_taken(s), 1);
	effects_init(&s->effects);
	transport_way_changed(&s->qp, s->now_ns, &s->effects);
	assert_int_equal(early_taken(s), 0);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 4);
	assert_int_equal(s->qp.responder.expected_psn, PEER_PSN + 1);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_held_for_who_has_not_asked),
		TEST(what_came_early_is_executed_when_the_gap_is_filled),
		TEST(they_are_executed_in_the_order_of_their_psns_each_once),
		TEST(reads_and_atomics_wait_for_their_turn),
		TEST(a_held_send_without_a_receive_is_not_ready),
		TEST(a_bad_one_is_refused_at_its_turn_and_no_sooner),
		TEST(no_more_is_held_than_reports_reach),
		TEST(without_a_place_a_request_is_dropped),
		TEST(without_an_entry_a_question_has_no_answer),
		TEST(sequence_numbers_wrap_behind_a_gap),
		TEST(a_gap_that_is_not_filled_costs_no_memory_for_long),
		TEST(a_report_is_repeated_for_who_asks_again),
		TEST(strangers_ask_in_vain),
		TEST(other_services_know_nothing_of_gaps),
		TEST(reset_and_error_give_all_back),
		TEST(what_is_held_does_not_outlive_the_way_that_it_came),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
