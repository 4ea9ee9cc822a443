/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of MADs: a consumer that counts calls, and waits for a count. */
#ifndef VERBATIM_MAD_FAKE_CONSUMER_TEST_H
#define VERBATIM_MAD_FAKE_CONSUMER_TEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mad/mad.h"
#include "platform/patience_test.h"

#define MS	1000000ull
#define SECOND	1000000000ull

static inline bool comes(_Atomic unsigned *count, unsigned wanted)
{
	return comes_true(*count >= wanted) && *count == wanted;
}

/* A call that a test does not expect. */
static inline void ignore_tick(void *owner, uint64_t now_ns)
{
}

#endif
