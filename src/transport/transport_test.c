/* SPDX-License-Identifier: BSD-2-Clause */
/* States, flushing, CQ overflow; memory windows through a QP. */
#include "transport/test_support.h"

static void err_flushes_both_queues_in_order(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t i;

	for (i = 1; i <= 3; i++) {
		post(s, IBV_WR_SEND, i, 8);
		post_recv(s, i, 8);
	}
	transmit(s);
	station_move(s, IBV_QPS_ERR);
	for (i = 1; i <= 3; i++)
		expect_wc(&s->send_cq, i, IBV_WC_WR_FLUSH_ERR);
	for (i = 1; i <= 3; i++)
		expect_wc(&s->recv_cq, i, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(s->qp.path->in_flight_bytes, 0);
	assert_true(deadline_of(s) == TIME_NEVER);
	expect_silence(s);
	station_free(s);
}

static void what_is_posted_in_err_is_flushed_at_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	station_move(s, IBV_QPS_ERR);
	post(s, IBV_WR_SEND, 1, 8);
	expect_wc(&s->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	post_recv(s, 2, 8);
	expect_wc(&s->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	station_free(s);
}

static void a_receive_in_use_is_flushed_first(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post_recv(s, 1, 4096);
	post_recv(s, 2, 4096);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	station_move(s, IBV_QPS_ERR);
	expect_wc(&s->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(&s->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	station_free(s);
}

static void reset_forgets_everything(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 100 * MTU);
	post_recv(s, 1, 64);
	transmit(s);
	receive_read(s, PEER_PSN, 0, 8);
	station_move(s, IBV_QPS_RESET);
	expect_silence(s);
	expect_no_wc(&s->send_cq);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(s->qp.path->in_flight_bytes, 0);
	assert_int_equal(recv_queue_count(&s->qp.rq), 0);
	station_move(s, IBV_QPS_INIT);
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	post(s, IBV_WR_SEND, 2, 8);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

static void a_cq_overflow_fails_the_qp(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t i;

	cq_fini(&s->send_cq);
	memset(&s->send_cq, 0, sizeof(s->send_cq));
	assert_int_equal(cq_init(&s->send_cq, 2), 0);
	for (i = 0; i < 4; i++)
		post(s, IBV_WR_SEND, i, 8);
	transmit(s);
	receive_ack(s, OUR_PSN + 3);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_true(station_counter(s, COUNTER_CQ_OVERFLOW) >= 1);
	expect_wc(&s->send_cq, 0, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void transport_fail_flushes_and_is_idempotent(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 8);
	transport_fail(&s->qp, s->now_ns, &s->effects);
	transport_fail(&s->qp, s->now_ns, &s->effects);
	expect_wc(&s->send_cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(&s->send_cq);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void nothing_is_sent_before_rts(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);

	station_move(s, IBV_QPS_RTR);
	expect_silence(s);
	receive_ack(s, OUR_PSN);
	assert_int_equal(s->qp.state, IBV_QPS_RTR);
	station_free(s);
}

static void what_is_due_is_put_in_the_run_queue(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	assert_null(run_queue_pop(&s->run_queue));
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_ptr_equal(run_queue_pop(&s->run_queue), &s->qp);
	transmit(s);
	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	pass_time(s, 2 * MILLISECOND);
	assert_ptr_equal(run_queue_pop(&s->run_queue), &s->qp);
	station_free(s);
}

static void transmit_says_whether_it_was_cut_short(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_RDMA_WRITE, 1, 3 * MTU);
	assert_true(transport_transmit(&s->qp, s->now_ns, 2, s->batch, &s->effects));
	assert_false(transport_transmit(&s->qp, s->now_ns, 2, s->batch, &s->effects));
	assert_int_equal(s->batch->count, 3);
	station_free(s);
}

/* ---- memory windows ---- */

static void write_through(struct station *s, uint32_t rkey, uint32_t psn)
{
	struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY, psn);

	packet.payload = some_bytes;
	packet.payload_bytes = packet.reth.length = 8;
	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = rkey;
	receive(s, &packet);
}

static void a_window_is_bound_used_and_invalidated_by_its_owner(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED };
	struct mw mw = { 0 };
	uint32_t rkey = bind_window(s, &mw);

	write_through(s, rkey, PEER_PSN);
	assert_memory_equal(s->memory, some_bytes, 8);
	wr.invalidate_rkey = rkey;
	post_wr(s, &wr);
	transmit(s);
	assert_int_equal(expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	write_through(s, rkey, PEER_PSN + 1);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(mw_free(&s->mrs, &mw), 0);
	station_free(s);
}

static void a_send_with_invalidate_takes_the_window_away(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY_INV, PEER_PSN);
	struct mw mw = { 0 };
	uint32_t rkey = bind_window(s, &mw);
	struct ibv_wc wc;

	post_recv(s, 5, 64);
	packet.invalidate_rkey = rkey;
	receive(s, &packet);
	wc = expect_wc(&s->recv_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	write_through(s, rkey, PEER_PSN + 1);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(mw_free(&s->mrs, &mw), 0);
	station_free(s);
}

static void a_region_cannot_be_invalidated_by_the_peer(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY_INV, PEER_PSN);

	post_recv(s, 5, 64);
	packet.invalidate_rkey = s->mr.ibv.rkey;
	receive(s, &packet);
	expect_wc(&s->recv_cq, 5, IBV_WC_MW_BIND_ERR);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_silence(s);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(err_flushes_both_queues_in_order),
		TEST(what_is_posted_in_err_is_flushed_at_once),
		TEST(a_receive_in_use_is_flushed_first),
		TEST(reset_forgets_everything),
		TEST(a_cq_overflow_fails_the_qp),
		TEST(transport_fail_flushes_and_is_idempotent),
		TEST(nothing_is_sent_before_rts),
		TEST(what_is_due_is_put_in_the_run_queue),
		TEST(transmit_says_whether_it_was_cut_short),
		TEST(a_window_is_bound_used_and_invalidated_by_its_owner),
		TEST(a_send_with_invalidate_takes_the_window_away),
		TEST(a_region_cannot_be_invalidated_by_the_peer),
	};

	return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
