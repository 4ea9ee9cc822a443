/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of hca/ share: the HCA of this process, its ports (one per network interface in
 * use) and contexts. Nothing here is seen by the ABI layers.
 *
 *	application threads                      worker thread
 *	  post_send -> pump (transmit, send)       sleeps on sockets and doorbell
 *	  poll_cq   -> drive                       drive, when no application thread does
 *	                 |
 *	                 receive -> QP -> transport_receive
 *	                 timers  -> transport_timeout
 *	                 run queue -> pump
 */
#ifndef VERBATIM_HCA_INTERNAL_H
#define VERBATIM_HCA_INTERNAL_H

#include <stdatomic.h>

#include "base/counters.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "config/config.h"
#include "hca/hca.h"
#include "host/port_group.h"
#include "host/slot.h"
#include "link/link.h"
#include "link/loopback.h"
#include "local/local.h"
#include "net/net.h"
#include "object/arena.h"
#include "platform/netdev.h"
#include "platform/wait.h"
#include "transport/transport.h"
#include "wire/icrc.h"

#define HCA_SLOTS_MAX 4u
#define HCA_FREE_BATCHES 4u
#define HCA_DEFERRED_MAX 64u	/* event queues that are raised after driving */
#define ECN_BITS 0x03u		/* of a traffic class */
#define HCA_TIMERS_EVERY 4u	/* busy passes between looks at the timers */

/* Tags of the waiter (platform/wait.h), besides WAIT_DOORBELL. */
#define WAIT_SOCKETS	0x2u
#define WAIT_SLOTS	0x4u
#define WAIT_NETDEV	0x8u
#define WAIT_OWNER	0x10u
#define WAIT_GROUP	0x20u
#define WAIT_ERRORS	0x40u
#define WAIT_SERVICES	0x80u
#define WAIT_PEERS	0x100u
#define WAIT_MEMORY	0x200u
#define WAIT_BELLS	0x400u

struct hca;

struct hca_context {
	struct hca *hca;
	struct port *port;
	struct list node;		/* in hca->contexts */
	struct event_queue *async;	/* its own allocation: outlives us while wake-ups are due */
	int async_fd, command_fd;
	struct list pds, mrs, mws, dms, ahs, channels, cqs, srqs, qps;	/* under hca->objects */
	bool abandoned;			/* we are a fork()ed child: nothing behind it */
};

struct multicast_group;
struct gsi;
struct slot_watch;

/* An event queue whose fd is to be raised. */
struct deferred {
	struct event_queue *queue;
	unsigned times;
};

enum worker_state { WORKER_ACTIVE, WORKER_STANDBY };	/* worker.c */
enum leaving { STAYING, LEAVING, HAS_LEFT };

struct hca {
	struct config config;
	struct net net;
	struct lock drive;		/* receiving, timers, the run queue's consumer */
	struct lock objects;		/* lists, QP table's writers */

	struct arena *arena;
	size_t arena_bytes;
	struct counters *counters;
	struct mr_table mrs;
	struct path_table paths;
	struct run_queue run_queue;
	struct transport transport;

	struct link *link;		/* what packets leave and come by: udp, perhaps wrapped */
	struct link *udp;		/* the innermost of those */
	uint64_t udp_looked_ns;		/* when the sockets were last looked at, under drive */
	bool lossy;			/* VERBATIM_FAULT */
	struct local local;		/* other processes of this host, through memory */
	struct link *loopback;		/* to this process itself, perhaps wrapped by a trace */
	struct link *loopback_inner;
	struct slot slot[HCA_SLOTS_MAX];
	unsigned slot_count;
	struct port_group *group;	/* NULL while another user owns port 4791 */
	int owner_watch_fd;		/* then: hangs up when that may have changed; or -1 */

	struct qp **qp_table[HCA_SLOTS_MAX];	/* [QP_PER_SLOT] each; read under drive */
	uint32_t qp_next[HCA_SLOTS_MAX], qp_used[HCA_SLOTS_MAX];
	uint32_t qp_count;
	struct list groups;		/* struct multicast_group, under objects and drive */

	struct lock timers_lock;
	struct timer_heap timers;
	_Atomic uint64_t next_timer_ns;	/* the earliest of them */

	struct lock batches_lock;
	struct tx_batch *free_batch[HCA_FREE_BATCHES];
	unsigned free_batches;
	struct deferred deferred[HCA_DEFERRED_MAX];	/* under drive: to be done after it */
	unsigned deferred_count;
	uint8_t *slot_buffer;		/* under drive: what slot_receive() fills */
	unsigned passes, brief_passes;	/* of drive, under drive */
	unsigned slots_busy;		/* passes for which the slot sockets are looked at often */

