/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nanoseconds of single steps: parse, header write, ICRC, identification recovery, timer heap,
 * copy_user beside memcpy, a message's packets. Each is run in batches for a fixed time; printed are
 * the fastest batch and the median one, per operation, and the throughput of the fastest.
 *
 *	micro [SECONDS_PER_STEP]	default 0.1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/copy.h"
#include "base/timer_heap.h"
#include "base/test_random.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define BATCHES_MAX 1000u
#define TIMERS 1000u

struct step {
	const char *name;
	void (*run)(size_t bytes, unsigned times);
	size_t bytes;		/* handed to run(); throughput is printed when not 0 */
};

static uint8_t data[1 << 20], other[1 << 20];
static struct icrc_header header = { .source_port = 0xc123, .destination_port = 4791,
				     .dont_fragment = true };
static struct timer_heap heap;
static struct timer timer[TIMERS];
static uint64_t random_state = 16;

/* Keeps the compiler from taking a result, or memory, for unused. */
static void use(const void *memory)
{
	__asm__ volatile("" : : "r"(memory) : "memory");
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void run_parse(size_t bytes, unsigned times)
{
	struct packet packet;

	data[0] = OPCODE_RC_WRITE_ONLY;
	data[1] = 0x40;
	while (times--) {
		packet_parse(data, 28 + bytes + ICRC_BYTES, &packet);
		use(&packet);
	}
}

static void run_write_headers(size_t bytes, unsigned times)
{
	struct packet packet = { .op = opcode_get(OPCODE_RC_WRITE_ONLY), .dest_qpn = 17,
				 .payload_bytes = bytes };

	while (times--) {
		packet.psn++;
		packet_write_headers(&packet, other);
		use(other);
	}
}

static void run_icrc_check(size_t bytes, unsigned times)
{
	struct icrc_header expected = header;

	icrc_seal(&header, data, BTH_BYTES + bytes);
	while (times--)
		if (icrc_check(&expected, data, BTH_BYTES + bytes + ICRC_BYTES) != ICRC_GOOD)
			abort();
}

static void run_icrc_recover(size_t bytes, unsigned times)
{
	struct icrc_header sent = header;

	sent.ip_id = 0x1234;
	icrc_seal(&sent, data, BTH_BYTES + bytes);
	while (times--) {
		struct icrc_header guess = header;

		if (icrc_check(&guess, data, BTH_BYTES + bytes + ICRC_BYTES) != ICRC_OTHER_ID)
			abort();
	}
}

/* What a QP does at each acknowledgement: moves its retransmission timer further away. */
static void run_timer_rearm(size_t bytes, unsigned times)
{
	static uint64_t deadline = 1000000;

	while (times--) {
		deadline += 100;
		timer_set(&heap, &timer[test_random(&random_state) % TIMERS],
			  deadline + test_random(&random_state) % 65536);
	}
}

static void run_timer_expire(size_t bytes, unsigned times)
{
	while (times--) {
		struct timer *first = timer_heap_expire(&heap, TIME_NEVER - 1);

		timer_set(&heap, first,
			  timer_heap_next(&heap) + test_random(&random_state) % 100000);
	}
}

static void run_copy_user(size_t bytes, unsigned times)
{
	while (times--) {
		copy_user(other + 4, data, bytes);
		use(other);
	}
}

static void run_memcpy(size_t bytes, unsigned times)
{
	while (times--) {
		memcpy(other + 4, data, bytes);
		use(other);
	}
}

/* ---- a message as packets ---- */

#define MTU		4096u
#define PACKET_BYTES	(BTH_BYTES + MTU + ICRC_BYTES)

static uint8_t *packet_at(size_t i)
{
	return other + i * PACKET_BYTES;
}

static void copy_in(size_t i)
{
	copy_user(packet_at(i) + BTH_BYTES, data + i * MTU, MTU);
}

static void seal(size_t i)
{
	icrc_seal(&header, packet_at(i), BTH_BYTES + MTU);
}

/* As the transport and tx.c do: first the data of all packets, then their ICRCs. */
static void run_copy_then_seal(size_t bytes, unsigned times)
{
	size_t i, packets = bytes / MTU;

	while (times--) {
		for (i = 0; i < packets; i++)
			copy_in(i);
		for (i = 0; i < packets; i++)
			seal(i);
	}
}

static void run_copy_and_seal(size_t bytes, unsigned times)
{
	size_t i, packets = bytes / MTU;

	while (times--)
		for (i = 0; i < packets; i++) {
			copy_in(i);
			seal(i);
		}
}

/* As rx.c does, packet by packet. */
static void run_check_and_copy(size_t bytes, unsigned times)
{
	struct icrc_header expected = header;
	size_t i, packets = bytes / MTU;

	for (i = 0; i < packets; i++)
		seal(i);
	while (times--)
		for (i = 0; i < packets; i++) {
			if (icrc_check(&expected, packet_at(i), PACKET_BYTES) != ICRC_GOOD)
				abort();
			copy_user(data + i * MTU, packet_at(i) + BTH_BYTES, MTU);
		}
}

static const struct step steps[] = {
	{ "packet_parse", run_parse, 0 },
	{ "packet_write_headers", run_write_headers, 0 },
	{ "icrc_check", run_icrc_check, 64 },
	{ "icrc_check", run_icrc_check, 1024 },
	{ "icrc_check", run_icrc_check, 4096 },
	{ "icrc_check, id unseen", run_icrc_recover, 64 },
	{ "icrc_check, id unseen", run_icrc_recover, 4096 },
	{ "timer re-armed, of 1000", run_timer_rearm, 0 },
	{ "timer expired and armed", run_timer_expire, 0 },
	{ "copy_user", run_copy_user, 8 },
	{ "memcpy", run_memcpy, 8 },
	{ "copy_user", run_copy_user, 64 },
	{ "memcpy", run_memcpy, 64 },
	{ "copy_user", run_copy_user, 1024 },
	{ "memcpy", run_memcpy, 1024 },
	{ "copy_user", run_copy_user, 4096 },
	{ "memcpy", run_memcpy, 4096 },
	{ "copy_user", run_copy_user, 65536 },
	{ "memcpy", run_memcpy, 65536 },
	{ "packets copied, sealed", run_copy_then_seal, 65536 },
	{ "each copied and sealed", run_copy_and_seal, 65536 },
	{ "each checked and copied", run_check_and_copy, 65536 },
};

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return difference < 0 ? -1 : difference > 0;
}

