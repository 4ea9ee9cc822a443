/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's own sources of packets, in the order in which a round looks at them: packets that were held
 * back on purpose, channels to processes of this host, sockets, the process of a fabric, the loopback,
 * Ethernet frames, and what other processes of this host hand on to our slots.
 */
#include "engine/receive.h"

#include <errno.h>
#include <unistd.h>

#include "base/call.h"
#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/links.h"
#include "engine/steer.h"
#include "link/udp.h"
#include "local/channel/ring.h"
#include "trace/file.h"

/* Rounds between looks at the slot sockets, of which the worker is told; and while packets come there. */
#define SLOTS_SELDOM	64u	/* powers of two */
#define SLOTS_OFTEN	8u
#define SLOTS_BUSY	4096u	/* rounds for which a packet makes them busy */
#define SOCKETS_EVERY_NS 20000u
#define RINGS_FIRST	64u	/* rounds of batches that may precede others */
#define FABRIC_BUSY	64u	/* rounds for which a packet by the fabric's process makes it busy */
#define HELD_MAX	1024u	/* packets that were held back, in a round */

/* Field by field: zeroing all effects would cost more than most rounds. */
static void rx_init_receiver(struct receiver *receiver, struct engine *engine, struct cq_poll *poll,
			     uint64_t now_ns)
{
	receiver->engine = engine;
	receiver->now_ns = now_ns;
	receiver->qp = NULL;
	receiver->received = false;
	receiver->packets = 0;
	receiver->deny_receive = false;
	receiver->traced = NULL;
	effects_init(&receiver->effects);
	receiver->effects.poll = poll;
}

static void receive_link(struct receiver *receiver, struct link *link);

/*
 * What was sent through memory before the packets at hand were given to the fabric's process
 * precedes them: a sender changes over to it at once.
 */
static void receive_rings_first(struct receiver *receiver)
{
	struct link *rings = receiver->engine->local.channel_link;
	unsigned before, n = 0;

	if (!rings || !ring_has_channels(rings))
		return;
	do {
		before = receiver->packets;
		receive_link(receiver, rings);
	} while (receiver->packets != before && ++n < RINGS_FIRST);
	ring_done(rings);
}

static void receive_link(struct receiver *receiver, struct link *link)
{
	struct datagram datagram[RECEIVE_BATCH];
	unsigned round, received, i;

	for (round = 0; round < RECEIVE_ROUNDS; round++) {
		if (link->ops->receive(link, datagram, RECEIVE_BATCH, &received) || !received)
			return;
		if (link == receiver->engine->links[ROUTE_IB])
			receive_rings_first(receiver);
		for (i = 0; i < received; i++)
			rx_datagram(receiver, &datagram[i]);
		rx_unlock_qp(receiver);
		if (trace_wants(TRACE_FILE))
			trace_file_relieve();
		if (received < RECEIVE_BATCH)
			return;
	}
}

/* ---- sources ---- */

/* Packets that were held back on purpose and are due, in both directions. */
static void held_receive(struct source *source, struct receiver *receiver)
{
	struct engine *engine = source->owner;
	struct held *held;
	unsigned n;

	call_shield();
	lock_assert_held(&engine->progress);
	for (n = 0; n < HELD_MAX && (held = injection_take(engine, false, receiver->now_ns)); n++) {
		rx_datagram(receiver, &held->datagram);
		injection_release(engine, held);
	}
	rx_unlock_qp(receiver);
	injection_send_held(engine, receiver->now_ns);
}

static void channels_receive(struct source *source, struct receiver *receiver)
{
	struct engine *engine = source->owner;
	struct link *rings = engine->local.channel_link;
	unsigned before, n = 0;

	if (!rings || !ring_pending(rings))
		return;
	/*
	 * A channel was opened while QPs were sending: packets sent by UDP precede those in memory. RC
	 * would repair the order; UD would deliver the wrong one (and UC stays with UDP:
	 * device/qp_modify.c).
	 */
	if (receiver->now_ns < atomic_load_explicit(&engine->local.udp_first_until_ns, memory_order_relaxed))
		do {
			before = receiver->packets;
			receive_link(receiver, engine->links[ROUTE_ROCE_V2]);
		} while (receiver->packets != before && ++n < RECEIVE_ROUNDS);
	receive_link(receiver, rings);
	ring_done(rings);
}

