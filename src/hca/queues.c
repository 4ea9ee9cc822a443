/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels, CQs and SRQs of a context: creation, events and their acknowledgement,
 * destruction (which waits until the application has acknowledged what it fetched, as
 * ibv_destroy_cq(3) and ibv_destroy_srq(3) say), and polling, which drives the device.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/call.h"
#include "base/log.h"
#include "hca/internal.h"
#include "hca/limits.h"
#include "hca/sleep.h"
#include "local/ring.h"

#define SKIPS 8u		/* of so many empty polls all but one look at shared memory only */
#define YIELD_EVERY	50u	/* empty polls in a row after which a core is given to others */
#define DRIVE_EVERY	16u	/* polls of a CQ that is not empty between drives */

/* A handler may leave from here for good: what waits can be destroyed again, then. */
void hca_wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked,
		       const uint32_t *got)
{
	pthread_mutex_lock(mutex);
	while (*acked != *got) {
		call_cond_wait(cond, mutex);
		if (!call_is_owed())
			continue;
		pthread_mutex_unlock(mutex);
		call_pause();
		pthread_mutex_lock(mutex);
	}
	pthread_mutex_unlock(mutex);
}

/* ---- completion channels ---- */

static void free_channel(struct event_queue *queue)
{
	struct comp_channel *channel = container_of(queue, struct comp_channel, queue);

	close(queue->fd);
	lock_destroy(&queue->lock);
	free(channel);
}

int hca_create_comp_channel(struct hca_context *context, struct comp_channel **created)
{
	struct comp_channel *channel;
	int fd;

	if (context_is_dead(context, "create_comp_channel"))
		return EIO;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return ENOMEM;
	fd = event_fd_open();
	if (fd < 0) {
		free(channel);
		return errno;
	}
	event_queue_init(&channel->queue, fd, free_channel);
	channel->ibv.fd = fd;
	channel->owner = context;
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->channels, &channel->node);
	lock_release(&context->hca->objects);
	*created = channel;
	return 0;
}

int hca_destroy_comp_channel(struct hca_context *context, struct comp_channel *channel)
{
	int users;

	if (context_is_dead(context, "destroy_comp_channel"))
		return EIO;
	lock_acquire(&context->hca->objects);
	users = channel->ibv.refcnt;
	if (!users)
		list_remove(&channel->node);
	lock_release(&context->hca->objects);
	if (users) {
		explain("destroy_comp_channel: %d CQs use the channel: destroy them first", users);
		return EBUSY;
	}
	event_queue_put(&channel->queue);
	return 0;
}

int hca_get_cq_event(struct comp_channel *channel, struct cq **got)
{
	const struct hca_context *context = channel->owner;

	for (;;) {
		struct list *node;
		int err = context->abandoned ? 0 : stand_in(context->hca, &channel->queue);

		if (!err)
			err = event_fd_wait(channel->ibv.fd);
		if (err == ERESTART)
			continue;
		if (err)
			return err;
		node = event_queue_take(&channel->queue);
		if (node) {
			struct cq *cq = container_of(node, struct cq, comp_event.node);

			pthread_mutex_lock(&cq->ibv.mutex);
			cq->comp_events_got++;
			pthread_mutex_unlock(&cq->ibv.mutex);
			*got = cq;
			return 0;
		}
	}
}

void hca_ack_cq_events(struct cq *cq, unsigned count)
{
	pthread_mutex_lock(&cq->ibv.mutex);
	cq->ibv.comp_events_completed += count;
	pthread_cond_signal(&cq->ibv.cond);
	pthread_mutex_unlock(&cq->ibv.mutex);
}

/* ---- completion queues ---- */

static int check_cqe(const struct hca_context *context, uint32_t cqe, const char *who)
{
	if (cqe >= 1 && cqe <= context->hca->config.max_cqe)
		return 0;
	explain("%s: %u entries: 1 to %u are possible (max_cqe)", who, cqe,
		context->hca->config.max_cqe);
	return EINVAL;
}

static void enlist_cq(struct hca_context *context, struct cq *cq)
{
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->cqs, &cq->node);
	if (cq->channel)
		cq->channel->ibv.refcnt++;
	lock_release(&context->hca->objects);
}

int hca_create_cq(struct hca_context *context, const struct ibv_cq_init_attr_ex *attr,
		  struct cq **created)
{
	struct cq *cq;
	int err;

