/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder: checks, execution and answers (IBTA 9.7.4, 9.7.5.2, 9.9.3, 11.6.2). */
#include "transport/test_support.h"

static void expect_nak(struct station *s, unsigned index, uint32_t psn, enum nak_code code)
{
	expect_sent(s, index, OPCODE_RC_ACKNOWLEDGE, psn);
	assert_int_equal(sent(s, index).aeth.syndrome, aeth_syndrome(AETH_NAK, (uint8_t)code));
}

static void expect_ack(struct station *s, unsigned index, uint32_t psn, uint32_t msn)
{
	expect_sent(s, index, OPCODE_RC_ACKNOWLEDGE, psn);
	assert_int_equal(aeth_kind(sent(s, index).aeth.syndrome), AETH_ACK);
	assert_int_equal(sent(s, index).aeth.msn, msn);
}

/* The QP is in ERR and told its peer @code. */
static void expect_refused(struct station *s, enum nak_code code)
{
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(transmit(s), 1);
	expect_nak(s, 0, PEER_PSN, code);
	expect_silence(s);
}

static void a_send_lands_in_the_oldest_receive(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	post_recv(s, 1, 64);
	post_recv(s, 2, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 43);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 43);
	assert_int_equal(wc.src_qp, PEER_QPN);
	assert_int_equal(wc.wc_flags, 0);
	assert_memory_equal(s->memory + 1024, some_bytes, 43);
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN, 1);
	station_free(s);
}

static void a_send_of_several_packets_is_one_receive(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	post_recv(s, 1, 4096);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_RC_SEND_MIDDLE, PEER_PSN + 1, MTU);
	expect_no_wc(&s->recv_cq);
	receive_data(s, OPCODE_RC_SEND_LAST, PEER_PSN + 2, 1);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 2 * MTU + 1);
	assert_memory_equal(s->memory + 1024 + MTU, some_bytes, MTU);
	station_free(s);
}

static void a_batch_is_answered_by_one_ack(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t i;

	for (i = 0; i < 5; i++)
		receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + i, 8);
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN + 4, 5);
	station_free(s);
}

static void nothing_is_answered_that_does_not_ask(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY, PEER_PSN);

	receive(s, &packet);
	expect_silence(s);
	station_free(s);
}

static void immediate_and_solicited_reach_the_completion(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY_IMM, PEER_PSN);
	struct ibv_wc wc;

	post_recv(s, 1, 0);
	packet.imm = 0x01020304;
	receive(s, &packet);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(__builtin_bswap32(wc.imm_data), 0x01020304);
	station_free(s);
}

static void only_a_solicited_completion_raises_a_cq_armed_for_those(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY, PEER_PSN);
	struct comp_channel channel = { 0 };

	event_queue_init(&channel.queue, -1, nothing_to_release);
	s->recv_cq.channel = &channel;
	cq_arm(&s->recv_cq, true, &s->effects);
	post_recv(s, 1, 0);
	post_recv(s, 2, 0);
	receive(s, &packet);
	assert_int_equal(s->effects.count, 0);
	packet.psn++;
	packet.solicited = true;
	receive(s, &packet);
	assert_int_equal(s->effects.count, 1);
	station_free(s);
}

static void write_with_immediate_reports_the_length_of_the_reth(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet first = packet_of(OPCODE_RC_WRITE_FIRST, PEER_PSN);
	struct ibv_wc wc;

	post_recv(s, 1, 0);
	first.reth.address = (uintptr_t)s->memory + 4096;
	first.reth.rkey = s->mr.ibv.rkey;
	first.reth.length = MTU + 5;
	first.payload = some_bytes;
	first.payload_bytes = MTU;
	receive(s, &first);
	receive_data(s, OPCODE_RC_WRITE_LAST_IMM, PEER_PSN + 1, 5);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, MTU + 5);
	assert_memory_equal(s->memory + 4096, some_bytes, MTU);
	assert_memory_equal(s->memory + 4096 + MTU, some_bytes, 5);
	station_free(s);
}

static void no_receive_is_an_rnr_nak_with_our_timer(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN + 1, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN);
	assert_int_equal(sent(s, 0).aeth.syndrome, aeth_syndrome(AETH_RNR, 12));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	post_recv(s, 1, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN, 1);
	station_free(s);
}

