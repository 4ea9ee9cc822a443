/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one process sent and another one received is one packet: the latest sent one that nobody received
 * yet, as an earlier one was lost and this is its repetition. Where both arrive, the earlier arrived first.
 */
#include <errno.h>
#include <stdlib.h>

#include "ladder_pair.h"

#define EARLY_NS	1000000000u	/* a sender that is interrupted takes its stamp so much later */
#define HASH_OFFSET	0xcbf29ce484222325u
#define HASH_PRIME	0x100000001b3u

uint64_t ladder_pair_hash(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	hash = hash ? hash : HASH_OFFSET;
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ byte[i]) * HASH_PRIME;
	return hash ^ hash >> 29;
}

uint64_t ladder_pair_of_packet(const struct ladder_packet *packet, const struct capture_record *record)
{
	const uint8_t *bth = record->data + packet->bth;
	uint64_t hash = HASH_OFFSET;

	for (unsigned i = 0; i < 16; i++)
		hash = ((hash ^ packet->source[i]) * HASH_PRIME ^ packet->destination[i]) * HASH_PRIME;
	for (unsigned i = 0; i < packet->header_bytes; i++)
		if (i != 4)	/* FECN and BECN change on the way */
			hash = (hash ^ bth[i]) * HASH_PRIME;
	hash = (hash ^ packet->payload_bytes) * HASH_PRIME;
	return hash ^ hash >> 29;
}

/* ---- the table ---- */

static struct pair *pair_place(struct pairs *pairs, uint64_t hash)
{
	size_t at = hash & pairs->mask;

	while (pairs->pair[at].hash != hash && pairs->pair[at].hash)
		at = (at + 1) & pairs->mask;
	return &pairs->pair[at];
}

static int pairs_grow(struct pairs *pairs)
{
	struct pairs larger = { .mask = pairs->pair ? pairs->mask * 2 + 1 : 1023 };

	larger.pair = calloc(larger.mask + 1, sizeof(*larger.pair));
	if (!larger.pair)
		return ENOMEM;
	for (size_t i = 0; pairs->pair && i <= pairs->mask; i++)
		if (pairs->pair[i].hash)
			*pair_place(&larger, pairs->pair[i].hash) = pairs->pair[i];
	free(pairs->pair);
	pairs->pair = larger.pair;
	pairs->mask = larger.mask;
	return 0;
}

int ladder_pair_get(struct pairs *pairs, uint64_t hash, struct pair **pair)
{
	hash = hash ? hash : 1;
	if ((!pairs->pair || pairs->used * 4 > pairs->mask * 3) && pairs_grow(pairs))
		return ENOMEM;
	*pair = pair_place(pairs, hash);
	if ((*pair)->hash)
		return 0;
	**pair = (struct pair){ hash, LADDER_NONE, LADDER_NONE, LADDER_NONE };
	pairs->used++;
	return 0;
}

void ladder_pairs_free(struct pairs *pairs)
{
	free(pairs->pair);
	free(pairs->below);
	free(pairs->opened);
}

/* ---- both ends ---- */

/* The packet that this record is the other end of; LADDER_NONE: it is the first end. */
static uint32_t pair_other_end(struct ladder *ladder, struct pairs *pairs, struct pair *pair,
			       const struct capture_record *record)
{
	uint32_t found;

	if (record->direction == CAPTURE_IN && pair->sent != LADDER_NONE) {
		found = pair->sent;
		pair->sent = pairs->below[found];
		return found;
	}
	if (record->direction != CAPTURE_OUT || pair->received == LADDER_NONE)
		return LADDER_NONE;
	found = pair->received;
	if (record->time_ns - ladder->packet[found].time_ns > EARLY_NS)
		return LADDER_NONE;
	pair->received = pairs->below[found];
	return found;
}

/* What a receiver says of a packet, not its sender. */
#define OF_RECEIVER	((unsigned)(LADDER_DROPPED | LADDER_LATE))

static void pair_join(struct ladder_packet *packet, const struct ladder_packet *other)
{
	packet->flags |= other->flags;
	if (other->received) {
		packet->received = other->received;
		return;
	}
	packet->sent = other->sent;
	packet->bth = other->bth;
	packet->source_qpn = other->source_qpn;
}

/* The repetition was taken for what arrived first, and now the original has arrived, too: exchange both. */
static void pair_order(struct ladder_packet *original, struct ladder_packet *again)
{
	const struct capture_record *first = again->received, *second = original->received;
	unsigned flags = original->flags & OF_RECEIVER;

	if (!first || !second || !original->sent || !again->sent ||
	    original->sent->time_ns >= again->sent->time_ns || first->time_ns > second->time_ns)
		return;
	original->received = first;
	again->received = second;
	original->flags = (uint16_t)((original->flags & ~OF_RECEIVER) | (again->flags & OF_RECEIVER));
	again->flags = (uint16_t)((again->flags & ~OF_RECEIVER) | flags);
}

/* Received once more than it was sent: by another member of a group, or the network doubled it. */
static void pair_repeat(struct ladder_packet *packet, const struct ladder_packet *last)
{
	packet->sent = last->sent;
	packet->bth = last->bth;
	packet->source_qpn = last->source_qpn;
	packet->flags |= LADDER_DUPLICATE;
}

int ladder_pair_add(struct ladder *ladder, struct pairs *pairs, uint64_t hash, const struct ladder_packet *packet,
		    const struct capture_record *record, uint32_t *at, bool *joined)
{
	struct pair *pair;
	uint32_t *waiting;

	*joined = false;
	if (ladder_pair_get(pairs, hash, &pair))
		return ENOMEM;
	*at = pair_other_end(ladder, pairs, pair, record);
	if (*at != LADDER_NONE) {
		*joined = true;
		pair_join(&ladder->packet[*at], packet);
		if (pair->last != LADDER_NONE)
			pair_order(&ladder->packet[*at], &ladder->packet[pair->last]);
		pair->last = *at;
		return 0;
	}
	if (ladder->packets >= LADDER_PACKETS_MAX) {
		ladder->too_many = true;
		return 0;
	}
	if (capture_grow(&ladder->packet, ladder->packets, &ladder->packet_room, sizeof(*packet)) ||
	    capture_grow(&pairs->below, ladder->packets, &pairs->below_room, sizeof(*pairs->below)))
		return ENOMEM;
	*at = ladder->packets++;
	ladder->packet[*at] = *packet;
	if (record->direction == CAPTURE_IN && pair->last != LADDER_NONE) {
		pair_repeat(&ladder->packet[*at], &ladder->packet[pair->last]);
	} else if (record->direction != CAPTURE_UNKNOWN) {
		waiting = record->direction == CAPTURE_IN ? &pair->received : &pair->sent;
		pairs->below[*at] = *waiting;
		*waiting = *at;
	}
	return 0;
}
