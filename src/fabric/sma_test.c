/* SPDX-License-Identifier: BSD-2-Clause */
/* What the SMA says and does, attribute by attribute; M_Keys and their leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/test_random.h"
#include "fabric/test_fabric.h"

static void a_node_says_what_it_is(void **unused)
{
	struct test_world world;
	struct ib_node_info info;

	test_open(&world, TWO_SWITCHES);
	assert_int_equal(test_smp(&world, "13", MAD_METHOD_GET, 0x11, 0, NULL), 0);
	record_read(RECORD_NODE_INFO, world.data, &info);
	assert_int_equal(info.node_type, FABRIC_SWITCH);
	assert_int_equal(info.num_ports, 4);
	assert_int_equal(info.local_port_num, 3);
	assert_int_equal(info.port_guid, info.node_guid);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x11, 0, NULL), 0);
	record_read(RECORD_NODE_INFO, world.data, &info);
	assert_int_equal(info.node_type, FABRIC_CA);
	assert_int_equal(info.num_ports, 2);
	assert_int_equal(info.port_guid, info.node_guid + 1);
	assert_int_equal(info.partition_cap % 32, 0);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x10, 0, NULL), 0);
	assert_string_equal((char *)world.data, "host2");
	fabric_free(world.fabric);
}

static void what_is_not_served_is_refused_with_its_status(void **unused)
{
	static const struct {
		uint8_t method;
		uint16_t attribute;
		uint32_t modifier;
		uint16_t status;
	} rows[] = {
		{MAD_METHOD_SET, 0x11, 0, 0x0c}, /* NodeInfo is read only */
		{MAD_METHOD_GET, 0x1a, 0, 0x0c}, /* RandomForwardingTable */
		{MAD_METHOD_GET, 0x30, 0, 0x0c},       {MAD_METHOD_GET, 0x31, 0, 0x0c},
		{MAD_METHOD_GET, 0xff90, 1, 0x0c},     {MAD_METHOD_GET, 0x33, 1, 0x0c},
		{MAD_METHOD_GET_TABLE, 0x11, 0, 0x08}, {0x7f, 0x11, 0, 0x08},
		{MAD_METHOD_GET, 0x11, 1, 0x1c},       {MAD_METHOD_GET, 0x15, 5, 0x1c},
		{MAD_METHOD_GET, 0x15, 0x100, 0x1c},   {MAD_METHOD_GET, 0x19, 768, 0x1c},
		{MAD_METHOD_GET, 0x1b, 32, 0x1c},      {MAD_METHOD_GET, 0x1b, 1u << 28, 0x1c},
		{MAD_METHOD_GET, 0x16, 1, 0x1c},       {MAD_METHOD_GET, 0x16, 5u << 16, 0x1c},
		{MAD_METHOD_GET, 0x17, 0x0500, 0x1c},  {MAD_METHOD_GET, 0x17, 0x30000, 0x1c},
		{MAD_METHOD_GET, 0x18, 1, 0x1c},       {MAD_METHOD_GET, 0x18, 5u << 16 | 1, 0x1c},
		{MAD_METHOD_GET, 0x14, 1, 0x1c},       {MAD_METHOD_GET, 0x12, 1, 0x1c},
	};
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint16_t status = test_smp(&world, "1", rows[i].method, rows[i].attribute,
					   rows[i].modifier, NULL);

		if (status != rows[i].status)
			fail_msg("row %u: 0x%x", i, status);
		assert_int_equal(world.mad[3], MAD_METHOD_GET_RESPONSE);
	}
	/* Tables of switches alone */
	assert_int_equal(test_smp(&world, "", MAD_METHOD_GET, 0x12, 0, NULL), 0x0c);
	assert_int_equal(test_smp(&world, "", MAD_METHOD_GET, 0x19, 0, NULL), 0x0c);
	assert_int_equal(test_smp(&world, "", MAD_METHOD_GET, 0x1b, 0, NULL), 0x0c);
	fabric_free(world.fabric);
}

