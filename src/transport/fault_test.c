/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every row of fault.def as a peer brings it about: by packets (RC, RC with an SRQ, XRC, UC) and, where a message
 * inside a host can ask for the same, by that first, which is refused without a trace. What is expected is typed
 * here once more, by the class of the specification.
 */
#include "transport/message_test_support.h"

enum bench_service { ON_RC, ON_SRQ, ON_XRC, ON_UC, SERVICES };

/* A station with receives 1 and 2 of 64 bytes. */
struct bench {
	struct station *s;
	enum bench_service service;
	struct srq srq;
	struct xrc_domain domain;
	struct xrcd xrcd;
	bool no_receives, bad_lkey;
};

#define SRQ_NUMBER	0x111u
#define NO_NAK		-1
#define RNR		-2

struct expected {
	enum fault fault;
	void (*provoke)(struct bench *bench);
	enum message_fate (*message)(struct bench *bench);	/* NULL: no message can ask for it */
	int nak;
	enum ibv_wc_status status;	/* of the oldest receive; SUCCESS: it is not taken */
	enum qp_event event;		/* when none is taken */
	unsigned services;		/* that have it */
};

static struct packet bench_packet(const struct bench *bench, uint8_t code)
{
	static const uint8_t prefix[SERVICES] = { [ON_UC] = 0x20, [ON_XRC] = 0xa0 };
	struct packet packet = packet_of((uint8_t)(prefix[bench->service] | code),
					 bench->s->qp.responder.expected_psn);

	packet.srqn = SRQ_NUMBER;
	packet.payload = some_bytes;
	packet.payload_bytes = packet.reth.length = 8;
	packet.reth.address = packet.atomic.address = (uintptr_t)bench->s->memory;
	packet.reth.rkey = packet.atomic.rkey = bench->s->mr.ibv.rkey;
	return packet;
}

static struct local_message bench_message(const struct bench *bench, uint32_t bytes, unsigned flags)
{
	struct local_message message = next_message(bench->s, bytes);

	message.flags = (uint8_t)(flags | (bench->service == ON_XRC ? MESSAGE_XRC : 0));
	message.srqn = SRQ_NUMBER;
	message.target = (uintptr_t)bench->s->memory;
	message.rkey = bench->s->mr.ibv.rkey;
	return message;
}

/* ---- one function a row ---- */

static void send_ahead(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_ONLY);

	packet.psn++;
	receive(bench->s, &packet);
}

static void send_plainly(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_ONLY);

	receive(bench->s, &packet);
}

static enum message_fate message_plainly(struct bench *bench)
{
	struct local_message message = bench_message(bench, 8, 0);

	return receive_message(bench->s, &message);
}

static void break_off(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_FIRST);

	bench->s->qp.mtu = 32;
	packet.payload_bytes = 32;
	receive(bench->s, &packet);
	packet = bench_packet(bench, OPCODE_RC_WRITE_ONLY);
	receive(bench->s, &packet);
}

static void go_on_with_nothing(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_LAST);

	receive(bench->s, &packet);
}

static void name_no_srq(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_ONLY);

	packet.srqn++;
	receive(bench->s, &packet);
}

static enum message_fate message_to_no_srq(struct bench *bench)
{
	struct local_message message = bench_message(bench, 8, 0);

	message.srqn++;
	return receive_message(bench->s, &message);
}

static void write_where_none_may(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_WRITE_ONLY_IMM);

	bench->s->qp.attr.qp_access_flags = 0;
	receive(bench->s, &packet);
}

static enum message_fate message_where_none_may(struct bench *bench)
{
	struct local_message message = bench_message(bench, 8, MESSAGE_WRITE | MESSAGE_IMM);

	bench->s->qp.attr.qp_access_flags = 0;
	return receive_message(bench->s, &message);
}

static void read_too_often(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_READ_REQUEST);

	packet.payload_bytes = 0;
	for (unsigned i = 0; i < 5; i++, packet.psn++)
		receive(bench->s, &packet);
}

static void send_less_than_the_mtu(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_FIRST);

	receive(bench->s, &packet);
}

static void send_too_much(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_ONLY);

	packet.payload_bytes = 65;
	receive(bench->s, &packet);
}

static enum message_fate message_of_too_much(struct bench *bench)
{
	struct local_message message = bench_message(bench, 65, 0);

	return receive_message(bench->s, &message);
}

static void add_to_an_odd_address(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_FETCH_ADD);

	packet.payload_bytes = 0;
	packet.atomic.address += 4;
	packet.atomic.rkey++;		/* the address comes first */
	receive(bench->s, &packet);
}

