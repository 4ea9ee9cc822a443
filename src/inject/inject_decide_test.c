/* SPDX-License-Identifier: BSD-2-Clause */
/* Verdicts on packets, in virtual time: how often, which ones, when; and that they are the same in each run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "inject/inject.h"
#include "wire/aeth.h"
#include "wire/psn.h"

#define MS 1000000u

static struct injector injector;
static struct inject_verdict verdict;
static uint64_t now_ns;

static void begin(const char *text)
{
	char why[512] = "";

	now_ns = 5 * MS;
	if (inject_init(&injector, text, 7, now_ns, why, sizeof(why)))
		fail_msg("'%s': %s", text, why);
}

static struct inject_packet packet_of(uint8_t code, uint32_t qp, uint32_t first_psn, uint32_t number)
{
	struct inject_packet packet = { .op = opcode_get(code), .qp = qp, .own_qpn = 0x100 + qp, .peer_qpn = 0x200,
					.first_psn = first_psn, .psn = psn_add(first_psn, number),
					.is_sequenced = true, .bytes = 1052 };

	packet.kinds = inject_kinds(packet.op, packet.own_qpn, aeth_syndrome(AETH_ACK, 0));
	return packet;
}

static const struct inject_verdict *decide(const struct inject_packet *packet)
{
	inject_decide(&injector, packet, now_ns, &verdict);
	return &verdict;
}

static const struct inject_verdict *request(uint32_t number)
{
	struct inject_packet packet = packet_of(OPCODE_RC_SEND_ONLY, 1, 1000, number);

	return decide(&packet);
}

static const struct inject_verdict *ack(uint32_t number)
{
	struct inject_packet packet = packet_of(OPCODE_RC_ACKNOWLEDGE, 1, 77, number);

	return decide(&packet);
}

/* ---- chance ---- */

static void the_given_share_is_lost_damaged_doubled_and_reordered(void **state)
{
	unsigned lost = 0, corrupt = 0, twice = 0, reordered = 0, i;

	begin("loss=0.05,corrupt=0.1,dup=0.2,reorder=0.4,seed=3");
	for (i = 0; i < 20000; i++) {
		request(i);
		lost += verdict.lost;
		corrupt += verdict.corrupt;
		twice += verdict.twice;
		reordered += verdict.overtakers > 0;
		assert_in_range(verdict.overtakers, 0, INJECT_REORDER_MAX);
	}
	assert_in_range(lost, 850, 1150);
	assert_in_range(corrupt, 1700, 2100);
	assert_in_range(twice, 3500, 4100);
	assert_in_range(reordered, 7200, 8000);
	inject_fini(&injector);
}

static void fates_of(const char *text, uint32_t first_psn, uint32_t qpn, bool backwards, bool fate[1000])
{
	unsigned i;

	begin(text);
	for (i = 0; i < 1000; i++) {
		unsigned number = backwards ? 999 - i : i;
		struct inject_packet packet = packet_of(OPCODE_RC_SEND_ONLY, 1, first_psn, number);

		packet.own_qpn = qpn;
		packet.peer_qpn = qpn ^ 0x5555;
		fate[number] = decide(&packet)->lost;
		now_ns += 12345;
	}
	inject_fini(&injector);
}

static void neither_psns_nor_numbers_nor_order_nor_time_change_what_is_lost(void **state)
{
	bool first[1000], second[1000], other[1000];

	fates_of("loss=0.1,seed=42", 0xfffff0, 0x123456, false, first);
	fates_of("loss=0.1,seed=42", 5, 0x654321, true, second);
	fates_of("loss=0.1,seed=43", 5, 0x654321, true, other);
	assert_memory_equal(first, second, sizeof(first));
	assert_memory_not_equal(first, other, sizeof(first));
}

/* How often is each of 2000 packets lost until it passes, when others are repeated meanwhile? */
static unsigned losses_with_repeats(unsigned window)
{
	unsigned next = 0, lost = 0, i;

	begin("loss=0.2,seed=11");
	while (next < 2000) {
		bool gap = false;

		for (i = next; i < next + window && i < 2000; i++) {
			bool is_lost = request(i)->lost;

			lost += is_lost;
			gap |= is_lost;
			if (!gap)
				next = i + 1;
		}
	}
	inject_fini(&injector);
	return lost;
}

static void the_number_of_losses_does_not_depend_on_how_much_is_repeated(void **state)
{
	unsigned lost = losses_with_repeats(1);

	assert_in_range(lost, 420, 580);	/* 2000 * 0.2 / 0.8 */
	/* At the end of a run what was lost in flight is lost already: the same sum. */
	assert_int_equal(losses_with_repeats(7), lost);
	assert_int_equal(losses_with_repeats(64), lost);
}

