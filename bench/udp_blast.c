/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The most that UDP carries on a path: runs of equal segments by UDP_SEGMENT (GSO) at full speed,
 * received with UDP_GRO and counted. Nothing is repeated or held back, so the receiver's number is
 * what counts. What our bandwidth is measured against, besides TCP.
 *
 *	udp_blast [-p PORT]					receive; prints Gb/s and loss
 *	udp_blast [-p PORT] [-s SEGMENT] [-t SECONDS] [-1] HOST	send; -1: without GSO
 */
#include <netinet/udp.h>
#include <poll.h>
#include <unistd.h>

#include "udp_socket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif
#define RUN_MAX		65507u
#define SEGMENTS_MAX	64u
#define RECEIVE_MAX	16u
#define RECEIVE_BYTES	65536u
#define QUIET_MS	500		/* then the sender is taken to be done */

static uint64_t sent_segments(const uint8_t *packet)
{
	uint64_t count;

	memcpy(&count, packet, sizeof(count));
	return count;
}

static int receive(int fd)
{
	static uint8_t buffer[RECEIVE_MAX][RECEIVE_BYTES];
	struct mmsghdr message[RECEIVE_MAX] = { 0 };
	struct iovec iov[RECEIVE_MAX];
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t bytes = 0, first_ns = 0, last_ns = 0, sent = 0;
	int i, got, on = 1, size = 4 << 20;

	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	for (i = 0; i < (int)RECEIVE_MAX; i++) {
		iov[i] = (struct iovec){ buffer[i], RECEIVE_BYTES };
		message[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	while (poll(&ready, 1, first_ns ? QUIET_MS : 30000) > 0) {
		got = recvmmsg(fd, message, RECEIVE_MAX, MSG_DONTWAIT, NULL);
		last_ns = now_ns();
		if (got > 0 && !first_ns)
			first_ns = last_ns;
		for (i = 0; i < got; i++) {
			bytes += message[i].msg_len;
			if (message[i].msg_len >= sizeof(sent))
				sent = sent_segments(buffer[i]);
		}
	}
	if (last_ns <= first_ns) {
		fprintf(stderr, "udp_blast: no packets received\n");
		return 1;
	}
	printf("udp blast: received %.2f Gb/s, %.1f %% of what was sent until then\n",
	       (double)bytes * 8 / (double)(last_ns - first_ns),
	       sent ? 100.0 * (double)bytes / (double)sent : 0.0);
	return 0;
}

/* Each run begins with the bytes sent before and with it, so that the receiver knows the loss. */
static int blast(int fd, const struct sockaddr_storage *peer, socklen_t peer_bytes,
		 unsigned segment, unsigned segments, double seconds)
{
	static uint8_t data[RUN_MAX];
	int size = (int)segment;
	uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9), total = 0, runs = 0;
	size_t bytes = (size_t)segment * segments;

	if (segments > 1 && setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)))
		die("UDP_SEGMENT");
	while (now_ns() < end_ns) {
		uint64_t with_this = total + bytes;

		memcpy(data, &with_this, sizeof(with_this));
		if (sendto(fd, data, bytes, 0, (const struct sockaddr *)peer, peer_bytes) >= 0) {
			total = with_this;
			runs++;
		} else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
			die("sendto");
		}
	}
	printf("udp blast: sent %.2f Gb/s, %llu runs of %u x %u bytes\n",
	       (double)total * 8 / (seconds * 1e9), (unsigned long long)runs, segments, segment);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: udp_blast [-p PORT] [-s SEGMENT] [-t SECONDS] [-1] [HOST]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct sockaddr_storage peer;
	socklen_t peer_bytes = 0;
	const char *port = "18516";
	unsigned long segment = 4156;	/* a RoCEv2 packet of path MTU 4096 */
	double seconds = 2;
	int option, fd, single = 0;
	unsigned segments;

	while ((option = getopt(argc, argv, "p:s:t:1")) != -1) {
		if (option == 'p')
			port = optarg;
		else if (option == 's')
			segment = strtoul(optarg, NULL, 10);
		else if (option == 't')
			seconds = strtod(optarg, NULL);
		else if (option == '1')
			single = 1;
		else
			return usage();
	}
	if (argc - optind > 1 || segment < 8 || segment > RUN_MAX || seconds <= 0 || seconds > 60)
		return usage();
	segments = single ? 1 : RUN_MAX / (unsigned)segment;
	if (segments > SEGMENTS_MAX)
		segments = SEGMENTS_MAX;
	fd = udp_socket_open(argv[optind], port, &peer, &peer_bytes);
	if (!argv[optind])
		return receive(fd);
	return blast(fd, &peer, peer_bytes, (unsigned)segment, segments, seconds);
}
