/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory between processes of one host, in four rooms: block, grant, channel, move. Their interface:
 * this header; channel/ring.h for hints and sleeping; block/block.h and block/allocator.h for memory. Every
 * other header is internal.
 *
 * A *channel* connects this process with another one of the same user: a side of memory each
 * (channel/ring.h: rings of cells), and a socket for bells and blocks. The slot bits of a QPN select
 * it. Packets of any QP may go through it as through any link. RC and XRC queue pairs need none once
 * both ends agree (move/pairing.c, run.c): SENDs are messages in the ring (send.c, receive.c); the
 * requester executes one-sided requests itself (onesided.c), in memory that the peer has granted by
 * key (grant/grant.h).
 *
 * Where that is impossible (another user, a peer that does not answer, VERBATIM_MEMORY=off),
 * packets go over UDP as to any host. docs/decisions/0010 gives the reasons.
 */
#ifndef VERBATIM_LOCAL_LOCAL_H
#define VERBATIM_LOCAL_LOCAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/lock.h"
#include "host/slot.h"
#include "link/link.h"
#include "object/mr.h"
#include "object/qp.h"
#include "platform/wait.h"
#include "transport/transport.h"

#define LOCAL_NO_CHANNEL UINT32_MAX

struct peers;

/* VERBATIM_MEMORY, fastest first. */
enum local_mode { LOCAL_AUTO, LOCAL_MAPPED, LOCAL_COPY, LOCAL_RING, LOCAL_OFF };

/*
 * What local/ needs of the engine. Called without a QP's lock, except note(); @owner is
 * local->owner.
 */
struct local_ops {
	/* With the progress lock held: the QP of this process with that number, or NULL. */
	struct qp *(*find_qp)(void *owner, uint32_t qpn);
	/* With the progress lock held: receive the packets that have arrived. */
	void (*receive)(void *owner);
	/* The same, and always from the sockets of our slots (host/slot.h). */
	void (*receive_slots)(void *owner);
	/* Something is due at @deadline_ns, 0: now. */
	void (*notice)(void *owner, uint64_t deadline_ns);
	/* The same with a QP's lock held: passed on when the lock is dropped. */
	void (*note)(void *owner, uint64_t deadline_ns);
	/* Is a QP connected to the holder of @slot? */
	bool (*is_connected_to)(void *owner, uint32_t slot);
	/* With the progress lock held: apply @effects (wake-ups) when it is dropped. */
	void (*defer)(void *owner, struct effects *effects);
	/* With the progress lock held: a peer process dropped a request to its QP @qpn, and did not answer. */
	void (*dropped)(void *owner, uint32_t qpn, const struct refusal *refusal);
	/*
	 * With the progress lock held: packets to and from the holder of @slot go another way from now
	 * on, of QPs that are connected to it. Returns how many of them send by UDP all the same (UC).
	 */
	unsigned (*way_changed)(void *owner, uint32_t slot);
	/* With the progress lock held: receive all that a fabric's process has brought. NULL: none. */
	void (*receive_fabric)(void *owner);
	/* Drop the progress lock, and apply what was deferred. */
	void (*unlock)(void *owner);
};

struct local {
	const struct local_ops *ops;
	void *owner;
	struct owned_lock *progress;		/* one thread at a time receives */
	struct counters *counters;
	struct mr_table *mrs;
	struct run_queue *run_queue;
	struct waiter *waiter;
	uint32_t connect_tag, bells_tag;	/* for local_handle_peers(), local_silence_bells() */
	enum local_mode mode;
	const char *packets_why;	/* why mode is LOCAL_RING; NULL: VERBATIM_MEMORY is */

