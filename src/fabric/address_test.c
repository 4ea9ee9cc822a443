/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses of hosts: by the file, by plan, and back; what is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/ip_addr.h"
#include "fabric/fabric.h"

static const char nodes[] = "Switch 8 \"sw1\"\n[1] \"host1\"[1]\n[2] \"host2\"[1]\n[3] \"host2\"[2]\n"
			    "Hca 1 \"host1\"\nHca 2 \"host2\"\n";

static struct fabric *with(const char *lines)
{
	struct fabric_errors errors = { 0 };
	struct fabric *fabric;
	char text[1024];

	strcpy(text, nodes);
	strcat(text, lines);
	fabric = fabric_new_from_file(text, &errors);
	if (!fabric)
		fail_msg("%s", errors.error[0].text);
	return fabric;
}

static void address(const char *text, uint8_t ip[16])
{
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		ip_addr_map_ipv4(ip, ipv4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, ip), 1);
}

static void expect(const struct fabric *fabric, const char *node, uint32_t port, unsigned index,
		   const char *expected)
{
	uint32_t number = fabric_find_node(fabric, node), found_port;
	uint8_t ip[16], own[16];

	assert_true(fabric_ip(fabric, number, port, index, ip));
	address(expected, own);
	assert_memory_equal(ip, own, 16);
	assert_int_equal(fabric_find_ip(fabric, own, &found_port), number);
	assert_int_equal(found_port, port);
}

static void ports_have_addresses_by_plan(void **unused)
{
	struct fabric *fabric = with("");
	uint32_t port;
	uint8_t ip[16];

	expect(fabric, "host1", 1, 0, "127.77.0.1");
	expect(fabric, "host2", 1, 0, "127.77.0.2");
	expect(fabric, "host2", 2, 0, "127.78.0.2");
	assert_false(fabric_ip(fabric, fabric_find_node(fabric, "host1"), 1, 1, ip));
	assert_false(fabric_ip(fabric, fabric_find_node(fabric, "host1"), 2, 0, ip));
	assert_false(fabric_ip(fabric, fabric_find_node(fabric, "sw1"), 1, 0, ip));
	address("127.78.0.1", ip);	/* host1 has one port */
	assert_int_equal(fabric_find_ip(fabric, ip, &port), FABRIC_NONE);
	address("127.77.0.3", ip);
	assert_int_equal(fabric_find_ip(fabric, ip, &port), FABRIC_NONE);
	address("127.77.0.0", ip);
	assert_int_equal(fabric_find_ip(fabric, ip, &port), FABRIC_NONE);
	address("::1", ip);
	assert_int_equal(fabric_find_ip(fabric, ip, &port), FABRIC_NONE);
	fabric_free(fabric);
}

static void one_in_a_partition_has_its_key(void **unused)
{
	struct fabric *fabric = with("host \"host1\" ip=10.0.0.1,10.1.0.1@0x8001,fd00::1@2\n"), *same;
	static const struct { const char *ip; uint16_t pkey; } given[] = {
		{ "10.0.0.1", 0 }, { "10.1.0.1", 0x8001 }, { "fd00::1", 0x8002 }, { "127.77.0.2", 0 },
	};
	char *text = fabric_print(fabric);
	struct fabric_errors errors = { 0 };
	uint8_t ip[16];

	same = fabric_new_from_file(text, &errors);
	assert_non_null(same);
	for (unsigned i = 0; i < 4; i++) {
		address(given[i].ip, ip);
		assert_int_equal(fabric_ip_pkey(fabric, ip), given[i].pkey);
		assert_int_equal(fabric_ip_pkey(same, ip), given[i].pkey);
	}
	free(text);
	fabric_free(fabric);
	fabric_free(same);
}

static void the_file_gives_others(void **unused)
{
	struct fabric *fabric = with("host \"host1\" ip=10.0.0.1,10.1.0.1,fd00::1\n"
				     "port \"host2\"[2] ip=10.0.0.2\n"), *same;
	struct fabric_errors errors = { 0 };
	uint32_t port;
	uint8_t ip[16];
	char *text;

	expect(fabric, "host1", 1, 0, "10.0.0.1");
	expect(fabric, "host1", 1, 1, "10.1.0.1");
	expect(fabric, "host1", 1, 2, "fd00::1");
	expect(fabric, "host2", 1, 0, "127.77.0.2");
	expect(fabric, "host2", 2, 0, "10.0.0.2");
	address("127.77.0.1", ip);	/* instead of that */
	assert_int_equal(fabric_find_ip(fabric, ip, &port), FABRIC_NONE);
	text = fabric_print(fabric);
	assert_non_null(text);
	same = fabric_new_from_file(text, &errors);
	assert_non_null(same);
	expect(same, "host1", 1, 2, "fd00::1");
	expect(same, "host2", 2, 0, "10.0.0.2");
	free(text);
	fabric_free(same);
	fabric_free(fabric);
}

static unsigned lines_of(const char *text)
{
	unsigned lines = 0;

	while ((text = strchr(text, '\n')))
		text++, lines++;
	return lines;
}

static void what_is_no_address_is_refused(void **unused)
{
	static const char *const wrong[] = {
		"host \"host1\" ip=10.0.0.1@\n", "host \"host1\" ip=10.0.0.1@0\n",
		"host \"host1\" ip=10.0.0.1@0x8000\n",
		"host \"host1\" ip=10.0.0.1@x\n", "host \"host1\" ip=10.0.0.1@0x10001\n", "host \"host1\" ip=@1\n",
		"host \"host1\" ip=10.0.0\n", "host \"host1\" ip=224.0.0.1\n", "host \"host1\" ip=0.0.0.0\n",
		"host \"host1\" ip=ff02::1\n", "host \"host1\" ip=10.0.0.1,\n", "host \"sw1\" ip=10.0.0.1\n",
		"host \"host1\" ip=10.0.0.1\nhost \"host2\" ip=10.0.0.1\n", "port \"host1\"[2] ip=10.0.0.1\n",
	};
	char text[1024];

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct fabric_errors errors = { 0 };

		strcpy(text, nodes);
		strcat(text, wrong[i]);
		assert_null(fabric_new_from_file(text, &errors));
		assert_int_equal(errors.count, 1);
		assert_int_equal(errors.error[0].line, lines_of(text));
		if (strstr(wrong[i], ".1@"))
			assert_non_null(strstr(errors.error[0].text, "write ip=10.0.0.1@0x8001"));
	}
}

static void a_port_is_found_by_its_gid(void **unused)
{
	struct fabric *fabric = with("");
	uint32_t host = fabric_find_node(fabric, "host2"), port;
	uint8_t gid[16];

	assert_true(fabric_gid(fabric, host, 2, 0, gid));
	assert_int_equal(fabric_find_gid(fabric, gid, &port), host);
	assert_int_equal(port, 2);
	gid[15] ^= 0x55;
	assert_int_equal(fabric_find_gid(fabric, gid, &port), FABRIC_NONE);
	fabric_free(fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_have_addresses_by_plan),
		cmocka_unit_test(the_file_gives_others),
		cmocka_unit_test(one_in_a_partition_has_its_key),
		cmocka_unit_test(what_is_no_address_is_refused),
		cmocka_unit_test(a_port_is_found_by_its_gid),
	};

	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
