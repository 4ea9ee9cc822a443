/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages at the responder (message.h): what they bring about, and what is refused and leaves no
 * trace. (Large ones: message_fetch_test.c.)
 */
#include <errno.h>

#include "transport/message_test_support.h"

static void expect_executed(struct station *s, const struct local_message *message)
{
	assert_int_equal(receive_message(s, message), MESSAGE_EXECUTED);
}

/* ---- what comes of them ---- */

static void a_message_lands_in_the_oldest_receive(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 43);
	struct ibv_wc wc;

	post_recv(s, 1, 64);
	post_recv(s, 2, 64);
	expect_executed(s, &message);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 43);
	assert_int_equal(wc.src_qp, PEER_QPN);
	assert_int_equal(wc.wc_flags, 0);
	assert_memory_equal(s->memory + 1024, some_bytes, 43);
	assert_int_equal(s->memory[1024 + 43], 0);
	assert_int_equal(recv_queue_count(&s->qp.rq), 1);
	/* Nothing is owed for it: it has no PSN. */
	expect_silence(s);
	assert_int_equal(s->qp.responder.expected_psn, PEER_PSN);
	assert_int_equal(s->qp.responder.msn, 0);
	station_free(s);
}

static void a_message_of_no_bytes_needs_no_memory(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 0);

	message.data = NULL;
	post_recv(s, 1, 0);
	expect_executed(s, &message);
	assert_int_equal(expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS).byte_len, 0);
	post_recv(s, 2, 100);
	message.sequence++;
	message.flags = MESSAGE_RENDEZVOUS;	/* of nothing */
	expect_executed(s, &message);
	assert_int_equal(expect_wc(&s->recv_cq, 2, IBV_WC_SUCCESS).byte_len, 0);
	station_free(s);
}

static void a_message_is_scattered_over_the_sges(void **state)
{
	struct station *s = station_inside();
	struct ibv_sge sge[3] = { station_sge(s, 5000, 10), station_sge(s, 9000, 0),
				  station_sge(s, 7000, 100) };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = sge, .num_sge = 3 }, *bad;
	struct local_message message = next_message(s, 43);

	assert_int_equal(qp_post_recv(&s->qp, &wr, &bad), 0);
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 5, IBV_WC_SUCCESS);
	assert_memory_equal(s->memory + 5000, some_bytes, 10);
	assert_memory_equal(s->memory + 7000, some_bytes + 10, 33);
	assert_int_equal(s->memory[5010], 0);
	assert_int_equal(s->memory[7033], 0);
	station_free(s);
}

static void immediate_data_reaches_the_completion(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);
	struct ibv_wc wc;

	message.flags = MESSAGE_IMM;
	message.imm = 0x01020304;
	post_recv(s, 1, 64);
	expect_executed(s, &message);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(__builtin_bswap32(wc.imm_data), 0x01020304);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	station_free(s);
}

/* Its data goes to its target, and not where the receive points. */
static void a_write_with_immediate_takes_a_receive(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_write(s, 8192, 100);
	struct ibv_wc wc;

	message.flags |= MESSAGE_IMM;
	message.imm = 7;
	post_recv(s, 1, 16);
	expect_executed(s, &message);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(__builtin_bswap32(wc.imm_data), 7);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(s->memory[1024], 0);
	assert_memory_equal(s->memory + 8192, some_bytes, 100);
	station_free(s);
}

static void a_write_alone_takes_no_receive_and_completes_nothing(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_write(s, 4096, 100);

	expect_executed(s, &message);
	assert_memory_equal(s->memory + 4096, some_bytes, 100);
	assert_int_equal(s->memory[4196], 0);
	message = next_write(s, 0, 0);
	message.rkey = 0;	/* nothing is written: nothing is looked at */
	expect_executed(s, &message);
	expect_no_wc(&s->recv_cq);
	station_free(s);
}

static void a_write_that_may_not_is_refused_and_writes_nothing(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_write(s, MEMORY_BYTES - 50, 100);

	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);	/* ends behind the region */
	message = next_write(s, 0, 100);
	message.rkey++;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	message = next_write(s, 0, 100);
	s->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	s->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	message.flags |= MESSAGE_IMM;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);	/* no receive */
	assert_int_equal(s->memory[0], 0);
	assert_int_equal(s->memory[MEMORY_BYTES - 1], 0);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	station_free(s);
}

