/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * single.c beside requester.c: two stations live through the same, and one of them has its packets noted for a
 * trace, which keeps it on the long way. Whatever happens between two posts, both send the same bytes, and are
 * in the same state behind them.
 */
#include "base/test_random.h"
#include "trace/trace.h"
#include "transport/direct.h"
#include "transport/test_support.h"

#define RUNS		400u
#define STEPS		400u
#define ROOM		8u		/* requests that are left free */
#define OTHERS_BYTES	(PATH_WINDOW_MAX / 2)	/* of the window, taken by another QP */

static struct station *pair[2];		/* plain, and noted */
static unsigned singles, glances;	/* requests that took the short way; deadlines known at a glance */
static uint32_t others_bytes;

static void each_post(uint64_t *random) UNCHECKED_LOCKS
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV };
	static const uint32_t lengths[] = { 0, 1, 2, 64, 255, MTU - 1, MTU, MTU + 1, 3 * MTU };
	uint64_t a = test_random(random), b = test_random(random);
	unsigned what = a % 64, i, at = (unsigned)(b % 100);
	enum ibv_wr_opcode opcode = opcodes[what < 56 ? what % 6 : 6 + what % 3];
	uint32_t length = lengths[(a >> 8) % 9];

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		length = 8;
	if (opcode == IBV_WR_RDMA_READ && length > MTU)
		length = MTU;
	for (i = 0; i < 2; i++) {
		struct ibv_sge sge[2];
		struct ibv_send_wr wr;

		if (wqe_slots_used(&pair[i]->qp.sq.slots, pair[i]->qp.sq.head) + ROOM > 64)
			continue;
		request_init(&wr, sge, pair[i], opcode, at, length);
		wr.wr_id = b;
		wr.imm_data = (uint32_t)b;
		wr.send_flags = (a >> 16) % 4 ? IBV_SEND_SIGNALED : 0;
		wr.send_flags |= (a >> 20) % 3 ? 0 : IBV_SEND_SOLICITED;
		wr.send_flags |= (a >> 24) % 16 ? 0 : IBV_SEND_FENCE;
		if (length <= 255 && (a >> 28) % 4 == 0 && opcode < IBV_WR_RDMA_READ)
			wr.send_flags |= IBV_SEND_INLINE;
		if (length > 1 && (a >> 32) % 4 == 0 && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
			sge[1] = station_sge(pair[i], 8192, length - 1);
			sge[0].length = 1;
			wr.num_sge = 2;
		}
		if ((a >> 36) % 500 == 0)
			sge[0].lkey ^= 0x1000;
		post_wr(pair[i], &wr);
	}
}

static void receive_cnp(struct station *s)
{
	struct packet packet = packet_of(OPCODE_CNP, 0);

	receive(s, &packet);
}

/* The whole of the oldest request, as its kind demands. */
static void answer_oldest(struct station *s)
{
	const struct send_wqe *wqe = send_queue_at(&s->qp.sq, s->qp.sq.tail);

	if (s->qp.sq.tail == s->qp.sq.sent)
		return;
	if (wqe->opcode == IBV_WR_RDMA_READ)
		receive_data(s, OPCODE_RC_READ_RESPONSE_ONLY, wqe->last_psn, wqe->length);
	else if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		receive_data(s, OPCODE_RC_ATOMIC_ACKNOWLEDGE, wqe->last_psn, 0);
	else
		receive_ack(s, wqe->last_psn);
}

static void each_answer(uint64_t *random) UNCHECKED_LOCKS
{
	const struct requester *requester = &pair[0]->qp.requester;
	uint32_t under_way = (requester->send_psn - requester->una_psn) & PSN_MASK;
	uint64_t a = test_random(random);
	uint32_t una_psn = requester->una_psn, last_psn = psn_add(requester->send_psn, PSN_MASK);
	uint32_t psn = psn_add(una_psn, under_way ? (uint32_t)(a % (under_way + 2)) : 0);
	const struct recovery *recovery = recovery_of(&pair[0]->qp);
	uint32_t ask_psn = recovery ? recovery->repair.ask_psn : 0;
	unsigned i, kind = (a >> 32) % 26;

	for (i = 0; i < 2; i++)
		if (kind > 20)
			answer_oldest(pair[i]);
		else if (kind == 19)
			receive_gaps(pair[i], GAPS_ASK, pair[0]->qp.responder.expected_psn, 0);
		else if (kind == 20)
			receive_cnp(pair[i]);
		else if (kind == 0)
			receive_nak(pair[i], psn, AETH_NAK, NAK_SEQUENCE);
		else if (kind == 1)
			receive_nak(pair[i], psn, AETH_RNR, 14);
		else if (kind == 2)
			receive_gaps(pair[i], GAPS_YES, ask_psn, 0);
		else if (kind == 3 || kind == 18)
			receive_gaps(pair[i], GAPS_REPORT, una_psn, a >> 40);
		else
			receive_nak(pair[i], kind < 12 ? psn : last_psn, AETH_ACK,
				    kind % 4 ? AETH_CREDITS_INVALID : (uint8_t)(a >> 40) % 6);
}