static void write_by_a_bad_key(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_WRITE_ONLY_IMM);

	packet.reth.rkey++;
	receive(bench->s, &packet);
}

/* The first of several packets: the last one, with the immediate, never comes. */
static void begin_by_a_bad_key(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_WRITE_FIRST);

	packet.payload_bytes = MTU;
	packet.reth.length = MTU + 8;
	packet.imm_follows = true;
	packet.reth.rkey++;
	receive(bench->s, &packet);
}

static enum message_fate message_by_a_bad_key(struct bench *bench)
{
	struct local_message message = bench_message(bench, 8, MESSAGE_WRITE | MESSAGE_IMM);

	message.rkey++;
	return receive_message(bench->s, &message);
}

/* None that takes a receive: all of them are flushed. */
static void write_plainly_by_a_bad_key(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_WRITE_ONLY);

	packet.reth.rkey++;
	receive(bench->s, &packet);
}

static void read_by_a_bad_key(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_READ_REQUEST);

	packet.payload_bytes = 0;
	packet.reth.rkey++;
	receive(bench->s, &packet);
}

static void invalidate_a_region(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_SEND_ONLY_INV);

	packet.invalidate_rkey = bench->s->mr.ibv.rkey;
	receive(bench->s, &packet);
}

static enum message_fate message_invalidates_a_region(struct bench *bench)
{
	struct local_message message = bench_message(bench, 8, MESSAGE_INVALIDATE);

	message.imm = bench->s->mr.ibv.rkey;
	return receive_message(bench->s, &message);
}

/* As if the pages of a WRITE with immediate were gone. */
static void find_no_memory(struct bench *bench)
{
	struct packet packet = bench_packet(bench, OPCODE_RC_WRITE_ONLY_IMM);
	struct qp *qp = &bench->s->qp;
	struct qp_call call;

	lock_alias(&qp->lock);
	qp_call_init(&call, qp, bench->s->now_ns, &bench->s->effects);
	qp->responder.target = bench->service == ON_XRC ? &bench->srq : NULL;
	lock_alias(&call.qp->lock);
	assert_true(responder_take(&call));
	responder_fault(&call, FAULT_MEMORY, packet.psn);
	qp_call_end(&call);
}

/* ---- the table ---- */

#define RELIABLE	(1u << ON_RC | 1u << ON_SRQ | 1u << ON_XRC)
#define ALL		(RELIABLE | 1u << ON_UC)
#define LOCAL_EVENT	QP_EVENT_FATAL

static const struct expected expectations[] = {
	/* class B: the requester repeats */
	{ FAULT_PSN_AHEAD, send_ahead, NULL, NAK_SEQUENCE, IBV_WC_SUCCESS, 0, RELIABLE },
	{ FAULT_NO_RECEIVE, send_plainly, message_plainly, RNR, IBV_WC_SUCCESS, 0, RELIABLE },
	/* class C: the request is wrong */
	{ FAULT_OUT_OF_ORDER, break_off, NULL, NAK_INVALID, IBV_WC_REM_INV_REQ_ERR, 0, RELIABLE },
	{ FAULT_OUT_OF_ORDER, go_on_with_nothing, NULL, NAK_INVALID, IBV_WC_SUCCESS, QP_EVENT_REQ_ERR, ALL },
	{ FAULT_NO_TARGET, name_no_srq, message_to_no_srq, NAK_INVALID, IBV_WC_SUCCESS, QP_EVENT_ACCESS_ERR,
	  1u << ON_XRC },
	{ FAULT_DISABLED, write_where_none_may, message_where_none_may, NAK_INVALID, IBV_WC_REM_INV_REQ_ERR, 0,
	  ALL },
	{ FAULT_TOO_MANY, read_too_often, NULL, NAK_INVALID, IBV_WC_SUCCESS, QP_EVENT_REQ_ERR, RELIABLE },
	{ FAULT_BAD_LENGTH, send_less_than_the_mtu, NULL, NAK_INVALID, IBV_WC_REM_INV_REQ_ERR, 0, ALL },
	{ FAULT_TOO_LONG, send_too_much, message_of_too_much, NAK_INVALID, IBV_WC_LOC_LEN_ERR, 0, ALL },
	{ FAULT_UNALIGNED, add_to_an_odd_address, NULL, NAK_INVALID, IBV_WC_SUCCESS, QP_EVENT_REQ_ERR, RELIABLE },
	{ FAULT_ACCESS, write_by_a_bad_key, message_by_a_bad_key, NAK_ACCESS, IBV_WC_LOC_ACCESS_ERR, 0, ALL },
	{ FAULT_ACCESS, begin_by_a_bad_key, message_by_a_bad_key, NAK_ACCESS, IBV_WC_LOC_ACCESS_ERR, 0, ALL },
	{ FAULT_ACCESS, write_plainly_by_a_bad_key, NULL, NAK_ACCESS, IBV_WC_SUCCESS, QP_EVENT_ACCESS_ERR, ALL },
	{ FAULT_ACCESS, read_by_a_bad_key, NULL, NAK_ACCESS, IBV_WC_SUCCESS, QP_EVENT_ACCESS_ERR, RELIABLE },
	/* class J: in silence */
	{ FAULT_INVALIDATE, invalidate_a_region, message_invalidates_a_region, NO_NAK, IBV_WC_MW_BIND_ERR, 0,
	  RELIABLE },
	/* class A: our own fault */
	{ FAULT_LOCAL_PROTECTION, send_plainly, message_plainly, NAK_OPERATION, IBV_WC_LOC_PROT_ERR, 0, ALL },
	{ FAULT_MEMORY, find_no_memory, NULL, NAK_OPERATION, IBV_WC_LOC_QP_OP_ERR, 0, RELIABLE },
};
#define EXPECTATIONS	(sizeof(expectations) / sizeof(expectations[0]))

