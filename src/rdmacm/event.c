/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_get_cm_event(3), rdma_ack_cm_event(3): events of the connection manager, and the actions
 * of this library before the application sees them:
 *
 *	ADDR_RESOLVED, ROUTE_RESOLVED	the id gets its device, its path
 *	CONNECT_REQUEST			an id is made for the new connection
 *	CONNECT_RESPONSE		a QP on the id goes to RTS and the connection is completed:
 *					the application sees ESTABLISHED
 *	REJECTED			the QP goes to ERR
 *	MULTICAST_JOIN			the QP is attached
 *
 * An event holds its endpoint, hence its id, until it is acknowledged.
 */
#include <stdlib.h>
#include <string.h>

#include "base/zeroed.h"
#include "rdmacm/newer.h"
#include "rdmacm/rdmacm.h"

#define DESTROYED_MS	1000

/* What event_take() did with an event. */
enum fate { HAND_ON, DROP };

static void fail_as(struct event *event, enum rdma_cm_event_type kind, int err)
{
	event->public.event = kind;
	event->public.status = -err;
}

/* The new id as the application finds it, unless the request cannot be handed on. */
static enum fate connect_request(struct id *listener, struct event *event)
{
	const struct endpoint_event *taken = &event->taken;
	struct id *id = id_new(listener->public.channel, listener->public.context,
			       listener->public.ps, listener->public.qp_type);

	if (!id) {
		endpoint_destroy(taken->endpoint);
		return DROP;
	}
	id->endpoint = taken->endpoint;
	id->initiator_depth = taken->connection.initiator_depth;
	id->responder_resources = taken->connection.responder_resources;
	id->remote_ece.vendor_id = taken->ece.vendor_id;
	id->remote_ece.options = taken->ece.options;
	endpoint_set_user(id->endpoint, id);
	if ((listener->synchronous && rdma_migrate_id(&id->public, NULL)) || id_refresh(id)) {
		id_free(id);
		return DROP;
	}
	event->public.listen_id = &listener->public;
	event->public.id = &id->public;
	return HAND_ON;
}

static enum fate connect_response(struct id *id, struct event *event)
{
	int err;

	id->remote_ece.vendor_id = event->taken.ece.vendor_id;
	id->remote_ece.options = event->taken.ece.options;
	if (!id->public.qp)
		return HAND_ON;		/* the application completes it: rdma_establish() */
	err = qp_to_rts(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
	if (!err)
		err = endpoint_established(id->endpoint);
	if (!err) {
		event->public.event = RDMA_CM_EVENT_ESTABLISHED;
		return HAND_ON;
	}
	qp_to_error(id);
	endpoint_mute(id->endpoint);
	fail_as(event, RDMA_CM_EVENT_CONNECT_ERROR, err);
	return HAND_ON;
}

static enum fate event_dispatch(struct id *id, struct event *event)
{
	int err;

	switch (event->taken.kind) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = id_refresh(id);
		if (!err && !id->device)
			err = ENODEV;
		if (err)
			fail_as(event, RDMA_CM_EVENT_ADDR_ERROR, err);
		return HAND_ON;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = id_refresh(id);
		if (err)
			fail_as(event, RDMA_CM_EVENT_ROUTE_ERROR, err);
		return HAND_ON;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return connect_request(id, event);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return connect_response(id, event);
	case RDMA_CM_EVENT_REJECTED:
		qp_to_error(id);
		return HAND_ON;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return multicast_joined(id, event) ? HAND_ON : DROP;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (id->device)
			cm_device_is_gone(id->device);
		return HAND_ON;
	default:
		return HAND_ON;
	}
}

