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
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

#ifndef CHECK_HELD_LOCKS

/* The kernel's answer, or -errno. errno itself stays: a public call that succeeds does not change it. */
static long lock_futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *until)
{
	int err = errno;
	long answer = syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, NULL,
			      FUTEX_BITSET_MATCH_ANY);

	if (answer < 0)
		answer = -errno;
	errno = err;
	return answer;
}

#define TRIES		100u
#define PARKS		64u
#define LOOK_NS		1000000u	/* until a sleeper looks by itself, or makes the barrier */
#define AGAIN_NS	100000000u	/* behind that: a wake-up that goes astray is no hang */

/* Of the locks whose addresses fall on it. */
static struct park {
	_Atomic uint32_t sleepers;
	_Atomic uintptr_t waking;	/* for this lock one was waked that has not looked at it yet */
} lock_parks[PARKS];
static bool lock_had_barrier;

static struct park *lock_park(const struct lock *lock)
{
	uint64_t address = (uintptr_t)lock;

	return &lock_parks[(address ^ address >> 9 ^ address >> 18) / sizeof(uint64_t) % PARKS];
}

/* Of a child only the thread that forked is left. */
static void lock_forget_sleepers(void)
{
	memset(lock_parks, 0, sizeof(lock_parks));
	atomic_fetch_and(&lock_news, LOCK_COUNTED | LOCK_OWN_BARRIER);
}

/* Whoever has left the lock to the one who was waked is seen behind this. */
static void lock_park_looks(struct park *park, const struct lock *lock)
{
	uintptr_t mine = (uintptr_t)lock;

	atomic_compare_exchange_strong(&park->waking, &mine, 0);
	atomic_thread_fence(memory_order_seq_cst);
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

/* Who releases a lock sees that this thread sleeps, or has been seen to release it. False: perhaps not. */
static bool lock_barrier(void)
{
	if (atomic_load_explicit(&lock_news, memory_order_relaxed) & LOCK_OWN_BARRIER)
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

/*
 * Most sleeps are short, and a store that is not seen yet when the sleeper has come into the kernel is
 * rare: so the barrier, which disturbs all processors of the process, is made when the first look is due.
 */
void lock_sleep(struct lock *lock)
{
	struct park *park = lock_park(lock);
	bool heard = false;

	if (lock_comes(lock))
		return;
	atomic_fetch_add(&park->sleepers, 1);
	atomic_fetch_add(&lock_news, LOCK_SLEEPER);
	while (!lock_take(lock)) {
		struct timespec until;
		long answer;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until = time_of((uint64_t)until.tv_sec * 1000000000u + (uint64_t)until.tv_nsec +
				(heard ? AGAIN_NS : LOOK_NS));
		answer = lock_futex(&lock->word, FUTEX_WAIT_BITSET, LOCK_HELD, &until);
		lock_park_looks(park, lock);
		if (answer == -ETIMEDOUT && !heard)
			heard = lock_barrier();
	}
	atomic_fetch_sub(&park->sleepers, 1);
	atomic_fetch_sub(&lock_news, LOCK_SLEEPER);
}

/*
 * One is waked at a time: until it looks, others that release the lock leave it to that one. They may do
 * so before it is known that nobody sleeps yet: then whoever slept since is waked in the second try.
 */
static void lock_wake(struct lock *lock)
{
	struct park *park = lock_park(lock);

	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&park->sleepers, memory_order_relaxed) ||
	    atomic_load_explicit(&park->waking, memory_order_relaxed) == (uintptr_t)lock)
		return;
	atomic_store(&park->waking, (uintptr_t)lock);
	if (lock_futex(&lock->word, FUTEX_WAKE, 1, NULL) <= 0) {
		lock_park_looks(park, lock);
		lock_futex(&lock->word, FUTEX_WAKE, 1, NULL);
	}
}

void lock_released(struct lock *lock)
{
	uint32_t news = atomic_load_explicit(&lock_news, memory_order_relaxed);

	if (news & ~(uint32_t)LOCK_COUNTED)
		lock_wake(lock);
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
