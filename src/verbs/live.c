/* SPDX-License-Identifier: BSD-2-Clause */
/* The handles that the application holds: a hash table by address, under one lock, which is taken alone. */
#include "verbs/live.h"

#include <stdlib.h>

#include "base/fork.h"

#define FIRST_BUCKETS	64u

/* What an adapter's kernel would go by: the file of the context, and the number of the object in it. */
struct live_identity {
	const struct ibv_context *context;
	uint32_t number;
};

struct live_handle {
	struct live_handle *next;	/* of its bucket */
	const void *object;
	struct live_identity identity;	/* as it was made: the structure is the application's to overwrite */
	uint64_t file, generation;
	uint32_t count;			/* how often it was opened */
	enum live_kind kind;
};

static struct lock live_lock = LOCK_INITIALIZER;
static struct live_handle **buckets GUARDED_BY(live_lock);
static size_t bucket_count GUARDED_BY(live_lock), handle_count GUARDED_BY(live_lock);
static uint64_t last_generation GUARDED_BY(live_lock);
/* Memory ran out, and handles are missing: from then on what is not known is let through. */
static bool is_incomplete GUARDED_BY(live_lock);

static const char *const live_names[] = {
	[LIVE_CONTEXT] = "context", [LIVE_PD] = "pd", [LIVE_TD] = "td", [LIVE_MR] = "mr", [LIVE_MW] = "mw",
	[LIVE_DM] = "dm", [LIVE_CHANNEL] = "completion channel", [LIVE_CQ] = "cq", [LIVE_SRQ] = "srq",
	[LIVE_QP] = "qp", [LIVE_AH] = "ah", [LIVE_XRCD] = "xrcd", [LIVE_WQ] = "wq",
	[LIVE_TABLE] = "table of work queues", [LIVE_FLOW] = "flow", [LIVE_COUNTERS] = "counters",
	[LIVE_COMP_CNTR] = "completion counter",
};

static void live_before_fork(void) ACQUIRES(live_lock)
{
	lock_acquire(&live_lock);
}

static void live_after_fork(void) RELEASES(live_lock)
{
	lock_release(&live_lock);
}

static const struct fork_handlers fork_handlers = {
	.prepare = live_before_fork, .parent = live_after_fork, .child = live_after_fork,
};

static size_t live_hash(const void *object)
{
	return (size_t)((uintptr_t)object * 0x9e3779b97f4a7c15u >> 20);
}

static struct live_handle **live_find(enum live_kind kind, const void *object) REQUIRES(live_lock)
{
	struct live_handle **link;

	if (!bucket_count)
		return NULL;
	for (link = &buckets[live_hash(object) & (bucket_count - 1)]; *link; link = &(*link)->next)
		if ((*link)->object == object && (*link)->kind == kind)
			return link;
	return NULL;
}

#define NUMBERED(kind, type, member)                                                                    \
	case kind:                                                                                      \
		return (struct live_identity) { ((const type *)object)->context, ((const type *)object)->member }
#define UNNUMBERED(kind, type)                                                                          \
	case kind:                                                                                      \
		return (struct live_identity) { ((const type *)object)->context, 0 }

static struct live_identity live_identity_of(enum live_kind kind, const void *object)
{
	switch (kind) {
	NUMBERED(LIVE_PD, struct ibv_pd, handle);
	NUMBERED(LIVE_MR, struct ibv_mr, handle);
	NUMBERED(LIVE_MW, struct ibv_mw, handle);
	NUMBERED(LIVE_DM, struct ibv_dm, handle);
	NUMBERED(LIVE_CQ, struct ibv_cq, handle);
	NUMBERED(LIVE_SRQ, struct ibv_srq, handle);
	NUMBERED(LIVE_QP, struct ibv_qp, handle);
	NUMBERED(LIVE_AH, struct ibv_ah, handle);
	NUMBERED(LIVE_WQ, struct ibv_wq, handle);
	NUMBERED(LIVE_TABLE, struct ibv_rwq_ind_table, ind_tbl_handle);
	NUMBERED(LIVE_FLOW, struct ibv_flow, handle);
	UNNUMBERED(LIVE_TD, struct ibv_td);
	UNNUMBERED(LIVE_XRCD, struct ibv_xrcd);
	UNNUMBERED(LIVE_COUNTERS, struct ibv_counters);
	UNNUMBERED(LIVE_CHANNEL, struct ibv_comp_channel);
	case LIVE_COMP_CNTR:
		return (struct live_identity) { ((const struct comp_counter *)object)->ibv.context,
						((const struct comp_counter *)object)->ibv.handle };
	default:
		return (struct live_identity) { NULL, 0 };
	}
}

