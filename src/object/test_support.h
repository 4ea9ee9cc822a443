/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the unit tests of this folder: cmocka, an arena, repeatable random numbers, and the
 * explanation that a refusal wrote to stderr.
 */
#ifndef VERBATIM_OBJECT_TEST_SUPPORT_H
#define VERBATIM_OBJECT_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "object/arena.h"

static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* 0 .. n-1 */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(random_next(state) >> 33) % n;
}

static inline struct arena *test_arena(void)
{
	void *memory = calloc(1, arena_bytes());

	assert_non_null(memory);
	return arena_init(memory, (uint32_t)getpid());
}

/* What is explained between begin and end; a static buffer, cut at its size. */
struct listening {
	FILE *file;
	int stderr_fd;
};

static inline void explanation_begin(struct listening *explanation)
{
	fflush(stderr);
	explanation->file = tmpfile();
	assert_non_null(explanation->file);
	explanation->stderr_fd = dup(2);
	assert_true(dup2(fileno(explanation->file), 2) == 2);
	explain_enabled = true;
}

static inline const char *explanation_end(struct listening *explanation)
{
	static char text[4096];
	size_t length;

	explain_enabled = false;
	fflush(stderr);
	dup2(explanation->stderr_fd, 2);
	close(explanation->stderr_fd);
	rewind(explanation->file);
	length = fread(text, 1, sizeof(text) - 1, explanation->file);
	text[length] = '\0';
	fclose(explanation->file);
	return text;
}

static inline void assert_mentions(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" does not mention \"%s\"", text, words);
}

#endif
