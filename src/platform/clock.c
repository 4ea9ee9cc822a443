/* SPDX-License-Identifier: BSD-2-Clause */
/* Time and randomness: the only two things that the transport is not allowed to fetch itself. */
#include "platform/clock.h"

#include <sys/random.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t random_u64(void)
{
	uint64_t value;

	/* Before the kernel's pool is ready (early boot) the clock has to do. */
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		value = clock_now_ns() * 0x9e3779b97f4a7c15u;
	return value;
}
