/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: QP1 of programs at a fabric's HCAs. The input is a row of steps of up to three programs on
 * two hosts, and of the subnet manager of one: service IDs are claimed, served and released, addresses asked
 * for, messages of connection management and of subnet administration sent, answers of managers and of
 * others who say that they are it. Memory stays in bounds (ASan); and after each step no request could be
 * for two claims, whoever has a claim, a slot or a membership is there, and counts are those of the lists.
 */
#include "ctl_world.h"

#define STEPS		96
#define SOME_BYTES	12u	/* at the beginning of a message: more is for few of them */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool right)
{
	if (!right)
		abort();
}

/* ---- what holds after each step ---- */

static unsigned entries(const struct list *list)
{
	unsigned count = 0;
	struct list *at;

	list_for_each(at, list)
		count++;
	return count;
}

static void check_claims(const struct data_host *host)
{
	struct list *at, *other;
	unsigned claims = 0;

	list_for_each(at, &host->services) {
		const struct gmp_claim *claim = list_entry(at, struct gmp_claim, of_host);

		check(claim->visitor->attached && claim->visitor->attached->host == host);
		for (other = at->next; other != &host->services; other = other->next)
			check(!services_meet(claim, list_entry(other, struct gmp_claim, of_host)));
		claims++;
	}
	list_for_each(at, &host->attached) {
		const struct attached *attached = list_entry(at, struct attached, node);

		check(attached->services == entries(&attached->service));
		check(attached->members == entries(&attached->member));
		check(attached->members <= CTL_GROUPS_MAX && attached->services <= CTL_SERVICES_MAX);
		for (unsigned i = 0; i < attached->slots; i++)
			check(host->slot[attached->slot[i]] == attached->visitor);
		claims -= attached->services;
	}
	check(!claims);
}

static void check_all(void)
{
	struct list *at;

	if (!room.plane)
		return;
	list_for_each(at, &room.plane->hosts)
		check_claims(list_entry(at, struct data_host, node));
}

/* ---- steps ---- */

/* An address of a port by IP or GID, of nobody, or none. */
static void some_address(uint8_t what, uint8_t address[16])
{
	uint32_t node = 1 + (what & 1);

	memset(address, 0, 16);
	if (what % 5 == 1)
		fabric_ip(room.fabric, node, 1, 0, address);
	else if (what % 5 == 2)
		fabric_gid(room.fabric, node, 1, 0, address);
	else if (what % 5 == 3)
		memset(address, what, 16);
}

/* By a connection of its own, as programs ask: that of their data takes no questions. */
static void ask(struct program *programs, unsigned kind, const void *body, size_t bytes)
{
	struct program asker = { .fd = -1 };

	program_come(&asker);
	program_ask(&asker, kind, 0, body, bytes);
	room_turn(programs);
	program_go(&asker);
	room_turn(programs);
}

static void step_service(struct program *programs, struct input *input)
{
	uint8_t what = next8(input), how = next8(input);
	struct ctl_service service = {
		.slot = what % 6u, .what = how % 4u, .family = (uint32_t[]){ 0, 4, 6, 9 }[how >> 2 & 3],
		.service_id = 1 + (how >> 4) % 3,
	};

	strcpy(service.place.node, what & 8 ? "host1" : "host2");
	some_address(next8(input), service.address);
	ask(programs, CTL_SERVICE, &service, sizeof(service));
}

static void step_address(struct program *programs, struct input *input)
{
	struct ctl_address address = { .place.port = 1 };

	strcpy(address.place.node, next8(input) & 1 ? "host1" : "host2");
	some_address(next8(input), address.address);
	ask(programs, CTL_ADDRESS, &address, sizeof(address));
}

/* Behind the header: what the input gives, and in it a service ID or a communication ID that fits. */
static void write_connection(struct input *input, uint8_t mad[MAD_BYTES])
{
	struct mad_header header = {
		.base_version = MAD_BASE_VERSION, .class = MAD_CLASS_CM, .class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND, .attribute_id = (uint16_t)(0x10 + next8(input) % 14),
		.transaction_id = next8(input),
	};
	uint8_t what = next8(input);

	memset(mad, 0, MAD_BYTES);
	input_bytes(input, mad + MAD_HEADER_BYTES, what & 16 ? MAD_DATA_BYTES : SOME_BYTES);
	mad_write(&header, mad);
	if (what & 1)
		put_be64(mad + MAD_HEADER_BYTES + 8, 1 + what % 3);
	if (what & 2)
		put_be32(mad + MAD_HEADER_BYTES + 4, (uint32_t)(1 + what % 4) << 22 | what);
	if (what & 4)		/* an IP CM header: IPv4 or IPv6 */
		mad[MAD_HEADER_BYTES + 141] = what & 8 ? 0x40 : 0x60;
}