static void a_gap_is_nakked_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 8);
	assert_int_equal(transmit(s), 1);
	expect_nak(s, 0, PEER_PSN + 1, NAK_SEQUENCE);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 3, 8);
	expect_silence(s);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 8);
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN + 2, 3);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 9, 8);
	assert_int_equal(transmit(s), 1);
	expect_nak(s, 0, PEER_PSN + 3, NAK_SEQUENCE);
	station_free(s);
}

static void a_duplicate_is_acked_and_not_done_again(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 64);
	post_recv(s, 2, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	transmit(s);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN, 1);
	assert_int_equal(station_counter(s, COUNTER_RX_DUPLICATE), 1);
	station_free(s);
}

static void a_message_out_of_order_is_an_invalid_request(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 64);
	receive_data(s, OPCODE_RC_SEND_MIDDLE, PEER_PSN, MTU);
	expect_refused(s, NAK_INVALID);
	expect_wc(&s->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_true(event_pending(s, QP_EVENT_REQ_ERR));
	station_free(s);
}

static void a_message_broken_off_fails_the_receive_it_took(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 4096);
	post_recv(s, 2, 64);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_wc(&s->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(transmit(s), 1);
	expect_nak(s, 0, PEER_PSN + 1, NAK_INVALID);
	station_free(s);
}

static void a_send_longer_than_its_receive_is_a_length_error(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 7);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	expect_refused(s, NAK_INVALID);
	station_free(s);
}

static void a_receive_with_a_bad_lkey_is_a_protection_error(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 511, 4096);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_RC_SEND_LAST, PEER_PSN + 1, 8);
	expect_wc(&s->recv_cq, 511, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(transmit(s), 1);
	expect_nak(s, 0, PEER_PSN + 1, NAK_OPERATION);
	station_free(s);
}

static void what_the_qp_does_not_allow_is_an_invalid_request(void **state)
{
	static const uint8_t codes[] = { OPCODE_RC_WRITE_ONLY, OPCODE_RC_READ_REQUEST,
					 OPCODE_RC_FETCH_ADD };
	size_t i;

	for (i = 0; i < sizeof(codes); i++) {
		struct station *s = station_rts(IBV_QPT_RC);

		s->qp.attr.qp_access_flags = 0;
		receive_data(s, codes[i], PEER_PSN, 0);
		expect_refused(s, NAK_INVALID);
		assert_true(event_pending(s, QP_EVENT_REQ_ERR));
		station_free(s);
	}
}