static bool shares(const struct bench *bench)
{
	return bench->service == ON_SRQ || bench->service == ON_XRC;
}

static void bench_open(struct bench *bench, enum bench_service service, const struct expected *row) UNCHECKED_LOCKS
{
	struct station *s = station_rts(service == ON_UC ? IBV_QPT_UC : IBV_QPT_RC);

	*bench = (struct bench){ .s = s, .service = service };
	s->qp.route.loopback = true;
	if (service != ON_UC)
		station_reserve(s, 4);
	agree(s);
	bench->srq = (struct srq){ .async = &s->async, .pd = s->pd.number, .number = SRQ_NUMBER,
				   .cq = &s->recv_cq };
	assert_int_equal(recv_queue_init(&bench->srq.queue, 8, 4), 0);
	list_init(&bench->srq.limit_event.node);
	if (service == ON_SRQ)
		s->qp.srq = &bench->srq;
	lock_init(&bench->domain.lock);
	list_init(&bench->domain.srqs);
	if (service == ON_XRC) {
		bench->xrcd.domain = &bench->domain;
		bench->srq.xrcd = &bench->xrcd;
		xrc_domain_add(&bench->domain, &bench->srq);
		s->qp.type = IBV_QPT_XRC_RECV;
		s->qp.xrcd = &bench->xrcd;
		s->qp.pd = NULL;
		s->qp.recv_cq = NULL;
	}
	for (uint64_t id = 1; id <= 2 && row->fault != FAULT_NO_RECEIVE; id++) {
		struct ibv_sge sge = station_sge(s, id * 1024, 64);
		struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

		sge.lkey += row->fault == FAULT_LOCAL_PROTECTION;
		assert_int_equal(shares(bench) ? srq_post(&bench->srq, &wr, &bad) :
						 qp_post_recv(&s->qp, &wr, &bad), 0);
	}
}

static void bench_close(struct bench *bench) UNCHECKED_LOCKS
{
	struct station *s = bench->s;

	s->qp.type = bench->service == ON_UC ? IBV_QPT_UC : IBV_QPT_RC;
	s->qp.pd = &s->pd;
	s->qp.recv_cq = &s->recv_cq;
	s->qp.xrcd = NULL;
	s->qp.srq = NULL;
	recv_queue_fini(&bench->srq.queue);
	lock_destroy(&bench->domain.lock);
	station_free(s);
}

/* The last packet sent is the answer: other requests were answered before it. */
static void expect_answer(struct bench *bench, int nak)
{
	unsigned count = transmit(bench->s);
	uint8_t syndrome;

	if (nak == NO_NAK) {
		assert_int_equal(count, 0);
		return;
	}
	assert_true(count);
	syndrome = sent(bench->s, count - 1).aeth.syndrome;
	assert_int_equal(aeth_kind(syndrome), nak == RNR ? AETH_RNR : AETH_NAK);
	if (nak >= 0)
		assert_int_equal(aeth_value(syndrome), nak);
}

