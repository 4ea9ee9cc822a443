/* SPDX-License-Identifier: BSD-2-Clause */
/* Traps reach the subnet manager once for each thing that happens, and again until they are
 * repressed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fabric/test_fabric.h"

#define INTERVAL_US	1073741u	/* SubnetTimeout 18 */

/* What came to the manager since the last call, as trap numbers. */
static unsigned take_traps(struct test_world *world)
{
	unsigned arrived = world->arrived;

	if (arrived) {
		struct ib_notice notice;

		assert_int_equal(world->node, HOST1);
		assert_int_equal(world->mad[3], MAD_METHOD_TRAP);
		assert_int_equal(get_be64(world->mad + SMP_MKEY), 0);
		record_read(RECORD_NOTICE, world->data, &notice);
		assert_int_equal(notice.is_generic, 1);
		world->port = notice.trap_number;
	}
	world->arrived = 0;
	return arrived;
}

static void repress(struct test_world *world)
{
	const struct fabric_address to = { .lid = world->from.lid };
	uint8_t mad[MAD_BYTES];

	memcpy(mad, world->mad, MAD_BYTES);
	mad[3] = MAD_METHOD_TRAP_REPRESS;
	assert_int_equal(fabric_send(world->fabric, HOST1, 1, mad, &to, world->now_us), 0);
}

static void pass_time(struct test_world *world, uint64_t us)
{
	world->now_us += us;
	fabric_timer(world->fabric, world->now_us);
}

static void world_up(struct test_world *world)
{
	test_open(world, TWO_SWITCHES);
	test_bring_up(world);
	world->arrived = 0;
	assert_int_equal(fabric_deadline_us(world->fabric), FABRIC_NEVER);
}

static void a_pulled_cable_is_one_trap_128_of_each_switch_that_can_tell(void **unused)
{
	struct test_world world;

	world_up(&world);
	assert_int_equal(fabric_set_cable(world.fabric, SW1, 2, false, world.now_us), 0);
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.port, 128);
	assert_int_equal(world.from.lid, 1);
	repress(&world);
	pass_time(&world, 10 * INTERVAL_US);
	assert_int_equal(take_traps(&world), 0);
	assert_int_equal(fabric_deadline_us(world.fabric), FABRIC_NEVER);
	/* Between switches: sw2 can no longer reach the manager. */
	fabric_set_cable(world.fabric, SW2, 3, false, world.now_us);
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.from.lid, 1);
	fabric_free(world.fabric);
}

static void a_trap_is_repeated_five_times_at_most(void **unused)
{
	struct test_world world;
	uint64_t tid = 0;
	unsigned count = 0;

	world_up(&world);
	fabric_set_cable(world.fabric, SW1, 2, false, world.now_us);
	for (unsigned i = 0; i < 20; i++) {
		if (world.arrived) {
			assert_true(!tid || tid == get_be64(world.mad + 8));
			tid = get_be64(world.mad + 8);
		}
		count += take_traps(&world);
		pass_time(&world, INTERVAL_US);
	}
	assert_int_equal(count, 5);
	assert_int_equal(fabric_deadline_us(world.fabric), FABRIC_NEVER);
	fabric_free(world.fabric);
}

static void what_happens_meanwhile_is_one_more_trap_afterwards(void **unused)
{
	struct test_world world;
	uint64_t tid;

	world_up(&world);
	fabric_set_cable(world.fabric, SW1, 2, false, world.now_us);
	assert_int_equal(take_traps(&world), 1);
	tid = get_be64(world.mad + 8);
	for (unsigned i = 0; i < 6; i++)
		fabric_set_cable(world.fabric, SW1, 2, i % 2 == 0, world.now_us);
	assert_int_equal(take_traps(&world), 0);
	repress(&world);
	assert_int_equal(take_traps(&world), 0);	/* not within SubnetTimeout */
	pass_time(&world, INTERVAL_US);
	assert_int_equal(take_traps(&world), 1);
	assert_int_not_equal(get_be64(world.mad + 8), tid);
	repress(&world);
	pass_time(&world, 10 * INTERVAL_US);
	assert_int_equal(take_traps(&world), 0);
	fabric_free(world.fabric);
}