static void measure(const struct step *step, double seconds)
{
	static double ns[BATCHES_MAX];
	unsigned times = 1, batches = 0;
	uint64_t begin, spent, end;

	/* Batches of at least 50 us, so that reading the clock does not count. */
	do {
		times *= 2;
		begin = now_ns();
		step->run(step->bytes, times);
		spent = now_ns() - begin;
	} while (spent < 50000);
	end = now_ns() + (uint64_t)(seconds * 1e9);
	do {
		begin = now_ns();
		step->run(step->bytes, times);
		ns[batches++] = (double)(now_ns() - begin) / times;
	} while (batches < BATCHES_MAX && now_ns() < end);
	qsort(ns, batches, sizeof(*ns), compare);

	printf("%-26s", step->name);
	if (step->bytes)
		printf("%7zu B", step->bytes);
	else
		printf("%9s", "");
	printf("%10.1f ns%10.1f ns", ns[0], ns[batches / 2]);
	if (step->bytes)
		printf("%8.1f GB/s", (double)step->bytes / ns[0]);
	printf("\n");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.1;

	if (argc > 2 || seconds <= 0 || seconds > 60) {
		fprintf(stderr, "usage: micro [SECONDS_PER_STEP]\n");
		return 2;
	}
	test_random_fill(&random_state, data, sizeof(data));
	if (timer_heap_reserve(&heap, TIMERS)) {
		fprintf(stderr, "micro: out of memory\n");
		return 1;
	}
	for (unsigned i = 0; i < TIMERS; i++) {
		timer_init(&timer[i]);
		timer_set(&heap, &timer[i], 1 + i);
	}
	printf("%-35s%13s%13s\n", "", "fastest", "median");
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		measure(&steps[i], seconds);
	timer_heap_free(&heap);
	return 0;
}
