/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ring.c (datagrams) and ring_message.c (messages) share: how a channel lies in memory, and
 * what a process knows of the two halves of one.
 *
 * Ordering. The producer writes cell and data, then stores the cell's sequence (R1, release); the
 * consumer loads it (A1, acquire) and reads. The consumer stores how many cells it is done with
 * (R2, release), the producer loads that (A2, acquire) before it writes there again, or takes a
 * message for done. Sleeping: the consumer stores asleep and then looks at the next cell; the
 * producer stores a sequence and then looks at asleep; a full fence between the two on each side
 * (F1, F2), so that one of them sees the other. The same for a producer that sleeps until its
 * messages are consumed (F5, F6).
 */
#ifndef VERBATIM_LOCAL_RING_INTERNAL_H
#define VERBATIM_LOCAL_RING_INTERNAL_H

#include "local/ring.h"

#include "base/lock.h"

#define LINE		64u
#define PAGE		4096u
#define DATAGRAM_BYTES_MIN 16u		/* a BTH and an ICRC: nothing shorter is worth a look */

struct channel_route {
	uint8_t source[16], destination[16];
	uint32_t interface, flow_label;
	uint16_t source_port;
	uint8_t traffic_class, hop_limit;
	uint8_t reserved[20];
};
_Static_assert(sizeof(struct channel_route) == LINE, "shared between versions");

struct channel_cell {
	_Atomic uint32_t sequence;	/* its number + 1 when it is valid (R1, A1) */
	uint32_t bytes_route;		/* bytes | route << 24; route 0: a message */
	union {
		uint32_t segment_bytes;
		uint32_t taken;		/* message: cells that its sender has taken from us */
	};
	union {
		uint32_t offset;	/* in data, of more than CHANNEL_CELL_DATA bytes */
		uint8_t inside[CHANNEL_CELL_DATA];
		struct {
			uint32_t head[RING_HEAD_WORDS];
			union {
				uint32_t offset;	/* of more than RING_INSIDE bytes */
				uint8_t inside[RING_INSIDE];
			};
		} message;
	};
};
_Static_assert(sizeof(struct channel_cell) == LINE, "a cell is a cache line");

/*
 * What one process of a channel writes, and the other one reads. Nothing is written by both: each side
 * is a memfd of its own, which its owner alone can map for writing (local/handshake.h).
 */
struct channel_side {
	/* As the consumer of the other side's cells. */
	_Alignas(LINE) _Atomic uint32_t consumed;	/* cells (R2, A2) */
	_Atomic uint32_t parts;				/* of messages */
	/* Read mostly. Of each cell's last message whether it was refused. */
	_Alignas(LINE) _Atomic uint64_t refused[CHANNEL_CELLS / 64];
	/*
	 * enum ring_reach. Stored (release) by ring_set_reach(), loaded (acquire) by the peer's
	 * ring_reach().
	 */
	_Atomic uint32_t reach;
	_Alignas(LINE) _Atomic uint32_t asleep;		/* number of the sleep << 2 | enum asleep */
	/* As the producer. */
	_Alignas(LINE) struct channel_route route[CHANNEL_ROUTES + 1];	/* [0] is unused */
	_Alignas(LINE) struct channel_cell cell[CHANNEL_CELLS];
	_Alignas(LINE) uint8_t data[CHANNEL_DATA_BYTES];
};

_Static_assert(sizeof(struct channel_side) == 1196480,
	       "shared between versions: raise HANDSHAKE_VERSION (local/handshake.h) with the layout");

/* AWAKE, or what wakes the consumer: new cells, or also the consumption of its own messages. */
enum asleep { AWAKE, ASLEEP, ASLEEP_FOR_ANSWERS };
#define ASLEEP_BITS 2u
#define ASLEEP_MASK 3u

/*
 * What this process knows of a half that it produces.
 *
 * Messages in it are settled in order (ring_answer). While @settled is not @told, the settling
 * thread writes it; while they are equal there is nothing to settle, and the telling thread writes
 * it, under the lock.
 */
struct producer {
	struct lock lock;
	struct channel_side *half;	/* ours */
	const struct channel_side *theirs;
	_Atomic uint32_t woken;		/* the sleep of theirs that a bell was rung for last */
	uint32_t put GUARDED_BY_MEMBER(lock);			/* cells so far */
	uint32_t consumed GUARDED_BY_MEMBER(lock);		/* of them, as last seen */
	/*
	 * Cells up to the last message: R8 in note_told() is behind owner[] and fetched[], which
	 * who loads it (A8) then reads. Cells before @settled hold no message that is not settled:
	 * R7 in take_answer() is behind those reads, A7 and has_cell() before the entries are
	 * written again.
	 */
	_Atomic uint32_t told, settled;
	/*
	 * Answers are to wake us: stored by ring_await_answers(), taken back by ring_sleep(); see
	 * there.
	 */
	_Atomic bool awaited;
	bool has_heard;			/* the message just heard said how many cells are consumed: */
	uint32_t heard;			/*   this many; by the receiving thread */
	uint32_t owner[CHANNEL_CELLS];	/* of each message; 0: a datagram */
	uint32_t fetched[CHANNEL_CELLS];	/* bytes of data that are elsewhere ... */
	_Atomic uint64_t fetching;	/* ... of all that are not settled */
	uint64_t data_put GUARDED_BY_MEMBER(lock);
	uint64_t data_freed GUARDED_BY_MEMBER(lock);	/* bytes so far */
	/* data_put behind each cell's data */
	uint64_t data_end[CHANNEL_CELLS] GUARDED_BY_MEMBER(lock);
	unsigned routes GUARDED_BY_MEMBER(lock);
	struct channel_route route[CHANNEL_ROUTES + 1] GUARDED_BY_MEMBER(lock);
	int bell_fd GUARDED_BY_MEMBER(lock);
};

