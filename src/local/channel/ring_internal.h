/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by ring.c (datagrams) and ring_message.c (messages): the layout of a channel in memory,
 * and the state that a process keeps of its two halves.
 *
 * Ordering. The producer writes cell and data, then stores the cell's sequence (R1, release); the
 * consumer loads it (A1, acquire) and reads. The consumer stores how many cells it has consumed
 * (R2, release); the producer loads that (A2, acquire) before it reuses the cells or takes a
 * message as answered. Sleeping: the consumer stores asleep and then checks the next cell; the
 * producer stores a sequence and then checks asleep; a full fence between the two on each side (F1,
 * F2), so that at least one of them sees the other. The same for a producer that sleeps until its
 * messages are consumed (F5, F6).
 *
 * Fences of local/, which tests/litmus checks against the memory model; a label stands on the line
 * of its order. By R10 a receive goes from who posts it to a row of messages, which reads it where it
 * lies, without the queue's lock (local/move/receive.c); by R12 and R11 its slot comes back, through
 * the CQ:
 *
 *	label	file: function				partner
 *	R1	ring.c: producer_put			A1
 *	A1	ring_internal.h: cell_is_ready		R1
 *	R2	ring.c: ring_release_given,		A2
 *		ring_message.c: ring_answer
 *	A2	ring.c: producer_read_consumed,		R2
 *		ring_message.c: answers_of
 *	R3	hazard.h: hazard_end			A3
 *	A3	hazard.h: hazard_names			R3
 *	R7	ring_message.c: ring_message_take_answer,	A7
 *		ring_take_row
 *	A7	ring_message.c: ring_send_end,		R7
 *		ring.c: finds_room
 *	R8	ring_message.c: ring_send_end		A8
 *	A8	ring_message.c: answers_of,		R8
 *		hinted_answers
 *	R9	peer_memory.c: peer_region_add		A9
 *	A9	peer_memory.c: entry_read		R9
 *	R10	object/recv_queue.c: recv_queue_post_one	A10
 *	A10	object/recv_queue.h: recv_queue_next	R10
 *	R11	object/wqe_slots.h: wqe_slot_free	A11
 *	A11	object/wqe_slots.h: wqe_slots_used	R11
 *	R12	object/cq.c: set_head			A12
 *	A12	object/cq.c: take_some; object/cq.h	R12
 *	R13	ring_message.c: ring_send_end		A13
 *	A13	ring_message.c: ring_message_take_answer	R13
 *	R14	base/lock.h: owned_release; base/lock.c	A14
 *	A14	base/lock.c: owned_claim		R14
 *	F1	ring.c: producer_wake			F2, F8
 *	F2	ring.c: ring_sleep			F1, F9
 *	F3	hazard.h: hazard_begin			F4, F7
 *	L3	grant.h: grant_is_alive,		behind F3
 *		peer_memory.c: peer_version_holds
 *	F4	drain.c: end_grants			F3
 *	F5	ring_message.c: ring_notify_answers	F6
 *	F6	ring_message.c: ring_await_answers	F5
 *	F7	peer_memory.c: peer_memory_sweep	F3 of this process
 *	F8	ring_message.c: ring_await_answers	F1
 *	F9	ring_message.c: ring_await_answers	F2
 *	F10	fetch.c: copy_all			F4, F11
 *	F11	object/pairing.h: pairing_end		F10
 */
#ifndef VERBATIM_LOCAL_CHANNEL_RING_INTERNAL_H
#define VERBATIM_LOCAL_CHANNEL_RING_INTERNAL_H

#include "local/channel/ring.h"

#include "base/lock.h"

#define LINE		64u
#define PAGE		4096u
#define DATAGRAM_BYTES_MIN 16u		/* a BTH and an ICRC: nothing shorter is worth a look */