static void lengths_must_match_the_mtu_and_the_reth(void **state)
{
	static const struct {
		uint8_t code;
		size_t bytes;
		uint32_t promised;
	} bad[] = {
		{ OPCODE_RC_SEND_FIRST, MTU - 4, 0 }, { OPCODE_RC_SEND_ONLY, MTU + 4, 0 },
		{ OPCODE_RC_WRITE_FIRST, MTU, MTU }, { OPCODE_RC_WRITE_ONLY, 8, 9 },
		{ OPCODE_RC_WRITE_ONLY, 8, 4 }, { OPCODE_RC_WRITE_FIRST, MTU, 0x80000001 },
		{ OPCODE_RC_READ_REQUEST, 0, 0x80000001 }, { OPCODE_RC_READ_REQUEST, 4, 4 },
		{ OPCODE_RC_FETCH_ADD, 4, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct station *s = station_rts(IBV_QPT_RC);
		struct packet packet = packet_of(bad[i].code, PEER_PSN);

		post_recv(s, 1, 8192);
		packet.payload = some_bytes;
		packet.payload_bytes = bad[i].bytes;
		packet.reth.address = (uintptr_t)s->memory;
		packet.reth.rkey = s->mr.ibv.rkey;
		packet.reth.length = bad[i].promised;
		receive(s, &packet);
		expect_refused(s, NAK_INVALID);
		station_free(s);
	}
}

static void a_write_that_ends_early_or_late_is_refused(void **state)
{
	static const size_t last[] = { 1, MTU };
	size_t i;

	for (i = 0; i < 2; i++) {
		struct station *s = station_rts(IBV_QPT_RC);
		struct packet first = packet_of(OPCODE_RC_WRITE_FIRST, PEER_PSN);

		first.payload = some_bytes;
		first.payload_bytes = MTU;
		first.reth.address = (uintptr_t)s->memory;
		first.reth.rkey = s->mr.ibv.rkey;
		first.reth.length = MTU + 8;
		receive(s, &first);
		receive_data(s, OPCODE_RC_WRITE_LAST, PEER_PSN + 1, last[i]);
		assert_int_equal(transmit(s), 1);
		expect_nak(s, 0, PEER_PSN + 1, NAK_INVALID);
		station_free(s);
	}
}

static void bad_rkey(uint8_t code)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(code, PEER_PSN);

	post_recv(s, 1, 64);
	packet.payload = some_bytes;
	packet.payload_bytes = packet.op->verb == VERB_WRITE ? 8 : 0;
	packet.reth.address = packet.atomic.address = (uintptr_t)s->memory;
	packet.reth.rkey = packet.atomic.rkey = s->mr.ibv.rkey ^ 1;
	packet.reth.length = 8;
	receive(s, &packet);
	expect_refused(s, NAK_ACCESS);
	expect_wc(&s->recv_cq, 1, packet.op->headers & HDR_IMM ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(event_pending(s, QP_EVENT_ACCESS_ERR), !(packet.op->headers & HDR_IMM));
	station_free(s);
}

static void a_bad_rkey_is_an_access_error(void **state)
{
	bad_rkey(OPCODE_RC_WRITE_ONLY);
	bad_rkey(OPCODE_RC_WRITE_ONLY_IMM);
	bad_rkey(OPCODE_RC_READ_REQUEST);
	bad_rkey(OPCODE_RC_FETCH_ADD);
	bad_rkey(OPCODE_RC_COMPARE_SWAP);
}

static void the_first_packet_of_a_write_needs_the_whole_range(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet first = packet_of(OPCODE_RC_WRITE_FIRST, PEER_PSN);

	first.payload = some_bytes;
	first.payload_bytes = MTU;
	first.reth.address = (uintptr_t)s->memory + MEMORY_BYTES - MTU;
	first.reth.rkey = s->mr.ibv.rkey;
	first.reth.length = MTU + 1;
	receive(s, &first);
	expect_refused(s, NAK_ACCESS);
	assert_int_equal(s->memory[MEMORY_BYTES - MTU], 0);
	station_free(s);
}

static void address_and_length_cannot_wrap(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_read(s, PEER_PSN, (size_t)-(uintptr_t)s->memory - 8, 16);
	expect_refused(s, NAK_ACCESS);
	station_free(s);
}

static void no_bytes_need_no_key(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet write = packet_of(OPCODE_RC_WRITE_ONLY, PEER_PSN);
	struct packet read = packet_of(OPCODE_RC_READ_REQUEST, PEER_PSN + 1);

	write.reth.rkey = read.reth.rkey = 0xdead;
	receive(s, &write);
	receive(s, &read);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_ONLY, PEER_PSN + 1);
	assert_int_equal(sent(s, 0).payload_bytes, 0);
	station_free(s);
}

static void an_unaligned_atomic_is_an_invalid_request(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_fetch_add(s, PEER_PSN, 4, 1);
	expect_refused(s, NAK_INVALID);
	station_free(s);
}

static void atomics_are_done_in_host_order(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet swap = packet_of(OPCODE_RC_COMPARE_SWAP, PEER_PSN + 1);
	uint64_t value = 40;

	memcpy(s->memory + 64, &value, 8);
	receive_fetch_add(s, PEER_PSN, 64, 2);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ATOMIC_ACKNOWLEDGE, PEER_PSN);
	assert_int_equal(sent(s, 0).atomic_original, 40);
	swap.atomic.address = (uintptr_t)s->memory + 64;
	swap.atomic.rkey = s->mr.ibv.rkey;
	swap.atomic.compare = 42;
	swap.atomic.swap_add = 7;
	receive(s, &swap);
	swap.psn++;
	receive(s, &swap);
	assert_int_equal(transmit(s), 2);
	assert_int_equal(sent(s, 0).atomic_original, 42);
	assert_int_equal(sent(s, 1).atomic_original, 7);
	memcpy(&value, s->memory + 64, 8);
	assert_int_equal(value, 7);
	station_free(s);
}

static void too_many_reads_are_an_invalid_request(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint32_t i;

	station_reserve(s, 4);
	for (i = 0; i < 4; i++)
		receive_read(s, PEER_PSN + i, 0, 8);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	receive_read(s, PEER_PSN + 4, 0, 8);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	/* What was accepted is answered first. */
	assert_int_equal(transmit(s), 5);
	expect_sent(s, 3, OPCODE_RC_READ_RESPONSE_ONLY, PEER_PSN + 3);
	expect_nak(s, 4, PEER_PSN + 4, NAK_INVALID);
	station_free(s);
}

