/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions and windows against a naive model: an unsorted list of what was registered, searched
 * from end to end, every rule written out by itself in 128-bit arithmetic.
 */
#include <errno.h>

#include "object/mr_table_test.h"

#include "object/mr.h"

#define REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* ---- the model ---- */

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
static unsigned model_access(const struct mr_accessor *accessor, uint32_t key, unsigned need,
			     uint64_t address, uint64_t length)
{
	const struct thing *thing = find(key);
	unsigned faults = 0;

	if (!thing)
		return bit(MR_KEY);
	if (thing->pd != accessor->pd)
		faults |= bit(MR_PD);
	if (thing->kind != MR_REGION && !thing->region)
		return faults | bit(MR_UNBOUND);
	if (thing->kind == MR_WINDOW_2 && thing->qpn != accessor->qpn)
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

static unsigned model_bind(const struct mr_accessor *accessor, const struct thing *window,
			   const struct thing *region, const struct ibv_mw_bind_info *info)
{
	unsigned flags = info->mw_access_flags, faults = 0;
	bool second = window->kind == MR_WINDOW_2;

	if (window->pd != accessor->pd)
		faults |= bit(MR_PD);
	if (flags & ~(unsigned)(REMOTE | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE))
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
	if (region->pd != accessor->pd)
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

static unsigned model_invalidate(const struct mr_accessor *accessor, uint32_t rkey)
{
	const struct thing *thing = find(rkey);
	unsigned faults = 0;

	if (!thing)
		return bit(MR_KEY);
	if (thing->pd != accessor->pd)
		faults |= bit(MR_PD);
	if (thing->kind != MR_WINDOW_2)
		return faults | bit(MR_ACCESS);
	if (!thing->region)
		return faults | bit(MR_UNBOUND);
	if (thing->qpn != accessor->qpn)
		faults |= bit(MR_QP);
	return faults;
}

/* ---- random operations on both ---- */

static uint64_t seed;

static void assert_same(enum mr_fault fault, unsigned faults)
{
	if (fault == MR_OK ? faults != 0 : !(faults & bit(fault)))
		fail_msg("the table says %d, the model 0x%x", (int)fault, faults);
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

static struct mr_accessor random_accessor(void)
{
	return (struct mr_accessor){ .pd = 1 + (random_below(&seed, 8) == 0),
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
	if (random_below(&seed, 8) == 0)
		access |= IBV_ACCESS_MW_BIND;	/* a window takes no such right */
	return random_below(&seed, 4) ? access : access | IBV_ACCESS_ZERO_BASED;
}

static void step_bind(struct thing *window)
{
	struct thing *region = random_thing(true);
	struct mr_accessor accessor = random_accessor();
	uint32_t rkey = (window->key & ~0xffu) | random_below(&seed, 256);
	struct ibv_mw_bind_info info = { .mw_access_flags = random_window_rights() };
	enum mr_fault fault;
	unsigned faults;

	if (region && region->kind != MR_REGION)
		region = NULL;
	if (random_below(&seed, 16) == 0)
		rkey ^= 0x100;	/* not the consumer's: ignored */
	if (region) {
		info.mr = &region->mr.ibv;
		info.addr = region->start + random_below(&seed, 16);
		info.length = random_below(&seed, 8) ? random_below(&seed, 32) : random_length();
	} else {
		info.length = random_below(&seed, 2);
	}
	faults = model_bind(&accessor, window, region, &info);
	fault = mw_bind(&table, &accessor, &window->mw, rkey, &info);
	assert_same(fault, faults);
	if (fault != MR_OK)
		return;
	window->key = (window->key & ~0xffu) | (rkey & 0xff);
	window->region = info.length ? region : NULL;
	window->qpn = accessor.qpn;
	window->access = info.mw_access_flags & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;
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
	struct mr_accessor accessor = random_accessor();
	uint32_t key = random_key();
	struct thing *thing = find(key);
	enum mr_fault fault;
	unsigned faults;

	faults = model_invalidate(&accessor, key);
	fault = mr_invalidate(&table, &accessor, key);
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
	struct mr_accessor accessor = random_accessor();
	uint32_t key = random_key();
	unsigned need = needs[random_below(&seed, 6)];
	struct thing *thing = find(key);
	uint64_t address, length;
	struct mr_access access;
	enum mr_fault fault;

	address = thing && random_below(&seed, 8) ? thing->start + random_below(&seed, 24) - 4 :
						    random_address();
	length = 1 + (random_below(&seed, 8) ? random_below(&seed, 24) : random_length());
	if (!length)
		length = UINT64_MAX;
	fault = mr_access_begin(&table, &accessor, key, need, address, length, &access);
	assert_same(fault, model_access(&accessor, key, need, address, length));
	if (fault != MR_OK)
		return;
	assert_int_equal((uintptr_t)access.host, thing->host + (address - thing->start));
	assert_int_equal(atomic_load(&access.entry->users), 1);
	mr_access_end(&access);
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

static void random_operations_agree_with_the_model(void **state)
{
	memset(things, 0, sizeof(things));
	seed = 0x20240607;
	for (unsigned i = 0; i < 300000; i++)
		random_step();
	nobody_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_operations_agree_with_the_model,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
