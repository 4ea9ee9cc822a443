/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of peer processes (peer.h): the memory of each channel, admission and dismissal, the
 * channel's socket, and setup and teardown with the HCA.
 */
#include "local/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/memory.h"

#define ACCESS_MAX_NS	1000000000u
#define UDP_FIRST_NS	1000000000u	/* how long packets sent by UDP may be under way */
#define PAGE_BYTES	4096u
#define HAZARD_BYTES	PAGE_BYTES
#define READS_MAX	16u		/* messages read from a socket in one go */
#define EVENTS_MAX	32
#define TURNS_ALONE	16u		/* of local_silence_bells(): one in so many looks at all */

_Static_assert(sizeof(struct hazard_table) <= HAZARD_BYTES, "they lie in the channel's memory");
_Static_assert(sizeof(struct grant_page) % PAGE_BYTES == 0, "so do grants");

int local_mode_of(const char *text, enum local_mode *mode)
{
	static const char *const names[] = { "auto", "mapped", "copy", "ring", "off" };
	unsigned i;

	*mode = LOCAL_AUTO;
	if (!text[0])
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i])) {
			*mode = (enum local_mode)i;
			return 0;
		}
	complain("VERBATIM_MEMORY: invalid value '%s': expected auto, mapped (the same), copy (one "
		 "copy between processes), ring (packets through shared memory) or off (UDP, as "
		 "between hosts)", text);
	return EINVAL;
}

/* ---- lookup ---- */

uint32_t local_channel(const struct local *local, uint32_t slot)
{
	if (!local->peers || slot >= SLOT_COUNT)
		return LOCAL_NO_CHANNEL;
	/* 0 becomes LOCAL_NO_CHANNEL. */
	return atomic_load_explicit(&local->peers->channel_of[slot], memory_order_acquire) - 1u;
}

struct peer *peer_at(const struct local *local, unsigned channel)
{
	struct peer *peer = channel < CHANNELS_MAX ?
		atomic_load_explicit(&local->peers->peer[channel], memory_order_acquire) : NULL;

	return peer && atomic_load_explicit(&peer->life, memory_order_acquire) ? peer : NULL;
}

struct peer *peer_of_slot(const struct local *local, uint32_t slot)
{
	uint32_t channel = local_channel(local, slot);

	return channel == LOCAL_NO_CHANNEL ? NULL : peer_at(local, channel);
}

bool peer_has_slot(const struct peer *peer, uint32_t slot)
{
	const struct hello *hello = &peer->process.hello;
	unsigned i;

	for (i = 0; i < hello->slot_count; i++)
		if (hello->slot[i] == slot)
			return true;
	return false;
}

bool peers_has_own_slot(const struct peers *peers, uint32_t slot)
{
	unsigned i;

	for (i = 0; i < peers_slots(peers); i++)
		if (peers->slot[i]->number == slot)
			return true;
	return false;
}

bool peers_missed(const struct peers *peers, const struct hello *hello)
{
	unsigned i;

	for (i = 0; i < hello->slot_count; i++)
		if (peers->missed[hello->slot[i]])
			return true;
	return false;
}

/* ---- memory of a channel ---- */

size_t peer_side_bytes(void)
{
	return channel_side_bytes() + HAZARD_BYTES + sizeof(struct grant_page);
}

static struct hazard_table *hazards_of(uint8_t *side)
{
	return (struct hazard_table *)(side + channel_side_bytes());
}

static struct grant_page *grants_of(uint8_t *side)
{
	return (struct grant_page *)(side + channel_side_bytes() + HAZARD_BYTES);
}

static struct peer *peer_new(unsigned channel)
{
	struct peer *peer = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	if (memory_private(peer_side_bytes(), (void **)&peer->ours))
		goto free_peer;
	if (memory_private(peer_side_bytes(), (void **)&peer->theirs))
		goto free_ours;
	peer->hazards = hazards_of(peer->ours);
	peer->their_hazards = hazards_of(peer->theirs);
	peer->alive = grants_of(peer->theirs);
	peer->regions = peer_memory_new(peer->alive, peer->hazards);
	if (!peer->regions)
		goto free_theirs;
	lock_init(&peer->inbox);
	grants_init(&peer->grants, grants_of(peer->ours));
	peer->channel = channel;
	peer->process.fd = peer->process.side_fd = -1;
	return peer;
free_theirs:
	memory_release(peer->theirs, peer_side_bytes(), -1);
free_ours:
	memory_release(peer->ours, peer_side_bytes(), -1);
free_peer:
	free(peer);
	return NULL;
}

