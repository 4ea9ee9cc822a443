/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Synchronous calls of librdmacm in virtual time (verbs.h): one listener and its connections in a
 * world of two hosts. The messages are those of cm/protocol, in packets between the QP1 of both;
 * events are taken, and QPs moved, in the order in which rdmacm/ does it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/program/names.h"

#include "base/bytes.h"
#include "base/timer_heap.h"
#include "cm/protocol/protocol.h"
#include "sim/program/program.h"
#include "trace/trace.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define CM_CALL_NS	3000
#define RESOLVE_NS	40000
#define FIRST_PORT	18515
#define CLIENT_PORT	49152
#define PORT_SPACE_TCP	0x0106ull
#define CM_IDS		8u
#define IP_HEADER	36u
#define RD_ATOMIC	4

/* What is waited for; its name is the application's. */
enum cm_news { NEWS_REQUEST, NEWS_RESPONSE, NEWS_ESTABLISHED, NEWS_OVER, NEWS_KINDS };

struct sim_id {
	struct rdma_cm_id public;	/* first */
	struct sim_cm *cm;
	unsigned number;		/* stands for its address in records: addresses differ from run to run */
	bool passive;
	uint16_t port;			/* the service */
	struct cm_connection *connection;
	struct cm_listener *listener;
	struct ibv_qp_init_attr wanted;	/* of the QPs of requests */
	unsigned news[NEWS_KINDS];	/* how many of each came and were not taken */
	struct cm_connection *request;	/* of a listener */
	uint32_t peer_qpn, peer_psn;
	uint8_t mtu;
};

struct sim_cm {
	struct sim_host *host;
	struct cm_protocol *protocol;
	uint32_t psn;			/* of QP1 */
	uint64_t tick_ns;		/* an event of the world waits for then; TIME_NEVER: none */
	struct sim_id *id[CM_IDS];
	unsigned ids, made;
	struct ibv_pd *pd;
};

/* ---- the protocol's host ---- */

static void cm_host_send(void *opaque, const struct mad_address *to, const struct cm_message *message)
{
	struct sim_cm *cm = opaque;
	struct packet packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY), .ack_request = true, .pkey = PKEY_DEFAULT,
				 .dest_qpn = QPN_GSI, .psn = cm->psn++,
				 .deth = { .qkey = QKEY_GSI, .source_qpn = QPN_GSI }, .payload_bytes = MAD_BYTES };
	uint8_t data[PACKET_HEADER_MAX + MAD_BYTES + ICRC_BYTES];
	size_t bytes = packet_write_headers(&packet, data);
	struct sim_host *peer = net_find_host(cm->host->sim, to->remote);

	cm_message_write(message, data + bytes);
	if (peer)
		net_send_management(cm->host, peer, data, bytes + MAD_BYTES);
}

static void cm_host_event(void *opaque, const struct cm_event *event)
{
	struct sim_id *id = event->owner;

	if (event->kind == CM_EVENT_REQ) {
		id->request = event->connection;
		id->peer_qpn = event->message->req.local_qpn;
		id->peer_psn = event->message->req.starting_psn;
		id->mtu = (uint8_t)event->message->req.path_mtu;
		cm_set_owner(event->connection, id);
	} else if (event->kind == CM_EVENT_REP) {
		id->peer_qpn = event->message->rep.local_qpn;
		id->peer_psn = event->message->rep.starting_psn;
	}
	if (event->kind != CM_EVENT_TIMEWAIT_EXIT)
		id->news[event->kind == CM_EVENT_REQ ? NEWS_REQUEST : event->kind == CM_EVENT_REP ? NEWS_RESPONSE :
			 event->kind == CM_EVENT_RTU ? NEWS_ESTABLISHED : NEWS_OVER]++;
}

static uint32_t cm_host_random(void *opaque)
{
	return (uint32_t)sim_random(((struct sim_cm *)opaque)->host->sim);
}

static void cm_host_count(void *opaque, int counter)
{
	counter_add(((struct sim_cm *)opaque)->host->counters, (enum counter)counter, 1);
}

static const struct cm_ops cm_host_ops = {
	.send = cm_host_send, .event = cm_host_event, .random = cm_host_random, .count = cm_host_count,
};

static void cm_tick_due(struct sim *sim, void *argument);

/* After each call of the protocol: its next deadline. */
static void cm_host_arm(struct sim_cm *cm)
{
	uint64_t deadline_ns = cm_deadline(cm->protocol);

	if (deadline_ns == TIME_NEVER || deadline_ns >= cm->tick_ns)
		return;
	cm->tick_ns = deadline_ns;
	sim_call_at(cm->host->sim, deadline_ns, cm_tick_due, cm);
}

