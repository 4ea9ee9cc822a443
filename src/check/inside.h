/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which object each thread is in a call on, for rules of threads: a slot of each thread, written by
 * it alone. More threads than slots: the others are not seen.
 */
#ifndef VERBATIM_CHECK_INSIDE_H
#define VERBATIM_CHECK_INSIDE_H

#include <stdint.h>

/* Another thread that is in a call on @object. 0: none. */
uint64_t check_inside(uint64_t object);
/* A call on @object begins: the same. */
uint64_t check_enter(uint64_t object);
void check_leave(void);

#endif
