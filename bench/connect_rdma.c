/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The half of connect_rate that uses rdma_cm, with events. The client moves its queue pairs by itself
 * (as programs with QPs of their own do), so that the reply, the transitions and the RTU can be
 * told apart; the server leaves that to the library.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "connect.h"

#define PATIENCE_MS	5000
#define BACKLOG		1024

enum client_step {
	CREATE_ID, RESOLVE_ADDRESS, CREATE_QP, RESOLVE_ROUTE, REQUEST, MODIFY_QP, READY_TO_USE,
	DISCONNECT, DESTROY_QP, DESTROY_ID, CLIENT_STEPS
};

static struct step client_steps[CLIENT_STEPS] = {
	{ "create ID" }, { "resolve address" }, { "create QP" }, { "resolve route" },
	{ "REQ to REP" }, { "modify QP, 3 times" }, { "RTU" }, { "DREQ to DREP" },
	{ "destroy QP" }, { "destroy ID" },
};

enum server_step { SERVER_CREATE_QP, SERVER_ACCEPT, SERVER_DESTROY, SERVER_STEPS };

static struct step server_steps[SERVER_STEPS] = {
	{ "server: create QP" }, { "server: accept" }, { "server: QP and ID destroyed" },
};

struct connection {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	uint64_t since_ns;
};

static struct rdma_event_channel *channel;
static struct ibv_pd *pd;		/* shared by all connections: one device is used */
static struct ibv_cq *cq;
static unsigned begun, finished;

static void steps_begin(struct step *steps, unsigned count, unsigned samples)
{
	for (unsigned i = 0; i < count; i++) {
		steps[i].taken_ns = calloc(samples, sizeof(*steps[i].taken_ns));
		must(!steps[i].taken_ns, "calloc");
	}
}

static struct ibv_qp_init_attr qp_attributes(struct ibv_context *context)
{
	if (!pd) {
		pd = ibv_alloc_pd(context);
		must(!pd, "ibv_alloc_pd");
		cq = ibv_create_cq(context, 16, NULL, NULL, 0);
		must(!cq, "ibv_create_cq");
	}
	return (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
					  .cap = { 1, 1, 1, 1, 0 } };
}

/* The next event, acknowledged; its kind, the rest in *@event. */
static enum rdma_cm_event_type next_event(struct rdma_cm_event *event)
{
	struct rdma_cm_event *got;

	must(rdma_get_cm_event(channel, &got), "rdma_get_cm_event");
	*event = *got;
	must(rdma_ack_cm_event(got), "rdma_ack_cm_event");
	return event->event;
}

static void unexpected(const struct rdma_cm_event *event)
{
	fprintf(stderr, "connect_rate: %s, status %d\n", rdma_event_str(event->event),
		event->status);
	exit(1);
}

/* ---- client ---- */

static void start(struct connection *connection, const struct sockaddr *server)
{
	connection->since_ns = now_ns();
	must(rdma_create_id(channel, &connection->id, connection, RDMA_PS_TCP), "rdma_create_id");
	step_end(&client_steps[CREATE_ID], &connection->since_ns);
	must(rdma_resolve_addr(connection->id, NULL, (struct sockaddr *)server, PATIENCE_MS),
	     "rdma_resolve_addr");
	begun++;
}

static void have_address(struct connection *connection)
{
	struct ibv_qp_init_attr attr;

	step_end(&client_steps[RESOLVE_ADDRESS], &connection->since_ns);
	attr = qp_attributes(connection->id->verbs);
	connection->qp = ibv_create_qp(pd, &attr);
	must(!connection->qp, "ibv_create_qp");
	step_end(&client_steps[CREATE_QP], &connection->since_ns);
	must(rdma_resolve_route(connection->id, PATIENCE_MS), "rdma_resolve_route");
}

static void have_route(struct connection *connection)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7,
					 .qp_num = connection->qp->qp_num };

	step_end(&client_steps[RESOLVE_ROUTE], &connection->since_ns);
	must(rdma_connect(connection->id, &param), "rdma_connect");
}

static void have_reply(struct connection *connection)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	int mask;

	step_end(&client_steps[REQUEST], &connection->since_ns);
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i] };

		must(rdma_init_qp_attr(connection->id, &attr, &mask), "rdma_init_qp_attr");
		must(ibv_modify_qp(connection->qp, &attr, mask), "ibv_modify_qp");
	}
	step_end(&client_steps[MODIFY_QP], &connection->since_ns);
	must(rdma_establish(connection->id), "rdma_establish");
	step_end(&client_steps[READY_TO_USE], &connection->since_ns);
	must(rdma_disconnect(connection->id), "rdma_disconnect");
}

