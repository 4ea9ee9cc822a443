/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks as memory: where they are, what they hold, how many there may be, and that failures leave
 * nothing behind.
 */
#include "local/block/block_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void set_limit(int resource, rlim_t value)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(resource, &limit), 0);
	limit.rlim_cur = value;
	assert_int_equal(setrlimit(resource, &limit), 0);
}

static void a_block_is_zeros_at_the_alignment_that_was_asked_for(void **state)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 100000, 3u << 20 };
	void *memory;

	for (size_t alignment = 1; alignment <= 4u << 20; alignment *= 2) {
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			size_t bytes = block_round_up(sizes[i] ? sizes[i] : 1, PAGE);

			assert_int_equal(block_alloc(sizes[i], alignment, &memory), 0);
			assert_int_equal((uintptr_t)memory % alignment, 0);
			assert_int_equal((uintptr_t)memory % PAGE, 0);
			assert_int_equal(block_size(memory), bytes);
			for (size_t at = 0; at < bytes; at += 1000)
				assert_int_equal(((uint8_t *)memory)[at], 0);
			memset(memory, 1, bytes);
			assert_true(block_free(memory));
		}
	}
	assert_int_equal(blocks_now(), 0);
	assert_int_equal(bytes_now(), 0);
}

static void alignments_that_are_no_power_of_two_are_refused(void **state)
{
	void *memory = &memory;

	assert_int_equal(block_alloc(1, 0, &memory), EINVAL);
	assert_int_equal(block_alloc(1, 12288, &memory), EINVAL);
	assert_ptr_equal(memory, &memory);
}

static void sizes_beyond_all_memory_are_refused(void **state)
{
	void *memory;

	assert_int_equal(block_alloc(SIZE_MAX, PAGE, &memory), ENOMEM);
	assert_int_equal(block_alloc(SIZE_MAX / 2, PAGE, &memory), ENOMEM);
	assert_int_equal(block_alloc(1, (SIZE_MAX >> 1) + 1, &memory), ENOMEM);
	assert_int_equal(bytes_now(), 0);
}

static void the_page_behind_a_block_is_a_guard(void **state)
{
	uint8_t *memory = new_block(3 * PAGE);

	assert_true(is_readable(memory + 3 * PAGE - 1));
	assert_false(is_readable(memory + 3 * PAGE));
	block_free(memory);
}

static void what_is_no_block_is_left_alone(void **state)
{
	uint8_t *memory = new_block(2 * PAGE), *other = NULL;
	int local;

	assert_int_equal(posix_memalign((void **)&other, PAGE, PAGE), 0);
	for (unsigned i = 0; i < 2; i++) {	/* with blocks, and without any */
		assert_false(block_free(NULL));
		assert_false(block_free(&local));
		assert_false(block_free(other));
		assert_false(block_free(memory + 1));
		assert_false(block_free(memory + PAGE));
		assert_int_equal(block_size(other), 0);
		assert_int_equal(block_size(memory + PAGE), 0);
		if (!i)
			assert_true(block_free(memory));
	}
	assert_false(block_free(memory));
	free(other);
}

static void free_keeps_errno_and_closes_the_descriptor(void **state)
{
	unsigned low = open_fds(0, BLOCK_FD_FROM);
	uint8_t *memory = new_block(PAGE);

	assert_int_equal(open_fds(0, 1024), low);
	errno = ERANGE;
	assert_true(block_free(memory));
	assert_int_equal(errno, ERANGE);
	assert_false(is_readable(memory));
	assert_int_equal(open_fds(0, 20000), low);
}

static void many_blocks_are_told_apart(void **state)
{
	uint8_t *memory[200];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 200; i++) {
			memory[i] = new_block((1 + i % 7) * PAGE);
			memory[i][PAGE - 1] = (uint8_t)i;
		}
		for (unsigned i = 0; i < 200; i++) {
			unsigned n = i * 37 % 200;

			assert_int_equal(block_size(memory[n]), (1 + n % 7) * PAGE);
			assert_int_equal(memory[n][PAGE - 1], (uint8_t)n);
			assert_true(block_free(memory[n]));
			assert_int_equal(block_size(memory[n]), 0);
		}
	}
	assert_int_equal(blocks_now(), 0);
}

/* A quarter of RLIMIT_NOFILE; in a child, which has its own limits. */
static int use_up_the_blocks(unsigned limit, unsigned wanted)
{
	void *memory[BLOCKS_MAX];
	unsigned count = 0;

	close_range(3, ~0u, 0);			/* what the test was started with may be anywhere */
	set_limit(RLIMIT_NOFILE, limit);
	while (count < BLOCKS_MAX && !block_alloc(1, 1, &memory[count]))
		count++;
	if (count != wanted)
		return 1;
	if (open_fds(3, (int)(limit - limit / 4)))
		return 4;
	while (count)
		if (!block_free(memory[--count]))
			return 2;
	return block_alloc(1, 1, memory) ? 3 : 0;	/* there is room again */
}

