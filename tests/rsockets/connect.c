/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting, blocking and not; refusals; names and options; many at once. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#include "pair.h"

static int connect_there(struct pair *pair, int rs)
{
	return rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair));
}

static int pending_error(int rs)
{
	int error = -1;
	socklen_t length = sizeof(error);

	OK(rgetsockopt(rs, SOL_SOCKET, SO_ERROR, &error, &length));
	return error;
}

static void refused_server(struct pair *pair)
{
	/* A port that nobody listens on: it was somebody's a moment ago. */
	OK(rclose(open_listener(pair, NULL)));
	tell(pair, 0);
	hear(pair);
	OK(rclose(accept_one(pair, NULL)));
}

static void refused_client(struct pair *pair)
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	double start = now();

	OK(rs);
	set_port(pair, (uint16_t)hear(pair));
	hear(pair);
	FAILS(connect_there(pair, rs), ECONNREFUSED);
	CHECK(now() - start < 5, "%f s", now() - start);
	tell(pair, 0);
	set_port(pair, (uint16_t)hear(pair));
	OK(connect_there(pair, rs));
	expect_end(rs);
	OK(rclose(rs));
}

static void non_blocking_server(struct pair *pair)
{
	int listener, rs;

	OK(rclose(open_listener(pair, NULL)));
	hear(pair);
	listener = open_listener(pair, NULL);
	hear(pair);
	OK(rfcntl(listener, F_SETFL, O_NONBLOCK));
	struct pollfd fds = { .fd = listener, .events = POLLIN };

	FAILS(raccept(listener, NULL, NULL), EAGAIN);
	tell(pair, 0);
	CHECK(rpoll(&fds, 1, 10000) == 1 && fds.revents == POLLIN, "revents 0x%x", fds.revents);
	rs = raccept(listener, NULL, NULL);
	OK(rs);
	CHECK(!(rfcntl(rs, F_GETFL) & O_NONBLOCK), "O_NONBLOCK is not inherited");
	receive_all(rs, 1, 0, 1000, 0);
	OK(rclose(rs));
	OK(rclose(listener));
}

/* Until the connect is over; returns revents. */
static short wait_connected(int rs)
{
	struct pollfd fds = { .fd = rs, .events = POLLOUT };

	CHECK(rpoll(&fds, 1, 10000) == 1, "nothing in 10 s");
	return fds.revents;
}

static void non_blocking_client(struct pair *pair)
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	short revents;

	OK(rs);
	set_port(pair, (uint16_t)hear(pair));
	/* On one host the refusal may come at once. */
	CHECK(connect_there(pair, rs) < 0, "connected");
	CHECK(errno == EINPROGRESS || errno == ECONNREFUSED, "%m");
	if (errno == EINPROGRESS) {
		revents = wait_connected(rs);
		CHECK(revents & (POLLERR | POLLHUP), "revents 0x%x", revents);
		CHECK(pending_error(rs) == ECONNREFUSED, "another error");
	}
	CHECK(pending_error(rs) == 0, "an error is told once");
	OK(rclose(rs));

	rs = rsocket(pair->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	tell(pair, 0);
	set_port(pair, (uint16_t)hear(pair));
	tell(pair, 0);
	hear(pair);
	CHECK(!connect_there(pair, rs) || errno == EINPROGRESS, "%m");
	revents = wait_connected(rs);
	CHECK(revents == POLLOUT, "revents 0x%x", revents);
	CHECK(pending_error(rs) == 0, "an error");
	FAILS(connect_there(pair, rs), EISCONN);
	send_all(rs, 1, 0, 1000, 0);
	OK(rclose(rs));
}

/* ---- names ---- */

static void names(struct pair *pair)
{
	struct sockaddr_storage own = { 0 }, peer = { 0 };
	socklen_t length = sizeof(own);
	int rs = meet(pair, NULL);

	OK(rgetsockname(rs, (struct sockaddr *)&own, &length));
	CHECK(length == address_bytes(pair), "length %u", length);
	length = sizeof(peer);
	OK(rgetpeername(rs, (struct sockaddr *)&peer, &length));
	CHECK(own.ss_family == pair->address.ss_family, "family");
	CHECK(peer.ss_family == own.ss_family, "family");
	/* Ports are at the same place in both families. */
	tell(pair, ((struct sockaddr_in *)&own)->sin_port);
	CHECK(hear(pair) == ((struct sockaddr_in *)&peer)->sin_port, "the peer has another port");
	length = 2;
	OK(rgetpeername(rs, (struct sockaddr *)&peer, &length));
	CHECK(length == address_bytes(pair), "what there would be: %u", length);
	tell(pair, 0);
	hear(pair);
	OK(rclose(rs));
}

/* ---- options ---- */

