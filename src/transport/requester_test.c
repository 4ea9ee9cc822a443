/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: what is sent when, and what is retransmitted (IBTA 9.7.2, 9.7.3, 9.7.5.1, 9.7.7).
 */
#include "transport/refusal.h"
#include "transport/test_support.h"

static void a_message_is_cut_at_the_path_mtu(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->memory[2 * MTU + 1024 + 2] = 0xab;
	post(s, IBV_WR_SEND, 1, 2 * MTU + 3);
	assert_int_equal(transmit(s), 3);
	expect_sent(s, 0, OPCODE_RC_SEND_FIRST, OUR_PSN);
	expect_sent(s, 1, OPCODE_RC_SEND_MIDDLE, OUR_PSN + 1);
	expect_sent(s, 2, OPCODE_RC_SEND_LAST, OUR_PSN + 2);
	assert_int_equal(sent(s, 0).payload_bytes, MTU);
	assert_int_equal(sent(s, 2).payload_bytes, 3);
	assert_int_equal(sent(s, 2).payload[2], 0xab);
	assert_false(sent(s, 0).ack_request);
	assert_true(sent(s, 2).ack_request);
	station_free(s);
}

static void packets_follow_each_other_in_the_batch(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	unsigned i;

	post(s, IBV_WR_RDMA_WRITE, 1, 5 * MTU);
	assert_int_equal(transmit(s), 5);
	for (i = 1; i < 5; i++)
		assert_int_equal(s->batch->packet[i].offset, s->batch->packet[i - 1].offset +
				 s->batch->packet[i - 1].bytes + ICRC_BYTES);
	assert_int_equal(s->batch->packet[0].source_qpn, OUR_QPN);
	station_free(s);
}

static void a_write_names_its_target_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 2 * MTU);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_FIRST, OUR_PSN);
	expect_sent(s, 1, OPCODE_RC_WRITE_LAST, OUR_PSN + 1);
	assert_int_equal(sent(s, 0).reth.address, 0x10000);
	assert_int_equal(sent(s, 0).reth.rkey, 0x77);
	assert_int_equal(sent(s, 0).reth.length, 2 * MTU);
	station_free(s);
}

static void immediate_data_and_solicited_ride_on_the_last_packet(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_RDMA_WRITE_WITH_IMM, 1, MTU + 1);
	wr.imm_data = __builtin_bswap32(0x01020304);
	wr.send_flags |= IBV_SEND_SOLICITED;
	post_wr(s, &wr);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_FIRST, OUR_PSN);
	expect_sent(s, 1, OPCODE_RC_WRITE_LAST_IMM, OUR_PSN + 1);
	assert_false(sent(s, 0).solicited);
	assert_true(sent(s, 1).solicited);
	assert_int_equal(sent(s, 1).imm, 0x01020304);
	station_free(s);
}

static void inline_data_is_that_of_the_post(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	s->memory[1024] = 0x5a;
	request_init(&wr, &sge, s, IBV_WR_SEND, 1, 5);
	wr.send_flags |= IBV_SEND_INLINE;
	sge.lkey = 0xdead;
	post_wr(s, &wr);
	s->memory[1024] = 0;
	assert_int_equal(transmit(s), 1);
	assert_int_equal(sent(s, 0).payload[0], 0x5a);
	station_free(s);
}

static void several_sges_are_gathered(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_sge sge[3] = { station_sge(s, 0, 3), station_sge(s, 100, 0),
				  station_sge(s, 200, MTU) };
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 3, .opcode = IBV_WR_SEND };

	memcpy(s->memory, "abc", 3);
	memcpy(s->memory + 200, "def", 3);
	s->memory[200 + MTU - 1] = 'z';
	post_wr(s, &wr);
	assert_int_equal(transmit(s), 2);
	assert_memory_equal(sent(s, 0).payload, "abcdef", 6);
	assert_int_equal(sent(s, 1).payload_bytes, 3);
	assert_int_equal(sent(s, 1).payload[2], 'z');
	station_free(s);
}

static void a_message_of_no_bytes_is_one_packet(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 0);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void the_last_packet_of_a_call_asks_for_an_ack(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->quantum = 3;
	post(s, IBV_WR_RDMA_WRITE, 1, 8 * MTU);
	assert_int_equal(transmit(s), 3);
	assert_false(sent(s, 1).ack_request);
	assert_true(sent(s, 2).ack_request);
	expect_sent(s, 2, OPCODE_RC_WRITE_MIDDLE, OUR_PSN + 2);
	station_free(s);
}

