/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions and windows against a horrible twin: an unsorted list of what was registered, searched
 * from end to end, every rule written out by itself in 128-bit arithmetic. Then the rules one by
 * one, keys, and deregistration while others access.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "object/test_support.h"

#include "object/mr_internal.h"

#define REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct arena *arena;
static struct mr_table table;
static struct pd pds[3] = { { .number = 1 }, { .number = 2 }, { .number = 3 } };

static int begin(void **state)
{
	arena = test_arena();
	assert_int_equal(mr_table_init(&table, arena, 42), 0);
	for (unsigned i = 0; i < 3; i++)
		atomic_store(&pds[i].users, 0);
	return 0;
}

static int end(void **state)
{
	mr_table_free(&table);
	free(arena);
	return 0;
}

/* ---- the twin ---- */

#define THINGS 24

struct thing {
	bool alive;
	enum mr_kind kind;
	struct mr mr;
	struct mw mw;
	uint32_t key, pd;
	unsigned access;
	uint64_t start, length, host;
	/* windows */
	struct thing *region;
	uint32_t qpn;
};

static struct thing things[THINGS];

static unsigned bound_windows(const struct thing *region)
{
	unsigned count = 0;

	for (unsigned i = 0; i < THINGS; i++)
		count += things[i].alive && things[i].kind != MR_REGION &&
			 things[i].region == region;
	return count;
}

static struct thing *find(uint32_t key)
{
	for (unsigned i = 0; i < THINGS; i++)
		if (things[i].alive && things[i].key == key)
			return &things[i];
	return NULL;
}

static bool inside(uint64_t start, uint64_t length, uint64_t inner, uint64_t inner_length)
{
	__extension__ typedef unsigned __int128 wide;

	return inner >= start && (wide)inner + inner_length <= (wide)start + length;
}

static unsigned bit(enum mr_fault fault)
{
	return 1u << fault;
}

/* All the faults that an access has, as a mask; 0: it is allowed. */
static unsigned horrible_access(const struct mr_asker *asker, uint32_t key, unsigned need,
				uint64_t address, uint64_t length)
{
	const struct thing *thing = find(key);
	unsigned faults = 0;

	if (!thing)
		return bit(MR_KEY);
	if (thing->pd != asker->pd)
		faults |= bit(MR_PD);
	if (thing->kind != MR_REGION && !thing->region)
		return faults | bit(MR_UNBOUND);
	if (thing->kind == MR_WINDOW_2 && thing->qpn != asker->qpn)
		faults |= bit(MR_QP);
	if (thing->kind != MR_REGION && (need == 0 || need & IBV_ACCESS_LOCAL_WRITE))
		faults |= bit(MR_ACCESS);
	for (unsigned right = 1; right <= IBV_ACCESS_REMOTE_ATOMIC; right <<= 1)
		if (need & right && !(thing->access & right))
			faults |= bit(MR_ACCESS);
	if (!inside(thing->start, thing->length, address, length))
		faults |= bit(MR_BOUNDS);
	return faults;
}

static unsigned horrible_bind(const struct mr_asker *asker, const struct thing *window,
			      const struct thing *region, uint32_t rkey,
			      const struct ibv_mw_bind_info *info)
{
	unsigned flags = info->mw_access_flags, faults = 0;
	bool second = window->kind == MR_WINDOW_2;

	if (window->pd != asker->pd)
		faults |= bit(MR_PD);
	if ((rkey & 0xffffff00) != (window->key & 0xffffff00))
		faults |= bit(MR_KEY);
	if (flags & ~(unsigned)(REMOTE | IBV_ACCESS_ZERO_BASED))
		faults |= bit(MR_ACCESS);
	if (flags & IBV_ACCESS_ZERO_BASED && !second)
		faults |= bit(MR_ACCESS);
	if (second && window->region)
		faults |= bit(MR_ACCESS);
	if (second && info->length == 0)
		return faults | bit(MR_BOUNDS);
	if (info->length == 0)
		return faults;
	if (!region)
		return faults | bit(MR_KEY);
	if (region->pd != asker->pd)
		faults |= bit(MR_PD);
	if (!(region->access & IBV_ACCESS_MW_BIND))
		faults |= bit(MR_ACCESS);
	if (flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(region->access & IBV_ACCESS_LOCAL_WRITE))
		faults |= bit(MR_ACCESS);
	if (!inside(region->start, region->length, info->addr, info->length))
		faults |= bit(MR_BOUNDS);
	return faults;
}