/* Four flows side by side, each packet repeated once 100 packets later. */
static unsigned losses_of_flows(uint32_t numbers)
{
	unsigned losses = 0;

	begin("loss=0.02,seed=6");
	for (unsigned i = 0; i < 1100; i++)
		for (uint32_t qp = 1; qp <= 4; qp++)
			for (unsigned repeat = 0; repeat < 2; repeat++) {
				struct inject_packet packet;
				unsigned number = repeat ? i - 100 : i;

				if (number >= 1000)
					continue;
				packet = packet_of(OPCODE_RC_SEND_ONLY, qp, (numbers * qp * 7919) & PSN_MASK,
						   number);
				packet.own_qpn = numbers + qp;
				losses += decide(&packet)->lost;
			}
	inject_fini(&injector);
	return losses;
}

/* They are given anew in each run, and decide where a flow is remembered. */
static void flows_do_not_forget_each_others_packets(void **state)
{
	unsigned first = losses_of_flows(1);

	assert_in_range(first, 60, 100);
	for (uint32_t numbers = 2; numbers < 100; numbers++)
		assert_int_equal(losses_of_flows(numbers * 0x9e3779), first);
}

static void a_certain_loss_is_for_repeats_too(void **state)
{
	begin("loss=1,from=3");
	assert_false(request(0)->lost);
	assert_false(request(1)->lost);
	assert_true(request(0)->lost);
	assert_true(request(0)->lost);
	inject_fini(&injector);
}

static void qps_directions_and_kinds_have_fates_of_their_own(void **state)
{
	unsigned same[3] = { 0 }, i;

	begin("loss=0.5,direction=both,seed=1");
	for (i = 0; i < 1000; i++) {
		struct inject_packet other = packet_of(OPCODE_RC_SEND_ONLY, 2, 1000, i);
		struct inject_packet outbound = packet_of(OPCODE_RC_SEND_ONLY, 1, 1000, i);
		bool lost = request(i)->lost;

		outbound.outbound = true;
		same[0] += lost == decide(&other)->lost;
		same[1] += lost == decide(&outbound)->lost;
		same[2] += lost == ack(i)->lost;
	}
	for (i = 0; i < 3; i++)
		assert_in_range(same[i], 400, 600);
	inject_fini(&injector);
}

static void datagrams_are_numbered_from_the_first_of_their_source(void **state)
{
	bool fate[2][500];
	unsigned run, i;

	for (run = 0; run < 2; run++) {
		begin("loss=0.3,kind=ud,seed=8");
		for (i = 0; i < 500; i++) {
			struct inject_packet packet = packet_of(OPCODE_UD_SEND_ONLY, 4, 0, 70000 * (run + 1) + i);

			packet.is_sequenced = false;
			packet.peer_qpn = 0x300 + run;
			fate[run][i] = decide(&packet)->lost;
		}
		inject_fini(&injector);
	}
	assert_memory_equal(fate[0], fate[1], sizeof(fate[0]));
}

/* ---- the n-th ---- */

static void exactly_the_nth_packet_of_a_kind_is_lost_and_its_repeat_is_not(void **state)
{
	begin("drop=request:3");
	assert_false(request(0)->lost);
	assert_false(ack(0)->lost);
	assert_false(request(1)->lost);
	assert_false(request(1)->lost);		/* repeated: still the second */
	assert_true(request(2)->lost);
	assert_int_equal(verdict.rule, 1);
	assert_int_equal(verdict.action, INJECT_LOSS);
	assert_false(request(2)->lost);
	assert_false(request(3)->lost);
	inject_fini(&injector);

	begin("drop=ack:2-3;corrupt=request:1;dup=request:2;delay=5ms,nth=request:3");
	assert_true(request(0)->corrupt);
	assert_true(request(1)->twice);
	assert_int_equal(request(2)->due_ns, now_ns + 5 * MS);
	assert_false(ack(0)->lost);
	assert_true(ack(4)->lost);
	assert_true(ack(5)->lost);
	assert_false(ack(6)->lost);
	inject_fini(&injector);
}

static void each_qp_counts_for_itself(void **state)
{
	struct inject_packet other = packet_of(OPCODE_RC_SEND_ONLY, 2, 5, 0);

	begin("drop=request:1;drop=request:2,qp=2");
	assert_true(request(0)->lost);
	assert_true(decide(&other)->lost);
	other.psn++;
	assert_true(decide(&other)->lost);
	assert_false(request(1)->lost);
	inject_fini(&injector);
}

/* ---- selection ---- */

