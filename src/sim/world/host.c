/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated host: one process with its tables, in one arena, and the driving of its QPs that
 * engine/ does in production: receive, timers, run queue. No file descriptors, no threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "object/ah.h"
#include "object/placement.h"
#include "sim/world/messages.h"
#include "sim/world/sim.h"
#include "wire/icrc.h"

#define QPN_INDEX_FIRST	0x11u
#define QUANTUM		64u
#define PROBE_MIN_NS	MS
/* What the kernel charges a socket for a packet beyond its bytes, when it came in a batch. */
#define SOCKET_CHARGE	256u

static void *sim_need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void sim_must(int err)
{
	if (err)
		abort();
}

static void host_no_release(struct event_queue *queue)
{
}

struct sim_host *host_create(struct sim *sim)
{
	struct sim_host *host = sim_need(calloc(1, sizeof(*host)));
	/* Zeroes that cost nothing until they are touched: an arena is 20 MB, nearly all of it unused. */
	void *memory = mmap(NULL, arena_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sim_must(memory == MAP_FAILED);
	host->sim = sim;
	host->index = sim->host_count;
	sim->host[sim->host_count++] = host;
	memcpy(host->address, (uint8_t[]){ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0 }, 16);
	host->address[15] = (uint8_t)(host->index + 1);
	host->arena = arena_init(memory, 1);
	sim_must(mr_table_init(&host->mrs, host->arena, 0x5eed + host->index));
	host->counters = arena_counters(host->arena);
	run_queue_init(&host->run_queue);
	path_table_init(&host->paths);
	host->recoveries = sim_need(recovery_pool_new());
	event_queue_init(&host->async, -1, host_no_release);
	sim_must(timer_heap_reserve(&host->timers, SIM_QPS_MAX));
	host->pd.number = 1;
	host->transport = (struct transport){ .mrs = &host->mrs, .counters = host->counters,
					      .run_queue = &host->run_queue,
					      .probe_min_ns = PROBE_MIN_NS,
					      .paths = &host->paths, .recoveries = host->recoveries };
	host->rates.delay_ns = 10 * US;
	host->socket_charge = SOCKET_CHARGE;
	return host;
}

void host_destroy(struct sim_host *host)
{
	unsigned i;

	for (i = 0; i < host->qp_count; i++)
		if (host->qp[i])
			host_qp_destroy(host, host->qp[i]);
	path_table_fini(&host->paths);
	recovery_pool_free(host->recoveries);
	mr_table_free(&host->mrs);
	timer_heap_free(&host->timers);
	lock_destroy(&host->async.lock);
	munmap(host->arena, arena_bytes());
	free(host);
}

/* ---- driving ---- */

void host_apply(struct sim_host *host, struct effects *effects)
{
	struct list *node;
	unsigned i;

	for (i = 0; i < effects->count; i++)
		event_queue_put(effects->wake[i]);
	effects->count = 0;
	while ((node = event_queue_take(&host->async))) {
		struct async_event *event = list_entry(node, struct async_event, node);

		host->events[(unsigned)event->ibv.event_type % 32]++;
		if (host->told)
			host->told(host, event);
	}
}

static void host_arm(struct sim_host *host, struct qp *qp) REQUIRES(qp->lock)
{
	timer_set(&host->timers, &qp->timer, host->crashed ? TIME_NEVER : transport_deadline(qp));
}

void host_wake(struct sim_host *host)
{
	uint64_t at_ns = host->sim->now_ns + host->wake_ns;

	if (host->pump_planned || host->crashed || !atomic_load(&host->run_queue.count))
		return;
	if (at_ns < host->tx_free_ns)
		at_ns = host->tx_free_ns;
	host->pump_planned = true;
	sim_event_add(host->sim, (struct sim_event){ .kind = EVENT_PUMP, .host = host,
						     .at_ns = at_ns });
}

/* Behind each call of transport/ that may leave something to be done. */
static void host_release(struct sim_host *host, struct qp *qp, struct effects *effects) RELEASES(qp->lock)
{
	host_arm(host, qp);
	lock_release(&qp->lock);
	host_apply(host, effects);
	host_wake(host);
}

void host_pump(struct sim_host *host)
{
	struct tx_batch *batch = host->sim->batch;
	uint64_t now_ns = host->sim->now_ns;
	struct effects effects;
	struct qp *qp;
	unsigned rounds = 0;
	bool more;

	if (host->crashed)
		return;
	/* One quantum of one QP. */
	while (host->tx_free_ns <= now_ns && (qp = run_queue_pop(&host->run_queue))) {
		effects_init(&effects);
		tx_batch_reset(batch);
		lock_acquire(&qp->lock);
		more = transport_transmit(qp, now_ns, QUANTUM, batch, &effects);
		host_arm(host, qp);
		if (more)
			run_queue_add(&host->run_queue, qp);
		lock_release(&qp->lock);
		if (batch->count > QUANTUM)
			sim_fail(host->sim, "transmit wrote %u packets, more than the quantum", batch->count);
		if (host->tx_free_ns < now_ns)
			host->tx_free_ns = now_ns;
		host->tx_free_ns += batch->count * host->tx_packet_ns + batch->used * host->tx_byte_ps / 1000;
		net_send(host, batch);
		host_apply(host, &effects);
		if (++rounds > 100000) {
			sim_fail(host->sim, "host %u: the run queue never empties", host->index);
			return;
		}
	}
	host_wake(host);
}

void host_expire(struct sim_host *host)
{
	struct timer *timer = timer_heap_expire(&host->timers, host->sim->now_ns);
	struct effects effects;
	struct qp *qp;

	if (!timer)
		return;
	qp = container_of(timer, struct qp, timer);
	effects_init(&effects);
	lock_acquire(&qp->lock);
	if (transport_deadline(qp) <= host->sim->now_ns)
		transport_timeout(qp, host->sim->now_ns, &effects);
	else
		sim_fail(host->sim, "the deadline of qp 0x%06x moved outside of a call", qp->number);
	host_release(host, qp, &effects);
}

uint64_t host_deadline(const struct sim_host *host)
{
	return host->crashed ? TIME_NEVER : timer_heap_next(&host->timers);
}

enum drop host_receive(struct sim_host *host, struct sim_host *from, uint8_t *data, size_t bytes, bool damaged)
{
	struct rx_info info = { .route = { .link = ROUTE_ROCE_V2, .hop_limit = 64 },
				.ecn_marked = host->marked };
	struct effects effects;
	struct packet packet;
	struct icrc_header header = net_icrc_header(from, host);
	enum drop why;
	uint32_t index;
	struct qp *qp;
	bool good;

