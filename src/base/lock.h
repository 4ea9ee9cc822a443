/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutex with clang thread-safety annotations (-Wthread-safety is an error in the clang build).
 *
 * Lock order, outermost first; take none of a line while holding one of a later line:
 *
 *	hca     hca->lifecycle (open, close, fork)
 *	drive   hca->drive     (whoever receives packets and runs timers)
 *	device  context and device lists, qpn table
 *	qp      qp->lock       (one per QP; the transport runs to completion under it)
 *	path    path->lock, scheduler->lock
 *	cq/srq  cq->lock, srq->lock
 *	queue   event_queue->lock
 *	mr      mr_table->lock
 *
 * No system call, callback or allocation is made under qp and what follows it; what has to be
 * done afterwards (wake a sleeper) is noted in struct effects (object/event.h). What is explained or logged under
 * any lock is written when the thread has dropped its last one (base/log.h).
 */
#ifndef VERBATIM_BASE_LOCK_H
#define VERBATIM_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/log.h"

#if defined(__clang__)
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif

#define CAPABILITY	TSA(capability("mutex"))
#define GUARDED_BY(x)	TSA(guarded_by(x))
#define REQUIRES(...)	TSA(requires_capability(__VA_ARGS__))
#define ACQUIRES(...)	TSA(acquire_capability(__VA_ARGS__))
#define RELEASES(...)	TSA(release_capability(__VA_ARGS__))
#define TRY_ACQUIRES(...) TSA(try_acquire_capability(__VA_ARGS__))
#define EXCLUDES(...)	TSA(locks_excluded(__VA_ARGS__))
#define UNCHECKED_LOCKS	TSA(no_thread_safety_analysis)

struct CAPABILITY lock {
	pthread_mutex_t mutex;
};

#define LOCK_INITIALIZER { PTHREAD_MUTEX_INITIALIZER }

static inline void lock_init(struct lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
}

static inline void lock_destroy(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline bool lock_is_counted(void)
{
	return __builtin_expect(__atomic_load_n(&log_any, __ATOMIC_RELAXED), 0);
}

static inline void lock_acquire(struct lock *lock) ACQUIRES(lock) UNCHECKED_LOCKS
{
	pthread_mutex_lock(&lock->mutex);
	if (lock_is_counted())
		log_hold();
}

static inline bool lock_try(struct lock *lock) TRY_ACQUIRES(true, lock) UNCHECKED_LOCKS
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	if (lock_is_counted())
		log_hold();
	return true;
}

static inline void lock_release(struct lock *lock) RELEASES(lock) UNCHECKED_LOCKS
{
	pthread_mutex_unlock(&lock->mutex);
	if (lock_is_counted())
		log_let_go();
}

#endif
