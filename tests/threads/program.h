/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What right.c and wrong.c have in common: queue pairs, buffers, requests, completions. "program
 * CASE" runs one of their cases.
 */
#ifndef VERBATIM_TESTS_THREADS_PROGRAM_H
#define VERBATIM_TESTS_THREADS_PROGRAM_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES	4096u
#define DEPTH	32
#define ROUNDS	200
#define KINDS	4

#define CHECK(good) do { \
	if (!(good)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #good); \
		_exit(3); \
	} \
} while (0)

struct buffer {
	struct ibv_mr *mr;
	unsigned char *data;
	size_t bytes;
};

/* One end of a connection. */
struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct buffer out, in;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static struct end ends[2];
static _Atomic unsigned sum;

static inline void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	CHECK(pd && !ibv_query_gid(context, 1, 1, &gid));
}

static inline void make_buffer(struct buffer *buffer, size_t bytes)
{
	buffer->bytes = bytes;
	buffer->data = calloc(1, bytes);
	buffer->mr = ibv_reg_mr(pd, buffer->data, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(buffer->mr);
}

static inline void drop_buffer(struct buffer *buffer)
{
	CHECK(!ibv_dereg_mr(buffer->mr));
	free(buffer->data);
}

static inline struct ibv_qp *make_qp(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
					 .cap = { DEPTH, DEPTH, 1, 1, 64 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	return qp;
}

static inline void connect_qp(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_ATOMIC };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 64 } } };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
				     .max_rd_atomic = 4 };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline void make_end(struct end *end, struct ibv_comp_channel *channel, struct ibv_srq *srq)
{
	end->cq = ibv_create_cq(context, 4 * DEPTH, end, channel, 0);
	CHECK(end->cq);
	end->qp = make_qp(end->cq, srq);
	make_buffer(&end->out, BYTES);
	make_buffer(&end->in, BYTES);
}

static inline void make_ends(struct ibv_srq *srq)
{
	make_end(&ends[0], NULL, NULL);
	make_end(&ends[1], NULL, srq);
	connect_qp(ends[0].qp, ends[1].qp->qp_num);
	connect_qp(ends[1].qp, ends[0].qp->qp_num);
}

static inline void drop_end(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp) && !ibv_destroy_cq(end->cq));
	drop_buffer(&end->out);
	drop_buffer(&end->in);
}

static inline void drop_ends(void)
{
	drop_end(&ends[0]);
	drop_end(&ends[1]);
}

static inline void post_recv(struct ibv_qp *qp, const struct buffer *buffer, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)buffer->data, (uint32_t)buffer->bytes, buffer->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static inline void post_srq(struct ibv_srq *srq, const struct buffer *buffer, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)buffer->data, (uint32_t)buffer->bytes, buffer->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static inline void post_wr(struct ibv_qp *qp, const struct buffer *buffer, struct ibv_send_wr wr, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)buffer->data, bytes, buffer->mr->lkey };
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static inline void post_send(struct ibv_qp *qp, const struct buffer *buffer)
{
	post_wr(qp, buffer, (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED },
		(uint32_t)buffer->bytes);
}

/* @kind: of those that an application may have a poll wait for. */
static inline void post_kind(unsigned kind, struct ibv_qp *qp, const struct buffer *own,
			     const struct buffer *peer)
{
	static const enum ibv_wr_opcode opcodes[KINDS] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct ibv_send_wr wr = { .opcode = opcodes[kind], .send_flags = IBV_SEND_SIGNALED };

	if (kind < 2) {
		wr.wr.rdma.remote_addr = (uintptr_t)peer->data;
		wr.wr.rdma.rkey = peer->mr->rkey;
	} else {
		wr.wr.atomic.remote_addr = (uintptr_t)peer->data;
		wr.wr.atomic.rkey = peer->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	post_wr(qp, own, wr, kind < 2 ? BYTES : 8);
}

static inline struct ibv_wc poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(got == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

static inline pthread_t start(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, body, argument));
	return thread;
}

static inline void join(pthread_t thread)
{
	CHECK(!pthread_join(thread, NULL));
}

/* ---- ibv_wr_*(), and an extended CQ ---- */

static struct ibv_qp_ex *built;
static struct ibv_cq_ex *read_ex;
static struct buffer built_from[2];

static inline void make_extended(void)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4 * DEPTH };
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 64 }, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE };

	read_ex = ibv_create_cq_ex(context, &cq_attr);
	CHECK(read_ex);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(read_ex);
	make_end(&ends[1], NULL, NULL);
	make_buffer(&ends[0].out, BYTES);
	make_buffer(&ends[0].in, BYTES);
	make_buffer(&built_from[0], BYTES);
	make_buffer(&built_from[1], BYTES);
	ends[0].cq = attr.send_cq;
	ends[0].qp = ibv_create_qp_ex(context, &attr);
	CHECK(ends[0].qp);
	built = ibv_qp_to_qp_ex(ends[0].qp);
	connect_qp(ends[0].qp, ends[1].qp->qp_num);
	connect_qp(ends[1].qp, ends[0].qp->qp_num);
}

static inline void build_write(struct buffer *buffer)
{
	const struct ibv_sge list = { (uintptr_t)buffer->data, BYTES, buffer->mr->lkey };

	ibv_wr_start(built);
	built->wr_id = (uintptr_t)buffer;
	built->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(built, ends[1].in.mr->rkey, (uintptr_t)ends[1].in.data);
	ibv_wr_set_sge_list(built, 1, &list);
	CHECK(!ibv_wr_complete(built));
}

static inline void poll_extended(void)
{
	struct ibv_poll_cq_attr attr = { 0 };

	while (ibv_start_poll(read_ex, &attr))
		;
	CHECK(read_ex->status == IBV_WC_SUCCESS);
}

static inline void drop_extended(void)
{
	drop_ends();
	drop_buffer(&built_from[0]);
	drop_buffer(&built_from[1]);
}

struct program_case {
	const char *name;
	void (*run)(void);
	int forks;		/* and opens the device behind that */
};
#define CASE(name) { #name, name, 0 }
#define CASE_OF_TWO(name) { #name, name, 1 }

static inline int run_case(const struct program_case *cases, size_t count, int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < count; i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		if (!cases[i].forks)
			open_device();
		cases[i].run();
		return 0;
	}
	return 2;
}

#endif