static void credits_are_the_receives_posted(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t i;

	for (i = 0; i < 4; i++)
		post_recv(s, i, 4096);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	transmit(s);
	assert_int_equal(aeth_credits(aeth_value(sent(s, 0).aeth.syndrome)), 3);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN + 1, MTU);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	transmit(s);
	/* The message in progress has one and is not counted in the MSN yet. */
	assert_int_equal(aeth_credits(aeth_value(sent(s, 0).aeth.syndrome)), 3);
	assert_int_equal(sent(s, 0).aeth.msn, 1);
	station_free(s);
}

static void an_srq_gives_no_credits_and_ends_with_last_wqe_reached(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct srq srq = { .pd = s->pd.number };
	struct ibv_sge sge = station_sge(s, 0, 64);
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(recv_queue_init(&srq.queue, 8, 4), 0);
	s->qp.srq = &srq;
	assert_int_equal(recv_queue_post_for(&srq.queue, &wr, &bad, EXPLAIN_SRQ, 1), 0);
	wr.wr_id = 6;
	assert_int_equal(recv_queue_post_for(&srq.queue, &wr, &bad, EXPLAIN_SRQ, 1), 0);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_wc(&s->recv_cq, 5, IBV_WC_SUCCESS);
	transmit(s);
	assert_int_equal(aeth_value(sent(s, 0).aeth.syndrome), AETH_CREDITS_INVALID);
	receive_data(s, OPCODE_RC_SEND_MIDDLE, PEER_PSN + 1, MTU);
	assert_true(event_pending(s, QP_EVENT_LAST_WQE));
	/* The other receive belongs to the QPs that are left. */
	expect_no_wc(&s->recv_cq);
	assert_int_equal(recv_queue_count(&srq.queue), 1);
	s->qp.srq = NULL;
	recv_queue_fini(&srq.queue);
	station_free(s);
}

static void keys_in_receives_of_an_srq_are_of_its_protection_domain(void **state)
{
	for (int right = 0; right < 2; right++) {
		struct station *s = station_rts(IBV_QPT_RC);
		struct other_domain other;

		other_domain_open(s, &other);
		other_domain_post(s, &other, 5, 64, right);
		receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
		expect_wc(&s->recv_cq, 5, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		/* What the peer names stays a matter of the QP's. */
		if (right) {
			struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY, PEER_PSN + 1);

			packet.payload = some_bytes;
			packet.payload_bytes = packet.reth.length = 8;
			packet.reth.address = (uintptr_t)s->memory;
			packet.reth.rkey = other.mr.ibv.rkey;
			receive(s, &packet);
		}
		transmit(s);
		expect_nak(s, 0, PEER_PSN + (uint32_t)right, right ? NAK_ACCESS : NAK_OPERATION);
		assert_int_equal(s->qp.state, IBV_QPS_ERR);
		other_domain_close(s, &other);
		station_free(s);
	}
}

static void the_first_packet_in_rtr_establishes_communication(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);

	station_move(s, IBV_QPS_RTR);
	assert_false(event_pending(s, QP_EVENT_COMM_EST));
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_true(event_pending(s, QP_EVENT_COMM_EST));
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN, 1);
	station_free(s);
}

static void strangers_and_wrong_services_are_dropped(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->info.route.source[15]++;
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(station_counter(s, COUNTER_RX_ADDRESS), 1);
	s->info.route.source[15]--;
	receive_data(s, OPCODE_UC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(station_counter(s, COUNTER_RX_QP_TYPE), 1);
	station_move(s, IBV_QPS_RESET);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(station_counter(s, COUNTER_RX_QP_STATE), 1);
	expect_silence(s);
	station_free(s);
}

static void the_last_ack_is_repeated_in_farewell(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);

	assert_false(transport_final_ack(&s->qp));
	post_recv(s, 1, 64);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 16);
	assert_false(transport_final_ack(&s->qp));
	assert_int_equal(transmit(s), 1);
	assert_true(transport_final_ack(&s->qp));
	assert_int_equal(transmit(s), 1);
	expect_ack(s, 0, PEER_PSN, 1);
	station_move(s, IBV_QPS_ERR);
	assert_false(transport_final_ack(&s->qp));
	expect_silence(s);
	station_free(s);
}

