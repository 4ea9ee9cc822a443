/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions and windows, one rule at a time: rights, bounds, keys, windows, explanations, and
 * deregistration while others access. (mr_model_test.c combines them at random.)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/random.h>

#include "object/placement.h"
#include "object/mr_table_test.h"

#include "object/mr_internal.h"

static const struct mr_accessor qp_of_pd_1 = { .pd = 1, .qpn = 0x11 };

static struct mr region_of(void *address, size_t length, unsigned access)
{
	struct mr mr = { 0 };

	assert_int_equal(mr_register(&table, &pds[0], address, length, (uintptr_t)address, access,
				     &mr), 0);
	return mr;
}

static enum mr_fault try(uint32_t key, unsigned need, uint64_t address, uint64_t length)
{
	struct mr_access access;
	enum mr_fault fault =
		mr_access_begin(&table, &qp_of_pd_1, key, need, address, length, &access);

	if (fault == MR_OK)
		mr_access_end(&access);
	return fault;
}

static void each_right_is_needed_and_enough(void **state)
{
	char memory[8];

	for (unsigned access = 0; access < 16; access++) {
		struct mr mr = { 0 };
		int err = mr_register(&table, &pds[0], memory, 8, (uintptr_t)memory, access, &mr);
		bool wrong = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
			     !(access & IBV_ACCESS_LOCAL_WRITE);

		assert_int_equal(err, wrong ? EINVAL : 0);
		if (err)
			continue;
		for (unsigned need = 0; need < 16; need++)
			assert_int_equal(try(mr.ibv.rkey, need, (uintptr_t)memory, 8),
					 (access & need) == need ? MR_OK : MR_ACCESS);
		mr_deregister(&table, &mr);
	}
}

static void optional_and_hint_flags_are_accepted_and_unknown_bits_are_not(void **state)
{
	static const unsigned good[] = { IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB,
					 IBV_ACCESS_RELAXED_ORDERING, IBV_ACCESS_OPTIONAL_RANGE,
					 IBV_ACCESS_MW_BIND, ACCESS_FLUSH_GLOBAL };
	struct mr mr = { 0 };
	char memory[8];

	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, good[i], &mr), 0);
		mr_deregister(&table, &mr);
	}
	assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, ACCESS_FLUSH_PERSISTENT, &mr), EOPNOTSUPP);
	assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, 1 << 10, &mr), EINVAL);
	assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, 1u << 31, &mr), EINVAL);
	assert_int_equal(atomic_load(&pds[0].users), 0);
}

static void no_sum_of_address_and_length_can_wrap_into_a_region(void **state)
{
	struct mr all = region_of((void *)1, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE);
	struct mr high = region_of((void *)(UINTPTR_MAX - 15), 16, IBV_ACCESS_LOCAL_WRITE);

	assert_int_equal(try(all.ibv.lkey, 0, 1, UINT64_MAX), MR_OK);
	assert_int_equal(try(all.ibv.lkey, 0, 2, UINT64_MAX), MR_BOUNDS);
	assert_int_equal(try(all.ibv.lkey, 0, UINT64_MAX, 1), MR_OK);
	assert_int_equal(try(all.ibv.lkey, 0, UINT64_MAX, 2), MR_BOUNDS);
	assert_int_equal(try(high.ibv.lkey, 0, UINT64_MAX, 1), MR_OK);
	assert_int_equal(try(high.ibv.lkey, 0, UINT64_MAX - 15, 16), MR_OK);
	assert_int_equal(try(high.ibv.lkey, 0, UINT64_MAX - 15, 17), MR_BOUNDS);
	assert_int_equal(try(high.ibv.lkey, 0, UINT64_MAX - 15, UINT64_MAX), MR_BOUNDS);
	assert_int_equal(try(high.ibv.lkey, 0, 0, 1), MR_BOUNDS);
}

static void a_zero_based_region_is_named_by_offsets(void **state)
{
	struct mr_access access;
	struct mr mr = { 0 };
	char memory[64];

	assert_int_equal(mr_register(&table, &pds[0], memory, 64, (uintptr_t)memory,
				     IBV_ACCESS_ZERO_BASED, &mr), 0);
	assert_int_equal(mr_access_begin(&table, &qp_of_pd_1, mr.ibv.lkey, 0, 10, 54, &access),
			 MR_OK);
	assert_ptr_equal(access.host, memory + 10);
	mr_access_end(&access);
	assert_int_equal(try(mr.ibv.lkey, 0, 10, 55), MR_BOUNDS);
	assert_int_equal(try(mr.ibv.lkey, 0, (uintptr_t)memory, 1), MR_BOUNDS);
}

