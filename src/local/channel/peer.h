/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer processes and their channels:
 *
 *	peer.c		the table of them: the memory of each, admission and dismissal
 *	peer_socket.c	the socket of each: bells, blocks, its end
 *	handshake.c	how two processes come to share memory; proof.c: each has the slots that it claims
 *	connect.c	connecting and being connected to; peers that end
 *	agree.c		agreeing that packets come by the channel alone
 *	reconnect.c	retries by the worker
 *	ring.c		datagrams through memory; ring_message.c: messages
 *
 * Memory of a channel, one memfd a side:	rings | hazards | grants
 *
 * The sides and tables of channel N stay at the same addresses while the HCA is open: threads read
 * them without locks. When a peer is gone, its sides read as zeros.
 */
#ifndef VERBATIM_LOCAL_CHANNEL_PEER_H
#define VERBATIM_LOCAL_CHANNEL_PEER_H

#include "local/channel/ring.h"
#include "local/grant/control.h"
#include "local/grant/grant.h"
#include "local/channel/handshake.h"
#include "local/grant/hazard.h"
#include "local/local.h"
#include "local/grant/peer_memory.h"
#include "platform/process_memory.h"
#include "transport/message.h"

#define ATTEMPTS_MAX	16u
#define PASSED_MAX	8u
#define OFFERS_MAX	8u

enum peer_state { PEER_NONE, PEER_RESERVED, PEER_OPEN };

/* A block's descriptor that came by the socket, before the KEY message that names its grant. */
struct passed_block {
	uint32_t region;
	int fd;
};

/*
 * A message whose data is being fetched: the next one of the peer's ring, which is held. NONE and
 * DUE change with the progress lock held; a thread that moves a job from DUE to RUNNING owns it.
 */
enum job_state { JOB_NONE, JOB_DUE, JOB_RUNNING };

struct fetch_job {
	/*
	 * enum job_state. DUE is stored behind the job by fetch_start() and fetch_finish(), and
	 * exchanged for RUNNING by local_fetch(), which sees the whole job. NONE is stored when the
	 * job is over: peer_free() and receive_take() check for it before the place is reused.
	 */
	_Atomic int state;
	uint32_t life;			/* of the channel */
	uint32_t qpn;			/* our QP, and ... */
	uint32_t sender;		/* ... the peer's grant of its own */
	struct local_message message;
	struct message_piece source[MESSAGE_PIECES_MAX];
	struct message_fetch fetch;
};

/*
 * A peer's process and our channel to it. Large: one place of the table holds what every part of this folder
 * keeps of a peer, so that a peer comes and goes as a whole.
 */
struct peer {
	enum peer_state state GUARDED;		/* under peers->lock */
	unsigned channel;
	/*
	 * Of the channel: another number for each peer; 0: not open. Stored (release) by
	 * begin_life() behind the setup for the peer, 0 by peer_dismiss() before the teardown;
	 * loaded (acquire) by peer_at(), and compared by copies that ran without locks (onesided.c,
	 * fetch.c, drain.c).
	 */
	_Atomic uint32_t life;
	struct handshake_peer process;
	struct process_memory memory;	/* its address space */
	/*
	 * It has said OPENED: its packets come by the channel alone. Stored by agree_receive() before the QPs are
	 * told, loaded with a QP's lock held when it is connected: one of the two sees the other.
	 */
	_Atomic bool agreed, agreed_of_uc;
	_Atomic uint32_t by_udp;	/* QPs of ours that send to it by UDP nevertheless: what we have to say */
	_Atomic uint64_t fabric;	/* that it said it is at; 0: none. As agreed */
	_Atomic bool opened_due;	/* we have to say so: raised by agree_open(), lowered when it was sent */
	_Atomic bool copies;		/* the kernel lets each of us copy from and to the other */
	uint64_t guard;			/* of our memory, for this peer (platform/process_memory.h) */
	/*
	 * Channel to close: the peer held a hazard too long. Stored by drain_revoke() under
	 * peers->lock before peers_due; the worker loads it without the lock (dismiss_ended).
	 */
	_Atomic bool revoked;
	struct lock inbox;		/* the receiving end of the socket */
	/* in order; those of region 0 are free */
	struct passed_block passed[PASSED_MAX] GUARDED_BY_MEMBER(inbox);
	bool ended GUARDED_BY_MEMBER(inbox);			/* it hung up */
	bool rung GUARDED_BY_MEMBER(inbox);	/* a bell was read (peer_took_bell) */
	struct fetch_job job;
	/*
	 * The QP whose messages commit_run() is to look at; 0: none. Stored by local_commit() before
	 * fetches_due is raised, exchanged for 0 by the thread that does it.
	 */
	_Atomic uint32_t commit_qpn;
	/*
	 * Messages that were completed early and are not taken yet; where their receives lie, all of them, in the
	 * peer's process. Stored with the progress lock, the count last; loaded by requests that go directly.
	 */
	_Atomic uint32_t committed;
	_Atomic uint64_t committed_from, committed_to;
	uint64_t dropped_sent_ns, dropped_received_ns;	/* the last DROPPED (control.h); with the progress lock */
	/*
	 * Keys of blocks to offer: added by grant_offer(), removed by grant_make_offers().
	 */
	_Atomic uint32_t offer[OFFERS_MAX];

