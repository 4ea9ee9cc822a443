/* SPDX-License-Identifier: BSD-2-Clause */
/* The half of connect_rate that uses TCP: socket, connect, close against accept, read, close. */
#include <errno.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connect.h"

static struct addrinfo *address_of(const struct connect_options *options)
{
	struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM,
					  .ai_flags = options->host ? 0 : AI_PASSIVE };
	int err = getaddrinfo(options->host, options->port, &hints, &found);

	errno = EADDRNOTAVAIL;
	must(err, "getaddrinfo");
	return found;
}

void tcp_serve(const struct connect_options *options)
{
	struct addrinfo *any = address_of(options);
	int on = 1, listener = socket(any->ai_family, SOCK_STREAM, 0);
	char byte;

	must(listener < 0, "socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	must(bind(listener, any->ai_addr, any->ai_addrlen), "bind");
	must(listen(listener, 65535), "listen");
	report_listening();
	for (unsigned i = 0; i < options->count; i++) {
		int fd = accept(listener, NULL, NULL);

		must(fd < 0, "accept");
		must(read(fd, &byte, 1), "read");	/* until the client closes */
		close(fd);
	}
	freeaddrinfo(any);
}

/* One at a time, each until the server has closed. */
static void connect_once(const struct addrinfo *server)
{
	int fd = socket(server->ai_family, SOCK_STREAM, 0);
	char byte;

	must(fd < 0, "socket");
	must(connect(fd, server->ai_addr, server->ai_addrlen), "connect");
	must(shutdown(fd, SHUT_WR), "shutdown");
	must(read(fd, &byte, 1), "read");
	close(fd);
}

/* One of those under way: it connects, then has said that it closes, then the server has. */
struct tcp_connection {
	int fd;
	int closing;
};

static void tcp_start(struct tcp_connection *connection, const struct addrinfo *server, int epoll)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection };

	connection->fd = socket(server->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	connection->closing = 0;
	must(connection->fd < 0, "socket");
	must(connect(connection->fd, server->ai_addr, server->ai_addrlen) && errno != EINPROGRESS,
	     "connect");
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event), "epoll_ctl");
}

/* 1: it has ended. */
static int tcp_advance(struct tcp_connection *connection, uint32_t events)
{
	ssize_t got;
	char byte;

	if (!connection->closing) {
		if (!(events & (EPOLLOUT | EPOLLERR)))
			return 0;
		must(shutdown(connection->fd, SHUT_WR), "connect");
		connection->closing = 1;
	}
	got = read(connection->fd, &byte, 1);
	must(got > 0 || (got < 0 && errno != EAGAIN), "read");
	if (got)
		return 0;
	close(connection->fd);
	return 1;
}

static void tcp_many(const struct connect_options *options, const struct addrinfo *server)
{
	struct tcp_connection *connections = calloc(options->inflight, sizeof(*connections));
	int epoll = epoll_create1(0), ready, i;
	struct epoll_event events[64];
	unsigned begun, ended = 0;

	must(!connections || epoll < 0, "epoll_create1");
	for (begun = 0; begun < options->inflight && begun < options->count; begun++)
		tcp_start(&connections[begun], server, epoll);
	while (ended < options->count) {
		ready = epoll_wait(epoll, events, 64, -1);
		must(ready < 0, "epoll_wait");
		for (i = 0; i < ready; i++) {
			if (!tcp_advance(events[i].data.ptr, events[i].events))
				continue;
			ended++;
			if (begun < options->count) {
				tcp_start(events[i].data.ptr, server, epoll);
				begun++;
			}
		}
	}
	close(epoll);
	free(connections);
}

void tcp_client(const struct connect_options *options)
{
	struct addrinfo *server = address_of(options);

	if (options->inflight > 1)
		tcp_many(options, server);
	else
		for (unsigned left = options->count; left; left--)
			connect_once(server);
	freeaddrinfo(server);
}
