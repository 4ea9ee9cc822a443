/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of peer processes (peers.h): where the memory of each is, who is using it, and its
 * beginning and end with the HCA. How they come and go: meeting.c.
 */
#include "hca/peers_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "hca/mapping.h"
#include "link/trace.h"
#include "platform/clock.h"
#include "platform/memory.h"

#define ACCESS_MAX_NS	1000000000u
#define UDP_FIRST_NS	1000000000u	/* so long packets that left by UDP may still be there */
#define HAZARD_BYTES	4096u	/* a page of each process's hazards */
_Static_assert(sizeof(struct hazard_table) <= HAZARD_BYTES, "they lie in the channel's memory");

static const char *const modes[] = { "auto", "mapped", "copy", "ring", "off" };

int peers_check_setting(const char *text)
{
	unsigned i;

	if (!text[0])
		return 0;
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(text, modes[i]))
			return 0;
	complain("VERBATIM_MEMORY='%s': auto, mapped (regions are mapped by peers even if the application "
		 "has several threads), copy (one copy between processes), ring (packets through shared "
		 "memory) or off (UDP, as between hosts) would be right", text);
	return EINVAL;
}

uint32_t peers_channel(const struct hca *hca, uint32_t slot)
{
	if (!hca->peers || slot >= SLOT_COUNT)
		return PEER_NO_CHANNEL;
	/* 0 becomes PEER_NO_CHANNEL. */
	return atomic_load_explicit(&hca->peers->channel_of[slot], memory_order_acquire) - 1u;
}

static size_t place_bytes(enum place kind)
{
	return kind == PLACE_ARENA ? arena_bytes() :
	       kind == PLACE_POOL  ? POOL_BYTES : peers_shared_bytes();
}

size_t peers_shared_bytes(void)
{
	return 2 * (channel_half_bytes() + HAZARD_BYTES);
}

/*
 * The hazard holds the peer too: peer_dismiss() takes the slots away first, and then waits until none
 * of ours is left. A table that is no longer the peer's is still memory (park), and is let go of.
 */
struct peer *peer_enter(struct hca *hca, uint32_t slot, uint32_t rkey, uint32_t qpn,
			struct peer_use *use)
{
	uint32_t channel = peers_channel(hca, slot);
	struct peers *peers = hca->peers;

	if (channel == PEER_NO_CHANNEL)
		return NULL;
	use->table = atomic_load_explicit(&peers->hazards[channel], memory_order_acquire);
	if (!hazard_begin(use->table, rkey, qpn, qpn, &use->hazard))
		return NULL;
	/* F3 is before these: either peer_dismiss() sees the hazard, or they see what it did. */
	if (atomic_load(&peers->channel_of[slot]) == channel + 1 &&
	    atomic_load(&peers->hazards[channel]) == use->table)
		return &peers->peer[channel];
	peer_leave(use);
	return NULL;
}

void peer_leave(const struct peer_use *use)
{
	hazard_end(use->table, use->hazard);
}

struct peer *peer_at(struct hca *hca, unsigned channel)
{
	/* Written before its hazards are there. Who is met tells nothing earlier, unless it is hostile. */
	if (!atomic_load_explicit(&hca->peers->hazards[channel], memory_order_acquire))
		return NULL;
	return &hca->peers->peer[channel];
}

/* ---- peers that were met ---- */

static void watch(struct hca *hca, int fd)
{
	int err = waiter_add(&hca->waiter, fd, WAIT_MEMORY);

	if (err)
		log_warn("the end of a peer process may go unnoticed: error %d", err);
}

static void forget_slots(struct peers *peers, unsigned channel) REQUIRES(peers->lock)
{
	unsigned slot;

	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (atomic_load(&peers->channel_of[slot]) == channel + 1) {
			atomic_store(&peers->channel_of[slot], 0);
			atomic_store(&peers->again_ns[slot], 0);
		}
}

bool peers_missed(const struct peers *peers, const struct rendezvous_card *card)
{
	unsigned i;

	for (i = 0; i < card->slot_count; i++)
		if (peers->missed[card->slot[i]])
			return true;
	return false;
}

void peer_publish(struct peers *peers, const struct peer *peer)
{
	const struct rendezvous_card *card = &peer->process.card;
	unsigned i;

	for (i = 0; i < card->slot_count; i++) {
		peers->missed[card->slot[i]] = false;
		atomic_store_explicit(&peers->channel_of[card->slot[i]], (uint8_t)(peer->channel + 1),
				      memory_order_release);
	}
}

/*
 * Threads that poll look at channels without a lock (memory_pending), and may be about to when one
 * goes; and who enters a peer's memory may be late (peer_enter). So no address of theirs is ever given
 * back: zeros are shown there, until the next peer's memory comes to that place.
 */
static void park(struct peers *peers, enum place kind, void *memory) REQUIRES(peers->lock)
{
	if (memory && !memory_blank(memory, place_bytes(kind)))
		peers->parked[kind].at[peers->parked[kind].count++] = memory;
}

