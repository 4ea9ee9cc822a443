/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of enum values and conversions of rates: ibv_event_type_str(3), ibv_rate_to_mult(3),
 * ibv_rate_to_mbps(3). The names are those of IBTA 11.6.2 (completion statuses), 11.6.3 (events)
 * and 14.2.5.6 (port states); people search the web for them, so they are spelt as usual.
 */
#include "verbs/private.h"
#include "verbs/verbs.h"

static const char *const wc_status_names[] = {
	[IBV_WC_SUCCESS] = "success",
	[IBV_WC_LOC_LEN_ERR] = "local length error",
	[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
	[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
	[IBV_WC_LOC_PROT_ERR] = "local protection error",
	[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
	[IBV_WC_MW_BIND_ERR] = "memory window bind error",
	[IBV_WC_BAD_RESP_ERR] = "bad response error",
	[IBV_WC_LOC_ACCESS_ERR] = "local access error",
	[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
	[IBV_WC_REM_ACCESS_ERR] = "remote access error",
	[IBV_WC_REM_OP_ERR] = "remote operation error",
	[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
	[IBV_WC_REM_ABORT_ERR] = "remote aborted error",
	[IBV_WC_INV_EECN_ERR] = "invalid EE context number",
	[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
	[IBV_WC_FATAL_ERR] = "fatal error",
	[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
	[IBV_WC_GENERAL_ERR] = "general error",
	[IBV_WC_TM_ERR] = "tag matching error",
	[IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching rendezvous left to software",
};

static const char *const event_names[] = {
	[IBV_EVENT_CQ_ERR] = "CQ error",
	[IBV_EVENT_QP_FATAL] = "QP fatal error",
	[IBV_EVENT_QP_REQ_ERR] = "QP invalid request error",
	[IBV_EVENT_QP_ACCESS_ERR] = "QP access violation error",
	[IBV_EVENT_COMM_EST] = "communication established",
	[IBV_EVENT_SQ_DRAINED] = "send queue drained",
	[IBV_EVENT_PATH_MIG] = "path migrated",
	[IBV_EVENT_PATH_MIG_ERR] = "path migration error",
	[IBV_EVENT_DEVICE_FATAL] = "device fatal error",
	[IBV_EVENT_PORT_ACTIVE] = "port active",
	[IBV_EVENT_PORT_ERR] = "port error",
	[IBV_EVENT_LID_CHANGE] = "LID change",
	[IBV_EVENT_PKEY_CHANGE] = "P_Key change",
	[IBV_EVENT_SM_CHANGE] = "SM change",
	[IBV_EVENT_SRQ_ERR] = "SRQ error",
	[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
	[IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
	[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
	[IBV_EVENT_GID_CHANGE] = "GID table change",
	[IBV_EVENT_WQ_FATAL] = "WQ fatal error",
};

static const char *const port_state_names[] = {
	[IBV_PORT_NOP] = "no state change (NOP)",
	[IBV_PORT_DOWN] = "down",
	[IBV_PORT_INIT] = "init",
	[IBV_PORT_ARMED] = "armed",
	[IBV_PORT_ACTIVE] = "active",
	[IBV_PORT_ACTIVE_DEFER] = "active defer",
};

static const char *const wr_opcode_names[] = {
	[IBV_WR_RDMA_WRITE] = "rdma-write",
	[IBV_WR_RDMA_WRITE_WITH_IMM] = "rdma-write-with-imm",
	[IBV_WR_SEND] = "send",
	[IBV_WR_SEND_WITH_IMM] = "send-with-imm",
	[IBV_WR_RDMA_READ] = "rdma-read",
	[IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic-cmp-and-swp",
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic-fetch-and-add",
	[IBV_WR_LOCAL_INV] = "local-inv",
	[IBV_WR_BIND_MW] = "bind-mw",
	[IBV_WR_SEND_WITH_INV] = "send-with-inv",
	[IBV_WR_TSO] = "tso",
	[IBV_WR_DRIVER1] = "driver1",
	[14] = "flush",			/* IBV_WR_FLUSH of rdma-core 45 */
	[IBV_WR_ATOMIC_WRITE] = "atomic-write",
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

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return NAME_OF(wc_status_names, status);
}

const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	return NAME_OF(wr_opcode_names, opcode);
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

/*
 * Multiples are of 2.5 Gb/s and 0 where there is no whole one. Mb/s are those of the link after
 * its lanes' signalling rates: FDR has 14.0625 Gb/s a lane, EDR 25.78125, HDR 53.125.
 */
static const struct rate {
	enum ibv_rate rate;
	int multiple, mbps;
} rates[] = {
	{ IBV_RATE_2_5_GBPS, 1, 2500 },
	{ IBV_RATE_5_GBPS, 2, 5000 },
	{ IBV_RATE_10_GBPS, 4, 10000 },
	{ IBV_RATE_14_GBPS, 0, 14062 },
	{ IBV_RATE_20_GBPS, 8, 20000 },
	{ IBV_RATE_25_GBPS, 0, 25781 },
	{ IBV_RATE_28_GBPS, 11, 28125 },
	{ IBV_RATE_30_GBPS, 12, 30000 },
	{ IBV_RATE_40_GBPS, 16, 40000 },
	{ IBV_RATE_50_GBPS, 20, 53125 },
	{ IBV_RATE_56_GBPS, 0, 56250 },
	{ IBV_RATE_60_GBPS, 24, 60000 },
	{ IBV_RATE_80_GBPS, 32, 80000 },
	{ IBV_RATE_100_GBPS, 0, 103125 },
	{ IBV_RATE_112_GBPS, 0, 112500 },
	{ IBV_RATE_120_GBPS, 48, 120000 },
	{ IBV_RATE_168_GBPS, 0, 168750 },
	{ IBV_RATE_200_GBPS, 0, 206250 },
	{ IBV_RATE_300_GBPS, 0, 309375 },
	{ IBV_RATE_400_GBPS, 160, 425000 },
	{ IBV_RATE_600_GBPS, 240, 637500 },
	{ IBV_RATE_800_GBPS, 320, 850000 },
	{ IBV_RATE_1200_GBPS, 480, 1275000 },
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
	for (const struct rate *row = rates; row < RATES_END; row++)
		if (row->rate == rate)
			return row->mbps;
	return -1;
}

enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (const struct rate *row = rates; row < RATES_END; row++)
		if (row->mbps == mbps)
			return row->rate;
	return IBV_RATE_MAX;
}
