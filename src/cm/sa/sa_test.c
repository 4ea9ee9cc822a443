/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions to subnet administration: answers that are lost, late, false, hostile; and what of a record
 * is believed.
 */
#include "cm/sa/sa.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/ip_addr.h"
#include "base/test_random.h"
#include "base/timer_heap.h"
#include "wire/smp.h"

#define PORT	0x0101u
#define SM_LID	3u
#define SECOND	1000000000ull
#define RECORD	56u

static struct {
	unsigned sent, retries, unasked;
	uint16_t sm;			/* 0: there is none */
	uint8_t mad[MAD_BYTES];
} wire;

static struct {
	unsigned count;
	struct sa_answer last;
	uint8_t record[SA_RECORD_BYTES];
} heard;

static uint16_t test_send(void *host, uint16_t port, const uint8_t mad[MAD_BYTES])
{
	assert_int_equal(port, PORT);
	if (!wire.sm)
		return 0;
	wire.sent++;
	memcpy(wire.mad, mad, MAD_BYTES);
	return wire.sm;
}

static void test_count(void *host, int counter)
{
	wire.retries += counter == COUNTER_SA_RETRY;
	wire.unasked += counter == COUNTER_SA_UNASKED;
}

static void test_done(void *owner, const struct sa_answer *answer)
{
	assert_ptr_equal(owner, &heard);
	heard.count++;
	heard.last = *answer;
	if (answer->record)
		memcpy(heard.record, answer->record, SA_RECORD_BYTES);
}

static const struct sa_ops test_ops = { test_send, test_count };
static const struct ib_path_record asked = { .dgid = { 0xfe, 0x80, [15] = 2 }, .sgid = { 0xfe, 0x80, [15] = 1 },
					     .p_key = 0xffff, .numb_path = 1, .reversible = 1 };

static struct sa *test_begin(uint32_t tid)
{
	struct sa *sa = sa_new(&test_ops, NULL, tid);

	assert_non_null(sa);
	memset(&wire, 0, sizeof(wire));
	memset(&heard, 0, sizeof(heard));
	wire.sm = SM_LID;
	return sa;
}

static struct sa_query *ask(struct sa *sa, uint64_t timeout_ns, uint64_t now_ns)
{
	const struct sa_question question = {
		.port = PORT, .method = MAD_METHOD_GET, .record = RECORD_PATH_RECORD, .value = &asked,
		.components = SA_PATH_DGID | SA_PATH_SGID, .timeout_ns = timeout_ns,
	};
	struct sa_query *query;

	assert_int_equal(sa_ask(sa, &question, test_done, &heard, now_ns, &query), 0);
	return query;
}

static const struct ib_path_record good = { .dgid = { 0xfe, 0x80, [15] = 2 }, .sgid = { 0xfe, 0x80, [15] = 1 },
					    .p_key = 0xffff, .dlid = 9, .slid = 4, .mtu = 5, .mtu_selector = 2,
					    .rate = 16, .packet_life_time = 18, .sl = 2 };

/* The answer to what was sent last. */
static void make_answer(const struct ib_path_record *record, uint8_t mad[MAD_BYTES])
{
	memcpy(mad, wire.mad, MAD_BYTES);
	mad[3] = MAD_METHOD_GET_RESPONSE;
	record_write(RECORD_PATH_RECORD, record, mad + RECORD);
}

static void a_question_is_a_mad_of_the_class(void **unused)
{
	struct sa *sa = test_begin(7);
	struct ib_path_record read;

	ask(sa, SECOND, 0);
	assert_int_equal(wire.sent, 1);
	assert_int_equal(wire.mad[1], 0x03);
	assert_int_equal(wire.mad[2], 2);
	assert_int_equal(wire.mad[3], MAD_METHOD_GET);
	assert_int_equal(get_be64(wire.mad + 8), 8);
	assert_int_equal(get_be16(wire.mad + 16), 0x35);
	assert_int_equal(get_be64(wire.mad + 48), SA_PATH_DGID | SA_PATH_SGID);
	record_read(RECORD_PATH_RECORD, wire.mad + RECORD, &read);
	assert_memory_equal(read.dgid, asked.dgid, 16);
	sa_free(sa);
	assert_int_equal(heard.count, 0);
}