static int map_place(struct peers *peers, enum place kind, int fd, void **memory)
	REQUIRES(peers->lock)
{
	struct parked *parked = &peers->parked[kind];
	bool writable = kind != PLACE_ARENA;
	int err;

	if (!parked->count)
		return memory_map(fd, place_bytes(kind), writable, memory);
	err = memory_map_over(fd, place_bytes(kind), writable, parked->at[parked->count - 1]);
	if (!err)
		*memory = parked->at[--parked->count];
	return err;
}

/* Where its tables lie: as in ours, and not where its arena may say by now. */
static void find_tables(const struct hca *hca, struct peer *peer)
{
	const char *arena = peer->arena;

	peer->mr = (const struct mr_entry *)(arena + hca->arena->mr_offset);
	peer->qp = (const struct qp_access *)(arena + hca->arena->qp_offset);
	peer->mapping = (const struct mr_mapping *)(arena + hca->arena->mapping_offset);
}

static int map_memory(struct hca *hca, struct peer *peer, int channel_fd)
	REQUIRES(hca->peers->lock)
{
	const struct rendezvous_card *card = &peer->process.card;
	int err;

	if (card->channel_bytes != peers_shared_bytes() || card->arena_bytes != arena_bytes() ||
	    (card->pool_bytes && card->pool_bytes != POOL_BYTES))
		return EPROTO;
	err = map_place(hca->peers, PLACE_ARENA, peer->process.arena_fd, &peer->arena);
	if (err)
		return err;
	find_tables(hca, peer);
	err = map_place(hca->peers, PLACE_SHARED, channel_fd, &peer->shared);
	if (err) {
		park(hca->peers, PLACE_ARENA, peer->arena);
		return err;
	}
	/* Where address space is short, or so asked for, its regions are reached by copies. */
	if (!card->pool_bytes || !mapping_is_wanted(hca) ||
	    map_place(hca->peers, PLACE_POOL, peer->process.pool_fd, (void **)&peer->pool))
		peer->pool = NULL;
	return 0;
}

static void unmap_memory(struct peers *peers, struct peer *peer) REQUIRES(peers->lock)
{
	park(peers, PLACE_ARENA, peer->arena);
	park(peers, PLACE_SHARED, peer->shared);
	park(peers, PLACE_POOL, peer->pool);
}

/* Can its memory be reached in one copy? Each side finds out for itself. */
static void probe(const struct hca *hca, struct peer *peer)
{
	int err;

	peer->memory = (struct process_memory){ .pid = peer->process.pid,
						.guard = peer->process.card.guard_address };
	if (!hca->direct)
		return;
	err = process_memory_probe(&peer->memory);
	peer->direct = !err;
	if (err) {
		counter_add(hca->counters, COUNTER_NO_DIRECT_PATH, 1);
		explain("modify_qp: the memory of process %d cannot be reached (process_vm_readv: %s: "
			"seccomp or Yama forbid it?): data goes through shared rings",
			(int)peer->memory.pid, strerror(err));
	}
}

/* What it may tell us (link/memory.h). */
static unsigned reach_of(const struct hca *hca, const struct peer *peer)
{
	if (!hca->direct)
		return 0;
	return MEMORY_HEARS | (peer->direct ? MEMORY_COPIES : 0u) | (peer->pool ? MEMORY_MAPS : 0u);
}

int peer_admit(struct hca *hca, struct rendezvous_peer *process, int channel_fd, bool first,
	       struct peer **admitted)
{
	struct peers *peers = hca->peers;
	struct peer peer = { .used = true, .process = *process };
	size_t half = channel_half_bytes();
	char *halves, *hazards;
	int err;

	err = map_memory(hca, &peer, channel_fd);
	if (err)
		goto part;
	halves = peer.shared;
	hazards = halves + 2 * half;
	peer.hazards = (struct hazard_table *)(first ? hazards : hazards + HAZARD_BYTES);
	peer.their_hazards = (struct hazard_table *)(first ? hazards + HAZARD_BYTES : hazards);
	probe(hca, &peer);
	if (process->card.late || peers_missed(hca->peers, &process->card))
		atomic_store(&hca->udp_first_until_ns, clock_now_ns() + UDP_FIRST_NS);
	fcntl(process->doorbell_fd, F_SETFL, O_NONBLOCK);
	err = memory_add(peers->link, first ? halves : halves + half, first ? halves + half : halves,
			 process->doorbell_fd, &peer.channel);
	if (err)
		goto unmap;
	peers->peer[peer.channel] = peer;
	atomic_store_explicit(&peers->hazards[peer.channel], peer.hazards, memory_order_release);
	/* From now on it may tell us things. */
	memory_set_reach(peers->link, peer.channel, reach_of(hca, &peer));
	*admitted = &peers->peer[peer.channel];
	watch(hca, process->fd);
	return 0;
unmap:
	unmap_memory(hca->peers, &peer);
part:
	log_info("no memory is shared with process %d: error %d", (int)process->pid, err);
	rendezvous_part(process);
	return err;
}