/* A message of the peer, whose ACK may wait; or a READ, whose responses take the way before requests. */
static void each_request(uint64_t *random) UNCHECKED_LOCKS
{
	uint32_t psn = pair[0]->qp.responder.expected_psn;
	uint64_t a = test_random(random);
	unsigned i, kind = a % 16;

	for (i = 0; i < 2; i++) {
		if (recv_queue_count(&pair[i]->qp.rq) < 32)
			post_recv(pair[i], 3, MTU);
		pair[i]->info.ecn_marked = (a >> 8) % 64 == 0;
		if (kind == 0)
			receive_read(pair[i], psn, 0, 5 * MTU);
		else if (kind == 1)
			receive_data(pair[i], OPCODE_RC_SEND_ONLY, psn_add(psn, 2), 9);
		else
			receive_data(pair[i], OPCODE_RC_SEND_ONLY, psn, 9);
		pair[i]->info.ecn_marked = false;
		if (kind & 1)
			transport_replied(&pair[i]->qp, pair[i]->now_ns, true);
	}
}

/* What others do to a QP, and its attributes. */
static void each_change(uint64_t *random) UNCHECKED_LOCKS
{
	uint64_t a = test_random(random);
	unsigned i;

	others_bytes = a % 14 == 0 ? OTHERS_BYTES - others_bytes : others_bytes;
	for (i = 0; i < 2; i++) {
		struct qp *qp = &pair[i]->qp;

		switch (a % 14) {
		case 0:
			qp->path->in_flight_bytes += others_bytes ? others_bytes : -OTHERS_BYTES;
			break;
		case 1:
			qp->path->window_bytes = (a >> 8) % 2 ? PATH_WINDOW_START : 2 * PACKET_COST_MIN;
			break;
		case 2:
			qp->requester.pace.kbps = (a >> 8) % 2 ? 1000 : 0;
			qp->requester.pace.burst_bytes = 100;
			break;
		case 3:
			transport_direct_prefer(qp, (a >> 8) % 2);
			break;
		case 4:
			qp->requester.packets_until = qp->sq.sent + (a >> 8) % 3;
			break;
		case 5:
			qp->requester.in_packets = (a >> 8) % 2 ? STREAM_BEGINS : 0;
			break;
		case 6:
			pair[i]->quantum = (a >> 8) % 4 ? (a >> 12) % 3 : 256;
			break;
		case 7:
			if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
				station_move(pair[i], qp->state == IBV_QPS_RTS ? IBV_QPS_SQD : IBV_QPS_RTS);
			break;
		case 8:
			qp->requester.path_turn = true;
			break;
		case 9:
			qp->responder.echo_congestion = true;
			break;
		case 10:
			qp->requester.direct_waits = (a >> 8) % 2;
			break;
		case 11:
			qp->route.traffic_class ^= 4;
			break;
		case 12:
			qp->requester.loss.rto_ns = 40 * MILLISECOND;
			break;
		case 13:
			transport_way_changed(qp, pair[i]->now_ns, &pair[i]->effects);
			break;
		}
	}
}

static void compare_requests(void) UNCHECKED_LOCKS
{
	const struct send_queue *sq = &pair[0]->qp.sq, *noted = &pair[1]->qp.sq;
	uint32_t n;

	assert_int_equal(sq->head, noted->head);
	assert_int_equal(sq->sent, noted->sent);
	assert_int_equal(sq->tail, noted->tail);
	for (n = sq->tail; n != sq->head; n++) {
		const struct send_wqe *a = send_queue_at(sq, n), *b = send_queue_at(noted, n);

		assert_int_equal(a->state, b->state);
		assert_int_equal(a->status, b->status);
		assert_int_equal(a->first_psn, b->first_psn);
		assert_int_equal(a->last_psn, b->last_psn);
		assert_int_equal(a->ssn, b->ssn);
	}
}

