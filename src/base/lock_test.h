/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of locks: what they ask of the kernel is counted, and membarrier(2) can be forbidden. */
#ifndef VERBATIM_BASE_LOCK_TEST_H
#define VERBATIM_BASE_LOCK_TEST_H

#include "base/lock.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define THREADS	4
#define MS	1000000u

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifndef CHECK_HELD_LOCKS
#define WITHOUT "LOCK_TEST_WITHOUT_MEMBARRIER"

static _Atomic unsigned futex_calls, barriers, waked;
static _Atomic bool is_forbidden;	/* membarrier(2): as by a filter of the program */

/* In place of the C library's, which lock.c would call, in its constructor, too. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long argument[6], answer;
	va_list arguments;
	unsigned i;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	futex_calls += number == SYS_futex;
	barriers += number == SYS_membarrier;
	if (number == SYS_membarrier && (is_forbidden || getenv(WITHOUT))) {
		errno = EPERM;
		return -1;
	}
	va_start(arguments, number);
	for (i = 0; i < 6; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);
	answer = real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
	if (number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) == FUTEX_WAKE && answer > 0)
		waked += (unsigned)answer;
	return answer;
}

static inline bool somebody_sleeps(void)	/* or is about to */
{
	return atomic_load(&lock_news) >= LOCK_SLEEPER;
}

/* The same from the start, in a process of its own: where a kernel does not have it. */
static inline void without_membarrier_it_is_the_same(void **state)
{
	int status;
	pid_t child;

	if (getenv(WITHOUT))
		return;
	setenv(WITHOUT, "1", 1);
	child = fork();
	if (!child) {
		execl("/proc/self/exe", "lock_test", NULL);
		_exit(127);
	}
	unsetenv(WITHOUT);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
#endif

#endif
