/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two bare UDP programs share: an unconnected, non-blocking socket, and the time. */
#ifndef VERBATIM_BENCH_UDP_SOCKET_H
#define VERBATIM_BENCH_UDP_SOCKET_H

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/* @host NULL: any address of any family, bound to @port. Else a free port, and *peer is set. */
static inline int udp_socket_open(const char *host, const char *port,
				  struct sockaddr_storage *peer, socklen_t *peer_bytes)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_family = host ? 0 : AF_INET6,
				  .ai_flags = host ? 0 : AI_PASSIVE };
	struct addrinfo *found;
	int fd, off = 0, no_fragments = IP_PMTUDISC_DO, err = getaddrinfo(host, port, &hints, &found);

	if (err && !host) {			/* no IPv6 here */
		hints.ai_family = AF_INET;
		err = getaddrinfo(host, port, &hints, &found);
	}
	if (err) {
		fprintf(stderr, "%s: %s\n", host ? host : port, gai_strerror(err));
		exit(1);
	}
	fd = socket(found->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	/* As ours do it; and without fragments the kernel need not think of an identification. */
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &no_fragments, sizeof(no_fragments));
	if (host) {
		memcpy(peer, found->ai_addr, found->ai_addrlen);
		*peer_bytes = found->ai_addrlen;
	} else {
		if (found->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (bind(fd, found->ai_addr, found->ai_addrlen))
			die("bind");
	}
	freeaddrinfo(found);
	return fd;
}

#endif
