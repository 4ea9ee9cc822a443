/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a peer takes packets with our ICRC, and drops those with a wrong one. The ICRC covers the IP header as
 * the peer gets it, so that what rewrites it on the way (NAT) or computes it in another way makes all packets
 * wrong, in silence. A REQ for a service that nobody has is made by hand and sent from port 4791, where the
 * answer comes: only while no program here has that port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/datagram.h"
#include "doctor.h"
#include "wire/cm_message.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define SERVICE_OF_NOBODY	0x7662000000004791ull	/* of no port space */
#define ANSWER_WAIT_MS		400
#define PACKETS_MAX		32	/* looked at while waiting: others may send, too */

enum { QP_OF_CM = 1 };

struct icrc_probe {
	int fd;
	bool ipv6;
	struct sockaddr_storage here, there;
	socklen_t length;
	uint32_t id;			/* our communication ID */
	bool answer_is_wrong;		/* an answer had a wrong ICRC */
};

/* IPv4: v4-mapped. */
static void gid_of(const struct sockaddr_storage *address, uint8_t gid[16])
{
	if (address->ss_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
		return;
	}
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
}

static struct icrc_header header_between(const struct icrc_probe *probe, const struct sockaddr_storage *from,
					 const struct sockaddr_storage *to)
{
	struct icrc_header header = { .ipv6 = probe->ipv6, .destination_port = ROCE_UDP_PORT,
				      .dont_fragment = true };
	uint8_t source[16], destination[16];
	size_t skip = probe->ipv6 ? 0 : 12;

	gid_of(from, source);
	gid_of(to, destination);
	memcpy(header.source, source + skip, 16 - skip);
	memcpy(header.destination, destination + skip, 16 - skip);
	header.source_port = ntohs(probe->ipv6 ? ((const struct sockaddr_in6 *)from)->sin6_port
					       : ((const struct sockaddr_in *)from)->sin_port);
	return header;
}

/* Nothing but what makes it a REQ: it is refused before more is looked at. */
static size_t write_request(const struct icrc_probe *probe, uint8_t *out, bool wrong)
{
	static uint8_t mad[MAD_BYTES];
	struct cm_message message = { .kind = CM_MESSAGE_REQ, .transaction_id = probe->id };
	struct packet packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY), .pkey = 0xffff, .migrated = true,
				 .psn = probe->id & 0xffffff, .dest_qpn = QP_OF_CM, .payload = mad,
				 .payload_bytes = MAD_BYTES };
	struct icrc_header header = header_between(probe, &probe->here, &probe->there);
	size_t bytes;

	packet.deth.qkey = QKEY_GSI;
	packet.deth.source_qpn = QP_OF_CM;
	message.req.local_comm_id = probe->id;
	message.req.service_id = SERVICE_OF_NOBODY;
	message.req.local_qpn = 2;
	message.req.pkey = 0xffff;
	message.req.path_mtu = 1;
	message.req.local_response_timeout = message.req.remote_response_timeout = 16;
	message.req.hop_limit = 64;
	message.req.subnet_local = 1;
	gid_of(&probe->here, message.req.local_gid);
	gid_of(&probe->there, message.req.remote_gid);
	cm_message_write(&message, mad);
	bytes = packet_write_headers(&packet, out);
	memcpy(out + bytes, mad, MAD_BYTES);
	icrc_seal(&header, out, bytes + MAD_BYTES);
	if (wrong)
		out[bytes + MAD_BYTES] ^= 1;
	return bytes + MAD_BYTES + ICRC_BYTES;
}

/* A message of the CM for our ID, from the peer. */
static bool is_answer(struct icrc_probe *probe, const struct sockaddr_storage *from, const uint8_t *data,
		      size_t bytes)
{
	struct icrc_header header = header_between(probe, from, &probe->here);
	uint8_t source[16], peer[16];
	struct cm_message message;
	struct packet packet;

	gid_of(from, source);
	gid_of(&probe->there, peer);
	if (memcmp(source, peer, 16) || packet_parse(data, bytes, &packet) != PARSE_OK ||
	    packet.dest_qpn != QP_OF_CM || packet.payload_bytes < MAD_BYTES ||
	    !cm_message_parse(packet.payload, &message) || cm_message_receiver_id(&message) != probe->id)
		return false;
	probe->answer_is_wrong |= icrc_check(&header, data, bytes) == ICRC_BAD;
	return true;
}

