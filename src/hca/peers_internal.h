/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer processes (peers.h), for the files that look after them:
 *
 *	peers.c		the table of them: who is in it, where its memory is
 *	meeting.c	how they come into it and leave it: going to meet one, visitors, the dead
 *	accessors.c	waiting until they do not use our memory any more
 */
#ifndef VERBATIM_HCA_PEERS_INTERNAL_H
#define VERBATIM_HCA_PEERS_INTERNAL_H

#include "hca/peers.h"

#include "link/memory.h"

#define LISTENERS_MAX	HCA_SLOTS_MAX

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
void peer_publish(struct peers *peers, const struct peer *peer);
/* Waits for who holds it. */
void peer_dismiss(struct hca *hca, struct peer *peer) REQUIRES(hca->peers->lock);
bool peer_has_ended(const struct peer *peer);

#endif
