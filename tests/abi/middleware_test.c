/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What middleware relies on and examples never do (docs/field-notes.md says who): descriptors that do
 * not block, empty lists of work requests, probes that have to fail in one way, tables without a
 * NULL, and calls of releases after ours.
 */
#include "fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>

#define PATIENCE_MS	5000

/* As rdma-core 64 declares them; the names are ours, as its header may be the one that is included. */
struct mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
enum { MR_IOVA = 1, MR_ADDR = 2, MR_FD = 4, MR_FD_OFFSET = 8, MR_DMAH = 16, MR_BUF = 32 };

#define NEWER_SLOTS	6u	/* of struct verbs_context, in front of those of rdma-core 44 */

extern struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, struct mr_attr *attr) __asm__("ibv_reg_mr_ex");
extern void *alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf) __asm__("ibv_alloc_buf");
extern void free_buf(struct ibv_buf *buf) __asm__("ibv_free_buf");

static void set_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static bool becomes_readable(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };

	return poll(&readable, 1, PATIENCE_MS) == 1;
}

static bool is_readable(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };

	return poll(&readable, 1, 0) == 1;
}

/* ---- descriptors ---- */

static void asynchronous_events_are_polled_for(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_async_event event;

	assert_non_null(srq);
	set_nonblocking(context->async_fd);
	assert_false(is_readable(context->async_fd));
	assert_minus_one(ibv_get_async_event(context, &event), EAGAIN);
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);	/* there are fewer */
	assert_true(becomes_readable(context->async_fd));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	ibv_ack_async_event(&event);
	assert_false(is_readable(context->async_fd));
	assert_minus_one(ibv_get_async_event(context, &event), EAGAIN);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	return qp;
}

