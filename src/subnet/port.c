/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of a virtual fabric as those of a device (net/port.h): what ibv_query_port(3) says, and the
 * routes that leave them, by LID, with a GRH where the address handle asks for one.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "net/net.h"
#include "subnet/internal.h"
#include "wire/smp.h"

struct subnet_port {
	struct port port;    /* first */
	struct ctl_port now; /* under net->lock */
};

static void subnet_port_query(const struct port *port, struct port_state *state)
{
	const struct ctl_port *now = &((const struct subnet_port *)port)->now;

	*state = (struct port_state){
		.state = (enum ibv_port_state)now->state,
		.physical = (uint8_t)now->phys_state,
		.mtu = (enum ibv_mtu)now->mtu_active,
		.mtu_max = (enum ibv_mtu)now->mtu_cap,
		.speed_mbps = now->rate_mbps,
		.width = (uint8_t)now->active_width,
		.speed = now->active_speed_ex ? now->active_speed_ex : now->active_speed,
		.vls = (uint8_t)now->vl_cap,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.capabilities = now->cap_mask,
		.capabilities2 = (uint16_t)now->cap_mask2,
		.lid = (uint16_t)now->lid,
		.sm_lid = (uint16_t)now->sm_lid,
		.lmc = (uint8_t)now->lmc,
		.sm_sl = (uint8_t)now->sm_sl,
		.subnet_timeout = (uint8_t)now->subnet_timeout,
		.init_type_reply = (uint8_t)now->init_type_reply,
		.pkey_violations = now->pkey_violations,
		.qkey_violations = now->qkey_violations,
	};
}

/* ---- routes ---- */

static int check_lid(const struct port *port, const struct ibv_ah_attr *attr, const char *who)
{
	if (!attr->dlid) {
		explain_refused(who, EINVAL,
				"%s: ah_attr.dlid is 0: on InfiniBand packets travel by LID%s: set it to the "
				"peer's, which ibv_query_port there says (lid); if that is 0, too, no SM has "
				"given it one: is opensm running? (verbatim fabric FILE --sm)",
				who, attr->is_global ? ", those with a GRH, too" : "");
		return EINVAL;
	}
	if (attr->dlid == LID_PERMISSIVE || (lid_is_multicast(attr->dlid) && !attr->is_global)) {
		explain_refused(who, EINVAL, "%s: ah_attr.dlid 0x%04x: %s", who, attr->dlid,
				attr->dlid == LID_PERMISSIVE
					? "the permissive LID is of directed SMPs alone"
					: "the LID of a multicast group: its packets have a GRH: set "
					  "is_global 1 and grh.dgid to the MGID");
		return EINVAL;
	}
	return 0;
}

static int check_grh(const struct port *port, const struct ibv_ah_attr *attr, const char *who)
{
	const uint8_t *dgid = attr->grh.dgid.raw;
	char text[INET6_ADDRSTRLEN];

	if (!gid_table_get(port, attr->grh.sgid_index)) {
		explain_refused(who, EINVAL,
				"%s: grh.sgid_index %u is empty on %s port %u: an InfiniBand port has its GID "
				"at index 0; others than that are of RoCE (ibv_devinfo -v lists them)",
				who, attr->grh.sgid_index, port->name, port->number);
		return EINVAL;
	}
	if (ip_addr_is_zero(dgid) || ip_addr_is_ipv4(dgid)) {
		explain_refused(who, EINVAL,
				"%s: grh.dgid %s is no GID of InfiniBand, which is prefix and port GUID: set "
				"it to the peer's (ibv_query_gid there, index 0), or is_global to 0",
				who, inet_ntop(AF_INET6, dgid, text, sizeof(text)));
		return EINVAL;
	}
	if (ip_addr_is_multicast(dgid) != lid_is_multicast(attr->dlid)) {
		explain_refused(who, EINVAL,
				"%s: grh.dgid %s and ah_attr.dlid 0x%04x: one is of a multicast group and the "
				"other is not: both are in the SA's MCMemberRecord",
				who, inet_ntop(AF_INET6, dgid, text, sizeof(text)), attr->dlid);
		return EINVAL;
	}
	return 0;
}