/* Without memory the buckets stay as they are, and get longer. */
static void live_grow(void) REQUIRES(live_lock)
{
	size_t wanted = bucket_count ? 2 * bucket_count : FIRST_BUCKETS;
	struct live_handle **grown, *handle;

	if (handle_count < bucket_count)
		return;
	grown = calloc(wanted, sizeof(struct live_handle *));
	if (!grown)
		return;
	for (size_t i = 0; i < bucket_count; i++)
		while ((handle = buckets[i])) {
			size_t to = live_hash(handle->object) & (wanted - 1);

			buckets[i] = handle->next;
			handle->next = grown[to];
			grown[to] = handle;
		}
	free(buckets);
	buckets = grown;
	bucket_count = wanted;
}

static void live_unlink(struct live_handle **link) REQUIRES(live_lock)
{
	struct live_handle *handle = *link;

	*link = handle->next;
	handle_count--;
	free(handle);
}

/* ---- arguments ---- */

static void take_handle(struct live_call *call, enum live_kind kind, const void *object)
{
	struct live_handle **link;
	bool is_known, is_foreign = false, is_changed = false;

	if (!object || call->err)
		return;
	lock_acquire(&live_lock);
	link = live_find(kind, object);
	is_known = link || is_incomplete;
	if (link && call->by_number) {
		struct live_identity now = live_identity_of(kind, object);

		is_changed = now.context != (*link)->identity.context || now.number != (*link)->identity.number;
	}
	if (link && !call->file) {
		call->file = (*link)->file;
		call->generation = (*link)->generation;
	} else if (link) {
		is_foreign = (*link)->file != call->file;
	}
	lock_release(&live_lock);
	if (is_known && !is_foreign && !is_changed)
		return;
	call->err = is_changed ? ENOENT : EINVAL;
	if (is_changed)
		explain_refused(call->name, ENOENT, "%s: the context or the handle in the %s %p is not the one "
				"that it was made with: the application has overwritten the structure",
				call->name, live_names[kind], object);
	else if (is_foreign)
		explain_refused(call->name, EINVAL,
				"%s: the %s %p is of another context than the objects before it: "
				"create all of them in one context (ibv_open_device), or import "
				"the device, which "
				"shares them (ibv_import_device)",
				call->name, live_names[kind], object);
	else
		explain_refused(call->name, EINVAL, "%s: %p is no %s: it was destroyed or closed before, or never "
				"created", call->name, object, live_names[kind]);
}

static void take_qp_init(struct live_call *call, const struct ibv_qp_init_attr_ex *attr)
{
	/* Nothing behind the capabilities is looked at, as the simple structure ends there. */
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return;
	take_handle(call, LIVE_CQ, attr->send_cq);
	if (attr->qp_type == IBV_QPT_XRC_SEND)	/* it receives nothing: the kernel does not look for them */
		return;
	take_handle(call, LIVE_CQ, attr->recv_cq);
	take_handle(call, LIVE_SRQ, attr->srq);
}

static void take_qp_init_ex(struct live_call *call, const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD && attr->qp_type != IBV_QPT_XRC_RECV)
		take_handle(call, LIVE_PD, attr->pd);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->qp_type == IBV_QPT_XRC_RECV)
		take_handle(call, LIVE_XRCD, attr->xrcd);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
		take_handle(call, LIVE_TABLE, attr->rwq_ind_tbl);
	else
		take_qp_init(call, attr);
}

static void take_srq_init_ex(struct live_call *call, const struct ibv_srq_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)
		take_handle(call, LIVE_PD, attr->pd);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC)
		return;
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD && attr->srq_type == IBV_SRQT_XRC)
		take_handle(call, LIVE_XRCD, attr->xrcd);
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ)
		take_handle(call, LIVE_CQ, attr->cq);
}

static void take_table_init(struct live_call *call, const struct ibv_rwq_ind_table_init_attr *attr)
{
	if (attr->log_ind_tbl_size > 10 || !attr->ind_tbl)
		return;			/* refused by the device */
	for (uint32_t i = 0; i < 1u << attr->log_ind_tbl_size; i++)
		take_handle(call, LIVE_WQ, attr->ind_tbl[i]);
}

