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

enum lock_word {
	LOCK_FREE,
	LOCK_HELD,
	/* Of an owned lock: it is its owner's, who may be inside; a thread waits until the owner is outside. */
	LOCK_BIASED,
	LOCK_CLAIMED
};

/*
 * A lock that one thread takes again and again is its own until another one wants it. Then taking
 * it is a store (inside) and a look at the word, where the other lock has a locked instruction; who
 * wants it without being its owner says so in the word, makes a barrier in the owner's thread
 * (membarrier(2)) and waits until the owner is outside (lock.c). For locks that one thread has most
 * of the time; it has no conditions.
 *
 * @inside is written by the owner alone. So the owner alone gives it up: a thread that has found
 * that it is the owner and stops there may go on much later, and write it then. A thread's address
 * stands for it; one that has ended is no longer between the two, and may leave its locks to a new
 * one at the same address.
 */
#ifdef CHECK_HELD_LOCKS
#define owned_lock lock
#else
struct CAPABILITY owned_lock {
	_Atomic uintptr_t owner;	/* 0: none. Written by the owner, holding the lock */
	_Atomic uint32_t inside;	/* the owner holds it, or is about to look whether it may */
	_Atomic uint32_t word;		/* enum lock_word */
	/* Under the lock, while it is held: */
	uint32_t last;			/* part of the address of who had it last, */
	uint16_t left;			/* how many times in a row until it is that thread's, */
	uint16_t claims;		/* and how often an owner has lost it */
};
#endif

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

#ifndef CHECK_HELD_LOCKS
#define RARE __attribute__((noinline, cold))
void owned_acquire_slowly(struct owned_lock *lock) __attribute__((noinline));
bool owned_try_slowly(struct owned_lock *lock) __attribute__((noinline));
void owned_released(struct owned_lock *lock) RARE;	/* likewise touches nothing of it */
#endif

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
 * No fence: who releases a lock and then looks for what others left because they found it held
 * (lock_try()) makes one between.
 *
 * Always inlined: it is the end of every post. The link-time optimiser decides by the size of what
 * is around it, and bench/trace_cost counts what comes of that.
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

#ifdef CHECK_HELD_LOCKS

#define lock_release_plain lock_release

#else

static inline void owned_init(struct owned_lock *lock) ASSERTS(lock)
{
	*lock = (struct owned_lock){ 0 };
}

static inline void owned_destroy(struct owned_lock *lock) ASSERTS(lock)
{
}

static inline uintptr_t lock_thread(void)
{
#if defined(__x86_64__)
	uintptr_t self;

	__asm__("mov %%fs:0, %0" : "=r"(self));	/* by the ABI it points to itself */
	return self;
#else
	return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* The owner's. False: it has to take it as others do. */
static inline bool owned_enter(struct owned_lock *lock)
{
	atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);	/* owned_claim() makes the fence */
	return atomic_load_explicit(&lock->word, memory_order_relaxed) == LOCK_BIASED;
}

/* As lock_take(), where nobody owns it. */
static inline bool owned_hold(struct owned_lock *lock)
{
	uint32_t expected = LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, LOCK_HELD, memory_order_acquire,
						       memory_order_relaxed);
}

static inline bool owned_is_mine(const struct owned_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == lock_thread();
}

/*
 * Taken by its owner, with nothing more to do. For x86 as the compiler would write it if it
 * compared atomics where they lie: two instructions fewer here and two in a release, where a post
 * has two owned locks.
 */
static inline __attribute__((always_inline)) bool owned_enter_at_once(struct owned_lock *lock)
{
#if defined(__x86_64__)
	__asm__ goto("cmpq %0, %1\n\t"
		     "jne %l[rarely]\n\t"
		     "movl $1, %2\n\t"
		     "cmpl %4, %3\n\t"
		     "jne %l[rarely]\n\t"
		     "testb %6, %5\n\t"
		     "jne %l[rarely]"
		     : : "r"(lock_thread()), "m"(lock->owner), "m"(lock->inside), "m"(lock->word),
			 "i"(LOCK_BIASED), "m"(lock_news), "i"(LOCK_COUNTED) : "cc", "memory" : rarely);
	return true;
rarely:
	return false;
#else
	return __builtin_expect(owned_is_mine(lock) && owned_enter(lock) && !lock_is_counted(), 1);
#endif
}

/* Always inlined, as its counterpart. */
static inline __attribute__((always_inline)) void owned_acquire(struct owned_lock *lock)
	ACQUIRES(lock) UNCHECKED_LOCKS
{
	if (!owned_enter_at_once(lock))
		owned_acquire_slowly(lock);
}

/* The owner is refused, too, while it is inside. */
static inline bool owned_try(struct owned_lock *lock) TRY_ACQUIRES(true, lock) UNCHECKED_LOCKS
{
	if (owned_is_mine(lock) && atomic_load_explicit(&lock->inside, memory_order_relaxed))
		return false;
	return owned_enter_at_once(lock) || owned_try_slowly(lock);
}

static inline __attribute__((always_inline)) void owned_release(struct owned_lock *lock)
	RELEASES(lock) UNCHECKED_LOCKS
{
#if defined(__x86_64__)
	__asm__ goto("cmpl %2, %1\n\t"
		     "je %l[held]\n\t"
		     "movl $0, %0\n\t"
		     "cmpl $0, %3\n\t"
		     "jne %l[news]"
		     : : "m"(lock->inside), "m"(lock->word), "i"(LOCK_HELD), "m"(lock_news)
		     : "cc", "memory" : held, news);
	return;
held:
#endif
	if (__builtin_expect(atomic_load_explicit(&lock->word, memory_order_relaxed) == LOCK_HELD, 0))
		atomic_store_explicit(&lock->word, LOCK_FREE, memory_order_release);
	else
		atomic_store_explicit(&lock->inside, 0, memory_order_release);	/* R14 */
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&lock_news, memory_order_relaxed) != 0, 0))
#if defined(__x86_64__)
news:
#endif
		owned_released(lock);
}

/*
 * The same, inlined where the compiler likes: in a CQ, whose functions would not be inlined in a poll
 * otherwise.
 */
static inline void lock_release_plain(struct owned_lock *lock) RELEASES(lock) UNCHECKED_LOCKS
{
	owned_release(lock);
}

static inline void owned_alias(struct owned_lock *lock) ASSERTS(lock)
{
}

static inline void owned_assert_held(struct owned_lock *lock) ASSERTS(lock)
{
}

/* Those of a lock, of either kind. */
#define LOCK_OF_KIND(of, plain, owned) \
	_Generic((of), struct lock *: plain, struct owned_lock *: owned)(of)
#define lock_init(of)		LOCK_OF_KIND(of, lock_init, owned_init)
#define lock_destroy(of)	LOCK_OF_KIND(of, lock_destroy, owned_destroy)
#define lock_take(of)		LOCK_OF_KIND(of, lock_take, owned_hold)
#define lock_acquire(of)	LOCK_OF_KIND(of, lock_acquire, owned_acquire)
#define lock_try(of)		LOCK_OF_KIND(of, lock_try, owned_try)
#define lock_release(of)	LOCK_OF_KIND(of, lock_release, owned_release)
#define lock_alias(of)	LOCK_OF_KIND(of, lock_alias, owned_alias)
#define lock_assert_held(of)	LOCK_OF_KIND(of, lock_assert_held, owned_assert_held)

#endif

#endif
