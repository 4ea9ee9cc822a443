/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link in a network namespace of its own, over lo: what arrives with a datagram, what the
 * kernel writes into the IP header (seen by a packet socket; the ICRC depends on it), and what
 * happens to datagrams that the kernel refuses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/netns_test.h"
#include "platform/wait.h"

#define NOBODY 65534
#define RUN_SEGMENTS 10u
#define SEGMENT 1000u

static const uint8_t ipv4_loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
static const uint8_t ipv6_loopback[16] = { [15] = 1 };

static bool real_root;
static struct link *link_;
static struct counters counters;
static uint8_t data[65536];

/* ---- the interface lo ---- */

static int lo_ioctl(unsigned long call, struct ifreq *request)
{
	int result, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(request->ifr_name, "lo");
	result = ioctl(fd, call, request);
	close(fd);
	return result;
}

static void set_lo_mtu(int mtu)
{
	struct ifreq request = { .ifr_mtu = mtu };

	assert_int_equal(lo_ioctl(SIOCSIFMTU, &request), 0);
}

/* The number of a feature of interfaces; -1: this kernel has none of that name. */
static int find_feature(const char *name)
{
	struct ethtool_gstrings *strings = calloc(1, sizeof(*strings) + 256 * ETH_GSTRING_LEN);
	struct ethtool_sset_info *set = calloc(1, sizeof(*set) + sizeof(set->data[0]));
	struct ifreq request = { .ifr_data = (char *)set };
	int i, found = -1;

	set->cmd = ETHTOOL_GSSET_INFO;
	set->sset_mask = 1ull << ETH_SS_FEATURES;
	assert_int_equal(lo_ioctl(SIOCETHTOOL, &request), 0);
	assert_in_range(set->data[0], 1, 256);
	strings->cmd = ETHTOOL_GSTRINGS;
	strings->string_set = ETH_SS_FEATURES;
	strings->len = set->data[0];
	request.ifr_data = (char *)strings;
	assert_int_equal(lo_ioctl(SIOCETHTOOL, &request), 0);
	for (i = 0; i < (int)strings->len; i++)
		if (!strcmp((char *)strings->data + i * ETH_GSTRING_LEN, name))
			found = i;
	free(strings);
	free(set);
	return found;
}

/* Without the feature the kernel cuts runs before they get to the interface. */
static void cut_runs_on_lo(void)
{
	struct ethtool_sfeatures *off = calloc(1, sizeof(*off) + 8 * sizeof(off->features[0]));
	struct ifreq request = { .ifr_data = (char *)off };
	int feature = find_feature("tx-udp-segmentation");

	assert_in_range(feature, 0, 255);
	off->cmd = ETHTOOL_SFEATURES;
	off->size = (uint32_t)(feature / 32 + 1);
	off->features[feature / 32].valid = 1u << feature % 32;
	while (lo_ioctl(SIOCETHTOOL, &request) && errno == EINVAL && off->size < 8)
		off->size++;	/* it wants as many blocks as it has */
	free(off);
}

static int setup(void **state)
{
	unsigned i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i / SEGMENT + i);
	memset(&counters, 0, sizeof(counters));
	if (!netns_renew() || udp_open(&link_, &counters))
		return -1;
	return udp_bind(link_);
}

static int teardown(void **state)
{
	link_->ops->close(link_);
	fail_clear();
	return 0;
}

static struct datagram make(bool ipv6, size_t bytes, size_t segment_bytes)
{
	struct datagram datagram = { .data = data, .bytes = bytes, .segment_bytes = segment_bytes,
				     .hop_limit = 64, .spread = 5 };

	memcpy(datagram.source, ipv6 ? ipv6_loopback : ipv4_loopback, 16);
	memcpy(datagram.destination, ipv6 ? ipv6_loopback : ipv4_loopback, 16);
	return datagram;
}

static void send_one(struct datagram *datagram)
{
	unsigned sent;

	link_->ops->prepare(link_, datagram);
	assert_int_equal(link_->ops->send(link_, datagram, 1, &sent), 0);
	assert_int_equal(sent, 1);
}

/* One datagram, waiting a while for it. */
static bool receive_one(struct link *link, struct datagram *datagram)
{
	uint64_t end_ns = clock_now_ns() + 300000000u;
	unsigned received;

	do {
		assert_int_equal(link->ops->receive(link, datagram, 1, &received), 0);
		if (received)
			return true;
		thread_sleep_ns(100000);
	} while (clock_now_ns() < end_ns);
	return false;
}

static bool nothing_more(struct link *link)
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

/* ---- tests ---- */

