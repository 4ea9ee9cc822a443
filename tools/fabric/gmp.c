/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP1 of the programs whose QPs are at HCAs of the fabric: what a kernel's ib_mad, ib_cm and ib_sa do
 * for them. A MAD comes as a packet of data, and goes its way as any MAD; one that arrives joins the
 * queue of its program, as a packet.
 *
 *	connection management	answers: by the slot in the communication ID (wire/cm_message.h)
 *				requests: by the claim on their service ID, at this host
 *				for nobody: refused, as by a host where nobody listens
 *	subnet administration	answers: by the upper half of the transaction ID, which we write
 *
 * Claims on service IDs are a host's: two hosts may serve the same one. Requests to one that is
 * claimed and not yet served are lost: they are repeated.
 *
 * What a program joins by subnet administration is the port's: several programs are one member. It leaves
 * when the last of them does, or is killed.
 *
 * And the addresses of ports: what ARP would find.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "fabric/data.h"
#include "wire/cm_message.h"
#include "wire/ib_packet.h"
#include "wire/opcode.h"
#include "wire/packet.h"
#include "wire/sa.h"
#include "wire/smp.h"

#define TID_OF_SLOT	0x80000000u	/* agents have lower ones */
#define TID_OF_NOBODY	(TID_OF_SLOT | (SLOT_COUNT - 1))

/* A claim on a service ID. */
struct gmp_claim {
	struct list of_host, of_attached;
	struct visitor *visitor;
	uint64_t id;
	uint32_t node, port;		/* FABRIC_NONE: all ports of the host */
	uint32_t family;		/* of all ports: 4, 6; 0: any address */
	uint8_t ip[16];			/* zero: the port's GID was named */
	bool serving;
};

/* A program's membership in a group, which the subnet manager has granted. */
struct gmp_member {
	struct list of_attached;
	uint32_t node, port;
	uint16_t lid;			/* of the manager, as it was asked */
	uint8_t sl, join_state;
	uint8_t mgid[16], port_gid[16];
};

/* ---- memberships ---- */

/* Has a program at the port joined so, but for this one? */
static bool member_elsewhere(const struct attached *attached, const struct gmp_member *wanted)
{
	struct list *at, *of;

	list_for_each(at, &attached->host->attached) {
		const struct attached *other = list_entry(at, struct attached, node);

		if (other == attached)
			continue;
		list_for_each(of, &other->member) {
			const struct gmp_member *member = list_entry(of, struct gmp_member, of_attached);

			if (member->node == wanted->node && member->port == wanted->port &&
			    member->join_state & wanted->join_state &&
			    !memcmp(member->mgid, wanted->mgid, sizeof(member->mgid)))
				return true;
		}
	}
	return false;
}

static struct gmp_member *member_find(const struct attached *attached, const struct data_port *port,
				      const uint8_t mgid[16])
{
	struct list *at;

	list_for_each(at, &attached->member) {
		struct gmp_member *member = list_entry(at, struct gmp_member, of_attached);

		if (member->node == port->node && member->port == port->last.number &&
		    !memcmp(member->mgid, mgid, sizeof(member->mgid)))
			return member;
	}
	return NULL;
}

static void member_free(struct attached *attached, struct gmp_member *member)
{
	list_remove(&member->of_attached);
	attached->members--;
	free(member);
}

static bool is_member_record(const uint8_t mad[MAD_BYTES])
{
	return mad[1] == MAD_CLASS_ADMINISTRATION &&
	       get_be16(mad + 16) == record_layout(RECORD_MC_MEMBER_RECORD)->attribute;
}

