/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages at the requester (message.h): which requests may be messages and when, what these
 * contain, and what their answers cause. (States and time: message_state_test.c.)
 */
#include "transport/direct.h"
#include "transport/message_test_support.h"

/* ---- which ---- */

static void sends_are_messages_and_others_are_not(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool is_message;
	} row[] = {
		{ IBV_WR_SEND, true }, { IBV_WR_SEND_WITH_IMM, true },
		{ IBV_WR_SEND_WITH_INV, true },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, true }, { IBV_WR_RDMA_WRITE, false },
		{ IBV_WR_RDMA_READ, false }, { IBV_WR_ATOMIC_CMP_AND_SWP, false },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, false }, { IBV_WR_LOCAL_INV, false },
	};
	unsigned i;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct station *s = station_inside();

		assert_false(may_send_message(s));
		if (row[i].opcode == IBV_WR_LOCAL_INV)
			post_wr(s, &(struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV });
		else
			post(s, row[i].opcode, 1, 8);
		assert_int_equal(may_send_message(s), row[i].is_message);
		station_free(s);
	}
}

static void only_an_rc_qp_in_rts_sends_messages(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };
	struct station *s;
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct ibv_send_wr wr;
		struct ibv_sge sge;
		struct ah ah = { .references = 1 };

		s = station_rts(types[i]);
		request_init(&wr, &sge, s, IBV_WR_SEND, 1, 8);
		wr.wr.ud.ah = &ah.ibv;
		wr.wr.ud.remote_qpn = PEER_QPN;
		post_wr(s, &wr);
		assert_false(may_send_message(s));
		transmit(s);
		station_free(s);
	}
	s = station_inside();
	post(s, IBV_WR_SEND, 1, 8);
	station_move(s, IBV_QPS_SQD);
	assert_false(may_send_message(s));
	station_move(s, IBV_QPS_RTS);
	assert_true(may_send_message(s));
	station_move(s, IBV_QPS_ERR);
	assert_false(may_send_message(s));
	station_free(s);
}

static void several_are_sent_before_the_first_is_answered(void **state)
{
	struct station *s = station_inside();
	uint32_t size = s->qp.sq.size, i;

	for (i = 0; i < size; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, 100 + i);
	assert_false(may_send_message(s));
	expect_silence(s);
	for (i = 0; i < size; i++)
		answer_message(s, 100 + i, false);
	assert_false(may_send_message(s));
	for (i = 0; i < size; i++)
		expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	expect_silence(s);
	station_free(s);
}

