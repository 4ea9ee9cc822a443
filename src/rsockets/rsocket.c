/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of both kinds as objects: create, bind, listen, accept, shut down, close; their names.
 * The descriptor of a stream is that of its event channel, that of a datagram socket an epoll
 * descriptor: real ones, so that no other open file has the number.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "rsockets/repoll.h"
#include "rsockets/rsocket.h"

static int check_address(const struct sockaddr *address, socklen_t length)
{
	if (!address || length < sizeof(address->sa_family))
		return EFAULT;
	if (!address_bytes(address))
		return EAFNOSUPPORT;
	return length < address_bytes(address) ? EINVAL : 0;
}

/* As the kernel does: no more than there is room for; *length says how much there would be. */
void rs_address_out(const struct sockaddr *address, struct sockaddr *to, socklen_t *length)
{
	socklen_t bytes = address_bytes(address);

	if (to)
		memcpy(to, address, rs_least(bytes, *length));
	*length = bytes;
}

bool rs_address_same(const struct sockaddr_storage *a, const struct sockaddr *b)
{
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *b4 = (const struct sockaddr_in *)b;
	const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *)b;

	if (a->ss_family != b->sa_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a6->sin6_port == b6->sin6_port && !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

/* ---- making and freeing ---- */

int rs_new(int domain, int type, const struct rsocket *parent, struct rsocket **created)
{
	struct rsocket *rs = calloc(1, sizeof(*rs));
	int err;

	if (!rs)
		return ENOMEM;
	rs->domain = domain;
	rs->type = type;
	rs->references = 1;
	rs->epoll_fd = -1;
	rs->generation = rs_generation();
	rs->options = parent ? parent->options : *rs_defaults();
	lock_init(&rs->lock);
	lock_init(&rs->send_lock);
	lock_init(&rs->receive_lock);
	list_init(&rs->sleepers);
	rs->events = rdma_create_event_channel();
	if (!rs->events) {
		err = errno;
		goto free_socket;
	}
	err = fcntl(rs->events->fd, F_SETFL, O_NONBLOCK) ? errno : 0;
	if (!err && type == SOCK_STREAM) {
		list_init(&rs->stream.backlog.requests);
		rs->fd = rs->events->fd;
	} else if (!err) {
		err = rs_datagram_open(rs);
	}
	if (err)
		goto close_events;
	*created = rs;
	return 0;

close_events:
	rdma_destroy_event_channel(rs->events);
free_socket:
	free(rs);
	return err;
}

void rs_free(struct rsocket *rs)
{
	struct list *node;

	if (rs->type == SOCK_STREAM) {
		while ((node = list_pop(&rs->stream.backlog.requests))) {
			struct rs_request *request = list_entry(node, struct rs_request, node);

			if (request->rs) {
				rdma_disconnect(request->id);	/* a reset for the peer, as of TCP */
				rs_put(request->rs);
			} else {
				rdma_reject(request->id, NULL, 0);
				rdma_destroy_id(request->id);
			}
			free(request);
		}
		rs_stream_close(rs);
	} else {
		rs_datagram_close(rs);
	}
	if (rs->id)
		rdma_destroy_id(rs->id);
	rdma_destroy_event_channel(rs->events);
	if (rs->epoll_fd >= 0)
		close(rs->epoll_fd);
	free(rs->route);
	lock_destroy(&rs->lock);
	lock_destroy(&rs->send_lock);
	lock_destroy(&rs->receive_lock);
	free(rs);
}

int rsocket(int domain, int type, int protocol)
{
	CALL_HOLDING();
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), err;
	struct rsocket *rs;

	if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB)
		return rs_result(EAFNOSUPPORT);
	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return rs_result(EPROTOTYPE);
	if (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return rs_result(EPROTONOSUPPORT);
	err = rs_new(domain, kind, NULL, &rs);
	if (err)
		return rs_result(err);
	rs->nonblocking = type & SOCK_NONBLOCK;
	if (type & SOCK_CLOEXEC)
		fcntl(rs->fd, F_SETFD, FD_CLOEXEC);
	lock_acquire(&rs->lock);
	err = rs_create_id_locked(rs);
	lock_release(&rs->lock);
	if (!err)
		err = rs_table_add(rs);
	if (err) {
		rs_free(rs);
		return rs_result(err);
	}
	return rs->fd;
}