/* The manager, and nobody else, has answered a join: the program is a member. */
static void member_granted(struct room *room, struct attached *attached,
			   const struct data_port *port, const uint8_t mad[MAD_BYTES],
			   const struct fabric_address *from)
{
	struct ib_mc_member_record record;
	struct fabric_port_info info;
	struct gmp_member *member;

	if (!is_member_record(mad) || mad[3] != MAD_METHOD_GET_RESPONSE || get_be16(mad + 4) ||
	    !fabric_port_info(room->fabric, port->node, port->last.number, &info) ||
	    from->lid != info.sm_lid)
		return;
	record_read(RECORD_MC_MEMBER_RECORD, mad + SA_RECORD, &record);
	if (!record.join_state || memcmp(record.port_gid, port->last.gid[0], sizeof(record.port_gid)))
		return;			/* what somebody wanted to know */
	member = member_find(attached, port, record.mgid);
	if (!member && attached->members < CTL_GROUPS_MAX)
		member = calloc(1, sizeof(*member));
	if (!member)
		return;
	if (!member->of_attached.next) {
		list_add_tail(&attached->member, &member->of_attached);
		attached->members++;
	}
	member->node = port->node;
	member->port = port->last.number;
	member->lid = from->lid;
	member->sl = from->sl;
	member->join_state |= record.join_state;
	memcpy(member->mgid, record.mgid, sizeof(member->mgid));
	memcpy(member->port_gid, record.port_gid, sizeof(member->port_gid));
}

/* The row of the port's table for the default partition, as a member of which it asks. */
static uint16_t member_pkey_index(const struct room *room, uint32_t node, uint32_t port)
{
	for (unsigned i = 0; i < CTL_PKEYS_MAX; i++)
		if ((fabric_pkey(room->fabric, node, port, i) & ~PKEY_FULL) == (PKEY_DEFAULT & ~PKEY_FULL))
			return (uint16_t)i;
	return 0;
}

/* In the name of a program that is gone; nobody waits for the answer. */
static void member_leave(struct room *room, const struct gmp_member *member)
{
	const struct fabric_address to = { .lid = member->lid, .sl = member->sl, .qpn = QPN_GSI,
					   .qkey = QKEY_GSI,
					   .pkey_index = member_pkey_index(room, member->node, member->port) };
	struct ib_mc_member_record record = { .join_state = member->join_state };
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION, .class = MAD_CLASS_ADMINISTRATION,
		.class_version = SA_CLASS_VERSION, .method = MAD_METHOD_DELETE,
		.transaction_id = (uint64_t)TID_OF_NOBODY << 32 | 1,
		.attribute_id = record_layout(RECORD_MC_MEMBER_RECORD)->attribute,
	};
	uint8_t mad[MAD_BYTES] = { 0 };

	memcpy(record.mgid, member->mgid, sizeof(record.mgid));
	memcpy(record.port_gid, member->port_gid, sizeof(record.port_gid));
	mad_write(&header, mad);
	put_be64(mad + SA_COMPONENTS, SA_GROUP_MGID | SA_GROUP_PORT_GID | SA_GROUP_JOIN_STATE);
	record_write(RECORD_MC_MEMBER_RECORD, &record, mad + SA_RECORD);
	fabric_send(room->fabric, member->node, member->port, mad, &to, room->now_us);
}

/* ---- to a program ---- */

static bool gmp_write(struct room *room, struct visitor *visitor, struct data_port *at,
		      const uint8_t mad[MAD_BYTES], const struct fabric_address *from)
{
	uint8_t packet[IB_MAD_PACKET_MAX];
	struct ib_route route = {
		.sl = from->sl, .slid = from->lid,
		.dlid = (uint16_t)(at->last.lid | from->path_bits), .has_grh = from->has_grh,
		.grh = { .tclass = from->traffic_class, .hoplmt = from->hop_limit,
			 .flowlabel = from->flow_label },
	};
	const struct ib_mad_ends ends = {
		.source_qpn = QPN_GSI, .destination_qpn = QPN_GSI, .qkey = QKEY_GSI,
		.pkey = from->pkey,
	};
	struct fabric_port_info info;
	size_t bytes;

	/* What it was told of the LID may be older. */
	if (fabric_port_info(room->fabric, at->node, at->last.number, &info))
		route.dlid = (uint16_t)(info.lid | from->path_bits);
	if (from->has_grh) {
		memcpy(route.grh.sgid, from->gid, sizeof(route.grh.sgid));
		fabric_gid(room->fabric, at->node, at->last.number, from->gid_index,
			   route.grh.dgid);
	}
	bytes = ib_packet_write_mad(&route, &ends, mad, packet) - IB_VCRC_BYTES;
	return data_deliver(room, visitor, &at->last, packet, bytes) == FABRIC_TAKEN;
}