static void the_budget_is_a_quarter_of_the_descriptors_and_512_at_most(void **state)
{
	static const struct {
		unsigned limit, blocks;
	} row[] = { { 256, 64 }, { 1024, 256 }, { 4000, 512 } };
	struct rlimit limit;

	for (unsigned i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(use_up_the_blocks(row[i].limit, row[i].blocks));
		assert_int_equal(child_status(pid), 0);
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	assert_true(limit.rlim_cur >= 1024);
}

static void the_budget_of_bytes_is_half_of_the_memory(void **state)
{
	struct block_budget budget;
	void *memory, *rest;

	block_budget(&budget);
	assert_int_equal(budget.bytes_max, (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * PAGE);
	assert_int_equal(block_alloc(budget.bytes_max + PAGE, PAGE, &memory), ENOMEM);
	assert_int_equal(block_alloc(budget.bytes_max - PAGE, PAGE, &memory), 0);
	assert_int_equal(block_alloc(2 * PAGE, PAGE, &rest), ENOMEM);
	assert_int_equal(block_alloc(PAGE, PAGE, &rest), 0);
	assert_true(block_free(memory));
	assert_true(block_free(rest));
	assert_int_equal(bytes_now(), 0);
}

static void a_file_size_limit_is_no_signal(void **state)
{
	pid_t pid = fork();
	void *memory;

	if (!pid) {
		set_limit(RLIMIT_FSIZE, 10 * PAGE);
		if (block_alloc(11 * PAGE, PAGE, &memory) != ENOMEM)
			_exit(1);
		_exit(block_alloc(10 * PAGE, PAGE, &memory) ? 2 : 0);
	}
	assert_int_equal(child_status(pid), 0);
}

static void each_failure_leaves_nothing_behind(void **state)
{
	static const struct {
		enum fail_point point;
		unsigned calls;
	} row[] = {
		{ FAIL_MEMFD, 1 }, { FAIL_DUP, 1 },  { FAIL_FTRUNCATE, 1 },
		{ FAIL_SEAL, 1 },  { FAIL_MMAP, 2 }, { FAIL_MADVISE, 1 },
	};
	unsigned before = open_fds(0, 20000);
	void *memory = &memory;

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		for (unsigned nth = 1; nth <= row[i].calls; nth++) {
			fail_set(row[i].point, nth, EPERM);
			errno = ERANGE;
			assert_int_equal(block_alloc(5 * PAGE, PAGE, &memory), ENOMEM);
			assert_int_equal(errno, ERANGE);
			assert_ptr_equal(memory, &memory);
			assert_int_equal(open_fds(0, 20000), before);
			assert_int_equal(blocks_now(), 0);
			assert_int_equal(bytes_now(), 0);
		}
	}
	fail_clear();
	assert_int_equal(block_alloc(5 * PAGE, PAGE, &memory), 0);
	block_free(memory);
}

static void the_application_may_close_our_descriptor(void **state)
{
	uint8_t *memory = new_block(PAGE);
	struct block *block = block_get(memory, PAGE);
	int other, fd = block->fd;

	memory[7] = 7;
	close(fd);
	other = fcntl(0, F_DUPFD_CLOEXEC, fd); /* something of the application's in its place */
	assert_int_equal(other, fd);
	block_put(block);
	assert_int_equal(memory[7], 7);
	assert_true(block_free(memory));
	assert_true(fcntl(other, F_GETFD) >= 0);
	close(other);
}

static void the_descriptor_is_close_on_exec_sealed_and_ours_alone(void **state)
{
	uint8_t *memory = new_block(2 * PAGE);
	struct block *block = block_get(memory, 2 * PAGE);
	struct stat status;

	assert_int_equal(fcntl(block->fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(block->fd, F_GET_SEALS) &
				 (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(fstat(block->fd, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(status.st_size, 2 * PAGE);
	assert_int_equal(ftruncate(block->fd, PAGE), -1);
	assert_int_equal(ftruncate(block->fd, 3 * PAGE), -1);
	block_put(block);
	block_free(memory);
}

static void resizing_keeps_contents_and_adds_zeros(void **state)
{
	uint8_t *memory = new_block(3 * PAGE), *moved;

	memset(memory, 5, 3 * PAGE);
	assert_ptr_equal(block_resize(memory, 2 * PAGE + 1), memory);
	moved = block_resize(memory, 10 * PAGE);
	assert_non_null(moved);
	assert_int_equal(block_size(moved), 10 * PAGE);
	assert_int_equal(block_size(memory), 0);
	for (unsigned i = 0; i < 10 * PAGE; i++)
		assert_int_equal(moved[i], i < 3 * PAGE ? 5 : 0);
	moved = block_resize(moved, PAGE - 1);
	assert_int_equal(block_size(moved), PAGE);
	assert_int_equal(moved[PAGE - 2], 5);
	assert_int_equal(blocks_now(), 1);
	block_free(moved);
}

static void a_resize_that_fails_changes_nothing(void **state)
{
	uint8_t *memory = new_block(3 * PAGE);

	memset(memory, 5, 3 * PAGE);
	fail_set(FAIL_MEMFD, 1, EMFILE);
	errno = 0;
	assert_null(block_resize(memory, 4 * PAGE));
	assert_int_equal(errno, ENOMEM);
	fail_set(FAIL_MEMFD, 1, EMFILE);
	assert_ptr_equal(block_resize(memory, 1), memory);	/* smaller: it may stay */
	assert_int_equal(block_size(memory), 3 * PAGE);
	assert_int_equal(memory[3 * PAGE - 1], 5);
	errno = 0;
	assert_null(block_resize(memory, SIZE_MAX));
	assert_int_equal(errno, ENOMEM);
	assert_null(block_resize(&memory, 1));
	assert_int_equal(errno, EINVAL);
	block_free(memory);
}

static void locked_pages_stay_locked_until_they_are_freed(void **state)
{
	uint8_t *memory = new_block(4 * PAGE);

	assert_int_equal(mlock(memory, 4 * PAGE), 0);
	memory[PAGE] = 1;
	assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(munlock(memory, 4 * PAGE), 0);
	assert_int_equal(memory[PAGE], 1);
	block_free(memory);
}

struct stress {
	unsigned seed;
	bool bad;
};

/* Blocks of several threads, freed by any thread that has them. */
static uint8_t *_Atomic exchange[16];

static void *stress_thread(void *argument)
{
	struct stress *stress = argument;

	for (unsigned i = 0; i < 3000; i++) {
		unsigned slot = (unsigned)rand_r(&stress->seed) % 16;
		size_t bytes = (1 + (unsigned)rand_r(&stress->seed) % 5) * PAGE;
		uint8_t *old, *memory;
		void *made;

		if (block_alloc(bytes, PAGE, &made))
			continue;
		memory = made;
		stress->bad |= memory[0] || memory[bytes - 1];
		memory[0] = memory[bytes - 1] = (uint8_t)(bytes / PAGE);
		old = atomic_exchange(&exchange[slot], memory);
		if (!old)
			continue;
		bytes = block_size(old);
		stress->bad |=
			old[0] != bytes / PAGE || old[bytes - 1] != old[0] || !block_free(old);
	}
	return NULL;
}

static void threads_allocate_and_free_at_once(void **state)
{
	struct stress stress[4] = { { 1 }, { 2 }, { 3 }, { 4 } };
	pthread_t thread[4];

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, stress_thread, &stress[i]), 0);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		assert_false(stress[i].bad);
	}
	for (unsigned i = 0; i < 16; i++)
		block_free(exchange[i]);
	assert_int_equal(blocks_now(), 0);
	assert_int_equal(bytes_now(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_is_zeros_at_the_alignment_that_was_asked_for),
		cmocka_unit_test(alignments_that_are_no_power_of_two_are_refused),
		cmocka_unit_test(sizes_beyond_all_memory_are_refused),
		cmocka_unit_test(the_page_behind_a_block_is_a_guard),
		cmocka_unit_test(what_is_no_block_is_left_alone),
		cmocka_unit_test(free_keeps_errno_and_closes_the_descriptor),
		cmocka_unit_test(many_blocks_are_told_apart),
		cmocka_unit_test(the_budget_is_a_quarter_of_the_descriptors_and_512_at_most),
		cmocka_unit_test(the_budget_of_bytes_is_half_of_the_memory),
		cmocka_unit_test(a_file_size_limit_is_no_signal),
		cmocka_unit_test(each_failure_leaves_nothing_behind),
		cmocka_unit_test(the_application_may_close_our_descriptor),
		cmocka_unit_test(the_descriptor_is_close_on_exec_sealed_and_ours_alone),
		cmocka_unit_test(resizing_keeps_contents_and_adds_zeros),
		cmocka_unit_test(a_resize_that_fails_changes_nothing),
		cmocka_unit_test(locked_pages_stay_locked_until_they_are_freed),
		cmocka_unit_test(threads_allocate_and_free_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
