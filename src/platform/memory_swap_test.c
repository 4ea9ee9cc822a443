/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages exchanged under a process: content stays, and a second mapping of the pool sees them. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "platform/fail.h"
#include "platform/memory.h"
#include "platform/memory_areas.h"
#include "platform/memory_swap.h"

#define POOL	(1u << 24)
#define BYTES	(40u * MEMORY_PAGE)

static char *pool;
static int pool_fd;
static bool stays;	/* of the latest memory_unshare() */

static int setup(void **state)
{
	fail_clear();
	return memory_shared("pool", POOL, (void **)&pool, &pool_fd);
}

static int teardown(void **state)
{
	memory_release(pool, POOL, pool_fd);
	fail_clear();
	return 0;
}

static char *some_memory(size_t bytes)
{
	void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(made, MAP_FAILED);
	return made;
}

static uint64_t pool_blocks(void)
{
	struct stat status;

	assert_int_equal(fstat(pool_fd, &status), 0);
	return (uint64_t)status.st_blocks;
}

static void what_was_written_is_shared_and_private_again(void **state)
{
	char *memory = some_memory(BYTES), expected[BYTES];
	uint64_t random = 1, at = 8 * MEMORY_PAGE;

	test_random_fill(&random, memory, BYTES);
	memcpy(expected, memory, BYTES);
	assert_true(memory_is_ordinary(memory, BYTES, pool_fd));
	assert_int_equal(memory_share(memory, BYTES, pool_fd, at), 0);
	assert_memory_equal(memory, expected, BYTES);
	assert_memory_equal(pool + at, expected, BYTES);
	assert_false(memory_is_ordinary(memory, BYTES, pool_fd));
	pool[at + 5] = 'a';
	assert_int_equal(memory[5], 'a');
	memory[7] = 'b';
	assert_int_equal(pool[at + 7], 'b');
	memory_release(pool, POOL, -1);
	pool = NULL;
	assert_int_equal(memory_unshare(pool_fd, at, BYTES, false, &stays), 0);
	assert_true(stays);
	expected[5] = 'a';
	expected[7] = 'b';
	assert_memory_equal(memory, expected, BYTES);
	memory_punch(pool_fd, at, BYTES);
	assert_memory_equal(memory, expected, BYTES);
	assert_int_equal(pool_blocks(), 0);
	/* As ordinary as before: given back to the system it reads as zeros, and it can be shared. */
	assert_true(memory_is_ordinary(memory, BYTES, pool_fd));
	madvise(memory, MEMORY_PAGE, MADV_DONTNEED);
	assert_int_equal(memory[5], 0);
	assert_memory_equal(memory + MEMORY_PAGE, expected + MEMORY_PAGE, BYTES - MEMORY_PAGE);
	assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
	assert_memory_equal(memory + MEMORY_PAGE, expected + MEMORY_PAGE, BYTES - MEMORY_PAGE);
	munmap(memory, BYTES);
}

static void pages_are_found_where_they_were_moved_to(void **state)
{
	char *memory = some_memory(BYTES), *moved;

	memset(memory, 3, BYTES);
	memory_release(pool, POOL, -1);
	pool = NULL;
	assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
	moved = mremap(memory + 8 * MEMORY_PAGE, 8 * MEMORY_PAGE, 16 * MEMORY_PAGE, MREMAP_MAYMOVE);
	assert_ptr_not_equal(moved, MAP_FAILED);
	munmap(memory, 2 * MEMORY_PAGE);
	assert_int_equal(memory_unshare(pool_fd, 0, BYTES, false, &stays), 0);
	memory_punch(pool_fd, 0, BYTES);
	assert_int_equal(moved[0], 3);
	assert_int_equal(moved[8 * MEMORY_PAGE - 1], 3);
	assert_int_equal(memory[2 * MEMORY_PAGE], 3);
	assert_int_equal(memory[BYTES - 1], 3);
	munmap(moved, 16 * MEMORY_PAGE);
	munmap(memory, BYTES);
}