static void a_manager_that_comes_and_a_new_description_are_trap_144(void **unused)
{
	struct test_world world;
	struct ib_trap_144 details;
	uint8_t data[SMP_DATA_BYTES] = "host4 renamed";

	world_up(&world);
	fabric_set_is_sm(world.fabric, HOST3, 1, true, world.now_us);
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.port, 144);
	record_read(RECORD_TRAP_144, world.data, &details);
	assert_int_equal(details.lidaddr, 5);
	assert_true(details.capability_mask & CAP_IS_SM);
	assert_int_equal(details.other_local_changes, 0);
	repress(&world);
	fabric_set_is_sm(world.fabric, HOST3, 1, true, world.now_us);	/* it is one already */
	pass_time(&world, 2 * INTERVAL_US);
	assert_int_equal(take_traps(&world), 0);

	test_smp(&world, "132", MAD_METHOD_SET, 0x10, 0, data);
	assert_int_equal(world.arrived, 2);		/* the answer, and the trap */
	record_read(RECORD_TRAP_144, world.data, &details);
	assert_int_equal(details.other_local_changes, 1);
	assert_int_equal(details.change_flags, 1);
	fabric_free(world.fabric);
}

static void a_wrong_m_key_is_trap_256_with_the_path_back(void **unused)
{
	struct test_world world;
	struct ib_port_info info;
	struct ib_trap_256 details;

	world_up(&world);
	test_port_info(&world, "132", 0, &info);
	info.m_key = 5;
	info.port_state = info.port_physical_state = 0;
	test_set_port_info(&world, "132", 0, &info);
	test_set_port_info(&world, "132", 0, &info);	/* by a stranger now */
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.port, 256);
	record_read(RECORD_TRAP_256, world.data, &details);
	assert_int_equal(details.method, MAD_METHOD_SET);
	assert_int_equal(details.attributeid, 0x15);
	assert_int_equal(details.lidaddr, 6);
	assert_int_equal(details.drnotice, 1);
	assert_int_equal(details.drhopcount, 3);
	assert_memory_equal(details.drnoticereturnpath, "\1\3\1", 3);
	fabric_free(world.fabric);
}

/* The notice has room for 30 hops. */
static void a_long_path_in_trap_256_is_cut(void **unused)
{
	struct test_world world;
	struct ib_trap_256 details;
	struct fabric_port *port;
	const struct fabric_address to = { .lid = LID_PERMISSIVE };
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SUBNET_DIRECTED, 1, MAD_METHOD_SET, [17] = 0x15 };

	/* From host1, node 40, by sw1 around: port 1 of host1 and sw1, port 2 of the others. */
	test_open(&world, "make ring switches=40 hosts=1\n");
	port = &world.fabric->node[35].port[0];
	port->info.m_key = 7;
	port->info.lid = port->info.master_sm_lid = 9;
	put_be32(mad + SMP_DR_SLID, 0xffffffff);
	mad[SMP_HOP_COUNT] = 36;
	for (unsigned i = 1; i <= 36; i++)
		mad[SMP_INITIAL_PATH + i] = i > 2 ? 2 : 1;
	fabric_send(world.fabric, 40, 1, mad, &to, 1);
	assert_int_equal(port->info.m_key_violations, 1);
	record_read(RECORD_TRAP_256, port->trap[TRAP_MKEY].notice, &details);
	assert_int_equal(details.drpathtruncated, 1);
	assert_int_equal(details.drhopcount, 30);
	assert_int_equal(details.drnoticereturnpath[0], 3);
	assert_int_equal(details.drnoticereturnpath[29], 1);
	fabric_free(world.fabric);
}

static void without_a_manager_nobody_is_told(void **unused)
{
	struct test_world world;

	test_open(&world, TWO_SWITCHES);
	fabric_set_cable(world.fabric, SW1, 2, false, 1);
	fabric_set_is_sm(world.fabric, HOST3, 1, true, 1);
	pass_time(&world, 10 * INTERVAL_US);
	assert_int_equal(world.arrived, 0);
	assert_int_equal(fabric_deadline_us(world.fabric), FABRIC_NEVER);
	fabric_free(world.fabric);
}

