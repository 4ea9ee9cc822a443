/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH and ATOMIC_WRITE (IBTA annex A19), at both ends. */
#include "transport/test_support.h"

static void post_flush(struct station *s, uint64_t wr_id, uint32_t bytes, uint64_t how)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = (enum ibv_wr_opcode)WR_FLUSH,
				  .send_flags = IBV_SEND_SIGNALED | SEND_BUILT };

	wr.wr.atomic.remote_addr = 0x10000;
	wr.wr.atomic.rkey = 0x77;
	wr.wr.atomic.compare_add = bytes;
	wr.wr.atomic.swap = how;
	post_wr(s, &wr);
}

static struct packet flush_packet(const struct station *s, uint32_t psn, uint8_t level)
{
	struct packet packet = packet_of(OPCODE_RC_FLUSH, psn);

	packet.feth.type = FLUSH_GLOBAL;
	packet.feth.level = level;
	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = s->mr.ibv.rkey;
	packet.reth.length = 64;
	return packet;
}

static struct packet word_packet(const struct station *s, uint32_t psn, size_t offset, const uint64_t *word)
{
	struct packet packet = packet_of(OPCODE_RC_ATOMIC_WRITE, psn);

	packet.payload = (const uint8_t *)word;
	packet.payload_bytes = packet.reth.length = PLACEMENT_WORD;
	packet.reth.address = (uintptr_t)s->memory + offset;
	packet.reth.rkey = s->mr.ibv.rkey;
	return packet;
}

static uint64_t word_at(const struct station *s, size_t offset)
{
	uint64_t word;

	memcpy(&word, s->memory + offset, sizeof(word));
	return word;
}

static void expect_placed(struct station *s, uint32_t psn)
{
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_READ_RESPONSE_ONLY, psn);
	assert_int_equal(sent(s, 0).payload_bytes, 0);
}

static void expect_refused(struct station *s, uint32_t psn, enum nak_code code)
{
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, psn);
	assert_int_equal(sent(s, 0).aeth.syndrome, aeth_syndrome(AETH_NAK, (uint8_t)code));
	expect_silence(s);
}

/* ---- requester ---- */

static void a_flush_names_what_and_how(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet;
	struct ibv_wc wc;

	post_flush(s, 1, 4096, FLUSH_LEVEL_MR << 8 | FLUSH_GLOBAL);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_FLUSH, OUR_PSN);
	packet = sent(s, 0);
	assert_int_equal(packet.feth.type, FLUSH_GLOBAL);
	assert_int_equal(packet.feth.level, FLUSH_LEVEL_MR);
	assert_int_equal(packet.reth.address, 0x10000);
	assert_int_equal(packet.reth.rkey, 0x77);
	assert_int_equal(packet.reth.length, 4096);
	assert_int_equal(packet.payload_bytes, 0);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 0);
	wc = expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, WC_FLUSH);
	station_free(s);
}

static void an_atomic_write_carries_its_word(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	memcpy(s->memory + 1024, some_bytes, PLACEMENT_WORD);
	post(s, (enum ibv_wr_opcode)WR_ATOMIC_WRITE, 1, PLACEMENT_WORD);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ATOMIC_WRITE, OUR_PSN);
	assert_int_equal(sent(s, 0).reth.length, PLACEMENT_WORD);
	assert_int_equal(sent(s, 0).payload_bytes, PLACEMENT_WORD);
	assert_memory_equal(sent(s, 0).payload, some_bytes, PLACEMENT_WORD);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 0);
	wc = expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, WC_ATOMIC_WRITE);
	station_free(s);
}

/* An ACK alone says that the peer received it, not that it is placed: the response is missing. */
static void an_ack_is_no_answer(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_flush(s, 1, 8, FLUSH_GLOBAL);
	post(s, IBV_WR_SEND, 2, 8);
	transmit(s);
	receive_ack(s, OUR_PSN + 1);
	expect_no_wc(&s->send_cq);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_FLUSH, OUR_PSN);
	station_free(s);
}

static void a_response_with_data_is_a_bad_one(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_flush(s, 1, 8, FLUSH_GLOBAL);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_LEN_ERR);
	station_free(s);
}

static void they_count_towards_max_rd_atomic(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	unsigned i;

	for (i = 0; i < 6; i++)
		post_flush(s, i, 8, FLUSH_GLOBAL);
	assert_int_equal(transmit(s), 4);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 0);
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

/* ---- responder ---- */

static void what_is_placed_is_answered_without_data(void **state)
{
	const uint64_t word = 0x1122334455667788;
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = word_packet(s, PEER_PSN, 64, &word);

	receive(s, &packet);
	expect_placed(s, PEER_PSN);
	assert_true(word_at(s, 64) == word);
	packet = flush_packet(s, PEER_PSN + 1, FLUSH_LEVEL_RANGE);
	receive(s, &packet);
	expect_placed(s, PEER_PSN + 1);
	assert_int_equal(sent(s, 0).aeth.msn, 2);
	station_free(s);
}

