/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages through the rings of a channel (ring.h; the order of reads and writes:
 * ring_internal.h).
 *
 *	cells of a half:  ... | completed ... | consumed ... | put
 *	                        answered        sent
 *
 * The consumption of a message is its answer; a bit for its cell, written before, says whether it
 * was refused. The producer reads both, in the order of cells, before it reuses the cell.
 */
#include "base/inline.h"
#include "local/channel/ring_internal.h"
#include "tracepoint/drop.h"

#include <errno.h>
#include <string.h>

void ring_set_reach(struct link *link, unsigned number, unsigned reach)
{
	struct channel *channel = channel_at(ring_of(link), number);

	if (channel)
		atomic_store_explicit(&channel->consumer.ours->reach, reach, memory_order_release);
}

unsigned ring_reach(const struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);

	return channel ? atomic_load_explicit(&channel->producer.theirs->reach, memory_order_acquire) : 0;
}

#define AHEAD 4u	/* cells and lines of data */
#define FETCHING_MAX (UINT64_C(4) << 20)	/* bytes, unless it is a single message */
#define ANSWER_CELLS 16u		/* are answered at once, so that its line crosses once */
#define ROW 16u				/* messages of one peer before the next one has a turn */

/* ---- sending ---- */

int ring_send_begin(struct link *link, unsigned number, size_t bytes, struct ring_room *room)
	TRY_ACQUIRES(0, room->channel->producer.lock)
{
	/* Is it open? That is asked under its lock. */
	struct channel *channel = number >= CHANNELS_MAX ? NULL :
		atomic_load_explicit(&ring_of(link)->channel[number], memory_order_acquire);
	size_t outside = bytes <= RING_INSIDE ? 0 : channel_rounded(bytes);
	struct producer *producer;
	uint64_t start;
	int err;

	if (!channel)
		return ENOENT;
	if (bytes > LINK_BYTES_MAX)
		return EMSGSIZE;
	producer = &channel->producer;
	lock_acquire(&producer->lock);
	err = !atomic_load_explicit(&channel->open, memory_order_relaxed) ? ENOENT :
	      !producer_has_room(producer, ROOM_FOR_MESSAGES, outside, &start)		  ? EAGAIN : 0;
	if (err) {
		lock_release(&producer->lock);
		return err;
	}
	room->channel = channel;
	room->number = producer->put;
	room->cell = &producer->half->cell[producer->put % CHANNEL_CELLS];
	room->head = room->cell->message.head;
	room->data = outside ? producer->half->data + start % CHANNEL_DATA_BYTES :
			       room->cell->message.inside;
	room->data_end = start + outside;
	/*
	 * Cache lines that the peer read last come back slowly, and a locked instruction waits for each: so
	 * prefetch those of the next messages.
	 */
	__builtin_prefetch(&producer->half->cell[(producer->put + AHEAD) % CHANNEL_CELLS], 1);
	if (outside && outside <= LINE * AHEAD)
		__builtin_prefetch(producer->half->data + (room->data_end + LINE * AHEAD) % CHANNEL_DATA_BYTES, 1);
	room->cell->bytes_route = (uint32_t)bytes;
	room->fetched = 0;
	return 0;
}

bool ring_may_fetch(const struct link *link, unsigned number, uint32_t bytes)
{
	struct channel *channel = channel_at(ring_of(link), number);
	uint64_t fetching = channel ? atomic_load_explicit(&channel->producer.fetching,
							   memory_order_relaxed) : 0;

	return !fetching || fetching + bytes <= FETCHING_MAX;
}

void ring_send_end(struct link *link, struct ring_room *room, uint32_t owner)
	RELEASES(room->channel->producer.lock)
{
	struct producer *producer = &room->channel->producer;
	struct channel_cell *cell = room->cell;

	if (room->data != cell->message.inside)
		cell->message.offset = (uint32_t)(room->data - producer->half->data);
	cell->taken = atomic_load_explicit(&room->channel->consumer.taken, memory_order_acquire);
	producer->fetched[room->number % CHANNEL_CELLS] = room->fetched;
	if (room->fetched)
		atomic_fetch_add_explicit(&producer->fetching, room->fetched, memory_order_relaxed);
	producer->owner[room->number % CHANNEL_CELLS] = owner;
	/* If all messages before this cell are completed, skip the datagrams between. */
	if (atomic_load_explicit(&producer->completed, memory_order_acquire) ==	/* A7 */
	    atomic_load_explicit(&producer->sent, memory_order_relaxed))
		atomic_store_explicit(&producer->completed, room->number, memory_order_release);	/* R13 */
	atomic_store_explicit(&producer->sent, room->number + 1, memory_order_release);	/* R8 */
	producer_put(&room->channel->producer, cell, room->data_end);
	producer_wake(ring_of(link), room->channel);
	lock_release(&room->channel->producer.lock);
}

