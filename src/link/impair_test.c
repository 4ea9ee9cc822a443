/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link with faults around a loopback link: what VERBATIM_FAULT may say, and that the faults
 * happen as often as they should, to single packets, the same for the same seed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "link/impair.h"
#include "link/loopback.h"
#include "platform/fail.h"

#define PACKET_BYTES 60u

static struct counters counters;

static struct link *open_with(const char *setting)
{
	struct link *link;

	assert_int_equal(loopback_open(&link, &counters), 0);
	if (setting)
		setenv("VERBATIM_FAULT", setting, 1);
	else
		unsetenv("VERBATIM_FAULT");
	assert_int_equal(impair_wrap(&link), 0);
	return link;
}

static void send_run(struct link *link, uint32_t first, unsigned count)
{
	static uint8_t data[LINK_SEGMENTS_MAX * PACKET_BYTES];
	struct datagram run = { .data = data, .bytes = count * PACKET_BYTES,
				.segment_bytes = count > 1 ? PACKET_BYTES : 0 };
	unsigned i, sent;

	for (i = 0; i < count; i++) {
		memset(data + i * PACKET_BYTES, 0, PACKET_BYTES);
		put_be32(data + i * PACKET_BYTES, first + i);
	}
	assert_int_equal(link->ops->prepare(link, &run), LINK_SEGMENTS_MAX);
	assert_int_equal(link->ops->send(link, &run, 1, &sent), 0);
}

struct seen {
	unsigned count, distinct, damaged, out_of_order;
	uint32_t last;
	uint64_t digest;
	uint8_t times[20000];
};

static void look_at(struct seen *seen, const struct datagram *packet)
{
	uint32_t number = get_be32(packet->data), ones = 0, i;

	assert_int_equal(packet->bytes, PACKET_BYTES);
	assert_int_equal(packet->segment_bytes, 0);
	for (i = 4; i < PACKET_BYTES; i++)
		ones += (uint32_t)__builtin_popcount(packet->data[i]);
	seen->count++;
	seen->digest = seen->digest * 31 + number + ones;
	if (ones || number >= 20000) {
		assert_in_range(ones, 0, 1);
		seen->damaged++;
		return;
	}
	seen->distinct += !seen->times[number]++;
	seen->out_of_order += number < seen->last;
	seen->last = number > seen->last ? number : seen->last;
}

/* 20000 packets in runs of 1..16, all received. */
static struct seen *transfer(const char *setting)
{
	struct seen *seen = calloc(1, sizeof(*seen));
	struct link *link = open_with(setting);
	struct datagram in[7];
	unsigned i, received;
	uint32_t next = 0;

	while (next < 20000) {
		unsigned run = 1 + next % 16;

		if (next + run > 20000)
			run = 20000 - next;
		send_run(link, next, run);
		next += run;
		do {
			assert_int_equal(link->ops->receive(link, in, 7, &received), 0);
			for (i = 0; i < received; i++)
				look_at(seen, &in[i]);
		} while (received);
	}
	link->ops->close(link);
	return seen;
}

static void without_the_variable_nothing_is_wrapped(void **state)
{
	struct link *inner, *link;

	unsetenv("VERBATIM_FAULT");
	assert_int_equal(loopback_open(&inner, &counters), 0);
	link = inner;
	assert_int_equal(impair_wrap(&link), 0);
	assert_ptr_equal(link, inner);
	link->ops->close(link);
}

static void what_is_not_understood_is_refused(void **state)
{
	static const char *const wrong[] = {
		"", "loss", "loss=", "loss=2", "loss=1.5", "loss=0.", "loss=.5", "loss=-1",
		"loss=1%", "loss=0,5", "loss=0.01,", ",loss=0.01", "los=0.1", "loss=0.1 ", "seed=",
		"seed=x",
		"seed=99999999999999999999", "loss=0.1;dup=0.1", "loss = 0.1", "loss=1e-3",
	};
	struct link *inner, *link;
	unsigned i;

	assert_int_equal(loopback_open(&inner, &counters), 0);
	link = inner;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("VERBATIM_FAULT", wrong[i], 1);
		if (impair_wrap(&link) != EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
		assert_ptr_equal(link, inner);
	}
	setenv("VERBATIM_FAULT", "loss=1.0,dup=0,reorder=0.000001,corrupt=1,seed=0", 1);
	assert_int_equal(impair_wrap(&link), 0);
	link->ops->close(link);
}

