/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP1 inside of hca/: what the receiver, the worker and fork() have to do with it.
 *
 *	gsi.c		the consumer, sending, claims, watches
 *	gsi_receive.c	a MAD that came: for us, or to be handed on
 *	gsi_backlog.c	requests that nobody serves yet
 *	gsi_refuse.c	nobody's, in a process without a consumer
 *	gsi_worker.c	what the worker does for the consumer
 *	gsi_port.c	addresses, ports, routes
 */
#ifndef VERBATIM_HCA_GSI_INTERNAL_H
#define VERBATIM_HCA_GSI_INTERNAL_H

#include "hca/gsi.h"
#include "hca/internal.h"
#include "host/service.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

struct gsi {
	struct hca *hca;
	const struct gsi_ops *ops;
	void *consumer;
	struct services *services;
	_Atomic bool abandoned;		/* we are a fork()ed child: nothing behind it */
	struct lock host_only_lock;	/* leaf */
	unsigned host_only_count;
	uint8_t (*host_only)[16];	/* GIDs of this host that no packet can carry (route.c) */
};

/* gsi.c: @datagram has addresses, and what else is not the usual. As gsi_send(). */
int gsi_transmit(struct hca *hca, struct datagram *datagram, const uint8_t mad[MAD_BYTES]);
/* gsi_refuse.c: false: it was not answered. */
bool gsi_refuse(struct hca *hca, const struct datagram *datagram, const uint8_t mad[MAD_BYTES]);

/* gsi_receive.c: a packet to QP1, its ICRC checked. */
void gsi_receive(struct hca *hca, const struct datagram *datagram, uint8_t *data, size_t bytes,
		 unsigned segment, const struct packet *packet, uint64_t now_ns)
	REQUIRES(hca->drive);
/* As slot_receive(): a request that another process received. */
int gsi_receive_service(struct hca *hca, struct datagram *datagram, uint8_t *buffer, size_t size)
	REQUIRES(hca->drive);

/* 0; ECONNREFUSED: it is for this process, or for nobody; another errno: it is lost. */
int gsi_forward(struct hca *hca, const struct cm_target *target, const struct datagram *datagram)
	REQUIRES(hca->drive);
/* Does this process serve what a request is for? */
bool gsi_serves(struct hca *hca, const struct cm_target *target, const struct datagram *datagram)
	REQUIRES(hca->drive);
void gsi_deliver(struct hca *hca, const struct datagram *datagram, const uint8_t *mad,
		 uint64_t now_ns) REQUIRES(hca->drive);

/* gsi_backlog.c: true: it is kept until somebody serves it, or it was waited for long enough. */
bool gsi_backlog_add(struct hca *hca, const struct cm_target *target, const struct datagram *datagram,
	      const uint8_t *mad, uint64_t now_ns) REQUIRES(hca->drive);
void gsi_backlog_turn(struct hca *hca, uint64_t now_ns);

/* gsi_worker.c */
static inline uint64_t gsi_deadline(struct hca *hca)
{
	uint64_t deadline_ns = atomic_load(&hca->gsi_deadline_ns);
	uint64_t hold_ns = atomic_load(&hca->hold_deadline_ns);

	return deadline_ns < hold_ns ? deadline_ns : hold_ns;
}

static inline bool gsi_has_work(struct hca *hca)
{
	return atomic_load(&hca->peers_lost) ||
	       (hca->group && atomic_load(&hca->services_changed));
}

/* @ready: what the worker was woken by. */
void gsi_housekeeping(struct hca *hca, uint32_t ready, uint64_t now_ns);
/* The transport's hook: notes it, and sees that the worker looks. */
void gsi_peer_lost(struct qp *qp);
/* After a change of interfaces. */
void gsi_find_host_only(struct gsi *gsi);

/* gsi.c: around fork(); in the child every descriptor is closed. */
void gsi_before_fork(struct hca *hca);
void gsi_after_fork(struct hca *hca);
void gsi_abandon(struct hca *hca);

#endif
