/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: what programs may say to the process of a fabric, over its control socket and over
 * descriptors for MADs, and connections of data. The input is a row of steps of up to three programs:
 * they come and go, send bytes, questions with heads that are right, MADs of agents that they have,
 * packets, read or do not, and time passes. Memory stays in bounds (ASan), and a well-behaved program
 * is answered in the end.
 */
#include "ctl_world.h"

#define STEPS		64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* A port of host1 or host2 with an agent, as libibumad has it. */
static void program_open(struct program *program, struct program *programs, uint8_t what)
{
	struct ctl_place place = { .device = "vb_ib0", .port = 1 };
	struct agent_request request = { .class = what & 1 ? 0x81 : 0x03,
					 .class_version = what & 1 ? 1 : 2,
					 .rmpp_version = what >> 1 & !(what & 1),
					 .methods = { what & 4 ? 0xffffffffu : 0, 0 } };
	uint32_t id = AGENTS_ANY;

	strcpy(place.node, what & 8 ? "host1" : "host2");
	program_ask(program, CTL_OPEN, 0, &place, sizeof(place));
	room_turn(programs);
	if (program->fd >= 0 && program->visitor->file)
		agents_register(program->visitor->file, &request, &id);
}

/* A packet whose headers mostly fit. */
static void program_packet(struct program *program, struct input *input, uint8_t what)
{
	uint8_t packet[BODY / 2];
	size_t bytes = 24 + what % 48u * 4;
	uint32_t port = 1 + (what == 255);

	input_bytes(input, packet, bytes);
	packet[0] &= 0xf0;
	packet[1] = (uint8_t)((packet[1] & 0xf0) | (packet[1] & 1 ? IB_LNH_GRH : IB_LNH_BTH));
	put_be16(packet + 4, (uint16_t)(bytes / 4));
	packet[6] = 0;
	packet[7] = 1 + packet[7] % 2;
	if (packet[3] & 0x80) {
		put_be16(packet + 2, 1 + packet[3] % 2);
		put_be32(packet + 12, (1 + packet[12] % 5u) << QP_INDEX_BITS);
	}
	program_ask(program, CTL_DATA, port, packet, bytes);
}

static void step(struct program *programs, struct input *input)
{
	struct program *program = &programs[next8(input) % PROGRAMS];
	uint8_t what = next8(input), kind = next8(input), bytes[BODY] = { 0 };
	size_t length = (size_t)kind * 2 < BODY ? (size_t)kind * 2 : BODY;

	switch (what % 10) {
	case 0:
		program_come(program);
		break;
	case 1:
		program_go(program);
		break;
	case 2:
		input_bytes(input, bytes, length);
		if (program->fd >= 0)
			send(program->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case 3:
		switch (kind % (CTL_SERVICE + 1)) {
		case CTL_REGISTER:
		case CTL_UNREGISTER:
			length = sizeof(struct ctl_agent);
			break;
		case CTL_GROUP:
			length = sizeof(struct ctl_group);
			break;
		case CTL_VIOLATION:
			length = sizeof(struct ctl_violation);
			break;
		case CTL_ROUTE:
			length = sizeof(struct ctl_route);
			break;
		case CTL_ADDRESS:
			length = sizeof(struct ctl_address);
			break;
		case CTL_SERVICE:
			length = sizeof(struct ctl_service);
			break;
		default:
			length = sizeof(struct ctl_place) + (kind >> 4);
		}
		input_bytes(input, bytes, length);
		program_ask(program, kind % (CTL_SERVICE + 1), next8(input), bytes, length);
		break;
	case 4:
		program_open(program, programs, kind);
		break;
	case 5:
		length = sizeof(struct agent_header) + MAD_BYTES;
		input_bytes(input, bytes, length);
		bytes[0] %= 4;
		memset(bytes + 1, 0, 3);
		if (program->fd >= 0)
			send(program->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case 6:
		program_drain(program);
		break;
	case 7:
		program_attach(program, programs, kind);
		break;
	case 8:
		program_packet(program, input, kind);
		break;
	default:
		room.now_us += (uint64_t)kind << (what >> 3);
		agents_timer(room.agents, room.now_us);
		fabric_timer(room.fabric, room.now_us);
	}
	room_turn(programs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct program programs[PROGRAMS] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
	struct input input = { data, length };

	world_begin();
	for (unsigned i = 0; i < STEPS && input.left; i++)
		step(programs, &input);
	world_end(programs);
	return 0;
}
