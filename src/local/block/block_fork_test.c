/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork() with blocks: children have their own copies, whatever fails, and nothing is left in
 * parents.
 */
#include "local/block/block_test.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>

#define CHILD_EXPECTS(condition) do { if (!(condition)) _exit(__LINE__ & 0xff); } while (0)

extern char **environ;

/* Lines of /proc/self/maps. */
static unsigned mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned count = 0;
	int letter;

	while (file && (letter = fgetc(file)) != EOF)
		count += letter == '\n';
	if (file)
		fclose(file);
	return count;
}

static void a_child_has_a_copy_of_its_own(void **state)
{
	uint8_t *memory = new_block(64 * PAGE);
	struct block *block;
	unsigned before;
	int turn[2];
	pid_t pid;

	assert_int_equal(pipe(turn), 0);
	mappings();			/* its buffer is there from now on */
	before = mappings();
	memory[0] = 1;
	memory[63 * PAGE] = 2;
	pid = fork();
	if (!pid) {
		char byte;

		CHILD_EXPECTS(read(turn[0], &byte, 1) == 1); /* the parent has stored meanwhile */
		CHILD_EXPECTS(memory[0] == 1 && memory[63 * PAGE] == 2 && memory[5 * PAGE] == 0);
		memset(memory, 9, 64 * PAGE);
		CHILD_EXPECTS(block_size(memory) == 64 * PAGE);
		CHILD_EXPECTS(!block_get(memory, 64 * PAGE));
		CHILD_EXPECTS(block_free(memory) && blocks_now() == 0 && !is_readable(memory));
		_exit(0);
	}
	memory[0] = 3;
	assert_int_equal(write(turn[1], "x", 1), 1);
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(memory[0], 3);
	assert_int_equal(memory[63 * PAGE], 2);
	assert_int_equal(mappings(), before);
	block = block_get(memory, 64 * PAGE);
	assert_non_null(block);
	block_put(block);
	close(turn[0]);
	close(turn[1]);
	assert_true(block_free(memory));
}

static void grandchildren_have_it_as_ordinary_memory(void **state)
{
	uint8_t *memory = new_block(4 * PAGE), *later;
	pid_t pid;

	memory[0] = 1;
	pid = fork();
	if (!pid) {
		memory[0] = 2;
		later = new_block(PAGE);
		later[0] = 5;
		pid = fork();
		if (!pid) {
			CHILD_EXPECTS(memory[0] == 2 && later[0] == 5);
			memory[0] = later[0] = 6;
			CHILD_EXPECTS(block_free(memory) && block_free(later) && !blocks_now());
			_exit(0);
		}
		CHILD_EXPECTS(child_status(pid) == 0);
		CHILD_EXPECTS(memory[0] == 2 && later[0] == 5);
		_exit(0);
	}
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(memory[0], 1);
	block_free(memory);
}

static void a_child_does_not_keep_the_descriptors(void **state)
{
	uint8_t *memory = new_block(PAGE);
	unsigned before = open_fds(3, 20000);
	pid_t pid = fork();

	if (!pid)
		_exit(open_fds(3, 20000) != before - 1);
	assert_int_equal(child_status(pid), 0);
	block_free(memory);
}

static void without_our_descriptor_the_mapping_is_copied(void **state)
{
	uint8_t *memory = new_block(300 * PAGE);
	struct block *block = block_get(memory, 300 * PAGE);
	pid_t pid;

	memory[299 * PAGE] = 7;
	close(block->fd);
	pid = fork();
	if (!pid) {
		CHILD_EXPECTS(memory[0] == 0 && memory[299 * PAGE] == 7);
		memory[0] = 1;
		_exit(0);
	}
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(memory[0], 0);
	block_put(block);
	block_free(memory);
}

static void pages_that_cannot_be_read_do_not_stop_fork(void **state)
{
	uint8_t *memory = new_block(4 * PAGE);
	pid_t pid;

	memset(memory, 3, 4 * PAGE);
	assert_int_equal(mprotect(memory + PAGE, PAGE, PROT_NONE), 0);
	pid = fork();
	if (!pid)
		_exit(memory[0] != 3 || memory[2 * PAGE] != 3);
	assert_int_equal(child_status(pid), 0);
	block_free(memory);
}

