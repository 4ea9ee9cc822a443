/* SPDX-License-Identifier: BSD-2-Clause */
/* UC and UD: sending, dropping, GRH space and Q_Keys (IBTA 9.8, 10.2.5, 11.4.1.2). */
#include "transport/test_support.h"

#include "base/bytes.h"

/* ---- UC ---- */

static void uc_messages_complete_when_they_are_written(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	post(s, IBV_WR_RDMA_WRITE, 1, 2 * MTU + 1);
	s->quantum = 2;
	assert_int_equal(transmit(s), 2);
	expect_no_wc(&s->send_cq);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_UC_WRITE_LAST, OUR_PSN + 2);
	assert_false(sent(s, 0).ack_request);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void uc_sends_arrive_without_an_answer(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	struct ibv_wc wc;

	post_recv(s, 1, 4096);
	receive_data(s, OPCODE_UC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_UC_SEND_LAST_IMM, PEER_PSN + 1, 3);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, MTU + 3);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.sl, 0);
	expect_silence(s);
	station_free(s);
}

static void uc_drops_a_message_with_a_gap_and_takes_the_next(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	post_recv(s, 1, 4096);
	receive_data(s, OPCODE_UC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_UC_SEND_LAST, PEER_PSN + 2, 8);
	expect_no_wc(&s->recv_cq);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 9, 8);
	/* In the receive that the dropped message had taken. */
	assert_int_equal(expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS).byte_len, 8);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	station_free(s);
}

/* Class E: it goes back to nobody else, so the consumer of the SRQ has to hear of it. */
static void uc_fails_the_receive_of_an_srq_that_a_broken_message_took(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	struct other_domain other;

	other_domain_open(s, &other);
	other_domain_post(s, &other, 1, 4096, true);
	receive_data(s, OPCODE_UC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_UC_SEND_LAST, PEER_PSN + 2, 8);	/* a gap */
	expect_wc(&s->recv_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	other_domain_post(s, &other, 2, 4096, true);
	other_domain_post(s, &other, 3, 4096, true);
	receive_data(s, OPCODE_UC_SEND_FIRST, PEER_PSN + 3, MTU);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 4, 8);	/* no end */
	expect_wc(&s->recv_cq, 2, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(expect_wc(&s->recv_cq, 3, IBV_WC_SUCCESS).byte_len, 8);
	other_domain_post(s, &other, 4, 4, true);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 5, 8);	/* too long */
	expect_wc(&s->recv_cq, 4, IBV_WC_LOC_LEN_ERR);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 6, 8);	/* for which there is none */
	expect_no_wc(&s->recv_cq);
	expect_silence(s);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	other_domain_close(s, &other);
	station_free(s);
}

static void uc_drops_without_a_receive(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	receive_data(s, OPCODE_UC_SEND_FIRST, PEER_PSN, MTU);
	post_recv(s, 1, 4096);
	receive_data(s, OPCODE_UC_SEND_LAST, PEER_PSN + 1, 8);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_NO_RECV), 1);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 2, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void write_with_key(struct station *s, uint32_t psn, uint32_t rkey)
{
	struct packet packet = packet_of(OPCODE_UC_WRITE_ONLY, psn);

	packet.payload = some_bytes;
	packet.payload_bytes = packet.reth.length = 8;
	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = rkey;
	receive(s, &packet);
}

static void uc_does_not_let_keys_be_guessed(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	uint32_t i, psn = PEER_PSN;

	/* Sixteen a second may be, for as long as you like. */
	for (i = 0; i < 160; i++) {
		if (i % 16 == 0)
			s->now_ns += 1001 * MILLISECOND;
		write_with_key(s, psn++, s->mr.ibv.rkey + 1 + i);
	}
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	assert_int_equal(station_counter(s, COUNTER_RX_KEY), 160);
	write_with_key(s, psn++, s->mr.ibv.rkey);
	assert_int_not_equal(s->memory[0], 0);
	write_with_key(s, psn++, s->mr.ibv.rkey ^ 1);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void uc_drops_what_is_not_allowed_and_stays_up(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	struct packet packet = packet_of(OPCODE_UC_WRITE_ONLY, PEER_PSN);

	packet.payload = some_bytes;
	packet.payload_bytes = packet.reth.length = 8;
	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = s->mr.ibv.rkey ^ 1;
	receive(s, &packet);
	assert_int_equal(s->memory[0], 0);
	post_recv(s, 1, 4);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 1, 8);
	assert_int_equal(station_counter(s, COUNTER_RX_TOO_LONG), 1);
	assert_int_equal(station_counter(s, COUNTER_RX_OVERRUN), 1);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	expect_no_wc(&s->recv_cq);
	station_free(s);
}

