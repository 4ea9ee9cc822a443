/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of a device: ibv_query_device(3), ibv_query_port(3), ibv_query_gid(3),
 * ibv_query_pkey(3). */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"
#include "object/placement.h"
#include "object/tag_list.h"
#include "wire/tag_header.h"

/* Memory is not pinned: all of it is paged in on demand, whatever the region says. */
static void fill_odp(struct ibv_odp_caps *caps, uint32_t *xrc)
{
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t uc = ud | IBV_ODP_SUPPORT_WRITE, rc = uc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	caps->general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = *xrc = rc;
	caps->per_transport_caps.uc_odp_caps = uc;
	caps->per_transport_caps.ud_odp_caps = ud;
}

/* RAW_PACKET and what it receives in. */
static void fill_ethernet(struct ibv_device_attr_ex *attr)
{
	attr->orig_attr.max_raw_ethy_qp = attr->orig_attr.max_qp;
	attr->rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
	attr->rss_caps.max_rwq_indirection_tables = LIMIT_RWQ_TABLES;
	attr->rss_caps.max_rwq_indirection_table_size = 1u << LIMIT_RWQ_TABLE_LOG;
	attr->rss_caps.rx_hash_fields_mask = HASH_FIELDS;
	attr->rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	attr->max_wq_type_rq = LIMIT_WQ;
	attr->packet_pacing_caps.qp_rate_limit_min = 1;
	attr->packet_pacing_caps.qp_rate_limit_max = LIMIT_RATE_KBPS;
	attr->packet_pacing_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
	attr->raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM;
}

int hca_query_device(struct hca_context *context, struct ibv_device_attr_ex *attr)
{
	struct ibv_device_attr *orig = &attr->orig_attr;
	const struct config *config = &context->hca->config;

	memset(attr, 0, sizeof(*attr));
	strcpy(orig->fw_ver, VERBATIM_FIRMWARE);
	orig->node_guid = context->port->node_guid;
	orig->sys_image_guid = context->port->system_guid;
	orig->max_mr_size = UINT64_MAX;
	orig->page_size_cap = 0xfffff000;
	orig->vendor_id = VERBATIM_VENDOR;
	orig->vendor_part_id = VERBATIM_PART;
	orig->hw_ver = 1;
	orig->max_qp = (int)config->max_qp;
	orig->max_qp_wr = LIMIT_QP_WR;
	orig->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				 IBV_DEVICE_SHUTDOWN_PORT | IBV_DEVICE_PORT_ACTIVE_EVENT |
				 IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC |
				 IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_IP_CSUM;
	orig->max_sge = orig->max_sge_rd = LIMIT_SGE;
	orig->max_cq = LIMIT_CQ;
	orig->max_cqe = (int)config->max_cqe;
	orig->max_mr = orig->max_mw = (int)config->max_mr;
	orig->max_pd = LIMIT_PD;
	orig->max_qp_rd_atom = orig->max_qp_init_rd_atom = LIMIT_RD_ATOMIC;
	orig->max_res_rd_atom = LIMIT_RD_ATOMIC * orig->max_qp;
	orig->atomic_cap = IBV_ATOMIC_GLOB;	/* CPU atomics on the target's memory */
	orig->max_mcast_grp = (int)multicast_groups_max();
	orig->max_mcast_qp_attach = LIMIT_MULTICAST_QPS;
	orig->max_total_mcast_qp_attach = orig->max_mcast_grp * LIMIT_MULTICAST_QPS;
	orig->max_ah = LIMIT_AH;
	orig->max_srq = LIMIT_SRQ;
	orig->max_srq_wr = LIMIT_SRQ_WR;
	orig->max_srq_sge = LIMIT_SGE;
	orig->max_pkeys = context->port->pkeys;
	orig->phys_port_cnt = (uint8_t)context->port_count;
	attr->device_cap_flags_ex = orig->device_cap_flags | DEVICE_FLUSH_GLOBAL | DEVICE_ATOMIC_WRITE;
	if (!context->port->ib_port)
		fill_ethernet(attr);
	attr->tm_caps.max_rndv_hdr_size = TAG_RENDEZVOUS_MAX;
	attr->tm_caps.max_num_tags = LIMIT_TAGS;
	attr->tm_caps.max_ops = LIMIT_TAG_OPS;
	attr->tm_caps.max_sge = TAG_SGE_MAX;
	attr->tm_caps.flags = IBV_TM_CAP_RC;
	fill_odp(&attr->odp_caps, &attr->xrc_odp_caps);
	attr->completion_timestamp_mask = UINT64_MAX;
	attr->hca_core_clock = 1000000;	/* kHz: timestamps are nanoseconds */
	attr->phys_port_cnt_ex = context->port_count;
	attr->max_dm_size = LIMIT_DM_BYTES;
	attr->cq_mod_caps.max_cq_count = attr->cq_mod_caps.max_cq_period = UINT16_MAX;
	return 0;
}

#define SPEED_NDR	128u		/* 100 Gb/s a lane */
#define SPEED_XDR	256u

/*
 * Speed and width codes of ibv_query_port(3) nearest to what the interface does. Returns the code for
 * active_speed_ex (rdma-core 49): one above NDR does not fit into active_speed.
 */
