/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of this process: packets in and out, timers, and the choice of the thread that makes
 * progress. It knows QPs by their number; contexts, ports and the other objects are above it
 * (device/), and so is QP1 (mad/).
 *
 *	application threads                      worker thread
 *	  post  -> tx_run                          sleeps on sockets and doorbell
 *	  poll  -> engine_progress                 engine_progress, when no application thread does
 *	                |
 *	                rx_poll   -> qp_table_find -> transport_receive
 *	                timers    -> transport_timeout
 *	                run queue -> tx_run -> transport_transmit -> tx_send
 *
 *	progress.c	one thread at a time receives and expires timers
 *	receive.c	where datagrams come from: sources, a round of which is rx_poll()
 *	rx.c, tx.c	from datagrams to packets, and back
 *	out.c		the way out: links, addresses, ICRC, trace, send
 *	tx_run.c	one thread at a time transmits for a QP
 *	timers.c	deadlines of QPs
 *	deferred.c	event queues that are raised after the locks
 *	wake.h		wake-ups of the worker and of peers
 *	links.h		the ways to other hosts, by the tag of a route
 *	qp_table.c	QP numbers, and the slots of this host that they belong to
 *	steer.c		Ethernet frames of RAW_PACKET QPs, by flow rules
 *	injection.c, injection_send.c	faults on purpose
 *	port.c		UDP port 4791, shared with the other processes of this host
 *	worker.c, sleep.c, wait.c	progress while no thread polls
 *	policy.h	who makes progress, who sleeps, who is woken: pure
 */
#ifndef VERBATIM_ENGINE_ENGINE_H
#define VERBATIM_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "base/counters.h"
#include "base/timer_heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "engine/arrival.h"
#include "engine/policy.h"
#include "host/port_group.h"
#include "host/slot.h"
#include "host/slot_watch.h"
#include "link/link.h"
#include "link/loopback.h"
#include "local/local.h"
#include "object/cq.h"
#include "object/event.h"
#include "object/qp.h"
#include "platform/process_state.h"
#include "platform/source.h"
#include "platform/wait.h"
#include "transport/transport.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define ENGINE_SLOTS_MAX	QP_SLOTS	/* object/arena.h */
#define ENGINE_BATCHES		4u
#define ENGINE_DEFERRED_MAX	64u	/* event queues that are raised at a time, after progress */

struct arrival;

/* Calls to the rooms above the engine; under engine->progress unless stated otherwise. */
struct engine_ops {
	/*
	 * A packet to QP0 or QP1 that can be taken. Returns why it was dropped, counted; DROP_NO_QP: nobody has
	 * that QP, which is not counted.
	 */
	enum drop (*management)(void *owner, const struct arrival *arrival, uint64_t now_ns);
	/* Likewise, one to a multicast group. */
	enum drop (*multicast)(void *owner, const struct packet *packet, struct rx_info *info, uint64_t now_ns);
	/*
	 * By any thread: a MAD of ours to an address of this host whose port another program has, straight to the
	 * process that it is for. ECONNREFUSED: no process of ours, so it goes to that program; another errno: it
	 * is lost.
	 */
	int (*hand_over)(void *owner, const uint8_t *mad, const struct datagram *datagram);
	/*
	 * By any thread, without locks: is a QP of this process connected to the holder of @slot on
	 * this host?
	 */
	bool (*is_connected_to)(void *owner, uint32_t slot);
	/* By the worker, without locks: the process is about to end. */
	void (*process_ends)(void *owner);
	/* Behind process_ends(): peers have heard of the end. False: ask again. */
	bool (*may_leave)(void *owner, uint64_t now_ns);
	/* A packet of a fabric was refused for its P_Key or Q_Key; NULL: it is nobody's business. */
	void (*refused_key)(void *owner, const struct packet *packet, const struct route *came, bool is_qkey);
	/*
	 * @datagram of a fabric, by its ib_end, came through memory from the holder of @slot. False:
	 * that cannot be; else the rest of datagram->ib is filled in. NULL: as refused_key.
	 */
	bool (*arrives_by_lid)(void *owner, struct datagram *datagram, uint32_t slot);
};

