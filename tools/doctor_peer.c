/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether another host can be reached, from the wire up:
 *
 *	route	by which interface, with which source, and what MTU the kernel knows
 *	MTU	datagrams of each path MTU's size to a port that nobody has: an ICMP "port unreachable" says
 *		that one has arrived whole
 *	port	a datagram of one byte to port 4791: refused, or taken (RoCE drops it silently)
 *	CM	a REQ for a service that nobody has, by rdma_connect: any CM answers REJ 8
 *	ICRC	the same by hand, with a right ICRC and a wrong one (doctor_icrc.c)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"

enum {
	ROCE_PORT = 4791, CLOSED_PORT = 4790, CM_PORT = 64791, ANSWER_MS = 400, CM_SECONDS = 6, CM_WAIT_MS = 4000,
	PACKET_HEADERS = 12 + 16 + 4,	/* BTH, RETH, ICRC: behind UDP */
	IPV4_AND_UDP = 28, IPV6_AND_UDP = 48,
	REJ_NO_SERVICE = 8,		/* "invalid service ID" */
};

struct peer {
	struct sockaddr_storage address;
	socklen_t length;
	char text[INET6_ADDRSTRLEN];
	bool ipv6, local;
};

/* ---- the wire ---- */

static void set_port(struct peer *peer, uint16_t port)
{
	if (peer->ipv6)
		((struct sockaddr_in6 *)&peer->address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&peer->address)->sin_port = htons(port);
}

/* A connected socket whose datagrams are never cut in pieces; -1 and errno. */
static int peer_socket(struct peer *peer, uint16_t port)
{
	int fd = socket(peer->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int probe = peer->ipv6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE, err;

	if (fd < 0)
		return -1;
	setsockopt(fd, peer->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, peer->ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
		   &probe, sizeof(probe));
	set_port(peer, port);
	if (!connect(fd, (struct sockaddr *)&peer->address, peer->length))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* Sends @size bytes; the error that comes back, EAGAIN: none did. */
static int peer_probe(int fd, size_t size)
{
	static char bytes[4096 + PACKET_HEADERS];
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	if (send(fd, bytes, size, 0) < 0)
		return errno;
	if (poll(&ready, 1, ANSWER_MS) <= 0)
		return EAGAIN;
	return recv(fd, bytes, 1, MSG_DONTWAIT) < 0 ? errno : 0;
}

static void interface_of(const struct sockaddr_storage *source, char name[64])
{
	struct ifaddrs *all;

	strcpy(name, "an interface that is gone");
	if (getifaddrs(&all))
		return;
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != source->ss_family)
			continue;
		if (source->ss_family == AF_INET ?
		    !memcmp(&((struct sockaddr_in *)one->ifa_addr)->sin_addr,
			    &((const struct sockaddr_in *)source)->sin_addr, 4) :
		    !memcmp(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr,
			    &((const struct sockaddr_in6 *)source)->sin6_addr, 16))
			snprintf(name, 64, "%s", one->ifa_name);
	}
	freeifaddrs(all);
}

/* False: there is none. */
static bool check_route(struct peer *peer)
{
	struct sockaddr_storage source;
	socklen_t length = sizeof(source), size = sizeof(int);
	char text[INET6_ADDRSTRLEN] = "?", interface[64];
	int mtu = 0, fd = peer_socket(peer, ROCE_PORT);

	if (fd < 0) {
		report(VERDICT_BAD, "peer-route", peer->text, "no route: %s", strerror(errno));
		report_consequence("rdma_resolve_addr and packets to it fail the same way");
		report_remedy("ip route get %s", peer->text);
		return false;
	}
	getsockname(fd, (struct sockaddr *)&source, &length);
	getsockopt(fd, peer->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, peer->ipv6 ? IPV6_MTU : IP_MTU, &mtu, &size);
	getnameinfo((struct sockaddr *)&source, length, text, sizeof(text), NULL, 0, NI_NUMERICHOST);
	interface_of(&source, interface);
	close(fd);
	source.ss_family = peer->address.ss_family;
	report(VERDICT_GOOD, "peer-route", peer->text, "by %s from %s, MTU %d%s", interface, text, mtu,
	       peer->local ? "; an address of this host" : "");
	return true;
}

