/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which handles the application holds: contexts and objects, by address. errno.c asks before a verb looks at one,
 * so that a handle that is no more, or never was, is refused with EINVAL instead of being followed (with ENOENT if
 * the application has overwritten what says which object it is, as by an adapter's kernel); and so are
 * objects of contexts that were opened separately, in one call: an adapter finds objects in the context's file
 * only. Contexts of one file (ibv_import_device) share theirs.
 *
 * Not asked: posts, polls, notifications and acknowledgements, which must cost nothing; and what inline functions
 * of <infiniband/verbs.h> read of a handle before they call. A new object of the same kind at the same address
 * makes an old handle good again.
 */
#ifndef VERBATIM_VERBS_LIVE_H
#define VERBATIM_VERBS_LIVE_H

#include "verbs/verbs.h"

enum live_kind {
	LIVE_NONE, LIVE_CONTEXT, LIVE_PD, LIVE_TD, LIVE_MR, LIVE_MW, LIVE_DM, LIVE_CHANNEL, LIVE_CQ, LIVE_SRQ,
	LIVE_QP, LIVE_AH, LIVE_XRCD, LIVE_WQ, LIVE_TABLE, LIVE_FLOW, LIVE_COUNTERS,
	LIVE_COMP_CNTR,
	/* Structures that name objects. */
	LIVE_QP_INIT, LIVE_QP_INIT_EX, LIVE_QP_OPEN, LIVE_SRQ_INIT_EX, LIVE_CQ_INIT_EX, LIVE_WQ_INIT,
	LIVE_TABLE_INIT, LIVE_DOMAIN_INIT, LIVE_FLOW_INIT, LIVE_BIND,
};

/* The kind of what an argument or a result points to. */
#define LIVE_KIND(x) _Generic((x),                                                              \
	struct ibv_context *: LIVE_CONTEXT, struct ibv_pd *: LIVE_PD, struct ibv_td *: LIVE_TD,   \
	struct ibv_mr *: LIVE_MR, struct ibv_mw *: LIVE_MW, struct ibv_dm *: LIVE_DM,             \
	struct ibv_comp_channel *: LIVE_CHANNEL, struct ibv_cq *: LIVE_CQ,                        \
	struct ibv_cq_ex *: LIVE_CQ, struct ibv_srq *: LIVE_SRQ, struct ibv_qp *: LIVE_QP,        \
	struct ibv_ah *: LIVE_AH, struct ibv_xrcd *: LIVE_XRCD, struct ibv_wq *: LIVE_WQ,         \
	struct ibv_rwq_ind_table *: LIVE_TABLE, struct ibv_flow *: LIVE_FLOW,                     \
	struct ibv_counters *: LIVE_COUNTERS, struct ibv_comp_cntr *: LIVE_COMP_CNTR,             \
	struct ibv_qp_init_attr *: LIVE_QP_INIT,                                                  \
	struct ibv_qp_init_attr_ex *: LIVE_QP_INIT_EX, struct ibv_qp_open_attr *: LIVE_QP_OPEN,   \
	struct ibv_srq_init_attr_ex *: LIVE_SRQ_INIT_EX,                                          \
	struct ibv_cq_init_attr_ex *: LIVE_CQ_INIT_EX, struct ibv_wq_init_attr *: LIVE_WQ_INIT,   \
	struct ibv_rwq_ind_table_init_attr *: LIVE_TABLE_INIT,                                    \
	struct ibv_parent_domain_init_attr *: LIVE_DOMAIN_INIT,                                   \
	struct ibv_flow_attr *: LIVE_FLOW_INIT, struct ibv_mw_bind *: LIVE_BIND,                  \
	default: LIVE_NONE)

/* What a call is given, argument by argument. */
struct live_call {
	const char *name;
	uint64_t file;			/* hca_file_number() of the first handle; 0: none yet */
	uint64_t generation;		/* of it: which object it is, should another one come to its address */
	bool by_number;			/* an adapter's kernel would look them up: with another number, ENOENT */
	int err;			/* EINVAL or ENOENT, explained: one of them is not good */
};

/* The next argument: a handle, a structure that names some, or neither. Null pointers are left to the verb. */
void live_take(struct live_call *call, enum live_kind kind, const void *argument);
/* The call made @object, as the application sees it. */
void live_add(const struct live_call *call, enum live_kind kind, const void *object);
/* The call opened @object once more (ibv_open_qp). */
void live_share(enum live_kind kind, const void *object);
/* The call ended its first handle, @object. */
void live_remove(const struct live_call *call, enum live_kind kind, const void *object);
/* All contexts of a file are closed, and what was made in them is gone. */
void live_forget_file(uint64_t file);

#endif
