/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deriving which index of the reuseport group is which member, per family:
 *
 *	IDLE --due--> ASKING --somebody knows of a program, or ours is attached--> PROBING
 *	  ^                                                                          |
 *	  +------------------- map built, program attached --------------------------+
 *
 * A probe for index i is steered by whatever program is attached: all of ours have that rule. In a
 * group that never had one, probes are hashed and mean nothing; so a member that does not know
 * asks first, and attaches a program without a map when nobody knows. Members that do not
 * answer (stopped, starved) are given a second try, then left out: their slots go to us, to be
 * handed on, or to their index if that is the only one unknown. An answer that comes late
 * is still put into the map.
 *
 * When several derive at once, each answers the others, postpones what it has not begun, and the
 * last program attached is as right as any. A derivation that a join or leave has overtaken shows
 * in foreign packets, which start the next one; what changes nothing is repeated ever more rarely.
 */
#include "host/port_group.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "host/group_program.h"
#include "host/group_watch.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define MS		1000000ull
#define ANSWER_NS	(20 * MS)	/* how long a probe waits for its answer */
#define TRIES		2u
#define RESTARTS_MAX	8u		/* then take what is known, and derive again later */
#define WINDOW		4u		/* probes under way: the answers' queue holds 10 */
#define POSTPONE_NS	(30 * MS)	/* another member derives: see what comes of it */
#define LEFT_NS		(1 * MS)	/* from a hang-up to the kernel's having closed the rest */
#define LATE_NS		(1 * MS)	/* late answers are gathered for so long */
#define BACKOFF_MIN_NS	(5 * MS)
#define BACKOFF_MAX_NS	(1000 * MS)

enum state { IDLE, ASKING, PROBING };

struct probe {
	uint64_t deadline_ns;		/* TIME_NEVER: not under way */
	uint8_t tries;
	bool answered;
};

struct family {
	int fd;				/* the bound socket; -1: none of this family */
	int probe_fd;
	uint8_t number;			/* 4 or 6 */
	enum state state;
	bool program_known;
	bool again;			/* something changed during the derivation */
	unsigned size, answered;	/* members; how many of them answered */
	unsigned restarts;		/* of this derivation */
	uint64_t nonce;
	uint64_t start_ns;		/* next derivation, TIME_NEVER: none due */
	uint64_t allowed_ns;		/* none for stale maps before this */
	uint64_t backoff_ns;
	uint64_t late_ns;		/* when to build the map again for late answers */
	struct probe probe[SLOT_COUNT];
	bool spoke[SLOT_COUNT];		/* by slot: its owner answered */
	struct group_map found, attached;
};

struct port_group {
	struct lock lock;
	struct counters *counters;
	uint16_t slots[SLOT_COUNT];	/* ours */
	unsigned slot_count;
	struct family family[2];
	struct group_watch watch;
	struct group_members members;	/* scratch of finish() */
	struct group_message received;	/* scratch of port_group_takes() */
	struct sock_filter program[BPF_MAXINSNS];
	_Atomic uint64_t deadline_ns;
};

/* ---- time ---- */

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void update_deadline(struct port_group *group)
{
	uint64_t next_ns = TIME_NEVER;
	unsigned f, i;

	for (f = 0; f < 2; f++) {
		struct family *family = &group->family[f];

		if (family->state == IDLE)
			next_ns = earliest(next_ns, family->start_ns);
		next_ns = earliest(next_ns, family->late_ns);
		for (i = 0; family->state != IDLE && i < family->size; i++)
			next_ns = earliest(next_ns, family->probe[i].deadline_ns);
	}
	atomic_store_explicit(&group->deadline_ns, next_ns, memory_order_relaxed);
}

static void schedule(struct family *family, uint64_t when_ns)
{
	if (family->fd < 0)
		return;
	if (family->state != IDLE)
		family->again = true;
	else
		family->start_ns = earliest(family->start_ns, when_ns);
}

static uint64_t jitter_ns(uint64_t below_ns)
{
	return random_u64() % below_ns;
}

/* ---- the program ---- */

static int attach(struct port_group *group, struct family *family, const struct group_map *map)
{
	struct sock_fprog program = { .filter = group->program };

	program.len = (unsigned short)group_program_build(map, group->program);
	if (fail_now(FAIL_SETSOCKOPT) ||
	    setsockopt(family->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
		       sizeof(program))) {
		log_warn("port 4791: the kernel refused the program that shares it: %m");
		return errno;
	}
	family->program_known = true;
	return 0;
}

static void map_fill(struct group_map *map, uint16_t index)
{
	unsigned slot;

	for (slot = 0; slot < SLOT_COUNT; slot++)
		map->index[slot] = index;
}

/* ---- probing ---- */

