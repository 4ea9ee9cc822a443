/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading and matching suppressions (suppress.h). */
#include "check/suppress.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL; or what is wrong with @word. */
static const char *suppress_word(struct check_suppression *one, const char *word)
{
	const struct {
		const char *key;
		char *value;
		size_t room;
	} keys[] = {
		{ "function=", one->function, sizeof(one->function) },
		{ "module=", one->module, sizeof(one->module) },
		{ "file=", one->file, sizeof(one->file) },
		{ "object=", one->object, sizeof(one->object) },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		size_t length = strlen(keys[i].key);

		if (strncmp(word, keys[i].key, length))
			continue;
		if (strlen(word + length) >= keys[i].room || !word[length])
			return "a pattern is empty or too long";
		strcpy(keys[i].value, word + length);
		return NULL;
	}
	if (one->rule[0])
		return "expected function=, module=, file= or object=";
	if (strncmp(word, "RV-", 3) || strlen(word) >= sizeof(one->rule))
		return "expected a rule first: RV-NOTIFY-001, RV-*";
	strcpy(one->rule, word);
	return NULL;
}

static const char *suppress_line(struct check_suppressions *all, char *line, unsigned number)
{
	struct check_suppression *one;
	char *rest, *word;
	const char *why = NULL;

	line[strcspn(line, "#")] = '\0';
	word = strtok_r(line, " \t\r", &rest);
	if (!word)
		return NULL;
	one = calloc(1, sizeof(*one));
	if (!one)
		return "no memory";
	one->line = number;
	for (; word && !why; word = strtok_r(NULL, " \t\r", &rest)) {
		size_t used = strlen(one->text);

		why = suppress_word(one, word);
		snprintf(one->text + used, sizeof(one->text) - used, "%s%s", used ? " " : "", word);
	}
	if (!why && !one->rule[0])
		why = "expected a rule first: RV-NOTIFY-001, RV-*";
	if (why) {
		free(one);
		return why;
	}
	*all->end = one;
	all->end = &one->next;
	return NULL;
}

unsigned check_suppress_read(struct check_suppressions *all, const char *text, const char **why)
{
	char *copy = strdup(text), *rest = copy, *line;
	unsigned number = 0;

	if (!all->end)
		all->end = &all->first;
	*why = copy ? NULL : "no memory";
	while (copy && !*why && (line = strsep(&rest, "\n"))) {
		number++;
		*why = suppress_line(all, line, number);
	}
	free(copy);
	return *why ? number : 0;
}

static bool suppress_matches(const char *pattern, const char *text)
{
	return !*pattern || !fnmatch(pattern, text, 0);
}

static bool suppress_has_frame(const struct check_suppression *one,
			       const struct check_frame *frames, unsigned count)
{
	if (!one->function[0] && !one->module[0] && !one->file[0])
		return true;
	for (unsigned i = 0; i < count; i++)
		if (suppress_matches(one->function, frames[i].function) &&
		    suppress_matches(one->module, frames[i].module) &&
		    suppress_matches(one->file, frames[i].file))
			return true;
	return false;
}

struct check_suppression *check_suppressed(struct check_suppressions *all, const char *rule,
					   const char *object, const struct check_frame *frames,
					   unsigned count)
{
	for (struct check_suppression *one = all->first; one; one = one->next)
		if (suppress_matches(one->rule, rule) && suppress_matches(one->object, object) &&
		    suppress_has_frame(one, frames, count)) {
			one->used++;
			return one;
		}
	return NULL;
}

void check_suppress_free(struct check_suppressions *all)
{
	while (all->first) {
		struct check_suppression *one = all->first;

		all->first = one->next;
		free(one);
	}
	all->end = NULL;
}
