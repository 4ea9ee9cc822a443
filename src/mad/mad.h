/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumers of management datagrams (IBTA chapter 13): rows of the one table of a process, by port,
 * QP, class, method and transaction (wire/mad_table.h). A MAD that no row takes, and a datagram that
 * is no MAD, is counted and dropped. A new kind of consumer is a row, and a file. The caller of
 * mad_open() holds a reference to the HCA of @qp1.
 *
 * After fork() the child's copy is dead: calls return ENODEV or do nothing.
 */
#ifndef VERBATIM_MAD_MAD_H
#define VERBATIM_MAD_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "mad/gsi.h"
#include "tracepoint/drop.h"
#include "wire/mad.h"
#include "wire/mad_table.h"

struct mad_agent;
struct net_change;
struct qp1;

/* A process at a node of a fabric that had these LIDs, from the first on 1 << lmc. */
struct mad_remote {
	uint32_t slot;
	uint16_t lid;
	uint8_t lmc;
};

/*
 * received() is called by the thread that makes progress, unreachable(), tick() and may_leave() by the worker,
 * all with engine->progress held; the others by the worker without it. All are short, do not block, and call
 * nothing but mad_send(), mad_set_deadline() and gsi_count(). All but received and tick may be NULL.
 */
struct mad_ops {
	/* The header is parsed. Returns why it was dropped, which is counted. */
	enum drop (*received)(void *owner, const struct mad_address *from,
			      const struct mad_header *header, const uint8_t mad[MAD_BYTES],
			      uint64_t now_ns);
	/* A MAD sent to @to cannot arrive: port 4791 is closed there (ICMP), or no route. */
	void (*unreachable)(void *owner, const struct mad_address *to,
			    const struct mad_header *header, const uint8_t mad[MAD_BYTES],
			    uint64_t now_ns);
	void (*tick)(void *owner, uint64_t now_ns);	/* the deadline has passed */
	/* A connected QP of this process gave up its peer: retries exceeded. */
	void (*qp_failed)(void *owner, uint32_t qpn, uint64_t now_ns);
	/* The process of this host that had @slot has ended (only for gsi_watch_slot()). */
	void (*peer_gone)(void *owner, uint32_t slot, uint64_t now_ns);
	/* A process of a fabric that had the slot has ended. */
	void (*remote_gone)(void *owner, const struct mad_remote *remote, uint64_t now_ns);
	/* An interface with an open device is gone, or has another MAC address. */
	void (*interface_changed)(void *owner, const struct net_change *change, uint64_t now_ns);
	/* The process is about to end. False: something has to be said first, ask again. */
	bool (*may_leave)(void *owner, uint64_t now_ns);
};

/* 0; EBUSY: another consumer takes some of what @key takes; errno. */
int mad_open(struct qp1 *qp1, const struct mad_key *key, const struct mad_ops *ops, void *owner,
	     struct mad_agent **agent);
/* After it no call is under way, and none follows. */
void mad_close(struct mad_agent *agent);
/* From QP1: as gsi_send(). */
int mad_send(struct mad_agent *agent, const struct mad_address *to,
	     const uint8_t mad[MAD_BYTES]);
/* tick() is called at @deadline_ns or soon after; TIME_NEVER: no call. Any thread. */
void mad_set_deadline(struct mad_agent *agent, uint64_t deadline_ns);
/* What QP1 does besides (mad/gsi.h). */
struct gsi *mad_gsi(struct mad_agent *agent);

#endif
