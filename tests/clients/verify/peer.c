// SPDX-License-Identifier: BSD-2-Clause
/*
 * The TCP connection between the two ends: exchange of small facts, and meeting points.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verify.h"

int peer_listen(int port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int sock = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	CHECK(sock >= 0, "socket: %m");
	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK(!bind(sock, (struct sockaddr *)&any, sizeof(any)), "port %d: %m", port);
	CHECK(!listen(sock, 1), "listen: %m");
	return sock;
}

int peer_accept(int listening)
{
	int one = 1;
	int sock = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

	CHECK(sock >= 0, "accept: %m");
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return sock;
}

int peer_connect(const char *host, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	char service[16];
	int one = 1, sock, err;

	snprintf(service, sizeof(service), "%d", port);
	err = getaddrinfo(host, service, &hints, &list);
	CHECK(!err, "%s: %s", host, gai_strerror(err));
	sock = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(sock >= 0, "socket: %m");
	CHECK(!connect(sock, list->ai_addr, list->ai_addrlen), "connect to %s %d: %m", host, port);
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(list);
	return sock;
}

void exchange(struct side *side, const void *mine, void *theirs, size_t len)
{
	size_t got = 0;

	CHECK(send(side->sock, mine, len, MSG_NOSIGNAL) == (ssize_t)len, "the peer is gone");
	while (got < len) {
		ssize_t n = recv(side->sock, (char *)theirs + got, len - got, 0);

		CHECK(n > 0, "the peer is gone");
		got += n;
	}
}

void barrier(struct side *side)
{
	char mine = 'b', theirs = 0;

	exchange(side, &mine, &theirs, 1);
	CHECK(theirs == 'b', "the ends disagree about where they are");
}

uint64_t exchange_u64(struct side *side, uint64_t mine)
{
	uint64_t theirs;

	exchange(side, &mine, &theirs, sizeof(mine));
	return theirs;
}
