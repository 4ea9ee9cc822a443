/* SPDX-License-Identifier: BSD-2-Clause */
/* Carrying out one-sided requests ourselves, in the memory of a peer process of this host. */
#ifndef VERBATIM_HCA_DIRECT_H
#define VERBATIM_HCA_DIRECT_H

#include "hca/internal.h"

/*
 * By the thread that pumps @qp: carry out the requests at the head of its send queue for which that
 * is possible; the others are left to the transport. Large ones are copied without the QP's lock.
 */
void direct_run(struct hca *hca, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);

/*
 * Work was just posted to @qp: do what can be done directly, at once. Returns whether there is
 * something left to be pumped.
 */
bool direct_posted(struct hca *hca, struct qp *qp, struct effects *effects) REQUIRES(qp->lock);

#endif
