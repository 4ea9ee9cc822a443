/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues of a context and tables of them: ibv_create_wq(3), ibv_modify_wq(3), ibv_create_rwq_ind_table(3). */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"

/* ---- creation ---- */

/* @flags: enum ibv_wq_flags. */
static int check_wq_flags(const char *call, uint32_t flags)
{
	if (!(flags & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING))
		return 0;
	explain("%s: flags 0x%x: IBV_WQ_FLAGS_CVLAN_STRIPPING alone is possible: frame check "
		"sequences stay with the kernel, and a frame without a receive is dropped at once",
		call, flags);
	return EOPNOTSUPP;
}

static int wq_init_queue(struct wq *wq, const struct ibv_wq_init_attr *attr)
{
	const uint32_t sges = attr->max_sge ? attr->max_sge : 1;
	int err = recv_queue_init(&wq->queue, attr->max_wr, sges);

	if (err)
		return err;
	lock_init(&wq->lock);
	wq->recv = calloc(1, sizeof(*wq->recv) + sges * sizeof(struct ibv_sge));
	if (wq->recv)
		return 0;
	lock_destroy(&wq->lock);
	recv_queue_fini(&wq->queue);
	return ENOMEM;
}

static void wq_fill(struct hca_context *context, struct wq *wq, const struct ibv_wq_init_attr *attr)
{
	wq->pd = to_pd(attr->pd);
	wq->cq = to_cq(attr->cq);
	wq->async = context->async;
	wq->owner = context;
	wq->number = WQ_NUMBER_BIT | object_number(context->hca);
	list_init(&wq->fatal_event.node);
	wq->fatal_event.ibv.event_type = IBV_EVENT_WQ_FATAL;
	wq->fatal_event.ibv.element.wq = &wq->ibv;
	wq->ibv.pd = attr->pd;
	wq->ibv.cq = attr->cq;
	wq->ibv.wq_num = wq->ibv.handle = wq->number;
	wq->ibv.wq_type = attr->wq_type;
	wq->ibv.state = IBV_WQS_RESET;
	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS)
		atomic_init(&wq->strips_vlan, attr->create_flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
	atomic_fetch_add(&wq->pd->users, 1);
	atomic_fetch_add(&wq->cq->users, 1);
}

int hca_create_wq(struct hca_context *context, struct ibv_wq_init_attr *attr, struct wq **created)
{
	struct wq *wq;
	int err = 0;

	if (context_is_dead(context, "ibv_create_wq"))
		return EIO;
	if (attr->wq_type != IBV_WQT_RQ || !attr->pd || !attr->cq) {
		explain_refused("ibv_create_wq", EINVAL,
				"ibv_create_wq: wq_type must be IBV_WQT_RQ, with a pd and a cq");
		return EINVAL;
	}
	if (attr->max_wr < 1 || attr->max_wr > LIMIT_QP_WR || attr->max_sge > LIMIT_SGE) {
		explain_refused("ibv_create_wq", EINVAL,
				"ibv_create_wq: invalid max_wr %u or max_sge %u: expected 1 to %d and 0 to %d",
				attr->max_wr, attr->max_sge, LIMIT_QP_WR, LIMIT_SGE);
		return EINVAL;
	}
	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS)
		err = check_wq_flags("ibv_create_wq", attr->create_flags);
	if (!err)
		err = object_reserve(context->hca, OBJECT_WQ, "ibv_create_wq");
	if (err)
		return err;
	wq = calloc(1, sizeof(*wq));
	err = wq ? wq_init_queue(wq, attr) : ENOMEM;
	if (err) {
		free(wq);
		object_unreserve(context->hca, OBJECT_WQ);
		return err;
	}
	wq_fill(context, wq, attr);
	attr->max_wr = wq->queue.size;
	attr->max_sge = wq->queue.max_sge;
	object_enlist(context, &context->wqs, &wq->node);
	*created = wq;
	return 0;
}

