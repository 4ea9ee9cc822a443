/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP link: what arrives with a datagram, in which order, and how much at a time. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "link/udp_test.h"

#define RUN_SEGMENTS 10u

static void check_arrival(bool ipv6)
{
	struct datagram out = make(ipv6, 777, 0), in;

	out.traffic_class = 0x6a;
	out.hop_limit = 3;
	out.flow_label = ipv6 ? 0x54321 : 0;
	send_one(&out);
	assert_true(receive_one(link_, &in));
	assert_memory_equal(in.source, out.source, 16);
	assert_memory_equal(in.destination, out.destination, 16);
	assert_int_equal(in.source_port, out.source_port);
	assert_in_range(in.source_port, 0xc000, 0xffff);
	assert_int_equal(in.traffic_class, 0x6a);
	assert_int_equal(in.hop_limit, 3);
	assert_int_equal(in.flow_label, out.flow_label);
	out.flow_label = 0;
	send_one(&out);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.flow_label, 0);	/* none of the kernel's */
	assert_int_equal(in.interface, if_nametoindex("lo"));
	assert_int_equal(in.bytes, 777);
	assert_int_equal(in.segment_bytes, 0);
	assert_false(in.sealed || in.forwarded);
	assert_memory_equal(in.data, data, 777);
	assert_true(nothing_more(link_));
}

static void a_datagram_arrives_with_its_header_fields(void **state)
{
	check_arrival(false);
	check_arrival(true);
}

static void a_hop_limit_of_zero_leaves_as_one(void **state)
{
	struct datagram out = make(false, 100, 0), in;

	out.hop_limit = 0;
	send_one(&out);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.hop_limit, 1);
}

static void check_hop_limits(bool ipv6)
{
	static const uint8_t hop_limit[] = { 200, 5, 64, 200 };
	struct datagram out = make(ipv6, 100, 0), in;
	unsigned i;

	for (i = 0; i < 4; i++) {
		out.hop_limit = hop_limit[i];
		send_one(&out);
		assert_true(receive_one(link_, &in));
		assert_int_equal(in.hop_limit, hop_limit[i]);
	}
}

static void datagrams_of_one_sender_have_hop_limits_of_their_own(void **state)
{
	check_hop_limits(false);
	check_hop_limits(true);
}

static void any_address_of_127_is_a_source(void **state)
{
	struct datagram out = make(false, 100, 0), in;

	out.source[14] = 3;
	out.destination[13] = 9;
	send_one(&out);
	assert_true(receive_one(link_, &in));
	assert_memory_equal(in.source, out.source, 16);
	assert_memory_equal(in.destination, out.destination, 16);
}

static size_t receive_run(const uint8_t *expected, size_t bytes)
{
	struct datagram in;
	size_t done = 0;

	while (done < bytes && receive_one(link_, &in)) {
		assert_true(done + in.bytes <= bytes);
		assert_memory_equal(in.data, expected + done, in.bytes);
		if (in.bytes > SEGMENT)
			assert_int_equal(in.segment_bytes, SEGMENT);
		done += in.bytes;
	}
	return done;
}

static void a_run_arrives_whole(void **state)
{
	unsigned ipv6;

	for (ipv6 = 0; ipv6 < 2; ipv6++) {
		struct datagram out = make(ipv6, RUN_SEGMENTS * SEGMENT - 123, SEGMENT);

		assert_int_equal(link_->ops->prepare(link_, &out), LINK_SEGMENTS_MAX);
		send_one(&out);
		assert_int_equal(receive_run(data, out.bytes), out.bytes);
	}
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
}

static void the_largest_run_arrives(void **state)
{
	struct datagram out = make(false, LINK_BYTES_MAX, SEGMENT);

	out.bytes = LINK_SEGMENTS_MAX * SEGMENT;
	send_one(&out);
	assert_int_equal(receive_run(data, out.bytes), out.bytes);
	out = make(true, LINK_BYTES_MAX, 1100);
	send_one(&out);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
}

static void many_datagrams_leave_in_one_call_in_order(void **state)
{
	struct datagram out[100], in;
	unsigned i, sent, next[2] = { 0, 3 };	/* IPv4, IPv6: two queues, each in order */

	for (i = 0; i < 100; i++) {
		out[i] = make(i % 7 == 3, 100 + i, 0);
		link_->ops->prepare(link_, &out[i]);
	}
	assert_int_equal(link_->ops->send(link_, out, 100, &sent), 0);
	assert_int_equal(sent, 100);
	for (i = 0; i < 100; i++) {
		unsigned ipv6, number;

		assert_true(receive_one(link_, &in));
		ipv6 = in.destination[10] != 0xff;
		number = (unsigned)in.bytes - 100;
		assert_int_equal(number, next[ipv6]);
		do
			next[ipv6]++;
		while ((next[ipv6] % 7 == 3) != (ipv6 == 1));
	}
	assert_true(nothing_more(link_));
}

