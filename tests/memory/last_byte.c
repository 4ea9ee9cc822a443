/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs spin on the last byte of what a peer writes (ib_write_lat does): when it is there, all
 * before it must be. Likewise a READ that comes after one that saw a generation's number sees
 * nothing older. Each way through memory, and UDP.
 */
#include <sched.h>
#include <stdatomic.h>

#include "pair.h"

#define BYTES_MAX 65536u
#define AREA (4 * BYTES_MAX)

struct plan {
	double seconds; /* of each size */
	bool mapped;	/* the other end's block is to be mapped */
};

static const uint32_t sizes[] = {64, 192, 1000, 4096, 8192, 65536};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint8_t spin(const volatile uint8_t *byte, uint8_t old)
{
	double until = now() + LIMIT_S;
	unsigned tries = 0;

	while (*byte == old)
		if (++tries % 1024 == 0) {
			CHECK(now() < until, "nothing came");
			sched_yield();
		}
	atomic_thread_fence(memory_order_acquire);
	return *byte;
}

static void check_generation(const volatile uint8_t *data, uint32_t bytes, uint8_t generation)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		CHECK(data[i] == generation,
		      "byte %u of %u: %u and not %u, whose last byte was there", i, bytes, data[i],
		      generation);
}

/* The byte of generation @n; 0 is for the end. */
static uint8_t byte_of(unsigned n)
{
	return (uint8_t)(n % 255 + 1);
}

static void send_generation(struct end *end, uint32_t bytes, uint8_t generation)
{
	memset(end->memory, generation, bytes);
	CHECK(!post(end, IBV_WR_RDMA_WRITE, 0, bytes, BYTES_MAX, generation), "%m");
}

static void await_generation(struct end *end, uint32_t bytes, uint8_t before, uint8_t generation)
{
	const uint8_t *data = (const uint8_t *)end->memory + BYTES_MAX;

	CHECK(spin(data + bytes - 1, before) == generation);
	check_generation(data, bytes, generation);
}

static void await_completion(struct end *end)
{
	struct ibv_wc wc;

	CHECK(get(end, &wc, 20) && wc.status == IBV_WC_SUCCESS, "status %d", wc.status);
}

/* Generations go back and forth: the right end answers each with the same. Byte 0 ends it. */
static void serve(struct end *end, uint32_t bytes, double seconds)
{
	double until = now() + seconds;
	uint8_t before = 0, generation;
	unsigned n;

	for (n = 0; before || !n; n++) {
		generation = n && now() > until ? 0 : byte_of(n);
		send_generation(end, bytes, generation);
		await_generation(end, bytes, before, generation);
		await_completion(end);
		before = generation;
	}
}

static void answer(struct end *end, uint32_t bytes)
{
	uint8_t before = 0, generation;
	unsigned n;

	for (n = 0; before || !n; n++) {
		generation = spin((uint8_t *)end->memory + BYTES_MAX + bytes - 1, before);
		check_generation((uint8_t *)end->memory + BYTES_MAX, bytes, generation);
		send_generation(end, bytes, generation);
		await_completion(end);
		before = generation;
	}
}

static void play(struct end *end, uint32_t bytes, double seconds)
{
	if (end->side == LEFT)
		serve(end, bytes, seconds);
	else
		answer(end, bytes);
	meet(end);
	memset(end->memory, 0, AREA);
	meet(end);
}

static void write_end(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	unsigned i;

	end_open(end, AREA, ALL_ACCESS);
	end_connect(end);
	for (i = 0; i < SIZES; i++)
		play(end, sizes[i], plan->seconds);
	CHECK(map_lines(BLOCK_MAPPING) == (plan->mapped ? 2 : 0), "blocks that are mapped: %u",
	      map_lines(BLOCK_MAPPING));
	meet(end);
	end_close(end);
}

/* The owner writes generation after generation, the number of each when it is whole. */
static void own(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	volatile uint64_t *number;
	double until;
	unsigned i;

	end_open(end, AREA, ALL_ACCESS);
	end_connect(end);
	number = (volatile uint64_t *)end->memory;
	for (i = 0; i < SIZES; i++) {
		until = now() + plan->seconds;
		while (now() < until) {
			uint64_t next = *number + 1, *data = (uint64_t *)(end->memory + BYTES_MAX);
			uint32_t at;

			for (at = 0; at < sizes[i] / 8; at++)
				*(volatile uint64_t *)&data[at] = next;
			atomic_thread_fence(memory_order_release);
			*number = next;
			sched_yield();
		}
		meet(end);
		*number = 0;
		memset(end->memory, 0, AREA);
		meet(end);
	}
	end_close(end);
}

static void look(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	volatile uint64_t *number;
	const uint64_t *data;
	double until;
	unsigned i;

	end_open(end, AREA, ALL_ACCESS);
	end_connect(end);
	number = (volatile uint64_t *)end->memory;
	data = (const uint64_t *)(end->memory + BYTES_MAX);
	for (i = 0; i < SIZES; i++) {
		until = now() + plan->seconds;
		while (now() < until) {
			uint32_t at;

			CHECK(transfer(end, IBV_WR_RDMA_READ, 0, 8, 0) == IBV_WC_SUCCESS);
			CHECK(transfer(end, IBV_WR_RDMA_READ, BYTES_MAX, sizes[i], BYTES_MAX) ==
			      IBV_WC_SUCCESS);
			for (at = 0; at < sizes[i] / 8; at++)
				CHECK(data[at] >= *number,
				      "%u of %u is older than what was whole before", at,
				      sizes[i] / 8);
		}
		meet(end);
		meet(end);
	}
	end_close(end);
}

static struct plan plan_of(bool mapped)
{
	return (struct plan){.seconds = long_run ? 1.5 : 0.08, .mapped = mapped};
}

static bool both(const char *mode, bool mapped)
{
	struct plan plan = plan_of(mapped);

	return pair_run(mode, write_end, write_end, &plan, 120) &&
	       pair_run(mode, own, look, &plan, 120);
}

static bool the_last_byte_comes_last_where_blocks_are_mapped(void)
{
	return both("mapped", true);
}

static bool the_last_byte_comes_last_where_memory_is_copied(void)
{
	return both("copy", false);
}

static bool the_last_byte_comes_last_through_rings(void)
{
	return both("ring", false);
}

static bool the_last_byte_comes_last_over_udp(void)
{
	return both("off", false);
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(the_last_byte_comes_last_where_blocks_are_mapped),
		TEST(the_last_byte_comes_last_where_memory_is_copied),
		TEST(the_last_byte_comes_last_through_rings),
		TEST(the_last_byte_comes_last_over_udp),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
