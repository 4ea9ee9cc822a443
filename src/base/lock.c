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
#include <stddef.h>
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

/* Of the words that threads sleep for and whose addresses fall on it. */
static struct park {
	_Atomic uint32_t sleepers;
	_Atomic uintptr_t waking;	/* for this word one was waked that has not looked at it yet */
} lock_parks[PARKS];
static bool lock_had_barrier;

static struct park *lock_park(const _Atomic uint32_t *word)
{
	uint64_t address = (uintptr_t)word;

	return &lock_parks[(address ^ address >> 9 ^ address >> 18) / sizeof(uint64_t) % PARKS];
}

/* Of a child only the thread that forked is left. */
static void lock_forget_sleepers(void)
{
	memset(lock_parks, 0, sizeof(lock_parks));
	atomic_fetch_and(&lock_news, LOCK_COUNTED | LOCK_OWN_BARRIER);
}

/* Whoever has left the lock to the one who was waked is seen behind this. */
static void lock_park_looks(struct park *park, const _Atomic uint32_t *word)
{
	uintptr_t mine = (uintptr_t)word;

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

static bool lock_make_barrier(void)
{
	return lock_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
	       (lock_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&	/* in a child of fork() */
		lock_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

/* Who releases a lock sees that this thread sleeps, or has been seen to release it. False: perhaps not. */
static bool lock_barrier(void)
{
	if (atomic_load_explicit(&lock_news, memory_order_relaxed) & LOCK_OWN_BARRIER)
		return !lock_had_barrier;
	if (lock_make_barrier())
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

/* Where threads sleep for a word, from now on or no longer. */
static struct park *lock_park_enter(const _Atomic uint32_t *word)
{
	struct park *park = lock_park(word);

	atomic_fetch_add(&park->sleepers, 1);
	atomic_fetch_add(&lock_news, LOCK_SLEEPER);
	return park;
}

static void lock_park_leave(struct park *park)
{
	atomic_fetch_sub(&park->sleepers, 1);
	atomic_fetch_sub(&lock_news, LOCK_SLEEPER);
}

/* For @wait_ns, while the word is @value. */
static long lock_park_sleep(struct park *park, _Atomic uint32_t *word, uint32_t value, uint64_t wait_ns)
{
	struct timespec until;
	long answer;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until = time_of((uint64_t)until.tv_sec * 1000000000u + (uint64_t)until.tv_nsec + wait_ns);
	answer = lock_futex(word, FUTEX_WAIT_BITSET, value, &until);
	lock_park_looks(park, word);
	return answer;
}

static bool lock_take_word(_Atomic uint32_t *word)
{
	uint32_t expected = LOCK_FREE;

	return atomic_load_explicit(word, memory_order_relaxed) == LOCK_FREE &&
	       atomic_compare_exchange_strong_explicit(word, &expected, LOCK_HELD, memory_order_acquire,
						       memory_order_relaxed);
}

/*
 * A holder on another processor is mostly about to release it, which costs less than a barrier.
 *
 * Most sleeps are short, and a store that is not seen yet when the sleeper has come into the kernel is
 * rare: so the barrier, which disturbs all processors of the process, is made when the first look is due.
 */
static void lock_sleep_for(_Atomic uint32_t *word, bool (*take)(_Atomic uint32_t *word))
{
	bool heard = false;
	struct park *park;

	for (unsigned i = 0; i < TRIES; i++) {
		if (take(word))
			return;
		lock_pause();
	}
	park = lock_park_enter(word);
	while (!take(word)) {
		uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);

		if (seen != LOCK_HELD && seen != LOCK_CLAIMED)
			continue;
		if (lock_park_sleep(park, word, seen, heard ? AGAIN_NS : LOOK_NS) == -ETIMEDOUT && !heard)
			heard = lock_barrier();
	}
	lock_park_leave(park);
}

void lock_sleep(struct lock *lock)
{
	lock_sleep_for(&lock->word, lock_take_word);
}

/*
 * One is waked at a time: until it looks, others that release the lock leave it to that one. They may do
 * so before it is known that nobody sleeps yet: then whoever slept since is waked in the second try.
 */
static void lock_wake(_Atomic uint32_t *word)
{
	struct park *park = lock_park(word);

	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&park->sleepers, memory_order_relaxed) ||
	    atomic_load_explicit(&park->waking, memory_order_relaxed) == (uintptr_t)word)
		return;
	atomic_store(&park->waking, (uintptr_t)word);
	if (lock_futex(word, FUTEX_WAKE, 1, NULL) <= 0) {
		lock_park_looks(park, word);
		lock_futex(word, FUTEX_WAKE, 1, NULL);
	}
}

void lock_released(struct lock *lock)
{
	uint32_t news = atomic_load_explicit(&lock_news, memory_order_relaxed);

	if (news & ~(uint32_t)LOCK_COUNTED)
		lock_wake(&lock->word);
	if (news & LOCK_COUNTED)
		log_let_go();
}

/* ---- owned locks ---- */

#define OWN_AFTER	1024u		/* times in a row, doubled each time that an owner loses the lock, */
#define OWN_DOUBLED_MAX	5u		/* this often at most: a barrier costs less than so many */
#define FORBIDDEN_NS	100000000u

static void owned_wake(struct owned_lock *lock)
{
	lock_wake(&lock->word);
	lock_wake(&lock->inside);
}

void owned_released(struct owned_lock *lock)
{
	uint32_t news = atomic_load_explicit(&lock_news, memory_order_relaxed);

	if (news & ~(uint32_t)LOCK_COUNTED)
		owned_wake(lock);
	if (news & LOCK_COUNTED)
		log_let_go();
}

/*
 * What other threads have stored before is seen behind it, and what they store later comes behind
 * our store. Where the program has forbidden the barrier since the lock became somebody's, we wait:
 * a processor has no reason to keep a store for itself for longer than its cache takes, and a
 * timer's interrupt, or a change of threads, ends it. This happens once a lock: none becomes
 * anybody's any more.
 */
static void owned_barrier(void)
{
	struct timespec wait = time_of(FORBIDDEN_NS);
	int err = errno;

	if (lock_make_barrier())
		return;
	atomic_fetch_or(&lock_news, LOCK_OWN_BARRIER);
	while (nanosleep(&wait, &wait) && errno == EINTR)
		;
	errno = err;
}

/*
 * The lock of another thread is held behind this, and that one's no more. The owner stores inside
 * and looks at the word, we store the word and look at inside, and the barrier is the fence of
 * both. @waits: until the owner is outside; else it stays its own if it is inside.
 */
static bool owned_claim(struct owned_lock *lock, bool waits)
{
	uint32_t expected = LOCK_BIASED;
	struct park *park;
	bool outside;

	if (!atomic_compare_exchange_strong(&lock->word, &expected, LOCK_CLAIMED))
		return false;
	park = lock_park_enter(&lock->inside);
	owned_barrier();
	for (unsigned i = 0;; i++) {
		outside = !atomic_load_explicit(&lock->inside, memory_order_acquire);	/* A14 */
		if (outside || !waits)
			break;
		if (i < TRIES)
			lock_pause();
		else
			lock_park_sleep(park, &lock->inside, 1, AGAIN_NS);
	}
	atomic_store_explicit(&lock->word, outside ? LOCK_HELD : LOCK_BIASED, memory_order_relaxed);
	lock_park_leave(park);
	if (outside)
		lock->claims += lock->claims < OWN_DOUBLED_MAX;
	else
		lock_wake(&lock->word);		/* who sleeps for it may claim it, and wait */
	return outside;
}

/* The owner has found that it has to take the lock as others do. */
static void owned_leave(struct owned_lock *lock)
{
	atomic_store_explicit(&lock->inside, 0, memory_order_release);	/* R14 */
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&lock_news, memory_order_relaxed) & ~(uint32_t)LOCK_COUNTED)
		lock_wake(&lock->inside);
}