void ring_send_cancel(struct ring_room *room) RELEASES(room->channel->producer.lock)
{
	lock_release(&room->channel->producer.lock);
}

/* ---- receiving ---- */

/*
 * False: the content of the cell is invalid. @behind: the peer is ahead of us, so that lines are
 * fetched ahead. One that writes what we read next would wait for lines that we have fetched before
 * it.
 */
static bool read_message(struct channel *channel, struct ring_message *message, bool behind)
{
	const struct channel_cell *cell = next_cell(&channel->consumer);
	uint32_t offset, i;

	if (behind)
		__builtin_prefetch(&channel->consumer.half->cell[(channel->consumer.taken + 2) % CHANNEL_CELLS]);
	message->bytes = *(const volatile uint32_t *)&cell->bytes_route & 0xffffff;
	for (i = 0; i < RING_HEAD_WORDS; i++)
		message->head[i] = *(const volatile uint32_t *)&cell->message.head[i];
	if (message->bytes <= RING_INSIDE) {
		memcpy(message->inside, cell->message.inside, RING_INSIDE);
		message->data = message->inside;
	} else {
		offset = *(const volatile uint32_t *)&cell->message.offset;
		if (message->bytes > LINK_BYTES_MAX || offset > CHANNEL_DATA_BYTES - message->bytes)
			return false;
		message->data = channel->consumer.half->data + offset;
		__builtin_prefetch(message->data);
		if (behind && message->bytes <= LINE)	/* and, likely, the next one's */
			__builtin_prefetch(message->data + LINE);
	}
	/*
	 * The peer's count of taken cells may answer our messages without a load of its @consumed.
	 */
	channel->producer.consumed_hint = *(const volatile uint32_t *)&cell->taken;
	channel->producer.hint_valid = true;
	return true;
}

void ring_hold(struct link *link, const struct ring_message *message)
{
	struct channel *channel = channel_at(ring_of(link), message->channel);

	if (channel)
		atomic_store_explicit(&channel->consumer.held, true, memory_order_relaxed);
}

void ring_unhold(struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);

	if (channel)
		atomic_store_explicit(&channel->consumer.held, false, memory_order_relaxed);
}

void ring_note_progress(struct link *link, const struct ring_message *message)
{
	struct channel *channel = channel_at(ring_of(link), message->channel);

	if (channel)
		atomic_fetch_add_explicit(&channel->consumer.ours->parts, 1, memory_order_relaxed);
}

uint32_t ring_progress(const struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);

	return !channel ? 0 :
	       atomic_load_explicit(&channel->producer.theirs->consumed, memory_order_relaxed) +
	       atomic_load_explicit(&channel->producer.theirs->parts, memory_order_relaxed);
}

uint32_t ring_put_count(const struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);
	uint32_t put;

	if (!channel)
		return 0;
	lock_acquire(&channel->producer.lock);
	put = channel->producer.put;
	lock_release(&channel->producer.lock);
	return put;
}

bool ring_has_taken(const struct link *link, unsigned number, uint32_t put)
{
	struct channel *channel = channel_at(ring_of(link), number);

	/* A claim that makes no sense counts as one: a lying peer is not waited for. */
	return !channel || put - atomic_load_explicit(&channel->producer.theirs->consumed,
						      memory_order_relaxed) - 1 >= CHANNEL_CELLS;
}

/* What was done for a message may have closed its channel. */
static bool message_is_open(const struct ring_message *message)
{
	return atomic_load_explicit(&message->from->open, memory_order_acquire);
}

