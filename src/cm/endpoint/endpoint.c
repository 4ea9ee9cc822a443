/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: create, destroy, query, options, and the way into and out of every call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/call.h"
#include "base/ip_addr.h"
#include "base/log.h"
#include "base/zeroed.h"
#include "cm/endpoint/internal.h"
#include "platform/clock.h"
#include "wire/smp.h"

#define MOMENT_NS 20000000u	/* after which a wait looks whether handlers are owed */

/* ---- begin and end of calls ---- */

int endpoint_allowed(const struct endpoint *endpoint, enum endpoint_call call)
{
	enum endpoint_state next = state_after_call(endpoint->state, call);

	return explain_out_of_turn(call, endpoint, endpoint->busy ? EINVAL : state_errno(next));
}

int endpoint_enter(struct endpoint *endpoint, enum endpoint_call call)
{
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint_allowed(endpoint, call);
	if (!err)
		endpoint->busy = true;
	agent_unlock();
	return err;
}

int endpoint_exit(struct endpoint *endpoint, enum endpoint_call call, int err)
{
	agent_lock();
	endpoint->busy = false;
	if (!err)
		endpoint_move(endpoint, call);
	agent_unlock();
	return err;
}

/* ---- create, destroy ---- */

struct endpoint *endpoint_new(uint16_t space, uint8_t qp_type, void *user)
{
	struct endpoint *endpoint = zeroed_new(sizeof(*endpoint));

	if (!endpoint)
		return NULL;
	list_init(&endpoint->events);
	list_init(&endpoint->same_port);
	list_init(&endpoint->same_peer);
	list_init(&endpoint->of_port);
	endpoint->number = ++agent.last_number;
	list_add_tail(&agent.endpoints, &endpoint->node);
	endpoint->user = user;
	endpoint->space = space;
	endpoint->qp_type = qp_type;
	endpoint->generation = agent.generation;
	endpoint->starting_psn = agent_random() & 0xffffff;
	return endpoint;
}

int endpoint_create(struct cm_channel *channel, enum rdma_port_space space,
		    enum ibv_qp_type qp_type, void *user, struct endpoint **created)
{
	struct endpoint *endpoint;

	if (!channel_is_ours(channel))
		return ENODEV;
	if (space != RDMA_PS_TCP && space != RDMA_PS_UDP && space != RDMA_PS_IB && space != RDMA_PS_IPOIB) {
		explain("rdma_create_id: invalid port space 0x%x: expected RDMA_PS_TCP, _UDP, _IB "
			"or _IPOIB",
			space);
		return EINVAL;
	}
	agent_lock();
	endpoint = endpoint_new((uint16_t)space, (uint8_t)qp_type, user);
	if (endpoint) {
		endpoint->channel = channel;
		channel_ref(channel);
		*created = endpoint;
	}
	agent_unlock();
	return endpoint ? 0 : ENOMEM;
}

void endpoint_set_user(struct endpoint *endpoint, void *user)
{
	endpoint->user = user;
}

void endpoint_free(struct endpoint *endpoint)
{
	struct membership *group;

	list_remove(&endpoint->node);
	resolve_cancel(endpoint);
	route_cancel(endpoint);
	if (endpoint->connection)
		provider_of(endpoint)->abandon(endpoint);
	ports_drop(endpoint);
	while ((group = endpoint->groups)) {	/* left by its port */
		endpoint->groups = group->next;
		ib_group_free(group);
	}
	endpoint_set_port(endpoint, NULL);
	free(endpoint);
}

void endpoint_wait_for_acks(uint64_t until_ns)
{
	uint64_t moment_ns = call_guarded ? clock_now_ns() + MOMENT_NS : TIME_NEVER;

	agent_wait(moment_ns < until_ns ? moment_ns : until_ns);
	if (call_is_owed()) {	/* a handler may leave for good: the call can be made again */
		agent_unlock();
		call_pause();
		agent_lock();
	}
}

