/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link with faults. They happen on receiving, packet by packet: runs that GRO merged are split
 * first, so that loss hits single packets and not whole runs. Sending is unchanged. The same seed
 * and the same packets give the same faults.
 *
 *	inner link --> lose? --> damage? --> hold back? --> once or twice --> queue --> receiver
 *	                                         |                              ^
 *	                                         +-- 1..8 packets later --------+
 */
#include "link/impair.h"

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

enum impair_kind { IMPAIR_LOSS, IMPAIR_DUPLICATE, IMPAIR_REORDER, IMPAIR_CORRUPT, IMPAIR_KINDS };

static const char *const impair_name[IMPAIR_KINDS] = { "loss", "dup", "reorder", "corrupt" };

enum held_state { HELD_FREE, HELD_BACK, HELD_OUT };

struct held {
	enum held_state state;
	unsigned countdown;		/* packets until it comes out */
	struct datagram datagram;
	uint8_t *bytes;			/* [HELD_BYTES] */
};

struct impair_link {
	struct link link;
	struct link *inner;
	uint64_t probability[IMPAIR_KINDS];	/* of ALWAYS */
	uint64_t seed, random, count[IMPAIR_KINDS];
	struct held held[HELD_MAX];
	unsigned queue_next, queue_count;
	struct datagram queue[QUEUE_MAX];
	uint8_t held_bytes[HELD_MAX][HELD_BYTES];
};

#define impair_of(l) ((struct impair_link *)(l))

/* ---- VERBATIM_FAULT ---- */

/* 0, 1, 0.01 and the like, independent of the locale. */
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
static bool parse_setting(struct impair_link *impair, const char *text, size_t length)
{
	const char *equals = memchr(text, '=', length);
	size_t name = equals ? (size_t)(equals - text) : 0, i;

	if (!equals)
		return false;
	if (name == 4 && !memcmp(text, "seed", 4))
		return parse_seed(equals + 1, length - name - 1, &impair->seed);
	for (i = 0; i < IMPAIR_KINDS; i++)
		if (name == strlen(impair_name[i]) && !memcmp(text, impair_name[i], name))
			return parse_probability(equals + 1, length - name - 1,
						 &impair->probability[i]);
	return false;
}

