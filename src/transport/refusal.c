/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that a QP of this host leaves unanswered: why, and what to change at which end (refusal.h). */
#include "transport/refusal.h"

#include "transport/drop.h"
#include "transport/internal.h"

void refusal_note_drop(enum drop why, const struct qp *qp, const struct packet *packet, struct refusal *refusal)
{
	if (!refusal || !drop_is_told(why) || opcode_is_response(packet->op) ||
	    (packet->op->service != SERVICE_RC && packet->op->service != SERVICE_XRC))
		return;
	*refusal = (struct refusal){ .why = (uint8_t)why, .psn = packet->psn };
	if (why == DROP_QP_TYPE)
		refusal->value = qp->type;
	else if (why == DROP_QP_STATE)
		refusal->value = qp->state;
	else if (why == DROP_FIRST_PSN_BEHIND || why == DROP_FIRST_PSN_AHEAD)
		refusal->value = qp->responder.expected_psn;
}

static bool refusal_is_about(const struct qp *qp, const struct refusal *refusal) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;

	return refusal->why && psn_diff(refusal->psn, requester->una_psn) >= 0 &&
	       psn_diff(refusal->psn, requester->next_psn) <= 0;
}

/* A QP that is connected to another one may complain of PSNs, too: the first reason stays. */
void refusal_note(struct qp *qp, const struct refusal *refusal)
{
	struct refusal *noted = &qp->refusal;

	if (!drop_is_told(refusal->why) || refusal->psn > PSN_MASK || refusal->value > QPN_MASK)
		return;
	if ((refusal->why == DROP_FIRST_PSN_BEHIND || refusal->why == DROP_FIRST_PSN_AHEAD) &&
	    noted->why == DROP_OTHER_QP && refusal_is_about(qp, noted))
		return;
	*noted = *refusal;
}

bool refusal_words(struct qp *qp, char text[REFUSAL_WORDS])
{
	const struct refusal *refusal = &qp->refusal;
	const struct drop_facts facts = { .qp = qp, .value = refusal->value, .psn = refusal->psn };

	if (!refusal_is_about(qp, refusal))
		return false;
	drop_write(drop_row((enum drop)refusal->why)->peer, &facts, text, REFUSAL_WORDS);
	return true;
}