static void check_arrival(bool ipv6)
{
	struct datagram out = make(ipv6, 777, 0), in;

	out.traffic_class = 0x6a;
	out.hop_limit = 3;
	send_one(&out);
	assert_true(receive_one(link_, &in));
	assert_memory_equal(in.source, out.source, 16);
	assert_memory_equal(in.destination, out.destination, 16);
	assert_int_equal(in.source_port, out.source_port);
	assert_in_range(in.source_port, 0xc000, 0xffff);
	assert_int_equal(in.traffic_class, 0x6a);
	assert_int_equal(in.hop_limit, 3);
	assert_int_equal(in.interface, if_nametoindex("lo"));
	assert_int_equal(in.bytes, 777);
	assert_int_equal(in.segment_bytes, 0);
	assert_false(in.sealed || in.handed_on);
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

/* ---- what the kernel writes ---- */

static int open_capture(void)
{
	struct sockaddr_ll name = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = (int)if_nametoindex("lo") };
	struct timeval patience = { .tv_usec = 300000 };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));

	if (fd < 0)
		skip();
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* The next outgoing IP packet on lo. */
static size_t capture(int fd, uint8_t packet[2048])
{
	struct sockaddr_ll from;
	socklen_t from_bytes;
	ssize_t got;

	do {
		from_bytes = sizeof(from);
		got = recvfrom(fd, packet, 2048, 0, (struct sockaddr *)&from, &from_bytes);
		assert_true(got > 0);
	} while (from.sll_pkttype != PACKET_OUTGOING);
	return (size_t)got;
}

static void identifications_are_the_segments_numbers_and_df_is_set(void **state)
{
	struct datagram single = make(false, 500, 0), run;
	uint8_t packet[2048];
	unsigned i, round;
	int fd = open_capture();

	cut_runs_on_lo();
	for (round = 0; round < 3; round++) {
		run = make(false, RUN_SEGMENTS * SEGMENT, SEGMENT);
		send_one(&run);
		for (i = 0; i < RUN_SEGMENTS; i++) {
			assert_int_equal(capture(fd, packet), 28 + SEGMENT);
			assert_int_equal(get_be16(packet + 4), i);
			assert_int_equal(get_be16(packet + 6), 0x4000);
			assert_int_equal(get_be16(packet + 20), run.source_port);
			assert_memory_equal(packet + 28, data + i * SEGMENT, SEGMENT);
		}
		send_one(&single);
		assert_int_equal(capture(fd, packet), 28 + 500);
		assert_int_equal(get_be16(packet + 4), 0);
		assert_int_equal(get_be16(packet + 6), 0x4000);
	}
	close(fd);
}

static void an_ipv6_flow_label_and_class_are_sent(void **state)
{
	struct datagram out = make(true, 100, 0), in;
	uint8_t packet[2048];
	int fd = open_capture();

	out.flow_label = 0xabcde;
	out.traffic_class = 0x92;
	send_one(&out);
	capture(fd, packet);
	assert_int_equal(get_be32(packet), 0x692abcde);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.traffic_class, 0x92);
	close(fd);
}

/* ---- refusals ---- */

static void what_is_too_big_is_counted_and_passed_over(void **state)
{
	struct datagram out[3] = { make(false, 4000, 0), make(false, 4000, 2000),
				   make(false, 100, 0) }, in;
	unsigned i, sent;

	set_lo_mtu(1500);
	for (i = 0; i < 3; i++)
		link_->ops->prepare(link_, &out[i]);
	assert_int_equal(link_->ops->send(link_, out, 3, &sent), 0);
	assert_int_equal(sent, 3);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 3);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.bytes, 100);
	/* That was no fault of GSO. */
	assert_int_equal(link_->ops->prepare(link_, &out[0]), LINK_SEGMENTS_MAX);
}

static void a_source_that_is_not_ours_is_counted_and_passed_over(void **state)
{
	struct datagram out[2] = { make(false, 100, 0), make(false, 200, 0) }, in;
	unsigned sent;

	out[0].source[12] = 8;
	link_->ops->prepare(link_, &out[0]);
	link_->ops->prepare(link_, &out[1]);
	assert_int_equal(link_->ops->send(link_, out, 2, &sent), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.bytes, 200);
}

static void a_firewall_that_drops_is_a_loss(void **state)
{
	struct datagram out = make(false, 3000, 1000);

	fail_set(FAIL_SENDMSG, 1, EPERM);
	send_one(&out);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 3);
	assert_true(nothing_more(link_));
}

static void a_full_buffer_is_said(void **state)
{
	struct datagram out[2] = { make(false, 100, 0), make(true, 100, 0) };
	unsigned sent = 9;

	link_->ops->prepare(link_, &out[0]);
	link_->ops->prepare(link_, &out[1]);
	fail_set(FAIL_SENDMSG, 2, ENOBUFS);
	assert_int_equal(link_->ops->send(link_, out, 2, &sent), EAGAIN);
	assert_int_equal(sent, 1);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
}

