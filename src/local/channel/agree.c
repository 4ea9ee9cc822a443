/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both processes of a channel agree that packets between them come by it alone (engine/way.c). Each
 * says OPENED through the channel when it has published the channel to its own threads, and has gone
 * back, on its QPs that are connected to the other process, to the first packet without an answer:
 * what they sent by UDP until then is sent again by the channel. So the other one may drop, from
 * OPENED on, whatever comes for its QPs by another way, and nothing is lost. It goes back as well,
 * for answers that it dropped.
 *
 * UC repairs nothing. A UC QP that began without a channel sends by UDP until RESET
 * (device/qp_modify.c), and OPENED says how many such QPs there are: if there is none, nothing that
 * UC has sent is under way by UDP.
 *
 * The agreement lasts as long as the QPs do: when the channel is lost, they wait for another one to
 * the same process (reconnect.c), and believe no packet until then.
 */
#include "local/channel/peer.h"
#include "local/channel/progress.h"

#include "platform/clock.h"

#define FULL_NS		1000000u	/* until room is looked for again */
#define AGREE_NS	250000000u	/* to wait for a peer: it may wait for a core */
#define AGREE_STEP_NS	20000u

uint32_t local_agreed_way(const struct local *local, uint32_t slot, bool reliable)
{
	const struct peer *peer = local->peers ? peer_of_slot(local, slot) : NULL;

	if (!peer || !atomic_load_explicit(reliable ? &peer->agreed : &peer->agreed_of_uc, memory_order_acquire))
		return BY_NETWORK;
	return atomic_load_explicit(&peer->life, memory_order_acquire);
}

uint32_t local_way_of_channel(const struct local *local, uint32_t channel)
{
	const struct peer *peer = local->peers ? peer_at(local, channel) : NULL;
	uint32_t life = peer ? atomic_load_explicit(&peer->life, memory_order_relaxed) : 0;

	return life ? life : BY_LOST_CHANNEL;
}

bool local_comes_from(const struct local *local, uint32_t channel, uint32_t way, uint32_t slot)
{
	const struct peer *peer = local->peers ? peer_at(local, channel) : NULL;

	return peer && atomic_load_explicit(&peer->life, memory_order_relaxed) == way && peer_has_slot(peer, slot);
}

/* On QPs that are connected to @peer; how many send by UDP all the same. With the progress lock. */
static unsigned change_ways(struct local *local, const struct peer *peer)
{
	const struct hello *hello = &peer->process.hello;
	unsigned by_udp = 0, i;

	for (i = 0; i < hello->slot_count; i++)
		by_udp += local->ops->way_changed(local->owner, hello->slot[i]);
	local->ops->notice(local->owner, 0);
	return by_udp;
}

void agree_open(struct local *local, struct peer *peer)
{
	progress_take(local);
	atomic_store(&peer->by_udp, change_ways(local, peer));
	atomic_store(&peer->opened_due, true);
	agree_say_opened(local);
	progress_drop(local);
	local_ring_bells(local);
}

void agree_say_opened(struct local *local)
{
	struct control control = { .kind = CONTROL_OPENED };
	unsigned count = ring_channels(local->channel_link), i;

	for (i = 0; i < count; i++) {
		struct peer *peer = peer_at(local, i);

		if (!peer || !atomic_load_explicit(&peer->opened_due, memory_order_relaxed))
			continue;
		control.value = atomic_load(&peer->by_udp);
		control.fabric = atomic_load(&local->fabric);
		if (control_send(local, peer, &control, 0)) {
			atomic_store(&peer->opened_due, false);
			continue;
		}
		atomic_store(&local->offers_due, true);
		local->ops->notice(local->owner, clock_now_ns() + FULL_NS);
	}
}

void agree_receive(struct local *local, struct peer *peer, const struct control *control)
{
	atomic_store(&peer->fabric, control->fabric);
	if (!control->value)
		atomic_store(&peer->agreed_of_uc, true);
	if (atomic_exchange(&peer->agreed, true))
		return;
	change_ways(local, peer);
}

/* ---- a virtual fabric ---- */

void local_set_fabric(struct local *local, uint64_t fabric)
{
	unsigned count, i;

	atomic_store(&local->fabric, fabric);
	if (!local->channel_link)
		return;
	count = ring_channels(local->channel_link);
	for (i = 0; i < count; i++) {
		struct peer *peer = peer_at(local, i);

		if (peer)
			atomic_store(&peer->opened_due, true);
	}
	atomic_store(&local->offers_due, true);
	local->ops->notice(local->owner, 0);
}

uint32_t local_fabric_channel(const struct local *local, uint32_t slot)
{
	const struct peer *peer = peer_of_slot(local, slot);
	uint64_t fabric = peer ? atomic_load_explicit(&peer->fabric, memory_order_relaxed) : 0;

	return fabric && fabric == atomic_load_explicit(&local->fabric, memory_order_relaxed) ?
		       peer->channel : LOCAL_NO_CHANNEL;
}

uint32_t local_channel_slot(const struct local *local, uint32_t channel)
{
	const struct peer *peer = local->peers ? peer_at(local, channel) : NULL;

	return peer ? peer->process.hello.slot[0] : 0;
}

bool local_channel_has_slot(const struct local *local, uint32_t channel, uint32_t slot)
{
	const struct peer *peer = local->peers ? peer_at(local, channel) : NULL;

	return peer && peer_has_slot(peer, slot);
}

bool local_say_behind(struct local *local, uint32_t channel)
{
	const struct control control = { .kind = CONTROL_BEHIND };
	struct peer *peer = peer_at(local, channel);

	return !peer || control_send(local, peer, &control, 0);
}

/* ---- waiting for the other end ---- */

/* Its answer is in the ring, or will be: take it here, the worker may be asleep on purpose. */
void agree_await(struct local *local, uint32_t slot)
{
	uint64_t until_ns = clock_now_ns() + AGREE_NS;
	bool waited = false;

	for (; local_channel(local, slot) != LOCAL_NO_CHANNEL &&
	       local_agreed_way(local, slot, true) == BY_NETWORK && clock_now_ns() < until_ns; waited = true) {
		progress_take(local);
		local->ops->receive(local->owner);
		local->peers->ops->receive(local);
		progress_drop(local);
		if (local_agreed_way(local, slot, true) == BY_NETWORK)
			thread_sleep_ns(AGREE_STEP_NS);
	}
	if (waited)
		local->ops->notice(local->owner, 0);	/* of what else came */
}