static void a_sequence_nak_goes_back_to_its_psn(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 4 * MTU);
	assert_int_equal(transmit(s), 4);
	receive_nak(s, OUR_PSN + 2, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_MIDDLE, OUR_PSN + 2);
	expect_sent(s, 1, OPCODE_RC_WRITE_LAST, OUR_PSN + 3);
	receive_ack(s, OUR_PSN + 3);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(station_counter(s, COUNTER_RX_SEQ_NAK), 1);
	station_free(s);
}

static void several_signs_of_one_loss_are_acted_upon_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 4 * MTU);
	transmit(s);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 3);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_SEQUENCE);
	expect_silence(s);
	receive_ack(s, OUR_PSN + 3);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void silence_is_probed_before_the_ack_timeout(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 3 * MTU);
	assert_int_equal(transmit(s), 3);
	pass_time(s, 2 * MILLISECOND);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_WRITE_FIRST, OUR_PSN);
	assert_true(sent(s, 0).ack_request);
	assert_int_equal(station_counter(s, COUNTER_PROBE), 1);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 0);
	assert_int_equal(s->qp.requester.loss.retry_left, 2);
	receive_ack(s, OUR_PSN + 2);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static bool is_through_memory(const struct qp *qp)
{
	return qp->route.loopback;
}

/* A peer of this host that does not answer has no processor; when it gets one, it finds all that was sent. */
static void what_goes_through_memory_is_not_probed_as_soon(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->transport.loses_nothing = is_through_memory;
	s->qp.route.loopback = true;
	post(s, IBV_WR_RDMA_WRITE, 1, 3 * MTU);
	assert_int_equal(transmit(s), 3);
	pass_time(s, 2 * MILLISECOND);
	assert_int_equal(transmit(s), 0);
	pass_time(s, 13 * MILLISECOND);
	assert_int_equal(transmit(s), 0);
	assert_int_equal(station_counter(s, COUNTER_PROBE), 0);
	pass_time(s, 2 * MILLISECOND);
	assert_int_equal(transmit(s), 1);
	assert_int_equal(station_counter(s, COUNTER_PROBE), 1);
	receive_ack(s, OUR_PSN + 2);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void an_answer_to_the_probe_alone_says_that_the_rest_is_lost(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 3 * MTU);
	transmit(s);
	pass_time(s, 2 * MILLISECOND);
	transmit(s);
	receive_ack(s, OUR_PSN);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_MIDDLE, OUR_PSN + 1);
	receive_ack(s, OUR_PSN + 2);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_silent_peer_gets_nothing_but_probes(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 3 * MTU);
	transmit(s);
	pass_time(s, 2 * MILLISECOND);
	assert_int_equal(transmit(s), 1);
	pass_time(s, 4 * MILLISECOND);
	assert_int_equal(s->qp.path->in_flight_bytes, 0);
	assert_int_equal(transmit(s), 1);
	post(s, IBV_WR_SEND, 2, 1);
	expect_silence(s);
	receive_ack(s, OUR_PSN);
	assert_int_equal(transmit(s), 3);
	expect_sent(s, 0, OPCODE_RC_WRITE_MIDDLE, OUR_PSN + 1);
	expect_sent(s, 2, OPCODE_RC_SEND_ONLY, OUR_PSN + 3);
	station_free(s);
}

/* How long is a peer that never answers waited for? */
static uint64_t patience_of(struct station *s)
{
	uint64_t start_ns = s->now_ns;
	unsigned calls = 0;

	post(s, IBV_WR_SEND, 1, 1);
	post(s, IBV_WR_SEND, 2, 1);
	while (s->qp.state == IBV_QPS_RTS && ++calls < 100000) {
		transmit(s);
		pass_time(s, MILLISECOND / 4);
	}
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), s->qp.attr.retry_cnt + 1);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_wc(&s->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	return s->now_ns - start_ns;
}

static void a_dead_peer_is_given_up_after_retry_cnt_timeouts(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t timeout_ns = ack_timeout_ns(14), patience_ns;

	/* Its host says nothing of it. The first transmission and two retries, each for the whole timeout. */
	s->qp.route.loopback = true;
	patience_ns = patience_of(s);
	assert_in_range(patience_ns, 3 * timeout_ns, 3 * timeout_ns + 5 * MILLISECOND);
	station_free(s);
}

