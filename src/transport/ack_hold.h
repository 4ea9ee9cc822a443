/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ACK that waits for its reply. An application answers a message with a post of its own: a SEND
 * when it polls, an RDMA WRITE when it spins on memory. If the ACK waits for that, both leave as one
 * datagram batch, the ACK last: one system call, and a peer that polls for the completion of its
 * WRITE gets the reply in the same call. If the ACK leaves at once, that peer stops polling before
 * the reply comes, and its worker has to be woken.
 *
 * Learnt per QP: an ACK is held once HOLD_LEARN messages in a row were followed by a post within
 * HOLD_NS. One that was held for nothing ends this for HOLD_PAUSE messages, at most: where replies came
 * for long, the thread that should have posted had no processor, and a long pause would make the peer's
 * worker take them all, which costs the next thread its processor. So the first pause is HOLD_PAUSE_MIN,
 * each further one twice as long. A QP that never posts is never delayed. Pure: no packets, no QP.
 */
#ifndef VERBATIM_TRANSPORT_ACK_HOLD_H
#define VERBATIM_TRANSPORT_ACK_HOLD_H

#include <stdbool.h>

#include "object/qp_transport.h"

/* A reply takes 1 to 5 us, 9 to 31 where the worker took the message and the core. */
#define HOLD_NS		50000u
#define HOLD_LEARN	4u
#define HOLD_PAUSE_MIN	4u
#define HOLD_PAUSE	64u
#define HOLD_PROVEN	16u		/* replies in a row, after which earlier misses do not count */

/* A message that asks for an ACK has arrived. True: the ACK is held until hold->until_ns. */
static inline bool ack_hold_begin(struct ack_hold *hold, uint64_t now_ns)
{
	bool replied = !hold->arrived_ns;

	if (!replied)
		hold->replies = 0;
	if (hold->pause)
		hold->pause--;
	hold->arrived_ns = now_ns;
	hold->until_ns = replied && hold->replies >= HOLD_LEARN && !hold->pause ? now_ns + HOLD_NS : 0;
	return hold->until_ns;
}

/* The ACK goes, without having had its reply. */
static inline void ack_hold_miss(struct ack_hold *hold)
{
	hold->until_ns = 0;
	hold->replies = 0;
	hold->hits = 0;
	hold->pause = hold->last_pause ? 2 * hold->last_pause : HOLD_PAUSE_MIN;
	if (hold->pause > HOLD_PAUSE)
		hold->pause = HOLD_PAUSE;
	hold->last_pause = hold->pause;
}

/* It goes with its reply. */
static inline void ack_hold_hit(struct ack_hold *hold)
{
	if (hold->hits < HOLD_PROVEN)
		hold->hits++;
	else
		hold->last_pause = 0;
}

/* The application posts a send. @kept: somebody keeps the deadline of the next one that is held. */
static inline void ack_hold_reply(struct ack_hold *hold, uint64_t now_ns, bool kept)
{
	if (hold->until_ns && now_ns > hold->until_ns)
		ack_hold_miss(hold);
	else if (hold->until_ns)
		ack_hold_hit(hold);
	if (!kept || now_ns - hold->arrived_ns > HOLD_NS)
		hold->replies = 0;
	else if (hold->replies < HOLD_LEARN)
		hold->replies++;
	hold->arrived_ns = hold->until_ns = 0;
}

#endif
