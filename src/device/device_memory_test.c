/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, regions, windows, device memory: what is in use, and what is refused. */
#include "device/device_test.h"

#include <sys/mman.h>

#define PAGE	4096u

static uint32_t users(void)
{
	return atomic_load(&pd->users);
}

static void a_pd_in_use_stays(void **state)
{
	struct pd *other;
	struct mr *made;

	assert_int_equal(hca_alloc_pd(context, &other), 0);
	assert_int_not_equal(other->number, 0);
	assert_int_not_equal(other->number, pd->number);
	assert_int_equal(other->ibv.handle, other->number);
	assert_int_equal(hca_reg_mr(context, other, memory, 64, 0, 0, &made), 0);
	assert_int_equal(hca_dealloc_pd(context, other), EBUSY);
	assert_int_equal(hca_dereg_mr(context, made), 0);
	assert_int_equal(hca_dealloc_pd(context, other), 0);
}

static void memory_has_to_be_there_and_writable(void **state)
{
	uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *made = NULL;

	assert_true(page != MAP_FAILED);
	assert_int_equal(munmap(page + PAGE, PAGE), 0);
	assert_int_equal(hca_reg_mr(context, pd, page, 2 * PAGE, 0, 0, &made), EFAULT);
	assert_int_equal(hca_reg_mr(context, pd, page, PAGE, 0, IBV_ACCESS_LOCAL_WRITE, &made),
			 EFAULT);
	assert_null(made);
	assert_int_equal(hca_reg_mr(context, pd, page, PAGE, 0, IBV_ACCESS_REMOTE_READ, &made), 0);
	assert_int_equal(hca_dereg_mr(context, made), 0);
	assert_int_equal(hca_reg_mr(context, pd, page, 2 * PAGE, 0, IBV_ACCESS_ON_DEMAND, &made),
			 0);
	assert_int_equal(hca_dereg_mr(context, made), 0);
	munmap(page, PAGE);
}

/* Is the key good for writing to all of it? */
static bool may_access(uint32_t key, uint64_t address, uint64_t bytes)
{
	struct mr_accessor accessor = { .pd = pd->number };
	struct mr_access access;

	if (mr_access_begin(&hca->mrs, &accessor, key, IBV_ACCESS_LOCAL_WRITE, address, bytes,
			    &access) != MR_OK)
		return false;
	mr_access_end(&access);
	return true;
}

static void a_key_is_good_until_its_region_is_gone(void **state)
{
	uint32_t before = users(), key;
	struct mr *made;

	assert_int_equal(hca_reg_mr(context, pd, memory, 100, (uintptr_t)memory,
				    IBV_ACCESS_LOCAL_WRITE, &made), 0);
	key = made->ibv.lkey;
	assert_int_equal(users(), before + 1);
	assert_true(may_access(key, (uintptr_t)memory, 100));
	assert_false(may_access(key, (uintptr_t)memory, 101));
	assert_int_equal(hca_rereg_mr(context, made, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      memory + 100, 100, 0), 0);
	key = made->ibv.lkey;
	assert_false(may_access(key, (uintptr_t)memory, 100));
	assert_true(may_access(key, (uintptr_t)memory + 100, 100));
	assert_int_equal(hca_dereg_mr(context, made), 0);
	assert_false(may_access(key, (uintptr_t)memory + 100, 100));
	assert_int_equal(users(), before);
}

