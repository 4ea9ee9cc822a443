/* SPDX-License-Identifier: BSD-2-Clause */
/* Delivers a MAD to its consumer in this process, or forwards it to the process that owns it. */
#include <errno.h>
#include <string.h>

#include "base/ip_addr.h"
#include "engine/qp_table.h"
#include "mad/internal.h"

void qp1_address(const struct datagram *datagram, struct mad_address *from)
{
	*from = (struct mad_address){ .link = datagram->link, .interface = datagram->interface,
				      .traffic_class = datagram->traffic_class & (uint8_t)~ECN_BITS,
				      .pkey_index = datagram->pkey_index };
	memcpy(from->local, datagram->destination, 16);
	memcpy(from->remote, datagram->source, 16);
	if (datagram->ib.port) {	/* a GRH is of one way alone: LIDs are who it is */
		from->ib = datagram->ib;
		from->ib.has_grh = false;
		ip_addr_of_lid(from->remote, datagram->ib.lid);
	}
}

enum drop qp1_deliver(struct qp1 *qp1, const struct datagram *datagram, const uint8_t *mad,
		      uint64_t now_ns)
{
	struct mad_address from;

	if (!qp1->gsi)
		return qp1_refuse(qp1, datagram, mad) ? DROP_NONE :
							drop_count(qp1->engine->counters, DROP_MAD_NOBODY, 1);
	qp1_address(datagram, &from);
	counter_add(qp1->engine->counters, COUNTER_RX_MAD, 1);
	return mad_received(qp1, QPN_GSI, &from, mad, now_ns);
}

enum drop qp1_count_forwarded(struct qp1 *qp1, int err)
{
	if (err)
		return drop_count(qp1->engine->counters, DROP_MAD_LOST, 1);
	counter_add(qp1->engine->counters, COUNTER_RX_MAD_FOREIGN, 1);
	return DROP_NONE;
}

static const uint8_t *address_of(const struct cm_target *target, const struct datagram *datagram)
{
	return target->has_address ? target->address : datagram->destination;
}

bool qp1_serves(struct qp1 *qp1, const struct cm_target *target, const struct datagram *datagram)
{
	return qp1->gsi && service_is_ours(qp1->gsi->services, target->service_id,
					   address_of(target, datagram));
}

int qp1_forward(struct qp1 *qp1, const struct cm_target *target, const struct datagram *datagram)
{
	uint32_t slot = comm_id_slot(target->comm_id);

	if (target->kind == CM_TARGET_ID)
		return engine_has_slot(qp1->engine, slot) ? ECONNREFUSED : slot_forward(slot, datagram);
	if (target->kind != CM_TARGET_SERVICE || qp1_serves(qp1, target, datagram))
		return ECONNREFUSED;
	return service_forward(target->service_id, address_of(target, datagram), datagram);
}
