/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP0 and QP1 of this process: management datagrams are delivered to the process that owns them, and there to
 * the consumer that takes them (mad.h).
 *
 *	mad.c		the consumers: the table, its calls and deadlines
 *	gsi.c		sending, claims, watches
 *	dispatch.c	checks a received MAD and finds its owner
 *	deliver.c	to the consumer, or forwarded to another process
 *	backlog.c	requests without a server yet
 *	refuse.c	answers in a process without a consumer
 *	chores.c	beginning and end; sources: work of the worker for the consumers
 */
#ifndef VERBATIM_MAD_QP1_H
#define VERBATIM_MAD_QP1_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/datagram.h"
#include "base/list.h"
#include "base/lock.h"
#include "engine/engine.h"
#include "net/net.h"
#include "wire/packet.h"

struct gsi;
struct backlog;

struct qp1 {
	struct engine *engine;
	struct net *net;
	struct lock opening;		/* opening and closing consumers */
	struct lock calls;		/* held while consumers are called */
	struct lock deadlines;		/* of the consumers; leaf */
	struct list consumers;		/* struct mad_row: under calls or deadlines, changed under both */
	struct lock lock;		/* changing gsi; leaf */
	struct gsi *gsi;		/* under progress or lock, changed under both; or NULL */
	struct backlog *backlog;	/* requests that wait for a server, under progress; or NULL */
	_Atomic uint32_t psn;
	_Atomic uint64_t deadline_ns;	/* the earliest of the consumers */
	_Atomic uint64_t backlog_ns;	/* the backlog's */
	_Atomic bool services_changed;	/* the port group needs the new list */
	_Atomic bool peers_lost;	/* some QP's peer_lost is set */
	struct source services, errors, peer_exit, chores;
};

/* Registers its sources; qp1_open() is due when the engine is open. */
void qp1_init(struct qp1 *qp1, struct engine *engine, struct net *net);
int qp1_open(struct qp1 *qp1);
void qp1_fini(struct qp1 *qp1);

/* For struct engine_ops; a packet to QP0 or QP1 that can be taken. */
enum drop qp1_receive(struct qp1 *qp1, const struct arrival *arrival, uint64_t now_ns)
	REQUIRES(qp1->engine->progress);
/* As hand_over() of struct engine_ops: one of ours to an address of this host whose port another program has. */
int qp1_hand_over(struct qp1 *qp1, const uint8_t *mad, const struct datagram *datagram);
/*
 * Tells the consumers what has become of an interface: of each change, then once of all. Without
 * locks of the HCA.
 */
void qp1_interface_changed(struct qp1 *qp1, const struct net_change *change, uint64_t now_ns);
void qp1_interfaces_changed(struct qp1 *qp1);
/* A process of another node of the fabric has ended. */
struct mad_remote;
void qp1_remote_gone(struct qp1 *qp1, const struct mad_remote *remote, uint64_t now_ns);
/* By the worker, when the process is about to end: all is said. */
bool qp1_may_leave(struct qp1 *qp1, uint64_t now_ns);
void qp1_peer_lost(struct qp1 *qp1, struct qp *qp) REQUIRES(qp->lock);

/* Around fork(). */
void qp1_before_fork(struct qp1 *qp1);
void qp1_after_fork(struct qp1 *qp1);

#endif