/* Threads that count up bytes of their own while the pages go back. */
#define COUNTERS 4u
static char *counted;
static _Atomic int counting;

static void *count_up(void *argument)
{
	volatile uint64_t *mine = (volatile uint64_t *)(counted + *(unsigned *)argument * 8);
	uint64_t expected[BYTES / MEMORY_PAGE] = { 0 };
	unsigned page;

	while (counting)
		for (page = 0; page < BYTES / MEMORY_PAGE; page++) {
			volatile uint64_t *place = mine + page * (MEMORY_PAGE / 8);

			if (*place != expected[page])
				return (void *)1;
			*place = ++expected[page];
		}
	return NULL;
}

static void no_write_is_lost_on_the_way_back(void **state)
{
	unsigned id[COUNTERS], i, round;
	pthread_t thread[COUNTERS];
	void *lost;

	memory_release(pool, POOL, -1);
	pool = NULL;
	for (round = 0; round < 20; round++) {
		counted = some_memory(BYTES);
		assert_int_equal(memory_share(counted, BYTES, pool_fd, 0), 0);
		counting = 1;
		for (i = 0; i < COUNTERS; i++) {
			id[i] = i;
			assert_int_equal(pthread_create(&thread[i], NULL, count_up, &id[i]), 0);
		}
		usleep(500);
		assert_int_equal(memory_unshare(pool_fd, 0, BYTES, false, &stays), 0);
		memory_punch(pool_fd, 0, BYTES);
		usleep(500);
		counting = 0;
		for (i = 0; i < COUNTERS; i++) {
			pthread_join(thread[i], &lost);
			assert_null(lost);
		}
		munmap(counted, BYTES);
	}
}

static void untouched_pages_cost_nothing(void **state)
{
	char *memory = some_memory(BYTES);

	memory[3 * MEMORY_PAGE] = 1;
	assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
	assert_int_equal(pool_blocks(), MEMORY_PAGE / 512);
	assert_int_equal(memory[3 * MEMORY_PAGE], 1);
	/* Written by a peer, never touched here: not lost on the way back. */
	pool[20 * MEMORY_PAGE + 9] = 77;
	memory_release(pool, POOL, -1);
	pool = NULL;
	assert_int_equal(memory_unshare(pool_fd, 0, POOL, false, &stays), 0);
	memory_punch(pool_fd, 0, POOL);
	assert_int_equal(memory[20 * MEMORY_PAGE + 9], 77);
	assert_int_equal(memory[3 * MEMORY_PAGE], 1);
	assert_int_equal(memory[30 * MEMORY_PAGE], 0);
	munmap(memory, BYTES);
}

static void part_of_the_heap_can_be_exchanged(void **state)
{
	char *block = malloc(300000), *page = (char *)(((uintptr_t)block + MEMORY_PAGE) &
						       ~(uintptr_t)(MEMORY_PAGE - 1));
	char *small = malloc(100000), *others[100];
	unsigned i;

	memset(block, 5, 300000);
	memset(small, 6, 100000);
	assert_true(memory_is_ordinary(page, 16 * MEMORY_PAGE, pool_fd));
	assert_int_equal(memory_share(page, 16 * MEMORY_PAGE, pool_fd, 0), 0);
	for (i = 0; i < 100; i++)
		others[i] = memset(malloc(50000), 8, 50000);
	assert_int_equal(block[299999], 5);
	assert_int_equal(page[0], 5);
	assert_int_equal(small[99999], 6);
	for (i = 0; i < 100; i++)
		free(others[i]);
	memory_release(pool, POOL, -1);
	pool = NULL;
	assert_int_equal(memory_unshare(pool_fd, 0, POOL, false, &stays), 0);
	memory_punch(pool_fd, 0, POOL);
	assert_int_equal(page[16 * MEMORY_PAGE - 1], 5);
	free(small);
	free(block);
}

