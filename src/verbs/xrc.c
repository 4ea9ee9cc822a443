/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: domains (ibv_open_xrcd(3)), the numbers of SRQs that requests name (ibv_get_srq_num(3)), and
 * XRC_RECV QPs that several parts of a program share (ibv_open_qp(3)).
 */
#include "verbs/check.h"
#include "verbs/verbs.h"

struct ibv_xrcd *xrcd_open_verb(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	CALL();
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xrcd *xrcd;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_open_xrcd", context ? "xrcd_init_attr" : "context"));
	if (attr->comp_mask != needed) {
		explain("ibv_open_xrcd: comp_mask 0x%x must be IBV_XRCD_INIT_ATTR_FD | "
				"IBV_XRCD_INIT_ATTR_OFLAGS",
			attr->comp_mask);
		return fail(EINVAL);
	}
	err = hca_open_xrcd(to_hca(context), attr->fd, attr->oflags, &xrcd);
	if (err)
		return fail(err);
	xrcd->ibv.context = context;
	verbs_checked_made(XRCD, "ibv_open_xrcd", xrcd, .context = CHECK_HANDLE(context));
	return &xrcd->ibv;
}

int xrcd_close_verb(struct ibv_xrcd *xrcd)
{
	CALL();
	int err;

	if (!xrcd)
		return refuse_null("ibv_close_xrcd", "xrcd");
	verbs_checked_ending(XRCD, "ibv_close_xrcd", xrcd);
	err = hca_close_xrcd(to_hca(xrcd->context), to_xrcd(xrcd));
	verbs_checked_ended(XRCD, "ibv_close_xrcd", xrcd, err);
	return err;
}

int srq_number_verb(struct ibv_srq *srq, uint32_t *number)
{
	CALL();

	if (!srq || !number)
		return refuse_null("ibv_get_srq_num", srq ? "srq_num" : "srq");
	if (!to_srq(srq)->xrcd) {
		explain_refused_of("ibv_get_srq_num", EOPNOTSUPP, OF(SRQ, to_srq(srq)->number),
				"ibv_get_srq_num: srq %u is a basic one: only those of "
				"IBV_SRQT_XRC are named by requests",
			to_srq(srq)->number);
		return EOPNOTSUPP;
	}
	*number = to_srq(srq)->number;
	return 0;
}

/* What is opened is the QP itself: its qp_context is the creator's. */
struct ibv_qp *qp_open_verb(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	CALL();
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct qp *qp;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_open_qp", context ? "qp_open_attr" : "context"));
	if ((attr->comp_mask & needed) != needed || attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) {
		explain("ibv_open_qp: comp_mask 0x%x needs IBV_QP_OPEN_ATTR_NUM, _XRCD and "
				"_TYPE, and takes _CONTEXT besides", attr->comp_mask);
		return fail(EINVAL);
	}
	if (!attr->xrcd || attr->qp_type != IBV_QPT_XRC_RECV) {
		explain("ibv_open_qp: %s", attr->xrcd ? "qp_type must be IBV_QPT_XRC_RECV: no "
				"other QP can be shared" :
						    "xrcd is NULL");
		return fail(EINVAL);
	}
	err = hca_open_qp(to_hca(context), to_xrcd(attr->xrcd), attr->qp_num, &qp);
	return err ? fail(err) : &qp->ibv.qp_base;
}
