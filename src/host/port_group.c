/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port group: joining and leaving, probes and answers that come in, and when to derive the map
 * anew. How that is done: group_derive.c; members that left: group_watch.c.
 */
#include "host/port_group.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/call.h"
#include "base/inline.h"
#include "base/ip_addr.h"
#include "base/log.h"
#include "host/group_internal.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define MS		GROUP_MS
#define POSTPONE_NS	(30 * MS)	/* another member derives: wait for its result */
#define LEFT_NS		(1 * MS)	/* from a hang-up until the kernel has closed the rest */

static uint64_t jitter_ns(uint64_t below_ns)
{
	return random_u64() % below_ns;
}

/* ---- probes and answers that come in ---- */

static void port_group_take_answer(struct family *family, const struct group_message *answer,
				   uint64_t now_ns)
{
	if (answer->nonce != family->nonce || answer->index >= family->size)
		return;			/* of an earlier derivation, or not asked for */
	family->program_known |= answer->program_known;
	group_record(family, answer, now_ns);
}

static void take_probe(struct port_group *group, struct family *family,
		       const struct group_message *probe, uint64_t now_ns) REQUIRES(group->lock)
{
	struct group_message answer = { .kind = GROUP_ANSWER, .family = probe->family,
					.program_known = family->program_known,
					.slot = group->slots[0], .index = probe->index,
					.nonce = probe->nonce, .slot_count = group->slot_count,
					.service_count = group->service_count };
	uint8_t bytes[GROUP_MESSAGE_MAX];
	struct datagram datagram = { .data = bytes };

	memcpy(answer.slots, group->slots, group->slot_count * sizeof(answer.slots[0]));
	memcpy(answer.services, group->services, group->service_count * sizeof(answer.services[0]));
	if (probe->slot == group->slots[0]) {
		port_group_take_answer(family, &answer, now_ns);
		return;
	}
	family->program_known |= probe->program_known;
	datagram.bytes = group_message_write(&answer, bytes);
	if (slot_forward(probe->slot, &datagram))
		log_debug("port 4791: cannot answer the probe of slot %u", probe->slot);
	if (family->state == IDLE && family->start_ns != TIME_NEVER && !family->urgent)
		family->start_ns = now_ns + POSTPONE_NS + jitter_ns(POSTPONE_NS);
	group_watch_consider(&group->watch, probe->slot);
}

static void take_locked(struct port_group *group, const struct datagram *datagram)
	REQUIRES(group->lock)
{
	struct group_message *message = &group->received;
	uint64_t now_ns = clock_now_ns();
	struct family *family;

	if (group_message_parse(datagram->data, datagram->bytes, message))
		return;
	family = &group->family[message->family == 6];
	if (family->fd < 0)
		return;
	/* Probes come from this host: others could make us send packets to each other. */
	if (message->kind == GROUP_ANSWER && datagram->forwarded)
		port_group_take_answer(family, message, now_ns);
	else if (message->kind == GROUP_PROBE && !datagram->forwarded &&
		 (ip_addr_is_loopback_ipv4(datagram->source) || ip_addr_is_localhost(datagram->source)))
		take_probe(group, family, message, now_ns);
	group_turn(group, family, now_ns);
	group_update_deadline(group);
}

static APART void port_group_take(struct port_group *group, const struct datagram *datagram)
{
	struct datagram one = *datagram;

	call_shield();		/* it is answered */
	lock_acquire(&group->lock);
	/* GRO may have merged several probes of one sender. */
	while (one.bytes) {
		size_t rest = one.bytes, segment = one.segment_bytes ? one.segment_bytes : rest;

		one.bytes = segment < rest ? segment : rest;
		take_locked(group, &one);
		one.data += one.bytes;
		one.bytes = rest - one.bytes;
	}
	lock_release(&group->lock);
}

bool port_group_takes(struct port_group *group, const struct datagram *datagram)
{
	if (!group_message_is(datagram->data, datagram->bytes))
		return false;
	port_group_take(group, datagram);
	return true;
}

/* ---- the rest of the interface ---- */

void port_group_stale(struct port_group *group, uint64_t now_ns)
{
	unsigned f;

	lock_acquire(&group->lock);
	for (f = 0; f < 2; f++) {
		struct family *family = &group->family[f];

		if (family->state == IDLE && family->start_ns == TIME_NEVER)
			group_schedule(family, family->allowed_ns > now_ns ? family->allowed_ns :
								       now_ns + jitter_ns(MS));
	}
	group_update_deadline(group);
	lock_release(&group->lock);
}

