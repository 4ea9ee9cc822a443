/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the tests of messages (message.h): a station that sends, one that receives, and the messages
 * between them.
 */
#ifndef VERBATIM_TRANSPORT_MESSAGE_TEST_SUPPORT_H
#define VERBATIM_TRANSPORT_MESSAGE_TEST_SUPPORT_H

#include "transport/test_support.h"

#define CARRIED_MAX 8192u
#define OUR_GRANT	0x89abc011u	/* of our QP to the peer ... */
#define PEER_GRANT	0xfedcb022u	/* ... and of its QP to us */

/* A message on its way, and its answer. */
struct carried {
	uint32_t head[MESSAGE_WORDS];
	uint8_t data[CARRIED_MAX];
	uint32_t bytes;
	uint64_t token;
};

/* As local/move/pairing.c leaves it. */
static inline void agree(struct station *s)
{
	s->qp.pairing = (struct pairing){ .life = 1, .ours = OUR_GRANT, .theirs = PEER_GRANT,
					  .agreed = true };
	s->qp.requester.message_sequence = 0;
	s->qp.responder.message_sequence = 0;
	s->qp.responder.message_done = 0;
}

/* Both ends are on this host, and agree. */
static inline struct station *station_inside(void)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.route.loopback = true;
	station_reserve(s, s->qp.attr.max_dest_rd_atomic);
	agree(s);
	return s;
}

/* The station at the other end of station_inside()'s connection. */
static inline struct station *station_opposite(void)
{
	struct station *s = station_new(IBV_QPT_RC);

	s->qp.number = PEER_QPN;
	s->qp.attr.dest_qp_num = OUR_QPN;
	s->qp.attr.sq_psn = PEER_PSN;
	s->qp.attr.rq_psn = OUR_PSN;
	s->qp.route.loopback = true;
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	station_reserve(s, s->qp.attr.max_dest_rd_atomic);
	agree(s);
	return s;
}

static inline bool may_send_message(struct station *s) UNCHECKED_LOCKS
{
	return transport_message_next(&s->qp) != NULL;
}

/* Send the next request as a message; its answer will name @token. */
static inline void send_message(struct station *s, uint64_t token,
				struct carried *carried) UNCHECKED_LOCKS
{
	struct send_wqe *wqe = transport_message_next(&s->qp);
	size_t target;

	assert_non_null(wqe);
	target = message_target_bytes(&s->qp, wqe);
	assert_true(target + wqe->length <= CARRIED_MAX);
	transport_message_head(&s->qp, wqe, false, carried->head);
	if (target)
		message_write_target(&s->qp, wqe, carried->data);
	assert_true(transport_gather(&s->qp, wqe, carried->data + target));
	carried->bytes = (uint32_t)target + wqe->length;
	carried->token = token;
	transport_message_sent(&s->qp, wqe, token, s->now_ns);
}

/* post() and send_message(), for messages whose content no test looks at. */
static inline void post_and_send(struct station *s, enum ibv_wr_opcode opcode, uint64_t wr_id,
				 size_t length, uint64_t token)
{
	struct carried carried;

	post(s, opcode, wr_id, length);
	send_message(s, token, &carried);
}

static inline void answer_message(struct station *s, uint64_t token, bool refused) UNCHECKED_LOCKS
{
	effects_init(&s->effects);
	transport_message_answered(&s->qp, token, refused, s->now_ns, &s->effects);
	assert_true(s->effects.count <= EFFECTS_PER_CALL);
}

static inline enum message_fate receive_message(struct station *s,
						const struct local_message *message) UNCHECKED_LOCKS
{
	enum message_fate fate;

	effects_init(&s->effects);
	fate = transport_message_receive(&s->qp, message, s->now_ns, &s->effects);
	assert_true(s->effects.count <= EFFECTS_PER_CALL);
	return fate;
}

/* Copies a part of a message's data: 0 or errno. */
typedef int copy_fn(void *context, void *to, uint64_t offset, size_t bytes, bool last);

/* As local/move/fetch.c: one part. */
static inline enum message_fate fetch_part(struct station *s, const struct local_message *message,
					   copy_fn *copy, void *context) UNCHECKED_LOCKS
{
	struct message_fetch fetch;
	enum message_fate fate;
	uint64_t offset;
	unsigned i;
	int err = 0;

	if (!transport_fetch_begin(&s->qp, message, &fetch))
		return MESSAGE_REFUSED;
	offset = fetch.offset;
	for (i = 0; i < fetch.pieces && !err; i++) {
		err = copy(context, fetch.piece[i].iov_base, offset, fetch.piece[i].iov_len,
			   fetch.last && i == fetch.pieces - 1);
		offset += fetch.piece[i].iov_len;
	}
	assert_true(err || offset == fetch.offset + fetch.bytes);
	effects_init(&s->effects);
	fate = transport_fetched(&s->qp, message, &fetch, !err, s->now_ns, &s->effects);
	assert_true(s->effects.count <= EFFECTS_PER_CALL);
	return fate;
}

static inline enum message_fate receive_carried(struct station *s, const struct carried *carried)
{
	struct local_message message;

	assert_true(message_parse(carried->head, carried->data, carried->bytes, &message));
	return receive_message(s, &message);
}

/* A SEND of the peer's, the next in sequence: to be changed by the test. */
static inline struct local_message next_message(const struct station *s, uint32_t bytes)
{
	return (struct local_message){ .source_qpn = PEER_QPN, .grant = OUR_GRANT,
				       .sequence = s->qp.responder.message_sequence,
				       .length = bytes, .data = some_bytes };
}

/* The same of a WRITE, to @offset of the station's memory. */
static inline struct local_message next_write(const struct station *s, size_t offset,
					      uint32_t bytes)
{
	struct local_message message = next_message(s, bytes);

	message.flags = MESSAGE_WRITE;
	message.target = (uintptr_t)s->memory + offset;
	message.rkey = s->mr.ibv.rkey;
	return message;
}

/* As expect_wc(), at either station. */
static inline struct ibv_wc expect_wc_of(struct station *s, struct cq *cq, uint64_t wr_id,
					 enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(cq_take(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, s->qp.number);
	return wc;
}

/* Packets go to and fro until there are none. */
static inline void exchange_packets(struct station *a, struct station *b)
{
	struct station *from = a, *to = b, *other;
	unsigned silent = 0, i;

	while (silent < 2) {
		silent = transmit(from) ? 0 : silent + 1;
		for (i = 0; i < from->batch->count; i++) {
			struct packet packet = sent(from, i);

			receive(to, &packet);
		}
		other = from;
		from = to;
		to = other;
	}
}

#endif
