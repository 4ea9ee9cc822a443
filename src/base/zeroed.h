/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for small objects that come and go with each connection. glibc's calloc() goes past what it keeps
 * for each thread (up to 2.40), which malloc() takes from: three times as many instructions.
 */
#ifndef VERBATIM_BASE_ZEROED_H
#define VERBATIM_BASE_ZEROED_H

#include <stdlib.h>
#include <string.h>

static inline void *zeroed_new(size_t bytes)
{
	void *made = malloc(bytes);

	__asm__("" : "+r"(made));	/* compilers know that both together are calloc() */
	return made ? memset(made, 0, bytes) : NULL;
}

#endif