static void a_bad_lkey_on_uc_leads_to_sqe(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	post_recv(s, 9, 64);
	request_init(&wr, &sge, s, IBV_WR_SEND, 1, 8);
	sge.lkey ^= 1;
	post_wr(s, &wr);
	post(s, IBV_WR_SEND, 2, 8);
	expect_silence(s);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_wc(&s->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_SQE);
	/* The receive queue lives on, and so does the send queue after a modify. */
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN, 8);
	expect_wc(&s->recv_cq, 9, IBV_WC_SUCCESS);
	post(s, IBV_WR_SEND, 3, 8);
	expect_wc(&s->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	station_move(s, IBV_QPS_RTS);
	post(s, IBV_WR_SEND, 4, 8);
	assert_int_equal(transmit(s), 1);
	expect_wc(&s->send_cq, 4, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_bad_receive_on_uc_fails_the_qp(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	post_recv(s, 511, 4096);
	receive_data(s, OPCODE_UC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_UC_SEND_LAST, PEER_PSN + 1, 8);
	expect_wc(&s->recv_cq, 511, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

/* ---- UD ---- */

static struct ah *ah_new(const struct station *s)
{
	struct ah *ah = calloc(1, sizeof(*ah));

	assert_non_null(ah);
	ah->references = 1;
	memcpy(ah->route.source, our_address, 16);
	memcpy(ah->route.destination, peer_address, 16);
	return ah;
}

static void post_datagram(struct station *s, struct ah *ah, uint64_t wr_id, size_t length,
			  uint32_t qkey)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND_WITH_IMM, wr_id, length);
	wr.imm_data = __builtin_bswap32(0x99);
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = PEER_QPN;
	wr.wr.ud.remote_qkey = qkey;
	post_wr(s, &wr);
}

static void a_datagram_goes_where_its_handle_says(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	struct ah *ah = ah_new(s);

	s->qp.attr.dest_qp_num = 0;
	post_datagram(s, ah, 1, 20, 0x1234);
	assert_int_equal(ah->references, 2);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_UD_SEND_ONLY_IMM, OUR_PSN);
	assert_int_equal(sent(s, 0).deth.qkey, 0x1234);
	assert_int_equal(sent(s, 0).deth.source_qpn, OUR_QPN);
	assert_int_equal(sent(s, 0).imm, 0x99);
	assert_false(sent(s, 0).ack_request);
	assert_memory_equal(s->batch->packet[0].route.destination, peer_address, 16);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ah->references, 1);
	ah_put(ah);
	station_free(s);
}

static void the_high_bit_of_the_qkey_selects_our_own(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	struct ah *ah = ah_new(s);

	s->qp.attr.qkey = 0x4321;
	post_datagram(s, ah, 1, 20, 0x80000001);
	assert_int_equal(transmit(s), 1);
	assert_int_equal(sent(s, 0).deth.qkey, 0x4321);
	ah_put(ah);
	station_free(s);
}

static void reset_gives_address_handles_back(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	struct ah *ah = ah_new(s);

	post_datagram(s, ah, 1, 20, 1);
	post_datagram(s, ah, 2, 20, 1);
	station_move(s, IBV_QPS_RESET);
	assert_int_equal(ah->references, 1);
	expect_no_wc(&s->send_cq);
	ah_put(ah);
	station_free(s);
}

static void receive_datagram(struct station *s, uint32_t qkey, size_t bytes)
{
	struct packet packet = packet_of(OPCODE_UD_SEND_ONLY, 7);

	packet.deth.qkey = qkey;
	packet.deth.source_qpn = PEER_QPN;
	packet.payload = some_bytes;
	packet.payload_bytes = bytes;
	receive(s, &packet);
}

static void a_datagram_comes_behind_40_bytes_of_ipv4_header(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	const uint8_t *grh = s->memory + 1024;
	uint32_t sum = 0;
	struct ibv_wc wc;
	int i;

	s->info.route.traffic_class = 0x88;
	s->info.route.hop_limit = 63;
	post_recv(s, 1, 100);
	receive_datagram(s, 0x1234, 30);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 70);
	assert_int_equal(wc.src_qp, PEER_QPN);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	assert_int_equal(wc.sl, 0xa);		/* UDP, IPv4 */
	assert_memory_equal(grh + 40, some_bytes, 30);
	assert_int_equal(grh[20], 0x45);
	assert_int_equal(grh[21], 0x88);
	/* 20 IP, 8 UDP, 12 BTH, 8 DETH, 30 and 2 of pad, 4 ICRC */
	assert_int_equal(get_be16(grh + 22), 84);
	assert_int_equal(grh[28], 63);
	assert_memory_equal(grh + 32, peer_address + 12, 4);
	assert_memory_equal(grh + 36, our_address + 12, 4);
	for (i = 20; i < 40; i += 2)
		sum += get_be16(grh + i);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	station_free(s);
}