	if (context_is_dead(context, "create_cq"))
		return EIO;
	err = check_cqe(context, attr->cqe, "create_cq");
	if (err)
		return err;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return ENOMEM;
	err = cq_init(cq, attr->cqe);
	if (err) {
		free(cq);
		return err;
	}
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	if (attr->channel)
		cq->channel = (struct comp_channel *)attr->channel;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		cq->ignore_overrun = true;
	cq->stamped = attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	cq->owner = context;
	cq->async = context->async;
	list_init(&cq->error_event.node);
	cq->error_event.ibv.event_type = IBV_EVENT_CQ_ERR;
	cq->error_event.ibv.element.cq = (struct ibv_cq *)&cq->ibv;
	cq->number = hca_next_number(context->hca);
	cq->ibv.handle = cq->number;
	cq->ibv.cqe = (int)attr->cqe;
	enlist_cq(context, cq);
	*created = cq;
	return 0;
}

int hca_resize_cq(struct cq *cq, int cqe)
{
	int err;

	if (context_is_dead(cq->owner, "resize_cq"))
		return EIO;
	err = check_cqe(cq->owner, cqe < 0 ? 0 : (uint32_t)cqe, "resize_cq");
	if (!err)
		err = cq_resize(cq, (uint32_t)cqe);
	if (!err)
		cq->ibv.cqe = cqe;
	return err;
}

int hca_destroy_cq(struct hca_context *context, struct cq *cq)
{
	struct hca *hca = context->hca;
	uint32_t users = atomic_load(&cq->users);

	if (context_is_dead(context, "destroy_cq"))
		return EIO;
	if (users) {
		explain("destroy_cq: cq %u is in use by %u queues of QPs: destroy them first",
			cq->number, users);
		return EBUSY;
	}
	if (cq->channel)
		event_queue_cancel(&cq->channel->queue, &cq->comp_event.node);
	event_queue_cancel(cq->async, &cq->error_event.node);
	hca_wait_for_acks(&cq->ibv.mutex, &cq->ibv.cond, &cq->ibv.comp_events_completed,
			  &cq->comp_events_got);
	hca_wait_for_acks(&cq->ibv.mutex, &cq->ibv.cond, &cq->ibv.async_events_completed,
			  &cq->async_events_got);
	lock_acquire(&hca->objects);
	list_remove(&cq->node);
	if (cq->channel)
		cq->channel->ibv.refcnt--;
	lock_release(&hca->objects);
	pthread_mutex_destroy(&cq->ibv.mutex);
	pthread_cond_destroy(&cq->ibv.cond);
	cq_fini(cq);
	free(cq);
	return 0;
}

/*
 * Polling: an empty CQ drives the device and is looked at again. Two polling processes on two
 * cores leave none for anybody else, so a core is yielded after some tens of empty polls.
 */
static uint32_t count_poll(_Atomic uint32_t *counter)
{
	/* Two threads on one CQ may lose a count: it decides about yielding only. */
	uint32_t n = atomic_load_explicit(counter, memory_order_relaxed) + 1;

	atomic_store_explicit(counter, n, memory_order_relaxed);
	return n;
}

static void drive_for(struct cq *cq)
{
	struct hca_context *context = cq->owner;
	unsigned packets;

	hca_drive(context->hca, cq, &packets);
}

static void found_nothing(struct cq *cq)
{
	if (count_poll(&cq->empty_polls) % YIELD_EVERY == 0)
		thread_yield();
}

/*
 * A poll that finds the CQ empty and no message in shared memory need not be a whole pass, which is
 * ten times as long: most of what polling waits for comes that way where it comes at all.
 */
static bool can_skip(const struct cq *cq)
{
	struct hca *hca = ((struct hca_context *)cq->owner)->hca;

	return hca->local.ring && ring_has_channels(hca->local.ring) &&
	       atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) % SKIPS &&
	       !ring_pending(hca->local.ring) &&
	       !atomic_load_explicit(&hca->local.fetches_due, memory_order_relaxed) &&
	       !atomic_load_explicit(&hca->run_queue.count, memory_order_relaxed);
}

static bool before_poll(struct cq *cq)
{
	if (((struct hca_context *)cq->owner)->abandoned)
		return false;
	if (cq_is_empty(cq)) {
		if (!can_skip(cq))
			drive_for(cq);
	} else if (count_poll(&cq->full_polls) % DRIVE_EVERY == 0) {
		drive_for(cq);
	}
	return true;
}

