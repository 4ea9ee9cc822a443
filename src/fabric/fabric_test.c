/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets by LID and multicast through switches that were programmed, links that are up, down and
 * between; the numbers of a large subnet.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fabric/make.h"
#include "fabric/test_fabric.h"

static void a_datagram_goes_where_the_tables_lead(void **unused)
{
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	assert_int_equal(test_gmp(&world, HOST1, 6), 0);
	assert_int_equal(world.arrived, 0);		/* links in Init carry VL 15 alone */
	test_bring_up(&world);
	for (uint32_t from = HOST1; from <= HOST4; from++)
		for (uint16_t lid = 1; lid <= 6; lid++) {
			static const uint32_t by_lid[] = {0, SW1, SW2, HOST1, HOST2, HOST3, HOST4};

			assert_int_equal(test_gmp(&world, from, lid), 0);
			assert_int_equal(world.arrived, 1);
			assert_int_equal(world.node, by_lid[lid]);
			assert_int_equal(world.from.lid, 1 + from);
			assert_int_equal(world.from.qpn, 1);
			assert_int_equal(world.from.pkey_index, 0);
		}
	test_gmp(&world, HOST1, 7);
	assert_int_equal(world.arrived, 0);
	assert_true(world.fabric->statistics.lost_route > 0);
	fabric_free(world.fabric);
}

static void tables_that_lead_in_a_circle_lose_the_packet(void **unused)
{
	struct test_world world;
	struct fabric_statistics statistics;

	test_open(&world, "make ring switches=3 hosts=1\n");
	for (uint32_t i = 0; i < 3; i++) {
		struct fabric_node *node = &world.fabric->node[i];

		node->switch_info.linear_fdb_top = 63;
		node->lft[0] = malloc(LFT_BLOCK);
		memset(node->lft[0], i == 2 ? 1 : 1, LFT_BLOCK);
		for (unsigned port = 1; port <= node->ports; port++) {
			link_event(world.fabric, i, port, PORT_SET_ARM, true);
			link_event(world.fabric, i, port, PORT_SET_ACTIVE, true);
		}
	}
	/* Port 1 of each switch: sw1 to sw2, sw2 back to sw1. The way back by the port of entry is
	 * refused. */
	link_event(world.fabric, 3, 1, PORT_SET_ARM, true);
	link_event(world.fabric, 3, 1, PORT_SET_ACTIVE, true);
	world.fabric->node[1].lft[0][9] = 2; /* sw2 on to sw3, sw3 by port 2 to sw1: around */
	world.fabric->node[2].lft[0][9] = 2;
	test_gmp(&world, 3, 9);
	fabric_statistics(world.fabric, &statistics);
	assert_int_equal(world.arrived, 0);
	assert_int_equal(statistics.lost_other + statistics.lost_route, 1);
	fabric_free(world.fabric);
}

static void armed_ports_receive_and_become_active_but_do_not_send(void **unused)
{
	struct test_world world;
	struct fabric_port_info port;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	fabric_set_cable(world.fabric, HOST2, 1, false, 1);
	fabric_set_cable(world.fabric, HOST2, 1, true, 1);
	link_event(world.fabric, SW1, 2, PORT_SET_ARM, true);
	link_event(world.fabric, SW1, 2, PORT_SET_ACTIVE, true);
	link_event(world.fabric, HOST2, 1, PORT_SET_ARM, true);
	test_gmp(&world, HOST2, 3);
	assert_int_equal(world.arrived, 0);
	test_gmp(&world, HOST1, 4);
	assert_int_equal(world.arrived, 1);
	fabric_port_info(world.fabric, HOST2, 1, &port);
	assert_int_equal(port.state, FABRIC_PORT_ACTIVE);
	test_gmp(&world, HOST2, 3);
	assert_int_equal(world.arrived, 1);
	fabric_free(world.fabric);
}

