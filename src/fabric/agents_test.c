/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents: numbers, methods, transactions, timeouts and retries, in a time of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/test_random.h"
#include "fabric/agents.h"
#include "fabric/rmpp.h"
#include "fabric/test_fabric.h"

#define VENDOR	0x35
#define OUI	0x001405u
#define MS	1000u
#define LONG_MAX 32768u
#define SA_OFFSET 56u
#define SA_DATA	 (MAD_BYTES - SA_OFFSET)

/* What a program has read last. */
struct program {
	struct agents_file *file;
	unsigned messages;
	size_t bytes;
	struct agent_header header;
	uint8_t mad[MAD_BYTES];
	uint8_t data[LONG_MAX];		/* the last, as far as it fits */
};

static struct test_world world;
static struct agents *agents;

static void program_receive(void *user, const struct agent_header *header, const uint8_t *mad, size_t bytes)
{
	struct program *program = user;

	program->messages++;
	program->bytes = bytes;
	program->header = *header;
	memcpy(program->mad, mad, bytes < MAD_BYTES ? bytes : MAD_BYTES);
	memcpy(program->data, mad, bytes < LONG_MAX ? bytes : LONG_MAX);
}

/* Packets of RMPP: those whose bit is set in `lost` do not arrive. */
static struct {
	uint64_t lost;
	unsigned packets;
} wire;

static void agents_get(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		       const struct fabric_address *from)
{
	if (agents_class_has_rmpp(mad[1]) && rmpp_is_active(mad) && wire.packets++ < 64 &&
	    wire.lost >> (wire.packets - 1) & 1)
		return;
	agents_deliver(agents, node, port, mad, from, world.now_us);
}

static int agents_begin(void **unused)
{
	static const struct fabric_ops calls = { .deliver = agents_get };
	static const struct agents_ops ops = { .receive = program_receive };

	test_open(&world, TWO_SWITCHES);
	test_bring_up(&world);
	agents = agents_new(world.fabric, &ops);
	fabric_set_ops(world.fabric, &calls, NULL);
	return !agents;
}

static int agents_finish(void **unused)
{
	agents_free(agents);
	fabric_free(world.fabric);
	return 0;
}

static void program_open(struct program *program, uint32_t node)
{
	memset(program, 0, sizeof(*program));
	program->file = agents_open(agents, node, 1, program);
	assert_non_null(program->file);
}

static int program_register(struct program *program, uint8_t class, uint64_t methods, uint32_t *id)
{
	struct agent_request request = { .class = class, .class_version = 1, .oui = OUI,
					 .methods = { methods, 0 } };

	*id = AGENTS_ANY;
	return agents_register(program->file, &request, id);
}

static uint16_t lid_of(uint32_t node)
{
	struct fabric_port_info info;

	assert_true(fabric_port_info(world.fabric, node, 1, &info));
	return info.lid;
}

static int program_send(struct program *program, uint32_t id, uint32_t node, uint8_t class,
			uint8_t method, uint32_t tid, uint32_t timeout_ms, uint32_t retries)
{
	struct agent_header header = { .agent = id, .timeout_ms = timeout_ms, .retries = retries };
	uint8_t message[sizeof(header) + MAD_BYTES] = { 0 }, *mad = message + sizeof(header);

	put_be16(header.lid, node == FABRIC_NONE ? 0xbff0 : lid_of(node));
	put_be32(header.qpn, 1);
	put_be32(header.qkey, QKEY_GSI);
	memcpy(message, &header, sizeof(header));
	mad[0] = 1;
	mad[1] = class;
	mad[2] = 1;
	mad[3] = method;
	put_be32(mad + 12, tid);
	put_be24(mad + 37, OUI);
	return agents_write(program->file, message, sizeof(message), world.now_us);
}