/* No access takes so long, but the peer could write to our hazards: then they say what is not so. */
static void wait_for_accesses(const struct peer *peer)
{
	uint64_t until_ns = clock_now_ns() + ACCESS_MAX_NS;

	while (hazard_any(peer->hazards) && clock_now_ns() < until_ns)
		thread_yield();
}

void peer_dismiss(struct hca *hca, struct peer *peer)
{
	forget_slots(hca->peers, peer->channel);
	atomic_thread_fence(memory_order_seq_cst);
	memory_remove(hca->peers->link, peer->channel);
	wait_for_accesses(peer);
	unmap_memory(hca->peers, peer);
	waiter_remove(&hca->waiter, peer->process.fd);
	rendezvous_part(&peer->process);
	peer->used = false;
}

bool peer_has_ended(const struct peer *peer)
{
	char byte;
	ssize_t got = recv(peer->process.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* ---- begin and end ---- */

static void drain_key(void *hca, uint32_t rkey)
{
	peers_drain(hca, rkey, 0);
}

static void forget_region(void *hca, uint32_t index)
{
	mapping_remove(hca, index);
}

void peers_add_slot(struct hca *hca, const struct slot *slot)
{
	struct peers *peers = hca->peers;
	int err;

	if (!peers || peers->listeners == LISTENERS_MAX)
		return;
	err = rendezvous_listen(slot->number, &peers->listen_fd[peers->listeners]);
	if (err) {
		log_info("no memory will be shared by slot %u: error %d", slot->number, err);
		return;
	}
	watch(hca, peers->listen_fd[peers->listeners]);
	peers->listeners++;
}

int peers_open(struct hca *hca)
{
	struct peers *peers;
	unsigned i;
	int err;

	/* What is lost, doubled or damaged on purpose is lost on the wire. */
	if (!strcmp(hca->config.memory, "off") || hca->lossy)
		return 0;
	if (hca->arena_fd < 0) {	/* allocate() has told why */
		counter_add(hca->counters, COUNTER_NO_MEMORY_PATH, 1);
		return 0;
	}
	peers = calloc(1, sizeof(*peers));
	if (!peers)
		return ENOMEM;
	err = memory_open(&peers->link, hca->counters, event_fd_raise);
	if (err) {
		free(peers);
		return err;
	}
	lock_init(&peers->lock);
	atomic_init(&peers->later_ns, TIME_NEVER);
	if (process_guard_make(&peers->guard))
		log_warn("no guard page: peers cannot reach our memory in one copy");
	hca->mrs.drain_peers = drain_key;
	hca->mrs.forget = forget_region;
	hca->mrs.peers = hca;
	hca->memory = hca->memory_inner = peers->link;
	hca->peers = peers;
	err = mappings_open(hca);
	if (err)
		explain("open_device: regions will not be mapped by peers on this host (%s: RLIMIT_AS and "
			"RLIMIT_FSIZE must allow for %u GiB of addresses): they are reached by copies",
			strerror(err), (unsigned)(POOL_BYTES >> 30));
	err = trace_wrap(&hca->memory);
	/* Where packets are asked for, or each is to be seen (VERBATIM_TRACE), all goes as packets. */
	hca->direct = hca->memory == hca->memory_inner && strcmp(hca->config.memory, "ring");
	peers->spare_fd = fcntl(hca->arena_fd, F_DUPFD_CLOEXEC, 0);
	for (i = 0; i < hca->slot_count; i++)
		peers_add_slot(hca, &hca->slot[i]);
	return err;
}

/* Nobody is left who could look there. */
static void release_places(struct peers *peers)
{
	enum place kind;

	for (kind = 0; kind < PLACES; kind++)
		while (peers->parked[kind].count)
			memory_release(peers->parked[kind].at[--peers->parked[kind].count],
				       place_bytes(kind), -1);
}

void peers_close(struct hca *hca)
{
	struct peers *peers = hca->peers;
	unsigned i;

	if (!peers)
		return;
	for (i = 0; i < peers->listeners; i++)
		close(peers->listen_fd[i]);
	meetings_abandon(peers);
	lock_acquire(&hca->peers->lock);
	for (i = 0; i < CHANNELS_MAX; i++)
		if (peers->peer[i].used)
			peer_dismiss(hca, &peers->peer[i]);
	lock_release(&hca->peers->lock);
	release_places(peers);
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	hca->memory->ops->close(hca->memory);
	hca->mrs.drain_peers = NULL;
	hca->mrs.forget = NULL;
	mappings_close(hca);
	process_guard_free(peers->guard);
	lock_destroy(&peers->lock);
	free(peers);
	hca->peers = NULL;
	hca->direct = false;
	hca->memory = hca->memory_inner = NULL;
}

void peers_abandon(struct hca *hca)
{
	struct peers *peers = hca->peers;
	unsigned i;

	if (!peers)
		return;
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	for (i = 0; i < peers->listeners; i++)
		close(peers->listen_fd[i]);
	meetings_abandon(peers);
	for (i = 0; i < CHANNELS_MAX; i++)
		if (peers->peer[i].used)
			rendezvous_part(&peers->peer[i].process);
}