static void keys_that_do_not_match_are_violations(void **unused)
{
	struct fabric_address to = { .lid = 6, .qpn = 1, .qkey = 0x1234 };
	struct test_world world;
	struct fabric_port_info port;
	uint8_t mad[MAD_BYTES] = {1, MAD_CLASS_PERFORMANCE, 1, 1},
		data[SMP_DATA_BYTES] = {0x7f, 0xff, 0x80, 5};

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	world.arrived = 0;
	assert_int_equal(fabric_send(world.fabric, HOST1, 1, mad, &to, 2), 0);
	assert_int_equal(world.arrived, 1);		/* the trap */
	assert_int_equal(world.mad[3], MAD_METHOD_TRAP);
	fabric_port_info(world.fabric, HOST4, 1, &port);
	assert_int_equal(port.qkey_violations, 1);
	to.qkey = QKEY_GSI;
	/* Both are limited members of the default partition; the second key is a full one of
	 * another. */
	assert_int_equal(test_smp(&world, "", MAD_METHOD_SET, 0x16, 0, data), 0);
	assert_int_equal(test_smp(&world, "132", MAD_METHOD_SET, 0x16, 0, data), 0);
	assert_int_equal(world.events[FABRIC_EVENT_PKEY_CHANGE], 2);
	world.arrived = 0;
	fabric_send(world.fabric, HOST1, 1, mad, &to, 2);
	assert_int_equal(world.arrived, 1);		/* another trap, of the P_Key */
	assert_int_equal(world.mad[3], MAD_METHOD_TRAP);
	fabric_port_info(world.fabric, HOST4, 1, &port);
	assert_int_equal(port.pkey_violations, 1);
	to.pkey_index = 1;
	world.arrived = 0;
	fabric_send(world.fabric, HOST1, 1, mad, &to, 2);
	assert_int_equal(world.arrived, 1);
	assert_int_equal(world.from.pkey_index, 1);
	to.pkey_index = 2;
	assert_int_equal(fabric_send(world.fabric, HOST1, 1, mad, &to, 2), EINVAL);
	fabric_free(world.fabric);
}

static void multicast_goes_to_each_port_of_the_tree_but_back(void **unused)
{
	struct test_world world;
	uint8_t data[SMP_DATA_BYTES];
	/* MLID 0xc001: sw1 ports 1, 2, 3; sw2 ports 1, 3 */
	struct ib_multicast_forwarding table = { .port_mask = { [1] = 0x0e } };

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	record_write(RECORD_MULTICAST_FORWARDING, &table, data);
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x1b, 0, data), 0);
	table.port_mask[1] = 0x0a;
	record_write(RECORD_MULTICAST_FORWARDING, &table, data);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_SET, 0x1b, 0, data), 0);
	test_gmp(&world, HOST1, 0xc001);
	assert_int_equal(world.arrived, 2);		/* host2, host3 */
	test_gmp(&world, HOST4, 0xc001);
	assert_int_equal(world.arrived, 3);		/* host1, host2, host3 */
	test_gmp(&world, HOST1, 0xc002);
	assert_int_equal(world.arrived, 0);
	fabric_free(world.fabric);
}

/* A group without a row: to the primary port; what came by it, to the other. */
static void multicast_without_a_row_takes_the_default_ports(void **unused)
{
	struct test_world world;
	uint8_t data[SMP_DATA_BYTES];
	struct ib_switch_info info;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	for (unsigned i = 0; i < 2; i++) {
		const char *path = i ? "13" : "1";

		assert_int_equal(test_smp(&world, path, MAD_METHOD_GET, 0x12, 0, NULL), 0);
		record_read(RECORD_SWITCH_INFO, world.data, &info);
		info.default_multicast_primary_port = 3;
		info.default_multicast_not_primary_port = 1;
		record_write(RECORD_SWITCH_INFO, &info, data);
		assert_int_equal(test_smp(&world, path, MAD_METHOD_SET, 0x12, 0, data), 0);
	}
	test_gmp(&world, HOST1, 0xc005);
	assert_int_equal(world.arrived, 1);
	assert_int_equal(world.node, HOST3);
	test_gmp(&world, HOST4, 0xc005);
	assert_int_equal(world.arrived, 1);
	assert_int_equal(world.node, HOST1);
	fabric_free(world.fabric);
}

static void an_smp_to_a_group_is_for_nobody(void **unused)
{
	const struct fabric_address to = { .lid = 0xc001 };
	struct ib_multicast_forwarding table = { .port_mask = { [1] = 0x0f } };
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SUBNET_LID, 1, MAD_METHOD_GET, [17] = 0x11 };
	uint8_t data[SMP_DATA_BYTES];
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	record_write(RECORD_MULTICAST_FORWARDING, &table, data);
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x1b, 0, data), 0);
	world.arrived = 0;
	assert_int_equal(fabric_send(world.fabric, HOST1, 1, mad, &to, 2), 0);
	assert_int_equal(world.arrived, 0);
	assert_int_equal(world.fabric->statistics.lost_port, 1);
	fabric_free(world.fabric);
}

