/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port spaces. In this process a hash table of endpoints with Linux's rules (REUSEADDR, AFONLY); on
 * this host, between processes and users, gsi_claim(): for ports that the application named or
 * requested by rdma_bind_addr(), at the latest when it listens. The source port of an endpoint that
 * only connects is chosen by this process alone: requests never look it up.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cm/endpoint/internal.h"
#include "platform/privilege.h"

#define BUCKETS		1024u
#define EPHEMERAL_FIRST	32768u		/* Linux's net.ipv4.ip_local_port_range */
#define EPHEMERAL_LAST	60999u
#define EPHEMERAL_COUNT	(EPHEMERAL_LAST - EPHEMERAL_FIRST + 1)
#define CLAIMS_TRIED	64		/* ports of other processes that we run into, one after another */

/* Under agent.lock; NULL: no bucket was used yet. */
static struct list table[BUCKETS];

static struct list *ports_bucket_of(uint64_t service_id) REQUIRES(agent.lock)
{
	struct list *bucket = &table[(uint32_t)(service_id ^ service_id >> 16) % BUCKETS];

	if (!bucket->next)
		list_init(bucket);
	return bucket;
}

void ports_forget(void)
{
	memset(table, 0, sizeof(table));
}

static uint64_t ports_service_of(const struct endpoint *endpoint)
{
	return address_service_id(&endpoint->source, endpoint->space);
}

void ports_drop(struct endpoint *endpoint)
{
	list_remove(&endpoint->same_port);
}

int ports_family(const struct endpoint *endpoint)
{
	if (endpoint->source.family == AF_IB || !endpoint->afonly)
		return AF_UNSPEC;
	return endpoint->source.family;
}

/* ---- port space ---- */

/* AF_IB: the space stands in the service ID, as far as the mask says; RDMA_PS_IB means any. */
static int choose_ib_space(struct endpoint *endpoint)
{
	static const uint64_t spaces[] = { RDMA_IB_PS_IB, RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_UDP };
	struct endpoint_address *address = &endpoint->source;
	uint64_t mask = address->mask & RDMA_IB_IP_PS_MASK;
	unsigned i;

	for (i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		bool ours = endpoint->space == RDMA_PS_IB ||
			    (uint64_t)endpoint->space << 16 == spaces[i];

		if (!ours || (address->service_id & mask) != (spaces[i] & mask))
			continue;
		address->service_id = spaces[i] | address->port;
		address->mask |= RDMA_IB_IP_PS_MASK;
		return 0;
	}
	return EPROTONOSUPPORT;
}

static void set_port_number(struct endpoint *endpoint, uint16_t port)
{
	struct endpoint_address *address = &endpoint->source;

	address->port = port;
	if (address->family != AF_IB)
		return;
	address->service_id = (address->service_id & RDMA_IB_IP_PS_MASK) | port;
	address->mask = UINT64_MAX;
}

/* ---- in this process ---- */

static bool ports_conflict(const struct endpoint *new, const struct endpoint *old, bool listening)
{
	bool old_any = address_is_any(&old->source), new_any = address_is_any(&new->source);

	if (!listening && new->reuse && old->reuse && old->state != STATE_LISTENING)
		return false;
	if (listening && old->state != STATE_LISTENING && old->reuse && new->reuse)
		return false;
	if (new->afonly && old->afonly && new->source.family != old->source.family)
		return false;
	return old_any || new_any ||
	       (!memcmp(new->source.bytes, old->source.bytes, 16) && new->source.scope == old->source.scope);
}

static bool is_taken(const struct endpoint *endpoint, bool listening) REQUIRES(agent.lock)
{
	uint64_t service_id = ports_service_of(endpoint);
	struct list *node, *bucket = ports_bucket_of(service_id);

	list_for_each(node, bucket) {
		const struct endpoint *other = list_entry(node, struct endpoint, same_port);

		if (other != endpoint && ports_service_of(other) == service_id &&
		    ports_conflict(endpoint, other, listening))
			return true;
	}
	return false;
}

static bool ports_enlist(struct endpoint *endpoint, uint16_t port) REQUIRES(agent.lock)
{
	set_port_number(endpoint, port);
	if (is_taken(endpoint, false))
		return false;
	list_add_tail(ports_bucket_of(ports_service_of(endpoint)), &endpoint->same_port);
	return true;
}

/* ---- on this host ---- */

static int ports_claim(struct endpoint *endpoint)
{
	static const uint8_t any[16];
	const uint8_t *address = address_is_any(&endpoint->source) ? any : endpoint->source.bytes;

	return gsi_claim(agent.gsi, ports_service_of(endpoint), address, ports_family(endpoint),
			 &endpoint->claim);
}

static void leave_port(struct endpoint *endpoint)
{
	agent_lock();
	ports_drop(endpoint);
	agent_unlock();
}

static int take_chosen(struct endpoint *endpoint, bool claimed)
{
	uint32_t first, tried, refused = 0;
	bool found;
	int err;

	agent_lock();
	first = agent_random() % EPHEMERAL_COUNT;
	agent_unlock();
	for (tried = 0; tried < EPHEMERAL_COUNT; tried++) {
		agent_lock();
		found = ports_enlist(
			endpoint, (uint16_t)(EPHEMERAL_FIRST + (first + tried) % EPHEMERAL_COUNT));
		agent_unlock();
		if (!found)
			continue;
		err = claimed ? ports_claim(endpoint) : 0;
		if (!err)
			return 0;
		leave_port(endpoint);
		if (err != EADDRINUSE)
			return err;
		if (++refused == CLAIMS_TRIED)
			break;
	}
	set_port_number(endpoint, 0);
	return EADDRNOTAVAIL;
}

int ports_take(struct endpoint *endpoint, bool claimed)
{
	bool found;
	int err = 0;

	if (endpoint->source.family == AF_IB)
		err = choose_ib_space(endpoint);
	if (err)
		return err;
	/* A port shared by REUSEADDR is not claimed until one of its endpoints listens. */
	claimed = claimed && !endpoint->reuse;
	if (!endpoint->source.port)
		return take_chosen(endpoint, claimed);
	if (!may_bind_port(endpoint->source.port)) {
		explain_of(OF(PORT, endpoint->source.port),
			"rdma_bind_addr: port %u is below 1024 and needs CAP_NET_BIND_SERVICE, as "
			"with TCP",
			endpoint->source.port);
		return EACCES;
	}
	agent_lock();
	found = ports_enlist(endpoint, endpoint->source.port);
	agent_unlock();
	if (!found)
		return EADDRINUSE;
	err = claimed ? ports_claim(endpoint) : 0;
	if (err)
		leave_port(endpoint);
	return err;
}

int ports_take_to_listen(struct endpoint *endpoint)
{
	bool taken;

	agent_lock();
	taken = is_taken(endpoint, true);
	agent_unlock();
	if (taken)
		return EADDRINUSE;
	return endpoint->claim ? 0 : ports_claim(endpoint);
}