/* A key that is not taken: 257 and 258 of the host, 259 of a switch that enforces partitions. */
static void keys_that_do_not_match_are_traps_257_to_259(void **unused)
{
	struct fabric_address to = { .lid = 6, .qpn = 1, .qkey = 0x1234, .sl = 3 };
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_PERFORMANCE, 1, 1 };
	uint8_t keys[SMP_DATA_BYTES] = { 0xff, 0xff, 0x80, 0x05 };
	struct ib_port_info info;
	struct ib_trap_257 details;
	struct ib_trap_259 at_switch;
	struct test_world world;

	world_up(&world);
	assert_int_equal(fabric_send(world.fabric, HOST2, 1, mad, &to, world.now_us), 0);
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.port, 258);
	assert_int_equal(world.from.lid, 6);
	record_read(RECORD_TRAP_257, world.data, &details);
	assert_int_equal(details.lidaddr1, 4);
	assert_int_equal(details.lidaddr2, 6);
	assert_int_equal(details.key, 0x1234);
	assert_int_equal(details.sl, 3);
	assert_int_equal(details.qp1, 1);
	assert_int_equal(details.qp2, 1);
	repress(&world);
	/* host2 has a key that host4 has not. */
	assert_int_equal(test_smp(&world, "12", MAD_METHOD_SET, 0x16, 0, keys), 0);
	world.arrived = 0;
	to.qkey = QKEY_GSI;
	to.pkey_index = 1;
	fabric_send(world.fabric, HOST2, 1, mad, &to, world.now_us);
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.port, 257);
	record_read(RECORD_TRAP_257, world.data, &details);
	assert_int_equal(details.key, 0x8005);
	assert_int_equal(details.lidaddr1, 4);
	repress(&world);
	/* At sw2, by the port that leads to sw1: with a GRH the trap has GIDs. */
	test_port_info(&world, "13", 3, &info);
	info.port_state = info.port_physical_state = 0;
	info.partition_enforcement_inbound = 1;
	assert_int_equal(test_set_port_info(&world, "13", 3, &info), 0);
	world.arrived = 0;
	to.has_grh = true;
	to.gid[0] = 0xfe;
	to.gid[15] = 6;
	fabric_send(world.fabric, HOST2, 1, mad, &to, world.now_us);
	assert_int_equal(take_traps(&world), 1);
	assert_int_equal(world.port, 259);
	assert_int_equal(world.from.lid, 2);
	record_read(RECORD_TRAP_259, world.data, &at_switch);
	assert_int_equal(at_switch.pkey, 0x8005);
	assert_int_equal(at_switch.lidaddr1, 4);
	assert_int_equal(at_switch.lidaddr2, 6);
	assert_int_equal(at_switch.sw_lid_addr, 2);
	assert_int_equal(at_switch.port_no, 3);
	assert_memory_equal(at_switch.gidaddr2, to.gid, 16);
	assert_int_equal(at_switch.gidaddr1[0], 0xfe);
	/* More of the same within the interval is no second trap. */
	fabric_send(world.fabric, HOST2, 1, mad, &to, world.now_us);
	assert_int_equal(take_traps(&world), 0);
	fabric_free(world.fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pulled_cable_is_one_trap_128_of_each_switch_that_can_tell),
		cmocka_unit_test(a_trap_is_repeated_five_times_at_most),
		cmocka_unit_test(what_happens_meanwhile_is_one_more_trap_afterwards),
		cmocka_unit_test(a_manager_that_comes_and_a_new_description_are_trap_144),
		cmocka_unit_test(a_wrong_m_key_is_trap_256_with_the_path_back),
		cmocka_unit_test(a_long_path_in_trap_256_is_cut),
		cmocka_unit_test(keys_that_do_not_match_are_traps_257_to_259),
		cmocka_unit_test(without_a_manager_nobody_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
