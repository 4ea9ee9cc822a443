/* SPDX-License-Identifier: BSD-2-Clause */
/* RAW_PACKET: frames leave as they are and at the pace that is asked for; what has no receive is dropped. */
#include "transport/test_support.h"

#include "ethernet/frame.h"

#define FRAME_BYTES	100u

static void receive_frame(struct station *s, size_t bytes) UNCHECKED_LOCKS
{
	struct raw_frame raw = { .flow_tag = 9 };
	struct frame frame;

	frame_dissect(some_bytes, bytes, &frame);
	raw.frame = &frame;
	transport_receive_frame(&s->qp, &raw, s->now_ns, &s->effects);
}

static struct station *raw_rts(void)
{
	struct station *s = station_rts(IBV_QPT_RAW_PACKET);

	s->qp.mtu = 1518;
	return s;
}

static void frames_leave_as_they_were_written(void **state)
{
	struct station *s = raw_rts();

	memcpy(s->memory + 1024, some_bytes, FRAME_BYTES);
	post(s, IBV_WR_SEND, 1, FRAME_BYTES);
	post(s, IBV_WR_SEND, 2, 60);
	assert_int_equal(transmit(s), 2);
	assert_int_equal(s->batch->packet[0].bytes, FRAME_BYTES);
	assert_memory_equal(s->batch->data + s->batch->packet[0].offset, some_bytes, FRAME_BYTES);
	assert_int_equal(s->batch->packet[1].bytes, 60);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	expect_silence(s);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void a_quantum_bounds_a_call(void **state)
{
	struct station *s = raw_rts();

	s->quantum = 2;
	for (unsigned i = 1; i <= 3; i++)
		post(s, IBV_WR_SEND, i, FRAME_BYTES);
	assert_int_equal(transmit(s), 2);
	assert_true(s->cut);
	assert_int_equal(transmit(s), 1);
	assert_false(s->cut);
	station_free(s);
}

static void the_pace_holds_frames(void **state) UNCHECKED_LOCKS
{
	struct station *s = raw_rts();
	const uint64_t frame_ns = FRAME_BYTES * 8 * 1000;	/* at 1 Mbit/s */

	transport_pace(&s->qp, 1000, FRAME_BYTES);
	for (unsigned i = 1; i <= 4; i++)
		post(s, IBV_WR_SEND, i, FRAME_BYTES);
	assert_int_equal(transmit(s), 2);	/* one at once, and a burst of one */
	assert_true(deadline_of(s) == s->now_ns + frame_ns);
	expect_silence(s);
	s->now_ns += frame_ns;
	transport_timeout(&s->qp, s->now_ns, &s->effects);
	assert_int_equal(transmit(s), 1);
	assert_true(deadline_of(s) == s->now_ns + frame_ns);
	transport_pace(&s->qp, 0, 0);
	assert_int_equal(transmit(s), 1);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void a_pause_gives_no_more_than_a_burst(void **state) UNCHECKED_LOCKS
{
	struct station *s = raw_rts();

	transport_pace(&s->qp, 1000, 3 * FRAME_BYTES);
	s->now_ns += 1000 * MILLISECOND;
	for (unsigned i = 1; i <= 10; i++)
		post(s, IBV_WR_SEND, i, FRAME_BYTES);
	assert_int_equal(transmit(s), 4);
	station_free(s);
}

static void a_wrong_key_stops_the_send_queue(void **state)
{
	struct station *s = raw_rts();
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND, 1, FRAME_BYTES);
	sge.lkey ^= 0x100;
	post_wr(s, &wr);
	post(s, IBV_WR_SEND, 2, FRAME_BYTES);
	expect_silence(s);
	expect_wc(&s->send_cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_wc(&s->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_SQE);
	post_recv(s, 3, 1024);
	receive_frame(s, FRAME_BYTES);	/* it receives still */
	expect_wc(&s->recv_cq, 3, IBV_WC_SUCCESS);
	station_free(s);
}

static void a_frame_is_received_whole_or_not_at_all(void **state)
{
	struct station *s = raw_rts();
	struct completion got;

	receive_frame(s, FRAME_BYTES);
	assert_int_equal(station_counter(s, COUNTER_RX_NO_RECV), 1);
	post_recv(s, 1, FRAME_BYTES - 1);
	receive_frame(s, FRAME_BYTES);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_TOO_LONG), 1);
	receive_frame(s, FRAME_BYTES - 1);
	assert_int_equal(cq_take_one(&s->recv_cq, &got), 1);
	assert_int_equal(got.wc.byte_len, FRAME_BYTES - 1);
	assert_int_equal(got.frame.flow_tag, 9);
	assert_memory_equal(s->memory + 1024, some_bytes, FRAME_BYTES - 1);
	station_free(s);
}

