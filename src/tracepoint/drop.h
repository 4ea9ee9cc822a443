/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reasons of drops: drop.def as an enum and a table. Whoever drops something returns or names one, so that its
 * counters, its words and its record in a trace follow from the row.
 */
#ifndef VERBATIM_TRACEPOINT_DROP_H
#define VERBATIM_TRACEPOINT_DROP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

enum drop {
	DROP_NONE,
#define DROP(reason, counter, tally, words, peer, key) DROP_##reason,
#include "tracepoint/drop.def"
#undef DROP
	DROP_COUNT
};

struct drop_row {
	enum counter counter;		/* COUNTER_NONE: none */
	const char *words, *peer;	/* NULL: none */
	const char *key;		/* words that docs/errors has; NULL: none */
};

/* Of DROP_NONE: a row without a counter and words. */
const struct drop_row *drop_row(enum drop why);

/* Is @why, which a peer may say, a reason that the sender is told? */
static inline bool drop_is_told(uint32_t why)
{
	return why < DROP_COUNT && drop_row((enum drop)why)->peer;
}

/* @n of them were dropped: counted, and what was not sent is recorded. Returns @why. */
enum drop drop_count(struct counters *counters, enum drop why, uint64_t n);

#endif
