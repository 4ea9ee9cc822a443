/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Performance management of every node (IBTA 16.1): a Get or Set of class 4 to QP1 becomes its
 * answer, of counters (counter.c). Port 255 is all ports: the sum of what a switch has.
 * What is not served is answered so: a silence would cost who asks its whole timeout.
 */
#include <string.h>

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
#define DETAILS			4u	/* where counters begin in the attributes of details */

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
			sum[i] += port_counter_value(fabric, &node->port[port], (enum port_counter)i);
}

/* Those whose bit is set in @select. */
static void pma_clear(struct fabric *fabric, struct fabric_node *node, unsigned first,
		      unsigned last, uint64_t select, enum counter_attribute in)
{
	for (unsigned port = first; port <= last; port++)
		for (unsigned i = 0; i < COUNTERS; i++) {
			unsigned bit = port_counter_bit((enum port_counter)i, in);

			if (!bit || !(select >> (bit - 1) & 1))
				continue;
			port_counter_value(fabric, &node->port[port], (enum port_counter)i);
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
			  (uint64_t)counters.counter_select_2 << SELECT_2, IN_COUNTERS);
	pma_sum(fabric, node, first, last, sum);
#define COUNTER(counter, field, bits, select, extended)                                          \
	counters.field = (__typeof__(counters.field))pma_saturated(sum[COUNTER_##counter], bits);
#define EXTENDED(counter, field, extended)
#define DETAIL(counter, field, attribute, bit)
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
#undef DETAIL
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
			  (uint64_t)counters.counter_select_2 << EXTENDED_SELECT_2,
			  IN_EXTENDED);
	pma_sum(fabric, node, first, last, sum);
#define COUNTER(counter, field, bits, select, extended) counters.field = sum[COUNTER_##counter];
#define EXTENDED(counter, field, extended) counters.field = sum[COUNTER_##counter];
#define DETAIL(counter, field, attribute, bit)
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
#undef DETAIL
	record_write(RECORD_PORT_COUNTERS_EXT, &counters, data);
	return 0;
}

/* PortRcvErrorDetails and PortXmitDiscardDetails: PortSelect, CounterSelect, a row of 16 bits each. */
static uint16_t pma_details(struct fabric *fabric, struct fabric_node *node, unsigned own, bool set,
			    uint8_t *data, enum counter_attribute in, enum record record)
{
	unsigned first, last, select = data[1];
	uint64_t sum[COUNTERS];

	if (!pma_ports(node, own, select, &first, &last))
		return MAD_STATUS_BAD_FIELD;
	if (set)
		pma_clear(fabric, node, first, last, get_be16(data + 2), in);
	pma_sum(fabric, node, first, last, sum);
	memset(data + DETAILS, 0, record_layout(record)->bytes - DETAILS);
	for (unsigned i = 0; i < COUNTERS; i++) {
		unsigned bit = port_counter_bit((enum port_counter)i, in);

		if (bit)
			put_be16(data + DETAILS + 2 * (bit - 1), (uint16_t)pma_saturated(sum[i], 16));
	}
	return 0;
}

static uint16_t pma_rcv_error_details(struct fabric *fabric, struct fabric_node *node, unsigned own,
				      bool set, uint8_t *data)
{
	return pma_details(fabric, node, own, set, data, IN_RCV_ERROR,
			   RECORD_PORT_RCV_ERROR_DETAILS);
}

static uint16_t pma_xmit_discard_details(struct fabric *fabric, struct fabric_node *node,
					 unsigned own, bool set, uint8_t *data)
{
	return pma_details(fabric, node, own, set, data, IN_XMIT_DISCARD,
			   RECORD_PORT_XMIT_DISCARD_DETAILS);
}

/* Of one port: there is no sum of samples. */
static uint16_t pma_samples_control(struct fabric *fabric, struct fabric_node *node, unsigned own,
				    bool set, uint8_t *data)
{
	unsigned first, last;

	if (data[1] == ALL_PORTS || !pma_ports(node, own, data[1], &first, &last))
		return MAD_STATUS_BAD_FIELD;
	return samples_control(fabric, node, first, set, data);
}

/* It names no port: the one that was sampled last. */
static uint16_t pma_samples_result(struct fabric *fabric, struct fabric_node *node, unsigned own,
				   bool set, uint8_t *data)
{
	if (set)
		return MAD_STATUS_BAD_ATTRIBUTE;
	samples_result(fabric, node, data);
	return 0;
}

static const struct pma_row {
	uint16_t attribute;
	uint16_t (*handler)(struct fabric *fabric, struct fabric_node *node, unsigned own, bool set,
			    uint8_t *data);
} pma_rows[] = {
	{ 0x0001, pma_class_port_info },
	{ 0x0010, pma_samples_control },
	{ 0x0011, pma_samples_result },
	{ 0x0012, pma_port_counters },
	{ 0x0015, pma_rcv_error_details },
	{ 0x0016, pma_xmit_discard_details },
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
	port_counters_fold(fabric);
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
