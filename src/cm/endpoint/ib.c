/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints at ports of a virtual InfiniBand fabric: what is asked of subnet administration about their
 * paths, what its answers are taken for, and the address vectors that follow. resolve.c asks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "cm/endpoint/internal.h"
#include "platform/clock.h"
#include "wire/packet.h"
#include "wire/smp.h"

#define GROUP_TIMEOUT_NS	3000000000u

/* ---- messages to the administration ---- */

void ib_explain_silence(bool joining, const struct endpoint *endpoint, const struct sa_answer *answer)
{
	const char *call = joining ? "rdma_join_multicast" : "rdma_resolve_route";
	const char *event = joining ? "MULTICAST_ERROR" : "ROUTE_ERROR";
	const struct net_gid *port = &endpoint->port->gid;
	struct net_ib_port now;

	if (!explaining() || !net_ib_port(gsi_net(agent.gsi), port->ib_port, &now))
		return;
	if (now.state != IBV_PORT_ACTIVE || !now.sm_lid)
		explain_about(event, OF_NOTHING,
			      "%s: port %u of %s is not Active: no subnet manager has brought it up, so nobody "
			      "can be asked for a path or a group: is opensm running, and the cable plugged? "
			      "(verbatim fabric FILE --sm)", call, port->port, port->device);
	else
		explain_about(event, OF_NOTHING,
			      "%s: the subnet manager at LID %u does not answer%s: it was ended or killed, or "
			      "the way to it is cut (sminfo; verbatim route); or it is busy: give the call more "
			      "time", call, now.sm_lid, answer->sent ? "" : " to what could not be sent");
}

/* ---- paths ---- */

static uint16_t ib_pkey(const struct endpoint *endpoint)
{
	if (endpoint->path.pkey)
		return endpoint->path.pkey;
	if (endpoint->source.family == AF_IB && endpoint->source.pkey)
		return endpoint->source.pkey;
	return endpoint->port->gid.pkey;
}

/* The key is in no row of the port's table. */
static int ib_not_a_member(const char *call, const struct endpoint *endpoint)
{
	const struct net_gid *port = &endpoint->port->gid;

	explain_about("ROUTE_ERROR", OF_NOTHING,
		      "%s: port %u of %s is in no partition 0x%04x: its table has no such P_Key "
		      "(smpquery pkeys): name another one in sib_pkey, or give the port this one in opensm's "
		      "partitions.conf", call, port->port, port->device, ib_pkey(endpoint) & ~PKEY_FULL);
	return EINVAL;
}

uint16_t ib_member_pkey(const struct endpoint *endpoint)
{
	struct net *net = gsi_net(agent.gsi);
	uint16_t port = endpoint->port->gid.ib_port;
	uint16_t found = net_pkey(net, port, net_find_pkey(net, port, ib_pkey(endpoint)));

	return found ? found : ib_pkey(endpoint);
}

int ib_pkey_index(const struct endpoint *endpoint, uint16_t *index)
{
	const struct net_gid *port = &endpoint->port->gid;
	unsigned found = net_find_pkey(gsi_net(agent.gsi), port->ib_port, ib_pkey(endpoint));

	if (found == PKEY_TABLE_SIZE)
		return ib_not_a_member("rdma_init_qp_attr", endpoint);
	*index = (uint16_t)found;
	return 0;
}

static void ib_path_take(struct endpoint *endpoint, const struct ib_path_record *record)
{
	struct endpoint_path *path = &endpoint->path;
	uint8_t mtu = (uint8_t)endpoint->port->gid.active_mtu;

	memcpy(path->dgid.raw, record->dgid, sizeof(record->dgid));
	path->dlid = record->dlid;
	path->slid = record->slid;
	path->pkey = record->p_key;
	path->mtu = record->mtu < mtu ? (uint8_t)record->mtu : mtu;
	path->rate = record->rate;
	path->hop_limit = record->hop_limit;
	path->traffic_class = record->tclass;
	path->flow_label = record->flow_label;
	path->service_level = record->sl;
	path->lifetime = endpoint->ack_timeout_set && endpoint->ack_timeout ?
			 (uint8_t)(endpoint->ack_timeout - 1) : record->packet_life_time;
	if (path->lifetime > 30)
		path->lifetime = 30;
	ip_addr_of_lid(path->remote, record->dlid);
}

