/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is done around fork(), in one order for all our libraries, whichever was used first.
 *
 *	prepare		in the order of the ranks: that of the locks (docs/locks.md)
 *	parent, child	in reverse
 *
 * The first fork_register() installs the handlers, not the loading of a library: allocators install
 * theirs when they are loaded, and have to come after ours, which take locks under which memory is
 * allocated. Blocks (local/block/block_fork.c) are apart: installed when the core is loaded, they come
 * last, and first in a child. So is what a child forgets of sleepers (base/lock.c), which takes no lock.
 *
 * In a child only what is safe between fork() and exec() in a threaded program: storing, closing,
 * initialising locks.
 */
#ifndef VERBATIM_BASE_FORK_H
#define VERBATIM_BASE_FORK_H

/* With the locks that are held over fork(), or only initialised anew in the child. */
enum fork_rank {
	FORK_PRELOAD,		/* anew: table_lock, sets_lock, relays_lock, those of twins (rspreload) */
	FORK_RSOCKETS,		/* anew: service_lock, entry_locks */
	FORK_DEVICES,		/* devices_lock (rdmacm) */
	FORK_CHECK,		/* check_lock */
	FORK_CM,		/* anew: start_lock, agent.lock */
	FORK_PROCESS,		/* process_lock; of QP1, claims and watched slots */
	FORK_SLOTS,		/* senders_lock */
	FORK_CONTEXTS,		/* contexts_lock (verbs) */
	FORK_UMAD,		/* files_lock (umad) */
	FORK_REGISTRY,		/* registry_lock (verbs) */
	FORK_LIVE,		/* live_lock (verbs) */
	FORK_TRACE,		/* trace.lock */
	FORK_TRACE_FILE,	/* the_file.lock */
	FORK_TSAN,		/* anew: tsan_posts, tsan_device (device/tsan_adapter.c) */
	FORK_LOG,		/* anew: repeats_lock; in the child before others release theirs */
	FORK_RANKS
};

/* Any may be NULL. */
struct fork_handlers {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/*
 * From now on, at each fork(). @handlers is not copied; to register them again is harmless. They
 * run in a closed call (base/call.h). What another thread registers while this one forks is left
 * out after fork() if it was before.
 */
void fork_register(enum fork_rank rank, const struct fork_handlers *handlers);

#endif