/* Nothing comes any more once the connection is let go; then what came is dropped. */
static void endpoint_is_quiet(struct endpoint *endpoint) REQUIRES(agent.lock)
{
	uint64_t patience_ns = explaining() ? clock_now_ns() + EXPLAIN_AFTER_MS * 1000000ull : TIME_NEVER;

	endpoint->busy = true;
	channel_touch(endpoint);
	if (endpoint->listener)
		cm_listener_free(endpoint->listener, clock_now_ns());
	endpoint->listener = NULL;
	resolve_cancel(endpoint);
	route_cancel(endpoint);
	ib_groups_quiet(endpoint);
	if (endpoint->connection)
		provider_of(endpoint)->abandon(endpoint);
	events_drop(endpoint);
	while (endpoint->held) {
		endpoint_wait_for_acks(patience_ns);
		events_drop(endpoint);
		if (endpoint->held && patience_ns != TIME_NEVER && clock_now_ns() >= patience_ns) {
			explain_held(endpoint, "rdma_destroy_id");
			patience_ns = TIME_NEVER;
			agent_unlock();		/* the line is written */
			agent_lock();
		}
	}
}

void endpoint_destroy(struct endpoint *endpoint)
{
	struct cm_channel *channel;
	struct gsi_claim *claim;
	struct gsi *gsi;

	if (!endpoint_is_ours(endpoint)) {
		free(endpoint);
		return;
	}
	agent_unwatch(endpoint);
	agent_lock();
	endpoint_is_quiet(endpoint);
	claim = endpoint->claim;
	gsi = agent.gsi;
	channel = endpoint->channel;
	if (claim) {	/* before the port is free in this process: its next user claims it */
		agent_unlock();
		gsi_release(gsi, claim);
		agent_lock();
	}
	endpoint_free(endpoint);
	agent_unlock();
	channel_unref(channel);
}

/* ---- query ---- */

void endpoint_query(struct endpoint *endpoint, struct endpoint_info *info)
{
	const struct endpoint_path *path = &endpoint->path;

	memset(info, 0, sizeof(*info));
	if (!endpoint_is_ours(endpoint))
		return;
	agent_lock();
	address_write(&endpoint->source, &info->source);
	address_write(&endpoint->destination, &info->destination);
	if (endpoint->port) {
		const struct net_gid *port = &endpoint->port->gid;

		memcpy(info->device, port->device, sizeof(info->device));
		info->port = port->port;
		info->gid_index = port->gid_index;
		info->sgid = port->gid;
		info->pkey = port->pkey;
		info->dgid = path->dgid;
	}
	info->has_route = endpoint->port && path->mtu;
	if (info->has_route)
		info->path = (struct ibv_sa_path_rec){
			.dgid = path->dgid, .sgid = endpoint->port->gid.gid,
			.dlid = htobe16(path->dlid), .slid = htobe16(path->slid),
			.flow_label = htobe32(path->flow_label), .hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class, .reversible = 1, .numb_path = 1,
			.pkey = htobe16(path->pkey), .sl = path->service_level,
			.mtu_selector = PATH_SELECTOR_EXACTLY, .mtu = path->mtu,
			.rate_selector = PATH_SELECTOR_EXACTLY, .rate = path->rate,
			.packet_life_time_selector = PATH_SELECTOR_EXACTLY,
			.packet_life_time = path->lifetime,
		};
	agent_unlock();
}

uint32_t endpoint_qkey(struct endpoint *endpoint)
{
	uint32_t qkey;

	if (!endpoint_is_ours(endpoint))
		return 0;
	agent_lock();
	qkey = qkey_default(endpoint);
	agent_unlock();
	return qkey;
}

/* ---- options ---- */