int hca_destroy_wq(struct hca_context *context, struct wq *wq)
{
	uint32_t users = atomic_load(&wq->users);

	if (context_is_dead(context, "ibv_destroy_wq"))
		return EIO;
	if (users) {
		explain_refused_of("ibv_destroy_wq", EBUSY, OF(WQ, wq->number),
				"ibv_destroy_wq: wq 0x%07x is in %u entries of tables: destroy "
				"those first",
			wq->number, users);
		return EBUSY;
	}
	event_withdraw(wq->async, &wq->fatal_event.node);
	object_wait_for_acks(&wq->ibv.mutex, &wq->ibv.cond, &wq->ibv.events_completed,
			&wq->async_events_got,
			     &(struct ack_names){ "ibv_destroy_wq", "ibv_ack_async_event", &wq->fatal_event, 1 });
	object_delist(context, &wq->node);
	cq_clean(wq->cq, wq->number);
	atomic_fetch_sub(&wq->pd->users, 1);
	atomic_fetch_sub(&wq->cq->users, 1);
	pthread_mutex_destroy(&wq->ibv.mutex);
	pthread_cond_destroy(&wq->ibv.cond);
	recv_queue_fini(&wq->queue);
	lock_destroy(&wq->lock);
	free(wq->recv);
	free(wq);
	object_unreserve(context->hca, OBJECT_WQ);
	return 0;
}

/* ---- states ---- */

static const char *wq_state_name(enum ibv_wq_state state)
{
	static const char *const names[] = { "RESET", "RDY", "ERR" };

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

/* Those of the specification: RESET -> RDY; RDY and ERR -> RESET or ERR; each to itself. */
static bool wq_may_move(enum ibv_wq_state from, enum ibv_wq_state to)
{
	static const bool moves[3][3] = {
		[IBV_WQS_RESET] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true },
		[IBV_WQS_RDY] = { [IBV_WQS_RDY] = true, [IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true },
		[IBV_WQS_ERR] = { [IBV_WQS_ERR] = true, [IBV_WQS_RESET] = true },
	};

	return (unsigned)to < 3 && moves[from][to];
}

static int wq_check_modify(const struct wq *wq, const struct ibv_wq_attr *attr) REQUIRES(wq->lock)
{
	const uint32_t known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;

	if (attr->attr_mask & ~known) {
		explain_refused("ibv_modify_wq", EINVAL,
				"ibv_modify_wq: attr_mask 0x%x has unknown bits", attr->attr_mask);
		return EINVAL;
	}
	if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != wq->state) {
		explain_refused_of("ibv_modify_wq", EINVAL, OF(WQ, wq->number),
				"ibv_modify_wq: wq 0x%07x is in state %s, not %s as "
				"curr_wq_state says", wq->number,
			wq_state_name(wq->state), wq_state_name(attr->curr_wq_state));
		return EINVAL;
	}
	if (attr->attr_mask & IBV_WQ_ATTR_STATE && !wq_may_move(wq->state, attr->wq_state)) {
		explain_refused_of("ibv_modify_wq", EINVAL, OF(WQ, wq->number),
				"ibv_modify_wq: wq 0x%07x: %s -> %s is no transition: RESET goes "
				"to RDY, RDY to ERR and RESET, ERR to RESET",
			wq->number, wq_state_name(wq->state), wq_state_name(attr->wq_state));
		return EINVAL;
	}
	return attr->attr_mask & IBV_WQ_ATTR_FLAGS ? check_wq_flags("ibv_modify_wq",
			attr->flags_mask) : 0;
}

/* Receives that wait complete with an error (ERR) or are forgotten (RESET). */
static void wq_empty(struct wq *wq, bool flush, struct effects *effects) REQUIRES(wq->lock)
{
	while (wq->recv_taken || recv_queue_take(&wq->queue, wq->recv)) {
		const struct completion completion = { .wc = { .wr_id = wq->recv->wr_id,
							       .status = IBV_WC_WR_FLUSH_ERR,
							       .opcode = IBV_WC_RECV, .qp_num = wq->number },
						       .slot = { &wq->queue.slots, wq->recv->number, false } };

		wq->recv_taken = false;
		if (flush)
			cq_push_full(wq->cq, &completion, true, 0, effects);
	}
}

