/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The most that UDP carries on a path: runs of equal segments by UDP_SEGMENT (GSO) at full speed,
 * received with UDP_GRO and counted. Nothing is repeated or held back, so the receiver's number is
 * what counts. What our bandwidth is measured against, besides TCP. Both ends print the processor time
 * that they took for a GB.
 *
 *	udp_blast [-p PORT] [-c]					receive; prints Gb/s and loss
 *	udp_blast [-p PORT] [-c] [-s SEGMENT] [-t SECONDS] [-1|-w] HOST	send; -1: without GSO
 *
 * -w: as messages of WRITEs are: the first segment of each run is 16 bytes longer (the RETH), so that it
 * is a datagram of its own, which leaves with the run in one sendmmsg().
 * -c: the work that every RoCEv2 endpoint has besides: the data is copied into the packets and out of
 * them, and each ends with its CRC-32, as the ICRC.
 */
#include <netinet/udp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/crc32.h"
#include "udp_socket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif
#define RUN_MAX		65507u
#define SEGMENTS_MAX	64u
#define SEGMENT_MAX	(RUN_MAX - 16u)
#define RECEIVE_MAX	16u
#define RECEIVE_BYTES	65536u
#define QUIET_MS	500		/* then the sender is taken to be done */
#define FIRST_MORE	16u		/* -w: what the first segment has besides */

static uint64_t sent_segments(const uint8_t *packet)
{
	uint64_t count;

	memcpy(&count, packet, sizeof(count));
	return count;
}

static int checked;			/* -c */

static void print_cpu(uint64_t bytes)
{
	struct rusage used;
	double seconds;

	getrusage(RUSAGE_SELF, &used);
	seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		  (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	printf("udp blast: cpu %.4f s/GB\n", bytes ? seconds / ((double)bytes / 1e9) : 0.0);
}

/* ---- the work of an endpoint ---- */

/* The segments of a run: their data from @data, each with a CRC at its end. */
static void seal(uint8_t *run, const uint8_t *data, size_t bytes, size_t segment)
{
	size_t at, length;
	uint32_t crc;

	for (at = 0; at < bytes; at += segment) {
		length = (bytes - at < segment ? bytes - at : segment) - sizeof(crc);
		memcpy(run + at, data + at, length);
		crc = crc32_update(0, run + at, length);
		memcpy(run + at + length, &crc, sizeof(crc));
	}
}

/* Bytes in the segments whose CRC is right; their data goes to @data. */
static size_t unseal(uint8_t *data, const uint8_t *run, size_t bytes, size_t segment)
{
	size_t at, length, good = 0;
	uint32_t crc;

	for (at = 0; at < bytes; at += segment) {
		length = bytes - at < segment ? bytes - at : segment;
		if (length < sizeof(crc))
			break;
		memcpy(&crc, run + at + length - sizeof(crc), sizeof(crc));
		if (crc32_update(0, run + at, length - sizeof(crc)) != crc)
			continue;
		memcpy(data + at, run + at, length - sizeof(crc));
		good += length;
	}
	return good;
}

/* ---- receiving ---- */

struct slot {
	struct iovec iov;
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control;
};

/* Of the runs that GRO merged. */
static size_t segment_of(struct msghdr *header, size_t bytes)
{
	struct cmsghdr *control;
	int segment = 0;

	for (control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control))
		if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_GRO)
			memcpy(&segment, CMSG_DATA(control), sizeof(segment));
	return segment > 0 ? (size_t)segment : bytes;
}

/* Bytes of one datagram that count; *sent: what the sender had sent with it. */
static size_t take(struct mmsghdr *message, uint64_t *sent)
{
	static uint8_t data[RECEIVE_BYTES];
	struct msghdr *header = &message->msg_hdr;
	const uint8_t *run = header->msg_iov->iov_base;
	size_t bytes = message->msg_len;

	if (bytes >= sizeof(*sent))
		*sent = sent_segments(run);
	if (checked)
		bytes = unseal(data, run, bytes, segment_of(header, bytes));
	header->msg_controllen = sizeof(((struct slot *)0)->control);
	return bytes;
}

static int receive(int fd)
{
	static uint8_t buffer[RECEIVE_MAX][RECEIVE_BYTES];
	static struct slot slot[RECEIVE_MAX];
	struct mmsghdr message[RECEIVE_MAX] = { 0 };
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t bytes = 0, first_ns = 0, last_ns = 0, sent = 0;
	int i, got, on = 1, size = 4 << 20;

	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	for (i = 0; i < (int)RECEIVE_MAX; i++) {
		slot[i].iov = (struct iovec){ buffer[i], RECEIVE_BYTES };
		message[i].msg_hdr = (struct msghdr){ .msg_iov = &slot[i].iov, .msg_iovlen = 1,
			.msg_control = slot[i].control.bytes, .msg_controllen = sizeof(slot[i].control) };
	}
	while (poll(&ready, 1, first_ns ? QUIET_MS : 30000) > 0) {
		got = recvmmsg(fd, message, RECEIVE_MAX, MSG_DONTWAIT, NULL);
		if (got > 0 && !first_ns)
			first_ns = now_ns();
		for (i = 0; i < got; i++)
			bytes += take(&message[i], &sent);
		last_ns = now_ns();
	}
	if (last_ns <= first_ns) {
		fprintf(stderr, "udp_blast: no packets received\n");
		return 1;
	}
	printf("udp blast: received %.2f Gb/s, %.1f %% of what was sent until then\n",
	       (double)bytes * 8 / (double)(last_ns - first_ns),
	       sent ? 100.0 * (double)bytes / (double)sent : 0.0);
	print_cpu(bytes);
	return 0;
}

