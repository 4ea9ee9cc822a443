/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments that go together and segments that go one by one are the same to everybody: what programs read and
 * when, every counter of every port, statistics, what is lost and why, what a trace sees, and chance itself. In
 * subnets that are sound, that err, that change meanwhile, by seed. And so are messages that are copied and those
 * that are handed on as they are.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/test_random.h"
#include "fabric/agents.h"
#include "fabric/rmpp.h"
#include "fabric/test_fabric.h"

#define SA_OFFSET	56u
#define SA_DATA		(MAD_BYTES - SA_OFFSET)
#define MESSAGE_MAX	(SA_OFFSET + 300 * SA_DATA)
#define MS		1000u
#define SEEDS		400u

/* All that anybody could tell apart. */
struct outcome {
	uint64_t told;			/* a hash of what programs and the console were told, in its order */
	uint64_t counter[6][5][COUNTERS];
	enum port_state state[6][5];
	struct fabric_statistics fabric;
	struct agents_statistics agents;
	uint32_t random, psn;
	unsigned messages;		/* long ones that were read */
};

static struct test_world world;
static struct agents *agents;
static struct outcome *outcome;
static unsigned trains;
static uint64_t lost, packets;		/* of RMPP, by number: at the very end of their way */
static unsigned sealed_ones, held;	/* long messages that were read where they were; that somebody holds */

static void outcome_tell(const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < bytes; i++)
		outcome->told = (outcome->told ^ byte[i]) * UINT64_C(1099511628211);
}

static void train_deliver(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
			  const struct fabric_address *from)
{
	if (agents_class_has_rmpp(mad[1]) && rmpp_is_active(mad) && packets++ < 64 && lost >> (packets - 1) & 1)
		return;
	agents_deliver(agents, node, port, mad, from, world.now_us);
}

static bool train_deliver_train(void *context, uint32_t node, uint32_t port, const struct fabric_train *train,
				const struct fabric_address *from)
{
	if ((packets < 64 && lost >> packets) || !agents_deliver_train(agents, node, port, train, from))
		return false;
	packets += train->count;
	trains++;
	return true;
}

static void train_lost(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES], const char *why)
{
	outcome_tell(&node, sizeof(node));
	outcome_tell(&port, sizeof(port));
	outcome_tell(mad, MAD_BYTES);
	outcome_tell(why, strlen(why));
}

static void train_packet(void *context, const struct fabric_packet *packet)
{
	outcome_tell(packet->data, packet->bytes);
	outcome_tell(&packet->node, sizeof(packet->node));
	outcome_tell(&packet->port, sizeof(packet->port));
	outcome_tell(&packet->now_us, sizeof(packet->now_us));
}

static uint8_t asked[sizeof(struct agent_header) + MAD_BYTES];

static void train_receive(void *user, const struct agent_header *header, const uint8_t *mad, size_t bytes)
{
	outcome_tell(user, 1);
	outcome_tell(header, sizeof(*header));
	outcome_tell(mad, bytes);
	outcome_tell(&world.now_us, sizeof(world.now_us));
	outcome->messages += bytes > MAD_BYTES;
	if (*(const char *)user == 's' && bytes == MAD_BYTES) {
		memcpy(asked, header, sizeof(*header));
		memcpy(asked + sizeof(*header), mad, bytes);
	}
}

static void train_receive_sealed(void *user, const struct agent_header *header, const uint8_t first[MAD_BYTES],
				 struct rmpp_sealed *rest)
{
	static uint8_t whole[MESSAGE_MAX];

	assert_true(rest->bytes <= sizeof(whole) && held == 1);
	memcpy(whole, first, MAD_BYTES);
	memcpy(whole + MAD_BYTES, rest->message + MAD_BYTES, rest->bytes - MAD_BYTES);
	sealed_ones++;
	train_receive(user, header, whole, rest->bytes);
}

static void held_release(struct rmpp_sealed *sealed)
{
	held--;
	free((uint8_t *)(uintptr_t)sealed->message);
	free(sealed);
}

/* Of a sealed one the beginning is nobody's business: it is what stands before it that counts. */
static void train_write(struct agents_file *file, bool seals, const uint8_t *message, size_t bytes)
{
	size_t mad = bytes - sizeof(struct agent_header);
	struct rmpp_sealed *sealed;
	uint8_t *copy;

	if (!seals || mad <= MAD_BYTES) {
		agents_write(file, message, bytes, world.now_us);
		return;
	}
	sealed = malloc(sizeof(*sealed));
	copy = malloc(mad);
	assert_true(sealed && copy);
	memcpy(copy, message + sizeof(struct agent_header), mad);
	memset(copy, 0xee, SA_OFFSET);
	*sealed = (struct rmpp_sealed){ .message = copy, .bytes = mad, .holders = 1, .release = held_release };
	held++;
	agents_write_sealed(file, message, sealed, world.now_us);
	rmpp_sealed_put(sealed);
}