/* Of two tags only the customer's is stripped, and only where it is in front. */
static void the_tag_that_is_stripped_is_the_one_that_is_told(void **state) UNCHECKED_LOCKS
{
	static const uint8_t types[2][8] = { { 0x81, 0, 0x20, 5, 0x81, 0, 0x20, 6 },
					     { 0x88, 0xa8, 0x20, 5, 0x81, 0, 0x20, 6 } };
	struct station *s = raw_rts();
	uint8_t data[64] = { 0 };
	struct completion got;
	struct frame frame;
	struct raw_frame raw = { .frame = &frame };

	s->qp.strips_vlan = true;
	for (unsigned i = 0; i < 2; i++) {
		memcpy(data + 12, types[i], 8);
		frame_dissect(data, sizeof(data), &frame);
		post_recv(s, 1, 64);
		transport_receive_frame(&s->qp, &raw, s->now_ns, &s->effects);
		assert_int_equal(cq_take_one(&s->recv_cq, &got), 1);
		assert_int_equal(got.wc.byte_len, i ? 64 : 60);
		assert_int_equal(got.frame.cvlan, i ? 0 : 0x2005);
		assert_memory_equal(s->memory + 1024 + 12, types[i] + (i ? 0 : 4), 4);
	}
	station_free(s);
}

static void a_wrong_key_of_a_receive_ends_the_qp(void **state) UNCHECKED_LOCKS
{
	struct station *s = raw_rts();
	struct ibv_sge sge = station_sge(s, 0, 1024);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	sge.lkey ^= 0x100;
	assert_int_equal(qp_post_recv(&s->qp, &wr, &bad), 0);
	receive_frame(s, FRAME_BYTES);
	expect_wc(&s->recv_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_silence(s);
	assert_false(transport_answer_is_due(&s->qp));
	station_free(s);
}

static void only_a_state_that_receives_does(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_new(IBV_QPT_RAW_PACKET);

	qp_set_state(&s->qp, IBV_QPS_INIT);
	post_recv(s, 1, 1024);
	receive_frame(s, FRAME_BYTES);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_QP_STATE), 1);
	station_move(s, IBV_QPS_RTR);
	receive_frame(s, FRAME_BYTES);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	post_recv(s, 2, 1024);
	station_move(s, IBV_QPS_ERR);
	expect_wc(&s->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	station_free(s);
}

static void packets_are_not_for_it(void **state)
{
	struct station *s = raw_rts();

	post_recv(s, 1, 1024);
	receive_data(s, OPCODE_UD_SEND_ONLY, PEER_PSN, 8);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(station_counter(s, COUNTER_RX_QP_TYPE), 1);
	station_free(s);
}

static void what_its_type_does_not_have_fails_in_its_turn(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV };

	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct station *s = raw_rts();

		post(s, opcodes[i], 1, FRAME_BYTES);
		post(s, IBV_WR_SEND, 2, FRAME_BYTES);
		transmit(s);
		expect_wc(&s->send_cq, 1, IBV_WC_LOC_QP_OP_ERR);
		expect_wc(&s->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		station_free(s);
	}
}

static void what_it_cannot_send_is_refused(void **state) UNCHECKED_LOCKS
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_TSO, (enum ibv_wr_opcode)99 };
	struct station *s = raw_rts();
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		request_init(&wr, &sge, s, opcodes[i], 1, FRAME_BYTES);
		assert_int_equal(qp_post_send(&s->qp, &wr, &bad), EINVAL);
	}
	request_init(&wr, &sge, s, IBV_WR_SEND, 1, FRAME_HEADER_BYTES - 1);
	assert_int_equal(qp_post_send(&s->qp, &wr, &bad), EINVAL);
	request_init(&wr, &sge, s, IBV_WR_SEND, 1, 1519);
	assert_int_equal(qp_post_send(&s->qp, &wr, &bad), EINVAL);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_leave_as_they_were_written),
		cmocka_unit_test(a_quantum_bounds_a_call),
		cmocka_unit_test(the_pace_holds_frames),
		cmocka_unit_test(a_pause_gives_no_more_than_a_burst),
		cmocka_unit_test(a_wrong_key_stops_the_send_queue),
		cmocka_unit_test(a_frame_is_received_whole_or_not_at_all),
		cmocka_unit_test(the_tag_that_is_stripped_is_the_one_that_is_told),
		cmocka_unit_test(a_wrong_key_of_a_receive_ends_the_qp),
		cmocka_unit_test(only_a_state_that_receives_does),
		cmocka_unit_test(packets_are_not_for_it),
		cmocka_unit_test(what_its_type_does_not_have_fails_in_its_turn),
		cmocka_unit_test(what_it_cannot_send_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