static void cm_tick_due(struct sim *sim, void *argument)
{
	struct sim_cm *cm = argument;

	sim->running = cm->host;
	cm->tick_ns = TIME_NEVER;
	cm_tick(cm->protocol, sim->now_ns);
	cm_host_arm(cm);
}

static enum drop cm_host_receive(struct sim_host *host, struct sim_host *from, const struct packet *packet)
{
	struct sim_cm *cm = host->process->cm;
	struct mad_address address = { .hop_limit = 64 };
	enum drop why;

	memcpy(address.local, host->address, 16);
	memcpy(address.remote, from->address, 16);
	if (packet->payload_bytes < MAD_BYTES)
		return DROP_NONE;
	why = cm_receive(cm->protocol, &address, packet->payload, host->sim->now_ns);
	cm_host_arm(cm);
	return why;
}

static struct sim_cm *cm_here(void)
{
	struct sim_process *process = sim_process_here();
	struct sim_cm *cm = process->cm;

	if (cm)
		return cm;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		abort();
	cm->host = process->host;
	cm->tick_ns = TIME_NEVER;
	cm->protocol = cm_protocol_new(&cm_host_ops, cm, (cm->host->index + 1) << COMM_ID_SLOT_SHIFT,
				       COMM_ID_SLOT_SHIFT);
	if (!cm->protocol)
		abort();
	process->cm = cm;
	cm->host->management = cm_host_receive;
	return cm;
}

void sim_cm_free(struct sim_cm *cm)
{
	cm->host->management = NULL;
	cm_protocol_free(cm->protocol);
	for (unsigned i = 0; i < cm->ids; i++)
		free(cm->id[i]);
	free(cm);
}

/* ---- records ---- */

static void cm_traced(const struct sim_id *id, const char *call, uint64_t began_ns)
{
	tracepoint(cm_call, .name = call, .qp = id->public.qp ? id->public.qp->qp_num : 0,
		   .id = (const void *)(uintptr_t)id->number, .ns = began_ns);
}

static uint64_t cm_begin(uint64_t takes_ns)
{
	uint64_t began_ns = tracepoint_began_ns();

	sim_spend(takes_ns);
	return began_ns;
}

/* The application takes an event, by itself or inside of a call. */
static void cm_take(struct sim_id *id, enum cm_news news, uint64_t began_ns, enum rdma_cm_event_type type)
{
	while (!id->news[news])
		sim_wait();
	id->news[news]--;
	cm_traced(id, "rdma_get_cm_event", began_ns);
	if (news == NEWS_RESPONSE)
		return;			/* it is told once the QP has moved */
	tracepoint(cm, .id = (const void *)(uintptr_t)id->number, .name = rdma_event_str(type));
}

/* ---- ids ---- */

static struct sim_id *cm_new_id(struct sim_cm *cm)
{
	struct sim_id *id = cm->ids < CM_IDS ? calloc(1, sizeof(*id)) : NULL;

	if (!id)
		abort();
	id->cm = cm;
	id->number = 0x1000 * (cm->host->index + 1) + ++cm->made;
	id->public.ps = RDMA_PS_TCP;
	id->public.qp_type = IBV_QPT_RC;
	cm->id[cm->ids++] = id;
	return id;
}

/* The device and its domain, once a process. */
static void cm_bind(struct sim_id *id)
{
	struct sim_process *process = sim_process_here();

	if (!id->cm->pd) {
		id->public.verbs = ibv_open_device(&process->device);
		id->cm->pd = ibv_alloc_pd(id->public.verbs);
	}
	id->public.verbs = &process->context;
	id->public.pd = id->cm->pd;
}

static struct ibv_cq *cm_new_cq(struct sim_id *id, uint32_t entries, struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(id->public.verbs);
	return ibv_create_cq(id->public.verbs, (int)entries, id, *channel, 0);
}

static void cm_move_qp(struct sim_id *id, enum ibv_qp_state state)
{
	struct sim_host *host = id->cm->host, *peer = host->sim->host[!host->index];
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .path_mtu = id->mtu, .rq_psn = id->peer_psn,
		.dest_qp_num = id->peer_qpn, .max_dest_rd_atomic = RD_ATOMIC, .min_rnr_timer = 14, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = RD_ATOMIC, .ah_attr = { .is_global = 1,
			.port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } } };
	int mask = IBV_QP_STATE;

	memcpy(attr.ah_attr.grh.dgid.raw, peer->address, 16);
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	else if (state == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER;
	else if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	if (ibv_modify_qp(id->public.qp, &attr, mask))
		sim_fail(host->sim, "rdma_cm: the QP does not move to state %d", (int)state);
}