static struct agents_file *train_program(uint32_t node, const char *name, uint64_t methods)
{
	struct agents_file *file = agents_open(agents, node, 1, (void *)(uintptr_t)name);
	struct agent_request request = { .class = MAD_CLASS_ADMINISTRATION, .class_version = 2,
					 .rmpp_version = 1, .methods = { methods, 0 } };
	uint32_t id = AGENTS_ANY;

	assert_non_null(file);
	assert_int_equal(agents_register(file, &request, &id), 0);
	return file;
}

/* A port of the way between host1 and host4. */
static struct fabric_port *some_port(uint64_t *random, uint32_t *node, uint32_t *port)
{
	static const struct { uint32_t node, port; } ports[] = {
		{ HOST1, 1 }, { SW1, 1 }, { SW1, 3 }, { SW2, 3 }, { SW2, 2 }, { HOST4, 1 },
	};
	unsigned i = test_random(random) % 6;

	*node = ports[i].node;
	*port = ports[i].port;
	return &world.fabric->node[*node].port[*port];
}

/* Something that a segment by itself may meet. */
static void plant(uint64_t *random)
{
	uint32_t node, port;
	struct fabric_port *at = some_port(random, &node, &port);

	switch (test_random(random) % 10) {
	case 0:
		fabric_set_errors(world.fabric, node, port, test_random(random) % 20, 0);
		break;
	case 1:
		fabric_set_errors(world.fabric, node, port, 50, test_random(random) % 2 ? 0x35 : 0x11);
		break;
	case 2:
		fabric_set_bit_errors(world.fabric, node, port, test_random(random) % 2 ? 1e-5 : 1e-12,
				      world.now_us);
		break;
	case 3:
		fabric_set_cable(world.fabric, node, port, test_random(random) % 2, world.now_us);
		break;
	case 4:
		at->state = PORT_ARMED;		/* the first packet makes it Active */
		at->info.port_state = FABRIC_PORT_ARMED;
		break;
	case 5:
		fabric_hold_route(world.fabric, test_random(random) % 2 ? SW1 : SW2,
				  test_random(random) % 2 ? 3 : 6,
				  test_random(random) % 2 ? 255 : test_random(random) % 4);
		break;
	case 6:
		at->info.partition_enforcement_inbound = test_random(random) % 2;
		at->info.partition_enforcement_outbound = test_random(random) % 2;
		fabric_hold_pkey(world.fabric, node, port, 0, test_random(random) % 2 ? 0x7fff : 0x8001);
		break;
	case 7:
		at->info.neighbor_mtu = test_random(random) % 2;
		break;
	case 8:
		at->info.operational_vls = (uint8_t)(test_random(random) % 2);
		break;
	default:
		fabric_set_power(world.fabric, test_random(random) % 2 ? SW2 : HOST4, test_random(random) % 2,
				 world.now_us);
	}
}

enum how { ONE_BY_ONE, TOGETHER, SEALED };

static void conversation(uint64_t seed, enum how how, bool sound, bool traced, struct outcome *result)
{
	static uint8_t message[sizeof(struct agent_header) + MESSAGE_MAX];
	const struct fabric_ops calls = { .deliver = train_deliver, .lost = train_lost,
					  .deliver_train = how ? train_deliver_train : NULL,
					  .packet = traced ? train_packet : NULL };
	static const struct agents_ops ops = { .receive = train_receive, .receive_sealed = train_receive_sealed };
	struct agent_header header = { .agent = 0, .timeout_ms = 60000 };
	struct agents_file *client, *server;
	uint64_t random = seed, next;
	bool grh = test_random(&random) % 4 == 0, request = test_random(&random) % 4 == 0;
	size_t bytes = SA_OFFSET + 1 + test_random(&random) % (MESSAGE_MAX - SA_OFFSET);

	outcome = result;
	memset(outcome, 0, sizeof(*outcome));
	packets = 0;
	lost = sound || test_random(&random) % 2 ? 0 :
	       test_random(&random) & test_random(&random) & test_random(&random) & test_random(&random);
	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	agents = agents_new(world.fabric, &ops);
	fabric_set_ops(world.fabric, &calls, NULL);
	client = train_program(HOST1, "c", 0);
	server = train_program(HOST4, "s", UINT64_C(1) << 0x12 | UINT64_C(1) << 0x14);
	for (unsigned i = sound ? 3 : test_random(&random) % 3; i < 3; i++)
		plant(&random);
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)(i * 7 + i / 251);
	memset(message, 0, sizeof(header) + SA_OFFSET);
	memset(asked, 0, sizeof(asked));
	put_be16(header.lid, 6);
	put_be32(header.qpn, 1);
	if (grh) {
		header.grh_present = 1;
		header.hop_limit = 1;
		fabric_gid(world.fabric, HOST4, 1, 0, header.gid);
	}
	memcpy(message, &header, sizeof(header));
	mad_write(&(struct mad_header){ .base_version = 1, .class = MAD_CLASS_ADMINISTRATION, .class_version = 2,
					.method = request ? 0x14 : 0x12, .attribute_id = 0x35,
					.transaction_id = 9 }, message + sizeof(header));
	message[sizeof(header) + RMPP_FLAGS] = request ? RMPP_ACTIVE : 0;
	train_write(client, how == SEALED, message, sizeof(header) + (request ? bytes : MAD_BYTES));
	if (asked[sizeof(header)]) {		/* the question arrived: a long answer */
		memcpy(&header, asked, sizeof(header));
		header.timeout_ms = 0;
		header.retries = 5;
		memcpy(message, &header, sizeof(header));
		memcpy(message + sizeof(header), asked + sizeof(header), MAD_HEADER_BYTES);
		message[sizeof(header) + 3] = 0x92;
		message[sizeof(header) + RMPP_FLAGS] = RMPP_ACTIVE;
		train_write(server, how == SEALED, message, sizeof(header) + bytes);
	}
	while ((next = agents_deadline_us(agents)) != FABRIC_NEVER) {
		if (!sound && test_random(&random) % 4 == 0)
			plant(&random);
		if (fabric_deadline_us(world.fabric) < next)
			next = fabric_deadline_us(world.fabric);
		world.now_us = next > world.now_us ? next : world.now_us;
		fabric_timer(world.fabric, world.now_us);
		agents_timer(agents, world.now_us);
	}
	agents_statistics(agents, &outcome->agents);
	outcome->fabric = world.fabric->statistics;
	outcome->random = world.fabric->error_random;
	outcome->psn = world.fabric->psn;
	for (uint32_t node = 0; node < 6; node++)
		for (unsigned port = 0; port <= world.fabric->node[node].ports; port++) {
			memcpy(outcome->counter[node][port], world.fabric->node[node].port[port].counter,
			       sizeof(outcome->counter[node][port]));
			outcome->state[node][port] = world.fabric->node[node].port[port].state;
		}
	agents_free(agents);
	fabric_free(world.fabric);
	assert_int_equal(held, 0);
}

