/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A walk through the image, and packets through the subnet that it is of: where a walk arrives, a
 * packet arrives by the same ports, and counts what a tally of the path would; where a packet
 * arrives, a walk does, unless a port activates itself on the way.
 */
#include <stdlib.h>

#include "base/test_random.h"
#include "fabric/test_fabric.h"
#include "image/image.h"
#include "image/routes.h"
#include "image/tally.h"
#include "wire/qpn.h"

#define NODES_MAX	64u
#define GROUP		0xc003u

struct image_world {
	struct fabric *fabric;
	uint64_t random;
	void *base;
	struct image image;
	unsigned arrived;
	uint32_t at[NODES_MAX];			/* global numbers of ports, in order */
	uint8_t vl;
};

static struct image_world world;

static unsigned pick(unsigned below)
{
	return (unsigned)(test_random(&world.random) % below);
}

static enum fabric_arrival image_arrive(void *context, uint32_t node, uint32_t port,
					const uint8_t *packet, size_t bytes)
{
	if (world.arrived < NODES_MAX)
		world.at[world.arrived] = image_port_number(&world.image, node, port);
	world.arrived++;
	world.vl = packet[0] >> 4;
	return FABRIC_TAKEN;
}

/* Distances to a node over cables; UINT32_MAX: none. */
static void distances(uint32_t to, unsigned distance[NODES_MAX])
{
	bool more = true;

	for (uint32_t i = 0; i < world.fabric->nodes; i++)
		distance[i] = i == to ? 0 : 1000;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < world.fabric->nodes; i++)
			for (unsigned p = 1; p <= world.fabric->node[i].ports; p++) {
				uint32_t peer = world.fabric->node[i].port[p].peer;

				if (peer != FABRIC_NONE && distance[peer] + 1 < distance[i] &&
				    (peer == to || node_is_switch(&world.fabric->node[peer]))) {
					distance[i] = distance[peer] + 1;
					more = true;
				}
			}
	}
}

static void set_route(struct fabric_node *node, unsigned lid, uint8_t port)
{
	uint8_t **block = &node->lft[lid / LFT_BLOCK];

	if (!*block) {
		*block = malloc(LFT_BLOCK);
		assert_non_null(*block);
		memset(*block, 255, LFT_BLOCK);
	}
	(*block)[lid % LFT_BLOCK] = port;
}

static void set_group(struct fabric_node *node, unsigned port)
{
	unsigned position = port / MFT_PORTS;

	if (!node_is_switch(node))
		return;
	if (!node->mft[position])
		node->mft[position] = calloc(MFT_BLOCK, sizeof(**node->mft));
	assert_non_null(node->mft[position]);
	node->mft[position][GROUP - LID_MULTICAST] |= (uint16_t)(1u << port % MFT_PORTS);
}

/* As a subnet manager: LIDs by node, shortest routes, a tree for the group; all Active. */
static void bring_up(const char *text)
{
	struct fabric_errors errors;
	unsigned distance[NODES_MAX];

	world.fabric = fabric_new_from_file(text, &errors);
	if (!world.fabric)
		fail_msg("line %u: %s", errors.error[0].line, errors.error[0].text);
	assert_true(world.fabric->nodes <= NODES_MAX);
	for (uint32_t i = 0; i < world.fabric->nodes; i++) {
		struct fabric_node *node = &world.fabric->node[i];

		node->port[!node_is_switch(node)].info.lid = (uint16_t)(4 * i + 4);
		node->port[!node_is_switch(node)].info.lmc = node_is_switch(node) ? 0 : pick(3);
		node->switch_info.linear_fdb_top = (uint16_t)(4 * world.fabric->nodes + 8);
		for (unsigned p = 1; p <= node->ports; p++) {
			link_event(world.fabric, i, p, PORT_SET_ARM, true);
			link_event(world.fabric, i, p, PORT_SET_ACTIVE, true);
		}
	}
	for (uint32_t to = 0; to < world.fabric->nodes; to++) {
		distances(to, distance);
		for (uint32_t i = 0; i < world.fabric->nodes; i++) {
			struct fabric_node *node = &world.fabric->node[i];

			for (unsigned p = node->ports; node_is_switch(node) && p > 0; p--) {
				uint32_t peer = node->port[p].peer;

				if (peer == FABRIC_NONE || i == to || distance[peer] >= distance[i])
					continue;
				for (unsigned lid = 4 * to + 4; lid < 4 * to + 8; lid++)
					if (lid % 4 == 0 || pick(2))
						set_route(node, lid, (uint8_t)p);
				if (!to && distance[peer] + 1 == distance[i]) {
					set_group(node, p);
					set_group(&world.fabric->node[peer],
						  node->port[p].peer_port);
					break;	/* one parent */
				}
			}
			if (!node_is_switch(node) && !to)
				set_group(&world.fabric->node[node->port[1].peer],
					  node->port[1].peer_port);
		}
	}
}