/* Its process may be stopped, which adapters do not notice: three times as long, up to 4 s in all. */
static void a_peer_on_another_host_has_a_grace(void **state)
{
	static const struct {
		uint8_t timeout, retry_cnt;
		uint64_t patience_ms;
	} row[] = {
		{ 14, 2, 604 }, { 14, 7, 1611 }, { 14, 0, 201 },
		{ 16, 7, 4000 },	/* 8 x 268 ms, 8 x 500 ms with what is allowed */
		{ 17, 6, 4000 },	/* 7 x 537 ms */
		{ 17, 7, 4295 },	/* 8 x 537 ms: as it is configured */
		{ 18, 3, 4295 }, { 18, 7, 8590 },
	};
	unsigned i;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct station *s = station_rts(IBV_QPT_RC);
		uint64_t patience_ns;

		s->qp.attr.timeout = row[i].timeout;
		s->qp.attr.retry_cnt = row[i].retry_cnt;
		s->qp.requester.loss.retry_left = row[i].retry_cnt;
		patience_ns = patience_of(s);
		assert_in_range(patience_ns, (row[i].patience_ms - 1) * MILLISECOND,
				(row[i].patience_ms + 5) * MILLISECOND);
		assert_true(patience_ns < 4 * (row[i].retry_cnt + 1) * ack_timeout_ns(row[i].timeout));
		station_free(s);
	}
}

/* As beside an adapter: often nobody waits for the last answer any more. */
static void a_destroyed_peer_is_given_up_after_the_last_retry_and_explained(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);
	const struct refusal told = { .why = DROP_NO_QP, .psn = s->qp.requester.una_psn };
	char words[REFUSAL_WORDS];

	s->qp.route.loopback = true;
	transport_refused(&s->qp, &told);
	assert_true(refusal_words(&s->qp, words));
	assert_non_null(strstr(words, "has no qp"));
	assert_true(patience_of(s) >= 3 * ack_timeout_ns(14));
	station_free(s);
}

static void way_changed(struct station *s) UNCHECKED_LOCKS
{
	transport_way_changed(&s->qp, s->now_ns, &s->effects);
}

/* What went the old way may have been dropped, answers too. */
static void what_is_unanswered_goes_the_new_way_at_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.attr.retry_cnt = 0;
	way_changed(s);
	assert_int_equal(transmit(s), 0);
	post(s, IBV_WR_SEND, 1, 1);
	post(s, IBV_WR_SEND, 2, 1);
	assert_int_equal(transmit(s), 2);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	way_changed(s);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN + 1);
	way_changed(s);				/* as often as it may change */
	assert_int_equal(transmit(s), 1);
	receive_ack(s, OUR_PSN + 1);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 0);
	station_free(s);
}

/* A QP that waits for a peer it has not heard of for long sends nothing but probes. */
static void a_new_way_ends_the_silence(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.attr.timeout = 0;
	post(s, IBV_WR_SEND, 1, 1);
	post(s, IBV_WR_SEND, 2, 1);
	assert_int_equal(transmit(s), 2);
	s->qp.requester.loss.hold = true;
	way_changed(s);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	expect_sent(s, 1, OPCODE_RC_SEND_ONLY, OUR_PSN + 1);
	station_free(s);
}