static int child_reads(const uint8_t *memory)
{
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(const volatile uint8_t *)memory != 1);
	}
	return child_status(pid);
}

static void where_no_copy_can_be_made_the_child_has_a_hole(void **state)
{
	uint8_t *memory = new_block(PAGE);

	memory[0] = 1;
	for (unsigned nth = 1; nth <= 2; nth++) {	/* the snapshot, the copy */
		fail_set(FAIL_MMAP, nth, ENOMEM);
		assert_int_equal(child_reads(memory), -SIGSEGV);
		fail_clear();
		assert_int_equal(child_reads(memory), 0);
	}
	block_free(memory);
}

static void where_the_copy_cannot_be_moved_the_child_has_a_hole(void **state)
{
	uint8_t *memory = new_block(PAGE);
	pid_t pid;

	memory[0] = 1;
	fail_set(FAIL_MREMAP, 1, ENOMEM);	/* counted down in the child */
	pid = fork();
	if (!pid) {
		CHILD_EXPECTS(!is_readable(memory));
		CHILD_EXPECTS(block_size(memory) == PAGE && block_free(memory) && !blocks_now());
		_exit(0);
	}
	fail_clear();
	assert_int_equal(child_status(pid), 0);
	block_free(memory);
}

static void a_child_of_a_bare_clone_has_a_hole(void **state)
{
	uint8_t *memory = new_block(PAGE);
	pid_t pid;

	memory[0] = 1;
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile uint8_t *)memory = 2;
		_exit(0);
	}
	assert_int_equal(child_status(pid), -SIGSEGV);
	assert_int_equal(memory[0], 1);
	block_free(memory);
}

static void dontfork_saves_the_copy_and_dofork_never_shares(void **state)
{
	uint8_t *memory = new_block(PAGE);
	int err;

	memory[0] = 1;
	assert_true(block_advise(memory, PAGE, MADV_DONTFORK, &err));
	assert_int_equal(child_reads(memory), -SIGSEGV);
	assert_true(block_advise(memory, PAGE, MADV_DOFORK, &err));
	assert_int_equal(child_reads(memory), 0);
	block_free(memory);
}

static void trimmed_blocks_are_copied_where_they_are(void **state)
{
	uint8_t *memory = new_block(8 * PAGE);
	pid_t pid;

	for (unsigned i = 0; i < 8; i++)
		memory[i * PAGE] = (uint8_t)(i + 1);
	assert_true(block_unmap(memory, 2 * PAGE));
	assert_true(block_unmap(memory + 7 * PAGE, PAGE));
	assert_true(block_unmap(memory + 4 * PAGE, PAGE));
	memory += 2 * PAGE;
	pid = fork();
	if (!pid) {
		CHILD_EXPECTS(memory[0] == 3 && memory[PAGE] == 4 && memory[4 * PAGE] == 7);
		CHILD_EXPECTS(block_free(memory) && !blocks_now());
		_exit(0);
	}
	assert_int_equal(child_status(pid), 0);
	assert_true(block_free(memory));
}

static void references_are_the_childs_too(void **state)
{
	uint8_t *memory = new_block(PAGE), *freed = new_block(PAGE);
	struct block *live = block_get(memory, PAGE), *dead = block_get(freed, PAGE);
	int fd = -5;
	pid_t pid;

	block_free(freed);
	pid = fork();
	if (!pid) {
		CHILD_EXPECTS(block_grant(live, true, &fd) == EBADF);
		CHILD_EXPECTS(block_grant(dead, true, &fd) == ENOENT);
		CHILD_EXPECTS(block_memory(live) == memory && block_bytes(live) == PAGE);
		block_put(live);
		block_put(dead);
		CHILD_EXPECTS(blocks_now() == 1 && block_free(memory) && !blocks_now());
		_exit(0);
	}
	assert_int_equal(child_status(pid), 0);
	block_put(live);
	block_put(dead);
	block_free(memory);
	assert_int_equal(blocks_now(), 0);
}

/* Others' handlers run between ours and fork(), and may allocate. */
static void nobody_gets_a_block_while_a_thread_forks(void **state)
{
	void *memory;

	block_before_fork();
	assert_int_equal(block_alloc(PAGE, PAGE, &memory), ENOMEM);
	block_after_fork_parent();
	assert_int_equal(block_alloc(PAGE, PAGE, &memory), 0);
	block_free(memory);
}

