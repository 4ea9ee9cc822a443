/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_modify_qp(3), ibv_query_qp(3), and
 * posting of work requests. The ibv_wr_*() way of posting: qp_ex.c.
 */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

/*
 * The pd of @attr is replaced by the one that a parent domain stands for; an XRC_RECV QP has none.
 * @builds: it is for ibv_wr_*().
 */
static struct qp *qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			    bool builds)
{
	struct ring_allocator *allocator = domain_allocator(attr->pd);
	uint64_t began_ns = tracepoint_began_ns();
	struct ibv_pd *given = attr->pd;
	struct pd *pd;
	char names[TRACE_NAMES_MAX];
	struct qp *qp;
	int err;

	if (attr->pd) {
		err = domain_pd("ibv_create_qp", attr->pd, &pd);
		if (err)
			return fail(err);
		attr->pd = &pd->ibv;
	}
	err = verbs_check_asked_qp("ibv_create_qp", attr, builds);
	if (!err)
		err = hca_create_qp_in(to_hca(context), attr, allocator, &qp);
	verbs_traced("ibv_create_qp", began_ns, err, .qp = err ? 0 : qp->number,
		     .device = context->device->name,
		     .type = verbs_trace_type(attr->qp_type, names));
	if (err)
		return fail(err);
	qp->ibv.qp_base.context = context;
	qp->ibv.qp_base.qp_context = attr->qp_context;
	if (check_is_on())
		verbs_check_qp("ibv_create_qp", qp, attr, given);
	return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	CALL();
	struct ibv_qp_init_attr_ex full = { 0 };
	struct qp *qp;

	if (!pd || !attr)
		return fail(refuse_null("ibv_create_qp", pd ? "qp_init_attr" : "pd"));
	/* The extended structure begins like the old one; copied with the gap before comp_mask. */
	memcpy(&full, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	full.comp_mask = IBV_QP_INIT_ATTR_PD;
	full.pd = pd;
	qp = qp_create(pd->context, &full, false);
	if (!qp)
		return NULL;
	attr->cap = full.cap;
	return &qp->ibv.qp_base;
}

static int qp_init_ex_check(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_XRCD;
	const uint32_t of_raw = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const bool raw = attr->qp_type == IBV_QPT_RAW_PACKET;
	const uint32_t flags = raw ? IBV_QP_CREATE_CVLAN_STRIPPING :
			       attr->qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;

	if (attr->comp_mask & ~(known | of_raw))
		return refuse_verb("ibv_create_qp_ex", "comp_mask has TSO, or bits that no "
				"release has");
	if (attr->comp_mask & of_raw && !raw)
		return refuse_verb("ibv_create_qp_ex", "indirection tables and receive hashing "
				"are of RAW_PACKET QPs");
	if (attr->qp_type != IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd))
		return refuse_null("ibv_create_qp_ex", "pd (IBV_QP_INIT_ATTR_PD)");
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags & ~flags)
		return refuse_verb(
			"ibv_create_qp_ex",
			"create_flags beyond IBV_QP_CREATE_CVLAN_STRIPPING of RAW_PACKET and "
			"IBV_QP_CREATE_BLOCK_SELF_MCAST_LB of UD");
	return 0;
}

struct ibv_qp *qp_create_ex_verb(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	CALL();
	struct ibv_qp_init_attr_ex full;
	bool builder;
	struct qp *qp;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_create_qp_ex", context ? "attr" : "context"));
	err = qp_init_ex_check(attr);
	builder = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (!err && builder)
		err = wr_builder_check(attr->qp_type, attr->send_ops_flags);
	if (err)
		return fail(err);
	full = *attr;
	full.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		full.pd = NULL;
	qp = qp_create(context, &full, builder);
	if (!qp)
		return NULL;
	err = builder ? wr_builder_create(to_context(qp->ibv.qp_base.context), qp,
					  attr->send_ops_flags,
					  attr->pd && domain_is_of_one_thread(attr->pd))
		      : 0;
	if (err) {
		verbs_checked_ended(QP, "ibv_create_qp_ex", qp, 0);
		hca_destroy_qp(to_hca(qp->ibv.qp_base.context), qp);
		return fail(err);
	}
	attr->cap = full.cap;
	return &qp->ibv.qp_base;
}