static void timeout_zero_never_gives_up(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	int i;

	s->qp.attr.timeout = 0;
	post(s, IBV_WR_SEND, 1, 1);
	for (i = 0; i < 1000; i++) {
		transmit(s);
		pass_time(s, 100 * MILLISECOND);
	}
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void the_timer_stops_when_all_is_answered(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	assert_true(deadline_of(s) == TIME_NEVER);
	post(s, IBV_WR_SEND, 1, 1);
	post(s, IBV_WR_SEND, 2, 1);
	transmit(s);
	assert_false(deadline_of(s) == TIME_NEVER);
	receive_ack(s, OUR_PSN);
	assert_false(deadline_of(s) == TIME_NEVER);
	receive_ack(s, OUR_PSN + 1);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void progress_gives_all_retries_back(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	int i;

	for (i = 0; i < 10; i++) {
		post(s, IBV_WR_SEND, 1, 1);
		transmit(s);
		pass_time(s, ack_timeout_ns(14) * 3 / 2);
		transmit(s);
		receive_ack(s, OUR_PSN + (uint32_t)i);
		expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	}
	assert_int_equal(s->qp.requester.loss.retry_left, 2);
	station_free(s);
}

static void an_rnr_nak_is_waited_out_with_no_other_timer(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t start_ns;

	post(s, IBV_WR_SEND, 1, 1);
	transmit(s);
	start_ns = s->now_ns;
	receive_nak(s, OUR_PSN, AETH_RNR, 0);
	expect_silence(s);
	assert_true(deadline_of(s) == start_ns + 655360000ull);
	pass_time(s, 655 * MILLISECOND);
	expect_silence(s);
	pass_time(s, MILLISECOND);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 0);
	assert_int_equal(station_counter(s, COUNTER_PROBE), 0);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void rnr_retry_counts_and_then_fails(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	int i;

	post(s, IBV_WR_SEND, 1, 1);
	for (i = 0; i < 2; i++) {
		assert_int_equal(transmit(s), 1);
		receive_nak(s, OUR_PSN, AETH_RNR, 1);
		pass_time(s, MILLISECOND);
	}
	assert_int_equal(transmit(s), 1);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	receive_nak(s, OUR_PSN, AETH_RNR, 1);
	expect_wc(&s->send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(station_counter(s, COUNTER_RNR_EXCEEDED), 1);
	station_free(s);
}

static void rnr_retry_seven_is_forever(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);
	int i;

	s->qp.attr.rnr_retry = 7;
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	post(s, IBV_WR_SEND, 1, 1);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(transmit(s), 1);
		receive_nak(s, OUR_PSN, AETH_RNR, 1);
		pass_time(s, MILLISECOND);
	}
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	station_free(s);
}

/* Each time one packet is lost, and the next copy finds no receive. */
static void a_peer_that_is_not_ready_is_not_silent(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);
	uint64_t first_ns = 0, sent_ns;
	int i;

	s->qp.attr.rnr_retry = 7;
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	post(s, IBV_WR_SEND, 1, 1);
	for (i = 0; i < 20; i++) {
		assert_int_equal(transmit(s), 1);
		sent_ns = s->now_ns;
		pass_time(s, deadline_of(s) - s->now_ns);
		assert_int_equal(transmit(s), 1);
		if (!i)
			first_ns = s->now_ns - sent_ns;
		assert_true(s->now_ns - sent_ns <= first_ns);
		receive_nak(s, OUR_PSN, AETH_RNR, 1);
		pass_time(s, MILLISECOND);
	}
	/* Nor do timeouts add up while it answers in between. */
	for (i = 0; i < 10; i++) {
		assert_int_equal(transmit(s), 1);
		s->qp.requester.loss.retry_left = 0;
		receive_nak(s, OUR_PSN, AETH_RNR, 1);
		assert_int_equal(s->qp.requester.loss.retry_left, s->qp.attr.retry_cnt);
		pass_time(s, MILLISECOND);
	}
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 0);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	station_free(s);
}

static void a_fence_waits_for_earlier_reads(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	post(s, IBV_WR_RDMA_READ, 1, 8);
	request_init(&wr, &sge, s, IBV_WR_SEND, 2, 8);
	wr.send_flags |= IBV_SEND_FENCE;
	post_wr(s, &wr);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_REQUEST, OUR_PSN);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN + 1);
	station_free(s);
}

static void a_fence_does_not_wait_for_writes(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	request_init(&wr, &sge, s, IBV_WR_SEND, 2, 8);
	wr.send_flags |= IBV_SEND_FENCE;
	post_wr(s, &wr);
	assert_int_equal(transmit(s), 2);
	station_free(s);
}

static void a_fenced_local_invalidate_waits_for_everything(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x99,
				  .send_flags = IBV_SEND_FENCE };

	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	post_wr(s, &wr);
	transmit(s);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	receive_ack(s, OUR_PSN);
	transmit(s);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	/* There is no such window. */
	expect_wc(&s->send_cq, 2, IBV_WC_MW_BIND_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void reads_in_flight_stay_within_max_rd_atomic(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t i;

	for (i = 0; i < 6; i++)
		post(s, IBV_WR_RDMA_READ, i, 8);
	assert_int_equal(transmit(s), 4);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_REQUEST, OUR_PSN + 4);
	expect_silence(s);
	station_free(s);
}

static void a_long_read_is_asked_for_in_pieces(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t piece, psn = OUR_PSN;
	uint64_t address = 0x10000;
	unsigned count, i;

	post(s, IBV_WR_RDMA_READ, 1, 300 * 1024);
	count = transmit(s);
	piece = sent(s, 0).reth.length;
	assert_true(count > 1 && piece < 64 * 1024 && piece % MTU == 0);
	assert_true(count * piece <= s->qp.path->window_bytes);
	for (i = 0; i < count; i++) {
		expect_sent(s, i, OPCODE_RC_READ_REQUEST, psn);
		assert_int_equal(sent(s, i).reth.address, address);
		psn += piece / MTU;
		address += piece;
	}
	station_free(s);
}

