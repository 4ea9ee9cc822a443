/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters: what moves them, how they are asked for and cleared, and where small ones end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fabric/test_fabric.h"

#define WORDS	72u		/* of a MAD without GRH */

static struct test_world world;

static int pma_begin(void **unused)
{
	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	return 0;
}

static int pma_finish(void **unused)
{
	fabric_free(world.fabric);
	return 0;
}

/* From host1 to the PMA of a LID; the answer's status, 0xffff: none came. */
static uint16_t pma_ask(uint16_t lid, uint8_t method, uint16_t attribute, const uint8_t *data)
{
	const struct fabric_address to = { .lid = lid, .qpn = 1, .qkey = QKEY_GSI };
	uint8_t mad[MAD_BYTES] = { 0 };

	mad_write(&(struct mad_header){ .base_version = 1, .class = MAD_CLASS_PERFORMANCE,
					.class_version = 1, .method = method,
					.attribute_id = attribute, .transaction_id = 9 }, mad);
	if (data)
		memcpy(mad + SMP_DATA, data, MAD_BYTES - SMP_DATA);
	world.arrived = 0;
	world.status = 0xffff;
	assert_int_equal(fabric_send(world.fabric, HOST1, 1, mad, &to, world.now_us), 0);
	if (world.arrived) {
		assert_int_equal(world.node, HOST1);
		assert_int_equal(world.mad[3], MAD_METHOD_GET_RESPONSE);
		assert_int_equal(get_be64(world.mad + 8), 9);
	}
	return world.status;
}

static struct ib_port_counters counters(uint16_t lid, uint8_t method, unsigned port,
					unsigned select, unsigned select_2)
{
	struct ib_port_counters asked = { .port_select = (uint8_t)port,
					  .counter_select = (uint16_t)select,
					  .counter_select_2 = (uint8_t)select_2 }, got;
	uint8_t data[MAD_BYTES] = { 0 };

	record_write(RECORD_PORT_COUNTERS, &asked, data);
	assert_int_equal(pma_ask(lid, method, 0x12, data), 0);
	record_read(RECORD_PORT_COUNTERS, world.data, &got);
	return got;
}

static struct ib_port_counters_ext extended(uint16_t lid, uint8_t method, unsigned port,
					    unsigned select, uint32_t select_2)
{
	struct ib_port_counters_ext asked = { .port_select = (uint8_t)port,
					      .counter_select = (uint16_t)select,
					      .counter_select_2 = select_2 }, got;
	uint8_t data[MAD_BYTES] = { 0 };

	record_write(RECORD_PORT_COUNTERS_EXT, &asked, data);
	assert_int_equal(pma_ask(lid, method, 0x1d, data), 0);
	record_read(RECORD_PORT_COUNTERS_EXT, world.data, &got);
	return got;
}

static void set(uint32_t node, unsigned port, const char *name, uint64_t value)
{
	assert_int_equal(fabric_set_counter(world.fabric, node, port, fabric_find_counter(name),
					    value, world.now_us), 0);
}

static void every_packet_counts_at_both_ends_of_each_cable(void **unused)
{
	struct ib_port_counters_ext before, after;

	before = extended(5, MAD_METHOD_GET, 1, 0, 0);
	for (unsigned i = 0; i < 10; i++)
		test_gmp(&world, HOST1, 6);	/* host4: sw1 3 -> sw2 3 -> 2 */
	after = extended(2, MAD_METHOD_GET, 3, 0, 0);
	before = extended(2, MAD_METHOD_GET, 3, 0, 0);
	/* The question came in by it, and the answer to the one before left by it. */
	assert_int_equal(before.port_rcv_pkts - after.port_rcv_pkts, 1);
	assert_int_equal(before.port_xmit_pkts - after.port_xmit_pkts, 1);
	assert_int_equal(before.port_rcv_data - after.port_rcv_data, WORDS);
	assert_int_equal(before.port_unicast_rcv_pkts, before.port_rcv_pkts);
	assert_int_equal(before.port_multicast_rcv_pkts, 0);
	after = extended(6, MAD_METHOD_GET, 1, 0, 0);
	before = extended(2, MAD_METHOD_GET, 2, 0, 0);
	assert_int_equal(before.port_xmit_pkts, after.port_rcv_pkts);
	assert_true(after.port_rcv_pkts >= 11);
}

