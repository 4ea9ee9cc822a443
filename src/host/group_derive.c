/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deriving which index of the reuseport group is which member, per family:
 *
 *	IDLE --due--> ASKING --a member knows of a program, or ours is attached--> PROBING
 *	  ^                                                                          |
 *	  +------------------- map built, program attached --------------------------+
 *
 * The attached program steers a probe for index i: all programs of ours have that rule. In a group
 * that never had one, probes are hashed and mean nothing; so a member that knows of no program asks
 * first, and attaches one without a map if no member knows of one. Members that do not answer
 * (stopped, starved) get a second try, then are left out: their slots go to us, to be forwarded, or
 * to their index if that is the only one unknown. A late answer is still put into the map.
 *
 * When several members derive at once, each answers the others and postpones a derivation that it
 * has not begun (unless it is urgent: no member knows its slots); the program attached last is as
 * good as any. If a join or leave overtakes a derivation, foreign packets start the next one;
 * derivations that change nothing are repeated ever more rarely.
 */
#include "host/group_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define MS		GROUP_MS
#define ANSWER_NS	(20 * MS)	/* how long a probe waits for its answer */
#define TRIES		2u
#define RESTARTS_MAX	8u		/* then use the partial result, and derive again later */
#define WINDOW		4u		/* probes under way: the answers' queue holds 10 */
#define LATE_NS		(1 * MS)	/* how long late answers are gathered */
#define BACKOFF_MAX_NS	(1000 * MS)

/* ---- time ---- */

static uint64_t derive_earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void group_update_deadline(struct port_group *group)
{
	uint64_t next_ns = TIME_NEVER;
	unsigned f, i;

	for (f = 0; f < 2; f++) {
		struct family *family = &group->family[f];

		if (family->state == IDLE)
			next_ns = derive_earliest(next_ns, family->start_ns);
		next_ns = derive_earliest(next_ns, family->late_ns);
		for (i = 0; family->state != IDLE && i < family->size; i++)
			next_ns = derive_earliest(next_ns, family->probe[i].deadline_ns);
	}
	atomic_store_explicit(&group->deadline_ns, next_ns, memory_order_relaxed);
}

void group_schedule(struct family *family, uint64_t when_ns)
{
	if (family->fd < 0)
		return;
	if (family->state != IDLE)
		family->again = true;
	else
		family->start_ns = derive_earliest(family->start_ns, when_ns);
}

/* ---- the program ---- */

static int derive_attach(struct port_group *group, struct family *family,
			 const struct group_map *map)
{
	struct sock_fprog program = { .filter = group->program };

	program.len = (unsigned short)group_program_build(map, group->program);
	if (fail_now(FAIL_SETSOCKOPT) ||
	    setsockopt(family->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
		       sizeof(program))) {
		log_warn("port 4791: cannot attach the BPF program that selects the receiving "
			 "process: %m");
		return errno;
	}
	family->program_known = true;
	return 0;
}

/* ---- probing ---- */

static void derive_send_probe(struct port_group *group, struct family *family, unsigned index,
			      uint64_t now_ns) REQUIRES(group->lock)
{
	struct group_message message = { .kind = GROUP_PROBE, .family = family->number,
					 .program_known = family->program_known,
					 .slot = group->slots[0], .index = index,
					 .nonce = family->nonce };
	struct sockaddr_in ipv4 = { .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT),
				     .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const void *name = family->number == 4 ? (void *)&ipv4 : (void *)&ipv6;
	socklen_t name_bytes = family->number == 4 ? sizeof(ipv4) : sizeof(ipv6);
	uint8_t bytes[GROUP_MESSAGE_MAX];
	size_t length = group_message_write(&message, bytes);
	struct probe *probe = &family->probe[index];

	probe->tries++;
	probe->deadline_ns = now_ns + ANSWER_NS;
	if (fail_now(FAIL_SENDMSG) || sendto(family->probe_fd, bytes, length,
					     MSG_DONTWAIT | MSG_NOSIGNAL, name, name_bytes) < 0) {
		log_debug("port 4791: cannot send a probe: %m");
		probe->tries = TRIES;
		probe->deadline_ns = now_ns;
	}
}