	good = packet_parse(data, bytes, &packet) == PARSE_OK && icrc_check(&header, data, bytes) == ICRC_GOOD;
	if (good == damaged)
		sim_fail(host->sim, damaged ? "a damaged packet passed the checks" :
					      "an undamaged packet failed the checks");
	host->statistics.damaged_dropped += !good;
	if (!good)
		return DROP_NONE;
	if (packet.dest_qpn == QPN_GSI && host->management)
		return host->management(host, from, &packet);
	packet.echo_request &= !host->deaf;
	if (host->deaf && packet.op->service == SERVICE_GAPS)
		return drop_count(host->counters, DROP_OPCODE, 1);
	index = (packet.dest_qpn & (QP_PER_SLOT - 1)) - QPN_INDEX_FIRST;
	qp = packet.dest_qpn >> QP_INDEX_BITS == host->index + 1 && index < host->qp_count ?
		     host->qp[index] : NULL;
	if (!qp) {
		host->statistics.no_qp++;
		return drop_count(host->counters, DROP_NO_QP, 1);
	}
	memcpy(info.route.source, from->address, 16);
	memcpy(info.route.destination, host->address, 16);
	effects_init(&effects);
	lock_acquire(&qp->lock);
	why = transport_receive(qp, &packet, &info, host->sim->now_ns, &effects);
	host_release(host, qp, &effects);
	return why;
}

/* ---- messages ---- */

enum message_fate host_receive_message(struct sim_host *host, struct qp *qp,
				       const struct local_message *message)
{
	enum message_fate fate;
	struct effects effects;

	effects_init(&effects);
	lock_acquire(&qp->lock);
	fate = transport_message_receive(qp, message, host->sim->now_ns, &effects);
	host_release(host, qp, &effects);
	return fate;
}

/* As local/move/fetch.c, but for the references that this needs while it has no lock. */
enum message_fate host_fetch(struct sim_host *host, struct qp *qp,
			     const struct local_message *message,
			     bool (*copy)(void *context, void *to, size_t bytes), void *context)
{
	enum message_fate fate = MESSAGE_REFUSED;
	struct message_fetch fetch;
	struct effects effects;
	bool copied = true;
	unsigned i;

	effects_init(&effects);
	lock_acquire(&qp->lock);
	if (transport_fetch_begin(qp, message, &fetch)) {
		for (i = 0; i < fetch.pieces && copied; i++)
			copied = copy(context, fetch.piece[i].iov_base, fetch.piece[i].iov_len);
		fate = transport_fetched(qp, message, &fetch, copied, host->sim->now_ns, &effects);
	}
	host_release(host, qp, &effects);
	return fate;
}

#define TELL_MAX 65536u

bool host_send_message(struct sim_host *host, struct qp *qp, uint64_t token)
{
	struct send_wqe *wqe;

	lock_acquire(&qp->lock);
	wqe = transport_message_next(qp);
	if (wqe && wqe->length > TELL_MAX)	/* would be fetched */
		wqe = NULL;
	if (wqe) {
		uint8_t *data = sim_need(malloc(wqe->length + 1));
		bool good = transport_gather(qp, wqe, data);

		free(data);
		if (good)
			transport_message_sent(qp, wqe, token, host->sim->now_ns);
		else
			wqe = NULL;
	}
	host_arm(host, qp);
	lock_release(&qp->lock);
	return wqe != NULL;
}

void host_answer_message(struct sim_host *host, struct qp *qp, uint64_t token, bool refused)
{
	struct effects effects;

	effects_init(&effects);
	lock_acquire(&qp->lock);
	transport_message_answered(qp, token, refused, host->sim->now_ns, &effects);
	host_release(host, qp, &effects);
}

/* ---- objects ---- */

struct cq *host_cq(struct sim_host *host, uint32_t size)
{
	struct cq *cq = sim_need(calloc(1, sizeof(*cq)));

