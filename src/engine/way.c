/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way by which packets of a connected QP's peer come: the loopback, if it is a QP of this
 * process; the channel to its process on this host, once both ends have agreed (local/channel/agree.c);
 * else the network, where everybody may send. Nothing in a packet proves who sent it: any process
 * of this host can send from the peer's address, and PSNs are 24 bits. So a QP whose peer has
 * another way believes nothing that the network brings.
 *
 * One thing in a packet of this host is proven: its source port, which a socket has for itself
 * (link/udp_slot.c). A peer on this host sends UDP from the port of its slot, and what comes from
 * another port is not the peer's.
 */
#include "base/inline.h"
#include "engine/internal.h"
#include "engine/qp_table.h"
#include "engine/way.h"
#include "link/udp.h"
#include "transport/drop.h"

/* Its peer is on this host, whatever way our packets take. */
static bool is_local(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp_is(qp, QP_CONNECTED) && (qp->route.loopback || qp->by_udp);
}

static uint32_t way_of_peer(const struct engine *engine, const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t slot = qpn_slot(qp->attr.dest_qp_num), way = BY_NETWORK;

	if (is_local(qp))
		way = engine_has_slot(engine, slot) ?
			      BY_LOOPBACK :
			      local_agreed_way(&engine->local, slot, qp_is(qp, QP_RELIABLE));
	return way == BY_NETWORK && qp->by_port ? BY_SOURCE_PORT : way;
}

void way_connected(const struct engine *engine, struct qp *qp)
{
	qp->way = way_of_peer(engine, qp);
}

void way_reconnected(const struct engine *engine, struct qp *qp)
{
	uint32_t way = way_of_peer(engine, qp);

	if (!is_local(qp) || (way != BY_NETWORK && way != BY_SOURCE_PORT) || qp->way == BY_NETWORK)
		qp->way = way;
}

APART bool way_is_right(const struct engine *engine, const struct qp *qp, const struct datagram *datagram)
{
	if (!qp_is(qp, QP_CONNECTED) || !transport_takes_packets(qp->state))
		return true;
	if (qp->way == BY_SOURCE_PORT && datagram->way == BY_NETWORK)
		return datagram->source_port == udp_slot_port(qpn_slot(qp->attr.dest_qp_num));
	return datagram->from_channel && is_local(qp) &&
	       local_comes_from(&engine->local, datagram->channel, datagram->way, qpn_slot(qp->attr.dest_qp_num));
}

/* Will it send by UDP all the same? */
static bool change_way(struct engine *engine, struct qp *qp, uint32_t slot, uint64_t now_ns)
{
	struct effects effects;
	bool by_udp = false;

	effects_init(&effects);
	lock_acquire(&qp->lock);
	if (is_local(qp) && qpn_slot(qp->attr.dest_qp_num) == slot &&
	    transport_takes_packets(qp->state)) {
		way_reconnected(engine, qp);
		transport_way_changed(qp, now_ns, &effects);
		timers_arm(engine, qp);
		by_udp = qp->by_udp;
	}
	lock_release(&qp->lock);
	effects_defer(engine, &effects);
	return by_udp;
}

unsigned way_changed(struct engine *engine, uint32_t slot, uint64_t now_ns)
{
	unsigned i, index, left = engine->qps.count, by_udp = 0;

	for (i = 0; i < engine->qps.slot_count; i++)
		for (index = 0; left && index < QP_PER_SLOT; index++)
			if (engine->qps.table[i][index]) {
				by_udp += change_way(engine, engine->qps.table[i][index], slot, now_ns);
				left--;
			}
	return by_udp;
}
