/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel writes into the IP header of our datagrams, seen by a packet socket: the ICRC
 * depends on it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "link/udp_test.h"

#define RUN_SEGMENTS 10u

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(identifications_are_the_segments_numbers_and_df_is_set),
		TEST(an_ipv6_flow_label_and_class_are_sent),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
