/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer processes (peers.h), for the files that look after them:
 *
 *	peers.c		the table of them: who is in it, where its memory is
 *	meeting.c	how they come into it and leave it: going to meet one, visitors, the dead
 *	meet_again.c	later, by the worker, what came to nothing
 *	accessors.c	waiting until they do not use our memory any more
 */
#ifndef VERBATIM_HCA_PEERS_INTERNAL_H
#define VERBATIM_HCA_PEERS_INTERNAL_H

#include "hca/peers.h"

#include "link/memory.h"

#define LISTENERS_MAX	HCA_SLOTS_MAX
#define MEETINGS_MAX	16u

/* We have gone to meet the holder of @slot. */
struct meeting {
	bool used;
	uint32_t slot;
	int channel_fd;
	struct rendezvous_peer process;
};

/* When the worker tries to meet the holder of a slot. */
struct later {
	uint64_t due_ns;		/* 0: not at all */
	unsigned tries;
	bool once;
};

/* What is mapped of a peer, or shared with it. */
enum place { PLACE_ARENA, PLACE_SHARED, PLACE_POOL, PLACES };

struct peers {
	struct lock lock;
	struct link *link;		/* unwrapped */
	int listen_fd[LISTENERS_MAX];
	unsigned listeners;
	struct peer peer[CHANNELS_MAX];
	struct hazard_table *_Atomic hazards[CHANNELS_MAX];	/* ours, of each peer that was met */
	_Atomic uint8_t channel_of[SLOT_COUNT];	/* + 1; 0: none */
	bool meeting[SLOT_COUNT];	/* a thread of ours is at it */
	bool missed[SLOT_COUNT];	/* that came to nothing: QPs may be using UDP */
	struct meeting unanswered[MEETINGS_MAX];	/* the worker waits for these */
	struct later later[SLOT_COUNT];
	_Atomic uint64_t later_ns;	/* the earliest of them */
	struct parked {
		void *at[CHANNELS_MAX];
		unsigned count;
	} parked[PLACES];		/* places of peers that were dismissed (park) */
	int spare_fd;			/* given up to turn visitors away when there is no other */
	uint64_t guard;			/* of this process (platform/process_memory.h) */
	_Atomic uint64_t again_ns[SLOT_COUNT];	/* when a datagram may try again */
};

/* Of the memory that two processes share: both halves of the channel, both pages of hazards. */
size_t peers_shared_bytes(void);

/*
 * Take @process in; @first: we produce the first half. On failure it is parted from. Nothing is sent
 * there before peer_publish().
 */
int peer_admit(struct hca *hca, struct rendezvous_peer *process, int channel_fd, bool first,
	       struct peer **admitted) REQUIRES(hca->peers->lock);
/* From now on it is found by its slots. */
void peer_publish(struct peers *peers, const struct peer *peer) REQUIRES(peers->lock);
/* Waits for who holds it. */
void peer_dismiss(struct hca *hca, struct peer *peer) REQUIRES(hca->peers->lock);
bool peer_has_ended(const struct peer *peer);
/* Was there an attempt in vain to meet the process with this card? */
bool peers_missed(const struct peers *peers, const struct rendezvous_card *card)
	REQUIRES(peers->lock);

/* Go to meet the holder of @slot. 0: meeting_end() is due; EALREADY: another thread does, or did. */
int meeting_begin(struct hca *hca, uint32_t slot, struct meeting *meeting);
/* EAGAIN: it has not answered, neither of the two that end it is done; else as rendezvous_hear(). */
int meeting_end(struct hca *hca, struct meeting *meeting, uint64_t timeout_ns);
void meeting_give_up(struct hca *hca, struct meeting *meeting);

/* The worker waits for the answer now: EAGAIN; ENOSPC: for too many, this one was given up. */
int meeting_leave(struct hca *hca, struct meeting *meeting);
/* The worker: the answers that have come. */
void meetings_take_answers(struct hca *hca);
/* A thread could not meet the holder of @slot, for @err: the worker tries, unless that is for good. */
void meet_later(struct hca *hca, uint32_t slot, int err);
/* Datagrams are being sent to it by UDP: the worker tries once. */
void meet_soon(struct hca *hca, uint32_t slot);
/* Close what is open, and nothing else. */
void meetings_abandon(struct peers *peers);

#endif
