/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The offer of blocks to a preloaded library (blocks.c, local/block/allocator.c), which is this program:
 * when it is made, and until when. Each story is a process, since an offer that was settled is
 * never made again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/hca.h"
#include "local/block/allocator.h"

static unsigned offers;
static bool sound;
static enum allocator_answer answer;

/* Found by its name: ALLOCATOR_HOOK. */
allocator_hook verbatim_preload_serve;

enum allocator_answer verbatim_preload_serve(const struct allocator_calls *calls,
					     const char **reason)
{
	void *memory = NULL;

	offers++;
	sound = calls->version == ALLOCATOR_VERSION && !calls->alloc(100, 4096, &memory) &&
		calls->size(memory) >= 100 && calls->free(memory) && !calls->size(memory);
	*reason = "it is a test";
	return answer;
}

/* Offers made by two questions, with that setting and that answer; 100: what is offered is broken.
 */
static unsigned offers_of(const char *variable, const char *value, enum allocator_answer given)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (variable)
			setenv(variable, value, 1);
		answer = given;
		hca_enable_blocks();
		hca_enable_blocks();
		_exit(offers && !sound ? 100 : (int)offers);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return (unsigned)WEXITSTATUS(status);
}

static void blocks_are_offered_once(void **state)
{
	assert_int_equal(offers_of(NULL, NULL, ALLOCATOR_SERVES), 1);
	assert_int_equal(offers_of(NULL, NULL, ALLOCATOR_REFUSES), 1);
	assert_int_equal(offers_of("VERBATIM_MEMORY", "mapped", ALLOCATOR_SERVES), 1);
}

static void a_library_that_asks_itself_is_asked_again(void **state)
{
	assert_int_equal(offers_of(NULL, NULL, ALLOCATOR_LATER), 2);
}

static void nothing_is_offered_that_nobody_would_map(void **state)
{
	assert_int_equal(offers_of("VERBATIM_MEMORY", "copy", ALLOCATOR_SERVES), 0);
	assert_int_equal(offers_of("VERBATIM_MEMORY", "off", ALLOCATOR_SERVES), 0);
	assert_int_equal(offers_of("VERBATIM_MALLOC", "private", ALLOCATOR_SERVES), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_offered_once),
		cmocka_unit_test(a_library_that_asks_itself_is_asked_again),
		cmocka_unit_test(nothing_is_offered_that_nobody_would_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
