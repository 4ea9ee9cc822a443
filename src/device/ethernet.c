/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP of type RAW_PACKET has besides: the packet socket of its interface, and the table of work queues over
 * which it spreads what it receives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"
#include "engine/steer.h"

/* Of a frame, around what the MTU of the interface counts. */
#define FRAMING	(FRAME_HEADER_BYTES + FRAME_VLAN_BYTES)

int ethernet_check(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t spread = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const struct ibv_rx_hash_conf *hash = &attr->rx_hash_conf;

	if (attr->srq) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: a RAW_PACKET QP has its own receive queue or a "
				"table of work queues: leave srq NULL");
		return EINVAL;
	}
	if (!(attr->comp_mask & spread))
		return 0;
	if ((attr->comp_mask & spread) != spread || !attr->rwq_ind_tbl) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: IBV_QP_INIT_ATTR_IND_TABLE and "
				"IBV_QP_INIT_ATTR_RX_HASH go together, with a table");
		return EINVAL;
	}
	if (hash->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || hash->rx_hash_key_len != HASH_KEY_BYTES ||
	    !hash->rx_hash_key) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: rx_hash_conf: the function must be "
				"IBV_RX_HASH_FUNC_TOEPLITZ, the key %u bytes long", HASH_KEY_BYTES);
		return EINVAL;
	}
	if (hash->rx_hash_fields_mask & ~HASH_FIELDS) {
		explain_refused("ibv_create_qp", EOPNOTSUPP,
				"ibv_create_qp: rx_hash_fields_mask 0x%llx has unknown bits",
				(unsigned long long)hash->rx_hash_fields_mask);
		return EOPNOTSUPP;
	}
	return 0;
}

int ethernet_attach(struct hca_context *context, struct qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	struct engine *engine = &context->hca->engine;
	static const uint8_t no_mac[6];
	struct netdev netdev;
	int err;

	lock_acquire(&context->hca->net.lock);
	netdev = context->port->netdev;
	lock_release(&context->hca->net.lock);
	if (!netdev.loopback && !memcmp(netdev.mac, no_mac, sizeof(no_mac))) {
		explain_refused("ibv_create_qp", EOPNOTSUPP,
				"ibv_create_qp: RAW_PACKET: %s has no Ethernet address, so its "
				"packets have no Ethernet header: use another device", netdev.name);
		return EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) {
		qp->hash = calloc(1, sizeof(*qp->hash));
		if (!qp->hash)
			return ENOMEM;
		qp->hash->table = to_rwq_table(attr->rwq_ind_tbl);
		qp->hash->fields = attr->rx_hash_conf.rx_hash_fields_mask;
		memcpy(qp->hash->key, attr->rx_hash_conf.rx_hash_key, sizeof(qp->hash->key));
	}
	qp->strips_vlan = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
			  attr->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING;
	lock_alias(&qp->lock);	/* nobody else knows it yet */
	qp->mtu = netdev.mtu + FRAMING < LIMIT_FRAME_BYTES ? netdev.mtu + FRAMING : LIMIT_FRAME_BYTES;
	lock_acquire(&engine->progress);
	err = steer_get_port(engine, netdev.index, netdev.mac, netdev.loopback, &qp->ethernet);
	lock_release(&engine->progress);
	if (err)
		free(qp->hash);
	return err;
}

void ethernet_detach(struct hca *hca, struct qp *qp)
{
	if (!qp->ethernet)
		return;
	lock_acquire(&hca->engine.progress);
	steer_put_port(&hca->engine, qp->ethernet);
	lock_release(&hca->engine.progress);
	free(qp->hash);
}

int ethernet_check_rate(uint32_t kbps, const char *call)
{
	if (kbps <= LIMIT_RATE_KBPS)
		return 0;
	explain("%s: rate limit of %u kbit/s: at most %u (qp_rate_limit_max), 0 for none", call, kbps,
		LIMIT_RATE_KBPS);
	return EINVAL;
}

int hca_pace_qp(struct qp *qp, uint32_t kbps, uint32_t burst_bytes)
{
	struct hca_context *context = qp->owner;
	struct hca *hca = context->hca;
	enum ibv_qp_state state;
	struct effects effects;

	if (context_is_dead(context, "ibv_modify_qp_rate_limit"))
		return EIO;
	if (!qp->ethernet) {
		explain_refused_of("ibv_modify_qp_rate_limit", EOPNOTSUPP, OF(QP, qp->number),
				"ibv_modify_qp_rate_limit: qp 0x%06x is of type %s: only "
				"RAW_PACKET QPs have rate limits "
			"(packet_pacing_caps)", qp->number, qp_type_name(qp->type));
		return EOPNOTSUPP;
	}
	if (ethernet_check_rate(kbps, "ibv_modify_qp_rate_limit"))
		return EINVAL;
	effects_init(&effects);
	lock_acquire(&qp->lock);
	state = qp->state;
	if (state == IBV_QPS_RTS) {
		qp->attr.rate_limit = kbps;
		transport_pace(qp, kbps, burst_bytes);
		tx_posted(&hca->engine, qp, &effects);
		return 0;
	}
	lock_release(&qp->lock);
	explain_refused_of("ibv_modify_qp_rate_limit", EINVAL, OF(QP, qp->number),
			"ibv_modify_qp_rate_limit: qp 0x%06x is in state %s: bring it to "
			"RTS first", qp->number, qp_state_name(state));
	return EINVAL;
}
