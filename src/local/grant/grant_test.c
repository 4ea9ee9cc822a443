/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's table of grants (grant.h), by hand and against a model that searches a list: ids and
 * names find live grants, and a grant that has ended is never found again.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "local/grant/grant.h"

static struct grants grants;
static struct grant_page *page;

static int begin(void **state)
{
	page = calloc(1, sizeof(*page));
	if (!page)
		return -1;
	grants_init(&grants, page);
	return 0;
}

static int end(void **state)
{
	grants_fini(&grants);
	free(page);
	return 0;
}

static uint32_t get(enum grant_kind kind, uint32_t name, bool is_new)
{
	bool fresh;
	uint32_t id = grant_get(&grants, kind, name, &fresh);

	assert_int_not_equal(id, 0);
	assert_int_equal(fresh, is_new);
	assert_true(grant_is_alive(page, id));
	return id;
}

static void expect_found(enum grant_kind kind, uint32_t id, uint32_t name)
{
	uint32_t found = ~name;
	unsigned i;

	assert_true(grant_find(&grants, kind, id, &found));
	assert_int_equal(found, name);
	/* Under the lock, and as the latest. */
	for (i = 0; i < 2; i++) {
		found = ~name;
		assert_int_equal(grant_find_qp(&grants, id, &found), kind == GRANT_QP);
		assert_int_equal(found, kind == GRANT_QP ? name : ~name);
	}
}

static void expect_unknown(enum grant_kind kind, uint32_t id)
{
	uint32_t name = 77;

	assert_false(grant_find(&grants, kind, id, &name));
	assert_false(kind == GRANT_QP && grant_find_qp(&grants, id, &name));
	assert_int_equal(name, 77);
}

static void a_grant_is_found_until_it_is_killed(void **state)
{
	uint32_t id = get(GRANT_REGION, 0x1234, true);

	assert_int_equal(get(GRANT_REGION, 0x1234, false), id);
	expect_found(GRANT_REGION, id, 0x1234);
	assert_int_equal(grant_kill(&grants, GRANT_REGION, 0x1234), id);
	assert_false(grant_is_alive(page, id));
	assert_int_equal(page->alive[grant_index(id)], 0);
	expect_unknown(GRANT_REGION, id);
	assert_int_equal(grant_kill(&grants, GRANT_REGION, 0x1234), 0);
	grant_free(&grants, id);
	assert_int_equal(grants.count, 0);
}

/* A key and a QP of the same number are distinct, and one does not prove the other. */
static void regions_and_qps_are_kept_apart(void **state)
{
	uint32_t region = get(GRANT_REGION, 5, true), qp = get(GRANT_QP, 5, true);

	assert_int_not_equal(region, qp);
	expect_found(GRANT_REGION, region, 5);
	expect_found(GRANT_QP, qp, 5);
	expect_unknown(GRANT_QP, region);
	expect_unknown(GRANT_REGION, qp);
	assert_int_equal(grant_kill(&grants, GRANT_QP, 5), qp);
	expect_found(GRANT_REGION, region, 5);
}

/* What a peer may make up: other serials, other indices, 0. */
static void only_its_id_finds_a_grant(void **state)
{
	uint32_t id = get(GRANT_REGION, 9, true);
	unsigned bit;

	for (bit = 0; bit < 32; bit++)
		expect_unknown(GRANT_REGION, id ^ 1u << bit);
	expect_unknown(GRANT_REGION, 0);
	expect_unknown(GRANT_REGION, UINT32_MAX);
	for (bit = 0; bit < GRANTS_MAX; bit++)
		expect_unknown(GRANT_REGION, bit);
}

/* An index is not used again while hazards may name its last id. */
static void qps_that_have_ended_their_grant_are_found_until_it_is_killed(void **state)
{
	uint32_t region = get(GRANT_REGION, 3, true), one = get(GRANT_QP, 5, true), name = 0;
	unsigned at = 0;

	get(GRANT_QP, 6, true);
	assert_false(grant_next_ended(&grants, &at, &name));
	/* As pairing_end() does; no QP is behind the other one. */
	atomic_store(&page->alive[grant_index(one)], 0);
	atomic_store(&page->alive[grant_index(region)], 0);
	at = 0;
	assert_true(grant_next_ended(&grants, &at, &name));
	assert_int_equal(name, 5);
	assert_false(grant_next_ended(&grants, &at, &name));
	assert_int_equal(grant_kill(&grants, GRANT_QP, 5), one);
	at = 0;
	assert_false(grant_next_ended(&grants, &at, &name));
	grant_free(&grants, one);
	at = 0;
	assert_false(grant_next_ended(&grants, &at, &name));
}

