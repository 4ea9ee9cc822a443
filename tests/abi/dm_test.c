/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory (ibv_alloc_dm(3)): its limits, its bounds, its regions, and who may free what when. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIGHTS (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static uint64_t max_of(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	return attr.max_dm_size;
}

static struct ibv_dm *new_dm(struct ibv_context *context, size_t length, uint32_t log_align)
{
	struct ibv_alloc_dm_attr attr = { .length = length, .log_align_req = log_align };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

	assert_non_null(dm);
	assert_ptr_equal(dm->context, context);
	return dm;
}

static void it_is_zeros_and_keeps_what_is_copied_to_it(void **state)
{
	static const size_t lengths[] = { 1, 7, 4096, 5000, 1 << 20 };
	struct ibv_context *context = context_of(state);

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i];
		uint8_t *in = malloc(length), *out = malloc(length);
		struct ibv_dm *dm = new_dm(context, length, (uint32_t)i * 5);

		memset(in, 0, length);
		assert_int_equal(ibv_memcpy_from_dm(out, dm, 0, length), 0);
		assert_memory_equal(in, out, length);
		for (size_t k = 0; k < length; k++)
			in[k] = (uint8_t)(k * 7 + i);
		assert_int_equal(ibv_memcpy_to_dm(dm, 0, in, length), 0);
		assert_int_equal(ibv_memcpy_from_dm(out, dm, 0, length), 0);
		assert_memory_equal(in, out, length);
		assert_int_equal(ibv_memcpy_to_dm(dm, length / 2, "x", 1), 0);
		assert_int_equal(ibv_memcpy_from_dm(out, dm, length / 2, 1), 0);
		assert_int_equal(out[0], 'x');
		assert_int_equal(ibv_free_dm(dm), 0);
		free(in);
		free(out);
	}
}

static void what_is_out_of_bounds_is_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_dm *dm = new_dm(context, 100, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	char bytes[200] = { 0 };

	assert_int_equal(ibv_memcpy_to_dm(dm, 100, bytes, 0), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 100, bytes, 1), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, bytes, 101), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, UINT64_MAX, bytes, 2), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 99, 2), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 1, SIZE_MAX), EINVAL);
	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 101, RIGHTS), EINVAL);
	assert_refused(ibv_reg_dm_mr(pd, dm, 101, 0, RIGHTS), EINVAL);
	assert_refused(ibv_reg_dm_mr(pd, dm, UINT64_MAX, 2, RIGHTS), EINVAL);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void attributes_that_make_no_sense_are_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_alloc_dm_attr none = { .length = 0 }, large = { .length = max_of(context) + 1 };
	struct ibv_alloc_dm_attr align = { .length = 64, .log_align_req = 22 };
	struct ibv_alloc_dm_attr mask = { .length = 64, .comp_mask = 1 };
	struct verbs_context *verbs = verbs_get_ctx(context);

	assert_true(max_of(context) >= 64u << 20);
	assert_refused(ibv_alloc_dm(context, &none), EINVAL);
	assert_refused(ibv_alloc_dm(context, &large), EINVAL);
	assert_refused(ibv_alloc_dm(context, &align), EINVAL);
	assert_refused(ibv_alloc_dm(context, &mask), EINVAL);
	assert_refused(ibv_alloc_dm(context, NULL), EINVAL);
	assert_int_equal(verbs->free_dm(NULL), EINVAL);
}

static void no_more_than_the_maximum_is_given_out(void **state)
{
	struct ibv_context *context = context_of(state);
	uint64_t max = max_of(context);
	struct ibv_alloc_dm_attr rest = { .length = max / 2 - 4096 }, byte = { .length = 1 };
	struct ibv_dm *half = new_dm(context, max / 2, 21), *small = new_dm(context, 1, 0), *other;

	other = ibv_alloc_dm(context, &rest);
	assert_non_null(other);
	assert_refused(ibv_alloc_dm(context, &byte), ENOMEM);
	assert_int_equal(ibv_free_dm(small), 0);
	small = new_dm(context, 4096, 12);
	assert_refused(ibv_alloc_dm(context, &byte), ENOMEM);
	assert_int_equal(ibv_free_dm(half), 0);
	assert_int_equal(ibv_free_dm(other), 0);
	assert_int_equal(ibv_free_dm(small), 0);
	small = new_dm(context, max, 0);
	assert_int_equal(ibv_free_dm(small), 0);
}

static void regions_are_zero_based_and_keep_it(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_dm *dm = new_dm(context, 10000, 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr, *part;
	char memory[64];

	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 100, RIGHTS & ~IBV_ACCESS_ZERO_BASED), EINVAL);
	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 100, RIGHTS & ~IBV_ACCESS_LOCAL_WRITE), EINVAL);
	mr = ibv_reg_dm_mr(pd, dm, 0, 10000, RIGHTS);
	part = ibv_reg_dm_mr(pd, dm, 5001, 17, RIGHTS);
	assert_non_null(mr);
	assert_non_null(part);
	assert_null(part->addr);
	assert_int_equal(part->length, 17);
	assert_int_not_equal(part->rkey, mr->rkey);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(part), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void it_belongs_to_its_context(void **state)
{
	struct ibv_context *context = context_of(state), *other = ibv_open_device(context->device);
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_dm *dm = new_dm(context, 64, 0);
	uint64_t max = max_of(context);

	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 64, RIGHTS), EINVAL);
	assert_int_equal(ibv_free_dm(dm), 0);
	/* What is left in a context goes with it. */
	dm = new_dm(other, max / 2 + 1, 0);
	assert_non_null(ibv_reg_dm_mr(pd, dm, 0, 64, RIGHTS));
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_free_dm(new_dm(context, max, 0)), 0);
}

static void a_child_has_a_copy_of_its_own(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_dm *dm = new_dm(context, 5000, 0);
	char text[8] = "parent";
	int status;
	pid_t pid;

	assert_int_equal(ibv_memcpy_to_dm(dm, 4990, text, sizeof(text)), 0);
	pid = fork();
	if (!pid) {
		if (ibv_memcpy_from_dm(text, dm, 4990, sizeof(text)) || strcmp(text, "parent"))
			_exit(1);
		if (ibv_memcpy_to_dm(dm, 4990, "child", 6) || ibv_free_dm(dm) != EIO)
			_exit(2);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_memcpy_from_dm(text, dm, 4990, sizeof(text)), 0);
	assert_string_equal(text, "parent");
	assert_int_equal(ibv_free_dm(dm), 0);
}

int main(void)
{
	static const char *const modes[] = { "auto", "copy", "ring", "off" };
	const struct CMUnitTest tests[] = {
		test_with_device(it_is_zeros_and_keeps_what_is_copied_to_it),
		test_with_device(what_is_out_of_bounds_is_refused),
		test_with_device(attributes_that_make_no_sense_are_refused),
		test_with_device(no_more_than_the_maximum_is_given_out),
		test_with_device(regions_are_zero_based_and_keep_it),
		test_with_device(it_belongs_to_its_context),
		test_with_device(a_child_has_a_copy_of_its_own),
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		setenv("VERBATIM_MEMORY", modes[i], 1);
		failed += cmocka_run_group_tests_name(modes[i], tests, NULL, NULL);
	}
	return failed;
}
