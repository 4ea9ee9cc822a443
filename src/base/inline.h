/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Of functions that each message passes through: fewer calls make fewer instructions, some 80 of 570
 * (bench/request_cost).
 */
#ifndef VERBATIM_BASE_INLINE_H
#define VERBATIM_BASE_INLINE_H

#define FLAT	__attribute__((flatten))	/* what it calls is inlined, and what that calls, but ... */
#define APART	__attribute__((noinline))	/* ... this, which few messages need */

#endif
