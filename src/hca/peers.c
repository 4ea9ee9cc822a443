/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Meeting, keeping and losing peer processes (peers.h).
 *
 * Two processes may try to meet each other at the same time. The attempt of the one with the lower
 * first slot counts: the other one's listener accepts it, and its own attempt is answered with
 * EALREADY; its thread then waits for the channel to appear. Nobody waits for anything with the
 * lock held, and whoever waits does so for a bounded time.
 *
 * A peer that hangs up has ended. What it put in its channel before is received still; then the
 * channel goes, and its slots are unknown again: somebody else may claim them.
 */
#include "hca/peers.h"

#include "hca/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "host/rendezvous.h"
#include "link/memory.h"
#include "link/trace.h"
#include "platform/clock.h"
#include "platform/memory.h"

#define MEET_NS		250000000u	/* how long a peer is waited for: its worker may wait for a core */
#define MEET_TRIES	3u
#define MEET_STEP_NS	50000u
#define MEET_AGAIN_NS	100000000u
#define LISTENERS_MAX	HCA_SLOTS_MAX
#define DRAIN_PASSES	256u
#define ACCESS_NS	1000000u	/* most accesses take less */
#define LIAR_NS		UINT64_C(5000000000)	/* no access takes so long, unless its process is stopped */
#define LIAR_LOOK_NS	100000000u
#define HAZARD_BYTES	4096u	/* a page of each process's hazards */
_Static_assert(sizeof(struct hazard_table) <= HAZARD_BYTES, "they lie in the channel's memory");

struct peers {
	struct lock lock;
	struct link *link;		/* unwrapped */
	int listen_fd[LISTENERS_MAX];
	unsigned listeners;
	struct peer peer[CHANNELS_MAX];
	_Atomic uint8_t channel_of[SLOT_COUNT];	/* + 1; 0: none */
	bool meeting[SLOT_COUNT];	/* a thread of ours is at it */
	void *parked[CHANNELS_MAX];	/* places of channels that were dismissed (park) */
	unsigned parked_count;
	int spare_fd;			/* given up to turn visitors away when there is no other */
	uint64_t guard;			/* of this process (platform/process_memory.h) */
	_Atomic uint64_t again_ns[SLOT_COUNT];	/* when a datagram may try again */
};

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

static size_t shared_bytes(void)
{
	return 2 * (channel_half_bytes() + HAZARD_BYTES);
}

struct peer *peer_hold(struct hca *hca, uint32_t slot)
{
	uint32_t channel = peers_channel(hca, slot);
	struct peer *peer;

	if (channel == PEER_NO_CHANNEL)
		return NULL;
	peer = &hca->peers->peer[channel];
	atomic_fetch_add_explicit(&peer->holders, 1, memory_order_seq_cst);
	/* dismiss() takes the slots away first and waits for the holders then. */
	if (peers_channel(hca, slot) == channel)
		return peer;
	peer_let_go(peer);
	return NULL;
}

void peer_let_go(struct peer *peer)
{
	atomic_fetch_sub_explicit(&peer->holders, 1, memory_order_release);
}

/* ---- what we say of ourselves ---- */

static void write_card(const struct hca *hca, struct rendezvous_card *card)
{
	unsigned i;

	*card = (struct rendezvous_card){ .slot_count = hca->slot_count,
					  .arena_bytes = hca->arena_bytes,
					  .channel_bytes = shared_bytes(),
					  .pool_bytes = hca->mappings ? POOL_BYTES : 0,
					  .guard_address = hca->peers->guard };
	for (i = 0; i < hca->slot_count && i < RENDEZVOUS_SLOTS; i++)
		card->slot[i] = hca->slot[i].number;
}

static struct rendezvous_gifts gifts_of(const struct hca *hca)
{
	return (struct rendezvous_gifts){ .arena_fd = hca->arena_fd,
					  .doorbell_fd = hca->waiter.doorbell_fd,
					  .pool_fd = mappings_pool_fd(hca), .channel_fd = -1 };
}