static void cm_create_qp(struct sim_id *id, const struct ibv_qp_init_attr *wanted)
{
	struct ibv_qp_init_attr attr = *wanted;
	uint64_t began_ns = tracepoint_began_ns();

	attr.send_cq = id->public.send_cq = cm_new_cq(id, attr.cap.max_send_wr, &id->public.send_cq_channel);
	attr.recv_cq = id->public.recv_cq = cm_new_cq(id, attr.cap.max_recv_wr, &id->public.recv_cq_channel);
	attr.qp_type = IBV_QPT_RC;
	id->public.qp = ibv_create_qp(id->public.pd, &attr);
	cm_move_qp(id, IBV_QPS_INIT);
	cm_traced(id, "rdma_create_qp_ex", began_ns);
}

static void cm_resolve(struct sim_id *id, const char *call, enum rdma_cm_event_type type)
{
	uint64_t began_ns = cm_begin(RESOLVE_NS);

	id->news[NEWS_OVER]++;		/* it takes no message */
	cm_take(id, NEWS_OVER, began_ns, type);
	cm_traced(id, call, began_ns);
}

/* ---- calls ---- */

int sim_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			 struct rdma_addrinfo **info)
{
	struct rdma_addrinfo *made = calloc(1, sizeof(*made));

	if (!made)
		return -1;
	made->ai_flags = hints ? hints->ai_flags : 0;
	made->ai_port_space = RDMA_PS_TCP;
	made->ai_qp_type = IBV_QPT_RC;
	made->ai_family = service ? atoi(service) : FIRST_PORT;	/* all that a world of two hosts asks for */
	*info = made;
	return 0;
}

void sim_rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
	free(info);
}

int sim_rdma_create_ep(struct rdma_cm_id **made, struct rdma_addrinfo *info, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	struct sim_id *id = cm_new_id(cm_here());
	uint64_t began_ns;

	id->passive = info->ai_flags & RAI_PASSIVE;
	id->port = (uint16_t)info->ai_family;
	id->wanted = *attr;
	*made = &id->public;
	if (id->passive) {
		began_ns = cm_begin(CM_CALL_NS);
		cm_bind(id);
		cm_traced(id, "rdma_bind_addr", began_ns);
		return 0;
	}
	cm_bind(id);
	cm_resolve(id, "rdma_resolve_addr", RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_resolve(id, "rdma_resolve_route", RDMA_CM_EVENT_ROUTE_RESOLVED);
	cm_create_qp(id, attr);
	return 0;
}

void sim_rdma_destroy_ep(struct rdma_cm_id *public)
{
	struct sim_id *id = (struct sim_id *)public;
	struct sim_cm *cm = id->cm;
	uint64_t began_ns;

	if (public->qp) {
		ibv_destroy_qp(public->qp);
		ibv_destroy_cq(public->recv_cq);
		ibv_destroy_cq(public->send_cq);
		ibv_destroy_comp_channel(public->recv_cq_channel);
		ibv_destroy_comp_channel(public->send_cq_channel);
		public->qp = NULL;
	}
	began_ns = cm_begin(CM_CALL_NS);
	if (id->listener)
		cm_listener_free(id->listener, cm->host->sim->now_ns);
	if (id->connection)
		cm_abandon(id->connection, cm->host->sim->now_ns);
	cm_host_arm(cm);
	cm_traced(id, "rdma_destroy_id", began_ns);
	for (unsigned i = 0; i < cm->ids; i++)
		if (cm->id[i] == id)
			cm->id[i] = cm->id[--cm->ids];
	free(id);
	if (!cm->ids) {
		ibv_dealloc_pd(cm->pd);
		cm->pd = NULL;
	}
}

static uint64_t cm_service(const struct sim_id *id)
{
	return PORT_SPACE_TCP << 16 | id->port;
}

int sim_rdma_listen(struct rdma_cm_id *public, int backlog)
{
	struct sim_id *id = (struct sim_id *)public;
	uint64_t began_ns = cm_begin(CM_CALL_NS);
	int err = cm_listen(id->cm->protocol, cm_service(id), id->cm->host->address, AF_INET, id, &id->listener);

	cm_traced(id, "rdma_listen", began_ns);
	errno = err;
	return err ? -1 : 0;
}

__be16 sim_rdma_get_src_port(struct rdma_cm_id *public)
{
	return htons(((struct sim_id *)public)->port);
}

int sim_rdma_get_request(struct rdma_cm_id *public, struct rdma_cm_id **got)
{
	struct sim_id *listener = (struct sim_id *)public, *id;

	cm_take(listener, NEWS_REQUEST, tracepoint_began_ns(), RDMA_CM_EVENT_CONNECT_REQUEST);
	id = cm_new_id(listener->cm);
	id->passive = true;
	id->connection = listener->request;
	id->peer_qpn = listener->peer_qpn;
	id->peer_psn = listener->peer_psn;
	id->mtu = listener->mtu;
	cm_set_owner(id->connection, id);
	cm_bind(id);
	cm_create_qp(id, &listener->wanted);
	*got = &id->public;
	return 0;
}

static void cm_to_rts(struct sim_id *id)
{
	cm_move_qp(id, IBV_QPS_INIT);
	cm_move_qp(id, IBV_QPS_RTR);
	cm_move_qp(id, IBV_QPS_RTS);
	sim_spend(CM_CALL_NS);
}

int sim_rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
	struct sim_id *id = (struct sim_id *)public;
	const struct cm_accept accept = { .local_qpn = public->qp->qp_num, .rnr_retry_count = 7,
					  .responder_resources = RD_ATOMIC, .initiator_depth = RD_ATOMIC,
					  .flow_control = true };
	uint64_t began_ns = cm_begin(CM_CALL_NS);

	cm_to_rts(id);
	cm_accept(id->connection, &accept, id->cm->host->sim->now_ns);
	cm_host_arm(id->cm);
	cm_take(id, NEWS_ESTABLISHED, tracepoint_began_ns(), RDMA_CM_EVENT_ESTABLISHED);
	cm_traced(id, "rdma_accept", began_ns);
	return 0;
}

