/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: what can come to a virtual InfiniBand fabric. The first byte chooses: packets and
 * records of any bytes, the text of a file, or a subnet to which the rest of the input sends MADs,
 * pulls cables, switches nodes off and lets time pass. Memory stays in bounds (ASan), calls end,
 * and links have two ends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/internal.h"
#include "input.h"

#define STEPS_MAX 300u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* ---- packets and records ---- */

static void read_packet(const uint8_t *data, size_t length)
{
	uint8_t again[65536], bytes[RECORD_BYTES_MAX] = { 0 }, written[2][RECORD_BYTES_MAX];
	uint64_t values[RECORD_BYTES_MAX / 8];
	struct ib_packet packet;

	if (ib_packet_parse(data, length, &packet) == IB_PARSE_OK) {
		size_t covered = packet.transport_bytes - ICRC_BYTES;
		struct packet transport;

		packet_parse(packet.transport, packet.transport_bytes, &transport);
		require(ib_packet_write(&packet.route, packet.transport, covered, again) == length);
		require(ib_packet_parse(again, length, &packet) == IB_PARSE_OK);
		require(packet.icrc_good && packet.vcrc_good);
	}
	memcpy(bytes, data, length < sizeof(bytes) ? length : sizeof(bytes));
	for (unsigned record = 0; record < RECORDS; record++) {
		record_read((enum record)record, bytes, values);
		record_write((enum record)record, values, written[0]);
		record_read((enum record)record, written[0], values);
		record_write((enum record)record, values, written[1]);
		require(!memcmp(written[0], written[1], record_layout((enum record)record)->bytes));
	}
}

/* ---- files ---- */

/* Every file that is included is a short one, or the file itself. */
static char *read_included(void *context, const char *name)
{
	return *name == 's' ? strdup(context) : strdup("Ca 1 \"z\"\nspeed=2\ninclude \"s\"\n");
}

static void read_file(const uint8_t *data, size_t length)
{
	char *text = calloc(1, length + 1), *printed, *again;
	const struct fabric_files files = { .read = read_included, .context = text };
	struct fabric_errors errors;
	struct fabric *fabric, *second;
	struct fabric_cost cost;

	require(text != NULL);
	memcpy(text, data, length);
	fabric = fabric_new_from_files(text, &files, &errors);
	require(!fabric == (errors.count > 0));
	if (fabric && fabric_nodes(fabric) < 200) {
		printed = fabric_print(fabric);
		require(printed && fabric_cost(fabric, &cost));
		second = fabric_new_from_file(printed, &errors);
		if (second) { /* GUIDs may collide that names had kept apart: then it says so */
			again = fabric_print(second);
			require(!strcmp(printed, again));
			free(again);
			fabric_free(second);
		} else {
			require(errors.count > 0);
		}
		free(printed);
	}
	fabric_free(fabric);
	free(text);
}

/* ---- a subnet ---- */

struct world {
	struct fabric *fabric;
	struct input *input;
	uint64_t now_us;
	unsigned refused;
};

static void deliver(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		    const struct fabric_address *from)
{
	struct world *world = context;

	if (next8(world->input) & 1 && world->refused++ < 100)
		fabric_refuse(world->fabric, node, port, mad, from, world->now_us);
}

static void look(void *context, const struct fabric_packet *packet)
{
	struct ib_packet parsed;

	require(ib_packet_parse(packet->data, packet->bytes, &parsed) == IB_PARSE_OK);
	require(parsed.icrc_good && parsed.vcrc_good);
}