/* A UD QP as far as it goes without a peer, or an RC QP in INIT. */
static void move_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	bool ud = qp->qp_type == IBV_QPT_UD;

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
	if (!ud)
		return;
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void flush_a_receive(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };

	move_qp(qp);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void completion_events_are_polled_for(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *got, *cq = ibv_create_cq(context, 8, state, channel, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	void *user;

	set_nonblocking(channel->fd);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_false(is_readable(channel->fd));
	assert_minus_one(ibv_get_cq_event(channel, &got, &user), EAGAIN);
	flush_a_receive(qp);
	assert_true(becomes_readable(channel->fd));
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(user, state);
	assert_false(is_readable(channel->fd));
	assert_minus_one(ibv_get_cq_event(channel, &got, &user), EAGAIN);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- probes ---- */

static void post_nothing(struct ibv_qp *qp)
{
	struct ibv_send_wr *send = (void *)&send;
	struct ibv_recv_wr *recv = (void *)&recv;

	assert_int_equal(ibv_post_send(qp, NULL, &send), 0);
	assert_int_equal(ibv_post_recv(qp, NULL, &recv), 0);
	assert_ptr_equal(send, &send);
	assert_ptr_equal(recv, &recv);
}

static void no_work_requests_are_posted_without_effect(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_recv_wr *bad = NULL;
	struct ibv_wc wc;

	for (enum ibv_qp_type type = IBV_QPT_RC; type <= IBV_QPT_UD; type++) {
		struct ibv_qp *qp = make_qp(pd, cq, type);

		post_nothing(qp);
		if (type != IBV_QPT_UC)
			move_qp(qp);
		post_nothing(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_int_equal(ibv_post_srq_recv(srq, NULL, &bad), 0);
	assert_null(bad);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* NCCL's: any errno but this one and EPROTONOSUPPORT means that there are DMA-BUFs. */
static void the_probe_for_dmabufs_says_not_supported(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context_of(state));

	assert_refused(ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0), EOPNOTSUPP);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void every_index_of_the_gid_table_can_be_asked_for(void **state)
{
	struct ibv_context *context = context_of(state);
	union ibv_gid gid, zero = { { 0 } };
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_in_range(port.gid_tbl_len, 32, 1024);	/* 3FS asks for 32 */
	for (int i = 0; i < port.gid_tbl_len; i++) {
		int err = ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0);

		memset(&gid, 0xff, sizeof(gid));
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		assert_true(err == 0 || err == ENODATA);
		if (err) {
			assert_memory_equal(&gid, &zero, sizeof(gid));
			continue;
		}
		assert_memory_equal(&gid, &entry.gid, sizeof(gid));
		assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	}
}

/* ---- tables ---- */

static bool no_slot_is_null(const void *table, size_t from, size_t to)
{
	const void *const *slot = (const void *const *)((const char *)table + from);

	for (size_t i = 0; i < (to - from) / sizeof(*slot); i++)
		if (!slot[i])
			return false;
	return true;
}

/* With the fewest flags: what was not asked for can be called, too. */
static void extended_queues_have_no_null_in_their_tables(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_cq_init_attr_ex few = { .cqe = 8 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &few);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .pd = ibv_alloc_pd(context),
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp;

	assert_non_null(cq);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(qp);
	assert_true(no_slot_is_null(cq, offsetof(struct ibv_cq_ex, start_poll), sizeof(*cq)));
	assert_true(no_slot_is_null(ibv_qp_to_qp_ex(qp), offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp),
				    sizeof(struct ibv_qp_ex)));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
}

/* ---- calls of later releases ---- */

static void slots_of_later_releases_are_in_front_of_the_others(void **state)
{
	struct verbs_context *verbs = verbs_get_ctx(context_of(state));
	void **slot = (void **)&verbs->query_port - NEWER_SLOTS;
	struct ibv_pd *pd = ibv_alloc_pd(context_of(state));
	int (*dealloc_dmah)(void *) = slot[4];
	struct mr_attr attr = { .length = sizeof(attr), .addr = &attr, .comp_mask = MR_ADDR };
	struct ibv_mr *(*reg)(struct ibv_pd *, struct mr_attr *) = slot[3], *mr;

	assert_int_equal(verbs->sz, sizeof(*verbs) - offsetof(struct verbs_context, query_port) +
			 NEWER_SLOTS * sizeof(void *));
	assert_true(no_slot_is_null(slot, 0, NEWER_SLOTS * sizeof(void *)));
	assert_int_equal(dealloc_dmah(NULL), EOPNOTSUPP);
	mr = reg(pd, &attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_region_is_registered_by_its_fields(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context_of(state));
	uint64_t memory[8];
	struct mr_attr attr = { .length = sizeof(memory), .access = IBV_ACCESS_LOCAL_WRITE, .addr = memory,
				.comp_mask = MR_ADDR, .iova = 0x1000, .fd = -1 };
	struct ibv_mr *mr = reg_mr_ex(pd, &attr);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(mr->length, sizeof(memory));
	assert_ptr_equal(mr->pd, pd);
	assert_ptr_equal(mr->context, pd->context);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	attr.comp_mask = MR_ADDR | MR_IOVA;
	mr = reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void fields_that_do_not_fit_are_refused(void **state)
{
	static const struct { uint64_t fields; int err; } cases[] = {
		{ 0, EINVAL }, { MR_IOVA, EINVAL }, { MR_ADDR | MR_FD, EINVAL },
		{ MR_ADDR | MR_FD_OFFSET, EINVAL }, { MR_FD | MR_FD_OFFSET, EINVAL },
		{ MR_FD | MR_FD_OFFSET | MR_IOVA, EOPNOTSUPP }, { MR_ADDR | MR_DMAH, EOPNOTSUPP },
		{ MR_ADDR | MR_BUF, EINVAL }, { MR_ADDR | 64, EOPNOTSUPP },
	};
	struct ibv_pd *pd = ibv_alloc_pd(context_of(state));
	uint64_t memory[8];
	struct mr_attr attr = { .length = sizeof(memory), .addr = memory, .fd = -1 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		attr.comp_mask = cases[i].fields;
		assert_refused(reg_mr_ex(pd, &attr), cases[i].err);
	}
	assert_refused(reg_mr_ex(NULL, &attr), EINVAL);
	assert_refused(reg_mr_ex(pd, NULL), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_part_of_a_buffer_is_registered_by_its_handle(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context_of(state));
	struct mr_attr attr = { .length = 100, .comp_mask = MR_ADDR | MR_BUF };
	uint8_t *memory = alloc_buf(pd, 4096, &attr.buf);
	struct ibv_mr *mr;

	assert_non_null(memory);
	attr.addr = memory + 3996;
	mr = reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	attr.length = 101;
	assert_refused(reg_mr_ex(pd, &attr), EINVAL);
	free_buf(attr.buf);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(asynchronous_events_are_polled_for),
		test_with_device(completion_events_are_polled_for),
		test_with_device(no_work_requests_are_posted_without_effect),
		test_with_device(the_probe_for_dmabufs_says_not_supported),
		test_with_device(every_index_of_the_gid_table_can_be_asked_for),
		test_with_device(extended_queues_have_no_null_in_their_tables),
		test_with_device(slots_of_later_releases_are_in_front_of_the_others),
		test_with_device(a_region_is_registered_by_its_fields),
		test_with_device(fields_that_do_not_fit_are_refused),
		test_with_device(a_part_of_a_buffer_is_registered_by_its_handle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
