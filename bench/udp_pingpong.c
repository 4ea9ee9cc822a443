/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The least that two processes pay for a small message over UDP: unconnected sockets, both sides
 * spinning in non-blocking recvfrom (recvmmsg is 0.3 us slower), nothing done with the bytes. What
 * our latency is measured against.
 *
 *	udp_pingpong [-s BYTES] [-p PORT] [-w]			the server, ends with its client;
 *								-w: it sleeps, and is woken by each packet
 *	udp_pingpong [-s BYTES] [-p PORT] [-n COUNT] HOST	prints half round trips
 */
#include <poll.h>
#include <unistd.h>

#include "udp_socket.h"

#define BYTES_MAX	65507
#define PATIENCE_NS	10000000000ull	/* without a packet: the other side is gone */
#define LOSS_NS		100000000ull	/* then the client takes the ping for lost */

enum mark { MARK_PING, MARK_END };

struct endpoint {
	int fd;
	size_t bytes;
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	uint8_t *out, *in;		/* in: [BYTES_MAX] */
	int sleeps;
};

static void put(struct endpoint *endpoint, uint8_t mark)
{
	endpoint->out[0] = mark;
	while (sendto(endpoint->fd, endpoint->out, endpoint->bytes, 0,
		      (struct sockaddr *)&endpoint->peer, endpoint->peer_bytes) < 0)
		if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
			die("sendto");
}

/* Spins until there is a packet; its mark, or -1 when @patience_ns is over. */
static int get(struct endpoint *endpoint, uint64_t patience_ns)
{
	uint64_t end_ns = now_ns() + patience_ns;
	struct sockaddr *peer = (struct sockaddr *)&endpoint->peer;
	struct pollfd ready = { .fd = endpoint->fd, .events = POLLIN };
	unsigned spins = 0;
	ssize_t got;

	do {
		if (endpoint->sleeps && poll(&ready, 1, (int)(patience_ns / 1000000)) <= 0)
			return -1;
		endpoint->peer_bytes = sizeof(endpoint->peer);
		got = recvfrom(endpoint->fd, endpoint->in, BYTES_MAX, MSG_DONTWAIT, peer,
			       &endpoint->peer_bytes);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			die("recvfrom");
		if (++spins % 1024 == 0 && now_ns() > end_ns)
			return -1;
	} while (got <= 0);
	return endpoint->in[0];
}

static int serve(struct endpoint *endpoint)
{
	int mark;

	while ((mark = get(endpoint, PATIENCE_NS)) == MARK_PING)
		put(endpoint, MARK_PING);
	return mark == MARK_END ? 0 : 1;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static int ping(struct endpoint *endpoint, unsigned count)
{
	uint64_t *taken = calloc(count, sizeof(*taken)), start_ns;
	unsigned i, lost = 0;

	if (!taken)
		die("calloc");
	for (i = 0; i < count; i++) {
		start_ns = now_ns();
		put(endpoint, MARK_PING);
		while (get(endpoint, LOSS_NS) < 0) {
			if (++lost > 50) {
				fprintf(stderr, "udp_pingpong: no answer\n");
				return 1;
			}
			start_ns = now_ns();
			put(endpoint, MARK_PING);
		}
		taken[i] = now_ns() - start_ns;
	}
	for (i = 0; i < 3; i++)
		put(endpoint, MARK_END);
	qsort(taken, count, sizeof(*taken), compare);
	printf("udp ping-pong: %zu bytes, %u round trips, us one way: min %.2f median %.2f "
	       "p99 %.2f max %.2f, lost %u\n", endpoint->bytes, count,
	       (double)taken[0] / 2e3, (double)taken[count / 2] / 2e3,
	       (double)taken[(uint64_t)count * 99 / 100] / 2e3,
	       (double)taken[count - 1] / 2e3, lost);
	free(taken);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: udp_pingpong [-s BYTES] [-p PORT] [-n COUNT] [-w] [HOST]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct endpoint endpoint = { .bytes = 8 };
	const char *port = "18515";
	long count = 20000;
	int option;

	while ((option = getopt(argc, argv, "s:p:n:w")) != -1) {
		if (option == 's')
			endpoint.bytes = strtoul(optarg, NULL, 10);
		else if (option == 'p')
			port = optarg;
		else if (option == 'n')
			count = strtol(optarg, NULL, 10);
		else if (option == 'w')
			endpoint.sleeps = 1;
		else
			return usage();
	}
	if (argc - optind > 1 || !endpoint.bytes || endpoint.bytes > BYTES_MAX || count < 1 ||
	    count > 100000000)
		return usage();
	endpoint.in = malloc(BYTES_MAX);
	endpoint.out = calloc(1, endpoint.bytes);
	if (!endpoint.in || !endpoint.out)
		die("malloc");
	endpoint.fd = udp_socket_open(argv[optind], port, &endpoint.peer, &endpoint.peer_bytes);
	return argv[optind] ? ping(&endpoint, (unsigned)count) : serve(&endpoint);
}