/* Its buffers are the application's again. */
static void qp_emptied(const struct qp *qp)
{
	tsan_emptied(&qp->sq.slots);
	tsan_emptied(&qp->rq.slots);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	char names[TRACE_NAMES_MAX];
	int err;

	if (!qp || !attr)
		return refuse_null("ibv_modify_qp", qp ? "attr" : "qp");
	err = verbs_check_modified(to_qp(qp), attr, mask);
	if (!err)
		err = hca_modify_qp(to_qp(qp), attr, mask);
	if (!err && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		qp_emptied(to_qp(qp));
	if (!err && mask & IBV_QP_STATE)
		verbs_checked(.what = CHECK_STATE, .call = "ibv_modify_qp",
			      .object = CHECK_HANDLE(qp), .state = attr->qp_state);
	verbs_traced("ibv_modify_qp", began_ns, err, .qp = to_qp(qp)->number,
		     .mask = verbs_trace_mask(mask, names));
	return err;
}

/* typical_pkt_sz is a hint for hardware. */
int qp_pace_verb(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	CALL();

	if (!qp || !attr)
		return refuse_null("ibv_modify_qp_rate_limit", qp ? "attr" : "qp");
	if (attr->comp_mask) {
		explain_refused("ibv_modify_qp_rate_limit", EINVAL,
				"ibv_modify_qp_rate_limit: comp_mask 0x%x must be 0", attr->comp_mask);
		return EINVAL;
	}
	return hca_pace_qp(to_qp(qp), attr->rate_limit, attr->max_burst_sz);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init_attr)
{
	CALL();
	int err;

	if (!qp || !attr || !init_attr)
		return refuse_null("ibv_query_qp", !qp ? "qp" : attr ? "init_attr" : "attr");
	err = hca_query_qp(to_qp(qp), attr, mask, init_attr);
	if (err)
		return err;
	init_attr->qp_context = qp->qp_context;
	init_attr->send_cq = qp->send_cq;
	init_attr->recv_cq = qp->recv_cq;
	init_attr->srq = qp->srq;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	struct wr_builder *builder;
	struct context *context;
	uint32_t qpn;
	int err;

	if (!ibv)
		return refuse_null("ibv_destroy_qp", "qp");
	context = to_context(ibv->context);
	builder = to_qp(ibv)->wr_builder;
	qpn = to_qp(ibv)->number;
	qp_emptied(to_qp(ibv));
	verbs_checked_ending(QP, "ibv_destroy_qp", ibv);
	err = hca_destroy_qp(context->hca, to_qp(ibv));
	if (!err)
		wr_builder_destroy(context, builder);
	verbs_checked_ended(QP, "ibv_destroy_qp", ibv, err);
	verbs_traced("ibv_destroy_qp", began_ns, err, .qp = qpn);
	return err;
}

/*
 * Writes of one message become visible in no particular order but for the last cache line, and
 * that is not what this asks for.
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

/* @ece says what was accepted when it returns. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	CALL();

	if (!qp || !ece)
		return refuse_null("ibv_set_ece", qp ? "ece" : "qp");
	if (ece->comp_mask) {
		explain_refused("ibv_set_ece", EINVAL,
				"ibv_set_ece: comp_mask 0x%x must be 0", ece->comp_mask);
		return EINVAL;
	}
	return hca_set_ece(to_qp(qp), ece->vendor_id, &ece->options);
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	CALL();

	if (!qp || !ece)
		return refuse_null("ibv_query_ece", qp ? "ece" : "qp");
	memset(ece, 0, sizeof(*ece));
	return hca_query_ece(to_qp(qp), &ece->vendor_id, &ece->options);
}

int qp_post_send_verb(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	CALL_TWIN();

	return verb_result(hca_post_send(to_qp(qp), wr, bad));
}

int qp_post_recv_verb(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL_TWIN();

	return verb_result(hca_post_recv(to_qp(qp), wr, bad));
}
