/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of librdmacm, synchronous and not. A thread without signals is the server. */
#include "ends.h"
#include "storm.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PORT 7471

static struct rdma_event_channel *server_channel;
static struct rdma_cm_id *listener;
static pthread_t server;
static volatile bool serving;

/* What steps make. */
static struct rdma_event_channel *channel, *new_channel;
static struct rdma_cm_id *id, *endpoint, *own_listener, *accepted;
static struct rdma_cm_event *event;
static bool checking;		/* in quiet: what is not as it should be is said */

/*
 * A handler that left here would leave open whether the event was acknowledged: either its id could not be
 * destroyed, or the event would be freed twice. So handlers return.
 */
static void acknowledge(void)
{
	storm_stays = true;
	if (event)
		rdma_ack_cm_event(TAKE(event));
	storm_stays = false;
}

/* ---- the server ---- */

static void answer(struct rdma_cm_id *request)
{
	struct ibv_qp_init_attr attr = queues();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };

	if (rdma_create_qp(request, NULL, &attr) || rdma_accept(request, &param)) {
		rdma_reject(request, NULL, 0);
		if (request->qp)
			rdma_destroy_qp(request);
		rdma_destroy_id(request);
	}
}

static void *serve(void *unused)
{
	struct rdma_cm_event *got;

	while (serving && !rdma_get_cm_event(server_channel, &got)) {
		enum rdma_cm_event_type kind = got->event;
		struct rdma_cm_id *of = got->id;

		rdma_ack_cm_event(got);
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
			answer(of);
		} else if (of != listener && kind != RDMA_CM_EVENT_ESTABLISHED) {
			if (kind == RDMA_CM_EVENT_DISCONNECTED)
				rdma_disconnect(of);
			if (of->qp)
				rdma_destroy_qp(of);
			rdma_destroy_id(of);
		}
	}
	return unused;
}

void cm_open(void)
{
	struct sockaddr_in address = loopback(PORT), any = loopback(0);
	sigset_t all, before;

	NEED(channel = rdma_create_event_channel());
	NEED(!rdma_create_id(channel, &own_listener, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(own_listener, (struct sockaddr *)&any));
	NEED(!rdma_listen(own_listener, 0));
	if (serving)
		return;
	serving = true;
	NEED(server_channel = rdma_create_event_channel());
	NEED(!rdma_create_id(server_channel, &listener, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(listener, (struct sockaddr *)&address));
	NEED(!rdma_listen(listener, 0));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	NEED(!pthread_create(&server, NULL, serve, NULL));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- steps ---- */

static void destroy(struct rdma_cm_id *old)
{
	if (!old)
		return;
	if (old->qp)
		rdma_destroy_qp(old);
	rdma_destroy_id(old);
}

static void tidy(void)
{
	acknowledge();
	destroy(TAKE(id));
	destroy(TAKE(accepted));
	if (endpoint)
		rdma_destroy_ep(TAKE(endpoint));
}

/* The next event of the channel, whose id may have gone. */
static bool next_event(enum rdma_cm_event_type wanted)
{
	for (;;) {
		bool is_it;

		acknowledge();
		if (rdma_get_cm_event(channel, &event))
			return false;
		if (event->id != id)
			continue;
		is_it = event->event == wanted;
		if (checking && !is_it)
			fprintf(stderr, "%s, status %d, and not %s\n", rdma_event_str(event->event),
				event->status, rdma_event_str(wanted));
		acknowledge();
		return is_it;
	}
}

static bool begin_to_connect(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	struct ibv_qp_init_attr attr = queues();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .retry_count = 7 };

	return !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) &&
	       !rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000) &&
	       next_event(RDMA_CM_EVENT_ADDR_RESOLVED) && !rdma_resolve_route(id, 2000) &&
	       next_event(RDMA_CM_EVENT_ROUTE_RESOLVED) && !rdma_create_qp(id, NULL, &attr) &&
	       !rdma_connect(id, &param);
}

static bool connect_id(void)
{
	return begin_to_connect(PORT) && next_event(RDMA_CM_EVENT_ESTABLISHED);
}

static void step_connect(void)
{
	tidy();
	if (connect_id() && !rdma_disconnect(id))
		next_event(RDMA_CM_EVENT_DISCONNECTED);
}

/* Both ends, on one channel. */
static bool get_own_request(void)
{
	if (!begin_to_connect(ntohs(rdma_get_src_port(own_listener))))
		return false;
	do {
		acknowledge();
		if (rdma_get_cm_event(channel, &event) || event->id == id)
			return false;	/* rejected */
	} while (event->event != RDMA_CM_EVENT_CONNECT_REQUEST);
	accepted = event->id;
	acknowledge();
	return true;
}

