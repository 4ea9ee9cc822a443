/* SPDX-License-Identifier: BSD-2-Clause */
/* The half of connect_rate that uses TCP: socket, connect, close against accept, read, close. */
#include <errno.h>
#include <netdb.h>
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

/* With @wait: until the server has closed, too. */
static void connect_once(const struct addrinfo *server, int wait)
{
	int fd = socket(server->ai_family, SOCK_STREAM, 0);
	char byte;

	must(fd < 0, "socket");
	must(connect(fd, server->ai_addr, server->ai_addrlen), "connect");
	if (wait) {
		must(shutdown(fd, SHUT_WR), "shutdown");
		must(read(fd, &byte, 1), "read");
	}
	close(fd);
}

void tcp_client(const struct connect_options *options)
{
	struct addrinfo *server = address_of(options);

	/* The last one waits always: the server takes them in order, so all are closed then. */
	for (unsigned left = options->count; left; left--)
		connect_once(server, options->inflight == 1 || left == 1);
	freeaddrinfo(server);
}