static void a_window_is_invalidated_with_the_message(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);
	struct mr_accessor accessor;
	struct mr_access access;
	struct ibv_wc wc;
	uint32_t rkey;
	struct mw mw;

	rkey = bind_window(s, &mw);
	accessor = mr_accessor_of(&s->qp);
	message.flags = MESSAGE_INVALIDATE;
	message.imm = rkey;
	post_recv(s, 1, 64);
	expect_executed(s, &message);
	wc = expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	assert_int_not_equal(mr_access_begin(&s->mrs, &accessor, rkey, IBV_ACCESS_REMOTE_WRITE,
				      (uintptr_t)s->memory, 8, &access), MR_OK);
	/* Once: the next one that names it is refused, and packets will say why. */
	message.sequence++;
	post_recv(s, 2, 64);
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	expect_no_wc(&s->recv_cq);
	assert_int_equal(mw_free(&s->mrs, &mw), 0);
	station_free(s);
}

/* @bytes came with a head of these flags, for 8 bytes of data and so many pieces. */
static bool parses(unsigned flags, uint32_t piece_count, uint32_t bytes)
{
	uint32_t head[MESSAGE_WORDS] = { OUR_GRANT, PEER_QPN | piece_count << 24, flags << 24, 0, 8 };
	struct local_message message;

	return message_parse(head, some_bytes, bytes, &message);
}

/* It is copied with locks held: a peer must not decide how long that takes. */
static void longer_data_than_a_message_carries_is_not_parsed(void **state)
{
	uint32_t head[MESSAGE_WORDS] = { OUR_GRANT, PEER_QPN | 1 << 24, 0, 0, MESSAGE_EAGER_MAX };
	struct local_message message;

	assert_true(message_parse(head, some_bytes, MESSAGE_EAGER_MAX, &message));
	head[4]++;
	assert_false(message_parse(head, some_bytes, MESSAGE_EAGER_MAX + 1, &message));
}

static void what_no_requester_says_is_not_parsed(void **state)
{
	uint32_t piece = sizeof(struct message_piece), target = MESSAGE_TARGET_BYTES;

	assert_true(parses(0, 1, 8));
	assert_true(parses(MESSAGE_IMM | MESSAGE_SOLICITED, 1, 8));
	assert_true(parses(MESSAGE_INVALIDATE | MESSAGE_SOLICITED, 1, 8));
	assert_true(parses(MESSAGE_WRITE, 1, target + 8));
	assert_true(parses(MESSAGE_WRITE | MESSAGE_IMM | MESSAGE_RENDEZVOUS, 2, target + 2 * piece));
	assert_true(parses(MESSAGE_RENDEZVOUS, MESSAGE_PIECES_MAX, MESSAGE_PIECES_MAX * piece));
	assert_false(parses(MESSAGE_IMM | MESSAGE_INVALIDATE, 1, 8));
	assert_false(parses(MESSAGE_WRITE | MESSAGE_INVALIDATE, 1, target + 8));
	assert_true(parses(MESSAGE_XRC, 1, MESSAGE_SRQ_BYTES + 8));
	assert_true(parses(MESSAGE_XRC | MESSAGE_WRITE, 1, MESSAGE_SRQ_BYTES + target + 8));
	assert_false(parses(MESSAGE_XRC, 1, 8));
	assert_false(parses(MESSAGE_XRC, 1, MESSAGE_SRQ_BYTES - 1));
	assert_false(parses(MESSAGE_XRC | MESSAGE_WRITE, 1, target + 8));
	assert_false(parses(MESSAGE_FLAGS + 1, 1, 8));
	assert_false(parses(128, 1, 8));
	assert_false(parses(0, 1, 0));
	assert_false(parses(0, 1, 7));
	assert_false(parses(0, 1, 9));
	assert_false(parses(MESSAGE_WRITE, 1, target - 1));
	assert_false(parses(MESSAGE_WRITE, 1, 8));
	assert_false(parses(MESSAGE_WRITE, 1, 0));
	assert_false(parses(MESSAGE_RENDEZVOUS, 2, piece));
	assert_false(parses(MESSAGE_RENDEZVOUS, 2, 2 * piece + 1));
	assert_false(parses(MESSAGE_RENDEZVOUS, MESSAGE_PIECES_MAX + 1, (MESSAGE_PIECES_MAX + 1) * piece));
}