/* Alone a WRITE is a direct request; behind messages it is one of them, and need not wait. */
static void writes_are_messages_behind_messages(void **state)
{
	struct station *s = station_inside();
	struct carried carried;

	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_false(may_send_message(s));
	station_free(s);
	s = station_inside();
	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post(s, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 8);
	post(s, IBV_WR_RDMA_WRITE, 3, 8);
	send_message(s, 2, &carried);
	send_message(s, 3, &carried);
	answer_message(s, 1, false);
	answer_message(s, 2, false);
	answer_message(s, 3, false);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(expect_wc(&s->send_cq, 3, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	station_free(s);
}

/* READs wait for messages, what follows waits for them. Packets need not: they are taken then. */
static void where_messages_stall_packets_are_sent(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	uint64_t token = 0;
	unsigned i;

	for (i = 0; i < 4; i++) {
		post_and_send(s, IBV_WR_SEND, 1, 8, ++token);
		post(s, IBV_WR_RDMA_READ, 2, 8);
		assert_false(may_send_message(s));
		assert_false(may_send_message(s));	/* is not counted twice */
		post(s, IBV_WR_SEND, 3, 8);
		if (i < 3) {
			if (i)
				answer_message(s, token - 1, false);
			answer_message(s, token, false);
			transport_direct_done(&s->qp, NULL, s->now_ns, &s->effects);
			send_message(s, ++token, &(struct carried){ .token = 0 });
		}
	}
	answer_message(s, token - 1, false);
	answer_message(s, token, false);
	assert_false(may_send_message(s));
	assert_int_equal(transmit(s), 2);	/* the READ, and the SEND behind it */
	station_free(s);
}

static void no_message_is_sent_while_a_packet_is_unanswered(void **state)
{
	struct station *s = station_inside();

	post(s, IBV_WR_SEND, 1, 8);
	assert_int_equal(transmit(s), 1);
	post(s, IBV_WR_SEND, 2, 8);
	assert_false(may_send_message(s));
	receive_ack(s, OUR_PSN);
	assert_true(may_send_message(s));
	post_and_send(s, IBV_WR_SEND, 3, 8, 9);	/* sends 2 */
	answer_message(s, 9, false);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_fenced_send_waits_for_the_read_before_it(void **state)
{
	struct station *s = station_inside();
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	post(s, IBV_WR_RDMA_READ, 1, 8);
	request_init(&wr, &sge, s, IBV_WR_SEND, 2, 8);
	wr.send_flags |= IBV_SEND_FENCE;
	post_wr(s, &wr);
	assert_false(may_send_message(s));
	assert_int_equal(transmit(s), 1);
	assert_false(may_send_message(s));
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	assert_true(may_send_message(s));
	station_free(s);
}

/* In an RNR wait too: all that was refused goes as packets, in order. */
static void no_message_is_sent_while_receives_are_waited_for(void **state)
{
	struct station *s = station_inside();

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	receive_nak(s, OUR_PSN, AETH_RNR, 12);
	post(s, IBV_WR_SEND, 2, 8);
	assert_false(may_send_message(s));
	pass_time(s, 10 * MILLISECOND);
	assert_int_equal(transmit(s), 1);
	assert_false(may_send_message(s));
	receive_ack(s, OUR_PSN);
	assert_int_equal(transmit(s), 1);	/* the other one was begun with it */
	post(s, IBV_WR_SEND, 3, 8);
	assert_false(may_send_message(s));
	receive_ack(s, OUR_PSN + 1);
	assert_true(may_send_message(s));
	station_free(s);
}

static void requests_that_need_packets_wait_for_messages(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x99 };

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post(s, IBV_WR_RDMA_READ, 2, 8);
	/* A thread has to check whether it can be sent as a message. */
	assert_true(transport_posted_send(&s->qp, s->now_ns, &s->effects));
	assert_false(may_send_message(s));
	expect_silence(s);
	assert_false(transport_ready(&s->qp));
	answer_message(s, 1, false);
	assert_true(transport_ready(&s->qp));
	assert_false(may_send_message(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_REQUEST, OUR_PSN);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	/* A local one is done in its turn, and may fail then. */
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	post_wr(s, &wr);
	expect_silence(s);
	expect_no_wc(&s->send_cq);
	answer_message(s, 2, false);
	expect_silence(s);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 3, IBV_WC_MW_BIND_ERR);
	station_free(s);
}

/* ---- what is said ---- */

static struct local_message head_of(struct station *s, struct ibv_send_wr *wr,
				    bool rendezvous) UNCHECKED_LOCKS
{
	uint32_t head[MESSAGE_WORDS];
	struct local_message message;
	struct send_wqe *wqe;
	uint32_t bytes;

	post_wr(s, wr);
	wqe = transport_message_next(&s->qp);
	transport_message_head(&s->qp, wqe, rendezvous, head);
	bytes = (uint32_t)message_target_bytes(&s->qp, wqe) +
		(rendezvous ? wqe->sge_count * (uint32_t)sizeof(struct message_piece)
			    : wqe->length);
	transport_message_sent(&s->qp, wqe, 1, s->now_ns);
	assert_true(message_parse(head, some_bytes, bytes, &message));
	answer_message(s, 1, false);
	return message;
}

static void a_head_says_what_the_request_says(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						      IBV_WR_SEND_WITH_INV,
						      IBV_WR_RDMA_WRITE_WITH_IMM };
	static const unsigned expected[] = { 0, MESSAGE_IMM, MESSAGE_INVALIDATE,
					     MESSAGE_IMM | MESSAGE_WRITE };
	struct station *s = station_inside();
	unsigned i, solicited;

	for (i = 0; i < 8; i++) {
		enum ibv_wr_opcode opcode = opcodes[i / 2];
		struct local_message message;
		struct ibv_send_wr wr;
		struct ibv_sge sge[4];

		solicited = i & 1;
		request_init(&wr, sge, s, opcode, i, 1000);
		sge[1] = station_sge(s, 0, 24);
		wr.num_sge = 2;
		wr.imm_data = __builtin_bswap32(0x01020304);
		wr.send_flags |= solicited ? IBV_SEND_SOLICITED : 0;
		message = head_of(s, &wr, false);
		assert_int_equal(message.flags,
				 expected[i / 2] | (solicited ? MESSAGE_SOLICITED : 0u));
		assert_int_equal(message.grant, PEER_GRANT);
		assert_int_equal(message.source_qpn, OUR_QPN);
		assert_int_equal(message.sequence, i);
		assert_int_equal(message.piece_count, 2);
		assert_int_equal(message.length, 1024);
		if (opcode == IBV_WR_SEND_WITH_INV)
			assert_int_equal(message.imm, wr.invalidate_rkey);
		else if (opcode != IBV_WR_SEND)
			assert_int_equal(message.imm, 0x01020304);
	}
	station_free(s);
}

static void a_head_keeps_large_numbers_apart(void **state)
{
	struct station *s = station_inside();
	struct local_message message;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	s->qp.pairing.theirs = UINT32_MAX;
	s->qp.requester.message_sequence = 0xffffff;
	request_init(&wr, &sge, s, IBV_WR_SEND_WITH_INV, 1, 8);
	wr.invalidate_rkey = UINT32_MAX;
	message = head_of(s, &wr, true);
	assert_int_equal(message.grant, UINT32_MAX);
	assert_int_equal(message.source_qpn, OUR_QPN);
	assert_int_equal(message.piece_count, 1);
	assert_int_equal(message.sequence, 0xffffff);
	assert_int_equal(message.flags, MESSAGE_RENDEZVOUS | MESSAGE_INVALIDATE);
	assert_int_equal(message.imm, UINT32_MAX);
	/* It comes round again, without a carry into its neighbour. */
	message = head_of(s, &wr, false);
	assert_int_equal(message.sequence, 0);
	assert_int_equal(message.flags, MESSAGE_INVALIDATE);
	station_free(s);
}

static void data_is_gathered_from_sges_and_inline(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	struct carried carried;
	struct ibv_send_wr wr;
	struct ibv_sge sge[3];

	memcpy(s->memory + 5000, "the quick ", 10);
	memcpy(s->memory + 9000, "brown fox", 9);
	request_init(&wr, sge, s, IBV_WR_SEND, 1, 0);
	sge[0] = station_sge(s, 5000, 10);
	sge[1] = station_sge(s, 0, 0);
	sge[2] = station_sge(s, 9000, 9);
	wr.num_sge = 3;
	post_wr(s, &wr);
	send_message(s, 1, &carried);
	assert_int_equal(carried.head[4], 19);
	assert_memory_equal(carried.data, "the quick brown fox", 19);
	wr.send_flags |= IBV_SEND_INLINE;
	post_wr(s, &wr);
	memset(s->memory + 5000, 'x', 10);	/* it was taken when it was posted */
	send_message(s, 2, &carried);
	assert_memory_equal(carried.data, "the quick brown fox", 19);
	/* A key that is not valid: it will fail in its turn, as packets. */
	wr.send_flags &= ~IBV_SEND_INLINE;
	sge[2].lkey ^= 0x5555;
	post_wr(s, &wr);
	assert_false(transport_gather(&s->qp, transport_message_next(&s->qp), carried.data));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	answer_message(s, 1, false);
	answer_message(s, 2, false);
	expect_silence(s);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	station_free(s);
}

/* ---- answers ---- */

static void an_unsignaled_request_completes_silently(void **state)
{
	struct station *s = station_inside();
	struct carried carried;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND, 1, 8);
	wr.send_flags = 0;
	post_wr(s, &wr);
	send_message(s, 1, &carried);
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	answer_message(s, 1, false);
	expect_no_wc(&s->send_cq);
	answer_message(s, 2, false);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	station_free(s);
}