static void an_answer_is_told_once(void **unused)
{
	struct sa *sa = test_begin(UINT32_MAX - 1);
	struct ib_path_record path;
	uint8_t mad[MAD_BYTES];

	ask(sa, SECOND, 0);
	make_answer(&good, mad);
	assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_NONE);
	assert_int_equal(heard.count, 1);
	assert_int_equal(heard.last.outcome, SA_ANSWERED);
	assert_null(sa_path_read(heard.record, &asked, &path));
	assert_int_equal(path.dlid, 9);
	assert_int_equal(path.sl, 2);
	/* Another answer to it, as to a question that was repeated; and others that nobody has asked for. */
	assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_SA_DUPLICATE);
	assert_int_equal(sa_receive(sa, PORT, SM_LID + 1, mad), DROP_SA_UNASKED);
	mad[17]++;
	assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_SA_UNASKED);
	mad[17]--;
	mad[15]++;
	assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_SA_UNASKED);
	assert_int_equal(wire.unasked, 3);
	assert_int_equal(heard.count, 1);
	assert_int_equal(sa_deadline(sa), TIME_NEVER);
	ask(sa, SECOND, 0);		/* a transaction ID of 0 is left out */
	assert_int_not_equal(get_be32(wire.mad + 12), 0);
	sa_free(sa);
}

static void lost_questions_are_repeated_until_the_time_is_over(void **unused)
{
	struct sa *sa = test_begin(1);
	uint64_t now_ns = 0, last_ns = 0, step_ns = 0;

	ask(sa, 2 * SECOND, 0);
	while (!heard.count) {
		now_ns = sa_deadline(sa);
		assert_true(now_ns <= 2 * SECOND);
		if (now_ns < 2 * SECOND) {
			assert_true(now_ns - last_ns >= step_ns);	/* less and less often */
			step_ns = now_ns - last_ns;
		}
		last_ns = now_ns;
		sa_tick(sa, now_ns);
	}
	assert_int_equal(now_ns, 2 * SECOND);
	assert_int_equal(heard.last.outcome, SA_TIMED_OUT);
	assert_true(heard.last.sent);
	assert_in_range(wire.sent, 5, 12);
	assert_int_equal(wire.retries, wire.sent - 1);
	assert_int_equal(sa_deadline(sa), TIME_NEVER);
	sa_free(sa);
}

/* All ways in which the first five questions, and their answers, can be lost. */
static void any_question_may_be_lost(void **unused)
{
	for (unsigned lost = 0; lost < 32; lost++) {
		struct sa *sa = test_begin(100);
		uint8_t mad[MAD_BYTES];
		unsigned turn = 0;

		ask(sa, 10 * SECOND, 0);
		while (!heard.count) {
			if (turn >= 5 || !(lost >> turn & 1)) {
				make_answer(&good, mad);
				assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_NONE);
			} else {
				sa_tick(sa, sa_deadline(sa));
			}
			turn++;
		}
		assert_int_equal(heard.last.outcome, SA_ANSWERED);
		sa_free(sa);
	}
}

static void without_a_manager_one_may_come(void **unused)
{
	struct sa *sa = test_begin(1);
	uint8_t mad[MAD_BYTES];

	wire.sm = 0;
	ask(sa, 2 * SECOND, 0);
	sa_tick(sa, sa_deadline(sa));
	assert_int_equal(wire.sent, 0);
	memset(mad, 0, sizeof(mad));
	mad[0] = 1;
	mad[1] = 3;
	mad[2] = 2;
	mad[3] = MAD_METHOD_GET_RESPONSE;
	put_be64(mad + 8, 2);
	put_be16(mad + 16, 0x35);
	assert_int_equal(sa_receive(sa, PORT, 0, mad), DROP_SA_UNASKED);	/* nobody was asked */
	wire.sm = 12;
	sa_tick(sa, sa_deadline(sa));
	assert_int_equal(wire.sent, 1);
	make_answer(&good, mad);
	assert_int_equal(sa_receive(sa, PORT, 12, mad), DROP_NONE);
	assert_int_equal(heard.last.outcome, SA_ANSWERED);
	wire.sm = 0;
	ask(sa, SECOND, 0);
	sa_tick(sa, 2 * SECOND);
	assert_int_equal(heard.last.outcome, SA_TIMED_OUT);
	assert_false(heard.last.sent);
	sa_free(sa);
}

static void what_is_not_the_answer_changes_nothing(void **unused)
{
	static const struct { unsigned byte; uint8_t value; } change[] = {
		{ 0, 2 }, { 1, 4 }, { 2, 1 }, { 3, 0x01 }, { 3, 0x92 }, { 3, 0x95 }, { 15, 0x77 }, { 17, 0x38 },
		{ 26, 1 },
	};
	struct sa *sa = test_begin(1);
	uint8_t mad[MAD_BYTES];

	ask(sa, SECOND, 0);
	for (unsigned i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
		make_answer(&good, mad);
		mad[change[i].byte] = change[i].value;
		assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_SA_UNASKED);
	}
	make_answer(&good, mad);
	assert_int_equal(sa_receive(sa, PORT, SM_LID + 1, mad), DROP_SA_UNASKED);	/* another one's */
	assert_int_equal(sa_receive(sa, PORT + 1, SM_LID, mad), DROP_SA_UNASKED);
	assert_int_equal(heard.count, 0);
	assert_int_equal(wire.unasked, sizeof(change) / sizeof(change[0]) + 2);
	assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_NONE);
	assert_int_equal(heard.count, 1);
	sa_free(sa);
}