static void a_qp_that_was_found_is_not_found_when_it_has_ended(void **state)
{
	uint32_t qpn, first = get(GRANT_QP, 0x4001, true), second = get(GRANT_QP, 0x4002, true);

	expect_found(GRANT_QP, first, 0x4001);
	expect_found(GRANT_QP, second, 0x4002);
	expect_found(GRANT_QP, first, 0x4001);
	assert_int_equal(grant_kill(&grants, GRANT_QP, 0x4001), first);
	expect_unknown(GRANT_QP, first);
	expect_found(GRANT_QP, second, 0x4002);
	/* By its QP, which knows the word alone (pairing_end). */
	page->alive[grant_index(second)] = 0;
	expect_unknown(GRANT_QP, second);
	assert_false(grant_find_qp(&grants, 0, &qpn));
}

static void a_killed_grant_keeps_its_index_until_it_is_freed(void **state)
{
	uint32_t id = get(GRANT_REGION, 1, true), again, i;

	assert_int_equal(grant_kill(&grants, GRANT_REGION, 1), id);
	/* The name may be granted anew meanwhile. */
	again = get(GRANT_REGION, 1, true);
	assert_int_not_equal(grant_index(again), grant_index(id));
	for (i = 2; i < GRANTS_MAX; i++)
		assert_int_not_equal(grant_index(get(GRANT_REGION, i, true)), grant_index(id));
	assert_int_equal(grant_get(&grants, GRANT_REGION, i, &(bool){ false }), 0);
	grant_free(&grants, id);
	again = get(GRANT_REGION, i, true);
	assert_int_equal(grant_index(again), grant_index(id));
	assert_int_not_equal(again, id);
	expect_unknown(GRANT_REGION, id);
	/* What is not dying is not freed, nor a life of before. */
	grant_free(&grants, again);
	grant_free(&grants, id);
	expect_found(GRANT_REGION, again, i);
}

static void a_full_table_has_room_when_some_have_ended(void **state)
{
	uint32_t i, round;

	for (i = 0; i < GRANTS_MAX; i++)
		get(GRANT_REGION, i * 4096, true);
	assert_int_equal(grants.count, GRANTS_MAX);
	for (round = 0; round < 10000; round++) {
		uint32_t name = (GRANTS_MAX + round) * 4096;

		assert_int_equal(grant_get(&grants, GRANT_REGION, name, &(bool){ false }), 0);
		grant_free(&grants, grant_kill(&grants, GRANT_REGION, round * 4096));
		get(GRANT_REGION, name, true);
	}
	assert_int_equal(grants.count, GRANTS_MAX);
}

static void an_id_comes_back_after_a_million_lives_at_the_earliest(void **state)
{
	uint32_t first = get(GRANT_QP, 3, true), i, id = first;

	for (i = 0; i < (1u << 20) - 2; i++) {
		grant_free(&grants, grant_kill(&grants, GRANT_QP, 3));
		/* The indices never used come first. */
		id = get(GRANT_QP, 3, true);
		if (id == first)
			break;
	}
	assert_int_not_equal(id, first);
	/* It comes round without ever being 0. */
	for (i = 0; i < 10000; i++) {
		grant_free(&grants, grant_kill(&grants, GRANT_QP, 3));
		assert_int_not_equal(get(GRANT_QP, 3, true) >> GRANT_INDEX_BITS, 0);
	}
}

static void that_a_block_is_mapped_is_said_once(void **state)
{
	uint32_t id = get(GRANT_REGION, 4, true);

	assert_false(grant_is_mapped(&grants, GRANT_REGION, 4));
	assert_false(grant_set_mapped(&grants, id));
	assert_true(grant_set_mapped(&grants, id));
	assert_true(grant_is_mapped(&grants, GRANT_REGION, 4));
	assert_false(grant_is_mapped(&grants, GRANT_QP, 4));
	assert_false(grant_is_mapped(&grants, GRANT_REGION, 5));
	assert_int_equal(grant_kill(&grants, GRANT_REGION, 4), id);
	assert_false(grant_set_mapped(&grants, id));
	get(GRANT_REGION, 4, true);
	assert_false(grant_is_mapped(&grants, GRANT_REGION, 4));
}

/*
 * The channel's next peer: nothing that the last one was granted holds, and its ids do not come
 * back.
 */