/* From one key, or some, no other can be told. */
static void a_key_is_random_in_all_its_bits(void **state)
{
	static uint32_t last_key[MR_TABLE_SIZE];
	unsigned ones[32] = { 0 }, i, bit;
	char memory[8];

	memset(last_key, 0, sizeof(last_key));
	for (i = 0; i < 20000; i++) {
		struct mr mr = region_of(memory, 8, 0);
		uint32_t key = mr.ibv.lkey, index = mr_index_of(key);

		assert_true(index);
		if (last_key[index])
			assert_int_not_equal(key >> MR_CONSUMER_BITS,
					     last_key[index] >> MR_CONSUMER_BITS);
		last_key[index] = key;
		for (bit = 0; bit < 32; bit++)
			ones[bit] += key >> bit & 1;
		assert_int_equal(mr_deregister(&table, &mr), 0);
		assert_int_equal(try(key, 0, (uintptr_t)memory, 1), MR_KEY);
	}
	for (bit = 0; bit < 32; bit++)
		assert_in_range(ones[bit], 9500, 10500);
}

static uint64_t random_of_kernel(void)
{
	uint64_t random;

	assert_int_equal(getrandom(&random, sizeof(random), 0), sizeof(random));
	return random;
}

/* Without a seed keys are the kernel's random numbers, others in each process. */
static void keys_of_two_tables_differ(void **state)
{
	struct arena *other_arena = test_arena();
	struct mr_table other = { .count = 0 };
	struct mr mr = { 0 }, theirs = { 0 };
	char memory[8];

	mr_table_free(&table);
	assert_int_equal(mr_table_init(&table, arena, 0), 0);
	assert_int_equal(mr_table_init(&other, other_arena, 0), 0);
	table.random = other.random = random_of_kernel;
	mr = region_of(memory, 8, 0);
	assert_int_equal(mr_register(&other, &pds[0], memory, 8, 0, 0, &theirs), 0);
	assert_int_not_equal(mr.ibv.lkey, theirs.ibv.lkey);
	assert_int_equal(mr_deregister(&other, &theirs), 0);
	mr_table_free(&other);
	free(other_arena);
}

static void a_full_table_gives_enomem_and_recovers(void **state)
{
	struct mr *mrs = calloc(MR_TABLE_SIZE, sizeof(*mrs));
	char memory[8];

	for (unsigned i = 1; i < MR_TABLE_SIZE; i++)
		assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, 0, &mrs[i]), 0);
	assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, 0, &mrs[0]), ENOMEM);
	assert_int_equal(mr_deregister(&table, &mrs[77]), 0);
	assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, 0, &mrs[77]), 0);
	for (unsigned i = 1; i < MR_TABLE_SIZE; i++)
		assert_int_equal(mr_deregister(&table, &mrs[i]), 0);
	assert_int_equal(atomic_load(&pds[0].users), 0);
	free(mrs);
}

static void a_region_with_a_window_bound_is_busy(void **state)
{
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind_info info = { &mr.ibv, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ };
	struct mw mw = { 0 };

	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, mw.ibv.rkey, &info), MR_OK);
	assert_int_equal(mr_deregister(&table, &mr), EBUSY);
	assert_int_equal(try(mr.ibv.lkey, 0, (uintptr_t)memory, 64), MR_OK);
	info.length = 0;
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, mw.ibv.rkey, &info), MR_OK);
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_int_equal(mw_free(&table, &mw), 0);
}

