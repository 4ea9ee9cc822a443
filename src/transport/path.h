/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path: what the QPs of this process know together about reaching one peer process (address
 * and slot bits of its QPN): the congestion window, the bytes in flight, the smoothed round-trip
 * time. Shared, because what overflows is shared: one socket buffer per peer process, of
 * 208 KiB by default.
 *
 * A requester asks path_reserve() before it transmits and gives back with path_release() when
 * bytes are answered or given up; a QP that was refused waits in the path's list and is put in
 * the run queue when there is room, first come first served.
 */
#ifndef VERBATIM_TRANSPORT_PATH_H
#define VERBATIM_TRANSPORT_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"

struct qp;
struct run_queue;

struct path_key {
	uint8_t destination[16];
	uint32_t slot;			/* bits 23..14 of the peer's QPN */
};

struct path {
	struct path_key key;
	struct lock lock;
	uint32_t references;
	struct list node;		/* in its table's bucket */
	struct list waiting;		/* QPs, by wait_node */
	uint32_t window_bytes, in_flight_bytes;
	uint32_t slow_start_bytes;	/* below it the window doubles per round trip */
	uint64_t rtt_ns, rtt_var_ns;	/* 0: not measured */
	uint64_t reduced_at_ns;		/* when the window was last reduced: once per round trip */
};

struct path_table {
	struct lock lock;
	struct list bucket[256];
};

void path_table_init(struct path_table *table);
void path_table_fini(struct path_table *table);	/* paths left over are freed */
/* Find or make the path; holds a reference. NULL: out of memory. */
struct path *path_get(struct path_table *table, const struct path_key *key);
void path_put(struct path_table *table, struct path *path);

#endif
