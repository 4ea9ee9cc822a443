/* SPDX-License-Identifier: BSD-2-Clause */
/* The command "stats": pieces of any size join to the same records; each is an object on a line. */
#include "device/device_test.h"

#include "inspect/inspect.h"
#include "inspect/record.h"

#define TEXT_BYTES (1u << 20)

static char text[TEXT_BYTES];

/* All pieces of at most @size bytes, into @text; how many. */
static unsigned ask(const char *arguments, size_t size)
{
	char command[64], piece[INSPECT_ANSWER_MAX];
	struct inspect_session session = { .hca = hca };
	struct inspect_request request = { .cursor = 0 };
	size_t bytes = 0;
	unsigned pieces = 0;

	do {
		struct inspect_answer answer = { .text = piece, .size = size };

		snprintf(command, sizeof(command), "stats%s%s", *arguments ? " " : "", arguments);
		assert_int_equal(inspect_run(&session, command, &request, &answer), 0);
		assert_true(bytes + answer.bytes < TEXT_BYTES);
		memcpy(text + bytes, piece, answer.bytes);
		bytes += answer.bytes;
		request.cursor = answer.cursor;
		pieces++;
	} while (request.cursor);
	text[bytes] = '\0';
	return pieces;
}

static unsigned records(const char *kind)
{
	char begin[64];
	const char *at = text;
	unsigned count = 0;

	snprintf(begin, sizeof(begin), "{\"record\":\"%s\",", kind);
	while ((at = strstr(at, begin))) {
		assert_true(at == text || at[-1] == '\n');
		at++;
		count++;
	}
	return count;
}

static void small_pieces_have_what_one_has(void **state)
{
	for (unsigned i = 0; i < 100; i++)
		qp_make(IBV_QPT_RC);
	assert_true(ask("", INSPECT_ANSWER_MAX) > 1);
	assert_int_equal(records("process"), 1);
	assert_int_equal(records("counters"), 1);
	assert_int_equal(records("hardware"), 1);
	assert_int_equal(records("device"), 1);
	assert_int_equal(records("qp"), 100);
	assert_int_equal(records("cq"), 1);
	assert_int_equal(records("mr"), 1);
	assert_true(ask("", 8000) > 5);
	assert_int_equal(records("qp"), 100);
	assert_int_equal(records("mr"), 1);
	assert_int_equal(records("process"), 1);
}

static void an_argument_says_how_much(void **state)
{
	char command[] = "stats everything";
	struct inspect_session session = { .hca = hca };
	struct inspect_request request = { .cursor = 0 };
	char piece[256];
	struct inspect_answer answer = { .text = piece, .size = sizeof(piece) };

	qp_make(IBV_QPT_UD);
	ask("process", INSPECT_ANSWER_MAX);
	assert_int_equal(records("device"), 1);
	assert_int_equal(records("qp"), 0);
	ask("qps", INSPECT_ANSWER_MAX);
	assert_int_equal(records("qp"), 1);
	assert_int_equal(records("cq"), 0);
	assert_int_equal(inspect_run(&session, command, &request, &answer), EINVAL);
}

static void values_are_those_of_the_object(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	char expected[256];
	struct qp *qp;

	attr.cap.max_send_wr = 4 * attr.cap.max_recv_wr;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	ask("", INSPECT_ANSWER_MAX);
	snprintf(expected, sizeof(expected), "{\"record\":\"qp\",\"qp\":\"0x%06x\",\"device\":\"", qp->number);
	assert_non_null(strstr(text, expected));
	assert_non_null(strstr(text, "\"type\":\"RC\",\"state\":\"RESET\","));
	snprintf(expected, sizeof(expected), "\"send_size\":%u,\"send_posted\":0,\"sends_completed\":0,"
		 "\"recv_size\":%u,\"recv_posted\":0,", qp->sq.size, qp->rq.size);
	assert_int_not_equal(qp->sq.size, qp->rq.size);
	assert_non_null(strstr(text, expected));
	snprintf(expected, sizeof(expected), "\"pd\":%u,\"send_cq\":%u,\"recv_cq\":%u,\"srq\":0}", qp->pd->number,
		 qp->send_cq->number, qp->recv_cq->number);
	assert_non_null(strstr(text, expected));
}

/* A cursor is the client's word. */
static void any_cursor_is_answered(void **state)
{
	static const uint64_t cursors[] = { UINT64_MAX, UINT64_C(2) << 40 | 0xffffffffff,
					    UINT64_C(5) << 40 | 0x7fffffffff,
					    UINT64_C(7) << 40, UINT64_C(255) << 40 };
	struct inspect_session session = { .hca = hca };

	for (unsigned i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
		char command[] = "stats", piece[INSPECT_ANSWER_MAX];
		struct inspect_request request = { .cursor = cursors[i] };
		struct inspect_answer answer = { .text = piece, .size = sizeof(piece) };

		assert_int_equal(inspect_run(&session, command, &request, &answer), 0);
		assert_int_equal(answer.cursor, 0);
	}
}

static void a_record_that_does_not_fit_leaves_nothing(void **state)
{
	char room[64];
	struct inspect_answer answer = { .text = room, .size = sizeof(room) };
	struct record record;

	record_begin(&record, &answer, "a");
	record_number(&record, "one", 1);
	assert_true(record_end(&record));
	assert_memory_equal(room, "{\"record\":\"a\",\"one\":1}\n", 23);
	record_begin(&record, &answer, "b");
	record_text(&record, "long", "0123456789012345678901234567890123456789");
	assert_false(record_end(&record));
	assert_int_equal(answer.bytes, 23);
}

static void texts_of_others_are_escaped(void **state)
{
	char room[128];
	struct inspect_answer answer = { .text = room, .size = sizeof(room) };
	struct record record;

	record_begin(&record, &answer, "a");
	record_text(&record, "n", "q\"b\\\n\xc3");
	assert_true(record_end(&record));
	room[answer.bytes] = '\0';
	assert_string_equal(room, "{\"record\":\"a\",\"n\":\"q\\u0022b\\u005c\\u000a\\u00c3\"}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(small_pieces_have_what_one_has),
		DEVICE_TEST(an_argument_says_how_much),
		DEVICE_TEST(values_are_those_of_the_object),
		DEVICE_TEST(any_cursor_is_answered),
		DEVICE_TEST(a_record_that_does_not_fit_leaves_nothing),
		DEVICE_TEST(texts_of_others_are_escaped),
	};

	DEVICE_TESTS(tests);
}