int sim_rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
	struct sim_id *id = (struct sim_id *)public;
	struct sim_host *host = id->cm->host, *peer = host->sim->host[!host->index];
	uint64_t began_ns = cm_begin(CM_CALL_NS), waited_ns = tracepoint_began_ns();
	uint8_t data[IP_HEADER];
	struct cm_connect request = {
		.service_id = cm_service(id), .local_ca_guid = ibv_get_device_guid(NULL),
		.local_qpn = id->public.qp->qp_num, .transport = CM_TRANSPORT_RC, .responder_resources = RD_ATOMIC,
		.initiator_depth = RD_ATOMIC, .retry_count = 7, .rnr_retry_count = 7, .flow_control = true,
		.path_mtu = IBV_MTU_1024, .packet_rate = IBV_RATE_100_GBPS, .local_ack_timeout = 18,
		.hop_limit = 64, .pkey = PKEY_DEFAULT, .response_timeout = 20, .max_retries = 15,
		.private_data = data, .private_data_bytes = sizeof(data), .address = { .hop_limit = 64 },
	};

	id->mtu = IBV_MTU_1024;
	/* The IP addresses of annex A11. */
	memset(data, 0, IP_HEADER);
	data[1] = 4 << 4;
	put_be16(data + 2, CLIENT_PORT);
	memcpy(data + 16, host->address + 12, 4);
	memcpy(data + 32, peer->address + 12, 4);
	memcpy(request.local_gid, host->address, 16);
	memcpy(request.remote_gid, peer->address, 16);
	memcpy(request.address.local, host->address, 16);
	memcpy(request.address.remote, peer->address, 16);
	if (cm_connect(id->cm->protocol, &request, id, host->sim->now_ns, &id->connection))
		sim_fail(host->sim, "rdma_cm: no connection can be begun");
	cm_host_arm(id->cm);
	cm_take(id, NEWS_RESPONSE, waited_ns, RDMA_CM_EVENT_CONNECT_RESPONSE);
	cm_to_rts(id);
	cm_ready_to_use(id->connection, NULL, 0, id->cm->host->sim->now_ns);
	cm_host_arm(id->cm);
	tracepoint(cm, .id = (const void *)(uintptr_t)id->number,
		   .name = rdma_event_str(RDMA_CM_EVENT_ESTABLISHED));
	cm_traced(id, "rdma_connect", began_ns);
	return 0;
}

int sim_rdma_disconnect(struct rdma_cm_id *public)
{
	struct sim_id *id = (struct sim_id *)public;
	uint64_t began_ns = cm_begin(CM_CALL_NS);

	cm_move_qp(id, IBV_QPS_ERR);
	if (!id->news[NEWS_OVER])
		cm_disconnect(id->connection, NULL, 0, id->cm->host->sim->now_ns);
	cm_host_arm(id->cm);
	cm_take(id, NEWS_OVER, tracepoint_began_ns(), RDMA_CM_EVENT_DISCONNECTED);
	cm_traced(id, "rdma_disconnect", began_ns);
	return 0;
}
