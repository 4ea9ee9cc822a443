/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs without packets, to a process of this host that shares memory with us. A message is what a
 * SEND says in a few words, with its data, or with where its data is; or what an RDMA WRITE with
 * immediate data says, or any WRITE behind a message (which its sender could only carry out after the
 * message). It is told to the peer, who executes it as its responder does a packet, or refuses it, and
 * either way answers. How it gets there and back (in order, once, each answered) is link/memory.h's;
 * who carries it is hca/message.c.
 *
 *	requester				responder
 *	transport_tell_next, transport_told  ->	transport_hear: executed, or refused
 *	transport_settle		     <-	answer
 *
 * Like direct requests (direct.h) messages take no PSN and no message sequence number, go only while
 * no packet is unanswered, and have no errors: one that is refused, for whatever reason, is sent as
 * packets, with all that were told after it, which are refused too: a message has to be the next in
 * sequence. So the responder's checks are those of packets, and an objection has no effect here.
 */
#ifndef VERBATIM_TRANSPORT_MESSAGE_H
#define VERBATIM_TRANSPORT_MESSAGE_H

#include "transport/transport.h"

#define MESSAGE_WORDS	5u		/* of its head */
#define MESSAGE_TARGET_BYTES 16u	/* before the data of a WRITE */
#define MESSAGE_SGES_MAX 64u

enum message_flags {
	MESSAGE_IMM		= 1 << 0,
	MESSAGE_INVALIDATE	= 1 << 1,
	MESSAGE_SOLICITED	= 1 << 2,
	MESSAGE_WRITE		= 1 << 3,	/* an RDMA WRITE: its target comes before the rest */
	MESSAGE_PULL		= 1 << 4,	/* the data is to be fetched: what comes are its SGEs */
};
#define MESSAGE_FLAGS (MESSAGE_IMM | MESSAGE_INVALIDATE | MESSAGE_SOLICITED | MESSAGE_WRITE | MESSAGE_PULL)

/* Copy @bytes from @offset of the message's data to @to. @last: they end it. 0 or errno. */
typedef int message_pull_fn(void *context, void *to, uint64_t offset, size_t bytes, bool last);

struct message {
	uint32_t source_qpn, dest_qpn;
	uint32_t sequence;		/* 24 bits */
	uint8_t generation;		/* of the sender's QP (struct qp_access) */
	uint8_t flags, sge_count;
	uint32_t imm;			/* host order; or the rkey to invalidate */
	uint32_t length;		/* bytes of data */
	uint64_t target;		/* MESSAGE_WRITE */
	uint32_t rkey;
	const uint8_t *data;		/* or, with MESSAGE_PULL, SGEs; may change while it is read */
	message_pull_fn *pull;
	void *context;
};

/* ---- requester ---- */

/* The next request, if it may be told; else NULL. */
struct send_wqe *transport_tell_next(struct qp *qp) REQUIRES(qp->lock);
/* Its head; @pull: its data is to be fetched. */
void transport_message_head(const struct qp *qp, const struct send_wqe *wqe, bool pull,
			    uint32_t head[MESSAGE_WORDS]) REQUIRES(qp->lock);
/* Bytes of target that it has; written to @out. */
size_t message_target_bytes(const struct send_wqe *wqe);
void message_write_target(const struct send_wqe *wqe, uint8_t *out);
/* Copy the request's data to @out. False: a key or its memory is not valid. */
bool transport_gather(struct qp *qp, const struct send_wqe *wqe, uint8_t *out) REQUIRES(qp->lock);
/* It was told; @token is what its answer will name, and no other's of this QP. */
void transport_told(struct qp *qp, uint64_t token, uint64_t now_ns) REQUIRES(qp->lock);
/* The answer. What was told before the QP was reset is ignored. */
void transport_settle(struct qp *qp, uint64_t token, bool refused, uint64_t now_ns,
		      struct effects *effects) REQUIRES(qp->lock);
/*
 * With messages told, and transport_deadline() passed: how far the peer has got, with these or anything
 * before them. If that is another value than last time it is not silent, and has all its time again.
 */
void transport_told_progress(struct qp *qp, uint32_t progress, uint64_t now_ns) REQUIRES(qp->lock);

/* ---- responder ---- */

/*
 * @bytes at @data came with @head: the target of a WRITE, and the data or its SGEs. All of @message is
 * filled in but how to fetch. False: no requester says this.
 */
bool message_parse(const uint32_t head[MESSAGE_WORDS], const uint8_t *data, uint32_t bytes,
		   struct message *message);

enum message_fate {
	MESSAGE_EXECUTED,
	MESSAGE_REFUSED,
	MESSAGE_UNFINISHED,		/* a large one: call again with the same message */
};

enum message_fate transport_hear(struct qp *qp, const struct message *message, uint64_t now_ns,
				 struct effects *effects) REQUIRES(qp->lock);

#endif