static void a_retried_read_asks_for_what_is_missing(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_READ, 1, 3 * MTU + 10);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_FIRST, OUR_PSN, MTU);
	/* The second response is lost. */
	receive_data(s, OPCODE_RC_READ_RESPONSE_MIDDLE, OUR_PSN + 2, MTU);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_REQUEST, OUR_PSN + 1);
	assert_int_equal(sent(s, 0).reth.address, 0x10000 + MTU);
	assert_int_equal(sent(s, 0).reth.length, 2 * MTU + 10);
	/* It may come again as FIRST. */
	receive_data(s, OPCODE_RC_READ_RESPONSE_FIRST, OUR_PSN + 1, MTU);
	receive_data(s, OPCODE_RC_READ_RESPONSE_MIDDLE, OUR_PSN + 2, MTU);
	receive_data(s, OPCODE_RC_READ_RESPONSE_LAST, OUR_PSN + 3, 10);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(s->memory + 1024 + MTU, some_bytes, MTU);
	station_free(s);
}

static void the_window_limits_what_is_in_flight(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	unsigned first, second;

	post(s, IBV_WR_RDMA_WRITE, 1, 256 * 1024);
	first = transmit(s);
	assert_true(first * (MTU + PACKET_COST) <= PATH_WINDOW_START);
	assert_true((first + 1) * (MTU + PACKET_COST) > PATH_WINDOW_START);
	expect_silence(s);
	receive_ack(s, OUR_PSN + 9);
	second = transmit(s);
	assert_true(second >= 10 && second <= 20);
	station_free(s);
}

static void without_credits_one_message_goes_at_a_time(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet ack = packet_of(OPCODE_RC_ACKNOWLEDGE, OUR_PSN);
	uint64_t i;

	ack.aeth.syndrome = aeth_syndrome(AETH_ACK, 0);
	ack.aeth.msn = 1;
	for (i = 0; i < 5; i++)
		post(s, IBV_WR_SEND, i, 8);
	s->quantum = 1;
	assert_int_equal(transmit(s), 1);
	s->quantum = 64;
	receive(s, &ack);
	assert_int_equal(transmit(s), 1);
	expect_silence(s);
	ack.psn = OUR_PSN + 1;
	ack.aeth.msn = 2;
	ack.aeth.syndrome = aeth_syndrome(AETH_ACK, aeth_credit_code(2));
	receive(s, &ack);
	assert_int_equal(transmit(s), 2);
	station_free(s);
}

static void writes_need_no_credits(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet ack = packet_of(OPCODE_RC_ACKNOWLEDGE, OUR_PSN);

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	ack.aeth.syndrome = aeth_syndrome(AETH_ACK, 0);
	ack.aeth.msn = 1;
	receive(s, &ack);
	post(s, IBV_WR_RDMA_WRITE, 2, 8);
	post(s, IBV_WR_RDMA_WRITE, 3, 8);
	assert_int_equal(transmit(s), 2);
	station_free(s);
}

static void a_bad_lkey_fails_in_its_turn(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	post(s, IBV_WR_SEND, 1, 8);
	request_init(&wr, &sge, s, IBV_WR_SEND, 2, 8);
	sge.lkey ^= 0x5555;
	post_wr(s, &wr);
	post(s, IBV_WR_SEND, 3, 8);
	assert_int_equal(transmit(s), 1);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	expect_no_wc(&s->send_cq);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_wc(&s->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

/* Whatever the peer would have answered, and however many pieces a READ has. */
static void what_has_no_room_for_its_answer_is_not_asked(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		size_t length;
	} request[] = {
		{ IBV_WR_RDMA_READ, 8 },
		{ IBV_WR_RDMA_READ, READ_CHUNK_MAX + 1 },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
	};

	for (size_t i = 0; i < sizeof(request) / sizeof(request[0]); i++) {
		struct station *s = station_rts(IBV_QPT_RC);
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		post(s, IBV_WR_SEND, 1, 8);
		request_init(&wr, &sge, s, request[i].opcode, 2, request[i].length);
		sge.lkey ^= 0x5555;
		post_wr(s, &wr);
		assert_int_equal(transmit(s), 1);
		expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
		receive_ack(s, OUR_PSN);
		expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
		expect_wc(&s->send_cq, 2, IBV_WC_LOC_PROT_ERR);
		expect_silence(s);
		station_free(s);
	}
}

static void a_read_is_not_asked_when_only_its_last_byte_has_no_room(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_sge sge[3] = { station_sge(s, 0, 10), station_sge(s, 100, 0),
				  station_sge(s, MEMORY_BYTES - 9, 10) };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 3,
				  .opcode = IBV_WR_RDMA_READ };

	post_wr(s, &wr);
	expect_silence(s);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	station_free(s);
}

