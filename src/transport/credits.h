/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end flow control (IBTA 9.7.7.2): ACKs carry the number of receives that the peer has. A
 * request that needs a receive waits while there is none; a single packet may go, to learn of new
 * ones (9.7.7.2.5).
 */
#ifndef VERBATIM_TRANSPORT_CREDITS_H
#define VERBATIM_TRANSPORT_CREDITS_H

#include "object/qp_transport.h"
#include "wire/aeth.h"
#include "wire/psn.h"

/* An ACK of message @msn with that credit code. */
static inline void credits_learn(struct credits *credits, uint32_t msn, unsigned code)
{
	credits->limited = code != AETH_CREDITS_INVALID;
	if (credits->limited)
		credits->limit_ssn = psn_add(msn, aeth_credits(code));
}

/* RNR NAK: no receive for the message after @msn, so none for those behind it. */
static inline void credits_none(struct credits *credits, uint32_t msn)
{
	credits->limited = true;
	credits->limit_ssn = msn;
}

/* May a message with that send sequence number be sent? */
static inline bool credits_allow(const struct credits *credits, uint32_t ssn)
{
	return !credits->limited || psn_diff(ssn, credits->limit_ssn) <= 0;
}

#endif