static void tables_say_what_was_set_and_nothing_else_changes(void **unused)
{
	static const struct {
		const char *path;
		uint16_t attribute;
		uint32_t modifier;
		enum record record;
	} tables[] = {
		{"1", 0x19, 0, RECORD_LINEAR_FORWARDING},
		{"1", 0x19, 767, RECORD_LINEAR_FORWARDING},
		{"1", 0x1b, 3, RECORD_MULTICAST_FORWARDING},
		{"1", 0x16, 2u << 16, RECORD_PKEY_TABLE},
		{"", 0x16, 3, RECORD_PKEY_TABLE},
		{"1", 0x17, 0x0203, RECORD_SL_TO_VL},
		{"", 0x17, 0, RECORD_SL_TO_VL},
		{"1", 0x18, 1u << 16 | 2, RECORD_VL_ARBITRATION},
		{"", 0x18, 4u << 16, RECORD_VL_ARBITRATION},
	};
	const unsigned count = sizeof(tables) / sizeof(*tables);
	uint8_t now[sizeof(tables) / sizeof(*tables)][SMP_DATA_BYTES];
	struct test_world world;
	uint64_t random = 3;

	test_open(&world, TWO_SWITCHES);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(test_smp(&world, tables[i].path, MAD_METHOD_GET,
					  tables[i].attribute, tables[i].modifier, NULL),
				 0);
		memcpy(now[i], world.data, SMP_DATA_BYTES);
	}
	for (unsigned round = 0; round < 200; round++) {
		unsigned i = (unsigned)test_random(&random) % count;
		size_t bytes = record_layout(tables[i].record)->bytes;
		uint64_t values[RECORD_BYTES_MAX / 8];

		test_random_fill(&random, now[i], bytes);
		record_read(tables[i].record, now[i], values);	/* without reserved bits */
		record_write(tables[i].record, values, now[i]);
		assert_int_equal(test_smp(&world, tables[i].path, MAD_METHOD_SET,
					  tables[i].attribute, tables[i].modifier, now[i]),
				 0);
		assert_memory_equal(world.data, now[i], bytes);
		for (unsigned j = 0; j < count; j++) {
			test_smp(&world, tables[j].path, MAD_METHOD_GET, tables[j].attribute,
				 tables[j].modifier, NULL);
			assert_memory_equal(world.data, now[j],
					    record_layout(tables[j].record)->bytes);
		}
	}
	fabric_free(world.fabric);
}

static void port_info_keeps_fields_that_are_out_of_range(void **unused)
{
	struct test_world world;
	struct ib_port_info info, asked;

	test_open(&world, TWO_SWITCHES);
	test_port_info(&world, "12", 0, &info);
	info.port_state = info.port_physical_state = 0;
	info.lid = 7;
	info.master_sm_lid = 3;
	assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
	assert_int_equal(world.events[FABRIC_EVENT_LID_CHANGE], 1);
	assert_int_equal(world.events[FABRIC_EVENT_SM_CHANGE], 1);
	for (unsigned i = 0; i < 9; i++) {
		asked = info;
		switch (i) {
		case 0: asked.lid = 0; break;
		case 1: asked.lid = 0xc000; break;
		case 2: asked.master_sm_lid = 0xffff; break;
		case 3: asked.neighbor_mtu = 6; break;
		case 4: asked.operational_vls = 5; break;
		case 5: asked.link_width_enabled = WIDTH_12X; break;
		case 6: asked.link_down_default_state = 3; break;
		case 7: asked.port_state = FABRIC_PORT_INIT; break;
		default:
			asked.port_state = FABRIC_PORT_ARMED,
			asked.port_physical_state = FABRIC_PHYS_POLLING;
		}
		if (test_set_port_info(&world, "12", 0, &asked) != 0x1c)
			fail_msg("case %u", i);
		test_port_info(&world, "12", 0, &asked);
		assert_int_equal(asked.lid, 7);
		assert_int_equal(asked.master_sm_lid, 3);
		assert_int_equal(asked.port_state, FABRIC_PORT_INIT);
		assert_int_equal(asked.link_width_enabled, info.link_width_enabled);
	}
	info.client_reregister = 1;
	assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
	record_read(RECORD_PORT_INFO, world.data, &asked);
	assert_int_equal(asked.client_reregister, 1);		/* echoed, and not kept */
	assert_int_equal(world.events[FABRIC_EVENT_CLIENT_REREGISTER], 1);
	test_port_info(&world, "12", 0, &asked);
	assert_int_equal(asked.client_reregister, 0);
	/* The other port of the adapter can be read through this one, and not be set. */
	info.lid = 9;
	test_set_port_info(&world, "12", 2, &info);
	record_read(RECORD_PORT_INFO, world.data, &asked);
	assert_int_equal(asked.lid, 0);
	assert_int_equal(asked.port_state, FABRIC_PORT_DOWN);
	fabric_free(world.fabric);
}