/* ---- bind, listen, accept ---- */

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	CALL_HOLDING();
	int err = check_address(addr, addrlen), on = 1, v6_only;
	struct rsocket *rs;

	if (err)
		return rs_result(err);
	rs = rs_get(socket);
	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	v6_only = rs->options.v6_only;
	if (rs->state != RS_OPEN)
		err = EINVAL;
	if (!err && rs->options.reuse_address)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (!err && rs->domain == AF_INET6)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &v6_only, sizeof(v6_only));
	if (!err && rs->type == SOCK_DGRAM)
		err = rs_datagram_bind_locked(rs, addr);
	else if (!err)
		err = rdma_bind_addr(rs->id, (struct sockaddr *)(uintptr_t)addr) ? errno : 0;
	lock_release(&rs->lock);
	rs_put(rs);
	return rs_result(err);
}

enum { BACKLOG_MAX = 4096 };		/* as net.core.somaxconn */

/* In the service thread: a request has come, and the application does other things. */
static void listener_serve(int fd)
{
	struct rsocket *rs = rs_get(fd);

	if (!rs)
		return;
	lock_acquire(&rs->lock);
	rs_take_events_locked(rs, false, true);
	lock_release(&rs->lock);
	rs_put(rs);
}

int rlisten(int socket, int backlog)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	int err = 0;

	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	if (rs->type != SOCK_STREAM) {
		err = EOPNOTSUPP;
	} else if (rs->state == RS_OPEN) {
		/*
		 * Requests beyond our backlog stay with the manager, and their peers wait: as those of TCP, who
		 * ask again.
		 */
		rs->state = RS_LISTENING;
		err = rs_service_start(RS_SERVE_LISTENER, listener_serve);
		if (!err && rdma_listen(rs->id, 0))
			err = errno;
		if (!err)
			err = rs_service_watch(RS_SERVE_LISTENER, rs->events->fd, rs->fd);
		if (err)
			rs->state = RS_OPEN;
	} else if (rs->state != RS_LISTENING) {
		err = EINVAL;
	}
	/* One more than was said, as of TCP. */
	if (!err)
		rs->stream.backlog.most =
			backlog < 0 || backlog > BACKLOG_MAX ? BACKLOG_MAX : (unsigned)backlog + 1;
	lock_release(&rs->lock);
	rs_put(rs);
	return rs_result(err);
}

static bool rsocket_has_request(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->state != RS_LISTENING || rs->error || !list_empty(&rs->stream.backlog.requests);
}

int rs_accept_locked(struct rsocket *listener, struct rdma_cm_id *id, const struct rs_hello *hello,
		     struct rsocket **accepted)
{
	void *context = id->context;
	struct rsocket *rs;
	int err = rs_new(listener->domain, SOCK_STREAM, listener, &rs);

	if (err)
		return err;
	lock_alias(&rs->lock);		/* nobody else knows it yet */
	if (rdma_migrate_id(id, rs->events)) {
		err = errno;
		rs_free(rs);
		return err;
	}
	rs->id = id;
	id->context = rs;
	err = rs_stream_accept_locked(rs, hello);
	if (!err) {
		*accepted = rs;
		return 0;
	}
	rs_stream_close(rs);
	rs->id = NULL;
	id->context = context;
	rdma_migrate_id(id, listener->events);
	rs_free(rs);
	return err;
}

/* What was accepted when it came, or now. 0 or errno; takes @request. */
static int accept_request(struct rsocket *listener, struct rs_request *request,
			  struct rsocket **accepted)
{
	int err = 0;