/* A requester sends the first one as a packet. */
static void who_guesses_keys_by_messages_is_stopped(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_write(s, 0, 8), right = message;
	unsigned i;

	for (i = 0; i < 16; i++) {
		message.rkey = right.rkey + 1 + i;
		assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
		assert_int_equal(s->qp.state, IBV_QPS_RTS);
	}
	message.rkey++;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(station_counter(s, COUNTER_RX_KEY), 17);
	assert_int_equal(receive_message(s, &right), MESSAGE_REFUSED);
	station_free(s);
}

/* Keys of windows have but 24 random bits. */
static void who_guesses_keys_to_invalidate_is_stopped(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);
	unsigned i;

	post_recv(s, 1, 64);
	message.flags = MESSAGE_INVALIDATE;
	for (i = 0; i < 16; i++) {
		message.imm = 0x1000 + i;
		assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
		assert_int_equal(s->qp.state, IBV_QPS_RTS);
	}
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void only_a_solicited_message_raises_a_cq_armed_for_those(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);
	struct comp_channel channel = { 0 };

	event_queue_init(&channel.queue, -1, nothing_to_release);
	s->recv_cq.channel = &channel;
	cq_arm(&s->recv_cq, true, &s->effects);
	post_recv(s, 1, 8);
	post_recv(s, 2, 8);
	expect_executed(s, &message);
	assert_int_equal(s->effects.count, 0);
	message.sequence++;
	message.flags = MESSAGE_SOLICITED;
	expect_executed(s, &message);
	assert_int_equal(s->effects.count, 1);
	station_free(s);
}

static void an_srq_gives_its_receives_and_its_limit_event(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct srq srq = { .async = &s->async, .pd = s->pd.number };
	struct ibv_sge sge = station_sge(s, 4096, 64);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	unsigned i;

	assert_int_equal(recv_queue_init(&srq.queue, 8, 4), 0);
	list_init(&srq.limit_event.node);
	s->qp.srq = &srq;
	for (i = 0; i < 3; i++) {
		wr.wr_id = 30 + i;
		assert_int_equal(srq_post(&srq, &wr, &bad), 0);
	}
	assert_int_equal(srq_modify(&srq, &limit, IBV_SRQ_LIMIT, &s->effects), 0);
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 30, IBV_WC_SUCCESS);
	assert_true(list_empty(&srq.limit_event.node));
	message.sequence++;
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 31, IBV_WC_SUCCESS);
	assert_false(list_empty(&srq.limit_event.node));
	/* One that is refused for its length keeps its receive, and packets use that one. */
	message.sequence++;
	message.length = 65;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 64);
	expect_wc(&s->recv_cq, 32, IBV_WC_SUCCESS);
	assert_int_equal(recv_queue_count(&srq.queue), 0);
	s->qp.srq = NULL;
	recv_queue_fini(&srq.queue);
	station_free(s);
}

static void an_srq_s_receives_are_of_its_protection_domain(void **state)
{
	for (int right = 0; right < 2; right++) {
		struct station *s = station_inside();
		struct local_message message = next_message(s, 8);
		struct message_fetch fetch;
		struct other_domain other;

		other_domain_open(s, &other);
		other_domain_post(s, &other, 5, 64, right);
		assert_int_equal(receive_message(s, &message), right ? MESSAGE_EXECUTED : MESSAGE_REFUSED);
		if (right) {
			expect_wc(&s->recv_cq, 5, IBV_WC_SUCCESS);
			other_domain_post(s, &other, 6, 64, right);
			message.sequence++;
		}
		message.flags = MESSAGE_RENDEZVOUS;
		assert_int_equal(receive_message(s, &message), MESSAGE_FETCH);
		lock_alias(&s->qp.lock);
		assert_int_equal(transport_fetch_begin(&s->qp, &message, &fetch), right);
		if (right)
			transport_fetch_drop(&fetch);
		other_domain_close(s, &other);
		station_free(s);
	}
}

/* ---- XRC ---- */

