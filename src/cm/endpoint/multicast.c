/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of datagram endpoints. On RoCEv2 a group's GID is its IP address (IPv4:
 * v4-mapped), no subnet manager is involved, and the QP joins when it is attached to the GID. A
 * join here only reports GID, Q_Key and path.
 *
 * At a port of a fabric subnet administration is asked: first for the group of all in the partition,
 * whose properties those of IP have, then to join. The group is made if there is none. When the
 * subnet manager has forgotten what it knew (CLIENT_REREGISTER), groups are joined again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cm/endpoint/internal.h"
#include "wire/smp.h"

#define HOP_LIMIT	64

/* The event of a group that was joined; status: of one that was not. */
static int post_joined(struct endpoint *endpoint, const struct membership *group, int err)
	REQUIRES(agent.lock)
{
	struct queued_event *event = event_new(endpoint, err ? RDMA_CM_EVENT_MULTICAST_ERROR :
					       RDMA_CM_EVENT_MULTICAST_JOIN, NULL, 0);
	const struct ib_mc_member_record *record = group->record;
	const struct net_gid *port = &endpoint->port->gid;

	if (!event)
		return ENOMEM;
	event->multicast = group->user;
	event->status = -err;
	event->ud = (struct rdma_ud_param){
		.ah_attr = { .grh = { .dgid = group->mgid, .hop_limit = HOP_LIMIT,
				      .sgid_index = (uint8_t)port->gid_index,
				      .traffic_class = endpoint->tos_set ? endpoint->tos : 0 },
			     .is_global = 1, .port_num = port->port },
		.qp_num = QPN_MULTICAST, .qkey = qkey_default(endpoint),
	};
	if (record) {
		struct ibv_ah_attr *ah = &event->ud.ah_attr;

		ah->grh.hop_limit = record->hop_limit;
		ah->grh.traffic_class = record->tclass;
		ah->grh.flow_label = record->flow_label;
		ah->dlid = record->mlid;
		ah->sl = record->sl;
		ah->static_rate = record->rate;
	}
	event_post(event);
	return 0;
}

/* ---- by a fabric ---- */

static void group_explain(const struct membership *group, const char *why)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, group->mgid.raw, gid, sizeof(gid));
	explain_about("MULTICAST_ERROR", OF_NOTHING,
		      "rdma_join_multicast: MGID %s with P_Key 0x%04x: %s: is the "
		      "port in that partition, and does the group have the same Q_Key, MTU and rate? "
		      "(saquery -g; smpquery pkeys)", gid, group->record->p_key, why);
}

/*
 * Joined, for the first time or again. Packets went by the MLID that it had: if that is another one now, the
 * application has to join anew.
 */
static void group_joined(void *owner, const struct sa_answer *answer)
{
	struct membership *group = owner;
	struct ib_mc_member_record got;
	const char *wrong = NULL;
	bool again = group->joined;
	int err = 0;

	lock_assert_held(&agent.lock);
	group->query = NULL;
	group->joined = false;
	if (answer->outcome == SA_ANSWERED)
		wrong = sa_group_read(answer->record, group->record, &got);
	if (answer->outcome == SA_TIMED_OUT) {
		ib_explain_silence(true, group->endpoint, answer);
		err = ETIMEDOUT;
	} else if (answer->outcome == SA_REFUSED || wrong) {
		group_explain(group, wrong ? wrong : sa_status_text(answer->status));
		err = EINVAL;
	} else if (again && got.mlid != group->record->mlid) {
		group->joined = true;	/* to be left */
		group_explain(group, "after the subnet manager asked for it again the group has another LID");
		err = ENETRESET;
	} else {
		uint8_t state = group->record->join_state;

		*group->record = got;
		group->record->join_state = state;
		memcpy(group->mgid.raw, got.mgid, sizeof(got.mgid));
		group->joined = true;
		err = qkey_set(group->endpoint, got.q_key);
		if (err)
			group_explain(group, "its Q_Key is not the one that the id has");
	}
	if (err || !again)
		post_joined(group->endpoint, group, err);
}

