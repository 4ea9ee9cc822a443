/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a file (file.c) frees every object that the application left in its contexts, users
 * before used: flows, their counters, QPs, completion counters, tables of work queues, work queues,
 * SRQs, XRC domains, CQs, channels, windows, imports, regions, device memory, address handles,
 * protection domains.
 * Those of one context may use those of another one, so that each kind goes in all of them before
 * the next.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include "device/internal.h"

static struct list *close_first(struct list *head)
{
	return list_empty(head) ? NULL : head->next;
}

/* One that cannot be destroyed, whatever uses it, is left: no list is gone through for ever. */
static void close_leave(const char *kind, struct list *head, struct list *node)
{
	if (close_first(head) != node)
		return;
	log_error("a %s cannot be destroyed with its context, and is left", kind);
	list_remove(node);
}

static void close_flows(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->flows))) {
		hca_destroy_flow(context, list_entry(node, struct steered_flow, node));
		close_leave("flow", &context->flows, node);
	}
}

static void close_counters(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->counters))) {
		hca_destroy_counters(context, list_entry(node, struct flow_counters, node));
		close_leave("set of counters", &context->counters, node);
	}
}

/* Their QPs are gone. */
static void close_comp_counters(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->comp_counters))) {
		hca_destroy_comp_counter(context, list_entry(node, struct comp_counter, node));
		close_leave("completion counter", &context->comp_counters, node);
	}
}

static void close_tables(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->rwq_tables))) {
		hca_destroy_rwq_table(context, list_entry(node, struct rwq_table, node));
		close_leave("table of work queues", &context->rwq_tables, node);
	}
}

static void close_wqs(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->wqs))) {
		struct wq *wq = list_entry(node, struct wq, node);

		wq->ibv.events_completed = wq->async_events_got;
		hca_destroy_wq(context, wq);
		close_leave("work queue", &context->wqs, node);
	}
}

static void close_qps(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->qps))) {
		struct qp *qp = list_entry(node, struct qp, node);

		multicast_detach_all(context->hca, qp);
		/* Nobody will fetch or acknowledge events any more: count them as acknowledged. */
		qp->ibv.qp_base.events_completed = qp->async_events_got;
		qp->opens = 1;	/* whoever opened it */
		hca_destroy_qp(context, qp);
		close_leave("queue pair", &context->qps, node);
	}
}

static void close_srqs(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->srqs))) {
		struct srq *srq = list_entry(node, struct srq, node);

		srq->ibv.events_completed = srq->async_events_got;
		hca_destroy_srq(context, srq);
		close_leave("SRQ", &context->srqs, node);
	}
}

static void close_xrcds(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->xrcds))) {
		hca_close_xrcd(context, list_entry(node, struct xrcd, node));
		close_leave("XRC domain", &context->xrcds, node);
	}
}

static void close_cqs(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->cqs))) {
		struct cq *cq = list_entry(node, struct cq, node);

		/* As those of QPs. */
		cq->ibv.comp_events_completed = cq->comp_events_got;
		cq->ibv.async_events_completed = cq->async_events_got;
		hca_destroy_cq(context, cq);
		close_leave("CQ", &context->cqs, node);
	}
}

static void close_channels(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->channels))) {
		hca_destroy_comp_channel(context, list_entry(node, struct comp_channel, node));
		close_leave("completion channel", &context->channels, node);
	}
}

static void close_windows(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->mws))) {
		hca_dealloc_mw(context, list_entry(node, struct mw, node));
		close_leave("memory window", &context->mws, node);
	}
}

/* First of a list of handles, of imports or of originals. */
static struct list *close_first_handle(struct list *head, bool import)
{
	struct list *node;

	list_for_each(node, head)
		if ((list_entry(node, struct handle, node)->of != NULL) == import)
			return node;
	return NULL;
}

static void close_imports(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first_handle(&context->pds, true)))
		hca_unimport_pd(context, list_entry(node, struct pd, handle.node));
	while ((node = close_first_handle(&context->mrs, true)))
		hca_unimport_mr(context, list_entry(node, struct mr, handle.node));
	while ((node = close_first_handle(&context->dms, true)))
		hca_unimport_dm(context, list_entry(node, struct dm, handle.node));
}

/* Imports are gone: the application may hold the original's own handle, or have given it up. */
static bool is_destroyed(struct handle *original)
{
	original->count = 1;
	return original->destroyed;
}