static void peer_free(struct peer *peer)
{
	if (atomic_load(&peer->job.state) != JOB_NONE)
		transport_fetch_drop(&peer->job.fetch);
	process_guard_free(peer->guard);
	peer_memory_free(peer->regions);
	grants_fini(&peer->grants);
	lock_destroy(&peer->inbox);
	memory_release(peer->theirs, peer_side_bytes(), -1);
	memory_release(peer->ours, peer_side_bytes(), -1);
	free(peer);
}

/* Reserve a free place, or a new one. */
static int find_place(struct peers *peers, struct peer **found) REQUIRES(peers->lock)
{
	struct peer *peer = NULL;
	unsigned i;

	for (i = 0; i < CHANNELS_MAX; i++) {
		peer = atomic_load(&peers->peer[i]);
		if (!peer || peer->state == PEER_NONE)
			break;
	}
	if (i == CHANNELS_MAX)
		return ENOSPC;
	if (!peer) {
		peer = peer_new(i);
		if (!peer)
			return ENOMEM;
		atomic_store(&peers->peer[i], peer);
	}
	peer->state = PEER_RESERVED;
	*found = peer;
	return 0;
}

/*
 * The guard of a peer that may still be copying stays shut for good: its address must not be
 * reused.
 */
static void give_place(struct peers *peers, struct peer *peer)
{
	if (!peer->revoked)
		process_guard_free(peer->guard);
	peer->guard = 0;
	lock_acquire(&peers->lock);
	peer->state = PEER_NONE;
	lock_release(&peers->lock);
}

int peer_reserve(struct local *local, struct peer **reserved, int *side_fd)
{
	struct peer *peer;
	int err;

	lock_acquire(&local->peers->lock);
	err = find_place(local->peers, &peer);
	lock_release(&local->peers->lock);
	if (err)
		return err;
	err = memory_shared("verbatim-channel", peer_side_bytes(), peer->ours, side_fd);
	if (err) {
		give_place(local->peers, peer);
		return err;
	}
	peer->revoked = false;
	if (local->direct && process_guard_make(&peer->guard))
		log_warn("cannot allocate a guard page: a peer cannot copy to or from our memory "
			 "directly");
	*reserved = peer;
	return 0;
}

void peer_release(struct local *local, struct peer *peer)
{
	memory_blank(peer->ours, peer_side_bytes());
	give_place(local->peers, peer);
}

/* ---- admitting ---- */

static int peer_watch(struct local *local, struct peer *peer)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.u32 = peer->channel };

	return epoll_ctl(local->bells_fd, EPOLL_CTL_ADD, peer->process.fd, &event) ? errno : 0;
}

/*
 * Can the peer's memory be accessed in one copy? Each side probes for itself, and tells the other
 * (reach).
 */
static unsigned peer_probe(const struct local *local, struct peer *peer)
{
	int err;

	peer->memory = (struct process_memory){ .pid = peer->process.pid,
						.guard = peer->process.hello.guard };
	if (!local->direct)
		return 0;
	err = process_memory_probe(&peer->memory);
	if (!err)
		return RING_MESSAGES | RING_COPIES;
	counter_add(local->counters, COUNTER_NO_DIRECT_PATH, 1);
	explain("ibv_modify_qp: cannot access the memory of process %d (process_vm_readv: %s): data "
		"goes through shared rings; check seccomp, Yama and PR_SET_DUMPABLE",
		(int)peer->memory.pid, strerror(err));
	return RING_MESSAGES;
}

static int begin_life(struct local *local, struct peer *peer, unsigned reach)
	REQUIRES(local->peers->lock)
{
	int err;

	grants_reset(&peer->grants);
	peer_memory_reset(peer->regions);
	peer->revoked = false;
	atomic_store(&peer->copies, (reach & RING_COPIES) != 0);
	if (peer->process.hello.late || peers_missed(local->peers, &peer->process.hello))
		atomic_store(&local->udp_first_until_ns, clock_now_ns() + UDP_FIRST_NS);
	err = ring_add(local->channel_link, peer->channel, (struct channel_side *)peer->ours,
		       (const struct channel_side *)peer->theirs, peer->process.fd);
	if (err)
		return err;
	err = peer_watch(local, peer);
	if (err) {
		ring_remove(local->channel_link, peer->channel);
		return err;
	}
	if (++local->peers->lives == 0)
		local->peers->lives = 1;
	atomic_store_explicit(&peer->life, local->peers->lives, memory_order_release);
	peer->state = PEER_OPEN;
	/* Lets the peer send messages. */
	ring_set_reach(local->channel_link, peer->channel, reach);
	return 0;
}

