/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A round of receiving. Ways by which packets come into this process are sources (platform/source.h) with a
 * receive(); rx_poll() has each take what has come, in the order in which they were registered, and hand it
 * to rx_datagram(). Those of the engine are in receive.c; rooms above register theirs behind them.
 */
#ifndef VERBATIM_ENGINE_RECEIVE_H
#define VERBATIM_ENGINE_RECEIVE_H

#include "engine/engine.h"

#define RECEIVE_BATCH	16u
#define RECEIVE_ROUNDS	8u	/* batches per round, so that timers and transmitting get a turn */
#define RECEIVE_BUFFER	65536u	/* bytes of rx.slot_buffer, which any source may use */

struct rx_traced;

/* Of the thread that makes progress. */
struct receiver {
	struct engine *engine;
	uint64_t now_ns;
	struct qp *qp;		/* locked, or NULL */
	bool received;		/* it has had a packet: transport_received() is due */
	struct effects effects;
	unsigned packets;
	bool deny_receive;	/* the packet is to find none (VERBATIM_FAULT=rnr) */
	struct rx_traced *traced;	/* of the packet at hand; NULL: it is not traced */
	/* Of the datagram at hand: what its packets have in common is found for the first one. */
	bool informed;			/* info is of it, but for what is said of a packet */
	bool on_way;			/* it may come for @qp by its way */
	struct rx_info info;
	unsigned taken;			/* packets of it that were no other process's, ... */
	size_t taken_bytes;		/* ... and what these had */
};

/* What was received: packets for QPs of this process, and for those of others. */
void rx_datagram(struct receiver *receiver, struct datagram *datagram);
/* Unlock the QP of the last packets: its lock is held from packet to packet. Each receive() ends with it. */
void rx_unlock_qp(struct receiver *receiver) UNCHECKED_LOCKS;

/* For engine_init(): those that packets come by, first. */
void receive_register(struct engine *engine);
/* By the worker's caller, before it runs: the link to the process of a fabric is a source from now on. */
void receive_from_fabric(struct engine *engine, struct link *link);

#endif
