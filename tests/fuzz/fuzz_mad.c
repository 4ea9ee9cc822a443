/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: management datagrams and all that can be done with connections. The input begins with
 * a MAD (or a packet to QP1 with one, as the captures have them), which is parsed, written, parsed and
 * printed, and comes to a protocol that has a connection in every state; then the rest of the input
 * is a script of messages, calls and time. Whatever it is: memory stays in bounds (ASan), tables and
 * timers agree, events are told to owners alone, and in the end nothing is left.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/protocol/internal.h"
#include "input.h"
#include "wire/dump.h"

#define SLOTS		12u
#define STEPS_MAX	400u
#define SERVICE		UINT64_C(0x0000000001061c06)
#define SECOND		UINT64_C(1000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static const uint8_t private_data[256] = { 1, 2, 3 };

struct world {
	struct cm_protocol *protocol;
	struct input *input;
	struct cm_connection *slot[SLOTS];
	struct cm_listener *listener;
	struct mad_address peer[2];
	uint64_t now_ns, random;
	uint8_t last_sent[MAD_BYTES];
	bool sent;
};

static void require(int truth)
{
	if (!truth)
		abort();
}


/* ---- what the protocol asks for ---- */

static void host_send(void *host, const struct mad_address *to, const struct cm_message *message)
{
	struct world *world = host;
	struct cm_message again;
	char line[DUMP_LINE_MAX];

	cm_message_write(message, world->last_sent);
	require(cm_message_parse(world->last_sent, &again) && again.kind == message->kind);
	require(mad_dump(world->last_sent, line, sizeof(line)) < (int)sizeof(line));
	world->sent = true;
	if (next8(world->input) > 240)
		cm_undeliverable(world->protocol, to, world->last_sent, world->now_ns);
}

static struct cm_connection **slot_of(struct world *world, const struct cm_connection *connection)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (world->slot[i] == connection)
			return &world->slot[i];
	return NULL;
}

static void let_go(struct world *world, struct cm_connection **slot)
{
	struct cm_connection *connection = *slot;

	*slot = NULL;
	if (connection)
		cm_abandon(connection, world->now_ns);
}

static void take_request(struct world *world, struct cm_connection *connection)
{
	struct cm_connection **slot = slot_of(world, NULL);
	uint8_t choice = next8(world->input);

	if (slot && choice < 200) {
		*slot = connection;
		cm_set_owner(connection, world);
	} else if (choice < 220) {
		cm_forget(connection);
	} else if (choice < 235) {
		cm_reject(connection, 28, NULL, 0, NULL, 0, world->now_ns);
	} else if (choice < 245) {
		cm_abandon(connection, world->now_ns);
	}
}

static void host_event(void *host, const struct cm_event *event)
{
	struct world *world = host;
	struct cm_connection **slot;

	require(event->owner == world);
	if (event->kind == CM_EVENT_REQ || event->kind == CM_EVENT_SIDR_REQ) {
		require(event->message && event->from);
		take_request(world, event->connection);
		return;
	}
	slot = slot_of(world, event->connection);
	require(slot != NULL);		/* not one that was let go */
	if (event->kind == CM_EVENT_REJ)
		require(event->message->rej.info_bytes <= CM_INFO_BYTES);
	if (next8(world->input) > 220)
		let_go(world, slot);
	if (next8(world->input) > 240)
		let_go(world, &world->slot[next8(world->input) % SLOTS]);
}

static uint32_t host_random(void *host)
{
	struct world *world = host;

	return (uint32_t)(world->random = world->random * UINT64_C(6364136223846793005) + 1);
}

static void host_count(void *host, int counter)
{
	require(counter >= 0 && counter < COUNTER_COUNT);
}

static const struct cm_ops host_ops = {
	.send = host_send, .event = host_event, .random = host_random, .count = host_count,
};

/* ---- operations ---- */

static void receive(struct world *world, const uint8_t mad[MAD_BYTES], unsigned from)
{
	cm_receive(world->protocol, &world->peer[from], mad, world->now_ns);
}

