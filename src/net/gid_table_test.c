/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of GIDs, and that an address keeps its index while it is there. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "net/port.h"

static void add_address(struct netdev *netdev, const char *text)
{
	struct netdev_address *address = &netdev->address[netdev->address_count++];

	assert_int_equal(inet_pton(AF_INET6, text, address->address), 1);
}

static void assert_gid(const struct port *port, uint32_t index, const char *text)
{
	const struct gid_entry *entry = gid_table_get(port, index);
	uint8_t gid[16];

	assert_non_null(entry);
	assert_int_equal(inet_pton(AF_INET6, text, gid), 1);
	assert_memory_equal(entry->gid.raw, gid, 16);
}

static void make_port(struct port *port)
{
	static const uint8_t mac[6] = { 0x02, 0x77, 0, 0, 0, 1 };

	memset(port, 0, sizeof(*port));
	memcpy(port->netdev.mac, mac, 6);
	port->guid = port_guid(&port->netdev);
}

static void the_order_is_link_local_then_ipv4_then_ipv6(void **state)
{
	struct port port;

	make_port(&port);
	add_address(&port.netdev, "::ffff:10.77.0.1");
	add_address(&port.netdev, "fd77::1");
	add_address(&port.netdev, "fe80::77:ff:fe00:1");
	assert_true(gid_table_update(&port));
	assert_gid(&port, 0, "fe80::77:ff:fe00:1");
	assert_false(port.gid[0].host_only);
	assert_gid(&port, 1, "::ffff:10.77.0.1");
	assert_gid(&port, 2, "fd77::1");
	assert_null(gid_table_get(&port, 3));
	assert_null(gid_table_get(&port, GID_TABLE_SIZE));
	assert_false(gid_table_update(&port));
}

static void assert_type(const struct port *port, uint32_t index, const char *text, enum port_gid_type type)
{
	assert_gid(port, index, text);
	assert_int_equal(gid_table_get(port, index)->type, type);
}

/* As mlx5's: VERBATIM_ROCE=both. */
static void of_both_versions_v1_is_before_v2_for_each_address(void **state)
{
	static const uint8_t address[16] = { [10] = 0xff, 0xff, 10, 77, 0, 1 };
	struct port port;

	make_port(&port);
	port.gid_types = 2;
	port.gid_type[0] = PORT_GID_ROCE_V1;
	port.gid_type[1] = PORT_GID_ROCE_V2;
	add_address(&port.netdev, "::ffff:10.77.0.1");
	add_address(&port.netdev, "fd77::1");
	assert_true(gid_table_update(&port));
	assert_type(&port, 0, "fe80::77:ff:fe00:1", PORT_GID_ROCE_V1);
	assert_type(&port, 1, "fe80::77:ff:fe00:1", PORT_GID_ROCE_V2);
	assert_false(port.gid[0].host_only);		/* a frame carries any GID */
	assert_true(port.gid[1].host_only);
	assert_type(&port, 2, "::ffff:10.77.0.1", PORT_GID_ROCE_V1);
	assert_type(&port, 3, "::ffff:10.77.0.1", PORT_GID_ROCE_V2);
	assert_type(&port, 4, "fd77::1", PORT_GID_ROCE_V1);
	assert_type(&port, 5, "fd77::1", PORT_GID_ROCE_V2);
	assert_null(gid_table_get(&port, 6));
	assert_false(gid_table_update(&port));
	assert_int_equal(gid_table_find(&port, PORT_GID_ROCE_V1, address), 2);
	assert_int_equal(gid_table_find(&port, PORT_GID_ROCE_V2, address), 3);
	port.netdev.address[0] = port.netdev.address[1];
	port.netdev.address_count = 1;
	assert_true(gid_table_update(&port));
	assert_null(gid_table_get(&port, 2));
	assert_null(gid_table_get(&port, 3));
	assert_type(&port, 4, "fd77::1", PORT_GID_ROCE_V1);
}

static void v1_alone_has_the_places_of_v2(void **state)
{
	static const uint8_t address[16] = { [10] = 0xff, 0xff, 10, 77, 0, 1 };
	struct port port;

	make_port(&port);
	port.gid_types = 1;
	port.gid_type[0] = PORT_GID_ROCE_V1;
	add_address(&port.netdev, "::ffff:10.77.0.1");
	assert_true(gid_table_update(&port));
	assert_type(&port, 0, "fe80::77:ff:fe00:1", PORT_GID_ROCE_V1);
	assert_type(&port, 1, "::ffff:10.77.0.1", PORT_GID_ROCE_V1);
	assert_null(gid_table_get(&port, 2));
	assert_int_equal(gid_table_find(&port, PORT_GID_ROCE_V2, address), 1);	/* there is no other */
}

/* Programs take it for the one to use (brpc): IPv4, unless there are other IPv6 addresses. */
static void the_last_gid_is_of_an_ipv4_address_if_ipv6_is_link_local_only(void **state)
{
	struct port port;
	uint32_t last = GID_TABLE_SIZE;

	make_port(&port);
	add_address(&port.netdev, "fe80::77:ff:fe00:1");
	add_address(&port.netdev, "::ffff:10.77.0.1");
	add_address(&port.netdev, "::ffff:10.77.0.2");
	assert_true(gid_table_update(&port));
	while (!gid_table_get(&port, --last))
		;
	assert_int_equal(last, 2);
	assert_gid(&port, 2, "::ffff:10.77.0.2");
}

static void without_the_link_local_address_gid_0_works_inside_the_host(void **state)
{
	struct port port;
	uint8_t loopback[16];

	make_port(&port);
	add_address(&port.netdev, "::ffff:10.77.0.1");
	gid_table_update(&port);
	assert_true(port.gid[0].host_only);
	inet_pton(AF_INET6, "::ffff:127.0.0.1", loopback);
	assert_memory_equal(port.gid[0].address, loopback, 16);
}

static void an_address_keeps_its_index_while_others_go(void **state)
{
	struct port port;

	make_port(&port);
	add_address(&port.netdev, "::ffff:10.77.0.1");
	add_address(&port.netdev, "::ffff:10.77.0.2");
	gid_table_update(&port);
	port.netdev.address_count = 0;
	add_address(&port.netdev, "::ffff:10.77.0.2");
	assert_true(gid_table_update(&port));
	assert_null(gid_table_get(&port, 1));
	assert_gid(&port, 2, "::ffff:10.77.0.2");
	add_address(&port.netdev, "fd77::9");
	assert_true(gid_table_update(&port));
	assert_gid(&port, 1, "fd77::9");
}

static void a_tentative_address_is_no_gid_yet(void **state)
{
	struct port port;

	make_port(&port);
	add_address(&port.netdev, "fd77::1");
	port.netdev.address[0].tentative = true;
	gid_table_update(&port);
	assert_null(gid_table_get(&port, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_is_link_local_then_ipv4_then_ipv6),
		cmocka_unit_test(of_both_versions_v1_is_before_v2_for_each_address),
		cmocka_unit_test(v1_alone_has_the_places_of_v2),
		cmocka_unit_test(the_last_gid_is_of_an_ipv4_address_if_ipv6_is_link_local_only),
		cmocka_unit_test(without_the_link_local_address_gid_0_works_inside_the_host),
		cmocka_unit_test(an_address_keeps_its_index_while_others_go),
		cmocka_unit_test(a_tentative_address_is_no_gid_yet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
