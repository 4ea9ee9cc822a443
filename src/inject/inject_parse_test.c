/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of VERBATIM_FAULT: what is understood, and that what is not is refused with the place and the remedy. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "inject/inject.h"

static struct injector injector;

static struct inject_rule *understood(const char *text)
{
	char why[512] = "";

	if (inject_init(&injector, text, 7, 0, why, sizeof(why)))
		fail_msg("'%s': %s", text, why);
	return &injector.rule[0];
}

static void refused_with(const char *text, const char *place, const char *remedy)
{
	char why[512] = "";

	if (inject_init(&injector, text, 7, 0, why, sizeof(why)) != EINVAL)
		fail_msg("'%s' was taken", text);
	if (!strstr(why, place) || !strstr(why, remedy))
		fail_msg("'%s': '%s' does not say '%s' and '%s'", text, why, place, remedy);
}

static void several_actions_stand_in_one_rule(void **state)
{
	struct inject_rule *rule = understood("loss=0.5,dup=1,reorder=0,corrupt=0.25,seed=42");

	assert_int_equal(injector.count, 1);
	assert_true(rule->chance[INJECT_LOSS] == INJECT_ALWAYS / 2);
	assert_true(rule->chance[INJECT_DUPLICATE] == INJECT_ALWAYS);
	assert_true(rule->chance[INJECT_REORDER] == 0);
	assert_true(rule->chance[INJECT_CORRUPT] == INJECT_ALWAYS / 4);
	assert_int_equal(injector.seed, 42);
	assert_true(injector.seed_given);
	assert_int_equal(rule->direction, INJECT_IN);
	inject_fini(&injector);
}

static void rules_are_separated_by_semicolons_lines_and_comments(void **state)
{
	understood("loss=0.1 ; drop=ack:2,direction=out\n\n# a comment; with one\n  rnr=3 # behind\nseed=9\n");
	assert_int_equal(injector.count, 3);
	assert_int_equal(injector.seed, 9);
	assert_int_equal(injector.rule[1].direction, INJECT_OUT);
	assert_int_equal(injector.rule[1].nth.first, 2);
	assert_int_equal(injector.rule[1].kinds, 1u << INJECT_KIND_ACK);
	assert_int_equal(injector.rule[2].rnr, 3);
	inject_fini(&injector);
}

static void values_have_units(void **state)
{
	struct inject_rule *rule = understood("delay=1.5ms,jitter=20us,bandwidth=2.5G,from=100,"
					      "until=2s,on=3,off=4");

	assert_int_equal(rule->delay_ns, 1500000);
	assert_int_equal(rule->jitter_ns, 20000);
	assert_true(rule->bits_per_s == 2500000000u);
	assert_true(!rule->from.is_time && rule->from.value == 100);
	assert_true(rule->until.is_time && rule->until.value == 2000000000u);
	assert_int_equal(rule->on.value, 3);
	assert_int_equal(rule->off.value, 4);
	inject_fini(&injector);
}

static void packets_are_selected_by_kind_service_peer_and_qp(void **state)
{
	struct inject_rule *rule = understood("loss=1,kind=ack+nak,service=rc+ud,peer=192.0.2.1,qpn=0x12,qp=3");

	assert_int_equal(rule->kinds, 1u << INJECT_KIND_ACK | 1u << INJECT_KIND_NAK);
	assert_int_equal(rule->services, 1u << SERVICE_RC | 1u << SERVICE_UD);
	assert_int_equal(rule->peer[11], 0xff);
	assert_int_equal(rule->peer[15], 1);
	assert_int_equal(rule->qpn, 0x12);
	assert_int_equal(rule->qp, 3);
	inject_fini(&injector);
	rule = understood("loss=1,peer=fe80::1");
	assert_int_equal(rule->peer[0], 0xfe);
	inject_fini(&injector);
}

static void every_kind_can_be_named(void **state)
{
	unsigned kind;
	char text[64];

	for (kind = 0; kind < INJECT_KINDS; kind++) {
		snprintf(text, sizeof(text), "drop=%s:1", inject_kind_name((enum inject_kind)kind));
		assert_int_equal(understood(text)->kinds, 1u << kind);
		inject_fini(&injector);
	}
}

