/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs of programs in virtual time (verbs.h). Each call takes the time that it takes on a usual
 * machine, and is recorded as by verbs/.
 */
#include "verbs/trace.h"	/* first: inner.h */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object/ah.h"
#include "sim/program/program.h"
#include "sim/program/verbs.h"

#define CALL_NS		2000	/* of most calls */
#define OPEN_NS		120000
#define REGISTER_NS	20000
#define CREATE_NS	12000
#define MODIFY_NS	5000
#define POST_NS		300
#define POLL_NS		100
#define GIDS		2
#define PORT		1
#define CQ_SURPLUS	16

static void *sim_refuse(int err)
{
	errno = err;
	return NULL;
}

static void sim_no_release(struct event_queue *queue)
{
}

/* ---- the device ---- */

static void process_told(struct sim_host *host, struct async_event *event)
{
	struct sim_process *process = host->process;

	if (process->events < sizeof(process->event) / sizeof(process->event[0]))
		process->event[process->events++] = event->ibv;
}

static int sim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int sim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int sim_post_srq(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int sim_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static int sim_req_notify(struct ibv_cq *cq, int solicited_only);

struct sim_process *sim_process_here(void)
{
	struct sim_host *host = sim_here();
	struct sim_process *process = host->process;

	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		abort();
	process->host = host;
	strcpy(process->device.name, "sim0");
	process->device.node_type = IBV_NODE_CA;
	process->device.transport_type = IBV_TRANSPORT_IB;
	process->context.device = &process->device;
	process->context.num_comp_vectors = 1;
	process->context.ops.post_send = sim_post_send;
	process->context.ops.post_recv = sim_post_recv;
	process->context.ops.post_srq_recv = sim_post_srq;
	process->context.ops.poll_cq = sim_poll_cq;
	process->context.ops.req_notify_cq = sim_req_notify;
	process->list[0] = &process->device;
	host->process = process;
	host->told = process_told;
	return process;
}

void sim_process_free(struct sim_host *host)
{
	if (host->process && host->process->cm)
		sim_cm_free(host->process->cm);
	free(host->process);
	host->process = NULL;
}

struct ibv_device **sim_ibv_get_device_list(int *count)
{
	if (count)
		*count = 1;
	sim_spend(CALL_NS);
	return sim_process_here()->list;
}

void sim_ibv_free_device_list(struct ibv_device **list)
{
}

const char *sim_ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 sim_ibv_get_device_guid(struct ibv_device *device)
{
	return (__be64)__builtin_bswap64(0x0200000a00000000u + sim_here()->index);
}

struct ibv_context *sim_ibv_open_device(struct ibv_device *device)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct sim_process *process = sim_process_here();

	sim_spend(OPEN_NS);
	verbs_traced("ibv_open_device", began_ns, 0, .device = device->name);
	return &process->context;
}

int sim_ibv_close_device(struct ibv_context *context)
{
	sim_spend(CALL_NS);
	return 0;
}

int sim_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .max_qp = SIM_QPS_MAX, .max_qp_wr = 16384, .max_sge = 30 };
	return 0;
}

int sim_ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_1024, .gid_tbl_len = GIDS,
					.max_mtu = IBV_MTU_4096, .link_layer = IBV_LINK_LAYER_ETHERNET };
	return 0;
}

int sim_ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	memcpy(gid->raw, sim_here()->address, 16);
	return 0;
}

int sim_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct sim_process *process = sim_process_here();

	while (!process->events)
		sim_wait();
	*event = process->event[0];
	memmove(process->event, process->event + 1, --process->events * sizeof(*event));
	verbs_trace_async(event);
	return 0;
}

void sim_ibv_ack_async_event(struct ibv_async_event *event)
{
}

/* ---- domains, regions, address handles ---- */

struct ibv_pd *sim_ibv_alloc_pd(struct ibv_context *context)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return sim_refuse(ENOMEM);
	sim_spend(CALL_NS);
	pd->number = ++sim_process_here()->numbers;
	pd->ibv.context = context;
	verbs_traced("ibv_alloc_pd", began_ns, 0, .device = context->device->name);
	return &pd->ibv;
}

