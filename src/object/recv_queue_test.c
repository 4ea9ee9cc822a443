/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues and SRQs: order, wrapping, partial posts, resize, the limit event. */
#include <errno.h>

#include "object/test_support.h"

#include "object/srq.h"

#define SGES 2u

union taken {
	struct recv_wqe wqe;
	uint8_t room[sizeof(struct recv_wqe) + SGES * sizeof(struct ibv_sge)];
};

static int post(struct recv_queue *queue, uint64_t wr_id, int sges)
{
	struct ibv_sge sge[] = { { wr_id, 1, 10 }, { wr_id + 1, 2, 20 }, { wr_id + 2, 3, 30 } };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = sges }, *bad = NULL;
	int err = recv_queue_post_for(queue, &wr, &bad, EXPLAIN_QP, 0);

	assert_ptr_equal(bad, err ? &wr : NULL);
	return err;
}

static void check_taken(const union taken *taken, uint64_t wr_id, uint32_t sges)
{
	assert_int_equal(taken->wqe.wr_id, wr_id);
	assert_int_equal(taken->wqe.sge_count, sges);
	for (uint32_t i = 0; i < sges; i++) {
		assert_int_equal(taken->wqe.sge[i].addr, wr_id + i);
		assert_int_equal(taken->wqe.sge[i].length, i + 1);
		assert_int_equal(taken->wqe.sge[i].lkey, 10 * (i + 1));
	}
}

static void polled(struct recv_queue *queue, const union taken *taken)
{
	wqe_slot_free(&(struct wqe_slot){ &queue->slots, taken->wqe.number, false });
}

static void receives_come_out_in_order_while_the_counters_wrap(void **state)
{
	struct recv_queue queue = { 0 };
	union taken taken;

	assert_int_equal(recv_queue_init(&queue, 5, SGES), 0);
	atomic_store(&queue.head, 0xfffffff0);
	atomic_store(&queue.tail, 0xfffffff0);
	atomic_store(&queue.slots.freed, 0xfffffff0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post(&queue, i, (int)(i % 3)), 0);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(post(&queue, i + 3, (int)((i + 3) % 3)), 0);
		assert_int_equal(recv_queue_count(&queue), 4);
		assert_true(recv_queue_take(&queue, &taken.wqe));
		check_taken(&taken, i, (uint32_t)(i % 3));
		polled(&queue, &taken);
	}
	recv_queue_fini(&queue);
}

static void a_full_queue_gives_enomem_at_exactly_its_size(void **state)
{
	struct recv_queue queue = { 0 };
	union taken taken;

	assert_int_equal(recv_queue_init(&queue, 5, SGES), 0);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post(&queue, i, 1), 0);
	assert_int_equal(post(&queue, 5, 1), ENOMEM);
	assert_true(recv_queue_take(&queue, &taken.wqe));
	polled(&queue, &taken);
	assert_int_equal(post(&queue, 5, 1), 0);
	recv_queue_fini(&queue);
}

static void a_slot_is_free_when_its_completion_was_polled(void **state)
{
	struct ibv_recv_wr wr = { .wr_id = 9 }, *bad;
	struct recv_queue queue = { 0 };
	struct listening explanation;
	union taken taken, later;

	assert_int_equal(recv_queue_init(&queue, 2, SGES), 0);
	assert_int_equal(post(&queue, 0, 1), 0);
	assert_int_equal(post(&queue, 1, 1), 0);
	assert_true(recv_queue_take(&queue, &taken.wqe));
	explanation_begin(&explanation);
	assert_int_equal(recv_queue_post_for(&queue, &wr, &bad, EXPLAIN_QP, 0x12), ENOMEM);
	assert_mentions(explanation_end(&explanation), "waiting: 1); a slot is free when the completion");
	assert_true(recv_queue_take(&queue, &later.wqe));
	assert_int_equal(post(&queue, 2, 1), ENOMEM);
	polled(&queue, &later);		/* of one before it the completion was lost */
	assert_int_equal(post(&queue, 2, 1), 0);
	assert_int_equal(post(&queue, 3, 1), 0);
	assert_int_equal(post(&queue, 4, 1), ENOMEM);
	assert_true(recv_queue_take(&queue, &taken.wqe));
	recv_queue_emptied(&queue);
	assert_int_equal(post(&queue, 4, 1), 0);
	assert_int_equal(post(&queue, 5, 1), ENOMEM);
	recv_queue_fini(&queue);
}