static void small_counters_stay_at_their_largest_and_large_ones_go_on(void **unused)
{
	struct ib_port_counters small;
	struct ib_port_counters_ext large;

	set(HOST2, 1, "SymbolErrorCounter", 70000);
	set(HOST2, 1, "link_downed_counter", 255);
	set(HOST2, 1, "LocalLinkIntegrityErrors", 16);
	set(HOST2, 1, "PortRcvData", UINT64_C(1) << 40);
	set(HOST2, 1, "XmitWait", 5);
	small = counters(4, MAD_METHOD_GET, 1, 0, 0);
	assert_int_equal(small.symbol_error_counter, 65535);
	assert_int_equal(small.link_downed_counter, 255);
	assert_int_equal(small.local_link_integrity_errors, 15);
	assert_int_equal(small.port_rcv_data, UINT32_MAX);
	assert_int_equal(small.port_xmit_wait, 5);
	large = extended(4, MAD_METHOD_GET, 1, 0, 0);
	assert_int_equal(large.symbol_error_counter, 70000);
	assert_true(large.port_rcv_data >= UINT64_C(1) << 40);
	/* A Set clears what it names, and nothing else. */
	small = counters(4, MAD_METHOD_SET, 1, 1u << 0 | 1u << 13, 0);
	assert_int_equal(small.symbol_error_counter, 0);
	assert_int_equal(small.port_rcv_data, 0);
	assert_int_equal(small.link_downed_counter, 255);
	assert_int_equal(small.port_xmit_wait, 5);
	assert_int_equal(counters(4, MAD_METHOD_SET, 1, 0, 1).port_xmit_wait, 0);
	large = extended(4, MAD_METHOD_SET, 1, 0, 1u << 2 | 1u << 9);
	assert_int_equal(large.link_downed_counter, 0);
	assert_int_equal(large.local_link_integrity_errors, 0);
	assert_int_equal(fabric_find_counter("NoSuchCounter"), fabric_find_counter(""));
}

static uint64_t waited(uint64_t begin_us, uint64_t now_us)
{
	world.now_us = begin_us + now_us;
	fabric_timer(world.fabric, world.now_us);
	return extended(1, MAD_METHOD_GET, 3, 0, 0).port_xmit_wait;
}

/* However many wait at a port: its counter rises with time, and no faster. */
static void waits_at_the_same_time_count_once(void **unused)
{
	uint64_t begin_us = world.now_us;

	set(SW1, 3, "XmitWait", 0);
	fabric_port_waits(world.fabric, SW1, 3, true, begin_us + 1000);
	assert_int_equal(waited(begin_us, 1040), 40);
	fabric_port_waits(world.fabric, SW1, 3, true, begin_us + 1050);
	assert_int_equal(waited(begin_us, 1060), 60);
	fabric_port_waits(world.fabric, SW1, 3, false, begin_us + 1070);
	fabric_port_waits(world.fabric, SW1, 3, false, begin_us + 1100);
	assert_int_equal(waited(begin_us, 1500), 100);
	fabric_port_waits(world.fabric, SW1, 3, false, begin_us + 1600);	/* none does */
	assert_int_equal(waited(begin_us, 2000), 100);
	fabric_port_waits(world.fabric, SW1, 3, true, begin_us + 3000);
	assert_int_equal(waited(begin_us, 3005), 105);
	assert_int_equal(counters(1, MAD_METHOD_SET, 3, 0, 1).port_xmit_wait, 0);
	assert_int_equal(waited(begin_us, 3015), 10);
	fabric_port_waits(world.fabric, SW1, 3, false, begin_us + 3015);
	fabric_port_waits(world.fabric, SW1, 200, true, begin_us + 3015);
	fabric_port_waits(world.fabric, FABRIC_NONE, 1, true, begin_us + 3015);
	assert_int_equal(waited(begin_us, 4000), 10);
	set(SW1, 3, "XmitWait", 0);
}

