/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of a QP at a rate: IBV_QP_RATE_LIMIT of RAW_PACKET, and on InfiniBand static_rate of paths and
 * address handles: an adapter leaves a delay between packets where a path is slower than its port (IBTA
 * 9.11). A timer of software comes late: what it is late by leaves at once. The send queue is in order:
 * what follows a datagram to a slow path waits with it. Responses to READs are held as requests are, and
 * with them what is answered behind them.
 */
#ifndef VERBATIM_TRANSPORT_PACE_H
#define VERBATIM_TRANSPORT_PACE_H

#include "transport/internal.h"

#define PACE_BURST		65536u		/* bytes, where nobody says */
#define PACE_LATE_US		100u		/* of static_rate: what leaves at once after a pause */
#define PACE_LINK_BYTES		10u		/* LRH and VCRC */
#define PACE_NS_PER_MS		1000000u	/* kbit/s are bits in a millisecond */

static inline uint64_t pace_ns(const struct pace *pace, uint32_t bytes)
{
	return (uint64_t)bytes * 8 * PACE_NS_PER_MS / pace->kbps;
}

/* May the next one leave now? Otherwise it is held until it may. */
static inline bool pace_allows(struct pace *pace, uint64_t now_ns)
{
	uint64_t burst_ns;

	if (!pace->kbps)
		return true;
	burst_ns = pace_ns(pace, pace->burst_bytes ? pace->burst_bytes : PACE_BURST);
	if (pace->due_ns <= now_ns + burst_ns)
		return true;
	pace->held_until_ns = pace->due_ns - burst_ns;
	return false;
}

/* So many bytes left. */
static inline void pace_sent(struct pace *pace, uint32_t bytes, uint64_t now_ns)
{
	if (pace->kbps)
		pace->due_ns = (pace->due_ns > now_ns ? pace->due_ns : now_ns) + pace_ns(pace, bytes);
}

/* Until when the QP is held; TIME_NEVER: it is not. */
static inline uint64_t pace_deadline(const struct pace *pace)
{
	return pace->held_until_ns ? pace->held_until_ns : TIME_NEVER;
}

/* True: it was, and may go on. */
static inline bool pace_expire(struct pace *pace, uint64_t now_ns)
{
	if (pace_deadline(pace) > now_ns)
		return false;
	pace->held_until_ns = 0;
	return true;
}

/* From now on at the rate of @route; what has left before counts. */
static inline void pace_route(struct pace *pace, const struct route *route)
{
	uint32_t kbps = route_pace_kbps(route);

	if (__builtin_expect(kbps == pace->kbps, 1))
		return;
	pace->kbps = kbps;
	pace->burst_bytes = kbps / 8 * PACE_LATE_US / 1000;
}

#endif
