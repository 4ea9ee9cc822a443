/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks: memory that can be shared. Each block is a memfd of its own, mapped once, followed by a
 * guard page; a region that is the whole of a block can be granted to a peer process of this host,
 * which maps it: an RDMA WRITE is then a store. Nothing that the application mapped itself is ever
 * replaced (docs/decisions/0010).
 *
 * Blocks come from ibv_alloc_dm(), and under `verbatim run` from page-aligned allocations of
 * programs that use RDMA (tools/preload/allocator.h). To its user a block behaves as memory of
 * malloc(); docs/blocks.md lists the differences.
 *
 * Rights are seals, which bind every process: a block is granted either for reading or for writing,
 * for life. A block that was granted is never reused: block_free() unmaps it, and a peer that still
 * maps it accesses pages that no other process uses.
 *
 * Thread-safe. No call blocks on another process. No lock is held while memory is mapped or
 * unmapped, so that hooks of mmap() and munmap(), which UCX installs, may allocate and free.
 *
 *	block.c		allocate, free, resize
 *	block_table.c	which blocks there are; the budget
 *	block_memory.c	memfd, descriptor, mapping, seals at birth
 *	block_grant.c	references, grants, and their end
 *	block_range.c	munmap(), madvise() and mmap(MAP_FIXED) of parts
 *	block_fork.c	copies for a child
 */
#ifndef VERBATIM_LOCAL_BLOCK_BLOCK_H
#define VERBATIM_LOCAL_BLOCK_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;

/*
 * @bytes (rounded up to whole pages, at least one) of zeros at a multiple of @alignment (a power of
 * two; at least a page). EINVAL: @alignment is not a power of two. ENOMEM: no memory, the kernel
 * has no memfds with seals, the budget is used up (block_budget), or a thread is in fork(). errno
 * is kept.
 */
int block_alloc(size_t bytes, size_t alignment, void **memory);
/*
 * False: @memory is not the start of a block, and nothing was done. Cheap when there are none.
 * Keeps errno.
 */
bool block_free(void *memory);
/* Usable bytes of the block that starts at @memory; 0: none does. Cheap when there are none. */
size_t block_size(const void *memory);
/*
 * Move or resize, as realloc() for blocks: contents kept, the new part zeros. NULL and errno: the
 * block is as before.
 */
void *block_resize(void *memory, size_t bytes);

/*
 * The block whose pages are exactly those under [@address, +@length), or NULL. It stays valid until
 * block_put(), even if its memory is freed before.
 */
struct block *block_get(const void *address, size_t length);
void block_put(struct block *block);
/* Pages of the block: where, how many bytes. */
uint8_t *block_memory(const struct block *block);
size_t block_bytes(const struct block *block);
/*
 * A new descriptor of the block for a peer, sealed for @writable or reading: the caller closes it.
 * EPERM: it was granted the other way before; EBADF: the application closed our descriptor, or this
 * process is a child and the block is its parent's; ENOENT: the block was freed; EOPNOTSUPP: this
 * kernel cannot grant reading alone; others from the kernel.
 */
int block_grant(struct block *block, bool writable, int *fd);

/*
 * Take a block back from a peer that does not end its access and may store into the pages when it
 * resumes: the block gets private pages, with the same bytes at the same address. First call
 * block_withdraw(): the block is no longer granted. Once all other peers are told, call
 * block_make_private(): concurrent stores of this process are kept, but input that the kernel has
 * in flight into pinned pages (O_DIRECT, io_uring's fixed buffers) may be lost, and mlock() is
 * undone. 0; EINVAL: parts of the block were unmapped or replaced, or it was not withdrawn; EACCES:
 * parts are protected; EBADF: the application closed our descriptor; others from mmap(2). On
 * failure the block is unchanged.
 */
void block_withdraw(struct block *block);
bool block_is_withdrawn(const struct block *block);
int block_make_private(struct block *block);

/*
 * System calls of the application on memory that may contain blocks, for the library that
 * intercepts them.
 *
 * munmap() of whole pages. True: the range contained blocks and is unmapped, as by munmap(). False:
 * it contained none, and nothing was done. Cheap when there are no blocks.
 */
bool block_unmap(void *address, size_t length);
/*
 * madvise() of whole pages inside a block, for advice whose effect differs between shared and
 * private memory. True: done, the result is in *@err. False: call the kernel.
 */
bool block_advise(void *address, size_t length, int advice, int *err);
/*
 * These pages are about to be mapped over or moved: blocks among them can no longer be granted.
 * False: there are none.
 */
bool block_replaced(const void *address, size_t length);

/*
 * For fork(): before it, and after it in parent and child. A child has its own copy of each block.
 *
 * block_fork.c registers them with pthread_atfork() when the library is loaded, since blocks exist
 * without an open device, too. Registered that early, they run last before fork() and first after
 * it: the copies are taken as late as possible, and no other handler of the child finds the places
 * of blocks empty. No lock is held between them, so they need no place in the lock order. Calling
 * them again is harmless.
 */
void block_before_fork(void);
void block_after_fork_parent(void);
void block_after_fork_child(void);

/* Limits and use, for explanations. */
struct block_budget {
	unsigned blocks, blocks_max;
	uint64_t bytes, bytes_max;
};
void block_budget(struct block_budget *budget);

#endif
