/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The HCA of this process: started by the first context, stopped by the last, abandoned by a
 * fork()ed child.
 *
 * In a child the parent's objects are memory without a device: the child closes the inherited
 * sockets and slots at once (or packets would go to it and vanish), forgets the HCA, and starts
 * one of its own when it opens a device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/tsan.h"
#include "check/check.h"
#include "device/internal.h"
#include "device/observer.h"
#include "engine/injection.h"
#include "engine/receive.h"
#include "mad/mad.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/thread_cpu.h"
#include "trace/file.h"
#include "trace/trace.h"
#include "transport/recovery.h"

#define PROBE_MIN_NS	1000000u
#define EXIT_STEP_NS	1000000u
#define EXIT_TRIES	200u
#define FAREWELL_NS	600000000u	/* for peers that do not answer that they are told */

static struct lock process_lock = LOCK_INITIALIZER;
static struct hca *the_hca;
static unsigned references;
static const struct hca_observer *the_observer;	/* NULL: only in tests */

void hca_observe(const struct hca_observer *observer)
{
	the_observer = observer;
}

const struct hca_observer *hca_observer_of(void)
{
	return the_observer;
}

static int process_allocate(struct hca *hca)
{
	int err;

	hca->arena_bytes = arena_bytes();
	err = memory_private(hca->arena_bytes, (void **)&hca->arena);
	if (err)
		return err;
	arena_init(hca->arena, (uint32_t)getpid());
	hca->engine.counters = arena_counters(hca->arena);
	err = mr_table_init(&hca->mrs, hca->arena, 0);
	hca->mrs.random = random_u64;
	hca->engine.local.mrs = &hca->mrs;
	return err;
}

/* ---- what the engine calls ---- */

static enum drop process_management(void *owner, const struct arrival *arrival, uint64_t now_ns)
{
	struct qp1 *qp1 = &((struct hca *)owner)->qp1;

	lock_assert_held(&qp1->engine->progress);
	return qp1_receive(qp1, arrival, now_ns);
}

static int process_hand_over(void *owner, const uint8_t *mad, const struct datagram *datagram)
{
	return qp1_hand_over(&((struct hca *)owner)->qp1, mad, datagram);
}

static enum drop process_multicast(void *owner, const struct packet *packet, struct rx_info *info,
				   uint64_t now_ns)
{
	struct hca *hca = owner;

	lock_assert_held(&hca->engine.progress);
	return multicast_deliver(hca, packet, info, now_ns);
}

static bool process_is_connected_to(void *owner, uint32_t slot)
{
	return qps_are_connected_to(owner, slot);
}

#define CHANGES_MAX	64u	/* interfaces in one turn */

static void interfaces_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct net_change changes[CHANGES_MAX];
	struct hca *hca = source->owner;
	unsigned count;

	netdev_monitor_drain(hca->netdev_fd);
	count = net_refresh(&hca->net, changes, CHANGES_MAX);
	roce_v1_follow(hca);
	for (unsigned i = 0; i < count; i++)
		qp1_interface_changed(&hca->qp1, &changes[i], now_ns);
	qp1_interfaces_changed(&hca->qp1);
}

static void interfaces_abandon(struct source *source)
{
	const struct hca *hca = source->owner;

	if (hca->netdev_fd >= 0)
		close(hca->netdev_fd);
}

static void observer_turn(struct source *source, bool ready, uint64_t now_ns)
{
	const struct hca *hca = source->owner;

	if (hca->observed)
		the_observer->turn(hca->observed, now_ns);
}

static uint64_t observer_asked(struct source *source)
{
	const struct hca *hca = source->owner;

	return hca->observed ? the_observer->deadline_ns(hca->observed) : TIME_NEVER;
}

static void observer_abandon(struct source *source)
{
	const struct hca *hca = source->owner;

	if (hca->observed)
		the_observer->abandoned(hca->observed);
}

static const struct source_ops source_of_interfaces = {
	.name = "interfaces", .turn = interfaces_turn, .abandon = interfaces_abandon,
};
static const struct source_ops source_of_observer = {
	.name = "observer", .turn = observer_turn, .asked_ns = observer_asked,
	.abandon = observer_abandon,
};

/* ---- the fabric: packets are anyone's, its ports the worker's ---- */

static void subnet_data_abandon(struct source *source)
{
	const struct hca *hca = source->owner;

	if (hca->subnet)
		subnet_abandon(hca->subnet);
}

static bool subnet_ports_are_due(struct source *source)
{
	const struct hca *hca = source->owner;

	return hca->subnet && subnet_is_due(hca->subnet);
}

