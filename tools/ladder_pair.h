/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * While records are read: what waits for its other end, found by what both ends have in common. And operations
 * through memory, whose records are several.
 */
#ifndef VERBATIM_TOOLS_LADDER_PAIR_H
#define VERBATIM_TOOLS_LADDER_PAIR_H

#include "ladder.h"

/* One for each packet or message that differs from others: stacks of those that wait for the other end. */
struct pair {
	uint64_t hash;
	uint32_t sent, received, last;	/* packets, LADDER_NONE: none; last: the latest pair */
};

/* The operation that records of a source go on with. */
struct opened {
	uint32_t packet;		/* LADDER_NONE: none */
	uint64_t time_ns;
	uint32_t qpn, message;
	bool adds;			/* its bytes are counted here, and not at the other end */
};

struct pairs {
	struct pair *pair;
	size_t mask, used;
	uint32_t *below;		/* by packet: the one under it on its stack */
	unsigned below_room;
	struct opened *opened;		/* by process */
};

/* The pair of @hash, made if there is none. 0 or ENOMEM. */
int ladder_pair_get(struct pairs *pairs, uint64_t hash, struct pair **pair);
uint64_t ladder_pair_hash(uint64_t hash, const void *data, size_t bytes);
/* Of a packet: its addresses, headers and length. */
uint64_t ladder_pair_of_packet(const struct ladder_packet *packet, const struct capture_record *record);
/*
 * *at: the packet that @packet is now, joined with its other end or new; *joined: it was the other end.
 * LADDER_NONE: there is no room. 0 or ENOMEM.
 */
int ladder_pair_add(struct ladder *ladder, struct pairs *pairs, uint64_t hash, const struct ladder_packet *packet,
		    const struct capture_record *record, uint32_t *at, bool *joined);
void ladder_pairs_free(struct pairs *pairs);

/* ---- ladder_memory.c ---- */

/* No packet: a record of an operation through memory. */
bool ladder_is_memory(const struct ladder_packet *packet);
/* @packet is filled from @record. 0 or ENOMEM. */
int ladder_memory_add(struct ladder *ladder, struct pairs *pairs, struct ladder_packet *packet,
		      const struct capture_record *record, const struct frame *frame);
/* The same of an event of LADDER_EVENT_MEMORY, as traces have them from "v":2 on. */
int ladder_memory_event(struct ladder *ladder, struct pairs *pairs,
			const struct ladder_event *event, const struct capture_record *record);
/* True: @event says only that packets of the operation that its process is at were left out of the file. */
bool ladder_memory_left_out(struct ladder *ladder, struct pairs *pairs, const struct ladder_event *event);

#endif