static void a_type_2_window_serves_its_qp_until_it_is_invalidated(void **state)
{
	const struct mr_accessor other = { .pd = 1, .qpn = 0x12 };
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind_info info = { &mr.ibv, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ };
	struct mr_access access;
	struct mw mw = { 0 };
	uint32_t rkey;

	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_2, &mw), 0);
	rkey = ibv_inc_rkey(mw.ibv.rkey);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, rkey, &info), MR_OK);
	assert_int_equal(try(rkey, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_OK);
	assert_int_equal(mr_access_begin(&table, &other, rkey, IBV_ACCESS_REMOTE_READ,
					 (uintptr_t)memory, 64, &access),
			 MR_QP);
	assert_int_equal(mr_invalidate(&table, &other, rkey), MR_QP);
	assert_int_equal(mr_invalidate(&table, &qp_of_pd_1, mr.ibv.rkey), MR_ACCESS);
	assert_int_equal(mr_invalidate(&table, &qp_of_pd_1, rkey), MR_OK);
	assert_int_equal(try(rkey, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_UNBOUND);
	assert_int_equal(mr_invalidate(&table, &qp_of_pd_1, rkey), MR_UNBOUND);
	/* The consumer's bits of a key may repeat. */
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, rkey, &info), MR_OK);
	assert_int_equal(mw_free(&table, &mw), 0);
	assert_int_equal(mr_deregister(&table, &mr), 0);
}

static void a_bind_takes_the_low_8_bits_of_any_key(void **state)
{
	static const uint32_t wanted[] = { 0xba, 1024, 0xffffffff, 0, 0x12345678 };
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind_info info = { &mr.ibv, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ };
	struct mw mw = { 0 };

	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_2, &mw), 0);
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint32_t key = (mw.ibv.rkey & ~0xffu) | (wanted[i] & 0xff);

		assert_int_equal(mw_rkey(mw.ibv.rkey, wanted[i]), key);
		assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, wanted[i], &info), MR_OK);
		assert_int_equal(try(key, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_OK);
		/* Bound: no other bind, of no bytes either, before it is invalidated by its key as it is now. */
		assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, key + 1, &info), MR_ACCESS);
		info.length = 0;
		assert_int_not_equal(mw_bind(&table, &qp_of_pd_1, &mw, key + 1, &info), MR_OK);
		info.length = 64;
		assert_int_equal(mr_invalidate(&table, &qp_of_pd_1, key ^ 1), MR_KEY);
		assert_int_equal(mr_invalidate(&table, &qp_of_pd_1, key), MR_OK);
		assert_int_not_equal(try(key, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_OK);
	}
	assert_int_equal(mw_free(&table, &mw), 0);
	assert_int_equal(mr_deregister(&table, &mr), 0);
}

static void a_bind_of_a_window_that_is_gone_is_refused(void **state)
{
	struct ibv_mw_bind_info info = { .length = 0 };
	struct mw mw = { 0 }, wild = { .index = UINT32_MAX };

	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(mw_free(&table, &mw), 0);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, mw.ibv.rkey, &info), MR_KEY);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &wild, 0, &info), MR_KEY);
}

static void a_window_of_no_type_is_refused(void **state)
{
	struct mw mw = { 0 };

	assert_int_equal(mw_alloc(&table, &pds[0], 0, &mw), EINVAL);
	assert_int_equal(mw_alloc(&table, &pds[0], 3, &mw), EINVAL);
}

/* ---- explanations ---- */

static void explanations_name_key_bounds_and_flag(void **state)
{
	struct mr mr = region_of((void *)0x1000, 64, IBV_ACCESS_LOCAL_WRITE);
	const struct mr_accessor other = { .pd = 2, .qpn = 0x22 };
	char line[512], key[16];

	snprintf(key, sizeof(key), "0x%08x", mr.ibv.rkey);
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey, IBV_ACCESS_REMOTE_WRITE, 0x1000, 8, MR_ACCESS,
		   line, sizeof(line));
	assert_mentions(line, key);
	assert_mentions(line, "but not IBV_ACCESS_REMOTE_WRITE");
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey, 0, 0x1020, 64, MR_BOUNDS, line, sizeof(line));
	assert_mentions(line, "[0x1000, +64); the access [0x1020, +64) ends past its end");
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey, 0, UINT64_MAX, 64, MR_BOUNDS, line,
		   sizeof(line));
	assert_mentions(line, "goes past 2^64");
	mr_explain(&table, &other, mr.ibv.rkey, 0, 0x1000, 64, MR_PD, line, sizeof(line));
	assert_mentions(line, "protection domain 1");
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey ^ 1, 0, 0x1000, 64, MR_KEY, line, sizeof(line));
	assert_mentions(line, "names no region");
	mr_explain(&table, &qp_of_pd_1, __builtin_bswap32(mr.ibv.rkey), 0, 0x1000, 64, MR_KEY, line,
		   sizeof(line));
	assert_mentions(line, "has its bytes in the wrong order");
	assert_mentions(line, key);
	/* A short buffer is cut, not overrun. */
	mr_explain(&table, &other, mr.ibv.rkey, 0, 0x1000, 64, MR_PD, line, 10);
	assert_int_equal(strlen(line), 9);
}

