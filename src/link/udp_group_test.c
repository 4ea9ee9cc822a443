/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of the UDP link: who receives what, and since when. */
#include <stdio.h>
#include <stdlib.h>

#include "link/udp_test.h"

static void check_group(const uint8_t source[16], const uint8_t group[16], uint32_t interface)
{
	struct datagram out = make(false, 100, 0), in;

	memcpy(out.source, source, 16);
	memcpy(out.destination, group, 16);
	out.interface = interface;
	send_one(&out);
	assert_true(nothing_more(link_));
	assert_int_equal(udp_join(link_, group, interface), 0);
	assert_int_equal(udp_join(link_, group, interface), 0);
	send_one(&out);
	assert_true(receive_one(link_, &in));
	assert_memory_equal(in.destination, group, 16);
	assert_int_equal(in.interface, interface);
	udp_leave(link_, group, interface);
	send_one(&out);
	assert_true(receive_one(link_, &in));	/* one member remains */
	udp_leave(link_, group, interface);
	udp_leave(link_, group, interface);		/* once too often */
	send_one(&out);
	assert_true(nothing_more(link_));
}

static void groups_are_received_while_joined(void **state)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 192, 1, 2 };

	check_group(ipv4_loopback, group, if_nametoindex("lo"));
}

/* IPv6 has no multicast on lo. */
static void ipv6_groups_are_received_while_joined(void **state)
{
	static const uint8_t source[16] = { 0xfd, 1, [15] = 1 };
	static const uint8_t group[16] = { 0xff, 0x0e, [15] = 0x42 };

	if (system("ip link add mc0 type veth peer name mc1 && ip link set mc1 up && "
		   "ip link set mc0 up && ip address add fd01::1/64 dev mc0 nodad") != 0) {
		print_message("SKIPPED: no veth pair can be made here\n");
		skip();
	}
	check_group(source, group, if_nametoindex("mc0"));
}

/*
 * Not even where packets come from outside: there the kernel chooses among the sockets of the port
 * when only one of them is a member (early demultiplexing).
 */
static void a_group_is_received_by_its_member_alone(void **state)
{
	uint8_t source[16] = { [10] = 0xff, 0xff, 10, 9, 0, 2 };
	uint8_t group[16] = { [10] = 0xff, 0xff, 239, 192, 2, 0 };
	struct datagram out = make(false, 100, 0), in;
	struct counters others = { 0 };
	struct link *other;
	unsigned i, joined;

	if (system("ip link add out type veth peer name in && ip link set in up && "
		   "ip link set out up && ip address add 10.9.0.1/24 dev in && "
		   "ip address add 10.9.0.2/24 dev out && cd /proc/sys/net/ipv4/conf && "
		   "for f in all in; do echo 1 > $f/accept_local; echo 0 > $f/rp_filter; done") != 0) {
		print_message("SKIPPED: no veth pair can be made here\n");
		skip();
	}
	joined = if_nametoindex("in");
	assert_int_equal(udp_open(&other, &others), 0);
	assert_int_equal(udp_bind(other), 0);
	for (i = 0; i < 32; i++) {
		struct link *member = i & 1 ? other : link_;

		group[15] = (uint8_t)i;
		assert_int_equal(udp_join(member, group, joined), 0);
		memcpy(out.source, source, 16);
		memcpy(out.destination, group, 16);
		out.interface = if_nametoindex("out");
		send_one(&out);
		assert_true(receive_one(member, &in));
		assert_int_equal(in.interface, joined);
		assert_true(nothing_more(i & 1 ? link_ : other));
		udp_leave(member, group, joined);
	}
	other->ops->close(other);
}

static void groups_joined_before_binding_are_received_after(void **state)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 192, 1, 3 };
	struct datagram out = make(false, 100, 0), in;
	struct counters other = { 0 };
	struct link *link;

	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_join(link, group, if_nametoindex("lo")), 0);
	assert_int_equal(udp_bind(link), 0);
	memcpy(out.destination, group, 16);
	out.interface = if_nametoindex("lo");
	send_one(&out);
	assert_true(receive_one(link, &in));
	assert_true(nothing_more(link_));	/* it did not join */
	link->ops->close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(groups_are_received_while_joined),
		TEST(ipv6_groups_are_received_while_joined),
		TEST(a_group_is_received_by_its_member_alone),
		TEST(groups_joined_before_binding_are_received_after),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
