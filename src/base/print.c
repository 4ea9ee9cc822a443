/* SPDX-License-Identifier: BSD-2-Clause */
/* Text into a buffer (print.h). */
#include "base/print.h"

#include <stdarg.h>
#include <string.h>

/* Byte by byte: for short texts strlen() and memcpy() cost more. Returns where the next one goes. */
static char *print_word(char *to, const char *end, const char *word)
{
	while (*word && to < end)
		*to++ = *word++;
	return to;
}

static char *print_number(char *to, const char *end, uint64_t number, int letter, int width)
{
	char digits[24];
	char *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do {
		*--at = "0123456789abcdef"[letter == 'x' ? number & 15 : number % 10];
		number = letter == 'x' ? number >> 4 : number / 10;
	} while (number || digits + sizeof(digits) - 1 - at < width);
	return print_word(to, end, at);
}

/* A full buffer has no room for the end of the text: what filled it is taken back. */
static void end_text(struct print *print, size_t used)
{
	if (used < print->size)
		print->used = used;
	print->text[print->used] = '\0';
}

void print_format(struct print *print, const char *format, ...)
{
	char *to = print->text + print->used;
	const char *end = print->text + print->size;
	va_list arguments;

	va_start(arguments, format);
	for (const char *at = format; *at && to < end; at++) {
		int width = 0, wide = 0;

		if (*at != '%') {
			*to++ = *at;
			continue;
		}
		for (at++; *at >= '0' && *at <= '9'; at++)
			width = width * 10 + (*at - '0');
		for (; *at == 'l'; at++)
			wide++;
		if (*at == 's')
			to = print_word(to, end, va_arg(arguments, const char *));
		else
			to = print_number(to, end, wide ? va_arg(arguments, unsigned long long) :
						       va_arg(arguments, unsigned), *at, width);
	}
	va_end(arguments);
	end_text(print, (size_t)(to - print->text));
}

void print_bytes(struct print *print, const void *bytes, size_t count)
{
	if (count < print->size - print->used) {
		memcpy(print->text + print->used, bytes, count);
		end_text(print, print->used + count);
	}
}
