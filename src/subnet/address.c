/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP addresses of a fabric's ports, which the fabric's process knows: a kernel learns them by ARP over
 * IPoIB. And service IDs, which are of the node: two nodes may serve the same one. Each question has a
 * connection of its own; nothing here waits for the data's.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "net/net.h"
#include "subnet/internal.h"

/* ---- questions ---- */

struct address_answer {
	struct ctl_neighbour one[SUBNET_ADDRESSES];
	unsigned count;
};

static void address_take(void *context, const struct ctl_head *head, const char *body)
{
	struct address_answer *answer = context;
	struct ctl_neighbour *one = &answer->one[answer->count];

	if (head->kind != CTL_NEIGHBOUR || head->bytes != sizeof(*one) ||
	    answer->count == SUBNET_ADDRESSES)
		return;
	memcpy(one, body, sizeof(*one));
	one->node[sizeof(one->node) - 1] = '\0';
	answer->count++;
}

/* 0 or errno, explained. */
static int address_ask(const struct subnet *subnet, const uint8_t address[16],
		       struct address_answer *answer)
{
	struct ctl_address question = { .place = { .port = 0 } };
	char why[PLACE_WHY_MAX];
	int err;

	answer->count = 0;
	strcpy(question.place.node, subnet->binding.node);
	memcpy(question.address, address, sizeof(question.address));
	err = ib_question(&subnet->binding, CTL_ADDRESS, &question, sizeof(question), address_take,
			  answer, NULL, why);
	if (err)
		explain_about("VERBATIM_FABRIC", OF_NOTHING, "the fabric %s: %s",
			      subnet->binding.fabric, why);
	return err;
}

/* The node's own, asked for once: the file's. */
static void own_learn(struct subnet *subnet)
{
	static const uint8_t all[16];
	struct address_answer *answer;
	bool known;

	lock_acquire(&subnet->lock);
	known = subnet->own_known;
	lock_release(&subnet->lock);
	answer = known ? NULL : malloc(sizeof(*answer));
	if (!answer)
		return;
	if (!address_ask(subnet, all, answer)) {
		lock_acquire(&subnet->lock);
		subnet->own_known = true;
		subnet->own_count = answer->count;
		for (unsigned i = 0; i < answer->count; i++) {
			const struct ctl_neighbour *one = &answer->one[i];

			subnet->own[i].port = IB_WAY_PORT(one->hca, one->port);
			subnet->own[i].pkey = one->pkey;
			memcpy(subnet->own[i].ip, one->ip, sizeof(one->ip));
		}
		lock_release(&subnet->lock);
	}
	free(answer);
}

/* ---- ports ---- */

/* In the partition @pkey; 0: that of its table's first row. If it is a full member, the table says. */
static void end_fill(const struct subnet *subnet, const struct subnet_end *end, uint16_t pkey,
		     const uint8_t address[16], struct net_gid *found) REQUIRES(subnet->lock)
{
	const struct ctl_port *now = &end->now;

	*found = (struct net_gid){ .guid = htobe64(now->node_guid), .port = (uint8_t)now->number,
				   .active_mtu = (enum ibv_mtu)now->mtu_active,
				   .pkey = pkey ? pkey : now->pkey[0], .link = ROUTE_IB, .ib_port = end->port };
	snprintf(found->device, sizeof(found->device), "%s", now->device);
	memcpy(found->gid.raw, now->gid[0], sizeof(found->gid.raw));
	memcpy(found->address, address, sizeof(found->address));
}

/* NULL: it has none. */
static const uint8_t *own_ip(const struct subnet *subnet, uint16_t port, uint16_t pkey) REQUIRES(subnet->lock)
{
	for (unsigned i = 0; i < subnet->own_count; i++)
		if (subnet->own[i].port == port && subnet->own[i].pkey == pkey)
			return subnet->own[i].ip;
	return NULL;
}

/* The port's address of the family of @like; of IPv6 its GID is one, too. NULL: it has none. */
static const uint8_t *own_ip_like(const struct subnet *subnet, const struct subnet_end *end,
				  const uint8_t like[16]) REQUIRES(subnet->lock)
{
	bool ipv4 = ip_addr_is_ipv4(like);

	for (unsigned i = 0; i < subnet->own_count; i++)
		if (subnet->own[i].port == end->port && !subnet->own[i].pkey &&
		    ip_addr_is_ipv4(subnet->own[i].ip) == ipv4)
			return subnet->own[i].ip;
	return ipv4 ? NULL : end->now.gid[0];
}