int ib_path_ask(const struct endpoint *endpoint, struct ib_path_record *asked, uint64_t *components)
{
	struct net_ib_port now;
	unsigned index;

	if (!net_ib_port(gsi_net(agent.gsi), endpoint->port->gid.ib_port, &now))
		return ENODEV;
	index = net_ib_pkey_index(&now, ib_pkey(endpoint));
	if (index == PKEY_TABLE_SIZE)
		return ib_not_a_member("rdma_resolve_route", endpoint);
	*asked = (struct ib_path_record){ .p_key = now.pkey[index], .numb_path = 1, .reversible = 1 };
	memcpy(asked->dgid, endpoint->path.dgid.raw, sizeof(asked->dgid));
	memcpy(asked->sgid, now.gid.raw, sizeof(asked->sgid));
	*components = SA_PATH_DGID | SA_PATH_SGID | SA_PATH_PKEY | SA_PATH_NUMB_PATH | SA_PATH_REVERSIBLE;
	/* The IPv4 TOS is a QoS class, and an IPv6 traffic class is one of the path (cma in Linux). */
	if (endpoint->destination.family == AF_INET) {
		asked->qos_class = endpoint->tos_set ? endpoint->tos : 0;
		*components |= SA_PATH_QOS_CLASS;
	} else {
		asked->tclass = endpoint->tos_set ? endpoint->tos :
				(uint8_t)(be32toh(endpoint->source.flow_info) >> 20);
		*components |= SA_PATH_TCLASS;
	}
	return 0;
}

int ib_path_answered(struct endpoint *endpoint, const struct ib_path_record *asked,
		     const struct sa_answer *answer)
{
	struct ib_path_record record;
	const char *wrong = NULL;
	char gid[INET6_ADDRSTRLEN];

	if (answer->outcome == SA_TIMED_OUT) {
		ib_explain_silence(false, endpoint, answer);
		return ETIMEDOUT;
	}
	if (answer->outcome == SA_ANSWERED)
		wrong = sa_path_read(answer->record, asked, &record);
	if (answer->outcome == SA_REFUSED || wrong) {
		inet_ntop(AF_INET6, endpoint->path.dgid.raw, gid, sizeof(gid));
		explain_about("ROUTE_ERROR", OF_NOTHING,
			      "rdma_resolve_route: no path to GID %s with P_Key 0x%04x: %s: is the peer's port "
			      "Active, and is it in that partition (one of both as a full member)? (verbatim "
			      "fabric --say show; saquery PR; smpquery pkeys)", gid, ib_pkey(endpoint),
			      wrong ? wrong : sa_status_text(answer->status));
		return EINVAL;
	}
	ib_path_take(endpoint, &record);
	return 0;
}

/* ---- what follows from a path ---- */

void ib_describe_way(const struct endpoint *endpoint, struct mad_address *to)
{
	const struct endpoint_path *path = &endpoint->path;

	*to = (struct mad_address){ .link = ROUTE_IB };
	to->ib = (struct ib_way){ .port = endpoint->port->gid.ib_port, .lid = path->dlid,
				   .path_bits = (uint8_t)(path->slid & 0x7f), .sl = path->service_level };
	to->pkey_index = (uint16_t)net_find_pkey(gsi_net(agent.gsi), to->ib.port, path->pkey);
	ip_addr_of_lid(to->remote, path->dlid);
}

/*
 * Can it be answered in its partition? Chapter 12 has no reason for a key: Linux, which cannot make an address
 * vector without the key's row, refuses the GID, and names the port's own.
 */
bool ib_request_is_of_member(const struct cm_event *event)
{
	const struct cm_req *req = &event->message->req;
	struct net_ib_port now;

	if (!net_ib_port(gsi_net(agent.gsi), event->from->ib.port, &now) ||
	    net_ib_pkey_index(&now, req->pkey) < PKEY_TABLE_SIZE)
		return true;
	explain_about("reject 12", OF_NOTHING,
		      "a request from LID %u is refused (reason 12): it is for partition 0x%04x, and this port "
		      "(LID %u) has no such P_Key (smpquery pkeys; partitions.conf of opensm)",
		      event->from->ib.lid, req->pkey & ~PKEY_FULL, now.lid);
	cm_reject(event->connection, CM_REJECT_INVALID_GID, now.gid.raw, sizeof(now.gid.raw), NULL, 0,
		  clock_now_ns());
	return false;
}

static bool is_of_port(uint16_t lid)
{
	return lid && lid < LID_MULTICAST;
}

