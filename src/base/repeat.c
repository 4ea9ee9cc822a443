/* SPDX-License-Identifier: BSD-2-Clause */
/* Counting of repeated lines (repeat.h). */
#include "base/repeat.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define FNV_PRIME 0x100000001b3u

uint64_t repeat_text(uint64_t id, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		id = (id ^ (unsigned char)text[i]) * FNV_PRIME;
	return id;
}

uint64_t repeat_number(uint64_t id, uint64_t number)
{
	return repeat_text(id, (const char *)&number, sizeof(number));
}

/* The number behind @at, or the argument that stands for it. */
static int repeat_width(const char **at, va_list *arguments)
{
	int width = 0;

	if (**at == '*') {
		++*at;
		return va_arg(*arguments, int);
	}
	for (; **at >= '0' && **at <= '9'; ++*at)
		width = width * 10 + (**at - '0');
	return width;
}

uint64_t repeat_rule(uint64_t id, const char *format, va_list arguments)
{
	va_list rest;

	va_copy(rest, arguments);
	for (const char *at = format; *at; at++) {
		const char *begin = at, *text;
		int precision = INT_MAX;
		bool wide = false;

		if (*at++ != '%') {
			id = repeat_text(id, begin, 1);
			at--;
			continue;
		}
		at += strspn(at, "-+ #0");
		repeat_width(&at, &rest);
		if (*at == '.') {
			at++;
			precision = repeat_width(&at, &rest);
		}
		for (; *at && strchr("hlzjt", *at); at++)
			wide |= *at != 'h';
		switch (*at) {
		case 's':
			text = va_arg(rest, const char *);
			if (text)
				id = repeat_text(id, text, strnlen(text, (size_t)precision));
			break;
		case 'm':
			id = repeat_number(id, (uint64_t)errno);
			break;
		case 'p':
			id = repeat_number(id, (uintptr_t)va_arg(rest, void *));
			break;
		case 'a': case 'e': case 'f': case 'g':
			va_arg(rest, double);
			break;
		case '%':
			break;
		default:
			if (wide)
				va_arg(rest, long);
			else
				va_arg(rest, int);
		}
		id = repeat_text(id, begin, (size_t)(at + 1 - begin));
	}
	va_end(rest);
	return id;
}

static struct repeat_line *repeat_find(struct repeats *repeats, uint64_t id)
{
	struct repeat_line *line, *oldest = repeats->line;

	for (line = repeats->line; line < repeats->line + REPEAT_LINES; line++) {
		if (line->id == id)
			return line;
		if (line->used < oldest->used)
			oldest = line;
	}
	return oldest;
}

bool repeat_admit(struct repeats *repeats, uint64_t id, const char *text, size_t bytes, uint64_t now_ns,
		  bool remote, repeat_tell *tell)
{
	struct repeat_line *line = repeat_find(repeats, id);
	bool known = line->id == id;
	size_t kept;

	if (!known && remote) {
		if (now_ns - repeats->remote_ns >= REPEAT_TELL_NS) {
			repeats->remote_ns = now_ns;
			repeats->remote = 0;
		}
		if (repeats->remote++ >= REPEAT_REMOTE)
			return false;	/* a flood */
	}
	line->used = ++repeats->uses;
	if (!known) {
		repeat_tell_all(repeats, tell);
		kept = bytes < REPEAT_TEXT_BYTES ? bytes : REPEAT_TEXT_BYTES - 1;
		line->id = id;
		line->told_ns = now_ns;
		line->patience_ns = REPEAT_TELL_NS;
		line->count = 0;
		memcpy(line->text, text, kept);
		line->text[kept] = '\0';
		if (kept < bytes)
			memcpy(line->text + kept - 3, "...", 3);
		return true;
	}
	if (line->count || now_ns - line->told_ns < line->patience_ns)
		line->count++;
	if (now_ns - line->told_ns < line->patience_ns)
		return false;
	line->told_ns = now_ns;
	if (line->patience_ns < REPEAT_PATIENCE_NS)
		line->patience_ns *= 2;
	if (!line->count)
		return true;
	repeat_tell_all(repeats, tell);
	return false;
}

void repeat_tell_all(struct repeats *repeats, repeat_tell *tell)
{
	struct repeat_line *line;

	for (line = repeats->line; line < repeats->line + REPEAT_LINES; line++) {
		if (line->count)
			tell(line->count, line->text);
		line->count = 0;
	}
}
