/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: what the peer's answers do (IBTA 9.7.5.1, 9.7.6, 11.6.2). */
#include "transport/test_support.h"

static void an_ack_completes_all_up_to_its_psn_in_order(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t i;

	for (i = 1; i <= 4; i++)
		post(s, IBV_WR_SEND, i, 8);
	transmit(s);
	receive_ack(s, OUR_PSN + 2);
	for (i = 1; i <= 3; i++) {
		struct ibv_wc wc = expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);

		assert_int_equal(wc.opcode, IBV_WC_SEND);
	}
	expect_no_wc(&s->send_cq);
	station_free(s);
}

static void an_unsignaled_request_completes_silently(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND, 1, 8);
	wr.send_flags = 0;
	post_wr(s, &wr);
	transmit(s);
	receive_ack(s, OUR_PSN);
	expect_no_wc(&s->send_cq);
	assert_int_equal(s->qp.sq.tail, s->qp.sq.head);
	station_free(s);
}

static void acks_of_nothing_outstanding_are_dropped(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_ack(s, OUR_PSN);
	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	receive_ack(s, OUR_PSN + 1);
	receive_ack(s, OUR_PSN - 1);
	receive_ack(s, OUR_PSN + 0x800000);
	expect_no_wc(&s->send_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_RESPONSE), 4);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_coalesced_ack_does_not_complete_past_a_read(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 8);
	post(s, IBV_WR_RDMA_READ, 2, 8);
	post(s, IBV_WR_SEND, 3, 8);
	assert_int_equal(transmit(s), 3);
	receive_ack(s, OUR_PSN + 2);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	/* The response was lost: READ and what follows go again. */
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_READ_REQUEST, OUR_PSN + 1);
	expect_sent(s, 1, OPCODE_RC_SEND_ONLY, OUR_PSN + 2);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN + 1, 8);
	receive_ack(s, OUR_PSN + 2);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 3, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_read_response_acknowledges_what_was_before(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	post(s, IBV_WR_SEND, 1, 8);
	post(s, IBV_WR_RDMA_READ, 2, 9);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN + 1, 9);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	wc = expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, 9);
	assert_memory_equal(s->memory + 2048, some_bytes, 9);
	station_free(s);
}

static void an_atomic_returns_the_original_in_host_order(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_ATOMIC_ACKNOWLEDGE, OUR_PSN);
	uint64_t original;
	struct ibv_wc wc;

	post(s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8);
	transmit(s);
	packet.atomic_original = 0x0102030405060708;
	packet.aeth.syndrome = 0x1f;
	receive(s, &packet);
	wc = expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(wc.byte_len, 8);
	memcpy(&original, s->memory + 1024, 8);
	assert_true(original == 0x0102030405060708);
	station_free(s);
}

static void nak_fails(enum nak_code code, enum ibv_wc_status status)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 8);
	post(s, IBV_WR_RDMA_WRITE, 2, 8);
	post(s, IBV_WR_SEND, 3, 8);
	post_recv(s, 9, 8);
	transmit(s);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, (uint8_t)code);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, status);
	expect_wc(&s->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_wc(&s->recv_cq, 9, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_silence(s);
	station_free(s);
}

static void each_fatal_nak_has_its_status(void **state)
{
	nak_fails(NAK_INVALID, IBV_WC_REM_INV_REQ_ERR);
	nak_fails(NAK_ACCESS, IBV_WC_REM_ACCESS_ERR);
	nak_fails(NAK_OPERATION, IBV_WC_REM_OP_ERR);
}

static void a_nak_beyond_an_unanswered_read_waits_for_it(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_READ, 1, 8);
	post(s, IBV_WR_RDMA_WRITE, 2, 8);
	transmit(s);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_ACCESS);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	assert_int_equal(transmit(s), 2);
	expect_sent(s, 0, OPCODE_RC_READ_REQUEST, OUR_PSN);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_ACCESS);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	station_free(s);
}

static void a_read_can_be_refused(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_READ, 1, 8);
	transmit(s);
	receive_nak(s, OUR_PSN, AETH_NAK, NAK_ACCESS);
	expect_wc(&s->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	station_free(s);
}

static void a_response_of_the_wrong_length_is_a_local_length_error(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_READ, 1, 8);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 9);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void a_response_that_ends_too_early_is_bad(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_READ, 1, 2 * MTU);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, MTU);
	expect_wc(&s->send_cq, 1, IBV_WC_BAD_RESP_ERR);
	station_free(s);
}

static void a_response_of_the_wrong_kind_is_bad(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	expect_wc(&s->send_cq, 1, IBV_WC_BAD_RESP_ERR);
	station_free(s);
}

static void a_response_to_a_send_is_ignored(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	expect_no_wc(&s->send_cq);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	station_free(s);
}

