/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A number for each of the last keys: what was underway lately, and how often. A key that is not asked for makes
 * room for newer ones, long after: RECENT_WAYS others share its row. Zeroed memory is an empty one. No locks.
 */
#ifndef VERBATIM_BASE_RECENT_H
#define VERBATIM_BASE_RECENT_H

#include <stdint.h>

enum { RECENT_ROWS = 8192, RECENT_WAYS = 8 };

struct recent {
	struct recent_entry {
		uint64_t key;	/* 0: free */
		int64_t value;
	} row[RECENT_ROWS][RECENT_WAYS];	/* the last one asked for is the first of its row */
};

/* The number of a key that is not 0; 0 at first. Valid until the next call. */
int64_t *recent_value(struct recent *recent, uint64_t key);

/* Forget the keys for which (key & mask) == bits. */
void recent_forget(struct recent *recent, uint64_t mask, uint64_t bits);

#endif