struct consumer {
	const struct channel_side *half;	/* theirs */
	struct channel_side *ours;
	/*
	 * Cells given out so far; pollers look at it. Stored (release) by ring_finish() behind the
	 * bit of a refusal, loaded (acquire) by ring_send_end(), which tells the peer: it may read
	 * the bit then.
	 */
	_Atomic uint32_t taken;
	_Atomic bool held;		/* the next message is being dealt with (ring_hold) */
	bool heard, refused;		/* messages whose answers the peer was not woken for yet */
};

struct channel {
	unsigned number;
	/*
	 * Stored (release) by channel_begin() behind all below, loaded (acquire) by channel_at().
	 */
	_Atomic bool open;
	struct producer producer;
	struct consumer consumer;
};

struct ring_link {
	struct link link;
	struct counters *counters;
	channel_wake_fn *wake;
	_Atomic uint64_t bells[CHANNELS_MAX / 64];	/* channels whose peer is to be woken */
	/*
	 * Channels are below it. Raised by ring_add() behind channel[], loaded (acquire) by all
	 * loops.
	 */
	_Atomic unsigned count;
	_Atomic unsigned open;		/* channels that are open: a hint */
	unsigned next;			/* channel to begin with: each has its turn ... */
	unsigned row;			/* ... of so many messages */
	unsigned given[CHANNELS_MAX], given_count;	/* channels with datagrams given out */
	/*
	 * Stored (release) by ring_add() behind what it points to, loaded (acquire) by
	 * channel_at().
	 */
	struct channel *_Atomic channel[CHANNELS_MAX];
	uint8_t (*small)[LINE];		/* one for each datagram given out at once */
};

#define RECEIVE_MAX 64u
#define ring_of(l) ((struct ring_link *)(l))

static inline size_t channel_rounded(size_t bytes)
{
	return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

static inline struct channel *channel_at(const struct ring_link *memory, unsigned number)
{
	struct channel *channel;

	if (number >= CHANNELS_MAX)
		return NULL;
	channel = atomic_load_explicit(&memory->channel[number], memory_order_acquire);
	return channel && atomic_load_explicit(&channel->open, memory_order_acquire) ? channel : NULL;
}

static inline const struct channel_cell *next_cell(const struct consumer *consumer)
{
	uint32_t taken = atomic_load_explicit(&consumer->taken, memory_order_relaxed);

	return &consumer->half->cell[taken % CHANNEL_CELLS];
}

static inline bool cell_is_ready(const struct consumer *consumer)
{
	return atomic_load_explicit(&next_cell(consumer)->sequence, memory_order_acquire) ==
		       atomic_load_explicit(&consumer->taken, memory_order_relaxed) + 1 &&	/* A1 */
	       !atomic_load_explicit(&consumer->held, memory_order_relaxed);
}

static inline bool cell_is_message(const struct channel_cell *cell)
{
	return *(const volatile uint32_t *)&cell->bytes_route >> 24 == 0;
}

/*
 * Messages wait for room, datagrams without room are lost: so messages leave room for datagrams,
 * whose limits (windows, flow control) need not know of messages.
 */
#define MESSAGE_CELLS		(CHANNEL_CELLS / 4 * 3)
#define MESSAGE_DATA_BYTES	(CHANNEL_DATA_BYTES / 4 * 3)
enum room { ROOM_FOR_ALL, ROOM_FOR_MESSAGES };

/* Room for one more cell, with @bytes in the ring of data, from *start on; false: full. Locked. */
bool producer_has_room(struct producer *producer, enum room room, size_t bytes, uint64_t *start)
	REQUIRES(producer->lock);
/* The next cell is written: let it be seen. Its data, if any, ends at @data_end. Locked. */
void producer_put(struct producer *producer, struct channel_cell *cell, uint64_t data_end)
	REQUIRES(producer->lock);
/* After cells were put: if the peer sleeps its bell is due (ring_ring_bells). */
void producer_wake(struct ring_link *memory, struct channel *channel);
/* The same, if it sleeps at least as deeply as @at_least. Once per sleep. */
void channel_note_bell(struct ring_link *memory, struct channel *channel, enum asleep at_least);
/* Mark what was given out as consumed. */
void ring_release_given(struct ring_link *memory);

#endif