static void answers_to_messages_not_sent_are_ignored(void **state)
{
	struct station *s = station_inside();

	answer_message(s, 0, false);
	answer_message(s, 0, true);
	post_and_send(s, IBV_WR_SEND, 1, 8, 7);
	post_and_send(s, IBV_WR_SEND, 2, 8, 8);
	answer_message(s, 6, false);
	answer_message(s, 6, true);
	answer_message(s, 8, false);
	answer_message(s, UINT32_MAX, true);
	answer_message(s, 1ull << 32 | 7, false);	/* in another channel */
	answer_message(s, 1ull << 32 | 7, true);
	expect_no_wc(&s->send_cq);
	answer_message(s, 7, false);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	answer_message(s, 7, false);
	expect_no_wc(&s->send_cq);
	answer_message(s, 8, false);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	answer_message(s, 8, true);
	expect_silence(s);
	station_free(s);
}

static void what_is_carried_out_without_packets_is_counted(void **state)
{
	struct station *s = station_inside();

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post_and_send(s, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 8, 2);
	post_and_send(s, IBV_WR_SEND, 3, 8, 3);
	post_and_send(s, IBV_WR_RDMA_WRITE, 4, 8, 4);
	assert_int_equal(station_counter(s, COUNTER_LOCAL_SEND), 0);
	answer_message(s, 1, false);
	answer_message(s, 2, false);
	answer_message(s, 3, true);
	answer_message(s, 4, true);
	assert_int_equal(station_counter(s, COUNTER_LOCAL_SEND), 1);
	assert_int_equal(station_counter(s, COUNTER_LOCAL_WRITE), 1);
	assert_int_equal(station_counter(s, COUNTER_MESSAGE_REFUSED), 2);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	station_free(s);
}