static void congestion_is_echoed_in_the_ack(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->info.ecn_marked = true;
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(transmit(s), 1);
	assert_true(sent(s, 0).becn);
	s->info.ecn_marked = false;
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	assert_int_equal(transmit(s), 1);
	assert_false(sent(s, 0).becn);
	station_free(s);
}

static void a_refusal_is_explained_with_the_true_reason(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct listening explanation;
	const char *text;

	explanation_begin(&explanation);
	receive_read(s, PEER_PSN, MEMORY_BYTES, 8);
	text = explanation_end(&explanation);
	assert_mentions(text, "qp 0x004011");
	assert_mentions(text, "qp 0x008022 at 192.0.2.2");
	assert_mentions(text, "begins past its end");
	station_free(s);
}

static void a_region_that_dies_within_a_write_is_noticed(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet first = packet_of(OPCODE_RC_WRITE_FIRST, PEER_PSN);

	first.payload = some_bytes;
	first.payload_bytes = MTU;
	first.reth.address = (uintptr_t)s->memory;
	first.reth.rkey = s->mr.ibv.rkey;
	first.reth.length = 2 * MTU;
	receive(s, &first);
	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	receive_data(s, OPCODE_RC_WRITE_LAST, PEER_PSN + 1, MTU);
	assert_int_equal(transmit(s), 1);
	expect_nak(s, 0, PEER_PSN + 1, NAK_ACCESS);
	assert_int_equal(s->memory[MTU], 0);
	station_free(s);
}

static void an_answer_can_leave_before_requests(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 4096);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	post(s, IBV_WR_SEND, 2, 8);
	assert_true(transport_answer_is_due(&s->qp));
	tx_batch_reset(s->batch);
	transport_answer(&s->qp, s->now_ns, s->quantum, s->batch, &s->effects);
	assert_int_equal(s->batch->count, 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN);
	assert_false(transport_answer_is_due(&s->qp));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_send_lands_in_the_oldest_receive),
		TEST(a_send_of_several_packets_is_one_receive),
		TEST(a_batch_is_answered_by_one_ack),
		TEST(nothing_is_answered_that_does_not_ask),
		TEST(immediate_and_solicited_reach_the_completion),
		TEST(only_a_solicited_completion_raises_a_cq_armed_for_those),
		TEST(write_with_immediate_reports_the_length_of_the_reth),
		TEST(no_receive_is_an_rnr_nak_with_our_timer),
		TEST(a_gap_is_nakked_once),
		TEST(a_duplicate_is_acked_and_not_done_again),
		TEST(a_message_out_of_order_is_an_invalid_request),
		TEST(a_message_broken_off_fails_the_receive_it_took),
		TEST(a_send_longer_than_its_receive_is_a_length_error),
		TEST(a_receive_with_a_bad_lkey_is_a_protection_error),
		TEST(what_the_qp_does_not_allow_is_an_invalid_request),
		TEST(lengths_must_match_the_mtu_and_the_reth),
		TEST(a_write_that_ends_early_or_late_is_refused),
		TEST(a_bad_rkey_is_an_access_error),
		TEST(the_first_packet_of_a_write_needs_the_whole_range),
		TEST(address_and_length_cannot_wrap),
		TEST(no_bytes_need_no_key),
		TEST(an_unaligned_atomic_is_an_invalid_request),
		TEST(atomics_are_done_in_host_order),
		TEST(too_many_reads_are_an_invalid_request),
		TEST(credits_are_the_receives_posted),
		TEST(an_srq_gives_no_credits_and_ends_with_last_wqe_reached),
		TEST(keys_in_receives_of_an_srq_are_of_its_protection_domain),
		TEST(the_first_packet_in_rtr_establishes_communication),
		TEST(strangers_and_wrong_services_are_dropped),
		TEST(the_last_ack_is_repeated_in_farewell),
		TEST(congestion_is_echoed_in_the_ack),
		TEST(a_refusal_is_explained_with_the_true_reason),
		TEST(a_region_that_dies_within_a_write_is_noticed),
		TEST(an_answer_can_leave_before_requests),
	};

	return cmocka_run_group_tests_name("responder", tests, NULL, NULL);
}
