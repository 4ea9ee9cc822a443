/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of ports (counter.def): what happened there (forward.c, link.c), what somebody set them to, what
 * rises in them by itself, by the second, and what bit errors of the cable move.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fabric/internal.h"

#define US_PER_S		UINT64_C(1000000)

struct counter_row {
	const char *name;
	uint8_t select[IN_ATTRIBUTES];	/* 1 + the bit that names it there; 0: it is not there */
};

static const struct counter_row counter_rows[COUNTERS] = {
#define COUNTER(counter, field, bits, bit, extended)                                             \
	[COUNTER_##counter] = { #field, { [IN_COUNTERS] = 1 + (bit), [IN_EXTENDED] = 1 + (extended) } },
#define EXTENDED(counter, field, extended)                                                       \
	[COUNTER_##counter] = { #field, { [IN_EXTENDED] = 1 + (extended) } },
#define DETAIL(counter, field, attribute, bit)                                                   \
	[COUNTER_##counter] = { #field, { [IN_##attribute] = 1 + (bit) } },
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
#undef DETAIL
};

/* What has risen by itself since it was looked at, in whole units. */
static void counter_rise(struct fabric_port *port, enum port_counter counter, uint64_t now_us)
{
	struct counter_rise *rise = port->rise ? &port->rise[counter] : NULL;
	uint64_t passed_us, more;

	if (!rise || !rise->per_second || now_us <= rise->since_us)
		return;
	passed_us = now_us - rise->since_us;
	more = passed_us / US_PER_S * rise->per_second +
	       passed_us % US_PER_S * rise->per_second / US_PER_S;
	if (!more)
		return;
	port->counter[counter] += more;
	/* The part of a unit that is left over goes on. */
	rise->since_us += more / rise->per_second * US_PER_S +
			  more % rise->per_second * US_PER_S / rise->per_second;
}

uint64_t port_counter_value(struct fabric *fabric, struct fabric_port *port, enum port_counter counter)
{
	bit_errors_pass(fabric, port);
	counter_rise(port, counter, fabric->now_us);
	if (counter == COUNTER_XMIT_WAIT && port->waits) {
		port->counter[counter] += fabric->now_us - port->waits_since_us;
		port->waits_since_us = fabric->now_us;
	}
	return port->counter[counter];
}

void port_counters_fold(struct fabric *fabric)
{
	if (fabric->ops.fold)
		fabric->ops.fold(fabric->context);
}

uint8_t port_counter_bit(enum port_counter counter, enum counter_attribute in)
{
	return counter_rows[counter].select[in];
}

/* ---- for the console ---- */

/* As the specification has it, or as the table: letters and digits count. */
static bool name_is(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		while (*a == '_')
			a++;
		while (*b == '_')
			b++;
		if (strncasecmp(a, b, 1))
			return false;
	}
	return !*a && !*b;
}

const char *port_counter_name(unsigned counter)
{
	return counter_rows[counter].name;
}

unsigned fabric_find_counter(const char *name)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		if (name_is(name, counter_rows[i].name) ||
		    (!strncmp(counter_rows[i].name, "port_", 5) &&
		     name_is(name, counter_rows[i].name + 5)))
			return i;
	return COUNTERS;
}

const char *fabric_counter(struct fabric *fabric, uint32_t node, uint32_t port, unsigned counter,
			   uint64_t now_us, uint64_t *value, uint64_t *per_second)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || counter >= COUNTERS)
		return NULL;
	fabric_pass(fabric, now_us);
	port_counters_fold(fabric);
	*value = port_counter_value(fabric, at, (enum port_counter)counter);
	*per_second = at->rise ? at->rise[counter].per_second : 0;
	return counter_rows[counter].name;
}

int fabric_set_counter(struct fabric *fabric, uint32_t node, uint32_t port, unsigned counter,
		       uint64_t value, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || counter >= COUNTERS)
		return EINVAL;
	fabric_pass(fabric, now_us);
	port_counters_fold(fabric);
	port_counter_value(fabric, at, (enum port_counter)counter);
	at->counter[counter] = value;
	return 0;
}

int fabric_set_rise(struct fabric *fabric, uint32_t node, uint32_t port, unsigned counter,
		    uint64_t per_second, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || counter >= COUNTERS || per_second > FABRIC_RISE_MAX)
		return EINVAL;
	if (!at->rise && !(at->rise = calloc(COUNTERS, sizeof(*at->rise))))
		return ENOMEM;
	fabric_pass(fabric, now_us);
	port_counter_value(fabric, at, (enum port_counter)counter);
	at->rise[counter] = (struct counter_rise){ .since_us = fabric->now_us,
						   .per_second = per_second };
	return 0;
}

void fabric_port_waits(struct fabric *fabric, uint32_t node, uint32_t port, bool begins, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || !(begins || at->waits))
		return;
	fabric_pass(fabric, now_us);
	port_counter_value(fabric, at, COUNTER_XMIT_WAIT);
	at->waits = begins ? at->waits + 1 : at->waits - 1;
	at->waits_since_us = fabric->now_us;
}

void fabric_port_waited(struct fabric *fabric, uint32_t node, uint32_t port, uint64_t us, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at)
		return;
	if (now_us > at->waited_us) {
		at->waited_left_us = at->waited_us ? now_us - at->waited_us : us;
		at->waited_us = now_us;
	}
	if (us > at->waited_left_us)
		us = at->waited_left_us;
	at->waited_left_us -= us;
	at->counter[COUNTER_XMIT_WAIT] += us;
}

void fabric_count_dropped(struct fabric *fabric, uint32_t node, uint32_t port, bool smp)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (at)
		at->counter[smp ? COUNTER_VL15_DROPPED : COUNTER_QP1_DROPPED]++;
}