bool ring_peek(struct link *link, struct ring_message *message)
{
	struct ring_link *rings = ring_of(link);
	unsigned count = atomic_load_explicit(&rings->count, memory_order_acquire), i;

	if (rings->row >= ROW) {
		rings->row = 0;
		rings->next++;
	}
	for (i = 0; i < count; i++) {
		struct channel *channel;

		message->channel = rings->next < count ? rings->next : 0;
		channel = channel_at(rings, message->channel);
		while (channel && rings->row < ROW && cell_is_ready(&channel->consumer) &&
		       cell_is_message(next_cell(&channel->consumer))) {
			if (rings->given_count)
				ring_release_given(rings);
			rings->row++;
			message->from = rings->latest = channel;
			if (read_message(channel, message, rings->row > 2)) {
				rings->next = message->channel;
				return true;
			}
			drop_count(rings->counters, DROP_MALFORMED, 1);
			ring_finish(link, message, true);
		}
		rings->next = message->channel + 1;
		rings->row = 0;
	}
	return false;
}

bool ring_peek_next(struct link *link, struct ring_message *message)
{
	struct ring_link *rings = ring_of(link);
	struct channel *channel = message->from;

	if (!ring_has_one_channel(link) || !message_is_open(message))
		return ring_peek(link, message);
	if (!cell_is_ready(&channel->consumer)) {
		rings->row = 0;
		return false;
	}
	if (rings->row >= ROW || rings->given_count || !cell_is_message(next_cell(&channel->consumer)))
		return ring_peek(link, message);
	rings->row++;
	message->channel = channel->number;
	return read_message(channel, message, rings->row > 2) || ring_peek(link, message);
}

static void set_refused(struct consumer *consumer, uint32_t number, bool refused)
{
	_Atomic uint64_t *word = &consumer->ours->refused[number % CHANNEL_CELLS / 64];
	uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t bit = UINT64_C(1) << number % 64;

	consumer->has_refused = true;
	/* Stored seldom, so that the line stays with its reader; no other thread stores. */
	if (!(bits & bit) == refused)
		atomic_store_explicit(word, bits ^ bit, memory_order_relaxed);
}

/* The answer to all that was taken so far. */
static void ring_answer(struct consumer *consumer)
{
	atomic_store_explicit(&consumer->ours->consumed,
			      atomic_load_explicit(&consumer->taken, memory_order_relaxed),
			      memory_order_release);	/* R2 */
}

static void consumer_finish(struct consumer *consumer, bool refused)
{
	uint32_t taken = atomic_load_explicit(&consumer->taken, memory_order_relaxed);

	atomic_store_explicit(&consumer->held, false, memory_order_relaxed);
	if (refused || consumer->has_refused)
		set_refused(consumer, taken, refused);
	atomic_store_explicit(&consumer->taken, taken + 1, memory_order_release);
	if (refused || (taken + 1) % ANSWER_CELLS == 0)
		ring_answer(consumer);
	consumer->answers_to_signal = true;
	consumer->refused |= refused;
}

void ring_finish_next(const struct ring_message *message, bool refused)
{
	if (message_is_open(message))
		consumer_finish(&message->from->consumer, refused);
}

void ring_finish(struct link *link, const struct ring_message *message, bool refused)
{
	struct channel *channel = channel_at(ring_of(link), message->channel);

	if (!channel)
		return;
	consumer_finish(&channel->consumer, refused);
	ring_answer(&channel->consumer);
}

/* A sender whose message was refused has to act even if no thread of it awaits the answer. */
static void answer_signalled(struct ring_link *rings, struct channel *channel)
{
	channel_note_bell(rings, channel, channel->consumer.refused ? ASLEEP : ASLEEP_FOR_ANSWERS);
	channel->consumer.answers_to_signal = channel->consumer.refused = false;
}

static APART void notify_all_answers(struct ring_link *rings)
{
	unsigned count = atomic_load_explicit(&rings->count, memory_order_acquire), i;

	for (i = 0; i < count; i++) {
		struct channel *channel = channel_at(rings, i);

		if (channel && channel->consumer.answers_to_signal)
			ring_answer(&channel->consumer);
	}
	atomic_thread_fence(memory_order_seq_cst);	/* F5 */
	for (i = 0; i < count; i++) {
		struct channel *channel = channel_at(rings, i);

		if (channel && channel->consumer.answers_to_signal)
			answer_signalled(rings, channel);
	}
}

