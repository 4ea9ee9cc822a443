/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults that are planted: what a bad cable does to counters and links, what holds against a subnet
 * manager, and that all of it ends when it is taken back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fabric/test_fabric.h"

#define SECOND	1000000u

static uint64_t count(struct test_world *world, uint32_t node, unsigned port, const char *name)
{
	uint64_t value, per_second;

	assert_non_null(fabric_counter(world->fabric, node, port, fabric_find_counter(name),
				       world->now_us, &value, &per_second));
	return value;
}

/* As a room does it: no later than what is due. */
static void pass_time(struct test_world *world, uint64_t us)
{
	uint64_t until_us = world->now_us + us;

	while (fabric_deadline_us(world->fabric) <= until_us) {
		if (fabric_deadline_us(world->fabric) > world->now_us)
			world->now_us = fabric_deadline_us(world->fabric);
		fabric_timer(world->fabric, world->now_us);
	}
	world->now_us = until_us;
	fabric_timer(world->fabric, world->now_us);
}

/* 4x EDR, as the counters' truth has it: 100 Gb/s. */
static void a_bit_error_rate_moves_counters_as_the_rate_is(void **unused)
{
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 1, 1e-12, world.now_us), 0);
	assert_int_equal(fabric_deadline_us(world.fabric), FABRIC_NEVER);	/* nobody wakes up */
	pass_time(&world, 100 * SECOND);
	for (unsigned end = 0; end < 2; end++) {
		assert_in_range(count(&world, end ? HOST1 : SW1, 1, "SymbolErrorCounter"), 9, 11);
		assert_int_equal(count(&world, end ? HOST1 : SW1, 1, "LinkErrorRecoveryCounter"), 0);
	}
	assert_int_equal(count(&world, SW1, 2, "SymbolErrorCounter"), 0);
	/* In small steps it is the same, whoever looks after each. */
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 1, 1e-8, world.now_us), 0);
	for (unsigned i = 0; i < 1000; i++) {
		pass_time(&world, SECOND / 100);
		count(&world, SW1, 1, "SymbolErrorCounter");
	}
	assert_in_range(count(&world, SW1, 1, "SymbolErrorCounter"), 10009, 10012);
	assert_in_range(count(&world, SW1, 1, "LinkErrorRecoveryCounter"), 1, 2);	/* 1/6 a second */
	/* Each step leaves a part of an error behind, and no part is lost. */
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 1, 1.5e-9, world.now_us), 0);
	for (unsigned i = 0; i < 1000; i++) {
		pass_time(&world, SECOND / 100);
		count(&world, SW1, 1, "SymbolErrorCounter");
	}
	assert_in_range(count(&world, SW1, 1, "SymbolErrorCounter"), 11509, 11512);
	assert_int_equal(count(&world, SW1, 1, "LinkDownedCounter"), 0);
	assert_int_equal(fabric_set_bit_errors(world.fabric, HOST1, 1, 0, world.now_us), 0);
	pass_time(&world, 100 * SECOND);
	assert_in_range(count(&world, SW1, 1, "SymbolErrorCounter"), 11509, 11512);
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 1, 0.1, world.now_us), EINVAL);
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 1, -1, world.now_us), EINVAL);
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 4, 1e-9, world.now_us), ENOENT);
	assert_int_equal(fabric_set_bit_errors(world.fabric, SW1, 5, 1e-9, world.now_us), EINVAL);
	fabric_free(world.fabric);
}

