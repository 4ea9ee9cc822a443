/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of a context: creation and destruction. The rules of the state machine are in
 * object/, the behaviour in each state in transport/.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"
#include "object/tag_list.h"
#include "platform/wait.h"
#include "wire/tag_header.h"

/* What a QP costs besides its queues: the limits of docs/supported.md. The thread sanitizer's locks are larger. */
#ifndef CHECK_HELD_LOCKS
static_assert(sizeof(struct qp) + sizeof(struct qp_access) + sizeof(struct qp *) <= 2048,
	      "100,000 QPs take less than 200 MB");
#endif

#define RENDEZVOUS_MAX	64u	/* of a QP at a time, each a READ and a FIN; more wait (RNR) */

/* ---- numbers ---- */

/* Number the QP and make it findable. */
static int qp_enter(struct hca *hca, struct qp *qp) REQUIRES(hca->engine.progress, hca->objects)
{
	unsigned index;
	int err;

	if (hca->engine.qps.count >= hca->config.max_qp) {
		explain_refused("ibv_create_qp", ENOMEM,
				"ibv_create_qp: the process has reached its limit of %u QPs: raise "
			"VERBATIM_MAX_QP",
			hca->engine.qps.count);
		return ENOMEM;
	}
	err = qp_table_add(&hca->engine, qp, &index);
	if (!err)
		qp->access = arena_qp(hca->arena) + index;
	return err;
}

/* Nobody else knows it: not published yet, or taken down. */
static void qp_is_ours_alone(struct qp *qp) ASSERTS(qp->lock)
{
}

/* ---- creation ---- */

/*
 * A QP without a receive queue of its own is created whatever max_recv_wr and max_recv_sge say, and is
 * given 0 of both, as by mlx5 and the man page.
 */
static int check_caps(const struct ibv_qp_init_attr_ex *attr)
{
	const bool has_receives = !attr->srq && attr->qp_type != IBV_QPT_XRC_SEND;
	const struct ibv_qp_cap *cap = &attr->cap;

	if (cap->max_send_wr > LIMIT_QP_WR || (has_receives && cap->max_recv_wr > LIMIT_QP_WR)) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: max_send_wr %u or max_recv_wr %u exceeds %d "
				"(max_qp_wr)",
			cap->max_send_wr, cap->max_recv_wr, LIMIT_QP_WR);
		return EINVAL;
	}
	if (cap->max_send_sge > LIMIT_SGE || (has_receives && cap->max_recv_sge > LIMIT_SGE)) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: max_send_sge %u or max_recv_sge %u exceeds %d "
				"(max_sge)",
			cap->max_send_sge, cap->max_recv_sge, LIMIT_SGE);
		return EINVAL;
	}
	if (cap->max_inline_data > LIMIT_INLINE) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: max_inline_data %u exceeds %d",
			cap->max_inline_data, LIMIT_INLINE);
		return EINVAL;
	}
	return 0;
}

static int qp_check_srq(const struct ibv_qp_init_attr_ex *attr)
{
	const struct srq *srq = to_srq(attr->srq);

	if (srq->xrcd) {
		explain_refused_of("ibv_create_qp", EINVAL, OF(SRQ, srq->number),
				"ibv_create_qp: srq %u is an XRC SRQ, which requests to an "
				"XRC_RECV QP name: give the QP a basic one, or none", srq->number);
		return EINVAL;
	}
	if (srq->tags && attr->qp_type != IBV_QPT_RC) {
		explain_refused_of("ibv_create_qp", EINVAL, OF(SRQ, srq->number),
				"ibv_create_qp: srq %u is a tag-matching one, and the QP of type %s: "
				"tags are of RC only",
				srq->number, qp_type_name(attr->qp_type));
		return EINVAL;
	}
	return 0;
}

