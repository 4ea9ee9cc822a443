/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that leave together. While many requests of a QP are unanswered, another small one gains
 * nothing by leaving at once: it waits for those posted next, and all of them leave as one datagram
 * batch, by one system call.
 *
 *	nothing unanswered		leaves at once, in the post
 *	fewer than GATHER_BEHIND	leaves at once: the application may wait for just this one. One
 *					that filled batches lately streams: for it, one is enough
 *	otherwise			waits until there are GATHER_MAX, until a post comes GATHER_NS
 *					after the oldest, or until the next round of progress
 *
 * A round is made by the application that polls, and by the worker when an answer arrives: there is
 * one to come. engine/tx_run.c says what bounds the wait where neither does.
 */
#ifndef VERBATIM_TRANSPORT_GATHER_H
#define VERBATIM_TRANSPORT_GATHER_H

#include "object/qp_transport.h"

/* So many unanswered requests keep path and peer busy for longer than gathering takes. */
#define GATHER_BEHIND	8u
/* In a batch of so many, each costs 3 % of a system call. */
#define GATHER_MAX	32u
#define GATHER_BYTES	1024u		/* of one request: larger ones cost more than the call saves */
#define GATHER_NS	20000u
#define GATHER_STREAK	4u		/* batches that were not filled, before a stream has ended */

/* A request of @bytes was posted; @unsent counts it, too. May it wait? */
static inline bool gather_waits(struct gather *gather, uint32_t unanswered, uint32_t unsent,
				uint32_t bytes, uint64_t now_ns)
{
	if (unanswered < (gather->streak ? 1 : GATHER_BEHIND) || bytes > GATHER_BYTES)
		return false;
	if (unsent >= GATHER_MAX) {
		gather->streak = GATHER_STREAK;
		return false;
	}
	if (!gather->since_ns)
		gather->since_ns = now_ns;
	return now_ns < gather->since_ns + GATHER_NS;
}

/* They leave now, @unsent in all. */
static inline void gather_ends(struct gather *gather, uint32_t unsent)
{
	if (gather->since_ns && unsent < GATHER_MAX && gather->streak)
		gather->streak--;
	gather->since_ns = 0;
}

#endif