/* An Active port, of the subnet of @gid if one is; else any. NULL: the node has none. */
static const struct subnet_end *end_choose(const struct subnet *subnet, const uint8_t gid[16])
	REQUIRES(subnet->lock)
{
	const struct subnet_end *best = NULL;
	int best_points = -1;

	for (unsigned i = 0; i < subnet->end_count; i++) {
		const struct subnet_end *end = &subnet->end[i];
		int points = 2 * (end->now.state == PORT_STATE_ACTIVE) + !memcmp(end->now.gid[0], gid, 8);

		if (points > best_points) {
			best = end;
			best_points = points;
		}
	}
	return best;
}

/*
 * 127.0.0.1 and ::1, which no port of a fabric has, are the node itself: Linux takes a port of the host
 * for them as for 0.0.0.0. Where lo is a device they are that one's. @ip: the port's own address.
 */
static const struct subnet_end *end_of_localhost(const struct subnet *subnet, const uint8_t address[16],
						 const uint8_t **ip) REQUIRES(subnet->lock)
{
	static const uint8_t none[16];
	const struct subnet_end *end = ip_addr_is_localhost(address) ? end_choose(subnet, none) : NULL;

	*ip = end ? own_ip_like(subnet, end, address) : NULL;
	return *ip ? end : NULL;
}

int subnet_find_address(void *owner, const uint8_t address[16], struct net_gid *found)
{
	struct subnet *subnet = owner;
	const struct subnet_end *end = NULL;
	uint16_t pkey = 0;
	bool alone;

	if (ip_addr_is_zero(address))
		return EADDRNOTAVAIL;
	alone = ip_addr_is_localhost(address) && !net_has_interfaces();
	own_learn(subnet);
	lock_acquire(&subnet->lock);
	for (unsigned i = 0; i < subnet->own_count && !end; i++)
		if (!memcmp(subnet->own[i].ip, address, sizeof(subnet->own[i].ip))) {
			end = subnet_find_end(subnet, subnet->own[i].port);
			pkey = subnet->own[i].pkey;
		}
	for (unsigned i = 0; i < subnet->end_count && !end; i++)
		for (unsigned n = 0; n < subnet->end[i].now.gids; n++)
			if (!memcmp(subnet->end[i].now.gid[n], address, 16))
				end = &subnet->end[i];
	if (!end && alone)
		end = end_of_localhost(subnet, address, &address);
	if (end)
		end_fill(subnet, end, pkey, address, found);
	lock_release(&subnet->lock);
	return end ? 0 : EADDRNOTAVAIL;
}

bool subnet_look(void *owner, uint16_t port, struct net_ib_port *look)
{
	struct subnet *subnet = owner;
	const struct subnet_end *end;

	lock_acquire(&subnet->lock);
	end = subnet_find_end(subnet, port);
	if (end) {
		const struct ctl_port *now = &end->now;

		*look = (struct net_ib_port){
			.lid = (uint16_t)now->lid, .sm_lid = (uint16_t)now->sm_lid,
			.lmc = (uint8_t)(now->lmc & 7), .sm_sl = (uint8_t)(now->sm_sl & 0xf),
			.subnet_timeout = (uint8_t)now->subnet_timeout,
			.state = (enum ibv_port_state)now->state,
			.active_mtu = (enum ibv_mtu)now->mtu_active,
			.pkeys = (uint16_t)now->pkeys,
		};
		memcpy(look->gid.raw, now->gid[0], sizeof(look->gid.raw));
		memcpy(look->pkey, now->pkey, now->pkeys * sizeof(look->pkey[0]));
	}
	lock_release(&subnet->lock);
	return end;
}

/* ---- the way to an address ---- */