static int check_create(const struct ibv_qp_init_attr_ex *attr)
{
	int err = 0;

	if (!qp_type_is_supported(attr->qp_type)) {
		explain_refused("ibv_create_qp", EOPNOTSUPP,
				"ibv_create_qp: qp_type %d is not supported: use RC, UC, UD, RAW_PACKET, "
				"XRC_SEND or XRC_RECV", attr->qp_type);
		return EOPNOTSUPP;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		if ((attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) && attr->xrcd)
			return 0;
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: an XRC_RECV QP needs an XRC domain: set attr.xrcd "
				"(ibv_open_xrcd) and IBV_QP_INIT_ATTR_XRCD, in ibv_create_qp_ex");
		return EINVAL;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: no protection domain given");
		return EINVAL;
	}
	if (attr->qp_type == IBV_QPT_RAW_PACKET) {
		err = ethernet_check(attr);
		if (err || attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
			return err;
	}
	if (!attr->send_cq || (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND)) {
		explain_refused("ibv_create_qp", EINVAL,
				"ibv_create_qp: %s is NULL: a QP of type %s needs %s",
			attr->send_cq ? "recv_cq" : "send_cq", qp_type_name(attr->qp_type),
			attr->qp_type == IBV_QPT_XRC_SEND ? "it" : "both CQs");
		return EINVAL;
	}
	/* An XRC_SEND QP receives nothing: as Linux, its SRQ is not looked at. */
	if (attr->srq && attr->qp_type != IBV_QPT_XRC_SEND)
		err = qp_check_srq(attr);
	return err ? err : check_caps(attr);
}

static uint32_t at_least_one(uint32_t n)
{
	return n ? n : 1;
}

static int init_queues(struct qp *qp, const struct ibv_qp_init_attr_ex *attr) REQUIRES(qp->lock)
{
	int err;

	if (qp->type == IBV_QPT_XRC_RECV || qp->hash)
		return send_queue_init(&qp->sq, 1, 1, 0);	/* nothing can be posted */
	if (qp->sends_itself)
		return send_queue_init(&qp->sq, 2 * RENDEZVOUS_MAX, TAG_SGE_MAX, TAG_RENDEZVOUS_BYTES);
	err = send_queue_init(&qp->sq, at_least_one(attr->cap.max_send_wr),
			      at_least_one(attr->cap.max_send_sge), attr->cap.max_inline_data);
	if (err)
		return err;
	qp->cap.max_send_wr = qp->sq.size;
	qp->cap.max_send_sge = qp->sq.max_sge;
	qp->cap.max_inline_data = qp->sq.max_inline;
	if (qp->type == IBV_QPT_XRC_SEND) {
		/* Where a requester of XRC notes whose memory its peer's SRQs reach. */
		qp->targets = calloc(1, sizeof(*qp->targets));
		if (qp->targets)
			return 0;
		send_queue_fini(&qp->sq);
		return ENOMEM;
	}
	if (qp->srq || !qp_receives(qp))
		return 0;
	err = recv_queue_init(&qp->rq, at_least_one(attr->cap.max_recv_wr),
			      at_least_one(attr->cap.max_recv_sge));
	if (err) {
		send_queue_fini(&qp->sq);
		return err;
	}
	qp->cap.max_recv_wr = qp->rq.size;
	qp->cap.max_recv_sge = qp->rq.max_sge;
	return 0;
}

static void fini_queues(struct qp *qp)
{
	send_queue_fini(&qp->sq);
	free(qp->targets);
	if (!qp->srq && qp_receives(qp))
		recv_queue_fini(&qp->rq);
}

