/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP that drops requests and sends no answer, so that its peer reads "did not answer". Inside a host
 * its process tells the requester's why (local/grant/control.h, DROPPED): a reason of
 * tracepoint/drop.def that has peer's words, which are the requester's. What is told explains a
 * failure, and decides nothing: the peer may lie.
 */
#ifndef VERBATIM_TRANSPORT_REFUSAL_H
#define VERBATIM_TRANSPORT_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp.h"
#include "tracepoint/drop.h"

#define REFUSAL_WORDS 240	/* bytes of refusal_words() */

struct packet;

_Static_assert(DROP_COUNT <= UINT8_MAX, "struct refusal has a byte for it");

/* @packet was dropped: what its sender is told. @refusal: unchanged if that is nothing; may be NULL. */
void refusal_note_drop(enum drop why, const struct qp *qp, const struct packet *packet, struct refusal *refusal)
	REQUIRES(qp->lock);
/* The peer of @qp says so. What cannot be is ignored. */
void refusal_note(struct qp *qp, const struct refusal *refusal) REQUIRES(qp->lock);
/* What was noted of requests that are unanswered still, in words. False: nothing. */
bool refusal_words(struct qp *qp, char text[REFUSAL_WORDS]) REQUIRES(qp->lock);

#endif
