/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of what is asked of addresses (ip_addr.h). */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/ip_addr.h"

static void text_to_address(const char *text, uint8_t address[16])
{
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1)
		ip_addr_map_ipv4(address, &ipv4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, address), 1);
}

static void each_question_has_its_addresses(void **state)
{
	static const struct {
		const char *text;
		bool ipv4, zero, loopback, link_local, link_local_ipv6, multicast;
	} rows[] = {
		{ "::", .zero = true },
		{ "::1" },
		{ "0.0.0.0", .ipv4 = true },
		{ "10.0.0.1", .ipv4 = true },
		{ "127.255.0.9", .ipv4 = true, .loopback = true },
		{ "128.0.0.1", .ipv4 = true },
		{ "169.254.7.7", .ipv4 = true, .link_local = true },
		{ "169.255.0.1", .ipv4 = true },
		{ "fe80::1", .link_local = true, .link_local_ipv6 = true },
		{ "febf::1", .link_local = true, .link_local_ipv6 = true },
		{ "fec0::1" },
		{ "ff02::1", .multicast = true },
		{ "223.255.255.255", .ipv4 = true },
		{ "224.0.0.1", .ipv4 = true, .multicast = true },
		{ "239.255.255.255", .ipv4 = true, .multicast = true },
		{ "240.0.0.1", .ipv4 = true },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t address[16];

		text_to_address(rows[i].text, address);
		assert_int_equal(ip_addr_is_ipv4(address), rows[i].ipv4);
		assert_int_equal(ip_addr_is_zero(address), rows[i].zero);
		assert_int_equal(ip_addr_is_loopback_ipv4(address), rows[i].loopback);
		assert_int_equal(ip_addr_is_link_local(address), rows[i].link_local);
		assert_int_equal(ip_addr_is_link_local_ipv6(address), rows[i].link_local_ipv6);
		assert_int_equal(ip_addr_is_multicast(address), rows[i].multicast);
	}
}

static void a_link_local_address_may_have_a_mac_address(void **state)
{
	static const uint8_t of_mac[16] = { 0xfe, 0x80, [8] = 0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55 };
	static const uint8_t of_privacy[16] = { 0xfe, 0x80, [8] = 0x02, 0x11, 0x22, 0xff, 0xfd, 0x33, 0x44, 0x55 };
	static const uint8_t global[16] = { 0x20, 0x01, [8] = 0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55 };
	static const uint8_t expected[6] = { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55 };
	uint8_t mac[6];

	assert_true(ip_addr_link_local_mac(of_mac, mac));
	assert_memory_equal(mac, expected, 6);
	assert_false(ip_addr_link_local_mac(of_privacy, mac));
	assert_false(ip_addr_link_local_mac(global, mac));
}

/* FNV-1a as others compute it: processes of other builds join the same groups. */
static void the_hash_is_the_same_everywhere(void **state)
{
	static const char text[] = "Verbatim RoCEv2!";
	uint8_t address[16];

	assert_int_equal(ip_addr_hash((const uint8_t *)text), 0x1c2609f1u);
	text_to_address("::", address);
	assert_int_equal(ip_addr_hash(address), 0x69691905u);
	text_to_address("ff0e::1:2", address);
	assert_int_equal(ip_addr_hash(address), 0x80084331u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_question_has_its_addresses),
		cmocka_unit_test(a_link_local_address_may_have_a_mac_address),
		cmocka_unit_test(the_hash_is_the_same_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