static void a_resize_keeps_the_slots_taken_whose_completions_were_not_polled(void **state)
{
	struct recv_queue queue = { 0 };
	struct wqe_slot slot = { &queue.slots, 0, true };
	union taken taken;

	assert_int_equal(recv_queue_init(&queue, 4, SGES), 0);
	for (uint64_t i = 0; i < 4; i++)
		post(&queue, i, 1);
	for (uint64_t i = 0; i < 3; i++)
		assert_true(recv_queue_take(&queue, &taken.wqe));
	wqe_slot_free(&slot);
	assert_int_equal(recv_queue_resize(&queue, 5), 0);
	assert_int_equal(post(&queue, 4, 1), 0);
	assert_int_equal(post(&queue, 5, 1), 0);
	assert_int_equal(post(&queue, 6, 1), ENOMEM);
	wqe_slot_free(&slot);
	assert_int_equal(post(&queue, 6, 1), 0);
	assert_int_equal(post(&queue, 7, 1), ENOMEM);
	recv_queue_fini(&queue);
}

static void receives_before_the_bad_one_stand(void **state)
{
	struct ibv_sge sge[3] = { { 0 } };
	struct ibv_recv_wr wr[3] = {
		{ .wr_id = 1, .next = &wr[1], .sg_list = sge, .num_sge = 1 },
		{ .wr_id = 2, .next = &wr[2], .sg_list = sge, .num_sge = 3 },
		{ .wr_id = 3, .sg_list = sge, .num_sge = 1 },
	}, *bad = NULL;
	struct recv_queue queue = { 0 };
	struct listening explanation;
	const char *text;

	assert_int_equal(recv_queue_init(&queue, 5, SGES), 0);
	explanation_begin(&explanation);
	assert_int_equal(recv_queue_post_for(&queue, wr, &bad, EXPLAIN_QP, 0x12), EINVAL);
	text = explanation_end(&explanation);
	assert_mentions(text, "post_recv: qp 0x000012: wr_id 0x2 has num_sge 3");
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(recv_queue_count(&queue), 1);
	wr[1].num_sge = -1;
	assert_int_equal(recv_queue_post_for(&queue, &wr[1], &bad, EXPLAIN_QP, 0), EINVAL);
	wr[1].num_sge = 1;
	wr[1].sg_list = NULL;
	assert_int_equal(recv_queue_post_for(&queue, &wr[1], &bad, EXPLAIN_QP, 0), EINVAL);
	recv_queue_fini(&queue);
}

static void a_resize_keeps_what_is_posted_or_is_refused(void **state)
{
	struct recv_queue queue = { 0 };
	union taken taken;

	assert_int_equal(recv_queue_init(&queue, 4, SGES), 0);
	post(&queue, 100, 1);
	recv_queue_take(&queue, &taken.wqe);
	polled(&queue, &taken);
	for (uint64_t i = 0; i < 4; i++)
		post(&queue, i, 2);
	assert_int_equal(recv_queue_resize(&queue, 3), EINVAL);
	assert_int_equal(queue.size, 4);
	assert_int_equal(recv_queue_resize(&queue, 9), 0);
	for (uint64_t i = 4; i < 9; i++)
		assert_int_equal(post(&queue, i, 2), 0);
	assert_int_equal(post(&queue, 9, 2), ENOMEM);
	for (uint64_t i = 0; i < 9; i++) {
		assert_true(recv_queue_take(&queue, &taken.wqe));
		check_taken(&taken, i, 2);
	}
	assert_false(recv_queue_take(&queue, &taken.wqe));
	recv_queue_fini(&queue);
}