/* Something that a manager, a person or chance may do. */
static void disturb(void)
{
	uint32_t i = pick(world.fabric->nodes);
	struct fabric_node *node = &world.fabric->node[i];
	unsigned p = 1 + pick(node->ports);
	struct fabric_port *port = &node->port[p];

	switch (pick(9)) {
	case 0:
		port->info.neighbor_mtu = (uint8_t)(1 + pick(5));
		break;
	case 1:
		port->info.partition_enforcement_outbound = pick(2);
		break;
	case 2:
		port->info.partition_enforcement_inbound = pick(2);
		break;
	case 3:
		if (port->peer != FABRIC_NONE)
			fabric_set_cable(world.fabric, i, p, pick(2), 1);
		break;
	case 4:
		link_event(world.fabric, i, p, PORT_SET_ARM, true);
		link_event(world.fabric, i, p, pick(4) ? PORT_SET_ACTIVE : PORT_DATA, true);
		break;
	case 5:
		if (node_is_switch(node))
			set_route(node, 4 + pick(4 * world.fabric->nodes), (uint8_t)pick(6));
		break;
	case 6:
		port->info.operational_vls = (uint8_t)(1 + pick(5));
		break;
	case 7:
		if (!port->pkeys && node_is_switch(node)) {
			port->pkeys = calloc(port_pkeys(node, p), sizeof(*port->pkeys));
			assert_non_null(port->pkeys);
			port->pkeys[pick(8)] = pick(2) ? 0x8005 : 0x0005;
		}
		break;
	default:
		if (!port->sl_to_vl) {
			unsigned in = node_is_switch(node) ? node->ports + 1 : 1;

			port->sl_to_vl = calloc(in, sizeof(*port->sl_to_vl));
			assert_non_null(port->sl_to_vl);
			for (unsigned k = 0; k < in; k++)
				for (unsigned byte = 0; byte < 8; byte++)
					port->sl_to_vl[k][byte] =
						(uint8_t)pick(pick(4) ? 0x80 : 256);
		}
	}
	fabric_changed(world.fabric, i);
}

static size_t image_packet(uint8_t *out, const struct image_question *question)
{
	bool grh = question->dlid >= LID_MULTICAST;
	size_t bth = IB_LRH_BYTES + (grh ? IB_GRH_BYTES : 0);
	size_t bytes = bth + BTH_BYTES + question->payload + 4;

	memset(out, 0, bytes);
	out[1] = (uint8_t)(question->sl << 4 | (grh ? IB_LNH_GRH : IB_LNH_BTH));
	put_be16(out + 2, question->dlid);
	put_be16(out + 4, (uint16_t)(bytes / 4));
	put_be16(out + 6, question->slid);
	if (grh) {
		out[8] = 0x60;
		put_be16(out + 12, (uint16_t)(bytes - bth));
		out[14] = IB_NEXT_HEADER_BTH;
	}
	out[bth] = 0x04;
	put_be16(out + bth + 2, question->pkey);
	put_be32(out + bth + 4, grh ? QPN_MULTICAST : 0x123456);
	return bytes;
}

static int by_number(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return one < other ? -1 : one > other;
}

static void counters_copy(uint64_t (*to)[COUNTERS])
{
	for (uint32_t i = 0; i < world.fabric->nodes; i++)
		for (unsigned p = 0; p <= world.fabric->node[i].ports; p++)
			memcpy(to++, world.fabric->node[i].port[p].counter, sizeof(*to));
}

