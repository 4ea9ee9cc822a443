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
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/call.h"
#include "base/log.h"
#include "hca/gsi_internal.h"
#include "hca/internal.h"
#include "host/slot_watch.h"
#include "link/fault.h"
#include "link/trace.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/thread_cpu.h"
#include "wire/psn.h"

#define PROBE_MIN_NS	1000000u
#define SETTLE_NS	100000000u	/* more than two rounds of 20 ms for members that do not answer */
#define SETTLE_STEP_NS	50000u
#define EXIT_STEP_NS	1000000u
#define EXIT_TRIES	200u
#define DRAINS_MAX	64u
#define CLAIM_TRIES	16u

static struct lock process_lock = LOCK_INITIALIZER;
static struct hca *the_hca;
static unsigned references;

/* A slot that can be watched: the kernel may still be closing sockets of its last holder. */
static int claim_watchable(struct hca *hca, struct slot *slot)
{
	unsigned tries;
	int err = EADDRINUSE;

	for (tries = 0; err == EADDRINUSE && tries < CLAIM_TRIES; tries++) {
		err = slot_claim(slot);
		if (err)
			break;
		err = slot_watch_listen(hca->watch, slot->number);
		if (err)
			slot_release(slot);
	}
	return err;
}

static int claim_slot(struct hca *hca)
{
	unsigned n = hca->slot_count;
	int err;

	if (n == HCA_SLOTS_MAX)
		return ENOMEM;
	hca->qp_table[n] = calloc(QP_PER_SLOT, sizeof(**hca->qp_table));
	if (!hca->qp_table[n])
		return ENOMEM;
	err = claim_watchable(hca, &hca->slot[n]);
	if (err) {
		explain("open_device: no slot of the %u of this host is to be had: %s", SLOT_COUNT,
			strerror(err));
		goto free_table;
	}
	err = worker_watch_slot(hca, &hca->slot[n]);
	if (err)
		goto release_slot;
	hca->qp_next[n] = (uint32_t)random_u64() % QP_PER_SLOT;
	hca->slot_count++;
	return 0;
release_slot:
	slot_release(&hca->slot[n]);
free_table:
	free(hca->qp_table[n]);
	hca->qp_table[n] = NULL;
	return err;
}

int hca_claim_slot(struct hca *hca)
{
	int err = claim_slot(hca);

	if (!err && hca->group)
		port_group_add_slot(hca->group, &hca->slot[hca->slot_count - 1]);
	if (!err)
		local_add_slot(&hca->local, &hca->slot[hca->slot_count - 1]);
	return err;
}

void hca_bind_port(struct hca *hca)
{
	struct port_group *group;
	int fd4, fd6, err = hca->group ? 0 : udp_bind(hca->udp);

	if (hca->group)
		return;
	if (err) {
		explain("open_device: UDP port 4791 is taken by another user's process or by the "
			"kernel's rdma_rxe: packets from other hosts will be handed on by that user's "
			"Verbatim processes; with rdma_rxe ('rdma link show') they are lost");
		return;
	}
	udp_bound_fds(hca->udp, &fd4, &fd6);
	err = port_group_join(&group, fd4, fd6, hca->slot, hca->slot_count, hca->counters);
	if (err)
		log_error("joining the processes that share port 4791 failed: error %d", err);
	else
		hca->group = group;
	worker_watch_port(hca);
}

/*
 * Before anybody can know a QPN of ours the port's selector knows our slot: otherwise our packets
 * would be spread over the members, and one that is stopped keeps what it gets. Alone: no wait.
 */
static void settle(struct hca *hca)
{
	uint64_t until_ns = clock_now_ns() + SETTLE_NS, now_ns;

	lock_acquire(&hca->drive);
	while (hca->group && !port_group_is_settled(hca->group) &&
	       (now_ns = clock_now_ns()) < until_ns) {
		port_group_tick(hca->group, now_ns);
		atomic_store(&hca->slots_due, true);
		if (!hca_receive(hca, now_ns))
			thread_sleep_ns(SETTLE_STEP_NS);
	}
	hca_stop_driving(hca);
}

/* Packets for others that came to our sockets are handed on before the sockets go. */
static void drain(struct hca *hca)
{
	unsigned n = 0;

	lock_acquire(&hca->drive);
	do
		hca->udp_looked_ns = 0;	/* beside shared memory the sockets may not be due */
	while (n++ < DRAINS_MAX && hca_receive(hca, clock_now_ns()));
	hca_stop_driving(hca);
}

static int open_links(struct hca *hca)
{
	int err = udp_open(&hca->udp, hca->counters);

	if (err)
		return err;
	hca->link = hca->udp;
	trace_set_ip_id(receive_find_ip_id);
	err = fault_wrap(&hca->link);
	hca->lossy = hca->link != hca->udp;
	if (!err)
		err = trace_wrap(&hca->link);
	if (!err)
		err = loopback_open(&hca->loopback_inner, hca->counters);
	if (err)
		return err;
	hca->loopback = hca->loopback_inner;
	return trace_wrap(&hca->loopback);
}