static void methods_of_a_class_are_taken_on_the_port_and_not_elsewhere(void **unused)
{
	struct program one, two, other;
	uint32_t id;

	program_open(&one, HOST1);
	program_open(&two, HOST1);
	program_open(&other, HOST2);
	assert_int_equal(program_register(&one, VENDOR, 1u << 1, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(program_register(&two, VENDOR, 3u << 1, &id), EBUSY);
	assert_int_equal(program_register(&two, VENDOR, 1u << 2, &id), 0);
	assert_int_equal(program_register(&other, VENDOR, 1u << 1, &id), 0);
	agents_close(one.file);
	assert_int_equal(program_register(&two, VENDOR, 1u << 1, &id), 0);
	assert_int_equal(id, 1);
	assert_int_equal(agents_unregister(two.file, 0), 0);
	assert_int_equal(agents_unregister(two.file, 0), EINVAL);
	assert_int_equal(program_register(&two, 0, 0, &id), EINVAL);
	assert_int_equal(program_register(&two, 0x50, 0, &id), EINVAL);
	agents_close(two.file);
	agents_close(other.file);
}

static void a_request_goes_to_its_server_and_the_answer_back(void **unused)
{
	struct program client, server;
	uint32_t asking, serving;
	uint8_t message[sizeof(struct agent_header) + MAD_BYTES];

	program_open(&client, HOST1);
	program_open(&server, HOST4);
	assert_int_equal(program_register(&client, VENDOR, 0, &asking), 0);
	assert_int_equal(program_register(&server, VENDOR, 1u << 1, &serving), 0);
	assert_int_equal(program_send(&client, asking, HOST4, VENDOR, 1, 77, 100, 0), 0);
	assert_int_equal(server.messages, 1);
	assert_int_equal(get_be32(server.mad + 12), 77);
	assert_int_not_equal(get_be32(server.mad + 8), 0);
	assert_int_equal(get_be16(server.header.lid), lid_of(HOST1));
	server.mad[3] |= 0x80;
	server.header.agent = serving;
	memcpy(message, &server.header, sizeof(server.header));
	memcpy(message + sizeof(server.header), server.mad, MAD_BYTES);
	assert_int_equal(agents_write(server.file, message, sizeof(message), world.now_us), 0);
	assert_int_equal(client.messages, 1);
	assert_int_equal(client.header.status, 0);
	assert_int_equal(client.bytes, MAD_BYTES);
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
	/* A second answer is to nothing. */
	assert_int_equal(agents_write(server.file, message, sizeof(message), world.now_us), 0);
	assert_int_equal(client.messages, 1);
	/* By Get and Set that nobody serves: an answer that says so. */
	assert_int_equal(program_send(&client, asking, HOST3, VENDOR, 2, 78, 100, 0), 0);
	assert_int_equal(client.messages, 2);
	assert_int_equal(get_be16(client.mad + 4), 0x000c);
	agents_close(client.file);
	agents_close(server.file);
}

static void silence_ends_after_the_last_retry(void **unused)
{
	struct agents_statistics before, after;
	struct program client;
	uint32_t id;

	program_open(&client, HOST1);
	assert_int_equal(program_register(&client, VENDOR, 0, &id), 0);
	agents_statistics(agents, &before);
	assert_int_equal(program_send(&client, id, FABRIC_NONE, VENDOR, 1, 5, 100, 2), 0);
	assert_int_equal(program_send(&client, id, FABRIC_NONE, VENDOR, 1, 5, 100, 2), EINVAL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(client.messages, 0);
		assert_int_equal(agents_deadline_us(agents), world.now_us + 100 * MS);
		world.now_us += 100 * MS - 1;
		agents_timer(agents, world.now_us);
		world.now_us++;
		agents_timer(agents, world.now_us);
	}
	agents_statistics(agents, &after);
	assert_int_equal(after.retries - before.retries, 2);
	assert_int_equal(after.timeouts - before.timeouts, 1);
	assert_int_equal(client.messages, 1);
	assert_int_equal(client.header.status, ETIMEDOUT);
	assert_int_equal(client.bytes, MAD_HEADER_BYTES);
	assert_int_equal(get_be32(client.mad + 12), 5);
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
	/* Requests of an agent that goes end silently. */
	assert_int_equal(program_send(&client, id, FABRIC_NONE, VENDOR, 1, 6, 100, 2), 0);
	assert_int_equal(agents_unregister(client.file, id), 0);
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
	assert_int_equal(program_send(&client, id, HOST2, VENDOR, 1, 7, 100, 0), EINVAL);
	agents_close(client.file);
}

/* Nothing comes back from what cannot be sent: who waits is told in time, as of any silence. */
static void what_cannot_be_sent_times_out(void **unused)
{
	struct agent_header header = { .timeout_ms = 100, .retries = 1 };
	uint8_t message[sizeof(header) + 300] = { 0 }, *mad = message + sizeof(header);
	struct program client;
	uint32_t id;

	program_open(&client, HOST1);
	assert_int_equal(program_register(&client, VENDOR, 0, &id), 0);
	for (unsigned wrong = 0; wrong < 3; wrong++) {
		header.agent = id;
		header.pkey_index = wrong == 0 ? 9 : 0;		/* there is no such key */
		put_be32(header.qpn, wrong == 1 ? 5 : 1);	/* it is no QP for MADs */
		put_be16(header.lid, lid_of(HOST4));
		memcpy(message, &header, sizeof(header));
		mad[0] = mad[2] = mad[3] = 1;
		mad[1] = VENDOR;
		put_be32(mad + 12, 30 + wrong);
		client.messages = 0;
		assert_int_equal(agents_write(client.file, message,
					      sizeof(header) + (wrong == 2 ? 300 : MAD_BYTES),
					      world.now_us), EINVAL);
		world.now_us += 201 * MS;
		agents_timer(agents, world.now_us - 100 * MS);
		agents_timer(agents, world.now_us);
		assert_int_equal(client.messages, 1);
		assert_int_equal(client.header.status, ETIMEDOUT);
		assert_int_equal(get_be32(client.mad + 12), 30 + wrong);
		assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
	}
	agents_close(client.file);
}

/* A program that does RMPP itself, and is registered without it: every segment is its own. */
static void segments_reach_a_program_that_puts_them_together(void **unused)
{
	uint8_t message[sizeof(struct agent_header) + MAD_BYTES];
	struct program client, server;
	uint32_t asking, serving;

	program_open(&client, HOST1);
	program_open(&server, HOST4);
	assert_int_equal(program_register(&client, VENDOR, 0, &asking), 0);
	assert_int_equal(program_register(&server, VENDOR, 1u << 1, &serving), 0);
	assert_int_equal(program_send(&client, asking, HOST4, VENDOR, 1, 5, 100, 0), 0);
	server.mad[3] |= 0x80;
	server.mad[24] = server.mad[25] = 1;	/* DATA */
	server.mad[26] = 1;			/* active */
	server.header.agent = serving;
	for (unsigned segment = 1; segment <= 3; segment++) {
		put_be32(server.mad + 28, segment);
		memcpy(message, &server.header, sizeof(server.header));
		memcpy(message + sizeof(server.header), server.mad, MAD_BYTES);
		assert_int_equal(
			agents_write(server.file, message, sizeof(message), world.now_us), 0);
		assert_int_equal(client.messages, segment);
		assert_int_equal(get_be32(client.mad + 28), segment);
	}
	agents_close(client.file);
	agents_close(server.file);
}

/* ---- a subnet that loses MADs, in a time of its own ---- */

#define REQUESTS	200u

/* What a program was told of each of its requests, by TID. */
struct asker {
	unsigned answers[REQUESTS], timeouts[REQUESTS], others;
};

static void asker_receive(void *user, const struct agent_header *header, const uint8_t *mad, size_t bytes)
{
	struct asker *asker = user;
	uint32_t tid = get_be32(mad + 12);

	if (tid >= REQUESTS || mad[16] || mad[17] != 0x11)
		asker->others++;
	else if (header->status == ETIMEDOUT)
		asker->timeouts[tid]++;
	else if (!header->status && mad[3] == MAD_METHOD_GET_RESPONSE)
		asker->answers[tid]++;
	else
		asker->others++;
}

/* A Get of NodeInfo by a directed route to sw2, or to the host behind it. */
static void ask_node_info(struct agents_file *file, uint32_t id, uint32_t tid, uint64_t *random)
{
	struct agent_header header = { .agent = id,
				       .timeout_ms = 10 + (uint32_t)test_random(random) % 90,
				       .retries = (uint32_t)test_random(random) % 4,
				       .lid = { 0xff, 0xff } };
	uint8_t message[sizeof(header) + MAD_BYTES] = { 0 }, *mad = message + sizeof(header);

	memcpy(message, &header, sizeof(header));
	mad_write(&(struct mad_header){ .base_version = 1, .class = MAD_CLASS_SUBNET_DIRECTED,
					.class_version = 1, .method = MAD_METHOD_GET,
					.attribute_id = 0x11, .transaction_id = tid }, mad);
	put_be32(mad + SMP_DR_SLID, 0xffffffff);
	mad[SMP_HOP_COUNT] = (uint8_t)(2 + test_random(random) % 2);
	memcpy(mad + SMP_INITIAL_PATH, "\0\1\3\1", 4);
	assert_int_equal(agents_write(file, message, sizeof(message), world.now_us), 0);
}

/*
 * Cables that lose a third of all, are pulled and plugged in again: every request ends, once, by
 * its answer or by its timeout.
 */
static void whatever_is_lost_each_request_ends_once(void **unused)
{
	static const struct agents_ops calls = { .receive = asker_receive };
	struct agent_request request = { .class = MAD_CLASS_SUBNET_DIRECTED, .class_version = 1 };
	struct agents *before = agents;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t random = seed, deadline_us;
		struct asker asker = { .others = 0 };
		struct agents_file *file;
		uint32_t id = AGENTS_ANY;
		unsigned asked = 0, answered = 0;

		agents = agents_new(world.fabric, &calls);
		file = agents_open(agents, HOST1, 1, &asker);
		assert_int_equal(agents_register(file, &request, &id), 0);
		assert_int_equal(fabric_set_errors(world.fabric, SW2, 3, 33, 0), 0);
		assert_int_equal(fabric_set_errors(world.fabric, HOST1, 1, 20, 0), 0);
		while (asked < REQUESTS || agents_deadline_us(agents) != FABRIC_NEVER) {
			if (asked < REQUESTS)
				ask_node_info(file, id, asked++, &random);
			if (test_random(&random) % 16 == 0)
				fabric_set_cable(world.fabric, SW1, 3, test_random(&random) % 2,
						 world.now_us);
			deadline_us = agents_deadline_us(agents);
			world.now_us += test_random(&random) % (20 * MS);
			if (asked == REQUESTS && deadline_us != FABRIC_NEVER &&
			    deadline_us > world.now_us)
				world.now_us = deadline_us;
			agents_timer(agents, world.now_us);
			fabric_timer(world.fabric, world.now_us);
		}
		for (unsigned i = 0; i < REQUESTS; i++) {
			if (asker.answers[i] + asker.timeouts[i] != 1)
				fail_msg("seed %u, request %u: %u answers, %u timeouts",
					 (unsigned)seed, i, asker.answers[i], asker.timeouts[i]);
			answered += asker.answers[i];
		}
		assert_int_equal(asker.others, 0);
		assert_in_range(answered, 1, REQUESTS - 1);
		agents_free(agents);
		fabric_set_cable(world.fabric, SW1, 3, true, world.now_us);
	}
	fabric_set_errors(world.fabric, SW2, 3, 0, 0);
	fabric_set_errors(world.fabric, HOST1, 1, 0, 0);
	agents = before;
}

/* ---- long messages ---- */

static uint32_t program_register_sa(struct program *program, uint64_t methods)
{
	struct agent_request request = { .class = MAD_CLASS_ADMINISTRATION, .class_version = 2,
					 .rmpp_version = 1, .methods = { methods, 0 } };
	uint32_t id = AGENTS_ANY;

	assert_int_equal(agents_register(program->file, &request, &id), 0);
	return id;
}

/* A message of class 3 whose every byte of data tells where it stands. */
static int sa_write(struct program *program, uint32_t id, uint32_t to, uint8_t method, uint64_t tid,
		    size_t bytes, bool active, uint32_t timeout_ms, uint32_t retries)
{
	struct agent_header header = { .agent = id, .timeout_ms = timeout_ms, .retries = retries };
	static uint8_t message[sizeof(header) + LONG_MAX];
	uint8_t *mad = message + sizeof(header);

	assert_true(bytes <= LONG_MAX);
	put_be16(header.lid, lid_of(to));
	put_be32(header.qpn, 1);
	memcpy(message, &header, sizeof(header));
	for (size_t i = 0; i < bytes; i++)
		mad[i] = (uint8_t)(i * 7 + i / 251);
	memset(mad, 0, SA_OFFSET);
	mad[0] = 1;
	mad[1] = MAD_CLASS_ADMINISTRATION;
	mad[2] = 2;
	mad[3] = method;
	put_be64(mad + 8, tid);
	mad[RMPP_FLAGS] = active;
	return agents_write(program->file, message, sizeof(header) + bytes, world.now_us);
}

static void assert_long(const struct program *program, size_t bytes)
{
	assert_int_equal(program->bytes, bytes);
	assert_int_equal(program->header.length, sizeof(program->header) + bytes);
	for (size_t i = SA_OFFSET; i < bytes; i++)
		if (program->data[i] != (uint8_t)(i * 7 + i / 251))
			fail_msg("byte %u of %u", (unsigned)i, (unsigned)bytes);
}

/* Until nothing is to be done before @until_us. */
static void pass_until(uint64_t until_us)
{
	uint64_t next;

	while ((next = agents_deadline_us(agents)) <= until_us) {
		world.now_us = next > world.now_us ? next : world.now_us;
		agents_timer(agents, world.now_us);
	}
}

/*
 * The answer of an SA of seven segments, of which any of the first twelve packets is lost: it is
 * read once, or the client is told that it was not; and the server is told of its own failure alone.
 */
static void a_long_answer_arrives_under_every_mask_of_losses(void **unused)
{
	size_t bytes = SA_OFFSET + 7 * SA_DATA - 30;
	struct program client, server;
	uint32_t asking, serving;

	program_open(&client, HOST1);
	program_open(&server, HOST4);
	asking = program_register_sa(&client, 0);
	serving = program_register_sa(&server, UINT64_C(1) << 0x12);
	for (uint64_t mask = 0; mask < 1u << 12; mask++) {
		wire.lost = 0;
		client.messages = server.messages = 0;
		assert_int_equal(sa_write(&client, asking, HOST4, 0x12, mask, MAD_BYTES, false,
					  60000, 0), 0);
		assert_int_equal(server.messages, 1);
		wire.lost = mask;
		wire.packets = 0;
		assert_int_equal(sa_write(&server, serving, HOST1, 0x92, get_be64(server.mad + 8),
					  bytes, true, 0, 12), 0);
		pass_until(world.now_us + 29000 * MS);
		assert_int_equal(client.messages, 1);
		assert_int_equal(client.header.status, 0);
		assert_long(&client, bytes);
		assert_int_equal(server.messages, 1);
	}
	wire.lost = 0;
	agents_close(client.file);
	agents_close(server.file);
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
}

static void requests_may_be_long_too(void **unused)
{
	size_t bytes = SA_OFFSET + 100 * SA_DATA - 1;
	struct program client, server;
	uint32_t asking, serving;

	program_open(&client, HOST1);
	program_open(&server, HOST4);
	asking = program_register_sa(&client, 0);
	serving = program_register_sa(&server, UINT64_C(1) << 0x14);
	assert_int_equal(sa_write(&client, asking, HOST4, 0x14, 9, bytes, true, 500, 3), 0);
	assert_int_equal(sa_write(&client, asking, HOST4, 0x14, 9, bytes, true, 500, 3), EINVAL);
	pass_until(world.now_us + 100 * MS);
	assert_int_equal(server.messages, 1);
	assert_long(&server, bytes);
	assert_int_equal(client.messages, 0);
	assert_int_equal(sa_write(&server, serving, HOST1, 0x94, get_be64(server.mad + 8), bytes,
				  true, 0, 3), 0);
	pass_until(world.now_us + 100 * MS);
	assert_int_equal(client.messages, 1);
	assert_long(&client, bytes);
	assert_int_equal(get_be32(client.mad + 12), 9);
	/* One that is not answered ends, too. */
	assert_int_equal(sa_write(&client, asking, HOST4, 0x14, 10, bytes, true, 500, 3), 0);
	pass_until(world.now_us + 499 * MS);
	assert_int_equal(client.messages, 1);
	pass_until(world.now_us + 500 * MS);
	assert_int_equal(client.messages, 2);
	assert_int_equal(client.header.status, ETIMEDOUT);
	agents_close(client.file);
	agents_close(server.file);
}

/* The client is gone in the middle: the server is told, after its retries. */
static void who_answers_a_program_that_has_gone_is_told(void **unused)
{
	struct program client, server;
	uint32_t asking, serving;
	uint64_t tid, begin_us;

	program_open(&client, HOST1);
	program_open(&server, HOST4);
	asking = program_register_sa(&client, 0);
	serving = program_register_sa(&server, UINT64_C(1) << 0x12);
	assert_int_equal(sa_write(&client, asking, HOST4, 0x12, 1, MAD_BYTES, false, 500, 3), 0);
	tid = get_be64(server.mad + 8);
	assert_int_equal(sa_write(&server, serving, HOST1, 0x92, tid, LONG_MAX, true, 0, 3), 0);
	agents_close(client.file);		/* behind the first segment */
	assert_int_equal(sa_write(&server, serving, HOST1, 0x92, tid, LONG_MAX, true, 0, 3),
			 EINVAL);		/* this one is on its way */
	begin_us = world.now_us;
	server.messages = 0;
	pass_until(begin_us + 7999 * MS);
	assert_int_equal(server.messages, 0);
	pass_until(begin_us + 8000 * MS);
	assert_int_equal(server.messages, 1);
	assert_int_equal(server.header.status, ETIMEDOUT);
	assert_int_equal(server.bytes, MAD_HEADER_BYTES);
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
	assert_int_equal(sa_write(&server, serving, HOST1, 0x92, tid, LONG_MAX, true, 0, 3), 0);
	agents_close(server.file);	/* and what it was sending with it */
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
}

/* A message whose rest never comes takes no memory for ever; too many take no more than they may. */
static void what_is_never_whole_is_given_up(void **unused)
{
	struct agents_statistics before, after;
	struct program client, server;
	uint32_t sending;
	uint8_t message[sizeof(struct agent_header) + MAD_BYTES] = { 0 };
	struct agent_header header = { .agent = 0 };
	struct agent_request raw = { .class = MAD_CLASS_ADMINISTRATION, .class_version = 2 };
	uint8_t *mad = message + sizeof(header);

	program_open(&client, HOST1);
	program_open(&server, HOST4);
	sending = AGENTS_ANY;
	assert_int_equal(agents_register(client.file, &raw, &sending), 0);
	program_register_sa(&server, UINT64_C(1) << 0x14);
	header.agent = sending;
	put_be16(header.lid, lid_of(HOST4));
	put_be32(header.qpn, 1);
	memcpy(message, &header, sizeof(header));
	mad_write(&(struct mad_header){ .base_version = 1, .class = MAD_CLASS_ADMINISTRATION,
					.class_version = 2, .method = 0x14 }, mad);
	mad[RMPP_VERSION] = mad[RMPP_TYPE] = 1;
	mad[RMPP_FLAGS] = RMPP_ACTIVE | RMPP_FIRST;
	put_be32(mad + RMPP_SEGMENT, 1);
	agents_statistics(agents, &before);
	for (unsigned i = 0; i < 1000; i++) {
		put_be32(mad + 12, i);
		assert_int_equal(agents_write(client.file, message, sizeof(message), world.now_us),
				 0);
	}
	pass_until(world.now_us + 39999 * MS);
	assert_int_not_equal(agents_deadline_us(agents), FABRIC_NEVER);
	pass_until(world.now_us + 40000 * MS);
	assert_int_equal(agents_deadline_us(agents), FABRIC_NEVER);
	agents_statistics(agents, &after);
	assert_int_equal(after.aborted - before.aborted, 256);
	assert_int_equal(server.messages, 0);
	agents_close(client.file);
	agents_close(server.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(methods_of_a_class_are_taken_on_the_port_and_not_elsewhere),
		cmocka_unit_test(a_request_goes_to_its_server_and_the_answer_back),
		cmocka_unit_test(silence_ends_after_the_last_retry),
		cmocka_unit_test(what_cannot_be_sent_times_out),
		cmocka_unit_test(segments_reach_a_program_that_puts_them_together),
		cmocka_unit_test(a_long_answer_arrives_under_every_mask_of_losses),
		cmocka_unit_test(requests_may_be_long_too),
		cmocka_unit_test(who_answers_a_program_that_has_gone_is_told),
		cmocka_unit_test(what_is_never_whole_is_given_up),
		cmocka_unit_test(whatever_is_lost_each_request_ends_once),
	};

	return cmocka_run_group_tests(tests, agents_begin, agents_finish);
}
