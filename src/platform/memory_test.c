/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory, blocks, and faults: those of copy_user() become EFAULT, all others reach whoever handled
 * the signal before, or end the process as they would without us. The latter are run in children.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/copy.h"
#include "platform/fail.h"
#include "platform/memory.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define CLAIMS_FAULTS (copy_fixup((uintptr_t)copy_user) || copy_fixup((uintptr_t)user_fetch_add))
#else
#define CLAIMS_FAULTS false
#endif

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static size_t page;

static int count_fds(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

#define SEALS_OF_SHARED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define SHARED_BYTES	(1u << 30)	/* sparse: costs what is touched */

static void *place_of(size_t bytes)
{
	void *place;

	assert_int_equal(memory_private(bytes, &place), 0);
	return place;
}

/* In a child that was forked. */
static bool child_has(const void *memory, size_t bytes)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(!memory_check(memory, bytes, false));
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

static void shared_memory_is_zeroed_and_where_it_was_asked_for(void **state)
{
	uint8_t *memory = place_of(SHARED_BYTES);
	size_t i;
	int fd;

	memory[12345] = 3;
	assert_int_equal(memory_shared("test", SHARED_BYTES, memory, &fd), 0);
	for (i = 0; i < SHARED_BYTES; i += SHARED_BYTES / 64)
		assert_int_equal(memory[i], 0);
	assert_int_equal(memory[12345], 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_false(child_has(memory, page));
	memory_release(memory, SHARED_BYTES, fd);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), -1);
}

/* @fd, which somebody was given: he reads what the owner writes, and can do nothing else. */
static void expect_read_only(int fd, size_t bytes)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again >= 0);
	assert_ptr_equal(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(again, "x", 1, 0), -1);
	assert_int_equal(ftruncate(again, (off_t)(bytes / 2)), -1);
	assert_int_equal(ftruncate(again, (off_t)(bytes * 2)), -1);
	assert_int_equal(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)page),
			 -1);
	assert_int_equal(fcntl(again, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(again);
}

static void who_is_given_shared_memory_can_read_it_and_no_more(void **state)
{
	size_t bytes = 4 * page;
	uint8_t *ours = place_of(bytes), *theirs = place_of(bytes);
	int fd;

	assert_int_equal(memory_shared("test", bytes, ours, &fd), 0);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & SEALS_OF_SHARED, SEALS_OF_SHARED);
	expect_read_only(fd, bytes);
	theirs[5] = 1;
	assert_int_equal(memory_map_over(fd, bytes, theirs), 0);
	assert_int_equal(theirs[5], 0);
	ours[5] = 77;
	assert_int_equal(theirs[5], 77);
	assert_int_equal(mprotect(theirs, bytes, PROT_READ | PROT_WRITE), -1);
	assert_false(child_has(theirs, page));
	fail_set(FAIL_MMAP, 1, ENOMEM);
	assert_int_equal(memory_map_over(fd, bytes, theirs), ENOMEM);
	fail_clear();
	assert_int_equal(theirs[5], 77);
	/* The place stays, without what was there. */
	assert_int_equal(memory_blank(theirs, bytes), 0);
	assert_int_equal(theirs[5], 0);
	theirs[5] = 2;
	assert_int_equal(ours[5], 77);
	memory_release(theirs, bytes, -1);
	memory_release(ours, bytes, fd);
}