static void a_duplicate_is_answered_and_not_stored_again(void **state)
{
	const uint64_t words[] = { 1, 2 };
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet[] = { word_packet(s, PEER_PSN, 0, &words[0]),
				   word_packet(s, PEER_PSN + 1, 0, &words[1]) };

	receive(s, &packet[0]);
	receive(s, &packet[1]);
	assert_int_equal(transmit(s), 2);
	receive(s, &packet[0]);
	expect_placed(s, PEER_PSN);
	assert_int_equal(word_at(s, 0), 2);
	station_free(s);
}

/* Of another kind: not the request that it was. */
static void a_duplicate_of_something_else_is_dropped(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = flush_packet(s, PEER_PSN + 1, FLUSH_LEVEL_RANGE);

	receive_fetch_add(s, PEER_PSN, 0, 1);
	assert_int_equal(transmit(s), 1);
	receive(s, &packet);
	expect_placed(s, PEER_PSN + 1);
	packet.psn = PEER_PSN;
	receive(s, &packet);
	expect_silence(s);
	station_free(s);
}

static void all_of_a_region_has_no_range(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_MR);

	packet.reth.address = 1;
	packet.reth.length = MESSAGE_BYTES_MAX;
	receive(s, &packet);
	expect_placed(s, PEER_PSN);
	packet.psn++;
	packet.reth.rkey ^= 1;
	receive(s, &packet);
	expect_refused(s, PEER_PSN + 1, NAK_ACCESS);
	station_free(s);
}

static void refused(const struct packet *packet, struct station *s, enum nak_code nak)
{
	receive(s, packet);
	expect_refused(s, PEER_PSN, nak);
	station_free(s);
}

static void what_is_wrong_with_a_flush(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_RANGE);

	packet.reth.length = MEMORY_BYTES + 1;
	refused(&packet, s, NAK_ACCESS);

	s = station_rts(IBV_QPT_RC);
	packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_MR + 1);
	refused(&packet, s, NAK_INVALID);

	s = station_rts(IBV_QPT_RC);
	packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_RANGE);
	packet.feth.type = 0;
	refused(&packet, s, NAK_INVALID);

	s = station_rts(IBV_QPT_RC);
	packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_RANGE);
	packet.feth.type |= FLUSH_PERSISTENT;
	refused(&packet, s, NAK_INVALID);

	/* A QP may permit it; no region grants it. */
	s = station_rts(IBV_QPT_RC);
	packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_MR);
	packet.feth.type |= FLUSH_PERSISTENT;
	s->qp.attr.qp_access_flags |= ACCESS_FLUSH_PERSISTENT;
	refused(&packet, s, NAK_ACCESS);

	s = station_rts(IBV_QPT_RC);
	packet = flush_packet(s, PEER_PSN, FLUSH_LEVEL_RANGE);
	s->qp.attr.qp_access_flags &= ~ACCESS_FLUSH_GLOBAL;
	refused(&packet, s, NAK_INVALID);
}

static void what_is_wrong_with_an_atomic_write(void **state)
{
	const uint64_t word = 9;
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = word_packet(s, PEER_PSN, 4, &word);

	refused(&packet, s, NAK_INVALID);

	s = station_rts(IBV_QPT_RC);
	packet = word_packet(s, PEER_PSN, 0, &word);
	packet.payload_bytes = 4;
	refused(&packet, s, NAK_INVALID);

	s = station_rts(IBV_QPT_RC);
	packet = word_packet(s, PEER_PSN, 0, &word);
	packet.reth.length = 16;
	refused(&packet, s, NAK_INVALID);

	s = station_rts(IBV_QPT_RC);
	packet = word_packet(s, PEER_PSN, 0, &word);
	packet.reth.rkey ^= 1;
	refused(&packet, s, NAK_ACCESS);

	s = station_rts(IBV_QPT_RC);
	packet = word_packet(s, PEER_PSN, 0, &word);
	s->qp.attr.qp_access_flags &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	refused(&packet, s, NAK_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test(name)
		TEST(a_flush_names_what_and_how),
		TEST(an_atomic_write_carries_its_word),
		TEST(an_ack_is_no_answer),
		TEST(a_response_with_data_is_a_bad_one),
		TEST(they_count_towards_max_rd_atomic),
		TEST(what_is_placed_is_answered_without_data),
		TEST(a_duplicate_is_answered_and_not_stored_again),
		TEST(a_duplicate_of_something_else_is_dropped),
		TEST(all_of_a_region_has_no_range),
		TEST(what_is_wrong_with_a_flush),
		TEST(what_is_wrong_with_an_atomic_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
