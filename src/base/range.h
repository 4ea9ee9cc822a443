/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges of 64-bit addresses that an application or a peer names: they may be any. */
#ifndef VERBATIM_BASE_RANGE_H
#define VERBATIM_BASE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Does it go past 2^64? One that ends there does not. */
static inline bool range_wraps(uint64_t start, uint64_t length)
{
	return length && start + (length - 1) < start;
}

#endif