/* QP numbers: slots of this host, and the QP of each index. */
struct qp_table {
	struct slot slot[ENGINE_SLOTS_MAX];
	/* Stored behind the slot that it makes visible; read by any thread (qp_table.h). */
	_Atomic unsigned slot_count;
	struct qp **table[ENGINE_SLOTS_MAX];	/* [QP_PER_SLOT] each; read under progress */
	uint32_t next[ENGINE_SLOTS_MAX], used[ENGINE_SLOTS_MAX];
	uint32_t count;
	uint32_t created;			/* since the beginning: qp->ordinal */
};

/* What was last seen of the process of a slot (timers.c): under progress. */
struct sight {
	enum process_state state;
	uint64_t until_ns;		/* valid until then */
};

struct engine_timers {
	struct sight sight[SLOT_COUNT];
	struct lock lock;
	struct timer_heap heap;		/* of QPs */
	struct timer_heap cq_heap;	/* of CQs that are moderated */
	size_t cqs;			/* in which so many may be */
	_Atomic uint64_t next_ns;	/* the earliest deadline; read without the lock */
};

/* Buffers to transmit from. */
struct tx_batches {
	struct lock lock;
	struct tx_batch *free[ENGINE_BATCHES];
	unsigned count;
};

/* Event queues to raise, each once, linked by themselves: under progress; raised after it is dropped. */
struct deferred_list {
	struct event_queue *first, *last;	/* first NULL: none */
};

/* Under progress, except the atomics, which any thread sets. */
struct rx {
	uint64_t udp_looked_ns;		/* when the sockets were last looked at */
	uint64_t fabric_looked_ns;	/* when that of the fabric was */
	unsigned fabric_busy;		/* rounds left in which it is each time */
	uint8_t *slot_buffer;		/* for slot_receive() */
	unsigned slots_busy;		/* rounds left in which the slot sockets are checked often */
	unsigned rounds, brief_rounds;
	struct list ethernet_ports;	/* of RAW_PACKET QPs (engine/steer.h) */
	struct icrc_memo icrc_memo[ICRC_MEMOS];
};

/* Are ACKs held back for an immediate reply of the application? (progress.c) */
struct reply {
	_Atomic bool awaited;
	_Atomic int score;		/* how likely */
};

/* Activity of application threads. */
struct app {
	_Atomic uint64_t progress_ns;	/* when a thread last made progress, */
	_Atomic pid_t thread;		/* and which (platform/thread_cpu.h) */
	_Atomic uint32_t calls;		/* rounds made, brief ones included */
	_Atomic bool inside;		/* a thread makes progress now */
	_Atomic uint64_t event_mode_ns;	/* when a thread last asked to be woken */
};

/* May posted requests wait, to leave together? (tx_run.c) */
struct gathering {
	_Atomic bool wanted;		/* by a post; taken back by the worker that stands by */
	_Atomic bool kept;		/* yes: the worker sees to it that none waits for long */
};

enum leaving { STAYING, LEAVING, SAYING_GOODBYE, HAS_LEFT };

struct worker {
	struct worker_thread *thread;
	_Atomic bool stopping;
	_Atomic uint32_t leaving;	/* enum leaving: the process ends (worker_leave) */
	_Atomic uint32_t state;		/* enum worker_state: the policy's, for other threads */
	_Atomic uint64_t notice_ns;	/* worker_wake_after_unlock(): TIME_NEVER: none */
	_Atomic uint64_t until_ns;	/* it sleeps on the sockets until then; 0: it does not */
	uint64_t rebind_ns;		/* when it tries to bind port 4791 again; its own */
	struct gathering gather;
};

struct sleep {
	struct lock lock;
	unsigned sleepers;		/* threads asleep for the engine, under lock (sleep.h) */
	_Atomic uint64_t until_ns;	/* ring the doorbell for deadlines before this */
};

