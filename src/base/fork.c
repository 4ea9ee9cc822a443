/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork handlers by rank (fork.h). The C library calls its handlers in the order in which they were
 * installed, or the reverse: with one set of them the order is ours.
 */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/call.h"

/* Handlers are never changed and never taken back: a relaxed load of one is enough. */
static const struct fork_handlers *_Atomic registered[FORK_RANKS];

/* Of the thread that forks, a bit each rank: it was there before fork(). */
static _Thread_local unsigned prepared __attribute__((tls_model("initial-exec")));

static const struct fork_handlers *handlers_of(int rank)
{
	return atomic_load_explicit(&registered[rank], memory_order_relaxed);
}

static void fork_prepare(void)
{
	const struct fork_handlers *handlers;
	int rank;

	call_enter(CALL_CLOSED);
	prepared = 0;
	for (rank = 0; rank < FORK_RANKS; rank++) {
		handlers = handlers_of(rank);
		if (!handlers)
			continue;
		prepared |= 1u << rank;
		if (handlers->prepare)
			handlers->prepare();
	}
}

static void fork_finish(bool child)
{
	void (*handler)(void);
	int rank;

	for (rank = FORK_RANKS - 1; rank >= 0; rank--) {
		if (!(prepared & 1u << rank))
			continue;
		handler = child ? handlers_of(rank)->child : handlers_of(rank)->parent;
		if (handler)
			handler();
	}
	call_leave(CALL_CLOSED);
}

static void fork_parent(void)
{
	fork_finish(false);
}

static void fork_child(void)
{
	fork_finish(true);
}

static void fork_install(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void fork_register(enum fork_rank rank, const struct fork_handlers *handlers)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	atomic_store_explicit(&registered[rank], handlers, memory_order_relaxed);
	pthread_once(&once, fork_install);
}
