/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport: RC, UC and UD after IBTA chapter 9, without I/O. It has no clock, socket,
 * thread or randomness of its own: packets and the time come in; packets, completions and the
 * next deadline come out. The same code runs in production (engine/, device/), in the simulator
 * (sim/) and under the fuzzer.
 *
 *	service.h	what a QP does by its service: reliable.c, unreliable.c, raw.c
 *	requester.c	our requests: builds packets, retransmits; requester_time.c: when
 *	request.c	a work request on the wire: opcodes, headers, PSNs
 *	loss.c		when the requester probes, and when a timeout counts as a retry
 *	congestion.c	marks of switches, and the CNPs that answer them; rate.c: DCQCN's rate
 *	repair.c	what the peer says it lacks, sent again; early.c: at the responder
 *	ack_hold.h	ACKs that wait for the reply to their message
 *	gather.h	requests that wait for others, to leave together
 *	completer.c	the peer's answers to them: ACK, NAK, read responses
 *	responder.c	the peer's requests: answers; responder_check.c, responder_run.c: checks, executes
 *	resource.c	responder resources; replay.c: answers to duplicates from them
 *	unreliable.c	UC and UD, both ways
 *	raw.c		RAW_PACKET: Ethernet frames, both ways
 *	execute.c	what requests do with application memory
 *	emit.c		packets into the batch
 *	drop.c		words for packets that are dropped, and for what the peer says of ours (refusal.h)
 *	finish.c	completions, flushing, the error state
 *	direct.c	one-sided requests that need no packets
 *	message.c	SENDs that need none; message_receive.c: at the receiver
 *	flow.c		flow control of UC and UD, with stream.c (asking), echo.c (answering) and
 *			ah_path.c (the paths of an address handle)
 *	path.c		congestion window towards a peer process, shared by the QPs that use it
 *	run_queue.c	QPs that have something to transmit
 *
 * Calls marked REQUIRES(qp->lock) run to completion: no system call, no allocation, no other QP's
 * lock. Setup calls may allocate and say so.
 */
#ifndef VERBATIM_TRANSPORT_TRANSPORT_H
#define VERBATIM_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp.h"
#include "tracepoint/drop.h"
#include "transport/path.h"
#include "transport/run_queue.h"
#include "transport/tx.h"
#include "wire/packet.h"

struct recovery_pool;

/* Shared by all QPs of a process. */
struct transport {
	struct mr_table *mrs;
	struct counters *counters;
	struct run_queue *run_queue;	/* QPs with something to transmit are put here */
	uint64_t probe_min_ns;		/* least delay of an early retransmission (default 1 ms) */
	struct path_table *paths;	/* NULL: UC and UD without flow control */
	struct recovery_pool *recoveries;	/* NULL: what comes behind a gap is dropped (recovery.h) */
	/*
	 * Notification: retries exceeded. The QP's lock is held: use worker_wake_after_unlock(), no system call.
	 * NULL: not wanted.
	 */
	void (*peer_lost)(struct qp *qp);
	/* Likewise: the period of @cq's moderation begins now: cq_period_ended() is due when it ends. */
	void (*period_begins)(struct qp *qp, struct cq *cq);
	/* Do packets to @qp's peer go through memory, where none is lost? The QP's lock is held. NULL: no. */
	bool (*loses_nothing)(const struct qp *qp);
	/*
	 * Is the peer of @qp, to which its route leads by LID, a process of this host? The QP's lock is held.
	 * NULL: it is not known.
	 */
	bool (*is_here)(const struct qp *qp);
	/* GID 0 of the QP's device. NULL: not known. */
	void (*default_gid)(const struct qp *qp, uint8_t gid[16]);
};

struct frame;

/* How a received packet came. */
struct rx_info {
	struct route route;			/* that it took: the source is its sender */
	uint8_t own[16];			/* multicast: to answer from; zero: not known */
	bool ecn_marked;			/* IP header said congestion experienced */
	bool deny_receive;			/* as if no receive were posted (VERBATIM_FAULT=rnr) */
	struct refusal *refused;		/* out: a request dropped without an answer, why; or NULL */
	bool memory;				/* came through memory from a process of this host */
};

/* Setup call, allocates: empty requester and responder. 0 or ENOMEM. */
int transport_init(struct qp *qp) REQUIRES(qp->lock);
void transport_fini(struct qp *qp) REQUIRES(qp->lock);

