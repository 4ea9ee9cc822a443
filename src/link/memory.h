/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory link: datagrams between two processes of one host through memory that both have
 * mapped. Who they are and how they got it: local/handshake.h. A channel has two sides, each written by
 * one process and read by the other; its cells are produced by any thread of its owner, under a lock, and
 * consumed by one thread at a time of the other process.
 *
 *	side:	consumed | asleep | routes | cells | data
 *
 * A cell is a cache line. It becomes valid when its sequence number does, which is stored last, so
 * that a consumer that polls touches one line per datagram; what does not fit the cell lies in the
 * ring of data, in one piece. Sequence numbers are only ever written to cells: nothing else can be
 * taken for one. Routes (addresses, traffic class, hop limit) repeat, so cells name them by number.
 *
 * The peer may write anything into its side at any time: each field is read once, and checked after.
 *
 * A peer that sleeps is woken by a bell. Putting something only notes that one is due; it is rung by
 * memory_ring_bells(), a system call, which the caller makes when it holds no QP's lock.
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
#define CHANNELS_MAX		256u		/* peer processes of one link */
#define MEMORY_HEAD_WORDS	5u
#define MEMORY_INSIDE		28u		/* bytes of a message that fit a cell */

/* Of a side; a multiple of the page size. Sparse: what is not used costs nothing. */
size_t channel_side_bytes(void);

/* Ring the bell of a peer that sleeps. It must not block. */
typedef void channel_wake_fn(int bell_fd);

int memory_open(struct link **link, struct counters *counters, channel_wake_fn *wake);

struct channel_side;

/*
 * Open the channel @number (below CHANNELS_MAX, not open): @ours is the side that we write, @theirs the one
 * that we read, both zeroed at the beginning. @bell_fd wakes the peer. The number is what struct
 * datagram's channel names, until memory_remove(). One thread at a time. 0 or ENOMEM.
 */
int memory_add(struct link *link, unsigned number, struct channel_side *ours,
	       const struct channel_side *theirs, int bell_fd);

/* Ring the bells that are due, of all channels. No QP's lock is held. */
void memory_ring_bells(struct link *link);
/* A hint without locks: whoever put something and sees false has nothing to ring. */
bool memory_bells_are_due(const struct link *link);

/*
 * No datagram of it is given out any more, and none is sent. To be called by who receives (or when
 * nobody does), after a last receive() that found nothing, or what is in it is lost.
 */
void memory_remove(struct link *link, unsigned channel);
bool memory_is_empty(const struct link *link, unsigned channel);
/*
 * What was given out is done with: its room is the peer's again. Else that waits for the next receive(),
 * and that for something to come, which may find no room.
 */
void memory_done(struct link *link);

/* ---- messages (memory_message.c) ----
 *
 * What needs no packet: a few words whose meaning the caller knows, and data. They keep their order,
 * also among datagrams, and each is answered: it was executed, or refused. The answers take no
 * room in the other half, and come in order.
 */

/* How its consumer can reach the memory of a half's producer; he says so once. */
enum memory_reach {
	MEMORY_HEARS	= 1 << 0,	/* takes messages at all */
	MEMORY_COPIES	= 1 << 1,	/* from the producer's address space */
	MEMORY_MAPS	= 1 << 2,	/* the producer's pool is mapped */
};
void memory_set_reach(struct link *link, unsigned channel, unsigned reach);
unsigned memory_reach(const struct link *link, unsigned channel);

/* A message that is being written: the producing end of the channel is locked meanwhile. */
struct memory_room {
	struct channel *channel;
	struct channel_cell *cell;
	uint64_t data_end;
	uint32_t number;		/* of the cell; its answer names it */
	uint32_t *head;			/* [MEMORY_HEAD_WORDS], to be filled ... */
	uint8_t *data;			/* ... and so much */
	uint32_t fetched;		/* bytes that its reader will fetch: 0 unless changed */
};

/*
 * All that two processes say to each other goes through one channel, in order, so that whatever is behind a
 * message waits while its data is fetched. May one more of @bytes be told? Else EAGAIN would be right.
 */
bool memory_may_fetch(const struct link *link, unsigned channel, uint32_t bytes);

/* 0; EAGAIN: no room now; ENOENT: no such channel; EMSGSIZE: more than LINK_BYTES_MAX. */
int memory_tell_begin(struct link *link, unsigned channel, size_t bytes, struct memory_room *room);
/* Any thread; @owner is not 0. */
void memory_tell(struct link *link, struct memory_room *room, uint32_t owner);
void memory_tell_cancel(struct memory_room *room);

/* @head is a copy; @data may change under the reader's eyes where it lies in the ring. */
struct memory_message {
	unsigned channel;
	uint32_t head[MEMORY_HEAD_WORDS];
	uint32_t bytes;
	const uint8_t *data;
	_Alignas(8) uint8_t inside[MEMORY_INSIDE];
};

/*
 * The next message, where one is next in its channel; who receives. It stays the next one until
 * memory_heard(), which answers it, and is due for each.
 */
bool memory_hear(struct link *link, struct memory_message *message);
void memory_heard(struct link *link, const struct memory_message *message, bool refused);
/* After some: let those who wait for the answers know. */
void memory_answered(struct link *link);

/*
 * Take messages that are behind @message later: its data is being fetched, by a thread that calls
 * memory_heard() in the end. Who receives.
 */
void memory_hold(struct link *link, const struct memory_message *message);
/* They may be taken after all. */
void memory_unhold(struct link *link, unsigned channel);

/* A part of the next one was dealt with: its sender is not to lose patience. */
void memory_progresses(struct link *link, const struct memory_message *message);
/* How far the peer has got with what we put there: changes as long as it is at it. */
uint32_t memory_progress(const struct link *link, unsigned channel);

struct memory_answer {
	uint32_t owner, cell;
	bool refused;
};

/* The answer to the oldest message without one, if there is one; who receives, in turn. */
bool memory_settle(struct link *link, unsigned channel, struct memory_answer *answer);
/* The same when the peer is gone: there will be none, it counts as refused. */
bool memory_settle_lost(struct link *link, unsigned channel, struct memory_answer *answer);
/* Is there one? A hint without locks. */
bool memory_can_settle(const struct link *link, unsigned channel);
bool memory_any_can_settle(const struct link *link);
/* The channels, for a loop over them. */
unsigned memory_channels(const struct link *link);
/*
 * Somebody waits for answers of @channel, or will: have the peer wake this process for them if it
 * sleeps. True: they have come meanwhile.
 */
bool memory_await_answers(struct link *link, unsigned channel);

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