int hca_poll_cq(struct cq *cq, int count, struct ibv_wc *wc)
{
	int got;

	if (!before_poll(cq))
		return -1;
	got = cq_take(cq, count, wc);
	if (got)
		atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	else
		found_nothing(cq);
	return got;
}

int hca_poll_cq_one(struct cq *cq, struct completion *completion)
{
	int got;

	if (!before_poll(cq))
		return 0;
	got = cq_take_one(cq, completion);
	if (got)
		atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	else
		found_nothing(cq);
	return got;
}

int hca_req_notify_cq(struct cq *cq, bool solicited_only)
{
	struct hca_context *context = cq->owner;

	if (context->abandoned)
		return EIO;
	cq_arm(cq, solicited_only);
	if (local_await_all(&context->hca->local))
		worker_notice(context->hca, 0);
	worker_expect_sleepers(context->hca);
	return 0;
}

/* ---- shared receive queues ---- */

static int check_srq(const struct ibv_srq_attr *attr)
{
	if (attr->max_wr < 1 || attr->max_wr > LIMIT_SRQ_WR || attr->max_sge > LIMIT_SGE) {
		explain("create_srq: max_wr %u, max_sge %u: 1 to %d and up to %d are possible",
			attr->max_wr, attr->max_sge, LIMIT_SRQ_WR, LIMIT_SGE);
		return EINVAL;
	}
	return 0;
}

int hca_create_srq(struct hca_context *context, const struct ibv_srq_init_attr_ex *attr,
		   struct srq **created)
{
	struct srq *srq;
	int err;

	if (context_is_dead(context, "create_srq"))
		return EIO;
	err = check_srq(&attr->attr);
	if (err)
		return err;
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC) {
		explain("create_srq: srq_type %d: only basic SRQs are supported", attr->srq_type);
		return EOPNOTSUPP;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return ENOMEM;
	err = recv_queue_init(&srq->queue, attr->attr.max_wr,
			      attr->attr.max_sge ? attr->attr.max_sge : 1);
	if (err) {
		free(srq);
		return err;
	}
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	srq->pd = to_pd(attr->pd)->number;
	srq->ibv.pd = attr->pd;
	atomic_fetch_add(&to_pd(attr->pd)->users, 1);
	srq->async = context->async;
	list_init(&srq->limit_event.node);
	srq->limit_event.ibv.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	srq->limit_event.ibv.element.srq = &srq->ibv;
	srq->owner = context;
	srq->number = hca_next_number(context->hca);
	srq->ibv.handle = srq->number;
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->srqs, &srq->node);
	lock_release(&context->hca->objects);
	*created = srq;
	return 0;
}

int hca_modify_srq(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct effects effects;
	int err;

	if (context_is_dead(srq->owner, "modify_srq"))
		return EIO;
	if ((mask & IBV_SRQ_MAX_WR) && (attr->max_wr < 1 || attr->max_wr > LIMIT_SRQ_WR)) {
		explain("modify_srq: max_wr %u: 1 to %d are possible", attr->max_wr, LIMIT_SRQ_WR);
		return EINVAL;
	}
	effects_init(&effects);
	err = srq_modify(srq, attr, mask, &effects);
	effects_apply(&effects);
	return err;
}

int hca_query_srq(struct srq *srq, struct ibv_srq_attr *attr)
{
	lock_acquire(&srq->queue.lock);
	attr->max_wr = srq->queue.size;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	lock_release(&srq->queue.lock);
	return 0;
}

int hca_destroy_srq(struct hca_context *context, struct srq *srq)
{
	uint32_t users = atomic_load(&srq->users);

	if (context_is_dead(context, "destroy_srq"))
		return EIO;
	if (users) {
		explain("destroy_srq: srq %u is in use by %u QPs: destroy them first", srq->number,
			users);
		return EBUSY;
	}
	event_queue_cancel(srq->async, &srq->limit_event.node);
	hca_wait_for_acks(&srq->ibv.mutex, &srq->ibv.cond, &srq->ibv.events_completed,
			  &srq->async_events_got);
	lock_acquire(&context->hca->objects);
	list_remove(&srq->node);
	lock_release(&context->hca->objects);
	atomic_fetch_sub(&to_pd(srq->ibv.pd)->users, 1);
	pthread_mutex_destroy(&srq->ibv.mutex);
	pthread_cond_destroy(&srq->ibv.cond);
	recv_queue_fini(&srq->queue);
	free(srq);
	return 0;
}

int hca_post_srq_recv(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return srq_post(srq, wr, bad);
}
