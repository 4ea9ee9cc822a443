/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: what is granted and refused, what they hold, what goes with their state and end. */
#include "device/device_test.h"

static int create(struct ibv_qp_init_attr_ex attr)
{
	struct qp *qp = NULL;
	int err = hca_create_qp(context, &attr, &qp);

	if (!err)
		assert_int_equal(hca_destroy_qp(context, qp), 0);
	else
		assert_null(qp);
	return err;
}

static void what_cannot_be_had_is_refused(void **state)
{
	struct ibv_qp_init_attr_ex good = qp_attr(IBV_QPT_RC), attr = good;
	uint32_t users = atomic_load(&pd->users);
	unsigned i;

	attr.qp_type = IBV_QPT_DRIVER;
	assert_int_equal(create(attr), EOPNOTSUPP);
	attr = good;
	attr.comp_mask = 0;
	assert_int_equal(create(attr), EINVAL);
	attr = good;
	attr.recv_cq = NULL;
	assert_int_equal(create(attr), EINVAL);
	attr = good;
	attr.send_cq = NULL;
	assert_int_equal(create(attr), EINVAL);
	for (i = 0; i < 5; i++) {
		static const uint32_t limit[] = { LIMIT_QP_WR, LIMIT_QP_WR, LIMIT_SGE, LIMIT_SGE,
						  LIMIT_INLINE };
		uint32_t *cap;

		attr = good;
		cap = &attr.cap.max_send_wr + i;
		*cap = limit[i] + 1;
		assert_int_equal(create(attr), EINVAL);
		*cap = limit[i];
		assert_int_equal(create(attr), 0);
	}
	assert_int_equal(atomic_load(&pd->users), users);
	assert_int_equal(atomic_load(&cq->users), 0);
}

static void at_least_one_of_each_is_granted_and_said(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_UD);
	struct qp *qp;

	memset(&attr.cap, 0, sizeof(attr.cap));
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_in_range(attr.cap.max_send_wr, 1, LIMIT_QP_WR);
	assert_in_range(attr.cap.max_recv_wr, 1, LIMIT_QP_WR);
	assert_in_range(attr.cap.max_send_sge, 1, LIMIT_SGE);
	assert_in_range(attr.cap.max_recv_sge, 1, LIMIT_SGE);
	assert_int_equal(qp->ibv.qp_base.qp_num, qp->number);
	assert_int_equal(qp->ibv.qp_base.state, IBV_QPS_RESET);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
}

static void receives_of_a_qp_without_a_receive_queue_are_ignored(void **state)
{
	static const uint32_t wr[] = { 0x7fffffff, 1, LIMIT_QP_WR + 1, 0, UINT32_MAX };
	static const uint32_t sge[] = { 1, 1000, LIMIT_SGE + 1, 0, UINT32_MAX };
	struct ibv_srq_init_attr_ex srq_attr = { .attr = { 16, 1, 0 }, .pd = &pd->ibv };
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr current;
	struct srq *srq;
	struct qp *qp;

	assert_int_equal(hca_create_srq(context, &srq_attr, &srq), 0);
	for (unsigned i = 0; i < 15; i++) {
		static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_XRC_SEND };
		struct ibv_qp_init_attr_ex attr = qp_attr(types[i / 5]);

		attr.srq = attr.qp_type == IBV_QPT_XRC_SEND ? NULL : &srq->ibv;
		attr.cap.max_recv_wr = wr[i % 5];
		attr.cap.max_recv_sge = sge[i % 5];
		assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
		assert_int_equal(attr.cap.max_recv_wr, 0);
		assert_int_equal(attr.cap.max_recv_sge, 0);
		assert_int_equal(hca_query_qp(qp, &current, IBV_QP_CAP, &queried), 0);
		assert_int_equal(queried.cap.max_recv_wr + queried.cap.max_recv_sge, 0);
		assert_int_equal(current.cap.max_recv_wr + current.cap.max_recv_sge, 0);
		assert_int_equal(hca_destroy_qp(context, qp), 0);
	}
	assert_int_equal(hca_destroy_srq(context, srq), 0);
}

static void a_qp_holds_its_parts_until_it_is_destroyed(void **state)
{
	struct ibv_srq_init_attr_ex srq_attr = { .attr = { 16, 1, 0 }, .pd = &pd->ibv };
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	uint32_t users = atomic_load(&pd->users);
	struct cq *receives;
	struct srq *srq;
	struct qp *qp;

	assert_int_equal(cq_make(NULL, &receives), 0);
	assert_int_equal(hca_create_srq(context, &srq_attr, &srq), 0);
	attr.recv_cq = (struct ibv_cq *)&receives->ibv;
	attr.srq = &srq->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(atomic_load(&pd->users), users + 2);
	assert_int_equal(atomic_load(&cq->users), 1);
	assert_int_equal(atomic_load(&receives->users), 1);
	assert_int_equal(atomic_load(&srq->users), 1);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(atomic_load(&pd->users), users + 1);
	assert_int_equal(atomic_load(&cq->users), 0);
	assert_int_equal(atomic_load(&receives->users), 0);
	assert_int_equal(atomic_load(&srq->users), 0);
}

