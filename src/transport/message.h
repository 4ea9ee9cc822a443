/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs without packets, to a process of this host that shares memory with us. A message describes
 * a SEND in a few words, with its data (eager) or the place of its data (rendezvous); or an RDMA
 * WRITE with immediate data, or any WRITE behind a message (which the requester could only execute
 * after the message). The peer's responder executes it like a packet, or refuses it, and answers in
 * either case. local/channel/ring.h carries messages and answers (in order, once, each answered);
 * local/move/send.c sends them.
 *
 *	requester			responder
 *	transport_message_next
 *	transport_message_sent	  ->	transport_message_receive: executes or refuses
 *	transport_message_answered <-	answer
 *
 * Like direct requests (direct.h), messages take no PSN and no message sequence number, and go only
 * while no packet is unanswered. A refused message becomes packets, and so do all messages after
 * it, which are refused, too, since a message must be the next in sequence: so the responder's
 * checks are those of packets, and errors are reported by packets. The exception: a message that
 * the peer does not consume within the retry budget fails the QP here (RETRY_EXC_ERR).
 */
#ifndef VERBATIM_TRANSPORT_MESSAGE_H
#define VERBATIM_TRANSPORT_MESSAGE_H

#include <sys/uio.h>

#include "transport/transport.h"

#define MESSAGE_WORDS	5u		/* of its head */
#define MESSAGE_TARGET_BYTES 16u	/* before the data of a WRITE */
#define MESSAGE_SRQ_BYTES 4u		/* of XRC, before all of that */
#define MESSAGE_PIECES_MAX 64u
#define MESSAGE_EAGER_MAX 32768u	/* data that a message contains: longer data is fetched */

enum message_flags {
	MESSAGE_IMM		= 1 << 0,
	MESSAGE_INVALIDATE	= 1 << 1,
	MESSAGE_SOLICITED	= 1 << 2,
	MESSAGE_WRITE		= 1 << 3,	/* an RDMA WRITE: its target comes before the rest */
	MESSAGE_RENDEZVOUS	= 1 << 4,	/* the message has the pieces of its data, to be fetched */
	MESSAGE_XRC		= 1 << 5,	/* the number of the SRQ comes first of all */
};
#define MESSAGE_FLAGS_SHIFT	24	/* in a word of the head, above a number of 24 bits */
#define MESSAGE_FLAGS                                                                              \
	(MESSAGE_IMM | MESSAGE_INVALIDATE | MESSAGE_SOLICITED | MESSAGE_WRITE | MESSAGE_RENDEZVOUS |           \
	 MESSAGE_XRC)

struct local_message {
	uint32_t grant;			/* of the destination QP to the peer (object/pairing.h) */
	uint32_t source_qpn;
	uint32_t sequence;		/* 24 bits; from 0 on since both QPs agreed */
	uint8_t flags, piece_count;
	uint32_t imm;			/* host order; or the rkey to invalidate */
	uint32_t length;		/* bytes of data */
	uint64_t target;		/* MESSAGE_WRITE */
	uint32_t rkey;
	uint32_t srqn;			/* MESSAGE_XRC */
	const uint8_t *data;		/* or MESSAGE_RENDEZVOUS: pieces; may change while it is read */
};

/* Place of a part of a message's data in its sender's address space. */
struct message_piece {
	uint64_t address;
	uint32_t region;		/* the sender's grant of it (local/grant/grant.h) */
	uint32_t length;
};

/* A part of a message's data that the caller fetches without locks, and its destination. */
struct message_fetch {
	uint64_t offset;		/* in the data */
	uint32_t bytes;
	bool last;			/* ends the data: its last cache line becomes visible last */
	unsigned pieces;
	struct iovec piece[MESSAGE_PIECES_MAX];
	struct mr_access access[MESSAGE_PIECES_MAX];	/* each piece is held */
};

/* ---- requester ---- */