/* One packet, both ways; *walks: the walk arrived. */
static void compare(bool *walks, uint64_t (*before)[COUNTERS], uint64_t (*after)[COUNTERS],
		    uint64_t (*tallied)[COUNTERS])
{
	static const unsigned payloads[] = { 0, 256, 260, 2048, 4096 };
	size_t bytes = image_port_number(&world.image, world.fabric->nodes - 1,
					 world.fabric->node[world.fabric->nodes - 1].ports) + 1;
	uint8_t packet[FABRIC_PACKET_MAX];
	struct image_question question;
	uint64_t armed = 0, now_armed = 0;
	struct image_path path;
	uint32_t from;
	size_t length;

	do
		from = pick(world.fabric->nodes);
	while (node_is_switch(&world.fabric->node[from]));
	question = (struct image_question){
		.port = image_port_number(&world.image, from, 1),
		.slid = world.fabric->node[from].port[1].info.lid,
		.dlid = pick(6) ? (uint16_t)(4 + pick(4 * world.fabric->nodes)) : GROUP,
		.pkey = pick(3) ? PKEY_DEFAULT : pick(2) ? 0x8005 : 0x0005,
		.sl = (uint8_t)pick(16), .payload = payloads[pick(5)],
	};
	for (uint32_t i = 0; i < world.fabric->nodes; i++)
		for (unsigned p = 1; p <= world.fabric->node[i].ports; p++)
			armed += world.fabric->node[i].port[p].state == PORT_ARMED;
	counters_copy(before);
	*walks = image_walk(&world.image, &question, &path);
	assert_int_equal(path.epoch, image_epoch(&world.image));
	world.arrived = 0;
	length = image_packet(packet, &question);
	assert_int_equal(fabric_send_packet(world.fabric, from, 1, packet, length, 1), 0);
	counters_copy(after);
	for (uint32_t i = 0; i < world.fabric->nodes; i++)
		for (unsigned p = 1; p <= world.fabric->node[i].ports; p++)
			now_armed += world.fabric->node[i].port[p].state == PORT_ARMED;
	if (question.dlid == GROUP && world.arrived) {
		/* The copy of its own HCA comes first, and is not the walk's. */
		world.arrived--;
		memmove(world.at, world.at + 1, world.arrived * sizeof(*world.at));
	}
	if (*walks) {
		assert_int_equal(path.ends, world.arrived);
		qsort(path.end, path.ends, sizeof(*path.end), by_number);
		qsort(world.at, world.arrived, sizeof(*world.at), by_number);
		assert_memory_equal(path.end, world.at, path.ends * sizeof(*path.end));
		if (path.crossings && question.dlid != GROUP)
			assert_int_equal(path.vl, world.vl);
		/* What the tally of the path adds is what the packet has counted. */
		assert_true(fabric_count_path(world.fabric, path.exit, path.crossings,
					      question.dlid == GROUP, 1, length / 4));
		counters_copy(tallied);
		for (size_t i = 0; i < bytes; i++)
			for (unsigned k = 0; k < COUNTERS; k++)
				assert_int_equal(tallied[i][k] - after[i][k],
						 after[i][k] - before[i][k]);
	} else if (question.dlid != GROUP && armed == now_armed) {
		assert_int_equal(world.arrived, 0);
	}
}