struct channel_route {
	uint8_t source[16], destination[16];
	uint32_t interface, flow_label;
	uint16_t source_port;
	uint8_t traffic_class, hop_limit;
	/* Of a virtual fabric, as in struct datagram: how it arrives, but for the port's name there. */
	uint32_t ib_end, ib_from;
	uint16_t ib_lid;
	uint8_t ib_path_bits, ib_sl, ib_has_grh;
	uint8_t reserved[7];
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
 * Memory that one process of a channel writes and the other one reads. Neither writes the other's:
 * each side is a memfd of its own, which only its owner can map for writing (local/channel/handshake.h).
 */
struct channel_side {
	/* As the consumer of the other side's cells. */
	_Alignas(LINE) _Atomic uint32_t consumed;	/* cells (R2, A2) */
	_Atomic uint32_t parts;				/* of messages */
	/* Read mostly. Bit for each cell: its last message was refused. */
	_Alignas(LINE) _Atomic uint64_t refused[CHANNEL_CELLS / 64];
	/*
	 * enum ring_reach. Stored (release) by ring_set_reach(), loaded (acquire) by the peer's
	 * ring_reach().
	 */
	_Atomic uint32_t reach;
	_Alignas(LINE) _Atomic uint32_t asleep;		/* number of the sleep << 2 | enum asleep */
	/* As the producer. */
	/*
	 * Bit for each cell: its message was completed before it was consumed (ring_commit). Stored
	 * (release) before the application sees that, loaded (acquire) when the sender's grant is found dead.
	 */
	_Alignas(LINE) _Atomic uint64_t committed[CHANNEL_CELLS / 64];
	_Alignas(LINE) struct channel_route route[CHANNEL_ROUTES + 1];	/* [0] is unused */
	_Alignas(LINE) struct channel_cell cell[CHANNEL_CELLS];
	_Alignas(LINE) uint8_t data[CHANNEL_DATA_BYTES];
};

_Static_assert(sizeof(struct channel_side) == 1196736,
	       "shared between versions: raise HANDSHAKE_VERSION (local/channel/handshake.h) with the layout");

/* AWAKE, or the events that wake the consumer: new cells; also answers to its own messages. */
enum asleep { AWAKE, ASLEEP, ASLEEP_FOR_ANSWERS };
#define ASLEEP_BITS 2u
#define ASLEEP_MASK 3u

/*
 * State of a half that this process produces.
 *
 * Its messages complete in order (ring_answer). While @completed is not @sent, the thread that
 * takes answers writes @completed; while they are equal there is nothing to complete, and a sending
 * thread writes it, under the lock.
 */
struct producer {
	struct owned_lock lock;
	struct channel_side *half;	/* ours */
	const struct channel_side *theirs;
	_Atomic uint32_t woken;		/* the peer's sleep that the last bell was for */
	uint32_t put GUARDED_BY_MEMBER(lock);			/* cells so far */
	uint32_t consumed GUARDED_BY_MEMBER(lock);		/* of them, as last seen */
	/*
	 * @sent: one past the last message's cell. R8 is behind owner[] and fetched[], read by the
	 * loader of @sent (A8). @completed: messages before this cell are completed. R7 is behind
	 * the reads of those entries, A7 before they are written again. Where the sender raises it
	 * (R13), who loads it (A13) may have loaded an older @sent: the peer's count says that there
	 * is an answer.
	 */
	_Atomic uint32_t sent, completed;
	/*
	 * Answers are to wake this process: set by ring_await_answers(), cleared by ring_sleep().
	 */
	_Atomic bool awaited;
	bool hint_valid;		/* the last message received said how many cells are consumed: */
	uint32_t consumed_hint;		/*   this many; for the receiving thread */
	uint32_t owner[CHANNEL_CELLS];	/* of each message; 0: a datagram */
	uint32_t fetched[CHANNEL_CELLS];	/* bytes that the peer fetches ... */
	_Atomic uint64_t fetching;	/* ... of all messages not completed */
	uint64_t data_put GUARDED_BY_MEMBER(lock);
	uint64_t data_freed GUARDED_BY_MEMBER(lock);	/* bytes so far */
	/* data_put behind each cell's data */
	uint64_t data_end[CHANNEL_CELLS] GUARDED_BY_MEMBER(lock);
	unsigned routes GUARDED_BY_MEMBER(lock);	/* places in use, from 1 */
	unsigned route_last GUARDED_BY_MEMBER(lock);	/* of the last datagram, or 0 */
	unsigned route_turn GUARDED_BY_MEMBER(lock);	/* the place that was given away last */
	struct channel_route route[CHANNEL_ROUTES + 1] GUARDED_BY_MEMBER(lock);
	uint32_t route_end[CHANNEL_ROUTES + 1] GUARDED_BY_MEMBER(lock);	/* one past its last cell */
	int bell_fd GUARDED_BY_MEMBER(lock);
	/*
	 * Threads that ring bell_fd. Raised by ring_bell() under the lock while the channel is
	 * open, lowered (release) behind the system call; ring_remove() waits for 0 (acquire)
	 * before the caller closes bell_fd.
	 */
	_Atomic unsigned ringing;
};

struct consumer {
	const struct channel_side *half;	/* theirs */
	struct channel_side *ours;
	/*
	 * Cells given out so far; polling threads load it. Stored (release) by ring_finish() behind
	 * the refusal bit, loaded (acquire) by ring_send_end(), which passes it to the peer: the
	 * peer may read the bit then.
	 */
	_Atomic uint32_t taken;
	_Atomic bool held;		/* the next message is being dealt with (ring_hold) */
	bool has_refused;		/* bits of ours->refused may be set */
	bool answers_to_signal, refused;	/* the peer was not woken yet for answers, for refusals */
};

struct channel {
	unsigned number;
	/*
	 * Stored (release) by channel_begin() behind the members below, loaded (acquire) by
	 * channel_at().
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
	_Atomic bool bells_due;		/* there are some: stored behind their bits, cleared before */
	/*
	 * Channels are below it. Raised by ring_add() behind channel[], loaded (acquire) by all
	 * loops.
	 */
	_Atomic unsigned count;
	_Atomic unsigned open;		/* channels that are open: a hint */
	unsigned next;			/* channel to begin with: each has its turn ... */
	unsigned row;			/* ... and has received this many messages in it */
	struct channel *latest;		/* of the last message; NULL: none yet */
	unsigned given[CHANNELS_MAX], given_count;	/* channels with datagrams given out */
	/*
	 * Stored (release) by ring_add() behind the channel, loaded (acquire) by channel_at().
	 */
	struct channel *_Atomic channel[CHANNELS_MAX];
	uint8_t (*small)[LINE];		/* one for each datagram given out at once */
};

/* In fetched[]: no bytes (a message has 2^31 at most), but one that was completed early. */
#define FETCHED_COMMITTED 0xfffffffeu

#define RECEIVE_MAX 64u
#define ring_of(l) ((struct ring_link *)(l))

static inline size_t channel_rounded(size_t bytes)
{
	return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

static inline struct channel *channel_at(const struct ring_link *rings, unsigned number)
{
	struct channel *channel;

	if (number >= CHANNELS_MAX)
		return NULL;
	channel = atomic_load_explicit(&rings->channel[number], memory_order_acquire);
	return channel && atomic_load_explicit(&channel->open, memory_order_acquire) ? channel : NULL;
}

static inline const struct channel_cell *next_cell(const struct consumer *consumer)
{
	uint32_t taken = atomic_load_explicit(&consumer->taken, memory_order_relaxed);

	return &consumer->half->cell[taken % CHANNEL_CELLS];
}

static inline __attribute__((always_inline)) bool cell_is_ready(const struct consumer *consumer)
{
	return atomic_load_explicit(&next_cell(consumer)->sequence, memory_order_acquire) ==	/* A1 */
		       atomic_load_explicit(&consumer->taken, memory_order_relaxed) + 1 &&
	       !atomic_load_explicit(&consumer->held, memory_order_relaxed);
}

static inline bool cell_is_message(const struct channel_cell *cell)
{
	return *(const volatile uint32_t *)&cell->bytes_route >> 24 == 0;
}

/*
 * Messages wait for room, datagrams without room are lost: so messages leave room for datagrams,
 * whose limits (windows, flow control) take no account of messages.
 */
#define MESSAGE_CELLS		(CHANNEL_CELLS / 4 * 3)
#define MESSAGE_DATA_BYTES	(CHANNEL_DATA_BYTES / 4 * 3)
enum room { ROOM_FOR_ALL, ROOM_FOR_MESSAGES };

/* Room for one more cell, with @bytes in the data ring, from *start on; false: full. Locked. */
bool producer_has_room(struct producer *producer, enum room room, size_t bytes, uint64_t *start)
	REQUIRES(producer->lock);
/* Publish the next cell, which is written. Its data, if any, ends at @data_end. Locked. */
void producer_put(struct producer *producer, struct channel_cell *cell, uint64_t data_end)
	REQUIRES(producer->lock);
/* After cells were published: if the peer sleeps its bell is due (ring_wake_peers). */
void producer_wake(struct ring_link *rings, struct channel *channel);
/* The same, if it sleeps at least as deeply as @at_least. Once per sleep. */
void channel_note_bell(struct ring_link *rings, struct channel *channel, enum asleep at_least);
/* Mark the datagrams given out as consumed. */
void ring_release_given(struct ring_link *rings);

#endif