static bool owned_enter_or_leave(struct owned_lock *lock)
{
	bool entered = owned_enter(lock);

	if (!entered)
		owned_leave(lock);
	return entered;
}

static bool owned_take(_Atomic uint32_t *word)
{
	struct owned_lock *lock = (struct owned_lock *)((char *)word - offsetof(struct owned_lock, word));

	if (atomic_load_explicit(word, memory_order_relaxed) != LOCK_BIASED)
		return lock_take_word(word);
	return owned_is_mine(lock) ? owned_enter_or_leave(lock) : owned_claim(lock, true);
}

/* After a thread has taken the lock as others do: is it to be its own from now on? */
static void owned_count(struct owned_lock *lock)
{
	uintptr_t self = lock_thread();

	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self)
		atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	if (lock->last != (uint32_t)self) {
		lock->last = (uint32_t)self;
		lock->left = (uint16_t)(OWN_AFTER << lock->claims);
	}
	if (--lock->left)
		return;
	lock->left = (uint16_t)(OWN_AFTER << lock->claims);
	/* Who owned it has not come back, and may be about to write inside. */
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) ||
	    atomic_load_explicit(&lock_news, memory_order_relaxed) & LOCK_OWN_BARRIER)
		return;
	atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
	atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
	atomic_store_explicit(&lock->word, LOCK_BIASED, memory_order_release);
}