static void compare_packets(void)
{
	const struct tx_batch *a = pair[0]->batch, *b = pair[1]->batch;
	unsigned i;

	assert_int_equal(a->count, b->count);
	assert_int_equal(a->used, b->used);
	for (i = 0; i < a->count; i++) {
		assert_memory_equal(&a->packet[i], &b->packet[i], sizeof(a->packet[i]));
		assert_memory_equal(a->data + a->packet[i].offset, b->data + b->packet[i].offset,
				    a->packet[i].bytes);
	}
}

static void compare_stations(void) UNCHECKED_LOCKS
{
	const struct qp *a = &pair[0]->qp, *b = &pair[1]->qp;
	const struct loss *loss = &a->requester.loss;
	unsigned i;

	assert_memory_equal(&a->requester, &b->requester, sizeof(a->requester));
	assert_int_equal(a->responder.answer, b->responder.answer);
	assert_int_equal(a->responder.answer_late, b->responder.answer_late);
	assert_int_equal(a->responder.acked_psn, b->responder.acked_psn);
	assert_int_equal(a->responder.echo_congestion, b->responder.echo_congestion);
	assert_int_equal(a->responder.hold.until_ns, b->responder.hold.until_ns);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->path->in_flight_bytes, b->path->in_flight_bytes);
	assert_int_equal(list_empty(&a->path->waiting), list_empty(&b->path->waiting));
	assert_int_equal(atomic_load(&pair[0]->run_queue.count), atomic_load(&pair[1]->run_queue.count));
	assert_int_equal(pair[0]->cut, pair[1]->cut);
	assert_int_equal(transport_ready(a), transport_ready(b));
	assert_int_equal(deadline_of(pair[0]), deadline_of(pair[1]));
	/* What is known at a glance of the deadline is true. */
	for (i = 0; i < 5; i++) {
		uint64_t at_ns[] = { pair[0]->now_ns, loss->sent_ns, loss->sent_ns + loss->rto_ns,
				     loss->sent_ns + ACK_TIMEOUT_FLOOR * MILLISECOND,
				     a->responder.hold.until_ns + 1 };
		bool behind = transport_deadline_is_behind(a, at_ns[i]);

		assert_true(!behind || deadline_of(pair[0]) >= at_ns[i]);
		glances += behind;
	}
}

static void compare_completions(struct cq *a, struct cq *b)
{
	struct ibv_wc one, other;
	int n;

	while ((n = cq_take(a, 1, &one))) {
		assert_int_equal(n, 1);
		assert_int_equal(cq_take(b, 1, &other), 1);
		assert_int_equal(one.wr_id, other.wr_id);
		assert_int_equal(one.status, other.status);
	}
	assert_int_equal(cq_take(b, 1, &other), 0);
}

static void both_transmit(void) UNCHECKED_LOCKS
{
	uint32_t sent = pair[0]->qp.sq.sent;
	unsigned i;

	for (i = 0; i < 2; i++) {
		effects_init(&pair[i]->effects);
		atomic_fetch_or(&trace_wanted, i ? TRACE_LOG : 0);
		transmit(pair[i]);
		atomic_fetch_and(&trace_wanted, ~(uint32_t)TRACE_LOG);
	}
	/* The long way says how READs are cut, whatever the request is. */
	if (pair[0]->qp.sq.sent == sent + 1 && !send_queue_at(&pair[0]->qp.sq, sent)->chunk_bytes)
		singles++;
	compare_packets();
	compare_requests();
	compare_stations();
}

/* Nothing is in the way any more, as a rule: all is answered, and what was changed is as before. */
static void each_rests(void) UNCHECKED_LOCKS
{
	unsigned i, n;

	for (i = 0; i < 2; i++) {
		struct qp *qp = &pair[i]->qp;

		if (qp->state == IBV_QPS_SQD)
			station_move(pair[i], IBV_QPS_RTS);
		pair[i]->quantum = 256;
		qp->requester.pace.kbps = 0;
		qp->requester.pace.held_until_ns = 0;
		qp->requester.direct_waits = false;
		qp->requester.in_packets = STREAM_BEGINS;
		transport_direct_prefer(qp, false);
		qp->path->in_flight_bytes -= others_bytes;
		qp->path->window_bytes = PATH_WINDOW_START;
	}
	others_bytes = 0;
	for (n = 0; n < 64 && pair[0]->qp.sq.tail != pair[0]->qp.sq.head; n++) {
		both_transmit();
		for (i = 0; i < 2; i++) {
			answer_oldest(pair[i]);
			pass_time(pair[i], MILLISECOND / 8);
		}
	}
}

