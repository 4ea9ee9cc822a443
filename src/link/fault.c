/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link with faults. They happen on receiving, packet by packet: what GRO merged is taken apart
 * first, so loss hits single packets and not whole runs, and the sender's view of what it sent
 * stays true. The same seed and the same packets give the same faults.
 *
 *	inner link --> lose? --> damage? --> hold back? --> once or twice --> queue --> receiver
 *	                                         |                              ^
 *	                                         +-- 1..8 packets later --------+
 */
#include "link/fault.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define VARIABLE	"VERBATIM_FAULT"
#define BATCH		8u		/* datagrams of the inner link at a time */
#define QUEUE_MAX	2560u		/* packets of a batch (GRO merges up to 128), each twice */
#define HELD_MAX	8u
#define HELD_BYTES	65536u
#define HOLD_MAX	8u		/* packets that overtake one that is held back */
#define TRIES		64u
#define ALWAYS		(1ull << 32)	/* a probability of 1 */

enum fault_kind { FAULT_LOSS, FAULT_DUPLICATE, FAULT_REORDER, FAULT_CORRUPT, FAULT_KINDS };

static const char *const fault_name[FAULT_KINDS] = { "loss", "dup", "reorder", "corrupt" };

enum held_state { HELD_FREE, HELD_BACK, HELD_OUT };

struct held {
	enum held_state state;
	unsigned countdown;		/* packets until it comes out */
	struct datagram datagram;
	uint8_t *bytes;			/* [HELD_BYTES] */
};

struct fault_link {
	struct link link;
	struct link *inner;
	uint64_t probability[FAULT_KINDS];	/* of ALWAYS */
	uint64_t seed, random, count[FAULT_KINDS];
	struct held held[HELD_MAX];
	unsigned queue_next, queue_count;
	struct datagram queue[QUEUE_MAX];
	uint8_t held_bytes[HELD_MAX][HELD_BYTES];
};

#define fault_of(l) ((struct fault_link *)(l))

/* ---- what VERBATIM_FAULT says ---- */

/* 0, 1, 0.01 and the like, whatever the locale thinks of points. */
static bool parse_probability(const char *text, size_t length, uint64_t *probability)
{
	uint64_t value = 0, unit = ALWAYS;
	size_t i;

	if (!length || (text[0] != '0' && text[0] != '1') || (length > 1 && text[1] != '.') ||
	    length == 2)
		return false;
	for (i = 2; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		unit /= 10;
		value += unit * (uint64_t)(text[i] - '0');
	}
	value += text[0] == '1' ? ALWAYS : 0;
	*probability = value;
	return value <= ALWAYS;
}

static bool parse_seed(const char *text, size_t length, uint64_t *seed)
{
	const char *end = text;

	return text_scan_number(&end, UINT64_MAX, seed) && end == text + length;
}

/* One "name=value" of @length bytes. */
static bool parse_setting(struct fault_link *fault, const char *text, size_t length)
{
	const char *equals = memchr(text, '=', length);
	size_t name = equals ? (size_t)(equals - text) : 0, i;

	if (!equals)
		return false;
	if (name == 4 && !memcmp(text, "seed", 4))
		return parse_seed(equals + 1, length - name - 1, &fault->seed);
	for (i = 0; i < FAULT_KINDS; i++)
		if (name == strlen(fault_name[i]) && !memcmp(text, fault_name[i], name))
			return parse_probability(equals + 1, length - name - 1,
						 &fault->probability[i]);
	return false;
}

static int fault_parse(struct fault_link *fault, const char *text)
{
	const char *at = text;

	for (;;) {
		size_t length = strcspn(at, ",");

		if (!parse_setting(fault, at, length)) {
			complain(VARIABLE ": invalid value '%s' at '%.*s': expected "
				 "loss=P,dup=P,reorder=P,corrupt=P,seed=N, each optional, P from 0 "
				 "to 1 (loss=0.01), N an integer", text, (int)length, at);
			return EINVAL;
		}
		if (!at[length])
			return 0;
		at += length + 1;
	}
}

/* ---- faults ---- */

