/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests without packets, for the files of this folder:
 *
 *	open.c		the rooms of local/ for an HCA: set up, and taken down
 *	pairing.c	which grants QPs and keys have: asking for them, and answering
 *	region.c	the grant of a region, with its block where it is one
 *	drain.c		ending grants: waiting until no peer uses them any more
 *	run.c		requests without packets, in the order of the send queue
 *	shortcut.c	the same for one SEND behind another, with the rules asked once for many
 *	onesided.c	WRITE, READ and atomics, executed by the requester
 *	send.c		messages, the requester's part; receive.c: the responder's, and answers
 *	fetch.c		large messages: copying their data, without locks
 *	commit.c	messages to a process that is stopped, completed before it takes them
 *	way.c		which way requests take, in words; trace.c: what went without packets, in a trace
 */
#ifndef VERBATIM_LOCAL_MOVE_INTERNAL_H
#define VERBATIM_LOCAL_MOVE_INTERNAL_H

#include "local/channel/peer.h"

/* ---- grants (pairing.c, drain.c) ---- */

/* Is @qp paired with the peer? If not, ask the peer, unless it is too early to. */
bool pairing_establish(struct local *local, struct qp *qp, struct peer *peer) REQUIRES(qp->lock);
/* Ask behind the packets of a UC QP, unless a question is open or the last answers were no. */
void pairing_ask_barrier(struct local *local, struct qp *qp) REQUIRES(qp->lock);
/* Our grant of @qp to the peer, made if need be; 0: no room. */
uint32_t pairing_grant_qp(struct local *local, struct qp *qp, struct peer *peer) REQUIRES(qp->lock);
/* Our grant of the region @key to the peer, for data sent from there; 0: no room. */
uint32_t pairing_grant_region(struct local *local, struct peer *peer, uint32_t key);
/*
 * Outcome of a request: done without packets; waiting for an answer or for room; objection. A full
 * send queue never becomes idle by itself, so a stream of packets is paused for requests that may
 * need none. After objections it resumes, and is paused more and more rarely.
 */
enum pairing_verdict { PAIRING_DONE, PAIRING_WAITS, PAIRING_OBJECTS };
void pairing_judge(struct qp *qp, enum pairing_verdict verdict) REQUIRES(qp->lock);
/* Would pairing_establish() say yes, and pairing_judge() change nothing behind a request that was done? */
bool pairing_is_settled(const struct qp *qp, const struct peer *peer) REQUIRES(qp->lock);
/* Requests are sent as a stream of packets: is it time to hold it again? */
void pairing_reconsider(struct qp *qp) REQUIRES(qp->lock);
/*
 * The protection domain that @wqe is executed in: of the peer's QP or (XRC) of the SRQ that @wqe names. False: not
 * known yet; *asked: the peer was asked now.
 */
bool pairing_find_pd(struct local *local, struct qp *qp, struct peer *peer, const struct send_wqe *wqe,
		     uint32_t *pd, bool *asked) REQUIRES(qp->lock);
/* Ask which region the key of @wqe names, unless it was asked lately. Returns whether it was asked now. */
bool pairing_ask_key(struct local *local, struct qp *qp, struct peer *peer, const struct send_wqe *wqe)
	REQUIRES(qp->lock);
/* Handle a control message, with the progress lock. False: it cannot be answered now. */
bool pairing_receive(struct local *local, struct peer *peer, const struct control *control);
/* The peer could not take our question about that QP: ask again. With the progress lock. */
void pairing_ask_again(struct local *local, uint32_t qpn);

/* Fill in a KEY message about @region. */
void describe_grant(const struct mr_description *region, uint32_t grant, struct control *control);
/*
 * If @region is a block, grant the block for @rights (a mask of IBV_ACCESS_REMOTE_*): send its
 * descriptor, and note that in @answer. Otherwise the peer copies.
 */
void grant_block(struct local *local, struct peer *peer, const struct mr_description *region,
		 unsigned rights, struct control *answer);

/*
 * Data is sent from the region @key: if it is a block that the peer may map, the next thread that
 * makes progress offers it.
 */