/* ---- sending ---- */

/* Of one message: the first @first bytes as a datagram of their own, where that is not 0, and a run. */
struct parts {
	struct mmsghdr message[2];
	struct iovec iov[2];
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
	} control;
};

static void parts_make(struct parts *parts, uint8_t *from, size_t first, size_t bytes, uint16_t segment,
		       struct sockaddr_storage *peer, socklen_t peer_bytes)
{
	struct msghdr *run = &parts->message[1].msg_hdr;
	struct cmsghdr *control = &parts->control.align;
	unsigned i;

	*parts = (struct parts){ .iov = { { from, first }, { from + first, bytes } } };
	for (i = 0; i < 2; i++)
		parts->message[i].msg_hdr = (struct msghdr){ .msg_name = peer, .msg_namelen = peer_bytes,
							     .msg_iov = &parts->iov[i], .msg_iovlen = 1 };
	if (bytes <= segment)
		return;
	run->msg_control = parts->control.bytes;
	run->msg_controllen = sizeof(parts->control);
	control->cmsg_level = IPPROTO_UDP;
	control->cmsg_type = UDP_SEGMENT;
	control->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(control), &segment, sizeof(segment));
}

/* Each datagram begins with the bytes sent before and with it, so that the receiver knows the loss. */
static int blast(int fd, struct sockaddr_storage *peer, socklen_t peer_bytes, unsigned segment,
		 unsigned segments, size_t first, double seconds)
{
	static uint8_t data[RUN_MAX + SEGMENT_MAX], sealed[RUN_MAX + SEGMENT_MAX];
	uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9), total = 0, runs = 0;
	size_t bytes = (size_t)segment * segments;
	struct parts parts;
	int sent, from = first ? 0 : 1;

	parts_make(&parts, checked ? sealed : data, first, bytes, (uint16_t)segment, peer, peer_bytes);
	while (now_ns() < end_ns) {
		uint64_t with_first = total + first, with_run = with_first + bytes;

		memcpy(data, &with_first, sizeof(with_first));
		memcpy(data + first, &with_run, sizeof(with_run));
		if (checked && first)
			seal(sealed, data, first, first);
		if (checked)
			seal(sealed + first, data + first, bytes, segment);
		sent = sendmmsg(fd, parts.message + from, 2 - (unsigned)from, 0);
		if (sent == 2 - from) {
			total = with_run;
			runs++;
		} else if (sent > 0) {
			total = with_first;
		} else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
			die("sendmmsg");
		}
	}
	printf("udp blast: sent %.2f Gb/s, %llu runs of %u x %u bytes%s\n",
	       (double)total * 8 / (seconds * 1e9), (unsigned long long)runs, segments, segment,
	       first ? ", each behind a first segment" : "");
	print_cpu(total);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: udp_blast [-p PORT] [-c] [-s SEGMENT] [-t SECONDS] [-1|-w] [HOST]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct sockaddr_storage peer;
	socklen_t peer_bytes = 0;
	const char *port = "18516";
	unsigned long segment = 4156;	/* a RoCEv2 packet of path MTU 4096 */
	double seconds = 2;
	int option, fd, single = 0, first = 0;
	unsigned segments;

	while ((option = getopt(argc, argv, "p:cs:t:1w")) != -1) {
		if (option == 'p')
			port = optarg;
		else if (option == 'c')
			checked = 1;
		else if (option == 's')
			segment = strtoul(optarg, NULL, 10);
		else if (option == 't')
			seconds = strtod(optarg, NULL);
		else if (option == '1')
			single = 1;
		else if (option == 'w')
			first = 1;
		else
			return usage();
	}
	if (argc - optind > 1 || segment < 16 || segment > SEGMENT_MAX || single + first > 1 || seconds <= 0 ||
	    seconds > 60)
		return usage();
	segments = single ? 1 : RUN_MAX / (unsigned)segment;
	if (segments > SEGMENTS_MAX)
		segments = SEGMENTS_MAX;
	fd = udp_socket_open(argv[optind], port, &peer, &peer_bytes);
	if (!argv[optind])
		return receive(fd);
	return blast(fd, &peer, peer_bytes, (unsigned)segment, segments, first ? segment + FIRST_MORE : 0,
		     seconds);
}
