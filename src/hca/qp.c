/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of a context: numbers, creation, modification, destruction, and posting.
 * Rules of the state machine are object/'s, what a state does is transport/'s.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hca/internal.h"
#include "hca/limits.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/wait.h"

#define FAREWELL_NS	50000000u	/* a copy that is under way may take some of it */
#define FAREWELLS 2u

/* ---- numbers ---- */

static bool number_in_slot(struct hca *hca, unsigned slot, uint32_t *qpn)
{
	uint32_t tries;

	if (hca->qp_used[slot] == QP_PER_SLOT)
		return false;
	for (tries = 0; tries < QP_PER_SLOT; tries++) {
		uint32_t index = hca->qp_next[slot];

		hca->qp_next[slot] = (index + 1) % QP_PER_SLOT;
		if (!hca->qp_table[slot][index]) {
			*qpn = hca->slot[slot].number << QP_INDEX_BITS | index;
			return true;
		}
	}
	return false;
}

static unsigned slot_of(const struct hca *hca, uint32_t qpn)
{
	unsigned i = 0;

	while (hca->slot[i].number != qpn_slot(qpn))
		i++;
	return i;
}

/* Number the QP and make it findable. Called with drive and objects held. */
static int enter(struct hca *hca, struct qp *qp)
{
	unsigned slot;
	int err;

	if (hca->qp_count >= hca->config.max_qp) {
		explain("create_qp: the process has %u QPs, the limit (VERBATIM_MAX_QP)",
			hca->qp_count);
		return ENOMEM;
	}
	for (slot = 0; slot < hca->slot_count; slot++)
		if (number_in_slot(hca, slot, &qp->number))
			break;
	if (slot == hca->slot_count) {
		err = hca_claim_slot(hca);
		if (err)
			return err;
		number_in_slot(hca, slot, &qp->number);
	}
	lock_acquire(&hca->timers_lock);
	err = timer_heap_reserve(&hca->timers, hca->qp_count + 1);
	lock_release(&hca->timers_lock);
	if (err)
		return err;
	qp->access = arena_qp(hca->arena) + slot * QP_PER_SLOT + qpn_index(qp->number);
	hca->qp_table[slot][qpn_index(qp->number)] = qp;
	hca->qp_used[slot]++;
	hca->qp_count++;
	return 0;
}

static void leave(struct hca *hca, struct qp *qp)
{
	unsigned slot = slot_of(hca, qp->number);

	hca->qp_table[slot][qpn_index(qp->number)] = NULL;
	hca->qp_used[slot]--;
	hca->qp_count--;
	atomic_store(&qp->access->qpn, 0);
	qp_set_state(qp, IBV_QPS_RESET);
}

/* ---- creation ---- */

static int check_type(const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type == IBV_QPT_RC || attr->qp_type == IBV_QPT_UC || attr->qp_type == IBV_QPT_UD)
		return 0;
	explain("create_qp: qp_type %d: RC, UC and UD are supported", attr->qp_type);
	return EOPNOTSUPP;
}

static int check_caps(const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	if (cap->max_send_wr > LIMIT_QP_WR || cap->max_recv_wr > LIMIT_QP_WR) {
		explain("create_qp: max_send_wr %u, max_recv_wr %u: up to %d are possible (max_qp_wr)",
			cap->max_send_wr, cap->max_recv_wr, LIMIT_QP_WR);
		return EINVAL;
	}
	if (cap->max_send_sge > LIMIT_SGE || cap->max_recv_sge > LIMIT_SGE) {
		explain("create_qp: max_send_sge %u, max_recv_sge %u: up to %d are possible (max_sge)",
			cap->max_send_sge, cap->max_recv_sge, LIMIT_SGE);
		return EINVAL;
	}
	if (cap->max_inline_data > LIMIT_INLINE) {
		explain("create_qp: max_inline_data %u: up to %d bytes are possible",
			cap->max_inline_data, LIMIT_INLINE);
		return EINVAL;
	}
	return 0;
}

static int check_create(const struct ibv_qp_init_attr_ex *attr)
{
	int err = check_type(attr);

	if (err)
		return err;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		explain("create_qp: no protection domain given");
		return EINVAL;
	}
	if (!attr->send_cq || !attr->recv_cq) {
		explain("create_qp: %s is NULL: a QP needs both CQs",
			attr->send_cq ? "recv_cq" : "send_cq");
		return EINVAL;
	}
	return check_caps(attr);
}

static uint32_t at_least_one(uint32_t n)
{
	return n ? n : 1;
}