static bool service_is_for(const struct gmp_claim *service, uint32_t node, uint32_t port,
			   const struct cm_target *target)
{
	if (service->id != target->service_id)
		return false;
	if (service->node == FABRIC_NONE)
		return !service->family || !target->has_address ||
		       (service->family == 4) == ip_addr_is_ipv4(target->address);
	if (service->node != node || service->port != port)
		return false;
	return !target->has_address || ip_addr_is_zero(service->ip) ||
	       !memcmp(service->ip, target->address, sizeof(service->ip));
}

/* The claim that a request is for; one on an address is better than one on all. */
static struct gmp_claim *service_of(const struct data_host *host, uint32_t node, uint32_t port,
				  const struct cm_target *target)
{
	struct gmp_claim *found = NULL;
	struct list *at;

	list_for_each(at, &host->services) {
		struct gmp_claim *service = list_entry(at, struct gmp_claim, of_host);

		if (!service_is_for(service, node, port, target) || service->visitor->gone)
			continue;
		if (service->node != FABRIC_NONE)
			return service;
		found = service;
	}
	return found;
}

/* The answer goes back by the way that the message came. */
static void gmp_refuse(struct room *room, uint32_t node, uint32_t port,
		       const uint8_t mad[MAD_BYTES], const struct fabric_address *from)
{
	struct fabric_address to = *from;
	struct cm_message message, answer;
	uint8_t bytes[MAD_BYTES];

	if (!cm_message_parse(mad, &message) || !cm_message_refuse(&message, &answer))
		return;
	cm_message_write(&answer, bytes);
	to.qpn = QPN_GSI;
	to.qkey = QKEY_GSI;
	fabric_send(room->fabric, node, port, bytes, &to, room->now_us);
}

static void gmp_connection(struct room *room, struct data_host *host, struct data_port *at,
			   const uint8_t mad[MAD_BYTES], const struct fabric_address *from,
			   uint32_t node, uint32_t port)
{
	struct visitor *visitor = NULL;
	struct gmp_claim *service;
	struct cm_target target;

	switch (cm_message_target(mad, &target)) {
	case CM_TARGET_SERVICE:
		service = host ? service_of(host, node, port, &target) : NULL;
		if (service && !service->serving)
			return;
		visitor = service ? service->visitor : NULL;
		break;
	case CM_TARGET_ID:
		visitor = host ? host->slot[comm_id_slot(target.comm_id)] : NULL;
		break;
	default:
		return;
	}
	if (visitor)
		gmp_write(room, visitor, at, mad, from);
	else
		gmp_refuse(room, node, port, mad, from);
}

bool gmp_deliver(struct room *room, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		 const struct fabric_address *from)
{
	struct data_host *host = room->plane ? room->plane->host[node] : NULL;
	struct data_port *at = host ? data_port_at(host, node, port) : NULL;
	uint32_t tid = get_be32(mad + 8);
	struct visitor *visitor;
	struct fabric_node_info info;

	if (mad[1] == MAD_CLASS_CM && mad[2] == CM_CLASS_VERSION && mad[3] == MAD_METHOD_SEND) {
		if (!fabric_node_info(room->fabric, node, &info) || info.type != FABRIC_CA)
			return false;
		gmp_connection(room, at ? host : NULL, at, mad, from, node, port);
		return true;
	}
	if (mad[1] != MAD_CLASS_ADMINISTRATION || !(mad[3] & MAD_METHOD_RESPONSE) || !(tid & TID_OF_SLOT) || !at ||
	    (tid & ~TID_OF_SLOT) >= SLOT_COUNT)
		return false;
	visitor = host->slot[tid & ~TID_OF_SLOT];
	if (!visitor)
		return true;		/* nobody waits any more */
	member_granted(room, visitor->attached, at, mad, from);
	gmp_write(room, visitor, at, mad, from);
	return true;
}