static void a_cable_that_is_bad_enough_flaps(void **unused)
{
	struct fabric_port_info port;
	struct test_world world;
	unsigned traps = 0, ups = 0;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	fabric_set_bit_errors(world.fabric, SW1, 2, 1e-6, world.now_us);
	world.arrived = 0;
	for (unsigned i = 0; i < 20; i++) {
		pass_time(&world, SECOND);
		fabric_port_info(world.fabric, SW1, 2, &port);
		ups += port.state == FABRIC_PORT_INIT;
		traps += world.arrived;
		world.arrived = 0;
	}
	assert_in_range(count(&world, SW1, 2, "LinkDownedCounter"), 9, 11);
	assert_in_range(count(&world, HOST2, 1, "LinkDownedCounter"), 9, 11);
	assert_in_range(ups, 8, 12);
	assert_true(traps >= 10);		/* 128 of sw1, at most one in its interval */
	assert_in_range(count(&world, SW1, 2, "LinkErrorRecoveryCounter"), 9 * 64, 11 * 64 + 64);
	/* Sound again, it stays up. */
	fabric_set_bit_errors(world.fabric, SW1, 2, 0, world.now_us);
	pass_time(&world, 10 * SECOND);
	fabric_port_info(world.fabric, SW1, 2, &port);
	assert_int_equal(port.state, FABRIC_PORT_INIT);
	fabric_free(world.fabric);
}

static void packets_are_hit_as_often_as_their_bits_are(void **unused)
{
	struct test_world world;
	unsigned arrived = 0;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	fabric_set_bit_errors(world.fabric, SW1, 2, 1e-4, world.now_us);
	for (unsigned i = 0; i < 4000; i++) {
		test_gmp(&world, HOST1, 4);
		arrived += world.arrived;
	}
	/* 72 words and a VCRC: 2,320 bits, 23 of 100 */
	assert_in_range(arrived, 2960, 3160);
	assert_int_equal(count(&world, HOST2, 1, "PortRcvErrors"), 4000 - arrived);
	assert_int_equal(count(&world, HOST2, 1, "PortLocalPhysicalErrors"), 4000 - arrived);
	fabric_free(world.fabric);
}

static void a_degraded_cable_trains_to_what_it_can(void **unused)
{
	struct fabric_port_info port;
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(fabric_set_degraded(world.fabric, HOST2, 1, 1, NULL, world.now_us), 0);
	fabric_port_info(world.fabric, SW1, 2, &port);
	assert_int_equal(port.width_lanes, 1);
	assert_string_equal(port.speed_name, "EDR");
	assert_int_equal(port.state, FABRIC_PORT_INIT);
	assert_int_equal(count(&world, SW1, 2, "LinkDownedCounter"), 1);
	assert_int_equal(fabric_set_degraded(world.fabric, SW1, 2, 0, "ddr", world.now_us), 0);
	fabric_port_info(world.fabric, HOST2, 1, &port);
	assert_int_equal(port.width_lanes, 4);
	assert_string_equal(port.speed_name, "DDR");
	assert_int_equal(fabric_set_degraded(world.fabric, SW1, 2, 0, NULL, world.now_us), 0);
	fabric_port_info(world.fabric, HOST2, 1, &port);
	assert_string_equal(port.speed_name, "EDR");
	assert_int_equal(fabric_set_degraded(world.fabric, SW1, 2, 0, "fast", world.now_us), EINVAL);
	assert_int_equal(fabric_set_degraded(world.fabric, SW1, 4, 1, NULL, world.now_us), ENOENT);
	fabric_free(world.fabric);
}

static void a_port_that_is_stuck_stays_in_init(void **unused)
{
	struct ib_port_info info;
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(fabric_set_stuck(world.fabric, SW1, 2, true, world.now_us), 0);
	for (unsigned stuck = 2; stuck-- > 0;) {
		fabric_set_stuck(world.fabric, SW1, 2, stuck, world.now_us);
		test_port_info(&world, "1", 2, &info);
		assert_int_equal(info.port_state, FABRIC_PORT_INIT);
		info.port_state = FABRIC_PORT_ARMED;
		info.port_physical_state = 0;
		assert_int_equal(test_set_port_info(&world, "1", 2, &info), 0);
		test_port_info(&world, "1", 2, &info);
		assert_int_equal(info.port_state, stuck ? FABRIC_PORT_INIT : FABRIC_PORT_ARMED);
	}
	assert_int_equal(fabric_set_stuck(world.fabric, SW1, 0, true, world.now_us), EINVAL);
	fabric_free(world.fabric);
}