static int init_queues(struct qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	int err = send_queue_init(&qp->sq, at_least_one(attr->cap.max_send_wr),
				  at_least_one(attr->cap.max_send_sge), attr->cap.max_inline_data);

	if (err)
		return err;
	qp->cap.max_send_wr = qp->sq.size;
	qp->cap.max_send_sge = qp->sq.max_sge;
	qp->cap.max_inline_data = qp->sq.max_inline;
	if (qp->srq)
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
	if (!qp->srq)
		recv_queue_fini(&qp->rq);
}

static void init_events(struct qp *qp)
{
	static const enum ibv_event_type types[] = {
		[QP_EVENT_FATAL] = IBV_EVENT_QP_FATAL,
		[QP_EVENT_COMM_EST] = IBV_EVENT_COMM_EST,
		[QP_EVENT_SQ_DRAINED] = IBV_EVENT_SQ_DRAINED,
		[QP_EVENT_LAST_WQE] = IBV_EVENT_QP_LAST_WQE_REACHED,
		[QP_EVENT_REQ_ERR] = IBV_EVENT_QP_REQ_ERR,
		[QP_EVENT_ACCESS_ERR] = IBV_EVENT_QP_ACCESS_ERR,
	};
	static_assert(sizeof(types) / sizeof(types[0]) == sizeof(qp->event) / sizeof(qp->event[0]),
		      "every event that a QP raises has its type");
	unsigned i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		list_init(&qp->event[i].node);
		qp->event[i].ibv.event_type = types[i];
		qp->event[i].ibv.element.qp = &qp->ibv.qp_base;
	}
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
	qp->pd = to_pd(attr->pd);
	qp->send_cq = to_cq(attr->send_cq);
	qp->recv_cq = to_cq(attr->recv_cq);
	qp->srq = attr->srq ? to_srq(attr->srq) : NULL;
	qp->type = attr->qp_type;
	qp->signal_all = attr->sq_sig_all;
	qp->mtu = 256u << (port_active_mtu(context->port) - IBV_MTU_256);
	init_events(qp);
}

static void hold_parts(struct qp *qp)
{
	atomic_fetch_add(&qp->pd->users, 1);
	atomic_fetch_add(&qp->send_cq->users, 1);
	atomic_fetch_add(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
}

static void release_parts(struct qp *qp)
{
	atomic_fetch_sub(&qp->pd->users, 1);
	atomic_fetch_sub(&qp->send_cq->users, 1);
	atomic_fetch_sub(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->users, 1);
}

static void fill_public(struct qp *qp)
{
	struct ibv_qp *ibv = &qp->ibv.qp_base;

	ibv->pd = &qp->pd->ibv;
	ibv->send_cq = (struct ibv_cq *)&qp->send_cq->ibv;
	ibv->recv_cq = (struct ibv_cq *)&qp->recv_cq->ibv;
	ibv->srq = qp->srq ? &qp->srq->ibv : NULL;
	ibv->handle = ibv->qp_num = qp->number;
	ibv->qp_type = qp->type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
}

static void publish_access(struct qp *qp)
{
	qp->access->pd = qp->pd->number;
	qp->access->type = (uint32_t)qp->type;
	atomic_store(&qp->access->established, 0);
	atomic_store(&qp->access->qpn, qp->number);
	qp_set_state(qp, IBV_QPS_RESET);
}

int hca_create_qp(struct hca_context *context, struct ibv_qp_init_attr_ex *attr,
		  struct qp **created)
{
	struct hca *hca = context->hca;
	struct qp *qp;
	int err;

	if (context_is_dead(context, "create_qp"))
		return EIO;
	err = check_create(attr);
	if (err)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ENOMEM;
	init_fields(context, qp, attr);
	err = init_queues(qp, attr);
	if (err)
		goto free_qp;
	err = transport_init(qp);
	if (err)
		goto free_queues;
	lock_acquire(&hca->drive);
	lock_acquire(&hca->objects);
	err = enter(hca, qp);
	if (!err) {
		publish_access(qp);
		list_add_tail(&context->qps, &qp->node);
	}
	lock_release(&hca->objects);
	lock_release(&hca->drive);
	if (err)
		goto fini_transport;
	fill_public(qp);
	hold_parts(qp);
	attr->cap = qp->cap;
	*created = qp;
	return 0;
fini_transport:
	transport_fini(qp);
free_queues:
	fini_queues(qp);
free_qp:
	lock_destroy(&qp->lock);
	free(qp);
	return err;
}

/* ---- connected to whom ---- */

static bool is_connected_to(struct qp *qp, uint32_t slot)
{
	bool connected;

	lock_acquire(&qp->lock);
	connected = qp->type != IBV_QPT_UD && qp->av.loopback &&
		    (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
		     qp->state == IBV_QPS_SQE) && qpn_slot(qp->attr.dest_qp_num) == slot;
	lock_release(&qp->lock);
	return connected;
}

bool hca_is_connected_to(void *device, uint32_t slot)
{
	struct hca *hca = device;
	struct list *context_node, *node;
	bool found = false;

	lock_acquire(&hca->objects);
	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps)
			found = found || is_connected_to(list_entry(node, struct qp, node), slot);
	}
	lock_release(&hca->objects);
	return found;
}