static void what_is_not_ordinary_is_told_apart(void **state)
{
	/* The frame itself: AddressSanitizer keeps variables elsewhere. */
	char *on_stack = __builtin_frame_address(0), *memory = some_memory(4 * MEMORY_PAGE);
	static char data[4 * MEMORY_PAGE] = { 1 };

	assert_false(memory_is_ordinary((char *)((uintptr_t)on_stack & ~4095ull),
					MEMORY_PAGE, pool_fd));
	/* Pages of a program's data are copies of a file's: left alone. */
	assert_false(memory_is_ordinary(data, sizeof(data), pool_fd));
	assert_false(memory_is_ordinary(pool, MEMORY_PAGE, pool_fd));
	mprotect(memory + MEMORY_PAGE, MEMORY_PAGE, PROT_READ);
	assert_true(memory_is_ordinary(memory, MEMORY_PAGE, pool_fd));
	assert_false(memory_is_ordinary(memory, 2 * MEMORY_PAGE, pool_fd));
	munmap(memory + 2 * MEMORY_PAGE, MEMORY_PAGE);
	assert_false(memory_is_ordinary(memory + 2 * MEMORY_PAGE, MEMORY_PAGE, pool_fd));
	munmap(memory, 4 * MEMORY_PAGE);
}

/* Linux moves pages and leaves the mapping: both places show the file then, and both are found. */
static void pages_are_found_in_both_places_where_they_are(void **state)
{
	int quiet;

	memory_release(pool, POOL, -1);
	pool = NULL;
	for (quiet = 0; quiet < 2; quiet++) {
		char *memory = some_memory(BYTES), *moved;

		memset(memory, 5, BYTES);
		assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
		moved = mremap(memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
		if (moved == MAP_FAILED)
			skip();		/* before Linux 5.13 */
		assert_int_equal(memory_unshare(pool_fd, 0, BYTES, quiet, &stays), 0);
		assert_int_equal(stays, !quiet);
		memory_punch(pool_fd, 0, BYTES);
		assert_int_equal(moved[0], 5);
		assert_int_equal(moved[BYTES - 1], 5);
		assert_int_equal(memory[BYTES - 1], 5);
		moved[7] = 6;
		assert_int_equal(memory[7], 5);
		munmap(memory, BYTES);
		munmap(moved, BYTES);
	}
}

static void a_limit_of_file_sizes_is_no_signal(void **state)
{
	char *memory = some_memory(BYTES);
	struct rlimit before, limit;

	memset(memory, 9, BYTES);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ .rlim_cur = 2 * BYTES - 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(memory_share(memory, BYTES, pool_fd, BYTES), EFBIG);
	assert_true(memory_is_ordinary(memory, BYTES, pool_fd));
	assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
	assert_int_equal(memory[BYTES - 1], 9);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	munmap(memory, BYTES);
}

static void failures_change_nothing(void **state)
{
	static const enum fail_point point[] = { FAIL_MMAP, FAIL_PWRITE };
	char *memory = some_memory(BYTES);
	unsigned i;

	memset(memory, 9, BYTES);
	for (i = 0; i < 2; i++) {
		fail_set(point[i], 1, ENOMEM);
		assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), ENOMEM);
		assert_true(memory_is_ordinary(memory, BYTES, pool_fd));
		assert_int_equal(memory[BYTES - 1], 9);
	}
	fail_clear();
	assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
	fail_set(FAIL_MMAP, 1, ENOMEM);
	assert_int_equal(memory_unshare(pool_fd, 0, BYTES, false, &stays), ENOMEM);
	assert_int_equal(memory[BYTES - 1], 9);
	munmap(memory, BYTES);
}

static unsigned map_lines(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned count = 0;

	while (fgets(line, sizeof(line), maps))
		count++;
	fclose(maps);
	return count;
}