	/* QP1 (gsi_internal.h) */
	struct slot_watch *watch;	/* we are watched by it, and watch others */
	struct lock gsi_lock;		/* changing gsi; leaf */
	struct lock gsi_calls;		/* held in calls to the consumer that are not under drive */
	struct gsi *gsi;		/* under drive or gsi_lock, changed under both; or NULL */
	_Atomic uint32_t gsi_psn;
	_Atomic uint64_t gsi_deadline_ns;
	struct gsi_backlog_add *hold;		/* requests that wait for a server, under drive; or NULL */
	_Atomic uint64_t hold_deadline_ns;
	_Atomic bool services_due;	/* a socket of a service is readable */
	_Atomic bool services_changed;	/* the port group is to be told */
	_Atomic bool peers_lost;	/* some QP's peer_lost is set */

	struct list contexts;
	uint32_t next_number;		/* of PDs, CQs, SRQs, DMs */
	uint64_t dm_bytes;		/* of device memory in use, under objects */

	/* The worker (worker.c) */
	struct waiter waiter;
	int netdev_fd;
	struct worker_thread *worker;
	_Atomic bool stopping;
	_Atomic uint32_t leaving;	/* enum leaving: the process ends (worker_leave) */
	_Atomic uint32_t worker_state;	/* enum worker_state */
	_Atomic uint64_t notice_ns;	/* worker_note(): TIME_NEVER: none */
	_Atomic uint64_t sleep_until_ns;	/* ring the doorbell for anything due before this */
	struct lock sleep_lock;
	unsigned sleepers;		/* threads asleep for the device, under sleep_lock (sleep.h) */
	_Atomic bool standing;		/* an application thread waits in our place (stand_in.c) */
	_Atomic unsigned stands;	/* such waits so far */
	_Atomic bool stood;		/* one was since an application last asked to be woken */
	_Atomic bool long_nap;		/* the worker is to be woken when it is over */
	_Atomic uint64_t nap_until_ns;	/* worker, while somebody stands in */
	_Atomic uint64_t app_drove_ns;	/* when an application thread last drove, */
	_Atomic pid_t app_thread;	/* and which (platform/thread_cpu.h) */
	_Atomic uint32_t app_drives;	/* how often, brief passes too */
	_Atomic bool app_drives_now;	/* under the drive lock */
	_Atomic uint64_t event_mode_ns;	/* when an application last asked to be woken */
	_Atomic bool awaiting_reply;	/* ACKs are held back for a moment (drive.c) */
	_Atomic int reply_score;	/* how sure it is that the application replies at once */
	_Atomic bool slots_due;		/* a slot socket is readable */
};

/* context.c: raise what has become of a port at its contexts. (A void * for struct net.) */
void contexts_raise(void *hca, struct port *port, enum ibv_event_type type);

/* process.c: the HCA of this process. */
int hca_get(struct hca **hca);		/* start it or take another reference */
void hca_put(struct hca *hca);
int hca_claim_slot(struct hca *hca);	/* under drive and objects: room for more QPs */
/* Bind port 4791 and join those who share it, unless done; hca->group tells. */
void hca_bind_port(struct hca *hca);

/* objects.c, qp.c */
uint32_t hca_next_number(struct hca *hca);
/* Until the application has acknowledged what it got (queues.c). It may leave from there by siglongjmp(). */
void hca_wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked,
		       const uint32_t *got);
/* The time, for posting to a QP that flushes; 0 to others, whose transport does not ask. */
uint64_t hca_flush_time(const struct qp *qp) REQUIRES(qp->lock);
/* Without locks: find the flows of datagrams, and meet the processes of this host they go to. */
void hca_prepare_datagrams(struct hca *hca, struct qp *qp, struct ibv_send_wr *wr);
/* Work was just posted: what needs no packets is done. Is there something left to be pumped? */
bool hca_posted(struct hca *hca, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);
void context_destroy_objects(struct hca_context *context);	/* close.c */
void qp_send_final_ack(struct hca *hca, struct qp *qp);

/* Is one of our QPs connected to the holder of @slot, as a host's own? A local_ops. */
bool hca_is_connected_to(void *hca, uint32_t slot);

/* drive.c */
/*
 * Receive, expire timers and transmit what is due. False when another thread is at it. @polled:
 * the CQ for whose application thread this is done; NULL: the worker. *packets: how many came.
 */
