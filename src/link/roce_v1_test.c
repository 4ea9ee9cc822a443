/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of RoCE v1: the bytes of one, which another program made by the rule of annex A16 (zlib's CRC-32 over
 * eight bytes of ones, the masked GRH and BTH, the rest), and what is no frame. Between hosts:
 * tests/netns/roce_v1.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link/roce_v1.h"
#include "wire/ib_packet.h"
#include "wire/packet.h"

/* 192.0.2.1 -> 192.0.2.2, class 0x20, label 0xabcde, hop limit 64; RC SEND Only, QPN 0x123456, "RoCE v1!". */
static const uint8_t golden[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x89, 0x15,
	0x62, 0x0a, 0xbc, 0xde, 0x00, 0x18, 0x1b, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xc0, 0x00, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xc0, 0x00, 0x02, 0x02, 0x04, 0x40,
	0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0x01, 0x02, 0x03, 0x52, 0x6f, 0x43, 0x45,
	0x20, 0x76, 0x31, 0x21, 0x1f, 0xd6, 0xe6, 0x5e,
};
#define VERSION_AT	14u
#define LENGTH_AT	19u
#define NEXT_AT		20u
#define HOP_AT		21u
#define DGID_AT		38u
#define BTH_AT		54u

static const uint8_t source_mac[6] = { 2, 0, 0, 0, 0, 1 }, destination_mac[6] = { 2, 0, 0, 0, 0, 2 };
static const uint8_t source[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };
static const uint8_t destination[16] = { [10] = 0xff, 0xff, 192, 0, 2, 2 };

static uint8_t frame[sizeof(golden) + 64];

static bool reads(const struct datagram *expected, size_t bytes)
{
	struct datagram datagram;
	bool read = roce_v1_read(frame, bytes, &datagram);

	if (read && expected)
		assert_memory_equal(&datagram, expected, sizeof(datagram));
	return read;
}

static bool reads_changed(size_t at, uint8_t value, bool *bad_icrc)
{
	struct datagram datagram = { .bad_icrc = false };
	bool read;

	memcpy(frame, golden, sizeof(golden));
	frame[at] = value;
	read = roce_v1_read(frame, sizeof(golden), &datagram);
	*bad_icrc = datagram.bad_icrc;
	return read;
}

static void a_frame_is_what_the_rule_says(void **state)
{
	uint8_t headers[ROCE_V1_HEADERS], data[sizeof(golden) - ROCE_V1_HEADERS];
	struct datagram datagram = { .flow_label = 0xabcde, .traffic_class = 0x20, .hop_limit = 64,
				     .data = data, .bytes = sizeof(data) };

	memcpy(datagram.source, source, 16);
	memcpy(datagram.destination, destination, 16);
	memcpy(data, golden + ROCE_V1_HEADERS, sizeof(data) - ICRC_BYTES);
	memset(data + sizeof(data) - ICRC_BYTES, 0xa5, ICRC_BYTES);
	roce_v1_write(&datagram, source_mac, destination_mac, headers);
	assert_memory_equal(headers, golden, sizeof(headers));
	assert_memory_equal(data, golden + ROCE_V1_HEADERS, sizeof(data));
}

static void a_frame_is_read_as_it_was_written(void **state)
{
	struct datagram expected = { .flow_label = 0xabcde, .traffic_class = 0x20, .hop_limit = 64,
				     .checked = true, .data = frame + ROCE_V1_HEADERS,
				     .bytes = sizeof(golden) - ROCE_V1_HEADERS };

	memcpy(expected.source, source, 16);
	memcpy(expected.destination, destination, 16);
	memcpy(frame, golden, sizeof(golden));
	assert_true(reads(&expected, sizeof(golden)));
}

/* Routers change class, label and hop limit, switches FECN and BECN: the ICRC stands. */
static void the_icrc_covers_what_nobody_changes_on_the_way(void **state)
{
	bool bad;

	assert_true(reads_changed(VERSION_AT, 0x6f, &bad));
	assert_false(bad);
	assert_true(reads_changed(VERSION_AT + 2, 0, &bad));
	assert_false(bad);
	assert_true(reads_changed(HOP_AT, 1, &bad));
	assert_false(bad);
	assert_true(reads_changed(BTH_AT + 4, 0xc0, &bad));
	assert_false(bad);
	for (size_t at = DGID_AT - 16; at < sizeof(golden); at++)
		if (at != BTH_AT + 4) {
			assert_true(reads_changed(at, golden[at] ^ 0x01, &bad) || at == DGID_AT);
			assert_true(bad);
		}
}

static void what_is_wrong_is_no_frame(void **state)
{
	bool bad;

	for (size_t bytes = 0; bytes < sizeof(golden) + 8; bytes++) {
		memset(frame, 0, sizeof(frame));
		memcpy(frame, golden, sizeof(golden));
		assert_int_equal(reads(NULL, bytes), bytes == sizeof(golden));
	}
	assert_false(reads_changed(VERSION_AT, 0x42, &bad));
	assert_false(reads_changed(NEXT_AT, 17, &bad));
	assert_false(reads_changed(LENGTH_AT, 0x1c, &bad));
	assert_false(reads_changed(LENGTH_AT - 1, 1, &bad));
	assert_false(reads_changed(0, 0x33, &bad));	/* a group's address around another GID */
	assert_false(reads_changed(DGID_AT, 0xff, &bad));	/* and the reverse */
}

static void a_group_has_its_ethernet_address(void **state)
{
	static const uint8_t mgid[16] = { 0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3 };
	static const uint8_t expected[6] = { 0x33, 0x33, 239, 1, 2, 3 };
	uint8_t mac[6];

	roce_v1_group_mac(mgid, mac);
	assert_memory_equal(mac, expected, 6);
}

/* Of an interface that is not there nothing is sent or received; without the privilege there is no link at all. */
static void without_an_interface_nothing_leaves(void **state)
{
	uint8_t data[64] = { 0 };
	struct datagram datagram = { .interface = 1u << 30, .data = data, .bytes = sizeof(data) };
	const struct link_group group = { .interface = 1u << 30, .gid = { 0xff, 0x0e } };
	const struct roce_v1_port none = { .interface = 1u << 30, .gids = 1, .gid = &source };
	struct counters counters;
	struct datagram received;
	struct link *link;
	unsigned count;
	int err;

	memset(&counters, 0, sizeof(counters));
	err = roce_v1_open(&link, &counters, 3);
	if (err == EPERM)
		skip();
	assert_int_equal(err, 0);
	assert_int_equal(link->ops->send(link, &datagram, 1, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
	assert_int_equal(link->ops->join(link, &group), ENODEV);
	link->ops->leave(link, &group);
	assert_int_equal(roce_v1_set_ports(link, &none, 1), ENODEV);
	assert_int_equal(link->ops->receive(link, &received, 1, &count), 0);
	assert_int_equal(count, 0);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(link->ops->claim(link, 100 + i), 0);
	assert_int_equal(link->ops->claim(link, 200), ENOMEM);
	link->ops->close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_what_the_rule_says),
		cmocka_unit_test(a_frame_is_read_as_it_was_written),
		cmocka_unit_test(the_icrc_covers_what_nobody_changes_on_the_way),
		cmocka_unit_test(what_is_wrong_is_no_frame),
		cmocka_unit_test(a_group_has_its_ethernet_address),
		cmocka_unit_test(without_an_interface_nothing_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