static void a_new_life_has_none_of_the_grants_before(void **state)
{
	uint32_t old[100], i, k;

	for (i = 0; i < 100; i++)
		old[i] = get(GRANT_REGION, i, true);
	grant_kill(&grants, GRANT_REGION, 50);
	memset(page, 0, sizeof(*page));
	grants_reset(&grants);
	assert_int_equal(grants.count, 0);
	for (i = 0; i < 100; i++)
		expect_unknown(GRANT_REGION, old[i]);
	/* A late end of the former grant has no effect. */
	grant_free(&grants, old[50]);
	for (i = 0; i < 200; i++) {
		uint32_t id = get(GRANT_REGION, i, true);

		for (k = 0; k < 100; k++)
			assert_int_not_equal(id, old[k]);
	}
	assert_int_equal(grants.count, 200);
	assert_int_equal(grant_get(&grants, GRANT_REGION, 7, &(bool){ false }),
			 get(GRANT_REGION, 7, false));
}

/* The QP ends the grant in the page alone (object/pairing.h), before it is killed here. */
static void what_is_dead_in_the_page_is_not_found(void **state)
{
	uint32_t id = get(GRANT_QP, 8, true);

	atomic_store(&page->alive[grant_index(id)], 0);
	expect_unknown(GRANT_QP, id);
	assert_false(grant_set_mapped(&grants, id));
	assert_int_equal(grant_kill(&grants, GRANT_QP, 8), id);
	grant_free(&grants, id);
	assert_int_not_equal(get(GRANT_QP, 8, true), id);
}

/* ---- a model ---- */

#define NAMES 600u

struct model {
	uint32_t id;
	bool dying;
};

static struct model models[3][NAMES];
static uint32_t dying[2 * GRANTS_MAX];

static void grants_agree_with_the_model(void **state)
{
	uint64_t random = 4;
	unsigned round, dead = 0, made = 0;

	memset(models, 0, sizeof(models));
	for (round = 0; round < 300000; round++) {
		enum grant_kind kind = 1 + test_random(&random) % 2;
		uint32_t name = (uint32_t)(test_random(&random) % NAMES);
		struct model *model = &models[kind][name];

		switch (test_random(&random) % 5) {
		case 0:
		case 1:
			assert_true(!model->id || get(kind, name, false) == model->id);
			if (!model->id) {
				model->id = get(kind, name, true);
				made++;
			}
			break;
		case 2:
			assert_int_equal(grant_kill(&grants, kind, name), model->id);
			if (model->id)
				dying[dead++] = model->id;
			model->id = 0;
			break;
		case 3:
			if (model->id)
				expect_found(kind, model->id, name);
			break;
		default:
			if (dead) {
				uint32_t at = (uint32_t)(test_random(&random) % dead);

				expect_unknown(kind, dying[at]);
				grant_free(&grants, dying[at]);
				dying[at] = dying[--dead];
			}
			break;
		}
		/* Room for all names, as long as the dying do not pile up. */
		while (dead > 2000)
			grant_free(&grants, dying[--dead]);
	}
	assert_true(made > 10000);
}

/* ---- threads ---- */

static void *kill_all_the_time(void *argument)
{
	unsigned i;

	for (i = 0; i < 100000; i++) {
		uint32_t id = grant_kill(&grants, GRANT_REGION, i % 7);

		if (id)
			grant_free(&grants, id);
	}
	return NULL;
}

static void threads_grant_and_kill_at_once(void **state)
{
	pthread_t thread;
	unsigned i;

	assert_int_equal(pthread_create(&thread, NULL, kill_all_the_time, NULL), 0);
	for (i = 0; i < 100000; i++) {
		uint32_t name = i % 7, found = name;
		bool fresh;
		uint32_t id = grant_get(&grants, GRANT_REGION, name, &fresh);

		assert_int_not_equal(id, 0);
		/* If it lives still it is the one. */
		if (grant_find(&grants, GRANT_REGION, id, &found))
			assert_int_equal(found, name);
		grant_set_mapped(&grants, id);
	}
	pthread_join(thread, NULL);
	for (i = 0; i < 7; i++)
		grant_free(&grants, grant_kill(&grants, GRANT_REGION, i));
	assert_int_equal(grants.count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_grant_is_found_until_it_is_killed),
		TEST(regions_and_qps_are_kept_apart),
		TEST(only_its_id_finds_a_grant),
		TEST(qps_that_have_ended_their_grant_are_found_until_it_is_killed),
		TEST(a_qp_that_was_found_is_not_found_when_it_has_ended),
		TEST(a_killed_grant_keeps_its_index_until_it_is_freed),
		TEST(a_full_table_has_room_when_some_have_ended),
		TEST(an_id_comes_back_after_a_million_lives_at_the_earliest),
		TEST(that_a_block_is_mapped_is_said_once),
		TEST(a_new_life_has_none_of_the_grants_before),
		TEST(what_is_dead_in_the_page_is_not_found),
		TEST(grants_agree_with_the_model),
		TEST(threads_grant_and_kill_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
