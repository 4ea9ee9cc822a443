/* SPDX-License-Identifier: BSD-2-Clause */
/* Text in what --json prints. */
#include <stdio.h>

#include "tool.h"

/* Bytes that are no UTF-8 do not matter to what people read: they become '?'. */
void print_json_text(const char *name, const char *text, const char *end)
{
	printf("\"%s\":", name);
	if (!text) {
		printf("null%s", end);
		return;
	}
	putchar('"');
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			printf("\\%c", *c);
		else if (*c < 0x20)
			printf("\\u%04x", *c);
		else
			putchar(*c < 0x7f ? *c : '?');
	}
	printf("\"%s", end);
}