/* ---- the last words of a QP ---- */

/* Has anything been lost, as far as this process can tell? */
static bool loses_packets(struct hca *hca)
{
	static const enum counter sign[] = { COUNTER_RETRANSMIT, COUNTER_TIMEOUT, COUNTER_PROBE,
					     COUNTER_TX_SEQ_NAK, COUNTER_RX_DUPLICATE };
	unsigned i;

	for (i = 0; i < sizeof(sign) / sizeof(sign[0]); i++)
		if (counter_get(hca->counters, sign[i]))
			return true;
	return false;
}

/* Another thread pumps the QP, and has not come to what is due. */
static bool is_being_answered(struct qp *qp)
{
	bool due;

	lock_acquire(&qp->lock);
	due = qp->pumping && transport_answer_is_due(qp);
	lock_release(&qp->lock);
	return due;
}

/*
 * Before a QP stops answering: the ACK of its last message may be due still, and if it gets lost the
 * peer fails a message that arrived. So on a network that loses packets it is said thrice, in
 * datagrams of their own: what drops one seldom drops the next.
 */
void qp_send_final_ack(struct hca *hca, struct qp *qp)
{
	uint64_t until_ns = clock_now_ns() + FAREWELL_NS;
	unsigned n = loses_packets(hca) ? FAREWELLS : 0;
	bool due = true;

	hca_pump(hca, qp);
	while (is_being_answered(qp) && clock_now_ns() < until_ns)
		thread_yield();
	while (n-- && due) {
		lock_acquire(&qp->lock);
		due = transport_final_ack(qp);
		lock_release(&qp->lock);
		if (due)
			hca_pump(hca, qp);
	}
}

/* Longer than the flow control holds a datagram back. */
#define LEAVE_NS	150000000u
#define LEAVE_STEP_NS	200000u

static bool has_unsent(struct qp *qp)
{
	bool unsent;

	lock_acquire(&qp->lock);
	unsent = qp->state == IBV_QPS_RTS && qp->sq.sent != qp->sq.head;
	lock_release(&qp->lock);
	return unsent;
}

/*
 * Datagrams that were posted leave at once on a NIC, and programs destroy the QP without waiting for
 * completions (mckey). Ours may be held back by the flow control, for a moment.
 */
static void let_datagrams_leave(struct hca *hca, struct qp *qp)
{
	uint64_t until_ns = clock_now_ns() + LEAVE_NS;

	if (qp->type != IBV_QPT_UD)
		return;
	while (has_unsent(qp) && clock_now_ns() < until_ns) {
		thread_sleep_ns(LEAVE_STEP_NS);
		hca_pump(hca, qp);
	}
}

/* ---- modification ---- */

static int check_mtu(const struct hca_context *context, const struct qp *qp,
		     const struct ibv_qp_attr *attr)
{
	enum ibv_mtu active = port_active_mtu(context->port);

	if (attr->path_mtu <= active)
		return 0;
	explain("modify_qp: qp 0x%06x: path_mtu %u is larger than the active MTU %u of %s "
		"(interface MTU %u): use IBV_MTU_%u or less", qp->number, 128u << attr->path_mtu,
		128u << active, context->port->name, context->port->netdev.mtu, 128u << active);
	return EINVAL;
}

struct resolved {
	struct av av;
	struct path *path;
};

static uint16_t source_port(const struct qp *qp, uint32_t dest_qpn)
{
	uint32_t hash = qp->number * 0x9e3779b1u ^ dest_qpn * 0x85ebca6bu;

	return (uint16_t)(0xc000 | (hash >> 16 & 0x3fff));
}

/*
 * UC repairs nothing: where its packets went over from UDP to memory in the middle of a stream, those
 * in memory could overtake the others. So a UC QP whose peer cannot be met now stays with UDP.
 */
static void meet(struct hca *hca, const struct qp *qp, uint32_t slot, struct av *av)
{
	local_connect(&hca->local, slot);
	if (qp->type == IBV_QPT_UC && !hca_has_slot(hca, slot) &&
	    local_channel(&hca->local, slot) == LOCAL_NO_CHANNEL)
		av->loopback = false;
}

