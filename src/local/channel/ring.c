/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams through shared memory, and the channels (layout: ring.h; order of reads and writes:
 * ring_internal.h).
 */
#include "base/inline.h"
#include "local/channel/ring_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/fail.h"
#include "platform/wait.h"
#include "tracepoint/drop.h"

#define RINGING_STEP_NS 20000u

size_t channel_side_bytes(void)
{
	return (sizeof(struct channel_side) + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* ---- producing ---- */

static void producer_read_consumed(struct producer *producer) REQUIRES(producer->lock)
{
	uint32_t consumed = atomic_load_explicit(&producer->theirs->consumed,
						 memory_order_acquire);	/* A2 */

	/* Ignore a peer that claims to have consumed more than there is. */
	if (consumed - producer->consumed > producer->put - producer->consumed)
		return;
	if (consumed != producer->consumed)
		producer->data_freed = producer->data_end[(consumed - 1) % CHANNEL_CELLS];
	producer->consumed = consumed;
}

/*
 * Is there a cell, and room for @bytes of data in one piece, at *start? A cell is not reused before its
 * message is completed: its verdict would be lost.
 */
static bool finds_room(const struct producer *producer, enum room room, size_t bytes, uint64_t *start)
	REQUIRES(producer->lock)
{
	uint32_t completed = atomic_load_explicit(&producer->completed, memory_order_acquire);	/* A7 */
	uint32_t cells = room == ROOM_FOR_ALL ? CHANNEL_CELLS : MESSAGE_CELLS;
	size_t limit = room == ROOM_FOR_ALL ? CHANNEL_DATA_BYTES : MESSAGE_DATA_BYTES;
	size_t to_end;

	*start = producer->data_put;
	if (producer->put - producer->consumed >= cells ||
	    (completed != atomic_load_explicit(&producer->sent, memory_order_relaxed) &&
	     producer->put - completed >= cells))
		return false;
	if (!bytes)
		return true;
	to_end = CHANNEL_DATA_BYTES - *start % CHANNEL_DATA_BYTES;
	if (bytes > to_end)
		*start += to_end;
	return *start + bytes - producer->data_freed <= limit;
}

bool producer_has_room(struct producer *producer, enum room room, size_t bytes, uint64_t *start)
{
	if (finds_room(producer, room, bytes, start))
		return true;
	producer_read_consumed(producer);
	return finds_room(producer, room, bytes, start);
}

void producer_put(struct producer *producer, struct channel_cell *cell, uint64_t data_end)
{
	producer->data_put = data_end;
	producer->data_end[producer->put % CHANNEL_CELLS] = data_end;
	producer->put++;
	atomic_store_explicit(&cell->sequence, producer->put, memory_order_release);	/* R1 */
}

/*
 * A place for another route: an empty one, else, by turns, one that no unread cell names (who takes
 * a cell copies its route). A program may come by more routes than there are places: each connection
 * of librdmacm has a flow label of its own. 0: no place now.
 */
static unsigned place_route(struct producer *producer) REQUIRES(producer->lock)
{
	unsigned tries;
	uint32_t ahead;

	if (producer->routes < CHANNEL_ROUTES)
		return ++producer->routes;
	producer_read_consumed(producer);
	for (tries = 0; tries < CHANNEL_ROUTES; tries++) {
		producer->route_turn = producer->route_turn % CHANNEL_ROUTES + 1;
		ahead = producer->route_end[producer->route_turn] - producer->consumed;
		if (!ahead || ahead > CHANNEL_CELLS)
			return producer->route_turn;
	}
	return 0;
}

/* Its number, from 1; 0: there is no place until the peer has read more. */
static unsigned find_route(struct producer *producer, const struct datagram *datagram)
	REQUIRES(producer->lock)
{
	struct channel_route route = { .interface = datagram->interface,
				       .flow_label = datagram->flow_label,
				       .source_port = datagram->source_port,
				       .traffic_class = datagram->traffic_class,
				       .hop_limit = datagram->hop_limit,
				       .ib_end = datagram->ib_end,
				       .ib_from = datagram->ib_from };
	unsigned i;

	if (route.ib_end) {
		route.ib_lid = datagram->ib.lid;
		route.ib_path_bits = datagram->ib.path_bits;
		route.ib_sl = datagram->ib.sl;
		route.ib_has_grh = datagram->ib.has_grh;
	}
	memcpy(route.source, datagram->source, sizeof(route.source));
	memcpy(route.destination, datagram->destination, sizeof(route.destination));
	i = producer->route_last;
	if (i && !memcmp(&producer->route[i], &route, sizeof(route)))
		return i;
	for (i = producer->routes; i; i--)
		if (!memcmp(&producer->route[i], &route, sizeof(route)))
			return i;
	i = place_route(producer);
	if (!i)
		return 0;
	producer->route[i] = route;
	producer->half->route[i] = route;
	return i;
}

/* 0; EAGAIN: full. */
static int ring_put_locked(struct producer *producer, const struct datagram *datagram)
	REQUIRES(producer->lock)
{
	struct channel_side *half = producer->half;
	size_t outside = datagram->bytes <= CHANNEL_CELL_DATA ? 0 : channel_rounded(datagram->bytes);
	struct channel_cell *cell;
	uint64_t start;
	unsigned route;

	if (!producer_has_room(producer, ROOM_FOR_ALL, outside, &start))
		return EAGAIN;
	route = find_route(producer, datagram);
	if (!route)
		return EAGAIN;
	cell = &half->cell[producer->put % CHANNEL_CELLS];
	if (outside) {
		cell->offset = (uint32_t)(start % CHANNEL_DATA_BYTES);
		memcpy(half->data + cell->offset, datagram->data, datagram->bytes);
	} else {
		memcpy(cell->inside, datagram->data, datagram->bytes);
	}
	cell->bytes_route = (uint32_t)datagram->bytes | route << 24;
	cell->segment_bytes = (uint32_t)datagram->segment_bytes;
	producer->owner[producer->put % CHANNEL_CELLS] = 0;
	producer_put(producer, cell, start + outside);
	producer->route_end[route] = producer->put;
	producer->route_last = route;
	return 0;
}

static unsigned ring_prepare(struct link *link, struct datagram *datagram)
{
	datagram->source_port = 0xc000;
	return LINK_SEGMENTS_MAX;
}

void channel_note_bell(struct ring_link *rings, struct channel *channel, enum asleep at_least)
{
	struct producer *producer = &channel->producer;
	uint32_t asleep = atomic_load_explicit(&producer->theirs->asleep, memory_order_relaxed);

	if ((asleep & ASLEEP_MASK) < at_least ||
	    atomic_exchange_explicit(&producer->woken, asleep, memory_order_relaxed) == asleep)
		return;
	atomic_fetch_or_explicit(&rings->bells[channel->number / 64],
				 UINT64_C(1) << channel->number % 64, memory_order_relaxed);
	atomic_store_explicit(&rings->bells_due, true, memory_order_release);
}

void producer_wake(struct ring_link *rings, struct channel *channel)
{
	atomic_thread_fence(memory_order_seq_cst);	/* F1 */
	channel_note_bell(rings, channel, ASLEEP);
}

/*
 * The bell is a system call, and a thread with a QP's lock may wait for the producer's lock: so it
 * is rung without that. @ringing holds bell_fd meanwhile (ring_remove).
 */
static void ring_bell(struct ring_link *rings, unsigned number)
{
	struct channel *channel = channel_at(rings, number);
	struct producer *producer;
	int bell_fd = -1;

	if (!channel)
		return;
	producer = &channel->producer;
	lock_acquire(&producer->lock);
	if (atomic_load_explicit(&channel->open, memory_order_relaxed)) {
		bell_fd = producer->bell_fd;
		atomic_fetch_add_explicit(&producer->ringing, 1, memory_order_relaxed);
	}
	lock_release(&producer->lock);
	if (bell_fd < 0)
		return;
	rings->wake(bell_fd);
	atomic_fetch_sub_explicit(&producer->ringing, 1, memory_order_release);
}

bool ring_bells_are_due(const struct link *link)
{
	return atomic_load_explicit(&ring_of(link)->bells_due, memory_order_relaxed);
}

APART void ring_wake_peers(struct link *link)
{
	struct ring_link *rings = ring_of(link);
	uint64_t bells;
	unsigned i;

	/* A bit that is set from here on is followed by its own store of @bells_due. */
	atomic_exchange_explicit(&rings->bells_due, false, memory_order_acquire);
	for (i = 0; i < CHANNELS_MAX / 64; i++) {
		if (!atomic_load_explicit(&rings->bells[i], memory_order_relaxed))
			continue;
		bells = atomic_exchange_explicit(&rings->bells[i], 0, memory_order_relaxed);
		for (; bells; bells &= bells - 1)
			ring_bell(rings, i * 64 + (unsigned)__builtin_ctzll(bells));
	}
}

/* Consecutive datagrams for the same channel are put under one lock. */
static int send_run(struct ring_link *rings, struct channel *channel, struct datagram *datagram,
		    unsigned count, unsigned *sent)
{
	struct producer *producer = &channel->producer;
	unsigned i;
	int err = 0;

	lock_acquire(&producer->lock);
	if (!atomic_load_explicit(&channel->open, memory_order_relaxed)) {
		lock_release(&producer->lock);	/* removed since we looked */
		drop_count(rings->counters, DROP_LINK, count);
		*sent = count;
		return 0;
	}
	for (i = 0; i < count; i++) {
		err = ring_put_locked(producer, &datagram[i]);
		if (err)
			break;
	}
	*sent = i;
	if (i)
		producer_wake(rings, channel);
	lock_release(&producer->lock);
	return err;
}

static int ring_send_datagram(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct ring_link *rings = ring_of(link);
	unsigned done = 0;
	int err = 0;

	while (done < count && !err) {
		struct channel *channel = channel_at(rings, datagram[done].channel);
		unsigned run = 1, taken;

		while (done + run < count && datagram[done + run].channel == datagram[done].channel)
			run++;
		if (!channel) {
			drop_count(rings->counters, DROP_LINK, run);
			done += run;
			continue;
		}
		err = send_run(rings, channel, datagram + done, run, &taken);
		done += taken;
	}
	*sent = done;
	if (ring_bells_are_due(link))
		ring_wake_peers(link);
	return err;
}

/* ---- consuming ---- */

static void fill_route(struct datagram *datagram, const struct channel_route *shared)
{
	struct channel_route route = *shared;

	memcpy(datagram->source, route.source, sizeof(route.source));
	memcpy(datagram->destination, route.destination, sizeof(route.destination));
	datagram->interface = route.interface;
	datagram->flow_label = route.flow_label;
	datagram->source_port = route.source_port;
	datagram->traffic_class = route.traffic_class;
	datagram->hop_limit = route.hop_limit;
	if (!route.ib_end)
		return;
	datagram->ib_end = route.ib_end;
	datagram->ib_from = route.ib_from;
	datagram->ib = (struct ib_way){ .lid = route.ib_lid,
					.path_bits = route.ib_path_bits & 0x7f,
					.sl = route.ib_sl & 0xf,
					.has_grh = route.ib_has_grh != 0 };
}

/* Give out the next cell. False: its content is invalid. */
static bool take_cell(struct consumer *consumer, uint8_t small[LINE], struct datagram *datagram)
{
	const struct channel_cell *cell = next_cell(consumer);
	uint32_t bytes_route = *(const volatile uint32_t *)&cell->bytes_route;
	uint32_t segment = *(const volatile uint32_t *)&cell->segment_bytes;
	uint32_t bytes = bytes_route & 0xffffff, route = bytes_route >> 24;

	atomic_store_explicit(&consumer->taken, consumer->taken + 1, memory_order_relaxed);
	if (bytes < DATAGRAM_BYTES_MIN || bytes > LINK_BYTES_MAX || !route ||
	    (segment && segment < DATAGRAM_BYTES_MIN))
		return false;
	memset(datagram, 0, sizeof(*datagram));
	if (bytes <= CHANNEL_CELL_DATA) {
		memcpy(small, cell->inside, CHANNEL_CELL_DATA);
		datagram->data = small;
	} else {
		uint32_t offset = *(const volatile uint32_t *)&cell->offset;

		if (offset > CHANNEL_DATA_BYTES - bytes)
			return false;
		datagram->data = (uint8_t *)(uintptr_t)(consumer->half->data + offset);
		datagram->shared = true;
	}
	datagram->bytes = bytes;
	datagram->segment_bytes = segment;
	datagram->sealed = true;
	datagram->forwarded = true;
	datagram->from_channel = true;
	fill_route(datagram, &consumer->half->route[route]);
	return true;
}

void ring_release_given(struct ring_link *rings)
{
	while (rings->given_count) {
		struct channel *channel = channel_at(rings, rings->given[--rings->given_count]);

		if (channel)
			atomic_store_explicit(&channel->consumer.ours->consumed,
					      channel->consumer.taken, memory_order_release);	/* R2 */
	}
}

void ring_done(struct link *link)
{
	ring_release_given(ring_of(link));
}

static bool has_datagram(const struct consumer *consumer)
{
	return cell_is_ready(consumer) && !cell_is_message(next_cell(consumer));
}

static int ring_receive_datagrams(struct link *link, struct datagram *datagram, unsigned max,
			  unsigned *received)
{
	struct ring_link *rings = ring_of(link);
	unsigned count = atomic_load_explicit(&rings->count, memory_order_acquire), n = 0, i;

	ring_release_given(rings);
	if (max > RECEIVE_MAX)
		max = RECEIVE_MAX;
	for (i = 0; i < count && n < max; i++) {
		unsigned number = (rings->next + i) % count;
		struct channel *channel = channel_at(rings, number);
		unsigned before = n;

		if (!channel || !has_datagram(&channel->consumer))
			continue;
		rings->given[rings->given_count++] = number;
		while (n < max && has_datagram(&channel->consumer)) {
			if (take_cell(&channel->consumer, rings->small[n], &datagram[n]))
				datagram[n++].channel = (uint16_t)number;
			else
				drop_count(rings->counters, DROP_MALFORMED, 1);
		}
		if (n > before)
			rings->next = number + 1;
	}
	*received = n;
	return 0;
}

bool ring_is_empty(const struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);

	return !channel || !cell_is_ready(&channel->consumer);
}

bool ring_pending(const struct link *link)
{
	const struct ring_link *rings = ring_of(link);
	unsigned i, count = atomic_load_explicit(&rings->count, memory_order_acquire);

	for (i = 0; i < count; i++)
		if (!ring_is_empty(link, i))
			return true;
	return false;
}

bool ring_has_channels(const struct link *link)
{
	return atomic_load_explicit(&ring_of(link)->open, memory_order_relaxed) > 0;
}

bool ring_has_one_channel(const struct link *link)
{
	return atomic_load_explicit(&ring_of(link)->open, memory_order_relaxed) == 1;
}

/* Each sleep has a number, so the peer rings once per sleep. */
static void set_asleep(struct ring_link *rings, enum asleep state)
{
	unsigned i, count = atomic_load_explicit(&rings->count, memory_order_acquire);

	for (i = 0; i < count; i++) {
		struct channel *channel = channel_at(rings, i);
		uint32_t asleep;

		if (!channel)
			continue;
		asleep = atomic_load_explicit(&channel->consumer.ours->asleep, memory_order_relaxed);
		asleep = (asleep & ~ASLEEP_MASK) + (state == AWAKE ? 0 : 1u << ASLEEP_BITS);
		atomic_store_explicit(&channel->consumer.ours->asleep, asleep | state,
				      memory_order_relaxed);
	}
}

/* A concurrent ring_await_answers() sees asleep set, or its awaited flag is seen here. */
void ring_sleep(struct link *link)
{
	struct ring_link *rings = ring_of(link);
	unsigned i, count = atomic_load_explicit(&rings->count, memory_order_acquire);

	set_asleep(rings, ASLEEP);
	atomic_thread_fence(memory_order_seq_cst);	/* F2 */
	for (i = 0; i < count; i++) {
		struct channel *channel = channel_at(rings, i);

		/* Only this thread clears it; it is set again if messages are still unanswered. */
		if (channel && atomic_exchange(&channel->producer.awaited, false))
			ring_await_answers(link, i);
	}
}

void ring_awake(struct link *link)
{
	set_asleep(ring_of(link), AWAKE);
}

/* ---- channels ---- */

/*
 * The structure of a removed channel stays until the link is closed or the place is reused: a
 * sender may be about to look at it.
 */
static void channel_begin(struct channel *channel, struct channel_side *ours,
			  const struct channel_side *theirs, int bell_fd)
{
	struct producer *producer = &channel->producer;

	lock_acquire(&producer->lock);
	producer->half = ours;
	producer->theirs = theirs;
	producer->put = producer->consumed = producer->routes = producer->route_last = 0;
	atomic_store_explicit(&producer->woken, 0, memory_order_relaxed);
	atomic_store_explicit(&producer->sent, 0, memory_order_relaxed);
	atomic_store_explicit(&producer->completed, 0, memory_order_relaxed);
	atomic_store_explicit(&producer->fetching, 0, memory_order_relaxed);
	producer->hint_valid = false;
	atomic_store_explicit(&producer->awaited, false, memory_order_relaxed);
	producer->data_put = producer->data_freed = 0;
	producer->bell_fd = bell_fd;
	channel->consumer.half = theirs;
	channel->consumer.ours = ours;
	channel->consumer.taken = 0;
	channel->consumer.answers_to_signal = channel->consumer.refused = false;
	atomic_store_explicit(&channel->consumer.held, false, memory_order_relaxed);
	lock_release(&producer->lock);
	atomic_store_explicit(&channel->open, true, memory_order_release);
}

int ring_add(struct link *link, unsigned number, struct channel_side *ours,
	       const struct channel_side *theirs, int bell_fd)
{
	struct ring_link *rings = ring_of(link);
	struct channel *channel;
	unsigned before;

	assert(number < CHANNELS_MAX && !channel_at(rings, number));
	channel = atomic_load(&rings->channel[number]);
	if (!channel) {
		channel = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*channel));
		if (!channel)
			return ENOMEM;
		channel->number = number;
		lock_init(&channel->producer.lock);
	}
	channel_begin(channel, ours, theirs, bell_fd);
	atomic_store_explicit(&rings->channel[number], channel, memory_order_release);
	before = atomic_load(&rings->count);
	while (before <= number && !atomic_compare_exchange_weak(&rings->count, &before, number + 1))
		;
	atomic_fetch_add(&rings->open, 1);
	return 0;
}

