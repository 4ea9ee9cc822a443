/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that a QP of this host leaves unanswered: why, and what to change at which end (refusal.h). */
#include "transport/refusal.h"

#include <stdio.h>

#include "transport/internal.h"

static bool refusal_is_about(const struct qp *qp, const struct refusal *refusal) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;

	return refusal->kind != REFUSAL_NONE && psn_diff(refusal->psn, requester->una_psn) >= 0 &&
	       psn_diff(refusal->psn, requester->next_psn) <= 0;
}

/* A QP that is connected to another one may complain of PSNs, too: the first reason stays. */
void refusal_note(struct qp *qp, const struct refusal *refusal)
{
	struct refusal *noted = &qp->refusal;

	if (refusal->kind == REFUSAL_NONE || refusal->kind >= REFUSAL_KINDS || refusal->psn > PSN_MASK ||
	    refusal->value > QPN_MASK)
		return;
	if (refusal->kind == REFUSAL_PSN && noted->kind == REFUSAL_OTHER_QP && refusal_is_about(qp, noted))
		return;
	*noted = *refusal;
}

bool refusal_words(const struct qp *qp, char text[REFUSAL_WORDS])
{
	const struct refusal *refusal = &qp->refusal;
	uint32_t peer = qp->attr.dest_qp_num, value = refusal->value;

	if (!refusal_is_about(qp, refusal))
		return false;
	switch ((enum refusal_kind)refusal->kind) {
	case REFUSAL_STATE:
		if (value == IBV_QPS_ERR)
			snprintf(text, REFUSAL_WORDS,
				 "the peer's qp 0x%06x is in ERR: see its first error, a completion or an "
				 "explanation there before this one", peer);
		else
			snprintf(text, REFUSAL_WORDS,
				 "the peer's qp 0x%06x is in %s and takes no packets: ibv_modify_qp to RTR "
				 "there before the first request here", peer,
				 qp_state_name((enum ibv_qp_state)value));
		break;
	case REFUSAL_TYPE:
		snprintf(text, REFUSAL_WORDS,
			 "the peer's qp 0x%06x is of type %s, and this one of type %s: both ends need "
			 "the same qp_type", peer, qp_type_name((enum ibv_qp_type)value),
			 qp_type_name(qp->type));
		break;
	case REFUSAL_ADDRESS:
		snprintf(text, REFUSAL_WORDS,
			 "the peer's qp 0x%06x is connected to another address: ah_attr.grh.dgid "
			 "there must be the GID that sgid_index names here", peer);
		break;
	case REFUSAL_OTHER_QP:
		snprintf(text, REFUSAL_WORDS,
			 "the peer's qp 0x%06x is connected to qp 0x%06x, not to this one: "
			 "dest_qp_num is wrong here, or should be 0x%06x there", peer, value, qp->number);
		break;
	case REFUSAL_PSN:
		snprintf(text, REFUSAL_WORDS,
			 "the peer's qp 0x%06x expects PSN %u, and these packets begin with %u: "
			 "rq_psn there (ibv_modify_qp to RTR) must be sq_psn here (to RTS)", peer, value,
			 refusal->psn);
		break;
	case REFUSAL_NONE:
	case REFUSAL_KINDS:
		return false;
	}
	return true;
}
