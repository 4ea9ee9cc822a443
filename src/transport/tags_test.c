/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs to a tag-matching SRQ: what a header brings about, by packets and by messages inside a host. */
#include "object/tag_list.h"
#include "transport/message_test_support.h"
#include "wire/tag_header.h"

#define THEIR_ADDRESS	0x123456789abcull
#define THEIR_RKEY	0x4455u

static uint8_t message_bytes[4096];

/* The station's QP takes its receives from a tag-matching SRQ, and sends by itself, as device/qp.c does it. */
static struct station *station_of_tags(void) UNCHECKED_LOCKS
{
	struct station *s = station_new(IBV_QPT_RC);
	struct srq *srq = calloc(1, sizeof(*srq));

	assert_non_null(srq);
	assert_int_equal(recv_queue_init(&srq->queue, 16, 1), 0);
	srq->tags = tag_list_new(8, 8);
	assert_non_null(srq->tags);
	srq->cq = &s->recv_cq;
	srq->pd = s->pd.number;
	s->qp.srq = srq;
	transport_fini(&s->qp);
	assert_int_equal(transport_init(&s->qp), 0);
	s->qp.sends_itself = true;
	s->qp.route.loopback = true;
	station_reserve(s, s->qp.attr.max_dest_rd_atomic);
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	agree(s);
	return s;
}

static void station_of_tags_free(struct station *s)
{
	struct srq *srq = s->qp.srq;

	station_free(s);
	free(srq->tags);
	recv_queue_fini(&srq->queue);
	free(srq);
}

static void add_tag(struct station *s, uint64_t tag, uint64_t wr_id, size_t bytes)
{
	struct ibv_sge sge = station_sge(s, wr_id * 1024, bytes);
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD, .tm.add = { .recv_wr_id = wr_id, .sg_list = &sge,
				 .num_sge = 1, .tag = tag, .mask = UINT64_MAX } }, *bad;

	assert_int_equal(srq_post_ops(s->qp.srq, &wr, &bad, 1, &s->effects), 0);
}

static void post_untagged(struct station *s, uint64_t wr_id, size_t bytes)
{
	struct ibv_sge sge = station_sge(s, wr_id * 1024, bytes);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(srq_post(s->qp.srq, &wr, &bad), 0);
}

static void write_header(uint8_t operation, uint64_t tag, uint32_t length)
{
	for (unsigned i = 0; i < sizeof(message_bytes); i++)
		message_bytes[i] = (uint8_t)(i * 7 + 1);
	memset(message_bytes, 0, TAG_HEADER_BYTES);
	message_bytes[0] = operation;
	put_be32(message_bytes + 4, 0xc0ffee);
	put_be64(message_bytes + 8, tag);
	if (operation != TAG_RENDEZVOUS)
		return;
	put_be64(message_bytes + 16, THEIR_ADDRESS);
	put_be32(message_bytes + 24, THEIR_RKEY);
	put_be32(message_bytes + 28, length);
}

static void receive_part(struct station *s, uint8_t code, uint32_t psn, size_t from, size_t bytes)
{
	struct packet packet = packet_of(code, psn);

	packet.payload = message_bytes + from;
	packet.payload_bytes = bytes;
	packet.ack_request = opcode_ends(packet.op);
	receive(s, &packet);
}

static struct completion take_completion(struct station *s)
{
	struct completion completion;

	assert_int_equal(cq_take_one(&s->recv_cq, &completion), 1);
	return completion;
}

static void expect_tm(struct station *s, uint64_t wr_id, enum ibv_wc_opcode opcode, unsigned flags, uint32_t bytes)
{
	struct completion completion = take_completion(s);

	assert_int_equal(completion.wc.status, IBV_WC_SUCCESS);
	assert_int_equal(completion.wc.wr_id, wr_id);
	assert_int_equal(completion.wc.opcode, opcode);
	assert_int_equal(completion.wc.wc_flags, flags);
	assert_int_equal(completion.wc.byte_len, bytes);
	if (!(flags & IBV_WC_TM_MATCH))
		return;
	assert_int_equal(completion.tag, 0x77);
	assert_int_equal(completion.wc.src_qp, 0xc0ffee);
}

/* ---- eager ---- */

static void an_eager_message_lands_without_its_header(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x76, 1, 100);
	add_tag(s, 0x77, 2, 100);
	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 116);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 100);
	assert_memory_equal(s->memory + 2048, message_bytes + TAG_HEADER_BYTES, 100);
	assert_int_equal(s->memory[2048 + 100], 0);
	expect_no_wc(&s->recv_cq);
	station_of_tags_free(s);
}

