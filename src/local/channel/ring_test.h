/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the tests of the memory link: two of them on the same two sides, as two processes would have.
 *
 * A message's number is in its head, in its data and, as number + 1, its owner; so each can be
 * recognised wherever it turns up.
 */
#ifndef VERBATIM_LOCAL_CHANNEL_RING_TEST_H
#define VERBATIM_LOCAL_CHANNEL_RING_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "local/channel/ring_internal.h"

static struct counters counters;
static struct link *here, *there;
enum { channel_here = 0, channel_there = 3 };	/* their numbers of the channel */
static struct channel_side *side[2];	/* [0]: what here writes */
static _Atomic unsigned rung[2];	/* the bells of here and there */

static inline void ring(int bell_fd)
{
	assert_in_range(bell_fd, 1000, 1001);
	atomic_fetch_add(&rung[bell_fd - 1000], 1);
}

static inline struct channel_side *side_new(void)
{
	void *memory = mmap(NULL, channel_side_bytes(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static inline void side_free(struct channel_side *memory)
{
	munmap(memory, channel_side_bytes());
}

static inline int setup(void **state)
{
	unsigned i;

	memset(&counters, 0, sizeof(counters));
	for (i = 0; i < 2; i++) {
		side[i] = side_new();
		if (!side[i])
			return -1;
		rung[i] = 0;
	}
	return ring_open(&here, &counters, ring) || ring_open(&there, &counters, ring) ||
	       ring_add(here, channel_here, side[0], side[1], 1001) ||
	       ring_add(there, channel_there, side[1], side[0], 1000);
}

static inline int teardown(void **state)
{
	here->ops->close(here);
	there->ops->close(there);
	side_free(side[0]);
	side_free(side[1]);
	return 0;
}

/* Bytes that tell which message or datagram they are of. */
static inline void fill(uint8_t *data, size_t bytes, uint32_t number)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		data[i] = (uint8_t)(number * 11 + i * 17 + (i >> 8) * 3);
}

/* Bells that are due are rung at once. */
static inline int try_send_message(struct link *link, unsigned channel, size_t bytes,
				   uint32_t number)
{
	struct ring_room room;
	int err = ring_send_begin(link, channel, bytes, &room);
	unsigned i;

	if (err)
		return err;
	for (i = 0; i < RING_HEAD_WORDS; i++)
		room.head[i] = number * 100 + i;
	fill(room.data, bytes, number);
	ring_send_end(link, &room, number + 1);
	ring_wake_peers(link);
	return 0;
}

static inline void send_message(size_t bytes, uint32_t number)
{
	assert_int_equal(try_send_message(here, channel_here, bytes, number), 0);
}

static inline void expect_content(const struct ring_message *message, size_t bytes,
				  uint32_t number)
{
	static uint8_t data[LINK_BYTES_MAX];
	unsigned i;

	assert_int_equal(message->bytes, bytes);
	for (i = 0; i < RING_HEAD_WORDS; i++)
		assert_int_equal(message->head[i], number * 100 + i);
	fill(data, bytes, number);
	assert_memory_equal(message->data, data, bytes);
}

static inline void answer(struct link *link, const struct ring_message *message, bool refused)
{
	ring_finish(link, message, refused);
	ring_notify_answers(link);
	ring_wake_peers(link);
}

static inline void receive_message(size_t bytes, uint32_t number, bool refused)
{
	struct ring_message message;

	assert_true(ring_peek(there, &message));
	assert_int_equal(message.channel, channel_there);
	expect_content(&message, bytes, number);
	answer(there, &message, refused);
}

static inline void receive_nothing(struct link *link)
{
	struct ring_message message;

	assert_false(ring_peek(link, &message));
}

static inline void take_answer(uint32_t number, bool refused)
{
	struct ring_answer answer;

	assert_true(ring_has_answer(here, channel_here));
	assert_true(ring_any_answer(here));
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_int_equal(answer.owner, number + 1);
	assert_int_equal(answer.refused, refused);
}

static inline void expect_no_answer(void)
{
	struct ring_answer answer;

	assert_false(ring_has_answer(here, channel_here));
	assert_false(ring_any_answer(here));
	assert_false(ring_take_answer(here, channel_here, &answer));
}

static inline int send_one(struct link *link, unsigned channel, size_t bytes, uint32_t number)
{
	static _Thread_local uint8_t data[LINK_BYTES_MAX];
	struct datagram datagram = { .data = data, .bytes = bytes, .channel = (uint16_t)channel,
				     .hop_limit = (uint8_t)(number % 100), .source = { 1 },
				     .destination = { 2 } };
	unsigned sent;
	int err;

	fill(data, bytes, number);
	err = link->ops->send(link, &datagram, 1, &sent);
	assert_int_equal(sent, err ? 0 : 1);
	return err;
}

/* The next datagrams, up to @max: numbers from *number on, of the sizes that @size says. */
static inline unsigned receive(unsigned max, uint32_t *number, size_t (*size)(uint32_t))
{
	static uint8_t data[LINK_BYTES_MAX];
	struct datagram in[16];
	unsigned n, i;

	assert_int_equal(there->ops->receive(there, in, max, &n), 0);
	for (i = 0; i < n; i++, ++*number) {
		assert_int_equal(in[i].bytes, size(*number));
		fill(data, in[i].bytes, *number);
		assert_memory_equal(in[i].data, data, in[i].bytes);
	}
	return n;
}

/* What becomes of a message, and how large it is, where it is to vary. */
static inline bool is_refused(uint32_t number)
{
	return (number * 0x9e3779b1u >> 13) % 3 == 0;
}

static inline size_t mixed_size(uint32_t number)
{
	return 16 + number * 97 % 3000;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