int hca_modify_wq(struct wq *wq, const struct ibv_wq_attr *attr)
{
	struct effects effects;
	int err;

	if (context_is_dead(wq->owner, "ibv_modify_wq"))
		return EIO;
	effects_init(&effects);
	lock_acquire(&wq->lock);
	err = wq_check_modify(wq, attr);
	if (!err && attr->attr_mask & IBV_WQ_ATTR_FLAGS && attr->flags_mask & IBV_WQ_FLAGS_CVLAN_STRIPPING)
		atomic_store(&wq->strips_vlan, attr->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
	if (!err && attr->attr_mask & IBV_WQ_ATTR_STATE) {
		wq->state = wq->ibv.state = attr->wq_state;
		if (wq->state != IBV_WQS_RDY)
			wq_empty(wq, wq->state == IBV_WQS_ERR, &effects);
		if (wq->state == IBV_WQS_RESET) {
			cq_clean(wq->cq, wq->number);
			recv_queue_emptied(&wq->queue);
		}
	}
	lock_release(&wq->lock);
	effects_apply(&effects);
	return err;
}

int hca_post_wq_recv(struct wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct effects effects;
	int err;

	if (context_is_dead(wq->owner, "ibv_post_wq_recv")) {
		*bad = wr;
		return EIO;
	}
	effects_init(&effects);
	lock_acquire(&wq->lock);
	/* In RESET, too, as with mlx5: they wait for RDY. */
	err = recv_queue_post_for(&wq->queue, wr, bad, EXPLAIN_WQ, wq->number);
	if (wq->state == IBV_WQS_ERR)
		wq_empty(wq, true, &effects);
	lock_release(&wq->lock);
	effects_apply(&effects);
	return err;
}

/* ---- tables ---- */

static int check_table(const struct ibv_rwq_ind_table_init_attr *attr)
{
	if (attr->comp_mask || attr->log_ind_tbl_size > LIMIT_RWQ_TABLE_LOG || !attr->ind_tbl) {
		explain_refused("ibv_create_rwq_ind_table", EINVAL,
				"ibv_create_rwq_ind_table: comp_mask 0x%x must be 0, "
				"log_ind_tbl_size %u at most %u, ind_tbl not "
			"NULL",
			attr->comp_mask, attr->log_ind_tbl_size, LIMIT_RWQ_TABLE_LOG);
		return EINVAL;
	}
	for (uint32_t i = 0; i < 1u << attr->log_ind_tbl_size; i++)
		if (!attr->ind_tbl[i]) {
			explain_refused("ibv_create_rwq_ind_table", EINVAL,
					"ibv_create_rwq_ind_table: entry %u is NULL", i);
			return EINVAL;
		}
	return 0;
}

int hca_create_rwq_table(struct hca_context *context, const struct ibv_rwq_ind_table_init_attr *attr,
			 struct rwq_table **created)
{
	struct rwq_table *table;
	uint32_t count;
	int err;

	if (context_is_dead(context, "ibv_create_rwq_ind_table"))
		return EIO;
	err = check_table(attr);
	if (!err)
		err = object_reserve(context->hca, OBJECT_RWQ_TABLE, "ibv_create_rwq_ind_table");
	if (err)
		return err;
	count = 1u << attr->log_ind_tbl_size;
	table = calloc(1, sizeof(*table) + count * sizeof(table->wq[0]));
	if (!table) {
		object_unreserve(context->hca, OBJECT_RWQ_TABLE);
		return ENOMEM;
	}
	table->mask = count - 1;
	table->owner = context;
	table->ibv.ind_tbl_num = table->ibv.ind_tbl_handle = (int)object_number(context->hca);
	for (uint32_t i = 0; i < count; i++) {
		table->wq[i] = to_wq(attr->ind_tbl[i]);
		atomic_fetch_add(&table->wq[i]->users, 1);
	}
	object_enlist(context, &context->rwq_tables, &table->node);
	*created = table;
	return 0;
}

int hca_destroy_rwq_table(struct hca_context *context, struct rwq_table *table)
{
	uint32_t users = atomic_load(&table->users);

	if (context_is_dead(context, "ibv_destroy_rwq_ind_table"))
		return EIO;
	if (users) {
		explain_refused("ibv_destroy_rwq_ind_table", EBUSY,
				"ibv_destroy_rwq_ind_table: %u QPs spread their frames over it: "
				"destroy them first", users);
		return EBUSY;
	}
	object_delist(context, &table->node);
	for (uint32_t i = 0; i <= table->mask; i++)
		atomic_fetch_sub(&table->wq[i]->users, 1);
	free(table);
	object_unreserve(context->hca, OBJECT_RWQ_TABLE);
	return 0;
}