static void a_run_refused_by_the_kernel_goes_back_to_the_caller(void **state)
{
	struct datagram out[3] = { make(false, 100, 0), make(false, 5 * SEGMENT, SEGMENT),
				   make(false, 200, 0) }, in;
	unsigned i, sent;

	for (i = 0; i < 3; i++)
		link_->ops->prepare(link_, &out[i]);
	assert_int_equal(link_->ops->send(link_, out, 1, &sent), 0);
	fail_set(FAIL_SENDMSG, 1, EIO);
	assert_int_equal(link_->ops->send(link_, out + 1, 2, &sent), EOPNOTSUPP);
	assert_int_equal(sent, 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.bytes, 100);
	assert_true(nothing_more(link_));
	assert_int_equal(link_->ops->prepare(link_, &out[1]), 1);
	out[1].destination[15] = 2;	/* elsewhere it may work */
	assert_int_equal(link_->ops->prepare(link_, &out[1]), LINK_SEGMENTS_MAX);
}

static void without_gso_packets_go_one_by_one(void **state)
{
	struct counters other = { 0 };
	struct datagram out = make(false, 100, 0);
	struct link *link;

	fail_set(FAIL_GSO, 1, ENOPROTOOPT);
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(link->ops->prepare(link, &out), 1);
	link->ops->close(link);
}

static void no_socket_to_send_from_is_a_loss(void **state)
{
	struct datagram out = make(false, 100, 0);
	unsigned sent;

	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(link_->ops->prepare(link_, &out), 1);
	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(link_->ops->send(link_, &out, 1, &sent), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
}

/* ---- binding ---- */

static void the_port_is_shared_within_a_user_only(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int status;
	pid_t child;

	assert_int_equal(udp_bind(link_), 0);		/* again: nothing happens */
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	link->ops->close(link);
	if (!real_root)
		skip();
	child = fork();
	if (!child)
		_exit(setresuid(NOBODY, NOBODY, NOBODY) || udp_open(&link, &other) ||
		      udp_bind(link) != EADDRINUSE);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static void a_kernel_without_ipv6_is_enough(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, fds[4];

	assert_int_equal(udp_open(&link, &other), 0);
	fail_set(FAIL_SOCKET, 2, EAFNOSUPPORT);
	assert_int_equal(udp_bind(link), 0);
	udp_bound_fds(link, &fd4, &fd6);
	assert_true(fd4 >= 0);
	assert_int_equal(fd6, -1);
	assert_int_equal(link->ops->event_fds(link, fds, 4), 1);
	link->ops->close(link);
}

static void each_failure_of_binding_leaves_nothing_behind(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, n, err;

	assert_int_equal(udp_open(&link, &other), 0);
	for (n = 1; n <= 2; n++) {
		fail_set(FAIL_BIND, (unsigned)n, EADDRINUSE);
		assert_int_equal(udp_bind(link), EADDRINUSE);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true(fd4 == -1 && fd6 == -1);
	}
	for (n = 1; n < 16; n++) {
		fail_set(FAIL_SETSOCKOPT, (unsigned)n, EPERM);
		err = udp_bind(link);
		assert_true(!err || err == EPERM);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true((fd4 >= 0) == !err);
		if (!err) {
			link->ops->close(link);
			fail_clear();
			assert_int_equal(udp_open(&link, &other), 0);
		}
	}
	fail_clear();
	link->ops->close(link);
}

static void abandoning_closes_every_descriptor(void **state)
{
	struct datagram out = make(false, 100, 0), out6 = make(true, 100, 0);
	struct counters other = { 0 };
	struct link *link;
	int before = dup(0), after;

	close(before);
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	link->ops->prepare(link, &out);
	link->ops->prepare(link, &out6);
	udp_abandon(link);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	link->ops->close(link);
}

/* ---- multicast ---- */

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
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
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
		TEST(identifications_are_the_segments_numbers_and_df_is_set),
		TEST(an_ipv6_flow_label_and_class_are_sent),
		TEST(what_is_too_big_is_counted_and_passed_over),
		TEST(a_source_that_is_not_ours_is_counted_and_passed_over),
		TEST(a_firewall_that_drops_is_a_loss),
		TEST(a_full_buffer_is_said),
		TEST(a_run_refused_by_the_kernel_goes_back_to_the_caller),
		TEST(without_gso_packets_go_one_by_one),
		TEST(no_socket_to_send_from_is_a_loss),
		TEST(the_port_is_shared_within_a_user_only),
		TEST(a_kernel_without_ipv6_is_enough),
		TEST(each_failure_of_binding_leaves_nothing_behind),
		TEST(abandoning_closes_every_descriptor),
		TEST(groups_are_received_while_joined),
		TEST(ipv6_groups_are_received_while_joined),
		TEST(a_group_is_received_by_its_member_alone),
		TEST(groups_joined_before_binding_are_received_after),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