static void a_region_without_rights_is_named_so(void **state)
{
	struct mr mr = region_of((void *)0x1000, 64, 0);
	char line[512];

	mr_explain(&table, &qp_of_pd_1, mr.ibv.lkey, IBV_ACCESS_LOCAL_WRITE, 0x1000, 8, MR_ACCESS,
		   line, sizeof(line));
	assert_mentions(line, "grants no right, thus not IBV_ACCESS_LOCAL_WRITE");
}

/* ---- deregistration while others access ---- */

static _Atomic int done;

static void *deregister(void *mr)
{
	assert_int_equal(mr_deregister(&table, mr), 0);
	atomic_store(&done, 1);
	return NULL;
}

static void deregistration_waits_for_an_access_in_progress(void **state)
{
	struct mr mr = region_of((void *)0x1000, 8, 0);
	struct mr_access access;
	pthread_t thread;

	atomic_store(&done, 0);
	assert_int_equal(mr_access_begin(&table, &qp_of_pd_1, mr.ibv.lkey, 0, 0x1000, 8, &access),
			 MR_OK);
	pthread_create(&thread, NULL, deregister, &mr);
	while (try(mr.ibv.lkey, 0, 0x1000, 8) == MR_OK)
		sched_yield();
	/* The key is dead; the waiting goes on. */
	for (unsigned i = 0; i < 1000; i++)
		sched_yield();
	assert_int_equal(atomic_load(&done), 0);
	mr_access_end(&access);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&done), 1);
}

/* ---- regions that QPs keep ---- */

#define KEEPER_QPN 0x11

struct keeper {
	struct mr_kept kept;
	unsigned ends;
	uint32_t qpn, key;
};

static void keeper_end(void *keeper_, uint32_t qpn, uint32_t key)
{
	struct keeper *keeper = keeper_;

	keeper->ends++;
	keeper->qpn = qpn;
	keeper->key = key;
	mr_kept_clear(&keeper->kept, key);
}

static void have_keeper(struct keeper *keeper)
{
	memset(keeper, 0, sizeof(*keeper));
	table.end_kept = keeper_end;
	table.keeper = keeper;
}

static void keep(struct keeper *keeper, uint32_t key, uint32_t qpn, unsigned need, void *address)
{
	struct mr_access access;

	assert_int_equal(mr_access_begin(&table, &qp_of_pd_1, key, need, (uintptr_t)address, 1, &access), MR_OK);
	mr_keep(&table, &access, qpn, &keeper->kept);
	mr_access_end(&access);
}

static void what_is_kept_has_the_bounds_of_its_region(void **state)
{
	char memory[64];
	struct mr mr = region_of(memory, 64, 0);
	struct keeper keeper;
	uint64_t from, length;

	have_keeper(&keeper);
	assert_null(mr_kept_at(&keeper.kept, 0, 0, 1));
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	for (from = 0; from < 200; from++)
		for (length = 1; length < 200; length++) {
			uint64_t address = (uintptr_t)memory - 64 + from;
			bool fits = try(mr.ibv.lkey, 0, address, length) == MR_OK;
			void *at = fits ? (void *)(uintptr_t)address : NULL;

			assert_ptr_equal(mr_kept_at(&keeper.kept, mr.ibv.lkey, address, length), at);
		}
	assert_null(mr_kept_at(&keeper.kept, mr.ibv.lkey, (uintptr_t)memory, UINT64_MAX));
	assert_null(mr_kept_at(&keeper.kept, mr.ibv.lkey, (uintptr_t)memory + 1, UINT64_MAX));
	assert_null(mr_kept_at(&keeper.kept, mr.ibv.lkey ^ 1, (uintptr_t)memory, 1));
	mr_deregister(&table, &mr);
}