/*
 * Room for the READs and atomics of the peer in progress that a modify allows (max_dest_rd_atomic):
 * allocated before the QP's lock is taken, installed under it, the rest freed after it.
 */
struct transport_room {
	struct resource *resource;	/* [count]; NULL: none */
	uint32_t count;
};

/* Setup call: allocates room for @reads, without a lock. 0 or ENOMEM. */
int transport_reserve(struct transport_room *room, uint32_t reads);
/* Give @room to @qp if the QP has less; afterwards @room has the memory to free. */
void transport_install(struct qp *qp, struct transport_room *room) REQUIRES(qp->lock);
void transport_unreserve(struct transport_room *room);

/*
 * Receive one packet for @qp, checked (ICRC) and parsed. May complete work requests, move the
 * QP to ERR, and leave something to transmit (the QP is then in the run queue). Returns why it was
 * dropped, which is counted and explained.
 */
enum drop transport_receive(struct qp *qp, const struct packet *packet, const struct rx_info *info,
			    uint64_t now_ns, struct effects *effects) REQUIRES(qp->lock);

/* The same of each of several packets, without unlocking the QP; and behind the last. */
enum drop transport_receive_next(struct qp *qp, const struct packet *packet, const struct rx_info *info,
				 uint64_t now_ns, struct effects *effects) REQUIRES(qp->lock);
void transport_received(struct qp *qp) REQUIRES(qp->lock);

/* A frame for a RAW_PACKET QP. */
struct raw_frame {
	const struct frame *frame;	/* parsed (ethernet/frame.h) */
	uint32_t flow_tag;		/* of the rule that it passed; 0: none */
	bool vouched_for;		/* by the kernel: its checksums are right */
};

/* Receive it, as transport_receive() does packets. */
enum drop transport_receive_frame(struct qp *qp, const struct raw_frame *raw, uint64_t now_ns,
				  struct effects *effects)
	REQUIRES(qp->lock);
/* The QP's route is another: static_rate of InfiniBand. */
void transport_pace_route(struct qp *qp) REQUIRES(qp->lock);
/* IBV_QP_RATE_LIMIT: 0: no limit; @burst_bytes 0: as many as is usual. Then transmit. */
void transport_pace(struct qp *qp, uint32_t kbps, uint32_t burst_bytes) REQUIRES(qp->lock);

/*
 * Setup call, without the lock, before qp_post_send(): finds the paths of datagrams. May allocate.
 * Datagrams without a path are not flow controlled.
 */
void transport_prepare_send(struct qp *qp, struct ibv_send_wr *wr);

/*
 * Work was posted to the send queue: returns whether there is something to transmit now.
 * In ERR, flushes it at once; in states that do not send it stays.
 */
bool transport_posted_send(struct qp *qp, uint64_t now_ns, struct effects *effects)
	REQUIRES(qp->lock);
/* Has a message arrived since the last call of transport_replied()? */
static inline bool transport_awaits_reply(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->responder.hold.arrived_ns;
}
/*
 * The application posted a send after it: whether the next ACKs wait for that is learnt from it
 * (transport/ack_hold.h). @kept: transport_deadline() of this QP is kept, also when nobody polls.
 * Then transmit.
 */
void transport_replied(struct qp *qp, uint64_t now_ns, bool kept) REQUIRES(qp->lock);
/*
 * Requests were posted: may they leave later, together with others (transport/gather.h)? True: have
 * a round of progress transmit them.
 */
bool transport_may_gather(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);
/* Is there something to transmit? */
bool transport_ready(const struct qp *qp) REQUIRES(qp->lock);
/*
 * Work was posted to the receive queue: in ERR, flushes it. Call it after each post, or at least in
 * ERR and when transport_awaits_recv().
 */
void transport_posted_recv(struct qp *qp, uint64_t now_ns, struct effects *effects)
	REQUIRES(qp->lock);

static inline bool transport_awaits_recv(struct qp *qp)
{
	uint32_t wanted = atomic_load_explicit(&qp->echo_held, memory_order_relaxed);

	return wanted && (recv_queue_count(&qp->rq) >= wanted || cq_is_empty(qp->recv_cq));
}

/*
 * Write the packets due (answers to READs and atomics, retransmissions, new requests, the ACK) into
 * @batch, as far as the batch, the path's window and the QP's own limits allow, at most @quantum
 * packets.
 * Returns true when it stopped for the batch or the quantum alone: call again. UC and UD
 * requests complete here (their bytes are in the batch).
 */