void ib_request_take(struct endpoint *endpoint, const struct mad_address *from, const struct cm_req *req)
{
	struct endpoint_path *path = &endpoint->path;
	struct net_ib_port now;

	path->dlid = from->ib.lid;
	path->service_level = from->ib.sl;
	path->slid = from->ib.path_bits;
	if (net_ib_port(gsi_net(agent.gsi), from->ib.port, &now)) {
		path->slid = (uint16_t)(now.lid | from->ib.path_bits);
		path->pkey = from->pkey_index < now.pkeys ? now.pkey[from->pkey_index] : 0;
	}
	if (!req)
		return;
	/* LIDs that are none, or the permissive one: those of the request itself. */
	if (is_of_port(req->local_lid))
		path->dlid = req->local_lid;
	if (is_of_port(req->remote_lid))
		path->slid = req->remote_lid;
	path->service_level = req->service_level;
	path->pkey = req->pkey;
}

void ib_ah(const struct endpoint *endpoint, struct ibv_ah_attr *attr)
{
	const struct endpoint_path *path = &endpoint->path;

	*attr = (struct ibv_ah_attr){
		.dlid = path->dlid, .sl = path->service_level, .src_path_bits = (uint8_t)(path->slid & 0x7f),
		.static_rate = path->rate, .port_num = endpoint->port->gid.port,
	};
	if (path->hop_limit <= 1)
		return;
	attr->is_global = 1;
	attr->grh = (struct ibv_global_route){ .dgid = path->dgid, .flow_label = path->flow_label,
					       .hop_limit = path->hop_limit,
					       .traffic_class = path->traffic_class };
}

/* ---- groups ---- */

int ib_group_ask(struct membership *group, uint8_t method, const struct ib_mc_member_record *record,
		 uint64_t components, void (*done)(void *owner, const struct sa_answer *answer))
{
	const struct sa_question question = {
		.port = group->endpoint->port->gid.ib_port, .method = method,
		.record = RECORD_MC_MEMBER_RECORD, .components = components, .value = record,
		.timeout_ns = GROUP_TIMEOUT_NS,
	};

	return agent.sa ? sa_ask(agent.sa, &question, done, group, clock_now_ns(), &group->query) : ENODEV;
}

int ib_group_join(struct membership *group)
{
	uint64_t components = SA_GROUP_PORT_GID | SA_GROUP_JOIN_STATE | SA_GROUP_PKEY | SA_GROUP_QKEY |
			      SA_GROUP_SL | SA_GROUP_FLOW_LABEL | SA_GROUP_TCLASS | SA_GROUP_MGID;
	struct net_ib_port now;

	if (net_ib_port(gsi_net(agent.gsi), group->endpoint->port->gid.ib_port, &now))
		memcpy(group->record->port_gid, now.gid.raw, sizeof(group->record->port_gid));
	return ib_group_ask(group, MAD_METHOD_SET, group->record, components, group->answered);
}

/* Nobody waits for it: the port's membership ends with the fabric's connection, too. */
static void ib_group_left(void *owner, const struct sa_answer *answer)
{
}

/* To subnet administration the port is the member: it stays while another id is one, or asks to be. */
static bool ib_group_is_shared(const struct membership *group) REQUIRES(agent.lock)
{
	struct list *node;

	list_for_each(node, &agent.endpoints) {
		const struct endpoint *endpoint = list_entry(node, struct endpoint, node);
		const struct membership *other = endpoint_is_ib(endpoint) ? endpoint->groups : NULL;

		for (; other; other = other->next)
			if (other != group && (other->joined || other->query) &&
			    endpoint->port->gid.ib_port == group->endpoint->port->gid.ib_port &&
			    other->record->join_state & group->record->join_state &&
			    !memcmp(other->mgid.raw, group->mgid.raw, sizeof(group->mgid.raw)))
				return true;
	}
	return false;
}

void ib_group_free(struct membership *group)
{
	if (group->query)
		sa_cancel(group->query);
	group->query = NULL;
	if (group->joined && !ib_group_is_shared(group))
		ib_group_ask(group, MAD_METHOD_DELETE, group->record,
			     SA_GROUP_MGID | SA_GROUP_PORT_GID | SA_GROUP_JOIN_STATE, ib_group_left);
	free(group->record);
	free(group);
}

void ib_groups_quiet(struct endpoint *endpoint)
{
	for (struct membership *group = endpoint->groups; group; group = group->next) {
		if (group->query)
			sa_cancel(group->query);
		group->query = NULL;
	}
}

void ib_groups_join_again(struct endpoint *endpoint)
{
	for (struct membership *group = endpoint->groups; group; group = group->next)
		if (group->joined && !group->query)
			ib_group_join(group);	/* no memory: the next sweep asks again */
}