static void the_status_of_a_refusal_is_told_and_busy_is_none(void **unused)
{
	struct sa *sa = test_begin(1);
	uint8_t mad[MAD_BYTES];

	ask(sa, SECOND, 0);
	make_answer(&good, mad);
	put_be16(mad + 4, MAD_STATUS_BUSY);
	assert_int_equal(sa_receive(sa, PORT, SM_LID, mad), DROP_NONE);
	assert_int_equal(heard.count, 0);
	sa_tick(sa, sa_deadline(sa));
	assert_int_equal(wire.sent, 2);
	make_answer(&good, mad);
	put_be16(mad + 4, 0x0300);
	sa_receive(sa, PORT, SM_LID, mad);
	assert_int_equal(heard.last.outcome, SA_REFUSED);
	assert_int_equal(heard.last.status, 0x0300);
	for (unsigned status = 0; status < 0x10000; status += 7)
		assert_non_null(sa_status_text((uint16_t)status));
	sa_free(sa);
}

static void many_wait_and_any_may_be_cancelled(void **unused)
{
	enum { MANY = 3000 };
	struct sa_query *query[MANY];
	struct sa *sa = test_begin(1);
	uint64_t random = 5;
	unsigned cancelled = 0;

	for (unsigned i = 0; i < MANY; i++)
		query[i] = ask(sa, SECOND + i, 0);
	for (unsigned i = 0; i < MANY; i++)
		if (test_random(&random) & 1) {
			sa_cancel(query[i]);
			cancelled++;
		}
	sa_tick(sa, 3 * SECOND);
	assert_int_equal(heard.count, MANY - cancelled);
	assert_int_equal(sa_deadline(sa), TIME_NEVER);
	sa_free(sa);
}

/* A question that is asked by the handler of an answer. */
static struct sa *again_sa;
static void again(void *owner, const struct sa_answer *answer)
{
	if (++heard.count < 3)
		ask(again_sa, SECOND, SECOND);
}

static void a_handler_may_ask_again(void **unused)
{
	struct sa *sa = again_sa = test_begin(1);
	const struct sa_question question = { .port = PORT, .method = MAD_METHOD_SET, .value = &asked,
					      .record = RECORD_PATH_RECORD, .timeout_ns = SECOND };
	struct sa_query *query;

	assert_int_equal(sa_ask(sa, &question, again, &heard, 0, &query), 0);
	sa_tick(sa, SECOND);
	assert_int_equal(heard.count, 1);
	sa_tick(sa, 2 * SECOND);	/* of ask()'s own handler */
	assert_int_equal(heard.count, 2);
	sa_free(sa);
}

static void noise_is_survived(void **unused)
{
	struct sa *sa = test_begin(1);
	uint64_t random = 77;
	uint8_t mad[MAD_BYTES];

	for (unsigned i = 0; i < 20000; i++) {
		if (i % 100 == 0)
			ask(sa, SECOND, 0);
		make_answer(&good, mad);
		for (unsigned changes = test_random(&random) % 8; changes; changes--)
			mad[test_random(&random) % MAD_BYTES] = (uint8_t)test_random(&random);
		sa_receive(sa, PORT, SM_LID, mad);
		if (heard.last.outcome == SA_ANSWERED && heard.count) {
			struct ib_path_record path;

			if (!sa_path_read(heard.record, &asked, &path)) {
				assert_in_range(path.dlid, 1, 0xbfff);
				assert_in_range(path.slid, 1, 0xbfff);
				assert_in_range(path.mtu, 1, 5);
				assert_in_range(path.packet_life_time, 0, 31);
			}
		}
	}
	sa_free(sa);
}

/* ---- records ---- */