	struct link *channel_link;
	bool direct;			/* RC requests may do without packets */
	struct peers *peers;
	/*
	 * Of what QPs remember of peers (qp->shortcut), never 0: moved behind each change of a
	 * channel or of who is reached by it, loaded under the lock of the channel's producer.
	 */
	_Atomic uint32_t epoch;
	int bells_fd;			/* an epoll set: the connections of all channels */
	uint64_t received_bytes;	/* of messages, since the engine reset it; with the progress lock */
	bool was_answered;		/* local_receive() took answers; with the progress lock */
	/* until then packets through memory may overtake those sent by UDP */
	_Atomic uint64_t udp_first_until_ns;
	/*
	 * local_handle_peers() has work: stored by a thread that finds a peer ended, or waits too
	 * long for one (peer.c, drain.c); loaded by the worker before it sleeps and by a thread
	 * that waits in its place. local_handle_peers() clears it before it looks at the peers.
	 */
	_Atomic bool peers_due;
	_Atomic uint64_t fabric;	/* of local_set_fabric(): a peer is told by agree_say_opened() */
	/*
	 * Something is to be sent by the thread that makes progress next: set by grant_offer() behind
	 * peer->offer[] and by agree_say_opened() behind peer->opened_due, and cleared by local_receive()
	 * before it looks there.
	 */
	_Atomic bool offers_due;
	/* Jobs for local_fetch(); a hint, job.state decides */
	_Atomic unsigned fetches_due;
};

/* A value of VERBATIM_MEMORY; "" is auto. EINVAL after a line on stderr. */
int local_mode_of(const char *text, enum local_mode *mode);

/*
 * The caller has filled in ops, owner, progress, counters, mrs, run_queue, waiter and mode of
 * @local, and claimed the first slot. 0 or errno; if no memory is shared, local->channel_link is NULL and
 * all other calls do nothing.
 */
int local_open(struct local *local);
/* Call it after the worker has ended. Packets still in the channels are lost: drain first. */
void local_close(struct local *local);
/* One more slot is ours: let other processes find us by it. */
void local_add_slot(struct local *local, const struct slot *slot);
/* Note a proof that arrived at one of our slots. */
void local_note_proof(struct local *local, const struct slot_proof *proof);
/* In a fork()ed child: close every descriptor, touch nothing else. */
void local_abandon(struct local *local);

/* ---- channels ---- */

/*
 * Open a channel to the holder of @slot on this host, if possible. Blocks the calling thread for
 * some tens of microseconds, at most for half a second. No lock may be held.
 */
void local_connect(struct local *local, uint32_t slot);
/* The same for a datagram: blocks for the first one; cheap when there is a channel. */
void local_connect_for_datagram(struct local *local, uint32_t slot);
/* The channel to the holder of @slot, or LOCAL_NO_CHANNEL. Any thread. */
uint32_t local_channel(const struct local *local, uint32_t slot);

/*
 * The way (struct datagram) by which alone packets come from the holder of @slot, for QPs that are
 * @reliable or not; BY_NETWORK: by none alone, as far as both ends have agreed.
 */
uint32_t local_agreed_way(const struct local *local, uint32_t slot, bool reliable);
/* The way of packets through @channel. */
uint32_t local_way_of_channel(const struct local *local, uint32_t channel);
/* Has a packet that came through @channel by @way come from the holder of @slot? With the progress lock. */
bool local_comes_from(const struct local *local, uint32_t channel, uint32_t way, uint32_t slot);

/*
 * The virtual fabric that this process is at, by a number that no other one has as long as it runs; 0: none.
 * Peers are told, and again when it is another one.
 */
void local_set_fabric(struct local *local, uint64_t fabric);
/* The channel to the holder of @slot, if both are at one fabric; else LOCAL_NO_CHANNEL. Any thread. */
uint32_t local_fabric_channel(const struct local *local, uint32_t slot);
/* A slot of the process behind @channel, 0: it is gone; is @slot one of its? With the progress lock. */
uint32_t local_channel_slot(const struct local *local, uint32_t channel);
bool local_channel_has_slot(const struct local *local, uint32_t channel, uint32_t slot);
/* What goes through @channel from now on comes behind what the fabric's process brings. False: no room. */
bool local_say_behind(struct local *local, uint32_t channel);

/* For the worker: handle processes that connect, have ended or have answered. */
void local_handle_peers(struct local *local);
/* Retry failed connections that are due. */
void local_reconnect(struct local *local, uint64_t now_ns);
uint64_t local_deadline(const struct local *local);	/* TIME_NEVER: never */