static void a_datagram_comes_behind_a_grh_on_ipv6(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	const uint8_t *grh = s->memory + 1024;
	struct ibv_wc wc;

	memset(s->info.route.source, 0xfd, 16);
	memset(s->info.route.destination, 0xfc, 16);
	s->info.route.traffic_class = 0x12;
	s->info.route.flow_label = 0x54321;
	s->info.route.hop_limit = 9;
	post_recv(s, 1, 100);
	receive_datagram(s, 0x1234, 30);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.sl, 0x9);		/* UDP, IPv6 */
	assert_int_equal(get_be32(grh), 0x61254321);
	assert_int_equal(get_be16(grh + 4), 64);
	assert_int_equal(grh[7], 9);
	assert_memory_equal(grh + 8, s->info.route.source, 16);
	assert_memory_equal(grh + 24, s->info.route.destination, 16);
	station_free(s);
}

static void all_fe(const struct qp *qp, uint8_t gid[16])
{
	memset(gid, 0xfe, 16);
}

/* Inside the host by GID 0 that is no address: the packets carry 127.0.0.1, the GRH has the GIDs. */
static void a_datagram_by_gid_0_has_a_grh_with_that_gid(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	struct packet packet = packet_of(OPCODE_UD_SEND_ONLY, 7);
	const uint8_t *grh = s->memory + 1024;
	uint8_t gid[16];

	all_fe(&s->qp, gid);
	s->transport.default_gid = all_fe;
	s->info.route.traffic_class = 0xfc;
	s->info.route.hop_limit = 9;
	post_recv(s, 1, 100);
	packet.default_gid = true;
	packet.deth.qkey = 0x1234;
	packet.payload = some_bytes;
	packet.payload_bytes = 30;
	receive(s, &packet);
	assert_int_equal(expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS).sl, 0x9);
	assert_int_equal(get_be32(grh), 0x6fc00000);
	assert_int_equal(grh[7], 9);
	assert_memory_equal(grh + 8, gid, 16);
	assert_memory_equal(grh + 24, gid, 16);
	station_free(s);
}

static void a_wrong_qkey_is_dropped(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	post_recv(s, 1, 100);
	receive_datagram(s, 0x1235, 30);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_QKEY), 1);
	station_free(s);
}

static void the_grh_counts_in_the_length_of_the_receive(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	post_recv(s, 1, 69);
	receive_datagram(s, 0x1234, 30);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_TOO_LONG), 1);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	/* The receive is still there for what fits. */
	receive_datagram(s, 0x1234, 29);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	receive_datagram(s, 0x1234, 29);
	assert_int_equal(station_counter(s, COUNTER_RX_NO_RECV), 1);
	station_free(s);
}

static void a_bad_receive_on_ud_fails_the_qp(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	post_recv(s, 511, 4096);
	receive_datagram(s, 0x1234, 1020);
	expect_wc(&s->recv_cq, 511, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void a_datagram_into_an_srq_is_checked_against_its_protection_domain(void **state)
{
	for (int right = 0; right < 2; right++) {
		struct station *s = station_rts(IBV_QPT_UD);
		struct other_domain other;

		other_domain_open(s, &other);
		other_domain_post(s, &other, 5, 100, right);
		receive_datagram(s, 0x1234, 30);
		expect_wc(&s->recv_cq, 5, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		assert_int_equal(s->qp.state, right ? IBV_QPS_RTS : IBV_QPS_ERR);
		other_domain_close(s, &other);
		station_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(uc_messages_complete_when_they_are_written),
		TEST(uc_sends_arrive_without_an_answer),
		TEST(uc_drops_a_message_with_a_gap_and_takes_the_next),
		TEST(uc_fails_the_receive_of_an_srq_that_a_broken_message_took),
		TEST(uc_drops_without_a_receive),
		TEST(uc_does_not_let_keys_be_guessed),
		TEST(uc_drops_what_is_not_allowed_and_stays_up),
		TEST(a_bad_lkey_on_uc_leads_to_sqe),
		TEST(a_bad_receive_on_uc_fails_the_qp),
		TEST(a_datagram_goes_where_its_handle_says),
		TEST(the_high_bit_of_the_qkey_selects_our_own),
		TEST(reset_gives_address_handles_back),
		TEST(a_datagram_comes_behind_40_bytes_of_ipv4_header),
		TEST(a_datagram_comes_behind_a_grh_on_ipv6),
		TEST(a_datagram_by_gid_0_has_a_grh_with_that_gid),
		TEST(a_wrong_qkey_is_dropped),
		TEST(the_grh_counts_in_the_length_of_the_receive),
		TEST(a_bad_receive_on_ud_fails_the_qp),
		TEST(a_datagram_into_an_srq_is_checked_against_its_protection_domain),
	};

	return cmocka_run_group_tests_name("unreliable", tests, NULL, NULL);
}
