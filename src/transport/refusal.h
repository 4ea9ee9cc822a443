/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP that drops requests and sends no answer, so that its peer reads "did not answer". Inside a host its process
 * tells the requester's why (local/control.h, DROPPED), in numbers of a fixed enumeration; the words are the
 * requester's. What is told explains a failure, and decides nothing: the peer may lie.
 */
#ifndef VERBATIM_TRANSPORT_REFUSAL_H
#define VERBATIM_TRANSPORT_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp.h"

enum refusal_kind {
	REFUSAL_NONE,
#define REFUSAL(name, value) REFUSAL_##name,
#include "transport/refusal.def"
#undef REFUSAL
	REFUSAL_KINDS
};

#define REFUSAL_WORDS 240	/* bytes of refusal_words() */

/* The peer of @qp says so. What cannot be is ignored. */
void refusal_note(struct qp *qp, const struct refusal *refusal) REQUIRES(qp->lock);
/* What was noted of requests that are unanswered still, in words. False: nothing. */
bool refusal_words(const struct qp *qp, char text[REFUSAL_WORDS]) REQUIRES(qp->lock);

#endif
