/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Performance management of every node (IBTA 16.1): a Get or Set of class 4 to QP1 becomes its
 * answer. Counters are what happened at a port (forward.c, link.c), what somebody set them to, and
 * what rises in them by itself, by the second. Port 255 is all ports: the sum of what a switch has.
 * What is not served is answered so: a silence would cost who asks its whole timeout.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "fabric/internal.h"

#define ALL_PORTS		255u
#define EXTENDED_SELECT_2	32u	/* where CounterSelect2 begins in the table */
#define SELECT_2		16u
#define CAP_ALL_PORTS		0x0100u
#define CAP_EXTENDED_WIDTH	0x0200u
#define CAP_XMIT_WAIT		0x1000u
#define CAP_QP1_DROPPED		0x8000u
#define CAP2_ERRORS_64		0x00000002u	/* error counters in PortCountersExtended */
#define RESPONSE_TIME		16u
#define US_PER_S		UINT64_C(1000000)

struct counter_row {
	const char *name;
	uint8_t bits, select, extended;
};

static const struct counter_row counter_rows[COUNTERS] = {
#define COUNTER(counter, field, bits, select, extended)                                          \
	[COUNTER_##counter] = { #field, bits, select, extended },
#define EXTENDED(counter, field, extended) [COUNTER_##counter] = { #field, 0, 0, extended },
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
};

/* ---- counting ---- */

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

/* What was counted elsewhere. */
static void pma_fold(struct fabric *fabric)
{
	if (fabric->ops.fold)
		fabric->ops.fold(fabric->context);
}

static uint64_t pma_counter(struct fabric *fabric, struct fabric_port *port,
			    enum port_counter counter)
{
	counter_rise(port, counter, fabric->now_us);
	return port->counter[counter];
}

/* ---- who is meant ---- */

/* False: there is no such port. One port, or with 255 all. */
static bool pma_ports(const struct fabric_node *node, unsigned own, unsigned select,
		      unsigned *first, unsigned *last)
{
	if (select == ALL_PORTS) {
		*first = node_is_switch(node) ? 0 : own;
		*last = node_is_switch(node) ? node->ports : own;
		return true;
	}
	*first = *last = select;
	return node_is_switch(node) ? select <= node->ports : select == own;
}

static void pma_sum(struct fabric *fabric, struct fabric_node *node, unsigned first, unsigned last,
		    uint64_t sum[COUNTERS])
{
	memset(sum, 0, COUNTERS * sizeof(*sum));
	for (unsigned port = first; port <= last; port++)
		for (unsigned i = 0; i < COUNTERS; i++)
			sum[i] += pma_counter(fabric, &node->port[port], (enum port_counter)i);
}

/* Those whose bit is set in @select. */
static void pma_clear(struct fabric *fabric, struct fabric_node *node, unsigned first,
		      unsigned last, uint64_t select, bool extended)
{
	for (unsigned port = first; port <= last; port++)
		for (unsigned i = 0; i < COUNTERS; i++) {
			const struct counter_row *row = &counter_rows[i];

			if ((!extended && !row->bits) ||
			    !(select >> (extended ? row->extended : row->select) & 1))
				continue;
			pma_counter(fabric, &node->port[port], (enum port_counter)i);
			node->port[port].counter[i] = 0;
		}
}

static uint64_t pma_saturated(uint64_t value, unsigned bits)
{
	uint64_t most = (UINT64_C(1) << bits) - 1;

	return value < most ? value : most;
}

/* ---- attributes ---- */

static uint16_t pma_class_port_info(struct fabric *fabric, struct fabric_node *node, unsigned own,
				    bool set, uint8_t *data)
{
	const struct ib_class_port_info info = {
		.base_version = 1, .class_version = 1,
		.capability_mask = CAP_ALL_PORTS | CAP_EXTENDED_WIDTH | CAP_XMIT_WAIT |
				   CAP_QP1_DROPPED,
		.capability_mask_2 = CAP2_ERRORS_64, .resp_time_value = RESPONSE_TIME,
	};

	record_write(RECORD_CLASS_PORT_INFO, &info, data);
	return set ? MAD_STATUS_BAD_ATTRIBUTE : 0;
}

static uint16_t pma_port_counters(struct fabric *fabric, struct fabric_node *node, unsigned own,
				  bool set, uint8_t *data)
{
	struct ib_port_counters counters;
	uint64_t sum[COUNTERS];
	unsigned first, last;

	record_read(RECORD_PORT_COUNTERS, data, &counters);
	if (!pma_ports(node, own, counters.port_select, &first, &last))
		return MAD_STATUS_BAD_FIELD;
	if (set)
		pma_clear(fabric, node, first, last, counters.counter_select |
			  (uint64_t)counters.counter_select_2 << SELECT_2, false);
	pma_sum(fabric, node, first, last, sum);
#define COUNTER(counter, field, bits, select, extended)                                          \
	counters.field = (__typeof__(counters.field))pma_saturated(sum[COUNTER_##counter], bits);
#define EXTENDED(counter, field, extended)
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
	record_write(RECORD_PORT_COUNTERS, &counters, data);
	return 0;
}

static uint16_t pma_port_counters_extended(struct fabric *fabric, struct fabric_node *node,
					   unsigned own, bool set, uint8_t *data)
{
	struct ib_port_counters_ext counters;
	uint64_t sum[COUNTERS];
	unsigned first, last;

	record_read(RECORD_PORT_COUNTERS_EXT, data, &counters);
	if (!pma_ports(node, own, counters.port_select, &first, &last))
		return MAD_STATUS_BAD_FIELD;
	if (set)
		pma_clear(fabric, node, first, last, (counters.counter_select & 0xff) |
			  (uint64_t)counters.counter_select_2 << EXTENDED_SELECT_2, true);
	pma_sum(fabric, node, first, last, sum);
#define COUNTER(counter, field, bits, select, extended) counters.field = sum[COUNTER_##counter];
#define EXTENDED(counter, field, extended) counters.field = sum[COUNTER_##counter];
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
	record_write(RECORD_PORT_COUNTERS_EXT, &counters, data);
	return 0;
}

static const struct pma_row {
	uint16_t attribute;
	uint16_t (*handler)(struct fabric *fabric, struct fabric_node *node, unsigned own, bool set,
			    uint8_t *data);
} pma_rows[] = {
	{ 0x0001, pma_class_port_info },
	{ 0x0012, pma_port_counters },
	{ 0x001d, pma_port_counters_extended },
};

static uint16_t pma_status(struct fabric *fabric, uint32_t node, unsigned port, uint8_t *mad)
{
	if (mad[0] != MAD_BASE_VERSION || mad[2] != 1)
		return MAD_STATUS_BAD_VERSION;
	for (unsigned i = 0; i < sizeof(pma_rows) / sizeof(*pma_rows); i++)
		if (pma_rows[i].attribute == get_be16(mad + 16))
			return pma_rows[i].handler(fabric, &fabric->node[node], port,
						   mad[3] == MAD_METHOD_SET, mad + SMP_DATA);
	return MAD_STATUS_BAD_ATTRIBUTE;
}

bool pma_receive(struct fabric *fabric, const struct flight *flight, unsigned port,
		 struct flight *answer)
{
	if (flight->mad[1] != MAD_CLASS_PERFORMANCE || flight->dlid >= LID_MULTICAST ||
	    (flight->mad[3] != MAD_METHOD_GET && flight->mad[3] != MAD_METHOD_SET))
		return false;
	pma_fold(fabric);
	*answer = *flight;
	put_be16(answer->mad + SMP_STATUS, pma_status(fabric, flight->node, port, answer->mad));
	answer->mad[3] = MAD_METHOD_GET_RESPONSE;
	answer->port = port;
	answer->from_sma = true;
	answer->from_program = false;
	answer->hops = 0;
	answer->slid = flight->dlid;
	answer->dlid = flight->slid;
	answer->source_qpn = 1;
	answer->dest_qpn = flight->source_qpn;
	memcpy(answer->grh.sgid, flight->grh.dgid, sizeof(answer->grh.sgid));
	memcpy(answer->grh.dgid, flight->grh.sgid, sizeof(answer->grh.dgid));
	fabric->statistics.gmps++;
	return true;
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
	pma_fold(fabric);
	*value = pma_counter(fabric, at, (enum port_counter)counter);
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
	pma_fold(fabric);
	pma_counter(fabric, at, (enum port_counter)counter);
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
	pma_counter(fabric, at, (enum port_counter)counter);
	at->rise[counter] = (struct counter_rise){ .since_us = fabric->now_us,
						   .per_second = per_second };
	return 0;
}