/* The region was fine when the peer was asked. */
static void read_data_that_has_nowhere_to_go_is_a_protection_error(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_READ, 1, 8);
	assert_int_equal(transmit(s), 1);
	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, OUR_PSN, 8);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	station_free(s);
}

static void read_data_is_scattered(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_sge sge[2] = { station_sge(s, 0, 10), station_sge(s, 5000, MTU) };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 2,
				  .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };

	post_wr(s, &wr);
	transmit(s);
	receive_data(s, OPCODE_RC_READ_RESPONSE_FIRST, OUR_PSN, MTU);
	receive_data(s, OPCODE_RC_READ_RESPONSE_LAST, OUR_PSN + 1, 10);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(s->memory, some_bytes, 10);
	assert_memory_equal(s->memory + 5000, some_bytes + 10, MTU - 10);
	assert_memory_equal(s->memory + 5000 + MTU - 10, some_bytes, 10);
	station_free(s);
}

static void late_answers_after_going_back_still_count(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 4 * MTU);
	transmit(s);
	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_SEQUENCE);
	receive_ack(s, OUR_PSN + 3);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_silence(s);
	assert_int_equal(s->qp.path->in_flight_bytes, 0);
	station_free(s);
}

static void congestion_marks_halve_the_window(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet ack = packet_of(OPCODE_RC_ACKNOWLEDGE, OUR_PSN);
	struct packet cnp = packet_of(OPCODE_CNP, 0);

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	ack.becn = true;
	ack.aeth.syndrome = 0x1f;
	s->now_ns += MILLISECOND;
	receive(s, &ack);
	assert_int_equal(s->qp.path->window_bytes, PATH_WINDOW_START / 2);
	s->now_ns += 100 * MILLISECOND;
	receive(s, &cnp);
	assert_int_equal(s->qp.path->window_bytes, PATH_WINDOW_START / 4);
	assert_int_equal(station_counter(s, COUNTER_RX_CNP), 1);
	station_free(s);
}

static void congestion_is_believed_of_the_peer_alone(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet stale = packet_of(OPCODE_RC_ACKNOWLEDGE, OUR_PSN - 9);
	struct packet cnp = packet_of(OPCODE_CNP, 0);

	stale.becn = true;
	stale.aeth.syndrome = 0x1f;
	receive(s, &stale);
	s->info.route.source[15]++;
	receive(s, &cnp);
	assert_int_equal(station_counter(s, COUNTER_RX_ADDRESS), 1);
	s->info.route.source[15]--;
	s->qp.state = IBV_QPS_INIT;
	receive(s, &cnp);
	assert_int_equal(station_counter(s, COUNTER_RX_QP_STATE), 1);
	assert_int_equal(station_counter(s, COUNTER_RX_CNP), 0);
	assert_int_equal(s->qp.path->window_bytes, PATH_WINDOW_START);
	s->qp.state = IBV_QPS_RTS;
	station_free(s);
}

static void explanations_of_failures_name_the_reason(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct listening explanation;
	const char *text;

	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	transmit(s);
	explanation_begin(&explanation);
	receive_nak(s, OUR_PSN, AETH_NAK, NAK_ACCESS);
	text = explanation_end(&explanation);
	assert_mentions(text, "qp 0x004011");
	assert_mentions(text, "RDMA_WRITE of 8 bytes");
	assert_mentions(text, "192.0.2.2");
	assert_mentions(text, "remote access error");
	assert_mentions(text, "check rkey");
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_ack_completes_all_up_to_its_psn_in_order),
		TEST(an_unsignaled_request_completes_silently),
		TEST(acks_of_nothing_outstanding_are_dropped),
		TEST(a_coalesced_ack_does_not_complete_past_a_read),
		TEST(a_read_response_acknowledges_what_was_before),
		TEST(an_atomic_returns_the_original_in_host_order),
		TEST(each_fatal_nak_has_its_status),
		TEST(a_nak_beyond_an_unanswered_read_waits_for_it),
		TEST(a_read_can_be_refused),
		TEST(a_response_of_the_wrong_length_is_a_local_length_error),
		TEST(a_response_that_ends_too_early_is_bad),
		TEST(a_response_of_the_wrong_kind_is_bad),
		TEST(a_response_to_a_send_is_ignored),
		TEST(read_data_that_has_nowhere_to_go_is_a_protection_error),
		TEST(read_data_is_scattered),
		TEST(late_answers_after_going_back_still_count),
		TEST(congestion_marks_halve_the_window),
		TEST(congestion_is_believed_of_the_peer_alone),
		TEST(explanations_of_failures_name_the_reason),
	};

	return cmocka_run_group_tests_name("completer", tests, NULL, NULL);
}