static bool accept_own(void)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct ibv_qp_init_attr attr = queues();

	return get_own_request() && !rdma_create_qp(accepted, NULL, &attr) &&
	       !rdma_accept(accepted, &param) && next_event(RDMA_CM_EVENT_ESTABLISHED);
}

static void step_accept(void)
{
	tidy();
	if (accept_own() && !rdma_disconnect(accepted))
		next_event(RDMA_CM_EVENT_DISCONNECTED);
}

static void step_reject(void)
{
	tidy();
	if (get_own_request() && !rdma_reject(accepted, NULL, 0))
		next_event(RDMA_CM_EVENT_REJECTED);
}

static void step_bind(void)
{
	struct sockaddr_in address = loopback(0);

	tidy();
	if (!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) &&
	    !rdma_bind_addr(id, (struct sockaddr *)&address))
		rdma_listen(id, 1);
}

static void step_resolve(void)
{
	struct sockaddr_in address = loopback(PORT);

	tidy();
	if (!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) &&
	    !rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000))
		next_event(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void step_wait(void)
{
	acknowledge();
	rdma_get_cm_event(channel, &event);
}

static void step_channel(void)
{
	if (new_channel)
		rdma_destroy_event_channel(TAKE(new_channel));
	new_channel = rdma_create_event_channel();
}

/* What waits inside the call: address, route, connection. */
static bool connect_endpoint(void)
{
	struct rdma_addrinfo info = { .ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP,
				      .ai_family = AF_INET };
	struct sockaddr_in address = loopback(PORT);
	struct ibv_qp_init_attr attr = queues();

	info.ai_dst_addr = (struct sockaddr *)&address;
	info.ai_dst_len = sizeof(address);
	return !rdma_create_ep(&endpoint, &info, NULL, &attr) && !rdma_connect(endpoint, NULL);
}

static void step_endpoint(void)
{
	tidy();
	if (connect_endpoint())
		rdma_disconnect(endpoint);
}

static void step_request(void)
{
	struct rdma_addrinfo info = { .ai_flags = RAI_PASSIVE, .ai_qp_type = IBV_QPT_RC,
				      .ai_port_space = RDMA_PS_TCP, .ai_family = AF_INET };
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_id *request;

	tidy();
	info.ai_src_addr = (struct sockaddr *)&address;
	info.ai_src_len = sizeof(address);
	if (!rdma_create_ep(&endpoint, &info, NULL, NULL) && !rdma_listen(endpoint, 1))
		rdma_get_request(endpoint, &request);
}

static void step_migrate(void)
{
	tidy();
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return;
	if (new_channel && !rdma_migrate_id(id, new_channel))
		rdma_migrate_id(id, channel);
}

static void step_devices(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

const struct step cm_steps[] = {
	{ "rdma_connect", step_connect }, { "rdma_accept", step_accept },
	{ "rdma_reject", step_reject }, { "rdma_bind_addr", step_bind },
	{ "rdma_resolve_addr", step_resolve }, { "rdma_get_cm_event", step_wait },
	{ "rdma_create_event_channel", step_channel }, { "rdma_create_ep", step_endpoint },
	{ "rdma_get_request", step_request }, { "rdma_migrate_id", step_migrate },
	{ "rdma_get_devices", step_devices }, { NULL, NULL },
};

/*
 * ids and QPs whose pointers were lost keep their connections. When QPNs have come round, the other end rejects
 * one of those as stale (IBTA 12.9.8.3.1): try the next.
 */
static bool succeeds(bool (*connect)(void))
{
	unsigned tries;

	for (tries = 0; tries < 100; tries++) {
		tidy();
		if (connect())
			return true;
	}
	return false;
}

void cm_check(void)
{
	checking = true;
	NEED(succeeds(connect_id));
	NEED(!rdma_disconnect(id));
	NEED(next_event(RDMA_CM_EVENT_DISCONNECTED));
	NEED(succeeds(accept_own));
	NEED(succeeds(connect_endpoint));
	NEED(!rdma_disconnect(endpoint));
	tidy();
	step_channel();
	NEED(new_channel);
	checking = false;
}

/* The channel's ids that lost their pointer stay, and with them its memory. */
void cm_close(void)
{
	NEED(!rdma_destroy_id(TAKE(own_listener)));
	rdma_destroy_event_channel(TAKE(new_channel));
	rdma_destroy_event_channel(TAKE(channel));
}