static int subnet_resolve(struct net *net, const struct port *port, const struct ibv_ah_attr *attr,
			  const char *who, struct route *route)
{
	const struct ctl_port *now = &((const struct subnet_port *)port)->now;
	struct route found = { .link = ROUTE_IB,
			       .port = port->number,
			       .ib = { .port = port->ib_port,
				       .lid = attr->dlid,
				       .path_bits = attr->src_path_bits & 0x7f,
				       .sl = attr->sl & 0xf,
				       .has_grh = attr->is_global } };
	uint32_t mbps = link_rate_mbps(attr->static_rate);
	int err = check_lid(port, attr, who);

	lock_acquire(&net->lock);
	/* What the port could do anyhow limits nothing; what is no rate mlx5 refuses, too. */
	found.ib.static_rate = mbps && mbps < now->rate_mbps ? attr->static_rate : 0;
	if (!err && !mbps && attr->static_rate != IBV_RATE_MAX) {
		explain_refused(who, EINVAL,
				"%s: ah_attr.static_rate %u is no rate (enum ibv_rate: %u is 2.5 Gb/s): set it to "
				"that of the path, which the PathRecord says (rate), or to 0, as fast as %s "
				"port %u",
				who, attr->static_rate, IBV_RATE_2_5_GBPS, port->name, port->number);
		err = EINVAL;
	}
	if (!err && attr->is_global)
		err = check_grh(port, attr, who);
	if (!err && attr->is_global) {
		memcpy(found.source, gid_table_get(port, attr->grh.sgid_index)->gid.raw,
		       sizeof(found.source));
		memcpy(found.destination, attr->grh.dgid.raw, sizeof(found.destination));
		found.traffic_class = attr->grh.traffic_class;
		found.flow_label = attr->grh.flow_label & 0xfffff;
		found.hop_limit = attr->grh.hop_limit;
	} else {
		ip_addr_of_lid(found.destination, attr->dlid);
	}
	if (!err && now->state != PORT_STATE_ACTIVE)
		explain_about(
			who, OF_NOTHING,
			"%s: port %u of %s is not Active (ibstat): nothing leaves it before an SM has made it "
			"so: is opensm running, and the cable plugged? (verbatim fabric FILE --sm)",
			who, port->number, port->name);
	lock_release(&net->lock);
	if (!err)
		*route = found;
	return err;
}

static void subnet_port_free(struct port *port)
{
	free(port);
}

static const struct port_ops subnet_port_ops = {
	.query = subnet_port_query,
	.resolve = subnet_resolve,
	.free = subnet_port_free,
};

bool subnet_port_is(const struct port *port)
{
	return port->ops == &subnet_port_ops;
}

/* ---- making them ---- */

void subnet_port_take(struct port *port, const struct ctl_port *now)
{
	((struct subnet_port *)port)->now = *now;
	for (unsigned i = 0; i < port->gids; i++) {
		struct gid_entry *entry = &port->gid[i];

		memcpy(entry->gid.raw, now->gid[i], sizeof(entry->gid.raw));
		memcpy(entry->address, now->gid[i], sizeof(entry->address));
		entry->valid = !ip_addr_is_zero(now->gid[i]);
		entry->type = PORT_GID_IB;
	}
	for (unsigned i = 0; i < port->pkeys; i++)
		atomic_store(&port->pkey[i], now->pkey[i]);
}

static struct port *subnet_port_new(const struct net *net, const struct ctl_port *now)
{
	struct subnet_port *made = calloc(1, sizeof(*made));
	struct port *port = &made->port;

	if (!made)
		return NULL;
	port->ops = &subnet_port_ops;
	port->config = net->config;
	port->number = (uint8_t)now->number;
	port->ib_port = IB_WAY_PORT(now->hca, now->number);
	memcpy(port->name, now->device, sizeof(now->device));
	port->guid = htobe64(now->guid);
	port->node_guid = htobe64(now->node_guid);
	port->system_guid = htobe64(now->system_guid);
	port->gids = (uint16_t)now->gids;
	port->pkeys = (uint16_t)now->pkeys;
	subnet_port_take(port, now);
	return port;
}

int subnet_make_ports(void *owner, struct net *net, const char *name, struct port *ports[PORTS_MAX],
		      unsigned *count)
{
	struct subnet *subnet = owner;
	unsigned made = 0;
	int err = 0;

	lock_acquire(&subnet->lock);
	for (uint32_t number = 1; !err && number <= PORTS_MAX; number++)
		for (unsigned i = 0; i < subnet->end_count; i++) {
			const struct ctl_port *now = &subnet->end[i].now;

			if (now->number != number || strcmp(now->device, name) ||
			    made != number - 1)
				continue;
			ports[made] = subnet_port_new(net, now);
			if (ports[made])
				made++;
			else
				err = ENOMEM;
			break;
		}
	lock_release(&subnet->lock);
	if (err)
		while (made)
			free(ports[--made]);
	*count = made;
	return err ? err : made ? 0 : ENODEV;
}