int sim_ibv_dealloc_pd(struct ibv_pd *pd)
{
	uint64_t began_ns = tracepoint_began_ns();
	int err = atomic_load(&to_pd(pd)->users) ? EBUSY : 0;

	sim_spend(CALL_NS);
	verbs_traced("ibv_dealloc_pd", began_ns, err);
	if (!err)
		free(to_pd(pd));
	return err;
}

struct ibv_mr *sim_ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct mr *mr = calloc(1, sizeof(*mr));
	char names[TRACE_NAMES_MAX];
	int err = mr ? mr_register(&sim_here()->mrs, to_pd(pd), address, length, (uintptr_t)address,
				   (unsigned)access, mr) : ENOMEM;

	sim_spend(REGISTER_NS);
	verbs_traced("ibv_reg_mr", began_ns, err, .bytes = SOME(length),
		     .access = verbs_trace_access((unsigned)access, names),
		     .rkey = SOME(err ? 0 : mr->ibv.rkey));
	if (err) {
		free(mr);
		return sim_refuse(err);
	}
	mr->ibv.context = pd->context;
	return &mr->ibv;
}

int sim_ibv_dereg_mr(struct ibv_mr *mr)
{
	uint64_t began_ns = tracepoint_began_ns();
	uint32_t rkey = mr->rkey;
	int err = mr_deregister(&sim_here()->mrs, to_mr(mr));

	sim_spend(CALL_NS);
	verbs_traced("ibv_dereg_mr", began_ns, err, .rkey = SOME(rkey));
	if (!err)
		free(to_mr(mr));
	return err;
}

static struct ibv_ah *verbs_ah(struct ibv_pd *pd, const uint8_t destination[16], const struct ibv_ah_attr *attr)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return sim_refuse(ENOMEM);
	sim_spend(CALL_NS);
	list_init(&ah->node);
	atomic_init(&ah->references, 1);
	ah->ibv.pd = pd;
	ah->ibv.context = pd->context;
	ah->attr = *attr;
	ah->route.link = ROUTE_ROCE_V2;
	memcpy(ah->route.source, sim_here()->address, 16);
	memcpy(ah->route.destination, destination, 16);
	ah->route.hop_limit = 64;
	route_set_udp(&ah->route, 0, 0xc001);
	atomic_fetch_add(&to_pd(pd)->users, 1);
	verbs_traced("ibv_create_ah", began_ns, 0);
	return &ah->ibv;
}

struct ibv_ah *sim_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return verbs_ah(pd, attr->grh.dgid.raw, attr);
}

/* The last 20 of the 40 bytes are an IPv4 header. */
struct ibv_ah *sim_ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = port };
	uint8_t source[16] = { [10] = 0xff, [11] = 0xff };

	memcpy(source + 12, (const uint8_t *)grh + 20 + 12, 4);
	memcpy(attr.grh.dgid.raw, source, 16);
	return verbs_ah(pd, source, &attr);
}

int sim_ibv_destroy_ah(struct ibv_ah *ah)
{
	uint64_t began_ns = tracepoint_began_ns();

	sim_spend(CALL_NS);
	atomic_fetch_sub(&to_pd(ah->pd)->users, 1);
	ah_put(to_ah(ah));
	verbs_traced("ibv_destroy_ah", began_ns, 0);
	return 0;
}

/* ---- completion queues ---- */

struct ibv_comp_channel *sim_ibv_create_comp_channel(struct ibv_context *context)
{
	struct comp_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return sim_refuse(ENOMEM);
	channel->ibv.context = context;
	channel->ibv.fd = -1;
	event_queue_init(&channel->queue, -1, sim_no_release);
	return &channel->ibv;
}

int sim_ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	lock_destroy(&((struct comp_channel *)channel)->queue.lock);
	free(channel);
	return 0;
}