static uint64_t subnet_ports_asked(struct source *source)
{
	const struct hca *hca = source->owner;

	return hca->subnet ? subnet_deadline_ns(hca->subnet) : TIME_NEVER;
}

static void subnet_ports_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct hca *hca = source->owner;
	enum subnet_watch watch;
	struct subnet_gone gone;
	bool caught_up = false;
	unsigned again;

	if (!hca->subnet)
		return;
	if (subnet_pump(hca->subnet, now_ns)) {
		lock_acquire(&hca->engine.progress);
		tx_release(&hca->engine);
		lock_release(&hca->engine.progress);
		tx_run_queued(&hca->engine);
	}
	again = subnet_turn(hca->subnet, &hca->net, now_ns, &watch);
	for (unsigned i = 0; again; again >>= 1, i++) {
		const struct net_change change = { .ib_port = subnet_port_at(hca->subnet, i) };

		if (again & 1)
			qp1_interface_changed(&hca->qp1, &change, now_ns);
	}
	while (subnet_take_gone(hca->subnet, &gone)) {
		/* What it had sent, through memory too, comes before its end. */
		if (!caught_up)
			engine_catch_up(&hca->engine, true);
		caught_up = true;
		for (unsigned i = 0; i < sizeof(gone.lid) / sizeof(gone.lid[0]) && gone.lid[i]; i++)
			qp1_remote_gone(&hca->qp1, &(struct mad_remote){ .slot = gone.slot, .lid = gone.lid[i],
									.lmc = gone.lmc[i] & 7 }, now_ns);
	}
	if (watch == SUBNET_WATCH)
		source_watch(&hca->engine.source.all, &hca->subnet_data, subnet_fd(hca->subnet));
	else if (watch == SUBNET_UNWATCH)
		source_unwatch(&hca->engine.source.all, subnet_fd(hca->subnet));
}

static const struct source_ops source_of_subnet_data = {
	.name = "fabric", .abandon = subnet_data_abandon,
};
static const struct source_ops source_of_subnet_ports = {
	.name = "fabric ports", .turn = subnet_ports_turn, .is_due = subnet_ports_are_due,
	.asked_ns = subnet_ports_asked,
};

static void process_refused_key(void *owner, const struct packet *packet, const struct route *came, bool is_qkey)
{
	struct hca *hca = owner;
	const struct subnet_refused refused = {
		.way = came->ib, .is_qkey = is_qkey, .key = is_qkey ? packet->deth.qkey : packet->pkey,
		.source_qpn = packet->op->headers & HDR_DETH ? packet->deth.source_qpn : 0,
		.dest_qpn = packet->dest_qpn, .source = came->source, .destination = came->destination,
	};

	if (hca->subnet)
		subnet_refuse(hca->subnet, &refused);
}

static bool process_arrives_by_lid(void *owner, struct datagram *datagram, uint32_t slot)
{
	struct hca *hca = owner;

	return hca->subnet && subnet_arrives(hca->subnet, datagram, slot);
}

static void process_send_final_acks(void *owner)
{
	qps_send_final_acks(owner);
}

static bool process_may_leave(void *owner, uint64_t now_ns)
{
	struct hca *hca = owner;

	/* Behind qp1_may_leave(), which sends. */
	return qp1_may_leave(&hca->qp1, now_ns) && (!hca->subnet || subnet_is_drained(hca->subnet));
}

static const struct engine_ops engine_ops = {
	.management = process_management,
	.hand_over = process_hand_over,
	.multicast = process_multicast,
	.is_connected_to = process_is_connected_to,
	.process_ends = process_send_final_acks,
	.may_leave = process_may_leave,
	.refused_key = process_refused_key,
	.arrives_by_lid = process_arrives_by_lid,
};

static void peer_lost(struct qp *qp) REQUIRES(qp->lock)
{
	qp1_peer_lost(&container_of(qp->transport, struct hca, transport)->qp1, qp);
}

/* Packets through memory arrive, unless VERBATIM_FAULT drops them. */
static bool process_loses_nothing(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct engine *engine = &container_of(qp->transport, struct hca, transport)->engine;

	return !engine->injection && tx_is_through_memory(engine, qp);
}

/*
 * A channel by LID is between two processes of this host, one network namespace, and one user: slots of another
 * namespace are other processes'.
 */
static bool process_is_here(const struct qp *qp) REQUIRES(qp->lock)
{
	return tx_is_through_memory(&container_of(qp->transport, struct hca, transport)->engine, qp);
}

/* Without a lock: the GUID is fixed. */
static void process_gid_0(const struct qp *qp, uint8_t gid[16])
{
	const struct hca_context *context = qp->owner;

	gid_table_default(context->port, gid);
}

