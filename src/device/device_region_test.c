/* SPDX-License-Identifier: BSD-2-Clause */
/* Null regions, and advice about the memory of regions. */
#include <sys/mman.h>

#include "device/device_test.h"
#include "platform/memory.h"

#define PATTERN	0x5a

static struct mr *null_mr(void)
{
	struct mr *made = NULL;

	assert_int_equal(hca_alloc_null_mr(context, pd, &made), 0);
	return made;
}

/* ---- null regions ---- */

static int post_list(struct qp *qp, struct ibv_sge *list, int count, bool receive)
{
	struct ibv_send_wr send = { .wr_id = 1, .sg_list = list, .num_sge = count,
				    .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = list, .num_sge = count }, *bad_recv;

	return receive ? hca_post_recv(qp, &recv, &bad_recv) : hca_post_send(qp, &send, &bad_send);
}

static void expect_both(enum ibv_wc_status send, enum ibv_wc_status receive)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct ibv_wc wc;
	int got = 0;

	while (got < 2) {
		if (hca_poll_cq(cq, 1, &wc)) {
			assert_int_equal(wc.status, wc.wr_id == 1 ? send : receive);
			got++;
		}
		assert_true(clock_now_ns() < end_ns);
	}
}

/* 100 bytes to nowhere between bytes that arrive; then zeros come from nowhere. */
static void a_null_region_takes_everything_and_gives_zeros(void **state)
{
	struct mr *null = null_mr();
	struct qp *pair[2];
	struct ibv_sge whole = { (uintptr_t)memory, 300, mr->ibv.lkey };
	struct ibv_sge holes[] = { { (uintptr_t)memory + 8192, 100, mr->ibv.lkey },
				   { 0x123456789000, 100, null->ibv.lkey } };
	unsigned i;

	assert_null(null->ibv.addr);
	assert_int_equal(null->ibv.rkey, 0);
	qp_make_pair(pair);
	for (i = 0; i < 300; i++)
		memory[i] = (uint8_t)(i + 1);
	whole.length = 200;
	assert_int_equal(post_list(pair[1], holes, 2, true), 0);
	assert_int_equal(post_list(pair[0], &whole, 1, false), 0);
	expect_both(IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	assert_memory_equal(memory + 8192, memory, 100);
	assert_int_equal(memory[8192 + 100], 0);

	memset(memory, PATTERN, 200);
	assert_int_equal(post_list(pair[1], &whole, 1, true), 0);
	holes[1].addr = UINT64_MAX - 99;
	assert_int_equal(post_list(pair[0], holes, 2, false), 0);
	expect_both(IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	for (i = 0; i < 100; i++)
		assert_int_equal(memory[100 + i], 0);
	assert_int_equal(hca_dereg_mr(context, null), 0);
}

static void a_null_region_is_of_its_domain_and_not_for_peers(void **state)
{
	struct mr *null = null_mr();
	struct mr_accessor other = { .pd = pd->number + 1 }, own = { .pd = pd->number };
	const uint32_t lkey = null->ibv.lkey;
	struct mr_access access;
	char why[MR_LINE_BYTES];

	assert_int_equal(mr_access_begin(&hca->mrs, &other, lkey, 0, 0, 1, &access), MR_PD);
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, IBV_ACCESS_REMOTE_WRITE, 0, 1, &access),
			 MR_ACCESS);
	mr_explain(&hca->mrs, &own, lkey, IBV_ACCESS_REMOTE_WRITE, 0, 1, MR_ACCESS, why,
		   sizeof(why));
	assert_non_null(strstr(why, "null region"));
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, 0, 0, NULL_MR_BYTES + 1,
					 &access), MR_BOUNDS);
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, IBV_ACCESS_LOCAL_WRITE, 7,
					 NULL_MR_BYTES, &access), MR_OK);
	memset(access.host, PATTERN, 1u << 20);
	/* It takes no more memory however much is written. */
	assert_int_equal(((uint8_t *)access.host)[NULL_MR_BYTES - MEMORY_REPEAT], PATTERN);
	mr_access_end(&access);
	assert_int_equal(hca_rereg_mr(context, null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EINVAL);
	assert_int_equal(hca_dereg_mr(context, null), 0);
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, 0, 0, 1, &access), MR_KEY);
}

/* ---- advice ---- */

static bool is_present(const void *page)
{
	unsigned char present = 0;

	assert_int_equal(mincore((void *)(uintptr_t)page, 4096, &present), 0);
	return present & 1;
}

static int advise(enum ibv_advise_mr_advice advice, uint32_t flags, const void *address, uint32_t bytes,
		  uint32_t lkey)
{
	struct ibv_sge list[] = { { (uintptr_t)memory, 0, 0 }, { (uintptr_t)address, bytes, lkey } };

	return hca_advise_mr(context, pd, advice, flags, list, 2);
}

static void advice_makes_pages_present(void **state)
{
	uint8_t *fresh = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *region;

	assert_int_equal(hca_reg_mr(context, pd, fresh, 4 * 4096, (uintptr_t)fresh,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND, &region), 0);
	assert_false(is_present(fresh));
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, fresh, 4096, region->ibv.lkey), 0);
	assert_false(is_present(fresh));
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, fresh + 100, 4096,
				region->ibv.lkey), 0);
	assert_true(is_present(fresh) && is_present(fresh + 4096));
	assert_false(is_present(fresh + 2 * 4096));
	munmap(fresh + 4096, 4096);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, fresh, 2 * 4096, region->ibv.lkey), EFAULT);
	mprotect(fresh, 4096, PROT_READ);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, fresh, 4096, region->ibv.lkey), 0);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, fresh, 4096, region->ibv.lkey), EFAULT);
	assert_int_equal(hca_dereg_mr(context, region), 0);
	munmap(fresh, 4 * 4096);
}

static void advice_is_refused_as_the_man_page_says(void **state)
{
	uint32_t key = mr->ibv.lkey;
	struct mr *readable;

	assert_int_equal(hca_reg_mr(context, pd, memory, 4096, (uintptr_t)memory, 0, &readable), 0);
	assert_int_equal(advise((enum ibv_advise_mr_advice)99, 0, memory, 1, key), ENOTSUP);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2, memory, 1, key), EINVAL);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, memory, 1, key ^ 1), EFAULT);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, memory, MEMORY_BYTES + 1, key), EFAULT);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, memory, 4096, readable->ibv.lkey), 0);
	assert_int_equal(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, memory, 4096, readable->ibv.lkey), EFAULT);
	assert_int_equal(hca_advise_mr(context, pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), 0);
	assert_int_equal(hca_dereg_mr(context, readable), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(a_null_region_takes_everything_and_gives_zeros),
		DEVICE_TEST(a_null_region_is_of_its_domain_and_not_for_peers),
		DEVICE_TEST(advice_makes_pages_present),
		DEVICE_TEST(advice_is_refused_as_the_man_page_says),
	};

	DEVICE_TESTS(tests);
}
