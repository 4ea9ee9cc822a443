// SPDX-License-Identifier: BSD-2-Clause
/*
 * A queue pair joined to one of the peer, work requests on it and the wait for their completions.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "verify.h"

__thread int patience_ms = PATIENCE_MS;

static int or_default(int value, int usual)
{
	return value < 0 ? 0 : value ? value : usual;
}

static void create_queues(struct side *side, struct link *link, const struct link_options *options)
{
	int cqe = or_default(options->cqe, 2 * or_default(options->wr, 64));

	link->send_cq = options->send_cq;
	link->recv_cq = options->recv_cq;
	if (!link->send_cq)
		link->send_cq = ibv_create_cq(side->context, cqe, NULL, options->channel, 0);
	CHECK(link->send_cq, "ibv_create_cq: %m");
	if (!link->recv_cq)
		link->recv_cq = ibv_create_cq(side->context, cqe, NULL, options->channel, 0);
	CHECK(link->recv_cq, "ibv_create_cq: %m");
}

void link_create(struct side *side, struct link *link, const struct link_options *options)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = options->type ? options->type : IBV_QPT_RC,
		.srq = options->srq,
		.sq_sig_all = options->sig_all,
		.cap = {
			.max_send_wr = or_default(options->wr, 64),
			.max_recv_wr = options->srq ? INT32_MAX :	/* ignored */
				       or_default(options->wr, 64),
			.max_send_sge = or_default(options->sge, 4),
			.max_recv_sge = options->srq ? 1000 : or_default(options->sge, 4),
			.max_inline_data = options->inline_bytes,
		},
	};

	memset(link, 0, sizeof(*link));
	link->side = side;
	create_queues(side, link, options);
	attr.send_cq = link->send_cq;
	attr.recv_cq = link->recv_cq;
	link->qp = ibv_create_qp(side->pd, &attr);
	CHECK(link->qp, "ibv_create_qp: %m");
	link->psn = random_next(side) & 0xffffff;
	if (random_next(side) % 2)
		link->psn |= 0xfffff0;		/* soon to wrap */
	link->peer_qpn = exchange_u64(side, link->qp->qp_num);
	link->peer_psn = exchange_u64(side, link->psn);
}

void link_to_init(struct link *link, const struct link_options *options)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr.qp_access_flags = or_default(options->access, ALL_ACCESS);
	if (link->qp->qp_type == IBV_QPT_UC)
		attr.qp_access_flags &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	mask |= link->qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	OK(ibv_modify_qp(link->qp, &attr, mask));
}

static struct ibv_ah_attr peer_ah(const struct side *side)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid = side->peer_gid;
	attr.grh.sgid_index = side->gid_index;
	attr.grh.hop_limit = 64;
	return attr;
}

