/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: waiting for what must come. Beside other work everything may come late, so nothing here is
 * a limit of the code under test: these are for what never comes.
 *
 * That something comes soon is shown by the fastest of many tries (SOON_TRIES), never by one.
 */
#ifndef VERBATIM_PLATFORM_PATIENCE_TEST_H
#define VERBATIM_PLATFORM_PATIENCE_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "platform/clock.h"
#include "platform/wait.h"

#define PATIENCE_S	60u
#define PATIENCE_NS	patience_ns()
#define SOON_TRIES	100u
/* alarm() of a process that a test starts, or of a test: one that hangs ends, though not soon. */
#define HANGING_S	240u

/* TEST_PATIENCE_S in the environment: another one, for who runs tests that fail on purpose (tests/mutation). */
static inline uint64_t patience_ns(void)
{
	const char *text = getenv("TEST_PATIENCE_S");

	return (text ? strtoull(text, NULL, 10) : PATIENCE_S) * 1000000000ull;
}

/* Evaluates @condition again and again until it holds; false: it never did. */
#define comes_true(condition)                                                                      \
	({                                                                                         \
		const uint64_t patience_end_ns_ = clock_now_ns() + PATIENCE_NS;                    \
		bool patience_came_;                                                               \
												   \
		while (!(patience_came_ = (condition)) && clock_now_ns() < patience_end_ns_)       \
			thread_sleep_ns(200000);                                                   \
		patience_came_;                                                                    \
	})

#endif
