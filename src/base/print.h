/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text into a buffer, in a tenth of the instructions of snprintf(): a trace makes several for each
 * request. The text is always ended with a zero byte. What does not fit is left out as a whole.
 * No locale, no allocation.
 */
#ifndef VERBATIM_BASE_PRINT_H
#define VERBATIM_BASE_PRINT_H

#include <stddef.h>
#include <stdint.h>

struct print {
	char *text;
	size_t size, used;	/* of the text; used < size */
};

/* %s, %u, %x, %06x and %lu, %lx, %llu, %llx: no others. */
void __attribute__((format(printf, 2, 3)))
print_format(struct print *print, const char *format, ...);

void print_bytes(struct print *print, const void *bytes, size_t count);

#endif