/* Of @messages messages, number @refused and those behind it are refused. */
static void refuse_from(uint32_t messages, uint32_t refused)
{
	struct station *s = station_inside();
	struct carried carried;
	uint32_t i;

	for (i = 0; i < messages; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, 10 + i);
	for (i = 0; i < messages; i++) {
		expect_silence(s);
		answer_message(s, 10 + i, i >= refused);
		if (i == refused)
			post(s, IBV_WR_SEND, 99, 8);
		if (i < refused)
			expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);
		else
			expect_no_wc(&s->send_cq);
		/* No message is sent between them: its place is behind. */
		if (i >= refused && i < messages - 1)
			assert_false(may_send_message(s));
	}
	assert_int_equal(s->qp.requester.message_sequence, refused);
	/* It goes as packets, although nothing is unanswered. */
	assert_false(may_send_message(s));
	assert_int_equal(transmit(s), messages - refused + 1);
	for (i = refused; i <= messages; i++)
		expect_sent(s, i - refused, OPCODE_RC_SEND_ONLY, OUR_PSN + i - refused);
	post(s, IBV_WR_SEND, 100, 8);
	assert_false(may_send_message(s));
	receive_ack(s, OUR_PSN + messages - refused);
	for (i = refused; i < messages; i++)
		expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 99, IBV_WC_SUCCESS);
	/* The next message is the first that the peer has not received. */
	send_message(s, 50, &carried);
	assert_int_equal(carried.head[2] & PSN_MASK, refused);
	answer_message(s, 50, false);
	expect_wc(&s->send_cq, 100, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	station_free(s);
}

static void what_is_refused_goes_as_packets_with_all_behind_it(void **state)
{
	uint32_t messages, refused;

	for (messages = 1; messages <= 4; messages++)
		for (refused = 0; refused < messages; refused++)
			refuse_from(messages, refused);
}

/* The peer refuses all behind one that it refused. If it says it did not, it is not believed. */
static void what_follows_a_refused_one_counts_as_refused(void **state)
{
	struct station *s = station_inside();

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	answer_message(s, 1, true);
	answer_message(s, 2, false);
	expect_no_wc(&s->send_cq);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	expect_sent(s, 1, OPCODE_RC_SEND_ONLY, OUR_PSN + 1);
	receive_ack(s, OUR_PSN + 1);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_full_cq_fails_the_qp(void **state)
{
	struct station *s = station_inside();
	uint32_t i;

	cq_fini(&s->send_cq);
	memset(&s->send_cq, 0, sizeof(s->send_cq));
	assert_int_equal(cq_init(&s->send_cq, 2), 0);
	for (i = 0; i < 4; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, i);
	for (i = 0; i < 4; i++)
		answer_message(s, i, false);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_true(station_counter(s, COUNTER_CQ_OVERFLOW) >= 1);
	assert_true(event_pending(s, QP_EVENT_FATAL));
	expect_wc(&s->send_cq, 0, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sends_are_messages_and_others_are_not),
		TEST(only_an_rc_qp_in_rts_sends_messages),
		TEST(several_are_sent_before_the_first_is_answered),
		TEST(writes_are_messages_behind_messages),
		TEST(where_messages_stall_packets_are_sent),
		TEST(no_message_is_sent_while_a_packet_is_unanswered),
		TEST(a_fenced_send_waits_for_the_read_before_it),
		TEST(no_message_is_sent_while_receives_are_waited_for),
		TEST(requests_that_need_packets_wait_for_messages),
		TEST(a_head_says_what_the_request_says),
		TEST(a_head_keeps_large_numbers_apart),
		TEST(data_is_gathered_from_sges_and_inline),
		TEST(an_unsignaled_request_completes_silently),
		TEST(what_is_carried_out_without_packets_is_counted),
		TEST(answers_to_messages_not_sent_are_ignored),
		TEST(what_is_refused_goes_as_packets_with_all_behind_it),
		TEST(what_follows_a_refused_one_counts_as_refused),
		TEST(a_full_cq_fails_the_qp),
	};

	return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