static void add_mapping(void *context, uint64_t offset, uint64_t bytes)
{
	*(uint64_t *)context += bytes;
}

/* Of the pool, in this process. */
static uint64_t mapped_bytes(void)
{
	uint64_t mapped = 0;

	assert_int_equal(memory_each_mapping(pool_fd, add_mapping, &mapped), 0);
	return mapped;
}

static void a_quiet_process_keeps_nothing_of_the_pool(void **state)
{
	char *memory = some_memory(3 * BYTES), *middle = memory + BYTES;
	unsigned lines, round;

	memory_release(pool, POOL, -1);
	pool = NULL;
	memset(memory, 1, 3 * BYTES);
	lines = map_lines();
	for (round = 0; round < 50; round++) {
		char *part = middle + round % 20 * MEMORY_PAGE;

		memset(part, (int)round, 4 * MEMORY_PAGE);
		assert_int_equal(memory_share(part, 4 * MEMORY_PAGE, pool_fd, 0), 0);
		part[1] = 'x';
		assert_int_equal(memory_unshare(pool_fd, 0, BYTES, true, &stays), 0);
		assert_false(stays);
		memory_punch(pool_fd, 0, BYTES);
		assert_int_equal(part[0], (char)round);
		assert_int_equal(part[1], 'x');
		assert_int_equal(mapped_bytes(), 0);
	}
	assert_in_range(map_lines(), lines, lines + 2);
	assert_int_equal(memory[0], 1);
	assert_int_equal(memory[3 * BYTES - 1], 1);
	munmap(memory, 3 * BYTES);
}

static void rights_survive_the_way_back(void **state)
{
	int quiet;

	memory_release(pool, POOL, -1);
	pool = NULL;
	for (quiet = 0; quiet < 2; quiet++) {
		char *memory = some_memory(4 * MEMORY_PAGE);
		int pipe_fd[2];

		memset(memory, 4, 4 * MEMORY_PAGE);
		assert_int_equal(memory_share(memory, 4 * MEMORY_PAGE, pool_fd, 0), 0);
		mprotect(memory + MEMORY_PAGE, MEMORY_PAGE, PROT_READ);
		mprotect(memory + 2 * MEMORY_PAGE, MEMORY_PAGE, PROT_NONE);
		assert_int_equal(memory_unshare(pool_fd, 0, POOL, quiet, &stays), 0);
		memory_punch(pool_fd, 0, POOL);
		assert_int_equal(memory[MEMORY_PAGE], 4);
		assert_int_equal(pipe(pipe_fd), 0);
		assert_int_equal(write(pipe_fd[1], "ab", 2), 2);
		assert_int_equal(read(pipe_fd[0], memory + MEMORY_PAGE, 1), -1);
		assert_int_equal(write(pipe_fd[1], memory + 2 * MEMORY_PAGE, 1), -1);
		assert_int_equal(read(pipe_fd[0], memory, 1), 1);
		mprotect(memory + 2 * MEMORY_PAGE, MEMORY_PAGE, PROT_READ);
		assert_int_equal(memory[2 * MEMORY_PAGE + 7], 4);
		close(pipe_fd[0]);
		close(pipe_fd[1]);
		munmap(memory, 4 * MEMORY_PAGE);
	}
}

/* Where /proc cannot be read nobody knows what is shared: nothing may be given up then. */
static void without_maps_nothing_is_called_private(void **state)
{
	char *memory = some_memory(BYTES);

	memset(memory, 9, BYTES);
	assert_int_equal(memory_share(memory, BYTES, pool_fd, 0), 0);
	fail_set(FAIL_PROC, 1, EMFILE);
	assert_int_equal(memory_unshare(pool_fd, 0, BYTES, false, &stays), EMFILE);
	fail_set(FAIL_PROC, 1, EMFILE);
	assert_false(memory_is_ordinary(memory, BYTES, pool_fd));
	fail_clear();
	assert_true(memory_is_shared(memory, BYTES, pool_fd, 0));
	munmap(memory, BYTES);
}