static unsigned horrible_invalidate(const struct mr_asker *asker, uint32_t rkey)
{
	const struct thing *thing = find(rkey);
	unsigned faults = 0;

	if (!thing)
		return bit(MR_KEY);
	if (thing->pd != asker->pd)
		faults |= bit(MR_PD);
	if (thing->kind != MR_WINDOW_2)
		return faults | bit(MR_ACCESS);
	if (!thing->region)
		return faults | bit(MR_UNBOUND);
	if (thing->qpn != asker->qpn)
		faults |= bit(MR_QP);
	return faults;
}

/* ---- random operations on both ---- */

static uint64_t seed;

static void assert_same(enum mr_fault fault, unsigned faults)
{
	if (fault == MR_OK ? faults != 0 : !(faults & bit(fault)))
		fail_msg("the table says %d, the twin 0x%x", (int)fault, faults);
}

/* Few values near each other, and near 0 and 2^64, so that edges are met often. */
static uint64_t random_address(void)
{
	static const uint64_t bases[] = { 0, 0x1000, 0x7f0000000000, UINT64_MAX - 40 };

	return bases[random_below(&seed, 4)] + random_below(&seed, 48);
}

static uint64_t random_length(void)
{
	static const uint64_t rare[] = { UINT64_MAX, UINT64_MAX - 20, 1ull << 63, 1ull << 32 };

	if (random_below(&seed, 8) == 0)
		return rare[random_below(&seed, 4)];
	return random_below(&seed, 64);
}

static struct mr_asker random_asker(void)
{
	return (struct mr_asker){ .pd = 1 + (random_below(&seed, 8) == 0),
				  .qpn = 0x11 + (random_below(&seed, 4) == 0) };
}

static struct thing *random_thing(bool alive)
{
	for (unsigned tries = 0; tries < 64; tries++) {
		struct thing *thing = &things[random_below(&seed, THINGS)];

		if (thing->alive == alive)
			return thing;
	}
	return NULL;
}

static unsigned random_access(void)
{
	unsigned access = random_below(&seed, 64);	/* up to ZERO_BASED */

	/* Often enough one that is permitted. */
	return random_below(&seed, 2) ? access | IBV_ACCESS_LOCAL_WRITE : access;
}

static bool access_wrong(unsigned access)
{
	return (access & IBV_ACCESS_REMOTE_WRITE || access & IBV_ACCESS_REMOTE_ATOMIC) &&
	       !(access & IBV_ACCESS_LOCAL_WRITE);
}

static bool past_the_end(uint64_t start, uint64_t length)
{
	return length && !inside(0, UINT64_MAX, start, length - 1);
}

static void step_register(void)
{
	uint64_t address = random_address(), length = random_length();
	uint64_t iova = random_below(&seed, 2) ? address : random_address();
	unsigned access = random_access();
	struct thing *thing = random_thing(false);
	struct pd *pd = &pds[random_below(&seed, 8) == 0];
	bool wrong;
	int err;

	if (!thing)
		return;
	memset(thing, 0, sizeof(*thing));
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	wrong = access_wrong(access) || past_the_end(address, length) || past_the_end(iova, length);
	err = mr_register(&table, pd, (void *)(uintptr_t)address, length, iova, access, &thing->mr);
	assert_int_equal(err, wrong ? EINVAL : 0);
	if (err)
		return;
	assert_null(find(thing->mr.ibv.lkey));
	assert_int_equal(thing->mr.ibv.lkey, thing->mr.ibv.rkey);
	*thing = (struct thing){ .alive = true, .kind = MR_REGION, .mr = thing->mr,
		.key = thing->mr.ibv.lkey, .pd = pd->number, .access = access, .start = iova,
		.length = length, .host = address };
}

