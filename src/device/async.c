/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of a context (ibv_get_async_event(3)). */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"

static void async_free(struct async_event *event)
{
	if (event->allocated)
		free(event);
}

void async_drop(struct event_queue *queue)
{
	struct list *node;

	while ((node = event_queue_take(queue)))
		async_free(list_entry(node, struct async_event, node));
}

int hca_async_fd(const struct hca_context *context)
{
	return context->async_fd;
}

int hca_command_fd(const struct hca_context *context)
{
	return context->command_fd;
}

/*
 * QPs keep their index: the P_Key behind it changes, and with it who may send to them without packets. The table
 * has changed before: a QP that is modified meanwhile reads it after this, or is found here.
 */
static void take_pkeys(struct hca *hca, struct hca_context *context, const struct port *port)
	REQUIRES(hca->objects)
{
	struct list *node;

	list_for_each(node, &context->qps) {
		struct qp *qp = list_entry(node, struct qp, node);
		uint16_t pkey;

		lock_acquire(&qp->lock);
		pkey = qp->attr.port_num == port->number ?
			       context_pkey(context, port->number, qp->attr.pkey_index) : qp->pkey;
		if (pkey != qp->pkey)
			qp_end_pairing(qp);
		qp->pkey = pkey;
		lock_release(&qp->lock);
	}
}

void contexts_raise(void *device, struct port *port, enum ibv_event_type type)
{
	struct hca *hca = device;
	struct effects effects;
	struct list *node;

	/* VERBATIM_SPEED: it stays what the user says. */
	if (type == (enum ibv_event_type)EVENT_SPEED_CHANGE && hca->config.speed)
		return;
	effects_init(&effects);
	lock_acquire(&hca->objects);
	list_for_each(node, &hca->contexts) {
		struct hca_context *context = list_entry(node, struct hca_context, node);
		bool concerned = context_port(context, port->number) == port && !context->closed;
		struct async_event *event;

		if (!concerned)
			continue;
		if (type == IBV_EVENT_PKEY_CHANGE)
			take_pkeys(hca, context, port);
		event = calloc(1, sizeof(*event));
		if (!event) {
			log_error("device %s: out of memory: event %d is lost", port->name, type);
			continue;
		}
		list_init(&event->node);
		event->allocated = true;
		event->ibv.event_type = type;
		event->ibv.element.port_num = port->number;
		event_queue_add(context->async, &event->node, &effects);
		if (effects_full(&effects))
			effects_apply(&effects);
	}
	lock_release(&hca->objects);
	effects_apply(&effects);
}

const char *async_event_name(enum ibv_event_type type)
{
	switch ((int)type) {
	case EVENT_SPEED_CHANGE:
		return "IBV_EVENT_DEVICE_SPEED_CHANGE";
	case IBV_EVENT_CQ_ERR:
		return "IBV_EVENT_CQ_ERR";
	case IBV_EVENT_SRQ_ERR:
		return "IBV_EVENT_SRQ_ERR";
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return "IBV_EVENT_SRQ_LIMIT_REACHED";
	case IBV_EVENT_WQ_FATAL:
		return "IBV_EVENT_WQ_FATAL";
	case IBV_EVENT_QP_FATAL:
		return "IBV_EVENT_QP_FATAL";
	case IBV_EVENT_QP_REQ_ERR:
		return "IBV_EVENT_QP_REQ_ERR";
	case IBV_EVENT_QP_ACCESS_ERR:
		return "IBV_EVENT_QP_ACCESS_ERR";
	case IBV_EVENT_COMM_EST:
		return "IBV_EVENT_COMM_EST";
	case IBV_EVENT_SQ_DRAINED:
		return "IBV_EVENT_SQ_DRAINED";
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return "IBV_EVENT_QP_LAST_WQE_REACHED";
	default:
		return "of ibv_get_async_event";
	}
}

/* The object of an event, and its counters; of a port: all NULL. */
struct async_object {
	uint32_t *got, *acknowledged;
	struct async_event *events;	/* of its kinds, one of each */
	unsigned count;
	pthread_mutex_t *mutex;		/* of acknowledged */
	pthread_cond_t *cond;
};

static struct async_object async_object(const struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_wq *wq = event->element.wq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return (struct async_object){ &to_cq(cq)->async_events_got, &cq->async_events_completed,
					      &to_cq(cq)->error_event, 1, &cq->mutex, &cq->cond };
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return (struct async_object){ &to_srq(srq)->async_events_got, &srq->events_completed,
					      &to_srq(srq)->limit_event, 1, &srq->mutex, &srq->cond };
	case IBV_EVENT_WQ_FATAL:
		return (struct async_object){ &to_wq(wq)->async_events_got, &wq->events_completed,
					      &to_wq(wq)->fatal_event, 1, &wq->mutex, &wq->cond };
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return (struct async_object){ &to_qp(qp)->async_events_got, &qp->events_completed,
					      to_qp(qp)->event, QP_EVENTS, &qp->mutex, &qp->cond };
	default:
		return (struct async_object){ .got = NULL };
	}
}

const void *hca_async_object(const struct ibv_async_event *event)
{
	return async_object(event).got ? event->element.qp : NULL;
}

/* One more of its kind is held, or one fewer: to explain. */
static void async_count_held(const struct async_object *object, enum ibv_event_type type, int by)
{
	for (unsigned i = 0; i < object->count; i++)
		if (object->events[i].ibv.event_type == type)
			atomic_fetch_add(&object->events[i].held, (uint32_t)by);
}

/* Under the queue's lock: the object's destroyer finds the event in the queue, or knows that it was got. */
static void async_copy(struct list *node, void *event)
{
	const struct async_event *taken = list_entry(node, struct async_event, node);
	struct async_object object = async_object(&taken->ibv);

	*(struct ibv_async_event *)event = taken->ibv;
	if (!object.got)
		return;
	++*object.got;
	async_count_held(&object, taken->ibv.event_type, 1);
}

int hca_get_async_event(struct hca_context *context, struct ibv_async_event *event)
{
	if (context_is_dead(context, "ibv_get_async_event"))
		return EIO;
	for (;;) {
		int err = event_fd_wait(context->async_fd);
		struct list *node;

		if (err == ERESTART)
			continue;
		if (err)
			return err;
		node = event_queue_take_with(context->async, async_copy, event);
		if (!node)
			continue;	/* its object was destroyed meanwhile */
		if (!async_object(event).got)	/* a port's: nobody else ends it */
			async_free(list_entry(node, struct async_event, node));
		return 0;
	}
}

bool hca_has_async_event(struct hca_context *context, const void *object, uint64_t types,
			 enum ibv_event_type *type)
{
	struct event_queue *queue = context->async;
	bool found = false;
	struct list *node;

	lock_acquire(&queue->lock);
	list_for_each(node, &queue->events) {
		const struct async_event *event = list_entry(node, struct async_event, node);

		if ((unsigned)event->ibv.event_type > 63 || !(types >> event->ibv.event_type & 1) ||
		    (object && event->ibv.element.qp != object))
			continue;
		*type = event->ibv.event_type;
		found = true;
		break;
	}
	lock_release(&queue->lock);
	return found;
}

void hca_ack_async_event(struct ibv_async_event *event)
{
	struct async_object object = async_object(event);

	if (!object.acknowledged)
		return;
	pthread_mutex_lock(object.mutex);
	++*object.acknowledged;
	async_count_held(&object, event->event_type, -1);
	pthread_cond_signal(object.cond);
	pthread_mutex_unlock(object.mutex);
}
