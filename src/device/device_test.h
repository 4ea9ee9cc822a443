/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the unit tests of this folder: vb_lo, opened in a network namespace of its own, with a PD, a
 * CQ, and a region over all of a piece of memory; queue pairs that are connected to each other, in
 * this process.
 */
#ifndef VERBATIM_DEVICE_DEVICE_TEST_H
#define VERBATIM_DEVICE_DEVICE_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/internal.h"
#include "device/limits.h"
#include "engine/qp_table.h"
#include "engine/wake.h"
#include "platform/clock.h"
#include "platform/netns_test.h"
#include "platform/patience_test.h"
#include "platform/rest_test.h"
#include "platform/wait.h"

#define MS		1000000ull
#define SECOND		1000000000ull
#define MEMORY_BYTES	65536u
#define ALL_ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define QKEY		0x1234u

static struct hca_context *context;
static struct hca *hca;
static struct pd *pd;
static struct cq *cq;
static struct mr *mr;
static uint8_t *memory;

static inline int cq_make(struct ibv_comp_channel *channel, struct cq **made)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 100, .channel = channel };

	return hca_create_cq(context, &attr, made);
}

static inline int device_begin(void **state)
{
	if (!netns_renew() || hca_open("vb_lo", &context))
		return -1;
	hca = context->hca;
	memory = aligned_alloc(4096, MEMORY_BYTES);
	if (!memory)
		return -1;
	memset(memory, 0, MEMORY_BYTES);
	return hca_alloc_pd(context, &pd) || cq_make(NULL, &cq) ||
	       hca_reg_mr(context, pd, memory, MEMORY_BYTES, (uintptr_t)memory, ALL_ACCESS, &mr);
}

/* What a test has left is destroyed with the context. */
static inline int device_end(void **state)
{
	alarm(HANGING_S);
	hca_close(context);
	free(memory);
	return 0;
}

#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, device_begin, device_end)

/* main() of such a test. A test that hangs has failed. */
#define DEVICE_TESTS(tests)                                                                        \
	do {                                                                                       \
		bool real_root;                                                                    \
												   \
		alarm(HANGING_S);                                                                  \
		return netns_enter(&real_root) ? cmocka_run_group_tests(tests, NULL, NULL) : 77;   \
	} while (0)

static inline unsigned count_fds(void)
{
	unsigned count = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* The worker has some for moments only: those that are open while it rests. */
static inline unsigned fds_open(void)
{
	unsigned count = 0;

	assert_true(at_rest(count = count_fds()));
	return count;
}

/* A lock of either kind. */
#define is_free(lock)	(lock_try(lock) && (lock_release(lock), true))

static inline uint64_t counted(enum counter counter)
{
	return counter_get(hca->engine.counters, counter);
}

/* ---- queue pairs ---- */

static inline struct ibv_qp_init_attr_ex qp_attr(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){ .send_cq = (struct ibv_cq *)&cq->ibv,
					     .recv_cq = (struct ibv_cq *)&cq->ibv,
					     .cap = { 16, 16, 2, 2, 64 }, .qp_type = type,
					     .sq_sig_all = 1, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = &pd->ibv };
}

static inline struct qp *qp_make(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(type);
	struct qp *qp = NULL;

	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	return qp;
}

/* 127.0.0.1 as a GID. */
static inline struct ibv_ah_attr here(void)
{
	static const uint8_t address[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	uint32_t index = gid_table_find(context->port, PORT_GID_ROCE_V2, address);

	attr.grh.sgid_index = (uint8_t)index;
	attr.grh.hop_limit = 64;
	memcpy(attr.grh.dgid.raw, address, 16);
	return attr;
}

static inline int to_init(struct qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
				    .qp_access_flags = ALL_ACCESS };

	return hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static inline int to_rtr(struct qp *qp, uint32_t peer, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer,
				    .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
				    .ah_attr = here() };
	int mask = IBV_QP_STATE;

	if (qp->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp_is(qp, QP_RELIABLE))	/* XRC ignores what it has no use for */
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return hca_modify_qp(qp, &attr, mask);
}

static inline int to_rts(struct qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
				    .rnr_retry = 7, .max_rd_atomic = 4 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp_is(qp, QP_RELIABLE))
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return hca_modify_qp(qp, &attr, mask);
}

static inline int to_state(struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	return hca_modify_qp(qp, &attr, IBV_QP_STATE);
}

static inline struct qp *qp_rts(enum ibv_qp_type type)
{
	struct qp *qp = qp_make(type);

	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_rtr(qp, 0, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(qp), 0);
	return qp;
}

static inline void qp_make_pair(struct qp *pair[2])
{
	unsigned i;

	for (i = 0; i < 2; i++)
		pair[i] = qp_make(IBV_QPT_RC);
	for (i = 0; i < 2; i++) {
		assert_int_equal(to_init(pair[i]), 0);
		assert_int_equal(to_rtr(pair[i], pair[!i]->number, IBV_MTU_1024), 0);
		assert_int_equal(to_rts(pair[i]), 0);
	}
}

/* ---- requests ---- */

static inline int post_recv(struct qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)memory + MEMORY_BYTES / 2, 1024, mr->ibv.lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return hca_post_recv(qp, &wr, &bad);
}

static inline int post_send(struct qp *qp, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->ibv.lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND }, *bad;

	return hca_post_send(qp, &wr, &bad);
}

/* The next completion; that of @wr_id is expected. */
static inline void expect_wc(uint64_t wr_id, enum ibv_wc_status status)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct ibv_wc wc;

	while (!hca_poll_cq(cq, 1, &wc))
		assert_true(clock_now_ns() < end_ns);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

#endif
