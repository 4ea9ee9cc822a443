/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks of congested switches: who is told, how often, and what the one who is told does. */
#include "transport/congestion.h"
#include "transport/test_support.h"

static struct station *congestion_station(void)
{
	struct station *s = station_rts(IBV_QPT_RC);

	station_holds(s);
	return s;
}

static const struct rate *rate_of_station(const struct station *s) UNCHECKED_LOCKS
{
	return &congestion_of(&s->qp)->rate;
}

static void receive_marked(struct station *s, uint8_t code, uint32_t psn, size_t bytes)
{
	s->info.ecn_marked = true;
	receive_data(s, code, psn, bytes);
	s->info.ecn_marked = false;
}

/* As annex A17 has it: BECN, no PSN, 16 bytes of zeros, and nothing that may be marked itself. */
static void expect_cnp(struct station *s, unsigned index)
{
	static const uint8_t zeros[16];
	struct packet packet = sent(s, index);
	const struct tx_packet *entry = &s->batch->packet[index];

	expect_sent(s, index, OPCODE_CNP, 0);
	assert_true(packet.becn);
	assert_false(packet.fecn);
	assert_false(packet.echo.present);
	assert_int_equal(entry->bytes, BTH_BYTES + 16);
	assert_memory_equal(s->batch->data + entry->offset + BTH_BYTES, zeros, sizeof(zeros));
	assert_int_equal(entry->route.traffic_class & 3, 0);
}

static void a_mark_on_a_request_is_answered_by_a_cnp(void **state)
{
	struct station *s = congestion_station();

	receive_marked(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(transmit(s), 2);
	expect_cnp(s, 0);
	expect_sent(s, 1, OPCODE_RC_ACKNOWLEDGE, PEER_PSN);
	assert_false(sent(s, 1).becn);
	assert_int_equal(station_counter(s, COUNTER_RX_ECN), 1);
	assert_int_equal(station_counter(s, COUNTER_TX_CNP), 1);
	assert_int_equal(station_counter(s, COUNTER_TX_BECN), 0);
	station_free(s);
}

static void many_marks_make_one_cnp_in_an_interval(void **state)
{
	struct station *s = congestion_station();
	unsigned cnps = 0, i;

	s->qp.route.traffic_class = 0x42;
	for (i = 0; i < 100; i++) {
		receive_marked(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + i, 8);
		if (transmit(s) == 2) {
			expect_cnp(s, 0);
			assert_int_equal(s->batch->packet[0].route.traffic_class, 0x40);
			cnps++;
		}
		s->now_ns += CONGESTION_CNP_NS / 10;
	}
	assert_int_equal(cnps, 10);
	assert_int_equal(station_counter(s, COUNTER_RX_ECN), 100);
	station_free(s);
}

/* The requester asked for them: it is told by its own window, and so is the one who sends them. */
static void a_mark_on_a_read_response_means_to_ask_for_less(void **state)
{
	struct station *s = congestion_station();
	uint32_t window = s->qp.path->window_bytes;

	post(s, IBV_WR_RDMA_READ, 1, MTU);
	transmit(s);
	receive_marked(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, MTU);
	assert_true(s->qp.path->window_bytes <= window / 2 + MTU);
	assert_int_equal(transmit(s), 1);
	expect_cnp(s, 0);
	station_free(s);
}

static void marks_on_acks_and_late_responses_mean_nothing(void **state)
{
	struct station *s = congestion_station();
	uint32_t window;

	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	transmit(s);
	s->info.ecn_marked = true;
	receive_ack(s, OUR_PSN);
	window = s->qp.path->window_bytes;
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN - 5, 8);
	assert_int_equal(s->qp.path->window_bytes, window);
	assert_int_equal(station_counter(s, COUNTER_RX_ECN), 0);
	expect_silence(s);
	station_free(s);
}

/* No CNP there (or no room to remember one): the ACK says it, as IBTA's own congestion control has it. */
static void by_other_links_the_ack_has_becn(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct station *s = congestion_station();

		if (i)
			s->recoveries->congestions.used = CONGESTION_QPS;
		else
			s->qp.route.link = s->info.route.link = ROUTE_ROCE_V1;
		receive_marked(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
		assert_int_equal(transmit(s), 1);
		assert_true(sent(s, 0).becn);
		assert_int_equal(station_counter(s, COUNTER_TX_BECN), 1);
		assert_int_equal(station_counter(s, COUNTER_TX_CNP), 0);
		station_free(s);
	}
}

static void receive_cnp(struct station *s)
{
	struct packet packet = packet_of(OPCODE_CNP, 0);

	packet.becn = true;
	receive(s, &packet);
}