/* An application thread waits in the worker's place (wait.c). */
struct app_wait {
	_Atomic bool active;
	_Atomic unsigned count;		/* such waits so far */
	_Atomic int vouched;		/* calls of ibv_req_notify_cq() that are expected to end in one */
	_Atomic bool deep_sleep;	/* the worker is to be woken when the wait ends */
	_Atomic uint64_t worker_until_ns;	/* the worker sleeps until then meanwhile */
};

/* What the engine's threads wait for and serve (platform/source.h); the engine's own. */
struct engine_sources {
	struct sources all;
	struct source held, channels, sockets, fabric, loopback, frames, slots, peers, port, port_group;
};

/*
 * Rooms above use counters, progress (to hold it), run_queue, links, udp, local, qps, watch, group,
 * waiter, source.all and reply.awaited. The rest belongs to engine/.
 * Large: one a process, of its links, its QPs and its threads.
 */
struct engine {
	const struct engine_ops *ops;
	void *owner;
	struct owned_lock progress;		/* receiving, timers, the run queue's consumer */
	struct counters *counters;
	struct run_queue run_queue;
	_Atomic bool run_queue_held;	/* QPs with tx_held wait for room in the link of a fabric */

	/* By enum route_link, for packets to and from other hosts; NULL: there is none. */
	struct link *links[ROUTE_LINK_COUNT];
	struct link *udp;		/* of links; a test has another one there */
	bool without_udp;		/* no device of this process is of a network interface */
	struct injection *injection;	/* faults on purpose (VERBATIM_FAULT), or NULL */
	struct link *loopback;		/* to this process */
	struct local local;		/* other processes of this host, through memory */

	struct qp_table qps;
	struct slot_watch *watch;	/* of the processes of this host, both ways */
	struct port_group *group;	/* NULL while another user owns port 4791 */
	int owner_watch_fd;		/* while it does: hangs up when that may have changed; or -1 */

	struct engine_timers timers;
	struct tx_batches batches;
	struct deferred_list deferred;
	struct rx rx;
	struct reply reply;

	struct waiter waiter;
	struct engine_sources source;
	struct worker worker;
	struct sleep sleep;
	struct app app;
	struct app_wait wait;
};

/* ---- engine.c ---- */

/*
 * @engine is zero except ops, owner, counters, without_udp, links but for UDP's, local.mode and local.mrs.
 * engine_open() opens links,
 * a slot and channels to other processes; engine_start() binds port 4791 and starts the worker. 0
 * or errno; engine_close() is due also after a failure.
 */
void engine_init(struct engine *engine);
int engine_open(struct engine *engine);
int engine_start(struct engine *engine);
void engine_stop(struct engine *engine);
void engine_close(struct engine *engine);
/* In a fork()ed child: descriptors are closed, and nothing else is touched. */
void engine_abandon(struct engine *engine);

/* ---- progress.c ---- */

/*
 * Receive, expire timers and transmit. False: another thread makes progress. @poll: that of the
 * calling application thread; NULL: the worker. *packets: how many were received.
 */
bool engine_progress(struct engine *engine, struct cq_poll *poll, unsigned *packets);
/*
 * Before a QP or a region ends: messages that lie in rings are taken, and the thread that is taking one has
 * finished it. While this process was stopped they may have been completed to their sender (local/move/commit.c).
 * @packets: those in sockets too. And before it is told that a peer has ended: what that had sent comes first.
 */
void engine_catch_up(struct engine *engine, bool packets);
/* The calling thread, an application's, has just made progress, or waited in the worker's place. */
void progress_note(struct engine *engine, uint64_t now_ns);
/* An application thread posted a send while an ACK was held back for it. */
void progress_replied(struct engine *engine);

/* ---- tx.c ---- */

/*
 * Opens the socket by which packets leave for @dest_qpn by @route, so that the first one is not lost for lack
 * of it.
 * 0; EMFILE, ENFILE, explained in the name of @who.
 */