	sim_must(cq_init(cq, size));
	cq->async = &host->async;
	list_init(&cq->error_event.node);
	cq->error_event.ibv.event_type = IBV_EVENT_CQ_ERR;
	return cq;
}

void cq_destroy(struct cq *cq)
{
	cq_fini(cq);
	free(cq);
}

struct srq *host_srq(struct sim_host *host, uint32_t size, uint32_t sges)
{
	struct srq *srq = sim_need(calloc(1, sizeof(*srq)));

	sim_must(recv_queue_init(&srq->queue, size, sges));
	srq->async = &host->async;
	srq->pd = host->pd.number;
	list_init(&srq->limit_event.node);
	return srq;
}

struct xrcd *host_xrcd(struct srq *srq, uint32_t number, struct cq *cq)
{
	struct xrcd *xrcd = sim_need(calloc(1, sizeof(*xrcd)));

	xrcd->domain = sim_need(calloc(1, sizeof(*xrcd->domain)));
	lock_init(&xrcd->domain->lock);
	list_init(&xrcd->domain->srqs);
	srq->xrcd = xrcd;
	srq->cq = cq;
	srq->number = number;
	xrc_domain_add(xrcd->domain, srq);
	return xrcd;
}

void xrcd_destroy(struct xrcd *xrcd, struct srq *srq)
{
	xrc_domain_remove(xrcd->domain, srq);
	lock_destroy(&xrcd->domain->lock);
	free(xrcd->domain);
	free(xrcd);
}

void srq_destroy(struct srq *srq)
{
	recv_queue_fini(&srq->queue);
	free(srq);
}

static uint32_t host_or(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

struct qp *host_qp(struct sim_host *host, const struct qp_options *options)
{
	struct qp *qp = sim_need(calloc(1, sizeof(*qp)));
	uint32_t sges;

	if (host->qp_count == SIM_QPS_MAX)
		abort();
	lock_init(&qp->lock);
	list_init(&qp->ready_node);
	list_init(&qp->wait_node);
	timer_init(&qp->timer);
	qp->transport = &host->transport;
	qp->async = &host->async;
	qp->type = options->type;
	qp->xrcd = options->xrcd;
	if (!qp->xrcd) {
		qp->pd = options->pd ? options->pd : &host->pd;
		qp->send_cq = options->send_cq;
		qp->recv_cq = options->recv_cq;
		qp->srq = options->srq;
	}
	qp->signal_all = options->signal_all;
	qp->mtu = 1024;
	qp_init_events(qp);
	sges = host_or(options->sges, 4);
	sim_must(send_queue_init(&qp->sq, host_or(options->send_wrs, 64), sges,
				     host_or(options->inline_bytes, 64)));
	qp->cap.max_send_wr = qp->sq.size;
	qp->cap.max_send_sge = qp->sq.max_sge;
	qp->cap.max_inline_data = qp->sq.max_inline;
	if (!qp->srq && qp_receives(qp))
		sim_must(recv_queue_init(&qp->rq, host_or(options->recv_wrs, 64), sges));
	sim_must(transport_init(qp));
	qp->ports = 1;
	qp->pkeys = 1;
	qp->number = (host->index + 1) << QP_INDEX_BITS | (QPN_INDEX_FIRST + host->qp_count);
	qp->access = arena_qp(host->arena) + host->qp_count;
	qp->access->pd = qp->pd ? qp->pd->number : host->pd.number;
	qp->access->type = (uint32_t)qp->type;
	atomic_store(&qp->access->qpn, qp->number);
	qp_set_state(qp, IBV_QPS_RESET);
	host->qp[host->qp_count++] = qp;
	host->qps_alive++;
	return qp;
}

/* As hca_destroy_qp(): whatever state it is in, with whatever is in flight. */
void host_qp_destroy(struct sim_host *host, struct qp *qp)
{
	lock_acquire(&qp->lock);
	transport_fini(qp);
	run_queue_remove(&host->run_queue, qp);
	lock_release(&qp->lock);
	timer_set(&host->timers, &qp->timer, TIME_NEVER);
	if (!list_empty(&qp->wait_node))
		sim_fail(host->sim, "qp 0x%06x waits for its path after transport_fini", qp->number);
	if (!qp->xrcd) {
		cq_clean(qp->send_cq, qp->number);
		cq_clean(qp->recv_cq, qp->number);
	}
	if (qp->path)
		path_put(&host->paths, qp->path);
	send_queue_fini(&qp->sq);
	if (!qp->srq && qp_receives(qp))
		recv_queue_fini(&qp->rq);
	host->qp[qpn_index(qp->number) - QPN_INDEX_FIRST] = NULL;
	host->qps_alive--;
	lock_destroy(&qp->lock);
	free(qp);
	host_wake(host);
}

/* ---- modify ---- */

static void host_set_route(const struct sim_host *host, struct route *route, const uint8_t destination[16])
{
	route->link = ROUTE_ROCE_V2;
	memcpy(route->source, host->address, 16);
	memcpy(route->destination, destination, 16);
	route->hop_limit = 64;
	route_set_udp(route, 0, 0xc001);
}

int host_modify(struct sim_host *host, struct qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct path_key key = { .slot = qpn_slot(attr->dest_qp_num) };
	struct path *path = NULL;
	struct transport_room room;
	enum ibv_qp_state from;
	struct effects effects;
	int err;

	mask = qp_modify_mask(qp->type, mask);
	sim_must(transport_reserve(&room, mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic : 0));
	effects_init(&effects);
	lock_acquire(&qp->lock);
	from = qp->state;
	err = qp_modify_check(qp, attr, mask);
	if (!err) {
		transport_install(qp, &room);
		qp_modify_apply(qp, attr, mask);
		qp->pkey = PKEY_DEFAULT;
		if (mask & IBV_QP_PATH_MTU)
			qp->mtu = 128u << attr->path_mtu;
		if (mask & IBV_QP_AV) {
			host_set_route(host, &qp->route, attr->ah_attr.grh.dgid.raw);
			memcpy(key.destination, qp->route.destination, 16);
			if (!qp->path)
				qp->path = sim_need(path_get(&host->paths, &key));
		}
		transport_modified(qp, from, mask, host->sim->now_ns, &effects);
		if (qp->state == IBV_QPS_RESET) {
			path = qp->path;
			qp->path = NULL;
		}
		host_arm(host, qp);
	}
	lock_release(&qp->lock);
	transport_unreserve(&room);
	host_apply(host, &effects);
	if (path)
		path_put(&host->paths, path);
	host_wake(host);
	return err;
}

int host_modify_state(struct sim_host *host, struct qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return host_modify(host, qp, &attr, IBV_QP_STATE);
}

struct connect_options connect_defaults(void)
{
	return (struct connect_options){ .mtu = IBV_MTU_1024, .psn = { 0x000100, 0xabc000 },
					 .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
					 .min_rnr_timer = 12, .rd_atomic = 4, .qkey = 0x1111 };
}

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL)

void host_connect(struct sim_host *host, struct qp *qp, struct sim_host *peer, uint32_t peer_qpn,
		  const struct connect_options *options, unsigned side)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = ACCESS_ALL, .qkey = options->qkey };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = options->mtu,
				   .dest_qp_num = peer_qpn, .rq_psn = options->psn[!side],
				   .max_dest_rd_atomic = options->rd_atomic,
				   .min_rnr_timer = options->min_rnr_timer };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = options->psn[side],
				   .timeout = options->timeout, .retry_cnt = options->retry_cnt,
				   .rnr_retry = options->rnr_retry,
				   .max_rd_atomic = options->rd_atomic };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	sim_must(host_modify(host, qp, &init, mask));
	rtr.ah_attr.is_global = 1;
	rtr.ah_attr.port_num = 1;
	if (peer)
		memcpy(rtr.ah_attr.grh.dgid.raw, peer->address, 16);
	mask = IBV_QP_STATE;
	if (qp->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp_is(qp, QP_RELIABLE))
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	sim_must(host_modify(host, qp, &rtr, mask));
	if (qp->type == IBV_QPT_UD)
		qp->mtu = 128u << options->mtu;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (qp_is(qp, QP_RELIABLE))
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	sim_must(host_modify(host, qp, &rts, mask));
}