static void a_cnp_halves_the_window_once_in_a_round_trip(void **state)
{
	struct station *s = congestion_station();
	uint32_t window = s->qp.path->window_bytes;

	s->qp.path->rtt_ns = MILLISECOND;
	receive_cnp(s);
	receive_cnp(s);
	assert_int_equal(s->qp.path->window_bytes, window / 2);
	assert_int_equal(s->qp.requester.congestion, 0);
	station_free(s);
}

/* The window is a packet: then it is packets in so many round trips. */
static void below_a_packet_in_a_round_trip_there_is_a_rate(void **state)
{
	struct station *s = congestion_station();
	uint64_t round_ns = MILLISECOND / 20, least = PATH_WINDOW_MIN * 20000;	/* bytes a second */
	unsigned sent_now, more;

	s->qp.path->rtt_ns = round_ns;
	s->qp.path->window_bytes = PATH_WINDOW_MIN;
	receive_cnp(s);
	receive_cnp(s);
	assert_int_equal(rate_of_station(s)->current, least / 2);
	for (unsigned i = 0; i < 20; i++) {
		s->now_ns += round_ns;
		receive_cnp(s);
	}
	/* Who forges them stops nobody. */
	assert_int_equal(rate_of_station(s)->current, least / CONGESTION_ROUNDS_MAX);
	s->qp.path->window_bytes = PATH_WINDOW_START;
	post(s, IBV_WR_RDMA_WRITE, 0, 64 * MTU);
	sent_now = transmit(s);
	assert_true(sent_now >= 1 && sent_now < 10);
	expect_silence(s);
	assert_true(deadline_of(s) > s->now_ns);
	assert_true(deadline_of(s) < s->now_ns + 20 * MILLISECOND);
	pass_time(s, deadline_of(s) - s->now_ns);
	more = transmit(s);
	assert_true(more >= 1 && more <= 2);
	/* What is due to the peer goes on meanwhile. */
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN);
	station_free(s);
}

/* Each has places of its own: where all are marked, losses are repaired, and the other way round. */
static void marks_and_losses_leave_each_other_their_places(void **state)
{
	struct station *s = congestion_station();

	s->recoveries->recoveries.used = RECOVERY_QPS;
	receive_marked(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(transmit(s), 2);
	expect_cnp(s, 0);
	assert_int_equal(s->qp.requester.recovery, 0);
	s->recoveries->recoveries.used = 0;
	s->recoveries->congestions.used = CONGESTION_QPS;
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_int_equal(transmit(s), 1);
	receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 2);
	expect_gaps(s, 0, GAPS_ASK, OUR_PSN, 0);
	station_free(s);
}

/* What has failed needs neither. */
static void an_error_gives_both_places_back(void **state)
{
	struct station *s = congestion_station();

	receive_marked(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_int_equal(transmit(s), 3);
	receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
	assert_int_not_equal(s->qp.requester.recovery, 0);
	assert_int_not_equal(s->qp.requester.congestion, 0);
	station_move(s, IBV_QPS_ERR);
	assert_int_equal(s->qp.requester.recovery + s->qp.requester.congestion, 0);
	assert_int_equal(s->recoveries->recoveries.first, s->recoveries->recoveries.used);
	assert_int_equal(s->recoveries->congestions.first, s->recoveries->congestions.used);
	station_free(s);
}

/* ECT(0), once the peer is known to answer marks; what the application chose stays. */
static void packets_may_be_marked_where_marks_are_answered(void **state)
{
	static const uint8_t before[] = { 0, 0x68, 0x69 }, after[] = { 2, 0x6a, 0x69 };

	for (unsigned i = 0; i < sizeof(before); i++) {
		struct station *s = congestion_station();

		s->qp.route.traffic_class = before[i];
		post(s, IBV_WR_RDMA_WRITE, 1, 8);
		assert_int_equal(transmit(s), 1);
		receive_nak(s, OUR_PSN, AETH_NAK, NAK_SEQUENCE);
		assert_int_equal(transmit(s), 2);
		assert_int_equal(s->batch->packet[1].route.traffic_class, before[i]);
		receive_gaps(s, GAPS_YES, OUR_PSN, 0);
		post(s, IBV_WR_RDMA_WRITE, 2, 8);
		assert_int_equal(transmit(s), 1);
		assert_int_equal(s->batch->packet[0].route.traffic_class, after[i]);
		station_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_mark_on_a_request_is_answered_by_a_cnp),
		TEST(many_marks_make_one_cnp_in_an_interval),
		TEST(a_mark_on_a_read_response_means_to_ask_for_less),
		TEST(marks_on_acks_and_late_responses_mean_nothing),
		TEST(by_other_links_the_ack_has_becn),
		TEST(a_cnp_halves_the_window_once_in_a_round_trip),
		TEST(below_a_packet_in_a_round_trip_there_is_a_rate),
		TEST(marks_and_losses_leave_each_other_their_places),
		TEST(an_error_gives_both_places_back),
		TEST(packets_may_be_marked_where_marks_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
