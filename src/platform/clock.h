/* SPDX-License-Identifier: BSD-2-Clause */
/* Time and random numbers. */
#ifndef VERBATIM_PLATFORM_CLOCK_H
#define VERBATIM_PLATFORM_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_now_ns(void);		/* CLOCK_MONOTONIC */
uint64_t clock_coarse_ns(void);		/* the same as of some milliseconds ago at most; cheap */
uint64_t clock_wall_ns(void);		/* CLOCK_REALTIME */
void random_fill(void *to, size_t bytes);	/* getrandom; 256 bytes at most */
uint64_t random_u64(void);

#endif