/* An XRC domain with two SRQs, for a station of XRC_RECV. */
struct domain {
	struct xrc_domain domain;
	struct xrcd xrcd;
	struct srq srq[2];
};

/* SRQ @i of the domain; its receives have the protection domain of the station, the second's no other. */
static void domain_add(struct domain *domain, struct station *s, unsigned i, uint32_t number)
{
	struct srq *srq = &domain->srq[i];

	*srq = (struct srq){ .async = &s->async, .pd = s->pd.number, .number = number,
			     .xrcd = &domain->xrcd, .cq = i ? &s->send_cq : &s->recv_cq };
	assert_int_equal(recv_queue_init(&srq->queue, 8, 4), 0);
	list_init(&srq->limit_event.node);
	xrc_domain_add(&domain->domain, srq);
}

static void domain_receive(struct domain *domain, struct station *s, unsigned i, uint64_t wr_id)
{
	struct ibv_sge sge = station_sge(s, 4096, 64);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(srq_post(&domain->srq[i], &wr, &bad), 0);
}

static struct station *station_xrc(struct domain *domain)
{
	struct station *s = station_inside();

	memset(domain, 0, sizeof(*domain));
	lock_init(&domain->domain.lock);
	list_init(&domain->domain.srqs);
	domain->xrcd.domain = &domain->domain;
	domain_add(domain, s, 0, 0x111);
	domain_add(domain, s, 1, 0x222);
	s->qp.type = IBV_QPT_XRC_RECV;
	s->qp.xrcd = &domain->xrcd;
	s->qp.pd = NULL;
	s->qp.recv_cq = NULL;
	return s;
}

static void station_xrc_free(struct station *s, struct domain *domain) UNCHECKED_LOCKS
{
	s->qp.type = IBV_QPT_RC;
	s->qp.pd = &s->pd;
	s->qp.recv_cq = &s->recv_cq;
	s->qp.xrcd = NULL;
	recv_queue_fini(&domain->srq[0].queue);
	recv_queue_fini(&domain->srq[1].queue);
	lock_destroy(&domain->domain.lock);
	station_free(s);
}

static struct local_message next_of_xrc(const struct station *s, uint32_t srqn)
{
	struct local_message message = next_message(s, 8);

	message.flags = MESSAGE_XRC;
	message.srqn = srqn;
	return message;
}

static void a_message_lands_in_the_srq_that_it_names(void **state) UNCHECKED_LOCKS
{
	struct domain domain;
	struct station *s = station_xrc(&domain);
	struct local_message message = next_of_xrc(s, 0x222);

	domain_receive(&domain, s, 0, 1);
	domain_receive(&domain, s, 1, 2);
	assert_ptr_equal(transport_message_cq(&s->qp, &message), &s->send_cq);
	expect_executed(s, &message);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	message = next_of_xrc(s, 0x111);
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	station_xrc_free(s, &domain);
}

static void a_message_that_names_no_srq_of_the_domain_is_refused(void **state) UNCHECKED_LOCKS
{
	struct domain domain;
	struct station *s = station_xrc(&domain);
	struct local_message message = next_of_xrc(s, 0x333);

	domain_receive(&domain, s, 0, 1);
	assert_null(transport_message_cq(&s->qp, &message));
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	message = next_of_xrc(s, 0x111);
	message.flags = 0;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	assert_int_equal(recv_queue_count(&domain.srq[0].queue), 1);
	expect_no_wc(&s->recv_cq);
	station_xrc_free(s, &domain);
}

static void a_message_of_xrc_is_refused_by_another_type(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_of_xrc(s, 0);

	post_recv(s, 1, 64);
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	expect_no_wc(&s->recv_cq);
	station_free(s);
}

/* Its receive is not that of another SRQ's, whose memory and CQ are not the same. */
static void a_receive_of_a_refused_message_is_for_its_srq_alone(void **state) UNCHECKED_LOCKS
{
	struct domain domain;
	struct station *s = station_xrc(&domain);
	struct local_message message = next_of_xrc(s, 0x111);

	domain_receive(&domain, s, 0, 1);
	domain_receive(&domain, s, 1, 2);
	message.length = 65;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	message = next_of_xrc(s, 0x222);
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	expect_no_wc(&s->send_cq);
	assert_int_equal(recv_queue_count(&domain.srq[1].queue), 1);
	message = next_of_xrc(s, 0x111);
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	station_xrc_free(s, &domain);
}

