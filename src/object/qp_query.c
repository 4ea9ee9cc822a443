/* SPDX-License-Identifier: BSD-2-Clause */
/* query_qp: the attributes as modify_qp set them, and those of the creation. */
#include <string.h>

#include "object/qp.h"

void qp_query(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	if (mask & IBV_QP_STATE)
		qp->ibv.qp_base.state = qp->state;

	memset(init, 0, sizeof(*init));
	init->qp_context = qp->ibv.qp_base.qp_context;
	init->send_cq = (struct ibv_cq *)qp->send_cq;
	init->recv_cq = (struct ibv_cq *)qp->recv_cq;
	init->srq = qp->srq ? &qp->srq->ibv : NULL;
	init->cap = qp->cap;
	init->qp_type = qp->type;
	init->sq_sig_all = qp->signal_all;
}
