/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grants: what the kernel lets a peer do with the descriptor that it gets. The peer is a child of
 * fork(), which has nothing else of the block, as this user and (for root) as another.
 */
#include "local/block/block_test.h"

#include <stdio.h>
#include <sys/stat.h>

#define NOBODY 65534

static bool can_map(int fd, int protection, int flags)
{
	void *mapped = mmap(NULL, PAGE, protection, flags, fd, 0);

	if (mapped != MAP_FAILED)
		munmap(mapped, PAGE);
	return mapped != MAP_FAILED;
}

static bool can_open_again(int fd, int flags)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags);
	if (again >= 0)
		close(again);
	return again >= 0;
}

static bool can_make_writable(int fd)
{
	void *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

	return mapped != MAP_FAILED && !mprotect(mapped, PAGE, PROT_READ | PROT_WRITE);
}

/* Reopening it for writing gives no more rights. */
static bool can_write_again(int fd)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR);
	return again >= 0 &&
	       (write(again, "x", 1) == 1 || can_map(again, PROT_READ | PROT_WRITE, MAP_SHARED));
}

/* 0, or the line of the first thing that is not as it should be. */
#define PEER_EXPECTS(condition) do { if (!(condition)) return __LINE__ & 0xff; } while (0)

static int peer_reads(int fd)
{
	const uint8_t *memory = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);

	PEER_EXPECTS(memory != MAP_FAILED && memory[PAGE] == 42);
	PEER_EXPECTS(!can_map(fd, PROT_READ | PROT_WRITE, MAP_SHARED));
	PEER_EXPECTS(!can_map(fd, PROT_WRITE, MAP_SHARED));
	PEER_EXPECTS(!can_make_writable(fd));
	PEER_EXPECTS(pwrite(fd, "x", 1, 0) == -1 && errno == EPERM);
	PEER_EXPECTS(!can_write_again(fd));
	PEER_EXPECTS(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == -1);
	PEER_EXPECTS(ftruncate(fd, PAGE) == -1 && ftruncate(fd, 3 * PAGE) == -1);
	PEER_EXPECTS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM);
	return 0;
}

static int peer_writes(int fd)
{
	uint8_t *memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	PEER_EXPECTS(memory != MAP_FAILED && memory[PAGE] == 42);
	memory[PAGE] = 43;
	PEER_EXPECTS(ftruncate(fd, PAGE) == -1 && ftruncate(fd, 3 * PAGE) == -1);
	PEER_EXPECTS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM);
	PEER_EXPECTS(fcntl(fd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */) == -1 &&
		     errno == EPERM);
	return 0;
}

static int peer_of_another_user(int fd)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return 1;
	PEER_EXPECTS(!can_open_again(fd, O_RDWR) && !can_open_again(fd, O_RDONLY));
	return peer_reads(fd);
}

/* Grants the block and runs @peer with the descriptor. */
static int run_peer(struct block *block, bool writable, int (*peer)(int fd))
{
	int status, fd = -1;
	pid_t pid;

	assert_int_equal(block_grant(block, writable, &fd), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	pid = fork();
	if (!pid)
		_exit(peer(fd));
	status = child_status(pid);
	close(fd);
	return status;
}

static uint8_t *block_of_42(struct block **block)
{
	uint8_t *memory = new_block(2 * PAGE);

	memory[PAGE] = 42;
	*block = block_get(memory, 2 * PAGE);
	assert_non_null(*block);
	return memory;
}

static void a_reader_can_do_nothing_but_read(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);

	assert_int_equal(run_peer(block, false, peer_reads), 0);
	memory[PAGE] = 41;				/* the owner goes on writing */
	assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
	memory[0] = 1;
	memory[PAGE] = 42;
	assert_int_equal(run_peer(block, false, peer_reads), 0);
	block_put(block);
	block_free(memory);
}

static void a_reader_of_another_user_cannot_open_it_again(void **state)
{
	struct block *block;
	uint8_t *memory;

	if (geteuid()) {
		print_message("only root can become another user\n");
		skip();
	}
	memory = block_of_42(&block);
	assert_int_equal(run_peer(block, false, peer_of_another_user), 0);
	block_put(block);
	block_free(memory);
}

static void what_a_writer_stores_is_in_the_block(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);

	assert_int_equal(run_peer(block, true, peer_writes), 0);
	assert_int_equal(memory[PAGE], 43);
	block_put(block);
	block_free(memory);
}

static void the_first_grant_decides_for_life(void **state)
{
	for (unsigned writable = 0; writable < 2; writable++) {
		struct block *block;
		uint8_t *memory = block_of_42(&block);
		int fd = -1, other = -5;

		assert_int_equal(block_grant(block, writable, &fd), 0);
		close(fd);
		assert_int_equal(block_grant(block, !writable, &other), EPERM);
		assert_int_equal(other, -5);
		assert_int_equal(block_grant(block, writable, &fd), 0);
		close(fd);
		block_put(block);
		block_free(memory);
	}
}

static void a_kernel_without_the_seal_grants_writing_only(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);
	int fd = -5;

	fail_set(FAIL_SEAL, 1, EINVAL);
	assert_int_equal(block_grant(block, false, &fd), EOPNOTSUPP);
	assert_int_equal(fd, -5);
	assert_int_equal(block_grant(block, true, &fd), 0);
	close(fd);
	block_put(block);
	block_free(memory);
}

static void a_closed_descriptor_is_never_replaced_by_another_file(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);
	int fd = -5, ours = block->fd;
	unsigned before;

	close(ours);
	before = open_fds(0, 20000);
	assert_int_equal(block_grant(block, true, &fd), EBADF);
	assert_int_equal(fcntl(0, F_DUPFD_CLOEXEC, ours), ours);
	assert_int_equal(block_grant(block, true, &fd), EBADF);
	assert_int_equal(fd, -5);
	assert_int_equal(open_fds(0, 20000), before + 1);
	close(ours);
	block_put(block);
	block_free(memory);
}