static void send_probe(struct port_group *group, struct family *family, unsigned index,
		       uint64_t now_ns)
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
		log_debug("port 4791: a probe could not be sent: %m");
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
	map_fill(&family->found, GROUP_HASH);
}

static void retry_later(struct family *family, uint64_t now_ns)
{
	family->backoff_ns = earliest(2 * family->backoff_ns, BACKOFF_MAX_NS);
	family->allowed_ns = now_ns + family->backoff_ns;
}

static void begin(struct port_group *group, struct family *family, uint64_t now_ns)
{
	unsigned size = group_socket_count(family->number);

	family->start_ns = TIME_NEVER;
	family->again = false;
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
static bool advance(struct port_group *group, struct family *family, uint64_t now_ns)
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
			send_probe(group, family, i, now_ns);
			under_way++;
		}
		open += probe->deadline_ns != TIME_NEVER || probe->tries < TRIES;
	}
	return !open;
}

/* ---- from answers to a map ---- */

/* The one member that did not answer must have the one index that nobody answered for. */
static void conclude_last(struct port_group *group, struct family *family)
{
	unsigned slot, index, silent = 0, silent_slot = 0;

	if (family->answered + 1 != family->size)
		return;
	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (group->members.is[slot] && !family->spoke[slot]) {
			silent++;
			silent_slot = slot;
		}
	for (index = 0; index < family->size && family->probe[index].answered; index++)
		;
	if (silent == 1 && index < family->size)
		family->found.index[silent_slot] = (uint16_t)index;
}

/*
 * Where slots go that nobody claimed: anywhere (GROUP_HASH) when all members answered; else to
 * one that did, ourselves if possible, for the hash could choose one that is stopped.
 */
static uint16_t choose_default(struct port_group *group, struct family *family)
{
	unsigned index = family->found.index[group->slots[0]];

	if (family->answered == family->size)
		return GROUP_HASH;
	if (index != GROUP_HASH)
		return (uint16_t)index;
	for (index = 0; index < family->size; index++)
		if (family->probe[index].answered)
			return (uint16_t)index;
	return GROUP_HASH;
}

static void build(struct port_group *group, struct family *family)
{
	struct group_map map = family->found;
	uint16_t rest = choose_default(group, family);
	unsigned slot;

	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (map.index[slot] == GROUP_HASH)
			map.index[slot] = rest;
	if (memcmp(&map, &family->attached, sizeof(map)))
		family->backoff_ns = BACKOFF_MIN_NS / 2;	/* news: retry_later() doubles it */
	if (attach(group, family, &map))
		return;
	family->attached = map;
	counter_add(group->counters, COUNTER_GROUP_REMAP, 1);
	log_debug("port 4791 (IPv%u): %u of %u members answered", family->number, family->answered,
		  family->size);
}

/*
 * Members joined or left meanwhile: what is known is out of date, and must not replace the program
 * of somebody who knows better. New members have the last indices: ask for those too. After a
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

static void finish(struct port_group *group, struct family *family, uint64_t now_ns)
{
	family->state = IDLE;
	if (!group_members_list(&group->members)) {
		conclude_last(group, family);
		group_watch_choose(&group->watch, &group->members);
	}
	if (family->answered)		/* else lo is down: leave all as it is */
		build(group, family);
	retry_later(family, now_ns);
	if (family->again || group_socket_count(family->number) != family->size)
		schedule(family, now_ns + BACKOFF_MIN_NS);
}

/* Nobody knows of a program, so there may be none: attach one that only steers probes. */
static void introduce_program(struct port_group *group, struct family *family, uint64_t now_ns)
{
	log_debug("port 4791 (IPv%u): no program known of, attaching one", family->number);
	map_fill(&family->found, GROUP_HASH);
	if (attach(group, family, &family->found)) {
		family->state = IDLE;
		retry_later(family, now_ns);
		return;
	}
	family->attached = family->found;
	new_round(family, PROBING);
}

static void turn(struct port_group *group, struct family *family, uint64_t now_ns)
{
	if (family->state == IDLE && family->start_ns <= now_ns)
		begin(group, family, now_ns);
	if (family->state == ASKING && family->program_known)
		new_round(family, PROBING);
	if (family->state == ASKING && advance(group, family, now_ns))
		introduce_program(group, family, now_ns);
	while (family->state == PROBING && advance(group, family, now_ns))
		if (!is_overtaken(family))
			finish(group, family, now_ns);
	if (family->state == IDLE && family->late_ns <= now_ns) {
		family->late_ns = TIME_NEVER;
		build(group, family);
	}
}

/* ---- probes and answers that come in ---- */

