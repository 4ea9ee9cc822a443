/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What QP1 does for its consumers (gsi.h): sending, claims on services and watches.
 *
 * A MAD is sent by the way of all packets (engine/out.h), so that faults and traces apply. This includes
 * MADs to this process: only the port's selector knows the receiver.
 */
#include "mad/gsi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "mad/internal.h"
#include "engine/out.h"
#include "engine/wake.h"
#include "host/slot_watch.h"
#include "link/udp.h"
#include "platform/clock.h"

/* ---- opening and closing ---- */

static void unwatch_fds(struct qp1 *qp1, const struct gsi *gsi)
{
	int fd[2];
	unsigned i;

	udp_error_fds(qp1->engine->udp, &fd[0], &fd[1]);
	for (i = 0; i < 2; i++)
		if (fd[i] >= 0)
			source_unwatch(&qp1->engine->source.all, fd[i]);
	source_unwatch(&qp1->engine->source.all, services_event_fd(gsi->services));
}

static int watch_fds(struct qp1 *qp1, const struct gsi *gsi)
{
	struct sources *all = &qp1->engine->source.all;
	int fd[2], err = source_watch(all, &qp1->services, services_event_fd(gsi->services));
	unsigned i;

	udp_error_fds(qp1->engine->udp, &fd[0], &fd[1]);
	for (i = 0; !err && i < 2; i++)
		if (fd[i] >= 0)
			err = source_watch(all, &qp1->errors, fd[i]);
	if (err)
		unwatch_fds(qp1, gsi);
	return err;
}

static void change_gsi(struct qp1 *qp1, struct gsi *to)
{
	lock_acquire(&qp1->engine->progress);
	lock_acquire(&qp1->lock);
	qp1->gsi = to;
	lock_release(&qp1->lock);
	lock_release(&qp1->engine->progress);
}

static void free_gsi(struct gsi *gsi)
{
	if (gsi->services)
		services_close(gsi->services);
	free(gsi->host_only);
	free(gsi);
}

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

int gsi_open(struct qp1 *qp1)
{
	struct gsi *gsi = calloc(1, sizeof(*gsi));
	int err;

	if (!gsi)
		return ENOMEM;
	gsi->qp1 = qp1;
	lock_init(&gsi->host_only_lock);
	err = services_open(&gsi->services);
	if (err)
		goto free;
	change_gsi(qp1, gsi);
	gsi_find_host_only(gsi);
	err = udp_errors_open(qp1->engine->udp);
	if (!err)
		err = watch_fds(qp1, gsi);
	if (!err)
		return 0;
	udp_errors_close(qp1->engine->udp);
	change_gsi(qp1, NULL);
free:
	free_gsi(gsi);
	return err;
}

void gsi_close(struct qp1 *qp1)
{
	struct gsi *gsi = qp1->gsi;

	change_gsi(qp1, NULL);
	unwatch_fds(qp1, gsi);
	udp_errors_close(qp1->engine->udp);
	free_gsi(gsi);
}

/* ---- sending ---- */

/* A GID 0 that no interface has as an address reaches this host alone, over lo (net/route.c). */
static bool is_host_only(struct gsi *gsi, const uint8_t address[16])
{
	bool found = false;
	unsigned i;

	if (address[0] != 0xfe)
		return false;
	lock_acquire(&gsi->host_only_lock);
	for (i = 0; i < gsi->host_only_count; i++)
		found |= !memcmp(gsi->host_only[i], address, 16);
	lock_release(&gsi->host_only_lock);
	return found;
}

int qp1_transmit(struct qp1 *qp1, struct datagram *datagram, const uint8_t mad[MAD_BYTES])
{
	const struct out_mad out = {
		.bytes = mad, .psn = atomic_fetch_add(&qp1->psn, 1),
		.pkey = net_pkey(qp1->net, datagram->ib.port, datagram->pkey_index),
	};

	if (!(out.pkey & ~PKEY_FULL))
		return EINVAL;
	return out_send_mad(qp1->engine, datagram, &out);
}

int gsi_send(struct gsi *gsi, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	static const uint8_t loopback[16] = IP_ADDR_LOOPBACK_IPV4;
	struct datagram datagram = { .link = to->link, .interface = to->interface,
				     .flow_label = to->flow_label,
				     .traffic_class = to->traffic_class,
				     .hop_limit = to->hop_limit, .errors_wanted = !to->link,
				     .ib = to->ib, .pkey_index = to->pkey_index,
				     .to_slot = to->slot };
	bool inside = !to->link && (is_host_only(gsi, to->remote) || is_host_only(gsi, to->local));

	if (atomic_load(&gsi->abandoned) || (to->link && !gsi->qp1->engine->links[to->link]))
		return ENODEV;
	memcpy(datagram.source, inside ? loopback : to->local, 16);
	memcpy(datagram.destination, inside ? loopback : to->remote, 16);
	return qp1_transmit(gsi->qp1, &datagram, mad);
}