static void what_is_not_understood_is_refused_at_its_place(void **state)
{
	refused_with("", "rule 0", "loss=0.01");
	refused_with(" ; # nothing", "rule 0", "no rule");
	refused_with("loss", "rule 1, at 'loss'", "WORD=VALUE");
	refused_with("loss=0.1,", "at ''", "WORD=VALUE");
	refused_with(",loss=0.1", "at ''", "words: loss");
	refused_with("los=0.1", "at 'los=0.1'", "no such word; words: loss, drop");
	refused_with("seed=1;loss=2", "rule 2, at 'loss=2'", "from 0 to 1");
	refused_with("dup=1\nloss=2", "line 2, at 'loss=2'", "from 0 to 1");
	refused_with("drop=acks:2", "at 'drop=acks:2'", "kinds: request, response, ack");
	refused_with("drop=ack:0", "at 'drop=ack:0'", "KIND:N");
	refused_with("drop=ack:3-2", "at 'drop=ack:3-2'", "KIND:N");
	refused_with("drop=ack:1,dup=ack:2", "at 'dup=ack:2'", "KIND:N");
	refused_with("nth=ack:1", "rule 1", "does nothing");
	refused_with("kind=cn", "at 'kind=cn'", "cnp");
	refused_with("service=rd", "at 'service=rd'", "rc, uc, ud, xrc");
	refused_with("direction=up", "at 'direction=up'", "in, out or both");
	refused_with("peer=localhost", "at 'peer=localhost'", "IPv4");
	refused_with("qpn=0x1000000", "at 'qpn=0x1000000'", "0xffffff");
	refused_with("qp=0", "at 'qp=0'", "from 1");
	refused_with("delay=5", "at 'delay=5'", "5ms");
	refused_with("delay=2h", "at 'delay=2h'", "5ms");
	refused_with("delay=5.ms", "at 'delay=5.ms'", "5ms");
	refused_with("bandwidth=10Mbit", "at 'bandwidth=10Mbit'", "10M");
	refused_with("bandwidth=10", "at 'bandwidth=10'", "1k");
	refused_with("rnr=x", "at 'rnr=x'", "number of packets");
	refused_with("rnr=1,direction=out", "rule 1", "received");
	refused_with("kill-qp=1,direction=both", "rule 1", "received");
	refused_with("loss=1,on=5", "rule 1", "belong together");
	refused_with("loss=1,on=5,off=1s", "rule 1", "belong together");
	refused_with("loss=1,from=5,until=4", "rule 1", "from= is after");
	refused_with("loss=0.1,loss=0.2", "at 'loss=0.2'", "twice");
	refused_with("loss=1,seed=1;seed=2", "at 'seed=2'", "once");
	refused_with("seed=99999999999999999999", "at 'seed=", "integer");
}

static void probabilities_are_written_in_one_way(void **state)
{
	static const char *const wrong[] = {
		"loss=", "loss=2", "loss=1.5", "loss=0.", "loss=.5", "loss=-1", "loss=1%", "loss=0.1 0",
		"loss = 0.1",
		"loss=1e-3", "loss=1.0000001", "loss=0x1", "loss=nan",
	};
	unsigned i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused_with(wrong[i], "at '", "");
	assert_true(understood("loss=1.0")->chance[INJECT_LOSS] == INJECT_ALWAYS);
	inject_fini(&injector);
	assert_in_range(understood("loss=0.000001")->chance[INJECT_LOSS], 4200, 4300);
	inject_fini(&injector);
}

static void there_is_a_limit_of_rules_and_of_words(void **state)
{
	char many[1024] = "", lengthy[512] = "peer=";
	unsigned i;

	for (i = 0; i < INJECT_RULES_MAX; i++)
		strcat(many, "loss=0;");
	understood(many);
	assert_int_equal(injector.count, INJECT_RULES_MAX);
	inject_fini(&injector);
	strcat(many, "dup=1");
	refused_with(many, "rule 65", "more than 64 rules");
	memset(lengthy + 5, '1', 300);
	refused_with(lengthy, "rule 1", "longer than");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_actions_stand_in_one_rule),
		cmocka_unit_test(rules_are_separated_by_semicolons_lines_and_comments),
		cmocka_unit_test(values_have_units),
		cmocka_unit_test(packets_are_selected_by_kind_service_peer_and_qp),
		cmocka_unit_test(every_kind_can_be_named),
		cmocka_unit_test(what_is_not_understood_is_refused_at_its_place),
		cmocka_unit_test(probabilities_are_written_in_one_way),
		cmocka_unit_test(there_is_a_limit_of_rules_and_of_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