/* No look at the other socket comes between full batches and what is left, if there is nothing. */
static void a_flood_is_received_without_a_pause(void **state)
{
	struct datagram out[40], in[16];
	unsigned i, got, received = 0;

	for (i = 0; i < UDP_LOOKS_MAX * 66; i++)	/* no other family has been heard of for long */
		assert_int_equal(link_->ops->receive(link_, in, 16, &got), 0);
	for (i = 0; i < 40; i++) {
		out[i] = make(false, 100 + i % 2, 0);
		link_->ops->prepare(link_, &out[i]);
	}
	assert_int_equal(link_->ops->send(link_, out, 40, &got), 0);
	do {
		assert_int_equal(link_->ops->receive(link_, in, 16, &got), 0);
		received += got;
	} while (got);
	assert_int_equal(received, 40);
}

static void spreads_have_ports_of_their_own(void **state)
{
	uint16_t port[32];
	unsigned i, j;

	for (i = 0; i < 32; i++) {
		struct datagram out = make(false, 100, 0);

		out.spread = i * 97;
		link_->ops->prepare(link_, &out);
		port[i] = out.source_port;
		link_->ops->prepare(link_, &out);
		assert_int_equal(port[i], out.source_port);
		for (j = 0; j < i; j++)
			assert_int_not_equal(port[i], port[j]);
	}
}

#define SLOT 77u

static void to_peers_of_this_host_datagrams_leave_from_the_port_of_the_slot(void **state)
{
	static const uint8_t ipv4_other[16] = { [10] = 0xff, 0xff, 127, 0, 0, 9 };
	static const uint8_t hop_limit[] = { 200, 255, 64, 200, 64, 200 };	/* the first is the socket's */
	unsigned i;

	assert_int_equal(udp_open_slot(link_, 3, SLOT), 0);
	for (i = 0; i < 6; i++) {
		struct datagram out = make(i % 3 == 1, 100 + i, 0), in;

		out.from_slot = SLOT;
		out.spread = i;
		out.hop_limit = hop_limit[i];
		if (i % 3 == 2)
			memcpy(out.source, ipv4_other, 16);
		send_one(&out);
		assert_int_equal(out.source_port, udp_slot_port(SLOT));
		assert_true(receive_one(link_, &in));
		assert_int_equal(in.source_port, udp_slot_port(SLOT));
		assert_memory_equal(in.source, out.source, 16);
		assert_int_equal(in.hop_limit, out.hop_limit);
	}
	udp_close_slot(link_, 3);
	assert_int_equal(udp_open_slot(link_, 0, SLOT), 0);	/* it is free again */
}

static int bind_anywhere(int family, const char *address, bool shared)
{
	struct sockaddr_in ipv4 = { .sin_family = AF_INET, .sin_port = htons(udp_slot_port(SLOT)) };
	struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6, .sin6_port = htons(udp_slot_port(SLOT)) };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), result, on = 1;
	void *place = family == AF_INET ? (void *)&ipv4.sin_addr : (void *)&ipv6.sin6_addr;

	assert_int_equal(inet_pton(family, address, place), 1);
	if (shared) {
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	}
	result = family == AF_INET ? bind(fd, (struct sockaddr *)&ipv4, sizeof(ipv4)) :
				     bind(fd, (struct sockaddr *)&ipv6, sizeof(ipv6));
	result = result ? errno : 0;
	close(fd);
	return result;
}

/* On another address it could name ours as the source. */
static void nobody_else_can_have_the_port_of_a_slot_on_any_address(void **state)
{
	static const char *const ipv4[] = { "0.0.0.0", "127.0.0.1", "127.0.0.2" };
	static const char *const ipv6[] = { "::", "::1", "::ffff:127.0.0.2" };
	unsigned i;

	assert_int_equal(udp_open_slot(link_, 0, SLOT), 0);
	for (i = 0; i < 6; i++) {
		assert_int_equal(bind_anywhere(AF_INET, ipv4[i / 2], i % 2), EADDRINUSE);
		assert_int_equal(bind_anywhere(AF_INET6, ipv6[i / 2], i % 2), EADDRINUSE);
	}
	assert_int_equal(udp_open_slot(link_, 1, SLOT), EADDRINUSE);
	udp_close_slot(link_, 0);
	assert_int_equal(bind_anywhere(AF_INET, "127.0.0.2", false), 0);
}

static void other_datagrams_leave_from_no_port_of_a_slot(void **state)
{
	unsigned i;

	for (i = 0; i < 32; i++) {
		struct datagram out = make(i % 2, 100, 0);

		out.spread = i;
		link_->ops->prepare(link_, &out);
		assert_in_range(out.source_port, 0xc000, UDP_SLOT_PORTS - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_datagram_arrives_with_its_header_fields),
		TEST(a_hop_limit_of_zero_leaves_as_one),
		TEST(datagrams_of_one_sender_have_hop_limits_of_their_own),
		TEST(any_address_of_127_is_a_source),
		TEST(a_run_arrives_whole),
		TEST(the_largest_run_arrives),
		TEST(many_datagrams_leave_in_one_call_in_order),
		TEST(a_flood_is_received_without_a_pause),
		TEST(spreads_have_ports_of_their_own),
		TEST(to_peers_of_this_host_datagrams_leave_from_the_port_of_the_slot),
		TEST(nobody_else_can_have_the_port_of_a_slot_on_any_address),
		TEST(other_datagrams_leave_from_no_port_of_a_slot),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