void ring_notify_answers(struct link *link)
{
	struct channel *channel = ring_of(link)->latest;

	if (!ring_has_one_channel(link) || !channel ||
	    !atomic_load_explicit(&channel->open, memory_order_acquire)) {
		notify_all_answers(ring_of(link));
	} else if (channel->consumer.answers_to_signal) {
		ring_answer(&channel->consumer);
		atomic_thread_fence(memory_order_seq_cst);	/* F5 */
		answer_signalled(ring_of(link), channel);
	}
}

/* ---- answers ---- */

/*
 * Cells in [@completed, @sent) that the peer claims to have consumed; 0 if the claim makes no
 * sense.
 */
static uint32_t count_consumed(uint32_t consumed, uint32_t completed, uint32_t sent)
{
	uint32_t n = consumed - completed;

	return n > CHANNEL_CELLS ? 0 : n > sent - completed ? sent - completed : n;
}

static uint32_t answers_of(const struct producer *producer)
{
	uint32_t sent = atomic_load_explicit(&producer->sent, memory_order_acquire);	/* A8 */
	uint32_t completed = atomic_load_explicit(&producer->completed, memory_order_relaxed);

	if (completed == sent)
		return 0;
	return count_consumed(
		atomic_load_explicit(&producer->theirs->consumed, memory_order_acquire),	/* A2 */
		completed, sent);
}

/* By the peer's last message alone. */
static uint32_t hinted_answers(const struct producer *producer)
{
	uint32_t completed = atomic_load_explicit(&producer->completed, memory_order_relaxed);

	if (!producer->hint_valid || producer->consumed_hint == completed)
		return 0;
	return count_consumed(producer->consumed_hint, completed,
			      atomic_load_explicit(&producer->sent, memory_order_acquire));	/* A8 */
}

/* answers_of() for the receiving thread, which may have a hint. */
static uint32_t answers_arrived(struct producer *producer)
{
	uint32_t count = hinted_answers(producer);

	if (count)
		return count;
	producer->hint_valid = false;
	return answers_of(producer);
}

static void ring_message_take_answer(struct producer *producer, struct ring_answer *answer)
{
	uint32_t number = atomic_load_explicit(&producer->completed, memory_order_acquire);	/* A13 */
	uint64_t bits = atomic_load_explicit(&producer->theirs->refused[number % CHANNEL_CELLS / 64],
					     memory_order_relaxed);

	answer->owner = producer->owner[number % CHANNEL_CELLS];
	answer->cell = number;
	answer->refused = bits >> number % 64 & 1;
	answer->committed = false;
	answer->behind = 0;
	if (answer->owner && producer->fetched[number % CHANNEL_CELLS]) {
		answer->committed = producer->fetched[number % CHANNEL_CELLS] == FETCHED_COMMITTED;
		if (answer->committed) {
			atomic_fetch_and_explicit(&producer->half->committed[number % CHANNEL_CELLS / 64],
						  ~(UINT64_C(1) << number % 64), memory_order_relaxed);
			producer->fetched[number % CHANNEL_CELLS] = 0;
		} else {
			atomic_fetch_sub_explicit(&producer->fetching, producer->fetched[number % CHANNEL_CELLS],
						  memory_order_relaxed);
		}
	}
	atomic_store_explicit(&producer->completed, number + 1, memory_order_release);	/* R7 */
}

bool ring_take_answer(struct link *link, unsigned number, struct ring_answer *answer)
{
	struct channel *channel = channel_at(ring_of(link), number);
	uint32_t count;

	while (channel && (count = answers_arrived(&channel->producer))) {
		ring_message_take_answer(&channel->producer, answer);
		answer->behind = count - 1;
		if (answer->owner)
			return true;
	}
	return false;
}

uint32_t ring_row_behind(const struct link *link, unsigned number, const struct ring_answer *answer, uint32_t max)
{
	struct channel *channel = channel_at(ring_of(link), number);
	const struct producer *producer = &channel->producer;
	uint32_t n;

	if (!channel)
		return 0;
	for (n = 0; n < max && n < answer->behind; n++) {
		uint32_t cell = answer->cell + 1 + n;
		uint64_t refused = atomic_load_explicit(&producer->theirs->refused[cell % CHANNEL_CELLS / 64],
							memory_order_relaxed);

		if (producer->owner[cell % CHANNEL_CELLS] != answer->owner ||
		    producer->fetched[cell % CHANNEL_CELLS] || refused >> cell % 64 & 1)
			break;
	}
	return n;
}