int peer_admit(struct local *local, struct peer *peer, struct handshake_peer *process)
{
	unsigned reach;
	int err = process->hello.side_bytes == peer_side_bytes() ?
			  memory_map_over(process->side_fd, peer_side_bytes(), peer->theirs) : EPROTO;

	if (process->side_fd >= 0)
		close(process->side_fd);
	process->side_fd = -1;
	if (err)
		goto release;
	peer->process = *process;
	reach = peer_probe(local, peer);
	lock_acquire(&peer->inbox);
	peer->ended = false;
	lock_release(&peer->inbox);
	lock_acquire(&local->peers->lock);
	err = begin_life(local, peer, reach);
	lock_release(&local->peers->lock);
	if (!err)
		return 0;
	memory_blank(peer->theirs, peer_side_bytes());
release:
	log_info("no memory is shared with process %d: error %d", (int)process->pid, err);
	handshake_close(process);
	peer->process = *process;
	peer_release(local, peer);
	return err;
}

void peer_publish(struct local *local, struct peer *peer)
{
	const struct hello *hello = &peer->process.hello;
	struct peers *peers = local->peers;
	unsigned i;

	lock_acquire(&peers->lock);
	for (i = 0; i < hello->slot_count; i++) {
		peers->missed[hello->slot[i]] = false;
		atomic_store_explicit(&peers->channel_of[hello->slot[i]],
				      (uint16_t)(peer->channel + 1), memory_order_release);
	}
	lock_release(&peers->lock);
}

/* ---- dismissing ---- */

static void forget_slots(struct peers *peers, unsigned channel)
{
	unsigned slot;

	lock_acquire(&peers->lock);
	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (atomic_load(&peers->channel_of[slot]) == channel + 1) {
			atomic_store(&peers->channel_of[slot], 0);
			atomic_store(&peers->again_ns[slot], 0);
		}
	lock_release(&peers->lock);
}

/* No copy of this process takes so long, unless a debugger stops the thread. */
static void wait_for_own_accesses(const struct peer *peer)
{
	uint64_t until_ns = clock_now_ns() + ACCESS_MAX_NS;

	while (hazard_any(peer->hazards) && clock_now_ns() < until_ns)
		thread_yield();
}

/* Remove a block and return its descriptor. Later blocks move up. */
static int passed_remove(struct peer *peer, unsigned i) REQUIRES(peer->inbox)
{
	int fd = peer->passed[i].fd;

	memmove(&peer->passed[i], &peer->passed[i + 1], (PASSED_MAX - 1 - i) * sizeof(peer->passed[0]));
	peer->passed[PASSED_MAX - 1].region = 0;
	return fd;
}

static void drop_passed(struct peer *peer) REQUIRES(peer->inbox)
{
	while (peer->passed[0].region)
		close(passed_remove(peer, 0));
}

void peer_dismiss(struct local *local, struct peer *peer)
{
	atomic_store(&peer->life, 0);
	forget_slots(local->peers, peer->channel);
	ring_remove(local->channel_link, peer->channel);
	wait_for_own_accesses(peer);
	peer_memory_reset(peer->regions);	/* its blocks need not stay mapped */
	memory_blank(peer->theirs, peer_side_bytes());
	lock_acquire(&peer->inbox);
	epoll_ctl(local->bells_fd, EPOLL_CTL_DEL, peer->process.fd, NULL);
	handshake_close(&peer->process);
	drop_passed(peer);
	lock_release(&peer->inbox);
	peer_release(local, peer);
}

/* ---- the socket: bells and blocks ---- */

#define BELL_BYTES 1u