/* What several programs have measured, each by itself. */
static void waits_that_are_told_afterwards_count_no_more_than_time_passes(void **unused)
{
	uint64_t begin_us = world.now_us;

	set(SW1, 3, "XmitWait", 0);
	fabric_port_waited(world.fabric, SW1, 3, 30, begin_us + 1000);
	assert_int_equal(waited(begin_us, 1000), 30);
	fabric_port_waited(world.fabric, SW1, 3, 40, begin_us + 1100);
	fabric_port_waited(world.fabric, SW1, 3, 50, begin_us + 1100);
	assert_int_equal(waited(begin_us, 1100), 120);
	fabric_port_waited(world.fabric, SW1, 3, 50, begin_us + 1100);
	assert_int_equal(waited(begin_us, 1100), 130);
	fabric_port_waited(world.fabric, SW1, 3, UINT64_MAX, begin_us + 1100);
	assert_int_equal(waited(begin_us, 1100), 130);
	fabric_port_waited(world.fabric, SW1, 3, UINT64_MAX, begin_us + 1300);
	assert_int_equal(waited(begin_us, 1400), 330);
	fabric_port_waited(world.fabric, SW1, 200, 10, begin_us + 1400);
	fabric_port_waited(world.fabric, FABRIC_NONE, 1, 10, begin_us + 1400);
	assert_int_equal(waited(begin_us, 1500), 330);
	set(SW1, 3, "XmitWait", 0);
}

static void all_ports_of_a_switch_are_their_sum(void **unused)
{
	for (unsigned port = 1; port <= 4; port++)
		set(SW1, port, "PortRcvErrors", port);
	assert_int_equal(counters(1, MAD_METHOD_GET, 255, 0, 0).port_rcv_errors, 10);
	assert_int_equal(counters(1, MAD_METHOD_SET, 255, 1u << 3, 0).port_rcv_errors, 0);
	assert_int_equal(counters(1, MAD_METHOD_GET, 2, 0, 0).port_rcv_errors, 0);
}

static void what_is_not_served_is_answered(void **unused)
{
	uint8_t data[MAD_BYTES] = { 0 };

	for (unsigned attribute = 0; attribute < 0x100; attribute++) {
		bool served = attribute == 0x01 || attribute == 0x12 || attribute == 0x1d ||
			      attribute == 0x10 || attribute == 0x11 || attribute == 0x15 ||
			      attribute == 0x16;

		data[1] = 1;
		assert_int_equal(pma_ask(1, MAD_METHOD_GET, (uint16_t)attribute, data),
				 served ? 0 : MAD_STATUS_BAD_ATTRIBUTE);
	}
	data[1] = 5;
	assert_int_equal(pma_ask(1, MAD_METHOD_GET, 0x12, data), MAD_STATUS_BAD_FIELD);
	data[1] = 2;
	assert_int_equal(pma_ask(4, MAD_METHOD_GET, 0x1d, data), MAD_STATUS_BAD_FIELD);
	assert_int_equal(pma_ask(4, MAD_METHOD_SET, 0x01, data), MAD_STATUS_BAD_ATTRIBUTE);
}