static void init_fields(struct hca_context *context, struct qp *qp,
			const struct ibv_qp_init_attr_ex *attr)
{
	lock_init(&qp->lock);
	list_init(&qp->ready_node);
	list_init(&qp->wait_node);
	list_init(&qp->node);
	timer_init(&qp->timer);
	atomic_init(&qp->timer_at_ns, TIME_NEVER);
	qp->transport = &context->hca->transport;
	qp->owner = context;
	qp->async = context->async;
	qp->type = attr->qp_type;
	if (qp->type == IBV_QPT_XRC_RECV) {
		qp->xrcd = to_xrcd(attr->xrcd);
		qp->opens = 1;
	} else {
		qp->pd = to_pd(attr->pd);
		qp->send_cq = qp->hash ? NULL : to_cq(attr->send_cq);
		qp->recv_cq = qp_receives(qp) ? to_cq(attr->recv_cq) : NULL;
		qp->srq = attr->srq && qp->type != IBV_QPT_XRC_SEND ? to_srq(attr->srq) : NULL;
	}
	/* Completions of a tag-matching SRQ are in its own CQ; without sends the QP is the device's to send by. */
	if (qp->srq && qp->srq->tags) {
		qp->recv_cq = qp->srq->cq;
		qp->sends_itself = !attr->cap.max_send_wr;
	}
	qp->signal_all = attr->sq_sig_all;
	qp->blocks_own_multicast = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
				   (attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	qp->ports = (uint8_t)context->port_count;
	qp->pkeys = context->port->pkeys;
	for (unsigned i = 1; i < context->port_count; i++)
		if (context->ports[i]->pkeys > qp->pkeys)
			qp->pkeys = context->ports[i]->pkeys;
	if (!qp->ethernet)
		qp->mtu = 128u << net_active_mtu(&context->hca->net, context->port, NULL);
	qp_init_events(qp);
}

/* What the QP was created with has a user more (@by 1) or less (-1). */
static void qp_count_user(struct qp *qp, int by)
{
	_Atomic uint32_t *const users[] = {
		qp->pd ? &qp->pd->users : NULL,
		qp->send_cq ? &qp->send_cq->users : NULL,
		qp->recv_cq ? &qp->recv_cq->users : NULL,
		qp->srq ? &qp->srq->users : NULL,
		qp->xrcd ? &qp->xrcd->users : NULL,
		qp->hash ? &qp->hash->table->users : NULL,
	};

	for (unsigned i = 0; i < sizeof(users) / sizeof(users[0]); i++)
		if (users[i])
			atomic_fetch_add(users[i], (uint32_t)by);
}

int hca_create_qp_in(struct hca_context *context, struct ibv_qp_init_attr_ex *attr,
		     struct ring_allocator *allocator, struct qp **created)
{
	struct hca *hca = context->hca;
	struct ibv_qp *ibv;
	struct qp *qp;
	int err;

	if (context_is_dead(context, "ibv_create_qp"))
		return EIO;
	err = check_create(attr);
	if (err)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ENOMEM;
	err = attr->qp_type == IBV_QPT_RAW_PACKET ? ethernet_attach(context, qp, attr) : 0;
	if (err) {
		free(qp);
		return err;
	}
	init_fields(context, qp, attr);
	qp_is_ours_alone(qp);
	qp->sq.memory = qp->rq.memory = (struct ring_memory){ .allocator = allocator, .use = RING_OF_QP };
	err = init_queues(qp, attr);
	if (err)
		goto free_qp;
	err = transport_init(qp);
	if (err)
		goto free_queues;
	lock_acquire(&hca->engine.progress);
	lock_acquire(&hca->objects);
	err = qp_enter(hca, qp);
	if (!err) {
		qp->access->pd = qp->pd ? qp->pd->number : 0;
		qp->access->type = (uint32_t)qp->type;
		atomic_store(&qp->access->established, 0);
		for (unsigned i = 0; i < QP_COUNTERS; i++)
			atomic_store(&qp->access->tally[i], 0);
		atomic_store(&qp->access->last_error, IBV_WC_SUCCESS);
		atomic_store(&qp->access->qpn, qp->number);
		qp_set_state(qp, IBV_QPS_RESET);
		list_add_tail(&context->qps, &qp->node);
	}
	lock_release(&hca->objects);
	lock_release(&hca->engine.progress);
	if (err)
		goto fini_transport;
	ibv = &qp->ibv.qp_base;
	ibv->pd = (struct ibv_pd *)qp->pd;
	ibv->send_cq = (struct ibv_cq *)qp->send_cq;
	ibv->recv_cq = (struct ibv_cq *)qp->recv_cq;
	ibv->srq = qp->srq ? &qp->srq->ibv : NULL;
	ibv->handle = ibv->qp_num = qp->number;
	ibv->qp_type = qp->type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	qp_count_user(qp, 1);
	attr->cap = qp->cap;
	*created = qp;
	return 0;
fini_transport:
	transport_fini(qp);
free_queues:
	fini_queues(qp);
free_qp:
	ethernet_detach(hca, qp);
	lock_destroy(&qp->lock);
	free(qp);
	return err;
}

/* ---- connected to whom ---- */

bool qps_are_connected_to(struct hca *hca, uint32_t slot)
{
	struct list *context_node, *node;
	bool found = false;

	lock_acquire(&hca->objects);
	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps) {
			struct qp *qp = list_entry(node, struct qp, node);

			if (found)
				break;
			lock_acquire(&qp->lock);
			found = qp_is(qp, QP_CONNECTED) && (qp->route.loopback || qp->route.link == ROUTE_IB) &&
				(qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
				 qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE)
				&& qpn_slot(qp->attr.dest_qp_num) == slot;
			lock_release(&qp->lock);
		}
	}
	lock_release(&hca->objects);
	return found;
}

