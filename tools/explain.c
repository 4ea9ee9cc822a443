/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim explain [WORD...]: what a number or name in an error means, its causes, and what to do. The
 * texts are docs/errors, compiled in (explain.h). What is asked for, in the order tried:
 *
 *	nothing				a list of all that is known
 *	KIND WORD, WORD KIND		a word or number of one kind: reject 8
 *	ERROR CALL			an errno of one call: ENODEV rdma_bind_addr
 *	WORD, NUMBER, WORDS IN A ROW	wherever it fits; several: a list, and the first in full
 *	CALL, KIND			all its errnos; all its names
 *
 * A word is compared in capitals, with one _ for each run of other characters.
 */
#include "explain.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tool.h"

enum { WORD_MAX = NEAREST_WORD_MAX, MATCHES_MAX = 64, NEAREST_MAX = 5, COLUMNS = 78 };

struct matches {
	const struct error_entry *entry[MATCHES_MAX];
	int count;
};

/* @words joined; what does not fit is cut off, and then nothing matches it. */
static void explain_join(int count, char **words, char word[WORD_MAX])
{
	size_t used = 0;

	for (int i = 0; i < count; i++) {
		bool gap = used > 0;

		for (const char *c = words[i]; *c && used < WORD_MAX - 2; c++) {
			if (!isalnum((unsigned char)*c)) {
				gap = used > 0;
				continue;
			}
			if (gap)
				word[used++] = '_';
			gap = false;
			word[used++] = (char)toupper((unsigned char)*c);
		}
	}
	word[used] = '\0';
}

static bool has_word(const struct error_entry *entry, const char *word)
{
	char wanted[WORD_MAX + 2];

	snprintf(wanted, sizeof(wanted), " %s ", word);
	return strstr(entry->words, wanted) != NULL;
}

static bool read_number(const char *text, long *number, bool *negative)
{
	char *end;

	*negative = *text == '-';
	text += *negative;
	if (!isdigit((unsigned char)*text))
		return false;
	*number = strtol(text, &end, 0);
	return !*end;
}

/* @kind: -1 for any. A negative number is an errno, as librdmacm and the kernel report it. */
static void find_number(const char *text, int kind, struct matches *found)
{
	bool negative;
	long number;

	if (!read_number(text, &number, &negative))
		return;
	for (const struct error_entry *entry = error_entries; entry->name; entry++) {
		const struct error_kind *of = &error_kinds[entry->kind];

		if (entry->number != number || (kind >= 0 ? entry->kind != kind : !of->numbers))
			continue;
		if (negative && strcmp(of->name, "errno"))
			continue;
		if (found->count < MATCHES_MAX)
			found->entry[found->count++] = entry;
	}
}

static void find_word(const char *word, int kind, struct matches *found)
{
	for (const struct error_entry *entry = error_entries; *word && entry->name; entry++)
		if ((kind < 0 || entry->kind == kind) && has_word(entry, word) &&
		    found->count < MATCHES_MAX)
			found->entry[found->count++] = entry;
}

static struct matches explain_find(int count, char **words, int kind)
{
	struct matches found = { .count = 0 };
	char word[WORD_MAX];

	explain_join(count, words, word);
	if (count == 1)
		find_number(words[0], kind, &found);
	if (!found.count)
		find_word(word, kind, &found);
	return found;
}

/* "REJ 8", as doctor says it, too. */
static int kind_of(const char *name)
{
	if (!strcasecmp(name, "rej"))
		name = "reject";
	for (int i = 0; error_kinds[i].name; i++)
		if (!strcasecmp(error_kinds[i].name, name))
			return i;
	return -1;
}

/* The language of messages, as setlocale(3) finds it. */
static bool is_chinese(void)
{
	static const char *const names[] = { "LC_ALL", "LC_MESSAGES", "LANG" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return !strncmp(value, "zh", 2);
	}
	return false;
}

static const char *kind_what(int kind)
{
	return is_chinese() ? error_kinds[kind].chinese : error_kinds[kind].what;
}

static void print_text(const struct error_entry *entry)
{
	fputs(is_chinese() ? entry->chinese : entry->text, stdout);
}

static void print_entry(const struct error_entry *entry)
{
	printf("%s: %s\n\n", entry->heading, kind_what(entry->kind));
	print_text(entry);
	fputs(is_chinese() ? entry->chinese_calls : entry->calls, stdout);
}

/* Several: which they are, and how each is asked for. */
static void print_matches(const char *asked, const struct matches *found)
{
	if (found->count > 1) {
		printf(is_chinese() ? "%s 可能是：\n" : "%s may be:\n", asked);
		for (int i = 0; i < found->count; i++) {
			const struct error_entry *entry = found->entry[i];

			printf("  %-38s %s\n", entry->name, kind_what(entry->kind));
		}
		printf(is_chinese() ? "下面是第一个。要看另一个：verbatim explain %s\n\n" :
		       "Below is the first. For another one: verbatim explain %s\n\n", found->entry[1]->name);
	}
	print_entry(found->entry[0]);
}

/* Errnos of one call. @error: NULL for all. Returns how many were printed. */
static int print_calls(const char *word, const struct error_entry *error)
{
	int printed = 0;

	for (const struct error_call *call = error_calls; call->name; call++) {
		if (strcmp(call->word, word) || (error && strcmp(error->name, call->error)))
			continue;
		if (is_chinese())
			printf("%s 返回的 %s：\n%s\n", call->name, call->error, call->chinese);
		else
			printf("%s of %s:\n%s\n", call->error, call->name, call->text);
		printed++;
	}
	return printed;
}