struct ibv_cq *sim_ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
				 struct ibv_comp_channel *channel, int vector)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct cq *cq = host_cq(sim_here(), (uint32_t)entries);

	sim_spend(CREATE_NS);
	cq->number = ++sim_process_here()->numbers;
	cq->channel = (struct comp_channel *)channel;
	if (channel)
		channel->refcnt++;
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = entries;
	verbs_traced("ibv_create_cq", began_ns, 0, .cq = SOME(cq->number),
		     .entries = SOME((unsigned)entries));
	return ibv_cq_ex_to_cq(&cq->ibv);
}

int sim_ibv_destroy_cq(struct ibv_cq *ibv)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct cq *cq = to_cq(ibv);
	uint32_t number = cq->number;
	int err = atomic_load(&cq->users) ? EBUSY : 0;

	sim_spend(CALL_NS);
	if (!err) {
		if (cq->channel) {
			event_queue_cancel(&cq->channel->queue, &cq->comp_event.node);
			cq->channel->ibv.refcnt--;
		}
		cq_destroy(cq);
	}
	verbs_traced("ibv_destroy_cq", began_ns, err, .cq = SOME(number));
	return err;
}

static int sim_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct cq *cq = to_cq(ibv);
	int got;

	sim_spend(POLL_NS);
	got = cq_take(cq, count, wc);
	for (int i = 0; i < got; i++)
		verbs_trace_completion(cq, &wc[i]);
	if (got)
		atomic_store(&cq->empty_polls, 0);
	else if (atomic_fetch_add(&cq->empty_polls, 1))	/* it polls in a loop */
		sim_wait();
	return got;
}

static int sim_req_notify(struct ibv_cq *ibv, int solicited_only)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct effects effects;

	sim_spend(POST_NS);
	effects_init(&effects);
	cq_arm(to_cq(ibv), solicited_only, &effects);
	atomic_store(&to_cq(ibv)->empty_polls, 0);
	host_apply(sim_here(), &effects);
	verbs_traced("ibv_req_notify_cq", began_ns, 0, .cq = SOME(to_cq(ibv)->number));
	return 0;
}

int sim_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **got, void **cq_context)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct list *node;
	struct cq *cq;

	while (!(node = event_queue_take(&((struct comp_channel *)channel)->queue)))
		sim_wait();
	cq = container_of(list_entry(node, struct comp_event, node), struct cq, comp_event);
	*got = ibv_cq_ex_to_cq(&cq->ibv);
	*cq_context = cq->ibv.cq_context;
	verbs_traced("ibv_get_cq_event", began_ns, 0, .cq = SOME(cq->number));
	return 0;
}

void sim_ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
}

/* ---- shared receive queues ---- */

struct ibv_srq *sim_ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct srq *srq = host_srq(sim_here(), attr->attr.max_wr, attr->attr.max_sge);

	sim_spend(CREATE_NS);
	srq->number = ++sim_process_here()->numbers;
	srq->pd = to_pd(pd)->number;
	srq->ibv.context = pd->context;
	srq->ibv.pd = pd;
	srq->limit_event.ibv.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	srq->limit_event.ibv.element.srq = &srq->ibv;
	atomic_fetch_add(&to_pd(pd)->users, 1);
	verbs_traced("ibv_create_srq", began_ns, 0, .device = pd->context->device->name);
	return &srq->ibv;
}

int sim_ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct effects effects;
	int err;

	sim_spend(CALL_NS);
	effects_init(&effects);
	err = srq_modify(to_srq(srq), attr, mask, &effects);
	host_apply(sim_here(), &effects);
	return err;
}

int sim_ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	*attr = (struct ibv_srq_attr){ .max_wr = to_srq(srq)->queue.size, .srq_limit = to_srq(srq)->limit };
	return 0;
}

int sim_ibv_destroy_srq(struct ibv_srq *srq)
{
	uint64_t began_ns = tracepoint_began_ns();
	int err = atomic_load(&to_srq(srq)->users) ? EBUSY : 0;

	sim_spend(CALL_NS);
	if (!err) {
		atomic_fetch_sub(&to_pd(srq->pd)->users, 1);
		srq_destroy(to_srq(srq));
	}
	verbs_traced("ibv_destroy_srq", began_ns, err);
	return err;
}

