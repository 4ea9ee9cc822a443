/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow half of a lock: sleeping until it is free. A thread that is about to sleep marks the lock,
 * and takes it marked, since others may sleep, too; who releases a marked lock wakes one of them.
 * A waker may touch a lock that its next holder has destroyed: it only names its address to the
 * kernel, and whoever has that memory now can be woken without cause.
 */
#include "base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

#ifndef CHECK_HELD_LOCKS

/* errno stays: a public call that succeeds does not change it. */
static void lock_futex(_Atomic uint32_t *word, int operation, uint32_t value,
		       const struct timespec *until)
{
	int err = errno;

	syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, NULL,
		FUTEX_BITSET_MATCH_ANY);
	errno = err;
}

void lock_sleep(struct lock *lock)
{
	while (atomic_exchange_explicit(&lock->word, LOCK_WAITED_FOR, memory_order_acquire) !=
	       LOCK_FREE)
		lock_futex(&lock->word, FUTEX_WAIT_BITSET, LOCK_WAITED_FOR, NULL);
}

void lock_wake(struct lock *lock)
{
	lock_futex(&lock->word, FUTEX_WAKE, 1, NULL);
}

void condition_init(struct condition *condition)
{
	atomic_store_explicit(&condition->said, 0, memory_order_relaxed);
	condition->waiting = 0;
}

void condition_wait(struct condition *condition, struct lock *lock, uint64_t until_ns)
{
	struct timespec until = time_of(until_ns);
	uint32_t said = atomic_load_explicit(&condition->said, memory_order_relaxed);

	condition->waiting++;
	lock_release(lock);
	lock_futex(&condition->said, FUTEX_WAIT_BITSET, said,
		   until_ns == UINT64_MAX ? NULL : &until);
	lock_acquire(lock);
	condition->waiting--;
}

void condition_say(struct condition *condition)
{
	if (!condition->waiting)
		return;
	atomic_fetch_add_explicit(&condition->said, 1, memory_order_relaxed);
	lock_futex(&condition->said, FUTEX_WAKE, INT_MAX, NULL);
}

#else

void condition_init(struct condition *condition)
{
	pthread_cond_init(&condition->cond, NULL);
}

void condition_wait(struct condition *condition, struct lock *lock, uint64_t until_ns)
{
	struct timespec until = time_of(until_ns);

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&condition->cond, &lock->mutex);
	else
		pthread_cond_clockwait(&condition->cond, &lock->mutex, CLOCK_MONOTONIC, &until);
}

void condition_say(struct condition *condition)
{
	pthread_cond_broadcast(&condition->cond);
}

#endif