static void peer_send_bell(int fd)
{
	/* A full queue means that a bell is pending. */
	while (send(fd, "", BELL_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

bool peer_send_block(struct peer *peer, uint32_t region, int fd)
{
	struct iovec iov = { .iov_base = &region, .iov_len = sizeof(region) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	return !fail_now(FAIL_SENDMSG) &&
	       sendmsg(peer->process.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(region);
}

/* PASSED_MAX: there is none. */
static unsigned find_passed(const struct peer *peer, uint32_t region) REQUIRES(peer->inbox)
{
	unsigned i;

	for (i = 0; i < PASSED_MAX && peer->passed[i].region != region; i++)
		;
	return i;
}

/*
 * Replaces the previous descriptor if the block was sent again because the message behind it found
 * no room. If there is no place left, the oldest block not asked for is dropped.
 */
static void keep_block(struct peer *peer, uint32_t region, int fd) REQUIRES(peer->inbox)
{
	unsigned before = find_passed(peer, region);

	if (!region) {
		close(fd);
		return;
	}
	if (before < PASSED_MAX)
		close(passed_remove(peer, before));
	else if (peer->passed[PASSED_MAX - 1].region)
		close(passed_remove(peer, 0));
	peer->passed[find_passed(peer, 0)] = (struct passed_block){ region, fd };
}

/* Blocks are memfds; anything else, such as the peer's end of this connection, is not kept. */
static bool is_memfd(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

/*
 * Take the descriptors of a message. True: one block, as @region announces, or none if none is
 * announced.
 */
static bool peer_take_fds(struct peer *peer, struct msghdr *message, uint32_t region)
	REQUIRES(peer->inbox)
{
	struct cmsghdr *header;
	unsigned blocks = 0, others = 0;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int), i;
		int fd;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			if (region && !blocks && is_memfd(fd)) {
				keep_block(peer, region, fd);
				blocks++;
			} else {
				close(fd);
				others++;
			}
		}
	}
	return !others && blocks == (region ? 1u : 0u);
}

/* READ_NONE: the socket is empty, or the peer has ended: it hung up or broke the protocol. */
enum read_result { READ_NONE, READ_BLOCK, READ_BELL };

static enum read_result read_one(struct peer *peer) REQUIRES(peer->inbox)
{
	uint32_t region = 0;
	struct iovec iov = { .iov_base = &region, .iov_len = sizeof(region) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t got = recvmsg(peer->process.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got > 0) {
		bool block = got == sizeof(region) && region, bell = got == BELL_BYTES;

		if (!peer_take_fds(peer, &message, block ? region : 0) || !(block || bell) ||
		    (message.msg_flags & MSG_TRUNC))
			peer->ended = true;
		peer->rung |= bell;
		return peer->ended ? READ_NONE : bell ? READ_BELL : READ_BLOCK;
	}
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		peer->ended = true;
	return READ_NONE;
}

void peer_read_socket(struct peer *peer)
{
	unsigned n;

	lock_acquire(&peer->inbox);
	for (n = 0; n < READS_MAX && peer->process.fd >= 0 && read_one(peer) != READ_NONE; n++)
		;
	lock_release(&peer->inbox);
}

bool peer_read_bell(struct peer *peer)
{
	enum read_result got = READ_BLOCK;
	unsigned n;

	lock_acquire(&peer->inbox);
	for (n = 0; n < READS_MAX && peer->process.fd >= 0 && got == READ_BLOCK; n++)
		got = read_one(peer);
	lock_release(&peer->inbox);
	return got == READ_BELL;
}

bool peer_took_bell(struct peer *peer)
{
	bool rung;

	lock_acquire(&peer->inbox);
	rung = peer->rung;
	peer->rung = false;
	lock_release(&peer->inbox);
	return rung;
}

int peer_take_block(struct peer *peer, uint32_t region)
{
	unsigned i;
	int fd = -1;

	peer_read_socket(peer);
	lock_acquire(&peer->inbox);
	i = find_passed(peer, region);
	if (region && i < PASSED_MAX)
		fd = passed_remove(peer, i);
	lock_release(&peer->inbox);
	return fd;
}

void peer_end(struct peer *peer)
{
	lock_acquire(&peer->inbox);
	peer->ended = true;
	lock_release(&peer->inbox);
}

bool peer_has_ended(struct peer *peer)
{
	bool ended;

	lock_acquire(&peer->inbox);
	ended = peer->ended;
	lock_release(&peer->inbox);
	return ended;
}

/*
 * Mostly it is the peer that rang last: a bell then costs one system call and not three. The others
 * are looked at when it did not ring, and all of them every so often, as it may ring for ever.
 */
static bool the_same_rang(struct local *local)
{
	struct peers *peers = local->peers;
	uint32_t turn = atomic_fetch_add_explicit(&peers->turns, 1, memory_order_relaxed);
	struct peer *peer = peer_at(local, atomic_load_explicit(&peers->rang, memory_order_relaxed));

	return peer && turn % TURNS_ALONE && peer_read_bell(peer);
}

void local_silence_bells(struct local *local)
{
	struct epoll_event event[EVENTS_MAX];
	int i, count;

	if (!local->peers || the_same_rang(local))
		return;
	count = epoll_wait(local->bells_fd, event, EVENTS_MAX, 0);
	for (i = 0; i < count; i++) {
		struct peer *peer = peer_at(local, event[i].data.u32);

		if (!peer)
			continue;
		if (peer_read_bell(peer))
			atomic_store_explicit(&local->peers->rang, peer->channel, memory_order_relaxed);
		if (!peer_has_ended(peer))
			continue;
		/* The worker dismisses it; until then it need not be looked at again. */
		epoll_ctl(local->bells_fd, EPOLL_CTL_DEL, peer->process.fd, NULL);
		atomic_store(&local->peers_due, true);
	}
}

void local_ring_bells(struct local *local)
{
	if (local->channel_link && ring_bells_are_due(local->channel_link))
		ring_wake_peers(local->channel_link);
}

/* ---- begin and end ---- */

void local_add_slot(struct local *local, const struct slot *slot)
{
	struct peers *peers = local->peers;
	unsigned count;
	int err;

	if (!peers)
		return;
	count = peers_slots(peers);
	if (count == HANDSHAKE_SLOTS)
		return;
	err = waiter_add(local->waiter, slot->channel_fd, local->connect_tag);
	if (!err) {
		err = handshake_listen(slot->channel_fd);
		if (err)	/* to epoll, a socket that does not listen has hung up */
			waiter_remove(local->waiter, slot->channel_fd);
	}
	if (err) {
		log_info("slot %u cannot listen for processes of this host, no memory is shared: "
			 "error %d", slot->number, err);
		return;
	}
	peers->slot[count] = slot;
	atomic_store_explicit(&peers->slots, count + 1, memory_order_release);
}

static int open_sockets(struct local *local)
{
	local->bells_fd = fail_now(FAIL_EPOLL) ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (local->bells_fd < 0)
		return errno;
	return waiter_add(local->waiter, local->bells_fd, local->bells_tag);
}

/* A program that runs with other rights than its user's shares no memory. */
static bool is_set_id(void)
{
	return getauxval(AT_SECURE) != 0;
}

int local_open(struct local *local)
{
	struct peers *peers;
	int err;

	if (local->mode == LOCAL_OFF || is_set_id())
		return 0;
	peers = calloc(1, sizeof(*peers));
	if (!peers)
		return ENOMEM;
	err = ring_open(&local->channel_link, local->counters, peer_send_bell);
	if (err)
		goto free_peers;
	err = open_sockets(local);
	if (err)
		goto close_ring;
	lock_init(&peers->lock);
	atomic_init(&peers->later_ns, TIME_NEVER);
	peers->spare_fd = fcntl(local->bells_fd, F_DUPFD_CLOEXEC, 0);
	local->peers = peers;
	local->direct = local->mode != LOCAL_RING;
	local->mrs->drain_peers = drain_region;
	local->mrs->forget = region_forget;
	local->mrs->peers = local;
	return 0;
close_ring:
	local->channel_link->ops->close(local->channel_link);
	local->channel_link = NULL;
free_peers:
	free(peers);
	return err;
}

void local_close(struct local *local)
{
	struct peers *peers = local->peers;
	struct peer *peer;
	unsigned i;

	if (!peers)
		return;
	attempts_abandon(peers);
	for (i = 0; i < CHANNELS_MAX; i++)
		if (peer_at(local, i))
			peer_dismiss(local, peer_at(local, i));
	for (i = 0; i < CHANNELS_MAX; i++) {
		peer = atomic_load(&peers->peer[i]);
		if (peer)
			peer_free(peer);
	}
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	close(local->bells_fd);
	local->channel_link->ops->close(local->channel_link);
	local->mrs->drain_peers = NULL;
	local->mrs->forget = NULL;
	lock_destroy(&peers->lock);
	free(peers);
	local->peers = NULL;
	local->direct = false;
	local->channel_link = NULL;
}

void local_abandon(struct local *local)
{
	struct peers *peers = local->peers;
	unsigned i;

	if (!peers)
		return;
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	close(local->bells_fd);
	attempts_abandon(peers);
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = atomic_load(&peers->peer[i]);

		if (peer)
			handshake_abandon(&peer->process);
	}
}
