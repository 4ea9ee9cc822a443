/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow half of a lock: sleeping until it is free.
 *
 * Who releases a lock stores that it is free, and then looks whether somebody sleeps; who goes to sleep
 * says so, and then looks whether the lock is free. Each needs its store to be seen before its look. The
 * one who releases has no instruction for that, since it is on the way of every message: the one who
 * sleeps asks the kernel for a barrier in all threads of the process (membarrier(2)). Where there is none
 * (the kernel, a filter of the program), whoever releases a lock makes its own.
 *
 * A waker may name a lock that its next holder has destroyed: it only gives its address to the
 * kernel, and whoever has that memory now can be woken without cause.
 */
#include "base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

#ifndef CHECK_HELD_LOCKS

/* The kernel's answer, or -1. errno stays: a public call that succeeds does not change it. */
static long lock_futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *until)
{
	int err = errno;
	long answer = syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, NULL,
			      FUTEX_BITSET_MATCH_ANY);

	errno = err;
	return answer;
}

#define TRIES		100u
#define PARKS		64u
#define LOOK_NS		1000000u	/* where there is no barrier for the sleeper at all */

static _Atomic uint32_t lock_parks[PARKS];		/* threads that sleep, by lock_park() */
static bool lock_had_barrier;

static _Atomic uint32_t *lock_park(const struct lock *lock)
{
	uint64_t address = (uintptr_t)lock;

	return &lock_parks[(address ^ address >> 9 ^ address >> 18) / sizeof(uint64_t) % PARKS];
}

/* Of a child only the thread that forked is left. */
static void lock_forget_sleepers(void)
{
	for (unsigned i = 0; i < PARKS; i++)
		atomic_store_explicit(&lock_parks[i], 0, memory_order_relaxed);
	atomic_fetch_and(&lock_news, LOCK_COUNTED | LOCK_OWN_BARRIER);
}

static void lock_park_leave(_Atomic uint32_t *park)
{
	atomic_fetch_sub(park, 1);
	atomic_fetch_sub(&lock_news, LOCK_SLEEPER);
}

static bool lock_membarrier(int command)
{
	int err = errno;
	bool done = !syscall(SYS_membarrier, command, 0, 0);

	errno = err;
	return done;
}

static __attribute__((constructor)) void lock_look_for_barrier(void)
{
	pthread_atfork(NULL, NULL, lock_forget_sleepers);
	lock_had_barrier = lock_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
			   lock_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	if (lock_had_barrier)
		atomic_fetch_and(&lock_news, ~(uint32_t)LOCK_OWN_BARRIER);
}

/* Each thread that releases a lock sees @news now, or has been seen to release it. False: perhaps not. */
static bool lock_barrier(uint32_t news)
{
	if (news & LOCK_OWN_BARRIER)
		return !lock_had_barrier;
	if (lock_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
	    (lock_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&	/* in a child of fork() */
	     lock_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
		return true;
	atomic_fetch_or(&lock_news, LOCK_OWN_BARRIER);		/* the program has forbidden it meanwhile */
	return false;
}

static inline void lock_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* A holder on another processor is mostly about to release it, which costs less than a barrier. */
static bool lock_comes(struct lock *lock)
{
	for (unsigned i = 0; i < TRIES; i++) {
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == LOCK_FREE && lock_take(lock))
			return true;
		lock_pause();
	}
	return false;
}

/* Who wakes a thread takes it from both counts: until that runs nobody needs to wake it again. */
void lock_sleep(struct lock *lock)
{
	_Atomic uint32_t *park = lock_park(lock);
	bool counted = false, heard = false;
	struct timespec now, until;

	if (lock_comes(lock))
		return;
	do {
		if (!counted) {
			atomic_fetch_add(park, 1);
			heard = lock_barrier(atomic_fetch_add(&lock_news, LOCK_SLEEPER));
			counted = true;
			if (lock_take(lock))
				break;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		until = time_of((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + LOOK_NS);
		if (!lock_futex(&lock->word, FUTEX_WAIT_BITSET, LOCK_HELD, heard ? NULL : &until))
			counted = false;
	} while (!lock_take(lock));
	if (counted)
		lock_park_leave(park);
}

void lock_released(struct lock *lock)
{
	uint32_t news = atomic_load_explicit(&lock_news, memory_order_relaxed);
	_Atomic uint32_t *park = lock_park(lock);

	if (news & LOCK_OWN_BARRIER)
		atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(park, memory_order_relaxed) && lock_futex(&lock->word, FUTEX_WAKE, 1, NULL) > 0)
		lock_park_leave(park);
	if (news & LOCK_COUNTED)
		log_let_go();
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

void lock_released(struct lock *lock)
{
	if (lock_is_counted())
		log_let_go();
}

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