/* An address in the partition of the other end's: to others there is no way, as between IPoIB interfaces. */
static bool way_choose(struct subnet *subnet, uint16_t pkey, struct net_way *way)
{
	const struct subnet_end *end;
	const uint8_t *ip;

	own_learn(subnet);
	lock_acquire(&subnet->lock);
	end = end_choose(subnet, way->gid);
	ip = end ? own_ip(subnet, end->port, pkey) : NULL;
	for (unsigned i = 0; pkey && !ip && i < subnet->own_count; i++)
		if (subnet->own[i].pkey == pkey) {
			ip = subnet->own[i].ip;
			end = subnet_find_end(subnet, subnet->own[i].port);
		}
	if (pkey && !ip)
		end = NULL;
	if (end) {
		memcpy(way->source, way->by_gid || !ip ? end->now.gid[0] : ip, sizeof(way->source));
		end_fill(subnet, end, pkey, way->source, &way->port);
	}
	lock_release(&subnet->lock);
	return end;
}

/*
 * 0; ENOENT: not of this fabric; errno. A GID that nobody here has may be one of another subnet, or of a
 * port that has just got it: the SA knows.
 */
static int way_find_gid(struct subnet *subnet, bool alone, struct net_way *way, uint16_t *pkey)
{
	struct address_answer *answer = malloc(sizeof(*answer));
	int err = answer ? address_ask(subnet, way->destination, answer) : ENOMEM;

	if (!err && answer->count) {
		memcpy(way->gid, answer->one[0].gid, sizeof(way->gid));
		/* Asked for a GID, it is that of another address of the port. */
		if (!memcmp(answer->one[0].ip, way->destination, sizeof(answer->one[0].ip)))
			*pkey = answer->one[0].pkey;
	} else if (!err && way->by_gid && alone) {
		memcpy(way->gid, way->destination, sizeof(way->gid));
	} else if (!err) {
		err = ENOENT;
	}
	free(answer);
	return err;
}

/* To the node itself, from itself: to the port that it is bound to, or chooses. */
static int way_to_self(struct subnet *subnet, bool bound, struct net_way *way)
{
	const struct subnet_end *end;
	const uint8_t *ip = NULL;

	own_learn(subnet);
	lock_acquire(&subnet->lock);
	end = bound ? subnet_find_end(subnet, way->port.ib_port) : NULL;
	if (end)
		ip = own_ip_like(subnet, end, way->destination);
	else
		end = end_of_localhost(subnet, way->destination, &ip);
	if (ip) {
		memcpy(way->gid, end->now.gid[0], sizeof(way->gid));
		memcpy(way->destination, ip, sizeof(way->destination));
		if (!bound) {
			memcpy(way->source, ip, sizeof(way->source));
			end_fill(subnet, end, 0, ip, &way->port);
		}
	}
	lock_release(&subnet->lock);
	return ip ? 0 : EHOSTUNREACH;
}

/* Of one that it is bound to. */
static uint16_t own_pkey(struct subnet *subnet, const uint8_t address[16])
{
	uint16_t pkey = 0;

	lock_acquire(&subnet->lock);
	for (unsigned i = 0; i < subnet->own_count; i++)
		if (!memcmp(subnet->own[i].ip, address, sizeof(subnet->own[i].ip)))
			pkey = subnet->own[i].pkey;
	lock_release(&subnet->lock);
	return pkey;
}

int subnet_find_way(void *owner, bool alone, struct net_way *way)
{
	struct subnet *subnet = owner;
	bool bound = !ip_addr_is_zero(way->source), multicast = ip_addr_is_multicast(way->destination);
	uint16_t pkey = 0;
	int err = 0;

	if (bound && subnet_find_address(subnet, way->source, &way->port))
		return ENOENT;
	if (multicast && !bound && !alone)
		return ENOENT;		/* the kernel's routes say where it leaves */
	memset(way->gid, 0, sizeof(way->gid));
	if (!multicast)
		err = way_find_gid(subnet, alone || bound, way, &pkey);
	if (err == ENOENT && alone && ip_addr_is_localhost(way->destination))
		return way_to_self(subnet, bound, way);
	if (err == ENOENT && (bound || alone))
		err = EHOSTUNREACH;
	if (err)
		return err;
	if (bound && !multicast && own_pkey(subnet, way->source) != pkey)
		return EHOSTUNREACH;
	return bound || way_choose(subnet, pkey, way) ? 0 : pkey ? EHOSTUNREACH : ENODEV;
}

/* ---- services ---- */

static int service_say(const struct subnet *subnet, const struct ctl_service *service,
		       char why[PLACE_WHY_MAX])
{
	return ib_question(&subnet->binding, CTL_SERVICE, service, sizeof(*service), NULL, NULL, NULL,
			   why);
}