static void period_begins(struct qp *qp, struct cq *cq) REQUIRES(qp->lock)
{
	timers_arm_cq(&container_of(qp->transport, struct hca, transport)->engine, cq);
}

/* ---- start and stop ---- */

static void process_init(struct hca *hca)
{
	lock_init(&hca->objects);
	list_init(&hca->contexts);
	list_init(&hca->groups);
	list_init(&hca->xrc_domains);
	path_table_init(&hca->paths);
	hca->netdev_fd = -1;
	net_init(&hca->net, &hca->config);
	hca->net.changed = contexts_raise;
	hca->net.owner = hca;
	hca->engine.ops = &engine_ops;
	hca->engine.owner = hca;
	engine_init(&hca->engine);
	source_register(&hca->engine.source.all, &hca->interfaces, &source_of_interfaces, hca);
	qp1_init(&hca->qp1, &hca->engine, &hca->net);
	source_register(&hca->engine.source.all, &hca->observer, &source_of_observer, hca);
	source_register(&hca->engine.source.all, &hca->subnet_data, &source_of_subnet_data, hca);
	source_register(&hca->engine.source.all, &hca->subnet_ports, &source_of_subnet_ports, hca);
}

static void process_release(struct hca *hca)
{
	if (hca->observed)
		the_observer->stopped(hca->observed);
	engine_close(&hca->engine);
	if (hca->subnet)
		subnet_close(hca->subnet);
	roce_v1_end(hca);
	mr_table_free(&hca->mrs);
	memory_check_end();
	path_table_fini(&hca->paths);
	recovery_pool_free(hca->transport.recoveries);
	qp1_fini(&hca->qp1);
	net_fini(&hca->net);
	if (hca->netdev_fd >= 0)
		close(hca->netdev_fd);
	if (hca->arena)
		memory_release(hca->arena, hca->arena_bytes, -1);
	memory_release(hca->null_zeros, NULL_MR_BYTES, -1);
	memory_release(hca->null_sink, NULL_MR_BYTES, -1);
	free(hca);
}

/* Where interfaces are asked for as well, they are there without the fabric, too. */
static int process_attach(struct hca *hca)
{
	bool roce = !hca->config.fabric[0] || hca->config.devices[0];
	int err = subnet_open(&hca->subnet, hca->engine.counters);

	if (err)
		return roce && err == ENODEV ? 0 : err;
	hca->engine.without_udp = !roce;
	if (!hca->subnet)
		return 0;
	receive_from_fabric(&hca->engine, subnet_link(hca->subnet));
	hca->net.maker = (struct port_maker){ .make = subnet_make_ports, .find = subnet_find_address,
					      .find_way = subnet_find_way, .look = subnet_look,
					      .serve = subnet_serve, .describe = subnet_describe,
					      .owner = hca->subnet };
	return 0;
}

/* For a subnet, of struct local. */
static uint32_t process_channel(void *owner, uint32_t slot)
{
	return local_fabric_channel(owner, slot);
}

static bool process_say_behind(void *owner, uint32_t channel)
{
	return local_say_behind(owner, channel);
}

static void process_tell_fabric(void *owner, uint64_t fabric)
{
	local_set_fabric(owner, fabric);
}

static int process_watch_subnet(struct hca *hca)
{
	if (!hca->subnet)
		return 0;
	subnet_set_loopback(hca->subnet, hca->engine.loopback);
	if (hca->engine.local.channel_link) {
		const struct subnet_ways ways = {
			.rings = hca->engine.local.channel_link, .owner = &hca->engine.local,
			.channel = process_channel, .behind = process_say_behind, .tell = process_tell_fabric,
		};

		subnet_set_ways(hca->subnet, &ways);
	}
	return source_watch(&hca->engine.source.all, &hca->subnet_data, subnet_fd(hca->subnet));
}

