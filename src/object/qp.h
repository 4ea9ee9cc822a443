/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair: identity, attributes, queues, and the state that the transport keeps for it
 * (qp_transport.h). The state machine's rules are qp_state.def; here are the calls that use them.
 *
 * Who may touch what is said at each member: fixed at creation, guarded by the QP's lock, or under
 * another lock that is named.
 */
#ifndef VERBATIM_OBJECT_QP_H
#define VERBATIM_OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "base/timer_heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "object/arena.h"
#include "object/comp_counter.h"
#include "object/cq.h"
#include "object/event.h"
#include "object/mr.h"
#include "object/pairing.h"
#include "object/qp_transport.h"
#include "object/qp_type.h"
#include "object/recv_queue.h"
#include "object/route.h"
#include "object/send_queue.h"
#include "object/srq.h"
#include "object/wq.h"
#include "object/xrcd.h"
#include "wire/opcode.h"

struct ethernet_port;
struct path;
struct transport;

#define QP_EX_SLOTS	56

enum qp_event {
	QP_EVENT_FATAL, QP_EVENT_COMM_EST, QP_EVENT_SQ_DRAINED, QP_EVENT_LAST_WQE,
	QP_EVENT_REQ_ERR, QP_EVENT_ACCESS_ERR, QP_EVENTS,
};

/*
 * A queue pair. What one part of the program keeps per QP is a struct of its own (send_queue,
 * requester, responder, pairing). Large: the rest belongs to the QP as a whole: attributes,
 * scheduling, events, ownership.
 */
struct qp {
	/*
	 * First. Programs that were compiled with headers of later releases see calls behind those of our
	 * struct ibv_qp_ex: there is room for them, filled by qp_ex.c, whatever headers we have.
	 */
	union {
		struct ibv_qp_ex ibv;	/* begins with struct ibv_qp */
		void *ibv_slots[QP_EX_SLOTS];
	};
	struct owned_lock lock;

	/* Fixed at creation */
	struct transport *transport;	/* what all QPs of the process share */
	struct pd *pd;			/* NULL: XRC_RECV */
	struct cq *send_cq, *recv_cq;	/* NULL: XRC, for what it lacks */
	struct srq *srq;		/* NULL: own receive queue, or XRC */
	struct xrcd *xrcd;		/* XRC_RECV */
	struct ethernet_port *ethernet;	/* RAW_PACKET: where its frames leave; else NULL */
	struct receive_hash *hash;	/* RAW_PACKET that spreads over work queues: it has no queues; else NULL */
	bool strips_vlan;		/* RAW_PACKET: tags go to completions */
	_Atomic bool was_reset;		/* not fixed; since INIT: takes no receives (qp_post_recv()) */
	uint8_t ports;			/* of its device */
	_Atomic bool tx_held;		/* not fixed; waits for room in the link of its fabric (engine/tx_run.c) */
	enum ibv_qp_type type;		/* of a row of qp_type.def */
	uint32_t number;		/* QPN */
	uint32_t ordinal;		/* the nth QP the process created, from 1 */
	bool signal_all;
	bool blocks_own_multicast;	/* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB */
	bool sends_itself;		/* with a tag-matching SRQ: READs of matched data; nothing can be posted */
	bool is_down;			/* destruction waits for acknowledgements; under hca.objects */
	struct ibv_qp_cap cap;		/* as granted */
	struct qp_access *access;	/* in the arena; never NULL */

	/* Attributes, as modify set them and query returns them */
	enum ibv_qp_state state GUARDED_BY_MEMBER(lock);
	/*
	 * The way that the next SEND takes was decided (local/move/shortcut.c), and holds while
	 * local.epoch is this; 0: it is to be decided. Each change of this QP that a rule asks for
	 * stores 0.
	 */
	uint32_t shortcut GUARDED_BY_MEMBER(lock);
	struct ibv_qp_attr attr GUARDED_BY_MEMBER(lock);
	struct route route GUARDED_BY_MEMBER(lock);		/* of attr.ah_attr, resolved */
	uint32_t mtu GUARDED_BY_MEMBER(lock);		/* bytes, of attr.path_mtu */
	struct refusal refusal GUARDED_BY_MEMBER(lock);	/* of the peer's QP, of this host */
	struct path *path GUARDED_BY_MEMBER(lock);	/* towards the peer; holds a reference */

