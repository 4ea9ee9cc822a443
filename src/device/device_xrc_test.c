/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC (IBTA annex A14): domains, SRQs that requests name, and the two kinds of QPs, connected to each other in
 * this process.
 */
#include "device/device_test.h"

static struct xrcd *domain_open(int fd, int oflags)
{
	struct xrcd *xrcd = NULL;

	assert_int_equal(hca_open_xrcd(context, fd, oflags, &xrcd), 0);
	return xrcd;
}

static struct ibv_srq_init_attr_ex srq_attr(struct xrcd *xrcd, struct pd *of, struct cq *to)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = 16, .max_sge = 2 }, .srq_type = IBV_SRQT_XRC, .pd = &of->ibv,
		.xrcd = &xrcd->ibv, .cq = (struct ibv_cq *)&to->ibv,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ };
}

static struct srq *srq_make(struct xrcd *xrcd, struct pd *of, struct cq *to)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(xrcd, of, to);
	struct srq *srq = NULL;

	assert_int_equal(hca_create_srq(context, &attr, &srq), 0);
	return srq;
}

static struct qp *target_make(struct xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = &xrcd->ibv,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct qp *qp = NULL;

	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	return qp;
}

static void connect_to(struct qp *qp, const struct qp *peer)
{
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_rtr(qp, peer->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(qp), 0);
}

/* A sender, connected to a target of @xrcd. */
static struct qp *sender_to(struct xrcd *xrcd, struct qp **target)
{
	struct qp *sender = qp_make(IBV_QPT_XRC_SEND);

	*target = target_make(xrcd);
	connect_to(*target, sender);
	connect_to(sender, *target);
	return sender;
}

static void srq_fill(struct srq *srq, uint64_t wr_id, uint32_t lkey, size_t offset)
{
	struct ibv_sge sge = { (uintptr_t)memory + offset, 8192, lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(hca_post_srq_recv(srq, &wr, &bad), 0);
}

static int post_to(struct qp *sender, uint32_t srqn, enum ibv_wr_opcode opcode, uint64_t wr_id,
		   uint32_t bytes, size_t remote, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->ibv.lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
				  .qp_type.xrc.remote_srqn = srqn }, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory + remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory + remote;
		wr.wr.rdma.rkey = rkey;
	}
	return hca_post_send(sender, &wr, &bad);
}

static struct ibv_wc next_of(struct cq *from)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct ibv_wc wc;

	while (!hca_poll_cq(from, 1, &wc))
		assert_true(clock_now_ns() < end_ns);
	return wc;
}

/* ---- domains ---- */

static void opens_of_one_file_share_a_domain(void **state)
{
	char path[] = "/tmp/verbatim-xrcd-XXXXXX", beside[] = "/tmp/verbatim-xrcd-XXXXXX";
	int fd = mkstemp(path), again, other = mkstemp(beside);
	struct xrcd *one, *two, *alone, *none = NULL;

	assert_true(fd >= 0 && other >= 0);
	again = open(path, O_RDONLY);
	assert_int_equal(hca_open_xrcd(context, fd, 0, &none), EAGAIN);
	one = domain_open(fd, O_CREAT | O_EXCL);
	assert_int_equal(hca_open_xrcd(context, fd, O_CREAT | O_EXCL, &none), EINVAL);
	two = domain_open(again, 0);
	assert_int_equal(hca_open_xrcd(context, other, 0, &none), EAGAIN);	/* another file */
	alone = domain_open(-1, O_CREAT);
	assert_ptr_equal(one->domain, two->domain);
	assert_ptr_not_equal(one->domain, alone->domain);
	assert_ptr_not_equal(domain_open(-1, O_CREAT)->domain, alone->domain);
	assert_null(none);
	assert_int_equal(hca_close_xrcd(context, one), 0);
	assert_int_equal(hca_close_xrcd(context, two), 0);
	assert_int_equal(hca_open_xrcd(context, fd, 0, &none), EAGAIN);
	close(fd);
	close(again);
	close(other);
	unlink(path);
	unlink(beside);
	assert_int_equal(hca_open_xrcd(context, again, O_CREAT, &none), EBADF);
}

static void a_domain_in_use_stays(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct srq *srq = srq_make(xrcd, pd, cq);
	struct qp *target = target_make(xrcd);

	assert_int_equal(hca_close_xrcd(context, xrcd), EBUSY);
	assert_int_equal(hca_destroy_cq(context, cq), EBUSY);
	assert_int_equal(hca_destroy_srq(context, srq), 0);
	assert_int_equal(hca_close_xrcd(context, xrcd), EBUSY);
	assert_int_equal(hca_destroy_qp(context, target), 0);
	assert_int_equal(hca_close_xrcd(context, xrcd), 0);
}

