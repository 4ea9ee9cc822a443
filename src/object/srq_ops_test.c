/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_post_srq_ops: what each operation completes with, and what is refused. */
#include "object/test_support.h"

#include "object/cq.h"
#include "object/srq.h"
#include "object/tag_list.h"

struct fixture {
	struct srq srq;
	struct cq cq;
	struct effects effects;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	effects_init(&fixture->effects);
	fixture->srq.cq = &fixture->cq;
	fixture->srq.number = 5;
	fixture->srq.tags = tag_list_new(2, 3);
	return !fixture->srq.tags || recv_queue_init(&fixture->srq.queue, 4, 1) || cq_init(&fixture->cq, 16);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	free(fixture->srq.tags);
	recv_queue_fini(&fixture->srq.queue);
	cq_fini(&fixture->cq);
	free(fixture);
	return 0;
}

static int post(struct fixture *fixture, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int err = srq_post_ops(&fixture->srq, wr, &bad, 1, &fixture->effects);

	if (err)
		assert_ptr_equal(bad, wr);
	return err;
}

static struct ibv_wc completion(struct fixture *fixture)
{
	struct ibv_wc wc;

	assert_int_equal(cq_take(&fixture->cq, 1, &wc), 1);
	return wc;
}

static struct ibv_ops_wr add_wr(uint64_t tag)
{
	return (struct ibv_ops_wr){ .wr_id = 100 + tag, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED,
				    .tm.add = { .tag = tag, .mask = UINT64_MAX, .recv_wr_id = tag } };
}

static void each_signaled_operation_completes(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_ops_wr add = add_wr(1);
	struct ibv_ops_wr del = { .wr_id = 7, .opcode = IBV_WR_TAG_DEL, .flags = IBV_OPS_SIGNALED };
	struct ibv_ops_wr sync = { .wr_id = 8, .opcode = IBV_WR_TAG_SYNC,
				   .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC };
	struct ibv_wc wc;

	assert_int_equal(post(fixture, &add), 0);
	wc = completion(fixture);
	assert_int_equal(wc.wr_id, 101);
	assert_int_equal(wc.opcode, IBV_WC_TM_ADD);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, 0);
	del.tm.handle = add.tm.handle;
	assert_int_equal(post(fixture, &del), 0);
	wc = completion(fixture);
	assert_int_equal(wc.opcode, IBV_WC_TM_DEL);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(post(fixture, &sync), 0);
	wc = completion(fixture);
	assert_int_equal(wc.opcode, IBV_WC_TM_SYNC);
	assert_int_equal(wc.wr_id, 8);
}

static void others_do_not(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_ops_wr add = add_wr(1);

	add.flags = 0;
	assert_int_equal(post(fixture, &add), 0);
	assert_true(cq_is_empty(&fixture->cq));
}

static void an_entry_that_was_matched_is_not_deleted(void **state)
{
	struct fixture *fixture = *state;
	struct { struct recv_wqe wqe; struct ibv_sge sge[TAG_SGE_MAX]; } recv;
	struct ibv_ops_wr add = add_wr(1), del = { .opcode = IBV_WR_TAG_DEL, .flags = IBV_OPS_SIGNALED };

	add.flags = 0;
	assert_int_equal(post(fixture, &add), 0);
	tag_list_consume(fixture->srq.tags, tag_list_find(fixture->srq.tags, 1), &recv.wqe);
	del.tm.handle = add.tm.handle;
	assert_int_equal(post(fixture, &del), 0);
	assert_int_equal(completion(fixture).status, IBV_WC_TM_ERR);
}

static void an_operation_out_of_step_asks_for_a_report(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_ops_wr add = add_wr(1), sync = { .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED };

	tag_list_unexpected(fixture->srq.tags);
	assert_int_equal(post(fixture, &add), 0);
	assert_int_equal(completion(fixture).wc_flags, IBV_WC_TM_SYNC_REQ);
	assert_int_equal(post(fixture, &sync), 0);
	assert_int_equal(completion(fixture).wc_flags, IBV_WC_TM_SYNC_REQ);	/* it reported nothing */
	sync.flags |= IBV_OPS_TM_SYNC;
	sync.tm.unexpected_cnt = 1;
	assert_int_equal(post(fixture, &sync), 0);
	assert_int_equal(completion(fixture).wc_flags, 0);
	assert_non_null(tag_list_find(fixture->srq.tags, 1));
}

