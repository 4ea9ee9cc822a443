/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of the verbs that a program calls (check.h). */
#include "verbs/check.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(struct check_sge) == sizeof(struct ibv_sge) &&
		       offsetof(struct check_sge, bytes) == offsetof(struct ibv_sge, length) &&
		       offsetof(struct check_sge, lkey) == offsetof(struct ibv_sge, lkey),
	       "lists are handed on as they are");

/* ---- what is asked for ---- */

/* UINT64_MAX: all. CAP_IPC_LOCK is what the kernel asks for. */
static uint64_t lockable_bytes(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	struct rlimit limit;

	if (!syscall(SYS_capget, &header, data) && data[0].effective >> CAP_IPC_LOCK & 1)
		return UINT64_MAX;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

int verbs_check_asked_mr(const char *call, uint64_t bytes)
{
	return verbs_asked(.kind = CHECK_MR, .call = call, .bytes = bytes,
			   .lockable = lockable_bytes());
}

int verbs_check_asked_qp(const char *call, const struct ibv_qp_init_attr_ex *attr, bool builds)
{
	return verbs_asked(.kind = CHECK_QP, .call = call, .type = attr->qp_type,
			   .srq = CHECK_HANDLE(attr->srq), .max_send_wr = attr->cap.max_send_wr,
			   .max_recv_wr = attr->cap.max_recv_wr,
			   .max_send_sge = attr->cap.max_send_sge,
			   .max_recv_sge = attr->cap.max_recv_sge,
			   .max_inline = attr->cap.max_inline_data,
			   .has_operations = builds);
}

static bool has_gid(const struct ibv_ah_attr *attr)
{
	static const union ibv_gid none;

	return memcmp(&attr->grh.dgid, &none, sizeof(none)) != 0;
}

static bool has_own_gid(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
	const uint32_t port = attr->port_num;
	struct hca_gid entry;

	/* Of a port that the device does not have nothing is known: that is another finding. */
	return port - 1 >= hca_ports(to_hca(context)) ||
	       !hca_query_gid(to_hca(context), port, attr->grh.sgid_index, &entry);
}

/* Of a port that the device does not have: no. */
static bool path_needs_grh(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
	struct ibv_port_attr port;

	return attr->port_num - 1u < hca_ports(to_hca(context)) &&
	       !hca_query_port(to_hca(context), attr->port_num, &port, NULL) &&
	       port.flags & IBV_QPF_GRH_REQUIRED;
}

int verbs_check_modified(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_ah_attr *path = &attr->ah_attr;
	struct ibv_context *context = qp->ibv.qp_base.context;

	return verbs_asked(.kind = CHECK_QP, .call = "ibv_modify_qp", .object = CHECK_HANDLE(qp),
			   .rd_atomic = mask & IBV_QP_MAX_QP_RD_ATOMIC ? attr->max_rd_atomic : 0,
			   .dest_rd_atomic =
				   mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic : 0,
			   .mtu = mask & IBV_QP_PATH_MTU && attr->path_mtu <= IBV_MTU_4096 ?
				  128u << attr->path_mtu : 0,
			   .has_path = mask & IBV_QP_AV, .is_global = path->is_global,
			   .has_dgid = has_gid(path),
			   .needs_grh = mask & IBV_QP_AV && path_needs_grh(context, path),
			   .has_sgid = !(mask & IBV_QP_AV) || has_own_gid(context, path),
			   .ports = hca_ports(to_hca(context)),
			   .has_port = mask & IBV_QP_PORT,
			   .port = mask & IBV_QP_PORT ? attr->port_num : path->port_num,
			   .sgid_index = path->grh.sgid_index, .dlid = path->dlid);
}

int verbs_check_asked_ah(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
	return verbs_asked(.kind = CHECK_AH, .call = "ibv_create_ah", .has_path = true,
			   .is_global = attr->is_global, .has_dgid = has_gid(attr),
			   .needs_grh = path_needs_grh(context, attr),
			   .has_sgid = has_own_gid(context, attr),
			   .ports = hca_ports(to_hca(context)),
			   .port = attr->port_num, .sgid_index = attr->grh.sgid_index,
			   .dlid = attr->dlid);
}

static void limit_lower(int *own, enum check_fact fact, uint64_t limits[CHECK_FACTS])
{
	uint64_t before = *own > 0 ? (uint64_t)*own : 0;

	limits[fact] = before;
	*own = (int)check_lowered(fact, before);
}

void verbs_check_limits(struct ibv_device_attr *attr)
{
	uint64_t limits[CHECK_FACTS] = { 0 };

	limit_lower(&attr->max_sge, CHECK_FACT_MAX_SGE, limits);
	limit_lower(&attr->max_sge_rd, CHECK_FACT_MAX_SGE_RD, limits);
	limit_lower(&attr->max_qp_wr, CHECK_FACT_MAX_QP_WR, limits);
	limit_lower(&attr->max_cqe, CHECK_FACT_MAX_CQE, limits);
	limit_lower(&attr->max_srq_wr, CHECK_FACT_MAX_SRQ_WR, limits);
	limit_lower(&attr->max_srq_sge, CHECK_FACT_MAX_SRQ_SGE, limits);
	limit_lower(&attr->max_qp_rd_atom, CHECK_FACT_RD_ATOM, limits);
	limit_lower(&attr->max_qp_init_rd_atom, CHECK_FACT_INIT_RD_ATOM, limits);
	limit_lower(&attr->max_res_rd_atom, CHECK_FACT_RES_RD_ATOM, limits);
	if (!check_lowered(CHECK_FACT_HAS_ATOMICS, 1))
		attr->atomic_cap = IBV_ATOMIC_NONE;
	if (!check_lowered(CHECK_FACT_HAS_SRQ, 1))
		attr->max_srq = 0;
	if (!check_lowered(CHECK_FACT_HAS_MW, 1))
		attr->max_mw = 0;
	check_take(&(struct check_record){
		.what = CHECK_LOOK,
		.call = "ibv_query_device",
		.limits = limits,
	});
}

void verbs_check_port(struct ibv_port_attr *attr)
{
	uint64_t mtu = check_lowered(CHECK_FACT_MAX_MTU, 128u << attr->max_mtu);

	attr->max_msg_sz = (uint32_t)check_lowered(CHECK_FACT_MAX_MESSAGE, attr->max_msg_sz);
	while (128u << attr->max_mtu > mtu)
		attr->max_mtu--;
	if (attr->active_mtu > attr->max_mtu)
		attr->active_mtu = attr->max_mtu;
}

/* ---- what was made and done ---- */

void verbs_check_mr(const char *call, const struct mr *mr, const struct pd *pd, uint64_t address,
		    uint64_t bytes)
{
	check_take(&(struct check_record){
		.what = CHECK_MADE,
		.kind = CHECK_MR,
		.call = call,
		.object = CHECK_HANDLE(mr),
		.number = mr->ibv.lkey,
		.context = CHECK_HANDLE(mr->ibv.context),
		.pd = CHECK_HANDLE(pd),
		.address = address,
		.bytes = bytes,
		.rkey = mr->ibv.rkey,
		.access = mr->access,
	});
}

void verbs_check_qp(const char *call, const struct qp *qp, const struct ibv_qp_init_attr_ex *attr,
		    struct ibv_pd *domain)
{
	check_take(&(struct check_record){
		.what = CHECK_MADE,
		.kind = CHECK_QP,
		.call = call,
		.object = CHECK_HANDLE(qp),
		.number = qp->number,
		.context = CHECK_HANDLE(qp->ibv.qp_base.context),
		.pd = CHECK_HANDLE(qp->pd),
		.send_cq = CHECK_HANDLE(qp->send_cq),
		.recv_cq = CHECK_HANDLE(qp->recv_cq),
		.srq = CHECK_HANDLE(qp->srq),
		.domain = domain && domain_is_parent(domain) ? CHECK_HANDLE(domain) : 0,
		.one_thread = domain && domain_is_of_one_thread(domain),
		.type = attr->qp_type,
		.state = IBV_QPS_RESET,
		.max_send_wr = qp->cap.max_send_wr,
		.max_recv_wr = qp->cap.max_recv_wr,
		.max_send_sge = qp->cap.max_send_sge,
		.max_recv_sge = qp->cap.max_recv_sge,
		.max_inline = qp->cap.max_inline_data,
		.signal_all = qp->signal_all,
	});
}

/* What of a list may be read, whatever the program says. */
static uint32_t readable_sges(const struct ibv_sge *list, int count, uint32_t most)
{
	if (!list || count <= 0)
		return 0;
	return (uint32_t)count < most ? (uint32_t)count : most;
}

static struct check_record send_record(const char *call, struct ibv_qp *ibv,
				       const struct ibv_send_wr *wr)
{
	const struct wr_row *row = wr_row_of_post(wr->opcode);
	const struct qp *qp = to_qp(ibv);

	return (struct check_record){
		.what = CHECK_POST_SEND,
		.call = call,
		.object = CHECK_HANDLE(qp),
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED,
		.inlined = wr->send_flags & IBV_SEND_INLINE,
		.reads = row && row->is & WR_SCATTERS,
		.remote = row && row->is & WR_IS_ATOMIC ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr,
		.ah = qp->type == IBV_QPT_UD ? CHECK_HANDLE(wr->wr.ud.ah) : 0,
		.sge = (const struct check_sge *)wr->sg_list,
		.sges = readable_sges(wr->sg_list, wr->num_sge, qp->cap.max_send_sge),
	};
}

int verbs_check_sends(const char *call, struct ibv_qp *qp, const struct ibv_send_wr *wr,
		      const void *site, const void *frame)
{
	uint64_t other = check_enter(CHECK_HANDLE(qp));
	int err = 0;

	for (; wr; wr = wr->next) {
		struct check_record record = send_record(call, qp, wr);
		int refused;

		record.inside = other;
		refused = check_take_at(&record, site, frame);
		err = err ? err : refused;
	}
	return err;
}

void verbs_check_sends_failed(const char *call, struct ibv_qp *qp, const struct ibv_send_wr *bad,
			      int err)
{
	struct check_record record;

	if (!bad)
		return;
	record = send_record(call, qp, bad);
	record.what = CHECK_POST_FAILED;
	record.error = err;
	record.sges = bad->num_sge > 0 && bad->sg_list ? (uint32_t)bad->num_sge : 0;
	for (const struct ibv_send_wr *wr = bad; wr; wr = wr->next)
		record.count++;
	check_take(&record);
}

static struct check_record receive_record(const char *call, const void *object, uint32_t max_sge,
					  const struct ibv_recv_wr *wr)
{
	return (struct check_record){
		.what = CHECK_POST_RECV,
		.call = call,
		.object = CHECK_HANDLE(object),
		.wr_id = wr->wr_id,
		.receive = true,
		.signaled = true,
		.reads = true,
		.sge = (const struct check_sge *)wr->sg_list,
		.sges = readable_sges(wr->sg_list, wr->num_sge, max_sge),
	};
}

void verbs_check_receives(const char *call, const void *object, uint32_t max_sge,
			  const struct ibv_recv_wr *wr, const void *site, const void *frame)
{
	check_enter(CHECK_HANDLE(object));
	for (; wr; wr = wr->next) {
		struct check_record record = receive_record(call, object, max_sge, wr);

		check_take_at(&record, site, frame);
	}
}

void verbs_check_receives_failed(const char *call, const void *object,
				 const struct ibv_recv_wr *bad, int err)
{
	struct check_record record;

	if (!bad)
		return;
	record = receive_record(call, object, UINT32_MAX, bad);
	record.what = CHECK_POST_FAILED;
	record.error = err;
	for (const struct ibv_recv_wr *wr = bad; wr; wr = wr->next)
		record.count++;
	check_take(&record);
}

void verbs_check_completion(const struct cq *cq, const struct ibv_wc *wc)
{
	check_take(&(struct check_record){
		.what = CHECK_COMPLETION,
		.call = "ibv_poll_cq",
		.object = CHECK_HANDLE(cq),
		.number = wc->qp_num,
		.wr_id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.receive = wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV,
	});
}

/* What an adapter leaves undefined there: nothing that a program could take for something. */
void verbs_check_poison(struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return;
	wc->opcode = (enum ibv_wc_opcode)0x5a5a5a5a;
	wc->byte_len = wc->imm_data = wc->src_qp = 0x5a5a5a5a;
	wc->wc_flags = 0;
	wc->pkey_index = wc->slid = 0x5a5a;
	wc->sl = wc->dlid_path_bits = 0x5a;
}

void verbs_check_polled(const struct cq *cq, int count, int got, uint64_t other)
{
	check_take(&(struct check_record){
		.what = CHECK_POLLED,
		.call = "ibv_poll_cq",
		.object = CHECK_HANDLE(cq),
		.count = count > 0 ? (uint32_t)count : 0,
		.got = got > 0 ? (uint32_t)got : 0,
		.inside = other,
	});
}

void verbs_check_read(const char *call, const struct ibv_cq_ex *cq)
{
	if (cq->status != IBV_WC_SUCCESS)
		check_take(&(struct check_record){
			.what = CHECK_READ,
			.call = call,
			.object = CHECK_HANDLE(cq),
			.wr_id = cq->wr_id,
			.status = cq->status,
		});
}

int verbs_check_arm(struct cq *cq, bool solicited)
{
	uint64_t other = check_enter(CHECK_HANDLE(cq));
	int err = check_ask(&(struct check_record){
		.what = CHECK_ARM,
		.call = "ibv_req_notify_cq",
		.object = CHECK_HANDLE(cq),
		.count = atomic_load_explicit(&cq->head, memory_order_acquire) -
			 atomic_load_explicit(&cq->tail, memory_order_relaxed),
		.solicited = solicited,
		.inside = other,
	});

	if (!check_lowered(CHECK_FACT_ARM_RAISES, 1)) {
		/* For those that stand in it arming raises no event. */
		lock_acquire(&cq->lock);
		cq->notified = atomic_load(&cq->head);
		lock_release(&cq->lock);
	}
	return err;
}

void verbs_check_wait(const struct ibv_comp_channel *channel)
{
	struct pollfd look = { .fd = channel->fd, .events = POLLIN };
	int flags = fcntl(channel->fd, F_GETFL);

	check_enter(CHECK_HANDLE(channel));
	check_take(&(struct check_record){
		.what = CHECK_WAIT,
		.call = "ibv_get_cq_event",
		.object = CHECK_HANDLE(channel),
		.nonblocking = flags >= 0 && flags & O_NONBLOCK,
		.has_event = poll(&look, 1, 0) > 0,
	});
}

/* ---- what the rules ask ---- */

static bool cq_error(struct cq *cq, uint32_t qpn, uint32_t *status, uint64_t *wr_id)
{
	bool found = false;

	lock_acquire(&cq->lock);
	for (uint32_t at = atomic_load(&cq->tail); at != atomic_load(&cq->head) && !found; at++) {
		const struct ibv_wc *wc = &cq->ring[at & cq->mask].wc;

		found = wc->qp_num == qpn && wc->status != IBV_WC_SUCCESS &&
			wc->status != IBV_WC_WR_FLUSH_ERR;
		*status = wc->status;
		*wr_id = wc->wr_id;
	}
	lock_release(&cq->lock);
	return found;
}

static bool qp_has_error(const struct check_object *object, uint32_t *status, uint64_t *wr_id)
{
	struct cq *send_cq = (struct cq *)(uintptr_t)object->send_cq,
		  *recv_cq = (struct cq *)(uintptr_t)object->recv_cq;

	return (send_cq && cq_error(send_cq, object->number, status, wr_id)) ||
	       (recv_cq && cq_error(recv_cq, object->number, status, wr_id));
}

/* Of a failure. Nothing else tells of it where a QP answers (QP_REQ_ERR, QP_ACCESS_ERR). */
#define FAILURES                                                                                   \
	(UINT64_C(1) << IBV_EVENT_CQ_ERR | UINT64_C(1) << IBV_EVENT_QP_FATAL |                     \
	 UINT64_C(1) << IBV_EVENT_QP_REQ_ERR | UINT64_C(1) << IBV_EVENT_QP_ACCESS_ERR |            \
	 UINT64_C(1) << IBV_EVENT_DEVICE_FATAL | UINT64_C(1) << IBV_EVENT_SRQ_ERR |                \
	 UINT64_C(1) << IBV_EVENT_WQ_FATAL)

static const char *unread_event(const struct check_object *object)
{
	bool any = object->kind == CHECK_CONTEXT;
	uint64_t context = any ? object->handle : object->context;
	enum ibv_event_type type;

	return context && hca_has_async_event(to_hca((struct ibv_context *)(uintptr_t)context),
					      any ? NULL : (void *)(uintptr_t)object->handle,
					      FAILURES, &type) ? ibv_event_type_str(type) : NULL;
}

const struct check_device verbs_check_device = {
	.has_error = qp_has_error,
	.unread_event = unread_event,
};
