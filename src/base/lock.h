/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutex with clang thread-safety annotations (-Wthread-safety is an error in the clang build).
 *
 * docs/locks.md has the order of all locks: take none while holding one that comes later.
 *
 * Under a QP's lock, and all that come later, there is no system call, callback or allocation. Work that is due
 * afterwards, such as waking a sleeper, is noted in struct effects (object/event.h). Explanations and log
 * lines of a thread that holds locks are written when it has dropped the last one (base/log.h).
 *
 * Guarded data is annotated: GUARDED_BY() variables, GUARDED_BY_MEMBER() members of the struct that the
 * lock is in, GUARDED members of another struct (a comment names the lock). For GUARDED_BY_MEMBER(), a
 * clang that parses such attributes late (22) checks that it is the right lock; an older clang, and any
 * clang for GUARDED, checks only that some lock is held. Atomic members may be read without the lock,
 * where their comment says so.
 */
#ifndef VERBATIM_BASE_LOCK_H
#define VERBATIM_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock_news.h"
#include "base/log.h"

#if defined(__clang__)
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif

#if defined(UNGUARDED_MEMBERS)	/* unit tests */
#define GUARDED_BY_MEMBER(x)
#define GUARDED
#elif defined(__clang__) && defined(LATE_PARSED_ATTRIBUTES)	/* meson.build */
#define GUARDED_BY_MEMBER(x) TSA(guarded_by(&x))
#define GUARDED		TSA(guarded_var)
#else
#define GUARDED_BY_MEMBER(x) TSA(guarded_var)
#define GUARDED		TSA(guarded_var)
#endif

#define CAPABILITY	TSA(capability("mutex"))
#define GUARDED_BY(x)	TSA(guarded_by(x))
#define REQUIRES(...)	TSA(requires_capability(__VA_ARGS__))
#define ACQUIRES(...)	TSA(acquire_capability(__VA_ARGS__))
#define RELEASES(...)	TSA(release_capability(__VA_ARGS__))
#define TRY_ACQUIRES(...) TSA(try_acquire_capability(__VA_ARGS__))
#define ASSERTS(...)	TSA(assert_capability(__VA_ARGS__))
#define EXCLUDES(...)	TSA(locks_excluded(__VA_ARGS__))
#define UNCHECKED_LOCKS	TSA(no_thread_safety_analysis)

#if defined(__SANITIZE_THREAD__)
#define CHECK_HELD_LOCKS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHECK_HELD_LOCKS
#endif
#endif

/*
 * A word and a futex: taking and releasing a lock that nobody else wants is ten instructions in the
 * caller, where the C library's mutex takes sixty behind two calls; a message takes ten locks
 * (docs/decisions/0011-locks.md). Under the thread sanitizer it is the C library's, whose order the
 * sanitizer checks. Zeroed memory is a free lock.
 */
struct CAPABILITY lock {
#ifdef CHECK_HELD_LOCKS
	pthread_mutex_t mutex;
#else
	_Atomic uint32_t word;		/* enum lock_word */
#endif
};

enum lock_word { LOCK_FREE, LOCK_HELD };

/* Threads wait for something that is said under a lock, which they hold. */
struct condition {
#ifdef CHECK_HELD_LOCKS
	pthread_cond_t cond;
#else
	_Atomic uint32_t said;		/* times so far */
	uint32_t waiting;		/* threads, under their lock: where none waits, nobody needs to be woken */
#endif
};

#ifdef CHECK_HELD_LOCKS
#define LOCK_INITIALIZER { PTHREAD_MUTEX_INITIALIZER }
#define CONDITION_INITIALIZER { PTHREAD_COND_INITIALIZER }
#else
#define LOCK_INITIALIZER { LOCK_FREE }
#define CONDITION_INITIALIZER { 0, 0 }
#endif

void condition_init(struct condition *condition);
/*
 * Releases the lock, sleeps until the condition is said or @until_ns (CLOCK_MONOTONIC; UINT64_MAX:
 * no limit), and takes the lock again. May return early.
 */
void condition_wait(struct condition *condition, struct lock *lock, uint64_t until_ns) REQUIRES(lock);
/* Wakes all threads that wait. The caller holds the lock. */
void condition_say(struct condition *condition);

/* Behind lock_acquire() and lock_release(); the second touches nothing of the lock. */
void lock_sleep(struct lock *lock);
void lock_released(struct lock *lock);

/* Initialising or destroying a lock requires sole ownership of what it guards. */
static inline void lock_init(struct lock *lock) ASSERTS(lock)
{
#ifdef CHECK_HELD_LOCKS
	pthread_mutex_init(&lock->mutex, NULL);
#else
	atomic_store_explicit(&lock->word, LOCK_FREE, memory_order_relaxed);
#endif
}

static inline void lock_destroy(struct lock *lock) ASSERTS(lock)
{
#ifdef CHECK_HELD_LOCKS
	pthread_mutex_destroy(&lock->mutex);
#endif
}

static inline bool lock_is_counted(void)
{
	return __builtin_expect(atomic_load_explicit(&lock_news, memory_order_relaxed) & LOCK_COUNTED, 0);
}

/* Without counting. True: taken. */
static inline bool lock_take(struct lock *lock)
{
#ifdef CHECK_HELD_LOCKS
	return !pthread_mutex_trylock(&lock->mutex);
#else
	uint32_t expected = LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, LOCK_HELD,
						       memory_order_acquire, memory_order_relaxed);
#endif
}

static inline void lock_acquire(struct lock *lock) ACQUIRES(lock) UNCHECKED_LOCKS
{
#ifdef CHECK_HELD_LOCKS
	pthread_mutex_lock(&lock->mutex);
#else
	if (__builtin_expect(!lock_take(lock), 0))
		lock_sleep(lock);
#endif
	if (lock_is_counted())
		log_hold();
}

static inline bool lock_try(struct lock *lock) TRY_ACQUIRES(true, lock) UNCHECKED_LOCKS
{
	if (!lock_take(lock))
		return false;
	if (lock_is_counted())
		log_hold();
	return true;
}

/*
 * No fence: who releases a lock and then looks for what others left because they found it held (lock_try())
 * makes one between.
 *
 * Always inlined: it is the end of every post. The link-time optimiser decides by the size of what is around
 * it, and bench/trace_cost counts what comes of that.
 */
static inline __attribute__((always_inline)) void lock_release(struct lock *lock) RELEASES(lock) UNCHECKED_LOCKS
{
#ifdef CHECK_HELD_LOCKS
	pthread_mutex_unlock(&lock->mutex);
#else
	atomic_store_explicit(&lock->word, LOCK_FREE, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
#endif
	if (__builtin_expect(atomic_load_explicit(&lock_news, memory_order_relaxed) != 0, 0))
		lock_released(lock);
}

/*
 * The same, inlined where the compiler likes: in a CQ, whose functions would not be inlined in a poll
 * otherwise.
 */
static inline void lock_release_plain(struct lock *lock) RELEASES(lock) UNCHECKED_LOCKS
{
	lock_release(lock);
}

/* Another name of a lock that the caller holds: for the analysis, which does not follow pointers. */
static inline void lock_alias(struct lock *lock) ASSERTS(lock)
{
}

/*
 * The caller holds the lock, in a way that the analysis cannot follow (a pointer in another struct,
 * a callback): tells the analysis so. Costs nothing; under the thread sanitizer, checks that some
 * thread holds it.
 */
static inline void lock_assert_held(struct lock *lock) ASSERTS(lock)
{
#ifdef CHECK_HELD_LOCKS
	if (lock_take(lock))
		__builtin_trap();
#endif
}

#endif