static void one_of_several_packets_says_first_that_it_matched(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x77, 2, 3000);
	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_FIRST, PEER_PSN, 0, MTU);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 0);
	receive_part(s, OPCODE_RC_SEND_MIDDLE, PEER_PSN + 1, MTU, MTU);
	expect_no_wc(&s->recv_cq);
	receive_part(s, OPCODE_RC_SEND_LAST, PEER_PSN + 2, (size_t)2 * MTU, 500);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 2 * MTU + 500 - TAG_HEADER_BYTES);
	assert_memory_equal(s->memory + 2048, message_bytes + TAG_HEADER_BYTES, 2 * MTU + 500 - TAG_HEADER_BYTES);
	station_of_tags_free(s);
}

static void an_eager_message_of_no_data_needs_no_buffer(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x77, 2, 0);
	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, TAG_HEADER_BYTES);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 0);
	station_of_tags_free(s);
}

static void an_eager_message_longer_than_its_buffer_ends_the_qp(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x77, 2, 99);
	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 116);
	expect_wc(&s->recv_cq, 2, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_of_tags_free(s);
}

/* ---- without a match ---- */

static void a_message_without_a_match_is_unexpected_and_whole(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x78, 1, 200);
	post_untagged(s, 3, 200);
	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 116);
	expect_tm(s, 3, IBV_WC_TM_RECV, 0, 116);
	assert_memory_equal(s->memory + 3 * 1024, message_bytes, 116);
	assert_int_equal(tag_list_behind(s->qp.srq->tags), 1);
	station_of_tags_free(s);
}

static void without_a_receive_it_is_not_counted_yet(void **state)
{
	struct station *s = station_of_tags();

	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 116);
	assert_int_equal(station_counter(s, COUNTER_TX_RNR_NAK), 1);
	assert_int_equal(tag_list_behind(s->qp.srq->tags), 0);
	add_tag(s, 0x77, 2, 100);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 116);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 100);
	station_of_tags_free(s);
}

static void messages_without_a_tag_are_not_counted(void **state)
{
	static const struct { uint8_t operation; size_t bytes; } rows[] = {
		{ TAG_NO_TAG, 100 }, { TAG_NO_TAG, 1 }, { TAG_FIN, 32 },
		{ TAG_EAGER, 15 }, { TAG_RENDEZVOUS, 31 }, { TAG_RENDEZVOUS, 65 }, { 4, 100 }, { 255, 100 },
	};
	struct station *s = station_of_tags();
	unsigned n = sizeof(rows) / sizeof(rows[0]);

	add_tag(s, 0x77, 1, 200);
	for (unsigned i = 0; i < n; i++) {
		post_untagged(s, 3, 200);
		write_header(rows[i].operation, 0x77, 10);
		receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN + i, 0, rows[i].bytes);
		expect_tm(s, 3, IBV_WC_TM_NO_TAG, 0, (uint32_t)rows[i].bytes);
	}
	post_untagged(s, 3, 200);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN + n, 0, 0);
	expect_tm(s, 3, IBV_WC_TM_NO_TAG, 0, 0);
	assert_int_equal(tag_list_behind(s->qp.srq->tags), 0);
	assert_non_null(tag_list_find(s->qp.srq->tags, 0x77));
	station_of_tags_free(s);
}