static struct qp *found(uint32_t number)
{
	struct qp *qp;

	lock_acquire(&hca->engine.progress);
	qp = qp_table_find(&hca->engine, number);
	lock_release(&hca->engine.progress);
	return qp;
}

static void a_qp_is_found_by_its_number_until_it_is_destroyed(void **state)
{
	struct qp *qp = qp_make(IBV_QPT_RC);
	struct qp_access *access = qp->access;
	uint32_t number = qp->number;

	assert_ptr_equal(found(number), qp);
	assert_int_equal(atomic_load(&access->qpn), number);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_null(found(number));
	assert_int_equal(atomic_load(&access->qpn), 0);
}

static void a_process_has_so_many_qps_and_no_more(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	struct qp *qp[2], *third = NULL;

	hca->config.max_qp = 2;
	qp[0] = qp_make(IBV_QPT_RC);
	qp[1] = qp_make(IBV_QPT_UD);
	assert_int_equal(hca_create_qp(context, &attr, &third), ENOMEM);
	assert_null(third);
	assert_true(is_free(&hca->engine.progress));
	assert_true(is_free(&hca->objects));
	assert_int_equal(hca_destroy_qp(context, qp[1]), 0);
	third = qp_make(IBV_QPT_RC);
	assert_int_not_equal(third->number, qp[0]->number);
}

static void who_is_connected_to_us_is_known_by_slot(void **state)
{
	uint32_t slot = hca->engine.qps.slot[0].number;
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_true(qps_are_connected_to(hca, slot));
	assert_false(qps_are_connected_to(hca, slot ^ 1));
	assert_int_equal(to_state(pair[0], IBV_QPS_RESET), 0);
	assert_true(qps_are_connected_to(hca, slot));
	assert_int_equal(to_state(pair[1], IBV_QPS_ERR), 0);
	assert_false(qps_are_connected_to(hca, slot));
}

static void what_was_sent_arrives(void **state)
{
	struct qp *pair[2];
	unsigned i;

	qp_make_pair(pair);
	memcpy(memory, "over and over", 14);
	for (i = 0; i < 100; i++) {
		memory[0] = (uint8_t)i;
		assert_int_equal(post_recv(pair[1], 1), 0);
		assert_int_equal(post_send(pair[0], 1, 14), 0);
		expect_wc(1, IBV_WC_SUCCESS);
		expect_wc(1, IBV_WC_SUCCESS);
		assert_memory_equal(memory + MEMORY_BYTES / 2, memory, 14);
	}
}

static void the_completions_of_a_qp_go_with_it(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	assert_int_equal(post_recv(qp, 1), 0);
	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	assert_false(cq_is_empty(cq));
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(hca_poll_cq(cq, 1, &wc), 0);
}

/* ---- modify ---- */

static void a_path_mtu_beyond_that_of_the_port_is_refused(void **state)
{
	struct qp *qp = qp_make(IBV_QPT_RC);

	context->port->netdev.mtu = 1500;
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_rtr(qp, 5, IBV_MTU_2048), EINVAL);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(to_rtr(qp, 5, IBV_MTU_1024), 0);
	assert_int_equal(qp->mtu, 1024);
}

static void *create_qp(void *unused)
{
	return qp_make(IBV_QPT_RC);
}

static void *exceed_mtu(void *qp)
{
	return (void *)(intptr_t)to_rtr(qp, 5, IBV_MTU_2048);
}

/* What @run returns that begins while the worker replaces the port's netdev by that of @mtu. */
static void *while_the_port_changes(void *(*run)(void *), void *argument, uint32_t mtu)
{
	struct netdev *netdev = &context->port->netdev;
	struct netdev before, after;
	pthread_t thread;
	void *result;

	lock_acquire(&hca->net.lock);
	before = after = *netdev;
	after.mtu = mtu;
	memset(netdev, 0, sizeof(*netdev));
	assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
	thread_sleep_ns(20 * MS);
	*netdev = after;
	lock_release(&hca->net.lock);
	assert_int_equal(pthread_join(thread, &result), 0);
	lock_acquire(&hca->net.lock);
	*netdev = before;
	lock_release(&hca->net.lock);
	return result;
}