static void what_lacks_a_part_is_refused(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct ibv_srq_init_attr_ex attr = srq_attr(xrcd, pd, cq);
	struct ibv_qp_init_attr_ex of = qp_attr(IBV_QPT_XRC_RECV), send = qp_attr(IBV_QPT_XRC_SEND);
	struct ibv_qp_init_attr_ex reliable = qp_attr(IBV_QPT_RC);
	struct srq *srq = NULL;
	struct qp *qp = NULL;

	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD;
	assert_int_equal(hca_create_srq(context, &attr, &srq), EINVAL);
	attr = srq_attr(xrcd, pd, cq);
	attr.cq = NULL;
	assert_int_equal(hca_create_srq(context, &attr, &srq), EINVAL);
	assert_null(srq);
	assert_int_equal(hca_create_qp(context, &of, &qp), EINVAL);
	srq = srq_make(xrcd, pd, cq);
	reliable.srq = &srq->ibv;
	assert_int_equal(hca_create_qp(context, &reliable, &qp), EINVAL);
	send.srq = NULL;
	send.send_cq = NULL;
	assert_int_equal(hca_create_qp(context, &send, &qp), EINVAL);
	assert_null(qp);
}

/* As Linux, which does not look for them. */
static void a_sender_has_no_receive_queue_whatever_it_is_given(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct srq *srq = srq_make(xrcd, pd, cq);
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_XRC_SEND);
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr current;
	struct qp *qp;

	attr.srq = &srq->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(hca_query_qp(qp, &current, IBV_QP_STATE, &queried), 0);
	assert_null(queried.srq);
	assert_int_equal(hca_destroy_srq(context, srq), 0);	/* the QP does not hold it */
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(hca_close_xrcd(context, xrcd), 0);
}

/* ---- requests ---- */

static void each_request_lands_in_the_srq_that_it_names(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct cq *cqs[2];
	struct srq *srqs[2];
	struct qp *target, *sender = sender_to(xrcd, &target);
	unsigned i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(cq_make(NULL, &cqs[i]), 0);
		srqs[i] = srq_make(xrcd, pd, cqs[i]);
		srq_fill(srqs[i], 10 + i, mr->ibv.lkey, 16384 + 8192 * i);
	}
	memset(memory, 0x5a, 3000);
	assert_int_equal(post_to(sender, srqs[1]->number, IBV_WR_SEND, 1, 3000, 0, 0), 0);
	assert_int_equal(post_to(sender, srqs[0]->number, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 2500, 40000,
				 mr->ibv.rkey), 0);
	for (i = 0; i < 2; i++) {
		struct ibv_wc wc = next_of(cqs[1 - i]);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 11 - i);
		assert_int_equal(wc.qp_num, target->number);
		assert_int_equal(wc.byte_len, i ? 2500 : 3000);
	}
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(2, IBV_WC_SUCCESS);
	assert_memory_equal(memory + 16384 + 8192, memory, 3000);
	assert_memory_equal(memory + 40000, memory, 2500);
}