static void an_unexpected_message_that_did_not_end_is_not_counted(void **state)
{
	struct station *s = station_of_tags();

	post_untagged(s, 3, 4000);
	write_header(TAG_EAGER, 0x77, 0);
	receive_part(s, OPCODE_RC_SEND_FIRST, PEER_PSN, 0, MTU);
	assert_int_equal(tag_list_behind(s->qp.srq->tags), 1);
	station_move(s, IBV_QPS_ERR);
	expect_wc(&s->recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(tag_list_behind(s->qp.srq->tags), 0);
	station_of_tags_free(s);
}

/* ---- rendezvous ---- */

static void answer_read(struct station *s, uint32_t psn, size_t bytes)
{
	struct packet packet = packet_of(OPCODE_RC_READ_RESPONSE_ONLY, psn);

	packet.payload = message_bytes;
	packet.payload_bytes = bytes;
	packet.aeth.syndrome = aeth_syndrome(AETH_ACK, AETH_CREDITS_INVALID);
	receive(s, &packet);
}

static void a_match_of_a_rendezvous_is_read_and_then_finished(void **state)
{
	struct station *s = station_of_tags();
	struct packet packet;

	add_tag(s, 0x77, 2, 600);
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 40);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 500);
	transmit(s);
	packet = sent(s, 0);
	assert_string_equal(packet.op->name, opcode_get(OPCODE_RC_READ_REQUEST)->name);
	assert_int_equal(packet.reth.address, THEIR_ADDRESS);
	assert_int_equal(packet.reth.rkey, THEIR_RKEY);
	assert_int_equal(packet.reth.length, 500);
	for (unsigned i = 1; i < s->batch->count; i++)	/* an ACK: FIN waits for the data */
		assert_string_equal(sent(s, i).op->name, opcode_get(OPCODE_RC_ACKNOWLEDGE)->name);
	answer_read(s, OUR_PSN, 500);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 500);
	assert_memory_equal(s->memory + 2048, message_bytes, 500);
	assert_int_equal(transmit(s), 1);
	packet = sent(s, 0);
	assert_string_equal(packet.op->name, opcode_get(OPCODE_RC_SEND_ONLY)->name);
	assert_int_equal(packet.payload_bytes, TAG_RENDEZVOUS_BYTES);
	assert_int_equal(packet.payload[0], TAG_FIN);
	assert_memory_equal(packet.payload + 1, message_bytes + 1, TAG_RENDEZVOUS_BYTES - 1);
	receive_ack(s, OUR_PSN + 1);
	assert_int_equal(s->qp.sq.head, s->qp.sq.tail);
	expect_no_wc(&s->recv_cq);
	expect_no_wc(&s->send_cq);
	station_of_tags_free(s);
}

/* The READ that the QP posts by itself is for a buffer of the SRQ, whatever the QP's protection domain is. */
static void buffers_are_of_the_protection_domain_of_the_srq(void **state)
{
	for (int right = 0; right < 2; right++) {
		struct station *s = station_of_tags();

		if (right)
			s->pd.number = 2;	/* the QP's; memory and SRQ have that from before */
		else
			s->qp.srq->pd = 2;
		add_tag(s, 0x77, 2, 600);
		write_header(TAG_RENDEZVOUS, 0x77, 500);
		receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 40);
		expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 500);
		transmit(s);
		if (right) {
			answer_read(s, OUR_PSN, 500);
			expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 500);
			assert_memory_equal(s->memory + 2048, message_bytes, 500);
		} else {
			assert_int_equal(take_completion(s).wc.status, IBV_WC_LOC_PROT_ERR);
		}
		station_of_tags_free(s);

		s = station_of_tags();
		if (right)
			s->pd.number = 2;
		else
			s->qp.srq->pd = 2;
		add_tag(s, 0x77, 2, 100);
		write_header(TAG_EAGER, 0x77, 0);
		receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 116);
		if (right)
			expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 100);
		else
			assert_int_equal(take_completion(s).wc.status, IBV_WC_LOC_PROT_ERR);
		station_of_tags_free(s);
	}
}

static void expect_incomplete(struct station *s)
{
	struct completion completion;

	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 40);
	completion = take_completion(s);
	assert_int_equal(completion.wc.status, IBV_WC_TM_RNDV_INCOMPLETE);
	assert_int_equal(completion.wc.wr_id, 2);
	assert_int_equal(completion.wc.byte_len, 40);
	assert_int_equal(completion.tag, 0x77);
	assert_memory_equal(s->memory + 2048, message_bytes, 40);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	assert_int_equal(s->qp.sq.head, s->qp.sq.tail);
	station_of_tags_free(s);
}

static void a_buffer_too_small_for_a_rendezvous_gets_the_headers(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x77, 2, 499);
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	expect_incomplete(s);
}

static void a_qp_whose_sends_are_the_applications_reads_nothing(void **state)
{
	struct station *s = station_of_tags();

	s->qp.sends_itself = false;
	add_tag(s, 0x77, 2, 500);
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	expect_incomplete(s);
}

static void more_than_a_message_may_have_is_not_read(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x77, 2, 500);
	write_header(TAG_RENDEZVOUS, 0x77, UINT32_MAX);
	expect_incomplete(s);
}

static void rendezvous_beyond_the_room_of_the_send_queue_waits(void **state)
{
	struct station *s = station_of_tags();

	for (unsigned i = 0; i < 8; i++)
		add_tag(s, 0x77, 2, 500);
	s->qp.sq.size = 4;
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	for (unsigned i = 0; i < 3; i++)
		receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN + i, 0, 32);
	assert_int_equal(station_counter(s, COUNTER_TX_RNR_NAK), 1);
	assert_int_equal(s->qp.sq.head - s->qp.sq.tail, 4);
	s->qp.sq.size = 64;
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN + 2, 0, 32);
	assert_int_equal(s->qp.sq.head - s->qp.sq.tail, 6);
	station_of_tags_free(s);
}

