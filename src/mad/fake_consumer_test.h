/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of QP1: a consumer that counts calls, and waits for a count. */
#ifndef VERBATIM_MAD_FAKE_CONSUMER_TEST_H
#define VERBATIM_MAD_FAKE_CONSUMER_TEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mad/gsi.h"
#include "platform/patience_test.h"

#define MS	1000000ull
#define SECOND	1000000000ull

static inline bool comes(_Atomic unsigned *count, unsigned wanted)
{
	return comes_true(*count >= wanted) && *count == wanted;
}

/* Calls that a test does not expect. */

static inline void ignore_tick(void *consumer, uint64_t now_ns)
{
}

static inline void ignore_qp_failed(void *consumer, uint32_t qpn, uint64_t now_ns)
{
}

static inline void ignore_interface_changed(void *consumer, const struct net_change *change, uint64_t now_ns)
{
}

static inline void ignore_peer_gone(void *consumer, uint32_t slot, uint64_t now_ns)
{
}

#endif
