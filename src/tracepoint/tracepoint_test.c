/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of happenings: each field of each row comes out as it went in; what is none is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "tracepoint/tracepoint.h"

/* What a field is filled with, and what its JSON is then. */
#define GIVEN_NUMBER	18446744073709551615u
#define GIVEN_SIGNED	-5
#define GIVEN_SOME	SOME(0)
#define GIVEN_QPN	0x12
#define GIVEN_QPN_IF	0xfedcba
#define GIVEN_KEY	SOME(0x1234)
#define GIVEN_POINTER	(const void *)0xabc
#define GIVEN_FLAG	true
#define GIVEN_TEXT	"say \"a\\b\"\n"
#define GIVEN_ERRNO	ENOMEM
#define GIVEN_NS	1000
#define GIVEN_MEMBERS	"\"one\":1,\"two\":2"
#define SHOWN_NUMBER(name)	",\"" name "\":18446744073709551615"
#define SHOWN_SIGNED(name)	",\"" name "\":-5"
#define SHOWN_SOME(name)	",\"" name "\":0"
#define SHOWN_QPN(name)		",\"" name "\":\"0x000012\""
#define SHOWN_QPN_IF(name)	",\"" name "\":\"0xfedcba\""
#define SHOWN_KEY(name)		",\"" name "\":\"0x00001234\""
#define SHOWN_POINTER(name)	",\"" name "\":\"0xabc\""
#define SHOWN_FLAG(name)	",\"" name "\":true"
#define SHOWN_TEXT(name)	",\"" name "\":\"say \\\"a\\\\b\\\"?\""
#define SHOWN_ERRNO(name)	",\"" name "\":\"ENOMEM\""
#define SHOWN_NS(name)		",\"" name "\":500"
#define SHOWN_MEMBERS(name)	",\"one\":1,\"two\":2"
/* Nothing given: what is there all the same. */
#define BARE_NUMBER(name)	",\"" name "\":0"
#define BARE_SIGNED(name)	",\"" name "\":0"
#define BARE_SOME(name)
#define BARE_QPN(name)		",\"" name "\":\"0x000000\""
#define BARE_QPN_IF(name)
#define BARE_KEY(name)
#define BARE_POINTER(name)	",\"" name "\":\"(nil)\""
#define BARE_FLAG(name)
#define BARE_TEXT(name)
#define BARE_ERRNO(name)
#define BARE_NS(name)		",\"" name "\":0"
#define BARE_MEMBERS(name)

#define TRACEPOINT(row, kind, event) static const struct tracepoint_##row full_##row = { .failure = true,
#define FIELD(row, type, member) .member = GIVEN_##type,
#define TRACEPOINT_END(row) };
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END
#define TRACEPOINT(row, kind, event) static const struct tracepoint_##row bare_##row;
#define FIELD(row, type, member)
#define TRACEPOINT_END(row)
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END

static const struct { const void *full, *bare; const char *shown; } rows[TRACEPOINTS] = {
#define TRACEPOINT(row, kind, event) { &full_##row, &bare_##row, "\"event\":\"" event "\""
#define FIELD(row, type, member) SHOWN_##type(#member)
#define TRACEPOINT_END(row) },
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
};

static const char *const nothing[TRACEPOINTS] = {
#define TRACEPOINT(row, kind, event) "\"event\":\"" event "\""
#define FIELD(row, type, member) BARE_##type(#member)
#undef TRACEPOINT_END
#define TRACEPOINT_END(row) ,
#include "tracepoint/tracepoint.def"
#undef TRACEPOINT
#undef FIELD
#undef TRACEPOINT_END
};

static void each_field_of_each_row_comes_out_as_it_went_in(void **state)
{
	for (enum tracepoint row = 0; row < TRACEPOINTS; row++) {
		uint8_t data[TRACEPOINT_BYTES];
		char members[TRACEPOINT_BYTES];
		struct tracepoint_record record;

		tracepoint_encode(row, rows[row].full, 1500, data, &record);
		assert_int_equal(tracepoint_members(data, record.bytes, members),
				 strlen(rows[row].shown));
		assert_string_equal(members, rows[row].shown);
		assert_true(record.failure);
		assert_true(record.want && !(record.want & (record.want - 1)));
		tracepoint_encode(row, rows[row].bare, 1500, data, &record);
		assert_int_equal(tracepoint_members(data, record.bytes, members),
				 strlen(nothing[row]));
		assert_string_equal(members, nothing[row]);
		assert_int_equal(record.time_ns, 1500);
		assert_false(record.failure);
	}
}

static void a_call_has_the_time_of_its_beginning_unless_it_took_long(void **state)
{
	uint8_t data[TRACEPOINT_BYTES];
	struct tracepoint_record record;

	tracepoint_encode(TRACEPOINT_OF_call, &(struct tracepoint_call){ .ns = 1000, .qp = 7 },
			  1500, data, &record);
	assert_int_equal(record.time_ns, 1000);
	assert_int_equal(record.qpn, 7);
	tracepoint_encode(TRACEPOINT_OF_call, &(struct tracepoint_call){ .ns = 1000 }, 20000000,
			  data, &record);
	assert_int_equal(record.time_ns, 20000000);
	assert_int_equal(record.qpn, 0);
	tracepoint_encode(TRACEPOINT_OF_state, &(struct tracepoint_state){ .time_ns = 9 }, 1500,
			  data, &record);
	assert_int_equal(record.time_ns, 9);
}

