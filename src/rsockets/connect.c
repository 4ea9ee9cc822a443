/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection of a stream: events of its channel, with a function for each.
 *
 *	rconnect():  RESOLVING -(ADDR_, ROUTE_RESOLVED)-> CONNECTING -(ESTABLISHED)-> CONNECTED
 *	a listener:  CONNECT_REQUEST -> a socket in its backlog: ACCEPTING -(ESTABLISHED)-> CONNECTED
 *	then         CONNECTED -(DISCONNECTED, a failed request, rclose)-> CLOSED
 *
 * Nothing here waits: threads that wait for the socket call rs_connection_progress_locked(). An
 * orderly end is a SHUTDOWN message after the last data; DISCONNECTED without one is ECONNRESET.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "rsockets/rsocket.h"

enum { RESOLVE_MS = 2000, RETRIES = 7 };

int rs_create_id_locked(struct rsocket *rs)
{
	if (rs->id)
		rdma_destroy_id(rs->id);
	rs->id = NULL;
	if (rdma_create_id(rs->events, &rs->id, rs,
			   rs->type == SOCK_STREAM ? RDMA_PS_TCP : RDMA_PS_UDP)) {
		rs->id = NULL;
		return errno;
	}
	return 0;
}

void rs_end_locked(struct rsocket *rs, int err)
{
	bool connected = rs->state == RS_CONNECTED || rs->state == RS_ACCEPTING;

	if (rs->state == RS_CLOSED || rs->state == RS_FAILED)
		return;
	if (!rs->error)
		rs->error = err;
	rs->state = connected ? RS_CLOSED : RS_FAILED;
	/* Moves the QP to the error state: no more can arrive, all that is posted comes back. */
	if (connected)
		rdma_disconnect(rs->id);
	rs_wake_all_locked(rs);
}

/* ---- connecting ---- */

static int rs_connect_send_request(struct rsocket *rs) REQUIRES(rs->lock)
{
	uint8_t bytes[RS_HELLO_BYTES];
	struct rdma_conn_param param = {
		.private_data = bytes, .private_data_len = sizeof(bytes),
		.retry_count = RETRIES, .rnr_retry_count = RETRIES };
	struct rs_hello hello;
	int err = rs_stream_open_locked(rs, &hello);

	if (err)
		return err;
	rs_hello_write(&hello, bytes);
	rs->state = RS_CONNECTING;
	return rdma_connect(rs->id, &param) ? errno : 0;
}

int rs_stream_accept_locked(struct rsocket *rs, const struct rs_hello *peer)
{
	uint8_t bytes[RS_HELLO_BYTES];
	struct rdma_conn_param param = {
		.private_data = bytes, .private_data_len = sizeof(bytes),
		.rnr_retry_count = RETRIES };
	struct rs_hello hello;
	int err = rs_stream_open_locked(rs, &hello);

	if (err)
		return err;
	rs_hello_write(&hello, bytes);
	rs_stream_start_locked(rs, peer);
	rs->state = RS_ACCEPTING;
	return rdma_accept(rs->id, &param) ? errno : 0;
}

/* What the other side said in REQ or REP: 0 or errno, explained. */
static int rs_connect_receive(struct rsocket *rs, const struct rdma_conn_param *param,
			      struct rs_hello *hello)
{
	unsigned version = 0;
	int err = rs_hello_read(param->private_data, param->private_data ?
				param->private_data_len : 0, hello, &version);

	if (err == EPROTONOSUPPORT)
		explain_of(OF(RSOCKET, (unsigned)rs->fd),
			"rsocket %d: the peer speaks version %u of Verbatim's rsocket protocol, "
			"this side version %u: use the same release on both sides", rs->fd, version,
			RS_VERSION);
	else if (err)
		explain_of(OF(RSOCKET, (unsigned)rs->fd),
			"rsocket %d: the peer is not an rsocket of Verbatim: run it on Verbatim, "
			"too; rsockets of rdma-core speak another protocol", rs->fd);
	return err;
}

static int failure_of(const struct rdma_cm_event *event)
{
	int status = event->status < 0 ? -event->status : 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return status ? status : EHOSTUNREACH;
	case RDMA_CM_EVENT_UNREACHABLE:
		return status ? status : ETIMEDOUT;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return status ? status : ECONNREFUSED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENETDOWN;
	default:
		return ECONNREFUSED;
	}
}

/* ---- listening ---- */

static void rs_connect_queue_request(struct rsocket *rs, struct rdma_cm_id *id,
				     const struct rs_hello *hello) REQUIRES(rs->lock)
{
	struct rs_request *request = calloc(1, sizeof(*request));

	if (!request) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	request->id = id;
	request->hello = *hello;
	rs_accept_locked(rs, id, hello, &request->rs);
	list_add_tail(&rs->stream.backlog.requests, &request->node);
	/* Full: the rest waits in the channel, which stays readable. */
	if (++rs->stream.backlog.waiting == rs->stream.backlog.most)
		rs_service_forget(rs->events->fd);
}