static const struct { int level, name, value; } kept[] = {
	{ SOL_SOCKET, SO_KEEPALIVE, 1 }, { SOL_SOCKET, SO_REUSEADDR, 1 },
	{ SOL_SOCKET, SO_OOBINLINE, 1 }, { SOL_SOCKET, SO_RCVBUF, 100000 },
	{ SOL_SOCKET, SO_SNDBUF, 100000 }, { IPPROTO_TCP, TCP_NODELAY, 1 },
	{ IPPROTO_TCP, TCP_MAXSEG, 1400 }, { IPPROTO_TCP, TCP_KEEPIDLE, 30 },
	{ SOL_RDMA, RDMA_SQSIZE, 100 }, { SOL_RDMA, RDMA_RQSIZE, 200 },
	{ SOL_RDMA, RDMA_INLINE, 128 }, { SOL_RDMA, RDMA_IOMAPSIZE, 3 },
};

static void options(struct pair *pair)
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0), value;
	struct linger linger = { 1, 7 };
	socklen_t length;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		OK(rsetsockopt(rs, kept[i].level, kept[i].name, &kept[i].value, sizeof(int)));
		length = sizeof(value);
		OK(rgetsockopt(rs, kept[i].level, kept[i].name, &value, &length));
		CHECK(value == kept[i].value, "option %zu is %d", i, value);
	}
	OK(rsetsockopt(rs, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	memset(&linger, 0, sizeof(linger));
	length = sizeof(linger);
	OK(rgetsockopt(rs, SOL_SOCKET, SO_LINGER, &linger, &length));
	CHECK(linger.l_onoff == 1 && linger.l_linger == 7, "another linger");
	FAILS(rsetsockopt(rs, SOL_SOCKET, 9999, &value, sizeof(value)), ENOPROTOOPT);
	FAILS(rsetsockopt(rs, SOL_SOCKET, SO_KEEPALIVE, &value, 1), EINVAL);
	length = sizeof(value);
	OK(rgetsockopt(rs, SOL_SOCKET, SO_TYPE, &value, &length));
	CHECK(value == SOCK_STREAM, "type %d", value);
	OK(rclose(rs));
	FAILS(rclose(rs), EBADF);
	FAILS(rsend(rs, "", 1, 0), EBADF);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	tell(pair, 0);
}

static void port_in_use(struct pair *pair)
{
	int one = open_listener(pair, NULL), two = rsocket(pair->address.ss_family, SOCK_STREAM, 0);

	FAILS(rbind(two, (struct sockaddr *)&pair->address, address_bytes(pair)), EADDRINUSE);
	OK(rclose(one));
	OK(rbind(two, (struct sockaddr *)&pair->address, address_bytes(pair)));
	OK(rclose(two));
}

static void nothing(struct pair *pair)
{
	hear(pair);
}

/* ---- many ---- */

enum { MANY = 150 };

static void many_server(struct pair *pair)
{
	int listener = open_listener(pair, NULL), rs[MANY];
	uint32_t which;

	for (int i = 0; i < MANY; i++) {
		rs[i] = raccept(listener, NULL, NULL);
		OK(rs[i]);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(rrecv(rs[i], &which, sizeof(which), MSG_WAITALL) == sizeof(which), "%m");
		send_all(rs[i], which, 0, 2000, 0);
		OK(rclose(rs[i]));
	}
	OK(rclose(listener));
}

static void many_client(struct pair *pair)
{
	struct pollfd fds[MANY];
	int left = MANY;

	set_port(pair, (uint16_t)hear(pair));
	for (uint32_t i = 0; i < MANY; i++) {
		fds[i].fd = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
		fds[i].events = POLLIN;
		OK(fds[i].fd);
		OK(connect_there(pair, fds[i].fd));
		CHECK(rsend(fds[i].fd, &i, sizeof(i), 0) == sizeof(i), "%m");
	}
	while (left) {
		OK(rpoll(fds, MANY, 20000));
		for (uint32_t i = 0; i < MANY; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			receive_all(fds[i].fd, i, 0, 2000, 0);
			expect_end(fds[i].fd);
			OK(rclose(fds[i].fd));
			fds[i].fd = -1;
			left--;
		}
	}
}

/* A pipe and an rsocket in one set, by rselect(). */
static void mixed(struct pair *pair)
{
	int rs = meet(pair, NULL), ends[2];
	struct timeval limit = { .tv_sec = 10 };
	fd_set in;

	OK(pipe(ends));
	FD_ZERO(&in);
	FD_SET(rs, &in);
	FD_SET(ends[0], &in);
	CHECK(write(ends[1], "x", 1) == 1, "%m");
	CHECK(rselect((rs > ends[0] ? rs : ends[0]) + 1, &in, NULL, NULL, &limit) == 1, "%m");
	CHECK(FD_ISSET(ends[0], &in) && !FD_ISSET(rs, &in), "the other one");
	tell(pair, 0);
	hear(pair);
	send_all(rs, 9, 0, 10, 0);
	CHECK(limit.tv_sec >= 9, "time left: %ld s", (long)limit.tv_sec);
	FD_CLR(ends[0], &in);
	FD_SET(rs, &in);
	CHECK(rselect(rs + 1, &in, NULL, NULL, &limit) == 1 && FD_ISSET(rs, &in), "%m");
	limit.tv_sec = 0;
	limit.tv_usec = 50000;
	receive_all(rs, 9, 0, 10, 0);
	FD_SET(rs, &in);
	CHECK(rselect(rs + 1, &in, NULL, NULL, &limit) == 0 && !FD_ISSET(rs, &in), "%m");
	tell(pair, 0);
	hear(pair);
	OK(rclose(rs));
}

enum { BACKLOG = 2, QUEUED = BACKLOG + 1 };

static int listener_with(struct pair *pair, int backlog)
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);

	OK(rs);
	OK(rbind(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	OK(rlisten(rs, backlog));
	tell(pair, bound_port(rs));
	return rs;
}

static void backlog_server(struct pair *pair)
{
	struct sockaddr_storage peer;
	socklen_t length;
	double cpu;
	int listener = listener_with(pair, BACKLOG), rs;

	hear(pair);
	cpu = cpu_seconds();
	hear(pair);			/* the client looks in vain meanwhile */
	CHECK(cpu_seconds() - cpu < 0.2, "%f s of CPU time in an idle listener", cpu_seconds() - cpu);
	for (uint32_t i = 0; i <= QUEUED; i++) {
		length = sizeof(peer);
		rs = raccept(listener, (struct sockaddr *)&peer, &length);
		OK(rs);
		OK(rgetpeername(rs, (struct sockaddr *)&peer, &length));
		receive_all(rs, i, 0, 1000, 0);
		send_all(rs, i, 0, 10, 0);
		expect_end(rs);
		OK(rclose(rs));
	}
	OK(rclose(listener));
}

/* Connected, and all that is said arrives, before the other side accepts; what is beyond the backlog waits. */
static void backlog_client(struct pair *pair)
{
	struct pollfd fds = { .events = POLLOUT };
	int rs[QUEUED];

	set_port(pair, (uint16_t)hear(pair));
	for (uint32_t i = 0; i < QUEUED; i++) {
		rs[i] = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
		OK(rs[i]);
		OK(connect_there(pair, rs[i]));
		send_all(rs[i], i, 0, 1000, 0);
	}
	fds.fd = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	OK(fds.fd);
	OK(rfcntl(fds.fd, F_SETFL, O_NONBLOCK));
	FAILS(connect_there(pair, fds.fd), EINPROGRESS);
	tell(pair, 0);
	CHECK(rpoll(&fds, 1, 300) == 0, "revents 0x%x", fds.revents);
	tell(pair, 0);
	CHECK(wait_connected(fds.fd) == POLLOUT, "revents");
	OK(rfcntl(fds.fd, F_SETFL, 0));
	send_all(fds.fd, QUEUED, 0, 1000, 0);
	for (uint32_t i = 0; i <= QUEUED; i++) {
		int one = i < QUEUED ? rs[i] : fds.fd;

		receive_all(one, i, 0, 10, 0);
		OK(rclose(one));
	}
}

static void closed_backlog_server(struct pair *pair)
{
	int listener = listener_with(pair, BACKLOG);

	hear(pair);
	OK(rclose(listener));
	hear(pair);
}

static void closed_backlog_client(struct pair *pair)
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	char byte;

	set_port(pair, (uint16_t)hear(pair));
	OK(rs);
	OK(connect_there(pair, rs));
	tell(pair, 0);
	FAILS(rrecv(rs, &byte, 1, 0), ECONNRESET);
	OK(rclose(rs));
	tell(pair, 0);
}