static void psns_wrap_at_24_bits(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);

	s->qp.attr.sq_psn = 0xfffffe;
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	post(s, IBV_WR_RDMA_WRITE, 1, 4 * MTU);
	assert_int_equal(transmit(s), 4);
	expect_sent(s, 1, OPCODE_RC_WRITE_MIDDLE, 0xffffff);
	expect_sent(s, 2, OPCODE_RC_WRITE_MIDDLE, 0);
	receive_nak(s, 0, AETH_NAK, NAK_SEQUENCE);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_WRITE_MIDDLE, 0);
	receive_ack(s, 1);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void sqd_finishes_what_was_begun_and_says_so(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.attr.en_sqd_async_notify = 1;
	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	post(s, IBV_WR_SEND, 2, 8);
	station_move(s, IBV_QPS_SQD);
	expect_silence(s);
	assert_int_equal(s->qp.attr.sq_draining, 1);
	assert_false(event_pending(s, QP_EVENT_SQ_DRAINED));
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_true(event_pending(s, QP_EVENT_SQ_DRAINED));
	assert_int_equal(s->qp.attr.sq_draining, 0);
	station_move(s, IBV_QPS_RTS);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN + 1);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_is_cut_at_the_path_mtu),
		TEST(packets_follow_each_other_in_the_batch),
		TEST(a_write_names_its_target_once),
		TEST(immediate_data_and_solicited_ride_on_the_last_packet),
		TEST(inline_data_is_that_of_the_post),
		TEST(several_sges_are_gathered),
		TEST(a_message_of_no_bytes_is_one_packet),
		TEST(the_last_packet_of_a_call_asks_for_an_ack),
		TEST(a_sequence_nak_goes_back_to_its_psn),
		TEST(several_signs_of_one_loss_are_acted_upon_once),
		TEST(silence_is_probed_before_the_ack_timeout),
		TEST(what_goes_through_memory_is_not_probed_as_soon),
		TEST(an_answer_to_the_probe_alone_says_that_the_rest_is_lost),
		TEST(a_silent_peer_gets_nothing_but_probes),
		TEST(a_dead_peer_is_given_up_after_retry_cnt_timeouts),
		TEST(a_peer_on_another_host_has_a_grace),
		TEST(a_destroyed_peer_is_given_up_after_the_last_retry_and_explained),
		TEST(what_is_unanswered_goes_the_new_way_at_once),
		TEST(a_new_way_ends_the_silence),
		TEST(timeout_zero_never_gives_up),
		TEST(the_timer_stops_when_all_is_answered),
		TEST(progress_gives_all_retries_back),
		TEST(an_rnr_nak_is_waited_out_with_no_other_timer),
		TEST(rnr_retry_counts_and_then_fails),
		TEST(rnr_retry_seven_is_forever),
		TEST(a_peer_that_is_not_ready_is_not_silent),
		TEST(a_fence_waits_for_earlier_reads),
		TEST(a_fence_does_not_wait_for_writes),
		TEST(a_fenced_local_invalidate_waits_for_everything),
		TEST(reads_in_flight_stay_within_max_rd_atomic),
		TEST(a_long_read_is_asked_for_in_pieces),
		TEST(a_retried_read_asks_for_what_is_missing),
		TEST(the_window_limits_what_is_in_flight),
		TEST(without_credits_one_message_goes_at_a_time),
		TEST(writes_need_no_credits),
		TEST(a_bad_lkey_fails_in_its_turn),
		TEST(what_has_no_room_for_its_answer_is_not_asked),
		TEST(a_read_is_not_asked_when_only_its_last_byte_has_no_room),
		TEST(psns_wrap_at_24_bits),
		TEST(sqd_finishes_what_was_begun_and_says_so),
	};

	return cmocka_run_group_tests_name("requester", tests, NULL, NULL);
}