static void assert_same(uint64_t seed, const struct outcome *single, const struct outcome *train)
{
	for (unsigned node = 0; node < 6; node++)
		for (unsigned port = 0; port < 5; port++)
			for (unsigned i = 0; i < COUNTERS; i++)
				if (single->counter[node][port][i] != train->counter[node][port][i])
					fail_msg("seed %llu, node %u, port %u, %s: %llu one by one, %llu together",
						 (unsigned long long)seed, node, port, port_counter_name(i),
						 (unsigned long long)single->counter[node][port][i],
						 (unsigned long long)train->counter[node][port][i]);
	if (memcmp(single, train, sizeof(*single)))
		fail_msg("seed %llu: not the same, but for the counters", (unsigned long long)seed);
}

static void in_a_sound_subnet_they_go_together_and_count_each(void **unused)
{
	static struct outcome single, train;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		uint64_t random = seed;
		size_t bytes;

		test_random(&random);
		test_random(&random);
		bytes = SA_OFFSET + 1 + test_random(&random) % (MESSAGE_MAX - SA_OFFSET);
		conversation(seed, ONE_BY_ONE, true, false, &single);
		trains = 0;
		conversation(seed, TOGETHER, true, false, &train);
		/* A window of 64 is a train but for its last segment. */
		assert_true(trains >= bytes / SA_DATA / 64);
		assert_true(bytes <= MAD_BYTES || single.messages == 1);
		assert_same(seed, &single, &train);
		sealed_ones = 0;
		conversation(seed, SEALED, true, false, &train);
		assert_same(seed, &single, &train);
		assert_int_equal(sealed_ones, trains > 0);
	}
}

static void whatever_is_wrong_nobody_can_tell_them_apart(void **unused)
{
	static struct outcome single, train;
	unsigned with = 0, without = 0, unread = 0, sealed = 0, copied = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		conversation(seed, ONE_BY_ONE, false, false, &single);
		trains = 0;
		conversation(seed, TOGETHER, false, false, &train);
		assert_same(seed, &single, &train);
		with += trains > 0;
		without += !trains;
		unread += !train.messages;
		sealed_ones = 0;
		conversation(seed, SEALED, false, false, &train);
		assert_same(seed, &single, &train);
		sealed += sealed_ones > 0;
		copied += train.messages && !sealed_ones;
	}
	/* Or it would show nothing. */
	assert_true(with > SEEDS / 20 && without > SEEDS / 20 && unread > SEEDS / 20 &&
		    sealed > SEEDS / 20 && copied > SEEDS / 20);
}

static void what_is_traced_is_seen_one_by_one(void **unused)
{
	static struct outcome single, train;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		conversation(seed, ONE_BY_ONE, seed % 2, true, &single);
		trains = 0;
		conversation(seed, seed % 3 ? TOGETHER : SEALED, seed % 2, true, &train);
		assert_int_equal(trains, 0);
		assert_same(seed, &single, &train);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_sound_subnet_they_go_together_and_count_each),
		cmocka_unit_test(whatever_is_wrong_nobody_can_tell_them_apart),
		cmocka_unit_test(what_is_traced_is_seen_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
