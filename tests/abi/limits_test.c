/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ibv_query_device(3) says is true: that many can be made, and one more is refused with ENOMEM; a
 * size can be as large as it says, and one more is refused with EINVAL.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct ibv_context *context;
static struct ibv_device_attr limits;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char memory[4096];

static int begin(void **state)
{
	open_loopback(state);
	context = *state;
	if (!context)
		return 0;
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	return ibv_query_device(context, &limits) || !pd || !cq;
}

static int end(void **state)
{
	return close_loopback(state);
}

/* ---- how many ---- */

static void *make_pd(void)
{
	return ibv_alloc_pd(context);
}

static int free_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 1, NULL, NULL, 0);
}

static int free_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &attr);
}

static int free_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &attr);
}

static int free_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1 } };

	return ibv_query_gid(context, 1, 1, &attr.grh.dgid) ? NULL : ibv_create_ah(pd, &attr);
}

static int free_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, memory, sizeof(memory), 0);
}

static int free_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static int free_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq };

	return ibv_create_wq(context, &attr);
}

static int free_wq(void *object)
{
	return ibv_destroy_wq(object);
}

static struct ibv_wq *entry;

static void *make_table(void)
{
	struct ibv_rwq_ind_table_init_attr attr = { .ind_tbl = &entry };

	return ibv_create_rwq_ind_table(context, &attr);
}

static int free_table(void *object)
{
	return ibv_destroy_rwq_ind_table(object);
}

/* @already: there are of the kind. */
static void expect(const char *name, int limit, int already, void *(*make)(void), int (*undo)(void *))
{
	int count = limit - already, i;
	void **objects;

	if (!context)
		skip();
	objects = calloc((size_t)count, sizeof(*objects));
	assert_non_null(objects);
	for (i = 0; i < count; i++) {
		objects[i] = make();
		if (!objects[i])
			fail_msg("%s: only %d of %d: %s", name, i + already, limit, strerror(errno));
	}
	assert_refused(make(), ENOMEM);
	/* There is room again where one has gone. */
	assert_int_equal(undo(objects[count / 2]), 0);
	objects[count / 2] = make();
	assert_non_null(objects[count / 2]);
	for (i = 0; i < count; i++)
		assert_int_equal(undo(objects[i]), 0);
	free(objects);
}

static void as_many_pds(void **state)
{
	expect("max_pd", limits.max_pd, 1, make_pd, free_pd);
}

static void as_many_cqs(void **state)
{
	expect("max_cq", limits.max_cq, 1, make_cq, free_cq);
}

static void as_many_srqs(void **state)
{
	expect("max_srq", limits.max_srq, 0, make_srq, free_srq);
}

static void as_many_ahs(void **state)
{
	expect("max_ah", limits.max_ah, 0, make_ah, free_ah);
}

static void as_many_mrs(void **state)
{
	expect("max_mr", limits.max_mr, 0, make_mr, free_mr);
}

static void as_many_mws(void **state)
{
	expect("max_mw", limits.max_mw, 0, make_mw, free_mw);
}

static void as_many_work_queues_and_tables(void **state)
{
	struct ibv_device_attr_ex extended;

	if (!context)
		skip();
	assert_int_equal(ibv_query_device_ex(context, NULL, &extended), 0);
	expect("max_wq_type_rq", (int)extended.max_wq_type_rq, 0, make_wq, free_wq);
	entry = make_wq();
	expect("max_rwq_indirection_tables", (int)extended.rss_caps.max_rwq_indirection_tables, 0, make_table,
	       free_table);
	assert_int_equal(free_wq(entry), 0);
}

static void as_many_entries_in_a_table(void **state)
{
	struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = 0 };
	struct ibv_rwq_ind_table *table;
	struct ibv_device_attr_ex extended;
	struct ibv_wq *entries[1024];

	if (!context)
		skip();
	assert_int_equal(ibv_query_device_ex(context, NULL, &extended), 0);
	entry = make_wq();
	for (unsigned i = 0; i < 1024; i++)
		entries[i] = entry;
	attr.ind_tbl = entries;
	while (1u << attr.log_ind_tbl_size < extended.rss_caps.max_rwq_indirection_table_size)
		attr.log_ind_tbl_size++;
	table = ibv_create_rwq_ind_table(context, &attr);
	assert_non_null(table);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	attr.log_ind_tbl_size++;
	assert_refused(ibv_create_rwq_ind_table(context, &attr), EINVAL);
	assert_int_equal(free_wq(entry), 0);
}

