/* SPDX-License-Identifier: BSD-2-Clause */
/* What completion counters count (ibv_qp_attach_comp_cntr(3)): each operation once, where it completes. */
#include "transport/test_support.h"

static struct comp_counter counter[COMP_OPERATIONS];
static struct comp_counters counters;

/* A counter for each operation. */
static struct station *counted_rts(enum ibv_qp_type type, bool bytes)
{
	struct station *s = station_rts(type);

	lock_alias(&s->qp.lock);
	for (unsigned i = 0; i < COMP_OPERATIONS; i++) {
		counter[i] = (struct comp_counter){ .bytes = bytes };
		counters.of[i] = &counter[i];
	}
	s->qp.counted = &counters;
	return s;
}

#define expect_done(operation, value)	assert_int_equal(atomic_load(&counter[operation].done), value)
#define expect_failed(operation, value)	assert_int_equal(atomic_load(&counter[operation].failed), value)

static void expect_nothing_else(enum comp_operation but)
{
	for (unsigned i = 0; i < COMP_OPERATIONS; i++)
		if (i != but) {
			expect_done(i, 0);
			expect_failed(i, 0);
		}
}

static void requests_count_signaled_or_not(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, false);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND, 1, 10);
	wr.send_flags = 0;
	post_wr(s, &wr);
	post(s, IBV_WR_RDMA_WRITE, 2, 20);
	post(s, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 0);
	transmit(s);
	expect_done(COMP_SEND, 0);
	receive_ack(s, OUR_PSN + 1);
	expect_done(COMP_SEND, 1);
	expect_done(COMP_WRITE, 1);
	receive_ack(s, OUR_PSN + 2);
	expect_done(COMP_WRITE, 2);
	expect_done(COMP_RECV, 0);
	station_free(s);
}

static void an_atomic_is_no_operation_of_the_interface(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, false);
	struct packet answer = packet_of(OPCODE_RC_ATOMIC_ACKNOWLEDGE, OUR_PSN);

	post(s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8);
	transmit(s);
	answer.aeth.syndrome = aeth_syndrome(AETH_ACK, 31);
	receive(s, &answer);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_nothing_else(COMP_OPERATIONS);
	station_free(s);
}

static void flushed_requests_and_receives_are_errors(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, true);

	post(s, IBV_WR_SEND, 1, 10);
	post(s, IBV_WR_RDMA_READ, 2, 10);
	post_recv(s, 3, 64);
	post_recv(s, 4, 64);
	station_move(s, IBV_QPS_ERR);
	expect_failed(COMP_SEND, 1);
	expect_failed(COMP_READ, 1);
	expect_failed(COMP_RECV, 2);
	expect_done(COMP_SEND, 0);
	expect_done(COMP_RECV, 0);
	station_free(s);
}

static void receives_count_their_bytes(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, true);

	post_recv(s, 1, 4096);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	expect_done(COMP_RECV, 0);
	receive_data(s, OPCODE_RC_SEND_LAST, PEER_PSN + 1, 7);
	expect_done(COMP_RECV, MTU + 7);
	expect_nothing_else(COMP_RECV);
	station_free(s);
}

static void a_write_of_the_peer_counts_once(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, false);

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);	/* a duplicate */
	expect_done(COMP_REMOTE_WRITE, 2);
	expect_nothing_else(COMP_REMOTE_WRITE);
	station_free(s);
}

static void read_is_answered(struct station *s, uint32_t psn, uint32_t bytes, bool piece)
{
	struct packet read = packet_of(OPCODE_RC_READ_REQUEST, psn);

	read.ack_request = true;
	read.imm_follows = piece;
	read.reth.address = (uintptr_t)s->memory;
	read.reth.rkey = s->mr.ibv.rkey;
	read.reth.length = bytes;
	receive(s, &read);
	transmit(s);
}