static void what_was_mapped_over_it_is_no_part_of_the_pool(void **state)
{
	char *memory = some_memory(BYTES);

	assert_int_equal(memory_share(memory, BYTES, pool_fd, MEMORY_PAGE), 0);
	assert_true(memory_is_shared(memory, BYTES, pool_fd, MEMORY_PAGE));
	assert_true(memory_is_shared(memory + MEMORY_PAGE, MEMORY_PAGE, pool_fd, 2 * MEMORY_PAGE));
	assert_false(memory_is_shared(memory, BYTES, pool_fd, 0));
	munmap(memory + 2 * MEMORY_PAGE, MEMORY_PAGE);
	assert_false(memory_is_shared(memory, BYTES, pool_fd, MEMORY_PAGE));
	assert_ptr_equal(mmap(memory + 2 * MEMORY_PAGE, MEMORY_PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), memory + 2 * MEMORY_PAGE);
	assert_false(memory_is_shared(memory, BYTES, pool_fd, MEMORY_PAGE));
	munmap(memory, BYTES);
}

static void a_child_has_nothing_of_the_pool(void **state)
{
	char *shared = some_memory(BYTES), *once = some_memory(BYTES);
	int status;
	pid_t pid;

	memory_release(pool, POOL, -1);
	pool = NULL;
	memset(shared, 1, BYTES - MEMORY_PAGE);
	memset(once, 2, BYTES - MEMORY_PAGE);
	assert_int_equal(memory_share(shared, BYTES, pool_fd, 0), 0);
	assert_int_equal(memory_share(once, BYTES, pool_fd, BYTES), 0);
	assert_int_equal(memory_unshare(pool_fd, BYTES, BYTES, false, &stays), 0);
	memory_punch(pool_fd, BYTES, BYTES);
	assert_int_equal(mapped_bytes(), 2 * BYTES);
	pid = fork();
	if (!pid) {
		char *again = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, pool_fd, 0);

		if (memory_leave(pool_fd))
			_exit(1);
		memset(again, 7, 2 * BYTES);	/* leave() took it too: it is the child's alone */
		if (shared[0] != 1 || once[0] != 2 || shared[BYTES - 1] || once[BYTES - 1])
			_exit(2);
		if (mapped_bytes())
			_exit(3);
		memset(shared, 8, BYTES);
		memset(once, 8, BYTES);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(shared[0], 1);
	assert_int_equal(once[0], 2);
	munmap(shared, BYTES);
	munmap(once, BYTES);
}

static void *wait_for_release(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

static void threads_are_counted(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	unsigned before = memory_thread_count();
	pthread_t thread;

	assert_true(before >= 1);
	pthread_mutex_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_release, &lock), 0);
	assert_int_equal(memory_thread_count(), before + 1);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_was_written_is_shared_and_private_again),
		TEST(pages_are_found_where_they_were_moved_to),
		TEST(no_write_is_lost_on_the_way_back),
		TEST(untouched_pages_cost_nothing),
		TEST(part_of_the_heap_can_be_exchanged),
		TEST(what_is_not_ordinary_is_told_apart),
		TEST(pages_are_found_in_both_places_where_they_are),
		TEST(a_limit_of_file_sizes_is_no_signal),
		TEST(failures_change_nothing),
		TEST(threads_are_counted),
		TEST(a_quiet_process_keeps_nothing_of_the_pool),
		TEST(rights_survive_the_way_back),
		TEST(without_maps_nothing_is_called_private),
		TEST(what_was_mapped_over_it_is_no_part_of_the_pool),
		TEST(a_child_has_nothing_of_the_pool),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	areas_by_text = true;
	return failed + cmocka_run_group_tests_name("by text", tests, NULL, NULL);
}