static void what_is_held_stays_whatever_a_manager_sets(void **unused)
{
	uint8_t table[SMP_DATA_BYTES], keys[SMP_DATA_BYTES] = { 0xff, 0xff, 0x80, 5 };
	struct ib_port_info info;
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_GET, 0x19, 0, NULL), 0);
	memcpy(table, world.data, sizeof(table));
	assert_int_equal(table[6], 3);
	/* A row of a table: host4 is unreachable. */
	assert_int_equal(fabric_hold_route(world.fabric, SW1, 6, 255), 0);
	assert_int_equal(fabric_route(world.fabric, SW1, 6), 255);
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x19, 0, table), 0);
	assert_int_equal(world.data[6], 255);
	assert_int_equal(world.data[5], table[5]);
	test_gmp(&world, HOST1, 6);
	assert_int_equal(world.arrived, 0);
	assert_int_equal(fabric_hold_route(world.fabric, SW1, 6, FABRIC_RELEASE), 0);
	assert_int_equal(fabric_hold_route(world.fabric, SW1, 6, FABRIC_RELEASE), ENOENT);
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x19, 0, table), 0);
	test_gmp(&world, HOST1, 6);
	assert_int_equal(world.arrived, 1);
	assert_int_equal(fabric_hold_route(world.fabric, SW1, 6, 5), EINVAL);
	assert_int_equal(fabric_hold_route(world.fabric, HOST1, 6, 1), EINVAL);
	/* A P_Key. */
	assert_int_equal(fabric_hold_pkey(world.fabric, HOST2, 1, 0, 0x8007), 0);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_SET, 0x16, 0, keys), 0);
	assert_int_equal(fabric_pkey(world.fabric, HOST2, 1, 0), 0x8007);
	assert_int_equal(fabric_pkey(world.fabric, HOST2, 1, 1), 0x8005);
	assert_int_equal(fabric_hold_pkey(world.fabric, HOST2, 1, 999, 1), EINVAL);
	/* And another place of the table, by itself. */
	assert_int_equal(fabric_hold_pkey(world.fabric, HOST2, 1, 2, 0x8009), 0);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_SET, 0x16, 0, keys), 0);
	assert_int_equal(fabric_pkey(world.fabric, HOST2, 1, 0), 0x8007);
	assert_int_equal(fabric_pkey(world.fabric, HOST2, 1, 2), 0x8009);
	assert_int_equal(fabric_hold_pkey(world.fabric, HOST2, 1, 2, FABRIC_RELEASE), 0);
	assert_int_equal(fabric_hold_pkey(world.fabric, HOST2, 1, 0, FABRIC_RELEASE), 0);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_SET, 0x16, 0, keys), 0);
	assert_int_equal(fabric_pkey(world.fabric, HOST2, 1, 0), 0xffff);
	/* A LID: that of host1. */
	assert_int_equal(fabric_hold_lid(world.fabric, HOST2, 1, 3), 0);
	test_port_info(&world, "12", 0, &info);
	assert_int_equal(info.lid, 3);
	info.lid = 4;
	info.port_state = info.port_physical_state = 0;
	assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
	test_port_info(&world, "12", 0, &info);
	assert_int_equal(info.lid, 3);
	assert_int_equal(fabric_hold_lid(world.fabric, HOST2, 1, 0), 0);
	info.lid = 4;
	info.port_state = info.port_physical_state = 0;
	test_set_port_info(&world, "12", 0, &info);
	test_port_info(&world, "12", 0, &info);
	assert_int_equal(info.lid, 4);
	assert_int_equal(fabric_hold_lid(world.fabric, SW1, 2, 9), EINVAL);
	fabric_free(world.fabric);
}

