/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rings: datagrams and messages between two processes of one host, through memory that both map.
 * The handshake sets a channel up (local/channel/handshake.h). A channel has two sides; each is written by
 * one process and read by the other. Any thread of the writer produces cells, under a lock; one
 * thread of the reader at a time consumes them.
 *
 *	side:	consumed | asleep | routes | cells | data
 *
 * A cell is a cache line. Its sequence number, stored last, makes it valid: a polling consumer
 * touches one line per datagram. Data that does not fit the cell lies in the data ring, in one
 * piece. Nothing but sequence numbers is ever written to their place in a cell, so no other data
 * can pass for one. Routes (addresses, traffic class, hop limit) repeat, so cells refer to them by
 * number.
 *
 * The peer may write anything into its side at any time: each field is read once, then checked.
 *
 * A bell wakes a sleeping peer. Producing a cell only notes that a bell is due; ring_wake_peers()
 * rings it, by a system call, when the caller holds no QP's lock.
 */
#ifndef VERBATIM_LOCAL_CHANNEL_RING_H
#define VERBATIM_LOCAL_CHANNEL_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/counters.h"
#include "link/link.h"

#define CHANNEL_CELLS		2048u
#define CHANNEL_CELL_DATA	52u		/* bytes that fit a cell */
#define CHANNEL_DATA_BYTES	(1u << 20)
#define CHANNEL_ROUTES		255u
#define CHANNELS_MAX		256u		/* peer processes of one link */
#define RING_HEAD_WORDS	5u
#define RING_INSIDE		28u		/* bytes of a message that fit a cell */

/* Size of a side, a multiple of the page size. Sparse: untouched pages cost nothing. */
size_t channel_side_bytes(void);

/* Ring the bell of a sleeping peer. Called without locks of the ring; must not block. */
typedef void channel_wake_fn(int bell_fd);

int ring_open(struct link **link, struct counters *counters, channel_wake_fn *wake);

struct channel_side;

/*
 * Open the channel @number (below CHANNELS_MAX, not open): @ours is the side that we write, @theirs
 * the one that we read, both zeroed at the beginning. @bell_fd wakes the peer. Datagrams
 * name the channel by this number, until ring_remove(). One thread at a time. 0 or ENOMEM.
 */
int ring_add(struct link *link, unsigned number, struct channel_side *ours,
	       const struct channel_side *theirs, int bell_fd);

/* Ring the bells that are due, of all channels. The caller holds no QP's lock. */
void ring_wake_peers(struct link *link);
/* A hint without locks: a thread that produced a cell and reads false has nothing to ring. */
bool ring_bells_are_due(const struct link *link);

/*
 * Close the channel: nothing is sent or delivered any more, and bell_fd may be closed. Waits for
 * threads that ring it. Called by the receiving thread (or when there is none), after a last
 * receive() that found nothing: cells still in the channel are lost.
 */
void ring_remove(struct link *link, unsigned channel);
bool ring_is_empty(const struct link *link, unsigned channel);
/*
 * Give the room of delivered datagrams back to the peer now. Otherwise the next receive() does, but
 * only after a further datagram has arrived, which may need the room.
 */
void ring_done(struct link *link);

/* ---- messages (ring_message.c) ----
 *
 * A message is a few words that the caller defines, and data. Messages keep their order, also among
 * datagrams. Each is answered, as executed or refused; answers take no room in the other side and
 * come in order.
 */

/* Abilities of the consumer of a side; announced once. */
enum ring_reach {
	RING_MESSAGES	= 1 << 0,	/* receive messages at all */
	RING_COPIES	= 1 << 1,	/* copy from the producer's address space */
	RING_MAPS	= 1 << 2,	/* map the producer's blocks */
};
void ring_set_reach(struct link *link, unsigned channel, unsigned reach);
unsigned ring_reach(const struct link *link, unsigned channel);

/* A message that is being written, with the producing end of the channel locked. */
struct ring_room {
	struct channel *channel;
	struct channel_cell *cell;
	uint64_t data_end;
	uint32_t number;		/* of the cell; its answer names it */
	uint32_t *head;			/* [RING_HEAD_WORDS], to be filled ... */
	uint8_t *data;			/* ... and @bytes of ring_send_begin() */
	uint32_t fetched;		/* bytes that the consumer will fetch: 0 unless changed */
};

/*
 * All traffic between two processes is ordered: everything behind a message waits while its data is
 * fetched. May one more, of @bytes, be sent? Else treat it as EAGAIN.
 */
bool ring_may_fetch(const struct link *link, unsigned channel, uint32_t bytes);