static void a_read_that_fails_completes_its_tag(void **state)
{
	struct station *s = station_of_tags();

	add_tag(s, 0x77, 2, 500);
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	receive_part(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 0, 32);
	take_completion(s);
	transmit(s);
	receive_nak(s, OUR_PSN, AETH_NAK, NAK_ACCESS);
	expect_wc(&s->recv_cq, 2, IBV_WC_REM_ACCESS_ERR);
	expect_no_wc(&s->recv_cq);
	station_of_tags_free(s);
}

static void the_application_cannot_send_by_such_a_qp(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_of_tags();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	assert_int_equal(qp_post_send(&s->qp, &wr, &bad), EINVAL);
	station_of_tags_free(s);
}

/* ---- inside a host ---- */

static struct local_message tag_message(struct station *s, uint32_t bytes)
{
	struct local_message message = next_message(s, bytes);

	message.data = message_bytes;
	return message;
}

static void a_message_inside_the_host_is_matched_as_well(void **state)
{
	struct station *s = station_of_tags();
	struct local_message message;

	add_tag(s, 0x77, 2, 3000);
	post_untagged(s, 3, 200);
	write_header(TAG_EAGER, 0x77, 0);
	message = tag_message(s, 3000);
	assert_int_equal(receive_message(s, &message), MESSAGE_EXECUTED);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 3000 - TAG_HEADER_BYTES);
	assert_memory_equal(s->memory + 2048, message_bytes + TAG_HEADER_BYTES, 3000 - TAG_HEADER_BYTES);
	message = tag_message(s, 100);
	assert_int_equal(receive_message(s, &message), MESSAGE_EXECUTED);
	expect_tm(s, 3, IBV_WC_TM_RECV, 0, 100);
	add_tag(s, 0x77, 2, 500);	/* asleep: the last message is not reported */
	post_untagged(s, 3, 200);
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	message = tag_message(s, 32);
	assert_int_equal(receive_message(s, &message), MESSAGE_EXECUTED);
	expect_tm(s, 3, IBV_WC_TM_RECV, 0, 32);
	station_of_tags_free(s);
}

static void a_rendezvous_inside_the_host_posts_its_read(void **state)
{
	struct station *s = station_of_tags();
	struct local_message message;

	add_tag(s, 0x77, 2, 500);
	write_header(TAG_RENDEZVOUS, 0x77, 500);
	message = tag_message(s, 64);
	assert_int_equal(receive_message(s, &message), MESSAGE_EXECUTED);
	expect_tm(s, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 500);
	assert_int_equal(s->qp.sq.head - s->qp.sq.tail, 2);
	assert_int_equal(send_queue_at(&s->qp.sq, 0)->opcode, IBV_WR_RDMA_READ);
	station_of_tags_free(s);
}

/* Its header is not there to be looked at. */
static void a_message_whose_data_is_elsewhere_comes_as_packets(void **state)
{
	struct station *s = station_of_tags();
	struct local_message message = next_message(s, 100000);

	add_tag(s, 0x77, 2, 500);
	message.flags = MESSAGE_RENDEZVOUS;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	assert_false(s->qp.responder.recv_taken);
	station_of_tags_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_eager_message_lands_without_its_header),
		TEST(one_of_several_packets_says_first_that_it_matched),
		TEST(an_eager_message_of_no_data_needs_no_buffer),
		TEST(an_eager_message_longer_than_its_buffer_ends_the_qp),
		TEST(a_message_without_a_match_is_unexpected_and_whole),
		TEST(without_a_receive_it_is_not_counted_yet),
		TEST(messages_without_a_tag_are_not_counted),
		TEST(an_unexpected_message_that_did_not_end_is_not_counted),
		TEST(a_match_of_a_rendezvous_is_read_and_then_finished),
		TEST(buffers_are_of_the_protection_domain_of_the_srq),
		TEST(a_buffer_too_small_for_a_rendezvous_gets_the_headers),
		TEST(a_qp_whose_sends_are_the_applications_reads_nothing),
		TEST(more_than_a_message_may_have_is_not_read),
		TEST(rendezvous_beyond_the_room_of_the_send_queue_waits),
		TEST(a_read_that_fails_completes_its_tag),
		TEST(the_application_cannot_send_by_such_a_qp),
		TEST(a_message_inside_the_host_is_matched_as_well),
		TEST(a_rendezvous_inside_the_host_posts_its_read),
		TEST(a_message_whose_data_is_elsewhere_comes_as_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