static void who_keeps_a_region_is_told_of_its_end_once(void **state)
{
	char memory[64];
	struct mr mr = region_of(memory, 64, 0), other = region_of(memory, 64, 0);
	struct keeper keeper;

	have_keeper(&keeper);
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	assert_int_equal(mr_deregister(&table, &other), 0);
	assert_int_equal(keeper.ends, 0);
	assert_non_null(mr_kept_at(&keeper.kept, mr.ibv.lkey, (uintptr_t)memory, 64));
	/* Its key stays. */
	assert_int_equal(mr_reregister(&table, &mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 32, 0), 0);
	assert_int_equal(keeper.ends, 1);
	assert_int_equal(keeper.qpn, KEEPER_QPN);
	assert_int_equal(keeper.key, mr.ibv.lkey);
	assert_null(mr_kept_at(&keeper.kept, mr.ibv.lkey, (uintptr_t)memory, 32));
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	assert_null(mr_kept_at(&keeper.kept, mr.ibv.lkey, (uintptr_t)memory, 33));
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_int_equal(keeper.ends, 2);
	assert_null(mr_kept_at(&keeper.kept, mr.ibv.lkey, (uintptr_t)memory, 32));
	/* Another region of that index. */
	mr = region_of(memory, 64, 0);
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_int_equal(keeper.ends, 2);
}

static void several_qps_that_keep_a_region_are_all_told(void **state)
{
	char memory[64];
	struct mr mr = region_of(memory, 64, 0);
	struct keeper keeper;

	have_keeper(&keeper);
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN + 1, 0, memory);
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_int_equal(keeper.ends, 1);
	assert_int_equal(keeper.qpn, MR_KEPT_BY_SOME);
}

/* A window is invalidated by packets, under the lock of a QP. */
static void windows_null_regions_and_what_nobody_takes_back_are_not_kept(void **state)
{
	static const char zeros[8];
	char memory[64], sink[8];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND), null = { 0 };
	struct ibv_mw_bind_info info = { &mr.ibv, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ };
	struct mw mw = { 0 };
	struct keeper keeper;

	have_keeper(&keeper);
	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, mw.ibv.rkey, &info), MR_OK);
	keep(&keeper, mw.ibv.rkey, KEEPER_QPN, IBV_ACCESS_REMOTE_READ, memory);
	assert_int_equal(keeper.kept.key, 0);
	assert_int_equal(mr_register_null(&table, &pds[0], zeros, sink, &null), 0);
	keep(&keeper, null.ibv.lkey, KEEPER_QPN, 0, memory);
	assert_int_equal(keeper.kept.key, 0);
	table.end_kept = NULL;
	keep(&keeper, mr.ibv.lkey, KEEPER_QPN, 0, memory);
	assert_int_equal(keeper.kept.key, 0);
	assert_int_equal(mw_free(&table, &mw), 0);
	assert_int_equal(mr_deregister(&table, &null), 0);
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_int_equal(keeper.ends, 0);
}

static _Atomic uint32_t shared_key;
static _Atomic int region_alive, stop;
static _Atomic unsigned accesses, stray;

static void *access_all_the_time(void *argument)
{
	while (!atomic_load(&stop)) {
		struct mr_access access;

		if (mr_access_begin(&table, &qp_of_pd_1, atomic_load(&shared_key), 0, 0x1000, 8,
				    &access))
			continue;
		for (unsigned i = 0; i < 20; i++)
			if (!atomic_load(&region_alive))
				atomic_fetch_add(&stray, 1);
		mr_access_end(&access);
		atomic_fetch_add(&accesses, 1);
	}
	return NULL;
}

static void after_deregistration_nobody_accesses_the_region(void **state)
{
	pthread_t thread;

	atomic_store(&stop, 0);
	pthread_create(&thread, NULL, access_all_the_time, NULL);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned before = atomic_load(&accesses);
		struct mr mr;

		atomic_store(&region_alive, 1);
		mr = region_of((void *)0x1000, 8, 0);
		atomic_store(&shared_key, mr.ibv.lkey);
		/* Now and then be sure that the other runs; mostly surprise it. */
		while (i % 256 == 0 && atomic_load(&accesses) == before)
			sched_yield();
		for (unsigned spin = i % 512; spin; spin--)
			atomic_load(&stop);
		assert_int_equal(mr_deregister(&table, &mr), 0);
		atomic_store(&region_alive, 0);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&stray), 0);
	assert_true(atomic_load(&accesses) > 0);
}