static void step_reregister(struct thing *thing)
{
	int flags = (int)(1 + random_below(&seed, 7));
	uint64_t address = random_address(), length = random_length();
	unsigned access = random_access(), old = thing->access;
	struct pd *pd = &pds[random_below(&seed, 8) == 0];
	bool wrong = false;
	int err;

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		wrong |= !address || !length || past_the_end(address, length);
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		wrong |= access_wrong(access);
	err = mr_reregister(&table, &thing->mr, flags, pd, (void *)(uintptr_t)address, length,
			    access);
	assert_int_equal(err, wrong ? EINVAL : bound_windows(thing) ? EBUSY : 0);
	if (err)
		return;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		thing->access = access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		thing->pd = pd->number;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		thing->host = thing->start = address;
		thing->length = length;
	}
	if (old & IBV_ACCESS_ZERO_BASED && !(thing->access & IBV_ACCESS_ZERO_BASED))
		thing->start = thing->host;
	if (thing->access & IBV_ACCESS_ZERO_BASED)
		thing->start = 0;
	assert_int_equal(thing->mr.ibv.lkey, thing->key);
	assert_int_equal(thing->mr.ibv.length, thing->length);
}

static void step_window(void)
{
	enum ibv_mw_type type = random_below(&seed, 2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	struct thing *thing = random_thing(false);
	struct pd *pd = &pds[random_below(&seed, 8) == 0];

	if (!thing)
		return;
	memset(thing, 0, sizeof(*thing));
	assert_int_equal(mw_alloc(&table, pd, type, &thing->mw), 0);
	assert_null(find(thing->mw.ibv.rkey));
	thing->alive = true;
	thing->kind = type == IBV_MW_TYPE_1 ? MR_WINDOW_1 : MR_WINDOW_2;
	thing->key = thing->mw.ibv.rkey;
	thing->pd = pd->number;
}

static void step_remove(struct thing *thing)
{
	if (thing->kind == MR_REGION) {
		int err = mr_deregister(&table, &thing->mr);

		assert_int_equal(err, bound_windows(thing) ? EBUSY : 0);
		if (err)
			return;
	} else {
		assert_int_equal(mw_free(&table, &thing->mw), 0);
	}
	thing->alive = false;
}

static unsigned random_window_rights(void)
{
	unsigned access = random_below(&seed, 16) & REMOTE;

	if (random_below(&seed, 8) == 0)
		access |= IBV_ACCESS_LOCAL_WRITE;
	return random_below(&seed, 4) ? access : access | IBV_ACCESS_ZERO_BASED;
}

static void step_bind(struct thing *window)
{
	struct thing *region = random_thing(true);
	struct mr_asker asker = random_asker();
	uint32_t rkey = (window->key & ~0xffu) | random_below(&seed, 256);
	struct ibv_mw_bind_info info = { .mw_access_flags = random_window_rights() };
	enum mr_fault fault;
	unsigned faults;

	if (region && region->kind != MR_REGION)
		region = NULL;
	if (random_below(&seed, 16) == 0)
		rkey ^= 0x100;
	if (region) {
		info.mr = &region->mr.ibv;
		info.addr = region->start + random_below(&seed, 16);
		info.length = random_below(&seed, 8) ? random_below(&seed, 32) : random_length();
	} else {
		info.length = random_below(&seed, 2);
	}
	faults = horrible_bind(&asker, window, region, rkey, &info);
	fault = mw_bind(&table, &asker, &window->mw, rkey, &info);
	assert_same(fault, faults);
	if (fault != MR_OK)
		return;
	window->key = rkey;
	window->region = info.length ? region : NULL;
	window->qpn = asker.qpn;
	window->access = info.mw_access_flags;
	window->start = info.mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info.addr;
	window->length = info.length;
	window->host = region ? region->host + (info.addr - region->start) : 0;
}

static uint32_t random_key(void)
{
	struct thing *thing = random_thing(true);

	if (!thing || random_below(&seed, 16) == 0)
		return random_below(&seed, 4) ? (uint32_t)random_next(&seed) : 0;
	return random_below(&seed, 16) ? thing->key : thing->key ^ 1u << random_below(&seed, 32);
}

static void step_invalidate(void)
{
	struct mr_asker asker = random_asker();
	uint32_t key = random_key();
	struct thing *thing = find(key);
	enum mr_fault fault;
	unsigned faults;

	faults = horrible_invalidate(&asker, key);
	fault = mr_invalidate(&table, &asker, key);
	assert_same(fault, faults);
	if (fault == MR_OK)
		thing->region = NULL;
}

static void step_access(void)
{
	static const unsigned needs[] = {
		0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct mr_asker asker = random_asker();
	uint32_t key = random_key();
	unsigned need = needs[random_below(&seed, 6)];
	struct thing *thing = find(key);
	uint64_t address, length;
	struct mr_grant grant;
	enum mr_fault fault;

	address = thing && random_below(&seed, 8) ? thing->start + random_below(&seed, 24) - 4 :
						    random_address();
	length = 1 + (random_below(&seed, 8) ? random_below(&seed, 24) : random_length());
	if (!length)
		length = UINT64_MAX;
	fault = mr_grant(&table, &asker, key, need, address, length, &grant);
	assert_same(fault, horrible_access(&asker, key, need, address, length));
	if (fault != MR_OK)
		return;
	assert_int_equal((uintptr_t)grant.host, thing->host + (address - thing->start));
	assert_int_equal(atomic_load(&grant.entry->users), 1);
	mr_release(&grant);
}

static void random_step(void)
{
	struct thing *thing = random_thing(true);

	switch (random_below(&seed, 32)) {
	case 0 ... 1:
		step_register();
		break;
	case 2:
		step_window();
		break;
	case 3:
		if (thing)
			step_remove(thing);
		break;
	case 4:
		if (thing && thing->kind == MR_REGION)
			step_reregister(thing);
		break;
	case 5 ... 8:
		if (thing && thing->kind != MR_REGION)
			step_bind(thing);
		break;
	case 9:
		step_invalidate();
		break;
	default:
		step_access();
	}
}

static void nobody_is_left(void)
{
	for (unsigned kind = MR_WINDOW_2; kind >= MR_REGION; kind--)
		for (unsigned i = 0; i < THINGS; i++)
			if (things[i].alive && things[i].kind == kind)
				step_remove(&things[i]);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(atomic_load(&pds[i].users), 0);
	for (unsigned i = 0; i < MR_TABLE_SIZE; i++) {
		assert_int_equal(atomic_load(&table.entry[i].key), 0);
		assert_int_equal(atomic_load(&table.entry[i].users), 0);
	}
}

static void random_operations_do_as_the_horrible_twin_does(void **state)
{
	memset(things, 0, sizeof(things));
	seed = 0x20240607;
	for (unsigned i = 0; i < 300000; i++)
		random_step();
	nobody_is_left();
}

/* ---- one rule at a time ---- */

static const struct mr_asker qp_of_pd_1 = { .pd = 1, .qpn = 0x11 };

static struct mr region_of(void *address, size_t length, unsigned access)
{
	struct mr mr = { 0 };

	assert_int_equal(mr_register(&table, &pds[0], address, length, (uintptr_t)address, access,
				     &mr), 0);
	return mr;
}

static enum mr_fault try(uint32_t key, unsigned need, uint64_t address, uint64_t length)
{
	struct mr_grant grant;
	enum mr_fault fault = mr_grant(&table, &qp_of_pd_1, key, need, address, length, &grant);

	if (fault == MR_OK)
		mr_release(&grant);
	return fault;
}

static void each_right_is_needed_and_enough(void **state)
{
	char memory[8];

	for (unsigned access = 0; access < 16; access++) {
		struct mr mr = { 0 };
		int err = mr_register(&table, &pds[0], memory, 8, (uintptr_t)memory, access, &mr);

		assert_int_equal(err, access_wrong(access) ? EINVAL : 0);
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
					 IBV_ACCESS_MW_BIND };
	struct mr mr = { 0 };
	char memory[8];

	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, good[i], &mr), 0);
		mr_deregister(&table, &mr);
	}
	assert_int_equal(mr_register(&table, &pds[0], memory, 8, 0, 1 << 8, &mr), EINVAL);
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
	struct mr_grant grant;
	struct mr mr = { 0 };
	char memory[64];

	assert_int_equal(mr_register(&table, &pds[0], memory, 64, (uintptr_t)memory,
				     IBV_ACCESS_ZERO_BASED, &mr), 0);
	assert_int_equal(mr_grant(&table, &qp_of_pd_1, mr.ibv.lkey, 0, 10, 54, &grant), MR_OK);
	assert_ptr_equal(grant.host, memory + 10);
	mr_release(&grant);
	assert_int_equal(try(mr.ibv.lkey, 0, 10, 55), MR_BOUNDS);
	assert_int_equal(try(mr.ibv.lkey, 0, (uintptr_t)memory, 1), MR_BOUNDS);
}

