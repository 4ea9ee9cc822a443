/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of qp_state.def, as qp_modify.c and its test read it. */
#ifndef VERBATIM_OBJECT_QP_INTERNAL_H
#define VERBATIM_OBJECT_QP_INTERNAL_H

#include "object/qp.h"

#define QP_STATES 7u		/* RESET .. ERR */

struct qp_move {
	bool allowed;
	int required, optional;	/* masks of enum ibv_qp_attr_mask, without IBV_QP_STATE */
};

/* The row for a QP of @type; never NULL, but perhaps not allowed. States are under QP_STATES. */
const struct qp_move *qp_move_get(enum ibv_qp_state from, enum ibv_qp_state to,
				  enum ibv_qp_type type);

#endif
