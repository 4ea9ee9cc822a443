/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destinations of datagrams: the queue pair of an address and port is resolved by a connection
 * request for a datagram service (SIDR), once per destination. The application may not call
 * rsockets for a long time, so the service thread (service.c) answers such requests, and receives
 * the answers to ours.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "rsockets/rsocket.h"

enum { RESOLVE_MS = 2000, DESTINATIONS_MAX = 512 };
#define FORGET_NS ((int64_t)1000000000) /* until an unreachable destination is tried again */

/* ---- destinations ---- */

static void free_destination(struct rsocket *rs, struct rs_destination *destination)
{
	list_remove(&destination->node);
	rs->datagram.destination_count--;
	if (destination->state == RS_LOOKING)
		rs->datagram.looking--;
	if (destination->ah)
		ibv_destroy_ah(destination->ah);
	if (destination->id && destination->link && destination->link->id == destination->id)
		destination->id->context = NULL;	/* it is the link's */
	else if (destination->id)
		rdma_destroy_id(destination->id);
	free(destination);
}

static struct rs_destination *resolve_find(struct rsocket *rs, const struct sockaddr *address)
{
	struct list *node;

	list_for_each(node, &rs->datagram.destinations) {
		struct rs_destination *destination = list_entry(node, struct rs_destination, node);
		const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)&destination->address;

		if (rs_address_same(&destination->address, address) &&
		    (a6->sin6_family != AF_INET6 ||
		     a6->sin6_scope_id == ((const struct sockaddr_in6 *)address)->sin6_scope_id))
			return destination;
	}
	return NULL;
}

/* The least recently used go, but those being looked for or with sends under way. */
static void make_place(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct list *node = rs->datagram.destinations.prev, *before;

	rs_links_progress_locked(rs);
	for (; node != &rs->datagram.destinations &&
	     rs->datagram.destination_count >= DESTINATIONS_MAX; node = before) {
		struct rs_destination *old = list_entry(node, struct rs_destination, node);

		before = node->prev;
		if (old->state == RS_UNKNOWN ||
		    (old->state == RS_KNOWN && old->link->posted == old->link->done))
			free_destination(rs, old);
	}
}

static bool is_any(const struct sockaddr *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	return address->sa_family == AF_INET ? v4->sin_addr.s_addr == htonl(INADDR_ANY) :
		IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

static void resolve_set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)address)->sin_port = port;
	else
		((struct sockaddr_in6 *)address)->sin6_port = port;
}

/* The question needs a port of its own, so it goes out from port 0 of our address. */
static int resolve_ask(struct rsocket *rs, struct rs_destination *destination)
{
	struct sockaddr_storage source = rs->id->route.addr.src_storage;
	bool any = is_any((struct sockaddr *)&source) ||
		   source.ss_family != destination->address.ss_family;

	if (rdma_create_id(rs->events, &destination->id, destination, RDMA_PS_UDP)) {
		destination->id = NULL;
		return errno;
	}
	resolve_set_port(&source, 0);
	if (rdma_resolve_addr(destination->id, any ? NULL : (struct sockaddr *)&source,
			      (struct sockaddr *)&destination->address, RESOLVE_MS))
		return errno;
	return 0;
}

int rs_destination_get_locked(struct rsocket *rs, const struct sockaddr *address,
			      struct rs_destination **found)
{
	struct rs_destination *destination = resolve_find(rs, address);
	int err;

	if (destination && destination->state == RS_UNKNOWN &&
	    rs_now_ns() - destination->since_ns > FORGET_NS) {
		free_destination(rs, destination);
		destination = NULL;
	}
	if (destination) {
		/* To the front: it is the most recently used one. */
		list_remove(&destination->node);
		list_add_tail(rs->datagram.destinations.next, &destination->node);
		*found = destination;
		return 0;
	}
	make_place(rs);
	destination = calloc(1, sizeof(*destination));
	if (!destination)
		return ENOMEM;
	memcpy(&destination->address, address, address_bytes(address));
	destination->state = RS_LOOKING;
	list_add_tail(rs->datagram.destinations.next, &destination->node);
	rs->datagram.destination_count++;
	rs->datagram.looking++;
	err = resolve_ask(rs, destination);
	if (err) {
		free_destination(rs, destination);
		return err;
	}
	*found = destination;
	return 0;
}

/* ---- events ---- */

static void resolve_settle(struct rsocket *rs, struct rs_destination *destination,
			   enum rs_destination_state state) REQUIRES(rs->lock)
{
	if (destination->state == RS_LOOKING)
		rs->datagram.looking--;
	destination->state = state;
	rs_wake_all_locked(rs);
}

static void not_found(struct rsocket *rs, struct rs_destination *destination, int err, bool remote)
	REQUIRES(rs->lock)
{
	destination->error = err;
	destination->remote = remote;
	destination->since_ns = rs_now_ns();
	resolve_settle(rs, destination, RS_UNKNOWN);
}