/* Other processes that access memory themselves. */
struct peers {
	_Atomic unsigned drains;
	unsigned forgets;
	uint32_t key, key_when_forgotten, users_when_drained;
	void *block;
	bool was_locked;
};

static void note_lock(struct peers *peers) UNCHECKED_LOCKS
{
	if (lock_try(&table.lock))
		lock_release(&table.lock);
	else
		peers->was_locked = true;
}

static void drain(void *context, uint32_t key)
{
	struct peers *peers = context;
	const struct mr_entry *entry = &table.entry[mr_index_of(key)];

	peers->drains++;
	peers->key = key;
	peers->users_when_drained += atomic_load(&entry->users);
	assert_int_equal(mr_key_of(entry), 0);
	note_lock(peers);
}

static void forget(void *context, void *block)
{
	struct peers *peers = context;

	peers->forgets++;
	peers->block = block;
	peers->key_when_forgotten = mr_key_of(&table.entry[mr_index_of(peers->key)]);
	note_lock(peers);
}

static void have_peers(struct peers *peers)
{
	table.drain_peers = drain;
	table.forget = forget;
	table.peers = peers;
}

static void peers_are_waited_for_without_the_lock(void **state)
{
	struct peers peers = { 0 };
	char memory[64], other[64], block[2];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	uint32_t key = mr.ibv.rkey;

	have_peers(&peers);
	mr_set_block(&table, &mr, &block[0]);
	assert_int_equal(mr_reregister(&table, &mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				       IBV_ACCESS_REMOTE_READ), 0);
	assert_int_equal(peers.drains, 1);
	assert_int_equal(peers.key, key);
	assert_int_equal(peers.forgets, 0);
	/* The memory that it leaves is peers' no more, before the key is valid again. */
	assert_int_equal(mr_reregister(&table, &mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, 64,
				       0), 0);
	assert_int_equal(peers.forgets, 1);
	assert_ptr_equal(peers.block, &block[0]);
	assert_int_equal(peers.key_when_forgotten, 0);
	assert_int_equal(mr.ibv.rkey, key);
	assert_int_equal(try(key, IBV_ACCESS_REMOTE_READ, (uintptr_t)other, 64), MR_OK);
	assert_int_equal(try(key, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_BOUNDS);
	mr_set_block(&table, &mr, &block[1]);
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_int_equal(peers.drains, 3);
	assert_int_equal(peers.forgets, 2);
	assert_ptr_equal(peers.block, &block[1]);
	assert_int_equal(peers.users_when_drained, 0);
	assert_false(peers.was_locked);
}

/* A block is its region's: the next one at that index has none, nor one whose memory is no block. */
static void a_block_is_forgotten_once(void **state)
{
	struct peers peers = { 0 };
	char memory[64], block;
	struct mr_description description;
	uint32_t index = 0;

	have_peers(&peers);
	do {
		struct mr mr = region_of(memory, 64, IBV_ACCESS_REMOTE_READ);

		assert_true(mr_describe(&table, mr.ibv.rkey, &description));
		assert_null(description.block);
		mr_describe_end(&description);
		if (!peers.forgets) {
			index = mr_index_of(mr.ibv.rkey);
			mr_set_block(&table, &mr, &block);
		} else if (mr_index_of(mr.ibv.rkey) == index) {
			index = 0;
		}
		assert_int_equal(mr_deregister(&table, &mr), 0);
	} while (index);
	assert_int_equal(peers.forgets, 1);
	assert_ptr_equal(peers.block, &block);
}

/* ---- what is said of a key to another process ---- */

static void a_description_is_what_was_registered(void **state)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	char memory[64], block;
	struct mr mr = { 0 };
	struct mr_description description;

	assert_int_equal(mr_register(&table, &pds[1], memory, 64, 0x123456789000, access, &mr), 0);
	assert_int_equal(mr_host(&table, &mr), (uintptr_t)memory);
	mr_set_block(&table, &mr, &block);
	assert_true(mr_describe(&table, mr.ibv.rkey, &description));
	assert_int_equal(description.key, mr.ibv.rkey);
	assert_int_equal(description.access, access);
	assert_int_equal(description.pd, 2);
	assert_int_equal(description.start, 0x123456789000);
	assert_int_equal(description.length, 64);
	assert_int_equal(description.host, (uintptr_t)memory);
	assert_ptr_equal(description.block, &block);
	mr_describe_end(&description);
	assert_int_equal(mr_deregister(&table, &mr), 0);
	assert_false(mr_describe(&table, mr.ibv.rkey, &description));
}