static void expect_outcome(struct bench *bench, const struct expected *row)
{
	bool kept = row->nak == NAK_SEQUENCE || row->nak == RNR, taken = row->status != IBV_WC_SUCCESS;
	struct station *s = bench->s;

	expect_answer(bench, row->nak);
	assert_int_equal(s->qp.state, kept ? IBV_QPS_RTS : IBV_QPS_ERR);
	if (taken)
		expect_wc(&s->recv_cq, 1, row->status);
	else if (!kept)
		assert_true(event_pending(s, row->event));
	assert_int_equal(event_pending(s, QP_EVENT_FATAL) || event_pending(s, QP_EVENT_REQ_ERR) ||
			 event_pending(s, QP_EVENT_ACCESS_ERR), !taken && !kept);
	/* The rest is flushed, or belongs to others as well. */
	for (uint64_t id = 1 + taken; id <= 2 && !kept && !shares(bench); id++)
		expect_wc(&s->recv_cq, id, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(&s->recv_cq);
	if (shares(bench) && row->fault != FAULT_NO_RECEIVE)
		assert_int_equal(recv_queue_count(&bench->srq.queue), taken ? 1 : 2);
}

/* UC says nothing, and goes on unless the fault is its own. */
static void expect_silence_of_uc(struct bench *bench, const struct expected *row)
{
	bool fails = row->fault == FAULT_LOCAL_PROTECTION;

	expect_answer(bench, NO_NAK);
	assert_int_equal(bench->s->qp.state, fails ? IBV_QPS_ERR : IBV_QPS_RTS);
	if (fails) {
		expect_wc(&bench->s->recv_cq, 1, row->status);
		expect_wc(&bench->s->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	}
	expect_no_wc(&bench->s->recv_cq);
	if (fails)
		return;
	bench->s->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	send_plainly(bench);
	expect_wc(&bench->s->recv_cq, 1, IBV_WC_SUCCESS);
}

static void expect_row(const struct expected *row, enum bench_service service, bool by_message)
{
	struct bench bench;

	bench_open(&bench, service, row);
	if (by_message) {
		assert_int_equal(row->message(&bench), MESSAGE_REFUSED);
		assert_int_equal(bench.s->qp.state, IBV_QPS_RTS);
		expect_no_wc(&bench.s->recv_cq);
	}
	row->provoke(&bench);
	if (service == ON_UC)
		expect_silence_of_uc(&bench, row);
	else
		expect_outcome(&bench, row);
	bench_close(&bench);
}

static void each_row_by_packets(void **state)
{
	for (unsigned i = 0; i < EXPECTATIONS; i++)
		for (int service = 0; service < SERVICES; service++)
			if (expectations[i].services & 1u << service)
				expect_row(&expectations[i], (enum bench_service)service, false);
}

static void each_row_by_a_message_and_then_by_packets(void **state)
{
	for (unsigned i = 0; i < EXPECTATIONS; i++)
		for (int service = ON_RC; service <= ON_XRC; service++)
			if ((expectations[i].services & 1u << service) && expectations[i].message)
				expect_row(&expectations[i], (enum bench_service)service, true);
}

static void every_row_is_tried(void **state)
{
	for (int fault = FAULT_NONE + 1; fault < FAULT_COUNT; fault++) {
		unsigned count = 0;

		for (unsigned i = 0; i < EXPECTATIONS; i++)
			count += expectations[i].fault == (enum fault)fault;
		assert_true(count);
	}
}

static void every_row_agrees_with_its_class(void **state)
{
	for (int fault = FAULT_NONE + 1; fault < FAULT_COUNT; fault++) {
		const struct fault_row *row = fault_row((enum fault)fault);
		bool repeats = row->class == FAULT_CLASS_B;

		assert_non_null(row->name);
		assert_int_equal(row->answer == FAULT_ANSWER_NAK_OPERATION, row->class == FAULT_CLASS_A);
		assert_int_equal(row->answer == FAULT_ANSWER_NONE, row->class == FAULT_CLASS_J);
		assert_int_equal(row->answer == FAULT_ANSWER_RNR || row->answer == FAULT_ANSWER_NAK_SEQUENCE,
				 repeats);
		/* What keeps the QP is repaired by the requester; the rest ends it. */
		assert_int_equal(row->fate == FAULT_FATE_KEEP, repeats);
		assert_int_equal(row->status == IBV_WC_SUCCESS, repeats);
		assert_int_equal(row->event < 0, repeats);
		assert_true(!repeats || row->receive == FAULT_LEAVES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_row_agrees_with_its_class),
		TEST(every_row_is_tried),
		TEST(each_row_by_packets),
		TEST(each_row_by_a_message_and_then_by_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