/* Our question is on its way once the link is there to be named in it. */
static int connect_datagram(struct rsocket *rs, struct rs_destination *destination)
	REQUIRES(rs->lock)
{
	uint8_t bytes[RS_HELLO_BYTES];
	struct rdma_conn_param param = { .private_data = bytes, .private_data_len = sizeof(bytes) };
	struct rs_hello hello = { .messages = 1, .ring_bytes = RS_RING_MIN };
	struct rdma_cm_id *id = destination->id;
	bool kept;
	int err = rs_link_get_locked(rs, id, &destination->link, &kept);

	if (err)
		return err;
	destination->source = id->route.addr.src_storage;
	resolve_set_port(&destination->source, rdma_get_src_port(rs->id));
	param.qp_num = destination->link->qp->qp_num;
	rs_hello_write(&hello, bytes);
	return rdma_connect(id, &param) ? errno : 0;
}

static void destination_event(struct rsocket *rs, struct rs_destination *destination,
			      const struct rdma_cm_event *event) REQUIRES(rs->lock)
{
	struct ibv_ah_attr attr;
	int err = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = rdma_resolve_route(destination->id, RESOLVE_MS) ? errno : 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = connect_datagram(rs, destination);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		attr = event->param.ud.ah_attr;
		destination->ah = ibv_create_ah(destination->link->id->pd, &attr);
		if (!destination->ah) {
			err = errno;
			break;
		}
		destination->qpn = event->param.ud.qp_num;
		destination->qkey = event->param.ud.qkey;
		resolve_settle(rs, destination, RS_KNOWN);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		err = event->status < 0 ? -event->status : EHOSTUNREACH;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		not_found(rs, destination, ECONNREFUSED, true);
		break;
	default:
		break;
	}
	if (err)
		not_found(rs, destination, err, false);
}

/* A SIDR request: answer with the number of our queue pair on that device. */
static void resolve_answer(struct rsocket *rs, struct rdma_cm_id *id, bool understood)
	REQUIRES(rs->lock)
{
	struct rdma_conn_param param = { 0 };
	struct rs_link *link;
	bool kept = false;
	int err = EPROTO;

	if (understood)
		err = rs_link_get_locked(rs, id, &link, &kept);
	if (!err) {
		param.qp_num = link->qp->qp_num;
		if (rdma_accept(id, &param))
			explain_of(OF(RSOCKET, (unsigned)rs->fd),
				"rsocket %d: cannot answer a peer that asks for its datagram QP: "
				"%m", rs->fd);
	} else {
		rdma_reject(id, NULL, 0);
	}
	if (!kept)
		rdma_destroy_id(id);
}

static void datagram_event(struct rsocket *rs, struct rdma_cm_event *event) REQUIRES(rs->lock)
{
	struct rdma_cm_id *id = event->id;
	struct rs_destination *destination;
	struct rs_hello hello;
	unsigned version;
	bool understood;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		understood = event->param.ud.private_data &&
			     !rs_hello_read(event->param.ud.private_data,
					    event->param.ud.private_data_len, &hello, &version);
		rdma_ack_cm_event(event);
		resolve_answer(rs, id, understood);
		return;
	}
	destination = id->context;
	if (id != rs->id && destination && destination->state == RS_LOOKING)
		destination_event(rs, destination, event);
	rdma_ack_cm_event(event);
	if (id == rs->id || !destination || destination->state == RS_LOOKING || !destination->id)
		return;
	/* The id is no longer needed unless its link uses it; its events must not find the
	 * destination. */
	destination->id = NULL;
	id->context = NULL;
	if (!destination->link || destination->link->id != id)
		rdma_destroy_id(id);
}

/* In the service thread. */
static void resolve_serve(int fd)
{
	struct rsocket *rs = rs_get(fd);
	struct rdma_cm_event *event;

	if (!rs)
		return;
	lock_acquire(&rs->lock);
	while (!rs->closing && !rdma_get_cm_event(rs->events, &event))
		datagram_event(rs, event);
	lock_release(&rs->lock);
	rs_put(rs);
}

/* ---- the socket ---- */

int rs_datagram_open(struct rsocket *rs)
{
	list_init(&rs->datagram.links);
	list_init(&rs->datagram.destinations);
	rs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rs->fd = rs->epoll_fd;
	return rs->fd < 0 ? errno : rs_service_start(RS_SERVE_DATAGRAM, resolve_serve);
}

/* From the first bind on there are events; the socket is in the table by then. */
int rs_datagram_bind_locked(struct rsocket *rs, const struct sockaddr *address)
{
	int err;

	if (rs->datagram.bound)
		return EINVAL;
	if (rdma_bind_addr(rs->id, (struct sockaddr *)(uintptr_t)address))
		return errno;
	err = rs_service_watch(RS_SERVE_DATAGRAM, rs->events->fd, rs->fd);
	if (err)
		return err;
	if (rdma_listen(rs->id, 0))
		return errno;
	rs->datagram.bound = true;
	return 0;
}

int rs_datagram_autobind_locked(struct rsocket *rs)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)rs->domain };

	return rs->datagram.bound ? 0 : rs_datagram_bind_locked(rs, (struct sockaddr *)&any);
}

void rs_datagram_close(struct rsocket *rs)
{
	struct list *node;

	while (!list_empty(&rs->datagram.destinations))
		free_destination(rs, list_entry(rs->datagram.destinations.next,
						struct rs_destination, node));
	while ((node = list_pop(&rs->datagram.links)))
		rs_link_free(list_entry(node, struct rs_link, node));
}