static void a_counter_rises_at_its_rate_and_loses_no_part_of_a_unit(void **unused)
{
	unsigned symbol = fabric_find_counter("SymbolErrorCounter");
	uint64_t value, per_second, begin_us = world.now_us;

	assert_int_equal(fabric_set_rise(world.fabric, SW2, 1, symbol, 7, world.now_us), 0);
	set(SW2, 1, "SymbolErrorCounter", 0);
	while (world.now_us < begin_us + 100000000) {
		world.now_us += 33333;
		fabric_counter(world.fabric, SW2, 1, symbol, world.now_us, &value, &per_second);
		assert_in_range(value + 1, (world.now_us - begin_us) * 7 / 1000000,
				(world.now_us - begin_us) * 7 / 1000000 + 2);
	}
	assert_int_equal(per_second, 7);
	assert_in_range(counters(2, MAD_METHOD_GET, 1, 0, 0).symbol_error_counter, 699, 701);
	assert_int_equal(counters(2, MAD_METHOD_SET, 1, 1, 0).symbol_error_counter, 0);
	world.now_us += 1000000;
	assert_in_range(counters(2, MAD_METHOD_GET, 1, 0, 0).symbol_error_counter, 6, 8);
	assert_int_equal(fabric_set_rise(world.fabric, SW2, 1, symbol, 0, world.now_us), 0);
	assert_int_equal(fabric_set_rise(world.fabric, SW2, 9, symbol, 0, world.now_us), EINVAL);
	assert_int_equal(fabric_set_rise(world.fabric, SW2, 1, symbol, UINT64_MAX, world.now_us),
			 EINVAL);
}

static void what_is_lost_is_counted_where_it_is_lost(void **unused)
{
	struct ib_port_counters_ext got;

	/* No row of sw1's table leads to this LID. */
	got = extended(1, MAD_METHOD_GET, 1, 0, 0);
	test_gmp(&world, HOST1, 40);
	assert_int_equal(extended(1, MAD_METHOD_GET, 1, 0, 0).port_rcv_switch_relay_errors,
			 got.port_rcv_switch_relay_errors + 1);
	/* An error of the link. */
	fabric_set_errors(world.fabric, HOST2, 1, 100, 0);
	test_gmp(&world, HOST1, 4);
	fabric_set_errors(world.fabric, HOST2, 1, 0, 0);
	got = extended(4, MAD_METHOD_GET, 1, 0, 0);
	assert_int_equal(got.symbol_error_counter, 1);
	assert_int_equal(got.port_rcv_errors, 1);
	/* A pulled cable, at both ends; and what goes there is discarded. */
	fabric_set_cable(world.fabric, SW1, 2, false, world.now_us);
	test_gmp(&world, HOST1, 4);
	got = extended(1, MAD_METHOD_GET, 2, 0, 0);
	assert_int_equal(got.link_downed_counter, 1);
	assert_int_equal(got.port_xmit_discards, 1);
}

static uint64_t value_of(uint32_t node, unsigned port, const char *name)
{
	uint64_t value, per_second;

	assert_non_null(fabric_counter(world.fabric, node, port, fabric_find_counter(name),
				       world.now_us, &value, &per_second));
	return value;
}