static void the_first_message_in_rtr_establishes_communication(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);
	struct local_message message;

	s->qp.route.loopback = true;
	station_move(s, IBV_QPS_RTR);
	post_recv(s, 1, 8);
	message = next_message(s, 8);
	assert_false(event_pending(s, QP_EVENT_COMM_EST));
	expect_executed(s, &message);
	assert_true(event_pending(s, QP_EVENT_COMM_EST));
	assert_int_equal(s->qp.access->established, 1);
	station_free(s);
}

static void messages_are_received_while_the_send_queue_drains(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);

	station_move(s, IBV_QPS_SQD);
	post_recv(s, 1, 8);
	expect_executed(s, &message);
	station_free(s);
}

static void a_full_cq_fails_the_qp(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);
	uint64_t i;

	cq_fini(&s->recv_cq);
	memset(&s->recv_cq, 0, sizeof(s->recv_cq));
	assert_int_equal(cq_init(&s->recv_cq, 2), 0);
	for (i = 0; i < 4; i++)
		post_recv(s, i, 8);
	for (i = 0; i < 3; i++, message.sequence++)
		expect_executed(s, &message);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_true(event_pending(s, QP_EVENT_FATAL));
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	expect_wc(&s->recv_cq, 0, IBV_WC_SUCCESS);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void sequence_numbers_wrap_at_24_bits(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);
	struct local_message message;
	uint32_t i;

	s->qp.route.loopback = true;
	station_move(s, IBV_QPS_RTR);
	agree(s);
	s->qp.responder.message_sequence = 0xfffffe;
	for (i = 0; i < 4; i++) {
		message = next_message(s, 8);
		message.sequence = (0xfffffe + i) & 0xffffff;
		post_recv(s, i, 8);
		expect_executed(s, &message);
	}
	station_free(s);
}

/* ---- what is refused ---- */

struct objection {
	struct station *s;
	struct local_message message;
};

static void is_sent_by_a_stranger(struct objection *o)
{
	o->message.source_qpn++;
}

static void was_received_before(struct objection *o)
{
	o->message.sequence--;
}

static void is_not_the_next(struct objection *o)
{
	o->message.sequence++;
}

static void is_too_long(struct objection *o)
{
	o->message.length = 65;
}

static void is_much_too_long(struct objection *o)
{
	o->message.length = UINT32_MAX;
}

static void invalidates_no_window(struct objection *o)
{
	o->message.flags = MESSAGE_INVALIDATE;
	o->message.imm = o->s->mr.ibv.rkey;
}

static void does_not_come_from_this_host(struct objection *o)
{
	o->s->qp.route.loopback = false;
}

static void comes_to_a_qp_of_another_type(struct objection *o)
{
	o->s->qp.type = IBV_QPT_UC;
}

/* Nothing has happened, and the right one is executed. */
static void a_message_is_refused_that(void (*objects)(struct objection *))
{
	struct objection o = { .s = station_inside() };
	struct responder before;
	struct local_message good;
	struct qp *qp = &o.s->qp;

	post_recv(o.s, 1, 64);
	o.message = good = next_message(o.s, 64);
	objects(&o);
	before = qp->responder;
	assert_int_equal(receive_message(o.s, &o.message), MESSAGE_REFUSED);
	qp->type = IBV_QPT_RC;
	qp->route.loopback = true;
	expect_no_wc(&o.s->recv_cq);
	expect_silence(o.s);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_int_equal(recv_queue_count(&qp->rq) + qp->responder.recv_taken, 1);
	assert_int_equal(qp->responder.message_sequence, before.message_sequence);
	assert_int_equal(qp->responder.expected_psn, before.expected_psn);
	assert_int_equal(qp->responder.answer, ANSWER_NONE);
	expect_executed(o.s, &good);
	expect_wc(&o.s->recv_cq, 1, IBV_WC_SUCCESS);
	station_free(o.s);
}