/* ---- posting ---- */

int host_post_send(struct sim_host *host, struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return host_post_send_list(host, qp, wr, &bad);
}

int host_post_send_list(struct sim_host *host, struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct effects effects;
	bool waits = false;
	int err;

	effects_init(&effects);
	transport_prepare_send(qp, wr);
	lock_acquire(&qp->lock);
	err = qp_post_send(qp, wr, bad);
	if (transport_posted_send(qp, host->sim->now_ns, &effects)) {
		if (transport_awaits_reply(qp))
			transport_replied(qp, host->sim->now_ns, true);
		run_queue_add(&host->run_queue, qp);
		waits = host->gathers && transport_may_gather(qp, host->sim->now_ns);
	}
	host_arm(host, qp);
	lock_release(&qp->lock);
	host_apply(host, &effects);
	if (!waits)
		host_wake(host);
	return err;
}

int host_post_recv(struct sim_host *host, struct qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return host_post_recv_list(host, qp, wr, &bad);
}

int host_post_recv_list(struct sim_host *host, struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct effects effects;
	int err;

	effects_init(&effects);
	err = qp_post_recv(qp, wr, bad);
	lock_acquire(&qp->lock);
	transport_posted_recv(qp, host->sim->now_ns, &effects);
	host_release(host, qp, &effects);
	return err;
}