/* More than 100,000, in several slots of QP numbers. */
static void as_many_qps(void **state)
{
	if (context)
		assert_true(limits.max_qp >= 100000);
	expect("max_qp", limits.max_qp, 0, make_qp, free_qp);
}

static void as_many_groups(void **state)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff, 239, 1 } };
	struct ibv_qp *qps[100], *qp;
	int i;

	if (!context)
		skip();
	qp = ibv_create_qp(pd, &attr);
	for (i = 0; i <= limits.max_mcast_grp; i++) {
		gid.raw[14] = (uint8_t)(i >> 8);
		gid.raw[15] = (uint8_t)i;
		assert_int_equal(ibv_attach_mcast(qp, &gid, 0), i < limits.max_mcast_grp ? 0 : ENOMEM);
	}
	gid.raw[14] = gid.raw[15] = 0;
	assert_in_range(limits.max_mcast_qp_attach, 2, 100);
	for (i = 1; i <= limits.max_mcast_qp_attach; i++) {
		qps[i - 1] = ibv_create_qp(pd, &attr);
		assert_int_equal(ibv_attach_mcast(qps[i - 1], &gid, 0),
				 i < limits.max_mcast_qp_attach ? 0 : ENOMEM);
	}
}

/* ---- how large ---- */

static int try_qp(int send, int receive, int send_sge, int receive_sge)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { (uint32_t)send, (uint32_t)receive, (uint32_t)send_sge, (uint32_t)receive_sge, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	return qp ? ibv_destroy_qp(qp) : errno;
}

static int try_srq(int requests, int elements)
{
	struct ibv_srq_init_attr attr = { .attr = { (uint32_t)requests, (uint32_t)elements, 0 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	return srq ? ibv_destroy_srq(srq) : errno;
}

static int try_cq(int entries)
{
	struct ibv_cq *made = ibv_create_cq(context, entries, NULL, NULL, 0);

	return made ? ibv_destroy_cq(made) : errno;
}

static void as_large(void **state)
{
	int wr = limits.max_qp_wr, sge = limits.max_sge;

	if (!context)
		skip();
	assert_int_equal(try_qp(wr, 1, 1, 1), 0);
	assert_int_equal(try_qp(1, wr, 1, 1), 0);
	assert_int_equal(try_qp(1, 1, sge, sge), 0);
	assert_int_equal(try_qp(wr + 1, 1, 1, 1), EINVAL);
	assert_int_equal(try_qp(1, wr + 1, 1, 1), EINVAL);
	assert_int_equal(try_qp(1, 1, sge + 1, 1), EINVAL);
	assert_int_equal(try_qp(1, 1, 1, sge + 1), EINVAL);
	assert_int_equal(try_srq(limits.max_srq_wr, 1), 0);
	assert_int_equal(try_srq(1, limits.max_srq_sge), 0);
	assert_int_equal(try_srq(limits.max_srq_wr + 1, 1), EINVAL);
	assert_int_equal(try_srq(1, limits.max_srq_sge + 1), EINVAL);
	assert_int_equal(try_cq(limits.max_cqe), 0);
	assert_int_equal(try_cq(limits.max_cqe + 1), EINVAL);
}

#define LIMIT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMIT_TEST(as_many_pds), LIMIT_TEST(as_many_cqs), LIMIT_TEST(as_many_srqs),
		LIMIT_TEST(as_many_work_queues_and_tables), LIMIT_TEST(as_many_entries_in_a_table),
		LIMIT_TEST(as_many_ahs), LIMIT_TEST(as_many_mrs), LIMIT_TEST(as_many_mws),
		LIMIT_TEST(as_many_qps), LIMIT_TEST(as_many_groups), LIMIT_TEST(as_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
