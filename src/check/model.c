/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program has: how its calls change it (model.h). Looking things up: object.c. */
#include "check/model.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

static struct check_object **numbers_of(struct check_model *model,
					const struct check_object *object)
{
	struct check_object **table = object->kind == CHECK_QP	 ? model->qps
				      : object->kind == CHECK_MR ? model->regions
								 : NULL;

	return table ? &table[check_place(object->number)] : NULL;
}

static void model_forget(struct check_model *model, struct check_object *object)
{
	struct check_object **at = &model->table[check_place(object->handle)];

	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	at = numbers_of(model, object);
	if (at) {
		while (*at != object)
			at = &(*at)->by_number;
		*at = object->by_number;
	}
	if (object->kind == CHECK_MR)
		model->registered -= object->bytes;
	check_queue_free(&object->sends);
	check_queue_free(&object->receives);
	free(object);
}

static void model_made(struct check_model *model, const struct check_record *record)
{
	struct check_object *object = check_find(model, record->object), **at;

	if (object)	/* its end was not told */
		model_forget(model, object);
	object = calloc(1, sizeof(*object));
	if (!object)
		return;
	object->handle = record->object;
	object->kind = record->kind;
	object->number = record->number ? record->number : model->made[record->kind] + 1;
	object->told = record->of_manager;
	model->made[record->kind]++;
	object->made = record->stack;
	object->context = record->context;
	object->pd = record->pd;
	object->send_cq = record->send_cq;
	object->recv_cq = record->recv_cq;
	object->srq = record->srq;
	object->channel = record->channel;
	object->domain = record->domain;
	object->other = record->other;
	object->one_thread = record->one_thread;
	object->entries = record->count;
	object->type = record->type;
	object->state = record->state;
	object->max_send_wr = record->max_send_wr;
	object->max_send_sge = record->max_send_sge;
	object->max_recv_sge = record->max_recv_sge;
	object->max_inline = record->max_inline;
	object->signal_all = record->signal_all;
	object->address = record->address;
	object->bytes = record->bytes;
	object->rkey = record->rkey;
	object->access = record->access;
	object->alone = true;
	object->step = record->kind == CHECK_ID ? record->state : 0;
	if (object->kind == CHECK_MR)
		model->registered += object->bytes;
	at = &model->table[check_place(object->handle)];
	object->next = *at;
	*at = object;
	at = numbers_of(model, object);
	if (at) {
		object->by_number = *at;
		*at = object;
	}
}

static void model_cm_call(struct check_model *model, const struct check_record *record)
{
	static const struct {
		const char *call;
		enum check_step step;
	} steps[] = {
		{ "rdma_resolve_addr", CHECK_STEP_ADDRESS },
		{ "rdma_resolve_route", CHECK_STEP_ROUTE },
		{ "rdma_listen", CHECK_STEP_LISTENS },
		{ "rdma_connect", CHECK_STEP_BEYOND },
		{ "rdma_accept", CHECK_STEP_BEYOND },
		{ "rdma_reject", CHECK_STEP_BEYOND },
	};
	struct check_object *id = check_find(model, record->object);

	for (unsigned i = 0; id && !record->error && i < sizeof(steps) / sizeof(*steps); i++)
		if (!strcmp(steps[i].call, record->call))
			id->step = steps[i].step;
}

static void cq_due(const struct check_model *model, uint64_t handle, int64_t more)
{
	struct check_object *cq = handle ? check_find(model, handle) : NULL;

	if (!cq)
		return;
	cq->due = (uint32_t)(more < 0 && cq->due < (uint64_t)-more ? 0 : cq->due + more);
	if (more > 0)
		cq->posted_since_arm = true;
}

static void qp_empty(struct check_model *model, struct check_object *qp)
{
	cq_due(model, qp->send_cq, -(int64_t)qp->sends.signaled);
	cq_due(model, qp->recv_cq, -(int64_t)qp->receives.count);
	check_queue_empty(&qp->sends);
	check_queue_empty(&qp->receives);
}

static void model_posted(struct check_model *model, const struct check_record *record)
{
	struct check_object *object = check_find(model, record->object);
	bool send = record->what == CHECK_POST_SEND;

	if (!object || !check_queue_add(send ? &object->sends : &object->receives, record))
		return;
	if (send)
		cq_due(model, object->send_cq, record->signaled);
	else if (object->kind == CHECK_QP)
		cq_due(model, object->recv_cq, 1);
}

static void model_post_failed(struct check_model *model, const struct check_record *record)
{
	struct check_object *object = check_find(model, record->object);
	uint32_t signaled;

	if (!object)
		return;
	signaled = check_queue_drop_newest(record->receive ? &object->receives : &object->sends,
					   record->count);
	if (!record->receive)
		cq_due(model, object->send_cq, -(int64_t)signaled);
	else if (object->kind == CHECK_QP)
		cq_due(model, object->recv_cq, -(int64_t)record->count);
}

static void model_completion(struct check_model *model, const struct check_record *record)
{
	struct check_object *qp = check_find_qp(model, record->number), *srq;
	bool flushed = record->status == IBV_WC_WR_FLUSH_ERR;

	if (!qp)
		return;
	if (record->status != IBV_WC_SUCCESS) {
		qp->failed = true;
		qp->state = IBV_QPS_ERR;
	}
	srq = qp->srq ? check_find(model, qp->srq) : NULL;
	/* The opcode of one that failed is not told: the queue that knows the wr_id has it, the
	 * send queue first. */
	if (record->status != IBV_WC_SUCCESS ? qp->sends.count == 0 : record->receive) {
		if (srq)
			check_queue_take(&srq->receives, record->wr_id);
		else if (check_queue_take(&qp->receives, record->wr_id))
			cq_due(model, qp->recv_cq, -1);
		return;
	}
	if (record->status != IBV_WC_SUCCESS) {
		uint32_t before = qp->sends.count;

		cq_due(model, qp->send_cq,
		       -(int64_t)check_queue_complete(&qp->sends, record->wr_id, true));
		if (qp->sends.count == before && !srq &&
		    check_queue_take(&qp->receives, record->wr_id))
			cq_due(model, qp->recv_cq, -1);
		return;
	}
	cq_due(model, qp->send_cq,
	       -(int64_t)check_queue_complete(&qp->sends, record->wr_id, flushed));
}

