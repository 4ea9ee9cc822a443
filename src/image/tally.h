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
	_Atomic uint64_t waited_ns;	/* that packets had to, since their receiver had no room */
	_Atomic uint64_t full_ns;	/* the program's: when one was found to; 0: the last one went */
	uint16_t crossings;
	uint8_t is_multicast, reserved;
	uint32_t exit[IMAGE_CROSSINGS];
	uint32_t end;
};

_Static_assert(sizeof(struct tally_entry) == 160,
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

#define TALLY_WAIT_MAX_NS	100000000u	/* between two attempts: what is given up waits no longer */

/*
 * Before an attempt: since the last one, which found no room, packets have waited. However many threads' do, it
 * counts once. Callers take turns.
 */
static inline void tally_try(struct tally_entry *entry, uint64_t (*now_ns)(void))
{
	uint64_t full_ns = atomic_load_explicit(&entry->full_ns, memory_order_relaxed), waited_ns;

	if (__builtin_expect(!full_ns, 1))
		return;
	waited_ns = now_ns() - full_ns;
	atomic_store_explicit(&entry->full_ns, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&entry->waited_ns,
				  waited_ns < TALLY_WAIT_MAX_NS ? waited_ns : TALLY_WAIT_MAX_NS,
				  memory_order_relaxed);
}

/* They did not go after all: their receiver has no room at @now_ns. */
static inline void tally_uncount(struct tally_entry *entry, unsigned packets, size_t bytes, uint64_t now_ns)
{
	atomic_store_explicit(&entry->full_ns, now_ns, memory_order_relaxed);
	atomic_fetch_sub_explicit(&entry->words, bytes / 4, memory_order_relaxed);
	atomic_fetch_sub_explicit(&entry->packets, packets, memory_order_relaxed);
}

#endif