static void put_u16(uint8_t *place, size_t number)
{
	const uint16_t value = (uint16_t)number;

	memcpy(place, &value, sizeof(value));
}

/* A process may write anything into its share. */
static void bytes_that_are_no_record_are_refused(void **state)
{
	uint64_t seed = 1;
	uint8_t data[TRACEPOINT_BYTES], large[4 * TRACEPOINT_BYTES];
	char members[TRACEPOINT_BYTES];
	struct tracepoint_record record;

	for (enum tracepoint row = 0; row < TRACEPOINTS; row++) {
		tracepoint_encode(row, rows[row].full, 1500, data, &record);
		for (size_t bytes = 0; bytes < record.bytes; bytes++)
			assert_int_equal(tracepoint_members(data, bytes, members), 0);
	}
	for (unsigned n = 0; n < 20000; n++) {
		size_t bytes = test_random(&seed) % sizeof(data);

		for (size_t i = 0; i < bytes; i++)
			data[i] = (uint8_t)test_random(&seed);
		data[0] = (uint8_t)(test_random(&seed) % (TRACEPOINTS + 1));
		data[1] = 0;
		assert_true(tracepoint_members(data, bytes, members) < sizeof(members));
	}
	/* A text of more than any record has: of explain the second field, behind one that is not there. */
	memset(large, 'x', sizeof(large));
	put_u16(large, TRACEPOINT_OF_explain);
	large[2] = 0;
	put_u16(large + 3, sizeof(large) - 5);
	assert_int_equal(tracepoint_members(large, sizeof(large), members), 0);
	put_u16(large + 3, TRACEPOINT_BYTES);
	assert_int_equal(tracepoint_members(large, sizeof(large), members), 0);
}

/* Also where quotes of JSON make it too long, and never in the middle of one. */
static void a_text_that_is_too_long_is_cut(void **state)
{
	static const char letters[] = { 'x', '"', '\\' };
	static char text[5000];
	uint8_t data[TRACEPOINT_BYTES];
	char members[TRACEPOINT_BYTES];
	struct tracepoint_record record;

	for (unsigned i = 0; i < sizeof(letters); i++) {
		size_t bytes;

		memset(text, letters[i], sizeof(text) - 1);
		tracepoint_encode(TRACEPOINT_OF_explain, &(struct tracepoint_explain){ .text = text }, 1,
				  data, &record);
		assert_true(record.bytes <= sizeof(data));
		bytes = tracepoint_members(data, record.bytes, members);
		assert_in_range(bytes, sizeof(members) - 8, sizeof(members) - 1);
		assert_int_equal(strlen(members), bytes);
		assert_non_null(strstr(members, "\"text\":\""));
		assert_int_equal(members[bytes - 1], '"');
	}
}

static struct tracepoint_record taken;
static unsigned takes;

static void take_one(const struct tracepoint_record *record)
{
	taken = *record;
	takes++;
}

static int evaluated;

static const char *evaluate(const char *text)
{
	evaluated++;
	return text;
}

static void the_listener_gets_it_and_nothing_is_done_without_one(void **state)
{
	tracepoint(state, .qp = 1, .why = evaluate("a"));
	assert_int_equal(evaluated, 0);
	tracepoint_listen(take_one);
	atomic_store(&trace_wanted, TRACE_STATES);
	tracepoint(state, .qp = 1, .why = evaluate("a"));
	tracepoint(drop, .qp = 1, .reason = evaluate("a"));
	assert_int_equal(evaluated, 1);
	assert_int_equal(takes, 1);
	assert_int_equal(taken.row, TRACEPOINT_OF_state);
	assert_int_equal(taken.qpn, 1);
	assert_int_equal(taken.want, TRACE_STATES);
	tracepoint_listen(NULL);
	tracepoint(state, .qp = 2);	/* somebody wants it, and nobody listens yet */
	assert_int_equal(takes, 1);
	atomic_store(&trace_wanted, 0);
}

static void text_is_quoted_for_json(void **state)
{
	char out[32];

	assert_string_equal(tracepoint_quote("say \"a\\b\"\n", out, sizeof(out)),
			    "say \\\"a\\\\b\\\"?");
	assert_string_equal(tracepoint_quote("0123456789", out, 8), "01234");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_of_each_row_comes_out_as_it_went_in),
		cmocka_unit_test(a_call_has_the_time_of_its_beginning_unless_it_took_long),
		cmocka_unit_test(bytes_that_are_no_record_are_refused),
		cmocka_unit_test(a_text_that_is_too_long_is_cut),
		cmocka_unit_test(the_listener_gets_it_and_nothing_is_done_without_one),
		cmocka_unit_test(text_is_quoted_for_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
