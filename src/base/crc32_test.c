/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 against a model of one bit at a time, and the division against feeding zero bytes.
 */
#include "base/crc32.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/test_random.h"

static uint32_t feed(uint32_t state, const uint8_t *data, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		state ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			state = state & 1 ? state >> 1 ^ 0xedb88320u : state >> 1;
	}
	return state;
}

static void crc_of_the_check_string_is_cbf43926(void **unused)
{
	assert_int_equal(crc32_update(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc32_update(0, "", 0), 0);
}

static void crc_equals_the_bitwise_model_at_every_length_and_split(void **unused)
{
	uint64_t random = 1;

	for (size_t length = 0; length < 400; length++) {
		uint8_t *data = calloc(1, length + 1);
		size_t split = length ? test_random(&random) % length : 0;
		uint32_t model;

		test_random_fill(&random, data, length);
		model = ~feed(UINT32_MAX, data, length);
		assert_int_equal(crc32_update(0, data, length), model);
		assert_int_equal(crc32_update(crc32_update(0, data, split), data + split,
					      length - split), model);
		free(data);
	}
}

static void unshift_undoes_feeding_zero_bytes(void **unused)
{
	static const uint8_t zeros[5000];
	uint64_t random = 2;

	for (int round = 0; round < 2000; round++) {
		uint32_t difference = (uint32_t)test_random(&random);
		/* Repeated lengths too: the factor of the last one is kept. */
		size_t length = test_random(&random) % (round % 3 ? 3 : sizeof(zeros));
		uint32_t shifted = feed(difference, zeros, length);

		assert_int_equal(crc32_difference_unshift(shifted, length), difference);
	}
}

static void unshift_finds_the_bytes_in_which_two_messages_differ(void **unused)
{
	uint64_t random = 3;
	uint8_t one[300], other[300];

	for (int round = 0; round < 1000; round++) {
		size_t at = test_random(&random) % (sizeof(one) - 4);
		uint32_t change;

		test_random_fill(&random, one, sizeof(one));
		memcpy(other, one, sizeof(one));
		test_random_fill(&random, other + at, 4);
		change = crc32_difference_unshift(crc32_update(0, one, sizeof(one)) ^
						  crc32_update(0, other, sizeof(other)),
						  sizeof(one) - at);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(change >> 8 * i & 0xff, one[at + i] ^ other[at + i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_of_the_check_string_is_cbf43926),
		cmocka_unit_test(crc_equals_the_bitwise_model_at_every_length_and_split),
		cmocka_unit_test(unshift_undoes_feeding_zero_bytes),
		cmocka_unit_test(unshift_finds_the_bytes_in_which_two_messages_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
