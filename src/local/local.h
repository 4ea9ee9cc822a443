/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of one host through memory: what the device calls of this folder.
 *
 * A *channel* connects this process with another one of the same user: a side of memory each (local/ring.h:
 * rings of cells), a socket for bells and blocks. It is found by the slot bits of a QPN. Packets of any QP may
 * go through it as through any link. RC queue pairs may do without packets, once both ends agree
 * (pairing.c): SENDs as messages in the ring (send.c, receive.c), one-sided requests by our own hands
 * (onesided.c), in memory that the peer has granted by key (grant.h).
 *
 * Whatever stands against it (another user, a peer that does not answer, VERBATIM_MEMORY=off), packets go
 * over UDP as to any host. docs/decisions/0010 argues the whole.
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

/* VERBATIM_MEMORY, from the fastest way on. */
enum local_mode { LOCAL_AUTO, LOCAL_MAPPED, LOCAL_COPY, LOCAL_RING, LOCAL_OFF };

/*
 * What local/ needs of the device. Called without a QP's lock, but for note(); @device is what
 * local_open() was given.
 */
struct local_ops {
	/* With the progress lock held: our QP of that number, or NULL. */
	struct qp *(*find_qp)(void *device, uint32_t qpn);
	/* With the progress lock held: receive the packets that have come. */
	void (*receive)(void *device);
	/* And for sure what was sent to our slots (host/slot.h). */
	void (*receive_slots)(void *device);
	/* Something is due at @deadline_ns, 0: now. */
	void (*notice)(void *device, uint64_t deadline_ns);
	/* The same, with a QP's lock held: it is passed on when that is dropped. */
	void (*note)(void *device, uint64_t deadline_ns);
	/* Is a QP connected to the holder of @slot? */
	bool (*is_connected_to)(void *device, uint32_t slot);
	/* With the progress lock held: wake who waits, when it is dropped. */
	void (*defer)(void *device, struct effects *effects);
	/* Drop the progress lock, and do what was deferred. */
	void (*unlock)(void *device);
};

struct local {
	const struct local_ops *ops;
	void *device;
	struct lock *progress;		/* one thread at a time receives */
	struct counters *counters;
	struct mr_table *mrs;
	struct run_queue *run_queue;
	struct waiter *waiter;
	uint32_t connect_tag, bells_tag;	/* of it: call local_serve(), local_silence_bells() */
	enum local_mode mode;

	struct link *link;		/* for packets, perhaps wrapped by a trace */
	struct link *ring;		/* the same, unwrapped */
	bool direct;			/* RC requests may do without packets */
	struct peers *peers;
	int bells_fd;			/* an epoll set: the connections of all channels */
	uint64_t received_bytes;	/* of messages, since the device last reset it; with the progress lock */
	_Atomic uint64_t udp_first_until_ns;	/* what comes through memory may have overtaken UDP */
	/*
	 * local_serve() has something to do: stored by who finds a peer ended, or waits too long
	 * for one (peer.c, drain.c), and loaded by the worker before it sleeps and by who stands in
	 * for it. local_serve() clears it before it looks for what was noted.
	 */
	_Atomic bool serve_due;
	/*
	 * Grants are to be offered by who drives next: set by grant_offer() behind peer->offer[],
	 * and cleared by grant_make_offers() before it looks there.
	 */
	_Atomic bool offers_due;
	/* local_fetch() has: so many jobs; a hint, job.state decides */
	_Atomic unsigned fetches_due;
};

/* A value of VERBATIM_MEMORY; "" is auto. EINVAL after a line on stderr. */
int local_mode_of(const char *text, enum local_mode *mode);

/*
 * @local has ops, device, progress, counters, mrs, run_queue, waiter and mode filled in; the first slot is
 * claimed. 0 or errno; local->link is NULL where nothing is shared (then no other call does anything).
 */
int local_open(struct local *local);
/* The worker is gone. What waits in the channels is lost: drain first. */
void local_close(struct local *local);
/* One more slot is ours: let others find us by it. */
void local_add_slot(struct local *local, const struct slot *slot);
/* This came to one of our slots. */
void local_note_proof(struct local *local, const struct slot_proof *proof);
/* In a fork()ed child: close every descriptor, touch nothing else. */
void local_abandon(struct local *local);

/* ---- channels ---- */

/*
 * Open a channel to the holder of @slot on this host, if it can be had. Blocks the calling
 * thread for some tens of microseconds, at most for half a second. No lock may be held.
 */
void local_connect(struct local *local, uint32_t slot);
/* The same for a datagram: blocks for the first one; cheap when there is a channel. */
void local_connect_for_datagram(struct local *local, uint32_t slot);
/* The channel to the holder of @slot, or LOCAL_NO_CHANNEL. Any thread. */
uint32_t local_channel(const struct local *local, uint32_t slot);

/* The worker: somebody connects, or ended, or answered. */
void local_serve(struct local *local);
/* Connections that failed are tried again, when it is time. */
void local_reconnect(struct local *local, uint64_t now_ns);
uint64_t local_deadline(const struct local *local);	/* TIME_NEVER: never */

/* Ring the bells of peers that sleep and were sent something. No QP's lock is held. */
void local_ring_bells(struct local *local);
/* A bell rang: silence it. Any thread. */
void local_silence_bells(struct local *local);

/* ---- requests without packets ---- */

/*
 * By the thread that pumps @qp, which does not hold the progress lock: carry out the requests at
 * the head of its send queue for which that is possible; the others are left to the transport. It
 * may drop the QP's lock and take it again: qp->pumping is set.
 */
void local_run(struct local *local, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);
/*
 * Work was just posted to @qp: do what can be done without packets, at once. Returns whether there is
 * something left to be pumped.
 */
bool local_posted(struct local *local, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);
/* Its deadline has passed, with messages unanswered: has the peer got any farther? */
void local_check_progress(struct local *local, struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);
/*
 * Messages of @qp are unanswered: where somebody sleeps until they are, or requests wait behind them, or the
 * send queue drains, the answers are to wake us. True: they have come meanwhile.
 */
bool local_await_answers(struct local *local, struct qp *qp) REQUIRES(qp->lock);
/* The same for all channels, when an application asks to be woken. */
bool local_await_all(struct local *local);

/*
 * Execute what was sent to us, up to some, and take the answers to what we sent. Returns how many messages
 * were executed. Cheap when there is nothing. With the progress lock, and no other.
 */
unsigned local_receive(struct local *local);
/*
 * Fetch the data of large messages that local_receive() has found, some of it. No lock is held. Returns whether
 * anything was done.
 */
bool local_fetch(struct local *local);
/* Has anything come: cells, or answers? A hint without locks. */
bool local_pending(const struct local *local);

/* ---- regions ---- */

/* @mr was registered, nobody has its key yet: remember the block that it is. */
void local_add_region(struct local *local, const struct mr *mr);

/* ---- ends of grants ---- */

/* @qp was moved to ERR or RESET, is to be destroyed, or lets in other requests: no peer uses it any more. */
void local_drain_qp(struct local *local, uint32_t qpn);

#endif