static void close_links(struct hca *hca)
{
	if (hca->group)
		port_group_leave(hca->group);
	if (hca->link)
		hca->link->ops->close(hca->link);
	if (hca->loopback)
		hca->loopback->ops->close(hca->loopback);
}

static int allocate(struct hca *hca)
{
	int err;

	hca->arena_bytes = arena_bytes();
	err = memory_private(hca->arena_bytes, (void **)&hca->arena);
	if (err)
		return err;
	arena_init(hca->arena, (uint32_t)getpid());
	hca->counters = arena_counters(hca->arena);
	err = mr_table_init(&hca->mrs, hca->arena, 0);
	if (err)
		return err;
	hca->mrs.random = random_u64;
	/* One there always is: for when there is no memory. */
	hca->free_batch[0] = tx_batch_new();
	hca->free_batches = hca->free_batch[0] ? 1 : 0;
	hca->slot_buffer = malloc(65536);
	return hca->free_batches && hca->slot_buffer ? 0 : ENOMEM;
}

static void init(struct hca *hca)
{
	lock_init(&hca->drive);
	lock_init(&hca->objects);
	lock_init(&hca->timers_lock);
	lock_init(&hca->sleep_lock);
	lock_init(&hca->batches_lock);
	lock_init(&hca->gsi_lock);
	lock_init(&hca->gsi_calls);
	atomic_init(&hca->gsi_psn, (uint32_t)random_u64() & PSN_MASK);
	atomic_init(&hca->gsi_deadline_ns, TIME_NEVER);
	atomic_init(&hca->hold_deadline_ns, TIME_NEVER);
	list_init(&hca->contexts);
	list_init(&hca->groups);
	path_table_init(&hca->paths);
	run_queue_init(&hca->run_queue);
	atomic_init(&hca->next_timer_ns, TIME_NEVER);
	atomic_init(&hca->notice_ns, TIME_NEVER);
	net_init(&hca->net, &hca->config);
	hca->net.changed = contexts_raise;
	hca->net.owner = hca;
	hca->netdev_fd = hca->owner_watch_fd = -1;
	hca->waiter.epoll_fd = hca->waiter.doorbell_fd = -1;
	hca->waiter.bell_fd = hca->waiter.signal_fd = -1;
}

static void release(struct hca *hca)
{
	unsigned i;

	local_close(&hca->local);
	close_links(hca);
	for (i = 0; i < hca->slot_count; i++) {
		slot_release(&hca->slot[i]);
		free(hca->qp_table[i]);
	}
	if (hca->watch)
		slot_watch_close(hca->watch);
	if (hca->waiter.epoll_fd >= 0)
		waiter_close(&hca->waiter);
	timer_heap_free(&hca->timers);
	mr_table_free(&hca->mrs);
	memory_check_end();
	path_table_fini(&hca->paths);
	while (hca->free_batches)
		free(hca->free_batch[--hca->free_batches]);
	free(hca->slot_buffer);
	free(hca->hold);
	net_fini(&hca->net);
	if (hca->arena)
		memory_release(hca->arena, hca->arena_bytes, -1);
	free(hca);
}

/* ---- what local/ needs of us ---- */

static struct qp *find_qp(void *device, uint32_t qpn) UNCHECKED_LOCKS
{
	return hca_find_qp(device, qpn);
}

static void receive(void *device) UNCHECKED_LOCKS
{
	hca_receive(device, clock_now_ns());
}

static void receive_slots(void *device) UNCHECKED_LOCKS
{
	struct hca *hca = device;

	atomic_store(&hca->slots_due, true);
	hca_receive(hca, clock_now_ns());
}

static void unlock(void *device) UNCHECKED_LOCKS
{
	hca_stop_driving(device);
}

static void notice(void *device, uint64_t deadline_ns)
{
	worker_notice(device, deadline_ns);
}

static void note(void *device, uint64_t deadline_ns)
{
	worker_note(device, deadline_ns);
}

static const struct local_ops local_ops = {
	.find_qp = find_qp, .receive = receive, .receive_slots = receive_slots, .notice = notice, .note = note,
	.is_connected_to = hca_is_connected_to,
	.defer = effects_defer, .unlock = unlock,
};

/* What is lost, doubled or damaged on purpose is lost on the wire. */
static int open_local(struct hca *hca)
{
	struct local *local = &hca->local;
	unsigned i;
	int err;

	local->ops = &local_ops;
	local->device = hca;
	local->progress = &hca->drive;
	local->counters = hca->counters;
	local->mrs = &hca->mrs;
	local->run_queue = &hca->run_queue;
	local->waiter = &hca->waiter;
	local->connect_tag = WAIT_MEMORY;
	local->bells_tag = WAIT_BELLS;
	if (hca->lossy)
		local->mode = LOCAL_OFF;
	err = local_open(local);
	for (i = 0; !err && i < hca->slot_count; i++)
		local_add_slot(local, &hca->slot[i]);
	return err;
}