static void write_administration(struct input *input, uint8_t mad[MAD_BYTES], bool answer)
{
	static const uint8_t methods[] = { MAD_METHOD_GET, MAD_METHOD_SET, MAD_METHOD_DELETE, 0x12 };
	uint8_t what = next8(input), whose = next8(input);
	struct mad_header header = {
		.base_version = MAD_BASE_VERSION, .class = MAD_CLASS_ADMINISTRATION,
		.class_version = SA_CLASS_VERSION, .method = methods[what & 3],
		.attribute_id = record_layout(what & 4 ? RECORD_PATH_RECORD : RECORD_MC_MEMBER_RECORD)->attribute,
		.transaction_id = (uint64_t)(TID_OF_SLOT | (1 + whose % 5)) << 32 | whose,
	};
	struct ib_mc_member_record record = { .join_state = whose >> 4 };

	memset(mad, 0, MAD_BYTES);
	input_bytes(input, mad + MAD_HEADER_BYTES, SOME_BYTES);
	if (answer)
		header.method = header.method == MAD_METHOD_DELETE ? 0x95 : MAD_METHOD_GET_RESPONSE;
	header.status = what & 8 && what & 16 ? 0x0200 : 0;
	mad_write(&header, mad);
	if (what & 4)
		return;
	record.mgid[0] = 0xff;
	record.mgid[15] = what >> 5;
	fabric_gid(room.fabric, 1 + (whose >> 3 & 1), 1, 0, record.port_gid);
	record_write(RECORD_MC_MEMBER_RECORD, &record, mad + SA_RECORD);
}

/* By a program, whose headers fit but for some. */
static void step_send(struct program *program, struct input *input, bool administration)
{
	uint8_t what = next8(input), mad[MAD_BYTES], packet[IB_MAD_PACKET_MAX];
	struct ib_route route = { .slid = (uint16_t)(1 + (what & 1)), .dlid = (uint16_t)(1 + (what >> 1 & 1)),
				  .sl = what >> 4 };
	struct ib_mad_ends ends = { .source_qpn = QPN_GSI, .destination_qpn = QPN_GSI, .qkey = QKEY_GSI,
				    .pkey = what & 4 ? 0xffff : next8(input) };
	size_t bytes;

	if (administration)
		write_administration(input, mad, false);
	else
		write_connection(input, mad);
	bytes = ib_packet_write_mad(&route, &ends, mad, packet) - IB_VCRC_BYTES;
	if (what & 8)
		packet[next8(input) % bytes] = next8(input);
	program_ask(program, CTL_DATA, 1, packet, bytes);
}

/* By the manager of host1, or by host2 in its name. */
static void step_answer(struct input *input)
{
	uint8_t what = next8(input), mad[MAD_BYTES];
	const struct fabric_address to = { .lid = (uint16_t)(1 + (what & 1)), .qpn = QPN_GSI, .qkey = QKEY_GSI,
					   .sl = what >> 4 };

	write_administration(input, mad, true);
	fabric_send(room.fabric, 1 + (what >> 1 & 1), 1, mad, &to, room.now_us);
}

static void step(struct program *programs, struct input *input)
{
	struct program *program = &programs[next8(input) % PROGRAMS];
	uint8_t what = next8(input);

	switch (what % 12) {
	case 0:
		program_come(program);
		program_attach(program, programs, next8(input));
		break;
	case 1:
		program_go(program);
		break;
	case 2:
	case 3:
	case 4:
		step_service(programs, input);
		break;
	case 5:
		step_address(programs, input);
		break;
	case 6:
	case 7:
		step_send(program, input, what % 12 == 6);
		break;
	case 8:
	case 9:
		step_answer(input);
		break;
	case 10:
		program_drain(program);
		break;
	default:
		/* Another manager, at the host, or none. */
		fabric_port_at(room.fabric, 1 + (what >> 4 & 1), 1)->info.master_sm_lid = what >> 5;
		room.now_us += (uint64_t)next8(input) << 12;
		fabric_timer(room.fabric, room.now_us);
	}
	room_turn(programs);
	check_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct program programs[PROGRAMS] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
	struct input input = { data, length };
	struct list *at;

	world_begin();
	for (unsigned i = 0; i < STEPS && input.left; i++)
		step(programs, &input);
	must_answer(programs);
	for (unsigned i = 0; i < PROGRAMS; i++)
		program_go(&programs[i]);
	room_turn(programs);
	if (room.plane)
		list_for_each(at, &room.plane->hosts)
			check(list_empty(&list_entry(at, struct data_host, node)->services));
	world_end(programs);
	return 0;
}