/* What the group of all says is taken over; where there is none, IP is not used in the partition. */
static void group_of_all_answered(void *owner, const struct sa_answer *answer)
{
	struct membership *group = owner;
	struct ib_mc_member_record asked = { .p_key = group->record->p_key }, all;
	int err;

	lock_assert_held(&agent.lock);
	group->query = NULL;
	sa_group_broadcast(asked.p_key, asked.mgid);
	if (answer->outcome == SA_TIMED_OUT) {
		ib_explain_silence(true, group->endpoint, answer);
		post_joined(group->endpoint, group, ETIMEDOUT);
		return;
	}
	if (answer->outcome == SA_ANSWERED && !sa_group_read(answer->record, &asked, &all)) {
		group->record->sl = all.sl;
		group->record->flow_label = all.flow_label;
		group->record->tclass = all.tclass;
		if (group->endpoint->space == RDMA_PS_IPOIB)
			group->record->q_key = all.q_key;
	}
	err = ib_group_join(group);
	if (err)
		post_joined(group->endpoint, group, err);
}

static int group_begin(struct membership *group, bool send_only) REQUIRES(agent.lock)
{
	const struct endpoint *endpoint = group->endpoint;
	struct ib_mc_member_record all = { .join_state = 0 };
	uint16_t pkey = ib_member_pkey(endpoint);

	group->record = calloc(1, sizeof(*group->record));
	if (!group->record)
		return ENOMEM;
	if (endpoint->qkey)
		group->record->q_key = endpoint->qkey;
	else
		group->record->q_key = endpoint->space == RDMA_PS_IPOIB ? QKEY_IPOIB : RDMA_UDP_QKEY;
	group->record->p_key = pkey;
	group->record->join_state = send_only ? SA_JOIN_SEND_ONLY_FULL : SA_JOIN_FULL;
	if (group->address.family == AF_IB)
		memcpy(group->mgid.raw, group->address.bytes, sizeof(group->mgid.raw));
	else if (!address_is_any(&group->address))
		sa_group_of_ip(group->address.bytes, pkey, endpoint->space == RDMA_PS_UDP, group->mgid.raw);
	memcpy(group->record->mgid, group->mgid.raw, sizeof(group->record->mgid));
	sa_group_broadcast(pkey, all.mgid);
	group->answered = group_joined;
	return ib_group_ask(group, MAD_METHOD_GET, &all, SA_GROUP_MGID, group_of_all_answered);
}

/* ---- calls ---- */

static int multicast_join_group(struct endpoint *endpoint, const struct endpoint_address *address,
				bool send_only, void *user) REQUIRES(agent.lock)
{
	struct membership *group;
	int err = endpoint_allowed(endpoint, ENDPOINT_CALL_JOIN);

	if (err)
		return err;
	if (!endpoint->port || endpoint->qp_type != IBV_QPT_UD ||
	    (address_is_any(address) && !endpoint_is_ib(endpoint)))
		return EINVAL;
	group = calloc(1, sizeof(*group));
	if (!group)
		return ENOMEM;
	group->address = *address;
	group->endpoint = endpoint;
	group->user = user;
	if (endpoint_is_ib(endpoint)) {
		err = group_begin(group, send_only);
	} else {
		net_group_gid(&endpoint->port->gid, address->bytes, group->mgid.raw);
		err = post_joined(endpoint, group, 0);
	}
	if (err) {
		free(group->record);
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
	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return EINVAL;
	agent_lock();
	err = multicast_join_group(endpoint, &address,
				   flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, user);
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

int endpoint_leave(struct endpoint *endpoint, const struct sockaddr *sockaddr, union ibv_gid *gid,
		   uint16_t *lid)
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
		if ((*link)->address.family == address.family &&
		    !memcmp((*link)->address.bytes, address.bytes, 16))
			break;
	group = *link;
	if (group) {
		*link = group->next;
		*gid = group->mgid;
		*lid = group->record ? group->record->mlid : 0;
		events_withdraw(endpoint, event_is_of_group, group);	/* nothing is to be known of it */
		ib_group_free(group);
		err = 0;
	} else {
		err = ENOENT;
	}
	agent_unlock();
	return err;
}
