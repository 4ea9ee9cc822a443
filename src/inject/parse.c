/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of VERBATIM_FAULT from text (verbatim(7) describes the language):
 *
 *	rules	rule; rule; ...		or one a line; # to the end of the line is a comment
 *	rule	word=value,word=value	the words: word.def; seed=N may stand in any rule
 *
 * What is wrong is refused with the place and what would be right. No setting is taken by half.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/text.h"
#include "inject/internal.h"

#define VALUE_MAX	128u
#define SCALE_MAX	1000000000u	/* nine digits behind the point */
#define TIME_MAX_NS	(3600ull * 1000000000u)

struct parser {
	struct injector *injector;
	struct inject_rule *rule;
	unsigned number;		/* of the rule, from 1 */
	unsigned line;
	char *why;
	size_t size;
};

static const char *const service_names[] = {
	[SERVICE_RC] = "rc", [SERVICE_UC] = "uc", [SERVICE_UD] = "ud", [SERVICE_XRC] = "xrc",
};

#define SERVICES	(sizeof(service_names) / sizeof(service_names[0]))

/* ---- values ---- */

/* 12, 0.5: in units of 1 / @unit, which is below 2^33; moves *text behind it. */
static bool scan_decimal(const char **text, uint64_t unit, uint64_t greatest, uint64_t *value)
{
	const char *at = *text;
	uint64_t whole, part = 0, scale = 1;

	if (!text_scan_number(&at, greatest / unit, &whole))
		return false;
	if (*at == '.') {
		if (!isdigit((unsigned char)*++at))
			return false;
		for (; isdigit((unsigned char)*at) && scale < SCALE_MAX; at++, scale *= 10)
			part = part * 10 + (uint64_t)(*at - '0');
	}
	*text = at;
	*value = whole * unit + part * unit / scale;
	return *value <= greatest;
}

static bool scan_kind(const char *text, size_t length, uint32_t *kinds)
{
	unsigned kind;

	for (kind = 0; kind < INJECT_KINDS; kind++) {
		const char *name = inject_kind_name((enum inject_kind)kind);

		if (strlen(name) == length && !memcmp(name, text, length)) {
			*kinds |= 1u << kind;
			return true;
		}
	}
	return false;
}

/* KIND:N or KIND:N-M: those packets alone, the first time that they come. */
static bool parse_word_nth(struct inject_rule *rule, void *member, const char *text)
{
	const char *colon = strchr(text, ':');
	uint64_t first, last;

	if (!colon || rule->nth.first || !scan_kind(text, (size_t)(colon - text), &rule->kinds))
		return false;
	text = colon + 1;
	if (!text_scan_number(&text, UINT32_MAX, &first) || !first)
		return false;
	last = first;
	if (*text == '-' && (text++, !text_scan_number(&text, UINT32_MAX, &last)))
		return false;
	rule->nth.first = (uint32_t)first;
	rule->nth.last = (uint32_t)last;
	return !*text && first <= last;
}

static bool parse_word_chance(struct inject_rule *rule, void *member, const char *text)
{
	uint64_t *chance = member;

	if (!strchr(text, ':'))
		return scan_decimal(&text, INJECT_ALWAYS, INJECT_ALWAYS, chance) && !*text;
	*chance = INJECT_ALWAYS;
	return parse_word_nth(rule, NULL, text);
}

static bool parse_word_time(struct inject_rule *rule, void *member, const char *text)
{
	static const struct { const char *name; uint64_t ns; } units[] = {
		{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 },
	};
	const char *unit = text + strspn(text, "0123456789.");
	uint64_t *time_ns = member;
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(unit, units[i].name))
			return scan_decimal(&text, units[i].ns, TIME_MAX_NS, time_ns) && text == unit;
	return false;
}

/* 10M, 1.5G, 64000: bits a second. */
static bool parse_word_rate(struct inject_rule *rule, void *member, const char *text)
{
	static const struct { const char *name; uint64_t bits; } units[] = {
		{ "", 1 }, { "k", 1000 }, { "M", 1000000 }, { "G", 1000000000 },
	};
	const char *unit = text + strspn(text, "0123456789.");
	uint64_t *rate = member;
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(unit, units[i].name))
			return scan_decimal(&text, units[i].bits, 1000ull * 1000000000u, rate) &&
			       text == unit && *rate >= 1000;
	return false;
}

static bool parse_word_count(struct inject_rule *rule, void *member, const char *text)
{
	return text_number(text, 0, UINT32_MAX, member);
}

