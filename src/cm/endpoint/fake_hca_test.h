/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of endpoints: a host without a network. It defines mad_*() and gsi_*(): what is sent
 * waits in a queue until fake_deliver() hands it to the same process, with the ends swapped, or
 * loses it. Time is the clock's, but fake_tick() says what it likes.
 *
 *	lo     vb_lo     127.0.0.1  ::1            eth0  vb_eth0   10.0.0.1  fe80::1  fd00::1
 *	wlan0  no device 10.9.9.9                  everything else: 10.0.0.x by eth0, or unknown
 */
#ifndef VERBATIM_CM_ENDPOINT_FAKE_HCA_TEST_H
#define VERBATIM_CM_ENDPOINT_FAKE_HCA_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/endpoint/internal.h"
#include "platform/clock.h"

#define FAKE_SLOT	5u
#define FAKE_QUEUE	4096

struct mad_agent { int unused; };

struct gsi_claim {
	struct gsi_claim *next;
	uint64_t service_id;
	uint8_t address[16];
	int family;
	bool served;
};

static struct {
	const struct mad_ops *ops;
	void *owner;
	struct mad_agent agent;
	uint64_t deadline_ns;
	struct { struct mad_address to; uint8_t mad[MAD_BYTES]; } queue[FAKE_QUEUE];
	unsigned first, last, opened, claims, watched, unwatched;
	uint32_t slot_gone;		/* gsi_watch_slot() of it: ESRCH */
	unsigned looked_up;		/* net_find_gid() calls */
	bool silent;			/* 10.0.0.66 answers no ARP */
	unsigned looks;			/* for it */
	unsigned sent_locked;		/* messages sent with agent.lock held, by whatever thread */
	struct gsi_claim *claimed;
	const struct mad_ops *sa_ops;	/* of the second agent */
	bool by_fabric;			/* 10.7.7.1 is vb_ib0, LID 4; 10.7.7.2 is behind the fabric */
	struct net_ib_port ib;		/* what that port is now */
} fake;

int hca_get_qp1(struct qp1 **qp1)
{
	return 0;
}

void hca_put_qp1(struct qp1 *qp1)
{
}

int mad_open(struct qp1 *qp1, const struct mad_key *key, const struct mad_ops *ops, void *owner,
	     struct mad_agent **opened)
{
	fake.opened++;
	if (key->class != MAD_CLASS_CM) {
		fake.sa_ops = ops;
		*opened = &fake.agent;
		return 0;
	}
	fake.ops = ops;
	fake.owner = owner;
	fake.deadline_ns = TIME_NEVER;
	fake.first = fake.last = 0;
	*opened = &fake.agent;
	return 0;
}

void mad_close(struct mad_agent *opened)
{
	fake.opened--;
}

int mad_send(struct mad_agent *opened, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	if (lock_try(&agent.lock))
		lock_release(&agent.lock);
	else
		fake.sent_locked++;
	if (fake.last - fake.first == FAKE_QUEUE)
		return EAGAIN;
	fake.queue[fake.last % FAKE_QUEUE].to = *to;
	memcpy(fake.queue[fake.last++ % FAKE_QUEUE].mad, mad, MAD_BYTES);
	return 0;
}

void mad_set_deadline(struct mad_agent *opened, uint64_t deadline_ns)
{
	fake.deadline_ns = deadline_ns;
}

struct gsi *mad_gsi(struct mad_agent *opened)
{
	return (struct gsi *)&fake;
}

struct net *gsi_net(struct gsi *gsi)
{
	return NULL;
}

uint32_t gsi_slot(const struct gsi *gsi)
{
	return FAKE_SLOT;
}

void gsi_count(struct gsi *gsi, int counter)
{
}

enum drop gsi_drop(struct gsi *gsi, enum drop why)
{
	return why;
}

/* ---- addresses ---- */