/* The next request if it may be sent as a message; else NULL. */
struct send_wqe *transport_message_next(struct qp *qp) REQUIRES(qp->lock);
/* Would it be, whichever of those that take a receive is posted next? */
bool transport_message_always_next(const struct qp *qp) REQUIRES(qp->lock);
/* Write its head; @rendezvous: its data is to be fetched. */
void transport_message_head(const struct qp *qp, const struct send_wqe *wqe, bool rendezvous,
			    uint32_t head[MESSAGE_WORDS]) REQUIRES(qp->lock);
/* Bytes of its target (0: none), and the target itself: the SRQ, the address. */
size_t message_target_bytes(const struct qp *qp, const struct send_wqe *wqe);
void message_write_target(const struct qp *qp, const struct send_wqe *wqe, uint8_t *out);
/* Of all that follows the head: the target, then the data, or with @rendezvous its pieces, one for each SGE. */
static inline size_t transport_message_bytes(const struct qp *qp, const struct send_wqe *wqe, bool rendezvous)
{
	return message_target_bytes(qp, wqe) +
	       (rendezvous ? wqe->sge_count * sizeof(struct message_piece) : wqe->length);
}
/* Write it, and its head. @piece NULL: with the data. False: a key or its memory is not valid. */
bool transport_message_write(struct qp *qp, const struct send_wqe *wqe, const struct message_piece *piece,
			     uint32_t head[MESSAGE_WORDS], uint8_t *out) REQUIRES(qp->lock);
/* The same of a SEND without more, whose data is in the message. */
static inline void transport_send_head(const struct qp *qp, const struct send_wqe *wqe,
				       uint32_t head[MESSAGE_WORDS])
	REQUIRES(qp->lock)
{
	unsigned flags = wqe->flags & IBV_SEND_SOLICITED ? MESSAGE_SOLICITED : 0;

	head[0] = qp->pairing.theirs;
	head[1] = qp->number | wqe->sge_count << MESSAGE_FLAGS_SHIFT;
	head[2] = qp->requester.message_sequence | flags << MESSAGE_FLAGS_SHIFT;
	head[3] = 0;
	head[4] = wqe->length;
}

/* Copy the request's data to @out. False: a key or its memory is not valid. */
bool transport_gather(struct qp *qp, const struct send_wqe *wqe, uint8_t *out) REQUIRES(qp->lock);
/* The same of a request with one SGE, or inline data, of a QP that does not send by itself. */
bool transport_gather_one(struct qp *qp, const struct send_wqe *wqe, uint8_t *out) REQUIRES(qp->lock);
/* @wqe, the next one, was sent as a message; its answer will name @token, unique in this QP. */
void transport_message_sent(struct qp *qp, struct send_wqe *wqe, uint64_t token, uint64_t now_ns)
	REQUIRES(qp->lock);
/* transport_deadline() while messages are unanswered: when to check whether the peer is silent. */
uint64_t transport_message_deadline(const struct qp *qp) REQUIRES(qp->lock);
/*
 * The messages with @token and those behind it, at most @most, have been executed, and one more has. How many were
 * SENDs without completion: they are done with.
 */
uint32_t transport_row_answered(struct qp *qp, uint64_t token, uint32_t most) REQUIRES(qp->lock);
/* Take an answer. Those to messages sent before a reset of the QP are ignored. */
void transport_message_answered(struct qp *qp, uint64_t token, bool refused, uint64_t now_ns,
		      struct effects *effects) REQUIRES(qp->lock);
/*
 * The peer has not taken the oldest message yet, and cannot refuse it: complete it. Its answer is not for
 * transport_message_answered(). @alone: the peer has taken all that were completed before it.
 */
void transport_message_commit(struct qp *qp, bool alone, uint64_t now_ns, struct effects *effects)
	REQUIRES(qp->lock);