static void close_mrs(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->mrs))) {
		struct mr *mr = list_entry(node, struct mr, handle.node);

		if (is_destroyed(&mr->handle))
			hca_unimport_mr(context, mr);
		else
			hca_dereg_mr(context, mr);
		close_leave("region", &context->mrs, node);
	}
}

static void close_dms(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->dms))) {
		struct dm *dm = list_entry(node, struct dm, handle.node);

		if (is_destroyed(&dm->handle))
			hca_unimport_dm(context, dm);
		else
			hca_free_dm(context, dm);
		close_leave("device memory", &context->dms, node);
	}
}

static void close_ahs(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->ahs))) {
		hca_destroy_ah(context, list_entry(node, struct ah, node));
		close_leave("address handle", &context->ahs, node);
	}
}

static void close_pds(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->pds))) {
		struct pd *pd = list_entry(node, struct pd, handle.node);

		atomic_store(&pd->users, 0);
		if (is_destroyed(&pd->handle))
			hca_unimport_pd(context, pd);
		else
			hca_dealloc_pd(context, pd);
		close_leave("protection domain", &context->pds, node);
	}
}

/* The lists of a context, in the order in which objects have to be destroyed. */
static const struct { const char *one, *more, *call; size_t list; } close_kinds[] = {
	{ "flow", "flows", "ibv_destroy_flow", offsetof(struct hca_context, flows) },
	{ "set of counters", "sets of counters", "ibv_destroy_counters", offsetof(struct hca_context, counters) },
	{ "QP", "QPs", "ibv_destroy_qp", offsetof(struct hca_context, qps) },
	{ "completion counter", "completion counters", "ibv_destroy_comp_cntr",
	  offsetof(struct hca_context, comp_counters) },
	{ "table of work queues", "tables of work queues", "ibv_destroy_rwq_ind_table",
	  offsetof(struct hca_context, rwq_tables) },
	{ "work queue", "work queues", "ibv_destroy_wq", offsetof(struct hca_context, wqs) },
	{ "SRQ", "SRQs", "ibv_destroy_srq", offsetof(struct hca_context, srqs) },
	{ "XRC domain", "XRC domains", "ibv_close_xrcd", offsetof(struct hca_context, xrcds) },
	{ "CQ", "CQs", "ibv_destroy_cq", offsetof(struct hca_context, cqs) },
	{ "completion channel", "completion channels", "ibv_destroy_comp_channel",
	  offsetof(struct hca_context, channels) },
	{ "memory window", "memory windows", "ibv_dealloc_mw", offsetof(struct hca_context, mws) },
	{ "region", "regions", "ibv_dereg_mr", offsetof(struct hca_context, mrs) },
	{ "device memory", "device memories", "ibv_free_dm", offsetof(struct hca_context, dms) },
	{ "address handle", "address handles", "ibv_destroy_ah", offsetof(struct hca_context, ahs) },
	{ "PD", "PDs", "ibv_dealloc_pd", offsetof(struct hca_context, pds) },
};

void file_explain_left(struct context_file *file, struct hca *hca)
{
	char words[400] = "";
	const char *first = NULL;
	struct list *context, *node;
	size_t used = 0;

	if (!explaining())
		return;
	lock_acquire(&hca->objects);
	for (unsigned i = 0; i < sizeof(close_kinds) / sizeof(close_kinds[0]); i++) {
		unsigned count = 0;

		list_for_each(context, &file->contexts) {
			char *of = (char *)list_entry(context, struct hca_context, file_node);

			list_for_each(node, (struct list *)(of + close_kinds[i].list))
				count++;
		}
		if (!count || used >= sizeof(words))
			continue;
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%u %s", used ? ", " : "", count,
					 count == 1 ? close_kinds[i].one : close_kinds[i].more);
		if (!first)
			first = close_kinds[i].call;
	}
	lock_release(&hca->objects);
	if (first)
		explain("ibv_close_device: %s of the device still exist, and end with it: destroy them "
			"first, beginning with %s; the application's handles are invalid now", words, first);
}

void file_destroy_objects(struct context_file *file)
{
	static void (*const kinds[])(struct hca_context * context) = {
		close_flows,   close_counters, close_qps, close_comp_counters, close_tables, close_wqs,
		close_srqs,    close_xrcds,    close_cqs, close_channels, close_windows,
		close_imports, close_mrs,      close_dms, close_ahs,	  close_pds,
	};
	struct list *node;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		list_for_each(node, &file->contexts)
			kinds[i](list_entry(node, struct hca_context, file_node));
}
