/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other Verbatim processes of this host that we share memory with: a channel of the memory
 * link (link/memory.h) each, found by the slot bits of their QPNs (host/rendezvous.h). Whatever
 * stands against it (another user, a peer that does not answer, VERBATIM_MEMORY=off), packets go over
 * UDP as to any host.
 */
#ifndef VERBATIM_HCA_PEERS_H
#define VERBATIM_HCA_PEERS_H

#include "hca/internal.h"

#include "host/hazard.h"
#include "host/rendezvous.h"
#include "platform/process_memory.h"

#define PEER_NO_CHANNEL UINT32_MAX

struct peer {
	bool used;			/* under the lock of peers.c */
	struct rendezvous_peer process;
	unsigned channel;		/* of the memory link */
	void *shared;			/* our half, their half, our hazards, theirs */
	void *arena;			/* theirs, read only; its tables: */
	const struct mr_entry *mr;
	const struct qp_access *qp;
	const struct mr_mapping *mapping;
	uint8_t *pool;			/* theirs (mapping.h); NULL: not mapped */
	struct hazard_table *hazards;	/* ours, in their sight */
	struct hazard_table *their_hazards;
	bool liar;			/* its hazards say nothing; under the lock */
	bool direct;			/* its memory can be reached */
	struct process_memory memory;
};

struct peer_use {
	struct hazard_table *table;
	unsigned hazard;
};

/*
 * Begin to access memory of the holder of @slot: names its key @rkey and its QP @qpn as in use
 * (host/hazard.h). It stays until peer_leave(). NULL: no memory is shared with it, or too many of our
 * threads access it just now.
 */
struct peer *peer_enter(struct hca *hca, uint32_t slot, uint32_t rkey, uint32_t qpn,
			struct peer_use *use);
void peer_leave(const struct peer_use *use);
/* Of an open channel: it stays as long as the drive lock is held. NULL: it is not admitted yet. */
struct peer *peer_at(struct hca *hca, unsigned channel) REQUIRES(hca->drive);

/* No peer uses the key @rkey, or our QP @qpn (@rkey 0), any more. See host/hazard.h. */
void peers_drain(struct hca *hca, uint32_t rkey, uint32_t qpn);

/* VERBATIM_MEMORY; EINVAL after a line on stderr. */
int peers_check_setting(const char *text);

/* With the HCA's first slot claimed and its waiter open. 0 or errno; hca->memory is NULL when off. */
int peers_open(struct hca *hca);
/* The worker is gone. What waits in the channels is lost: drain first. */
void peers_close(struct hca *hca);
/* One more slot is ours: let others find us by it. */
void peers_add_slot(struct hca *hca, const struct slot *slot);
/* In a fork()ed child: close every descriptor, touch nothing else. */
void peers_abandon(struct hca *hca);

/*
 * Share memory with the holder of @slot on this host, if it can be had. Blocks the calling
 * thread for some tens of microseconds, at most for half a second. No lock may be held.
 */
void peers_meet(struct hca *hca, uint32_t slot);
/* The same for a datagram: blocks for the first one; cheap when there is a channel. */
void peers_meet_now_and_then(struct hca *hca, uint32_t slot);

/* The worker: somebody came, or left, or answered. */
void peers_serve(struct hca *hca);
/* What came to nothing is tried again, when it is time. */
void peers_meet_again(struct hca *hca, uint64_t now_ns);
uint64_t peers_deadline(const struct hca *hca);	/* TIME_NEVER: never */

/* The channel to the holder of @slot, or PEER_NO_CHANNEL. Any thread. */
uint32_t peers_channel(const struct hca *hca, uint32_t slot);

#endif