/* Specs that are cut short are refused by the device, which says so. */
static void take_flow_init(struct live_call *call, const struct ibv_flow_attr *attr)
{
	const char *at = (const char *)(attr + 1);

	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		const struct ibv_flow_spec *spec = (const void *)at;

		if (spec->hdr.size < sizeof(spec->hdr))
			return;
		if (spec->hdr.type == IBV_FLOW_SPEC_ACTION_COUNT && spec->hdr.size >= sizeof(spec->flow_count))
			take_handle(call, LIVE_COUNTERS, spec->flow_count.counters);
		at += spec->hdr.size;
	}
}

void live_take(struct live_call *call, enum live_kind kind, const void *argument)
{
	if (!argument)
		return;
	switch (kind) {
	case LIVE_NONE:
		break;
	case LIVE_QP_INIT:
		take_qp_init(call, argument);
		break;
	case LIVE_QP_INIT_EX:
		take_qp_init_ex(call, argument);
		break;
	case LIVE_QP_OPEN:
		if (((const struct ibv_qp_open_attr *)argument)->comp_mask & IBV_QP_OPEN_ATTR_XRCD)
			take_handle(call, LIVE_XRCD, ((const struct ibv_qp_open_attr *)argument)->xrcd);
		break;
	case LIVE_SRQ_INIT_EX:
		take_srq_init_ex(call, argument);
		break;
	case LIVE_CQ_INIT_EX:
		take_handle(call, LIVE_CHANNEL, ((const struct ibv_cq_init_attr_ex *)argument)->channel);
		if (((const struct ibv_cq_init_attr_ex *)argument)->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
			take_handle(call, LIVE_PD, ((const struct ibv_cq_init_attr_ex *)argument)->parent_domain);
		break;
	case LIVE_WQ_INIT:
		take_handle(call, LIVE_PD, ((const struct ibv_wq_init_attr *)argument)->pd);
		take_handle(call, LIVE_CQ, ((const struct ibv_wq_init_attr *)argument)->cq);
		break;
	case LIVE_TABLE_INIT:
		take_table_init(call, argument);
		break;
	case LIVE_DOMAIN_INIT:
		take_handle(call, LIVE_PD, ((const struct ibv_parent_domain_init_attr *)argument)->pd);
		take_handle(call, LIVE_TD, ((const struct ibv_parent_domain_init_attr *)argument)->td);
		break;
	case LIVE_FLOW_INIT:
		take_flow_init(call, argument);
		break;
	case LIVE_BIND:
		take_handle(call, LIVE_MR, ((const struct ibv_mw_bind *)argument)->bind_info.mr);
		break;
	default:
		take_handle(call, kind, argument);
	}
}

/* ---- results ---- */

/* An object that was at this address is gone, whoever ended it: its file did, or did so just now. */
void live_add(const struct live_call *call, enum live_kind kind, const void *object)
{
	struct live_handle *handle, **link;

	if (kind == LIVE_NONE)
		return;
	fork_register(FORK_LIVE, &fork_handlers);
	handle = malloc(sizeof(*handle));
	lock_acquire(&live_lock);
	link = live_find(kind, object);
	if (link)
		live_unlink(link);
	live_grow();
	if (!handle || !bucket_count) {
		is_incomplete = true;
		lock_release(&live_lock);
		free(handle);
		return;
	}
	*handle = (struct live_handle){.object = object,
				       .identity = live_identity_of(kind, object),
				       .kind = kind,
				       .count = 1,
				       .file = kind == LIVE_CONTEXT ?
					       hca_file_number(to_hca((struct ibv_context *)object)) : call->file,
				       .generation = ++last_generation};
	handle->next = buckets[live_hash(object) & (bucket_count - 1)];
	buckets[live_hash(object) & (bucket_count - 1)] = handle;
	handle_count++;
	lock_release(&live_lock);
}

void live_share(enum live_kind kind, const void *object)
{
	struct live_handle **link;

	lock_acquire(&live_lock);
	link = live_find(kind, object);
	if (link)
		(*link)->count++;
	lock_release(&live_lock);
}

void live_remove(const struct live_call *call, enum live_kind kind, const void *object)
{
	struct live_handle **link;

	lock_acquire(&live_lock);
	link = live_find(kind, object);
	if (link && (*link)->generation == call->generation && !--(*link)->count)
		live_unlink(link);
	lock_release(&live_lock);
}

void live_forget_file(uint64_t file)
{
	lock_acquire(&live_lock);
	for (size_t i = 0; i < bucket_count; i++) {
		struct live_handle **link = &buckets[i];

		while (*link) {
			if ((*link)->file == file)
				live_unlink(link);
			else
				link = &(*link)->next;
		}
	}
	lock_release(&live_lock);
}