static void record(struct family *family, const struct group_message *answer, uint64_t now_ns)
{
	struct probe *probe = &family->probe[answer->index];
	unsigned i;

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
		family->found.index[answer->slots[i]] = (uint16_t)answer->index;
		family->spoke[answer->slots[i]] = true;
	}
	if (family->state == IDLE)
		family->late_ns = earliest(family->late_ns, now_ns + LATE_NS);
}

static struct group_message own_answer(const struct port_group *group,
				       const struct family *family,
				       const struct group_message *probe)
{
	struct group_message answer = { .kind = GROUP_ANSWER, .family = probe->family,
					.program_known = family->program_known,
					.slot = group->slots[0], .index = probe->index,
					.nonce = probe->nonce, .slot_count = group->slot_count };

	memcpy(answer.slots, group->slots, group->slot_count * sizeof(answer.slots[0]));
	return answer;
}

static void take_answer(struct family *family, const struct group_message *answer,
			uint64_t now_ns)
{
	if (answer->nonce != family->nonce || answer->index >= family->size)
		return;			/* of an earlier derivation, or not asked for */
	family->program_known |= answer->program_known;
	record(family, answer, now_ns);
}

static void take_probe(struct port_group *group, struct family *family,
		       const struct group_message *probe, uint64_t now_ns)
{
	struct group_message answer = own_answer(group, family, probe);
	uint8_t bytes[GROUP_MESSAGE_MAX];
	struct datagram datagram = { .data = bytes };

	if (probe->slot == group->slots[0]) {
		take_answer(family, &answer, now_ns);
		return;
	}
	family->program_known |= probe->program_known;
	datagram.bytes = group_message_write(&answer, bytes);
	if (slot_hand_on(probe->slot, &datagram))
		log_debug("port 4791: an answer to slot %u could not be sent", probe->slot);
	if (family->state == IDLE && family->start_ns != TIME_NEVER && family->program_known)
		family->start_ns = now_ns + POSTPONE_NS + jitter_ns(POSTPONE_NS);
	group_watch_consider(&group->watch, probe->slot);
}

/* Probes come from this host: others could make us send packets to each other. */
static bool is_from_here(const struct datagram *datagram)
{
	static const uint8_t mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };
	static const uint8_t ipv6[16] = { [15] = 1 };

	return !memcmp(datagram->source, mapped, sizeof(mapped)) ||
	       !memcmp(datagram->source, ipv6, sizeof(ipv6));
}

static void take_locked(struct port_group *group, const struct datagram *datagram)
{
	struct group_message *message = &group->received;
	uint64_t now_ns = clock_now_ns();
	struct family *family;

	if (group_message_parse(datagram->data, datagram->bytes, message))
		return;
	family = &group->family[message->family == 6];
	if (family->fd < 0)
		return;
	if (message->kind == GROUP_ANSWER && datagram->handed_on)
		take_answer(family, message, now_ns);
	else if (message->kind == GROUP_PROBE && !datagram->handed_on && is_from_here(datagram))
		take_probe(group, family, message, now_ns);
	turn(group, family, now_ns);
	update_deadline(group);
}

bool port_group_takes(struct port_group *group, const struct datagram *datagram)
{
	struct datagram one = *datagram;

	if (!group_message_is(datagram->data, datagram->bytes))
		return false;
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
			schedule(family, family->allowed_ns > now_ns ? family->allowed_ns :
								       now_ns + jitter_ns(MS));
	}
	update_deadline(group);
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
			schedule(&group->family[f], now_ns + LEFT_NS + jitter_ns(MS));
		if (group->family[f].fd >= 0)
			turn(group, &group->family[f], now_ns);
	}
	update_deadline(group);
	lock_release(&group->lock);
}

void port_group_add_slot(struct port_group *group, const struct slot *slot)
{
	uint64_t now_ns = clock_now_ns();
	unsigned f;

	lock_acquire(&group->lock);
	assert(group->slot_count < SLOT_COUNT);
	group->slots[group->slot_count++] = (uint16_t)slot->number;
	for (f = 0; f < 2; f++)
		schedule(&group->family[f], now_ns);
	update_deadline(group);
	lock_release(&group->lock);
}

static int open_family(struct family *family, uint8_t number, int fd)
{
	family->number = number;
	family->fd = fd;
	family->probe_fd = -1;
	family->start_ns = family->late_ns = TIME_NEVER;
	family->backoff_ns = BACKOFF_MIN_NS;
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
		port_group_abandon(group);
		free(group);
		return err;
	}
	lock_init(&group->lock);
	for (i = 0; i < 2; i++)
		schedule(&group->family[i], clock_now_ns());
	update_deadline(group);
	*joined = group;
	return 0;
}

void port_group_leave(struct port_group *group)
{
	port_group_abandon(group);
	lock_destroy(&group->lock);
	free(group);
}
