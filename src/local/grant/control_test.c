/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parsing of control messages (control.h): of all sizes, of random bytes, and of numbers near the
 * limits. What is accepted is in bounds; what is in bounds is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "local/grant/control.h"
#include "transport/refusal.h"

/* In memory of exactly that size, so that ASan sees one byte more. */
static bool parse(const void *data, size_t bytes, struct control *control)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	bool parsed;

	assert_non_null(exact);
	memcpy(exact, data, bytes);
	parsed = control_parse(exact, bytes, control);
	free(exact);
	return parsed;
}

static void what_is_said_is_heard(void **state)
{
	struct control said = { .qpn = 1, .owner_qpn = 2, .qp = 3, .requester_qp = 4, .key = 5,
				.region = 6, .pd = 7, .access = 8, .psn = 9, .mtu = 10, .mapped = 2,
				.refusal = DROP_FIRST_PSN_AHEAD, .value = 13,
				.start = 11, .length = 12, .host = 0x2010, .block = 0x2000,
				.block_bytes = 0x1000 };
	struct control heard;

	for (said.kind = CONTROL_ASK_QP; said.kind < CONTROL_KINDS; said.kind++) {
		memset(&heard, 0xee, sizeof(heard));
		assert_true(parse(&said, sizeof(said), &heard));
		assert_memory_equal(&heard, &said, sizeof(said));
	}
}

static void other_sizes_are_none(void **state)
{
	uint8_t data[2 * sizeof(struct control)] = { 0 };
	struct control said = { .kind = CONTROL_ASK_KEY }, heard;
	size_t bytes;

	memcpy(data, &said, sizeof(said));
	for (bytes = 0; bytes <= sizeof(data); bytes++)
		assert_int_equal(parse(data, bytes, &heard), bytes == CONTROL_BYTES);
}

static void other_kinds_are_none(void **state)
{
	static const uint32_t kinds[] = { 0, CONTROL_KINDS, CONTROL_KINDS + 1, 255, 256,
					  CONTROL_KEY << 8, 1u << 31 | CONTROL_KEY, UINT32_MAX };
	struct control said = { .kind = 0 }, heard;
	unsigned i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		said.kind = kinds[i];
		assert_false(parse(&said, sizeof(said), &heard));
	}
	said = (struct control){ .kind = CONTROL_KEY, .region = 1, .mapped = 3 };
	assert_false(parse(&said, sizeof(said), &heard));
	said.mapped = UINT32_MAX;
	assert_false(parse(&said, sizeof(said), &heard));
}

static void other_refusals_are_none(void **state)
{
	struct control said = { .kind = CONTROL_DROPPED }, heard;

	assert_false(parse(&said, sizeof(said), &heard));
	for (said.refusal = 1; said.refusal < DROP_COUNT; said.refusal++)
		assert_int_equal(parse(&said, sizeof(said), &heard),
				 drop_row((enum drop)said.refusal)->peer != NULL);
	assert_false(parse(&said, sizeof(said), &heard));
	said = (struct control){ .kind = CONTROL_QP, .refusal = UINT32_MAX };
	assert_false(parse(&said, sizeof(said), &heard));
}

/* ---- bounds ---- */

__extension__ typedef unsigned __int128 wide;

static bool fits(uint64_t start, uint64_t bytes)
{
	return (wide)start + bytes <= (wide)1 << 64;
}

/* The rules, written out by themselves. */
static bool is_sound(const struct control *control)
{
	if (control->kind < CONTROL_ASK_QP || control->kind >= CONTROL_KINDS || control->mapped > 2)
		return false;
	if ((control->refusal || control->kind == CONTROL_DROPPED) &&
	    (control->refusal >= DROP_COUNT || !drop_row((enum drop)control->refusal)->peer))
		return false;
	if (control->kind != CONTROL_KEY)
		return true;
	if (!control->region)
		return !control->mapped;
	if (!fits(control->start, control->length) || !fits(control->host, control->length))
		return false;
	if (!control->mapped)
		return true;
	return fits(control->block, control->block_bytes) && control->host >= control->block &&
	       (wide)control->host + control->length <= (wide)control->block + control->block_bytes;
}

static uint64_t pick(uint64_t *random)
{
	static const uint64_t near[] = { 0, 0x1000, 0x7fff00000000, 1ull << 63, UINT64_MAX - 0xfff,
					 UINT64_MAX };

	if (test_random(random) % 8 == 0)
		return test_random(random) << 32 ^ test_random(random);
	return near[test_random(random) % 6] + test_random(random) % 9 - 4;
}

static void what_is_accepted_is_in_bounds_and_the_other_way_round(void **state)
{
	struct control said, heard;
	uint64_t random = 11;
	unsigned round, accepted = 0;

	for (round = 0; round < 400000; round++) {
		said = (struct control){ .kind = test_random(&random) % 8 ? CONTROL_KEY :
						 (uint32_t)(test_random(&random) % 8),
					 .region = test_random(&random) % 8 != 0,
					 .mapped = (uint32_t)(test_random(&random) % 4),
					 .start = pick(&random), .length = pick(&random),
					 .host = pick(&random), .block = pick(&random),
					 .block_bytes = pick(&random) };
		if (test_random(&random) % 2)
			said.host = said.block + test_random(&random) % 5;
		assert_int_equal(parse(&said, sizeof(said), &heard), is_sound(&said));
		accepted += is_sound(&said);
	}
	assert_in_range(accepted, 40000, 360000);
}

static void random_bytes_are_parsed_or_not(void **state)
{
	uint8_t data[2 * sizeof(struct control)];
	struct control heard;
	uint64_t random = 12;
	unsigned round, i, accepted = 0;

	for (round = 0; round < 200000; round++) {
		size_t bytes = round % 4 ? sizeof(heard) : test_random(&random) % sizeof(data);

		for (i = 0; i < bytes; i++)
			data[i] = test_random(&random) % 3 ? 0 : (uint8_t)test_random(&random);
		if (round % 2 && bytes >= 4)
			memcpy(data, &(uint32_t){ 1 + round % (CONTROL_KINDS - 1) }, 4);
		if (!parse(data, bytes, &heard))
			continue;
		accepted++;
		assert_true(is_sound(&heard));
		assert_memory_equal(&heard, data, sizeof(heard));
	}
	assert_true(accepted > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_heard),
		cmocka_unit_test(other_sizes_are_none),
		cmocka_unit_test(other_kinds_are_none),
		cmocka_unit_test(other_refusals_are_none),
		cmocka_unit_test(what_is_accepted_is_in_bounds_and_the_other_way_round),
		cmocka_unit_test(random_bytes_are_parsed_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