void link_to_rtr(struct link *link, const struct link_options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = link->side->mtu,
		.dest_qp_num = link->peer_qpn, .rq_psn = link->peer_psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = or_default(options->min_rnr_timer, 12),
		.ah_attr = peer_ah(link->side),
	};
	int mask = IBV_QP_STATE;

	if (link->qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (link->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	OK(ibv_modify_qp(link->qp, &attr, mask));
	if (link->qp->qp_type == IBV_QPT_UD) {
		link->ah = ibv_create_ah(link->side->pd, &attr.ah_attr);
		CHECK(link->ah, "ibv_create_ah: %m");
	}
}

void link_to_rts(struct link *link, const struct link_options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = link->psn, .max_rd_atomic = 8,
		.timeout = or_default(options->timeout, 16),
		.retry_cnt = or_default(options->retry, 7),
		.rnr_retry = or_default(options->rnr_retry, 7),
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (link->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	OK(ibv_modify_qp(link->qp, &attr, mask));
}

void link_open(struct side *side, struct link *link, const struct link_options *options)
{
	link_create(side, link, options);
	link_to_init(link, options);
	link_to_rtr(link, options);
	if (!options->no_rts)
		link_to_rts(link, options);
	barrier(side);
}

/* Ends meet before, so that nobody's last acknowledgement goes to a QP that is gone. */
void link_close(struct link *link)
{
	barrier(link->side);
	if (link->ah)
		OK(ibv_destroy_ah(link->ah));
	OK(ibv_destroy_qp(link->qp));
	OK(ibv_destroy_cq(link->send_cq));
	if (link->recv_cq != link->send_cq)
		OK(ibv_destroy_cq(link->recv_cq));
}

enum ibv_qp_state link_state(struct link *link)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	OK(ibv_query_qp(link->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void link_wait_error(struct link *link)
{
	int64_t until = now_ms() + 5000;

	while (link_state(link) != IBV_QPS_ERR) {
		CHECK(now_ms() < until, "the QP does not move to ERR, it is in state %d",
		      link_state(link));
		sched_yield();
	}
}

int try_send(struct link *link, const struct op *op)
{
	struct ibv_send_wr wr = {
		.wr_id = op->id, .sg_list = (struct ibv_sge *)op->sge, .num_sge = op->sges,
		.opcode = op->opcode,
		.send_flags = op->flags | (op->quiet ? 0 : IBV_SEND_SIGNALED),
	}, *bad = NULL;
	int err;

	wr.imm_data = htobe32(op->imm);
	if (op->opcode == IBV_WR_SEND_WITH_INV || op->opcode == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = op->rkey;
	if (link->qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = op->ah ? op->ah : link->ah;
		wr.wr.ud.remote_qpn = op->qpn ? op->qpn : link->peer_qpn;
		wr.wr.ud.remote_qkey = op->qkey ? op->qkey : QKEY;
	} else if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = op->address;
		wr.wr.atomic.rkey = op->rkey;
		wr.wr.atomic.compare_add = op->compare_add;
		wr.wr.atomic.swap = op->swap;
	} else {
		wr.wr.rdma.remote_addr = op->address;
		wr.wr.rdma.rkey = op->rkey;
	}
	err = ibv_post_send(link->qp, &wr, &bad);
	CHECK(!err || bad == &wr, "a refused post does not name the request");
	return err;
}

void send_op(struct link *link, const struct op *op)
{
	int err = try_send(link, op);

	CHECK(!err, "ibv_post_send of opcode %d: %s", op->opcode, strerror(err));
}

int try_recv(struct link *link, uint64_t id, const struct ibv_sge *sge, int sges)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = (struct ibv_sge *)sge,
				  .num_sge = sges }, *bad = NULL;
	int err = ibv_post_recv(link->qp, &wr, &bad);

	CHECK(!err || bad == &wr, "a refused post does not name the request");
	return err;
}

void recv_op(struct link *link, uint64_t id, const struct ibv_sge *sge, int sges)
{
	int err = try_recv(link, id, sge, sges);

	CHECK(!err, "ibv_post_recv: %s", strerror(err));
}

struct ibv_sge sge_of(struct region *region, size_t offset, size_t len)
{
	return (struct ibv_sge){ .addr = (uintptr_t)region->mem + offset, .length = len,
				 .lkey = region->mr->lkey };
}

void recv_region(struct link *link, uint64_t id, struct region *region, size_t offset, size_t len)
{
	struct ibv_sge sge = sge_of(region, offset, len);

	recv_op(link, id, &sge, 1);
}

struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	int64_t until = now_ms() + patience_ms;
	struct ibv_wc wc;

	for (unsigned tries = 1;; tries++) {
		int n = ibv_poll_cq(cq, 1, &wc);

		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		if (n)
			return wc;
		if (tries % 64 == 0) {
			sched_yield();
			CHECK(now_ms() < until, "no completion within %d ms", patience_ms);
		}
	}
}

struct ibv_wc expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_wc(cq);

	CHECK(wc.status == status, "work request %llu: %s, not %s", (unsigned long long)wc.wr_id,
	      ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	CHECK(wc.wr_id == id, "completion of %llu, expected %llu", (unsigned long long)wc.wr_id,
	      (unsigned long long)id);
	return wc;
}

struct ibv_wc good_wc(struct ibv_cq *cq, uint64_t id)
{
	return expect_wc(cq, id, IBV_WC_SUCCESS);
}

void expect_no_wc(struct ibv_cq *cq, int milliseconds)
{
	int64_t until = now_ms() + milliseconds;
	struct ibv_wc wc;

	do {
		CHECK(!ibv_poll_cq(cq, 1, &wc), "unexpected completion of %llu: %s",
		      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
		sched_yield();
	} while (now_ms() < until);
}

void expect_flush(struct ibv_cq *cq, uint64_t first, uint64_t last)
{
	for (uint64_t id = first; id <= last; id++)
		expect_wc(cq, id, IBV_WC_WR_FLUSH_ERR);
}

bool wait_readable(int fd, int milliseconds)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	int64_t until = now_ms() + milliseconds;
	int ready;

	do	/* again after a signal (tests/clients/alarms.c) */
		ready = poll(&poll_fd, 1, milliseconds);
	while (ready < 0 && errno == EINTR && now_ms() < until);
	return ready == 1;
}

void pause_ms(int milliseconds)
{
	struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000l };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

void expect_event(struct side *side, enum ibv_event_type type)
{
	struct ibv_async_event event;

	CHECK(wait_readable(side->context->async_fd, 5000), "no asynchronous event, expected %s",
	      ibv_event_type_str(type));
	OK(ibv_get_async_event(side->context, &event));
	ibv_ack_async_event(&event);
	CHECK(event.event_type == type, "event %s, expected %s",
	      ibv_event_type_str(event.event_type), ibv_event_type_str(type));
}