/* ---- from a program ---- */

/* The row of the port's table that has this very key; false: none has. */
static bool gmp_pkey_index(const struct room *room, const struct data_port *port, uint16_t pkey,
			   uint16_t *index)
{
	for (unsigned i = 0; i < port->last.pkeys; i++)
		if (fabric_pkey(room->fabric, port->node, port->last.number, i) == pkey) {
			*index = (uint16_t)i;
			return true;
		}
	return false;
}

static bool gmp_is_allowed(const uint8_t mad[MAD_BYTES])
{
	if (mad[0] != MAD_BASE_VERSION)
		return false;
	if (mad[1] == MAD_CLASS_CM)
		return mad[2] == CM_CLASS_VERSION && mad[3] == MAD_METHOD_SEND;
	return mad[1] == MAD_CLASS_ADMINISTRATION &&
	       (mad[3] == MAD_METHOD_GET || mad[3] == MAD_METHOD_SET || mad[3] == MAD_METHOD_DELETE);
}

/* Another program at the port stays in the group: the port does, and the program is told so by us. */
static bool member_is_kept(struct visitor *visitor, struct data_port *port, const uint8_t mad[MAD_BYTES],
			   const struct fabric_address *to)
{
	struct ib_mc_member_record record;
	struct gmp_member *member;
	uint8_t answer[MAD_BYTES];
	bool kept;

	if (!is_member_record(mad) || mad[3] != MAD_METHOD_DELETE)
		return false;
	record_read(RECORD_MC_MEMBER_RECORD, mad + SA_RECORD, &record);
	member = member_find(visitor->attached, port, record.mgid);
	if (!member)
		return false;
	kept = member_elsewhere(visitor->attached, member);
	member_free(visitor->attached, member);
	if (!kept)
		return false;
	memcpy(answer, mad, MAD_BYTES);
	answer[3] |= MAD_METHOD_RESPONSE;
	gmp_write(visitor->room, visitor, port, answer, to);
	return true;
}

bool gmp_send(struct visitor *visitor, struct data_port *port, const uint8_t *data, size_t bytes)
{
	const struct attached *attached = visitor->attached;
	struct room *room = visitor->room;
	struct fabric_address to = { .qpn = QPN_GSI, .qkey = QKEY_GSI };
	uint8_t mad[MAD_BYTES];
	struct ib_packet ib;
	struct packet packet;

	if (ib_packet_parse_headers(data, bytes, &ib) ||
	    packet_parse(ib.transport, ib.transport_bytes, &packet) ||
	    packet.op->code != OPCODE_UD_SEND_ONLY || packet.payload_bytes != MAD_BYTES ||
	    packet.deth.source_qpn != QPN_GSI || packet.deth.qkey != QKEY_GSI ||
	    !gmp_is_allowed(packet.payload) || !attached->slots ||
	    !gmp_pkey_index(room, port, packet.pkey, &to.pkey_index))
		return false;
	memcpy(mad, packet.payload, MAD_BYTES);
	if (mad[1] == MAD_CLASS_ADMINISTRATION)
		put_be32(mad + 8, TID_OF_SLOT | attached->slot[0]);
	to.lid = ib.route.dlid;
	to.sl = ib.route.sl;
	to.pkey = packet.pkey;
	to.path_bits = (uint8_t)(ib.route.slid & 0x7f);
	to.has_grh = ib.route.has_grh;
	to.traffic_class = ib.route.grh.tclass;
	to.hop_limit = ib.route.grh.hoplmt;
	to.flow_label = ib.route.grh.flowlabel;
	memcpy(to.gid, ib.route.grh.dgid, sizeof(to.gid));
	if (member_is_kept(visitor, port, mad, &to))
		return true;
	return !fabric_send(room->fabric, port->node, port->last.number, mad, &to, room->now_us);
}