static void an_objection_leaves_no_trace(void **state)
{
	static void (*const objections[])(struct objection *) = {
		is_sent_by_a_stranger, was_received_before, is_not_the_next, is_too_long,
		is_much_too_long, invalidates_no_window, does_not_come_from_this_host,
		comes_to_a_qp_of_another_type,
	};
	unsigned i;

	for (i = 0; i < sizeof(objections) / sizeof(objections[0]); i++)
		a_message_is_refused_that(objections[i]);
}

static void without_a_receive_a_message_is_refused(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);

	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	expect_silence(s);
	post_recv(s, 1, 64);
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	/* Nor is the last one used again, even where none of its bytes are wanted. */
	message.sequence++;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	message.length = 0;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	message = next_write(s, 0, 100);
	message.flags |= MESSAGE_IMM;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	expect_no_wc(&s->recv_cq);
	station_free(s);
}

/* The responder says so to packets: with the completion of the receive and the NAK. */
static void a_receive_with_a_bad_lkey_refuses_messages(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);

	post_recv(s, 511, 4096);	/* ends behind the region */
	message.length = 1025;
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	expect_no_wc(&s->recv_cq);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	receive_data(s, OPCODE_RC_SEND_LAST, PEER_PSN + 1, 1);
	expect_wc(&s->recv_cq, 511, IBV_WC_LOC_PROT_ERR);
	station_free(s);
}

static void only_a_connected_qp_receives(void **state)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR };
	unsigned i;

	for (i = 0; i < 3; i++) {
		struct station *s = station_inside();
		struct local_message message = next_message(s, 8);

		station_move(s, states[i]);
		if (states[i] == IBV_QPS_INIT)
			post_recv(s, 1, 64);
		assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
		expect_no_wc(&s->recv_cq);
		station_free(s);
	}
}

static void a_message_in_the_middle_of_packets_is_refused(void **state)
{
	struct station *s = station_inside();
	struct local_message message = next_message(s, 8);

	post_recv(s, 1, 4096);
	post_recv(s, 2, 64);
	receive_data(s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	receive_data(s, OPCODE_RC_SEND_MIDDLE, PEER_PSN + 1, MTU);
	assert_int_equal(receive_message(s, &message), MESSAGE_REFUSED);
	receive_data(s, OPCODE_RC_SEND_LAST, PEER_PSN + 2, 8);
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	expect_executed(s, &message);
	expect_wc(&s->recv_cq, 2, IBV_WC_SUCCESS);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_lands_in_the_oldest_receive),
		TEST(a_message_of_no_bytes_needs_no_memory),
		TEST(a_message_is_scattered_over_the_sges),
		TEST(immediate_data_reaches_the_completion),
		TEST(a_write_with_immediate_takes_a_receive),
		TEST(a_write_alone_takes_no_receive_and_completes_nothing),
		TEST(a_write_that_may_not_is_refused_and_writes_nothing),
		TEST(a_window_is_invalidated_with_the_message),
		TEST(what_no_requester_says_is_not_parsed),
		TEST(longer_data_than_a_message_carries_is_not_parsed),
		TEST(only_a_solicited_message_raises_a_cq_armed_for_those),
		TEST(who_guesses_keys_by_messages_is_stopped),
		TEST(who_guesses_keys_to_invalidate_is_stopped),
		TEST(an_srq_gives_its_receives_and_its_limit_event),
		TEST(an_srq_s_receives_are_of_its_protection_domain),
		TEST(a_message_lands_in_the_srq_that_it_names),
		TEST(a_message_that_names_no_srq_of_the_domain_is_refused),
		TEST(a_message_of_xrc_is_refused_by_another_type),
		TEST(a_receive_of_a_refused_message_is_for_its_srq_alone),
		TEST(the_first_message_in_rtr_establishes_communication),
		TEST(messages_are_received_while_the_send_queue_drains),
		TEST(a_full_cq_fails_the_qp),
		TEST(sequence_numbers_wrap_at_24_bits),
		TEST(an_objection_leaves_no_trace),
		TEST(without_a_receive_a_message_is_refused),
		TEST(a_receive_with_a_bad_lkey_refuses_messages),
		TEST(only_a_connected_qp_receives),
		TEST(a_message_in_the_middle_of_packets_is_refused),
	};

	return cmocka_run_group_tests_name("message, receiving", tests, NULL, NULL);
}
