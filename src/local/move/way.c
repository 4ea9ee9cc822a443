/* SPDX-License-Identifier: BSD-2-Clause */
/* Which way the requests of a QP take inside this host, and why not a faster one: for statistics. */
#include "local/move/internal.h"
#include "trace/trace.h"

enum local_way local_way(const struct local *local, struct qp *qp, const char **why)
{
	const struct pairing *pairing = &qp->pairing;
	uint32_t slot = qpn_slot(qp->attr.dest_qp_num);
	const struct peer *peer;
	int err;

	*why = "";
	if (!qp->route.loopback) {
		*why = qp->by_udp ? "memory was shared later than this UC QP was connected" : "another host";
		return WAY_UDP;
	}
	if (!local->peers || !local->channel_link) {
		*why = local->mode == LOCAL_OFF ? "no memory is shared: VERBATIM_MEMORY=off" :
						  "no memory is shared: a set-id program";
		return WAY_UDP;
	}
	peer = peer_of_slot(local, slot);
	if (!peer) {
		err = slot < SLOT_COUNT ?
			      atomic_load_explicit(&local->peers->refusal[slot], memory_order_relaxed) : 0;
		*why = err ? connect_reason(err) : "the process was not asked yet";
		return WAY_UDP;
	}
	if (!local->direct) {
		*why = local->packets_why ? local->packets_why : "VERBATIM_MEMORY=ring";
		return WAY_RING;
	}
	if (trace_wants(TRACE_PAYLOAD)) {
		*why = "verbatim trace --payload shows packets";
		return WAY_RING;
	}
	if (!pairing->agreed || pairing->life != atomic_load(&peer->life)) {
		*why = pairing->asked ? "the peer's QP was asked" : "the QPs have not agreed on more, yet";
		return WAY_RING;
	}
	if (peer_regions_mapped(peer->regions))
		return WAY_MAPPED;
	if (peer_both_copy(local, peer)) {
		*why = "no region of the peer that is used is a block";
		return WAY_COPIED;
	}
	*why = "the kernel forbids access to each other's memory (ptrace)";
	return WAY_RING;
}

unsigned local_channel_count(const struct local *local)
{
	unsigned count = 0, i;

	for (i = 0; local->peers && i < CHANNELS_MAX; i++)
		count += peer_at(local, i) != NULL;
	return count;
}