static bool channels_pending(struct source *source)
{
	return local_pending(&((struct engine *)source->owner)->local);
}

static void channels_woken(struct source *source)
{
	local_silence_bells(&((struct engine *)source->owner)->local);
}

/*
 * Reading the sockets is a system call, as long as several messages through memory: beside peers
 * that share memory the sockets are read only every SOCKETS_EVERY_NS.
 */
static void sockets_receive(struct source *source, struct receiver *receiver)
{
	struct engine *engine = source->owner;
	unsigned i;

	if (engine->without_udp)
		return;
	if (engine->local.channel_link && ring_has_channels(engine->local.channel_link) &&
	    receiver->now_ns - engine->rx.udp_looked_ns < SOCKETS_EVERY_NS)
		return;
	engine->rx.udp_looked_ns = receiver->now_ns;
	receive_link(receiver, engine->links[ROUTE_ROCE_V2]);
	for (i = ROUTE_ROCE_V2 + 1; i < ROUTE_LINK_COUNT; i++)
		if (engine->links[i] && i != ROUTE_IB) {
			call_shield();
			receive_link(receiver, engine->links[i]);
		}
}

static void sockets_abandon(struct source *source)
{
	struct engine *engine = source->owner;
	struct link *udp = engine->links[ROUTE_ROCE_V2];
	int fds[8];
	unsigned i, count = udp->ops->event_fds(udp, fds, 8);

	for (i = 0; i < count; i++)
		close(fds[i]);
	steer_abandon(engine);
	links_abandon(engine);
	udp_abandon(engine->udp);
}

static void receive_fabric(struct receiver *receiver)
{
	struct engine *engine = receiver->engine;
	struct link *link = engine->links[ROUTE_IB];
	unsigned before = receiver->packets;

	call_shield();
	lock_assert_held(&engine->progress);
	receive_link(receiver, link);
	if (receiver->packets != before)
		engine->rx.fabric_busy = FABRIC_BUSY;
	if (atomic_load(&engine->run_queue_held) && !link->ops->is_full(link))
		tx_release(engine);
}

/*
 * As seldom as sockets, beside peers that share memory; often when something
 * has just come by that process.
 */
static void fabric_receive(struct source *source, struct receiver *receiver)
{
	struct engine *engine = source->owner;

	if (engine->rx.fabric_busy)
		engine->rx.fabric_busy--;
	else if (engine->local.channel_link && ring_has_channels(engine->local.channel_link) &&
		 receiver->now_ns - engine->rx.fabric_looked_ns < SOCKETS_EVERY_NS)
		return;
	engine->rx.fabric_looked_ns = receiver->now_ns;
	receive_fabric(receiver);
}

static void loopback_take(struct source *source, struct receiver *receiver)
{
	struct link *loopback = ((struct engine *)source->owner)->loopback;

	if (loopback_pending(loopback))
		receive_link(receiver, loopback);
}

static bool loopback_has_packets(struct source *source)
{
	return loopback_pending(((struct engine *)source->owner)->loopback);
}

static void frames_receive(struct source *source, struct receiver *receiver)
{
	struct engine *engine = source->owner;

	call_shield();
	lock_assert_held(&engine->progress);
	receiver->packets += steer_receive(engine, receiver->now_ns);
}