/* A message with IDs that may fit something, and some bytes changed. */
static void receive_message(struct world *world, struct input *input)
{
	struct cm_message message = { .kind = (enum cm_message_kind)(next8(input) %
								     CM_MESSAGE_KINDS) };
	const struct cm_connection *connection = world->slot[next8(input) % SLOTS];
	uint8_t changes = next8(input) % 5, mad[MAD_BYTES];

	message.transaction_id = next8(input) % 4;
	message.rtu.local_comm_id = 0x100 + next8(input) % 8;
	if (message.kind == CM_MESSAGE_REQ) {
		message.req.service_id = SERVICE;
		message.req.local_qpn = next8(input) % 8;
		message.req.path_mtu = 3;
		message.req.local_response_timeout = next8(input);
		message.req.max_retries = next8(input);
	} else if (message.kind == CM_MESSAGE_SIDR_REQ) {
		message.sidr_req.service_id = SERVICE;
	} else if (message.kind == CM_MESSAGE_SIDR_REP) {
		message.sidr_rep.request_id = connection ? connection->local_id : 0;
	} else {
		if (connection && connection->peer_known && changes)
			message.rtu.local_comm_id = connection->remote_id;
		message.rtu.remote_comm_id = connection ? connection->local_id : 0;
		if (message.kind == CM_MESSAGE_DREQ)
			message.dreq.remote_qpn = connection ? connection->local_qpn : 0;
		if (message.kind == CM_MESSAGE_REP)
			message.rep.local_qpn = next8(input) % 8;
	}
	cm_message_write(&message, mad);
	for (; changes > 1; changes--)
		mad[next8(input)] = next8(input);
	receive(world, mad, next8(input) > 230);
}

static void connect_one(struct world *world, struct input *input)
{
	struct cm_connection **slot = slot_of(world, NULL);
	const struct cm_connect connect = {
		.service_id = SERVICE, .address = world->peer[0], .local_qpn = next8(input),
		.response_timeout = next8(input) % 34, .max_retries = next8(input) % 17,
		.transport = (enum cm_transport)(next8(input) % 5), .path_mtu = 3,
		.private_data = private_data, .private_data_bytes = next8(input) % 100,
	};
	struct cm_connection *made;

	if (slot && !cm_connect(world->protocol, &connect, world, world->now_ns, &made))
		*slot = made;
}

static void resolve_one(struct world *world, struct input *input)
{
	struct cm_connection **slot = slot_of(world, NULL);
	const struct cm_sidr sidr = { .service_id = SERVICE, .address = world->peer[0],
				      .response_timeout = next8(input) % 32 };
	struct cm_connection *made;

	if (slot && !cm_sidr(world->protocol, &sidr, world, world->now_ns, &made))
		*slot = made;
}

/* A call on a connection; it may be gone afterwards. */
static void call(struct world *world, struct input *input)
{
	struct cm_connection **slot = &world->slot[next8(input) % SLOTS];
	struct cm_connection *connection = *slot;
	const struct cm_accept accept = { .local_qpn = next8(input), .ece_vendor_id = 7 };
	uint8_t bytes = next8(input);

	if (!connection)
		return;
	switch (next8(input) % 9) {
	case 0:
		cm_accept(connection, &accept, world->now_ns);
		break;
	case 1:
		cm_ready_to_use(connection, private_data, bytes, world->now_ns);
		break;
	case 2:
		cm_delay(connection, next8(input) % 40, NULL, 0, world->now_ns);
		break;
	case 3:
		cm_reject(connection, next8(input), private_data, bytes, NULL, 0, world->now_ns);
		break;
	case 4:
		cm_establish(connection, world->now_ns);
		break;
	case 5:
		cm_disconnect(connection, NULL, 0, world->now_ns);
		break;
	case 6:
		cm_sidr_answer(connection, next8(input), 5, 6, NULL, 0, world->now_ns);
		break;
	case 7:
		cm_peer_died(connection, world->now_ns);
		break;
	default:
		let_go(world, slot);
		break;
	}
}