/* What is to be said again to a fabric that comes back. False: no memory. */
static bool service_note(struct subnet *subnet, const struct ctl_service *service)
{
	struct ctl_service *larger;
	unsigned i;

	lock_acquire(&subnet->lock);
	for (i = 0; i < subnet->service_count; i++) {
		const struct ctl_service *known = &subnet->service[i];

		if (known->service_id == service->service_id && known->family == service->family &&
		    !memcmp(known->address, service->address, sizeof(known->address)))
			break;
	}
	if (service->what == CTL_SERVICE_RELEASE) {
		if (i < subnet->service_count)
			subnet->service[i] = subnet->service[--subnet->service_count];
	} else if (i < subnet->service_count) {
		subnet->service[i].what = service->what;
	} else {
		larger = reallocarray(subnet->service, subnet->service_count + 1, sizeof(*larger));
		if (larger) {
			subnet->service = larger;
			larger[subnet->service_count++] = *service;
		}
		i = larger ? i : UINT32_MAX;
	}
	lock_release(&subnet->lock);
	return i != UINT32_MAX;
}

void subnet_services_again(struct subnet *subnet)
{
	char why[PLACE_WHY_MAX];

	for (unsigned i = 0; i < subnet->service_count; i++) {
		struct ctl_service service = subnet->service[i];
		bool serves = service.what == CTL_SERVICE_SERVE;
		int err;

		service.what = CTL_SERVICE_CLAIM;
		err = service_say(subnet, &service, why);
		service.what = CTL_SERVICE_SERVE;
		if (!err && serves)
			err = service_say(subnet, &service, why);
		if (err)
			complain("the fabric %s: a service ID of this process is lost: %s",
				 subnet->binding.fabric, why);
	}
}

int subnet_serve(void *owner, const struct net_service *wanted)
{
	static const uint32_t what[] = { [NET_RELEASE] = CTL_SERVICE_RELEASE,
					 [NET_CLAIM] = CTL_SERVICE_CLAIM,
					 [NET_SERVE] = CTL_SERVICE_SERVE };
	struct subnet *subnet = owner;
	struct ctl_service service = {
		.what = what[wanted->what], .service_id = wanted->id,
		.family = wanted->family == AF_INET ? 4 : wanted->family == AF_INET6 ? 6 : 0,
	};
	char why[PLACE_WHY_MAX];
	int err;

	strcpy(service.place.node, subnet->binding.node);
	memcpy(service.address, wanted->address, sizeof(service.address));
	lock_acquire(&subnet->lock);
	service.slot = subnet->slot_count ? subnet->slot[0] : 0;
	lock_release(&subnet->lock);
	if (!service_note(subnet, &service))
		return ENOMEM;
	/* A fabric that is gone is told when it comes back. */
	if (!atomic_load(&subnet->up))
		return 0;
	err = service_say(subnet, &service, why);
	if (!err || wanted->what == NET_RELEASE)
		return 0;
	service.what = CTL_SERVICE_RELEASE;
	service_note(subnet, &service);
	if (err != EADDRINUSE && err != EADDRNOTAVAIL)
		explain("rdma_bind_addr: the fabric %s: %s", subnet->binding.fabric, why);
	return err;
}

/* ---- for explanations ---- */

void subnet_describe(void *owner, char *text, size_t bytes)
{
	struct subnet *subnet = owner;
	size_t used = 0;

	own_learn(subnet);
	lock_acquire(&subnet->lock);
	for (unsigned i = 0; i < subnet->end_count && used < bytes; i++) {
		const struct ctl_port *now = &subnet->end[i].now;
		const uint8_t *ip = own_ip(subnet, subnet->end[i].port, 0);
		bool ipv4 = ip && ip_addr_is_ipv4(ip);
		char name[INET6_ADDRSTRLEN] = "no address";

		if (ip)
			inet_ntop(ipv4 ? AF_INET : AF_INET6, ip + (ipv4 ? 12 : 0), name, sizeof(name));
		used += (size_t)snprintf(text + used, bytes - used, "%s%s port %u (%s, LID %u%s)",
					 i ? ", " : "", now->device, now->number, name, now->lid,
					 now->state == PORT_STATE_ACTIVE ? "" : ", not Active");
	}
	lock_release(&subnet->lock);
}
