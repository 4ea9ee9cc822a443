/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the worker does for the consumer of QP1: its deadline, what ICMP says of its MADs, peers that
 * are gone, QPs that gave up their peer; and telling the port group what is served.
 *
 * Ticks and MADs that came back are said under hca->drive, as MADs that come are. The rest is said
 * without locks of the HCA; gsi_calls lets gsi_close() wait for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/gsi_internal.h"
#include "host/group_program.h"
#include "host/slot_watch.h"
#include "link/udp.h"
#include "platform/clock.h"

#define ERRORS_MAX	256u	/* per turn: the socket's error queue is no longer than that */
#define GONE_MAX	64u
#define LOST_MAX	64u

/* ---- the deadline ---- */

/* Who sets another deadline meanwhile finds it kept: it is cleared only if it is the one passed. */
static void tick(struct hca *hca, uint64_t now_ns)
{
	uint64_t deadline_ns = atomic_load(&hca->gsi_deadline_ns);

	if (deadline_ns > now_ns ||
	    !atomic_compare_exchange_strong(&hca->gsi_deadline_ns, &deadline_ns, TIME_NEVER))
		return;
	lock_acquire(&hca->drive);
	if (hca->gsi)
		hca->gsi->ops->tick(hca->gsi->consumer, now_ns);
	lock_release(&hca->drive);
}

/* ---- MADs that came back ---- */

static bool is_final(int error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
	       error == ENOPROTOOPT || error == EACCES || error == EHOSTDOWN;
}

static void return_mad(struct hca *hca, const struct udp_error *error, uint64_t now_ns)
	REQUIRES(hca->drive)
{
	struct mad_address to = { .interface = error->interface };
	struct packet packet;

	if (!is_final(error->error))
		return;			/* "fragmentation needed" and the like: it is repeated */
	if (packet_parse(error->data, error->bytes, &packet) != PARSE_OK ||
	    packet.dest_qpn != QPN_GSI || packet.payload_bytes != MAD_BYTES) {
		counter_add(hca->counters, COUNTER_RX_MAD_ERROR_CUT, 1);
		return;
	}
	counter_add(hca->counters, COUNTER_RX_MAD_ERROR, 1);
	memcpy(to.local, error->source, 16);
	memcpy(to.remote, error->destination, 16);
	hca->gsi->ops->unreachable(hca->gsi->consumer, &to, packet.payload, now_ns);
}

static void take_errors(struct hca *hca, uint64_t now_ns)
{
	struct udp_error error;
	unsigned n;

	lock_acquire(&hca->drive);
	for (n = 0; hca->gsi && n < ERRORS_MAX && !udp_take_error(hca->udp, &error); n++)
		return_mad(hca, &error, now_ns);
	lock_release(&hca->drive);
}

/* ---- calls without locks of the HCA ---- */

static struct gsi *begin_calls(struct hca *hca) UNCHECKED_LOCKS
{
	struct gsi *gsi;

	lock_acquire(&hca->gsi_calls);
	lock_acquire(&hca->gsi_lock);
	gsi = hca->gsi;
	lock_release(&hca->gsi_lock);
	return gsi;
}

static void end_calls(struct hca *hca) UNCHECKED_LOCKS
{
	lock_release(&hca->gsi_calls);
}

static void tell_of_peers(struct hca *hca, uint64_t now_ns)
{
	uint32_t gone[GONE_MAX];
	struct gsi *gsi;
	unsigned i, count;

	do {
		count = slot_watch_turn(hca->watch, gone, GONE_MAX);
		gsi = begin_calls(hca);
		for (i = 0; gsi && i < count; i++)
			gsi->ops->peer_gone(gsi->consumer, gone[i], now_ns);
		end_calls(hca);
	} while (count == GONE_MAX);
}

/* QPs whose peer_lost is set, from *at on; returns how many, at most LOST_MAX. */
static unsigned collect_lost(struct hca *hca, uint32_t *at, uint32_t lost[LOST_MAX])
{
	unsigned count = 0;

	lock_acquire(&hca->drive);
	for (; *at < hca->slot_count * QP_PER_SLOT && count < LOST_MAX; ++*at) {
		struct qp *qp = hca->qp_table[*at / QP_PER_SLOT][*at % QP_PER_SLOT];

		if (qp && atomic_exchange(&qp->peer_lost, false))
			lost[count++] = qp->number;
	}
	lock_release(&hca->drive);
	return count;
}

static void tell_of_lost(struct hca *hca, uint64_t now_ns)
{
	uint32_t lost[LOST_MAX], at = 0;
	struct gsi *gsi;
	unsigned i, count;

	if (!atomic_exchange(&hca->peers_lost, false))
		return;
	do {
		count = collect_lost(hca, &at, lost);
		gsi = begin_calls(hca);
		for (i = 0; gsi && i < count; i++)
			gsi->ops->qp_failed(gsi->consumer, lost[i], now_ns);
		end_calls(hca);
	} while (count == LOST_MAX);
}

void gsi_peer_lost(struct qp *qp)
{
	struct hca *hca = qp_hca(qp);

	atomic_store(&qp->peer_lost, true);
	atomic_store(&hca->peers_lost, true);
	worker_notice(hca, 0);
}

/* ---- the port group ---- */

static void tell_group(struct hca *hca, uint64_t now_ns)
{
	uint64_t ids[GROUP_SERVICES];
	unsigned count = 0;

	if (!hca->group || !atomic_exchange(&hca->services_changed, false))
		return;
	lock_acquire(&hca->drive);
	if (hca->gsi)
		count = services_list(hca->gsi->services, ids, GROUP_SERVICES);
	port_group_set_services(hca->group, ids, count, now_ns);
	lock_release(&hca->drive);
}

/* ---- GIDs that no packet can carry ---- */

void gsi_find_host_only(struct gsi *gsi)
{
	uint8_t (*gids)[16];
	unsigned found = net_host_only_gids(&gids);

	lock_acquire(&gsi->host_only_lock);
	free(gsi->host_only);
	gsi->host_only = gids;
	gsi->host_only_count = found;
	lock_release(&gsi->host_only_lock);
}

static void refresh_host_only(struct hca *hca)
{
	struct gsi *gsi = begin_calls(hca);

	if (gsi)
		gsi_find_host_only(gsi);
	end_calls(hca);
}

void gsi_housekeeping(struct hca *hca, uint32_t ready, uint64_t now_ns)
{
	if (ready & WAIT_SERVICES)
		atomic_store(&hca->services_due, true);
	if (ready & WAIT_ERRORS)
		take_errors(hca, now_ns);
	if (ready & WAIT_PEERS)
		tell_of_peers(hca, now_ns);
	if (ready & WAIT_NETDEV)
		refresh_host_only(hca);
	tell_of_lost(hca, now_ns);
	tell_group(hca, now_ns);
	gsi_backlog_turn(hca, now_ns);
	tick(hca, now_ns);
}