/* 0; EAGAIN: no room now; ENOENT: no such channel; EMSGSIZE: more than LINK_BYTES_MAX. */
int ring_send_begin(struct link *link, unsigned channel, size_t bytes, struct ring_room *room);
/* Any thread; @owner is not 0. */
void ring_send_end(struct link *link, struct ring_room *room, uint32_t owner);
void ring_send_cancel(struct ring_room *room);

/* @head is a copy; @data lies in shared memory and may change at any time, unless it is @inside. */
struct ring_message {
	unsigned channel;
	struct channel *from;		/* of ring_peek() */
	uint32_t head[RING_HEAD_WORDS];
	uint32_t bytes;
	const uint8_t *data;
	_Alignas(8) uint8_t inside[RING_INSIDE];
};

/*
 * Peek at the next message, if the next cell of a channel is one. The receiving thread finishes
 * each with ring_finish(), which answers it.
 */
bool ring_peek(struct link *link, struct ring_message *message);
/* The same behind @message, the last one, which is finished: of a single channel, one look at its next cell. */
bool ring_peek_next(struct link *link, struct ring_message *message);
void ring_finish(struct link *link, const struct ring_message *message, bool refused);
/*
 * The same, with an answer that the sender sees after some more, if not refused: at the latest behind
 * ring_notify_answers(), which has to follow.
 */
void ring_finish_next(const struct ring_message *message, bool refused);
/* After some of those: wake the senders that wait for answers. */
void ring_notify_answers(struct link *link);

/*
 * Hold the cells behind @message: another thread fetches its data, then calls ring_finish(). Called
 * by the receiving thread.
 */
void ring_hold(struct link *link, const struct ring_message *message);
/* Continue to receive them. */
void ring_unhold(struct link *link, unsigned channel);

/* A part of @message was executed: its sender's timeout starts anew. */
void ring_note_progress(struct link *link, const struct ring_message *message);
/* A number that changes whenever the peer consumes a cell or a part of a message of ours. */
uint32_t ring_progress(const struct link *link, unsigned channel);

/* Cells sent to the peer so far; has it consumed as many as @put, or claims to? */
uint32_t ring_put_count(const struct link *link, unsigned channel);
bool ring_has_taken(const struct link *link, unsigned channel, uint32_t put);

/* Is the whole data of that message in the ring? With the progress lock, as ring_commit(). */
bool ring_is_eager(const struct link *link, unsigned channel, uint32_t cell);
/*
 * A message that is not consumed yet is completed to the application (commit.c): the peer executes it even when
 * its sender is gone. Its answer says so.
 */
void ring_commit(struct link *link, unsigned channel, uint32_t cell);
/* Of a message of the peer. */
bool ring_is_committed(const struct link *link, const struct ring_message *message);

struct ring_answer {
	uint32_t owner, cell;
	bool refused;
	bool committed;			/* completed before, by ring_commit() */
	uint32_t behind;		/* as many more have arrived, of ring_take_answer() */
};

/*
 * Take the answer to the oldest unanswered message, if it has arrived. Called by the receiving
 * thread.
 */
bool ring_take_answer(struct link *link, unsigned channel, struct ring_answer *answer);
/*
 * Of those behind @answer, the last one that was taken: how many in a row are for the same owner, of
 * messages that were executed and whose data was in the ring, @max at most. And take so many, unseen.
 */
uint32_t ring_row_behind(const struct link *link, unsigned channel, const struct ring_answer *answer,
			 uint32_t max);
void ring_take_row(struct link *link, unsigned channel, uint32_t count);
/*
 * Likewise, if the peer gave it before it sent @message: so it comes before what the peer may have sent because of
 * ours.
 */
bool ring_take_answer_before(const struct ring_message *message, struct ring_answer *answer);
/* The same when the peer has ended: messages without an answer count as refused. */
bool ring_take_answer_lost(struct link *link, unsigned channel, struct ring_answer *answer);
/* Has one arrived? A hint without locks. */
bool ring_has_answer(const struct link *link, unsigned channel);
bool ring_any_answer(const struct link *link);
/* Upper bound of the channel numbers, for a loop over them. */
unsigned ring_channels(const struct link *link);
/*
 * A thread waits, or will wait, for answers of @channel: have the peer wake this process for them
 * if it sleeps. True: they have arrived meanwhile.
 */
bool ring_await_answers(struct link *link, unsigned channel);

bool ring_has_channels(const struct link *link);
bool ring_has_one_channel(const struct link *link);
/* Is there anything to receive? A hint without locks; one cache line per channel. */
bool ring_pending(const struct link *link);
/*
 * Call it before the receiving process sleeps: peers that send afterwards ring its bell. Then check
 * once more (ring_pending), then sleep. Ended by ring_awake().
 */
void ring_sleep(struct link *link);
void ring_awake(struct link *link);

#endif
