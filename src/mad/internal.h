/* SPDX-License-Identifier: BSD-2-Clause */
/* Internal interface of mad/; its files are listed in qp1.h. */
#ifndef VERBATIM_MAD_INTERNAL_H
#define VERBATIM_MAD_INTERNAL_H

#include "host/service.h"
#include "mad/mad.h"
#include "mad/qp1.h"
#include "wire/cm_message.h"

#define ECN_BITS 0x03u		/* of a traffic class */

struct gsi {
	struct qp1 *qp1;
	struct services *services;
	_Atomic bool abandoned;		/* we are a fork()ed child: nothing behind it */
	struct lock host_only_lock;	/* leaf */
	unsigned host_only_count;
	uint8_t (*host_only)[16];	/* GIDs of this host that no packet can carry (net/route.c) */
};

/* dispatch.c: as slot_receive(): a request received by another process. */
int qp1_receive_service(struct qp1 *qp1, struct datagram *datagram, uint8_t *buffer, size_t size)
	REQUIRES(qp1->engine->progress);
/* gsi.c: in a fork()ed child: every descriptor is closed. */
void qp1_abandon(struct qp1 *qp1);
/* gsi.c: @datagram has addresses and non-default fields. Returns as gsi_send(). */
int qp1_transmit(struct qp1 *qp1, struct datagram *datagram, const uint8_t mad[MAD_BYTES]);
/* refuse.c: false: it was not answered. */
bool qp1_refuse(struct qp1 *qp1, const struct datagram *datagram, const uint8_t mad[MAD_BYTES]);

/* deliver.c: where a MAD comes from. */
void qp1_address(const struct datagram *datagram, struct mad_address *from);
/* 0; ECONNREFUSED: no other process owns it; another errno: it is lost. */
int qp1_forward(struct qp1 *qp1, const struct cm_target *target, const struct datagram *datagram)
	REQUIRES(qp1->engine->progress);
/* What was forwarded with @err. Returns why it was dropped. */
enum drop qp1_count_forwarded(struct qp1 *qp1, int err);
/* Does this process serve what a request is for? */
bool qp1_serves(struct qp1 *qp1, const struct cm_target *target, const struct datagram *datagram)
	REQUIRES(qp1->engine->progress);
enum drop qp1_deliver(struct qp1 *qp1, const struct datagram *datagram, const uint8_t *mad,
		      uint64_t now_ns) REQUIRES(qp1->engine->progress);

/* backlog.c: true: it is held until it has a server, for BACKLOG_NS at most. */
bool backlog_add(struct qp1 *qp1, const struct cm_target *target, const struct datagram *datagram,
		 const uint8_t *mad, uint64_t now_ns) REQUIRES(qp1->engine->progress);
void backlog_turn(struct qp1 *qp1, uint64_t now_ns);

/* gsi.c: with qp1->opening. gsi_open(): 0 or errno. */
int gsi_open(struct qp1 *qp1);
void gsi_close(struct qp1 *qp1);

/* mad.c: to the consumer that takes it. DROP_NO_QP: QP0 has none, which is not counted here. */
enum drop mad_received(struct qp1 *qp1, uint32_t qpn, const struct mad_address *from,
		       const uint8_t mad[MAD_BYTES], uint64_t now_ns) REQUIRES(qp1->engine->progress);
void mad_unreachable(struct qp1 *qp1, const struct mad_address *to, const uint8_t mad[MAD_BYTES], uint64_t now_ns)
	REQUIRES(qp1->engine->progress);
void mad_tick(struct qp1 *qp1, uint64_t now_ns) REQUIRES(qp1->engine->progress);
/* To all consumers, by the worker. */
void mad_qp_failed(struct qp1 *qp1, uint32_t qpn, uint64_t now_ns);
void mad_peer_gone(struct qp1 *qp1, uint32_t slot, uint64_t now_ns);

/* gsi.c: after a change of interfaces. */
void gsi_find_host_only(struct gsi *gsi);

#endif