static int set_id_option(struct endpoint *endpoint, int option, const void *value, size_t bytes)
	REQUIRES(agent.lock)
{
	uint8_t byte = 0;
	int number = 0;

	if (option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT) {
		if (bytes != sizeof(byte))
			return EINVAL;
		memcpy(&byte, value, sizeof(byte));
	} else if (option == RDMA_OPTION_ID_REUSEADDR || option == RDMA_OPTION_ID_AFONLY) {
		if (bytes != sizeof(number))
			return EINVAL;
		memcpy(&number, value, sizeof(number));
	}
	switch (option) {
	case RDMA_OPTION_ID_TOS:
		endpoint->tos = byte;
		endpoint->tos_set = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (!number && endpoint->state != STATE_NEW)
			return EINVAL;
		endpoint->reuse = number;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (endpoint->state != STATE_NEW && endpoint->state != STATE_BOUND)
			return EINVAL;
		endpoint->afonly = number;
		endpoint->afonly_set = true;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (endpoint->qp_type != IBV_QPT_RC && endpoint->qp_type != IBV_QPT_XRC_SEND)
			return EINVAL;
		if (byte > 31)
			return EINVAL;
		endpoint->ack_timeout = byte;
		endpoint->ack_timeout_set = true;
		return 0;
	default:
		return ENOSYS;
	}
}

/* The record as the wire has it; of a RoCE path LIDs are left aside. */
static void take_record(struct endpoint *endpoint, const struct ibv_path_record *record)
	REQUIRES(agent.lock)
{
	struct endpoint_path *path = &endpoint->path;
	uint32_t flow = be32toh(record->flowlabel_hoplimit);

	path->dgid = record->dgid;
	path->flow_label = flow >> 8 & 0xfffff;
	path->hop_limit = (uint8_t)flow;
	path->traffic_class = record->tclass;
	path->pkey = be16toh(record->pkey);
	path->service_level = (uint8_t)(be16toh(record->qosclass_sl) & 0xf);
	path->mtu = record->mtu & 0x3f;
	path->rate = record->rate & 0x3f;
	path->lifetime = record->packetlifetime & 0x3f;
	if (path->lifetime > 30)
		path->lifetime = 30;
	if (!endpoint_is_ib(endpoint))
		return;
	path->dlid = be16toh(record->dlid);
	path->slid = be16toh(record->slid);
	ip_addr_of_lid(path->remote, path->dlid);
}

static int set_path(struct endpoint *endpoint, const void *value, size_t bytes)
	REQUIRES(agent.lock)
{
	uint32_t wanted = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	struct ibv_path_data data;
	size_t at;
	int err;

	if (!bytes || bytes % sizeof(data))
		return EINVAL;
	for (at = 0; at < bytes; at += sizeof(data)) {
		memcpy(&data, (const char *)value + at, sizeof(data));
		if (data.flags == wanted)
			break;
	}
	if (at == bytes)
		return EINVAL;
	if ((data.path.mtu & 0x3f) < IBV_MTU_256 || (data.path.mtu & 0x3f) > IBV_MTU_4096)
		return EINVAL;
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_PATH);
	if (err)
		return err;
	if (endpoint_is_ib(endpoint) && (!data.path.dlid || be16toh(data.path.dlid) >= LID_MULTICAST)) {
		explain_refused("rdma_set_option", EINVAL, "rdma_set_option: the path record has no LID of the "
				"peer's port (dlid): packets travel by it: take the record that "
				"subnet administration gives (saquery PR)");
		return EINVAL;
	}
	take_record(endpoint, &data.path);
	endpoint_move(endpoint, ENDPOINT_CALL_PATH);
	event_post_status(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int endpoint_set_option(struct endpoint *endpoint, int level, int option, const void *value,
			size_t bytes)
{
	int err = ENOSYS;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	if (level == RDMA_OPTION_ID)
		err = set_id_option(endpoint, option, value, bytes);
	else if (level == RDMA_OPTION_IB && option == RDMA_OPTION_IB_PATH)
		err = set_path(endpoint, value, bytes);
	agent_unlock();
	return err;
}
