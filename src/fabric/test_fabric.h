/* SPDX-License-Identifier: BSD-2-Clause */
/* For unit tests: a subnet of two switches and four hosts, a program that keeps what comes, and
 * SMPs by LID. */
#ifndef VERBATIM_FABRIC_TEST_FABRIC_H
#define VERBATIM_FABRIC_TEST_FABRIC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "fabric/internal.h"

/* Nodes: sw1 0, sw2 1, host1 .. host4 2 .. 5; hosts 1 and 2 on sw1. */
#define TWO_SWITCHES                                                                   \
	"Switch 4 \"sw1\"\n[1] \"host1\"[1] # 4xEDR\n[2] \"host2\"[1]\n"              \
	"[3] \"sw2\"[3] # 4xHDR\n\n"                                                   \
	"Switch 4 \"sw2\"\n[1] \"host3\"[1]\n[2] \"host4\"[1]\n\n"                    \
	"Ca 1 \"host1\"\n\nCa 2 \"host2\"\n\nCa 1 \"host3\"\n\nCa 1 \"host4\"\n"
#define SW1	0u
#define SW2	1u
#define HOST1	2u
#define HOST2	3u
#define HOST3	4u
#define HOST4	5u

struct test_world {
	struct fabric *fabric;
	unsigned arrived, events[8];
	uint16_t status;		/* of the last answer to test_smp(); 0xffff: none came */
	uint32_t node, port;
	uint8_t mad[MAD_BYTES];
	struct fabric_address from;
	uint64_t now_us;
	uint64_t mkey;			/* of SMPs that test_smp() sends */
	uint8_t *data;			/* of the answer */
};

static inline void test_deliver(void *context, uint32_t node, uint32_t port,
				const uint8_t mad[MAD_BYTES], const struct fabric_address *from)
{
	struct test_world *world = context;

	world->arrived++;
	world->node = node;
	world->port = port;
	world->from = *from;
	memcpy(world->mad, mad, MAD_BYTES);
	if (mad[3] & MAD_METHOD_RESPONSE)
		world->status = get_be16(mad + SMP_STATUS) & 0x7fff;
	else if (mad[3] != MAD_METHOD_TRAP)
		world->status = 0;
}

static inline void test_event(void *context, uint32_t node, uint32_t port, enum fabric_event event)
{
	struct test_world *world = context;

	world->events[event]++;
}

static inline void test_open(struct test_world *world, const char *text)
{
	static const struct fabric_ops ops = { .deliver = test_deliver, .event = test_event };
	struct fabric_errors errors;

	*world = (struct test_world){ .fabric = fabric_new_from_file(text, &errors), .now_us = 1 };
	if (!world->fabric)
		fail_msg("line %u: %s", errors.error[0].line, errors.error[0].text);
	world->data = world->mad + SMP_DATA;
	fabric_set_ops(world->fabric, &ops, world);
}

/*
 * An SMP from host1 along a path of ports, "" for host1 itself; @data: of a Set. Returns the
 * answer's status, 0xffff: there was none. The answer is in the world.
 */
static inline uint16_t test_smp(struct test_world *world, const char *path, uint8_t method,
				uint16_t attribute, uint32_t modifier, const uint8_t *data)
{
	static const struct fabric_address to = { .lid = LID_PERMISSIVE };
	uint8_t mad[MAD_BYTES] = { 0 };

	mad_write(&(struct mad_header){.base_version = 1,
				       .class = MAD_CLASS_SUBNET_DIRECTED,
				       .class_version = 1,
				       .method = method,
				       .attribute_id = attribute,
				       .attribute_modifier = modifier,
				       .transaction_id = 5},
		  mad);
	put_be64(mad + SMP_MKEY, world->mkey);
	put_be32(mad + SMP_DR_SLID, 0xffffffff);
	mad[SMP_HOP_COUNT] = (uint8_t)strlen(path);
	for (unsigned i = 0; path[i]; i++)
		mad[SMP_INITIAL_PATH + 1 + i] = (uint8_t)(path[i] - '0');
	if (data)
		memcpy(mad + SMP_DATA, data, SMP_DATA_BYTES);
	world->arrived = 0;
	world->status = 0xffff;
	assert_int_equal(fabric_send(world->fabric, HOST1, 1, mad, &to, world->now_us), 0);
	return world->status;
}

