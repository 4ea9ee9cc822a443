/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fuzz targets of a fabric's process have in common: its code but for room.c, which is another one
 * here, on a subnet of two hosts, and up to three programs at the other ends of its connections.
 */
#ifndef VERBATIM_TESTS_FUZZ_CTL_WORLD_H
#define VERBATIM_TESTS_FUZZ_CTL_WORLD_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../tools/fabric/console.c"
#include "../../tools/fabric/console_counter.c"
#include "../../tools/fabric/console_fault.c"
#include "../../tools/fabric/data.c"
#include "../../tools/fabric/gmp.c"
#include "../../tools/fabric/issm.c"
#include "../../tools/fabric/plane.c"
#include "../../tools/fabric/sealed.c"
#include "../../tools/fabric/sysfs.c"
#include "../../tools/fabric/visitor.c"
#include "fabric/internal.h"
#include "input.h"

#define PROGRAMS	3
#define BODY		512
#define SUBNET		"Switch 4 \"sw1\"\n[1] \"host1\"[1]\n[2] \"host2\"[1]\n" \
			"Ca 1 \"host1\"\nCa 2 \"host2\"\n"

/* ---- of room.c, what is here another one ---- */

int room_watch(struct room *room, int fd, struct watch *watch, uint32_t events)
{
	return 0;
}

void room_unwatch(struct room *room, int fd)
{
}

void room_say(struct room *room, const char *format, ...)
{
}

void room_host_name(const struct room *room, uint32_t node, char name[CTL_NODE_MAX])
{
	struct fabric_node_info info;

	name[0] = '\0';
	if (fabric_node_info(room->fabric, node, &info))
		snprintf(name, CTL_NODE_MAX, "%s", info.id);
}

bool room_is_cabled(const struct room *room, const struct fabric_port_info *port)
{
	return port->peer_node != FABRIC_NONE;
}

bool room_is_up(const struct room *room)
{
	return false;
}

uint32_t room_find_host(const struct room *room, const char *name, char *why, size_t size)
{
	snprintf(why, size, "no node '%.60s'", name);
	return fabric_find_node(room->fabric, *name ? name : "host1");
}

void room_ports(const struct room *room, uint32_t host,
		bool (*take)(void *context, const struct ctl_port *port, uint32_t node),
		void *context)
{
	struct ctl_port port = { .device = "vb_ib0", .number = 1, .ports = 1, .node_type = 1 };

	take(context, &port, host);
}

void room_fill_port(const struct room *room, uint32_t node, uint32_t number, struct ctl_port *port)
{
	struct fabric_port_info info;

	if (!fabric_port_info(room->fabric, node, number, &info))
		return;
	port->lid = info.lid;
	port->sm_lid = info.sm_lid;
	port->gids = 1;
	fabric_gid(room->fabric, node, number, 0, port->gid[0]);
	port->pkeys = 2;
	for (unsigned i = 0; i < port->pkeys; i++)
		port->pkey[i] = fabric_pkey(room->fabric, node, number, i);
}

bool room_find_device(const struct room *room, uint32_t host, const char *device, uint32_t port,
		      uint32_t *node, struct ctl_port *found)
{
	*node = host;
	memset(found, 0, sizeof(*found));
	return !strcmp(device, "vb_ib0") && port == 1;
}

static struct room room;

static void ctl_deliver(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
			const struct fabric_address *from)
{
	if (!gmp_deliver(&room, node, port, mad, from))
		agents_deliver(room.agents, node, port, mad, from, room.now_us);
}

static bool ctl_deliver_train(void *context, uint32_t node, uint32_t port,
			      const struct fabric_train *train, const struct fabric_address *from)
{
	return agents_deliver_train(room.agents, node, port, train, from);
}

static enum fabric_arrival ctl_arrive(void *context, uint32_t node, uint32_t port,
				      const uint8_t *packet, size_t bytes)
{
	return data_arrive(&room, node, port, packet, bytes);
}

static void ctl_event(void *context, uint32_t node, uint32_t port, enum fabric_event event)
{
	data_event(&room, node, port, event);
}

/* ---- programs ---- */

struct program {
	int fd;				/* its end; -1: it is not there */
	struct visitor *visitor;
};

