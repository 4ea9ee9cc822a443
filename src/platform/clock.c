/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time and random numbers: inputs of the layers that have no I/O of their own.
 */
#include "platform/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "platform/fail.h"

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

/*
 * Without getrandom (a sandbox that forbids it): unlike in each process and call, mixed by the
 * finaliser of splitmix64, but not secret.
 */
static uint64_t random_weak(void)
{
	static _Atomic uint64_t calls;
	uint64_t x = read_clock(CLOCK_MONOTONIC) ^ (uint64_t)getpid() << 40;

	x += read_clock(CLOCK_REALTIME) + ++calls * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void random_fill(void *to, size_t bytes)
{
	uint64_t weak;
	size_t at, length;
	ssize_t got;

	do
		got = fail_now(FAIL_RANDOM) ? -1 : getrandom(to, bytes, 0);
	while (got < 0 && errno == EINTR);
	for (at = 0; got != (ssize_t)bytes && at < bytes; at += length) {
		weak = random_weak();
		length = bytes - at < sizeof(weak) ? bytes - at : sizeof(weak);
		memcpy((uint8_t *)to + at, &weak, length);
	}
}

uint64_t random_u64(void)
{
	uint64_t value;

	random_fill(&value, sizeof(value));
	return value;
}