static void a_region_with_a_window_stays(void **state)
{
	struct ibv_mw_bind bind = { .wr_id = 5, .send_flags = IBV_SEND_SIGNALED };
	uint32_t before = users(), old_key;
	struct qp *pair[2];
	struct mr *made;
	struct mw *mw;

	qp_make_pair(pair);
	assert_int_equal(hca_reg_mr(context, pd, memory, PAGE, (uintptr_t)memory,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &made), 0);
	assert_int_equal(hca_alloc_mw(context, pd, IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(users(), before + 4);
	old_key = mw->ibv.rkey;
	bind.bind_info = (struct ibv_mw_bind_info){ .mr = &made->ibv, .addr = (uintptr_t)memory,
						    .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	assert_int_equal(hca_bind_mw(pair[0], mw, &bind), 0);
	expect_wc(5, IBV_WC_SUCCESS);
	assert_int_equal(mw->ibv.rkey, ibv_inc_rkey(old_key));
	/* Type 1 knows no offsets: refused at once, and the key stays. */
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(hca_bind_mw(pair[0], mw, &bind), EINVAL);
	assert_int_equal(mw->ibv.rkey, ibv_inc_rkey(old_key));
	assert_int_equal(hca_dereg_mr(context, made), EBUSY);
	assert_int_equal(hca_dealloc_mw(context, mw), 0);
	assert_int_equal(hca_dereg_mr(context, made), 0);
	assert_int_equal(users(), before + 2);
}

/* ---- device memory ---- */

static int alloc_dm(size_t length, uint32_t log_align, struct dm **dm)
{
	struct ibv_alloc_dm_attr attr = { .length = length, .log_align_req = log_align };

	return hca_alloc_dm(context, &attr, dm);
}

static void device_memory_has_bounds(void **state)
{
	struct dm *dm = NULL;
	uint8_t byte = 7;

	assert_int_equal(alloc_dm(0, 0, &dm), EINVAL);
	assert_int_equal(alloc_dm(LIMIT_DM_BYTES + 1, 0, &dm), EINVAL);
	assert_int_equal(alloc_dm(64, LIMIT_DM_LOG_ALIGN + 1, &dm), EINVAL);
	assert_null(dm);
	assert_int_equal(alloc_dm(100, 13, &dm), 0);
	assert_int_equal((uintptr_t)dm->memory % 8192, 0);
	assert_int_equal(hca_copy_from_dm(&byte, dm, 99, 1), 0);
	assert_int_equal(byte, 0);
	assert_int_equal(hca_copy_to_dm(dm, 100, &byte, 1), EINVAL);
	assert_int_equal(hca_copy_from_dm(&byte, dm, 99, 2), EINVAL);
	assert_int_equal(hca_copy_to_dm(dm, 50, "device", 7), 0);
	assert_int_equal(hca_copy_from_dm(memory, dm, 50, 7), 0);
	assert_string_equal((char *)memory, "device");
	assert_int_equal(hca_free_dm(context, dm), 0);
}

static void device_memory_is_counted_and_given_back(void **state)
{
	struct dm *dm, *none = NULL;

	assert_int_equal(alloc_dm(LIMIT_DM_BYTES - PAGE, 0, &dm), 0);
	assert_int_equal(hca->dm_bytes, LIMIT_DM_BYTES - PAGE);
	assert_int_equal(alloc_dm(PAGE + 1, 0, &none), ENOMEM);
	assert_null(none);
	assert_int_equal(hca->dm_bytes, LIMIT_DM_BYTES - PAGE);
	assert_int_equal(alloc_dm(1, 0, &none), 0);
	assert_int_equal(hca->dm_bytes, LIMIT_DM_BYTES);
	assert_int_equal(hca_free_dm(context, none), 0);
	assert_int_equal(hca_free_dm(context, dm), 0);
	assert_int_equal(hca->dm_bytes, 0);
}

static void device_memory_with_a_region_stays(void **state)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED;
	struct mr *made = NULL;
	struct dm *dm;

	assert_int_equal(alloc_dm(100, 0, &dm), 0);
	assert_int_equal(hca_reg_dm_mr(context, pd, dm, 0, 100, IBV_ACCESS_LOCAL_WRITE, &made),
			 EINVAL);
	assert_int_equal(hca_reg_dm_mr(context, pd, dm, 1, 100, access, &made), EINVAL);
	assert_null(made);
	assert_int_equal(hca_reg_dm_mr(context, pd, dm, 10, 90, access, &made), 0);
	assert_true(may_access(made->ibv.lkey, 0, 90));
	assert_int_equal(mr_host(&hca->mrs, made), (uintptr_t)dm->memory + 10);
	assert_null(made->ibv.addr);
	assert_int_equal(hca_rereg_mr(context, made, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      access), EINVAL);
	assert_int_equal(hca_free_dm(context, dm), EBUSY);
	assert_int_equal(hca_dereg_mr(context, made), 0);
	assert_int_equal(hca_free_dm(context, dm), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(a_pd_in_use_stays),
		DEVICE_TEST(memory_has_to_be_there_and_writable),
		DEVICE_TEST(a_key_is_good_until_its_region_is_gone),
		DEVICE_TEST(a_region_with_a_window_stays),
		DEVICE_TEST(device_memory_has_bounds),
		DEVICE_TEST(device_memory_is_counted_and_given_back),
		DEVICE_TEST(device_memory_with_a_region_stays),
	};

	DEVICE_TESTS(tests);
}