static void relisten(struct world *world, struct input *input)
{
	static const uint8_t any[16];

	if (world->listener)
		cm_listener_free(world->listener, world->now_ns);
	world->listener = NULL;
	if (next8(input) < 128)
		return;
	require(!cm_listen(world->protocol, SERVICE, any, 0, world, &world->listener));
	cm_listener_limit(world->listener, next8(input) % 8);
}

static void pass_time(struct world *world, struct input *input)
{
	uint64_t deadline_ns = cm_deadline(world->protocol);

	if (next8(input) < 200 && deadline_ns != TIME_NEVER && deadline_ns > world->now_ns)
		world->now_ns = deadline_ns;
	else
		world->now_ns += UINT64_C(1) << next8(input) % 36;
	cm_tick(world->protocol, world->now_ns);
}

static void receive_raw(struct world *world, struct input *input)
{
	uint8_t mad[MAD_BYTES];

	for (unsigned i = 0; i < MAD_BYTES; i++)
		mad[i] = next8(input);
	receive(world, mad, 0);
}

static void visit(void *context, struct cm_connection *connection)
{
	struct world *world = context;
	struct cm_connection **slot = slot_of(world, connection);

	if (slot && next8(world->input) > 128)
		cm_peer_died(connection, world->now_ns);
}

static void step(struct world *world, struct input *input)
{
	uint8_t choice = next8(input) % 32;

	if (choice < 14)
		receive_message(world, input);
	else if (choice < 22)
		call(world, input);
	else if (choice < 25)
		pass_time(world, input);
	else if (choice < 27)
		connect_one(world, input);
	else if (choice == 27)
		resolve_one(world, input);
	else if (choice == 28)
		relisten(world, input);
	else if (choice == 29 && world->sent)
		cm_undeliverable(world->protocol, &world->peer[0], world->last_sent, world->now_ns);
	else if (choice == 30)
		receive_raw(world, input);
	else
		cm_for_each(world->protocol, visit, world);
}

/* ---- invariants ---- */

static void check(const struct world *world)
{
	const struct cm_protocol *protocol = world->protocol;
	size_t count = 0, answered = 0;
	struct list *node;

	list_for_each(node, &protocol->connections) {
		const struct cm_connection *connection =
			list_entry(node, struct cm_connection, node);

		count++;
		answered += connection->state == CM_STATE_ANSWERED;
		require(connection->state < CM_STATES);
		require(!connection->abandoned || connection->state != CM_STATE_OVER);
		require(!connection->abandoned || timer_armed(&connection->timer));
		require(connection->state != CM_STATE_OVER || !timer_armed(&connection->timer));
		require(!connection->listener || connection->listener == world->listener);
	}
	require(count == protocol->count && answered == protocol->answered);
	require(protocol->by_id.count <= count && protocol->by_remote.count <= count);
	require(protocol->timers.count <= count && !protocol->arrival && !protocol->sending);
	require(!world->listener || world->listener->pending <= 4096);
}

/* ---- the run ---- */

/* A message survives being written, apart from reserved bits. */
static void check_message(const uint8_t mad[MAD_BYTES])
{
	char line[DUMP_LINE_MAX], line_again[DUMP_LINE_MAX];
	struct cm_message message, again;
	struct cm_target target;
	uint8_t written[MAD_BYTES], rewritten[MAD_BYTES];

	require(mad_dump(mad, line, sizeof(line)) < (int)sizeof(line));
	if (!cm_message_parse(mad, &message)) {
		require(cm_message_target(mad, &target) == CM_TARGET_NONE);
		return;
	}
	require(cm_message_target(mad, &target) != CM_TARGET_NONE);
	cm_message_write(&message, written);
	require(cm_message_parse(written, &again));
	cm_message_write(&again, rewritten);
	require(!memcmp(written, rewritten, MAD_BYTES));
	mad_dump(written, line_again, sizeof(line_again));
	require(!strcmp(line, line_again));
}