static void links_train_to_the_best_that_both_ends_enable(void **unused)
{
	struct test_world world;
	struct ib_port_info info;
	struct fabric_port_info seen;

	test_open(&world, TWO_SWITCHES);
	assert_true(fabric_port_info(world.fabric, SW1, 3, &seen));
	assert_string_equal(seen.speed_name, "HDR");
	assert_int_equal(seen.rate_mbps, 200000);
	test_port_info(&world, "1", 3, &info);
	assert_int_equal(info.link_speed_ext_active, 4);
	info.link_speed_ext_enabled = 2; /* EDR at most; valid with the modifier's bit 31 alone */
	info.link_width_enabled = WIDTH_1X;
	info.port_state = FABRIC_PORT_DOWN;
	info.port_physical_state = FABRIC_PHYS_POLLING;
	assert_int_equal(test_set_port_info(&world, "1", 0x80000003, &info), 0);
	fabric_port_info(world.fabric, SW2, 3, &seen);
	assert_string_equal(seen.speed_name, "EDR");
	assert_int_equal(seen.width_lanes, 1);
	assert_int_equal(seen.state, FABRIC_PORT_INIT);
	info.link_speed_ext_enabled = 30;		/* none: QDR remains */
	test_set_port_info(&world, "1", 0x80000003, &info);
	fabric_port_info(world.fabric, SW2, 3, &seen);
	assert_string_equal(seen.speed_name, "QDR");
	fabric_free(world.fabric);
}

static void a_disabled_port_takes_its_peer_down_and_comes_back(void **unused)
{
	struct test_world world;
	struct ib_port_info info;
	struct fabric_port_info seen;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	assert_int_equal(world.events[FABRIC_EVENT_PORT_ACTIVE], 4);
	test_port_info(&world, "1", 2, &info);
	info.port_state = FABRIC_PORT_DOWN;
	info.port_physical_state = FABRIC_PHYS_DISABLED;
	assert_int_equal(test_set_port_info(&world, "1", 2, &info), 0);
	fabric_port_info(world.fabric, HOST2, 1, &seen);
	assert_int_equal(seen.state, FABRIC_PORT_DOWN);
	assert_int_equal(seen.phys_state, FABRIC_PHYS_POLLING);
	assert_int_equal(world.events[FABRIC_EVENT_PORT_ERROR], 1);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x11, 0, NULL), 0xffff);
	/* What a Set did is no change to report; that a link has come up is. */
	assert_int_equal(world.fabric->node[SW1].switch_info.port_state_change, 0);
	info.port_physical_state = FABRIC_PHYS_POLLING;
	assert_int_equal(test_set_port_info(&world, "1", 2, &info), 0);
	fabric_port_info(world.fabric, HOST2, 1, &seen);
	assert_int_equal(seen.state, FABRIC_PORT_INIT);
	assert_int_equal(world.fabric->node[SW1].switch_info.port_state_change, 1);
	/* No answer comes through the port that was disabled just now. */
	test_port_info(&world, "131", 0, &info);
	info.port_state = FABRIC_PORT_DOWN;
	info.port_physical_state = FABRIC_PHYS_DISABLED;
	assert_int_equal(test_set_port_info(&world, "131", 0, &info), 0xffff);
	assert_int_equal(world.fabric->node[SW2].switch_info.port_state_change, 1);
	fabric_free(world.fabric);
}