static void an_empty_file_is_ours_alone_and_no_program(void **state)
{
	int fd = memory_file_open("test"), other = memory_file_open("test"), before = count_fds();
	struct stat status, others;

	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(fstat(other, &others), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(status.st_size, 0);
	assert_true(status.st_ino != others.st_ino);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fail_set(FAIL_MEMFD, 1, EMFILE);
	assert_int_equal(memory_file_open("test"), -1);
	fail_clear();
	assert_int_equal(count_fds(), before);
	close(fd);
	close(other);
}

static void each_failure_leaves_nothing_behind(void **state)
{
	static const enum fail_point point[] = { FAIL_MEMFD, FAIL_FTRUNCATE, FAIL_MMAP };
	int before = count_fds(), fd = -5;
	uint8_t *memory = place_of(page);
	unsigned i;

	memory[0] = 9;
	for (i = 0; i < 3; i++) {
		fail_set(point[i], 1, ENOSPC);
		assert_int_equal(memory_shared("test", page, memory, &fd), ENOSPC);
		fail_clear();
		assert_int_equal(memory[0], 9);
		assert_int_equal(fd, -5);
		assert_int_equal(count_fds(), before);
	}
	/* What cannot be sealed is not kept: the place is private again. */
	fail_set(FAIL_SEAL, 1, EINVAL);
	assert_int_equal(memory_shared("test", page, memory, &fd), EINVAL);
	fail_clear();
	assert_int_equal(fd, -5);
	assert_int_equal(count_fds(), before);
	assert_int_equal(memory[0], 0);
	assert_true(child_has(memory, page));
	memory_release(memory, page, -1);
}

/* The signal that says so (SIGXFSZ) would end the application. */
static void a_limit_of_file_sizes_is_an_error(void **state)
{
	int status, fd = -5;
	void *memory = place_of(4 * page);
	pid_t child = fork();

	if (!child) {
		struct rlimit limit = { .rlim_cur = 3 * page, .rlim_max = 3 * page };

		if (setrlimit(RLIMIT_FSIZE, &limit))
			_exit(1);
		if (memory_shared("test", 4 * page, memory, &fd) != EFBIG || fd != -5)
			_exit(2);
		_exit(memory_shared("test", 3 * page, memory, &fd) ? 3 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	memory_release(memory, 4 * page, -1);
}

/* ---- blocks ---- */

static int block_of(size_t bytes, int seals, unsigned flags)
{
	int fd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return -1;
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void a_block_is_mapped_as_it_was_sealed(void **state)
{
	int fd = block_of(2 * page, F_SEAL_SHRINK | F_SEAL_GROW, 0);
	uint8_t *one = NULL, *other = NULL;

	assert_int_equal(memory_map_sealed(fd, 2 * page, true, (void **)&one), 0);
	assert_int_equal(memory_map_sealed(fd, 2 * page, false, (void **)&other), 0);
	one[page] = 5;
	assert_int_equal(other[page], 5);
	assert_false(child_has(one, page));
	memory_release(other, 2 * page, -1);
	/* For reading from now on: who wrote goes on. */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(memory_map_sealed(fd, 2 * page, true, (void **)&other), EPERM);
	assert_int_equal(memory_map_sealed(fd, 2 * page, false, (void **)&other), 0);
	one[page] = 6;
	assert_int_equal(other[page], 6);
	assert_int_equal(mprotect(other, 2 * page, PROT_READ | PROT_WRITE), -1);
	memory_release(other, 2 * page, -1);
	memory_release(one, 2 * page, fd);
}

static void expect_no_block(int fd, size_t bytes)
{
	void *memory = &memory;

	assert_true(fd >= 0);
	assert_int_equal(memory_map_sealed(fd, bytes, false, &memory), EPROTO);
	assert_ptr_equal(memory, &memory);
	close(fd);
}

/* Whoever can resize it could take the pages away under our hands: SIGBUS. */
static void what_is_no_block_is_not_mapped(void **state)
{
	int sealed = F_SEAL_SHRINK | F_SEAL_GROW, fds[2], huge;
	void *memory;

	expect_no_block(block_of(page, 0, 0), page);
	expect_no_block(block_of(page, F_SEAL_SHRINK, 0), page);
	expect_no_block(block_of(page, F_SEAL_GROW, 0), page);
	expect_no_block(block_of(page, sealed, 0), 2 * page);
	expect_no_block(block_of(2 * page, sealed, 0), page);
	expect_no_block(block_of(0, sealed, 0), page);
	expect_no_block(open("/dev/zero", O_RDWR | O_CLOEXEC), page);
	assert_int_equal(pipe(fds), 0);
	expect_no_block(fds[0], page);
	expect_no_block(fds[1], page);
	huge = block_of(2u << 20, sealed, MFD_HUGETLB);
	if (huge >= 0)
		expect_no_block(huge, 2u << 20);
	assert_int_equal(memory_map_sealed(-1, page, false, &memory), EPROTO);
}

static void aligned_memory_is_where_it_was_asked_for(void **state)
{
	size_t bytes = 5 * page, alignment;
	uint8_t *own;

	for (alignment = 1; alignment <= 8u << 20; alignment *= 2) {
		assert_int_equal(memory_aligned(bytes, alignment, &own), 0);
		assert_int_equal((uintptr_t)own % alignment, 0);
		assert_int_equal(own[0] | own[bytes - 1], 0);
		own[bytes - 1] = own[0] = (uint8_t)(alignment % 251 + 1);
		/* What is beside it was given back. */
		assert_int_equal(munmap(own, bytes), 0);
		assert_false(!memory_check(own, 1, false));
	}
	own = NULL;
	fail_set(FAIL_MMAP, 1, ENOMEM);
	assert_int_equal(memory_aligned(bytes, 1, &own), ENOMEM);
	fail_set(FAIL_MMAP, 2, EAGAIN);
	assert_int_equal(memory_aligned(bytes, 1, &own), EAGAIN);
	assert_null(own);
	fail_clear();
}

/* ---- faults ---- */

/* The framework has handlers of its own, set anew for each test: ours go over them. */
static void use_our_handlers(void)
{
	static struct sigaction segv, bus;
	static bool saved;

	assert_int_equal(fault_handler_install(), 0);
	if (!saved) {
		sigaction(SIGSEGV, NULL, &segv);
		sigaction(SIGBUS, NULL, &bus);
		saved = true;
	}
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGBUS, &bus, NULL);
}

static void a_copy_from_or_to_unmapped_memory_is_efault(void **state)
{
	uint8_t *map = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	uint8_t *good = malloc(2 * page);
	uint64_t original = 5;
	size_t n;

	use_our_handlers();
	munmap(map + page, page);
	for (n = 1; n <= page; n = n * 2 + 1) {
		assert_int_equal(copy_user(good, map + page - n / 2, n), EFAULT);
		assert_int_equal(copy_user(map + page - n / 2, good, n), EFAULT);
		assert_int_equal(copy_user_ordered(map + page - n / 2, good, n), EFAULT);
		assert_int_equal(copy_user(good, map + page - n, n), 0);
		assert_int_equal(copy_user(map + page - n, good, n), 0);
	}
	assert_int_equal(user_fetch_add(map + page, 1, &original), EFAULT);
	assert_int_equal(user_compare_swap(map + page, 1, 2, &original), EFAULT);
	assert_int_equal(original, 5);
	mprotect(map, page, PROT_READ);
	assert_int_equal(copy_user(map, good, 8), EFAULT);
	assert_int_equal(copy_user(good, map, 8), 0);
	munmap(map, 3 * page);
	free(good);
}

/* A file that is shorter than its mapping: SIGBUS. */
static void a_copy_from_memory_without_backing_is_efault(void **state)
{
	uint8_t good[64];
	int fd = memfd_create("test", 0);
	void *memory;

	use_our_handlers();
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(copy_user(good, memory, 64), EFAULT);
	assert_int_equal(copy_user(memory, good, 64), EFAULT);
	memory_release(memory, page, fd);
}

/* errno, the signal mask and other threads' copies are left alone. */
static void *copy_in_a_loop(void *bad)
{
	uint8_t good[256];
	unsigned i;

	for (i = 0; i < 2000; i++) {
		errno = 77;
		if (copy_user(good, bad, sizeof(good)) != EFAULT || errno != 77)
			return bad;
	}
	return NULL;
}

static void threads_may_fault_at_once(void **state)
{
	void *bad = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *result;
	pthread_t thread[3];
	sigset_t mask;
	unsigned i;

	use_our_handlers();
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, copy_in_a_loop, bad), 0);
	for (i = 0; i < 3; i++) {
		pthread_join(thread[i], &result);
		assert_null(result);
	}
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_false(sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGBUS));
	munmap(bad, page);
}