int host_post_srq(struct sim_host *host, struct srq *srq, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return srq_post(srq, wr, &bad);
}

struct ah *host_ah(struct sim_host *host, struct sim_host *to)
{
	struct ah *ah = sim_need(calloc(1, sizeof(*ah)));

	atomic_init(&ah->references, 1);
	ah->ibv.pd = &host->pd.ibv;
	host_set_route(host, &ah->route, to->address);
	return ah;
}

struct mr *host_mr(struct sim_host *host, void *address, size_t length, unsigned access)
{
	struct mr *mr = sim_need(calloc(1, sizeof(*mr)));

	sim_must(mr_register(&host->mrs, &host->pd, address, length, (uintptr_t)address, access,
				 mr));
	return mr;
}

void host_mr_free(struct sim_host *host, struct mr *mr)
{
	sim_must(mr_deregister(&host->mrs, mr));
	free(mr);
}

/* ---- nothing leaks ---- */

void host_check_idle(struct sim_host *host)
{
	struct list *node;
	size_t i;

	for (i = 0; i < sizeof(host->paths.bucket) / sizeof(host->paths.bucket[0]); i++)
		list_for_each(node, &host->paths.bucket[i]) {
			const struct path *path = list_entry(node, struct path, node);

			if (path->in_flight_bytes)
				sim_fail(host->sim, "host %u: %u bytes of a path in flight, though all is "
					 "answered", host->index, path->in_flight_bytes);
			if (!list_empty(&path->waiting) || !list_empty(&path->flow.waiting))
				sim_fail(host->sim, "host %u: a QP waits for a path that is idle", host->index);
		}
	if (atomic_load(&host->run_queue.count))
		sim_fail(host->sim, "host %u: the run queue is not empty", host->index);
	if (host->timers.count)
		sim_fail(host->sim, "host %u: %zu timers are armed, though all is answered",
			 host->index, host->timers.count);
	if (host->socket_used)
		sim_fail(host->sim, "host %u: the socket buffer is not empty", host->index);
}
