/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples (IBTA 16.1.3.2): what up to 15 counters of a port rise by within an interval. A node has one
 * mechanism, for one port at a time; the attribute with the result names none. A tick is 1 us, since
 * that is how time passes here. While an interval runs, a Set changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"

#define TICK_1_US	249u	/* (249 + 1) times 4 ns */
#define WIDTH_32	4u
#define SELECTS		15u
#define MANDATORY	1u	/* of CounterMask: the quantities that each agent has */
#define MASKS_1_TO_9	01111111111u
#define MASKS_10_TO_14	011111u

enum sample_status { SAMPLE_DONE, SAMPLE_STARTING, SAMPLE_RUNNING };

struct samples {
	struct ib_port_samples_control control;
	enum sample_status status;
	uint64_t begin_us, end_us;
	uint64_t before[SELECTS], after[SELECTS];
};

/* CounterSelect 1 to 5; others count nothing. */
static const enum port_counter sampled[] = {
	COUNTERS, COUNTER_XMIT_DATA, COUNTER_RCV_DATA, COUNTER_XMIT_PKTS, COUNTER_RCV_PKTS,
	COUNTER_XMIT_WAIT,
};
#define SAMPLED (sizeof(sampled) / sizeof(*sampled))

static void samples_look(struct fabric *fabric, struct fabric_node *node, uint64_t *values)
{
	const struct ib_port_samples_control *control = &node->samples->control;

	port_counters_fold(fabric);
	for (unsigned i = 0; i < SELECTS; i++)
		if (control->counter_select[i])
			values[i] = port_counter_value(fabric, &node->port[control->port_select],
						sampled[control->counter_select[i]]);
}

void samples_due(struct fabric *fabric, struct fabric_node *node)
{
	struct samples *samples = node->samples;

	if (samples->status == SAMPLE_STARTING && fabric->now_us >= samples->begin_us) {
		samples_look(fabric, node, samples->before);
		samples->status = SAMPLE_RUNNING;
	}
	if (samples->status == SAMPLE_RUNNING) {
		samples_look(fabric, node, samples->after);
		if (fabric->now_us >= samples->end_us)
			samples->status = SAMPLE_DONE;
	}
	if (samples->status != SAMPLE_DONE)
		fabric_due(fabric, samples->status == SAMPLE_STARTING ? samples->begin_us :
									   samples->end_us);
}

uint16_t samples_control(struct fabric *fabric, struct fabric_node *node, unsigned port, bool set,
			 uint8_t *data)
{
	struct ib_port_samples_control control = { 0 };

	if (set && !node->samples) {
		node->samples = calloc(1, sizeof(*node->samples));
		if (!node->samples)
			return MAD_STATUS_BUSY;
		fabric->timed++;
	}
	if (node->samples)
		samples_due(fabric, node);
	if (set && node->samples->status == SAMPLE_DONE) {
		struct samples *samples = node->samples;

		record_read(RECORD_PORT_SAMPLES_CONTROL, data, &samples->control);
		for (unsigned i = 0; i < SELECTS; i++)
			if (samples->control.counter_select[i] >= SAMPLED)
				samples->control.counter_select[i] = 0;
		memset(samples->before, 0, sizeof(samples->before));
		memset(samples->after, 0, sizeof(samples->after));
		samples->begin_us = fabric->now_us + samples->control.sample_start;
		samples->end_us = samples->begin_us + samples->control.sample_interval;
		samples->status = SAMPLE_STARTING;
		samples_due(fabric, node);
	}
	if (node->samples) {
		control = node->samples->control;
		control.sample_status = (uint8_t)node->samples->status;
	}
	control.op_code = 0;
	control.port_select = (uint8_t)port;
	control.tick = TICK_1_US;
	control.counter_width = WIDTH_32;
	control.counter_mask_0 = MANDATORY;
	control.counter_masks_1_to_9 = MASKS_1_TO_9;
	control.counter_masks_10_to_14 = MASKS_10_TO_14;
	control.sample_mechanisms = control.option_mask = control.vendor_mask = 0;
	record_write(RECORD_PORT_SAMPLES_CONTROL, &control, data);
	return 0;
}

void samples_result(struct fabric *fabric, struct fabric_node *node, uint8_t *data)
{
	struct ib_port_samples_result result = { 0 };
	const struct samples *samples = node->samples;

	if (samples) {
		samples_due(fabric, node);
		result.tag = samples->control.tag;
		result.sample_status = (uint8_t)samples->status;
		for (unsigned i = 0; i < SELECTS; i++) {
			uint64_t more = samples->after[i] - samples->before[i];

			/* A counter that was cleared meanwhile counts from there. */
			if (samples->after[i] < samples->before[i])
				more = samples->after[i];
			result.counter[i] = more < UINT32_MAX ? (uint32_t)more : UINT32_MAX;
		}
	}
	record_write(RECORD_PORT_SAMPLES_RESULT, &result, data);
}