/* ---- all other faults: in children ---- */

/* How the child that runs @body ends, as wait(2) says it. */
static int run_child(void (*body)(void))
{
	static const struct rlimit no_core;
	int status;
	pid_t child = fork();

	if (!child) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		alarm(5);
		body();
		_exit(99);
	}
	waitpid(child, &status, 0);
	return status;
}

static void *nothing_there(void)
{
	return mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void touch_nothing(void)
{
	volatile int *nothing = nothing_there();

	*nothing = 1;
}

static void exit_with_signal_info(int signal, siginfo_t *info, void *context)
{
	_exit(signal == SIGSEGV && info->si_code > 0 && info->si_addr ? 42 : 43);
}

static void exit_with_signal(int signal)
{
	_exit(signal);
}

static int returns;

static void return_twice(int signal)
{
	sigset_t mask;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	if (!sigismember(&mask, SIGUSR1) || !sigismember(&mask, SIGSEGV))
		_exit(50);
	if (++returns == 3)
		_exit(51);
}

static void faults_default(void)
{
	fault_handler_install();
	touch_nothing();
}

static void faults_with_siginfo_handler(void)
{
	struct sigaction action = { .sa_sigaction = exit_with_signal_info,
				    .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	fault_handler_install();
	touch_nothing();
}

static void faults_with_plain_handler(void)
{
	signal(SIGSEGV, exit_with_signal);
	fault_handler_install();
	touch_nothing();
}

static void faults_with_masking_handler(void)
{
	struct sigaction action = { .sa_handler = return_twice };

	sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &action, NULL);
	fault_handler_install();
	touch_nothing();
}

/* Once to the handler, the second time by default. */
static void faults_with_resetting_handler(void)
{
	struct sigaction action = { .sa_handler = return_twice, .sa_flags = (int)SA_RESETHAND };

	sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &action, NULL);
	fault_handler_install();
	touch_nothing();
}

