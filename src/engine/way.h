/* SPDX-License-Identifier: BSD-2-Clause */
/* The way by which packets of a QP's peer come (way.c). */
#ifndef VERBATIM_ENGINE_WAY_H
#define VERBATIM_ENGINE_WAY_H

#include "engine/engine.h"

/* @qp goes to RTR: its peer and the address vector are in place. */
void way_connected(const struct engine *engine, struct qp *qp) REQUIRES(qp->lock);
/*
 * The address vector, or what is known of the peer, has changed: a QP never goes back from a channel
 * to the network, nor from a port that is known to one that is not.
 */
void way_reconnected(const struct engine *engine, struct qp *qp) REQUIRES(qp->lock);
/* May @qp take a packet of @datagram, whose way is not that of @qp? With the progress lock. */
bool way_is_right(const struct engine *engine, const struct qp *qp, const struct datagram *datagram)
	REQUIRES(qp->lock);
/*
 * For QPs that are connected to the holder of @slot. Returns how many send by UDP all the same. With
 * the progress lock.
 */
unsigned way_changed(struct engine *engine, uint32_t slot, uint64_t now_ns)
	REQUIRES(engine->progress);

#endif