static void srq_begin(struct srq *srq, struct event_queue *async)
{
	memset(srq, 0, sizeof(*srq));
	event_queue_init(async, -1, NULL);
	assert_int_equal(recv_queue_init(&srq->queue, 8, SGES), 0);
	srq->async = async;
	srq->number = 3;
}

static int srq_arm(struct srq *srq, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };
	struct effects effects;

	effects_init(&effects);
	return srq_modify(srq, &attr, IBV_SRQ_LIMIT, &effects);
}

static void the_limit_event_comes_once_when_fewer_than_the_limit_are_left(void **state)
{
	struct event_queue async;
	struct effects effects;
	union taken taken;
	struct srq srq;

	srq_begin(&srq, &async);
	effects_init(&effects);
	for (uint64_t i = 0; i < 6; i++)
		post(&srq.queue, i, 1);
	assert_int_equal(srq_arm(&srq, 4), 0);
	assert_null(event_queue_take(&async));
	assert_true(srq_take(&srq, &taken.wqe, &effects));
	assert_true(srq_take(&srq, &taken.wqe, &effects));
	assert_null(event_queue_take(&async));		/* 4 are left */
	assert_true(srq_take(&srq, &taken.wqe, &effects));
	assert_ptr_equal(event_queue_take(&async), &srq.limit_event.node);
	assert_int_equal(srq.limit_event.ibv.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(srq.limit_event.ibv.element.srq, &srq.ibv);
	assert_int_equal(srq.limit, 0);
	assert_true(srq_take(&srq, &taken.wqe, &effects));
	assert_null(event_queue_take(&async));
	recv_queue_fini(&srq.queue);
}

static void arming_above_what_is_posted_gives_the_event_at_once(void **state)
{
	struct event_queue async;
	struct srq srq;

	srq_begin(&srq, &async);
	post(&srq.queue, 0, 1);
	assert_int_equal(srq_arm(&srq, 1), 0);
	assert_null(event_queue_take(&async));
	assert_int_equal(srq_arm(&srq, 2), 0);
	assert_non_null(event_queue_take(&async));
	recv_queue_fini(&srq.queue);
}

static void a_refused_modify_of_an_srq_changes_nothing(void **state)
{
	struct ibv_srq_attr attr = { .max_wr = 4, .srq_limit = 5 };
	struct event_queue async;
	struct effects effects;
	struct srq srq;

	srq_begin(&srq, &async);
	effects_init(&effects);
	assert_int_equal(srq_arm(&srq, 9), EINVAL);
	assert_int_equal(srq_modify(&srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, &effects), EINVAL);
	assert_int_equal(srq.queue.size, 8);
	assert_int_equal(srq_modify(&srq, &attr, 1 << 5, &effects), EINVAL);
	attr.srq_limit = 4;
	assert_int_equal(srq_modify(&srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, &effects), 0);
	assert_int_equal(srq.queue.size, 4);
	attr.max_wr = 0;
	assert_int_equal(srq_modify(&srq, &attr, IBV_SRQ_MAX_WR, &effects), EINVAL);
	recv_queue_fini(&srq.queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(receives_come_out_in_order_while_the_counters_wrap),
		cmocka_unit_test(a_full_queue_gives_enomem_at_exactly_its_size),
		cmocka_unit_test(a_slot_is_free_when_its_completion_was_polled),
		cmocka_unit_test(a_resize_keeps_the_slots_taken_whose_completions_were_not_polled),
		cmocka_unit_test(receives_before_the_bad_one_stand),
		cmocka_unit_test(a_resize_keeps_what_is_posted_or_is_refused),
		cmocka_unit_test(the_limit_event_comes_once_when_fewer_than_the_limit_are_left),
		cmocka_unit_test(arming_above_what_is_posted_gives_the_event_at_once),
		cmocka_unit_test(a_refused_modify_of_an_srq_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