	struct comp_counters *counted GUARDED_BY_MEMBER(lock);	/* what completes; NULL: no counter is attached */
	struct send_queue sq GUARDED_BY_MEMBER(lock);
	struct recv_queue rq;		/* has a lock of its own; unused with an SRQ */
	struct requester requester GUARDED_BY_MEMBER(lock);
	struct responder responder GUARDED_BY_MEMBER(lock);
	struct pairing pairing GUARDED_BY_MEMBER(lock);	/* with the peer, inside this host */
	struct pairing_targets *targets;	/* XRC_SEND, else NULL; under lock, while pairing.agreed */

	/* Scheduling */
	struct list ready_node;		/* in the run queue (run_queue.h): under its lock */
	struct list wait_node;		/* waiting for its path's window: under path->lock */
	bool tx_running GUARDED_BY_MEMBER(lock);	/* a thread does: others set tx_again */
	bool tx_again GUARDED_BY_MEMBER(lock);
	uint16_t pkeys;			/* of its device's P_Key tables the longest: fixed at creation */
	uint16_t pkey GUARDED_BY_MEMBER(lock);	/* at attr.pkey_index of its port, now; 0: none */
	uint16_t ib_port GUARDED_BY_MEMBER(lock);	/* of a virtual fabric, as in struct ib_way; 0: RoCE */
	struct timer timer;		/* under engine_timers.lock */
	_Atomic uint64_t timer_at_ns;	/* its deadline, readable without that lock */
	/*
	 * As in struct datagram: by which the peer's packets come; those that came by another way are forged, or
	 * were sent before both ends agreed on this one (engine/way.c). BY_SOURCE_PORT: by UDP, from that port.
	 */
	uint32_t way GUARDED_BY_MEMBER(lock);
	uint32_t id_streak GUARDED_BY_MEMBER(lock);	/* packets in a row with a Verbatim's IP id */

	/* UC: began without a channel to its peer, and sends by UDP until RESET */
	bool by_udp GUARDED_BY_MEMBER(lock);
	bool by_port GUARDED_BY_MEMBER(lock);	/* the peer sends UDP from the port of its slot alone */
	_Atomic bool peer_lost;		/* retries exceeded, not reported yet */
	_Atomic uint32_t echo_held;	/* echoes wait for this many receives; read without the lock */

	/* Events */
	struct event_queue *async;
	struct async_event event[QP_EVENTS];	/* by enum qp_event */
	uint32_t async_events_got;	/* under async->lock */

	/* Ownership */
	_Atomic uint32_t multicast;	/* groups attached: destroy gives EBUSY unless 0 */
	_Atomic uint32_t flows;		/* likewise */
	uint32_t opens;			/* XRC_RECV: by ibv_open_qp(), under hca.objects */
	void *owner;			/* hca_context */
	struct list node;		/* in the context's list: under hca.objects */
	/* ibv_wr_* posting (verbs layer) */
	void *wr_builder;
};

static inline struct qp *to_qp(struct ibv_qp *ibv)
{
	return (struct qp *)ibv;
}

/* @mask without what a QP of that type ignores: XRC, attributes of the half that it lacks. */
int qp_modify_mask(enum ibv_qp_type type, int mask);
/*
 * ibv_modify_qp's rules, without side effects: is @mask allowed and complete for the move from
 * qp->state to attr->qp_state (or none, without IBV_QP_STATE), and are the values in range?
 * 0 or EINVAL, explained. What needs the device (GIDs, path MTU against the port) is checked by
 * the caller.
 */
int qp_modify_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
	REQUIRES(qp->lock);