/* Attributes 0x15 and 0x16: why packets were lost, and that a Set clears what it names. */
static void what_is_lost_has_its_reason_in_the_details(void **unused)
{
	const uint8_t clear_dlid[MAD_BYTES] = { 0, 1, 0, 1 << 3 },
		      clear_inactive[MAD_BYTES] = { 0, 2, 0, 1 << 0 };
	struct ib_port_rcv_error_details errors;
	struct ib_port_xmit_discard_details discards;
	uint8_t data[MAD_BYTES] = { 0, 1 }, table[SMP_DATA_BYTES];
	uint64_t dlid = value_of(SW1, 1, "PortDLIDMappingErrors");
	uint64_t looping = value_of(SW1, 1, "PortLoopingErrors");
	uint64_t inactive = value_of(SW1, 2, "PortInactiveDiscards");

	fabric_set_cable(world.fabric, SW1, 2, false, world.now_us);
	test_gmp(&world, HOST1, 40);			/* no row */
	test_gmp(&world, HOST1, 4);			/* the cable is pulled */
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_GET, 0x19, 0, NULL), 0);
	memcpy(table, world.data, sizeof(table));
	table[4] = 1;					/* back to where it comes from */
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x19, 0, table), 0);
	test_gmp(&world, HOST1, 4);
	assert_int_equal(pma_ask(1, MAD_METHOD_GET, 0x15, data), 0);
	record_read(RECORD_PORT_RCV_ERROR_DETAILS, world.data, &errors);
	assert_int_equal(errors.port_select, 1);
	assert_int_equal(errors.port_dlid_mapping_errors, dlid + 1);
	assert_int_equal(errors.port_looping_errors, looping + 1);
	assert_int_equal(errors.port_vl_mapping_errors, 0);
	data[1] = 2;
	assert_int_equal(pma_ask(1, MAD_METHOD_GET, 0x16, data), 0);
	record_read(RECORD_PORT_XMIT_DISCARD_DETAILS, world.data, &discards);
	assert_int_equal(discards.port_inactive_discards, inactive + 1);
	assert_int_equal(discards.port_neighbor_mtu_discards, 0);
	assert_int_equal(pma_ask(1, MAD_METHOD_SET, 0x15, clear_dlid), 0);
	record_read(RECORD_PORT_RCV_ERROR_DETAILS, world.data, &errors);
	assert_int_equal(errors.port_dlid_mapping_errors, 0);
	assert_int_equal(errors.port_looping_errors, looping + 1);
	assert_int_equal(pma_ask(1, MAD_METHOD_SET, 0x16, clear_inactive), 0);
	assert_int_equal(value_of(SW1, 2, "PortInactiveDiscards"), 0);
	/* 16 bits each. */
	set(SW1, 1, "PortMalformedPacketErrors", 70000);
	data[1] = 1;
	assert_int_equal(pma_ask(1, MAD_METHOD_GET, 0x15, data), 0);
	record_read(RECORD_PORT_RCV_ERROR_DETAILS, world.data, &errors);
	assert_int_equal(errors.port_malformed_packet_errors, 65535);
	data[1] = 9;
	assert_int_equal(pma_ask(1, MAD_METHOD_GET, 0x15, data), MAD_STATUS_BAD_FIELD);
	fabric_count_dropped(world.fabric, HOST2, 1, true);
	fabric_count_dropped(world.fabric, HOST2, 1, false);
	assert_int_equal(value_of(HOST2, 1, "VL15Dropped"), 1);
	assert_int_equal(value_of(HOST2, 1, "QP1Dropped"), 1);
}

/* Partition 0x0005 on the port of sw1 that leads to sw2, and nothing else. */
static void a_switch_that_enforces_partitions_lets_no_other_through(void **unused)
{
	uint8_t data[SMP_DATA_BYTES] = { 0x80, 0x05 };
	struct ib_port_counters_ext got;
	struct ib_port_info info;

	for (unsigned inbound = 0; inbound < 2; inbound++) {
		const char *path = inbound ? "13" : "1";
		uint32_t node = inbound ? SW2 : SW1;
		uint64_t value, rate;

		assert_int_equal(test_smp(&world, path, MAD_METHOD_SET, 0x16, 3u << 16, data), 0);
		test_port_info(&world, path, 3, &info);
		info.port_state = info.port_physical_state = 0;
		info.partition_enforcement_outbound = !inbound;
		info.partition_enforcement_inbound = inbound;
		assert_int_equal(test_set_port_info(&world, path, 3, &info), 0);
		assert_int_equal(test_gmp(&world, HOST1, 6), 0);
		assert_true(!world.arrived || world.mad[3] == MAD_METHOD_TRAP);
		assert_non_null(fabric_counter(world.fabric, node, 3, fabric_find_counter(inbound ?
				"PortRcvConstraintErrors" : "PortXmitConstraintErrors"),
				world.now_us, &value, &rate));
		assert_int_equal(value, 1);
		/* SMPs are of no partition. */
		test_port_info(&world, "13", 1, &info);
		put_be16(data, 0x7fff);		/* one full member is enough: host1's key is */
		assert_int_equal(test_smp(&world, path, MAD_METHOD_SET, 0x16, 3u << 16, data), 0);
		test_gmp(&world, HOST1, 6);
		assert_int_equal(world.arrived, 1);
		put_be16(data, 0x8005);
	}
	got = extended(1, MAD_METHOD_GET, 3, 0, 0);
	assert_int_equal(got.port_xmit_constraint_errors, 1);
}