static inline void fake_address(const char *text, uint8_t out[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(out, mapped, sizeof(mapped));
	if (inet_pton(AF_INET, text, out + 12) != 1 && inet_pton(AF_INET6, text, out) != 1)
		abort();
}

static const struct {
	const char *address, *device, *interface;
	uint32_t index, gid_index;
} fake_ports[] = {
	{ "127.0.0.1", "vb_lo", "lo", 1, 1 }, { "::1", "vb_lo", "lo", 1, 2 },
	{ "10.0.0.1", "vb_eth0", "eth0", 2, 1 }, { "fe80::1", "vb_eth0", "eth0", 2, 2 },
	{ "fd00::1", "vb_eth0", "eth0", 2, 3 },
};
#define FAKE_PORTS (sizeof(fake_ports) / sizeof(fake_ports[0]))

static inline void fake_fill(unsigned i, struct net_gid *port)
{
	*port = (struct net_gid){ .interface_index = fake_ports[i].index, .guid = 1, .port = 1,
				   .gid_index = fake_ports[i].gid_index,
				   .active_mtu = IBV_MTU_1024, .pkey = 0xffff };
	snprintf(port->device, sizeof(port->device), "%s", fake_ports[i].device);
	snprintf(port->interface, sizeof(port->interface), "%s", fake_ports[i].interface);
	fake_address(fake_ports[i].address, port->gid.raw);
	memcpy(port->address, port->gid.raw, 16);
}

int net_find_gid_of(struct net *unused, uint8_t link, const uint8_t address[16], uint32_t interface,
		    struct net_gid *port)
{
	uint8_t known[16];
	unsigned i;

	fake.looked_up++;
	for (i = 0; i < FAKE_PORTS; i++) {
		fake_address(fake_ports[i].address, known);
		if (memcmp(known, address, 16))
			continue;
		fake_fill(i, port);
		return 0;
	}
	fake_address("10.9.9.9", known);
	return memcmp(known, address, 16) ? EADDRNOTAVAIL : ENODEV;
}

int net_find_gid(struct net *unused, const uint8_t address[16], uint32_t interface, struct net_gid *port)
{
	return net_find_gid_of(NULL, 0, address, interface, port);
}

void net_group_gid(const struct net_gid *gid, const uint8_t group[16], uint8_t mgid[16])
{
	memcpy(mgid, group, 16);
}

bool net_is_local(struct net *unused, const uint8_t address[16], uint32_t interface)
{
	struct net_gid port;

	return net_find_gid(NULL, address, interface, &port) != EADDRNOTAVAIL;
}

int net_find_route(struct net *unused, const uint8_t source[16], const uint8_t destination[16],
		   uint32_t interface, struct net_gid *port)
{
	uint8_t net[16], group[16];

	fake_address("10.0.0.0", net);
	fake_address("239.0.0.0", group);
	if (memcmp(net, destination, 15) && memcmp(group, destination, 13))
		return ENETUNREACH;
	fake_fill(2, port);
	return 0;
}

bool net_neighbour_answers(struct net *unused, const struct net_gid *source, const uint8_t destination[16])
{
	uint8_t silent[16];

	fake_address("10.0.0.66", silent);
	fake.looks += !memcmp(silent, destination, 16);
	return !fake.silent || memcmp(silent, destination, 16);
}

/* ---- a port of a fabric, if there is one ---- */

#define FAKE_IB_PORT	0x0001u

bool net_has_ib(const struct net *unused)
{
	return fake.by_fabric;
}

bool net_ib_port(struct net *unused, uint16_t ib_port, struct net_ib_port *now)
{
	*now = fake.ib;
	return ib_port == FAKE_IB_PORT;
}

unsigned net_ib_pkey_index(const struct net_ib_port *now, uint16_t pkey)
{
	for (unsigned i = 0; i < now->pkeys; i++)
		if (!((now->pkey[i] ^ pkey) & 0x7fff))
			return i;
	return PKEY_TABLE_SIZE;
}

uint16_t net_pkey(struct net *unused, uint16_t ib_port, unsigned index)
{
	return ib_port == FAKE_IB_PORT && index < fake.ib.pkeys ? fake.ib.pkey[index] : 0;
}

unsigned net_find_pkey(struct net *unused, uint16_t ib_port, uint16_t pkey)
{
	return ib_port == FAKE_IB_PORT ? net_ib_pkey_index(&fake.ib, pkey) : PKEY_TABLE_SIZE;
}

int net_find_ib_way(struct net *unused, struct net_way *way)
{
	uint8_t here[16], there[16];

	fake_address("10.7.7.1", here);
	fake_address("10.7.7.2", there);
	if (!fake.by_fabric || (memcmp(way->destination, there, 16) && way->destination[12] != 239))
		return ENOENT;
	memcpy(way->source, here, 16);
	memcpy(way->gid, (uint8_t [16]){ 0xfe, 0x80, [15] = 2 }, 16);
	way->port = (struct net_gid){ .device = "vb_ib0", .guid = 1, .port = 1, .gid = fake.ib.gid,
				      .active_mtu = IBV_MTU_4096, .pkey = fake.ib.pkey[1], .link = ROUTE_IB,
				      .ib_port = FAKE_IB_PORT };
	memcpy(way->port.address, here, 16);
	return 0;
}

bool net_has_interfaces(void)
{
	return !fake.by_fabric;
}

const char *net_describe_devices(struct net *unused, char *text, size_t bytes)
{
	snprintf(text, bytes, "vb_eth0 (10.0.0.1), vb_lo (127.0.0.1)");
	return text;
}

/* ---- claims and slots ---- */

int gsi_claim(struct gsi *gsi, uint64_t service_id, const uint8_t address[16], int family,
	      struct gsi_claim **claimed)
{
	struct gsi_claim *claim;

	for (claim = fake.claimed; claim; claim = claim->next)
		if (claim->service_id == service_id && !memcmp(claim->address, address, 16) &&
		    (claim->family == family || !family || !claim->family))
			return EADDRINUSE;
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return ENOMEM;
	claim->service_id = service_id;
	memcpy(claim->address, address, 16);
	claim->family = family;
	claim->next = fake.claimed;
	fake.claimed = claim;
	fake.claims++;
	*claimed = claim;
	return 0;
}

int gsi_serve(struct gsi *gsi, struct gsi_claim *claim)
{
	claim->served = true;
	return 0;
}

void gsi_release(struct gsi *gsi, struct gsi_claim *claim)
{
	struct gsi_claim **link = &fake.claimed;

	while (*link != claim)
		link = &(*link)->next;
	*link = claim->next;
	free(claim);
	fake.claims--;
}

int gsi_watch_slot(struct gsi *gsi, uint32_t slot)
{
	if (slot == fake.slot_gone)
		return ESRCH;
	fake.watched++;
	return 0;
}

void gsi_unwatch_slot(struct gsi *gsi, uint32_t slot)
{
	fake.unwatched++;
}

/* ---- the link ---- */

/* Bit n of @lost: the n-th message from now is lost. Returns how many were on the way. */
static inline unsigned fake_deliver(uint64_t lost)
{
	unsigned n = 0;

	while (fake.first != fake.last) {
		unsigned at = fake.first++ % FAKE_QUEUE;
		uint8_t mad[MAD_BYTES];
		struct mad_address from = fake.queue[at].to;

		from.slot = 0;
		memcpy(mad, fake.queue[at].mad, MAD_BYTES);
		memcpy(from.local, fake.queue[at].to.remote, 16);
		memcpy(from.remote, fake.queue[at].to.local, 16);
		if (n < 64 && lost >> n & 1) {
			n++;
			continue;
		}
		n++;
		fake.ops->received(fake.owner, &from, NULL, mad, clock_now_ns());
	}
	return n;
}

/* What waits to be sent cannot arrive: its host says so. */
static inline void fake_bounce(void)
{
	while (fake.first != fake.last) {
		unsigned at = fake.first++ % FAKE_QUEUE;

		fake.ops->unreachable(fake.owner, &fake.queue[at].to, NULL, fake.queue[at].mad,
				      clock_now_ns());
	}
}

static inline void fake_tick(uint64_t ahead_ns)
{
	fake.ops->tick(fake.owner, clock_now_ns() + ahead_ns);
}

#endif