/* ---- destruction ---- */

/* From now on neither a packet nor a call finds it. */
static void take_down(struct hca *hca, struct qp *qp)
{
	engine_catch_up(&hca->engine, false);
	qp_send_final_ack(hca, qp);
	qp_let_datagrams_leave(hca, qp);
	lock_acquire(&hca->engine.progress);
	qp_wait_for_tx(qp);
	lock_acquire(&hca->objects);
	qp_table_remove(&hca->engine, qp);
	atomic_store(&qp->access->qpn, 0);
	lock_acquire(&qp->lock);
	qp_set_state(qp, IBV_QPS_RESET);
	lock_release(&qp->lock);
	qp->is_down = true;
	lock_release(&hca->objects);
	lock_acquire(&qp->lock);
	transport_fini(qp);
	run_queue_remove(&hca->engine.run_queue, qp);
	lock_release(&qp->lock);
	timers_disarm(&hca->engine, qp);
	lock_release(&hca->engine.progress);
	local_drain_qp(&hca->engine.local, qp->number);
}

static struct qp *find_target(struct hca *hca, const struct xrc_domain *domain, uint32_t number)
	REQUIRES(hca->objects)
{
	struct list *context_node, *node;

	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps) {
			struct qp *qp = list_entry(node, struct qp, node);

			if (qp->type == IBV_QPT_XRC_RECV && qp->xrcd->domain == domain && qp->number == number &&
			    !qp->is_down)
				return qp;
		}
	}
	return NULL;
}

int hca_open_qp(struct hca_context *context, struct xrcd *xrcd, uint32_t number, struct qp **opened)
{
	struct hca *hca = context->hca;
	struct qp *qp;

	if (context_is_dead(context, "ibv_open_qp"))
		return EIO;
	lock_acquire(&hca->objects);
	qp = find_target(hca, xrcd->domain, number);
	if (qp)
		qp->opens++;
	lock_release(&hca->objects);
	if (!qp) {
		explain_refused_of("ibv_open_qp", EINVAL, OF(QP, number),
				"ibv_open_qp: no XRC_RECV QP 0x%06x in this XRC domain: one that "
				"was created in this process, with a domain of the same file", number);
		return EINVAL;
	}
	*opened = qp;
	return 0;
}

int hca_destroy_qp(struct hca_context *context, struct qp *qp)
{
	struct hca *hca = context->hca;
	uint32_t groups = atomic_load(&qp->multicast), flows = atomic_load(&qp->flows);
	struct ibv_qp *ibv = &qp->ibv.qp_base;
	bool is_still_open;

	if (context_is_dead(context, "ibv_destroy_qp"))
		return EIO;
	lock_acquire(&hca->objects);
	is_still_open = qp->opens > 1;	/* an XRC_RECV QP, by others */
	qp->opens -= is_still_open;
	lock_release(&hca->objects);
	if (is_still_open)
		return 0;
	if (flows) {
		explain_refused_of("ibv_destroy_qp", EBUSY, OF(QP, qp->number),
				"ibv_destroy_qp: qp 0x%06x has %u flows: destroy them first "
				"(ibv_destroy_flow)",
			qp->number, flows);
		return EBUSY;
	}
	if (groups) {
		explain_refused_of("ibv_destroy_qp", EBUSY, OF(QP, qp->number),
				"ibv_destroy_qp: qp 0x%06x is attached to %u multicast groups: "
				"detach it from them first",
			qp->number, groups);
		return EBUSY;
	}
	if (!qp->is_down)	/* a handler may have left for good while the last call waited */
		take_down(hca, qp);
	for (unsigned i = 0; i < QP_EVENTS; i++)
		event_withdraw(qp->async, &qp->event[i].node);
	object_wait_for_acks(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async_events_got,
			     &(struct ack_names){ "ibv_destroy_qp", "ibv_ack_async_event", qp->event, QP_EVENTS });
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	lock_acquire(&hca->objects);
	list_remove(&qp->node);
	lock_release(&hca->objects);
	qp_is_ours_alone(qp);
	qp_drop_completions(qp);
	if (qp->path)
		path_put(&hca->paths, qp->path);
	fini_queues(qp);
	comp_counters_detach(qp);
	qp_count_user(qp, -1);
	ethernet_detach(hca, qp);
	lock_destroy(&qp->lock);
	free(qp);
	return 0;
}
