/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles of a context, and the reverse path of a received packet. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "device/internal.h"
#include "wire/ib_packet.h"

int hca_create_ah(struct hca_context *context, struct pd *pd, const struct ibv_ah_attr *attr,
		  struct ah **created)
{
	struct ah *ah;
	int err;

	if (context_is_dead(context, "ibv_create_ah"))
		return EIO;
	err = object_reserve(context->hca, OBJECT_AH, "ibv_create_ah");
	if (err)
		return err;
	ah = calloc(1, sizeof(*ah));
	if (!ah) {
		object_unreserve(context->hca, OBJECT_AH);
		return ENOMEM;
	}
	list_init(&ah->node);
	atomic_init(&ah->references, 1);
	ah->attr = *attr;
	err = context_resolve(context, attr, "ibv_create_ah", &ah->route);
	if (!err)	/* of whichever process there: one socket carries all */
		err = engine_open_sender(&context->hca->engine, &ah->route, 0, "ibv_create_ah");
	if (err) {
		object_unreserve(context->hca, OBJECT_AH);
		free(ah);
		return err;
	}
	object_enlist(context, &context->ahs, &ah->node);
	atomic_fetch_add(&pd->users, 1);
	ah->ibv.pd = &pd->ibv;
	*created = ah;
	return 0;
}

int hca_destroy_ah(struct hca_context *context, struct ah *ah)
{
	if (context_is_dead(context, "ibv_destroy_ah"))
		return EIO;
	object_delist(context, &ah->node);
	atomic_fetch_sub(&to_pd(ah->ibv.pd)->users, 1);
	ah_put(ah);
	object_unreserve(context->hca, OBJECT_AH);
	return 0;
}

/*
 * Source and destination of a received UD message: a GRH for IPv6; for IPv4 the IP header lies in
 * the last 20 of the 40 bytes (annex A17.4.5.2), told apart by the version field of the first.
 */
static void grh_addresses(const struct ibv_grh *grh, uint8_t source[16], uint8_t destination[16])
{
	const uint8_t *bytes = (const uint8_t *)grh;

	if (bytes[0] >> 4 == 6) {
		memcpy(source, grh->sgid.raw, 16);
		memcpy(destination, grh->dgid.raw, 16);
		return;
	}
	memset(source, 0, 16);
	source[10] = source[11] = 0xff;
	memcpy(destination, source, 16);
	memcpy(source + 12, bytes + 20 + 12, 4);
	memcpy(destination + 12, bytes + 20 + 16, 4);
}

/* Without the ECN bits: congestion that one packet met is no property of the answers. */
static uint8_t grh_traffic_class(const struct ibv_grh *grh)
{
	const uint8_t *bytes = (const uint8_t *)grh;
	uint8_t whole = bytes[0] >> 4 == 6 ? (uint8_t)(bytes[0] << 4 | bytes[1] >> 4) : bytes[21];

	return whole & (uint8_t)~ECN_BITS;
}

/* By LID: all but the GRH is in the completion. */
static int ah_attr_by_lid(struct hca_context *context, const struct port *port, const struct ibv_wc *wc,
			  const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	uint32_t index;

	memset(attr, 0, sizeof(*attr));
	attr->port_num = port->number;
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	lock_acquire(&context->hca->net.lock);
	index = gid_table_find(port, PORT_GID_IB, grh->dgid.raw);
	lock_release(&context->hca->net.lock);
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	attr->grh.sgid_index = (uint8_t)(index < port->gids ? index : 0);	/* 0: it came to a group */
	attr->grh.traffic_class = (uint8_t)(be32toh(grh->version_tclass_flow) >> 20);
	attr->grh.flow_label = be32toh(grh->version_tclass_flow) & 0xfffff;
	attr->grh.hop_limit = 0xff;
	return 0;
}

int hca_ah_attr_from_wc(struct hca_context *context, uint32_t port, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct hca *hca = context->hca;
	const uint8_t *bytes = (const uint8_t *)grh;
	uint8_t source[16], destination[16];
	enum port_gid_type type;
	const struct port *from = context_port(context, port);
	uint32_t index;

	if (!from) {
		explain_refused("ibv_init_ah_from_wc", EINVAL, "ibv_init_ah_from_wc: port %u: the device has %s",
				port, context_ports_text(context));
		return EINVAL;
	}
	if (from->ib_port)
		return ah_attr_by_lid(context, from, wc, grh, attr);
	if (!(wc->wc_flags & IBV_WC_GRH)) {
		explain_refused("ibv_init_ah_from_wc", EINVAL,
				"ibv_init_ah_from_wc: the completion has no GRH (wc_flags lacks "
				"IBV_WC_GRH): only UD receives have one");
		return EINVAL;
	}
	grh_addresses(grh, source, destination);
	/* In front of the BTH itself there is a GRH, by RoCE v1; a UDP header follows the others. */
	type = bytes[0] >> 4 == 6 && grh->next_hdr == IB_NEXT_HEADER_BTH ? PORT_GID_ROCE_V1 : PORT_GID_ROCE_V2;
	lock_acquire(&hca->net.lock);
	index = gid_table_find(from, type, destination);
	lock_release(&hca->net.lock);
	if (index == GID_TABLE_SIZE) {
		/* Sent to a multicast group: answer from the first GID of the family. */
		struct hca_gid gid;

		for (index = 1; index < GID_TABLE_SIZE; index++)
			if (!hca_query_gid(context, port, index, &gid) && gid.type == (uint32_t)type &&
			    ip_addr_is_ipv4(gid.gid.raw) == ip_addr_is_ipv4(source))
				break;
	}
	if (index == GID_TABLE_SIZE) {
		explain_refused("ibv_init_ah_from_wc", EINVAL,
				"ibv_init_ah_from_wc: the destination address of the message is "
				"not (or no longer) in the GID table of %s", from->name);
		return EINVAL;
	}
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = (uint8_t)port;
	/* wc->sl is the kind of packet (object/route.h), not a service level: sl stays 0. */
	memcpy(attr->grh.dgid.raw, source, 16);
	attr->grh.traffic_class = grh_traffic_class(grh);
	if (!ip_addr_is_ipv4(source))
		attr->grh.flow_label = be32toh(grh->version_tclass_flow) & 0xfffff;
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = 0xff;
	return 0;
}