static int start(struct hca **started)
{
	struct hca *hca = calloc(1, sizeof(*hca));
	int err;

	if (!hca)
		return ENOMEM;
	init(hca);
	err = config_load(&hca->config);
	if (!err)
		err = local_mode_of(hca->config.memory, &hca->local.mode);
	if (!err)
		err = fault_handler_install();
	if (!err)
		err = allocate(hca);
	if (!err)
		err = open_links(hca);
	if (!err)
		err = waiter_open(&hca->waiter);
	if (!err)
		err = slot_watch_open(&hca->watch);
	if (!err)
		err = waiter_add(&hca->waiter, slot_watch_event_fd(hca->watch), WAIT_PEERS);
	if (!err)
		err = claim_slot(hca);
	if (!err)
		err = open_local(hca);
	if (err)
		goto release;
	hca->transport = (struct transport){ .mrs = &hca->mrs, .counters = hca->counters,
					     .run_queue = &hca->run_queue,
					     .probe_min_ns = PROBE_MIN_NS, .paths = &hca->paths,
					     .peer_lost = gsi_peer_lost };
	hca_bind_port(hca);
	settle(hca);
	err = worker_start(hca);
	if (err)
		goto stop;
	log_info("started: slot %u", hca->slot[0].number);
	*started = hca;
	return 0;
stop:
	worker_stop(hca);
release:
	release(hca);
	return err;
}

/* fork(): hold what a child could find half-changed, then let the child drop what it inherited. */
static void before_fork(void) UNCHECKED_LOCKS
{
	call_enter(CALL_CLOSED);
	lock_acquire(&process_lock);
	if (the_hca)
		gsi_before_fork(the_hca);
}

static void after_fork_parent(void) UNCHECKED_LOCKS
{
	if (the_hca)
		gsi_after_fork(the_hca);
	lock_release(&process_lock);
	call_leave(CALL_CLOSED);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void abandon(struct hca *hca)
{
	struct list *node;
	int fds[8];
	unsigned i, count = hca->link->ops->event_fds(hca->link, fds, 8);

	for (i = 0; i < count; i++)
		close(fds[i]);
	udp_abandon(hca->udp);
	gsi_abandon(hca);
	local_abandon(&hca->local);
	if (hca->group)
		port_group_abandon(hca->group);
	for (i = 0; i < hca->slot_count; i++)
		slot_release(&hca->slot[i]);
	close_fd(hca->waiter.epoll_fd);
	close_fd(hca->waiter.doorbell_fd);
	close_fd(hca->waiter.bell_fd);
	close_fd(hca->waiter.signal_fd);
	close_fd(hca->netdev_fd);
	net_abandon(&hca->net);
	close_fd(hca->owner_watch_fd);
	list_for_each(node, &hca->contexts)
		list_entry(node, struct hca_context, node)->abandoned = true;
}

/* Only what is safe between fork() and exec() in a threaded program: closing, storing. */
static void after_fork_child(void) UNCHECKED_LOCKS
{
	if (the_hca)
		abandon(the_hca);
	thread_id_forget();
	memory_check_end();
	the_hca = NULL;
	references = 0;
	lock_init(&process_lock);
	call_leave(CALL_CLOSED);
}

static void install_fork_handlers(void)
{
	slot_install_fork_handlers();
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void send_final_acks(struct hca *hca)
{
	struct list *context_node, *node;

	lock_acquire(&hca->objects);
	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context =
			list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps) {
			struct qp *qp = list_entry(node, struct qp, node);

			if (!qp->is_down)
				qp_send_final_ack(hca, qp);
		}
	}
	lock_release(&hca->objects);
}

void hca_leave(struct hca *hca)
{
	hca_kick(hca);
	send_final_acks(hca);
	drain(hca);
}

/*
 * exit() with contexts open: a message whose completion the application has seen is acknowledged.
 *
 * By the worker, and for so long: exit() may be called in a signal handler, by a thread that was in the
 * middle of a call and holds locks. Then we go as a process goes that is killed.
 */
__attribute__((destructor)) static void at_exit(void)
{
	unsigned tries;

	for (tries = 0; !lock_try(&process_lock); tries++) {
		if (tries == EXIT_TRIES)
			return;
		thread_sleep_ns(EXIT_STEP_NS);
	}
	if (the_hca)
		worker_leave(the_hca, (uint64_t)EXIT_TRIES * EXIT_STEP_NS);
	lock_release(&process_lock);
}

int hca_get(struct hca **hca)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err = 0;

	pthread_once(&once, install_fork_handlers);
	lock_acquire(&process_lock);
	if (!the_hca)
		err = start(&the_hca);
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
		worker_stop(hca);
		drain(hca);
		release(hca);
	}
}
