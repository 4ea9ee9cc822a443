/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work of the worker for the consumers of MADs: their deadlines, MADs returned by ICMP, peers that
 * ended, QPs that exceeded their retries; and the list of services for the port group.
 *
 * Ticks and returned MADs are reported under qp1->engine->progress, as received MADs are; the rest without.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mad/internal.h"
#include "base/call.h"
#include "base/log.h"
#include "engine/receive.h"
#include "engine/wake.h"
#include "host/group_program.h"
#include "host/slot_watch.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "wire/psn.h"
#include "tracepoint/drop.h"

#define ERRORS_MAX	256u	/* per turn: the socket's error queue is no longer than that */
#define GONE_MAX	64u
#define LOST_MAX	64u

/* ---- the deadline ---- */

/* A deadline set concurrently survives: only the expired one is cleared. */
static void chores_tick(struct qp1 *qp1, uint64_t now_ns)
{
	uint64_t deadline_ns = atomic_load(&qp1->deadline_ns);

	if (deadline_ns > now_ns ||
	    !atomic_compare_exchange_strong(&qp1->deadline_ns, &deadline_ns, TIME_NEVER))
		return;
	lock_acquire(&qp1->engine->progress);
	mad_tick(qp1, now_ns);
	lock_release(&qp1->engine->progress);
}

/* ---- MADs that came back ---- */

static void return_mad(struct qp1 *qp1, const struct udp_error *error, uint64_t now_ns)
	REQUIRES(qp1->engine->progress)
{
	struct mad_address to = { .interface = error->interface };
	const int err = error->error;
	struct packet packet;

	if (err != ECONNREFUSED && err != EHOSTUNREACH && err != ENETUNREACH && err != ENOPROTOOPT &&
	    err != EACCES && err != EHOSTDOWN)
		return;			/* "fragmentation needed" and the like: it is repeated */
	if (packet_parse(error->data, error->bytes, &packet) != PARSE_OK ||
	    packet.dest_qpn != QPN_GSI || packet.payload_bytes != MAD_BYTES) {
		drop_count(qp1->engine->counters, DROP_MAD_ERROR_CUT, 1);
		return;
	}
	counter_add(qp1->engine->counters, COUNTER_RX_MAD_ERROR, 1);
	memcpy(to.local, error->source, 16);
	memcpy(to.remote, error->destination, 16);
	mad_unreachable(qp1, &to, packet.payload, now_ns);
}

/* ---- peers that were lost ---- */

struct lost_qp {
	uint32_t number, peer;
	bool peer_is_here;		/* its address is one of this host */
};

/* QPs whose peer_lost is set, from *at on; returns how many, at most LOST_MAX. */
static unsigned collect_lost(struct qp1 *qp1, uint32_t *at, struct lost_qp lost[LOST_MAX])
{
	unsigned count = 0;

	lock_acquire(&qp1->engine->progress);
	for (; *at < qp1->engine->qps.slot_count * QP_PER_SLOT && count < LOST_MAX; ++*at) {
		struct qp *qp = qp1->engine->qps.table[*at / QP_PER_SLOT][*at % QP_PER_SLOT];

		if (!qp || !atomic_exchange(&qp->peer_lost, false))
			continue;
		lock_acquire(&qp->lock);
		lost[count++] = (struct lost_qp){ qp->number, qp->attr.dest_qp_num, qp->route.loopback };
		lock_release(&qp->lock);
	}
	lock_release(&qp1->engine->progress);
	return count;
}

/* A process of this host that has ended is told from one that does not answer. */
static void explain_lost(struct qp1 *qp1, const struct lost_qp *lost)
{
	uint32_t slot = qpn_slot(lost->peer);
	int err;

	if (!explaining() || !lost->peer_is_here)
		return;
	err = slot_watch_add(qp1->engine->watch, slot);
	if (!err)
		slot_watch_remove(qp1->engine->watch, slot);
	if (err == ESRCH)
		explain_of(OF(QP, lost->number),
			"qp 0x%06x: the process of this host that had its peer, qp 0x%06x, has "
				"ended: it was killed, has crashed, or exited", lost->number, lost->peer);
}

static void report_lost_peers(struct qp1 *qp1, uint64_t now_ns)
{
	struct lost_qp lost[LOST_MAX];
	uint32_t at = 0;
	unsigned i, count;

	if (!atomic_exchange(&qp1->peers_lost, false))
		return;
	do {
		count = collect_lost(qp1, &at, lost);
		for (i = 0; i < count; i++) {
			mad_qp_failed(qp1, lost[i].number, now_ns);
			explain_lost(qp1, &lost[i]);
		}
	} while (count == LOST_MAX);
}

void qp1_peer_lost(struct qp1 *qp1, struct qp *qp)
{
	atomic_store(&qp->peer_lost, true);
	atomic_store(&qp1->peers_lost, true);
	worker_wake_after_unlock(qp1->engine, 0);
}

/* ---- the port group ---- */