bool hca_drive(struct hca *hca, const struct cq *polled, unsigned *packets);
/* Transmit for @qp, now, on this thread. */
void hca_pump(struct hca *hca, struct qp *qp);
/* The calling thread, an application's, has just driven, or waited in the worker's place. */
void hca_note_drove(struct hca *hca, uint64_t now_ns);
/* An application thread posted a send while an ACK was held back for it. */
void hca_replied(struct hca *hca);
/* The run queue has work: see that somebody does it. */
void hca_kick(struct hca *hca);
/* After any transport call: keep the QP's timer at or before its deadline. */
void hca_arm(struct hca *hca, struct qp *qp) REQUIRES(qp->lock);
void hca_disarm(struct hca *hca, struct qp *qp);
void effects_apply(struct effects *effects);
/* With the drive lock held: applied when it is dropped. (The device is a void * for local_ops.) */
void effects_defer(void *hca, struct effects *effects);
/* Drop the drive lock, and do what was deferred. */
void hca_stop_driving(struct hca *hca) RELEASES(hca->drive);
struct tx_batch *tx_batch_new(void);

/* receive.c: returns how many packets came, those for other processes included. */
unsigned hca_receive(struct hca *hca, uint64_t now_ns) REQUIRES(hca->drive);
/* For traces: what identification and DF the IPv4 header of a received packet had. */
bool receive_find_ip_id(const struct datagram *datagram, const uint8_t *packet, size_t bytes,
			unsigned segment, uint16_t *ip_id, bool *dont_fragment);
struct qp *hca_find_qp(struct hca *hca, uint32_t qpn) REQUIRES(hca->drive);

/* transmit.c */
/* What the ICRC covers of the headers of that segment, as our own sender makes them. */
struct icrc_header icrc_header_of(const struct datagram *datagram, unsigned segment);
void hca_transmit(struct hca *hca, struct tx_batch *batch);

/* multicast.c */
void multicast_deliver(struct hca *hca, const struct packet *packet, struct rx_info *info,
		       uint64_t now_ns) REQUIRES(hca->drive);
void multicast_detach_all(struct hca *hca, struct qp *qp);

/* worker.c */
int worker_start(struct hca *hca);
void worker_stop(struct hca *hca);
/* The process is about to end: have the worker say so to peers (hca_leave), and wait for that at most so long. */
void worker_leave(struct hca *hca, uint64_t patience_ns);
void hca_leave(struct hca *hca);
void worker_watch_port(struct hca *hca);	/* the bound sockets, and hca->group */
int worker_watch_slot(struct hca *hca, const struct slot *slot);
/* An application is about to sleep until something completes: no STANDBY, no doubts. */
void worker_expect_sleepers(struct hca *hca);
/* Something is due at @deadline_ns, or an application thread goes to sleep (0): wake it if need be. */
void worker_notice(struct hca *hca, uint64_t deadline_ns);
/* The same under a QP's lock: done by hca_after_unlock(), which is due then. */
static inline void worker_note(struct hca *hca, uint64_t deadline_ns)
{
	uint64_t noted_ns = atomic_load_explicit(&hca->notice_ns, memory_order_relaxed);

	while (deadline_ns < noted_ns &&
	       !atomic_compare_exchange_weak(&hca->notice_ns, &noted_ns, deadline_ns))
		;
}

/* System calls that were put off while a QP's lock was held: bells of peers, the worker's doorbell. */
static inline void hca_after_unlock(struct hca *hca)
{
	local_ring_bells(&hca->local);
	if (atomic_load_explicit(&hca->notice_ns, memory_order_relaxed) != TIME_NEVER)
		worker_notice(hca, atomic_exchange(&hca->notice_ns, TIME_NEVER));
}

/*
 * After fork() the parent's contexts are memory without a device in the child, and their locks may
 * be held by threads that it does not have: nothing of them is touched. Explains and returns true.
 */
bool context_is_dead(const struct hca_context *context, const char *who);

/* Which of our slots @slot is; hca->slot_count: it is another process's. */
static inline unsigned hca_slot_index(const struct hca *hca, uint32_t slot)
{
	unsigned i = 0;

	while (i < hca->slot_count && hca->slot[i].number != slot)
		i++;
	return i;
}

static inline bool hca_has_slot(const struct hca *hca, uint32_t slot)
{
	return hca_slot_index(hca, slot) < hca->slot_count;
}

static inline struct hca *qp_hca(const struct qp *qp)
{
	return ((struct hca_context *)qp->owner)->hca;
}

#endif