static bool await_answer(struct icrc_probe *probe)
{
	struct pollfd ready = { .fd = probe->fd, .events = POLLIN };
	uint8_t data[2048];

	for (int i = 0; i < PACKETS_MAX && poll(&ready, 1, ANSWER_WAIT_MS) > 0; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t length = sizeof(from);
		ssize_t bytes = recvfrom(probe->fd, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)&from,
					 &length);

		if (bytes > 0 && is_answer(probe, &from, data, (size_t)bytes))
			return true;
	}
	return false;
}

static bool is_answered(struct icrc_probe *probe, bool wrong)
{
	uint8_t data[PACKET_HEADER_MAX + MAD_BYTES + ICRC_BYTES];

	for (int i = 0; i < 2; i++) {
		size_t bytes;

		if (getrandom(&probe->id, sizeof(probe->id), 0) != sizeof(probe->id))
			return false;
		bytes = write_request(probe, data, wrong);
		if (sendto(probe->fd, data, bytes, 0, (struct sockaddr *)&probe->there, probe->length) ==
		    (ssize_t)bytes && await_answer(probe))
			return true;
	}
	return false;
}

/* Port 4791 of the address that leads to the peer; not shared with anybody. -1 and errno. */
static int open_probe(struct icrc_probe *probe)
{
	int on = probe->ipv6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO, err;
	socklen_t length = sizeof(probe->here);
	int way = socket(probe->there.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (way < 0)
		return -1;
	err = connect(way, (struct sockaddr *)&probe->there, probe->length) ||
	      getsockname(way, (struct sockaddr *)&probe->here, &length);
	close(way);
	probe->fd = err ? -1 : socket(probe->there.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (probe->fd < 0)
		return -1;
	if (probe->ipv6)
		((struct sockaddr_in6 *)&probe->here)->sin6_port = htons(ROCE_UDP_PORT);
	else
		((struct sockaddr_in *)&probe->here)->sin_port = htons(ROCE_UDP_PORT);
	if (!setsockopt(probe->fd, probe->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
			probe->ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &on, sizeof(on)) &&
	    !bind(probe->fd, (struct sockaddr *)&probe->here, length))
		return 0;
	err = errno;
	close(probe->fd);
	errno = err;
	return -1;
}

static void report_answers(const char *peer, const struct icrc_probe *probe, bool right, bool wrong)
{
	if (right && !wrong && !probe->answer_is_wrong) {
		report(VERDICT_GOOD, "peer-icrc", peer,
		       "answers a packet with our ICRC, and none with a wrong one");
	} else if (right && probe->answer_is_wrong) {
		report(VERDICT_BAD, "peer-icrc", peer, "its packets come with a wrong ICRC");
		report_consequence("they are dropped here: something rewrites IP headers on the way (NAT), or "
				   "the peer computes it in another way");
		report_remedy("tcpdump -vni any udp port 4791 on both sides, and compare the IP headers");
	} else if (right) {
		report(VERDICT_NOTE, "peer-icrc", peer,
		       "answers a packet with a wrong ICRC, too: it does not check it");
		report_consequence("what is damaged on the way is taken for good there");
	} else if (wrong) {
		report(VERDICT_BAD, "peer-icrc", peer,
		       "answers a packet with a wrong ICRC, and none with ours");
		report_consequence("it computes the ICRC in another way: no program gets an answer");
		report_remedy("export VERBATIM_TRACE=trace-%%p.pcapng; wireshark checks the ICRC");
	}
}

void doctor_icrc(const char *peer, const struct sockaddr_storage *address, unsigned length, bool cm_answers)
{
	struct icrc_probe probe = { .ipv6 = address->ss_family == AF_INET6, .there = *address, .length = length };
	bool right, wrong;

	if (open_probe(&probe)) {
		report(VERDICT_NOTE, "peer-icrc", peer, "not tried: UDP port 4791 cannot be had here alone: %s",
		       strerror(errno));
		return;
	}
	right = is_answered(&probe, false);
	wrong = is_answered(&probe, true);
	close(probe.fd);
	if (!right && !wrong && cm_answers)
		report(VERDICT_NOTE, "peer-icrc", peer, "no answer to a REQ made by hand");
	report_answers(peer, &probe, right, wrong);
}