void ring_take_row(struct link *link, unsigned number, uint32_t count)
{
	struct channel *channel = channel_at(ring_of(link), number);

	if (!channel || !count)
		return;
	count += atomic_load_explicit(&channel->producer.completed, memory_order_relaxed);
	atomic_store_explicit(&channel->producer.completed, count, memory_order_release);	/* R7 */
}

bool ring_take_answer_before(const struct ring_message *message, struct ring_answer *answer)
{
	while (hinted_answers(&message->from->producer) && message_is_open(message)) {
		ring_message_take_answer(&message->from->producer, answer);
		if (answer->owner)
			return true;
	}
	return false;
}

bool ring_take_answer_lost(struct link *link, unsigned number, struct ring_answer *answer)
{
	/* channel_at() does not give a removed channel. */
	struct channel *channel = atomic_load(&ring_of(link)->channel[number]);
	struct producer *producer = channel ? &channel->producer : NULL;

	while (producer &&
	       atomic_load_explicit(&producer->sent, memory_order_acquire) !=
		       atomic_load_explicit(&producer->completed, memory_order_relaxed)) {
		ring_message_take_answer(producer, answer);
		answer->refused = true;
		if (answer->owner && !answer->committed)
			return true;
	}
	return false;
}

bool ring_is_eager(const struct link *link, unsigned number, uint32_t cell)
{
	struct channel *channel = channel_at(ring_of(link), number);

	return channel && !channel->producer.fetched[cell % CHANNEL_CELLS];
}

void ring_commit(struct link *link, unsigned number, uint32_t cell)
{
	struct channel *channel = channel_at(ring_of(link), number);

	if (!channel)
		return;
	channel->producer.fetched[cell % CHANNEL_CELLS] = FETCHED_COMMITTED;
	atomic_fetch_or_explicit(&channel->producer.half->committed[cell % CHANNEL_CELLS / 64],
				 UINT64_C(1) << cell % 64, memory_order_release);
}

bool ring_is_committed(const struct link *link, const struct ring_message *message)
{
	struct channel *channel = channel_at(ring_of(link), message->channel);
	uint32_t number;

	if (!channel)
		return false;
	number = atomic_load_explicit(&channel->consumer.taken, memory_order_relaxed);
	return atomic_load_explicit(&channel->consumer.half->committed[number % CHANNEL_CELLS / 64],
				    memory_order_acquire) >> number % 64 & 1;
}

bool ring_has_answer(const struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);

	return channel && answers_of(&channel->producer);
}

bool ring_any_answer(const struct link *link)
{
	unsigned count = ring_channels(link), i;

	for (i = 0; i < count; i++)
		if (ring_has_answer(link, i))
			return true;
	return false;
}

unsigned ring_channels(const struct link *link)
{
	return atomic_load_explicit(&ring_of(link)->count, memory_order_acquire);
}

bool ring_await_answers(struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);
	_Atomic uint32_t *asleep;
	uint32_t was;

	if (!channel)
		return false;
	/*
	 * A thread that sends afterwards sees the CQ that the caller armed, or its message is seen
	 * here.
	 */
	atomic_thread_fence(memory_order_seq_cst);	/* F8 */
	if (atomic_load_explicit(&channel->producer.sent, memory_order_relaxed) ==
	    atomic_load_explicit(&channel->producer.completed, memory_order_relaxed))
		return false;
	atomic_store_explicit(&channel->producer.awaited, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);	/* F9 */
	asleep = &channel->consumer.ours->asleep;
	was = atomic_load_explicit(asleep, memory_order_relaxed);
	if ((was & ASLEEP_MASK) == AWAKE)
		return false;
	if ((was & ASLEEP_MASK) == ASLEEP)
		atomic_compare_exchange_strong(asleep, &was, (was & ~ASLEEP_MASK) | ASLEEP_FOR_ANSWERS);
	atomic_thread_fence(memory_order_seq_cst);	/* F6 */
	return answers_of(&channel->producer) > 0;
}