static void publish_services(struct qp1 *qp1, uint64_t now_ns)
{
	uint64_t ids[GROUP_SERVICES];
	unsigned count = 0;

	if (!qp1->engine->group || !atomic_exchange(&qp1->services_changed, false))
		return;
	lock_acquire(&qp1->engine->progress);
	if (qp1->gsi)
		count = services_list(qp1->gsi->services, ids, GROUP_SERVICES);
	port_group_set_services(qp1->engine->group, ids, count, now_ns);
	lock_release(&qp1->engine->progress);
}

/* ---- GIDs that no packet can carry ---- */

void qp1_interfaces_changed(struct qp1 *qp1)
{
	lock_acquire(&qp1->opening);	/* it stays */
	if (qp1->gsi)
		gsi_find_host_only(qp1->gsi);
	lock_release(&qp1->opening);
}

/* ---- sources ---- */

static void services_woken(struct source *source)
{
	source_set_due(&((struct qp1 *)source->owner)->engine->source.all, source);
}

/* Requests for a service of this process that other processes received. */
static void services_received(struct source *source, struct receiver *receiver)
{
	struct qp1 *qp1 = source->owner;
	struct engine *engine = qp1->engine;
	struct datagram datagram;
	unsigned n;
	int err = 0;

	call_shield();
	lock_assert_held(&qp1->engine->progress);
	for (n = 0; err != EAGAIN && n < RECEIVE_BATCH * RECEIVE_ROUNDS; n++) {
		err = qp1_receive_service(qp1, &datagram, engine->rx.slot_buffer, RECEIVE_BUFFER);
		if (err == EPERM || err == EBADMSG)
			drop_count(engine->counters, DROP_FORGED, 1);
		if (!err)
			rx_datagram(receiver, &datagram);
	}
	rx_unlock_qp(receiver);
}

static void services_abandoned(struct source *source)
{
	qp1_abandon(source->owner);
}

static void errors_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct qp1 *qp1 = source->owner;
	struct udp_error error;
	unsigned n;

	lock_acquire(&qp1->engine->progress);
	for (n = 0; qp1->gsi && n < ERRORS_MAX && !udp_take_error(qp1->engine->udp, &error); n++)
		return_mad(qp1, &error, now_ns);
	lock_release(&qp1->engine->progress);
}

static void peer_exit_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct qp1 *qp1 = source->owner;
	uint32_t gone[GONE_MAX];
	unsigned i, count;

	do {
		count = slot_watch_turn(qp1->engine->watch, gone, GONE_MAX);
		if (count)
			engine_catch_up(qp1->engine, true);	/* what they had sent comes before their end */
		for (i = 0; i < count; i++)
			mad_peer_gone(qp1, gone[i], now_ns);
	} while (count == GONE_MAX);
}

static void chores_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct qp1 *qp1 = source->owner;

	report_lost_peers(qp1, now_ns);
	publish_services(qp1, now_ns);
	backlog_turn(qp1, now_ns);
	chores_tick(qp1, now_ns);
}

static bool chores_are_due(struct source *source)
{
	struct qp1 *qp1 = source->owner;

	return atomic_load(&qp1->peers_lost) ||
	       (qp1->engine->group && atomic_load(&qp1->services_changed));
}

static uint64_t chores_asked(struct source *source)
{
	struct qp1 *qp1 = source->owner;
	uint64_t deadline_ns = atomic_load(&qp1->deadline_ns), backlog_ns = atomic_load(&qp1->backlog_ns);

	return deadline_ns < backlog_ns ? deadline_ns : backlog_ns;
}

static const struct source_ops source_of_services = {
	.name = "services", .woken = services_woken, .receive = services_received, .abandon = services_abandoned,
};
static const struct source_ops source_of_errors = {
	.name = "errors of sockets", .turn = errors_turn,
};
static const struct source_ops source_of_peer_exit = {
	.name = "exits of peers", .turn = peer_exit_turn,
};
static const struct source_ops source_of_chores = {
	.name = "QP1", .turn = chores_turn, .is_due = chores_are_due, .asked_ns = chores_asked,
};

void qp1_init(struct qp1 *qp1, struct engine *engine, struct net *net)
{
	qp1->engine = engine;
	qp1->net = net;
	lock_init(&qp1->lock);
	lock_init(&qp1->opening);
	lock_init(&qp1->calls);
	lock_init(&qp1->deadlines);
	list_init(&qp1->consumers);
	atomic_init(&qp1->psn, (uint32_t)random_u64() & PSN_MASK);
	atomic_init(&qp1->deadline_ns, TIME_NEVER);
	atomic_init(&qp1->backlog_ns, TIME_NEVER);
	source_register(&engine->source.all, &qp1->services, &source_of_services, qp1);
	source_register(&engine->source.all, &qp1->errors, &source_of_errors, qp1);
	source_register(&engine->source.all, &qp1->peer_exit, &source_of_peer_exit, qp1);
	source_register(&engine->source.all, &qp1->chores, &source_of_chores, qp1);
}

int qp1_open(struct qp1 *qp1)
{
	return source_watch(&qp1->engine->source.all, &qp1->peer_exit,
			    slot_watch_event_fd(qp1->engine->watch));
}

void qp1_fini(struct qp1 *qp1)
{
	free(qp1->backlog);
}
