/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of what two QPs have agreed on (pairing.h): all is forgotten, and the peer can see that the grant
 * is over; but never that another one is, which has got its place meanwhile.
 */
#include <pthread.h>

#include "object/test_support.h"

#include "object/pairing.h"

#define OURS	0x12345006u
#define ANOTHER	0x12346006u	/* the next grant in that place */

static struct pairing agreed(_Atomic uint32_t *alive)
{
	return (struct pairing){ .life = 3, .alive = alive, .ours = OURS, .theirs = 9, .pd = 4,
				 .access = 5, .agreed = true, .asked = true, .wait = 6, .patience = 7,
				 .again_ns = 8 };
}

static void expect_nothing(const struct pairing *pairing)
{
	assert_int_equal(pairing->life, 0);
	assert_null(pairing->alive);
	assert_int_equal(pairing->ours, 0);
	assert_int_equal(pairing->theirs, 0);
	assert_int_equal(pairing->pd, 0);
	assert_int_equal(pairing->access, 0);
	assert_false(pairing->agreed);
	assert_false(pairing->asked);
	assert_int_equal(pairing->wait, 0);
	assert_int_equal(pairing->patience, 0);
}

static void the_grant_ends_and_all_is_forgotten(void **state)
{
	_Atomic uint32_t alive = OURS;
	struct pairing pairing = agreed(&alive);

	pairing_end(&pairing);
	assert_int_equal(alive, 0);
	expect_nothing(&pairing);
	/* There is no second end to it. */
	alive = OURS;
	pairing_end(&pairing);
	assert_int_equal(alive, OURS);
}

static void a_grant_in_the_place_of_ours_goes_on(void **state)
{
	_Atomic uint32_t alive = ANOTHER;
	struct pairing pairing = agreed(&alive);

	pairing_end(&pairing);
	assert_int_equal(alive, ANOTHER);
	expect_nothing(&pairing);
	alive = 0;
	pairing = agreed(&alive);
	pairing_end(&pairing);
	assert_int_equal(alive, 0);
}

static void without_a_grant_there_is_nothing_to_end(void **state)
{
	struct pairing pairing = { .life = 3, .asked = true };

	pairing_end(&pairing);
	expect_nothing(&pairing);
}

static _Atomic uint32_t place;
static _Atomic bool finished;

/* Ending a grant frees its place: another grant lives there, until this thread ends it. */
static void *grant_anew(void *argument)
{
	unsigned *lost = argument;

	while (!atomic_load(&finished)) {
		uint32_t expected = 0;

		if (!atomic_compare_exchange_strong(&place, &expected, ANOTHER))
			continue;
		*lost += atomic_load(&place) != ANOTHER;
		atomic_store(&place, OURS);
	}
	return NULL;
}

static void an_end_that_races_with_a_new_grant_leaves_that_one_alone(void **state)
{
	unsigned lost = 0, i;
	pthread_t thread;

	atomic_store(&place, OURS);
	assert_int_equal(pthread_create(&thread, NULL, grant_anew, &lost), 0);
	for (i = 0; i < 200000; i++) {
		struct pairing pairing = agreed(&place);

		pairing_end(&pairing);
	}
	atomic_store(&finished, true);
	pthread_join(thread, NULL);
	assert_int_equal(lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_grant_ends_and_all_is_forgotten),
		cmocka_unit_test(a_grant_in_the_place_of_ours_goes_on),
		cmocka_unit_test(without_a_grant_there_is_nothing_to_end),
		cmocka_unit_test(an_end_that_races_with_a_new_grant_leaves_that_one_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