/* a+b+c */
static bool parse_word_kinds(struct inject_rule *rule, void *member, const char *text)
{
	for (;;) {
		size_t length = strcspn(text, "+");

		if (!scan_kind(text, length, member))
			return false;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

static bool parse_word_services(struct inject_rule *rule, void *member, const char *text)
{
	uint32_t *services = member;

	for (;;) {
		size_t length = strcspn(text, "+"), i;

		for (i = 0; i < SERVICES; i++)
			if (strlen(service_names[i]) == length && !memcmp(service_names[i], text, length))
				break;
		if (i == SERVICES)
			return false;
		*services |= 1u << i;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

static bool parse_word_direction(struct inject_rule *rule, void *member, const char *text)
{
	rule->direction = !strcmp(text, "in") ? INJECT_IN : !strcmp(text, "out") ? INJECT_OUT :
			  !strcmp(text, "both") ? INJECT_BOTH : 0;
	return rule->direction;
}

static bool parse_word_address(struct inject_rule *rule, void *member, const char *text)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	rule->has_peer = true;
	memcpy(rule->peer, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, rule->peer + 12) == 1 || inet_pton(AF_INET6, text, rule->peer) == 1;
}

static bool parse_word_qpn(struct inject_rule *rule, void *member, const char *text)
{
	unsigned long value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	value = strtoul(text, &end, 0);
	*(uint32_t *)member = (uint32_t)value;
	return !*end && value && value <= 0xffffff;
}

static bool parse_word_qp(struct inject_rule *rule, void *member, const char *text)
{
	uint64_t value;

	if (!text_number(text, 1, UINT32_MAX, &value))
		return false;
	*(uint32_t *)member = (uint32_t)value;
	return true;
}

/* 100: packets; 2s: time. */
static bool parse_word_span(struct inject_rule *rule, void *member, const char *text)
{
	struct inject_span *span = member;

	span->is_set = true;
	span->is_time = !text_number(text, 1, UINT32_MAX, &span->value);
	return !span->is_time || parse_word_time(rule, &span->value, text);
}

/* ---- words ---- */

#define EXPECTED_chance		"a probability from 0 to 1 (0.01), or KIND:N for the N-th packet of a kind (ack:2)"
#define EXPECTED_time		"a time up to 3600s with its unit: 50us, 5ms, 1.5s"
#define EXPECTED_rate		"bits a second from 1k to 1000G: 64k, 10M, 2.5G"
#define EXPECTED_count		"a number of packets"
#define EXPECTED_kinds		"kinds, joined by +: "
#define EXPECTED_services	"services, joined by +: rc, uc, ud, xrc"
#define EXPECTED_direction	"in, out or both"
#define EXPECTED_address	"an IPv4 or IPv6 address"
#define EXPECTED_qpn		"a QP number from 1 to 0xffffff"
#define EXPECTED_qp		"the nth QP the process creates, from 1"
#define EXPECTED_nth		"KIND:N or KIND:N-M, once in a rule, from 1: "
#define EXPECTED_span		"a number of packets from 1, or a time with its unit: 100, 2s"

static const struct word {
	const char *name;
	bool (*parse)(struct inject_rule *rule, void *member, const char *text);
	size_t member;
	enum inject_action action;
	const char *expected;
	bool has_kinds;			/* the kinds follow the expectation */
} words[] = {
#define INJECT_WORD(name, type, member, action)                                                     \
	{ name, parse_word_##type, offsetof(struct inject_rule, member), INJECT_##action,           \
	  EXPECTED_##type, parse_word_##type == parse_word_kinds || parse_word_##type == parse_word_nth || \
			   parse_word_##type == parse_word_chance },
#include "inject/word.def"
#undef INJECT_WORD
};

#define WORDS	(sizeof(words) / sizeof(words[0]))

_Static_assert(WORDS <= 32, "a bit of inject_rule.given each");

/* ---- refusals ---- */

__attribute__((format(printf, 3, 4)))
static int refuse_rule(struct parser *parser, const char *at, const char *format, ...)
{
	int used = snprintf(parser->why, parser->size, "rule %u%s", parser->number, "");
	va_list args;

	if (parser->line > 1)
		used = snprintf(parser->why, parser->size, "line %u", parser->line);
	used += snprintf(parser->why + used, parser->size - (size_t)used, ", at '%.60s': ", at);
	va_start(args, format);
	vsnprintf(parser->why + used, parser->size - (size_t)used, format, args);
	va_end(args);
	return EINVAL;
}

static const char *all_words(char text[256])
{
	size_t i, used = 0;

	for (i = 0; i < WORDS; i++)
		used += (size_t)snprintf(text + used, 256 - used, "%s, ", words[i].name);
	snprintf(text + used, 256 - used, "seed");
	return text;
}

static int refuse_value(struct parser *parser, const struct word *word, const char *setting)
{
	char kinds[128];
	size_t used = 0;
	unsigned kind;

	if (!word->has_kinds)
		return refuse_rule(parser, setting, "%s= expects %s", word->name, word->expected);
	for (kind = 0; kind < INJECT_KINDS; kind++)
		used += (size_t)snprintf(kinds + used, sizeof(kinds) - used, "%s%s", kind ? ", " : "",
					 inject_kind_name((enum inject_kind)kind));
	return refuse_rule(parser, setting, "%s= expects %s%s%s", word->name, word->expected,
			   word->parse == parse_word_chance ? "; kinds: " : "", kinds);
}

/* ---- rules ---- */

static const struct word *find_rule_word(const char *text, size_t length)
{
	size_t i;

	for (i = 0; i < WORDS; i++)
		if (strlen(words[i].name) == length && !memcmp(words[i].name, text, length))
			return &words[i];
	return NULL;
}

static int parse_seed(struct parser *parser, const char *setting, const char *value)
{
	struct injector *injector = parser->injector;

	if (injector->seed_given)
		return refuse_rule(parser, setting, "one seed is for all rules: give it once");
	if (!text_number(value, 0, UINT64_MAX, &injector->seed))
		return refuse_rule(parser, setting, "seed= expects an integer");
	injector->seed_given = true;
	return 0;
}

/* @setting: "word=value". */
static int parse_setting(struct parser *parser, const char *setting)
{
	const char *equals = strchr(setting, '=');
	const struct word *word;
	char list[256];
	uint32_t bit;

	if (!equals)
		return refuse_rule(parser, setting, "expected WORD=VALUE, as in loss=0.01; words: %s",
				   all_words(list));
	if (equals - setting == 4 && !memcmp(setting, "seed", 4))
		return parse_seed(parser, setting, equals + 1);
	word = find_rule_word(setting, (size_t)(equals - setting));
	if (!word)
		return refuse_rule(parser, setting, "no such word; words: %s", all_words(list));
	bit = 1u << (word - words);
	if (parser->rule->given & bit)
		return refuse_rule(parser, setting, "%s= stands twice in one rule: begin another one with ';'",
				   word->name);
	parser->rule->given |= bit;
	if (!word->parse(parser->rule, (char *)parser->rule + word->member, equals + 1))
		return refuse_value(parser, word, setting);
	return 0;
}

/* What fits none of the words alone. */
static int check_rule(struct parser *parser, const char *text)
{
	struct inject_rule *rule = parser->rule;
	bool acts = false;
	size_t i;

	for (i = 0; i < WORDS; i++)
		acts |= (rule->given & 1u << i) && words[i].action != INJECT_NONE;
	if (!acts)
		return refuse_rule(parser, text, "it does nothing: add loss=, drop=, dup=, reorder=, corrupt=, "
				   "delay=, bandwidth=, blackhole=, rnr= or kill-qp=");
	if ((rule->rnr != INJECT_UNSET || rule->kill != INJECT_UNSET) && rule->direction != INJECT_IN)
		return refuse_rule(parser, text, "rnr= and kill-qp= are for packets that are received: without "
				   "direction=, or direction=in");
	if (rule->on.is_set != rule->off.is_set || (rule->on.is_set && rule->on.is_time != rule->off.is_time))
		return refuse_rule(parser, text, "on= and off= belong together, both in packets or both times");
	if (rule->from.is_set && rule->until.is_set && rule->from.is_time == rule->until.is_time &&
	    rule->from.value > rule->until.value)
		return refuse_rule(parser, text, "from= is after until=");
	return 0;
}

/* One rule of @length bytes, without white space around it. */
static int parse_rule(struct parser *parser, const char *text, size_t length)
{
	struct injector *injector = parser->injector;
	char setting[VALUE_MAX];
	size_t done = 0;
	int err;

	parser->number++;
	if (injector->count == INJECT_RULES_MAX)
		return refuse_rule(parser, "", "more than %u rules", INJECT_RULES_MAX);
	parser->rule = &injector->rule[injector->count];
	memset(parser->rule, 0, sizeof(*parser->rule));
	parser->rule->blackhole = parser->rule->rnr = parser->rule->kill = INJECT_UNSET;
	parser->rule->direction = INJECT_IN;
	parser->rule->start = (size_t)(text - injector->text);
	parser->rule->length = length;
	while (done <= length) {
		size_t end = done;

		while (end < length && text[end] != ',')
			end++;
		snprintf(setting, sizeof(setting), "%.*s", (int)(end - done), text + done);
		if (end - done >= sizeof(setting))
			return refuse_rule(parser, setting, "longer than %u bytes", VALUE_MAX - 1);
		err = parse_setting(parser, setting);
		if (err)
			return err;
		done = end + 1;
	}
	if (!parser->rule->given)
		return 0;		/* the seed alone */
	snprintf(setting, sizeof(setting), "%.*s", (int)length, text);
	err = check_rule(parser, setting);
	injector->count += !err;
	return err;
}

int inject_parse(struct injector *injector, char *why, size_t size)
{
	struct parser parser = { .injector = injector, .line = 1, .why = why, .size = size };
	const char *at = injector->text;
	int err = 0;

	while (!err && *at) {
		const char *end = at + strcspn(at, ";#\n"), *last = end;

		while (at < end && isspace((unsigned char)*at))
			at++;
		while (last > at && isspace((unsigned char)last[-1]))
			last--;
		if (last > at)
			err = parse_rule(&parser, at, (size_t)(last - at));
		if (*end == '#')
			end += strcspn(end, "\n");
		parser.line += *end == '\n';
		at = end + (*end != '\0');
	}
	if (!err && !parser.number)
		err = refuse_rule(&parser, "", "no rule; loss=0.01 would lose one packet of a hundred");
	return err;
}
