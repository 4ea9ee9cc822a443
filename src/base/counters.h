/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of the HCA, in its arena. This process alone reads them. Relaxed atomics: each is exact,
 * a set of them is not a snapshot.
 */
#ifndef VERBATIM_BASE_COUNTERS_H
#define VERBATIM_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

enum counter {
#define COUNTER(id, name, text) COUNTER_##id,
#include "base/counter.def"
#undef COUNTER
	COUNTER_COUNT
};

struct counters {
	_Atomic uint64_t value[COUNTER_COUNT];
};

const char *counter_name(enum counter counter);
const char *counter_text(enum counter counter);

/* Counters under the names of adapters (hardware_counter.def). */
enum hardware_counter {
#define HARDWARE(directory, name, divisor, a, b, c) HARDWARE_##name,
#include "base/hardware_counter.def"
#undef HARDWARE
	HARDWARE_COUNT
};

struct hardware_row {
	const char *directory, *name;	/* ports/1/DIRECTORY/NAME */
	unsigned divisor;		/* data is counted in words of 4 bytes (IBTA 16.1.3.5) */
	enum counter part[3];		/* COUNTER_NONE: none */
};

#define COUNTER_NONE COUNTER_COUNT

const struct hardware_row *hardware_row(enum hardware_counter which);
/* @values: by enum counter. */
uint64_t hardware_value(enum hardware_counter which, const uint64_t values[COUNTER_COUNT]);

static inline void counter_add(struct counters *counters, enum counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(&counters->value[counter], n, memory_order_relaxed);
}

static inline uint64_t counter_get(const struct counters *counters, enum counter counter)
{
	return atomic_load_explicit(&counters->value[counter], memory_order_relaxed);
}

#endif