/* The MAD comes to one connection in each of the first states, as if it were for it. */
static void deliver_everywhere(struct world *world, uint8_t mad[MAD_BYTES])
{
	receive(world, mad, 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		if (!world->slot[i])
			continue;
		put_be32(mad + MAD_HEADER_BYTES + 4, world->slot[i]->local_id);
		receive(world, mad, 0);
		check(world);
	}
}

static void build(struct world *world)
{
	const struct cm_accept accept = { .local_qpn = 0x20 };
	const struct cm_connect connect = {
		.service_id = SERVICE, .address = world->peer[0], .local_qpn = 0x10,
		.response_timeout = 20, .max_retries = 3, .path_mtu = 3,
	};
	static const uint8_t any[16];
	struct cm_message message = { .kind = CM_MESSAGE_REP };
	uint8_t mad[MAD_BYTES];

	world->protocol = cm_protocol_new(&host_ops, world, 1u << 22, 22);
	require(world->protocol != NULL);
	require(!cm_listen(world->protocol, SERVICE, any, 0, world, &world->listener));
	for (unsigned i = 0; i < 4; i++) {	/* REQ_SENT, REP_RCVD, ESTABLISHED, DREQ_SENT */
		require(!cm_connect(world->protocol, &connect, world, world->now_ns,
				    &world->slot[i]));
		message.rep.local_comm_id = 0x100 + i;
		message.rep.remote_comm_id = world->slot[i]->local_id;
		message.rep.local_qpn = i;
		cm_message_write(&message, mad);
		if (i > 0)
			receive(world, mad, 0);
		if (i > 1 && world->slot[i])
			cm_ready_to_use(world->slot[i], NULL, 0, world->now_ns);
		if (i > 2 && world->slot[i])
			cm_disconnect(world->slot[i], NULL, 0, world->now_ns);
	}
	for (unsigned i = 4; i < 6; i++) {	/* REQ_RCVD, REP_SENT */
		message = (struct cm_message){ .kind = CM_MESSAGE_REQ };
		message.req.local_comm_id = 0x100 + i;
		message.req.service_id = SERVICE;
		message.req.path_mtu = 3;
		cm_message_write(&message, mad);
		receive(world, mad, 0);
		if (i == 5 && world->slot[i])
			cm_accept(world->slot[i], &accept, world->now_ns);
	}
	check(world);
}

static void tear_down(struct world *world)
{
	unsigned ticks = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		let_go(world, &world->slot[i]);
	while (cm_deadline(world->protocol) != TIME_NEVER && ticks++ < 20000) {
		if (cm_deadline(world->protocol) > world->now_ns)
			world->now_ns = cm_deadline(world->protocol);
		cm_tick(world->protocol, world->now_ns);
	}
	require(!world->protocol->count && !world->protocol->by_id.count);
	require(!world->protocol->by_remote.count && !world->protocol->by_remote_qpn.count);
	require(!world->protocol->by_qpn.count && !world->protocol->timers.count);
	cm_protocol_free(world->protocol);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct input input = { .data = data, .left = length };
	struct world world = { .input = &input, .now_ns = SECOND, .random = 1 };
	uint8_t mad[MAD_BYTES] = { 0 };
	struct packet packet;
	unsigned steps = 0;

	for (unsigned i = 0; i < 2; i++) {
		world.peer[i].local[15] = 9;
		world.peer[i].remote[15] = (uint8_t)(i + 1);
	}
	if (packet_parse(data, length, &packet) == PARSE_OK && packet.dest_qpn == 1) {
		input.data = packet.payload;
		input.left = packet.payload_bytes;
	}
	memcpy(mad, input.data, input.left < MAD_BYTES ? input.left : MAD_BYTES);
	input.data += input.left < MAD_BYTES ? input.left : MAD_BYTES;
	input.left -= input.left < MAD_BYTES ? input.left : MAD_BYTES;
	check_message(mad);
	build(&world);
	deliver_everywhere(&world, mad);
	while (input.left && steps++ < STEPS_MAX) {
		step(&world, &input);
		check(&world);
	}
	tear_down(&world);
	return 0;
}