	if (!request->rs) {
		lock_acquire(&listener->lock);
		err = rs_accept_locked(listener, request->id, &request->hello, &request->rs);
		lock_release(&listener->lock);
		if (err) {
			rdma_reject(request->id, NULL, 0);
			rdma_destroy_id(request->id);
		}
	}
	if (!err) {
		err = rs_table_add(request->rs);
		if (err)
			rs_put(request->rs);
	}
	*accepted = request->rs;
	free(request);
	return err;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	CALL_BLOCKING();
	struct rsocket *listener RS_HELD = rs_get(socket), *rs = NULL;
	struct rs_request *request = NULL;
	int err = EINVAL;

	if (!listener)
		return -1;
	lock_acquire(&listener->lock);
	if (listener->type == SOCK_STREAM && listener->state == RS_LISTENING)
		err = rs_wait_locked(listener, rsocket_has_request, RS_READ,
				     rs_deadline_ns(listener, 0, listener->options.receive_timeout_ms));
	if (!err && listener->error)
		err = rs_take_error_locked(listener, 0);
	if (!err && list_empty(&listener->stream.backlog.requests))	/* it listens no more */
		err = EINVAL;
	if (!err) {
		request = list_entry(list_pop(&listener->stream.backlog.requests), struct rs_request, node);
		if (listener->stream.backlog.waiting-- == listener->stream.backlog.most)
			rs_service_watch(RS_SERVE_LISTENER, listener->events->fd, listener->fd);
	}
	lock_release(&listener->lock);
	if (request)
		err = accept_request(listener, request, &rs);
	if (err)
		return rs_result(err);
	if (addr && addrlen)
		rs_address_out(rdma_get_peer_addr(rs->id), addr, addrlen);
	return rs->fd;
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	CALL_BLOCKING();
	struct rsocket *rs RS_HELD = rs_get(socket);
	int err;

	if (!rs)
		return -1;
	err = check_address(addr, addrlen);
	if (rs->type == SOCK_DGRAM && err == EAFNOSUPPORT && addr->sa_family == AF_UNSPEC)
		err = 0;			/* to nobody any more */
	if (err)
		return rs_result(err);
	if (rs->type == SOCK_DGRAM)
		return rs_result(rs_datagram_connect(rs, addr));
	return rs_stream_connect(rs, addr);
}

/* ---- the end ---- */

static bool can_post_control(struct rsocket *rs) REQUIRES(rs->lock)
{
	const struct rs_send_queue *queue = &rs->stream.queue;

	return rs->state != RS_CONNECTED || rs->stream.peer_gone ||
	       queue->posted - queue->done < queue->slots;
}

static int say_goodbye(struct rsocket *rs, enum rs_shutdown_how how, int64_t deadline_ns)
	REQUIRES(rs->lock)
{
	struct rs_control control = { .kind = RS_SHUTDOWN, .how = how };

	rs_wait_locked(rs, can_post_control, RS_WRITE, deadline_ns);
	if (rs->state != RS_CONNECTED || rs->stream.peer_gone)
		return 0;
	rs->stream.leaving |= how == RS_GONE;
	return rs_post_control_locked(rs, &control);
}

static int shut_down(struct rsocket *rs, int how) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	int err = rs_stream_ready_locked(rs, rs_deadline_ns(rs, 0, 0));

	if (err)
		return err == EAGAIN ? ENOTCONN : err;
	if (rs->state != RS_CONNECTED && !stream->peer_done)
		return ENOTCONN;
	if (how != SHUT_WR && !stream->read_shut) {
		stream->read_shut = true;
		stream->in.taken = stream->in.arrived;
		rs_give_credit_locked(rs);
	}
	if (how != SHUT_RD && !stream->write_shut) {
		stream->write_shut = true;
		err = say_goodbye(rs, RS_NO_MORE_DATA, RS_FOREVER);
	}
	rs_wake_all_locked(rs);
	return err;
}

int rshutdown(int socket, int how)
{
	CALL_HOLDING();
	struct rsocket *rs;
	int err;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return rs_result(EINVAL);
	rs = rs_get(socket);
	if (!rs)
		return -1;
	/* Waits for a thread that is sending. */
	lock_acquire(&rs->send_lock);
	lock_acquire(&rs->lock);
	if (rs->type == SOCK_STREAM)
		err = shut_down(rs, how);
	else
		err = rs->datagram.connected ? 0 : ENOTCONN;
	lock_release(&rs->lock);
	lock_release(&rs->send_lock);
	rs_put(rs);
	return rs_result(err);
}