/* ---- peers that were met ---- */

/* Does it hold @slot, by its card? */
static bool holds(const struct rendezvous_card *card, uint32_t slot)
{
	unsigned i;

	for (i = 0; i < card->slot_count; i++)
		if (card->slot[i] == slot)
			return true;
	return false;
}

static void watch(struct hca *hca, int fd)
{
	int err = waiter_add(&hca->waiter, fd, WAIT_MEMORY);

	if (err)
		log_warn("the end of a peer process may go unnoticed: error %d", err);
}

static void forget_slots(struct peers *peers, unsigned channel)
{
	unsigned slot;

	for (slot = 0; slot < SLOT_COUNT; slot++)
		if (atomic_load(&peers->channel_of[slot]) == channel + 1)
			atomic_store(&peers->channel_of[slot], 0);
}

static void publish(struct peers *peers, const struct peer *peer)
{
	const struct rendezvous_card *card = &peer->process.card;
	unsigned i;

	for (i = 0; i < card->slot_count; i++)
		atomic_store_explicit(&peers->channel_of[card->slot[i]], (uint8_t)(peer->channel + 1),
				      memory_order_release);
}

/*
 * Threads that poll look at channels without a lock (memory_pending), and may be about to when one
 * goes. So its addresses are never given back: they show zeros, until the next channel comes there.
 */
static void park(struct peers *peers, void *shared) REQUIRES(peers->lock)
{
	if (!memory_blank(shared, shared_bytes()))
		peers->parked[peers->parked_count++] = shared;
}

static int map_shared(struct peers *peers, int channel_fd, void **shared) REQUIRES(peers->lock)
{
	int err;

	if (!peers->parked_count)
		return memory_map(channel_fd, shared_bytes(), true, shared);
	*shared = peers->parked[peers->parked_count - 1];
	err = memory_map_over(channel_fd, shared_bytes(), *shared);
	if (!err)
		peers->parked_count--;
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

	if (card->channel_bytes != shared_bytes() || card->arena_bytes != arena_bytes() ||
	    (card->pool_bytes && card->pool_bytes != POOL_BYTES))
		return EPROTO;
	err = memory_map(peer->process.arena_fd, arena_bytes(), false, &peer->arena);
	if (err)
		return err;
	find_tables(hca, peer);
	err = map_shared(hca->peers, channel_fd, &peer->shared);
	if (err) {
		memory_release(peer->arena, arena_bytes(), -1);
		return err;
	}
	/* Where address space is short, or so asked for, its regions are reached by copies. */
	if (!card->pool_bytes || !mapping_is_wanted(hca) ||
	    memory_map(peer->process.pool_fd, POOL_BYTES, true, (void **)&peer->pool))
		peer->pool = NULL;
	return 0;
}

