/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directed SMPs through a row of 62 switches with a host at each end: every hop count, there and
 * back, and the parts of combined routes; then every header that makes no sense.
 */
#include "fabric/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/test_random.h"

#define SWITCHES	62u
#define HERE		UINT32_MAX

struct world {
	struct fabric *fabric;
	unsigned answers;
	uint32_t node;
	uint8_t mad[MAD_BYTES];
	struct fabric_address from;
};

static void world_deliver(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
			  const struct fabric_address *from)
{
	struct world *world = context;

	world->answers++;
	world->node = node;
	world->from = *from;
	memcpy(world->mad, mad, MAD_BYTES);
}

/* host1 - sw1 - sw2 ... - host2: on each switch port 1 leads to the left, port 2 to the right. */
static void world_open(struct world *world)
{
	static const struct fabric_ops ops = { .deliver = world_deliver };
	struct fabric_errors errors;
	char *text, *p;

	p = text = malloc(100 * (SWITCHES + 3));
	p += sprintf(p, "Ca 1 \"host1\"\n[1] \"sw1\"[1]\n\nCa 1 \"host2\"\n[1] \"sw%u\"[2]\n",
		     SWITCHES);
	for (unsigned i = 1; i <= SWITCHES; i++) {
		p += sprintf(p, "\nSwitch 3 \"sw%u\"\n", i);
		if (i < SWITCHES)
			p += sprintf(p, "[2] \"sw%u\"[1]\n", i + 1);
	}
	*world = (struct world){ .fabric = fabric_new_from_file(text, &errors) };
	free(text);
	assert_non_null(world->fabric);
	fabric_set_ops(world->fabric, &ops, world);
}

static void get_node_info(uint8_t mad[MAD_BYTES], unsigned hops)
{
	memset(mad, 0, MAD_BYTES);
	mad_write(&(struct mad_header){.base_version = 1,
				       .class = MAD_CLASS_SUBNET_DIRECTED,
				       .class_version = 1,
				       .method = MAD_METHOD_GET,
				       .attribute_id = 0x11,
				       .transaction_id = hops + 1},
		  mad);
	mad[SMP_HOP_COUNT] = (uint8_t)hops;
	put_be16(mad + SMP_DR_SLID, LID_PERMISSIVE);
	put_be16(mad + SMP_DR_DLID, LID_PERMISSIVE);
	for (unsigned i = 1; i <= hops; i++)
		mad[SMP_INITIAL_PATH + i] = i == 1 ? 1 : 2;
}

static const struct fabric_address directed = { .lid = LID_PERMISSIVE };

static void an_smp_goes_as_far_as_its_hop_count_says_and_comes_back(void **unused)
{
	struct world world;

	world_open(&world);
	for (unsigned hops = 0; hops <= SWITCHES + 1; hops++) {
		uint8_t mad[MAD_BYTES];
		struct ib_node_info info;
		/* host1, sw1 .. sw62, host2 are nodes 0, 2 .. 63, 1 */
		uint32_t reached = hops == 0 ? 0 : hops == SWITCHES + 1 ? 1 : hops + 1;

		get_node_info(mad, hops);
		assert_int_equal(fabric_send(world.fabric, 0, 1, mad, &directed, hops), 0);
		assert_int_equal(world.answers, hops + 1);
		assert_int_equal(world.node, 0);
		assert_int_equal(world.mad[3], MAD_METHOD_GET_RESPONSE);
		assert_int_equal(get_be16(world.mad + SMP_STATUS), SMP_DIRECTION);
		assert_int_equal(get_be64(world.mad + 8), hops + 1);
		assert_int_equal(world.mad[SMP_HOP_POINTER], 0);
		record_read(RECORD_NODE_INFO, world.mad + SMP_DATA, &info);
		assert_int_equal(info.node_guid, world.fabric->node[reached].guid);
		assert_int_equal(info.local_port_num, 1);
		for (unsigned i = 1; i <= hops; i++) /* back the way it came, by ports of entry */
			assert_int_equal(world.mad[SMP_RETURN_PATH + i], 1);
	}
	fabric_free(world.fabric);
}

static void a_path_that_leads_nowhere_has_no_answer(void **unused)
{
	struct world world;
	uint8_t mad[MAD_BYTES];

	world_open(&world);
	for (unsigned wrong = 0; wrong < 256; wrong++) {
		get_node_info(mad, 5);
		mad[SMP_INITIAL_PATH + 3] = (uint8_t)wrong;
		fabric_send(world.fabric, 0, 1, mad, &directed, 0);
		/* 1 leads back and, from there on, forward again */
		assert_int_equal(world.answers, wrong == 1 || wrong == 2);
		world.answers = 0;
	}
	get_node_info(mad, 3);
	mad[SMP_INITIAL_PATH + 1] = 2;		/* not the port it is sent by */
	fabric_send(world.fabric, 0, 1, mad, &directed, 0);
	get_node_info(mad, SWITCHES + 1);
	mad[SMP_HOP_COUNT] = SMP_HOPS_MAX + 1;	/* no path is so long */
	fabric_send(world.fabric, 0, 1, mad, &directed, 0);
	assert_int_equal(world.answers, 0);
	fabric_free(world.fabric);
}