/* In one thread: the listener accepts by itself. */
static void own_listener(struct pair *pair)
{
	int listener, rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0), accepted;

	OK(rs);
	listener = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	OK(listener);
	set_port(pair, 0);
	OK(rbind(listener, (struct sockaddr *)&pair->address, address_bytes(pair)));
	OK(rlisten(listener, 5));
	set_port(pair, bound_port(listener));
	OK(connect_there(pair, rs));
	accepted = raccept(listener, NULL, NULL);
	OK(accepted);
	send_all(rs, 1, 0, 1000, 0);
	receive_all(accepted, 1, 0, 1000, 0);
	OK(rclose(rs));
	expect_end(accepted);
	OK(rclose(accepted));
	OK(rclose(listener));
	tell(pair, 0);
}

const struct test connect_tests[] = {
	{ "a refused connect may be tried again", refused_server, refused_client },
	{ "a non-blocking connect is told of by rpoll", non_blocking_server, non_blocking_client },
	{ "both sides know their names", names, names },
	{ "options are kept", options, nothing },
	{ "a port in use is refused", port_in_use, nothing },
	{ "one listener takes many", many_server, many_client },
	{ "a connect is complete before its accept, as far as the backlog goes", backlog_server, backlog_client },
	{ "a listener that closes resets its backlog", closed_backlog_server, closed_backlog_client },
	{ "a thread connects to its own listener", own_listener, nothing },
	{ "rselect takes rsockets and other descriptors", mixed, mixed },
	{ NULL, NULL, NULL },
};
