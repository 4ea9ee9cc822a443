/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What local/ asks of the transport, for requests that need no packets: which may leave so (direct.h,
 * message.h), and what has become of them. local/ knows rings, grants and other processes' memory, and
 * few members of a requester or responder (tests/abi/seam.py counts both).
 *
 *	two QPs agree	transport_may_pair, transport_pairing_asked, _answered, _barrier_asked
 *	a run		transport_run_begin, _next, _end; transport_direct_done, transport_message_sent
 *	a message	transport_message_bytes, _write; by the shortcut _always_next, _write_short
 *	its answer	transport_answered; of a stopped peer transport_unanswered, _message_commit
 *	one comes	transport_message_receive; in a row transport_row_open, _continue, _receive, _end
 */
#ifndef VERBATIM_TRANSPORT_LOCAL_H
#define VERBATIM_TRANSPORT_LOCAL_H

#include "transport/barrier.h"
#include "transport/direct.h"
#include "transport/message.h"
#include "transport/refusal.h"
#include "wire/psn.h"

/* ---- two QPs agree (local/move/pairing.c) ---- */

/* Is nothing of @qp unanswered? Only then both ends mean the same PSN. */
static inline bool transport_may_pair(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;

	return qp->sq.sent == qp->sq.tail && requester->una_psn == requester->next_psn &&
	       !requester->local_messages && !requester->rnr_until_ns;
}

/* The peer was asked behind our packets (barrier.h), or could not be. */
static inline void transport_barrier_asked(struct qp *qp, bool asked, uint64_t now_ns) REQUIRES(qp->lock)
{
	if (asked)
		barrier_asked(qp, now_ns);
	else
		barrier_declined(qp);
}

/* The peer has answered. @refusal: requests have to go as packets; NULL: messages are counted from 0 on. */
static inline void transport_pairing_answered(struct qp *qp, const struct refusal *refusal) REQUIRES(qp->lock)
{
	if (barrier_answered(qp))
		run_queue_add(qp->transport->run_queue, qp);
	if (refusal)
		transport_refused(qp, refusal);
	else
		qp->requester.message_sequence = 0;
}

/*
 * A peer asks whose next packet has @psn. NULL: agreed, its messages are counted from 0 on; or why its requests
 * have to go as packets: in RTR the first of them raises COMM_EST; UC begins each message anew, at any PSN.
 */
static inline const char *transport_pairing_asked(struct qp *qp, uint32_t psn) REQUIRES(qp->lock)
{
	struct responder *responder = &qp->responder;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD &&
	    !(qp->state == IBV_QPS_RTR && responder->established))
		return "it is not ready to receive";
	if (qp_is(qp, QP_RELIABLE) && (responder->expected_psn != psn || !qp_is_between_messages(qp)))
		return "their PSNs differ";
	responder->message_sequence = responder->message_done = 0;
	return NULL;
}

/* ---- a run of requests (local/move/run.c) ---- */

/* It begins. True: the peer is to be asked something first (barrier.h). */
static inline bool transport_run_begin(struct qp *qp) REQUIRES(qp->lock)
{
	qp->requester.direct_waits = false;
	return barrier_is_due(qp);
}

/* The next request, as a message or executed by this process. NULL: none, it has to wait, or needs packets. */
static inline struct send_wqe *transport_run_next(struct qp *qp, bool *message) REQUIRES(qp->lock)
{
	struct send_wqe *wqe = transport_message_next(qp);

	*message = wqe;
	return wqe ? wqe : transport_direct_next(qp);
}

#define RUN_STREAMS	1u		/* a stream of packets is under way that will not be held */
#define RUN_UNANSWERED	2u		/* messages are */

/* It ends; @cut: others have a turn before the next one. Returns what there is to do. */
static inline unsigned transport_run_end(struct qp *qp, bool cut) REQUIRES(qp->lock)
{
	qp->requester.direct_waits = cut && transport_direct_next(qp);
	return (transport_is_streaming(qp) ? RUN_STREAMS : 0) |
	       (qp->requester.local_messages ? RUN_UNANSWERED : 0);
}

/* ---- messages: the requester ---- */

/* As transport_message_write(), of a SEND by a shortcut: of one SGE or inline, and nothing but data. */
static inline bool transport_message_write_short(struct qp *qp, const struct send_wqe *wqe,
						 uint32_t head[MESSAGE_WORDS], uint8_t *out) REQUIRES(qp->lock)
{
	if (!transport_gather_one(qp, wqe, out))
		return false;
	transport_send_head(qp, wqe, head);
	return true;
}

struct message_answer {
	uint64_t token;
	bool refused;
	bool committed;			/* to one that was completed before (transport_message_commit()) */
	uint32_t row;			/* of so many with tokens in a row, which were executed, it is the first */
};

#define MESSAGE_NONE	UINT32_MAX

/*
 * Take it. The number of the message that is done with; MESSAGE_NONE: none is, or answer->row are, from 1
 * on. Those have no completion; the last of a row is taken by itself, with what is due behind it.
 */
static inline uint32_t transport_answered(struct qp *qp, struct message_answer *answer, uint64_t now_ns,
					  struct effects *effects) REQUIRES(qp->lock)
{
	const uint32_t before = qp->requester.local_messages;
	const uint32_t oldest = psn_add(qp->requester.message_sequence, -before);
	uint32_t row = answer->row > 1 ? transport_row_answered(qp, answer->token, answer->row - 1) : 0;

	answer->row = row;
	if (row)
		return MESSAGE_NONE;
	if (answer->committed) {
		if (answer->refused)
			transport_message_unmade(qp, now_ns, effects);
		return MESSAGE_NONE;
	}
	transport_message_answered(qp, answer->token, answer->refused, now_ns, effects);
	if (qp->sq.sent != qp->sq.head)
		run_queue_add(qp->transport->run_queue, qp);
	return qp->requester.local_messages < before ? oldest : MESSAGE_NONE;
}

/* Messages that are unanswered, the oldest requests of the send queue. */
struct unanswered {
	uint32_t count;			/* 0: none, or some of them were refused */
	uint32_t first;			/* number of the oldest */
	uint16_t early_receives;	/* of those completed before: struct requester */
	uint8_t early_write_age;
};

static inline void transport_unanswered(const struct qp *qp, struct unanswered *out) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;

	*out = (struct unanswered){
		.count = requester->refused ? 0 : requester->local_messages,
		.first = psn_add(requester->message_sequence, -requester->local_messages),
		.early_receives = requester->early_receives, .early_write_age = requester->early_write_age,
	};
}

/* ---- messages: the responder ---- */

/*
 * Behind a message that was executed: may the next ones be received in a row? A receive of several SGEs is as a
 * rule followed by others.
 */
static inline void transport_row_open(struct qp *qp) REQUIRES(qp->lock)
{
	qp->responder.shortcut = transport_always_receives(qp) && qp->responder.recv->sge_count == 1;
}

/* Where that was so, and nothing has closed it: as transport_row_begin(). */
static inline bool transport_row_continue(struct message_row *row, struct qp *qp, struct cq_poll *poll)
	REQUIRES(qp->lock) TRY_ACQUIRES(true, qp->recv_cq->lock)
{
	return qp->responder.shortcut && transport_row_begin(row, qp, poll);
}

#endif