/* Limited members may send to full ones: the port of a switch by which they come in has their key. */
static void a_limited_member_may_send_through_a_switch_that_enforces(void **unused)
{
	const struct fabric_address to = { .lid = 6, .qpn = 1, .qkey = QKEY_GSI, .pkey_index = 1 };
	uint8_t limited[SMP_DATA_BYTES] = { 0xff, 0xff, 0x00, 0x09 };
	uint8_t full[SMP_DATA_BYTES] = { 0xff, 0xff, 0x80, 0x09 };
	uint8_t mad[MAD_BYTES] = { 1, 0x0a, 1, 1 };
	struct ib_port_info info;

	pma_finish(NULL);
	pma_begin(NULL);
	assert_int_equal(test_smp(&world, "", MAD_METHOD_SET, 0x16, 0, limited), 0);
	assert_int_equal(test_smp(&world, "132", MAD_METHOD_SET, 0x16, 0, full), 0);
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x16, 1u << 16, limited), 0);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_SET, 0x16, 2u << 16, full), 0);
	for (unsigned at = 0; at < 2; at++) {
		const char *path = at ? "13" : "1";
		unsigned port = at ? 2 : 1;

		test_port_info(&world, path, port, &info);
		info.port_state = info.port_physical_state = 0;
		info.partition_enforcement_outbound = at;
		info.partition_enforcement_inbound = !at;
		assert_int_equal(test_set_port_info(&world, path, port, &info), 0);
	}
	for (unsigned both_limited = 0; both_limited < 2; both_limited++) {
		if (both_limited)
			assert_int_equal(test_smp(&world, "13", MAD_METHOD_SET, 0x16, 2u << 16,
						  limited), 0);
		world.node = FABRIC_NONE;
		assert_int_equal(fabric_send(world.fabric, HOST1, 1, mad, &to, world.now_us), 0);
		assert_int_equal(world.node == HOST4, !both_limited);
	}
	/* A key of another partition does not come in. */
	full[3] = 8;
	assert_int_equal(test_smp(&world, "1", MAD_METHOD_SET, 0x16, 1u << 16, full), 0);
	world.node = FABRIC_NONE;
	fabric_send(world.fabric, HOST1, 1, mad, &to, world.now_us);
	assert_int_not_equal(world.node, HOST4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_packet_counts_at_both_ends_of_each_cable),
		cmocka_unit_test(small_counters_stay_at_their_largest_and_large_ones_go_on),
		cmocka_unit_test(waits_at_the_same_time_count_once),
		cmocka_unit_test(waits_that_are_told_afterwards_count_no_more_than_time_passes),
		cmocka_unit_test(all_ports_of_a_switch_are_their_sum),
		cmocka_unit_test(what_is_not_served_is_answered),
		cmocka_unit_test(a_counter_rises_at_its_rate_and_loses_no_part_of_a_unit),
		cmocka_unit_test(a_switch_that_enforces_partitions_lets_no_other_through),
		cmocka_unit_test(what_is_lost_is_counted_where_it_is_lost),
		cmocka_unit_test(what_is_lost_has_its_reason_in_the_details),
		cmocka_unit_test(a_limited_member_may_send_through_a_switch_that_enforces),
	};

	return cmocka_run_group_tests(tests, pma_begin, pma_finish);
}