static void wrong_operations_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_ops_wr wr = add_wr(1), again;

	wr.tm.add.num_sge = TAG_SGE_MAX + 1;
	assert_int_equal(post(fixture, &wr), EINVAL);
	wr.tm.add.num_sge = -1;
	assert_int_equal(post(fixture, &wr), EINVAL);
	wr.tm.add.num_sge = 1;
	assert_int_equal(post(fixture, &wr), EINVAL);	/* no sg_list */
	wr.tm.add.num_sge = 0;
	wr.flags = 1 << 5;
	assert_int_equal(post(fixture, &wr), EINVAL);
	wr.flags = IBV_OPS_TM_SYNC;
	wr.tm.unexpected_cnt = 1;
	assert_int_equal(post(fixture, &wr), EINVAL);	/* none came */
	wr.opcode = (enum ibv_ops_wr_opcode)77;
	assert_int_equal(post(fixture, &wr), EINVAL);
	again = (struct ibv_ops_wr){ .opcode = IBV_WR_TAG_DEL, .tm.handle = 1234 };
	assert_int_equal(post(fixture, &again), EINVAL);
	wr = add_wr(1);
	assert_int_equal(post(fixture, &wr), 0);
	again.tm.handle = wr.tm.handle;
	assert_int_equal(post(fixture, &again), 0);
	assert_int_equal(post(fixture, &again), EINVAL);	/* deleted before */
	assert_int_equal(completion(fixture).opcode, IBV_WC_TM_ADD);
	assert_true(cq_is_empty(&fixture->cq));
}

static void what_is_before_a_refused_operation_is_done(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_ops_wr wr[3] = { add_wr(1), add_wr(2), add_wr(3) }, *bad;

	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	assert_int_equal(srq_post_ops(&fixture->srq, wr, &bad, 1, &fixture->effects), ENOMEM);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(completion(fixture).wr_id, 101);
	assert_int_equal(completion(fixture).wr_id, 102);
	assert_non_null(tag_list_find(fixture->srq.tags, 2));
	assert_null(tag_list_find(fixture->srq.tags, 3));
}

static void at_most_max_ops_are_outstanding_until_a_later_one_is_polled(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_ops_wr wr[4] = { 0 }, *bad;
	struct ibv_ops_wr sync = { .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED };

	for (unsigned i = 0; i < 4; i++)
		wr[i] = (struct ibv_ops_wr){ .opcode = IBV_WR_TAG_SYNC, .next = i < 3 ? &wr[i + 1] : NULL };
	assert_int_equal(srq_post_ops(&fixture->srq, wr, &bad, 1, &fixture->effects), ENOMEM);
	assert_ptr_equal(bad, &wr[3]);
	assert_int_equal(post(fixture, &sync), ENOMEM);
	wqe_slots_free_to(&fixture->srq.tags->ops, 1);
	assert_int_equal(post(fixture, &sync), 0);
	assert_int_equal(post(fixture, &sync), ENOMEM);
	completion(fixture);
	assert_int_equal(srq_post_ops(&fixture->srq, &wr[1], &bad, 1, &fixture->effects), 0);
	assert_int_equal(post(fixture, &sync), ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_signaled_operation_completes, setup, teardown),
		cmocka_unit_test_setup_teardown(others_do_not, setup, teardown),
		cmocka_unit_test_setup_teardown(an_entry_that_was_matched_is_not_deleted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_operation_out_of_step_asks_for_a_report, setup,
						teardown),
		cmocka_unit_test_setup_teardown(wrong_operations_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_before_a_refused_operation_is_done, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			at_most_max_ops_are_outstanding_until_a_later_one_is_polled, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
