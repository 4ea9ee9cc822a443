/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path: the state that the QPs of this process share about one peer process (address and slot
 * bits of its QPN): the congestion window, the bytes in flight, the smoothed round-trip time.
 * Shared, because the buffer that overflows is: one socket buffer per peer process, of 416 KiB with
 * the system's default limits.
 *
 * A requester asks path_reserve() before it transmits and gives back with path_answered() or
 * path_release() when bytes are answered or given up; a QP that was refused waits in the path's
 * list and is put in the run queue when there is room, first come first served. One waiter is woken
 * at a time; when it has transmitted (path_served), the next, if there is still room.
 *
 * Window: doubles per round trip below slow_start_bytes, then grows by 4 to 16 KiB per round trip;
 * shrinks by 1/8 on a loss, to half on a congestion mark or an unanswered probe, to a packet's
 * worth on an ACK timeout; once per round trip at most. The loss factor is mild because random loss
 * (1 %) must not halve goodput. After a loss the window stays for a while below the smallest common
 * buffer (208 KiB): with more in flight there is more to repeat. Where only what was lost is
 * repeated (repair.h) the window shrinks by as much as was lost, and is not held below: an odd
 * packet costs one, a buffer that overflows as much as did not fit.
 */
#ifndef VERBATIM_TRANSPORT_PATH_H
#define VERBATIM_TRANSPORT_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "transport/flow.h"

struct qp;
struct run_queue;

#define PATH_WINDOW_START	(64u * 1024u)
#define PATH_WINDOW_MAX		(320u * 1024u)
#define PATH_WINDOW_MIN		4096u
#define PATH_WINDOW_CAUTIOUS	(192u * 1024u)
#define PATH_CAUTIOUS_BYTES	(16u * 1024u * 1024u)

struct path_key {
	uint8_t destination[16];
	uint32_t slot;			/* bits 23..14 of the peer's QPN */
};

/*
 * The path to a multicast group, for the flow of UD alone. Echoes come from its members, from any
 * address: they name the group by a number made from its address, never 0.
 */
uint32_t path_group(const uint8_t address[16]);
struct path_key path_key_of_group(uint32_t group);

struct path {
	struct path_key key;
	struct lock lock;
	uint32_t references GUARDED;		/* under the table's lock */
	struct list node;		/* in its table's bucket */
	struct list waiting GUARDED_BY_MEMBER(lock);		/* QPs, by wait_node */
	_Atomic uint32_t window_bytes;	/* written under lock, read without as a hint */
	uint32_t in_flight_bytes GUARDED_BY_MEMBER(lock);
	uint32_t window_max_bytes GUARDED_BY_MEMBER(lock);
	/* below it the window doubles per round trip */
	uint32_t slow_start_bytes GUARDED_BY_MEMBER(lock);
	/* still to be answered before the window may be larger than PATH_WINDOW_CAUTIOUS again */
	uint32_t cautious_bytes GUARDED_BY_MEMBER(lock);
	uint64_t rtt_ns GUARDED_BY_MEMBER(lock);
	uint64_t rtt_var_ns GUARDED_BY_MEMBER(lock);	/* 0: not measured */
	_Atomic uint64_t rtt_min_ns;	/* of all samples; written under lock; 0: not measured */
	/* when the window was last reduced: once per round trip */
	uint64_t reduced_at_ns GUARDED_BY_MEMBER(lock);
	struct flow flow GUARDED_BY_MEMBER(lock);	/* UC and UD: independent of all of the above */
};

struct path_table {
	struct lock lock;
	uint32_t window_bytes, window_max_bytes;	/* given to new paths */
	struct list bucket[256] GUARDED_BY_MEMBER(lock);
};

void path_table_init(struct path_table *table);
void path_table_fini(struct path_table *table);	/* paths left over are freed */
/* Find or make the path; holds a reference. NULL: out of memory. */
struct path *path_get(struct path_table *table, const struct path_key *key);
/* The same, but NULL when there is none yet. */
struct path *path_get_known(struct path_table *table, const struct path_key *key);
void path_put(struct path_table *table, struct path *path);

/*
 * Take at least @least bytes of the window, up to @wanted; returns how many. 0: no room, or it is
 * the turn of others: the QP now waits in the path's list. An idle path grants @least with any
 * window.
 */
uint32_t path_reserve(struct path *path, struct qp *qp, uint32_t least, uint32_t wanted);

/*
 * How much of a message should leave at a time, if that much is left: cut by each answer, a message
 * would make more datagrams and ask for more answers. 0 after a loss, when another packet may make
 * the peer report it, and where round trips are long: there the window is the limit, not the
 * processors.
 */
uint32_t path_piece(const struct path *path);

/* Of all round trips that were measured; 0: none was. */
uint64_t path_shortest(const struct path *path);

/*
 * @bytes were answered: give them back, let the window grow. @rtt_ns: a new sample, or 0. Returns
 * how long an answer may take before a probe is worth sending.
 */
uint64_t path_answered(struct path *path, struct run_queue *queue, uint32_t bytes, uint64_t rtt_ns);
/* Give back without having been answered. */
void path_release(struct path *path, struct run_queue *queue, uint32_t bytes);
/* @qp has had its turn: wake the next waiter if there is room. */
void path_served(struct path *path, struct run_queue *queue, struct qp *qp);
/* @qp fails, or is destroyed: it no longer waits. */
void path_leave(struct path *path, struct run_queue *queue, struct qp *qp);

/*
 * A round trip, where the window is the least one, and still too large: a packet in each. 0: the window
 * may shrink, or nothing was measured yet.
 */
uint64_t path_least_round(struct path *path);
/* @bytes were lost, and they alone are sent again. */
void path_lost(struct path *path, uint32_t bytes, uint64_t now_ns);
/*
 * From now on only what was lost is sent again. The loss before, of which it is not known how much
 * it was, does not hold the window below PATH_WINDOW_CAUTIOUS, nor end the doubling up to there:
 * the next one tells more.
 */
void path_forgives(struct path *path);
enum path_trouble { PATH_LOSS, PATH_CONGESTED, PATH_SILENT };
void path_reduce(struct path *path, enum path_trouble trouble, uint64_t now_ns);

#endif