static void a_port_that_changes_is_seen_before_or_after(void **state)
{
	struct qp *qp = while_the_port_changes(create_qp, NULL, 1500);

	assert_int_equal(qp->mtu, 1024);
	assert_int_equal(to_init(qp), 0);
	assert_null(while_the_port_changes(exceed_mtu, qp, 9000));
	assert_int_equal(qp->mtu, 2048);
}

static void a_way_is_there_until_reset(void **state)
{
	struct qp *pair[2];
	unsigned i;

	qp_make_pair(pair);
	for (i = 0; i < 2; i++) {
		assert_non_null(pair[i]->path);
		assert_true(pair[i]->route.loopback);
		assert_in_range(pair[i]->route.roce.source_port, 0xc000, 0xffff);
	}
	assert_ptr_equal(pair[0]->path, pair[1]->path);		/* to the same process */
	assert_int_equal(to_state(pair[0], IBV_QPS_RESET), 0);
	assert_null(pair[0]->path);
	assert_non_null(pair[1]->path);
}

static void a_gid_that_leads_nowhere_changes_nothing(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = 5, .ah_attr = here() };
	struct qp *qp = qp_make(IBV_QPT_UC);

	assert_int_equal(to_init(qp), 0);
	attr.ah_attr.grh.sgid_index = 200;
	assert_int_not_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_true(is_free(&qp->lock));
}

static void what_another_life_was_told_is_forgotten_with_the_rights(void **state)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct qp *qp = qp_rts(IBV_QPT_RC);

	qp->pairing.agreed = true;
	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_true(qp->pairing.agreed);
	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	assert_false(qp->pairing.agreed);
}

static void err_flushes_and_reset_forgets(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	assert_int_equal(post_recv(qp, 1), 0);
	assert_int_equal(post_recv(qp, 2), 0);
	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	expect_wc(1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(to_state(qp, IBV_QPS_RESET), 0);
	assert_int_equal(hca_poll_cq(cq, 1, &wc), 0);
}

static void a_query_says_what_was_set(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_equal(hca_query_qp(pair[0], &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, pair[1]->number);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_ptr_equal(init.send_cq, &cq->ibv);
	assert_true(is_free(&pair[0]->lock));
}

/* A QP of another host may have the number of one that was destroyed here. */
static void a_peer_of_another_host_is_not_gone_with_a_number_of_this_one(void **state)
{
	const uint32_t gone = 1022u << QP_INDEX_BITS | 5;
	const struct refusal told = { .why = DROP_NO_QP };
	struct local *local = &hca->engine.local;
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct qp *qp = qp_make(IBV_QPT_RC);

		assert_int_equal(to_init(qp), 0);
		assert_int_equal(to_rtr(qp, gone, IBV_MTU_1024), 0);
		assert_int_equal(to_rts(qp), 0);
		assert_int_equal(post_send(qp, 1, 8), 0);
		lock_acquire(&hca->engine.progress);
		lock_acquire(&qp->lock);
		qp->route.loopback = i;
		lock_release(&qp->lock);
		local->ops->dropped(local->owner, gone, &told);
		lock_acquire(&qp->lock);
		assert_int_equal(qp->refusal.why, i ? DROP_NO_QP : 0);
		lock_release(&qp->lock);
		progress_unlock(&hca->engine);
		assert_int_equal(hca_destroy_qp(context, qp), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(what_cannot_be_had_is_refused),
		DEVICE_TEST(at_least_one_of_each_is_granted_and_said),
		DEVICE_TEST(receives_of_a_qp_without_a_receive_queue_are_ignored),
		DEVICE_TEST(a_qp_holds_its_parts_until_it_is_destroyed),
		DEVICE_TEST(a_qp_is_found_by_its_number_until_it_is_destroyed),
		DEVICE_TEST(a_process_has_so_many_qps_and_no_more),
		DEVICE_TEST(who_is_connected_to_us_is_known_by_slot),
		DEVICE_TEST(what_was_sent_arrives),
		DEVICE_TEST(the_completions_of_a_qp_go_with_it),
		DEVICE_TEST(a_path_mtu_beyond_that_of_the_port_is_refused),
		DEVICE_TEST(a_port_that_changes_is_seen_before_or_after),
		DEVICE_TEST(a_way_is_there_until_reset),
		DEVICE_TEST(a_gid_that_leads_nowhere_changes_nothing),
		DEVICE_TEST(what_another_life_was_told_is_forgotten_with_the_rights),
		DEVICE_TEST(err_flushes_and_reset_forgets),
		DEVICE_TEST(a_query_says_what_was_set),
		DEVICE_TEST(a_peer_of_another_host_is_not_gone_with_a_number_of_this_one),
	};

	DEVICE_TESTS(tests);
}
