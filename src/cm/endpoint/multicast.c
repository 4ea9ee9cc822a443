/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of datagram endpoints. On RoCEv2 a group's GID is its IP address (IPv4:
 * v4-mapped), no subnet manager is involved, and the QP joins when it is attached to the GID. A
 * join here only reports GID, Q_Key and path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cm/endpoint/internal.h"

#define HOP_LIMIT	64

static bool same_group(const struct membership *group, const struct endpoint_address *address)
{
	return group->address.family == address->family &&
	       !memcmp(group->address.bytes, address->bytes, 16);
}

static int post_joined(struct endpoint *endpoint, const struct membership *group, void *user)
	REQUIRES(agent.lock)
{
	struct queued_event *event = event_new(endpoint, RDMA_CM_EVENT_MULTICAST_JOIN, NULL, 0);
	const struct net_gid *port = &endpoint->port->gid;

	if (!event)
		return ENOMEM;
	event->multicast = user;
	event->ud = (struct rdma_ud_param){
		.ah_attr = { .grh = { .dgid = group->mgid, .hop_limit = HOP_LIMIT,
				      .sgid_index = (uint8_t)port->gid_index,
				      .traffic_class = endpoint->tos_set ? endpoint->tos : 0 },
			     .is_global = 1, .port_num = port->port },
		.qp_num = QPN_MULTICAST, .qkey = qkey_default(endpoint),
	};
	event_post(event);
	return 0;
}

static int multicast_join_group(struct endpoint *endpoint, const struct endpoint_address *address,
				void *user) REQUIRES(agent.lock)
{
	struct membership *group;
	int err = endpoint_allowed(endpoint, ENDPOINT_CALL_JOIN);

	if (err)
		return err;
	if (!endpoint->port || endpoint->qp_type != IBV_QPT_UD)
		return EINVAL;
	group = calloc(1, sizeof(*group));
	if (!group)
		return ENOMEM;
	group->address = *address;
	group->user = user;
	net_group_gid(&endpoint->port->gid, address->bytes, group->mgid.raw);
	err = post_joined(endpoint, group, user);
	if (err) {
		free(group);
		return err;
	}
	group->next = endpoint->groups;
	endpoint->groups = group;
	return 0;
}

int endpoint_join(struct endpoint *endpoint, const struct sockaddr *group, uint16_t flags,
		  void *user)
{
	struct endpoint_address address;
	int err = address_read(group, &address);

	if (err)
		return err;
	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	if (address_is_any(&address) || flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return EINVAL;
	agent_lock();
	err = multicast_join_group(endpoint, &address, user);
	agent_unlock();
	if (err == EINVAL)
		explain("rdma_join_multicast: the id (%s) must be of RDMA_PS_UDP and bound to a "
			"device: call rdma_bind_addr or rdma_resolve_addr first, and connect later",
			state_name(endpoint->state));
	return err;
}

static bool event_is_of_group(const struct queued_event *event, const void *group)
{
	return event->multicast && event->multicast == ((const struct membership *)group)->user;
}

int endpoint_leave(struct endpoint *endpoint, const struct sockaddr *sockaddr, union ibv_gid *gid)
{
	struct endpoint_address address;
	struct membership **link, *group = NULL;
	int err = address_read(sockaddr, &address);

	if (err)
		return err;
	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	for (link = &endpoint->groups; *link; link = &(*link)->next)
		if (same_group(*link, &address))
			break;
	group = *link;
	if (group) {
		*link = group->next;
		*gid = group->mgid;
		events_withdraw(endpoint, event_is_of_group, group);	/* nothing is to be known of it */
	}
	agent_unlock();
	free(group);
	return group ? 0 : ENOENT;
}