void gsi_count(struct gsi *gsi, int counter)
{
	if (!atomic_load(&gsi->abandoned))
		counter_add(gsi->qp1->engine->counters, (enum counter)counter, 1);
}

enum drop gsi_drop(struct gsi *gsi, enum drop why)
{
	gsi_count(gsi, (int)drop_row(why)->counter);
	return why;
}

uint32_t gsi_slot(const struct gsi *gsi)
{
	return gsi->qp1->engine->qps.slot[0].number;
}

struct net *gsi_net(struct gsi *gsi)
{
	return gsi->qp1->net;
}

/* ---- claims and watches ---- */

static void services_have_changed(struct qp1 *qp1)
{
	atomic_store(&qp1->services_changed, true);
	worker_wake_at(qp1->engine, 0);
}

/* On the host, for devices of interfaces, and at the node of a fabric; one of both may be NULL. */
struct gsi_claim {
	struct service_claim *host;
	struct net_service ib;
	bool has_ib;
};

int gsi_claim(struct gsi *gsi, uint64_t service_id, const uint8_t address[16], int family,
	      struct gsi_claim **claimed)
{
	struct gsi_claim *claim;
	bool on_host;
	int err;

	if (atomic_load(&gsi->abandoned))
		return ENODEV;
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return ENOMEM;
	claim->ib = (struct net_service){ .what = NET_CLAIM, .id = service_id, .family = family };
	memcpy(claim->ib.address, address, sizeof(claim->ib.address));
	err = net_serve_ib(gsi->qp1->net, &claim->ib);
	claim->has_ib = !err;
	/* An address is of one kind of device; all addresses are of those that there are. */
	on_host = err == ENOENT || err == EADDRNOTAVAIL ||
		  (!err && ip_addr_is_zero(address) && net_has_interfaces());
	if (on_host)
		err = service_claim(gsi->services, service_id, address, family, &claim->host);
	if (!err) {
		*claimed = claim;
		return 0;
	}
	if (claim->has_ib) {
		claim->ib.what = NET_RELEASE;
		net_serve_ib(gsi->qp1->net, &claim->ib);
	}
	free(claim);
	return err;
}

int gsi_serve(struct gsi *gsi, struct gsi_claim *claim)
{
	int err = 0;

	if (atomic_load(&gsi->abandoned))
		return ENODEV;
	claim->ib.what = NET_SERVE;
	if (claim->has_ib)
		err = net_serve_ib(gsi->qp1->net, &claim->ib);
	if (err || !claim->host)
		return err;
	err = service_serve(gsi->services, claim->host);
	if (!err)
		services_have_changed(gsi->qp1);
	return err;
}

void gsi_release(struct gsi *gsi, struct gsi_claim *claim)
{
	if (!atomic_load(&gsi->abandoned)) {
		claim->ib.what = NET_RELEASE;
		if (claim->has_ib)
			net_serve_ib(gsi->qp1->net, &claim->ib);
		if (claim->host) {
			service_release(gsi->services, claim->host);
			services_have_changed(gsi->qp1);
		}
	}
	free(claim);
}

int gsi_watch_slot(struct gsi *gsi, uint32_t slot)
{
	return atomic_load(&gsi->abandoned) ? ENODEV : slot_watch_add(gsi->qp1->engine->watch, slot);
}

void gsi_unwatch_slot(struct gsi *gsi, uint32_t slot)
{
	if (!atomic_load(&gsi->abandoned))
		slot_watch_remove(gsi->qp1->engine->watch, slot);
}

/* ---- fork() ---- */

/* Held until qp1_after_fork(): over fork(), where one function cannot hold them. */
void qp1_before_fork(struct qp1 *qp1) UNCHECKED_LOCKS
{
	lock_acquire(&qp1->lock);
	if (qp1->gsi)
		services_before_fork(qp1->gsi->services);
	slot_watch_before_fork(qp1->engine->watch);
}

/* Releases what qp1_before_fork() has taken. */
void qp1_after_fork(struct qp1 *qp1) UNCHECKED_LOCKS
{
	slot_watch_after_fork(qp1->engine->watch);
	if (qp1->gsi)
		services_after_fork(qp1->gsi->services);
	lock_release(&qp1->lock);
}

void qp1_abandon(struct qp1 *qp1)
{
	if (!qp1->gsi)
		return;
	atomic_store(&qp1->gsi->abandoned, true);
	services_abandon(qp1->gsi->services);
}