static void program_drain(struct program *program)
{
	uint8_t bytes[CTL_TEXT_MAX + sizeof(struct ctl_head)];

	while (program->fd >= 0 && recv(program->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void program_come(struct program *program)
{
	int pair[2];

	if (program->fd >= 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair))
		return;
	visitor_enter(&room, pair[0]);
	program->fd = pair[1];
	program->visitor = list_entry(room.visitors.prev, struct visitor, node);
}

static void program_go(struct program *program)
{
	if (program->fd >= 0)
		close(program->fd);
	program->fd = -1;
}

static void program_ask(struct program *program, unsigned kind, uint64_t value, const void *body,
			size_t bytes)
{
	uint8_t message[sizeof(struct ctl_head) + BODY];
	struct ctl_head head = { .magic = CTL_MAGIC, .version = CTL_VERSION,
				 .kind = (uint16_t)kind, .bytes = (uint32_t)bytes, .value = value };

	memcpy(message, &head, sizeof(head));
	if (bytes)
		memcpy(message + sizeof(head), body, bytes);
	if (program->fd >= 0)
		send(program->fd, message, sizeof(head) + bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void room_turn(struct program *programs)
{
	struct list *at;

	list_for_each(at, &room.visitors) {
		struct visitor *visitor = list_entry(at, struct visitor, node);

		visitor_ready(&visitor->watch, EPOLLIN | EPOLLOUT);
	}
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (programs[i].fd >= 0 && programs[i].visitor->gone)
			program_go(&programs[i]);
	data_timer(&room);
	visitors_reap(&room);
}

static void input_bytes(struct input *input, uint8_t *bytes, size_t length)
{
	while (length--)
		*bytes++ = next8(input);
}

/* QPs of host1 or host2, with a slot, and LIDs as the subnet manager of host1 would give them. */
static void program_attach(struct program *program, struct program *programs, uint8_t what)
{
	struct ctl_place place = { .port = 1 };

	strcpy(place.node, what & 1 ? "host1" : "host2");
	for (uint32_t node = 1; node < 3; node++) {
		struct fabric_port *port = fabric_port_at(room.fabric, node, 1);

		port->info.lid = (uint16_t)node;
		port->info.master_sm_lid = 1;
		port->state = room.fabric->node[0].port[node].state = PORT_ACTIVE;
		port->info.port_state = FABRIC_PORT_ACTIVE;
		room.fabric->node[0].port[node].info.port_state = FABRIC_PORT_ACTIVE;
		room.fabric->node[0].switch_info.linear_fdb_top = 2;
		if (!room.fabric->node[0].lft[0])
			room.fabric->node[0].lft[0] = calloc(1, LFT_BLOCK);
		if (room.fabric->node[0].lft[0])
			room.fabric->node[0].lft[0][node] = (uint8_t)node;
	}
	program_ask(program, CTL_ATTACH, 0, &place, sizeof(place));
	program_ask(program, CTL_SLOT, 1 + what % 4u, NULL, 0);
	room_turn(programs);
}

/* Whatever the others did, one that asks is answered. */
static void must_answer(struct program *programs)
{
	struct ctl_place place = { .node = "host1" };
	struct program last = { .fd = -1 };
	struct ctl_head head;
	uint8_t bytes[4096];

	program_come(&last);
	program_ask(&last, CTL_PORTS, 0, &place, sizeof(place));
	room_turn(programs);
	if (recv(last.fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= (ssize_t)sizeof(head))
		abort();
	memcpy(&head, bytes, sizeof(head));
	if (head.kind != CTL_PORT)
		abort();
	program_go(&last);
}

/* ---- a run ---- */

static void world_begin(void)
{
	static const struct fabric_ops calls = { .deliver = ctl_deliver, .deliver_train = ctl_deliver_train,
						 .arrive = ctl_arrive, .event = ctl_event };
	static const struct agents_ops agent_calls = { .receive = visitors_receive,
						      .receive_sealed = visitors_receive_sealed };
	struct fabric_errors errors;

	room = (struct room){ .listener = -1,
			      .inotify = -1,
			      .pause_us = FABRIC_NEVER,
			      .mode = 0700,
			      .name = "fuzz",
			      .directory = "/nonexistent" };
	list_init(&room.visitors);
	list_init(&room.issms);
	list_init(&room.consoles);
	room.fabric = fabric_new_from_file(SUBNET, &errors);
	room.agents = agents_new(room.fabric, &agent_calls);
	fabric_set_ops(room.fabric, &calls, NULL);
}

static void world_end(struct program *programs)
{
	must_answer(programs);
	for (unsigned i = 0; i < PROGRAMS; i++)
		program_go(&programs[i]);
	visitors_close(&room);
	data_close(&room);
	issm_close(&room);
	console_close_all(&room);
	agents_free(room.agents);
	fabric_free(room.fabric);
}

#endif