int engine_open_sender(struct engine *engine, const struct route *route, uint32_t dest_qpn, const char *who);

/* ---- tx_run.c ---- */

/*
 * Requests were posted to @qp: transmit them, or gather them with those that are posted next. @effects of the
 * post are applied; engine_after_unlock() is done.
 */
void tx_posted(struct engine *engine, struct qp *qp, struct effects *effects) RELEASES(qp->lock);
/* Transmit for @qp, now, on this thread. */
void tx_run(struct engine *engine, struct qp *qp);
/* Do packets to its peer, of this process or another one of this host, go through memory? */
bool tx_is_through_memory(const struct engine *engine, const struct qp *qp) REQUIRES(qp->lock);
/* The run queue has work: serve it, or wake the worker for it. */
void tx_run_queued(struct engine *engine);
/* The link of a fabric has room again: QPs that waited for it have their turn. */
void tx_release(struct engine *engine) REQUIRES(engine->progress);

/* ---- timers.c ---- */

/* After any transport call: keep the QP's timer at or before its deadline. */
void timers_arm(struct engine *engine, struct qp *qp) REQUIRES(qp->lock);
void timers_disarm(struct engine *engine, struct qp *qp);
/* A place for the timer of one more CQ: 0 or ENOMEM. It is given back when the CQ goes. */
int timers_add_cq(struct engine *engine);
void timers_remove_cq(struct engine *engine, struct cq *cq) REQUIRES(engine->progress);
/* A period of the CQ's moderation begins. A QP's lock is held: engine_after_unlock() is due then. */
void timers_arm_cq(struct engine *engine, struct cq *cq);

/* ---- deferred.c ---- */

void effects_apply(struct effects *effects);
/*
 * The object of an event goes: if the event waits in @queue it does so no longer, nor is the queue's fd
 * readable for it. Without locks.
 */
void event_withdraw(struct event_queue *queue, struct list *node);
/* With the progress lock held: applied when it is dropped. (void *: a function of local_ops.) */
void effects_defer(void *engine, struct effects *effects);
/* Drop the progress lock, and apply what was deferred. */
void progress_unlock(struct engine *engine) RELEASES(engine->progress);

/* ---- receive.c, tx.c ---- */

/* Returns how many packets were received, those for other processes included. */
unsigned rx_poll(struct engine *engine, struct cq_poll *poll, uint64_t now_ns) REQUIRES(engine->progress);
/* All that the fabric's process has brought so far. */
void rx_drain_fabric(struct engine *engine, uint64_t now_ns) REQUIRES(engine->progress);
/* The header fields of that segment that the ICRC covers, as this sender writes them. */
struct icrc_header icrc_header_of(const struct datagram *datagram, unsigned segment);

/* ---- qp_table.c ---- */

struct qp *qp_table_find(struct engine *engine, uint32_t qpn) REQUIRES(engine->progress);
/*
 * Number the QP and make it findable. 0; ENOMEM; errno of a new slot, explained. *index: its place
 * among all that this process may have.
 */
int qp_table_add(struct engine *engine, struct qp *qp, unsigned *index) REQUIRES(engine->progress);
void qp_table_remove(struct engine *engine, struct qp *qp) REQUIRES(engine->progress);

/* ---- worker.c, sleep.c, wait.c ---- */

/*
 * The process is about to end: have the worker call ops->process_ends(), and wait for it up to
 * @patience_ns; then until ops->may_leave() says so, up to @farewell_ns.
 */
void worker_leave(struct engine *engine, uint64_t patience_ns, uint64_t farewell_ns);
/* An application thread is about to sleep until a completion: the worker leaves STANDBY. */
void worker_expect_sleepers(struct engine *engine);
/*
 * Make progress until an event may be in @queue. 0: read the queue's fd now, blocking or not; EINTR
 * as of read(); ETIMEDOUT: @until_ns (TIME_NEVER: no limit) has come, and no event.
 */
int wait_progress(struct engine *engine, struct event_queue *queue, uint64_t until_ns);

#endif