/* Whatever the headers are: at most one answer, and it ends. */
static void any_header_ends_somewhere(void **unused)
{
	struct world world;
	uint64_t random = 7;

	world_open(&world);
	for (unsigned round = 0; round < 20000; round++) {
		struct fabric_address to = directed;
		uint8_t mad[MAD_BYTES];

		get_node_info(mad, (unsigned)test_random(&random) % 70);
		mad[SMP_HOP_POINTER] =
			(uint8_t)(test_random(&random) % 4 ? 0 : test_random(&random) % 70);
		if (test_random(&random) % 4 == 0)
			mad[SMP_STATUS] |= 0x80;
		if (test_random(&random) % 4 == 0)
			put_be16(mad + SMP_DR_SLID, (uint16_t)(test_random(&random) % 5));
		if (test_random(&random) % 4 == 0)
			put_be16(mad + SMP_DR_DLID, (uint16_t)(test_random(&random) % 5));
		if (test_random(&random) % 4 == 0)
			to.lid = (uint16_t)(test_random(&random) % 5);
		for (unsigned i = 0; i < 4; i++)
			mad[SMP_INITIAL_PATH + test_random(&random) % 128] =
				(uint8_t)(test_random(&random) % 4);
		world.answers = 0;
		fabric_send(world.fabric, (uint32_t)(test_random(&random) % 3), 0 + (round % 2),
			    mad, &to, 0);
		assert_true(world.answers <= 1);
	}
	fabric_free(world.fabric);
}

/* sw1 .. sw62 have the LIDs 1 .. 62, host1 100, host2 101; switches route by them. */
static void give_lids(struct world *world)
{
	for (uint32_t i = 0; i < world->fabric->nodes; i++) {
		struct fabric_node *node = &world->fabric->node[i];
		unsigned own = node_is_switch(node) ? 0 : 1, place = i < 2 ? 0 : i - 1;

		node->port[own].info.lid = (uint16_t)(place ? place : 100 + i);
		if (!place)
			continue;
		node->switch_info.linear_fdb_top = 127;
		for (unsigned block = 0; block < 2; block++)
			node->lft[block] = calloc(1, LFT_BLOCK);
		for (unsigned lid = 1; lid < 128; lid++)
			node->lft[lid / 64][lid % 64] = lid == place		    ? 0
							: lid == 100 || lid < place ? 1
										    : 2;
	}
}

static void a_combined_route_begins_and_ends_by_lid(void **unused)
{
	struct world world;

	world_open(&world);
	give_lids(&world);
	for (unsigned first = 1; first < SWITCHES; first++)
		for (unsigned way = 0; way < 3; way++) {
			struct fabric_address to = { .lid = (uint16_t)first };
			struct ib_node_info info;
			uint32_t reached = first + 2;
			uint8_t mad[MAD_BYTES];

			/* By LID to a switch, then one hop; one hop, then by LID; and both. */
			get_node_info(mad, 1);
			if (way != 1) {
				mad[SMP_INITIAL_PATH + 1] = 2;
				put_be16(mad + SMP_DR_SLID, 100);
			} else {
				to.lid = LID_PERMISSIVE;
			}
			if (way) {
				reached = 2 + SWITCHES - 1;
				put_be16(mad + SMP_DR_DLID, SWITCHES);
			}
			world.answers = 0;
			fabric_send(world.fabric, 0, 1, mad, &to, 0);
			assert_int_equal(world.answers, 1);
			assert_int_equal(world.node, 0);
			assert_int_equal(world.mad[3], MAD_METHOD_GET_RESPONSE);
			record_read(RECORD_NODE_INFO, world.mad + SMP_DATA, &info);
			assert_int_equal(info.node_guid, world.fabric->node[reached].guid);
		}
	fabric_free(world.fabric);
}

/* ibportstate asks a port's neighbour so, which may be the one that asks. */
static void a_combined_route_may_lead_back_to_where_it_began(void **unused)
{
	const struct fabric_address to = { .lid = 1 };
	struct ib_node_info info;
	struct world world;
	uint8_t mad[MAD_BYTES];

	world_open(&world);
	give_lids(&world);
	get_node_info(mad, 1);
	mad[SMP_INITIAL_PATH + 1] = 1;
	put_be16(mad + SMP_DR_SLID, 100);
	fabric_send(world.fabric, 0, 1, mad, &to, 0);
	assert_int_equal(world.answers, 1);
	record_read(RECORD_NODE_INFO, world.mad + SMP_DATA, &info);
	assert_int_equal(info.node_guid, world.fabric->node[0].guid);
	fabric_free(world.fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_smp_goes_as_far_as_its_hop_count_says_and_comes_back),
		cmocka_unit_test(a_path_that_leads_nowhere_has_no_answer),
		cmocka_unit_test(any_header_ends_somewhere),
		cmocka_unit_test(a_combined_route_begins_and_ends_by_lid),
		cmocka_unit_test(a_combined_route_may_lead_back_to_where_it_began),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