static void with_no_probability_all_passes_in_order(void **state)
{
	struct seen *seen = transfer("seed=3");

	assert_int_equal(seen->count, 20000);
	assert_int_equal(seen->distinct, 20000);
	assert_int_equal(seen->out_of_order + seen->damaged, 0);
	free(seen);
}

static void the_given_share_is_lost(void **state)
{
	struct seen *seen = transfer("loss=0.05,seed=3");

	assert_in_range(seen->count, 20000 - 1000 - 150, 20000 - 1000 + 150);
	assert_int_equal(seen->distinct, seen->count);
	assert_int_equal(seen->out_of_order + seen->damaged, 0);
	free(seen);
	seen = transfer("loss=1,seed=3");
	assert_int_equal(seen->count, 0);
	free(seen);
}

static void the_given_share_comes_twice(void **state)
{
	struct seen *seen = transfer("dup=0.1,seed=4");

	assert_int_equal(seen->distinct, 20000);
	assert_in_range(seen->count, 22000 - 200, 22000 + 200);
	free(seen);
}

static void the_given_share_is_damaged_by_one_bit(void **state)
{
	struct seen *seen = transfer("corrupt=0.1,seed=5");

	assert_int_equal(seen->count, 20000);
	/* of 480 bits 32 are the number: those that change it to another one are not seen here */
	assert_in_range(seen->damaged, 1700, 2200);
	free(seen);
}

static void held_back_packets_all_come_out(void **state)
{
	struct seen *seen = transfer("reorder=0.2,seed=6");

	assert_int_equal(seen->count, 20000);
	assert_int_equal(seen->distinct, 20000);
	assert_in_range(seen->out_of_order, 1500, 4500);
	free(seen);
}

static void a_lone_packet_held_back_is_not_forgotten(void **state)
{
	struct link *link = open_with("reorder=1,seed=1");
	struct datagram in;
	unsigned received;

	send_run(link, 5, 1);
	assert_int_equal(link->ops->receive(link, &in, 1, &received), 0);
	assert_int_equal(received, 1);
	assert_int_equal(get_be32(in.data), 5);
	link->ops->close(link);
}

static void the_same_seed_gives_the_same_faults(void **state)
{
	static const char *const setting[3] = {
		"loss=0.1,dup=0.1,reorder=0.1,corrupt=0.1,seed=42",
		"loss=0.1,dup=0.1,reorder=0.1,corrupt=0.1,seed=42",
		"loss=0.1,dup=0.1,reorder=0.1,corrupt=0.1,seed=43",
	};
	struct seen *seen[3];
	unsigned i;

	for (i = 0; i < 3; i++)
		seen[i] = transfer(setting[i]);
	assert_true(seen[0]->digest == seen[1]->digest);
	assert_true(seen[0]->digest != seen[2]->digest);
	for (i = 0; i < 3; i++)
		free(seen[i]);
}

static void segments_keep_their_numbers(void **state)
{
	struct link *link = open_with("loss=0.5,seed=8");
	struct datagram in[LINK_SEGMENTS_MAX];
	unsigned i, received;

	send_run(link, 100, 40);
	assert_int_equal(link->ops->receive(link, in, LINK_SEGMENTS_MAX, &received), 0);
	assert_in_range(received, 5, 35);
	for (i = 0; i < received; i++)
		assert_int_equal(get_be32(in[i].data), 100 + in[i].segment_number);
	link->ops->close(link);
}

static void no_memory_is_said(void **state)
{
	struct link *link;

	assert_int_equal(loopback_open(&link, &counters), 0);
	setenv("VERBATIM_FAULT", "loss=0", 1);
	fail_set(FAIL_ALLOCATE, 1, ENOMEM);
	assert_int_equal(impair_wrap(&link), ENOMEM);
	fail_clear();
	link->ops->close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_variable_nothing_is_wrapped),
		cmocka_unit_test(what_is_not_understood_is_refused),
		cmocka_unit_test(with_no_probability_all_passes_in_order),
		cmocka_unit_test(the_given_share_is_lost),
		cmocka_unit_test(the_given_share_comes_twice),
		cmocka_unit_test(the_given_share_is_damaged_by_one_bit),
		cmocka_unit_test(held_back_packets_all_come_out),
		cmocka_unit_test(a_lone_packet_held_back_is_not_forgotten),
		cmocka_unit_test(the_same_seed_gives_the_same_faults),
		cmocka_unit_test(segments_keep_their_numbers),
		cmocka_unit_test(no_memory_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