static void only_a_living_key_is_described(void **state)
{
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE);
	const struct mr_entry *entry = &table.entry[mr_index_of(mr.ibv.lkey)];
	struct mr_description description;
	unsigned bit;

	for (bit = 0; bit < 32; bit++)
		assert_false(mr_describe(&table, mr.ibv.lkey ^ 1u << bit, &description));
	assert_false(mr_describe(&table, 0, &description));
	assert_int_equal(atomic_load(&entry->users), 0);
	assert_int_equal(mr_deregister(&table, &mr), 0);
}

static void *deregister_described(void *argument)
{
	assert_int_equal(mr_deregister(&table, argument), 0);
	return NULL;
}

/*
 * Our own threads grant regions: they are waited for first, so that no grant begins while peers are drained.
 */
static void a_description_is_waited_for_before_peers_are(void **state)
{
	struct peers peers = { 0 };
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE);
	struct mr_description description;
	pthread_t thread;
	unsigned i;

	have_peers(&peers);
	assert_true(mr_describe(&table, mr.ibv.lkey, &description));
	assert_int_equal(pthread_create(&thread, NULL, deregister_described, &mr), 0);
	while (try(mr.ibv.lkey, 0, (uintptr_t)memory, 8) == MR_OK)
		sched_yield();
	for (i = 0; i < 1000; i++)
		sched_yield();
	assert_int_equal(atomic_load(&peers.drains), 0);
	mr_describe_end(&description);
	pthread_join(thread, NULL);
	assert_int_equal(peers.drains, 1);
	assert_int_equal(peers.users_when_drained, 0);
}

static void windows_wait_for_nobody(void **state)
{
	struct peers peers = { 0 };
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind_info info = { .mr = &mr.ibv, .addr = (uintptr_t)memory, .length = 64,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	struct mr_description description;
	struct mw mw = { 0 };
	uint32_t rkey;

	have_peers(&peers);
	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_2, &mw), 0);
	rkey = ibv_inc_rkey(mw.ibv.rkey);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, rkey, &info), MR_OK);
	assert_int_equal(try(rkey, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_OK);
	/* So none is granted to another process. */
	assert_false(mr_describe(&table, rkey, &description));
	assert_int_equal(atomic_load(&table.entry[mr_index_of(rkey)].users), 0);
	assert_int_equal(mr_invalidate(&table, &qp_of_pd_1, rkey), MR_OK);
	assert_int_equal(mw_free(&table, &mw), 0);
	assert_int_equal(peers.drains, 0);
	assert_int_equal(mr_deregister(&table, &mr), 0);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		RULE(each_right_is_needed_and_enough),
		RULE(optional_and_hint_flags_are_accepted_and_unknown_bits_are_not),
		RULE(no_sum_of_address_and_length_can_wrap_into_a_region),
		RULE(a_zero_based_region_is_named_by_offsets),
		RULE(a_key_is_random_in_all_its_bits),
		RULE(keys_of_two_tables_differ),
		RULE(a_full_table_gives_enomem_and_recovers),
		RULE(a_region_with_a_window_bound_is_busy),
		RULE(a_type_2_window_serves_its_qp_until_it_is_invalidated),
		RULE(a_bind_of_a_window_that_is_gone_is_refused),
		RULE(a_bind_takes_the_low_8_bits_of_any_key),
		RULE(a_window_of_no_type_is_refused),
		RULE(explanations_name_key_bounds_and_flag),
		RULE(a_region_without_rights_is_named_so),
		RULE(deregistration_waits_for_an_access_in_progress),
		RULE(after_deregistration_nobody_accesses_the_region),
		RULE(what_is_kept_has_the_bounds_of_its_region),
		RULE(who_keeps_a_region_is_told_of_its_end_once),
		RULE(several_qps_that_keep_a_region_are_all_told),
		RULE(windows_null_regions_and_what_nobody_takes_back_are_not_kept),
		RULE(peers_are_waited_for_without_the_lock),
		RULE(a_block_is_forgotten_once),
		RULE(a_description_is_what_was_registered),
		RULE(only_a_living_key_is_described),
		RULE(a_description_is_waited_for_before_peers_are),
		RULE(windows_wait_for_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
