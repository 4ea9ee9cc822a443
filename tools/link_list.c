/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The setting "devices" as a list that is changed for one interface (link_command.h). The first entry that an
 * interface matches decides of it (net/naming.c), so its own is put before that.
 */
#include "link_command.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

struct span {
	size_t begin, length;		/* of the entry, without its comma */
};

void link_list_read(struct link_list *list, const char *devices)
{
	char *end = list->text;

	for (; *devices; devices++)
		if (!isspace((unsigned char)*devices))	/* no pattern and no name has any */
			*end++ = *devices;
	*end = '\0';
	if (end == list->text)
		strcpy(list->text, "*");
}

/* False: there are no more. @span: at first all zeros with @begin 0; moved to the entry behind. */
static bool entry_next(const char *text, struct span *span, bool *first)
{
	if (!*first && !text[span->begin + span->length])
		return false;
	span->begin = *first ? 0 : span->begin + span->length + 1;
	span->length = strcspn(text + span->begin, ",");
	*first = false;
	return true;
}

static void pattern_of(const char *text, const struct span *span, char pattern[CONFIG_TEXT_MAX])
{
	const char *entry = text + span->begin + (text[span->begin] == '!');
	size_t length = strcspn(entry, ":,");

	memcpy(pattern, entry, length);
	pattern[length] = '\0';
}

/* The entry that decides of @netdev; its pattern. False: none, and @span is behind the last. */
static bool decides(const char *text, const char *netdev, struct span *span, char pattern[CONFIG_TEXT_MAX])
{
	bool first = true;

	while (entry_next(text, span, &first)) {
		pattern_of(text, span, pattern);
		if (!fnmatch(pattern, netdev, 0))
			return true;
	}
	*span = (struct span){ .begin = strlen(text) };
	return false;
}

/* Puts @entry ("": nothing) where @span is, with the commas that it then needs. */
static bool replace(struct link_list *list, const struct span *span, const char *entry)
{
	char text[CONFIG_TEXT_MAX];
	const char *before = list->text, *after = list->text + span->begin + span->length;
	size_t kept = span->begin;
	int length;

	while (kept && before[kept - 1] == ',')
		kept--;
	after += *after == ',';
	length = snprintf(text, sizeof(text), "%.*s%s%s%s%s", (int)kept, before, kept && *entry ? "," : "",
			  entry, (kept || *entry) && *after ? "," : "", after);
	if (length >= (int)sizeof(text))
		return false;
	strcpy(list->text, text);
	return true;
}

/* Of @netdev: in place of an entry of its own, else before the pattern that decides. */
static bool decide(struct link_list *list, const char *netdev, const char *entry)
{
	char pattern[CONFIG_TEXT_MAX], both[CONFIG_TEXT_MAX];
	struct span span = { 0 };

	if (decides(list->text, netdev, &span, pattern) && strcmp(pattern, netdev)) {
		if (snprintf(both, sizeof(both), "%s,%.*s", entry, (int)span.length,
			     list->text + span.begin) >= (int)sizeof(both))
			return false;
		return replace(list, &span, both);
	}
	return replace(list, &span, entry);
}

bool link_list_set(struct link_list *list, const char *netdev, const char *name)
{
	char entry[128];

	if (!strncmp(name, "vb_", 3) && !strcmp(name + 3, netdev))
		snprintf(entry, sizeof(entry), "%s", netdev);
	else
		snprintf(entry, sizeof(entry), "%s:%s", netdev, name);
	return decide(list, netdev, entry);
}

bool link_list_clear(struct link_list *list, const char *netdev)
{
	char pattern[CONFIG_TEXT_MAX], entry[128];
	struct link_list changed = *list;
	struct span span = { 0 };

	if (link_list_names(&changed, netdev) && !decide(&changed, netdev, ""))
		return false;
	if (!*changed.text)
		strcpy(changed.text, "!*");	/* an empty list would say all */
	if (decides(changed.text, netdev, &span, pattern) && changed.text[span.begin] != '!') {
		snprintf(entry, sizeof(entry), "!%s", netdev);
		if (!decide(&changed, netdev, entry))
			return false;
	}
	*list = changed;
	return true;
}

bool link_list_names(const struct link_list *list, const char *netdev)
{
	char pattern[CONFIG_TEXT_MAX];
	struct span span = { 0 };

	return decides(list->text, netdev, &span, pattern) && !strcmp(pattern, netdev) &&
	       list->text[span.begin] != '!';
}

bool link_list_find(const struct link_list *list, const char *name, char *netdev, size_t size)
{
	char pattern[CONFIG_TEXT_MAX];
	struct span span = { 0 };
	bool first = true;

	while (entry_next(list->text, &span, &first)) {
		const char *entry = list->text + span.begin, *colon = memchr(entry, ':', span.length);
		size_t length = colon ? span.length - (size_t)(colon + 1 - entry) : 0;

		pattern_of(list->text, &span, pattern);
		if (!strpbrk(pattern, "*?[\\") && *entry != '!' &&
		    (colon ? length == strlen(name) && !strncmp(colon + 1, name, length)
			   : !strncmp(name, "vb_", 3) && !strcmp(name + 3, pattern)))
			return snprintf(netdev, size, "%s", pattern) < (int)size;
	}
	return false;
}