void grant_offer(struct local *local, struct peer *peer, uint32_t key);
/* With the progress lock: make the offers that are due. */
void grant_make_offers(struct local *local);

/* The region of @block is gone. For struct mr_table. */
void region_forget(void *local, void *block);

/* Wait until no peer uses the region of @key. An mr_drain_fn. */
void drain_region(void *local, uint32_t key);

/* ---- messages to a process that is stopped (commit.c) ---- */

/* The same in processes whose QPs, receive queues and regions are laid out alike. */
uint64_t commit_layout(void);
/* Without locks: do what local_commit() asked for. True: there was something to do. */
bool commit_run(struct local *local, struct peer *peer);
/* With the progress lock: the peer has taken such a message. */
void commit_answered(struct local *local, unsigned channel);
/*
 * Would a request to [@host, +@bytes) of the peer's process meet the receive of a message that the peer has not
 * taken yet? It has to go behind that.
 */
static inline bool commit_meets(const struct peer *peer, uint64_t host, uint64_t bytes)
{
	return atomic_load_explicit(&peer->committed, memory_order_acquire) &&
	       host < atomic_load_explicit(&peer->committed_to, memory_order_relaxed) &&
	       host + bytes > atomic_load_explicit(&peer->committed_from, memory_order_relaxed);
}

/* ---- messages ---- */

/* Send @wqe, the next request, as a message. False: it has to wait, or needs packets. */
bool message_send(struct local *local, struct qp *qp, struct send_wqe *wqe) REQUIRES(qp->lock);
/*
 * What a WRITE or READ has taken hold of and the next one of a row can use: the peer's grants by a
 * hazard, our region by an access, and the pages of it that are present. Held for no longer than the
 * QP's lock, and by one thread.
 */
struct onesided_row {
	struct peer *peer;		/* NULL: nothing is held */
	struct peer_region region;
	uint32_t life, theirs;		/* of the channel; the peer's grant of its QP */
	unsigned need, hazard;
	uint32_t srqn;			/* XRC */
	uint32_t lkey;			/* 0: inline data, no access */
	struct mr_access access;
	uintptr_t present, present_end;
};

/*
 * Execute @wqe, the next request, WRITE, READ or atomic, and complete it. False: as above. @row:
 * peer NULL before the first request; ended after the last one.
 */
bool onesided_run(struct local *local, struct qp *qp, const struct send_wqe *wqe,
		  struct onesided_row *row, struct effects *effects) REQUIRES(qp->lock);
void onesided_row_end(struct onesided_row *row);
/*
 * The same of a WRITE of inline data to memory that is mapped here, to the peer that the shortcut of
 * @qp stands for. False: nothing was done.
 */
bool onesided_write_inline(struct local *local, struct qp *qp, struct peer *peer, const struct send_wqe *wqe,
			   struct effects *effects) REQUIRES(qp->lock);
/* The same of one that has one SGE, and is not in the send queue. */
bool onesided_write_at_once(struct local *local, struct qp *qp, struct peer *peer, const struct ibv_send_wr *wr,
			    struct effects *effects) REQUIRES(qp->lock);
/*
 * Start to fetch the data of @message for our QP @qpn; its pieces are at @source. Holds the peer's
 * ring. With the progress lock.
 */
void fetch_start(struct local *local, struct peer *peer, uint32_t qpn, uint32_t sender,
		 const struct local_message *message, const struct message_piece *source);

/*
 * The peer of @channel is gone and its channel closed: unanswered messages become packets. With the
 * progress lock.
 */
void messages_lost(struct local *local, unsigned channel);
/* trace.c: for `verbatim trace`. */
/* @mapped: by loads and stores, else by a copy of the kernel. */
void trace_direct(const struct qp *qp, const struct send_wqe *wqe, uint64_t original, bool mapped)
	REQUIRES(qp->lock);
void trace_message_sent(const struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock);
void trace_message_answered(const struct qp *qp, uint32_t message) REQUIRES(qp->lock);
void trace_message_received(const struct qp *qp, const struct local_message *message, uint64_t time_ns)
	REQUIRES(qp->lock);
/* The number of a message in its channel, as the transport names it. */
uint64_t message_token(uint32_t channel, uint32_t cell);

#endif