/* A request through @channel for our QP @qpn was dropped without an answer: tell the sender, now and then. */
void local_dropped(struct local *local, uint32_t channel, uint32_t qpn, const struct refusal *refusal);

/* Ring the bells of sleeping peers that something was sent to. No QP's lock is held. */
void local_ring_bells(struct local *local);
/* A bell rang: silence it. Any thread. */
void local_silence_bells(struct local *local);

/* ---- requests without packets ---- */

/*
 * For the thread that transmits for @qp, without the progress lock: execute the requests at the
 * head of its send queue that need no packets; the transport sends the others. May drop and retake
 * the QP's lock: qp->tx_running is set.
 */
void local_run(struct local *local, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);
/*
 * Work was posted to @qp, and no ACK is owed: execute requests that need no packets at once. True:
 * none could be, or more was posted meanwhile; else transport_ready() says what is left.
 */
bool local_posted(struct local *local, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);
/*
 * A post to @qp has left nothing to transmit: if the next SEND could only go as a message, a WRITE
 * directly, note so (qp->shortcut), for local/move/shortcut.h.
 */
void local_open_shortcut(struct local *local, struct qp *qp) REQUIRES(qp->lock);
/*
 * The deadline of @qp has passed with messages unanswered: check whether the peer makes progress.
 */
void local_check_progress(struct local *local, struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);
/*
 * The peer of @qp leaves requests unanswered: has its process taken what was sent to it through a channel?
 * UNKNOWN: there is no channel, or everything was taken; SLOW: not everything; STOPPED: nor since the last
 * such call.
 */
enum presence local_presence(const struct local *local, struct qp *qp) REQUIRES(qp->lock);
/*
 * The kernel says that the process of @qp's peer is stopped: complete those of its messages that
 * cannot fail, in the next local_fetch(). With the progress lock.
 */
void local_commit(struct local *local, struct qp *qp) REQUIRES(qp->lock);
/*
 * Messages of @qp are unanswered: if a thread sleeps until they are answered, requests wait behind
 * them, or the send queue drains, have the answers wake us. True: they have arrived meanwhile.
 */
bool local_await_answers(struct local *local, struct qp *qp) REQUIRES(qp->lock);
/* The same for all channels, when an application asks to be woken. */
bool local_await_all(struct local *local);

/*
 * Execute a bounded number of messages sent to us, and take the answers to ours. Returns how many
 * messages were executed. Cheap when there is nothing. With the progress lock, and no other. @poll: of the thread
 * that polls; NULL: none does.
 */
unsigned local_receive(struct local *local, struct cq_poll *poll);
/*
 * Fetch some of the data of large messages that local_receive() has found. No lock is held. Returns
 * whether anything was done.
 */
bool local_fetch(struct local *local);
/* Have cells, answers or data to fetch arrived? A hint without locks. */
bool local_pending(const struct local *local);

/* ---- regions ---- */

/* @mr was registered, and its key is not known to any peer yet: remember its block. */
void local_add_region(struct local *local, const struct mr *mr);

/* ---- statistics ---- */

/* Ways that requests of a QP may take inside this host, slowest first. */
enum local_way { WAY_UDP, WAY_RING, WAY_COPIED, WAY_MAPPED, WAYS };

/*
 * The fastest way that @qp, which is connected to the holder of another slot, may take now; *why: the reason,
 * where it is not the fastest of all.
 */
enum local_way local_way(const struct local *local, struct qp *qp, const char **why) REQUIRES(qp->lock);
/* Processes that we share memory with. */
unsigned local_channel_count(const struct local *local);

/* ---- ends of grants ---- */

/*
 * @qp was moved to ERR or RESET, is to be destroyed, or allows other requests: on return no peer
 * uses it.
 */
void local_drain_qp(struct local *local, uint32_t qpn);
/* The same for all QPs whose pairings were ended (pairing_end()) and not drained yet. */
void local_drain_ended_qps(struct local *local);

#endif