static int process_start(struct hca **started)
{
	struct hca *hca = calloc(1, sizeof(*hca));
	int err;

	if (!hca)
		return ENOMEM;
	process_init(hca);
	err = config_load(&hca->config);
	if (!err)
		err = local_mode_of(hca->config.memory, &hca->engine.local.mode);
	if (!err)
		err = fault_handler_install();
	if (!err)
		err = process_allocate(hca);
	if (!err)
		err = process_attach(hca);
	if (!err)
		err = roce_v1_begin(hca);
	if (!err)
		err = engine_open(&hca->engine);
	if (!err)
		err = process_watch_subnet(hca);
	if (!err)
		err = qp1_open(&hca->qp1);
	if (err)
		goto release;
	hca->transport = (struct transport){ .mrs = &hca->mrs, .counters = hca->engine.counters,
					     .run_queue = &hca->engine.run_queue,
					     .probe_min_ns = PROBE_MIN_NS, .paths = &hca->paths,
					     .recoveries = recovery_pool_new(),
					     .peer_lost = peer_lost, .period_begins = period_begins,
					     .loses_nothing = process_loses_nothing,
					     .is_here = process_is_here,
					     .default_gid = process_gid_0 };
	if (!hca->transport.recoveries) {
		err = ENOMEM;
		goto release;
	}
	if (the_observer)
		hca->observed = the_observer->started(hca, &hca->engine.waiter, hca->observer.tag);
	if (!netdev_monitor_open(&hca->netdev_fd)) {
		err = source_watch(&hca->engine.source.all, &hca->interfaces, hca->netdev_fd);
	} else {
		hca->netdev_fd = -1;
		log_warn("no netlink notifications: changes of interfaces go unnoticed");
	}
	if (!err)
		err = engine_start(&hca->engine);
	if (err)
		goto stop;
	log_info("started: slot %u", hca->engine.qps.slot[0].number);
	*started = hca;
	return 0;
stop:
	engine_stop(&hca->engine);
release:
	process_release(hca);
	return err;
}

/*
 * fork(): hold what a child could find half-changed, then let the child drop what it inherited. The C
 * library calls these: what is held between them no function shows.
 */
static void process_before_fork(void) UNCHECKED_LOCKS
{
	lock_acquire(&process_lock);
	if (the_hca)
		qp1_before_fork(&the_hca->qp1);
}

/* Releases what process_before_fork() has taken. */
static void process_after_fork_parent(void) UNCHECKED_LOCKS
{
	if (the_hca)
		qp1_after_fork(&the_hca->qp1);
	lock_release(&process_lock);
}

/* Only what is safe between fork() and exec() in a threaded program: closing, storing. */
static void process_after_fork_child(void)
{
	struct list *node;

	if (the_hca) {
		engine_abandon(&the_hca->engine);
		net_abandon(&the_hca->net);
		list_for_each(node, &the_hca->contexts)
			list_entry(node, struct hca_context, node)->abandoned = true;
	}
	thread_id_forget();
	memory_check_end();
	the_hca = NULL;
	references = 0;
	lock_init(&process_lock);
}

static const struct fork_handlers fork_handlers = {
	.prepare = process_before_fork, .parent = process_after_fork_parent, .child = process_after_fork_child,
};

/*
 * exit() with contexts open: a message whose completion the application has seen is acknowledged, and peers that
 * are connected by the manager are told of the end.
 *
 * The worker sends what is due, within a bounded time. exit() may run in a handler that interrupted
 * a lock holder; then nothing is sent.
 */
static void leave_at_exit(void)
{
	unsigned tries;

	for (tries = 0; !lock_try(&process_lock); tries++) {
		if (tries == EXIT_TRIES)
			return;
		thread_sleep_ns(EXIT_STEP_NS);
	}
	if (the_hca) {
		worker_leave(&the_hca->engine, (uint64_t)EXIT_TRIES * EXIT_STEP_NS, FAREWELL_NS);
		injection_report(&the_hca->engine);
		if (trace_may_end())
			hca_trace_counters(the_hca);
	}
	lock_release(&process_lock);
}

__attribute__((destructor)) static void at_exit(void)
{
	tsan_enter();
	check_finish();
	leave_at_exit();
	trace_file_finish();
	tsan_leave();
}

int hca_get(struct hca **hca)
{
	int err = check_start();

	if (!err)
		err = trace_file_open();
	fork_register(FORK_PROCESS, &fork_handlers);
	trace_connect();
	lock_acquire(&process_lock);
	if (!err && !the_hca)
		err = process_start(&the_hca);
	if (!err) {
		references++;
		*hca = the_hca;
	}
	lock_release(&process_lock);
	return err;
}

void hca_put(struct hca *hca)
{
	bool last;

	lock_acquire(&process_lock);
	last = --references == 0;
	if (last)
		the_hca = NULL;
	lock_release(&process_lock);
	if (last) {
		engine_stop(&hca->engine);
		hca_trace_counters(hca);
		process_release(hca);
	}
}

int hca_get_qp1(struct qp1 **qp1)
{
	struct hca *hca;
	int err = hca_get(&hca);

	if (!err)
		*qp1 = &hca->qp1;
	return err;
}

void hca_put_qp1(struct qp1 *qp1)
{
	hca_put(container_of(qp1, struct hca, qp1));
}
