/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of the UDP link: in a network namespace of its own for each test, over lo.
 */
#ifndef VERBATIM_LINK_UDP_TEST_H
#define VERBATIM_LINK_UDP_TEST_H

#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/udp.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/netns_test.h"
#include "platform/patience_test.h"
#include "platform/wait.h"

#define SEGMENT 1000u

static const uint8_t ipv4_loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
static const uint8_t ipv6_loopback[16] = { [15] = 1 };

static struct link *link_;
static struct counters counters;
static uint8_t data[65536];

static inline int lo_ioctl(unsigned long call, struct ifreq *request)
{
	int result, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(request->ifr_name, "lo");
	result = ioctl(fd, call, request);
	close(fd);
	return result;
}

static inline int setup(void **state)
{
	unsigned i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i / SEGMENT + i);
	memset(&counters, 0, sizeof(counters));
	if (!netns_renew() || udp_open(&link_, &counters))
		return -1;
	return udp_bind(link_);
}

static inline int teardown(void **state)
{
	link_->ops->close(link_);
	fail_clear();
	return 0;
}

static inline struct datagram make(bool ipv6, size_t bytes, size_t segment_bytes)
{
	struct datagram datagram = { .data = data, .bytes = bytes, .segment_bytes = segment_bytes,
				     .hop_limit = 64, .spread = 5 };

	memcpy(datagram.source, ipv6 ? ipv6_loopback : ipv4_loopback, 16);
	memcpy(datagram.destination, ipv6 ? ipv6_loopback : ipv4_loopback, 16);
	return datagram;
}

static inline void send_one(struct datagram *datagram)
{
	unsigned sent;

	link_->ops->prepare(link_, datagram);
	assert_int_equal(link_->ops->send(link_, datagram, 1, &sent), 0);
	assert_int_equal(sent, 1);
}

/* One datagram, waiting a while for it. */
static inline bool receive_one(struct link *link, struct datagram *datagram)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	unsigned received;

	do {
		assert_int_equal(link->ops->receive(link, datagram, 1, &received), 0);
		if (received)
			return true;
		thread_sleep_ns(100000);
	} while (clock_now_ns() < end_ns);
	return false;
}

static inline bool nothing_more(struct link *link)
{
	struct datagram datagram;
	unsigned i, received;

	for (i = 0; i < UDP_LOOKS_MAX; i++) {
		link->ops->receive(link, &datagram, 1, &received);
		if (received)
			return false;
	}
	return true;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