static void a_cable_that_was_pulled_is_plugged_in_at_either_end(void **unused)
{
	struct test_world world;
	struct fabric_port_info port;

	test_open(&world, TWO_SWITCHES "\nlink \"sw1\"[1] down\n");
	assert_int_equal(fabric_set_cable(world.fabric, SW1, 3, false, 1), 0);
	fabric_port_info(world.fabric, SW2, 3, &port);
	assert_int_equal(port.state, FABRIC_PORT_DOWN);
	assert_false(port.plugged);
	assert_int_equal(fabric_set_cable(world.fabric, SW2, 3, true, 1), 0);
	fabric_port_info(world.fabric, SW1, 3, &port);
	assert_int_equal(port.state, FABRIC_PORT_INIT);
	assert_int_equal(fabric_set_cable(world.fabric, HOST1, 1, true, 1), 0);
	fabric_port_info(world.fabric, SW1, 1, &port);
	assert_int_equal(port.state, FABRIC_PORT_INIT);
	fabric_free(world.fabric);
}

static void count_lost(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		       const char *why)
{
	struct test_world *world = context;

	assert_true(strlen(why) > 0);
	world->events[0]++;
}

static void a_bad_link_loses_as_many_as_it_is_told(void **unused)
{
	static const struct fabric_ops ops = { .deliver = test_deliver, .lost = count_lost };
	struct test_world world;
	unsigned answers = 0;

	test_open(&world, TWO_SWITCHES);
	fabric_set_ops(world.fabric, &ops, &world);
	assert_int_equal(fabric_set_errors(world.fabric, SW2, 3, 30, 0), 0);
	for (unsigned i = 0; i < 1000; i++)
		answers += test_smp(&world, "13", MAD_METHOD_GET, 0x11, 0, NULL) == 0;
	assert_in_range(answers, 650, 750);
	assert_int_equal(world.events[0], 1000 - answers);
	assert_int_equal(world.fabric->statistics.lost_error, 1000 - answers);
	/* Of an attribute: that one alone. */
	assert_int_equal(fabric_set_errors(world.fabric, SW2, 3, 100, 0x15), 0);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x11, 0, NULL), 0);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x15, 0, NULL), 0xffff);
	assert_int_equal(fabric_set_errors(world.fabric, SW2, 3, 0, 0), 0);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x15, 0, NULL), 0);
	assert_int_equal(fabric_set_errors(world.fabric, SW2, 5, 1, 0), EINVAL);
	assert_int_equal(fabric_set_errors(world.fabric, SW2, 3, 101, 0), EINVAL);
	fabric_free(world.fabric);
}

static void a_node_without_power_is_silent_and_forgets(void **unused)
{
	struct test_world world;
	struct fabric_port_info port;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(fabric_set_power(world.fabric, SW2, false, 5), 0);
	fabric_port_info(world.fabric, SW1, 3, &port);
	assert_int_equal(port.state, FABRIC_PORT_DOWN);
	fabric_port_info(world.fabric, HOST3, 1, &port);
	assert_int_equal(port.state, FABRIC_PORT_DOWN);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x11, 0, NULL), 0xffff);
	assert_int_equal(fabric_set_power(world.fabric, SW2, true, 6), 0);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x11, 0, NULL), 0);
	assert_int_equal(fabric_route(world.fabric, SW2, 5), 255);
	fabric_port_info(world.fabric, SW2, 0, &port);
	assert_int_equal(port.lid, 0);
	fabric_free(world.fabric);
}