static int sim_post_srq(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	sim_spend(POST_NS);
	err = srq_post(to_srq(srq), wr, bad);
	verbs_trace_receives("ibv_post_srq_recv", 0, wr, err ? *bad : NULL, began_ns, err);
	return err;
}

/* ---- queue pairs ---- */

static void verbs_count_users(struct qp *qp, int change)
{
	atomic_fetch_add(&qp->pd->users, (uint32_t)change);
	atomic_fetch_add(&qp->send_cq->users, (uint32_t)change);
	atomic_fetch_add(&qp->recv_cq->users, (uint32_t)change);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, (uint32_t)change);
}

struct ibv_qp *sim_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct qp_options options = {
		.type = attr->qp_type, .pd = to_pd(pd), .send_cq = to_cq(attr->send_cq),
		.recv_cq = to_cq(attr->recv_cq), .srq = attr->srq ? to_srq(attr->srq) : NULL,
		.send_wrs = attr->cap.max_send_wr, .recv_wrs = attr->cap.max_recv_wr,
		.sges = attr->cap.max_send_sge > attr->cap.max_recv_sge ? attr->cap.max_send_sge :
									  attr->cap.max_recv_sge,
		.inline_bytes = attr->cap.max_inline_data, .signal_all = attr->sq_sig_all,
	};
	uint64_t began_ns = tracepoint_began_ns();
	char names[TRACE_NAMES_MAX];
	struct qp *qp;

	sim_spend(CREATE_NS);
	qp = host_qp(sim_here(), &options);
	qp->ibv.qp_base.context = pd->context;
	qp->ibv.qp_base.pd = pd;
	qp->ibv.qp_base.send_cq = attr->send_cq;
	qp->ibv.qp_base.recv_cq = attr->recv_cq;
	qp->ibv.qp_base.srq = attr->srq;
	qp->ibv.qp_base.qp_num = qp->ibv.qp_base.handle = qp->number;
	qp->ibv.qp_base.qp_type = attr->qp_type;
	verbs_count_users(qp, 1);
	verbs_traced("ibv_create_qp", began_ns, 0, .qp = qp->number,
		     .device = pd->context->device->name,
		     .type = verbs_trace_type(attr->qp_type, names));
	return &qp->ibv.qp_base;
}

int sim_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	uint64_t began_ns = tracepoint_began_ns();
	char names[TRACE_NAMES_MAX];
	int err;

	sim_spend(MODIFY_NS);
	err = host_modify(sim_here(), to_qp(qp), attr, mask);
	verbs_traced("ibv_modify_qp", began_ns, err, .qp = qp->qp_num,
		     .mask = verbs_trace_mask(mask, names));
	return err;
}

int sim_ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *qp = to_qp(ibv);

	sim_spend(CALL_NS);
	lock_acquire(&qp->lock);
	qp_query(qp, attr, mask, init);
	lock_release(&qp->lock);
	return 0;
}

int sim_ibv_destroy_qp(struct ibv_qp *ibv)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct qp *qp = to_qp(ibv);
	uint32_t number = qp->number;

	sim_spend(MODIFY_NS);
	verbs_count_users(qp, -1);
	host_qp_destroy(sim_here(), qp);
	verbs_traced("ibv_destroy_qp", began_ns, 0, .qp = number);
	return 0;
}

static int sim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	sim_spend(POST_NS);
	err = host_post_send_list(sim_here(), to_qp(qp), wr, bad);
	verbs_trace_sends("ibv_post_send", qp, wr, err ? *bad : NULL, began_ns, err);
	return err;
}

static int sim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	sim_spend(POST_NS);
	err = host_post_recv_list(sim_here(), to_qp(qp), wr, bad);
	verbs_trace_receives("ibv_post_recv", qp->qp_num, wr, err ? *bad : NULL, began_ns, err);
	return err;
}
