/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds of what happens, and which of them somebody wants to know. */
#ifndef VERBATIM_TRACEPOINT_WANT_H
#define VERBATIM_TRACEPOINT_WANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* TRACE_PAYLOAD: and one-sided operations go as packets, to have one. */
enum trace_want {
	TRACE_PACKETS		= 1 << 0,
	TRACE_CALLS		= 1 << 1,
	TRACE_COMPLETIONS	= 1 << 2,
	TRACE_DROPS		= 1 << 3,
	TRACE_STATES		= 1 << 4,
	TRACE_CM		= 1 << 5,
	TRACE_ASYNC		= 1 << 6,
	TRACE_EXPLAIN		= 1 << 7,
	TRACE_FAULTS		= 1 << 8,
	TRACE_PAYLOAD		= 1 << 16,
	TRACE_LOG		= 1 << 17,	/* not the tracer's: VERBATIM_LOG=packet, ... */
	TRACE_FILE		= 1 << 18,	/* ... and VERBATIM_TRACE */
	TRACE_CHECK		= 1 << 19,	/* of the program's calls: check/check.h */
};
#define TRACE_KINDS 0x1ffu

/* enum trace_want; 0: nobody listens. */
extern _Atomic uint32_t trace_wanted;

static inline bool trace_wants(uint32_t what)
{
	return __builtin_expect(atomic_load_explicit(&trace_wanted, memory_order_relaxed) & what,
				0);
}

#endif