static void slots_receive(struct source *source, struct receiver *receiver)
{
	struct engine *engine = source->owner;
	struct slot_proof proof;
	struct datagram datagram;
	unsigned i, n;

	call_shield();
	for (i = 0; i < engine->qps.slot_count; i++)
		for (n = 0; n < RECEIVE_BATCH * RECEIVE_ROUNDS; n++) {
			int err = slot_receive(&engine->qps.slot[i], &datagram, engine->rx.slot_buffer,
					       RECEIVE_BUFFER, &proof);

			if (err == EAGAIN)
				break;
			if (err == EPERM || err == EBADMSG)
				drop_count(engine->counters, DROP_FORGED, 1);
			if (err == ENOMSG)
				local_note_proof(&engine->local, &proof);
			if (err)
				continue;
			datagram.forwarded = true;
			engine->rx.slots_busy = SLOTS_BUSY;
			rx_datagram(receiver, &datagram);
		}
	rx_unlock_qp(receiver);
}

static void slots_woken(struct source *source)
{
	source_set_due(&((struct engine *)source->owner)->source.all, source);
}

static void slots_abandon(struct source *source)
{
	struct engine *engine = source->owner;
	unsigned i;

	for (i = 0; i < engine->qps.slot_count; i++)
		slot_release(&engine->qps.slot[i]);
}

/* ---- the table ---- */

static const struct source_ops source_of_held = { .name = "held packets", .receive = held_receive };
static const struct source_ops source_of_channels = {
	.name = "channels", .woken = channels_woken, .receive = channels_receive, .pending = channels_pending,
};
static const struct source_ops source_of_sockets = {
	.name = "sockets", .receive = sockets_receive, .abandon = sockets_abandon,
};
static const struct source_ops source_of_fabric = { .name = "the fabric's process", .receive = fabric_receive };
static const struct source_ops source_of_loopback = {
	.name = "loopback", .receive = loopback_take, .pending = loopback_has_packets,
};
static const struct source_ops source_of_frames = { .name = "frames", .receive = frames_receive };
static const struct source_ops source_of_slots = {
	.name = "slots", .woken = slots_woken, .receive = slots_receive, .abandon = slots_abandon,
};

void receive_register(struct engine *engine)
{
	struct engine_sources *source = &engine->source;

	source_register(&source->all, &source->held, &source_of_held, engine);
	source_register(&source->all, &source->channels, &source_of_channels, engine);
	source_register(&source->all, &source->sockets, &source_of_sockets, engine);
	source_register(&source->all, &source->fabric, &source_of_fabric, engine);
	source_register(&source->all, &source->loopback, &source_of_loopback, engine);
	source_register(&source->all, &source->frames, &source_of_frames, engine);
	source_register(&source->all, &source->slots, &source_of_slots, engine);
	source_poll(&source->all, &source->channels, true);
	source_poll(&source->all, &source->sockets, true);
}

void receive_from_fabric(struct engine *engine, struct link *link)
{
	engine->links[ROUTE_IB] = link;
	source_poll(&engine->source.all, &engine->source.fabric, link != NULL);
	/* What it sends to its own node comes by the loopback. */
	source_poll(&engine->source.all, &engine->source.loopback, true);
}

/* ---- a round ---- */

unsigned rx_poll(struct engine *engine, struct cq_poll *poll, uint64_t now_ns)
{
	unsigned slots_every = SLOTS_SELDOM;
	struct receiver receiver;

	/*
	 * Slot sockets are looked at now and then, whoever was woken: packets come there beside those of
	 * other ways.
	 */
	if (engine->rx.slots_busy) {
		engine->rx.slots_busy--;
		slots_every = SLOTS_OFTEN;
	}
	rx_init_receiver(&receiver, engine, poll, now_ns);
	sources_receive(&engine->source.all,
			engine->rx.rounds & (slots_every - 1) ? 0 : engine->source.slots.tag, &receiver);
	if (receiver.packets && trace_wants(TRACE_FILE))
		trace_file_flush();
	return receiver.packets;
}

void rx_drain_fabric(struct engine *engine, uint64_t now_ns)
{
	struct receiver receiver;
	unsigned before, n = 0;

	if (!engine->links[ROUTE_IB])
		return;
	rx_init_receiver(&receiver, engine, NULL, now_ns);
	do {
		before = receiver.packets;
		receive_fabric(&receiver);
	} while (receiver.packets != before && ++n < RINGS_FIRST);
}