static void reads_and_atomics_go_as_well(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct srq *srq = srq_make(xrcd, pd, cq);
	struct qp *target, *sender = sender_to(xrcd, &target);
	uint64_t value = 37;

	memset(memory + 8192, 0x77, 5000);
	memcpy(memory + 32768, &value, 8);
	assert_int_equal(post_to(sender, srq->number, IBV_WR_RDMA_READ, 1, 5000, 8192, mr->ibv.rkey), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_memory_equal(memory, memory + 8192, 5000);
	assert_int_equal(post_to(sender, srq->number, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 8, 32768,
				 mr->ibv.rkey), 0);
	expect_wc(2, IBV_WC_SUCCESS);
	memcpy(&value, memory, 8);
	assert_int_equal(value, 37);
	memcpy(&value, memory + 32768, 8);
	assert_int_equal(value, 42);
}

/* The keys that a request may use are those of the SRQ's protection domain. */
static void the_srq_brings_the_protection_domain(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct pd *other;
	struct srq *srq;
	struct qp *target, *sender = sender_to(xrcd, &target);

	assert_int_equal(hca_alloc_pd(context, &other), 0);
	srq = srq_make(xrcd, other, cq);
	assert_int_equal(post_to(sender, srq->number, IBV_WR_RDMA_READ, 1, 8, 8192, mr->ibv.rkey), 0);
	expect_wc(1, IBV_WC_REM_ACCESS_ERR);
}

static void an_srq_of_another_domain_is_refused(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT), *other = domain_open(-1, O_CREAT);
	struct srq *srq = srq_make(other, pd, cq);
	struct qp *target, *sender = sender_to(xrcd, &target);

	srq_fill(srq, 10, mr->ibv.lkey, 16384);
	assert_int_equal(post_to(sender, srq->number, IBV_WR_SEND, 1, 8, 0, 0), 0);
	expect_wc(1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(target->state, IBV_QPS_ERR);
	assert_int_equal(recv_queue_count(&srq->queue), 1);
}

static void an_srq_that_is_destroyed_is_named_no_more(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct srq *srq = srq_make(xrcd, pd, cq);
	uint32_t number = srq->number;
	struct qp *target, *sender = sender_to(xrcd, &target);

	srq_fill(srq, 10, mr->ibv.lkey, 16384);
	assert_int_equal(post_to(sender, number, IBV_WR_RDMA_WRITE, 1, 8, 8192, mr->ibv.rkey), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_ptr_equal(target->responder.target, srq);
	assert_int_equal(hca_destroy_srq(context, srq), 0);
	assert_null(target->responder.target);
	assert_int_equal(post_to(sender, number, IBV_WR_RDMA_WRITE, 2, 8, 8192, mr->ibv.rkey), 0);
	expect_wc(2, IBV_WC_REM_INV_REQ_ERR);
}

/* Receiver not ready: the sender tries again until there is a receive. */
static void an_empty_srq_is_waited_for(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct cq *received;
	struct srq *srq;
	struct qp *target, *sender = sender_to(xrcd, &target);
	struct ibv_wc wc;

	assert_int_equal(cq_make(NULL, &received), 0);
	srq = srq_make(xrcd, pd, received);
	assert_int_equal(post_to(sender, srq->number, IBV_WR_SEND, 1, 8, 0, 0), 0);
	while (!counted(COUNTER_TX_RNR_NAK))
		assert_int_equal(hca_poll_cq(cq, 1, &wc), 0);
	srq_fill(srq, 10, mr->ibv.lkey, 16384);
	assert_int_equal(next_of(received).wr_id, 10);
	expect_wc(1, IBV_WC_SUCCESS);
}

/* ---- queue pairs ---- */

static void a_queue_that_a_qp_lacks_takes_nothing(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT);
	struct qp *target, *sender = sender_to(xrcd, &target);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(post_recv(sender, 1), EINVAL);
	assert_int_equal(post_recv(target, 1), EINVAL);
	assert_int_equal(post_send(target, 1, 8), EINVAL);
	assert_int_equal(post_to(sender, 1 << 24, IBV_WR_SEND, 1, 8, 0, 0), EINVAL);
	assert_int_equal(hca_query_qp(target, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
	assert_null(init.send_cq);
	assert_null(init.recv_cq);
	assert_int_equal(attr.cap.max_send_wr + attr.cap.max_recv_wr, 0);
	assert_int_equal(to_state(target, IBV_QPS_ERR), 0);
	assert_int_equal(to_state(target, IBV_QPS_RESET), 0);
	assert_int_equal(to_state(sender, IBV_QPS_RESET), 0);
}

static void a_target_lives_until_its_last_open_ends(void **state)
{
	struct xrcd *xrcd = domain_open(-1, O_CREAT), *other = domain_open(-1, O_CREAT);
	struct srq *srq = srq_make(xrcd, pd, cq);
	struct qp *target, *sender = sender_to(xrcd, &target), *opened = NULL;

	assert_int_equal(hca_open_qp(context, other, target->number, &opened), EINVAL);
	assert_int_equal(hca_open_qp(context, xrcd, sender->number, &opened), EINVAL);
	assert_int_equal(hca_open_qp(context, xrcd, target->number, &opened), 0);
	assert_ptr_equal(opened, target);
	assert_int_equal(hca_destroy_qp(context, target), 0);
	assert_int_equal(post_to(sender, srq->number, IBV_WR_RDMA_WRITE, 1, 8, 8192, mr->ibv.rkey), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	assert_int_equal(hca_destroy_qp(context, opened), 0);
	assert_int_equal(hca_close_xrcd(context, xrcd), EBUSY);	/* the SRQ */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(opens_of_one_file_share_a_domain),
		DEVICE_TEST(a_domain_in_use_stays),
		DEVICE_TEST(what_lacks_a_part_is_refused),
		DEVICE_TEST(a_sender_has_no_receive_queue_whatever_it_is_given),
		DEVICE_TEST(each_request_lands_in_the_srq_that_it_names),
		DEVICE_TEST(reads_and_atomics_go_as_well),
		DEVICE_TEST(the_srq_brings_the_protection_domain),
		DEVICE_TEST(an_srq_of_another_domain_is_refused),
		DEVICE_TEST(an_srq_that_is_destroyed_is_named_no_more),
		DEVICE_TEST(an_empty_srq_is_waited_for),
		DEVICE_TEST(a_queue_that_a_qp_lacks_takes_nothing),
		DEVICE_TEST(a_target_lives_until_its_last_open_ends),
	};

	DEVICE_TESTS(tests);
}