static void a_key_is_not_used_again_for_long_and_never_twice_in_a_row(void **state)
{
	static uint32_t last_key[4096], last_use[4096];
	char memory[8];

	memset(last_key, 0, sizeof(last_key));
	for (unsigned i = 1; i < 20000; i++) {
		struct mr mr = region_of(memory, 8, 0);
		uint32_t key = mr.ibv.lkey, index = mr_index_of(key);

		assert_in_range(index, 1, 4095);	/* few, so that the arena stays small */
		if (last_key[index]) {
			assert_int_not_equal(key >> MR_CONSUMER_BITS,
					     last_key[index] >> MR_CONSUMER_BITS);
			assert_true(i - last_use[index] > 1000);
		}
		last_key[index] = key;
		last_use[index] = i;
		assert_int_equal(mr_deregister(&table, &mr), 0);
		assert_int_equal(try(key, 0, (uintptr_t)memory, 1), MR_KEY);
	}
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
	const struct mr_asker other = { .pd = 1, .qpn = 0x12 };
	char memory[64];
	struct mr mr = region_of(memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind_info info = { &mr.ibv, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ };
	struct mr_grant grant;
	struct mw mw = { 0 };
	uint32_t rkey;

	assert_int_equal(mw_alloc(&table, &pds[0], IBV_MW_TYPE_2, &mw), 0);
	rkey = ibv_inc_rkey(mw.ibv.rkey);
	assert_int_equal(mw_bind(&table, &qp_of_pd_1, &mw, rkey, &info), MR_OK);
	assert_int_equal(mw.ibv.rkey, rkey);
	assert_int_equal(try(rkey, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory, 64), MR_OK);
	assert_int_equal(mr_grant(&table, &other, rkey, IBV_ACCESS_REMOTE_READ, (uintptr_t)memory,
				  64, &grant), MR_QP);
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
	const struct mr_asker other = { .pd = 2, .qpn = 0x22 };
	char line[512], key[16];

	snprintf(key, sizeof(key), "0x%08x", mr.ibv.rkey);
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey, IBV_ACCESS_REMOTE_WRITE, 0x1000, 8, MR_ACCESS,
		   line, sizeof(line));
	assert_mentions(line, key);
	assert_mentions(line, "but not IBV_ACCESS_REMOTE_WRITE");
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey, 0, 0x1020, 64, MR_BOUNDS, line, sizeof(line));
	assert_mentions(line, "[0x1000, +64) and the access [0x1020, +64) ends behind it");
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey, 0, UINT64_MAX, 64, MR_BOUNDS, line,
		   sizeof(line));
	assert_mentions(line, "goes past 2^64");
	mr_explain(&table, &other, mr.ibv.rkey, 0, 0x1000, 64, MR_PD, line, sizeof(line));
	assert_mentions(line, "protection domain 1");
	mr_explain(&table, &qp_of_pd_1, mr.ibv.rkey ^ 1, 0, 0x1000, 64, MR_KEY, line, sizeof(line));
	assert_mentions(line, "names no live region");
	/* A short buffer is cut, not overrun. */
	mr_explain(&table, &other, mr.ibv.rkey, 0, 0x1000, 64, MR_PD, line, 10);
	assert_int_equal(strlen(line), 9);
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
	struct mr_grant grant;
	pthread_t thread;

	atomic_store(&done, 0);
	assert_int_equal(mr_grant(&table, &qp_of_pd_1, mr.ibv.lkey, 0, 0x1000, 8, &grant), MR_OK);
	pthread_create(&thread, NULL, deregister, &mr);
	while (try(mr.ibv.lkey, 0, 0x1000, 8) == MR_OK)
		sched_yield();
	/* The key is dead; the waiting goes on. */
	for (unsigned i = 0; i < 1000; i++)
		sched_yield();
	assert_int_equal(atomic_load(&done), 0);
	mr_release(&grant);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&done), 1);
}