static void faults_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	fault_handler_install();
	touch_nothing();
}

static void signal_sent_default(void)
{
	fault_handler_install();
	kill(getpid(), SIGBUS);
}

static void signal_sent_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	fault_handler_install();
	kill(getpid(), SIGSEGV);
	_exit(60);
}

static void signal_sent_handled(void)
{
	signal(SIGBUS, exit_with_signal);
	fault_handler_install();
	kill(getpid(), SIGBUS);
}

static void other_faults_go_to_whoever_had_them_before(void **state)
{
	int status = run_child(faults_default);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = run_child(faults_with_siginfo_handler);
	assert_int_equal(WEXITSTATUS(status), 42);
	status = run_child(faults_with_plain_handler);
	assert_int_equal(WEXITSTATUS(status), SIGSEGV);
	status = run_child(faults_with_masking_handler);
	assert_int_equal(WEXITSTATUS(status), 51);
	status = run_child(faults_with_resetting_handler);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = run_child(faults_ignored);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void signals_that_somebody_sent_are_passed_on(void **state)
{
	int status = run_child(signal_sent_default);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = run_child(signal_sent_ignored);
	assert_int_equal(WEXITSTATUS(status), 60);
	status = run_child(signal_sent_handled);
	assert_int_equal(WEXITSTATUS(status), SIGBUS);
}

/* ---- handlers that come later ---- */

static struct sigaction replaced;
static sigjmp_buf away;

static void chain(int signal, siginfo_t *info, void *context)
{
	if (++returns > 3)
		_exit(80);
	replaced.sa_sigaction(signal, info, context);
}

static void jump_away(int signal)
{
	siglongjmp(away, 1);
}

static int copy_of_nothing(void)
{
	char byte;

	return copy_user(&byte, nothing_there(), 1);
}

/* What comes after ours calls ours, which goes on to what was before. */
static void later_handler_chains(void)
{
	struct sigaction action = { .sa_sigaction = chain, .sa_flags = SA_SIGINFO };

	signal(SIGSEGV, exit_with_signal);
	fault_handler_install();
	sigaction(SIGSEGV, &action, &replaced);
	fault_handler_install();
	if (copy_of_nothing() != EFAULT || returns)
		_exit(81);
	touch_nothing();
}

static void later_handler_jumps(void)
{
	volatile unsigned jumps = 0;

	fault_handler_install();
	signal(SIGSEGV, jump_away);
	fault_handler_install();
	while (jumps < 5) {
		if (copy_of_nothing() != EFAULT)
			_exit(82);
		if (!sigsetjmp(away, 1))
			touch_nothing();
		jumps++;
	}
	_exit(83);
}

static void handlers_that_come_later_get_the_other_faults(void **state)
{
	int status = run_child(later_handler_chains);

	assert_int_equal(WEXITSTATUS(status), SIGSEGV);
	assert_int_equal(returns, 0);
	status = run_child(later_handler_jumps);
	assert_int_equal(WEXITSTATUS(status), 83);
}

static void refused_signal_actions(void)
{
	struct sigaction before, after;

	fail_set(FAIL_SIGACTION, 1, EINVAL);
	if (fault_handler_install() != EINVAL)
		_exit(70);
	sigaction(SIGSEGV, NULL, &before);
	fail_set(FAIL_SIGACTION, 2, EPERM);
	if (fault_handler_install() != EPERM)
		_exit(71);
	sigaction(SIGSEGV, NULL, &after);
	_exit(before.sa_handler != after.sa_handler || fault_handler_install() ? 72 : 0);
}

static void a_handler_that_cannot_be_installed_is_said(void **state)
{
	assert_int_equal(run_child(refused_signal_actions), 0);
}

/* The descriptor of /proc/self/maps that is kept; -1: there is none. */
static int kept_descriptor(void)
{
	char path[64], target[64];
	int fd;

	for (fd = 3; fd < 256; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (length > 5 && !strcmp(target + length - 5, "/maps"))
			return fd;
	}
	return -1;
}

static void a_check_survives_the_loss_of_its_descriptor(void **state)
{
	uint8_t *own = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd, other;

	assert_int_equal(memory_check(own, page, false), 0);
	fd = kept_descriptor();
	if (fd < 0)
		skip();		/* before Linux 6.11 none is kept */
	close(fd);
	assert_int_equal(memory_check(own, page, false), 0);
	fd = kept_descriptor();
	other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(dup2(other, fd), fd);
	assert_int_equal(memory_check(own, page, false), 0);
	assert_int_equal(memory_check(own, page, true), EACCES);
	memory_check_end();
	assert_int_equal(kept_descriptor(), -1);
	/* Nor is the application's file closed in its place at the end. */
	assert_int_equal(memory_check(own, page, false), 0);
	close(fd);
	fd = kept_descriptor();
	assert_int_equal(dup2(other, fd), fd);
	memory_check_end();
	assert_int_not_equal(fcntl(fd, F_GETFD), -1);
	close(fd);
	close(other);
	munmap(own, page);
}

static void a_childs_check_is_about_the_child(void **state)
{
	uint8_t *own = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	assert_int_equal(memory_check(own, page, false), 0);
	child = fork();
	if (!child) {
		munmap(own, page);
		_exit(memory_check(own, page, false));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EFAULT);
	memory_check_end();
	assert_int_equal(kept_descriptor(), -1);
	munmap(own, page);
}

int main(void)
{
	const struct CMUnitTest before[] = {
		cmocka_unit_test(shared_memory_is_zeroed_and_where_it_was_asked_for),
		cmocka_unit_test(who_is_given_shared_memory_can_read_it_and_no_more),
		cmocka_unit_test(an_empty_file_is_ours_alone_and_no_program),
		cmocka_unit_test(each_failure_leaves_nothing_behind),
		cmocka_unit_test(a_limit_of_file_sizes_is_an_error),
		cmocka_unit_test(a_block_is_mapped_as_it_was_sealed),
		cmocka_unit_test(what_is_no_block_is_not_mapped),
		cmocka_unit_test(aligned_memory_is_where_it_was_asked_for),
		cmocka_unit_test(other_faults_go_to_whoever_had_them_before),
		cmocka_unit_test(handlers_that_come_later_get_the_other_faults),
		cmocka_unit_test(signals_that_somebody_sent_are_passed_on),
		cmocka_unit_test(a_handler_that_cannot_be_installed_is_said),
		cmocka_unit_test(a_check_survives_the_loss_of_its_descriptor),
		cmocka_unit_test(a_childs_check_is_about_the_child),
	};
	const struct CMUnitTest claimed[] = {
		cmocka_unit_test(a_copy_from_or_to_unmapped_memory_is_efault),
		cmocka_unit_test(a_copy_from_memory_without_backing_is_efault),
		cmocka_unit_test(threads_may_fault_at_once),
	};
	int failed;

	page = (size_t)sysconf(_SC_PAGESIZE);
	failed = cmocka_run_group_tests(before, NULL, NULL);
	if (CLAIMS_FAULTS)
		failed += cmocka_run_group_tests(claimed, NULL, NULL);
	else
		print_message("SKIPPED: no copy routine with a known range on this machine\n");
	return failed;
}