static int impair_parse(struct impair_link *impair, const char *text)
{
	const char *at = text;

	for (;;) {
		size_t length = strcspn(at, ",");

		if (!parse_setting(impair, at, length)) {
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
static uint64_t impair_next_random(struct impair_link *impair)
{
	uint64_t x = impair->random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool impair_happens(struct impair_link *impair, enum impair_kind kind)
{
	if (!impair->probability[kind] ||
	    (impair_next_random(impair) >> 32) >= impair->probability[kind])
		return false;
	impair->count[kind]++;
	return true;
}

static void impair_enqueue(struct impair_link *impair, const struct datagram *packet)
{
	if (impair->queue_count < QUEUE_MAX)
		impair->queue[impair->queue_count++] = *packet;
	else
		impair->count[IMPAIR_LOSS]++;
}

static void impair_corrupt(struct impair_link *impair, struct datagram *packet)
{
	uint64_t bit = impair_next_random(impair) % (packet->bytes * 8);

	packet->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static bool hold_back(struct impair_link *impair, const struct datagram *packet)
{
	unsigned i;

	for (i = 0; i < HELD_MAX; i++) {
		struct held *held = &impair->held[i];

		if (held->state != HELD_FREE || packet->bytes > HELD_BYTES)
			continue;
		held->state = HELD_BACK;
		held->countdown = 1 + (unsigned)(impair_next_random(impair) % HOLD_MAX);
		held->datagram = *packet;
		held->datagram.data = held->bytes;
		memcpy(held->bytes, packet->data, packet->bytes);
		return true;
	}
	return false;
}

/* A packet went by: those held back are that much nearer. @all: nothing will go by soon. */
static void let_out(struct impair_link *impair, bool all)
{
	unsigned i;

	for (i = 0; i < HELD_MAX; i++) {
		struct held *held = &impair->held[i];

		if (held->state != HELD_BACK || (--held->countdown && !all))
			continue;
		held->state = HELD_OUT;
		impair_enqueue(impair, &held->datagram);
	}
}

static void impair_pass(struct impair_link *impair, struct datagram *packet)
{
	if (impair_happens(impair, IMPAIR_LOSS))
		return;
	if (impair_happens(impair, IMPAIR_CORRUPT))
		impair_corrupt(impair, packet);
	if (impair_happens(impair, IMPAIR_REORDER) && hold_back(impair, packet))
		return;
	impair_enqueue(impair, packet);
	if (impair_happens(impair, IMPAIR_DUPLICATE))
		impair_enqueue(impair, packet);
	let_out(impair, false);
}

static void take_apart(struct impair_link *impair, const struct datagram *run)
{
	size_t size = run->segment_bytes ? run->segment_bytes : run->bytes, done = 0;
	struct datagram packet = *run;

	packet.segment_bytes = 0;
	while (done < run->bytes) {
		packet.data = run->data + done;
		packet.bytes = run->bytes - done < size ? run->bytes - done : size;
		impair_pass(impair, &packet);
		packet.segment_number++;
		done += packet.bytes;
	}
}

/* The queue is empty, and its data no longer needed: fill it. *more: the inner link had some. */
static int impair_refill(struct impair_link *impair, bool *more)
{
	struct datagram batch[BATCH];
	unsigned i, count;
	int err;

	for (i = 0; i < HELD_MAX; i++)
		if (impair->held[i].state == HELD_OUT)
			impair->held[i].state = HELD_FREE;
	impair->queue_next = impair->queue_count = 0;
	err = impair->inner->ops->receive(impair->inner, batch, BATCH, &count);
	if (err)
		return err;
	for (i = 0; i < count; i++)
		take_apart(impair, &batch[i]);
	if (!count)
		let_out(impair, true);
	*more = count;
	return 0;
}

/* ---- the link ---- */

static unsigned impair_prepare(struct link *link, struct datagram *datagram)
{
	struct link *inner = impair_of(link)->inner;

	return inner->ops->prepare(inner, datagram);
}

static int impair_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct link *inner = impair_of(link)->inner;

	return inner->ops->send(inner, datagram, count, sent);
}

static int impair_receive(struct link *link, struct datagram *datagram, unsigned max,
			  unsigned *received)
{
	struct impair_link *impair = impair_of(link);
	unsigned count = 0, tries = 0;
	bool more = true;
	int err = 0;

	/*
	 * Refill while every packet was dropped or held back: *received = 0 lets the caller sleep. Ends
	 * after TRIES, for a link that never runs dry.
	 */
	while (!err && more && impair->queue_next == impair->queue_count && tries++ < TRIES)
		err = impair_refill(impair, &more);
	while (count < max && impair->queue_next < impair->queue_count)
		datagram[count++] = impair->queue[impair->queue_next++];
	*received = count;
	return err;
}

static unsigned impair_event_fds(struct link *link, int *fds, unsigned max)
{
	struct link *inner = impair_of(link)->inner;

	return inner->ops->event_fds(inner, fds, max);
}

static void impair_close(struct link *link)
{
	struct impair_link *impair = impair_of(link);

	log_info("fault injection: %llu packets dropped, %llu duplicated, %llu reordered, %llu "
		 "corrupted", (unsigned long long)impair->count[IMPAIR_LOSS],
		 (unsigned long long)impair->count[IMPAIR_DUPLICATE],
		 (unsigned long long)impair->count[IMPAIR_REORDER],
		 (unsigned long long)impair->count[IMPAIR_CORRUPT]);
	impair->inner->ops->close(impair->inner);
	free(impair);
}

static const struct link_ops impair_ops = {
	.close = impair_close,
	.prepare = impair_prepare,
	.send = impair_send,
	.receive = impair_receive,
	.event_fds = impair_event_fds,
};

int impair_wrap(struct link **link)
{
	const char *text = secure_getenv(VARIABLE);
	struct impair_link *impair;
	unsigned i;
	int err;

	if (!text)
		return 0;
	impair = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*impair));
	if (!impair)
		return ENOMEM;
	impair->seed = random_u64();
	err = impair_parse(impair, text);
	if (err) {
		free(impair);
		return err;
	}
	for (i = 0; i < HELD_MAX; i++)
		impair->held[i].bytes = impair->held_bytes[i];
	impair->link.ops = &impair_ops;
	impair->inner = *link;
	impair->random = impair->seed;
	log_info("fault injection is on, seed %llu", (unsigned long long)impair->seed);
	*link = &impair->link;
	return 0;
}
