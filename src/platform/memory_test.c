/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory, and faults: those of copy_user() become EFAULT, all others reach whoever handled
 * the signal before, or end the process as they would without us. The latter are run in children.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

static size_t page;

static int count_fds(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void shared_memory_is_zeroed_and_shared_with_children(void **state)
{
	size_t bytes = 1u << 30, i;		/* sparse: costs what is touched */
	void *memory;
	uint8_t *b;
	int fd, status;

	assert_int_equal(memory_shared("test", bytes, &memory, &fd), 0);
	b = memory;
	for (i = 0; i < bytes; i += bytes / 64)
		assert_int_equal(b[i], 0);
	if (!fork()) {
		b[12345] = 7;
		_exit(0);
	}
	wait(&status);
	assert_int_equal(b[12345], 7);
	memory_release(memory, bytes, fd);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), -1);
}

static void each_failure_leaves_nothing_behind(void **state)
{
	static const enum fail_point point[] = { FAIL_MEMFD, FAIL_FTRUNCATE, FAIL_MMAP };
	int before = count_fds(), fd = -5;
	void *memory = &fd;
	unsigned i;

	for (i = 0; i < 3; i++) {
		fail_set(point[i], 1, ENOSPC);
		assert_int_equal(memory_shared("test", 4096, &memory, &fd), ENOSPC);
		assert_ptr_equal(memory, &fd);
		assert_int_equal(fd, -5);
		assert_int_equal(count_fds(), before);
	}
}

static void aligned_memory_is_where_it_was_asked_for(void **state)
{
	size_t bytes = 5 * page, alignment;
	uint8_t *own, *shared;
	void *pool;
	int fd;

	assert_int_equal(memory_shared("test", 16 * page, &pool, &fd), 0);
	for (alignment = 1; alignment <= 8u << 20; alignment *= 2) {
		assert_int_equal(memory_aligned(-1, 0, bytes, alignment, &own), 0);
		assert_int_equal(memory_aligned(fd, page, bytes, alignment, &shared), 0);
		assert_int_equal((uintptr_t)own % alignment, 0);
		assert_int_equal((uintptr_t)shared % alignment, 0);
		assert_int_equal(own[0] | own[bytes - 1], 0);
		shared[bytes - 1] = own[bytes - 1] = (uint8_t)(alignment % 251 + 1);
		assert_int_equal(((uint8_t *)pool)[6 * page - 1], alignment % 251 + 1);
		/* What is beside it was given back. */
		assert_int_equal(munmap(own, bytes), 0);
		assert_int_equal(munmap(shared, bytes), 0);
		assert_false(memory_is_mapped(own, 1));
	}
	own = NULL;
	fail_set(FAIL_MMAP, 1, ENOMEM);
	assert_int_equal(memory_aligned(-1, 0, bytes, 1, &own), ENOMEM);
	fail_set(FAIL_MMAP, 2, EAGAIN);
	assert_int_equal(memory_aligned(-1, 0, bytes, 1, &own), EAGAIN);
	assert_null(own);
	fail_clear();
	memory_release(pool, 16 * page, fd);
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

static void touch_nothing(void)
{
	volatile int *nothing = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

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

int main(void)
{
	const struct CMUnitTest before[] = {
		cmocka_unit_test(shared_memory_is_zeroed_and_shared_with_children),
		cmocka_unit_test(each_failure_leaves_nothing_behind),
		cmocka_unit_test(aligned_memory_is_where_it_was_asked_for),
		cmocka_unit_test(other_faults_go_to_whoever_had_them_before),
		cmocka_unit_test(signals_that_somebody_sent_are_passed_on),
		cmocka_unit_test(a_handler_that_cannot_be_installed_is_said),
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
