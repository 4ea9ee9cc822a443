/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of this process (IBTA 10.5; ibv_attach_mcast(3)): the UD QPs attached to each
 * group and interface. Links deliver: by UDP each process joins the IP group on its own socket.
 *
 * An MGID is an IP group address. One that is IPv6 can be sent to from an IPv4 GID too (perftest
 * does): it travels as an IPv4 group made from it (net/route.c), which attaching joins as well.
 *
 * At a port of a virtual InfiniBand fabric a group has an MLID, too, and the fabric delivers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/ip_addr.h"
#include "device/internal.h"
#include "device/limits.h"
#include "engine/links.h"
#include "platform/netdev.h"
#include "transport/drop.h"
#include "wire/smp.h"

struct multicast_group {
	struct list node;
	struct link_group of;		/* lid 0 where the port is of no fabric */
	unsigned count;
	struct qp *qp[LIMIT_MULTICAST_QPS];
};

static struct multicast_group *groups_find(struct hca *hca, const uint8_t gid[16], const struct port *port,
					   uint16_t lid)
{
	struct list *node;

	list_for_each(node, &hca->groups) {
		struct multicast_group *group = list_entry(node, struct multicast_group, node);

		if (group->of.interface == port->interface_index && group->of.ib_port == port->ib_port &&
		    (!port->ib_port || group->of.lid == lid) && !memcmp(group->of.gid, gid, 16))
			return group;
	}
	return NULL;
}

/* What the kernel lets a socket join. */
uint32_t multicast_groups_max(void)
{
	uint32_t memberships = netdev_max_memberships();

	return memberships < LIMIT_MULTICAST_GROUPS ? memberships : LIMIT_MULTICAST_GROUPS;
}

static int groups_make(struct hca *hca, const uint8_t gid[16], const struct port *port, uint16_t lid,
		       struct multicast_group **made)
{
	const uint32_t limit = multicast_groups_max();
	struct multicast_group *group;
	uint32_t count = 0;
	struct list *node;
	int err;

	list_for_each(node, &hca->groups)
		count++;
	if (count >= limit) {
		explain_refused("ibv_attach_mcast", ENOMEM,
				"ibv_attach_mcast: the process has reached its limit of %u "
				"groups (max_mcast_grp): raise /proc/sys/net/ipv4/igmp_max_memberships", limit);
		return ENOMEM;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return ENOMEM;
	memcpy(group->of.gid, gid, 16);
	memcpy(group->of.alias, gid, 16);
	if (!port->ib_port)
		net_multicast_alias(gid, group->of.alias);
	group->of.interface = port->interface_index;
	group->of.ib_port = port->ib_port;
	group->of.lid = port->ib_port ? lid : 0;
	lock_assert_held(&hca->engine.progress);
	err = links_join(&hca->engine, &group->of);
	if (err) {
		explain("ibv_attach_mcast: cannot join the %s group: %s", port->ib_port ? "fabric's" : "IP",
			strerror(err));
		free(group);
		return err;
	}
	list_add_tail(&hca->groups, &group->node);
	*made = group;
	return 0;
}

static void drop_if_empty(struct hca *hca, struct multicast_group *group)
{
	if (group->count)
		return;
	lock_assert_held(&hca->engine.progress);
	links_leave(&hca->engine, &group->of);
	list_remove(&group->node);
	free(group);
}

/* The port that it is modified to; before that the first. */
static struct port *multicast_port_of(struct qp *qp)
{
	const struct hca_context *context = qp->owner;
	struct port *port;
	uint32_t number;