static inline void test_port_info(struct test_world *world, const char *path, unsigned port,
				  struct ib_port_info *info)
{
	assert_int_equal(test_smp(world, path, MAD_METHOD_GET, 0x15, port, NULL), 0);
	record_read(RECORD_PORT_INFO, world->data, info);
}

static inline uint16_t test_set_port_info(struct test_world *world, const char *path, uint32_t port,
					  const struct ib_port_info *info)
{
	uint8_t data[SMP_DATA_BYTES];

	record_write(RECORD_PORT_INFO, info, data);
	return test_smp(world, path, MAD_METHOD_SET, 0x15, port, data);
}

/* As a subnet manager does it: LIDs 1 .. for sw1, sw2, host1 .. host4, routes, all links Active.
 * SM: host1. */
static inline void test_bring_up(struct test_world *world)
{
	static const struct { uint32_t node; const char *path;
	} nodes[] = {
		{SW1, "1"}, {SW2, "13"}, {HOST1, ""}, {HOST2, "12"}, {HOST3, "131"}, {HOST4, "132"},
	};
	/* By LID 1 .. 6 */
	static const uint8_t routes[2][7] = {{255, 0, 3, 1, 2, 3, 3}, {255, 3, 0, 3, 3, 1, 2}};

	for (unsigned i = 0; i < 6; i++) {
		struct ib_port_info info;

		test_port_info(world, nodes[i].path, 0, &info);
		info.lid = (uint16_t)(1 + i);
		info.master_sm_lid = 3;
		info.port_state = info.port_physical_state = 0;
		assert_int_equal(test_set_port_info(world, nodes[i].path, 0, &info), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		uint8_t data[SMP_DATA_BYTES];
		struct ib_switch_info info;

		assert_int_equal(test_smp(world, nodes[i].path, MAD_METHOD_GET, 0x12, 0, NULL), 0);
		record_read(RECORD_SWITCH_INFO, world->data, &info);
		info.linear_fdb_top = 6;
		info.port_state_change = 1;
		record_write(RECORD_SWITCH_INFO, &info, data);
		assert_int_equal(test_smp(world, nodes[i].path, MAD_METHOD_SET, 0x12, 0, data), 0);
		memset(data, 255, sizeof(data));
		memcpy(data, routes[i], sizeof(routes[i]));
		assert_int_equal(test_smp(world, nodes[i].path, MAD_METHOD_SET, 0x19, 0, data), 0);
	}
	for (enum fabric_port_state state = FABRIC_PORT_ARMED; state <= FABRIC_PORT_ACTIVE; state++)
		for (unsigned i = 0; i < 6; i++)
			for (unsigned port = i < 2; port <= (i < 2 ? 3 : 0); port++) {
				struct ib_port_info info;

				test_port_info(world, nodes[i].path, port, &info);
				info.port_state = (uint8_t)state;
				info.port_physical_state = 0;
				assert_int_equal(
					test_set_port_info(world, nodes[i].path, port, &info), 0);
			}
}

/* A MAD that is a program's to QP1 by LID: of a vendor's class. */
static inline int test_gmp(struct test_world *world, uint32_t node, uint16_t lid)
{
	const struct fabric_address to = { .lid = lid, .qpn = 1, .qkey = QKEY_GSI };
	uint8_t mad[MAD_BYTES] = { 0 };

	mad_write(&(struct mad_header){.base_version = 1,
				       .class = 0x0a,
				       .class_version = 1,
				       .method = MAD_METHOD_GET,
				       .attribute_id = 0x12,
				       .transaction_id = lid},
		  mad);
	world->arrived = 0;
	return fabric_send(world->fabric, node, 1, mad, &to, world->now_us);
}

#endif
