/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of peer processes (peer.h): the memory of each channel, admission and dismissal. */
#include "local/channel/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/memory.h"

#define ACCESS_MAX_NS	1000000000u
#define UDP_FIRST_NS	1000000000u	/* how long packets sent by UDP may be under way */
#define HAZARD_BYTES	4096u

_Static_assert(sizeof(struct hazard_table) <= HAZARD_BYTES, "they lie in the channel's memory");
_Static_assert(sizeof(struct grant_page) % HAZARD_BYTES == 0, "so do grants");

/* ---- lookup ---- */

uint32_t local_channel(const struct local *local, uint32_t slot)
{
	if (!local->peers || slot >= SLOT_COUNT)
		return LOCAL_NO_CHANNEL;
	/* 0 becomes LOCAL_NO_CHANNEL. */
	return atomic_load_explicit(&local->peers->channel_of[slot], memory_order_acquire) - 1u;
}

bool peer_has_slot(const struct peer *peer, uint32_t slot)
{
	return hello_has_slot(&peer->process.hello, slot);
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

void peer_free(struct peer *peer)
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
	explain_of(OF(PROCESS, (unsigned)peer->memory.pid),
		"ibv_modify_qp: cannot access the memory of process %d (process_vm_readv: %s): "
		"data goes through shared rings; check seccomp, Yama and PR_SET_DUMPABLE",
		(int)peer->memory.pid, strerror(err));
	return RING_MESSAGES;
}

static int begin_life(struct local *local, struct peer *peer, unsigned reach)
	REQUIRES(local->peers->lock)
{
	int err;
	struct epoll_event event;

	grants_reset(&peer->grants);
	peer_memory_reset(peer->regions);
	atomic_store(&peer->committed, 0);
	peer->revoked = false;
	atomic_store(&peer->agreed, false);
	atomic_store(&peer->agreed_of_uc, false);
	atomic_store(&peer->opened_due, false);
	atomic_store(&peer->fabric, 0);
	atomic_store(&peer->copies, (reach & RING_COPIES) != 0);
	if (peer->process.hello.late || peers_missed(local->peers, &peer->process.hello))
		atomic_store(&local->udp_first_until_ns, clock_now_ns() + UDP_FIRST_NS);
	err = ring_add(local->channel_link, peer->channel, (struct channel_side *)peer->ours,
		       (const struct channel_side *)peer->theirs, peer->process.fd);
	if (err)
		return err;
	event = (struct epoll_event){ .events = EPOLLIN | EPOLLRDHUP, .data.u32 = peer->channel };
	err = epoll_ctl(local->bells_fd, EPOLL_CTL_ADD, peer->process.fd, &event) ? errno : 0;
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

/* Whatever QPs remember of peers is to be looked up again. */
static void peers_move_epoch(struct local *local)
{
	if (atomic_fetch_add(&local->epoch, 1) == UINT32_MAX)
		atomic_fetch_add(&local->epoch, 1);
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
	peers_move_epoch(local);
	lock_release(&peers->lock);
}

/* ---- dismissing ---- */

void peer_dismiss(struct local *local, struct peer *peer)
{
	struct peers *peers = local->peers;
	uint64_t until_ns;
	unsigned slot;

	atomic_store(&peer->life, 0);
	lock_acquire(&peers->lock);
	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (atomic_load(&peers->channel_of[slot]) == peer->channel + 1) {
			atomic_store(&peers->channel_of[slot], 0);
			atomic_store(&peers->again_ns[slot], 0);
		}
	lock_release(&peers->lock);
	peers_move_epoch(local);
	ring_remove(local->channel_link, peer->channel);
	/* No copy of this process takes so long, unless a debugger stops the thread. */
	until_ns = clock_now_ns() + ACCESS_MAX_NS;
	while (hazard_any(peer->hazards) && clock_now_ns() < until_ns)
		thread_yield();
	peer_memory_reset(peer->regions);	/* its blocks need not stay mapped */
	memory_blank(peer->theirs, peer_side_bytes());
	lock_acquire(&peer->inbox);
	epoll_ctl(local->bells_fd, EPOLL_CTL_DEL, peer->process.fd, NULL);
	handshake_close(&peer->process);
	peer_drop_blocks(peer);
	lock_release(&peer->inbox);
	peer_release(local, peer);
}

bool control_send(struct local *local, struct peer *peer, const struct control *control, uint32_t qpn)
{
	struct ring_room room;

	if (ring_send_begin(local->channel_link, peer->channel, CONTROL_BYTES, &room))
		return false;
	memset(room.head, 0, RING_HEAD_WORDS * sizeof(room.head[0]));
	memcpy(room.data, control, CONTROL_BYTES);
	ring_send_end(local->channel_link, &room, CONTROL_OWNER(qpn));
	return true;
}