static void a_rule_is_for_what_it_names_alone(void **state)
{
	struct inject_packet packet = packet_of(OPCODE_UC_WRITE_ONLY, 2, 0, 0);

	begin("loss=1,service=uc,kind=write,peer=192.0.2.1,qpn=0x200,direction=out");
	packet.outbound = true;
	memcpy(packet.peer, (uint8_t[16]){ [10] = 0xff, 0xff, 192, 0, 2, 1 }, 16);
	assert_true(decide(&packet)->lost);
	packet.outbound = false;
	assert_false(decide(&packet)->lost);
	packet.outbound = true;
	packet.peer[15] = 2;
	assert_false(decide(&packet)->lost);
	packet.peer[15] = 1;
	packet.peer_qpn = 0x201;
	assert_false(decide(&packet)->lost);
	packet.own_qpn = 0x200;
	assert_true(decide(&packet)->lost);
	packet.op = opcode_get(OPCODE_RC_WRITE_ONLY);
	assert_false(decide(&packet)->lost);
	inject_fini(&injector);
}

static void kinds_are_those_of_the_table(void **state)
{
	static const struct { uint8_t code, syndrome; uint32_t qpn; const char *kind; } rows[] = {
		{ OPCODE_RC_SEND_FIRST, 0, 9, "send" }, { OPCODE_XRC_WRITE_LAST, 0, 9, "write" },
		{ OPCODE_RC_READ_REQUEST, 0, 9, "read" }, { OPCODE_RC_FETCH_ADD, 0, 9, "atomic" },
		{ OPCODE_RC_READ_RESPONSE_MIDDLE, 0, 9, "response" },
		{ OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0, 9, "response" },
		{ OPCODE_RC_ACKNOWLEDGE, 0x1f, 9, "ack" }, { OPCODE_RC_ACKNOWLEDGE, 0x60, 9, "nak" },
		{ OPCODE_RC_ACKNOWLEDGE, 0x21, 9, "rnr" }, { OPCODE_UD_SEND_ONLY, 0, 9, "ud" },
		{ OPCODE_UD_SEND_ONLY, 0, 1, "cm" }, { OPCODE_CNP, 0, 9, "cnp" },
		{ OPCODE_RC_FLUSH, 0, 9, "request" },
	};
	unsigned i, kind;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t kinds = inject_kinds(opcode_get(rows[i].code), rows[i].qpn, rows[i].syndrome);

		for (kind = 0; kind < INJECT_KINDS; kind++)
			if (!strcmp(inject_kind_name(kind), rows[i].kind))
				assert_true(kinds & 1u << kind);
	}
	for (i = 0; i < 256; i++)
		if (opcode_get((uint8_t)i))
			assert_true(inject_kinds(opcode_get((uint8_t)i), 9, 0));
}

/* ---- schedules ---- */

static void a_schedule_counts_packets_or_time(void **state)
{
	unsigned i;

	begin("loss=1,from=3,until=5");
	for (i = 1; i <= 7; i++)
		assert_int_equal(request(i)->lost, i >= 3 && i <= 5);
	inject_fini(&injector);
	begin("loss=1,from=10ms,until=20ms");
	for (i = 0; i < 30; i++) {
		assert_int_equal(request(i)->lost, i >= 10 && i <= 20);
		now_ns += MS;
	}
	inject_fini(&injector);
}

static void periods_begin_with_on(void **state)
{
	unsigned i;

	begin("loss=1,on=2,off=3,from=4");
	for (i = 1; i <= 20; i++)
		assert_int_equal(request(i)->lost, i >= 4 && (i - 4) % 5 < 2);
	inject_fini(&injector);
	begin("loss=1,on=2ms,off=8ms");
	for (i = 0; i < 40; i++) {
		assert_int_equal(request(i)->lost, i % 10 < 2);
		now_ns += MS;
	}
	inject_fini(&injector);
}

static void a_black_hole_takes_all_after_the_first_packets(void **state)
{
	begin("blackhole=2");
	assert_false(request(0)->lost);
	assert_false(request(1)->lost);
	assert_true(request(2)->lost);
	assert_true(request(0)->lost);
	assert_true(ack(0)->lost);
	assert_int_equal(verdict.action, INJECT_BLACKHOLE);
	inject_fini(&injector);
}

/* ---- time ---- */

static void delayed_packets_keep_their_order(void **state)
{
	uint64_t last_ns = 0;
	unsigned i;

	begin("delay=5ms,jitter=2ms,seed=4");
	for (i = 0; i < 1000; i++) {
		request(i);
		assert_true(verdict.due_ns > last_ns);
		assert_in_range(verdict.due_ns, now_ns + 5 * MS, now_ns + 7 * MS);
		last_ns = verdict.due_ns;
		now_ns += 10000;
	}
	inject_fini(&injector);
}