static void two_nodes_may_have_one_guid(void **unused)
{
	struct fabric_node_info one, other;
	struct ib_node_info info;
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	fabric_node_info(world.fabric, HOST1, &one);
	assert_int_equal(fabric_set_guid(world.fabric, HOST4, one.guid), 0);
	fabric_node_info(world.fabric, HOST4, &other);
	assert_int_equal(other.guid, one.guid);
	assert_int_equal(test_smp(&world, "132", MAD_METHOD_GET, 0x11, 0, NULL), 0);
	record_read(RECORD_NODE_INFO, world.data, &info);
	assert_int_equal(info.node_guid, one.guid);
	assert_int_equal(info.port_guid, one.guid + 1);
	assert_int_equal(fabric_set_guid(world.fabric, HOST4, 0), EINVAL);
	fabric_free(world.fabric);
}

static void a_file_plants_what_its_lines_say(void **unused)
{
	static const char text[] = TWO_SWITCHES
		"\nlink \"sw1\"[1] ber=1e-10\nlink \"sw2\"[2] degraded=1xDDR\nport \"sw1\"[2] stuck\n"
		"counter \"host3\"[1] SymbolErrorCounter=7 PortXmitDiscards+=3\n";
	struct fabric_port_info port;
	struct fabric_errors errors;
	struct fabric *again;
	struct test_world world;
	char *printed;

	test_open(&world, text);
	/* The clock of a machine that has been up for an hour: nothing has risen in it. */
	world.now_us = UINT64_C(3600) * SECOND;
	fabric_timer(world.fabric, world.now_us);
	assert_int_equal(count(&world, SW1, 1, "SymbolErrorCounter"), 0);
	pass_time(&world, 10 * SECOND);
	assert_in_range(count(&world, SW1, 1, "SymbolErrorCounter"), 99, 101);
	assert_int_equal(count(&world, HOST3, 1, "SymbolErrorCounter"), 7);
	assert_in_range(count(&world, HOST3, 1, "PortXmitDiscards"), 29, 31);
	fabric_port_info(world.fabric, HOST4, 1, &port);
	assert_int_equal(port.width_lanes, 1);
	assert_string_equal(port.speed_name, "DDR");
	assert_true(world.fabric->node[SW1].port[2].stuck);
	printed = fabric_print(world.fabric);
	again = fabric_new_from_file(printed, &errors);
	if (!again)
		fail_msg("line %u: %s", errors.error[0].line, errors.error[0].text);
	assert_non_null(strstr(printed, "link \"sw1\"[1] ber=1e-10\n"));
	assert_non_null(strstr(printed, "link \"sw2\"[2] degraded=1xDDR\n"));
	assert_non_null(strstr(printed, "port \"sw1\"[2] stuck\n"));
	assert_non_null(strstr(printed, "counter \"host3\"[1] port_xmit_discards+=3\n"));
	free(printed);
	fabric_free(again);
	fabric_free(world.fabric);
}

/* A cable that flaps from the beginning, by the clock of a machine that is up for long. */
static void a_file_may_begin_with_a_cable_that_flaps(void **unused)
{
	struct test_world world;

	test_open(&world, TWO_SWITCHES "\nlink \"sw1\"[1] ber=1e-6\n");
	world.now_us = UINT64_C(3600) * SECOND;
	fabric_timer(world.fabric, world.now_us);
	assert_int_equal(count(&world, SW1, 1, "LinkDownedCounter"), 0);
	pass_time(&world, 9 * SECOND);
	assert_in_range(count(&world, SW1, 1, "LinkDownedCounter"), 4, 5);
	fabric_free(world.fabric);
}