/* Take the next event that the application is to see. 0 or EAGAIN. */
static int event_take(struct cm_channel *channel, struct event *event)
{
	const struct endpoint_event *taken = &event->taken;

	for (;;) {
		int err = cm_channel_take(channel, &event->taken);
		struct id *id = taken->user;

		if (err)
			return err;
		if (id) {
			/* What the application sees, before anything is done about it. */
			event->public.id = &id->public;
			event->public.event = taken->kind;
			event->public.status = taken->status;
			if (taken->datagram)
				event->public.param.ud = taken->ud;
			else
				event->public.param.conn = taken->connection;
			if ((int)taken->kind == NEWER_EVENT_USER)
				memcpy(&event->public.param, &taken->argument, sizeof(taken->argument));
			if (event_dispatch(id, event) == HAND_ON)
				return 0;
		}
		endpoint_event_ack(&event->taken);
		event->public.listen_id = NULL;
	}
}

/*
 * For a check: a request belongs to the id that listens, and has one of its own. What synchronous
 * ids get is not the program's to acknowledge.
 */
static void event_told(struct event *event)
{
	struct rdma_cm_event *public = &event->public;
	struct rdma_cm_id *of = public->listen_id ? public->listen_id : public->id;

	if (to_id(of)->synchronous)
		return;
	event->told = (uintptr_t)of;
	check_take(&(struct check_record){ .what = CHECK_CM_EVENT, .call = "rdma_get_cm_event",
					   .object = event->told, .state = public->event });
	if (public->listen_id)
		check_take(&(struct check_record){ .what = CHECK_MADE, .kind = CHECK_ID,
						   .call = "rdma_get_cm_event",
						   .object = (uintptr_t)public->id,
						   .state = CHECK_STEP_REQUESTED });
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **got)
{
	CALL_POINT();
	struct traced traced;
	struct event *event;
	int err;

	traced_begin(&traced, NULL, NULL);
	if (!channel || !got)
		return refuse(EINVAL, "rdma_get_cm_event: no %s (null pointer)",
			      channel ? "place for the event" : "channel");
	do {
		event = zeroed_new(sizeof(*event));
		if (!event)
			return -1;
		err = event_take(cm_channel_of(channel), event);
		if (!err) {
			tsan_after(&tsan_calls);
			*got = &event->public;
			traced.id = event->public.id;
			traced_end(&traced, "rdma_get_cm_event", 0);
			if (check_is_on())
				event_told(event);
			tracepoint(cm, .id = event->public.id,
				   .name = rdma_event_str(event->public.event),
				   .status = event->public.status);
			return 0;
		}
		free(event);	/* a handler may leave the wait by siglongjmp() */
		if (err == EAGAIN)
			err = cm_channel_wait(cm_channel_of(channel));
	} while (!err);
	if (err == EBADF) {
		/*
		 * The kernel never wakes a thread whose channel another thread destroys.
		 * Programs rely on it: main() of rping destroys the channel and returns, and its
		 * other thread takes an error for a failure.
		 */
		call_poll(NULL, 0, DESTROYED_MS);
		return refuse(EBADF, "rdma_get_cm_event: the event channel was destroyed");
	}
	return result(err);
}

int rdma_ack_cm_event(struct rdma_cm_event *public)
{
	CALL();
	struct event *event = (struct event *)public;

	if (!event)
		return refuse(EINVAL, "rdma_ack_cm_event: no event (null pointer)");
	if (check_is_on() && event->told)
		check_take(&(struct check_record){ .what = CHECK_CM_ACK, .call = "rdma_ack_cm_event",
						   .object = event->told });
	endpoint_event_ack(&event->taken);
	free(event);
	return 0;
}

int id_complete(struct id *id)
{
	const struct rdma_cm_event *event;

	if (!id->synchronous)
		return 0;
	id_drop_event(id);
	if (rdma_get_cm_event(id->public.channel, &id->public.event))
		return -1;
	event = id->public.event;
	if (event->status && event->event == RDMA_CM_EVENT_REJECTED)
		return result(ECONNREFUSED);
	return result(event->status < 0 ? -event->status : event->status);
}
