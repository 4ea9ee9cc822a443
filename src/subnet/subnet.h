/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A virtual InfiniBand fabric (`verbatim fabric`) as a process at one of its nodes has it: the
 * node's HCAs as devices, their ports for net/, and the connection by which packets come and go, as
 * a link. Which fabric and node: VERBATIM_FABRIC, VERBATIM_NODE (ib/client.h).
 *
 * When the fabric ends its ports are down. The process attaches again, once a second, to one with
 * the same file; QPs know nothing of it but what their timers tell them.
 */
#ifndef VERBATIM_SUBNET_SUBNET_H
#define VERBATIM_SUBNET_SUBNET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/datagram.h"
#include "link/link.h"
#include "net/port.h"

struct subnet;

/* ---- list.c: without a device open ---- */

struct subnet_device {
	char name[DEVICE_NAME_MAX];
	uint64_t guid; /* of the node, network order */
};

/*
 * The HCAs of the node, malloc'ed. None where VERBATIM_FABRIC is not set, or, explained, where no
 * such fabric runs. EINVAL: wrong settings, said; ENOMEM.
 */
int subnet_list(struct subnet_device **devices, int *count);
/* An attribute file below /sys/class/infiniband of one of them: ENOENT, ENODEV. */
int subnet_sysfs(const char *path, char *text, size_t size);

/* ---- connection.c ---- */

/* *subnet NULL: there is none, by the settings. 0 or errno, explained. */
int subnet_open(struct subnet **subnet, struct counters *counters);
void subnet_close(struct subnet *subnet);
void subnet_abandon(struct subnet *subnet); /* in a fork()ed child */
/* What the process sends to itself goes by @loopback: set before the first packet. */
void subnet_set_loopback(struct subnet *subnet, struct link *loopback);
/*
 * How packets to processes of this host go through memory that is shared with them: set before the first packet.
 * Of local/; called by any thread.
 */
#define SUBNET_NO_CHANNEL UINT32_MAX
struct subnet_ways {
	struct link *rings;
	void *owner;
	/* The channel to the holder of a slot, if it is at the same fabric. */
	uint32_t (*channel)(void *owner, uint32_t slot);
	/* What is sent by @channel from now on is behind what the fabric's process brings. False: not now. */
	bool (*behind)(void *owner, uint32_t channel);
	/* Peers are told at which fabric we are, as long as it runs; 0: at none. */
	void (*tell)(void *owner, uint64_t fabric);
};
void subnet_set_ways(struct subnet *subnet, const struct subnet_ways *ways);
/* A packet that came through memory from the holder of @slot, by ib_end: false: that cannot be. */
bool subnet_arrives(struct subnet *subnet, struct datagram *datagram, uint32_t slot);
/* Is the holder of @slot at one host of this fabric, and is it worth the while to share memory with it? */
bool subnet_meets(struct subnet *subnet, uint32_t slot);
/* Why packets go by the fabric's process, in words; NULL: they go through memory. */
struct subnet_sends {
	struct ib_way way;
	uint32_t dest_qpn;
	uint16_t pkey;
	unsigned mtu;
};
const char *subnet_relays_why(struct subnet *subnet, const struct subnet_sends *sends);

/*
 * Packets to QPNs of this slot (wire/qpn.h) are for this process. EADDRINUSE: another process of
 * the fabric, maybe of another network namespace, has it; errno, explained. Nobody receives
 * meanwhile.
 */
int subnet_claim(struct subnet *subnet, uint32_t slot);
/* A QP is attached to the group at the port (struct ib_way's), once for each. 0; ENOMEM. */
int subnet_join(struct subnet *subnet, uint16_t port, uint16_t mlid, const uint8_t mgid[16]);
void subnet_leave(struct subnet *subnet, uint16_t port, uint16_t mlid, const uint8_t mgid[16]);
/* A packet that came by @way was refused for its key: the port counts it. Never waits. */
struct subnet_refused {
	struct ib_way way;
	bool is_qkey;
	uint32_t key, source_qpn, dest_qpn;
	const uint8_t *source, *destination; /* GIDs; if way.has_grh */
};
void subnet_refuse(struct subnet *subnet, const struct subnet_refused *refused);

/*
 * Work of one thread, without locks: ports have changed, or the fabric is gone, or it is time to
 * look for it. Then subnet_turn() tells net->changed. *watch: its descriptor is to be waited on
 * from now on, or no more. Returns a mask of ports (by their place, as subnet_port_at() has them) at
 * which clients of the subnet manager have to register again.
 */
enum subnet_watch { SUBNET_WATCH_AS_IS, SUBNET_WATCH, SUBNET_UNWATCH };
bool subnet_is_due(const struct subnet *subnet);
uint64_t subnet_deadline_ns(const struct subnet *subnet);
unsigned subnet_turn(struct subnet *subnet, struct net *net, uint64_t now_ns, enum subnet_watch *watch);
/* A program that has ended: its slot, and what its node had as LIDs. False: no more. */
struct subnet_gone {
	uint32_t slot;
	uint16_t lid[8], lmc[8];
};
bool subnet_take_gone(struct subnet *subnet, struct subnet_gone *gone);
/* struct ib_way's port. */
uint16_t subnet_port_at(const struct subnet *subnet, unsigned place);
int subnet_fd(const struct subnet *subnet);

/* ---- address.c: of struct port_maker; the owner is the subnet ---- */

int subnet_find_address(void *subnet, const uint8_t address[16], struct net_gid *found);
int subnet_find_way(void *subnet, bool alone, struct net_way *way);
bool subnet_look(void *subnet, uint16_t port, struct net_ib_port *now);
int subnet_serve(void *subnet, const struct net_service *service);
void subnet_describe(void *subnet, char *text, size_t bytes);

/* ---- link.c, port.c ---- */

struct link *subnet_link(struct subnet *subnet);
/* Passes on what its link holds, if it is time to try. True: nothing is held any more. Any thread. */
bool subnet_pump(struct subnet *subnet, uint64_t now_ns);
/* Nothing is held. */
bool subnet_is_drained(const struct subnet *subnet);
/* Of struct port_maker; the owner is the subnet. */
int subnet_make_ports(void *subnet, struct net *net, const char *name,
		      struct port *ports[PORTS_MAX], unsigned *count);

#endif