uint64_t port_group_deadline(const struct port_group *group)
{
	return atomic_load_explicit(&group->deadline_ns, memory_order_relaxed);
}

bool port_group_is_settled(struct port_group *group)
{
	bool settled = true;
	unsigned f;

	lock_acquire(&group->lock);
	for (f = 0; f < 2; f++) {
		const struct family *family = &group->family[f];

		settled &= family->fd < 0 || (family->state == IDLE && family->start_ns == TIME_NEVER);
	}
	lock_release(&group->lock);
	return settled;
}

int port_group_event_fd(const struct port_group *group)
{
	return group->watch.epoll_fd;
}

void port_group_tick(struct port_group *group, uint64_t now_ns)
{
	bool left;
	unsigned f;

	lock_acquire(&group->lock);
	left = group_watch_turn(&group->watch);
	for (f = 0; f < 2; f++) {
		if (left)
			group_schedule(&group->family[f], now_ns + LEFT_NS + jitter_ns(MS));
		if (group->family[f].fd >= 0)
			group_turn(group, &group->family[f], now_ns);
	}
	group_update_deadline(group);
	lock_release(&group->lock);
}

/* Others do not know of our slots yet. */
static void port_group_announce(struct port_group *group) REQUIRES(group->lock)
{
	uint64_t now_ns = clock_now_ns();
	unsigned f;

	for (f = 0; f < 2; f++) {
		group->family[f].urgent = true;
		group_schedule(&group->family[f], now_ns);
	}
	group_update_deadline(group);
}

void port_group_add_slot(struct port_group *group, const struct slot *slot)
{
	lock_acquire(&group->lock);
	assert(group->slot_count < SLOT_COUNT);
	group->slots[group->slot_count++] = (uint16_t)slot->number;
	port_group_announce(group);
	lock_release(&group->lock);
}

/* A service that is no longer served does no harm: we forward or refuse its requests. */
void port_group_set_services(struct port_group *group, const uint64_t *ids, unsigned count,
			     uint64_t now_ns)
{
	bool news = false;
	unsigned i, n;

	if (count > GROUP_SERVICES)
		count = GROUP_SERVICES;
	lock_acquire(&group->lock);
	for (i = 0; i < count; i++) {
		for (n = 0; n < group->service_count && group->services[n] != ids[i]; n++)
			;
		news |= n == group->service_count;
	}
	memcpy(group->services, ids, count * sizeof(ids[0]));
	group->service_count = count;
	for (i = 0; news && i < 2; i++)
		group_schedule(&group->family[i], now_ns + MS + jitter_ns(MS));
	group_update_deadline(group);
	lock_release(&group->lock);
}

static int open_family(struct family *family, uint8_t number, int fd)
{
	family->number = number;
	family->fd = fd;
	family->probe_fd = -1;
	family->start_ns = family->late_ns = TIME_NEVER;
	family->backoff_ns = GROUP_BACKOFF_MIN_NS;
	if (fd < 0)
		return 0;
	family->probe_fd = fail_now(FAIL_SOCKET) ? -1 :
			   socket(number == 4 ? AF_INET : AF_INET6,
				  SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return family->probe_fd < 0 ? errno : 0;
}

/* Only closes; no lock, no message: also right in a fork()ed child. */
void port_group_abandon(struct port_group *group)
{
	unsigned f;

	lock_init(&group->lock);
	for (f = 0; f < 2; f++) {
		if (group->family[f].probe_fd >= 0)
			close(group->family[f].probe_fd);
		group->family[f].probe_fd = -1;
	}
	group_watch_close(&group->watch);
}

int port_group_join(struct port_group **joined, int fd4, int fd6, const struct slot *slots,
		    unsigned count, struct counters *counters)
{
	struct port_group *group = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*group));
	unsigned i;
	int err;

	if (!group)
		return ENOMEM;
	lock_init(&group->lock);
	group->counters = counters;
	group->watch.epoll_fd = group->watch.listen_fd = -1;
	for (i = 0; i < count; i++)
		group->slots[i] = (uint16_t)slots[i].number;
	group->slot_count = count;
	group->family[1].probe_fd = -1;
	err = open_family(&group->family[0], 4, fd4);
	if (!err)
		err = open_family(&group->family[1], 6, fd6);
	if (!err)
		err = group_watch_open(&group->watch, group->slots[0]);
	if (err) {
		port_group_leave(group);
		return err;
	}
	port_group_announce(group);
	*joined = group;
	return 0;
}

void port_group_leave(struct port_group *group)
{
	port_group_abandon(group);
	lock_destroy(&group->lock);
	free(group);
}