/* May what was posted wait for more? Both say so. */
static bool each_gathers(void) UNCHECKED_LOCKS
{
	bool waits = transport_may_gather(&pair[0]->qp, pair[0]->now_ns);

	assert_int_equal(transport_may_gather(&pair[1]->qp, pair[1]->now_ns), waits);
	return waits;
}

static void one_step(uint64_t *random) UNCHECKED_LOCKS
{
	uint64_t a = test_random(random);
	bool waits = false;
	unsigned i;

	switch (a % 16) {
	default:
		each_post(random);
		if ((a >> 52) % 2)
			waits = each_gathers();
		break;
	case 7: case 8: case 9: case 10: case 11:
		each_answer(random);
		break;
	case 12: case 13:
		each_request(random);
		break;
	case 14:
		for (i = 0; i < 2; i++)
			pass_time(pair[i], (a >> 8) % 8 ? (a >> 16) % 30000 : MILLISECOND);
		break;
	case 15:
		each_change(random);
		break;
	}
	for (i = 0; i < 2; i++)
		pair[i]->now_ns += 100;
	if (a >> 48 & 15 ? false : pair[0]->qp.state != IBV_QPS_ERR)
		each_rests();
	else if ((a >> 40) % 8 && !waits)
		both_transmit();
	compare_completions(&pair[0]->send_cq, &pair[1]->send_cq);
	compare_completions(&pair[0]->recv_cq, &pair[1]->recv_cq);
	free_slots(pair[0]);
	free_slots(pair[1]);
}

static void the_short_way_is_the_long_one(void **state) UNCHECKED_LOCKS
{
	unsigned run, step, i;

	for (run = 0; run < RUNS; run++) {
		uint64_t random = run, fill = 1;

		others_bytes = 0;
		for (i = 0; i < 2; i++) {
			pair[i] = station_new(IBV_QPT_RC);
			if (run % 2)
				station_holds(pair[i]);
			pair[i]->qp.attr.rnr_retry = pair[i]->qp.attr.retry_cnt = 7;
			pair[i]->qp.attr.timeout = 1 + run % 14;
			pair[i]->qp.route.loopback = run / 2 % 2;
			station_move(pair[i], IBV_QPS_RTR);
			station_move(pair[i], IBV_QPS_RTS);
			fill = 1;
			test_random_fill(&fill, pair[i]->memory, 64 * 1024);
		}
		for (step = 0; step < STEPS && pair[0]->qp.state != IBV_QPS_ERR; step++)
			one_step(&random);
		for (i = 0; i < 2; i++) {
			pair[i]->qp.path->in_flight_bytes -= others_bytes;
			station_free(pair[i]);
		}
	}
	assert_true(singles > RUNS && glances > RUNS);
}

static void an_answer_that_found_no_room_goes_first(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.requester.in_packets = STREAM_BEGINS;
	s->quantum = 1;
	post_recv(s, 3, MTU);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 9);
	post(s, IBV_WR_SEND, 1, 2);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	post(s, IBV_WR_SEND, 1, 2);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_ACKNOWLEDGE, PEER_PSN);
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN + 1);
	station_free(s);
}

/* It would be too late. */
static void an_ack_that_is_held_is_no_matter_of_a_glance(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 2);
	assert_int_equal(transmit(s), 1);
	assert_true(transport_deadline_is_behind(&s->qp, s->now_ns + 2));
	s->qp.responder.hold.until_ns = s->now_ns + 1;
	assert_false(transport_deadline_is_behind(&s->qp, s->now_ns + 2));
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_short_way_is_the_long_one),
		TEST(an_answer_that_found_no_room_goes_first),
		TEST(an_ack_that_is_held_is_no_matter_of_a_glance),
	};

	return cmocka_run_group_tests_name("single", tests, NULL, NULL);
}