static _Atomic uint32_t shared_key;
static _Atomic int region_alive, stop;
static _Atomic unsigned grants, stray;

static void *access_all_the_time(void *argument)
{
	while (!atomic_load(&stop)) {
		struct mr_grant grant;

		if (mr_grant(&table, &qp_of_pd_1, atomic_load(&shared_key), 0, 0x1000, 8, &grant))
			continue;
		for (unsigned i = 0; i < 20; i++)
			if (!atomic_load(&region_alive))
				atomic_fetch_add(&stray, 1);
		mr_release(&grant);
		atomic_fetch_add(&grants, 1);
	}
	return NULL;
}

static void after_deregistration_nobody_accesses_the_region(void **state)
{
	pthread_t thread;

	atomic_store(&stop, 0);
	pthread_create(&thread, NULL, access_all_the_time, NULL);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned before = atomic_load(&grants);
		struct mr mr = { 0 };

		atomic_store(&region_alive, 1);
		assert_int_equal(mr_register(&table, &pds[0], (void *)0x1000, 8, 0x1000, 0, &mr), 0);
		atomic_store(&shared_key, mr.ibv.lkey);
		/* Now and then be sure that the other runs; mostly surprise it. */
		while (i % 256 == 0 && atomic_load(&grants) == before)
			sched_yield();
		for (unsigned spin = i % 512; spin; spin--)
			atomic_load(&stop);
		assert_int_equal(mr_deregister(&table, &mr), 0);
		atomic_store(&region_alive, 0);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&stray), 0);
	assert_true(atomic_load(&grants) > 0);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		RULE(random_operations_do_as_the_horrible_twin_does),
		RULE(each_right_is_needed_and_enough),
		RULE(optional_and_hint_flags_are_accepted_and_unknown_bits_are_not),
		RULE(no_sum_of_address_and_length_can_wrap_into_a_region),
		RULE(a_zero_based_region_is_named_by_offsets),
		RULE(a_key_is_not_used_again_for_long_and_never_twice_in_a_row),
		RULE(a_full_table_gives_enomem_and_recovers),
		RULE(a_region_with_a_window_bound_is_busy),
		RULE(a_type_2_window_serves_its_qp_until_it_is_invalidated),
		RULE(a_window_of_no_type_is_refused),
		RULE(explanations_name_key_bounds_and_flag),
		RULE(deregistration_waits_for_an_access_in_progress),
		RULE(after_deregistration_nobody_accesses_the_region),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