/* What needs the device and may sleep or allocate: done before the QP's lock is taken. */
static int resolve(struct hca_context *context, struct qp *qp, struct ibv_qp_attr *attr, int mask,
		   struct resolved *resolved)
{
	uint32_t peer = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num;
	struct path_key key = { .slot = qpn_slot(peer) };
	int err = 0;

	if (mask & IBV_QP_PATH_MTU)
		err = check_mtu(context, qp, attr);
	if (err || !(mask & IBV_QP_AV))
		return err;
	err = route_resolve(&context->hca->net, context->port, &attr->ah_attr, "modify_qp", &resolved->av);
	if (err || qp->type == IBV_QPT_UD)
		return err;
	if (resolved->av.loopback)
		meet(context->hca, qp, key.slot, &resolved->av);
	resolved->av.source_port = source_port(qp, peer);
	memcpy(key.destination, resolved->av.destination, sizeof(key.destination));
	resolved->path = path_get(&context->hca->paths, &key);
	return resolved->path ? 0 : ENOMEM;
}

static struct path *take_path(struct qp *qp, struct path *path)
{
	struct path *old = qp->path;

	qp->path = path;
	return old;
}

static void apply(struct hca *hca, struct qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct resolved *resolved, struct effects *effects) REQUIRES(qp->lock)
{
	enum ibv_qp_state from = qp->state;

	qp_modify_apply(qp, attr, mask);
	/* The peer was told what it may do. */
	if (mask & IBV_QP_ACCESS_FLAGS)
		pairing_end(&qp->pairing);
	if (mask & IBV_QP_AV) {
		if (qp->type == IBV_QPT_UC && from != IBV_QPS_INIT)
			resolved->av.loopback &= qp->av.loopback;	/* as meet() decided */
		qp->av = resolved->av;
	}
	if (mask & IBV_QP_PATH_MTU)
		qp->mtu = 128u << attr->path_mtu;
	/* In SQD the window of the old path may be held or waited for still: it is kept then. */
	if (resolved->path && !qp->requester.flight_bytes && !qp->requester.blocked)
		resolved->path = take_path(qp, resolved->path);
	transport_modified(qp, from, mask, clock_now_ns(), effects);
	if (qp->state == IBV_QPS_RESET && qp->path)
		resolved->path = take_path(qp, NULL);
	if (qp->requester.messages && local_await_answers(&hca->local, qp))
		worker_note(hca, 0);
	hca_arm(hca, qp);
}

static void wait_for_pump(struct qp *qp)
{
	bool pumping;

	do {
		lock_acquire(&qp->lock);
		pumping = qp->pumping;
		lock_release(&qp->lock);
		if (pumping)
			thread_yield();
	} while (pumping);
}

static bool ends_accesses(const struct ibv_qp_attr *attr, int mask)
{
	return (mask & IBV_QP_ACCESS_FLAGS) ||
	       ((mask & IBV_QP_STATE) &&
		(attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR));
}

