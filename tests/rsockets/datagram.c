/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: borders, addresses, what is lost and what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "pair.h"

static int open_datagram(struct pair *pair, bool bound)
{
	int rs = rsocket(pair->address.ss_family, SOCK_DGRAM, 0);

	OK(rs);
	if (!bound)
		return rs;
	OK(rbind(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	set_port(pair, bound_port(rs));
	tell(pair, bound_port(rs));
	return rs;
}

static void echo_server(struct pair *pair)
{
	int rs = open_datagram(pair, true);
	struct sockaddr_storage from;
	static char data[5000];

	for (unsigned i = 0; i < 500; i++) {
		socklen_t length = sizeof(from);
		ssize_t n = rrecvfrom(rs, data, sizeof(data), 0, (struct sockaddr *)&from, &length);

		CHECK(n == (ssize_t)(1 + i * 7 % 900), "%zd: %m", n);
		CHECK(length == address_bytes(pair), "address of %u bytes", length);
		check_fill(1, i, data, (size_t)n);
		CHECK(rsendto(rs, data, (size_t)n, 0, (struct sockaddr *)&from, length) == n, "%m");
	}
	hear(pair);
	OK(rclose(rs));
}

static void echo_client(struct pair *pair)
{
	int rs = open_datagram(pair, false);
	struct sockaddr_storage from;
	socklen_t length;
	static char data[5000];

	set_port(pair, (uint16_t)hear(pair));
	for (unsigned i = 0; i < 500; i++) {
		size_t n = 1 + i * 7 % 900;

		fill(1, i, data, n);
		CHECK(rsendto(rs, data, n, 0, (struct sockaddr *)&pair->address,
			      address_bytes(pair)) == (ssize_t)n, "%m");
		memset(data, 0, sizeof(data));
		length = sizeof(from);
		CHECK(rrecvfrom(rs, data, sizeof(data), 0, (struct sockaddr *)&from, &length) ==
		      (ssize_t)n, "%m");
		check_fill(1, i, data, n);
		CHECK(length == address_bytes(pair) &&
		      ((struct sockaddr_in *)&from)->sin_port ==
		      ((struct sockaddr_in *)&pair->address)->sin_port, "from elsewhere");
	}
	tell(pair, 0);
	OK(rclose(rs));
}

static void border_server(struct pair *pair)
{
	int rs = open_datagram(pair, true);
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	char data[100];

	CHECK(rrecv(rs, data, 5, MSG_PEEK) == 5, "%m");
	check_fill(2, 0, data, 5);
	iov = (struct iovec){ data, 10 };
	CHECK(rrecvmsg(rs, &msg, 0) == 10, "%m");
	CHECK(msg.msg_flags & MSG_TRUNC, "flags 0x%x", msg.msg_flags);
	CHECK(rrecv(rs, data, 1, MSG_TRUNC) == 60, "%m");
	CHECK(rrecv(rs, data, sizeof(data), 0) == 70, "%m");
	check_fill(2, 0, data, 70);
	FAILS(rrecv(rs, data, 1, MSG_DONTWAIT), EAGAIN);
	tell(pair, 0);
	OK(rclose(rs));
}

static void border_client(struct pair *pair)
{
	int rs = open_datagram(pair, false);
	static char data[70000];

	set_port(pair, (uint16_t)hear(pair));
	FAILS(rsend(rs, data, 1, 0), EDESTADDRREQ);
	OK(rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	fill(2, 0, data, sizeof(data));
	FAILS(rsend(rs, data, sizeof(data), 0), EMSGSIZE);
	for (size_t n = 50; n <= 70; n += 10)
		CHECK(rsend(rs, data, n, 0) == (ssize_t)n, "%m");
	hear(pair);
	OK(rclose(rs));
}

static void lost_server(struct pair *pair)
{
	OK(rclose(open_datagram(pair, true)));
	tell(pair, 0);
}

static void lost_client(struct pair *pair)
{
	int rs = open_datagram(pair, false);

	set_port(pair, (uint16_t)hear(pair));
	hear(pair);
	for (int i = 0; i < 3; i++)
		CHECK(rsendto(rs, "x", 1, 0, (struct sockaddr *)&pair->address,
			      address_bytes(pair)) == 1, "%m");
	OK(rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	FAILS(rsend(rs, "x", 1, 0), ECONNREFUSED);
	OK(rclose(rs));
}

/* With rpoll and non-blocking sockets; only one's own peer is heard. */
static void polled(struct pair *pair)
{
	int rs = open_datagram(pair, true);
	struct pollfd fds = { .fd = rs, .events = POLLOUT };
	uint16_t peer = (uint16_t)hear(pair);
	char data[8];

	set_port(pair, peer);
	OK(rfcntl(rs, F_SETFL, O_NONBLOCK));
	OK(rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	for (int sent = 0; !sent;) {
		CHECK(rpoll(&fds, 1, 10000) == 1, "never writable");
		sent = rsend(rs, "hello", 5, 0) == 5;
		CHECK(sent || errno == EAGAIN, "%m");
	}
	fds.events = POLLIN;
	CHECK(rpoll(&fds, 1, 10000) == 1 && fds.revents == POLLIN, "revents 0x%x", fds.revents);
	CHECK(rrecv(rs, data, sizeof(data), 0) == 5 && !memcmp(data, "hello", 5), "%m");
	tell(pair, 0);
	hear(pair);
	CHECK(rpoll(&fds, 1, 100) == 0, "a stranger was heard");
	tell(pair, 0);
	hear(pair);
	OK(rclose(rs));
}

static void polled_client(struct pair *pair)
{
	polled(pair);
}

const struct test datagram_tests[] = {
	{ "datagrams go to and fro and tell where they come from", echo_server, echo_client },
	{ "datagrams keep their borders", border_server, border_client },
	{ "datagrams to nobody get lost, unless connected", lost_server, lost_client },
	{ "datagram sockets are polled", polled, polled_client },
	{ NULL, NULL, NULL },
};