#define LINGER_OWED_NS	500000000
#define LINGER_LOOK_NS	100000000

static int64_t rsocket_min_ns(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/*
 * All that was sent has its place in the peer's ring: it needs the peer's HCA to be delivered, not
 * the peer's application. So this takes a round trip, or until the transport gives up; or until
 * a signal handler has been waiting for us for so long.
 */
static void rsocket_linger(struct rsocket *rs) REQUIRES(rs->lock)
{
	const struct linger *linger = &rs->options.linger;
	int64_t deadline_ns = RS_FOREVER;
	int err;

	if (linger->l_onoff && !linger->l_linger)
		return;				/* the peer sees a reset */
	if (linger->l_onoff)
		deadline_ns = rs_now_ns() + (int64_t)linger->l_linger * 1000000000;
	rs_stream_ready_locked(rs, deadline_ns);
	if (say_goodbye(rs, RS_GONE, deadline_ns))
		return;
	rs->lingering = true;
	do {
		if (call_is_owed())
			deadline_ns = rsocket_min_ns(deadline_ns, rs_now_ns() + LINGER_OWED_NS);
		err = rs_wait_locked(rs, rs_all_sent_locked, RS_WRITE,
				     rsocket_min_ns(deadline_ns, rs_now_ns() + LINGER_LOOK_NS));
	} while (err == EINTR || (err == EAGAIN && rs_now_ns() < deadline_ns));
}

int rclose(int socket)
{
	CALL_HOLDING();
	struct rsocket *rs;

	if (repoll_close(socket))
		return 0;
	rs = rs_table_remove(socket);
	if (!rs)
		return -1;
	repoll_forget(socket);
	if (rs_is_inherited(rs)) {
		/*
		 * In the child of a fork(): its copies of the descriptors go, the parent's connection stays. The
		 * rest of the memory goes with the child: there is no device behind it that could take it back.
		 */
		if (rs->type == SOCK_STREAM && rs->stream.channel)
			close(rs->stream.channel->fd);
		if (rs->type == SOCK_DGRAM)
			close(rs->events->fd);
		return close(rs->fd);
	}
	if (rs->type == SOCK_DGRAM)
		rs_service_forget(rs->events->fd);
	lock_acquire(&rs->lock);
	if (rs->state == RS_LISTENING)
		rs_service_forget(rs->events->fd);
	rs_owner_leave_locked(rs);
	rs->owner.over = true;
	if (rs->type == SOCK_STREAM) {
		if (rs->state == RS_ACCEPTING || rs->state == RS_CONNECTED)
			rsocket_linger(rs);
		rs_end_locked(rs, 0);
	}
	rs->closing = true;
	rs_wake_all_locked(rs);
	lock_release(&rs->lock);
	rs_put(rs);
	return 0;
}

/* ---- names ---- */

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	struct sockaddr_storage peer;
	int err = 0;

	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	if (rs->type == SOCK_DGRAM) {
		peer = rs->datagram.peer;
		err = rs->datagram.connected ? 0 : ENOTCONN;
	} else if (rs->state != RS_CONNECTED && rs->state != RS_ACCEPTING &&
		   rs->state != RS_CLOSED) {
		err = ENOTCONN;
	} else {
		peer = rs->id->route.addr.dst_storage;
	}
	lock_release(&rs->lock);
	if (!err)
		rs_address_out((struct sockaddr *)&peer, addr, addrlen);
	rs_put(rs);
	return rs_result(err);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	struct sockaddr_storage own;

	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	own = rs->id->route.addr.src_storage;
	if (!address_bytes((struct sockaddr *)&own))
		own.ss_family = (sa_family_t)rs->domain;	/* not bound: any */
	lock_release(&rs->lock);
	rs_address_out((struct sockaddr *)&own, addr, addrlen);
	rs_put(rs);
	return 0;
}