/* What is left of taking it when this thread has it. */
static void owned_taken(struct owned_lock *lock)
{
	if (atomic_load_explicit(&lock->word, memory_order_relaxed) == LOCK_HELD)
		owned_count(lock);
	if (lock_is_counted())
		log_hold();
}

/*
 * The ordinary acquisition, by the thread that had the lock last: short, since a shared lock is taken so
 * each time. False: there is more to do; *taken says whether it has been taken, and is still to be counted.
 */
static inline bool owned_hold_again(struct owned_lock *lock, bool *taken)
{
	uintptr_t self = lock_thread();

	*taken = atomic_load_explicit(&lock->owner, memory_order_relaxed) != self && lock_take_word(&lock->word);
	if (!*taken || lock->last != (uint32_t)self || lock->left == 1 || lock_is_counted())
		return false;
	lock->left--;
	return true;
}

/* Its owner may be inside already, and called to be counted. */
static RARE void owned_wait(struct owned_lock *lock)
{
	if (!(owned_is_mine(lock) && owned_enter_or_leave(lock)) && !owned_take(&lock->word))
		lock_sleep_for(&lock->word, owned_take);
}

void owned_acquire_slowly(struct owned_lock *lock)
{
	bool taken;

	if (__builtin_expect(owned_hold_again(lock, &taken), 1))
		return;
	if (!taken)
		owned_wait(lock);
	owned_taken(lock);
}

/*
 * Who is refused leaves its work to who holds the lock, or is about to: the fence is before the
 * look that decides. An owner that meets a claim stores inside, sees the claim, and takes it back;
 * a claim that meets that gives up. Each looks once more behind a fence, so that not both are
 * refused.
 */
static RARE bool owned_try_more(struct owned_lock *lock)
{
	for (;;) {
		bool mine = owned_is_mine(lock);
		uint32_t word;

		if ((mine && owned_enter_or_leave(lock)) || lock_take_word(&lock->word))
			break;
		atomic_thread_fence(memory_order_seq_cst);
		word = atomic_load_explicit(&lock->word, memory_order_relaxed);
		if (word == LOCK_HELD || word == LOCK_CLAIMED)
			return false;
		if (word == LOCK_FREE || mine)
			continue;
		if (atomic_load_explicit(&lock->inside, memory_order_relaxed))
			return false;
		if (owned_claim(lock, false))
			break;
	}
	owned_taken(lock);
	return true;
}

bool owned_try_slowly(struct owned_lock *lock)
{
	bool taken;

	if (__builtin_expect(owned_hold_again(lock, &taken), 1))
		return true;
	if (!taken)
		return owned_try_more(lock);
	owned_taken(lock);
	return true;
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