	/* Set at the channel's first use, kept until the HCA closes. */
	uint8_t *ours;			/* our side */
	uint8_t *theirs;		/* its side, for reading */
	struct hazard_table *hazards;	/* grants of its memory that we use */
	const struct hazard_table *their_hazards;
	const struct grant_page *alive;	/* its grants to us */
	struct grants grants;		/* ours to it */
	struct peer_memory *regions;	/* its regions that were granted to us */
};

/* An attempt to connect to the holder of @slot. */
struct attempt {
	bool used;
	uint64_t nonce;
	uint32_t slot;
	struct peer *peer;		/* reserved for it */
	struct handshake_peer process;
};

/* When the worker tries to connect to the holder of a slot. */
struct later {
	uint64_t due_ns;		/* 0: not at all */
	unsigned tries;
	bool once;
};

/* What goes through a channel is above this room: move/ fills it in. Both with the progress lock. */
struct channel_ops {
	/* Take the messages that have arrived, and the answers. */
	void (*receive)(struct local *local);
	/* The peer of @channel is gone and its channel closed: unanswered messages become packets. */
	void (*lost)(struct local *local, unsigned channel);
};

struct peers {
	const struct channel_ops *ops;
	struct lock lock;
	const struct slot *slot[HANDSHAKE_SLOTS];	/* ours, at which we listen */
	/*
	 * Number of them; it only grows, under engine.progress or before the worker starts. Stored
	 * (release) by local_add_slot() behind the entry that it makes visible, loaded (acquire) by
	 * peers_slots() in threads that connect.
	 */
	_Atomic unsigned slots;
	/*
	 * The latest nonces that the holder of each slot sent us: as a listener, as a connector.
	 * Stored by local_note_proof(), compared and cleared by proofs_hold() (proof.c): no other
	 * data is ordered by it.
	 */
	_Atomic uint64_t proof[SLOT_COUNT][2];
	/*
	 * Each is stored once, behind the initialised peer (peer.c), and loaded by peer_at() and
	 * similar functions.
	 */
	struct peer *_Atomic peer[CHANNELS_MAX];
	uint32_t lives GUARDED_BY_MEMBER(lock);
	/*
	 * + 1; 0: none. Stored (release) by peer_publish(), with the channel open and hello known,
	 * 0 by peer_dismiss(); loaded (acquire) by local_channel() before the peer is used.
	 */
	_Atomic uint16_t channel_of[SLOT_COUNT];
	bool connecting[SLOT_COUNT] GUARDED_BY_MEMBER(lock);	/* a thread of ours is at it */
	/* an attempt failed: QPs may be using UDP */
	bool missed[SLOT_COUNT] GUARDED_BY_MEMBER(lock);
	/* the worker waits for these */
	struct attempt unanswered[ATTEMPTS_MAX] GUARDED_BY_MEMBER(lock);
	struct later later[SLOT_COUNT] GUARDED_BY_MEMBER(lock);
	/* the earliest of them: stored under lock, a hint to local_deadline() */
	_Atomic uint64_t later_ns;
	_Atomic uint64_t again_ns[SLOT_COUNT];	/* when a datagram may try again */
	_Atomic int refusal[SLOT_COUNT];	/* errno of the last attempt, for way.c; 0: none failed */
	/* the worker's: to refuse connections when out of descriptors */
	int spare_fd;
	/*
	 * Count of grants ever made; 0 lets drain return at once. Relaxed: a thread that ends a
	 * grant has held the lock of its QP, or waited for the users of its key, since the grant
	 * was made.
	 */
	_Atomic unsigned granted;
	/* Hints of local_silence_bells(): the channel whose peer rang last; its calls. Relaxed. */
	_Atomic uint32_t rang, turns;
};

static inline unsigned peers_slots(const struct peers *peers)
{
	return atomic_load_explicit(&peers->slots, memory_order_acquire);
}

/* Bytes of a side. */
size_t peer_side_bytes(void);

/* ---- the table ---- */

/*
 * Reserve a channel for a new peer, with a fresh side of ours; the caller owns *side_fd. 0; ENOSPC:
 * all channels are taken; errno.
 */
int peer_reserve(struct local *local, struct peer **peer, int *side_fd);
/* Release the reservation of a connection that failed. */
void peer_release(struct local *local, struct peer *peer);
/*
 * Open the reserved channel to @process; takes over @process, also on failure. Nothing is sent
 * before peer_publish(). 0 or errno: then the reservation is released.
 */
int peer_admit(struct local *local, struct peer *peer, struct handshake_peer *process);
/* Make the peer findable by its slots. */
void peer_publish(struct local *local, struct peer *peer);
/* Close the channel. By the worker, or when there is none; with the progress lock. */
void peer_dismiss(struct local *local, struct peer *peer);
/* Its memory, when no thread can find it any more. */
void peer_free(struct peer *peer);

/*
 * The peer of an open channel, else NULL. Any thread; it does not change while the progress lock is
 * held.
 */