/* What a manager has set goes; who has an issm device open does not. */
static void a_node_that_was_off_is_what_the_file_says(void **unused)
{
	uint8_t data[SMP_DATA_BYTES] = "renamed";
	struct test_world world;
	struct ib_switch_info info;
	struct fabric_node_info node;
	struct fabric_port_info port;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_SET, 0x10, 0, data), 0);
	fabric_node_info(world.fabric, HOST2, &node);
	assert_string_equal(node.description, "renamed");
	assert_string_equal(node.given, "host2");
	assert_int_equal(fabric_find_node(world.fabric, "renamed"), FABRIC_NONE);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x12, 0, NULL), 0);
	record_read(RECORD_SWITCH_INFO, world.data, &info);
	info.default_multicast_primary_port = info.default_multicast_not_primary_port = 2;
	info.life_time_value = 3;
	record_write(RECORD_SWITCH_INFO, &info, data);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_SET, 0x12, 0, data), 0);
	fabric_set_is_sm(world.fabric, HOST2, 1, true, 2);
	for (uint32_t at = SW2; at <= HOST2; at++)
		for (unsigned on = 0; on < 2; on++)
			fabric_set_power(world.fabric, at, on, 3);
	fabric_node_info(world.fabric, HOST2, &node);
	assert_string_equal(node.description, "host2");
	fabric_port_info(world.fabric, HOST2, 1, &port);
	assert_true(port.cap_mask & CAP_IS_SM);
	assert_false(port.cap_mask & 0x20);	/* IsAutomaticMigrationSupported: an HCA has no APM */
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x12, 0, NULL), 0);
	record_read(RECORD_SWITCH_INFO, world.data, &info);
	assert_int_equal(info.default_multicast_primary_port, 255);
	assert_int_equal(info.default_multicast_not_primary_port, 255);
	assert_int_equal(info.life_time_value, 18);
	fabric_free(world.fabric);
}

static void a_program_that_is_refused_is_told(void **unused)
{
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	test_gmp(&world, HOST1, 6);
	fabric_refuse(world.fabric, world.node, world.port, world.mad, &world.from, 9);
	assert_int_equal(world.arrived, 2);
	assert_int_equal(world.node, HOST1);
	assert_int_equal(world.mad[3], MAD_METHOD_GET_RESPONSE);
	assert_int_equal(get_be16(world.mad + 4), MAD_STATUS_BAD_ATTRIBUTE);
	/* SMInfo is no matter of the SMA */
	assert_int_equal(test_smp(&world, "132", MAD_METHOD_GET, 0x20, 0, NULL), 0);
	assert_int_equal(world.node, HOST4);
	fabric_refuse(world.fabric, world.node, world.port, world.mad, &world.from, 9);
	assert_int_equal(world.node, HOST1);
	assert_int_equal(get_be16(world.mad + 4), SMP_DIRECTION | MAD_STATUS_BAD_ATTRIBUTE);
	fabric_free(world.fabric);
}

static void a_thousand_switches_take_less_than_150_mib(void **unused)
{
	struct fabric_errors errors;
	struct fabric *fabric = fabric_new_from_file(
		"make clos radix=36 hosts=5832\nmake ring switches=1\n", &errors);
	struct fabric_statistics statistics;
	uint8_t data[SMP_DATA_BYTES] = { 0 };

	assert_null(fabric);		/* a ring has two at least */
	fabric = fabric_new_from_file("make clos radix=36 hosts=5832\n", &errors);
	assert_non_null(fabric);
	for (uint32_t i = 0; i < fabric->nodes; i++) {
		struct fabric_node *node = &fabric->node[i];

		/* LIDs for all, multicast of one group: what a manager programs. */
		for (unsigned block = 0; node_is_switch(node) && block <= fabric->nodes / LFT_BLOCK;
		     block++) {
			node->lft[block] = malloc(LFT_BLOCK);
			memcpy(node->lft[block], data, LFT_BLOCK);
		}
	}
	fabric_statistics(fabric, &statistics);
	assert_true(statistics.bytes < 150u << 20);
	fabric_free(fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_goes_where_the_tables_lead),
		cmocka_unit_test(tables_that_lead_in_a_circle_lose_the_packet),
		cmocka_unit_test(armed_ports_receive_and_become_active_but_do_not_send),
		cmocka_unit_test(keys_that_do_not_match_are_violations),
		cmocka_unit_test(multicast_goes_to_each_port_of_the_tree_but_back),
		cmocka_unit_test(multicast_without_a_row_takes_the_default_ports),
		cmocka_unit_test(an_smp_to_a_group_is_for_nobody),
		cmocka_unit_test(a_cable_that_was_pulled_is_plugged_in_at_either_end),
		cmocka_unit_test(a_bad_link_loses_as_many_as_it_is_told),
		cmocka_unit_test(a_node_without_power_is_silent_and_forgets),
		cmocka_unit_test(a_node_that_was_off_is_what_the_file_says),
		cmocka_unit_test(a_program_that_is_refused_is_told),
		cmocka_unit_test(a_thousand_switches_take_less_than_150_mib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
