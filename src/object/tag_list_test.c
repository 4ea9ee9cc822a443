/* SPDX-License-Identifier: BSD-2-Clause */
/* The tag list: order, masks, handles, and the counts that decide which entries are awake. */
#include "object/test_support.h"

#include "object/recv_queue.h"
#include "object/tag_list.h"

#define SIZE 4u

static uint32_t add(struct tag_list *list, uint64_t tag, uint64_t mask, uint64_t wr_id)
{
	struct ibv_sge sge[2] = { { .addr = tag, .length = 10, .lkey = 1 }, { .addr = wr_id, .length = 20 } };
	struct ibv_ops_wr wr = { .tm.add = { .recv_wr_id = wr_id, .sg_list = sge, .num_sge = 2, .tag = tag,
					     .mask = mask } };

	assert_true(tag_list_add(list, &wr));
	return wr.tm.handle;
}

/* The wr_id of what a message of @tag takes; 0: nothing. */
static uint64_t match(struct tag_list *list, uint64_t tag)
{
	struct {
		struct recv_wqe wqe;
		struct ibv_sge sge[TAG_SGE_MAX];
	} recv = { 0 };
	struct tag_entry *entry = tag_list_find(list, tag);

	if (!entry)
		return 0;
	tag_list_consume(list, entry, &recv.wqe);
	assert_int_equal(recv.wqe.sge_count, 2);
	assert_int_equal(recv.sge[1].addr, recv.wqe.wr_id);
	return recv.wqe.wr_id;
}

/* And its completion is polled. */
static uint64_t match_polled(struct tag_list *list, uint64_t tag)
{
	uint64_t wr_id = match(list, tag);

	if (wr_id)
		wqe_slot_free(&(struct wqe_slot){ &list->slots, 0, true });
	return wr_id;
}

static void the_oldest_entry_that_matches_is_taken(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);

	add(list, 0x10, 0xff, 1);
	add(list, 0x20, 0xf0, 2);
	add(list, 0x23, 0xff, 3);
	assert_int_equal(match(list, 0x23), 2);
	assert_int_equal(match(list, 0x23), 3);
	assert_int_equal(match(list, 0x23), 0);
	assert_int_equal(match(list, 0x5510), 1);
	assert_int_equal(list->first, TAG_NONE);
	assert_int_equal(list->last, TAG_NONE);
	free(list);
}

static void a_mask_of_zero_takes_any_tag(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);

	add(list, 0, 0, 7);
	assert_int_equal(match(list, UINT64_MAX), 7);
	free(list);
}

static void a_full_list_takes_no_more_until_one_is_free(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);
	struct ibv_ops_wr wr = { .tm.add.mask = UINT64_MAX };

	for (unsigned i = 0; i < SIZE; i++)
		add(list, i, UINT64_MAX, 100 + i);
	assert_false(tag_list_add(list, &wr));
	assert_int_equal(match(list, 2), 102);
	assert_false(tag_list_add(list, &wr));
	wqe_slot_free(&(struct wqe_slot){ &list->slots, 0, true });
	add(list, 9, UINT64_MAX, 109);
	assert_false(tag_list_add(list, &wr));
	assert_int_equal(match(list, 9), 109);
	free(list);
}

static void a_handle_deletes_its_own_entry_only_and_once(void **state)
{
	struct tag_list *list = tag_list_new(1, 1);
	uint32_t first = add(list, 1, UINT64_MAX, 1), second;

	assert_int_equal(tag_list_delete(list, first), TAG_WAITING);
	assert_int_equal(tag_list_delete(list, first), TAG_DELETED);
	second = add(list, 1, UINT64_MAX, 2);
	assert_int_not_equal(first, second);
	assert_int_equal(tag_list_delete(list, first), TAG_CONSUMED);
	assert_int_equal(match(list, 1), 2);
	assert_int_equal(tag_list_delete(list, second), TAG_CONSUMED);
	free(list);
}

static void a_handle_that_was_never_given_out_is_told(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);
	uint32_t handle = add(list, 1, UINT64_MAX, 1);

	assert_int_equal(tag_list_delete(list, 0), TAG_UNUSED);
	assert_int_equal(tag_list_delete(list, handle + 1), TAG_UNUSED);
	assert_int_equal(tag_list_delete(list, handle + SIZE), TAG_UNUSED);
	assert_int_equal(tag_list_delete(list, handle + (1u << 12)), TAG_UNUSED);
	assert_int_equal(tag_list_delete(list, UINT32_MAX), TAG_UNUSED);
	assert_int_equal(match(list, 1), 1);
	free(list);
}

static void an_entry_in_the_middle_can_be_deleted(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);
	uint32_t middle;

	add(list, 0, 0, 1);
	middle = add(list, 0, 0, 2);
	add(list, 0, 0, 3);
	assert_int_equal(tag_list_delete(list, middle), TAG_WAITING);
	assert_int_equal(match(list, 5), 1);
	assert_int_equal(match(list, 5), 3);
	free(list);
}