/* The largest path MTU whose packets arrive, 0: none does, -1: nobody says so. */
static int measure_mtu(int fd, bool *too_large)
{
	int err = peer_probe(fd, 256 + PACKET_HEADERS);

	*too_large = false;
	if (err == EAGAIN)
		err = peer_probe(fd, 256 + PACKET_HEADERS);
	if (err != ECONNREFUSED)
		return err == EAGAIN ? -1 : 0;
	for (int mtu = 4096; mtu > 256; mtu /= 2) {
		err = peer_probe(fd, (size_t)mtu + PACKET_HEADERS);
		if (err == ECONNREFUSED)
			return mtu;
		*too_large |= err == EAGAIN;		/* our interface took it, the path did not */
	}
	return 256;
}

static void check_mtu(struct peer *peer)
{
	int mtu, fd = peer_socket(peer, CLOSED_PORT);
	bool lost;

	if (fd < 0)
		return;
	mtu = measure_mtu(fd, &lost);
	close(fd);
	if (mtu < 0) {
		report(VERDICT_NOTE, "peer-mtu", peer->text, "says nothing of a datagram to a closed port: the "
		       "path MTU cannot be measured");
	} else if (!mtu) {
		report(VERDICT_BAD, "peer-mtu", peer->text, "a packet of path MTU 256 does not arrive");
		report_remedy("ping %s", peer->text);
	} else if (lost) {
		report(VERDICT_BAD, "peer-mtu", peer->text, "packets of path MTU %d arrive, larger ones are lost "
		       "on the way, although the interface takes them", mtu);
		report_consequence("requests of more than %d bytes end with IBV_WC_RETRY_EXC_ERR at a larger path "
				   "MTU", mtu);
		report_remedy("export VERBATIM_MTU=%d", mtu);
	} else {
		report(VERDICT_GOOD, "peer-mtu", peer->text, "packets of path MTU %d arrive", mtu);
	}
}

/* What ICMP says of a firewall that refuses with "administratively prohibited" or "host unreachable". */
static bool is_filtered(int err)
{
	return err == EHOSTUNREACH || err == EACCES || err == EPERM;
}

/* False: refused. */
static bool check_peer_port(struct peer *peer)
{
	int err, fd = peer_socket(peer, ROCE_PORT);

	if (fd < 0)
		return false;
	err = peer_probe(fd, 1);
	if (err == EAGAIN)
		err = peer_probe(fd, 1);
	close(fd);
	if (err == EAGAIN || !err)
		return true;
	if (is_filtered(err)) {
		report(VERDICT_BAD, "peer-port", peer->text, "UDP port 4791 is filtered (%s)", strerror(err));
		report_consequence("a firewall there or on the way refuses it: connections end with UNREACHABLE");
		report_remedy("on %s: sudo nft list ruleset; let UDP port 4791 in", peer->text);
		return false;
	}
	report(VERDICT_BAD, "peer-port", peer->text, err == ECONNREFUSED ? "UDP port 4791 is closed" :
	       "UDP port 4791: %s", strerror(err));
	report_consequence(err == ECONNREFUSED ? "no program uses RDMA there now, or a firewall refuses the port: "
			   "connections end with UNREACHABLE" : "packets do not get there");
	report_remedy(err == ECONNREFUSED ? "on %s: verbatim run rping -s" : "ping %s", peer->text);
	return false;
}

/* ---- the connection manager, in a child ---- */

/* The next event, or -1: its status in *status. */
static int next_event(struct rdma_event_channel *channel, int *status)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int kind;

	*status = 0;
	if (poll(&ready, 1, CM_WAIT_MS) <= 0 || rdma_get_cm_event(channel, &event))
		return -1;
	kind = (int)event->event;
	*status = event->status;
	rdma_ack_cm_event(event);
	return kind;
}

static int failed_call(const char *call)
{
	printf("@failed %s: %s\n", call, strerror(errno));
	return 1;
}

/* Somebody serves the port after all. Without a QP of the id the event is another one. */
static bool is_accepted(int event)
{
	return event == RDMA_CM_EVENT_ESTABLISHED || event == RDMA_CM_EVENT_CONNECT_RESPONSE;
}