int hca_modify_qp(struct qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct hca_context *context = qp->owner;
	struct hca *hca = context->hca;
	struct resolved resolved = { .path = NULL };
	struct effects effects;
	int err;

	if (context_is_dead(context, "modify_qp"))
		return EIO;
	effects_init(&effects);
	lock_acquire(&qp->lock);
	err = qp_modify_check(qp, attr, mask);
	lock_release(&qp->lock);
	if (!err)
		err = resolve(context, qp, attr, mask, &resolved);
	if (err)
		return err;
	if ((mask & IBV_QP_STATE) && (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		qp_send_final_ack(hca, qp);
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		fault_handler_install();	/* the application may have installed its own since */
	lock_acquire(&qp->lock);
	err = qp_modify_check(qp, attr, mask);	/* it may have failed meanwhile */
	if (!err && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		err = transport_reserve(qp, attr->max_dest_rd_atomic);
	if (!err)
		apply(hca, qp, attr, mask, &resolved, &effects);
	lock_release(&qp->lock);
	effects_apply(&effects);
	hca_after_unlock(hca);
	if (!err && ends_accesses(attr, mask))
		local_drain_qp(&hca->local, qp->number);
	/* A large copy that was under way when the QP was reset must not pass for what is posted next. */
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		wait_for_pump(qp);
	if (resolved.path)
		path_put(&hca->paths, resolved.path);
	if (atomic_load(&hca->run_queue.count))
		hca_kick(hca);
	return err;
}

int hca_query_qp(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	lock_acquire(&qp->lock);
	qp_query(qp, attr, mask, init);
	lock_release(&qp->lock);
	return 0;
}

/* ---- destruction ---- */

static void cancel_events(struct qp *qp)
{
	struct ibv_qp *ibv = &qp->ibv.qp_base;
	unsigned i;

	for (i = 0; i < sizeof(qp->event) / sizeof(qp->event[0]); i++)
		event_queue_cancel(qp->async, &qp->event[i].node);
	hca_wait_for_acks(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async_events_got);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
}

/* From now on neither a packet nor a call finds it. */
static void take_down(struct hca *hca, struct qp *qp)
{
	qp_send_final_ack(hca, qp);
	let_datagrams_leave(hca, qp);
	lock_acquire(&hca->drive);
	wait_for_pump(qp);
	lock_acquire(&hca->objects);
	leave(hca, qp);
	qp->is_down = true;
	lock_release(&hca->objects);
	lock_acquire(&qp->lock);
	transport_fini(qp);
	run_queue_remove(&hca->run_queue, qp);
	lock_release(&qp->lock);
	hca_disarm(hca, qp);
	lock_release(&hca->drive);
	local_drain_qp(&hca->local, qp->number);
}

int hca_destroy_qp(struct hca_context *context, struct qp *qp)
{
	struct hca *hca = context->hca;
	uint32_t groups = atomic_load(&qp->multicast);

	if (context_is_dead(context, "destroy_qp"))
		return EIO;
	if (groups) {
		explain("destroy_qp: qp 0x%06x is attached to %u multicast groups: detach it first",
			qp->number, groups);
		return EBUSY;
	}
	if (!qp->is_down)	/* a handler may have left for good while the last call waited */
		take_down(hca, qp);
	cancel_events(qp);
	lock_acquire(&hca->objects);
	list_remove(&qp->node);
	lock_release(&hca->objects);
	qp_drop_completions(qp);
	if (qp->path)
		path_put(&hca->paths, qp->path);
	fini_queues(qp);
	release_parts(qp);
	lock_destroy(&qp->lock);
	free(qp);
	return 0;
}

/* ---- posting ---- */

uint64_t hca_flush_time(const struct qp *qp)
{
	return qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE ? clock_now_ns() : 0;
}

void hca_prepare_datagrams(struct hca *hca, struct qp *qp, struct ibv_send_wr *wr)
{
	const struct ibv_send_wr *each;

	for (each = wr; each && hca->local.link; each = each->next)
		if (each->wr.ud.ah && to_ah(each->wr.ud.ah)->av.loopback)
			local_connect_for_datagram(&hca->local,
						   qpn_slot(each->wr.ud.remote_qpn));
	transport_prepare_send(qp, wr);
}

bool hca_posted(struct hca *hca, struct qp *qp, struct effects *effects)
{
	bool more = local_posted(&hca->local, qp, effects);

	if (qp->requester.messages)
		hca_arm(hca, qp);
	return more;
}

int hca_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct hca_context *context = qp->owner;
	struct effects effects;
	bool ready;
	int err;

	if (context_is_dead(context, "post_send")) {
		*bad = wr;
		return EIO;
	}
	effects_init(&effects);
	if (qp->type == IBV_QPT_UD)
		hca_prepare_datagrams(context->hca, qp, wr);
	lock_acquire(&qp->lock);
	err = qp_post_send(qp, wr, bad);
	ready = transport_posted_send(qp, hca_flush_time(qp), &effects) &&
		hca_posted(context->hca, qp, &effects);
	lock_release(&qp->lock);
	effects_apply(&effects);
	hca_after_unlock(context->hca);
	if (atomic_load_explicit(&context->hca->awaiting_reply, memory_order_relaxed))
		hca_replied(context->hca);
	if (ready)
		hca_pump(context->hca, qp);
	return err;
}

int hca_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct hca_context *context = qp->owner;
	struct effects effects;
	int err = qp_post_recv(qp, wr, bad);

	/* Read after posting: who moves the QP to ERR stores the state before it flushes. */
	if (context->abandoned ||
	    (atomic_load(&qp->access->state) != IBV_QPS_ERR && !transport_awaits_recv(qp)))
		return err;
	effects_init(&effects);
	lock_acquire(&qp->lock);
	transport_posted_recv(qp, clock_now_ns(), &effects);
	lock_release(&qp->lock);
	effects_apply(&effects);
	hca_after_unlock(context->hca);
	if (atomic_load_explicit(&context->hca->run_queue.count, memory_order_relaxed))
		hca_kick(context->hca);
	return err;
}

int hca_bind_mw(struct qp *qp, struct mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = { .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW,
					.send_flags = bind->send_flags };

	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->ibv.rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	return hca_post_send(qp, &wr, &bad);
}