static void a_path_that_cannot_be_is_not_believed(void **unused)
{
	struct ib_path_record wrong[10], path;
	uint8_t record[SA_RECORD_BYTES] = { 0 };

	for (unsigned i = 0; i < 10; i++)
		wrong[i] = good;
	wrong[0].dlid = 0;
	wrong[1].dlid = 0xc000;
	wrong[2].dlid = 0xffff;
	wrong[3].slid = 0;
	wrong[4].mtu = 0;
	wrong[5].mtu = 6;
	wrong[6].packet_life_time = 32;
	wrong[7].p_key = 0x8001;
	wrong[8].dgid[15] = 3;
	wrong[9].sgid[0] = 0;
	for (unsigned i = 0; i < 10; i++) {
		record_write(RECORD_PATH_RECORD, &wrong[i], record);
		assert_non_null(sa_path_read(record, &asked, &path));
	}
	record_write(RECORD_PATH_RECORD, &good, record);
	assert_null(sa_path_read(record, &asked, &path));
}

static void a_group_that_cannot_be_is_not_believed(void **unused)
{
	struct ib_mc_member_record wanted = { .p_key = 0xffff, .mlid = 0xc001, .mtu = 4 }, wrong, read;
	uint8_t record[SA_RECORD_BYTES] = { 0 }, address[16];

	ip_addr_map_ipv4(address, &(uint32_t){ htonl(0xef010203) });
	sa_group_of_ip(address, 0x7fff, true, wanted.mgid);
	record_write(RECORD_MC_MEMBER_RECORD, &wanted, record);
	assert_null(sa_group_read(record, &wanted, &read));
	for (unsigned i = 0; i < 5; i++) {
		wrong = wanted;
		wrong.mlid = i == 0 ? 0xbfff : i == 1 ? 0xffff : wrong.mlid;
		wrong.mgid[15] ^= i == 2;
		wrong.p_key = i == 3 ? 0x8001 : wrong.p_key;
		wrong.mtu = i == 4 ? 6 : wrong.mtu;
		record_write(RECORD_MC_MEMBER_RECORD, &wrong, record);
		assert_non_null(sa_group_read(record, &wanted, &read));
	}
	record_write(RECORD_MC_MEMBER_RECORD, &wanted, record);
	wrong = wanted;
	memset(wrong.mgid, 0, sizeof(wrong.mgid));	/* the manager has chosen one */
	assert_null(sa_group_read(record, &wrong, &read));
	assert_memory_equal(read.mgid, wanted.mgid, 16);
}

static void groups_of_ip_addresses_are_those_of_ipoib(void **unused)
{
	static const struct {
		const char *address;
		uint16_t pkey;
		bool udp;
		const char *mgid;
	} known[] = {
		{ "239.1.2.3", 0xffff, false, "ff12:401b:ffff::f01:203" },
		{ "224.0.0.1", 0x7fff, true, "ff12:4001:ffff::1" },
		{ "239.255.255.255", 0x8001, false, "ff12:401b:8001::fff:ffff" },
		{ "ff02::1:2", 0xffff, false, "ff12:601b:ffff::1:2" },
		{ "ff05:1:2:3:4:5:6:7", 0xffff, true, "ff12:6001:ffff:3:4:5:6:7" },
		{ "ff12:a01b:fe80::1", 0xffff, true, "ff12:a01b:fe80::1" },
	};
	uint8_t address[16], ipv4[4], mgid[16], expected[16];

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (inet_pton(AF_INET, known[i].address, ipv4) == 1)
			ip_addr_map_ipv4(address, ipv4);
		else
			assert_int_equal(inet_pton(AF_INET6, known[i].address, address), 1);
		assert_int_equal(inet_pton(AF_INET6, known[i].mgid, expected), 1);
		sa_group_of_ip(address, known[i].pkey, known[i].udp, mgid);
		assert_memory_equal(mgid, expected, 16);
	}
	assert_int_equal(inet_pton(AF_INET6, "ff12:401b:8005::ffff:ffff", expected), 1);
	sa_group_broadcast(5, mgid);
	assert_memory_equal(mgid, expected, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_a_mad_of_the_class),
		cmocka_unit_test(an_answer_is_told_once),
		cmocka_unit_test(lost_questions_are_repeated_until_the_time_is_over),
		cmocka_unit_test(any_question_may_be_lost),
		cmocka_unit_test(without_a_manager_one_may_come),
		cmocka_unit_test(what_is_not_the_answer_changes_nothing),
		cmocka_unit_test(the_status_of_a_refusal_is_told_and_busy_is_none),
		cmocka_unit_test(many_wait_and_any_may_be_cancelled),
		cmocka_unit_test(a_handler_may_ask_again),
		cmocka_unit_test(noise_is_survived),
		cmocka_unit_test(a_path_that_cannot_be_is_not_believed),
		cmocka_unit_test(a_group_that_cannot_be_is_not_believed),
		cmocka_unit_test(groups_of_ip_addresses_are_those_of_ipoib),
	};

	return cmocka_run_group_tests_name("sa", tests, NULL, NULL);
}
