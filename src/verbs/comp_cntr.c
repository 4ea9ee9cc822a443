/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters, rdma-core 65 (IBVERBS_1.18): ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3),
 * ibv_query_comp_cntr_caps(3). Our headers may be older: see newer.h. */
#include "verbs/verbs.h"

static struct comp_counter *to_comp_counter(struct ibv_comp_cntr *ibv)
{
	return (struct comp_counter *)ibv;
}

/* What a later release adds behind @size stays zero: it is not counted here. */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size)
{
	CALL();
	const struct newer_comp_caps ours = { .max_value = UINT64_MAX, .max_counters = hca_max_comp_counters(),
					      .operations = (1u << COMP_OPERATIONS) - 1 };

	if (!context || !caps)
		return refuse_null("ibv_query_comp_cntr_caps", context ? "caps" : "context");
	memset(caps, 0, size);
	memcpy(caps, &ours, size < sizeof(ours) ? size : sizeof(ours));
	return 0;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *init_attr)
{
	CALL();
	const struct newer_comp_attr *attr = (const void *)init_attr;
	struct comp_counter *counter;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_create_comp_cntr", context ? "cc_attr" : "context"));
	if (attr->comp_mask || attr->flags || attr->type > NEWER_COMP_BYTES) {
		explain_refused("ibv_create_comp_cntr", EOPNOTSUPP,
				"ibv_create_comp_cntr: comp_mask 0x%x, type %u, flags 0x%x: comp_mask and flags "
				"must be 0, type WRS (0) or BYTES (1)", attr->comp_mask, attr->type, attr->flags);
		return fail(EOPNOTSUPP);
	}
	err = hca_create_comp_counter(to_hca(context), attr->type == NEWER_COMP_BYTES, &counter);
	if (err)
		return fail(err);
	counter->ibv.context = context;
	return (struct ibv_comp_cntr *)counter;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *ibv)
{
	CALL();

	if (!ibv)
		return refuse_null("ibv_destroy_comp_cntr", "comp_cntr");
	return hca_destroy_comp_counter(to_hca(to_comp_counter(ibv)->ibv.context), to_comp_counter(ibv));
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *ibv,
			    struct ibv_qp_attach_comp_cntr_attr *attach_attr)
{
	CALL();
	const struct newer_comp_attach *attr = (const void *)attach_attr;

	if (!qp || !ibv || !attr)
		return refuse_null("ibv_qp_attach_comp_cntr", !qp ? "qp" : !ibv ? "comp_cntr" : "attr");
	if (attr->comp_mask) {
		explain_refused("ibv_qp_attach_comp_cntr", EINVAL,
				"ibv_qp_attach_comp_cntr: comp_mask 0x%x must be 0", attr->comp_mask);
		return EINVAL;
	}
	return hca_attach_comp_counter(to_qp(qp), to_comp_counter(ibv), attr->operations);
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t value)
{
	CALL();

	return ibv ? hca_set_comp_counter(to_comp_counter(ibv), false, value) :
		     refuse_null("ibv_set_comp_cntr", "comp_cntr");
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t value)
{
	CALL();

	return ibv ? hca_set_comp_counter(to_comp_counter(ibv), true, value) :
		     refuse_null("ibv_set_err_comp_cntr", "comp_cntr");
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t amount)
{
	CALL();

	return ibv ? hca_increase_comp_counter(to_comp_counter(ibv), false, amount) :
		     refuse_null("ibv_inc_comp_cntr", "comp_cntr");
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t amount)
{
	CALL();

	return ibv ? hca_increase_comp_counter(to_comp_counter(ibv), true, amount) :
		     refuse_null("ibv_inc_err_comp_cntr", "comp_cntr");
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t *value)
{
	CALL();

	if (!ibv || !value)
		return refuse_null("ibv_read_comp_cntr", ibv ? "value" : "comp_cntr");
	return hca_read_comp_counter(to_comp_counter(ibv), false, value);
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *ibv, uint64_t *value)
{
	CALL();

	if (!ibv || !value)
		return refuse_null("ibv_read_err_comp_cntr", ibv ? "value" : "comp_cntr");
	return hca_read_comp_counter(to_comp_counter(ibv), true, value);
}
