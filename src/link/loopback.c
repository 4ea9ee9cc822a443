/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams of a process to itself: a ring of bytes, each datagram a record of its header and
 * data, contiguous. Data that loopback_receive() has returned stays in place until the next
 * loopback_receive().
 *
 *	| ... free ... | given out | waiting | waiting | ... free ... |
 *	               ^ released  ^ taken             ^ put
 *
 * The three marks only grow; a place is a mark modulo RING_BYTES. A record that would cross the
 * end of the ring is preceded by one that only fills up.
 */
#include "link/loopback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "tracepoint/drop.h"

#define RING_BYTES	(1u << 20)
#define RECORD_ALIGN	128u
#define PORT_FIRST	0xc000u

struct record {
	size_t bytes;			/* of the record, rounded up */
	struct datagram datagram;	/* its data follows; data NULL: filler */
};
_Static_assert(sizeof(struct record) <= RECORD_ALIGN, "a filler must fit before the ring's end");

struct loopback {
	struct link link;
	struct counters *counters;
	struct lock lock;
	uint64_t put GUARDED_BY_MEMBER(lock), taken GUARDED_BY_MEMBER(lock);
	uint64_t released GUARDED_BY_MEMBER(lock);	/* put and taken also read without */
	uint8_t *ring;
	uint16_t port;
};

#define loopback_of(l) ((struct loopback *)(l))

static struct record *record_at(struct loopback *loopback, uint64_t mark)
{
	return (struct record *)(loopback->ring + mark % RING_BYTES);
}

/* Room for a record, or NULL: full. Places are multiples of RECORD_ALIGN. */
static struct record *loopback_make_room(struct loopback *loopback, size_t bytes)
	REQUIRES(loopback->lock)
{
	size_t to_end = RING_BYTES - loopback->put % RING_BYTES;
	size_t needed = bytes <= to_end ? bytes : to_end + bytes;

	if (loopback->put + needed - loopback->released > RING_BYTES)
		return NULL;
	if (bytes > to_end) {
		struct record *filler = record_at(loopback, loopback->put);

		filler->bytes = to_end;
		filler->datagram.data = NULL;
		__atomic_store_n(&loopback->put, loopback->put + to_end, __ATOMIC_RELEASE);
	}
	return record_at(loopback, loopback->put);
}

static unsigned loopback_prepare(struct link *link, struct datagram *datagram)
{
	datagram->source_port = loopback_of(link)->port;
	return LINK_SEGMENTS_MAX;
}

static int loopback_send(struct link *link, struct datagram *datagram, unsigned count,
			 unsigned *sent)
{
	struct loopback *loopback = loopback_of(link);
	unsigned i, lost = 0;

	lock_acquire(&loopback->lock);
	for (i = 0; i < count; i++) {
		const size_t whole = sizeof(struct record) + datagram[i].bytes;
		const size_t bytes = (whole + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
		struct record *record = loopback_make_room(loopback, bytes);

		if (!record) {
			lost += link_segments(&datagram[i]);
			continue;
		}
		record->bytes = bytes;
		record->datagram = datagram[i];
		record->datagram.sealed = true;
		record->datagram.data = (uint8_t *)(record + 1);
		memcpy(record->datagram.data, datagram[i].data, datagram[i].bytes);
		__atomic_store_n(&loopback->put, loopback->put + bytes, __ATOMIC_RELEASE);
	}
	lock_release(&loopback->lock);
	if (lost)
		drop_count(loopback->counters, DROP_LINK, lost);
	*sent = count;
	return 0;
}

static int loopback_receive(struct link *link, struct datagram *datagram, unsigned max,
			    unsigned *received)
{
	struct loopback *loopback = loopback_of(link);
	unsigned count = 0;

	lock_acquire(&loopback->lock);
	loopback->released = loopback->taken;
	while (count < max && loopback->taken != loopback->put) {
		const struct record *record = record_at(loopback, loopback->taken);

		if (record->datagram.data)
			datagram[count++] = record->datagram;
		__atomic_store_n(&loopback->taken, loopback->taken + record->bytes,
				 __ATOMIC_RELEASE);
	}
	lock_release(&loopback->lock);
	*received = count;
	return 0;
}

static unsigned loopback_event_fds(struct link *link, int *fds, unsigned max)
{
	return 0;
}

static void loopback_close(struct link *link)
{
	struct loopback *loopback = loopback_of(link);

	lock_destroy(&loopback->lock);
	free(loopback->ring);
	free(loopback);
}

static const struct link_ops loopback_ops = {
	.unsealed = true,
	.close = loopback_close,
	.prepare = loopback_prepare,
	.send = loopback_send,
	.receive = loopback_receive,
	.event_fds = loopback_event_fds,
};

/* Hint without the lock. After a send it is true unless a receiver already took the datagram. */
bool loopback_pending(const struct link *link)
{
	const struct loopback *loopback = loopback_of(link);

	return __atomic_load_n(&loopback->put, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&loopback->taken, __ATOMIC_ACQUIRE);
}

int loopback_open(struct link **link, struct counters *counters)
{
	struct loopback *loopback = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*loopback));

	if (!loopback)
		return ENOMEM;
	loopback->ring = fail_now(FAIL_ALLOCATE) ? NULL : aligned_alloc(RECORD_ALIGN, RING_BYTES);
	if (!loopback->ring) {
		free(loopback);
		return ENOMEM;
	}
	loopback->link.ops = &loopback_ops;
	loopback->counters = counters;
	loopback->port = (uint16_t)(PORT_FIRST | (random_u64() & 0x3fff));
	lock_init(&loopback->lock);
	*link = &loopback->link;
	return 0;
}