static uint16_t sample_ask(struct test_world *world, uint8_t method, uint16_t attribute,
			   const uint8_t *data)
{
	const struct fabric_address to = { .lid = 1, .qpn = 1, .qkey = QKEY_GSI };
	uint8_t mad[MAD_BYTES] = { 0 };

	mad_write(&(struct mad_header){ .base_version = 1, .class = MAD_CLASS_PERFORMANCE,
					.class_version = 1, .method = method,
					.attribute_id = attribute, .transaction_id = 9 }, mad);
	if (data)
		memcpy(mad + SMP_DATA, data, MAD_BYTES - SMP_DATA);
	world->status = 0xffff;
	fabric_send(world->fabric, HOST1, 1, mad, &to, world->now_us);
	return world->status;
}

static void samples_are_what_an_interval_has(void **unused)
{
	struct ib_port_samples_control asked = { .port_select = 3, .sample_start = 500000,
		.sample_interval = 1000000, .tag = 77, .counter_select = { 3, 4, 99, 1 } }, control;
	uint8_t data[MAD_BYTES] = { 0 };
	struct ib_port_samples_result result;
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	record_write(RECORD_PORT_SAMPLES_CONTROL, &asked, data);
	assert_int_equal(sample_ask(&world, MAD_METHOD_SET, 0x10, data), 0);
	record_read(RECORD_PORT_SAMPLES_CONTROL, world.data, &control);
	assert_int_equal(control.sample_status, 1);
	assert_int_equal(control.counter_select[0], 3);
	assert_int_equal(control.counter_select[2], 0);		/* there is no such counter */
	test_gmp(&world, HOST1, 6);		/* before it begins */
	pass_time(&world, 600000);
	for (unsigned i = 0; i < 5; i++)
		test_gmp(&world, HOST1, 6);	/* by port 3 of sw1 */
	/* While it runs a Set changes nothing. */
	asked.tag = 78;
	record_write(RECORD_PORT_SAMPLES_CONTROL, &asked, data);
	assert_int_equal(sample_ask(&world, MAD_METHOD_SET, 0x10, data), 0);
	record_read(RECORD_PORT_SAMPLES_CONTROL, world.data, &control);
	assert_int_equal(control.sample_status, 2);
	assert_int_equal(control.tag, 77);
	pass_time(&world, 2 * SECOND);
	test_gmp(&world, HOST1, 6);		/* behind its end */
	assert_int_equal(sample_ask(&world, MAD_METHOD_GET, 0x11, NULL), 0);
	record_read(RECORD_PORT_SAMPLES_RESULT, world.data, &result);
	assert_int_equal(result.tag, 77);
	assert_int_equal(result.sample_status, 0);
	assert_int_equal(result.counter[0], 5);
	assert_int_equal(result.counter[1], 0);
	assert_int_equal(result.counter[2], 0);
	assert_int_equal(result.counter[3], 5 * 72);
	put_be16(data, 0x00ff);			/* not of all ports */
	assert_int_equal(sample_ask(&world, MAD_METHOD_GET, 0x10, data), MAD_STATUS_BAD_FIELD);
	assert_int_equal(sample_ask(&world, MAD_METHOD_SET, 0x11, data), MAD_STATUS_BAD_ATTRIBUTE);
	fabric_free(world.fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bit_error_rate_moves_counters_as_the_rate_is),
		cmocka_unit_test(a_cable_that_is_bad_enough_flaps),
		cmocka_unit_test(packets_are_hit_as_often_as_their_bits_are),
		cmocka_unit_test(a_degraded_cable_trains_to_what_it_can),
		cmocka_unit_test(a_port_that_is_stuck_stays_in_init),
		cmocka_unit_test(what_is_held_stays_whatever_a_manager_sets),
		cmocka_unit_test(two_nodes_may_have_one_guid),
		cmocka_unit_test(a_file_plants_what_its_lines_say),
		cmocka_unit_test(a_file_may_begin_with_a_cable_that_flaps),
		cmocka_unit_test(samples_are_what_an_interval_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
