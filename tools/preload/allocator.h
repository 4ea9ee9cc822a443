/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Page-aligned memory of programs that use RDMA: blocks of the core (src/local/block/block.h), which
 * peers of the host may map.
 *
 *	allocator_serve.c	the core offers blocks; may they be served in this process?
 *	hooks_malloc.c		free realloc posix_memalign ...	calls of the C library, replaced
 *	hooks_mapping.c		mmap munmap mremap madvise
 *
 * Until the core has offered them the C library is asked after a look at one variable; later, for
 * memory that does not begin at a page, after a look at its address, too.
 */
#ifndef VERBATIM_TOOLS_PRELOAD_ALLOCATOR_H
#define VERBATIM_TOOLS_PRELOAD_ALLOCATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/watch.h"
#include "local/block/allocator.h"

#define PAGE_BYTES 4096u	/* the smallest that there are: block.c knows the machine's */

extern const struct allocator_calls *_Atomic allocator_calls;

/* Told of memory that goes, when a check asks for it (check/watch.h); else NULL. */
extern const struct check_watcher *_Atomic memory_watch;

static inline const struct check_watcher *memory_watcher(void)
{
	return atomic_load_explicit(&memory_watch, memory_order_acquire);
}

/* The calls of the core, once blocks are served; else NULL. */
static inline const struct allocator_calls *allocator(void)
{
	return atomic_load_explicit(&allocator_calls, memory_order_acquire);
}

/* The same, if @memory may be a block. */
static inline const struct allocator_calls *allocator_for(const void *memory)
{
	return (uintptr_t)memory & (PAGE_BYTES - 1) ? NULL : allocator();
}

/* A block; NULL: ordinary memory is to be had instead. errno is kept. */
void *allocator_serve(size_t alignment, size_t size);

/*
 * The function that ours stands in front of. NULL inside dlsym() itself, which may allocate and
 * free while it looks for the function.
 */
void *allocator_next(const char *name);

#define NEXT(function)                                                                  \
	({                                                                              \
		static _Atomic(void *) cached;                                          \
		void *found = atomic_load_explicit(&cached, memory_order_relaxed);      \
		if (__builtin_expect(!found, 0)) {                                      \
			found = allocator_next(#function);                              \
			atomic_store_explicit(&cached, found, memory_order_relaxed);    \
		}                                                                       \
		(__typeof__(&function))found;                                           \
	})

#endif