static void print_kind(int kind)
{
	int column = 0;

	printf("%s (%s)\n", error_kinds[kind].title, error_kinds[kind].name);
	for (const struct error_entry *entry = error_entries; entry->name; entry++) {
		int width = (int)strlen(entry->name);

		if (entry->kind != kind)
			continue;
		if (column && column + 2 + width > COLUMNS) {
			putchar('\n');
			column = 0;
		}
		column += printf("  %s", entry->name);
	}
	printf("\n\n");
}

static int explain_list(void)
{
	printf("verbatim explain WORD, NUMBER, KIND NUMBER or ERROR CALL knows, by kind:\n\n");
	for (int i = 0; error_kinds[i].name; i++)
		print_kind(i);
	printf("Prefixes may be left out. The same as a page: verbatim-errors(7).\n");
	return 0;
}

/* ---- misspelt words ---- */

/* The least distance to one of the words of a list " A B "; a word that contains ours is near, too. */
static int distance_to(const char *words, const char *word)
{
	size_t length = strlen(word);
	int best = WORD_MAX;

	for (const char *at = words; *at;) {
		size_t one = strcspn(at, " ");

		if (one && one < WORD_MAX) {
			int distance = edit_distance(word, length, at, one);

			if (length >= 4 && memmem(at, one, word, length) && distance > 2)
				distance = 2;
			if (distance < best)
				best = distance;
		}
		at += one + (at[one] == ' ');
	}
	return best;
}

struct nearest {
	const char *name[NEAREST_MAX];
	int distance[NEAREST_MAX];
	int count;
};

static void nearest_add(struct nearest *nearest, const char *name, int distance)
{
	int at = nearest->count;

	for (int i = 0; i < nearest->count; i++)
		if (!strcmp(nearest->name[i], name))
			return;
	while (at > 0 && nearest->distance[at - 1] > distance)
		at--;
	if (at == NEAREST_MAX)
		return;
	if (nearest->count < NEAREST_MAX)
		nearest->count++;
	for (int i = nearest->count - 1; i > at; i--) {
		nearest->name[i] = nearest->name[i - 1];
		nearest->distance[i] = nearest->distance[i - 1];
	}
	nearest->name[at] = name;
	nearest->distance[at] = distance;
}

static int explain_unknown(int count, char **words)
{
	struct nearest nearest = { .count = 0 };
	char word[WORD_MAX], line[WORD_MAX];
	int limit;

	explain_join(count, words, word);
	limit = 1 + (int)strlen(word) / 4;
	for (const struct error_entry *entry = error_entries; entry->name; entry++) {
		int distance = distance_to(entry->words, word);

		if (distance <= limit)
			nearest_add(&nearest, entry->name, distance);
	}
	for (const struct error_call *call = error_calls; call->name; call++) {
		int distance = distance_to(call->word, word);

		if (distance <= limit)
			nearest_add(&nearest, call->name, distance);
	}
	snprintf(line, sizeof(line), "%s%s%s", words[0], count > 1 ? " " : "", count > 1 ? words[1] : "");
	if (!nearest.count)
		return usage_error("explain", "nothing known of '%s'; 'verbatim explain' lists all that is "
				   "known", line);
	fprintf(stderr, "verbatim explain: nothing known of '%s'; the nearest:\n", line);
	for (int i = 0; i < nearest.count; i++)
		fprintf(stderr, "  verbatim explain %s\n", nearest.name[i]);
	return EXIT_USAGE;
}

/* ---- what is asked for ---- */

/* Two words, one of which says where to look: 0, or -1 when neither does. */
static int explain_pair(char **words)
{
	for (int i = 0; i < 2; i++) {
		char word[WORD_MAX];
		int kind = kind_of(words[i]);
		struct matches found;

		if (kind >= 0) {
			found = explain_find(1, &words[1 - i], kind);
			if (found.count) {
				print_entry(found.entry[0]);
				return 0;
			}
		}
		explain_join(1, &words[i], word);
		found = explain_find(1, &words[1 - i], kind_of("errno"));
		if (found.count && print_calls(word, found.entry[0])) {
			printf(is_chinese() ? "%s，一般情况：\n\n" : "%s in general:\n\n",
			       found.entry[0]->heading);
			print_text(found.entry[0]);
			return 0;
		}
	}
	return -1;
}

/* A rule of verbatim check: RV-NOTIFY-001. False: it is none. */
static bool explain_rule(const char *id)
{
	for (const struct check_rule_text *rule = check_rule_texts; rule->id; rule++) {
		if (strcasecmp(rule->id, id))
			continue;
		printf("%s: a rule of verbatim check\n\n%s.\n\nWhere it is written:\n  %s\nTo "
		       "do:\n  %s\n\n"
		       "To leave its findings out: verbatim check --suppress FILE, with a line "
		       "\"%s function=NAME\"\n",
		       rule->id, rule->sentence, rule->source, rule->remedy, rule->id);
		return true;
	}
	return false;
}

int explain_command(int argc, char **argv)
{
	int count = argc - 1;
	char **words = argv + 1, word[WORD_MAX];
	struct matches found;

	if (!count)
		return explain_list();
	if (words[0][0] == '-' && !isdigit((unsigned char)words[0][1]))
		return usage_error("explain", "no option '%s'; see 'verbatim explain --help'", words[0]);
	if (count == 1 && explain_rule(words[0]))
		return 0;
	if (count == 2 && !explain_pair(words))
		return 0;
	found = explain_find(count, words, -1);
	if (found.count) {
		print_matches(words[0], &found);
		return 0;
	}
	explain_join(count, words, word);
	if (print_calls(word, NULL))
		return 0;
	if (count == 1 && kind_of(words[0]) >= 0) {
		print_kind(kind_of(words[0]));
		return 0;
	}
	return explain_unknown(count, words);
}
