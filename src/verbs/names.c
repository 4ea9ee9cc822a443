/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of enum values and conversions of rates: ibv_event_type_str(3), ibv_rate_to_mult(3),
 * ibv_rate_to_mbps(3). The names are those of IBTA 11.6.2 (completion statuses), 11.6.3 (events)
 * and 14.2.5.6 (port states); people search the web for them, so they are spelt as usual.
 */
#include <string.h>

#include "base/link_rate.h"
#include "verbs/private.h"
#include "verbs/verbs.h"

static const char *const wc_status_names[] = {
#define WC_STATUS(constant, text) [IBV_WC_##constant] = text,
#include "verbs/name.def"
};

static const char *const event_names[] = {
#define EVENT(constant, text) [IBV_EVENT_##constant] = text,
#include "verbs/name.def"
	[EVENT_SPEED_CHANGE] = "device speed change",	/* newer than the header */
};

static const char *const port_state_names[] = {
	[IBV_PORT_NOP] = "no state change (NOP)",
	[IBV_PORT_DOWN] = "down",
	[IBV_PORT_INIT] = "init",
	[IBV_PORT_ARMED] = "armed",
	[IBV_PORT_ACTIVE] = "active",
	[IBV_PORT_ACTIVE_DEFER] = "active defer",
};

/* The constants without their prefixes. */
static const char *const wc_status_words[] = {
#define WC_STATUS(constant, text) [IBV_WC_##constant] = #constant,
#include "verbs/name.def"
};

static const char *const wc_opcode_words[] = {
#define WC_OPCODE(number, constant) [number] = #constant,
#include "verbs/name.def"
};

static const char *const event_words[] = {
#define EVENT(constant, text) [IBV_EVENT_##constant] = #constant,
#include "verbs/name.def"
	[EVENT_SPEED_CHANGE] = "DEVICE_SPEED_CHANGE",
};

static const char *const node_type_names[] = {
	[IBV_NODE_CA] = "InfiniBand channel adapter",
	[IBV_NODE_SWITCH] = "InfiniBand switch",
	[IBV_NODE_ROUTER] = "InfiniBand router",
	[IBV_NODE_RNIC] = "iWARP NIC",
	[IBV_NODE_USNIC] = "usNIC",
	[IBV_NODE_USNIC_UDP] = "usNIC UDP",
	[IBV_NODE_UNSPECIFIED] = "unspecified",
};

/* The argument may be any int: programs pass what they were sent or read. */
static const char *name_of(const char *const *names, size_t count, int value)
{
	if (value < 0 || (size_t)value >= count || !names[value])
		return "unknown";
	return names[value];
}
#define NAME_OF(names, value) name_of(names, sizeof(names) / sizeof((names)[0]), (int)(value))

const char *wc_status_word(int status)
{
	return NAME_OF(wc_status_words, status);
}

const char *wc_opcode_word(int opcode)
{
	return NAME_OF(wc_opcode_words, opcode);
}

const char *wr_opcode_word(int opcode)
{
	const struct wr_row *row = wr_row_of_name(opcode);

	return row ? row->name + strlen("IBV_WR_") : "unknown";
}

const char *event_word(int event)
{
	return NAME_OF(event_words, event);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return NAME_OF(wc_status_names, status);
}

const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	const struct wr_row *row = wr_row_of_name((int)opcode);

	return row ? row->text : "unknown";
}
PRIVATE_IN_ALL_NODES(ibv_wr_opcode_str);

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return NAME_OF(event_names, event);
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
	return NAME_OF(port_state_names, state);
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
	return NAME_OF(node_type_names, type);
}

/* Multiples are of 2.5 Gb/s and 0 where there is no whole one. */
static const struct rate {
	enum ibv_rate rate;
	int multiple;
} rates[] = {
	{ IBV_RATE_2_5_GBPS, 1 },
	{ IBV_RATE_5_GBPS, 2 },
	{ IBV_RATE_10_GBPS, 4 },
	{ IBV_RATE_14_GBPS, 0 },
	{ IBV_RATE_20_GBPS, 8 },
	{ IBV_RATE_25_GBPS, 0 },
	{ IBV_RATE_28_GBPS, 11 },
	{ IBV_RATE_30_GBPS, 12 },
	{ IBV_RATE_40_GBPS, 16 },
	{ IBV_RATE_50_GBPS, 20 },
	{ IBV_RATE_56_GBPS, 0 },
	{ IBV_RATE_60_GBPS, 24 },
	{ IBV_RATE_80_GBPS, 32 },
	{ IBV_RATE_100_GBPS, 0 },
	{ IBV_RATE_112_GBPS, 0 },
	{ IBV_RATE_120_GBPS, 48 },
	{ IBV_RATE_168_GBPS, 0 },
	{ IBV_RATE_200_GBPS, 0 },
	{ IBV_RATE_300_GBPS, 0 },
	{ IBV_RATE_400_GBPS, 160 },
	{ IBV_RATE_600_GBPS, 240 },
	{ IBV_RATE_800_GBPS, 320 },
	{ IBV_RATE_1200_GBPS, 480 },
};
#define RATES_END (rates + sizeof(rates) / sizeof(rates[0]))

int ibv_rate_to_mult(enum ibv_rate rate)
{
	for (const struct rate *row = rates; row < RATES_END; row++)
		if (row->rate == rate && row->multiple)
			return row->multiple;
	return -1;
}

enum ibv_rate mult_to_ibv_rate(int multiple)
{
	for (const struct rate *row = rates; row < RATES_END; row++)
		if (multiple && row->multiple == multiple)
			return row->rate;
	return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(enum ibv_rate rate)
{
	uint32_t mbps = link_rate_mbps((unsigned)rate);

	return mbps ? (int)mbps : -1;
}

enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (const struct rate *row = rates; row < RATES_END; row++)
		if ((int)link_rate_mbps(row->rate) == mbps)
			return row->rate;
	return IBV_RATE_MAX;
}