static void an_entry_added_behind_an_unexpected_message_sleeps_until_it_is_reported(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);

	add(list, 1, UINT64_MAX, 1);
	tag_list_unexpected(list);
	add(list, 2, UINT64_MAX, 2);
	assert_int_equal(match(list, 2), 0);
	assert_int_equal(match(list, 1), 1);	/* it was there before */
	assert_true(tag_list_report(list, 0));
	assert_int_equal(match(list, 2), 0);
	assert_true(tag_list_report(list, 1));
	assert_int_equal(match(list, 2), 2);
	free(list);
}

static void a_message_that_did_not_come_wakes_what_waited_for_its_count(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);

	tag_list_unexpected(list);
	add(list, 2, UINT64_MAX, 2);
	tag_list_forget(list);
	assert_true(tag_list_in_step(list));
	assert_int_equal(match(list, 2), 2);
	free(list);
}

static void more_than_there_were_cannot_be_reported(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);

	assert_false(tag_list_report(list, 1));
	assert_true(tag_list_in_step(list));
	tag_list_unexpected(list);
	assert_false(tag_list_report(list, 2));
	assert_int_equal(tag_list_behind(list), 1);
	free(list);
}

static void counts_go_around(void **state)
{
	struct tag_list *list = tag_list_new(SIZE, 1);
	uint32_t handled = 0;

	for (unsigned i = 0; i < 70000; i++) {
		tag_list_unexpected(list);
		assert_true(tag_list_report(list, ++handled));	/* 32 bits at the application's */
	}
	add(list, 2, UINT64_MAX, 2);
	assert_int_equal(match(list, 2), 2);
	free(list);
}

static void a_list_larger_than_its_handles_is_refused(void **state)
{
	assert_null(tag_list_new(0, 1));
	assert_null(tag_list_new(4096, 1));
}

/* The twin: an array in order of adding. */
static void a_list_does_what_an_array_does(void **state)
{
	struct { uint64_t tag, mask, wr_id; uint32_t handle; bool sleeps; } twin[16];
	struct tag_list *list = tag_list_new(16, 1);
	unsigned count = 0, step, seed = 12345, i;
	uint16_t unexpected = 0, handled = 0;

	for (step = 0; step < 100000; step++) {
		unsigned what = (seed = seed * 1103515245 + 12345) >> 16, tag = what >> 4 & 7;
		uint64_t found = 0;

		switch (what % 5) {
		case 0:
		case 1:
			if (count == 16)
				break;
			twin[count].tag = tag & (what & 0x100 ? 7 : 6);
			twin[count].mask = what & 0x100 ? 7 : 6;
			twin[count].wr_id = step + 1;
			twin[count].sleeps = unexpected != handled;
			twin[count].handle = add(list, twin[count].tag, twin[count].mask, step + 1);
			count++;
			break;
		case 2:
			if (count) {
				i = tag % count;
				assert_int_equal(tag_list_delete(list, twin[i].handle), TAG_WAITING);
				memmove(&twin[i], &twin[i + 1], (--count - i) * sizeof(twin[0]));
			}
			break;
		case 3:
			for (i = 0; i < count && !found; i++)
				if (!twin[i].sleeps && (tag & twin[i].mask) == twin[i].tag)
					found = twin[i].wr_id;
			if (found)
				memmove(&twin[i - 1], &twin[i], (count-- - i) * sizeof(twin[0]));
			assert_int_equal(match_polled(list, tag), found);
			if (!found) {
				unexpected++;
				tag_list_unexpected(list);
			}
			break;
		default:
			handled = what & 0x200 ? unexpected : handled;
			assert_true(tag_list_report(list, handled));
			for (i = 0; i < count && handled == unexpected; i++)
				twin[i].sleeps = false;
			break;
		}
	}
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_entry_that_matches_is_taken),
		cmocka_unit_test(a_mask_of_zero_takes_any_tag),
		cmocka_unit_test(a_full_list_takes_no_more_until_one_is_free),
		cmocka_unit_test(a_handle_deletes_its_own_entry_only_and_once),
		cmocka_unit_test(a_handle_that_was_never_given_out_is_told),
		cmocka_unit_test(an_entry_in_the_middle_can_be_deleted),
		cmocka_unit_test(an_entry_added_behind_an_unexpected_message_sleeps_until_it_is_reported),
		cmocka_unit_test(a_message_that_did_not_come_wakes_what_waited_for_its_count),
		cmocka_unit_test(more_than_there_were_cannot_be_reported),
		cmocka_unit_test(counts_go_around),
		cmocka_unit_test(a_list_larger_than_its_handles_is_refused),
		cmocka_unit_test(a_list_does_what_an_array_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