static void new_round(struct family *family, enum state state)
{
	unsigned i;

	family->state = state;
	family->nonce = random_u64();
	family->answered = 0;
	family->late_ns = TIME_NEVER;
	for (i = 0; i < family->size; i++)
		family->probe[i] = (struct probe){ .deadline_ns = TIME_NEVER };
	memset(family->spoke, 0, sizeof(family->spoke));
	group_map_clear(&family->found);
}

static void retry_later(struct family *family, uint64_t now_ns)
{
	family->backoff_ns = derive_earliest(2 * family->backoff_ns, BACKOFF_MAX_NS);
	family->allowed_ns = now_ns + family->backoff_ns;
}

static void derive_begin(struct port_group *group, struct family *family, uint64_t now_ns)
{
	unsigned size = group_socket_count(family->number);

	family->start_ns = TIME_NEVER;
	family->again = family->urgent = false;
	family->restarts = 0;
	if (size > SLOT_COUNT)
		size = SLOT_COUNT;
	if (size < 2) {			/* alone (no choice to be made), or /proc is not readable */
		retry_later(family, now_ns);
		return;
	}
	family->size = size;
	new_round(family, family->program_known ? PROBING : ASKING);
}

/* Give up, retry, and start probes. True: all are answered or given up. */
static bool derive_advance(struct port_group *group, struct family *family, uint64_t now_ns)
	REQUIRES(group->lock)
{
	unsigned limit = family->state == ASKING ? 1 : family->size, i, open = 0, under_way = 0;

	for (i = 0; i < limit; i++) {
		struct probe *probe = &family->probe[i];

		if (probe->answered)
			continue;
		if (probe->deadline_ns <= now_ns)
			probe->deadline_ns = TIME_NEVER;
		under_way += probe->deadline_ns != TIME_NEVER;
	}
	for (i = 0; i < limit; i++) {
		struct probe *probe = &family->probe[i];

		if (probe->answered)
			continue;
		if (probe->deadline_ns == TIME_NEVER && probe->tries < TRIES &&
		    under_way < WINDOW) {
			derive_send_probe(group, family, i, now_ns);
			under_way++;
		}
		open += probe->deadline_ns != TIME_NEVER || probe->tries < TRIES;
	}
	return !open;
}

/* ---- from answers to a map ---- */

static void derive_build(struct port_group *group, struct family *family) REQUIRES(group->lock)
{
	struct group_map map = family->found;
	uint16_t rest = GROUP_HASH;
	unsigned slot, index;

	/*
	 * Unclaimed slots go to any member (GROUP_HASH) if all members answered; else to one that did,
	 * ourselves if possible, since the hash could choose a stopped one.
	 */
	if (family->answered != family->size) {
		rest = map.index[group->slots[0]];
		for (index = 0; rest == GROUP_HASH && index < family->size; index++)
			if (family->probe[index].answered)
				rest = (uint16_t)index;
	}
	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (map.index[slot] == GROUP_HASH)
			map.index[slot] = rest;
	/* Requests for unknown services go to any member that answered. */
	map.size = (uint16_t)family->size;
	map.rest = rest;
	for (index = 0; index < family->size && map.silent_count < GROUP_SILENT; index++)
		if (!family->probe[index].answered)
			map.silent[map.silent_count++] = (uint16_t)index;
	if (memcmp(&map, &family->attached, sizeof(map)))
		family->backoff_ns = GROUP_BACKOFF_MIN_NS / 2;	/* news: retry_later() doubles it */
	if (derive_attach(group, family, &map))
		return;
	family->attached = map;
	counter_add(group->counters, COUNTER_GROUP_REMAP, 1);
	log_debug("port 4791 (IPv%u): %u of %u members answered", family->number, family->answered,
		  family->size);
}

/*
 * Members joined or left meanwhile: the answers are out of date, and must not replace the program of
 * a member with newer ones. New members have the last indices: ask for those too. After a
 * leave ask for all again. True: there is more to ask.
 */