static void cq_used(struct check_object *cq, uint64_t thread)
{
	if (cq->used && cq->thread != thread)
		cq->alone = false;
	cq->thread = thread;
	cq->used = true;
}

static void model_polled(struct check_model *model, const struct check_record *record)
{
	struct check_object *cq = check_find(model, record->object);

	if (!cq)
		return;
	cq_used(cq, record->thread);
	cq->emptied = record->got < record->count;
	cq->polled_since_arm = true;
	cq->standing -= record->got < cq->standing ? record->got : cq->standing;
}

/* Something may complete into it that was posted before: of any QP, whose peer may send at any
 * time. */
static bool cq_is_expecting(const struct check_model *model, const struct check_object *cq)
{
	for (const struct check_object *qp = check_next(model, NULL); qp;
	     qp = check_next(model, qp)) {
		const struct check_object *srq;

		if (qp->kind != CHECK_QP)
			continue;
		if (qp->send_cq == cq->handle && qp->sends.signaled)
			return true;
		if (qp->recv_cq != cq->handle ||
		    (qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD))
			continue;
		srq = qp->srq ? check_find(model, qp->srq) : NULL;
		if (srq ? srq->receives.count : qp->receives.count)
			return true;
	}
	return false;
}

static void model_armed(struct check_model *model, const struct check_record *record)
{
	struct check_object *cq = check_find(model, record->object);

	if (!cq)
		return;
	cq_used(cq, record->thread);
	cq->emptied_at_arm = cq->emptied;
	cq->standing = record->count;
	cq->due_at_arm = cq->emptied && cq_is_expecting(model, cq);
	cq->armed = cq->ever_armed = true;
	cq->polled_since_arm = cq->posted_since_arm = cq->emptied = false;
	cq->arm_stack = record->stack;
}

/* Of a CQ, or of an id. */
static void model_event(struct check_object *object, const struct check_record *record)
{
	object->several_got |= object->got && object->got_thread != record->thread;
	object->got_thread = record->thread;
	object->got++;
}

void check_model_take(struct check_model *model, const struct check_record *record)
{
	struct check_object *object = check_find(model, record->object), *context;

	model->at_end |= record->what == CHECK_END;
	model->refusal = 0;
	model->look(model, record);
	switch (record->what) {
	case CHECK_ASK:
		if (object && record->kind == CHECK_QP && record->dest_rd_atomic && !model->refusal)
			object->dest_rd_atomic = record->dest_rd_atomic;
		break;
	case CHECK_LOOK:	/* the program was told of the device */
		if (record->limits)
			memcpy(model->own, record->limits, sizeof(model->own));
		else
			model->has_looked_at_gids = true;
		break;
	case CHECK_MADE:
		model_made(model, record);
		break;
	case CHECK_ENDING:
		if (object)
			object->ending = true;
		break;
	case CHECK_ENDED:
		if (object && record->error)
			object->ending = false;
		else if (object) {
			if (object->kind == CHECK_QP)
				qp_empty(model, object);
			model_forget(model, object);
		}
		break;
	case CHECK_STATE:
		if (!object)
			break;
		object->state = record->state;
		if (record->state == IBV_QPS_RESET) {
			qp_empty(model, object);
			object->failed = false;
		}
		break;
	case CHECK_POST_SEND:
	case CHECK_POST_RECV:
		model_posted(model, record);
		break;
	case CHECK_POST_FAILED:
		model_post_failed(model, record);
		break;
	case CHECK_POLLED:
		model_polled(model, record);
		break;
	case CHECK_COMPLETION:
		model_completion(model, record);
		break;
	case CHECK_ARM:
		model_armed(model, record);
		break;
	case CHECK_EVENT:
		if (object) {
			object->armed = false;
			model_event(object, record);
		}
		break;
	case CHECK_ACK:
		if (object)
			object->acknowledged += record->count;
		break;
	case CHECK_ASYNC:
		context = check_find(model, record->context);
		if (context)
			context->reads_async = true;
		if (object) {
			object->async_got++;
			object->async_thread = record->thread;
		}
		break;
	case CHECK_ASYNC_ACK:
		if (object)
			object->async_acknowledged++;
		break;
	case CHECK_CM_CALL:
		model_cm_call(model, record);
		break;
	case CHECK_CM_EVENT:
		if (!object)
			break;
		model_event(object, record);
		if (record->state == RDMA_CM_EVENT_ADDR_RESOLVED)
			object->step = CHECK_STEP_ADDRESS_IS;
		else if (record->state == RDMA_CM_EVENT_ROUTE_RESOLVED)
			object->step = CHECK_STEP_ROUTE_IS;
		break;
	case CHECK_CM_ACK:
		if (object)
			object->acknowledged++;
		break;
	case CHECK_GONE:
	case CHECK_READ:
	case CHECK_WAIT:
	case CHECK_END:
	case CHECK_WHATS:
		break;
	}
}

void check_model_free(struct check_model *model)
{
	for (size_t place = 0; place < CHECK_TABLE; place++)
		while (model->table[place])
			model_forget(model, model->table[place]);
}