static void a_second_caller_of_the_handlers_does_no_harm(void **state)
{
	uint8_t *memory = new_block(PAGE), *other;
	pid_t pid;

	memory[0] = 1;
	block_before_fork();
	pid = fork();
	if (!pid) {
		block_after_fork_child();
		CHILD_EXPECTS(memory[0] == 1);
		memory[0] = 2;
		other = new_block(PAGE);
		CHILD_EXPECTS(other[0] == 0 && block_free(other) && block_free(memory) &&
			      !blocks_now());
		_exit(0);
	}
	block_after_fork_parent();
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(memory[0], 1);
	block_free(memory);
}

static void spawned_programs_cost_no_copy(void **state)
{
	uint8_t *memory = new_block(PAGE);
	char name[] = "true", *arguments[] = { name, NULL };
	pid_t pid;

	memory[0] = 1;
	fail_set(FAIL_MMAP, 1, ENOMEM);		/* a copy would use it up */
	assert_int_equal(posix_spawnp(&pid, "true", NULL, NULL, arguments, environ), 0);
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(atomic_load(&fail_table[FAIL_MMAP].countdown), 1);
	fail_clear();
	assert_int_equal(memory[0], 1);
	block_free(memory);
}

static _Atomic bool stop;

static void *keep_allocating(void *unused)
{
	void *memory[8] = { NULL };

	for (unsigned i = 0; !atomic_load(&stop); i++) {
		block_free(memory[i % 8]);
		memory[i % 8] = NULL;
		if (!block_alloc(PAGE * (1 + i % 3), PAGE, &memory[i % 8]))
			*(uint8_t *)memory[i % 8] = 1;
	}
	for (unsigned i = 0; i < 8; i++)
		block_free(memory[i]);
	return NULL;
}

static void *keep_forking(void *unused)
{
	uint8_t *mine, *more;
	void *memory;
	long bad = 0;

	while (block_alloc(3 * PAGE, PAGE, &memory))
		;				/* the other one forks */
	mine = memory;
	for (unsigned i = 0; i < 100; i++) {
		pid_t pid;

		mine[PAGE] = (uint8_t)i;
		pid = fork();
		if (!pid) {
			CHILD_EXPECTS(mine[PAGE] == (uint8_t)i);
			mine[PAGE] = 200;
			more = new_block(PAGE);
			CHILD_EXPECTS(block_free(more) && block_free(mine));
			_exit(0);
		}
		bad += child_status(pid) || mine[PAGE] != (uint8_t)i;
	}
	block_free(mine);
	return (void *)bad;
}

static void threads_fork_while_others_allocate(void **state)
{
	pthread_t forking[2], allocating[2];
	void *bad;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&allocating[i], NULL, keep_allocating, NULL), 0);
		assert_int_equal(pthread_create(&forking[i], NULL, keep_forking, NULL), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(forking[i], &bad);
		assert_null(bad);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(allocating[i], NULL);
	assert_int_equal(blocks_now(), 0);
	assert_int_equal(bytes_now(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_has_a_copy_of_its_own),
		cmocka_unit_test(grandchildren_have_it_as_ordinary_memory),
		cmocka_unit_test(a_child_does_not_keep_the_descriptors),
		cmocka_unit_test(without_our_descriptor_the_mapping_is_copied),
		cmocka_unit_test(pages_that_cannot_be_read_do_not_stop_fork),
		cmocka_unit_test(where_no_copy_can_be_made_the_child_has_a_hole),
		cmocka_unit_test(where_the_copy_cannot_be_moved_the_child_has_a_hole),
		cmocka_unit_test(a_child_of_a_bare_clone_has_a_hole),
		cmocka_unit_test(dontfork_saves_the_copy_and_dofork_never_shares),
		cmocka_unit_test(trimmed_blocks_are_copied_where_they_are),
		cmocka_unit_test(references_are_the_childs_too),
		cmocka_unit_test(nobody_gets_a_block_while_a_thread_forks),
		cmocka_unit_test(a_second_caller_of_the_handlers_does_no_harm),
		cmocka_unit_test(spawned_programs_cost_no_copy),
		cmocka_unit_test(threads_fork_while_others_allocate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