static bool is_overtaken(struct family *family)
{
	unsigned i, size = group_socket_count(family->number);

	if (size == family->size || size < 2 || size > SLOT_COUNT ||
	    ++family->restarts > RESTARTS_MAX)
		return false;
	for (i = family->size; i < size; i++)
		family->probe[i] = (struct probe){ .deadline_ns = TIME_NEVER };
	if (size < family->size)
		new_round(family, PROBING);
	family->size = size;
	return true;
}

static void derive_finish(struct port_group *group, struct family *family, uint64_t now_ns)
	REQUIRES(group->lock)
{
	unsigned slot, index = 0, silent = 0, silent_slot = 0;

	family->state = IDLE;
	if (!group_members_list(&group->members)) {
		/* The one member that did not answer must have the one index that got no answer. */
		for (slot = 0; slot < SLOT_COUNT; slot++)
			if (group->members.is[slot] && !family->spoke[slot]) {
				silent++;
				silent_slot = slot;
			}
		while (index < family->size && family->probe[index].answered)
			index++;
		if (family->answered + 1 == family->size && silent == 1 && index < family->size)
			family->found.index[silent_slot] = (uint16_t)index;
		group_watch_choose(&group->watch, &group->members);
	}
	if (family->answered)		/* else lo is down: leave all as it is */
		derive_build(group, family);
	retry_later(family, now_ns);
	if (family->again || group_socket_count(family->number) != family->size)
		group_schedule(family, now_ns + GROUP_BACKOFF_MIN_NS);
}

/* No member knows of a program, so there may be none: attach one that only steers probes. */
static void introduce_program(struct port_group *group, struct family *family, uint64_t now_ns)
{
	log_debug("port 4791 (IPv%u): no member knows of a BPF program, attaching one",
		  family->number);
	group_map_clear(&family->found);
	family->found.size = (uint16_t)family->size;
	if (derive_attach(group, family, &family->found)) {
		family->state = IDLE;
		retry_later(family, now_ns);
		return;
	}
	family->attached = family->found;
	new_round(family, PROBING);
}

void group_turn(struct port_group *group, struct family *family, uint64_t now_ns)
{
	if (family->state == IDLE && family->start_ns <= now_ns)
		derive_begin(group, family, now_ns);
	if (family->state == ASKING && family->program_known)
		new_round(family, PROBING);
	if (family->state == ASKING && derive_advance(group, family, now_ns))
		introduce_program(group, family, now_ns);
	while (family->state == PROBING && derive_advance(group, family, now_ns))
		if (!is_overtaken(family))
			derive_finish(group, family, now_ns);
	if (family->state == IDLE && family->late_ns <= now_ns) {
		family->late_ns = TIME_NEVER;
		derive_build(group, family);
	}
}

/* ---- answers ---- */

void group_record(struct family *family, const struct group_message *answer, uint64_t now_ns)
{
	struct probe *probe = &family->probe[answer->index];
	struct group_map *map = &family->found;
	unsigned i, n;

	if (family->state == ASKING) {
		/* A map made now would mean nothing. Whether there is a program is the answer. */
		probe->answered = true;
		probe->deadline_ns = TIME_NEVER;
		return;
	}
	if (probe->answered)
		return;
	probe->answered = true;
	probe->deadline_ns = TIME_NEVER;
	family->answered++;
	for (i = 0; i < answer->slot_count; i++) {
		map->index[answer->slots[i]] = (uint16_t)answer->index;
		family->spoke[answer->slots[i]] = true;
	}
	/* A service that several members serve, at different addresses, goes to the first, which forwards. */
	for (i = 0; i < answer->service_count && map->service_count < GROUP_SERVICES; i++) {
		for (n = 0; n < map->service_count && map->service_id[n] != answer->services[i]; n++)
			;
		if (n < map->service_count)
			continue;
		map->service_id[n] = answer->services[i];
		map->service_index[n] = (uint16_t)answer->index;
		map->service_count++;
	}
	if (family->state == IDLE)
		family->late_ns = derive_earliest(family->late_ns, now_ns + LATE_NS);
}