/* Take over the attributes named by @mask, and the state. The transport is told by the caller. */
void qp_modify_apply(struct qp *qp, const struct ibv_qp_attr *attr, int mask) REQUIRES(qp->lock);
/* Fills all of both, whatever @mask asks for. */
void qp_query(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
	REQUIRES(qp->lock);

/* Set qp->state and the copies of it that others read (public structure, arena). */
void qp_set_state(struct qp *qp, enum ibv_qp_state state) REQUIRES(qp->lock);
/* The same, with the reason for a trace. */
void qp_move_state(struct qp *qp, enum ibv_qp_state state, const char *why) REQUIRES(qp->lock);
/* Removes the QP's completions from its CQs; the slots of its own queues are free then. */
void qp_drop_completions(struct qp *qp) REQUIRES(qp->lock);
const char *qp_state_name(enum ibv_qp_state state);

/* What was decided for the next request, or for the peer's, is to be decided again. */
static inline void qp_close_shortcuts(struct qp *qp) REQUIRES(qp->lock)
{
	qp->shortcut = 0;
	qp->responder.shortcut = false;
}

/* No packet of a message of the peer has come whose last one has not. */
static inline bool qp_is_between_messages(const struct qp *qp) REQUIRES(qp->lock)
{
	return !qp->responder.previous || opcode_ends(qp->responder.previous);
}

static inline void qp_end_pairing(struct qp *qp) REQUIRES(qp->lock)
{
	qp_close_shortcuts(qp);
	pairing_end(&qp->pairing);
}

/* What its shortcuts have found. */
static inline struct shortcut_notes *qp_notes(const struct qp *qp) REQUIRES(qp->lock)
{
	return send_queue_notes(&qp->sq);
}

/* Has it a receive queue, or an SRQ, of its own? */
static inline bool qp_receives(const struct qp *qp)
{
	return !qp_type_has(qp->type, QP_XRC) && !qp->hash;
}

/* Trait of the QP's type. */
static inline bool qp_is(const struct qp *qp, enum qp_trait trait)
{
	return qp_type_has(qp->type, trait);
}

/* An operation of the QP is over. @operations: 0 for a part of one, whose bytes alone count. */
static inline void qp_count(const struct qp *qp, enum comp_operation operation, bool good, uint64_t operations,
			    uint64_t bytes) REQUIRES(qp->lock)
{
	if (__builtin_expect(qp->counted != NULL, 0))
		comp_counter_add(qp->counted, operation, good, operations, bytes);
}

/* Is it counted when the peer reads or writes? Then its requests come as packets or messages. */
static inline bool qp_counts(const struct qp *qp, enum comp_operation operation) REQUIRES(qp->lock)
{
	return qp->counted && qp->counted->of[operation];
}

/* Of the keys in its requests. One that sends by itself reads into buffers of its SRQ. */
static inline uint32_t qp_send_pd(const struct qp *qp)
{
	return __builtin_expect(qp->sends_itself, 0) ? qp->srq->pd : qp->pd->number;
}

/* Of UD: has the request an address handle? Of other opcodes the union has something else. */
static inline bool wr_has_ah(const struct ibv_send_wr *wr)
{
	return (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) && wr->wr.ud.ah;
}

/* At creation, once. */
void qp_init_events(struct qp *qp);
/* Raise an asynchronous event of the QP (Communication Established, Last WQE Reached ...). */
void qp_raise(struct qp *qp, enum qp_event event, struct effects *effects);

/*
 * Check and copy a list of work requests into the send queue (ibv_post_send(3), table of
 * opcodes by service). 0, or EINVAL / ENOMEM with *bad at the first one refused, explained; those
 * before it are queued. The caller then runs the transport.
 */
int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
	REQUIRES(qp->lock);
/*
 * Does the same with one SEND or RDMA WRITE, of one SGE or inline, of an RC QP in RTS that has a send
 * queue for the application. NULL: the request is another, or is refused; nothing was done.
 */
struct send_wqe *qp_post_plain(struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);
/* Is it one RDMA WRITE of one SGE, not inline, that qp_post_plain() would take? */
bool qp_post_is_write(const struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);
/* All of the list or none of it (ibv_wr_complete(3)). */
int qp_post_send_all(struct qp *qp, struct ibv_send_wr *wr) REQUIRES(qp->lock);
/* Needs no lock of the QP: its receive queue has one. */
int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