static void a_walk_says_what_packets_do(void **unused)
{
	static const char *const recipes[] = {
		"make fattree leaves=3 spines=2 hosts=3\n", "make torus 3x3 hosts=1\n",
		"make ring switches=5 hosts=2\n", "make star hosts=20\n", "make pair\n",
		"make dragonfly groups=3 switches=3 hosts=1 global=1\n",
	};
	unsigned arrivals = 0, groups = 0, rounds = 0;

	for (unsigned seed = 0; seed < 60; seed++) {
		uint64_t (*counters)[COUNTERS];
		static const struct fabric_ops ops = { .arrive = image_arrive };
		uint32_t epoch, ports = 0;

		world.random = seed + 1;
		bring_up(recipes[seed % 6]);
		fabric_set_ops(world.fabric, &ops, NULL);
		world.base = calloc(1, fabric_image_bytes(world.fabric));
		assert_non_null(world.base);
		fabric_image_begin(world.fabric, world.base);
		assert_true(fabric_image_update(world.fabric, world.base));
		assert_false(fabric_image_update(world.fabric, world.base));
		assert_true(image_open(&world.image, world.base, fabric_image_bytes(world.fabric)));
		for (uint32_t i = 0; i < world.fabric->nodes; i++)
			ports += world.fabric->node[i].ports + 1;
		counters = calloc(3 * ports, sizeof(*counters));
		assert_non_null(counters);
		for (unsigned k = 0; k < 120; k++) {
			bool walks;

			epoch = image_epoch(&world.image);
			if (k > 20 && !pick(3))
				disturb();
			if (fabric_image_update(world.fabric, world.base))
				assert_int_not_equal(image_epoch(&world.image), epoch);
			compare(&walks, counters, counters + ports, counters + 2 * ports);
			arrivals += walks;
			groups += walks && world.arrived > 1;
			rounds++;
		}
		free(counters);
		free(world.base);
		fabric_free(world.fabric);
	}
	assert_in_range(arrivals, rounds / 4, rounds);
	assert_true(groups > 50);
}

static void shows(const struct image_question *question, const char *words)
{
	char text[IMAGE_TEXT_MAX];

	image_show(&world.image, question, text);
	assert_string_equal(text, words);
}

static void ask_from(struct image_question *question, uint32_t node)
{
	question->port = image_port_number(&world.image, node, 1);
	question->slid = (uint16_t)(4 * node + 4);
}

static void a_way_in_words_names_nodes_and_ports(void **unused)
{
	struct image_question question = { .slid = 12, .dlid = 16, .pkey = PKEY_DEFAULT, .payload = 64 };
	char text[IMAGE_TEXT_MAX];

	world.random = 1;
	bring_up("Switch 4 \"sw1\"\n[1] \"h1\"[1]\n[3] \"sw2\"[2]\n[4] \"h;\t3\xff\x7f\"[1]\nSwitch 3 \"sw2\"\n"
		 "[1] \"h2\"[1]\nHca 1 \"h1\"\nHca 1 \"h2\"\nHca 1 \"h;\t3\xff\x7f\"\n");
	world.base = calloc(1, fabric_image_bytes(world.fabric));
	assert_non_null(world.base);
	fabric_image_begin(world.fabric, world.base);
	fabric_image_update(world.fabric, world.base);
	assert_true(image_open(&world.image, world.base, fabric_image_bytes(world.fabric)));
	for (uint32_t i = 0; i < world.fabric->nodes; i++)
		if (!strcmp(world.fabric->node[i].id, "h1"))
			ask_from(&question, i);
		else if (!strcmp(world.fabric->node[i].id, "h2"))
			question.dlid = (uint16_t)(4 * i + 4);
	shows(&question, "h1[1], sw1[1>3], sw2[2>1], h2[1]");
	/* Also where the fabric's process carries all. */
	((struct image_head *)world.base)->relay = 1;
	shows(&question, "h1[1], sw1[1>3], sw2[2>1], h2[1]");
	question.dlid = GROUP;
	image_show(&world.image, &question, text);
	assert_non_null(strstr(text, "h1[1], sw1[1>"));
	assert_non_null(strstr(text, "h2[1]"));
	assert_non_null(strstr(text, "h__3__[1]"));
	question.dlid = question.slid;
	shows(&question, "h1[1]");
	question.dlid = 3000;		/* no row */
	shows(&question, "");
	free(world.base);
	fabric_free(world.fabric);
	/* Longer than there is room. */
	bring_up("make ring switches=14 hosts=1\n");
	world.base = calloc(1, fabric_image_bytes(world.fabric));
	assert_non_null(world.base);
	for (uint32_t i = 0; i < world.fabric->nodes; i++) {
		char name[64];

		snprintf(name, sizeof(name), "a-name-that-is-long-for-a-node-of-number-%u", i);
		free(world.fabric->node[i].id);
		world.fabric->node[i].id = strdup(name);
	}
	fabric_image_begin(world.fabric, world.base);
	fabric_image_update(world.fabric, world.base);
	assert_true(image_open(&world.image, world.base, fabric_image_bytes(world.fabric)));
	question = (struct image_question){ .pkey = PKEY_DEFAULT };
	for (uint32_t i = 0, hosts = 0; i < world.fabric->nodes; i++)
		if (!node_is_switch(&world.fabric->node[i])) {
			if (!hosts)
				ask_from(&question, i);
			question.dlid = (uint16_t)(4 * i + 4);
			if (++hosts == 8)
				break;
		}
	image_show(&world.image, &question, text);
	assert_string_equal(text + strlen(text) - 6, "], ...");
	free(world.base);
	fabric_free(world.fabric);
}