void ring_remove(struct link *link, unsigned number)
{
	struct channel *channel = channel_at(ring_of(link), number);

	if (!channel)
		return;
	lock_acquire(&channel->producer.lock);
	atomic_store_explicit(&channel->open, false, memory_order_release);
	atomic_fetch_sub(&ring_of(link)->open, 1);
	lock_release(&channel->producer.lock);
	/* Each is a send() that does not block. */
	while (atomic_load_explicit(&channel->producer.ringing, memory_order_acquire))
		thread_sleep_ns(RINGING_STEP_NS);
}

static unsigned ring_event_fds(struct link *link, int *fds, unsigned max)
{
	return 0;	/* peers ring the doorbell */
}

static void ring_close(struct link *link)
{
	struct ring_link *rings = ring_of(link);
	unsigned i;

	for (i = 0; i < CHANNELS_MAX; i++) {
		struct channel *channel = atomic_load(&rings->channel[i]);

		if (channel)
			lock_destroy(&channel->producer.lock);
		free(channel);
	}
	free(rings->small);
	free(rings);
}

static const struct link_ops ring_link_ops = {
	.unsealed = true,
	.close = ring_close,
	.prepare = ring_prepare,
	.send = ring_send_datagram,
	.receive = ring_receive_datagrams,
	.event_fds = ring_event_fds,
};

int ring_open(struct link **link, struct counters *counters, channel_wake_fn *wake)
{
	struct ring_link *rings = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*rings));

	if (!rings)
		return ENOMEM;
	rings->small = fail_now(FAIL_ALLOCATE)
			       ? NULL
			       : aligned_alloc(LINE, RECEIVE_MAX * sizeof(*rings->small));
	if (!rings->small) {
		free(rings);
		return ENOMEM;
	}
	rings->link.ops = &ring_link_ops;
	rings->counters = counters;
	rings->wake = wake;
	*link = &rings->link;
	return 0;
}
