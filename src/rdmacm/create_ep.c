/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_create_ep(3), rdma_destroy_ep(3), rdma_get_request(3): an id, its addresses and its QP in
 * one synchronous call.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rdmacm.h"

#define RESOLVE_MS 2000	/* for the address, and again for the route */

static void *create_ep_copy(const void *from, size_t bytes)
{
	void *to = malloc(bytes);

	return to ? memcpy(to, from, bytes) : NULL;
}

/* To listen: what connections shall have is kept for rdma_get_request(). */
static int create_ep_passive(struct id *id, const struct rdma_addrinfo *info, struct ibv_pd *pd,
			     const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->public, info->ai_src_addr))
		return -1;
	if (pd)
		id->public.pd = pd;
	if (!attr)
		return 0;
	id->qp_template = create_ep_copy(attr, sizeof(*attr));
	if (!id->qp_template)
		return -1;
	id->qp_template->qp_type = info->ai_qp_type;
	return 0;
}

static int create_ep_active(struct id *id, const struct rdma_addrinfo *info, struct ibv_pd *pd,
			    struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&id->public, info->ai_src_addr, info->ai_dst_addr, RESOLVE_MS))
		return -1;
	if (info->ai_route_len ? rdma_set_option(&id->public, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH,
						 info->ai_route, info->ai_route_len) || id_complete(id) :
				 rdma_resolve_route(&id->public, RESOLVE_MS))
		return -1;
	if (attr) {
		attr->qp_type = info->ai_qp_type;
		if (rdma_create_qp(&id->public, pd, attr))
			return -1;
	}
	if (!info->ai_connect_len)
		return 0;
	id->connect_data = create_ep_copy(info->ai_connect, info->ai_connect_len);
	if (!id->connect_data)
		return -1;
	id->connect_bytes = info->ai_connect_len;
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **created, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr)
{
	CALL();
	struct rdma_cm_id *id;
	int rc;

	if (!created || !res)
		return refuse(EINVAL, "rdma_create_ep: no %s (null pointer)",
			      res ? "place for the id" : "address information");
	rc = id_create(NULL, &id, NULL, res->ai_port_space, res->ai_qp_type);
	if (rc)
		return rc;
	if (res->ai_flags & RAI_PASSIVE)
		rc = create_ep_passive(to_id(id), res, pd, qp_init_attr);
	else
		rc = create_ep_active(to_id(id), res, pd, qp_init_attr);
	if (rc) {
		int err = errno;

		rdma_destroy_ep(id);
		return result(err);
	}
	*created = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	CALL();

	if (!id)
		return;
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* Why this event is no request that can be handed out. 0 or errno. */
static int request_error(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (event->status)
		return event->status < 0 ? -event->status : event->status;
	return event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? 0 : EINVAL;
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	CALL();
	struct id *listener = to_id(listen);
	struct rdma_cm_event *event;
	struct rdma_cm_id *made;
	int err;

	if (!listener || !id || !listener->synchronous)
		return refuse(EINVAL, "rdma_get_request: %s", !listener ? "no id (null pointer)" :
			      !id ? "no place for the request (null pointer)" :
			      "the id has an event channel: use rdma_get_cm_event");
	id_drop_event(listener);
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	err = request_error(event);
	if (err) {
		listen->event = event;
		return result(err);
	}
	made = event->id;
	if (listener->qp_template) {
		struct ibv_qp_init_attr attr = *listener->qp_template;

		if (rdma_create_qp(made, listen->pd, &attr)) {
			err = errno;
			/* The application gets no id, so the peer is told so. */
			rdma_reject(made, NULL, 0);
			rdma_ack_cm_event(event);	/* frees it */
			rdma_destroy_id(made);
			return result(err);
		}
	}
	made->event = event;
	*id = made;
	return 0;
}