static void a_read_of_the_peer_counts_once_however_often_it_is_answered(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, false);

	read_is_answered(s, PEER_PSN, 2 * MTU, false);
	expect_done(COMP_REMOTE_READ, 1);
	read_is_answered(s, PEER_PSN, 2 * MTU, false);	/* a duplicate */
	expect_done(COMP_REMOTE_READ, 1);
	read_is_answered(s, PEER_PSN + 2, 0, false);
	expect_done(COMP_REMOTE_READ, 2);
	expect_nothing_else(COMP_REMOTE_READ);
	station_free(s);
}

static void the_pieces_of_a_read_are_one(void **state)
{
	for (int bytes = 0; bytes < 2; bytes++) {
		struct station *s = counted_rts(IBV_QPT_RC, bytes);

		read_is_answered(s, PEER_PSN, MTU, true);
		read_is_answered(s, PEER_PSN + 1, MTU, true);
		read_is_answered(s, PEER_PSN + 2, 5, false);
		expect_done(COMP_REMOTE_READ, bytes ? 2 * MTU + 5 : 1);
		station_free(s);
	}
}

static void a_large_read_says_which_pieces_are_not_its_last(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, false);
	struct packet packet;
	unsigned requests = 0, last = 0;

	post(s, IBV_WR_RDMA_READ, 1, READ_CHUNK_MAX + 100);
	for (unsigned i = 0; i < transmit(s); i++) {
		packet = sent(s, i);
		requests++;
		last += !packet.imm_follows;
		assert_true(packet.imm_follows || packet.reth.length <= READ_CHUNK_MAX);
	}
	assert_in_range(requests, 1, 64);
	assert_int_equal(last, requests > 1);
	station_free(s);
}

static void a_refused_request_of_the_peer_is_an_error(void **state)
{
	static const uint8_t codes[] = { OPCODE_RC_WRITE_ONLY, OPCODE_RC_READ_REQUEST };

	for (unsigned i = 0; i < 2; i++) {
		struct station *s = counted_rts(IBV_QPT_RC, false);
		struct packet packet = packet_of(codes[i], PEER_PSN);
		const enum comp_operation operation = i ? COMP_REMOTE_READ : COMP_REMOTE_WRITE;

		packet.reth.address = (uintptr_t)s->memory;
		packet.reth.rkey = s->mr.ibv.rkey ^ 0x100;
		packet.reth.length = packet.payload_bytes = 8;
		packet.payload = s->memory;
		if (i)
			packet.payload_bytes = 0;
		receive(s, &packet);
		assert_int_equal(s->qp.state, IBV_QPS_ERR);
		expect_failed(operation, 1);
		expect_done(operation, 0);
		expect_nothing_else(operation);
		station_free(s);
	}
}

/* Not ready is no error: the request comes again. */
static void a_request_that_is_repeated_has_not_completed(void **state)
{
	struct station *s = counted_rts(IBV_QPT_RC, false);
	struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY_IMM, PEER_PSN);

	receive(s, &packet);
	expect_nothing_else(COMP_OPERATIONS);
	post_recv(s, 1, 0);
	receive(s, &packet);
	expect_done(COMP_REMOTE_WRITE, 1);
	expect_done(COMP_RECV, 1);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_count_signaled_or_not),
		TEST(an_atomic_is_no_operation_of_the_interface),
		TEST(flushed_requests_and_receives_are_errors),
		TEST(receives_count_their_bytes),
		TEST(a_write_of_the_peer_counts_once),
		TEST(a_read_of_the_peer_counts_once_however_often_it_is_answered),
		TEST(the_pieces_of_a_read_are_one),
		TEST(a_large_read_says_which_pieces_are_not_its_last),
		TEST(a_refused_request_of_the_peer_is_an_error),
		TEST(a_request_that_is_repeated_has_not_completed),
	};

	return cmocka_run_group_tests_name("comp_counter", tests, NULL, NULL);
}
