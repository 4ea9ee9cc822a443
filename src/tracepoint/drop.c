/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of reasons to drop: drop.def, expanded. */
#include "tracepoint/drop.h"

#include <assert.h>
#include <stddef.h>

#include "tracepoint/tracepoint.h"

static const struct drop_row drop_rows[DROP_COUNT] = {
	[DROP_NONE] = { COUNTER_NONE, NULL, NULL, NULL },
#define DROP(reason, counter, tally, words, peer, key) \
	[DROP_##reason] = { COUNTER_##counter, words, peer, key },
#include "tracepoint/drop.def"
#undef DROP
};

const struct drop_row *drop_row(enum drop why)
{
	assert((unsigned)why < DROP_COUNT);
	return &drop_rows[why];
}

enum drop drop_count(struct counters *counters, enum drop why, uint64_t n)
{
	const struct drop_row *row = drop_row(why);

	if (row->counter != COUNTER_NONE)
		counter_add(counters, row->counter, n);
	if (why == DROP_LINK)		/* of what is received the packet is recorded, too: trace_drop() */
		tracepoint(not_sent, .reason = counter_name(row->counter), .packets = n);
	return why;
}