/* Bytes at random, or numbers that are too large, lead nowhere: no read beyond them (ASan). */
static void no_number_of_an_image_is_believed(void **unused)
{
	size_t bytes;
	uint8_t *copy;

	world.random = 7;
	bring_up("make ring switches=3 hosts=2\n");
	bytes = fabric_image_bytes(world.fabric);
	world.base = calloc(1, bytes);
	assert_non_null(world.base);
	fabric_image_begin(world.fabric, world.base);
	fabric_image_update(world.fabric, world.base);
	copy = malloc(bytes);
	assert_non_null(copy);
	for (unsigned i = 0; i < 3000; i++) {
		struct image image;
		struct image_path path;
		size_t tables = sizeof(struct image_head) + 9 * 48 + 30 * 40;
		char text[IMAGE_TEXT_MAX];

		memcpy(copy, world.base, bytes);
		for (unsigned k = pick(20) + 1; k--;)
			copy[pick(4) ? pick((unsigned)tables) : pick((unsigned)bytes)] =
				(uint8_t)pick(256);
		if (!image_open(&image, copy, bytes))
			continue;
		for (unsigned k = 0; k < 8; k++) {
			const struct image_question question = {
				.port = pick(40), .slid = (uint16_t)(4 * pick(12)),
				.dlid = pick(4) ? (uint16_t)(4 * pick(12)) : GROUP,
				.pkey = PKEY_DEFAULT, .sl = (uint8_t)pick(17), .payload = 64,
			};

			if (image_walk(&image, &question, &path))
				assert_in_range(path.ends, 1, IMAGE_ENDS);
			image_show(&image, &question, text);
			assert_in_range(strlen(text), 0, IMAGE_TEXT_MAX - 1);
			image_host(&image, pick(100));
		}
	}
	assert_false(image_open(&world.image, copy, 10));
	free(copy);
	free(world.base);
	fabric_free(world.fabric);
}

static void a_path_that_is_none_is_not_counted(void **unused)
{
	struct image_path path;
	struct image_question question;

	world.random = 3;
	bring_up("make ring switches=4 hosts=1\n");
	world.base = calloc(1, fabric_image_bytes(world.fabric));
	assert_non_null(world.base);
	fabric_image_begin(world.fabric, world.base);
	fabric_image_update(world.fabric, world.base);
	assert_true(image_open(&world.image, world.base, fabric_image_bytes(world.fabric)));
	/* host1 is node 4. */
	question = (struct image_question){ .port = image_port_number(&world.image, 4, 1),
					    .slid = 20, .dlid = 28, .pkey = PKEY_DEFAULT };
	assert_true(image_walk(&world.image, &question, &path));
	assert_true(path.crossings > 2);
	assert_true(fabric_count_path(world.fabric, path.exit, path.crossings, false, 1, 10));
	assert_false(fabric_count_path(world.fabric, path.exit + 1, path.crossings - 1, false, 1,
				       10));
	path.exit[1] = image_port_number(&world.image, 2, 1);
	assert_false(fabric_count_path(world.fabric, path.exit, path.crossings, false, 1, 10));
	path.exit[1] = 99999;
	assert_false(fabric_count_path(world.fabric, path.exit, path.crossings, false, 1, 10));
	free(world.base);
	fabric_free(world.fabric);
}