static void bandwidth_is_what_it_is_limited_to(void **state)
{
	unsigned i;

	begin("bandwidth=8M");		/* a byte per us; 1080 bytes with the headers of IP and UDP */
	for (i = 0; i < 100; i++)
		request(i);
	assert_int_equal(verdict.due_ns, now_ns + 100 * 1080 * 1000);
	now_ns += 500 * MS;
	assert_int_equal(request(100)->due_ns, now_ns + 1080 * 1000);
	inject_fini(&injector);
}

static void an_overtaken_packet_is_not_delayed_as_well(void **state)
{
	begin("delay=5ms,reorder=1");
	assert_int_equal(request(0)->due_ns, 0);
	assert_in_range(verdict.overtakers, 1, INJECT_REORDER_MAX);
	inject_fini(&injector);
}

/* ---- QPs ---- */

static void receives_are_denied_so_often(void **state)
{
	struct inject_packet packet = packet_of(OPCODE_RC_SEND_ONLY, 1, 0, 0);
	unsigned i;

	begin("rnr=3,from=2");
	for (i = 0; i < 8; i++) {
		packet.takes_receive = i != 3;
		assert_int_equal(decide(&packet)->deny_receive, i == 1 || i == 2 || i == 4);
	}
	inject_fini(&injector);
}

static void a_qp_is_killed_once(void **state)
{
	begin("kill-qp=2");
	assert_false(request(0)->kill);
	assert_false(request(1)->kill);
	assert_true(request(2)->kill);
	assert_false(request(3)->kill);
	inject_fini(&injector);
}

/* ---- the summary, damage ---- */

static void the_summary_says_what_was_done_to_which_kinds(void **state)
{
	char line[400];
	unsigned i;

	begin("loss=1,until=3;dup=1,kind=ack;corrupt=0");
	for (i = 0; i < 2; i++) {
		request(i);
		ack(i);
	}
	inject_report(&injector, 0, line, sizeof(line));
	assert_string_equal(line, "'loss=1,until=3' of 4 packets: 3 lost (2 request, 1 ack)");
	inject_report(&injector, 1, line, sizeof(line));
	assert_string_equal(line, "'dup=1,kind=ack' of 2 packets: 1 duplicated (1 ack)");
	inject_report(&injector, 2, line, sizeof(line));
	assert_string_equal(line, "'corrupt=0' of 4 packets: nothing");
	assert_int_equal(inject_report(&injector, 0, line, 10), 9);
	inject_fini(&injector);
}

static void damage_is_one_bit_that_the_icrc_covers(void **state)
{
	uint8_t data[40];
	unsigned i, k, ones;

	for (i = 0; i < 4000; i++) {
		verdict.random = (uint64_t)i * 0x9e3779b97f4a7c15u >> 3;
		memset(data, 0, sizeof(data));
		inject_damage(&verdict, data, sizeof(data));
		for (ones = k = 0; k < sizeof(data); k++)
			ones += (unsigned)__builtin_popcount(data[k]);
		assert_int_equal(ones, 1);
		assert_int_equal(data[4], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_given_share_is_lost_damaged_doubled_and_reordered),
		cmocka_unit_test(neither_psns_nor_numbers_nor_order_nor_time_change_what_is_lost),
		cmocka_unit_test(the_number_of_losses_does_not_depend_on_how_much_is_repeated),
		cmocka_unit_test(flows_do_not_forget_each_others_packets),
		cmocka_unit_test(a_certain_loss_is_for_repeats_too),
		cmocka_unit_test(qps_directions_and_kinds_have_fates_of_their_own),
		cmocka_unit_test(datagrams_are_numbered_from_the_first_of_their_source),
		cmocka_unit_test(exactly_the_nth_packet_of_a_kind_is_lost_and_its_repeat_is_not),
		cmocka_unit_test(each_qp_counts_for_itself),
		cmocka_unit_test(a_rule_is_for_what_it_names_alone),
		cmocka_unit_test(kinds_are_those_of_the_table),
		cmocka_unit_test(a_schedule_counts_packets_or_time),
		cmocka_unit_test(periods_begin_with_on),
		cmocka_unit_test(a_black_hole_takes_all_after_the_first_packets),
		cmocka_unit_test(delayed_packets_keep_their_order),
		cmocka_unit_test(bandwidth_is_what_it_is_limited_to),
		cmocka_unit_test(an_overtaken_packet_is_not_delayed_as_well),
		cmocka_unit_test(receives_are_denied_so_often),
		cmocka_unit_test(a_qp_is_killed_once),
		cmocka_unit_test(the_summary_says_what_was_done_to_which_kinds),
		cmocka_unit_test(damage_is_one_bit_that_the_icrc_covers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
