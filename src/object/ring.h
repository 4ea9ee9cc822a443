/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rings whose positions are ever-growing 32-bit counters: the number of slots is a power of two,
 * or the slot of a counter would jump when it wraps after 2^32 entries.
 */
#ifndef VERBATIM_OBJECT_RING_H
#define VERBATIM_OBJECT_RING_H

#include <stdint.h>

#define RING_SIZE_MAX (1u << 30)

/* Slots - 1 of a ring that holds @size entries (at most RING_SIZE_MAX; 0 gets one slot). */
static inline uint32_t ring_mask(uint32_t size)
{
	uint32_t slots = 1;

	while (slots < size)
		slots *= 2;
	return slots - 1;
}

#endif
