/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers for tests: splitmix64, so that a test is the same on each run and machine.
 * For tests only; the library takes its randomness from the platform.
 */
#ifndef VERBATIM_BASE_TEST_RANDOM_H
#define VERBATIM_BASE_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline void test_random_fill(uint64_t *state, void *to, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)to)[i] = (uint8_t)test_random(state);
}

#endif