/* The peer has refused such a message all the same: what was completed did not happen. */
void transport_message_unmade(struct qp *qp, uint64_t now_ns, struct effects *effects) REQUIRES(qp->lock);
/*
 * With messages unanswered and transport_deadline() passed: @progress changes while the peer
 * consumes these or anything before them. If it has changed since the last call, the peer is not
 * silent and gets the whole timeout again.
 */
void transport_message_progress(struct qp *qp, uint32_t progress, uint64_t now_ns) REQUIRES(qp->lock);

/* ---- responder ---- */

/*
 * Parse @head and the @bytes at @data: SRQ, target of a WRITE, and the data or its pieces. Fills
 * *message. False: malformed.
 */
bool message_parse(const uint32_t head[MESSAGE_WORDS], const uint8_t *data, uint32_t bytes,
		   struct local_message *message);

/* The CQ that its completion goes to; NULL: it names no SRQ of the domain of @qp. */
struct cq *transport_message_cq(const struct qp *qp, const struct local_message *message)
	REQUIRES(qp->lock);

enum message_fate {
	MESSAGE_EXECUTED,
	MESSAGE_REFUSED,
	MESSAGE_FETCH,			/* its data is to be fetched first: transport_fetch_begin() */
};

/* Receive a message. */
enum message_fate transport_message_receive(struct qp *qp, const struct local_message *message,
					    uint64_t now_ns, struct effects *effects)
	REQUIRES(qp->lock);

/*
 * SENDs for one QP in a row, each received by what was decided for the one before it: a message
 * that has its data and no flag but SOLICITED, for a receive of one SGE. Everything else is left to
 * transport_message_receive().
 */
#define MESSAGE_SHORT_MAX 2048u		/* bytes of such a message */

struct message_row {
	struct qp *qp;			/* of an open row; its CQ is locked, too */
	struct mr_access access;	/* to the region that the last receive named, ... */
	uint32_t lkey;			/* ... by this key; 0: to none */
	struct cq_poll *poll;		/* by who receives it, of the QP's CQ; NULL: none */
};

/*
 * May each next message of this kind be received that way? What changes that closes
 * qp->responder.shortcut: every call of transport/ but those of qp_call_init_on(), every change of
 * state or of the pairing, and transport_message_receive().
 */
bool transport_always_receives(const struct qp *qp) REQUIRES(qp->lock);
/*
 * Where that was so, and still is; @poll: of who receives it, NULL: of nobody. False: its completions need
 * an event, or another look.
 */
bool transport_row_begin(struct message_row *row, struct qp *qp, struct cq_poll *poll)
	REQUIRES(qp->lock) TRY_ACQUIRES(true, qp->recv_cq->lock);
/* Receive a message, of @bytes at @data. False: nothing was done. */
bool transport_row_receive(struct message_row *row, const uint32_t head[MESSAGE_WORDS],
			   const uint8_t *data, uint32_t bytes) REQUIRES(row->qp->lock, row->qp->recv_cq->lock);
/* The data of a SEND that may be executed, however it came: the same. */
bool transport_row_take(struct message_row *row, const uint8_t *data, uint32_t bytes, bool solicited)
	REQUIRES(row->qp->lock, row->qp->recv_cq->lock);
void transport_row_end(struct message_row *row)
	REQUIRES(row->qp->lock) RELEASES(row->qp->recv_cq->lock);

/*
 * Begin to fetch the next part of its data, described by *fetch. Its memory is held until
 * transport_fetched() or transport_fetch_drop(). False: the message is refused.
 */
bool transport_fetch_begin(struct qp *qp, const struct local_message *message,
			   struct message_fetch *fetch) REQUIRES(qp->lock);
/* The fetch is done, or failed (@fetched false): continue with the message. */
enum message_fate transport_fetched(struct qp *qp, const struct local_message *message,
				    struct message_fetch *fetch, bool fetched, uint64_t now_ns,
				    struct effects *effects) REQUIRES(qp->lock);
/* The QP is gone: release the memory. */
void transport_fetch_drop(struct message_fetch *fetch);

#endif
