/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of an application in the simulator: one buffer, registered whole, out of which
 * regions are taken with guard bytes between them. Each region knows what it may contain, so a
 * look at the whole buffer finds every stray write.
 *
 * Contents come from a key: byte i of message data is a function of the key and i alone, so data
 * that is shifted, stale or of another message does not pass.
 */
#ifndef VERBATIM_SIM_MEMORY_H
#define VERBATIM_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/world/sim.h"

#define PIECES_MAX	4u

enum content {
	CONTENT_UNTOUCHED,	/* as it was filled */
	CONTENT_EXACT,		/* the data of the key */
	CONTENT_EITHER,		/* each byte untouched or of the key: a message that did not end */
	CONTENT_ANY,		/* data of some message that was dropped later, or a number */
};

struct region {
	size_t offset, bytes;
	enum content content;
	uint32_t key;
	size_t key_offset;	/* which bytes of the key's data */
	bool frozen;		/* must not change any more: its key is dead */
	uint64_t hash;		/* what it was when it was frozen */
};

/* A message's data, in up to PIECES_MAX regions: a scatter/gather list. */
struct span {
	struct region *piece[PIECES_MAX];
	unsigned count;
	uint32_t bytes;
};

struct memory {
	struct sim_host *host;
	uint8_t *data;
	size_t bytes, used;
	struct mr *mr;
	uint32_t lkey;			/* of SGEs; the region's, unless a script breaks it */
	struct region *regions;
	unsigned count, capacity;
};

void memory_init(struct memory *memory, struct sim_host *host, size_t bytes, unsigned regions);
void memory_fini(struct memory *memory);
/* Take @bytes in @pieces regions, all aligned to @align. */
struct span memory_take(struct memory *memory, uint32_t bytes, unsigned pieces, size_t align);
/* Say what a span may contain from now on; span_fill also writes it. */
void span_set(struct memory *memory, struct span *span, enum content content, uint32_t key);
void span_fill(struct memory *memory, struct span *span, uint32_t key);
void span_freeze(struct memory *memory, struct span *span);
uint64_t span_address(const struct memory *memory, const struct span *span);
uint64_t span_read64(const struct memory *memory, const struct span *span);
void span_write64(struct memory *memory, const struct span *span, uint64_t value);
/* Writes up to PIECES_MAX SGEs, returns how many. */
int span_sges(const struct memory *memory, const struct span *span, struct ibv_sge *sge);
/* Do the first @bytes equal the key's data (and the rest is untouched)? -1, or where not. */
long span_mismatch(const struct memory *memory, const struct span *span, uint32_t key,
		   uint32_t bytes);
/* Do the first @bytes equal the key's data, whatever follows? */
bool span_starts(const struct memory *memory, const struct span *span, uint32_t key, uint32_t bytes);
/* Every byte of the buffer is as it may be; fails the simulation if not. */
void memory_judge(struct memory *memory, const char *whose);

#endif
