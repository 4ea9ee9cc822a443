/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The answering side of flow.h: echoes that a UC or UD QP owes. An echo is noted when a packet that
 * asks for one is received, even if the packet is dropped; it is written at the next transmit, the
 * newest for each source.
 *
 * An echo is an invitation to send more, so it is held back while the application is behind: fewer
 * receives are posted than packets may be on their way, and completions are not polled. It is
 * looked at again when receives are posted and by a timer, and sent after ECHO_HOLD_MAX_NS in any
 * case.
 *
 * All calls are made with the QP's lock held.
 */
#ifndef VERBATIM_TRANSPORT_ECHO_H
#define VERBATIM_TRANSPORT_ECHO_H

#include "transport/internal.h"

#define ECHO_SOURCES_MAX	8u	/* of a UD QP; further ones ask again */
#define ECHO_HOLD_FIRST_NS	50000u
#define ECHO_HOLD_MAX_NS	50000000u

int echo_init(struct qp *qp) REQUIRES(qp->lock);		/* 0 or ENOMEM */
void echo_fini(struct qp *qp) REQUIRES(qp->lock);
void echo_reset(struct qp *qp) REQUIRES(qp->lock);	/* drop all */

void echo_note(struct qp_call *call, const struct packet *packet, const struct rx_info *info)
	REQUIRES(call->qp->lock);
/* An echo of a packet of ours. */
enum drop echo_receive(struct qp_call *call, const struct packet *packet, const struct rx_info *info)
	REQUIRES(call->qp->lock);

bool echo_ready(const struct qp *qp) REQUIRES(qp->lock);
void echo_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);
/* A receive was posted, or the deadline has come: look again. */
void echo_look_again(struct qp *qp) REQUIRES(qp->lock);
uint64_t echo_deadline(const struct qp *qp) REQUIRES(qp->lock);

#endif