static void unmap_memory(struct peers *peers, struct peer *peer) REQUIRES(peers->lock)
{
	memory_release(peer->arena, arena_bytes(), -1);
	park(peers, peer->shared);
	memory_release(peer->pool, POOL_BYTES, -1);
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

/*
 * Take @process in; @first: we produce the first half. On failure it is parted from. Nothing is sent
 * there before publish().
 */
static int admit(struct hca *hca, struct rendezvous_peer *process, int channel_fd, bool first,
		 struct peer **admitted) REQUIRES(hca->peers->lock)
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
	fcntl(process->doorbell_fd, F_SETFL, O_NONBLOCK);
	err = memory_add(peers->link, first ? halves : halves + half, first ? halves + half : halves,
			 process->doorbell_fd, &peer.channel);
	if (err)
		goto unmap;
	peers->peer[peer.channel] = peer;
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

static void dismiss(struct hca *hca, struct peer *peer) REQUIRES(hca->peers->lock)
{
	forget_slots(hca->peers, peer->channel);
	atomic_thread_fence(memory_order_seq_cst);
	while (atomic_load(&peer->holders))
		thread_yield();
	memory_remove(hca->peers->link, peer->channel);
	unmap_memory(hca->peers, peer);
	waiter_remove(&hca->waiter, peer->process.fd);
	rendezvous_part(&peer->process);
	peer->used = false;
}

/* ---- going to meet one ---- */

/* One attempt, without the lock. 0; EALREADY: it will come to us; others: no. */
static int attempt(struct hca *hca, uint32_t slot)
{
	struct peers *peers = hca->peers;
	struct rendezvous_card card;
	struct rendezvous_gifts gifts;
	struct rendezvous_peer process;
	struct peer *peer;
	void *halves;
	int err, channel_fd;

	write_card(hca, &card);
	err = memory_shared("verbatim-channel", card.channel_bytes, &halves, &channel_fd);
	if (err)
		return err;
	memory_release(halves, card.channel_bytes, -1);
	gifts = gifts_of(hca);
	gifts.channel_fd = channel_fd;
	err = rendezvous_connect(slot, &card, &gifts, MEET_NS, &process);
	if (!err && !holds(&process.card, slot)) {
		rendezvous_part(&process);
		err = EPROTO;
	}
	if (!err) {
		lock_acquire(&hca->peers->lock);
		err = admit(hca, &process, channel_fd, true, &peer);
		if (!err)
			publish(peers, peer);
		lock_release(&hca->peers->lock);
		/* A worker that sleeps does not know of this channel: nobody would wake it. */
		waiter_ring(&hca->waiter);
	}
	close(channel_fd);
	return err;
}

/* Of the threads that want to meet the holder of @slot one goes, the others wait for it. */
static bool begin_meeting(struct peers *peers, uint32_t slot)
{
	bool first;

	lock_acquire(&peers->lock);
	first = !peers->meeting[slot];
	peers->meeting[slot] = true;
	lock_release(&peers->lock);
	return first;
}

static void end_meeting(struct peers *peers, uint32_t slot)
{
	lock_acquire(&peers->lock);
	peers->meeting[slot] = false;
	lock_release(&peers->lock);
}

static bool wait_for_channel(struct hca *hca, uint32_t slot)
{
	uint64_t until_ns = clock_now_ns() + MEET_NS;

	while (peers_channel(hca, slot) == PEER_NO_CHANNEL && clock_now_ns() < until_ns)
		thread_sleep_ns(MEET_STEP_NS);
	return peers_channel(hca, slot) != PEER_NO_CHANNEL;
}

/* EALREADY: it is coming to us; EEXIST: it was just here. */
static int try_to_meet(struct hca *hca, uint32_t slot)
{
	int err = EALREADY;
	unsigned tries = 0;

	if (begin_meeting(hca->peers, slot)) {
		do	/* ECONNRESET: the other side had no time for us (or will never have) */
			err = attempt(hca, slot);
		while (err == ECONNRESET && ++tries < MEET_TRIES);
		end_meeting(hca->peers, slot);
	}
	if ((err == EALREADY || err == EEXIST) && wait_for_channel(hca, slot))
		return 0;
	return err;
}

static bool is_own(const struct hca *hca, uint32_t slot)
{
	unsigned i;

	for (i = 0; i < hca->slot_count; i++)
		if (hca->slot[i].number == slot)
			return true;
	return false;
}

void peers_meet(struct hca *hca, uint32_t slot)
{
	int err;

	if (!hca->peers || is_own(hca, slot) || slot == 0 || slot >= SLOT_COUNT - 1 ||
	    peers_channel(hca, slot) != PEER_NO_CHANNEL)
		return;
	err = try_to_meet(hca, slot);
	if (err) {
		counter_add(hca->counters, COUNTER_NO_MEMORY_PATH, 1);
		explain("slot %u: no memory is shared with its process (%s), packets go over UDP", slot,
			 err == EPERM ? "another user's" : strerror(err));
	}
}

void peers_meet_now_and_then(struct hca *hca, uint32_t slot)
{
	uint64_t now_ns;

	if (!hca->peers || peers_channel(hca, slot) != PEER_NO_CHANNEL)
		return;
	now_ns = clock_now_ns();
	if (now_ns < atomic_load_explicit(&hca->peers->again_ns[slot], memory_order_relaxed))
		return;
	atomic_store_explicit(&hca->peers->again_ns[slot], now_ns + MEET_AGAIN_NS,
			      memory_order_relaxed);
	peers_meet(hca, slot);
}

/* ---- being met ---- */

static bool has_ended(const struct peer *peer)
{
	char byte;
	ssize_t got = recv(peer->process.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static bool are_meeting(const struct peers *peers, const struct rendezvous_card *card)
	REQUIRES(peers->lock)
{
	unsigned i;

	for (i = 0; i < card->slot_count; i++)
		if (peers->meeting[card->slot[i]])
			return true;
	return false;
}

/* 0 or what the connector is told. */
static int judge(const struct hca *hca, const struct rendezvous_card *card)
	REQUIRES(hca->peers->lock)
{
	unsigned i;

	if (!card->slot_count)
		return EPROTO;
	for (i = 0; i < card->slot_count; i++) {
		if (is_own(hca, card->slot[i]))
			return EPROTO;
		if (peers_channel(hca, card->slot[i]) != PEER_NO_CHANNEL)
			return EEXIST;
	}
	if (are_meeting(hca->peers, card) && hca->slot[0].number < card->slot[0])
		return EALREADY;
	return 0;
}

static void receive_visitor(struct hca *hca, struct rendezvous_peer *process)
{
	struct peers *peers = hca->peers;
	struct rendezvous_gifts gifts = gifts_of(hca);
	struct rendezvous_card card;
	struct peer *peer;
	int channel_fd = process->channel_fd, verdict;

	write_card(hca, &card);
	process->channel_fd = -1;
	lock_acquire(&hca->peers->lock);
	verdict = judge(hca, &process->card);
	if (verdict) {
		rendezvous_answer(process, &card, verdict, &gifts);
		rendezvous_part(process);
	} else if (!admit(hca, process, channel_fd, false, &peer)) {
		if (rendezvous_answer(&peer->process, &card, 0, &gifts))
			dismiss(hca, peer);
		else
			publish(peers, peer);
	}
	lock_release(&hca->peers->lock);
	if (channel_fd >= 0)
		close(channel_fd);
}

/* Without a descriptor for it a visitor would stay, and the worker awake: one was kept for this. */
static void turn_away(struct hca *hca, int listen_fd)
{
	struct peers *peers = hca->peers;
	int fd;

	counter_add(hca->counters, COUNTER_NO_MEMORY_PATH, 1);
	log_info("no memory is shared with a process that came: no file descriptor is left");
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	peers->spare_fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
}

static void receive_visitors(struct hca *hca)
{
	struct peers *peers = hca->peers;
	unsigned i, n;

	for (i = 0; i < peers->listeners; i++)
		for (n = 0; n < CHANNELS_MAX; n++) {
			struct rendezvous_peer process;
			int err = rendezvous_take(peers->listen_fd[i], &process);

			if (err == EAGAIN)
				break;
			if (err == EMFILE || err == ENFILE)
				turn_away(hca, peers->listen_fd[i]);
			if (!err)
				receive_visitor(hca, &process);
			else
				log_debug("a process that came was turned away: error %d", err);
		}
}

/* What a peer put in its channel before it ended has arrived. */
static void drain(struct hca *hca, const struct peer *peer) REQUIRES(hca->drive)
{
	unsigned n;

	for (n = 0; n < DRAIN_PASSES && !memory_is_empty(hca->peers->link, peer->channel); n++)
		hca_receive(hca, clock_now_ns());
	hca_receive(hca, clock_now_ns());
}

static void bury_the_dead(struct hca *hca)
{
	struct peers *peers = hca->peers;
	unsigned i;

	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = &peers->peer[i];
		bool ended;

		lock_acquire(&hca->peers->lock);
		ended = peer->used && has_ended(peer);
		lock_release(&hca->peers->lock);
		if (!ended)
			continue;
		/* Only this thread dismisses: the peer is still there. */
		lock_acquire(&hca->drive);
		drain(hca, peer);
		lock_acquire(&hca->peers->lock);
		dismiss(hca, peer);
		lock_release(&hca->peers->lock);
		lock_release(&hca->drive);
	}
}

void peers_serve(struct hca *hca)
{
	if (!hca->peers)
		return;
	bury_the_dead(hca);
	receive_visitors(hca);
}

/* ---- waiting for accessors ---- */

/* A peer that ended does not access anything any more, whatever it said last. */
static bool uses(struct peer *peer, uint32_t rkey, uint32_t qpn)
{
	return peer->used && !peer->liar && hazard_names(peer->their_hazards, rkey, qpn) &&
	       !has_ended(peer);
}

static bool any_uses(struct peers *peers, uint32_t rkey, uint32_t qpn)
{
	bool found = false;
	unsigned i;

	lock_acquire(&peers->lock);
	for (i = 0; i < CHANNELS_MAX && !found; i++)
		found = uses(&peers->peer[i], rkey, qpn);
	lock_release(&peers->lock);
	return found;
}

/*
 * Whoever is not stopped and names what it uses for that long does not use it: what it says is not
 * worth waiting for any more.
 */
static void find_liars(struct peers *peers, uint32_t rkey, uint32_t qpn)
{
	unsigned i;

	lock_acquire(&peers->lock);
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = &peers->peer[i];

		if (!uses(peer, rkey, qpn) || process_is_stopped(peer->process.pid))
			continue;
		peer->liar = true;
		log_warn("process %d says for %u s that it is accessing our memory: it is not "
			 "waited for any more", (int)peer->process.pid,
			 (unsigned)(LIAR_NS / 1000000000u));
	}
	lock_release(&peers->lock);
}

void peers_drain(struct hca *hca, uint32_t rkey, uint32_t qpn)
{
	uint64_t begin_ns = 0, waited_ns;

	if (!hca->peers)
		return;
	atomic_thread_fence(memory_order_seq_cst);	/* F4 */
	while (memory_has_channels(hca->peers->link) && any_uses(hca->peers, rkey, qpn)) {
		if (!begin_ns)
			begin_ns = clock_now_ns();
		waited_ns = clock_now_ns() - begin_ns;
		if (waited_ns < ACCESS_NS) {
			thread_yield();
		} else if (waited_ns < LIAR_NS) {
			thread_sleep_ns(ACCESS_NS);
		} else {
			find_liars(hca->peers, rkey, qpn);
			thread_sleep_ns(LIAR_LOOK_NS);
		}
	}
}

static void drain_key(void *hca, uint32_t rkey)
{
	peers_drain(hca, rkey, 0);
}

static void forget_region(void *hca, uint32_t index)
{
	mapping_remove(hca, index);
}

/* ---- begin and end ---- */

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

void peers_close(struct hca *hca)
{
	struct peers *peers = hca->peers;
	unsigned i;

	if (!peers)
		return;
	for (i = 0; i < peers->listeners; i++)
		close(peers->listen_fd[i]);
	lock_acquire(&hca->peers->lock);
	for (i = 0; i < CHANNELS_MAX; i++)
		if (peers->peer[i].used)
			dismiss(hca, &peers->peer[i]);
	lock_release(&hca->peers->lock);
	while (peers->parked_count)	/* nobody is left who could look there */
		memory_release(peers->parked[--peers->parked_count], shared_bytes(), -1);
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
	for (i = 0; i < CHANNELS_MAX; i++)
		if (peers->peer[i].used)
			rendezvous_part(&peers->peer[i].process);
}
