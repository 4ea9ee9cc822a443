/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program counts of packets that it hands over by itself: memory of the fabric's process, one
 * for each program, which alone writes it. An entry is a path and what went by it; the fabric adds
 * what is new to the counters of both ports of each cable, when somebody looks at them, and at the
 * program's end. It never believes an entry whose path is none.
 *
 * An entry is filled in once, then published by `used`, and counts up from there until all entries
 * are given back together (CTL_FOLD).
 */
#ifndef VERBATIM_IMAGE_TALLY_H
#define VERBATIM_IMAGE_TALLY_H

#include <stdatomic.h>

#include "image/image.h"

#define TALLY_ENTRIES		1024u

struct tally_entry {
	_Atomic uint64_t packets, words;	/* words of 4 bytes, LRH to ICRC */
	uint16_t crossings;
	uint8_t is_multicast, reserved;
	uint32_t exit[IMAGE_CROSSINGS];
	uint32_t end;
};

_Static_assert(sizeof(struct tally_entry) == 144,
	       "the same in libraries and command, whoever compiled them");

struct tally {
	_Atomic uint32_t used;		/* entries that are filled in */
	uint32_t reserved[15];
	struct tally_entry entry[TALLY_ENTRIES];
};

/* The entry of a path; NULL: all are used. */
struct tally_entry *tally_find(struct tally *tally, const struct image_path *path, bool multicast);
/* By any thread: so many packets, of @bytes together. */
static inline void tally_count(struct tally_entry *entry, unsigned packets, size_t bytes)
{
	atomic_fetch_add_explicit(&entry->words, bytes / 4, memory_order_relaxed);
	atomic_fetch_add_explicit(&entry->packets, packets, memory_order_relaxed);
}

/* They did not go after all. */
static inline void tally_uncount(struct tally_entry *entry, unsigned packets, size_t bytes)
{
	atomic_fetch_sub_explicit(&entry->words, bytes / 4, memory_order_relaxed);
	atomic_fetch_sub_explicit(&entry->packets, packets, memory_order_relaxed);
}

#endif