static void a_block_is_granted_as_a_whole_or_not_at_all(void **state)
{
	uint8_t *memory = new_block(3 * PAGE);
	struct block *block = block_get(memory + 100, 3 * PAGE - 200);

	assert_non_null(block);
	assert_ptr_equal(block_memory(block), memory);
	assert_int_equal(block_bytes(block), 3 * PAGE);
	block_put(block);
	assert_null(block_get(memory, 2 * PAGE));
	assert_null(block_get(memory, 3 * PAGE + 1));
	assert_null(block_get(memory + PAGE, 2 * PAGE));
	assert_null(block_get(memory, 0));
	assert_null(block_get(memory, SIZE_MAX));
	assert_null(block_get(&memory, 1));
	block_free(memory);
}

static void a_reference_outlives_the_memory(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block), *other;
	int fd = -5;

	assert_ptr_equal(block_get(memory, 2 * PAGE), block);
	assert_true(block_free(memory));
	assert_int_equal(block_grant(block, true, &fd), ENOENT);
	assert_int_equal(fd, -5);
	assert_int_equal(blocks_now(), 1);
	assert_int_equal(bytes_now(), 0);
	other = new_block(2 * PAGE);
	assert_ptr_not_equal(block_get(other, 2 * PAGE), block); /* its place is not given away */
	block_put(block);
	assert_int_equal(blocks_now(), 2);
	block_put(block);
	assert_int_equal(blocks_now(), 1);
	block_free(other);
}

static void stores_after_free_reach_nobody(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block), *theirs, *next;
	int fd;

	assert_int_equal(block_grant(block, true, &fd), 0);
	theirs = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(theirs != MAP_FAILED);
	close(fd);
	block_free(memory);
	block_put(block);
	next = new_block(2 * PAGE);
	memset(theirs, 0xee, 2 * PAGE);
	for (unsigned i = 0; i < 2 * PAGE; i++)
		assert_int_equal(next[i], 0);
	munmap(theirs, 2 * PAGE);
	block_free(next);
}

static void stores_after_the_end_of_a_grant_reach_nobody(void **state)
{
	struct block *block;
	unsigned before = blocks_now();
	uint8_t *memory = block_of_42(&block), *theirs;
	int fd;

	assert_int_equal(block_grant(block, true, &fd), 0);
	theirs = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(theirs != MAP_FAILED);
	close(fd);
	assert_int_equal(block_make_private(block), EINVAL);
	block_withdraw(block);
	assert_int_equal(block_grant(block, true, &fd), EBADF);
	assert_null(block_get(memory, 2 * PAGE));
	theirs[1] = 17;		/* the last that comes */
	assert_int_equal(block_make_private(block), 0);
	assert_int_equal(memory[1], 17);
	assert_int_equal(memory[PAGE], 42);
	memset(theirs, 0xee, 2 * PAGE);
	assert_int_equal(memory[1], 17);
	assert_int_equal(memory[PAGE], 42);
	memory[2] = 18;
	assert_int_equal(theirs[2], 0xee);
	assert_int_equal(block_make_private(block), 0);
	munmap(theirs, 2 * PAGE);
	block_put(block);
	assert_true(block_free(memory));
	assert_int_equal(blocks_now(), before);
}

/* To a child it is ordinary memory. */
static void private_pages_are_forked(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);
	pid_t pid;
	int fd;

	assert_int_equal(block_grant(block, true, &fd), 0);
	close(fd);
	block_withdraw(block);
	assert_int_equal(block_make_private(block), 0);
	pid = fork();
	if (!pid) {
		memory[PAGE]++;
		_exit(memory[PAGE]);
	}
	assert_int_equal(child_status(pid), 43);
	assert_int_equal(memory[PAGE], 42);
	block_put(block);
	block_free(memory);
}

static void pages_that_are_protected_stay(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);
	int fd;

	assert_int_equal(block_grant(block, true, &fd), 0);
	close(fd);
	block_withdraw(block);
	assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
	assert_int_equal(block_make_private(block), EACCES);
	assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
	fail_set(FAIL_MMAP, 1, ENOMEM);
	assert_int_equal(block_make_private(block), ENOMEM);
	assert_int_equal(memory[PAGE], 42);
	block_put(block);
	block_free(memory);
}

static void a_failed_duplicate_is_an_error(void **state)
{
	struct block *block;
	uint8_t *memory = block_of_42(&block);
	int fd = -5;

	fail_set(FAIL_DUP, 1, EMFILE);
	assert_int_equal(block_grant(block, true, &fd), EMFILE);
	assert_int_equal(fd, -5);
	block_put(block);
	block_free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_can_do_nothing_but_read),
		cmocka_unit_test(a_reader_of_another_user_cannot_open_it_again),
		cmocka_unit_test(what_a_writer_stores_is_in_the_block),
		cmocka_unit_test(the_first_grant_decides_for_life),
		cmocka_unit_test(a_kernel_without_the_seal_grants_writing_only),
		cmocka_unit_test(a_closed_descriptor_is_never_replaced_by_another_file),
		cmocka_unit_test(a_block_is_granted_as_a_whole_or_not_at_all),
		cmocka_unit_test(a_reference_outlives_the_memory),
		cmocka_unit_test(stores_after_free_reach_nobody),
		cmocka_unit_test(stores_after_the_end_of_a_grant_reach_nobody),
		cmocka_unit_test(private_pages_are_forked),
		cmocka_unit_test(pages_that_are_protected_stay),
		cmocka_unit_test(a_failed_duplicate_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