/* Whatever changes between packets, what is kept says the same as a new walk. */
static void a_route_that_is_kept_is_as_one_that_is_walked(void **unused)
{
	static struct image_routes routes;
	struct tally *tally = calloc(1, sizeof(*tally));
	unsigned found = 0, forgotten = 0;
	size_t bytes;

	assert_non_null(tally);
	world.random = 11;
	bring_up("make torus 3x3 hosts=1\n");
	bytes = fabric_image_bytes(world.fabric);
	world.base = calloc(1, bytes);
	assert_non_null(world.base);
	fabric_image_begin(world.fabric, world.base);
	fabric_image_update(world.fabric, world.base);
	assert_false(image_routes_open(&routes, world.base, 8, tally));
	assert_true(image_routes_open(&routes, world.base, bytes, tally));
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t from = 9 + pick(9);	/* hosts are behind the switches */
		const struct image_question question = {
			.port = image_port_number(&routes.image, from, 1),
			.slid = world.fabric->node[from].port[1].info.lid,
			.dlid = (uint16_t)(pick(50) ? 4 + 4 * (9 + pick(9)) : GROUP),
			.pkey = pick(4) ? PKEY_DEFAULT : 0x0005, .sl = (uint8_t)pick(3),
			.payload = 128u << pick(7),
		};
		const struct image_route *route;
		uint64_t before = 0;
		struct image_path path;
		bool walks;

		if (!pick(400)) {
			disturb();
			fabric_image_update(world.fabric, world.base);
		}
		walks = image_walk(&routes.image, &question, &path) && question.dlid != GROUP;
		route = image_route_find(&routes, &question);
		assert_int_equal(route != NULL, walks);
		if (!route)
			continue;
		found++;
		assert_int_equal(route->end, path.end[0]);
		assert_int_equal(route->vl, path.vl);
		assert_int_equal(route->entry != NULL, path.crossings > 0);
		if (!route->entry)
			continue;
		assert_memory_equal(route->entry->exit, path.exit,
				    path.crossings * sizeof(*path.exit));
		before = route->entry->packets;
		image_route_count(route, 1, 4096);
		assert_int_equal(route->entry->packets, before + 1);
		if (!pick(5000)) {
			tally->used = 0;
			image_routes_forget(&routes);
			forgotten++;
		}
	}
	assert_in_range(found, 2000, 19000);
	assert_true(forgotten > 0);
	/* When all entries are used, the fabric's process carries it. */
	image_routes_forget(&routes);
	memset(tally->entry, 0, sizeof(tally->entry));
	tally->used = TALLY_ENTRIES;
	for (uint32_t from = 9; from < 18; from++) {
		const struct image_question question = {
			.port = image_port_number(&routes.image, from, 1),
			.slid = world.fabric->node[from].port[1].info.lid,
			.dlid = (uint16_t)(4 + 4 * (from == 9 ? 10 : 9)), .pkey = PKEY_DEFAULT,
		};

		assert_null(image_route_find(&routes, &question));
	}
	assert_true(routes.full);
	free(tally);
	free(world.base);
	fabric_free(world.fabric);
}

static void entries_of_a_tally_are_found_again_until_all_are_used(void **unused)
{
	struct tally *tally = calloc(1, sizeof(*tally));
	struct image_path path = { .crossings = 2, .exit = { 1, 2 } };
	struct tally_entry *first, *group;

	assert_non_null(tally);
	first = tally_find(tally, &path, false);
	group = tally_find(tally, &path, true);
	assert_true(first && group && first != group);
	tally_count(first, 1, 4096);
	tally_count(first, 1, 8);
	assert_ptr_equal(tally_find(tally, &path, false), first);
	assert_int_equal(first->packets, 2);
	assert_int_equal(first->words, 1026);
	for (unsigned i = 2; i < TALLY_ENTRIES; i++) {
		path.exit[0] = 100 + i;
		assert_non_null(tally_find(tally, &path, false));
	}
	path.exit[0] = 5;
	assert_null(tally_find(tally, &path, false));
	free(tally);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_walk_says_what_packets_do),
		cmocka_unit_test(a_way_in_words_names_nodes_and_ports),
		cmocka_unit_test(no_number_of_an_image_is_believed),
		cmocka_unit_test(a_path_that_is_none_is_not_counted),
		cmocka_unit_test(a_route_that_is_kept_is_as_one_that_is_walked),
		cmocka_unit_test(entries_of_a_tally_are_found_again_until_all_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
