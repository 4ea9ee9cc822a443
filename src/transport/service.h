/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP does by the service that it gives: a row each for RC and XRC (reliable.c), UC and UD
 * (unreliable.c) and RAW_PACKET (raw.c). What all services share is in transport.c, which asks the
 * row for the rest. A further service is a row, and a file.
 *
 * All functions of a row are called with the QP's lock held.
 */
#ifndef VERBATIM_TRANSPORT_SERVICE_H
#define VERBATIM_TRANSPORT_SERVICE_H

#include "transport/internal.h"

struct transport_service {
	/*
	 * A packet of this service, from the QP's peer, in a state that takes packets. Why it was
	 * dropped.
	 */
	enum drop (*receive)(struct qp_call *call, const struct packet *packet,
			     const struct rx_info *info);
	/* Write what is due into the batch. */
	void (*transmit)(struct transmit *transmit);
	/* Is anything due? */
	bool (*ready)(const struct qp *qp);
	/* When timeout() is to be called; TIME_NEVER: never. */
	uint64_t (*deadline)(const struct qp *qp);
	void (*timeout)(struct qp_call *call);
	/* May the requests that were posted leave later, with others? NULL: they never do. */
	bool (*may_gather)(struct qp *qp, uint64_t now_ns);
	/* Packets under way may be lost. NULL: none is sent again. */
	void (*way_changed)(struct qp_call *call);
	/* Memory for as long as the QP lives; init(): 0 or ENOMEM. NULL: none is needed. */
	int (*init)(struct qp *qp);
	void (*fini)(struct qp *qp);
};

extern const struct transport_service service_rc, service_xrc, service_uc, service_ud, service_raw;

#endif