/* The peer of a request that could not be accepted yet has given up. */
static void drop_request(struct rsocket *rs, struct rdma_cm_id *id) REQUIRES(rs->lock)
{
	struct list *node, *following;

	list_for_each_safe(node, following, &rs->stream.backlog.requests) {
		struct rs_request *request = list_entry(node, struct rs_request, node);

		if (request->id != id)
			continue;
		list_remove(node);
		if (rs->stream.backlog.waiting-- == rs->stream.backlog.most)
			rs_service_watch(RS_SERVE_LISTENER, rs->events->fd, rs->fd);
		rdma_destroy_id(id);
		free(request);
	}
}

static void listener_event(struct rsocket *rs, struct rdma_cm_event *event) REQUIRES(rs->lock)
{
	struct rdma_cm_id *id = event->id;
	struct rs_hello hello;
	int err;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		err = rs_connect_receive(rs, &event->param.conn, &hello);
		rdma_ack_cm_event(event);
		if (!err) {
			rs_connect_queue_request(rs, id, &hello);
		} else {
			rdma_reject(id, NULL, 0);
			rdma_destroy_id(id);
		}
		return;
	}
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && id == rs->id)
		rs->error = ENETDOWN;
	rdma_ack_cm_event(event);
	if (id != rs->id)
		drop_request(rs, id);
}

/* ---- events ---- */

static void stream_event(struct rsocket *rs, const struct rdma_cm_event *event) REQUIRES(rs->lock)
{
	struct rs_hello hello;
	int rc = 0, err = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rs->state == RS_RESOLVING && rs->route)
			rc = rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rs->route,
					     rs->route_bytes);
		else if (rs->state == RS_RESOLVING)
			rc = rdma_resolve_route(rs->id, RESOLVE_MS);
		err = rc ? errno : 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = rs->state == RS_RESOLVING ? rs_connect_send_request(rs) : 0;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (rs->state == RS_ACCEPTING) {
			rs->state = RS_CONNECTED;
		} else if (rs->state == RS_CONNECTING && !rs_connect_receive(rs, &event->param.conn, &hello)) {
			rs_stream_start_locked(rs, &hello);
			rs->state = RS_CONNECTED;
		} else if (rs->state == RS_CONNECTING) {
			rdma_disconnect(rs->id);
			rs_end_locked(rs, ECONNREFUSED);
		}
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* What was acknowledged to the peer before is in the CQ: it comes first. */
		rs_completions_locked(rs);
		rs_end_locked(rs, rs->stream.peer_done || rs->stream.leaving ? 0 : ECONNRESET);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		err = failure_of(event);
		break;
	default:				/* ADDR_CHANGE, TIMEWAIT_EXIT: nothing to do */
		break;
	}
	if (err)
		rs_end_locked(rs, rs->state == RS_ACCEPTING ? ECONNRESET : err);
}

unsigned rs_connection_progress_locked(struct rsocket *rs)
{
	struct rdma_cm_event *event;
	unsigned count = 0;

	while (!rs->closing &&
	       !(rs->state == RS_LISTENING &&
		 rs->stream.backlog.waiting >= rs->stream.backlog.most) &&
	       !rdma_get_cm_event(rs->events, &event)) {
		count++;
		if (rs->state == RS_LISTENING) {
			listener_event(rs, event);
		} else {
			stream_event(rs, event);
			rdma_ack_cm_event(event);
		}
	}
	if (count)
		rs_owner_signal_locked(rs, SIGIO);
	return count;
}

/* ---- rconnect ---- */

static bool connect_over(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->state != RS_RESOLVING && rs->state != RS_CONNECTING;
}

static int start_connect(struct rsocket *rs, const struct sockaddr *address) REQUIRES(rs->lock)
{
	int err;

	if (rs->state == RS_FAILED) {
		rs_stream_close(rs);
		err = rs_create_id_locked(rs);
		if (err)
			return err;
		rs->error = 0;
	}
	/* Set before the call, as its event may arrive at once. */
	rs->state = RS_RESOLVING;
	if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)(uintptr_t)address, RESOLVE_MS)) {
		err = errno;
		rs->state = RS_OPEN;
		return err;
	}
	return 0;
}

int rs_stream_connect(struct rsocket *rs, const struct sockaddr *address)
{
	int64_t deadline_ns = rs_deadline_ns(rs, 0, rs->options.send_timeout_ms);
	int err = 0;

	lock_acquire(&rs->lock);
	switch (rs->state) {
	case RS_OPEN:
	case RS_FAILED:
		err = start_connect(rs, address);
		break;
	case RS_RESOLVING:
	case RS_CONNECTING:
		rs_progress_locked(rs, true);
		if (!connect_over(rs))
			err = EALREADY;
		break;
	default:
		err = EISCONN;
	}
	if (!err)
		err = rs_wait_locked(rs, connect_over, RS_READ, deadline_ns);
	if (err == EAGAIN)
		err = EINPROGRESS;
	/* A peer that has closed already was there. */
	if (!err && rs->state == RS_FAILED)
		err = rs_take_error_locked(rs, ECONNREFUSED);
	lock_release(&rs->lock);
	return rs_result(err);
}
