/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs of ours to an address of this host where another program has port 4791: they go straight to the
 * socket of the process that they are for, as one that has the port would forward them.
 */
#include <errno.h>

#include "host/slot.h"
#include "mad/internal.h"

int qp1_hand_over(struct qp1 *qp1, const uint8_t *mad, const struct datagram *datagram)
{
	struct cm_target target;

	switch (cm_message_target(mad, &target)) {
	case CM_TARGET_ID:
		return slot_forward(comm_id_slot(target.comm_id), datagram);
	case CM_TARGET_SERVICE:
		return service_forward(target.service_id,
				       target.has_address ? target.address : datagram->destination, datagram);
	default:
		return ECONNREFUSED;
	}
}
