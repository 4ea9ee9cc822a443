/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Meeting and losing peer processes (peers.h).
 *
 * Two processes may try to meet each other at the same time. The attempt of the one with the lower
 * first slot counts: the other one's listener accepts it, and its own attempt is answered with
 * EALREADY; its thread then waits for the channel to appear. Nobody waits for anything with the
 * lock held, and whoever waits does so for a bounded time. What came to nothing is the worker's
 * (meet_again.c).
 *
 * A peer that hangs up has ended. What it put in its channel before is received still; then the
 * channel goes, and its slots are unknown again: somebody else may claim them.
 */
#include "hca/message.h"
#include "hca/peers_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "hca/mapping.h"
#include "platform/clock.h"
#include "platform/memory.h"

#define MEET_NS		250000000u	/* how long a peer is waited for: its worker may wait for a core */
#define MEET_TRIES	3u
#define MEET_STEP_NS	50000u
#define MEET_AGAIN_NS	1000000000u	/* between datagrams that make the worker try */
#define DRAIN_PASSES	256u

/* ---- what we say of ourselves ---- */

static void write_card(const struct hca *hca, struct rendezvous_card *card)
{
	unsigned i;

	*card = (struct rendezvous_card){ .slot_count = hca->slot_count,
					  .arena_bytes = hca->arena_bytes,
					  .channel_bytes = peers_shared_bytes(),
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

/* Does it hold @slot, by its card? */
static bool holds(const struct rendezvous_card *card, uint32_t slot)
{
	unsigned i;

	for (i = 0; i < card->slot_count; i++)
		if (card->slot[i] == slot)
			return true;
	return false;
}

/* ---- going to meet one ---- */

/* Is it of use to meet the holder of @slot, and has nobody done so yet? */
static bool is_stranger(const struct hca *hca, uint32_t slot)
{
	return hca->peers && !hca_has_slot(hca, slot) && slot != 0 && slot < SLOT_COUNT - 1 &&
	       peers_channel(hca, slot) == PEER_NO_CHANNEL;
}

/* Of the threads that want to meet the holder of @slot one goes, the others wait for it. */
static bool begin(struct hca *hca, uint32_t slot, bool *late)
{
	struct peers *peers = hca->peers;
	bool first;

	lock_acquire(&hca->peers->lock);
	first = !peers->meeting[slot] && peers_channel(hca, slot) == PEER_NO_CHANNEL;
	if (first)
		peers->meeting[slot] = true;
	*late = peers->missed[slot];
	lock_release(&hca->peers->lock);
	return first;
}

static void end(struct peers *peers, uint32_t slot)
{
	lock_acquire(&peers->lock);
	peers->meeting[slot] = false;
	lock_release(&peers->lock);
}

static int set_out(struct hca *hca, struct meeting *meeting, bool late)
{
	struct rendezvous_card card;
	struct rendezvous_gifts gifts = gifts_of(hca);
	void *halves;
	int err;

	write_card(hca, &card);
	card.late = late;
	err = memory_shared("verbatim-channel", card.channel_bytes, &halves, &meeting->channel_fd);
	if (err)
		return err;
	memory_release(halves, card.channel_bytes, -1);
	gifts.channel_fd = meeting->channel_fd;
	err = rendezvous_connect(meeting->slot, &card, &gifts, &meeting->process);
	if (err)
		close(meeting->channel_fd);
	return err;
}

int meeting_begin(struct hca *hca, uint32_t slot, struct meeting *meeting)
{
	bool late;
	int err;

	if (!begin(hca, slot, &late))
		return EALREADY;
	*meeting = (struct meeting){ .slot = slot };
	err = set_out(hca, meeting, late);
	if (err)
		end(hca->peers, slot);
	return err;
}

static int arrive(struct hca *hca, struct meeting *meeting)
{
	struct peer *peer;
	int err;

	if (!holds(&meeting->process.card, meeting->slot)) {
		rendezvous_part(&meeting->process);
		return EPROTO;
	}
	lock_acquire(&hca->peers->lock);
	err = peer_admit(hca, &meeting->process, meeting->channel_fd, true, &peer);
	if (!err)
		peer_publish(hca->peers, peer);
	lock_release(&hca->peers->lock);
	/* A worker that sleeps does not know of this channel: nobody would wake it. */
	if (!err)
		waiter_ring(&hca->waiter);
	return err;
}

int meeting_end(struct hca *hca, struct meeting *meeting, uint64_t timeout_ns)
{
	int err = rendezvous_hear(&meeting->process, timeout_ns);

	if (err == EAGAIN)
		return err;
	if (!err)
		err = arrive(hca, meeting);
	close(meeting->channel_fd);
	end(hca->peers, meeting->slot);
	return err;
}

void meeting_give_up(struct hca *hca, struct meeting *meeting)
{
	rendezvous_part(&meeting->process);
	close(meeting->channel_fd);
	end(hca->peers, meeting->slot);
}

static bool wait_for_channel(struct hca *hca, uint32_t slot)
{
	uint64_t until_ns = clock_now_ns() + MEET_NS;

	while (peers_channel(hca, slot) == PEER_NO_CHANNEL && clock_now_ns() < until_ns)
		thread_sleep_ns(MEET_STEP_NS);
	return peers_channel(hca, slot) != PEER_NO_CHANNEL;
}

/* One attempt. 0; EALREADY: it will come to us; EAGAIN: the worker waits for it; others: no. */
static int attempt(struct hca *hca, uint32_t slot)
{
	struct meeting meeting;
	int err = meeting_begin(hca, slot, &meeting);

	if (err)
		return err;
	err = meeting_end(hca, &meeting, MEET_NS);
	return err == EAGAIN ? meeting_leave(hca, &meeting) : err;
}

/* EALREADY: it is coming to us, or another thread is at it; EEXIST: it was just here. */
static int try_to_meet(struct hca *hca, uint32_t slot)
{
	unsigned tries = 0;
	int err;

	do	/* ECONNRESET: the other side had no time for us (or will never have) */
		err = attempt(hca, slot);
	while (err == ECONNRESET && ++tries < MEET_TRIES);
	if ((err == EALREADY || err == EEXIST) && wait_for_channel(hca, slot))
		return 0;
	return err;
}

static const char *why(int err)
{
	return err == EPERM  ? "it is another user's" :
	       err == EAGAIN ? "it has not answered yet" : strerror(err);
}

void peers_meet(struct hca *hca, uint32_t slot)
{
	int err;

	if (!is_stranger(hca, slot))
		return;
	err = try_to_meet(hca, slot);
	if (!err)
		return;
	counter_add(hca->counters, COUNTER_NO_MEMORY_PATH, 1);
	explain("slot %u: no memory is shared with its process (%s), packets go over UDP", slot,
		why(err));
	meet_later(hca, slot, err);
}

void peers_meet_now_and_then(struct hca *hca, uint32_t slot)
{
	uint64_t now_ns, again_ns;

	if (!is_stranger(hca, slot))
		return;
	now_ns = clock_now_ns();
	again_ns = atomic_load_explicit(&hca->peers->again_ns[slot], memory_order_relaxed);
	if (now_ns < again_ns)
		return;
	atomic_store_explicit(&hca->peers->again_ns[slot], now_ns + MEET_AGAIN_NS,
			      memory_order_relaxed);
	if (!again_ns)
		peers_meet(hca, slot);
	else
		meet_soon(hca, slot);
}

/* ---- being met ---- */

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
		if (hca_has_slot(hca, card->slot[i]))
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
	struct rendezvous_gifts gifts = gifts_of(hca);
	struct rendezvous_card card;
	struct peer *peer;
	int channel_fd = process->channel_fd, verdict;

	write_card(hca, &card);
	process->channel_fd = -1;
	lock_acquire(&hca->peers->lock);
	card.late = peers_missed(hca->peers, &process->card);
	verdict = judge(hca, &process->card);
	if (verdict) {
		rendezvous_answer(process, &card, verdict, &gifts);
		rendezvous_part(process);
	} else if (!peer_admit(hca, process, channel_fd, false, &peer)) {
		if (rendezvous_answer(&peer->process, &card, 0, &gifts))
			peer_dismiss(hca, peer);
		else
			peer_publish(hca->peers, peer);
	}
	lock_release(&hca->peers->lock);
	/* We are awake, but an application thread may sleep in our place (stand_in.c). */
	if (!verdict)
		waiter_ring(&hca->waiter);
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

/* What a peer put in its channel before it ended has arrived, and what it took out of it too. */
static void drain(struct hca *hca, const struct peer *peer) REQUIRES(hca->drive)
{
	unsigned n;

	for (n = 0; n < DRAIN_PASSES && !memory_is_empty(hca->peers->link, peer->channel); n++) {
		messages_receive(hca);
		hca_receive(hca, clock_now_ns());
	}
	hca_receive(hca, clock_now_ns());
	messages_receive(hca);	/* and what it heard is answered */
}

static void bury_the_dead(struct hca *hca)
{
	struct peers *peers = hca->peers;
	unsigned i;

	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = &peers->peer[i];
		bool ended;

		lock_acquire(&hca->peers->lock);
		ended = peer->used && peer_has_ended(peer);
		lock_release(&hca->peers->lock);
		if (!ended)
			continue;
		/* Only this thread dismisses: the peer is still there. */
		lock_acquire(&hca->drive);
		drain(hca, peer);
		lock_acquire(&hca->peers->lock);
		peer_dismiss(hca, peer);
		messages_lost(hca, peer->channel);
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
	meetings_take_answers(hca);
}