static void have_disconnected(struct connection *connection)
{
	step_end(&client_steps[DISCONNECT], &connection->since_ns);
	must(ibv_destroy_qp(connection->qp), "ibv_destroy_qp");
	step_end(&client_steps[DESTROY_QP], &connection->since_ns);
	must(rdma_destroy_id(connection->id), "rdma_destroy_id");
	step_end(&client_steps[DESTROY_ID], &connection->since_ns);
	finished++;
}

static void client_event(const struct connect_options *options, const struct sockaddr *server)
{
	struct rdma_cm_event event;
	enum rdma_cm_event_type kind = next_event(&event);
	struct connection *connection = event.id->context;

	if (kind == RDMA_CM_EVENT_ADDR_RESOLVED) {
		have_address(connection);
	} else if (kind == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		have_route(connection);
	} else if (kind == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		have_reply(connection);
	} else if (kind == RDMA_CM_EVENT_DISCONNECTED) {
		have_disconnected(connection);
		if (begun < options->count)
			start(connection, server);
	} else if (kind != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		unexpected(&event);
	}
}

void rdma_client(const struct connect_options *options)
{
	struct rdma_addrinfo *found, hints = { .ai_port_space = RDMA_PS_TCP };
	struct connection *connections = calloc(options->inflight, sizeof(*connections));

	must(!connections, "calloc");
	steps_begin(client_steps, CLIENT_STEPS, options->count);
	errno = EHOSTUNREACH;
	must(rdma_getaddrinfo(options->host, options->port, &hints, &found), "rdma_getaddrinfo");
	channel = rdma_create_event_channel();
	must(!channel, "rdma_create_event_channel");
	while (begun < options->inflight && begun < options->count)
		start(&connections[begun], found->ai_dst_addr);
	while (finished < options->count)
		client_event(options, found->ai_dst_addr);
	rdma_freeaddrinfo(found);
	free(connections);
	report_steps(client_steps, CLIENT_STEPS);
}

/* ---- server ---- */

static void accept_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = qp_attributes(id->verbs);
	uint64_t since_ns = now_ns();

	must(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
	step_end(&server_steps[SERVER_CREATE_QP], &since_ns);
	must(rdma_accept(id, &param), "rdma_accept");
	step_end(&server_steps[SERVER_ACCEPT], &since_ns);
}

static void forget(struct rdma_cm_id *id)
{
	uint64_t since_ns = now_ns();

	rdma_destroy_qp(id);
	must(rdma_destroy_id(id), "rdma_destroy_id");
	step_end(&server_steps[SERVER_DESTROY], &since_ns);
	finished++;
}

static struct rdma_cm_id *listen_on(const char *port)
{
	struct rdma_addrinfo *found, hints = { .ai_port_space = RDMA_PS_TCP,
					       .ai_flags = RAI_PASSIVE };
	struct rdma_cm_id *id;

	errno = EADDRNOTAVAIL;
	must(rdma_getaddrinfo(NULL, port, &hints, &found), "rdma_getaddrinfo");
	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(rdma_bind_addr(id, found->ai_src_addr), "rdma_bind_addr");
	must(rdma_listen(id, BACKLOG), "rdma_listen");
	rdma_freeaddrinfo(found);
	return id;
}

void rdma_serve(const struct connect_options *options)
{
	struct rdma_cm_id *listener;

	channel = rdma_create_event_channel();
	must(!channel, "rdma_create_event_channel");
	steps_begin(server_steps, SERVER_STEPS, options->count);
	listener = listen_on(options->port);
	report_listening();
	while (finished < options->count) {
		struct rdma_cm_event event;
		enum rdma_cm_event_type kind = next_event(&event);

		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST)
			accept_request(event.id);
		else if (kind == RDMA_CM_EVENT_DISCONNECTED)
			forget(event.id);
		else if (kind != RDMA_CM_EVENT_ESTABLISHED && kind != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			unexpected(&event);
	}
	must(rdma_destroy_id(listener), "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	report_steps(server_steps, SERVER_STEPS);
}