bool transport_transmit(struct qp *qp, uint64_t now_ns, unsigned quantum, struct tx_batch *batch,
			struct effects *effects) REQUIRES(qp->lock);

/* Are packets executed in that state? In others they are dropped. */
bool transport_takes_packets(enum ibv_qp_state state);

/*
 * Packets of @qp that left until now, and of its peer that came, may have been dropped: what is unanswered is sent
 * again at once, which counts as no retry.
 */
void transport_way_changed(struct qp *qp, uint64_t now_ns, struct effects *effects) REQUIRES(qp->lock);

/* When transport_timeout() has to be called; TIME_NEVER for never. Changes only in calls. */
uint64_t transport_deadline(const struct qp *qp) REQUIRES(qp->lock);

/* Software peers get descheduled: an ACK timeout below this would measure only that. */
#define ACK_TIMEOUT_FLOOR	16u	/* x probe_min_ns */

/*
 * Is that @at_ns at the earliest? True only where it takes no more than this to know: behind what was sent with
 * nothing under way, and nothing held. False: it has to be asked for.
 */
static inline bool transport_deadline_is_behind(const struct qp *qp, uint64_t at_ns) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;
	const struct loss *loss = &requester->loss;

	return qp->type == IBV_QPT_RC && qp->state == IBV_QPS_RTS && loss->sent_ns == loss->progress_ns &&
	       at_ns <= loss->sent_ns + loss->rto_ns &&
	       at_ns <= loss->sent_ns + ACK_TIMEOUT_FLOOR * qp->transport->probe_min_ns &&
	       !(requester->recovery | requester->congestion | loss->stopped) &&
	       !(requester->local_messages | qp->responder.active_count) &&
	       !(requester->rnr_until_ns | requester->pace.held_until_ns | qp->responder.hold.until_ns);
}
void transport_timeout(struct qp *qp, uint64_t now_ns, struct effects *effects)
	REQUIRES(qp->lock);

/*
 * What is known of the process that the QP of a silent peer is in: it has not taken yet what was sent to it;
 * it is alive and does not run (stopped, frozen, or has taken nothing for a whole timeout); it has ended.
 */
enum presence { PRESENCE_UNKNOWN, PRESENCE_RUNS, PRESENCE_SLOW, PRESENCE_STOPPED, PRESENCE_ENDED };
/* Is its peer a process of this host, so that it is known whether that is stopped? */
bool transport_peer_is_here(const struct qp *qp) REQUIRES(qp->lock);
/*
 * Is the ACK timeout of @qp over, which has its peer on this host? Then call transport_presence() before
 * transport_timeout().
 */
bool transport_awaits_presence(const struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);
/*
 * An adapter answers for a process that is stopped: while the peer's is, silence counts for nothing, and
 * nothing is sent again. When it runs again it has the whole time that the QP gives; when it ends
 * instead, the request fails at once. Where it runs each timeout is up to three times as long (C9-141
 * allows four): it may have waited for a processor. @how: for the explanation, "stopped by ...".
 */
void transport_presence(struct qp *qp, enum presence presence, const char *how, uint64_t now_ns,
			struct effects *effects) REQUIRES(qp->lock);

/* A process of this host says why it dropped a request of @qp: for the explanation, should it fail. */
void transport_refused(struct qp *qp, const struct refusal *refusal) REQUIRES(qp->lock);

/*
 * After a successful modify from @from to qp->state (attributes are already in place): RESET
 * drops all without completions, RTR and RTS set the PSNs, SQD starts draining, ERR flushes.
 */
void transport_modified(struct qp *qp, enum ibv_qp_state from, int mask, uint64_t now_ns,
			struct effects *effects) REQUIRES(qp->lock);

/* Is an answer to the peer due that transport_transmit() has not written yet? */
bool transport_answer_is_due(const struct qp *qp) REQUIRES(qp->lock);
/* Write those answers alone into the batch. */
void transport_answer(struct qp *qp, uint64_t now_ns, unsigned quantum, struct tx_batch *batch,
		      struct effects *effects) REQUIRES(qp->lock);
/*
 * The QP is about to stop answering: have its last ACK sent once more, in case the first is lost,
 * since this QP will not answer when the peer asks. False: nothing to repeat. Then transmit.
 */
bool transport_final_ack(struct qp *qp) REQUIRES(qp->lock);

/* Move to ERR and flush both queues, in order (IBTA 10.3.1). Also for CQ overflow. */
void transport_fail(struct qp *qp, uint64_t now_ns, struct effects *effects) REQUIRES(qp->lock);

#endif