/* ---- services ---- */

static void service_free(struct gmp_claim *service)
{
	list_remove(&service->of_host);
	list_remove(&service->of_attached);
	service->visitor->attached->services--;
	free(service);
}

void gmp_detach(struct attached *attached)
{
	while (!list_empty(&attached->service))
		service_free(list_entry(attached->service.next, struct gmp_claim, of_attached));
	while (!list_empty(&attached->member)) {
		struct gmp_member *member = list_entry(attached->member.next, struct gmp_member, of_attached);

		if (!member_elsewhere(attached, member))
			member_leave(attached->visitor->room, member);
		member_free(attached, member);
	}
}

static bool service_is_same(const struct gmp_claim *a, const struct gmp_claim *b)
{
	return a->id == b->id && a->node == b->node && a->port == b->port &&
	       a->family == b->family && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/* May one request be for both? */
static bool services_meet(const struct gmp_claim *a, const struct gmp_claim *b)
{
	if (a->id != b->id)
		return false;
	if (a->node == FABRIC_NONE && b->node == FABRIC_NONE)
		return !a->family || !b->family || a->family == b->family;
	if (a->node == FABRIC_NONE || b->node == FABRIC_NONE) {
		const struct gmp_claim *any = a->node == FABRIC_NONE ? a : b, *one = any == a ? b : a;

		return !any->family || ip_addr_is_zero(one->ip) ||
		       (any->family == 4) == ip_addr_is_ipv4(one->ip);
	}
	return a->node == b->node && a->port == b->port &&
	       (ip_addr_is_zero(a->ip) || ip_addr_is_zero(b->ip) ||
		!memcmp(a->ip, b->ip, sizeof(a->ip)));
}

/* 0; EADDRNOTAVAIL: it is no address of the host. */
static int service_address(struct room *room, struct data_host *host, const uint8_t address[16],
			   struct gmp_claim *service)
{
	service->node = FABRIC_NONE;
	if (ip_addr_is_zero(address))
		return 0;
	service->node = fabric_find_ip(room->fabric, address, &service->port);
	if (service->node != FABRIC_NONE)
		memcpy(service->ip, address, sizeof(service->ip));
	else
		service->node = fabric_find_gid(room->fabric, address, &service->port);
	return service->node != FABRIC_NONE && data_port_at(host, service->node, service->port) ?
		       0 : EADDRNOTAVAIL;
}

static int service_claim(struct data_host *host, struct visitor *visitor,
			 const struct gmp_claim *wanted)
{
	struct attached *attached = visitor->attached;
	struct gmp_claim *service;
	struct list *at;

	list_for_each(at, &host->services)
		if (services_meet(list_entry(at, struct gmp_claim, of_host), wanted))
			return EADDRINUSE;
	service = attached->services < CTL_SERVICES_MAX ? malloc(sizeof(*service)) : NULL;
	if (!service)
		return ENOMEM;
	*service = *wanted;
	service->visitor = visitor;
	list_add_tail(&host->services, &service->of_host);
	list_add_tail(&attached->service, &service->of_attached);
	attached->services++;
	return 0;
}

void gmp_service(struct visitor *asker, uint32_t node, const struct ctl_service *asked)
{
	struct room *room = asker->room;
	struct data_host *host = room->plane ? room->plane->host[node] : NULL;
	struct visitor *visitor = host && asked->slot < SLOT_COUNT ? host->slot[asked->slot] : NULL;
	struct gmp_claim wanted = { .id = asked->service_id, .family = asked->family };
	struct list *at;
	int err;

	if (!visitor || visitor->pid != asker->pid || visitor->uid != asker->uid)
		return visitor_end(asker, EPERM, 0, "the slot is not this program's");
	/* Another family would meet no claim of a neighbour, and yet get its requests. */
	if (asked->family && asked->family != 4 && asked->family != 6)
		return visitor_end(asker, EINVAL, 0, "a service has family 4, 6 or 0, for both");
	err = service_address(room, host, asked->address, &wanted);
	if (!err && asked->what == CTL_SERVICE_CLAIM) {
		err = service_claim(host, visitor, &wanted);
	} else if (!err) {
		struct gmp_claim *mine = NULL;

		list_for_each(at, &visitor->attached->service) {
			struct gmp_claim *service = list_entry(at, struct gmp_claim, of_attached);

			if (service_is_same(service, &wanted))
				mine = service;
		}
		if (!mine)
			err = ENOENT;
		else if (asked->what == CTL_SERVICE_SERVE)
			mine->serving = true;
		else
			service_free(mine);
	}
	visitor_end(asker, err, 0,
		    err == EADDRINUSE	   ? "another program at this node has the service ID"
		    : err == EADDRNOTAVAIL ? "it is not an address of this node"
		    : err == ENOENT	   ? "it was not claimed"
		    : err		   ? "no memory, or too many services"
					   : NULL);
}

/* ---- addresses ---- */

static void neighbour_tell(struct visitor *visitor, uint32_t node, const struct ctl_port *port,
			   const uint8_t ip[16])
{
	struct ctl_neighbour one = { .hca = port->hca, .port = port->number, .lid = (uint16_t)port->lid,
				     .state = port->state };

	room_host_name(visitor->room, node, one.node);
	memcpy(one.gid, port->gid[0], sizeof(one.gid));
	if (ip) {
		memcpy(one.ip, ip, sizeof(one.ip));
		one.pkey = fabric_ip_pkey(visitor->room->fabric, ip);
	}
	visitor_answer(visitor, CTL_NEIGHBOUR, 0, 0, &one, sizeof(one));
}

struct neighbours {
	struct visitor *visitor;
	uint32_t node, port;		/* FABRIC_NONE: all of them */
	const uint8_t *ip;		/* of that one; NULL: the GID was asked for */
};

static bool neighbour_take(void *context, const struct ctl_port *port, uint32_t node)
{
	struct neighbours *asked = context;
	uint8_t ip[16];
	unsigned i = 0;

	if (asked->node != FABRIC_NONE) {
		if (node != asked->node || port->number != asked->port)
			return true;
		if (!asked->ip && fabric_ip(asked->visitor->room->fabric, node, port->number, 0, ip))
			neighbour_tell(asked->visitor, node, port, ip);
		else
			neighbour_tell(asked->visitor, node, port, asked->ip);
		return false;
	}
	for (; fabric_ip(asked->visitor->room->fabric, node, port->number, i, ip); i++)
		neighbour_tell(asked->visitor, node, port, ip);
	return true;
}

void gmp_address(struct visitor *visitor, const struct ctl_address *asked)
{
	struct room *room = visitor->room;
	struct neighbours search = { .visitor = visitor, .node = FABRIC_NONE };
	char why[PATH_MAX];
	uint32_t host;

	if (ip_addr_is_zero(asked->address)) {
		host = room_find_host(room, asked->place.node, why, sizeof(why));
		if (host == FABRIC_NONE)
			return visitor_end(visitor, EINVAL, 0, why);
	} else {
		search.ip = asked->address;
		search.node = fabric_find_ip(room->fabric, asked->address, &search.port);
		if (search.node == FABRIC_NONE) {
			search.ip = NULL;
			search.node = fabric_find_gid(room->fabric, asked->address, &search.port);
		}
		if (search.node == FABRIC_NONE)
			return visitor_end(visitor, 0, 0, NULL);
		host = search.node;
	}
	room_ports(room, host, neighbour_take, &search);
	visitor_end(visitor, 0, 0, NULL);
}
