/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory link: datagrams between two processes of one host through memory that both have
 * mapped. Who they are and how they got it: host/rendezvous.h. A channel has two halves, one for each
 * direction; each half has one producing process (any of its threads, under a lock) and one
 * consuming process (one thread at a time).
 *
 *	half:	consumed | asleep | routes | cells | data
 *
 * A cell is a cache line. It becomes valid when its sequence number does, which is stored last, so
 * that a consumer that polls touches one line per datagram; what does not fit the cell lies in the
 * ring of data, in one piece. Sequence numbers are only ever written to cells: nothing else can be
 * taken for one. Routes (addresses, traffic class, hop limit) repeat, so cells name them by number.
 *
 * The peer may write anything anywhere at any time: each field is read once, and checked after.
 */
#ifndef VERBATIM_LINK_MEMORY_H
#define VERBATIM_LINK_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/counters.h"
#include "link/link.h"

#define CHANNEL_CELLS		2048u
#define CHANNEL_CELL_DATA	52u		/* bytes that fit a cell */
#define CHANNEL_DATA_BYTES	(1u << 20)
#define CHANNEL_ROUTES		255u
#define CHANNELS_MAX		64u		/* peer processes of one link */

/* Of a half; a multiple of the page size. Sparse: what is not used costs nothing. */
size_t channel_half_bytes(void);

/* What to do when the peer sleeps: called by the sending thread after something was put. */
typedef void channel_wake_fn(int doorbell_fd);

int memory_open(struct link **link, struct counters *counters, channel_wake_fn *wake);

/*
 * Add a channel: @transmit is the half that we produce, @receive the one that we consume, both
 * zeroed at the beginning. @doorbell_fd wakes the peer. Its number is what struct datagram's
 * channel names, until memory_remove(). 0; ENOSPC: CHANNELS_MAX are open; ENOMEM.
 */
int memory_add(struct link *link, void *transmit, void *receive, int doorbell_fd,
	       unsigned *channel);
/*
 * No datagram of it is given out any more, and none is sent. To be called by who receives (or when
 * nobody does), after a last receive() that found nothing, or what is in it is lost.
 */
void memory_remove(struct link *link, unsigned channel);
bool memory_is_empty(const struct link *link, unsigned channel);

bool memory_has_channels(const struct link *link);
/* Is there anything to receive? A hint without locks; one cache line per channel. */
bool memory_pending(const struct link *link);
/*
 * Before the receiving process sleeps: peers that put something from now on ring its doorbell. Then
 * look once more (memory_pending), then sleep. Cleared by memory_awake().
 */
void memory_fall_asleep(struct link *link);
void memory_awake(struct link *link);

#endif