static uint32_t set_speed(struct ibv_port_attr *attr, uint32_t gbps)
{
	static const struct { uint32_t gbps; uint8_t width; uint16_t speed; } rows[] = {
		{ 2, 1, 1 }, { 5, 1, 2 }, { 10, 1, 4 }, { 14, 1, 16 }, { 25, 1, 32 }, { 40, 2, 4 },
		{ 50, 1, 64 }, { 56, 2, 16 }, { 100, 2, 32 }, { 200, 2, 64 }, { 400, 4, 64 },
		{ 800, 2, SPEED_XDR },
	};
	unsigned i = 0;

	while (i + 1 < sizeof(rows) / sizeof(rows[0]) && rows[i + 1].gbps <= gbps)
		i++;
	attr->active_width = rows[i].width;
	attr->active_speed = (uint8_t)(rows[i].speed > SPEED_NDR ? SPEED_NDR : rows[i].speed);
	return rows[i].speed;
}

/* NULL, explained: the device has no such port. */
static struct port *query_port(const struct hca_context *context, const char *call, uint32_t number)
{
	struct port *port = context_port(context, number);

	if (!port)
		explain("%s: port %u: the device has %s", call, number, context_ports_text(context));
	return port;
}

static void query_state(struct hca *hca, const struct port *port, struct port_state *state)
{
	lock_acquire(&hca->net.lock);
	port_query(port, state);
	lock_release(&hca->net.lock);
}

int hca_query_port_speed(struct hca_context *context, uint32_t number, uint64_t *speed)
{
	const struct port *port = query_port(context, "ibv_query_port_speed", number);
	struct port_state state;

	if (!port)
		return EINVAL;
	query_state(context->hca, port, &state);
	*speed = state.speed_mbps / 100;
	return 0;
}

int hca_query_port(struct hca_context *context, uint32_t number, struct ibv_port_attr *attr, uint32_t *speed)
{
	const struct port *port = query_port(context, "ibv_query_port", number);
	struct port_state state;
	uint32_t code;

	if (!port)
		return EINVAL;
	query_state(context->hca, port, &state);
	memset(attr, 0, sizeof(*attr));
	attr->state = state.state;
	attr->phys_state = state.physical;
	attr->max_mtu = state.mtu_max;
	attr->active_mtu = state.mtu;
	code = state.speed;
	if (state.width) {
		attr->active_width = state.width;
		attr->active_speed = (uint8_t)(code > SPEED_NDR ? SPEED_NDR : code);
	} else {
		code = set_speed(attr, state.speed_mbps / 1000);
	}
	if (speed)
		*speed = code;
	attr->gid_tbl_len = port->gids;
	attr->port_cap_flags = state.capabilities;
	attr->port_cap_flags2 = state.capabilities2;
	attr->max_msg_sz = MESSAGE_BYTES_MAX;
	attr->pkey_tbl_len = port->pkeys;
	attr->lid = state.lid;
	attr->sm_lid = state.sm_lid;
	attr->lmc = state.lmc;
	attr->sm_sl = state.sm_sl;
	attr->subnet_timeout = state.subnet_timeout;
	attr->init_type_reply = state.init_type_reply;
	attr->bad_pkey_cntr = state.pkey_violations;
	attr->qkey_viol_cntr = state.qkey_violations;
	attr->max_vl_num = state.vls;
	attr->link_layer = state.link_layer;
	attr->flags = state.needs_grh ? IBV_QPF_GRH_REQUIRED : 0;
	return 0;
}

int hca_query_pkey(struct hca_context *context, uint32_t number, int index, __be16 *pkey)
{
	const struct port *port = context_port(context, number);

	if (!port || index < 0 || index >= port->pkeys) {
		explain_refused("ibv_query_pkey", EINVAL,
				"ibv_query_pkey: port %u index %d: there is %s, %s", number, index,
				context->port_count == 1 ? "port 1" : "ports 1 and 2",
				(port ? port : context->port)->pkeys == 1 ? "index 0 only" : "and fewer P_Keys");
		return EINVAL;
	}
	*pkey = htobe16(context_pkey(context, number, (uint32_t)index));
	return 0;
}

int hca_query_gid(struct hca_context *context, uint32_t number, uint32_t index, struct hca_gid *gid)
{
	const struct port *port = context_port(context, number);
	struct hca *hca = context->hca;
	const struct gid_entry *entry;
	int err = 0;

	if (!port || index >= port->gids) {
		explain_refused("ibv_query_gid", EINVAL,
				"ibv_query_gid: port %u index %u: there is %s, indices 0 to %u", number, index,
				context->port_count == 1 ? "port 1" : "ports 1 and 2",
				(port ? port : context->port)->gids - 1u);
		return EINVAL;
	}
	lock_acquire(&hca->net.lock);
	entry = gid_table_get(port, index);
	if (entry) {
		gid->gid = entry->gid;
		gid->index = index;
		gid->type = entry->type;
		gid->interface_index = port->interface_index;
	} else {
		err = ENODATA;
	}
	lock_release(&hca->net.lock);
	return err;
}