static int cm_child(const void *argument)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7, .qp_num = 0x4791 };
	struct peer peer = *(const struct peer *)argument;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	int status, event;

	setenv("VERBATIM_EXPLAIN", "1", 1);
	set_port(&peer, CM_PORT);
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return failed_call("rdma_create_id");
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer.address, CM_WAIT_MS) ||
	    next_event(channel, &status) != RDMA_CM_EVENT_ADDR_RESOLVED)
		return failed_call("rdma_resolve_addr");
	printf("@device %s\n", ibv_get_device_name(id->verbs->device));
	if (rdma_resolve_route(id, CM_WAIT_MS) || next_event(channel, &status) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return failed_call("rdma_resolve_route");
	if (rdma_connect(id, &param))
		return failed_call("rdma_connect");
	event = next_event(channel, &status);
	printf("@event %d %d\n", event, status);
	if (is_accepted(event))
		rdma_disconnect(id);
	return 0;
}

static bool is_answer_of_cm(int event)
{
	return event == RDMA_CM_EVENT_REJECTED || is_accepted(event);
}

static void report_cm_event(const struct peer *peer, int event, int status, bool port_open, const char *said)
{
	if (is_accepted(event)) {
		report(VERDICT_GOOD, "peer-cm", peer->text, "its connection manager answers: a program there "
		       "serves port %d and accepted the probe, which was closed at once", CM_PORT);
		return;
	}
	if (event == RDMA_CM_EVENT_REJECTED) {
		report(VERDICT_GOOD, "peer-cm", peer->text, "its connection manager answers (REJ %d to a REQ for "
		       "%s)", status, status == REJ_NO_SERVICE ? "a port that nobody has" :
		       "a port that a program there serves");
		return;
	}
	report(VERDICT_BAD, "peer-cm", peer->text, event == RDMA_CM_EVENT_UNREACHABLE ?
	       "a REQ ends with UNREACHABLE" : "no answer to a REQ in %d s", CM_WAIT_MS / 1000);
	if (event < 0 && port_open)
		report_consequence("port 4791 is open or filtered: a firewall drops it on the way there or back, "
				   "a program that is no RoCE has it, or the peer takes our ICRC for wrong");
	else
		report_consequence("%s", *said ? said : "connections fail the same way");
	report_remedy("on %s: verbatim doctor; sudo tcpdump -ni any udp port 4791", peer->text);
}

/* Does it answer? */
static bool check_cm(const struct peer *peer, bool port_open)
{
	int event = -1, status = 0, result;
	char *output, *at, said[256] = "";

	result = run_child(cm_child, peer, CM_SECONDS, &output);
	at = output ? strstr(output, "@event ") : NULL;
	if (at)
		sscanf(at, "@event %d %d", &event, &status);
	for (at = output; at && *at && !said[0]; at += strcspn(at, "\n"), at += *at == '\n')
		if (*at != '@')
			snprintf(said, sizeof(said), "%.*s", (int)strcspn(at, "\n"), at);
	if (result) {
		at = output ? strstr(output, "@failed ") : NULL;
		report(VERDICT_BAD, "peer-cm", peer->text, "a connection cannot be tried: %.*s",
		       at ? (int)strcspn(at + 8, "\n") : 7, at ? at + 8 : "no word");
		report_consequence("%s", said[0] ? said : "programs with librdmacm fail the same way");
	} else {
		report_cm_event(peer, event, status, port_open, said);
	}
	free(output);
	return !result && is_answer_of_cm(event);
}

static bool is_local(struct peer *peer)
{
	int fd = socket(peer->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool local;

	set_port(peer, 0);
	local = fd >= 0 && !bind(fd, (struct sockaddr *)&peer->address, peer->length);
	if (fd >= 0)
		close(fd);
	return local;
}

void doctor_peer(const char *name)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *found;
	struct peer peer = { 0 };
	bool port_open = true, cm_answers;
	int err = getaddrinfo(name, NULL, &hints, &found);

	if (err) {
		report(VERDICT_UNKNOWN, "peer", name, "%s", gai_strerror(err));
		return;
	}
	memcpy(&peer.address, found->ai_addr, found->ai_addrlen);
	peer.length = found->ai_addrlen;
	peer.ipv6 = found->ai_family == AF_INET6;
	getnameinfo(found->ai_addr, found->ai_addrlen, peer.text, sizeof(peer.text), NULL, 0, NI_NUMERICHOST);
	freeaddrinfo(found);
	peer.local = is_local(&peer);
	if (!check_route(&peer))
		return;
	check_mtu(&peer);
	if (!peer.local)	/* here the connection below opens the port itself */
		port_open = check_peer_port(&peer);
	cm_answers = check_cm(&peer, port_open);
	set_port(&peer, ROCE_PORT);
	if (!peer.local)
		doctor_icrc(peer.text, &peer.address, peer.length, cm_answers);
}