	lock_acquire(&qp->lock);
	number = qp->attr.port_num;
	lock_release(&qp->lock);
	port = context_port(context, number);
	return port ? port : context->port;
}

int hca_attach_mcast(struct qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct hca_context *context = qp->owner;
	struct hca *hca = context->hca;
	const struct port *port = multicast_port_of(qp);
	struct multicast_group *group;
	unsigned at;
	int err = 0;

	if (context_is_dead(qp->owner, "ibv_attach_mcast"))
		return EIO;
	if (!qp_is(qp, QP_MULTICAST) || !ip_addr_is_multicast(gid->raw)) {
		explain_refused_of("ibv_attach_mcast", EINVAL, OF(QP, qp->number),
				"ibv_attach_mcast: qp 0x%06x: %s", qp->number, !qp_is(qp,
				QP_MULTICAST) ?
			"only UD QPs can be attached" : "the GID is not a multicast address "
			"(ff00::/8 or ::ffff:224.0.0.0/4)");
		return EINVAL;
	}
	if (port->ib_port && !lid_is_multicast(lid)) {
		explain_refused_of("ibv_attach_mcast", EINVAL, OF(QP, qp->number),
				   "ibv_attach_mcast: qp 0x%06x: lid 0x%04x is of no multicast group (0xc000 to "
				   "0xfffe): the SA says which it is (MCMemberRecord: mlid; "
				   "rdma_join_multicast: ud.ah_attr.dlid)",
				   qp->number, lid);
		return EINVAL;
	}
	lock_acquire(&hca->engine.progress);
	lock_acquire(&hca->objects);
	group = groups_find(hca, gid->raw, port, lid);
	if (!group)
		err = groups_make(hca, gid->raw, port, lid, &group);
	if (!err) {
		for (at = 0; at < group->count && group->qp[at] != qp; at++)
			;
		if (at == LIMIT_MULTICAST_QPS) {
			explain_refused("ibv_attach_mcast", ENOMEM,
					"ibv_attach_mcast: %d QPs are attached to the group, the limit",
					LIMIT_MULTICAST_QPS);
			err = ENOMEM;
		} else if (at == group->count) {	/* else it is attached already: no harm (as rxe) */
			group->qp[group->count++] = qp;
			atomic_fetch_add(&qp->multicast, 1);
		}
		drop_if_empty(hca, group);
	}
	lock_release(&hca->objects);
	lock_release(&hca->engine.progress);
	return err;
}

static bool groups_take_out(struct multicast_group *group, struct qp *qp)
{
	unsigned i;

	for (i = 0; i < group->count; i++)
		if (group->qp[i] == qp) {
			group->qp[i] = group->qp[--group->count];
			atomic_fetch_sub(&qp->multicast, 1);
			return true;
		}
	return false;
}

int hca_detach_mcast(struct qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct hca_context *context = qp->owner;
	struct hca *hca = context->hca;
	struct multicast_group *group;
	bool found = false;

	if (context_is_dead(qp->owner, "ibv_detach_mcast"))
		return EIO;
	lock_acquire(&hca->engine.progress);
	lock_acquire(&hca->objects);
	group = groups_find(hca, gid->raw, multicast_port_of(qp), lid);
	if (group) {
		found = groups_take_out(group, qp);
		drop_if_empty(hca, group);
	}
	lock_release(&hca->objects);
	lock_release(&hca->engine.progress);
	if (!found)
		explain_of(OF(QP, qp->number),
			"ibv_detach_mcast: qp 0x%06x is not attached to that group", qp->number);
	return found ? 0 : EINVAL;
}

void multicast_detach_all(struct hca *hca, struct qp *qp)
{
	struct list *node, *following;

	lock_acquire(&hca->engine.progress);
	lock_acquire(&hca->objects);
	list_for_each_safe(node, following, &hca->groups) {
		struct multicast_group *group = list_entry(node, struct multicast_group, node);

		groups_take_out(group, qp);
		drop_if_empty(hca, group);
	}
	lock_release(&hca->objects);
	lock_release(&hca->engine.progress);
}

/* The address of the port that an answer to @source comes from; zero when it has none such. */
static void find_own(struct hca *hca, const struct qp *qp, const uint8_t source[16],
		     uint8_t own[16])
{
	const struct port *port = ((struct hca_context *)qp->owner)->port;
	unsigned i;

	memset(own, 0, 16);
	lock_acquire(&hca->net.lock);
	for (i = 0; i < GID_TABLE_SIZE; i++) {
		const struct gid_entry *entry = &port->gid[i];

		if (!entry->valid || entry->host_only ||
		    ip_addr_is_ipv4(entry->address) != ip_addr_is_ipv4(source) ||
		    ip_addr_is_link_local_ipv6(entry->address) != ip_addr_is_link_local_ipv6(source))
			continue;
		memcpy(own, entry->address, 16);
		break;
	}
	lock_release(&hca->net.lock);
}

/*
 * Sent by @qp itself, and looped back? A QP of another host may have the same number: the address tells them
 * apart.
 */
static bool is_own(struct hca *hca, const struct qp *qp, uint32_t source_qpn, const uint8_t source[16])
{
	const struct port *port = ((struct hca_context *)qp->owner)->port;
	bool own;

	if (qp->number != source_qpn)
		return false;
	lock_acquire(&hca->net.lock);
	own = gid_table_find(port, PORT_GID_ROCE_V2, source) != GID_TABLE_SIZE;
	lock_release(&hca->net.lock);
	return own;
}

static enum drop deliver_to(struct hca *hca, struct multicast_group *group, const struct packet *packet,
			    struct rx_info *info, uint64_t now_ns)
{
	enum drop why = DROP_NONE, one;
	struct effects effects;
	unsigned i;

	for (i = 0; i < group->count; i++) {
		struct qp *qp = group->qp[i];

		if (qp->blocks_own_multicast && is_own(hca, qp, packet->deth.source_qpn, info->route.source))
			continue;
		if (packet->echo_request)
			find_own(hca, qp, info->route.source, info->own);
		effects_init(&effects);
		lock_acquire(&qp->lock);
		if (pkey_matches(packet->pkey, qp->pkey)) {
			one = transport_receive(qp, packet, info, now_ns, &effects);
		} else {
			drop_explain(DROP_PKEY, qp, packet, info->route.source);
			one = drop_count(hca->engine.counters, DROP_PKEY, 1);
		}
		why = why ? why : one;
		timers_arm(&hca->engine, qp);
		lock_release(&qp->lock);
		effects_defer(&hca->engine, &effects);
	}
	return why;
}

enum drop multicast_deliver(struct hca *hca, const struct packet *packet, struct rx_info *info,
			    uint64_t now_ns)
{
	enum drop why = DROP_NONE, one;
	struct list *node;
	bool any = false;

	list_for_each(node, &hca->groups) {
		struct multicast_group *group = list_entry(node, struct multicast_group, node);

		if ((memcmp(group->of.gid, info->route.destination, 16) &&
		     memcmp(group->of.alias, info->route.destination, 16)) ||
		    group->of.ib_port != route_ib_port(&info->route))
			continue;
		any = true;
		one = packet->op->service == SERVICE_UD ? deliver_to(hca, group, packet, info, now_ns) : DROP_NONE;
		why = why ? why : one;
	}
	return any ? why : drop_count(hca->engine.counters, DROP_MULTICAST, 1);
}