static inline struct peer *peer_at(const struct local *local, unsigned channel)
{
	struct peer *peer = channel < CHANNELS_MAX ?
		atomic_load_explicit(&local->peers->peer[channel], memory_order_acquire) : NULL;

	return peer && atomic_load_explicit(&peer->life, memory_order_acquire) ? peer : NULL;
}

/* The peer that holds @slot. Inline: each request asks. */
static inline struct peer *peer_of_slot(const struct local *local, uint32_t slot)
{
	if (!local->peers || slot >= SLOT_COUNT)
		return NULL;
	/* 0, for no channel, becomes a large number. */
	return peer_at(local, atomic_load_explicit(&local->peers->channel_of[slot], memory_order_acquire) - 1u);
}

bool peer_has_slot(const struct peer *peer, uint32_t slot);
/* Did an attempt to connect to the process with this hello fail before? With peers->lock. */
bool peers_missed(const struct peers *peers, const struct hello *hello) REQUIRES(peers->lock);
bool peers_has_own_slot(const struct peers *peers, uint32_t slot);

/* The kernel lets both of us copy from and to the other's address space. */
static inline bool peer_both_copy(const struct local *local, const struct peer *peer)
{
	return atomic_load_explicit(&peer->copies, memory_order_relaxed) &&
	       (ring_reach(local->channel_link, peer->channel) & RING_COPIES);
}

/* ---- its socket ---- */

/* Read the socket: drops bells, keeps descriptors of blocks, notes the end of the peer. */
void peer_read_socket(struct peer *peer);
/*
 * The same up to the next bell, which is taken. False: there is none; what is left makes the socket
 * readable again.
 */
bool peer_read_bell(struct peer *peer);
/*
 * True: this thread consumed a bell meant for a sleeping thread and must wake it (the peer rings
 * once per sleep).
 */
bool peer_took_bell(struct peer *peer);
/* The descriptor received for that grant, to be closed by the caller; -1: none. */
int peer_take_block(struct peer *peer, uint32_t region);
/* Those that nobody asked for are closed. */
void peer_drop_blocks(struct peer *peer) REQUIRES(peer->inbox);
/* Wake a thread of the process at the other end of @fd. */
void peer_send_bell(int fd);
/* Send a descriptor. False: the socket is full or failed. */
bool peer_send_block(struct peer *peer, uint32_t region, int fd);
/* Have the peer dismissed, as if it had hung up. */
void peer_end(struct peer *peer);
bool peer_has_ended(struct peer *peer);

/* ---- connecting (connect.c, reconnect.c) ---- */

/* Prove to the holder of @slot which slots are ours. 0; ENOBUFS: not now; ECONNREFUSED; errno. */
int proofs_send(const struct peers *peers, uint32_t slot, uint64_t nonce);
/* Have the holders of all slots of @hello sent @nonce? Takes the progress lock. */
bool proofs_hold(struct local *local, const struct hello *hello, uint64_t nonce);

/*
 * Connect to the holder of @slot. 0: attempt_end() is due; EALREADY: another thread does, or did.
 */
int attempt_begin(struct local *local, uint32_t slot, struct attempt *attempt);
/* EAGAIN: no answer yet, the attempt stays open; else as handshake_receive(). */
int attempt_end(struct local *local, struct attempt *attempt, uint64_t timeout_ns);
void attempt_give_up(struct local *local, struct attempt *attempt);
/* Leave the answer to the worker. EAGAIN; ENOSPC: it awaits too many, this attempt was given up. */
int attempt_leave(struct local *local, struct attempt *attempt);
/* For the worker: take the answers that have arrived. */
void attempts_take_answers(struct local *local);
/*
 * Connecting to the holder of @slot failed with @err: the worker retries, unless the error is
 * permanent.
 */
void reconnect_later(struct local *local, uint32_t slot, int err);
/* connect.c: why there is no channel, in words. */
const char *connect_reason(int err);
/* Datagrams are sent to @slot by UDP: the worker tries to connect, once. */
void reconnect_soon(struct local *local, uint32_t slot);
/* Close the descriptors of all attempts, and nothing else. */
void attempts_abandon(struct peers *peers);

/* ---- the way of packets (agree.c) ---- */

/* The channel to @peer was published: tell our QPs and @peer. No lock is held. */
void agree_open(struct local *local, struct peer *peer);
/* Tell those that have not been told. With the progress lock. */
void agree_say_opened(struct local *local);
/* @peer has told us. With the progress lock. */
void agree_receive(struct local *local, struct peer *peer, const struct control *control);
/* Wait until the holder of @slot has, for a quarter of a second at most. No lock is held. */
void agree_await(struct local *local, uint32_t slot);

/* ---- control messages ---- */

/* Owner of a control message in the ring, by the QP that it is about; 0: none. */
#define CONTROL_OWNER(qpn)	((qpn) | 0x80000000u)
#define OWNER_IS_CONTROL(owner)	((owner) & 0x80000000u)

/* Put a control message into the ring. False: no room. Any thread, any lock. */
bool control_send(struct local *local, struct peer *peer, const struct control *control, uint32_t qpn);

#endif