/* splitmix64 */
static uint64_t fault_next_random(struct fault_link *fault)
{
	uint64_t x = fault->random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool fault_happens(struct fault_link *fault, enum fault_kind kind)
{
	if (!fault->probability[kind] ||
	    (fault_next_random(fault) >> 32) >= fault->probability[kind])
		return false;
	fault->count[kind]++;
	return true;
}

static void fault_enqueue(struct fault_link *fault, const struct datagram *packet)
{
	if (fault->queue_count < QUEUE_MAX)
		fault->queue[fault->queue_count++] = *packet;
	else
		fault->count[FAULT_LOSS]++;
}

static void fault_corrupt(struct fault_link *fault, struct datagram *packet)
{
	uint64_t bit = fault_next_random(fault) % (packet->bytes * 8);

	packet->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static bool hold_back(struct fault_link *fault, const struct datagram *packet)
{
	unsigned i;

	for (i = 0; i < HELD_MAX; i++) {
		struct held *held = &fault->held[i];

		if (held->state != HELD_FREE || packet->bytes > HELD_BYTES)
			continue;
		held->state = HELD_BACK;
		held->countdown = 1 + (unsigned)(fault_next_random(fault) % HOLD_MAX);
		held->datagram = *packet;
		held->datagram.data = held->bytes;
		memcpy(held->bytes, packet->data, packet->bytes);
		return true;
	}
	return false;
}

/* A packet went by: those held back are that much nearer. @all: nothing will go by soon. */
static void let_out(struct fault_link *fault, bool all)
{
	unsigned i;

	for (i = 0; i < HELD_MAX; i++) {
		struct held *held = &fault->held[i];

		if (held->state != HELD_BACK || (--held->countdown && !all))
			continue;
		held->state = HELD_OUT;
		fault_enqueue(fault, &held->datagram);
	}
}

static void fault_pass(struct fault_link *fault, struct datagram *packet)
{
	if (fault_happens(fault, FAULT_LOSS))
		return;
	if (fault_happens(fault, FAULT_CORRUPT))
		fault_corrupt(fault, packet);
	if (fault_happens(fault, FAULT_REORDER) && hold_back(fault, packet))
		return;
	fault_enqueue(fault, packet);
	if (fault_happens(fault, FAULT_DUPLICATE))
		fault_enqueue(fault, packet);
	let_out(fault, false);
}

static void take_apart(struct fault_link *fault, const struct datagram *run)
{
	size_t size = run->segment_bytes ? run->segment_bytes : run->bytes, done = 0;
	struct datagram packet = *run;

	packet.segment_bytes = 0;
	while (done < run->bytes) {
		packet.data = run->data + done;
		packet.bytes = run->bytes - done < size ? run->bytes - done : size;
		fault_pass(fault, &packet);
		packet.segment_number++;
		done += packet.bytes;
	}
}

/* The queue is empty, and its data no longer needed: fill it. *more: the inner link had some. */
static int fault_refill(struct fault_link *fault, bool *more)
{
	struct datagram batch[BATCH];
	unsigned i, count;
	int err;

	for (i = 0; i < HELD_MAX; i++)
		if (fault->held[i].state == HELD_OUT)
			fault->held[i].state = HELD_FREE;
	fault->queue_next = fault->queue_count = 0;
	err = fault->inner->ops->receive(fault->inner, batch, BATCH, &count);
	if (err)
		return err;
	for (i = 0; i < count; i++)
		take_apart(fault, &batch[i]);
	if (!count)
		let_out(fault, true);
	*more = count;
	return 0;
}

/* ---- the link ---- */

static unsigned fault_prepare(struct link *link, struct datagram *datagram)
{
	struct link *inner = fault_of(link)->inner;

	return inner->ops->prepare(inner, datagram);
}

static int fault_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct link *inner = fault_of(link)->inner;

	return inner->ops->send(inner, datagram, count, sent);
}

static int fault_receive(struct link *link, struct datagram *datagram, unsigned max,
			 unsigned *received)
{
	struct fault_link *fault = fault_of(link);
	unsigned count = 0, tries = 0;
	bool more = true;
	int err = 0;

	/*
	 * Again while all are lost or held back: *received = 0 says that there is nothing, and who
	 * hears that may sleep. A link that never runs dry is left alone after some tries.
	 */
	while (!err && more && fault->queue_next == fault->queue_count && tries++ < TRIES)
		err = fault_refill(fault, &more);
	while (count < max && fault->queue_next < fault->queue_count)
		datagram[count++] = fault->queue[fault->queue_next++];
	*received = count;
	return err;
}

static unsigned fault_event_fds(struct link *link, int *fds, unsigned max)
{
	struct link *inner = fault_of(link)->inner;

	return inner->ops->event_fds(inner, fds, max);
}

static void fault_close(struct link *link)
{
	struct fault_link *fault = fault_of(link);

	log_info("fault injection: %llu packets dropped, %llu duplicated, %llu reordered, %llu "
		 "corrupted", (unsigned long long)fault->count[FAULT_LOSS],
		 (unsigned long long)fault->count[FAULT_DUPLICATE],
		 (unsigned long long)fault->count[FAULT_REORDER],
		 (unsigned long long)fault->count[FAULT_CORRUPT]);
	fault->inner->ops->close(fault->inner);
	free(fault);
}

static const struct link_ops fault_ops = {
	.close = fault_close,
	.prepare = fault_prepare,
	.send = fault_send,
	.receive = fault_receive,
	.event_fds = fault_event_fds,
};

int fault_wrap(struct link **link)
{
	const char *text = secure_getenv(VARIABLE);
	struct fault_link *fault;
	unsigned i;
	int err;

	if (!text)
		return 0;
	fault = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*fault));
	if (!fault)
		return ENOMEM;
	fault->seed = random_u64();
	err = fault_parse(fault, text);
	if (err) {
		free(fault);
		return err;
	}
	for (i = 0; i < HELD_MAX; i++)
		fault->held[i].bytes = fault->held_bytes[i];
	fault->link.ops = &fault_ops;
	fault->inner = *link;
	fault->random = fault->seed;
	log_info("fault injection is on, seed %llu", (unsigned long long)fault->seed);
	*link = &fault->link;
	return 0;
}