static void send_mad(struct world *world, struct input *input)
{
	uint8_t kind = next8(input), mad[MAD_BYTES] = { 1, 0x81, 1, 1 };
	struct fabric_address to = { .lid = LID_PERMISSIVE, .qpn = 1, .qkey = QKEY_GSI };
	uint32_t node = next8(input) % 12;

	mad[1] = kind & 1 ? 0x81 : kind & 2 ? 1 : 4;
	mad[3] = kind & 4 ? 2 : 1;
	mad[17] = (uint8_t)(0x10 + next8(input) % 0x12);
	put_be32(mad + 20, next8(input));
	put_be32(mad + SMP_DR_SLID, 0xffffffff);
	mad[SMP_HOP_COUNT] = next8(input) % 5;
	for (unsigned i = 1; i < 5; i++)
		mad[SMP_INITIAL_PATH + i] = next8(input) % 5;
	if (kind & 8)
		to.lid = next8(input) % 16;
	if (kind & 16)
		to.lid |= 0xc000;
	if (kind & 32)		/* any header */
		for (unsigned i = 0; i < 40; i++)
			mad[i] = next8(input);
	for (unsigned i = 0; i < SMP_DATA_BYTES; i++)
		mad[SMP_DATA + i] =
			kind & 64 ? next8(input) : (uint8_t)(i < 16 ? 0 : next8(input) % 8);
	to.has_grh = kind & 128;
	fabric_send(world->fabric, node, node >= 2 ? 1 : 0, mad, &to, world->now_us);
}

static void step(struct world *world, struct input *input)
{
	uint8_t choice = next8(input) % 16;

	if (choice < 11)
		send_mad(world, input);
	else if (choice == 11)
		fabric_set_cable(world->fabric, next8(input) % 12, next8(input) % 6,
				 next8(input) & 1, world->now_us);
	else if (choice == 12)
		fabric_set_power(world->fabric, next8(input) % 12, next8(input) & 1, world->now_us);
	else if (choice == 13)
		fabric_set_is_sm(world->fabric, next8(input) % 12, 1, next8(input) & 1,
				 world->now_us);
	else if (choice == 14)
		fabric_set_errors(world->fabric, next8(input) % 12, next8(input) % 6,
				  next8(input) % 128, next8(input));
	else
		fabric_timer(world->fabric, world->now_us += (uint64_t)1 << next8(input) % 30);
}

static void check(const struct fabric *fabric)
{
	require(!fabric->busy && !fabric->queue_count);
	for (uint32_t i = 0; i < fabric->nodes; i++)
		for (unsigned p = 1; p <= fabric->node[i].ports; p++) {
			const struct fabric_port *port = &fabric->node[i].port[p], *peer;
			bool up = port->info.port_physical_state == FABRIC_PHYS_LINK_UP;

			require(port->info.port_state == port_state_logical(port->state));
			require(port->info.port_physical_state == port_state_phys(port->state));
			if (port->peer == FABRIC_NONE) {
				require(!up);
				continue;
			}
			peer = &fabric->node[port->peer].port[port->peer_port];
			require(up == (peer->info.port_physical_state == FABRIC_PHYS_LINK_UP));
			require(!up || (port->plugged && peer->plugged && fabric->node[i].powered));
		}
}

static void run_subnet(const uint8_t *data, size_t length)
{
	const struct fabric_ops ops = { .deliver = deliver, .packet = look };
	struct input input = { data, length };
	struct fabric_errors errors;
	struct world world = { .input = &input, .now_us = 1 };
	uint8_t mad[MAD_BYTES] = { 0 };
	static const struct fabric_address to = {.lid = LID_PERMISSIVE, .qpn = 1, .qkey = QKEY_GSI};
	uint8_t node = next8(&input);

	world.fabric = fabric_new_from_file(
		"switch * lft=128 mft=64 slvl=yes\nmake ring switches=2 hosts=3\n", &errors);
	require(world.fabric != NULL);
	fabric_set_ops(world.fabric, &ops, &world);
	memcpy(mad, input.data, input.left < MAD_BYTES ? input.left : MAD_BYTES);
	fabric_send(world.fabric, node % 8, node % 8 >= 2, mad, &to, 1);
	for (unsigned i = 0; input.left && i < STEPS_MAX; i++) {
		step(&world, &input);
		check(world.fabric);
	}
	fabric_free(world.fabric);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	if (!length)
		return 0;
	switch (data[0] % 3) {
	case 0:
		read_packet(data + 1, length - 1);
		break;
	case 1:
		read_file(data + 1, length - 1);
		break;
	default:
		run_subnet(data + 1, length - 1);
	}
	return 0;
}