/* The levels of protection: what a stranger gets. */
static void an_m_key_protects_as_its_level_says(void **unused)
{
	struct test_world world;
	struct ib_port_info info, seen;

	for (unsigned level = 0; level < 4; level++) {
		test_open(&world, TWO_SWITCHES);
		test_bring_up(&world);
		test_port_info(&world, "12", 0, &info);
		info.m_key = 0x1234;
		info.m_key_protect_bits = (uint8_t)level;
		info.m_key_lease_period = 10;
		info.port_state = info.port_physical_state = 0;
		assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
		if (level < 2) {		/* may read, and sees the key on level 0 alone */
			test_port_info(&world, "12", 0, &seen);
			assert_int_equal(seen.m_key, level ? 0 : 0x1234);
			assert_int_equal(seen.m_key_violations, 0);
		} else {
			assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x15, 0, NULL),
					 0xffff);
		}
		assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0xffff);
		world.mkey = 0x1234;
		test_port_info(&world, "12", 0, &seen);
		assert_int_equal(seen.m_key, 0x1234);
		assert_int_equal(seen.m_key_violations, level < 2 ? 1 : 2);
		assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
		fabric_free(world.fabric);
	}
}

/* SMInfo is a program's, but for the M_Key of its port. */
static void an_m_key_guards_sm_info_too(void **unused)
{
	struct test_world world;
	struct ib_port_info info;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	test_port_info(&world, "12", 0, &info);
	info.m_key = 0x1234;
	info.m_key_protect_bits = 2;
	info.port_state = info.port_physical_state = 0;
	assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
	for (unsigned right = 0; right < 2; right++)
		for (uint8_t method = MAD_METHOD_GET; method <= MAD_METHOD_SET; method++) {
			world.mkey = right ? 0x1234 : 0x4321;
			world.node = FABRIC_NONE;
			test_smp(&world, "12", method, 0x20, 0, NULL);
			assert_int_equal(world.node == HOST2, right);	/* host1 gets the trap */
		}
	test_port_info(&world, "12", 0, &info);
	assert_int_equal(info.m_key_violations, 2);
	fabric_free(world.fabric);
}

static void a_lease_that_nobody_renews_opens_the_port(void **unused)
{
	struct test_world world;
	struct ib_port_info info;

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	test_port_info(&world, "12", 0, &info);
	info.m_key = 9;
	info.m_key_protect_bits = 2;
	info.m_key_lease_period = 10;
	info.port_state = info.port_physical_state = 0;
	assert_int_equal(test_set_port_info(&world, "12", 0, &info), 0);
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x15, 0, NULL), 0xffff);
	world.now_us += 9900000;
	world.mkey = 9;				/* the manager lives: the lease stops */
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x15, 0, NULL), 0);
	world.mkey = 0;
	world.now_us += 9900000;
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_GET, 0x15, 0, NULL), 0xffff);
	world.now_us += 10000000;		/* ten seconds after that stranger: over */
	fabric_timer(world.fabric, world.now_us);
	test_port_info(&world, "12", 0, &info);
	assert_int_equal(info.m_key_protect_bits, 0);
	fabric_free(world.fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_says_what_it_is),
		cmocka_unit_test(what_is_not_served_is_refused_with_its_status),
		cmocka_unit_test(tables_say_what_was_set_and_nothing_else_changes),
		cmocka_unit_test(port_info_keeps_fields_that_are_out_of_range),
		cmocka_unit_test(links_train_to_the_best_that_both_ends_enable),
		cmocka_unit_test(a_disabled_port_takes_its_peer_down_and_comes_back),
		cmocka_unit_test(an_m_key_protects_as_its_level_says),
		cmocka_unit_test(an_m_key_guards_sm_info_too),
		cmocka_unit_test(a_lease_that_nobody_renews_opens_the_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
