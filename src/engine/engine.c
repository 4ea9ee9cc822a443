/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's beginning and end: links, channels to other processes, port 4791, the worker. */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/receive.h"
#include "engine/wake.h"
#include "engine/way.h"
#include "host/group_program.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "trace/file.h"

/* ---- peers of this host ---- */

static bool peers_are_due(struct source *source)
{
	return atomic_load(&((struct engine *)source->owner)->local.peers_due);
}

static uint64_t peers_asked(struct source *source)
{
	return local_deadline(&((struct engine *)source->owner)->local);
}

static void peers_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct engine *engine = source->owner;

	if (ready || peers_are_due(source))
		local_handle_peers(&engine->local);
	local_reconnect(&engine->local, now_ns);
}

static void peers_abandon(struct source *source)
{
	struct engine *engine = source->owner;

	slot_watch_abandon(engine->watch);
	local_abandon(&engine->local);
}

static const struct source_ops source_of_peers = {
	.name = "peers", .turn = peers_turn, .is_due = peers_are_due, .asked_ns = peers_asked,
	.abandon = peers_abandon,
};

void engine_init(struct engine *engine)
{
	struct sources *all = &engine->source.all;

	lock_init(&engine->progress);
	lock_init(&engine->timers.lock);
	lock_init(&engine->sleep.lock);
	lock_init(&engine->batches.lock);
	run_queue_init(&engine->run_queue);
	list_init(&engine->rx.ethernet_ports);
	atomic_init(&engine->timers.next_ns, TIME_NEVER);
	atomic_init(&engine->worker.notice_ns, TIME_NEVER);
	engine->worker.rebind_ns = TIME_NEVER;
	engine->owner_watch_fd = -1;
	sources_init(all, &engine->waiter);
	receive_register(engine);
	source_register(all, &engine->source.peers, &source_of_peers, engine);
	source_register(all, &engine->source.port, &source_of_port, engine);
	source_register(all, &engine->source.port_group, &source_of_port_group, engine);
	engine->waiter.epoll_fd = engine->waiter.doorbell_fd = -1;
	engine->waiter.nap_fd = engine->waiter.signal_fd = -1;
}

/* ---- operations for local/ ---- */

static struct qp *local_find_qp(void *owner, uint32_t qpn)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	return qp_table_find(engine, qpn);
}

static void local_receive_packets(void *owner)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	rx_poll(engine, NULL, clock_now_ns());
}

static void local_receive_slots(void *owner)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	source_set_due(&engine->source.all, &engine->source.slots);
	rx_poll(engine, NULL, clock_now_ns());
}

static unsigned local_way_changed(void *owner, uint32_t slot)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	return way_changed(engine, slot, clock_now_ns());
}

static void local_receive_fabric(void *owner)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	rx_drain_fabric(engine, clock_now_ns());
}

static void local_unlock(void *owner)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	progress_unlock(engine);
}

static void local_notice(void *owner, uint64_t deadline_ns)
{
	worker_wake_at(owner, deadline_ns);
}

static void local_note(void *owner, uint64_t deadline_ns)
{
	worker_wake_after_unlock(owner, deadline_ns);
}

static bool local_is_connected_to(void *owner, uint32_t slot)
{
	struct engine *engine = owner;

	return engine->ops->is_connected_to(engine->owner, slot);
}

static void engine_dropped(void *owner, uint32_t qpn, const struct refusal *refusal)
{
	struct engine *engine = owner;

	lock_assert_held(&engine->progress);
	qp_table_dropped(engine, qpn, refusal);
}

static const struct local_ops local_ops = {
	.find_qp = local_find_qp, .receive = local_receive_packets, .receive_slots = local_receive_slots,
	.notice = local_notice, .note = local_note, .is_connected_to = local_is_connected_to,
	.defer = effects_defer, .dropped = engine_dropped,
	.way_changed = local_way_changed, .receive_fabric = local_receive_fabric, .unlock = local_unlock,
};

static int open_local(struct engine *engine)
{
	struct local *local = &engine->local;
	unsigned i;
	int err;

	local->ops = &local_ops;
	local->owner = engine;
	local->progress = &engine->progress;
	local->counters = engine->counters;
	local->run_queue = &engine->run_queue;
	local->waiter = &engine->waiter;
	local->connect_tag = engine->source.peers.tag;
	local->bells_tag = engine->source.channels.tag;
	/* Why everything goes as packets, though memory is shared. */
	if (local->mode < LOCAL_RING)
		local->packets_why =
			engine->injection ? "VERBATIM_FAULT: faults on purpose are done to packets" :
			trace_file_as_packets() ? "VERBATIM_TRACE: as-packets" : NULL;
	else
		local->packets_why = NULL;
	if (local->packets_why)
		local->mode = LOCAL_RING;
	err = local_open(local);
	source_poll(&engine->source.all, &engine->source.channels, local->channel_link);
	if (!err) {
		local->mrs->end_kept = qp_table_end_kept;
		local->mrs->keeper = engine;
	}
	for (i = 0; !err && i < engine->qps.slot_count; i++)
		local_add_slot(local, &engine->qps.slot[i]);
	return err;
}

int engine_open(struct engine *engine)
{
	int err;

	/* One buffer to transmit from is allocated here, so that there is one without memory, too. */
	engine->batches.free[0] = tx_batch_new();
	engine->batches.count = engine->batches.free[0] ? 1 : 0;
	engine->rx.slot_buffer = malloc(RECEIVE_BUFFER);
	if (!engine->batches.count || !engine->rx.slot_buffer)
		return ENOMEM;
	err = injection_open(engine);
	if (!err)
		err = udp_open(&engine->udp, engine->counters);
	if (!err) {
		engine->links[ROUTE_ROCE_V2] = engine->udp;
		err = loopback_open(&engine->loopback, engine->counters);
	}
	if (!err)
		err = waiter_open(&engine->waiter);
	if (!err)
		err = slot_watch_open(&engine->watch);
	if (!err)
		err = slots_claim(engine);
	if (!err)
		err = open_local(engine);
	return err;
}

int engine_start(struct engine *engine)
{
	int err;

	lock_acquire(&engine->progress);
	err = port_bind(engine);
	lock_release(&engine->progress);
	if (err)
		return err;
	port_settle(engine);
	return worker_start(engine);
}

void engine_stop(struct engine *engine)
{
	worker_stop(engine);
	port_drain(engine);
}

void engine_close(struct engine *engine)
{
	struct link *udp = engine->links[ROUTE_ROCE_V2];

	if (engine->local.mrs)
		engine->local.mrs->end_kept = NULL;
	local_close(&engine->local);
	if (engine->group)
		port_group_leave(engine->group);
	if (udp)
		udp->ops->close(udp);
	if (engine->loopback)
		engine->loopback->ops->close(engine->loopback);
	slots_release(engine);
	if (engine->watch)
		slot_watch_close(engine->watch);
	if (engine->waiter.epoll_fd >= 0)
		waiter_close(&engine->waiter);
	timer_heap_free(&engine->timers.heap);
	timer_heap_free(&engine->timers.cq_heap);
	while (engine->batches.count)
		free(engine->batches.free[--engine->batches.count]);
	free(engine->rx.slot_buffer);
	injection_close(engine);
	trace_file_flush();
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void engine_abandon(struct engine *engine)
{
	sources_abandon(&engine->source.all);
	close_fd(engine->waiter.epoll_fd);
	close_fd(engine->waiter.doorbell_fd);
	close_fd(engine->waiter.nap_fd);
	close_fd(engine->waiter.signal_fd);
}
