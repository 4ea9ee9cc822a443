/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs of IDs: what the application gives, and what it gets. */
#include "rdmacm/rdmacm_test.h"

static void a_qp_needs_a_device(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);

	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
}

static void a_qp_gets_what_the_application_does_not_give(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);

	resolve();
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(qp_state(), IBV_QPS_INIT);
	assert_ptr_equal(id->qp->pd, id->pd);
	assert_ptr_equal(attr.send_cq, id->send_cq);
	assert_ptr_equal(attr.recv_cq, id->recv_cq);
	assert_ptr_not_equal(id->send_cq, id->recv_cq);
	assert_ptr_equal(id->send_cq->cq_context, id);
	assert_ptr_equal(id->send_cq->channel, id->send_cq_channel);
	assert_ptr_equal(id->recv_cq->channel, id->recv_cq_channel);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->recv_cq_channel);
}

static void what_the_application_gives_stays_its_own(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);
	struct ibv_cq *cq;
	struct ibv_pd *pd;

	resolve();
	cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	pd = ibv_alloc_pd(id->verbs);
	assert_non_null(cq);
	attr.send_cq = attr.recv_cq = cq;
	assert_int_equal(rdma_create_qp(id, pd, &attr), 0);
	assert_null(id->send_cq);
	assert_null(id->recv_cq_channel);
	assert_ptr_equal(id->pd, pd);
	rdma_destroy_qp(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_domain_of_another_opening_is_refused(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);
	struct ibv_context *verbs;
	struct ibv_pd *pd;

	resolve();
	verbs = ibv_open_device(id->verbs->device);
	pd = ibv_alloc_pd(verbs);
	assert_non_null(pd);
	assert_int_equal(rdma_create_qp(id, pd, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(verbs), 0);
}

static void a_qp_that_cannot_be_made_leaves_no_cq(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);

	resolve();
	attr.cap.max_send_sge = 1u << 20;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->send_cq_channel);
}

static void attributes_may_name_cqs_that_an_earlier_qp_took_with_it(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);
	const struct ibv_cq *first;

	resolve();
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	first = attr.send_cq;
	assert_ptr_equal(first, id->send_cq);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_non_null(id->send_cq);
	assert_ptr_equal(attr.send_cq, id->send_cq);
	assert_ptr_equal(attr.recv_cq, id->recv_cq);
	assert_ptr_equal(id->qp->send_cq, id->send_cq);
}

static void a_cq_that_the_application_destroyed_is_refused(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);
	struct ibv_cq *cq[16];
	unsigned i;

	resolve();
	/* The last of some: none that an id had before, and may still be named, was where it is. */
	for (i = 0; i < 16; i++) {
		cq[i] = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
		assert_non_null(cq[i]);
	}
	attr.send_cq = attr.recv_cq = cq[15];
	for (i = 0; i < 16; i++)
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(id->qp);
}

static void a_datagram_qp_is_ready_at_once(void **state)
{
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	make_qp();
	assert_int_equal(qp_state(), IBV_QPS_RTS);
}

static void an_srq_of_the_id_is_used_by_its_qp(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	resolve();
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_ptr_equal(id->srq->pd, id->pd);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), -1);
	make_qp();
	assert_ptr_equal(id->qp->srq, id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_null(id->srq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_qp_needs_a_device),
		TEST(a_qp_gets_what_the_application_does_not_give),
		TEST(what_the_application_gives_stays_its_own),
		TEST(a_domain_of_another_opening_is_refused),
		TEST(a_qp_that_cannot_be_made_leaves_no_cq),
		TEST(attributes_may_name_cqs_that_an_earlier_qp_took_with_it),
		TEST(a_cq_that_the_application_destroyed_is_refused),
		TEST(a_datagram_qp_is_ready_at_once),
		TEST(an_srq_of_the_id_is_used_by_its_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
