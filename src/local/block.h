/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks: memory that is shared from birth. Each block is a memfd of its own, mapped once, followed
 * by a guard page; a region that is the whole of a block can be granted to a peer process of this
 * host, which maps it: an RDMA WRITE is then a store. Nothing that the application mapped itself is
 * ever replaced (docs/decisions/0010).
 *
 * Blocks come from ibv_alloc_dm(), and under `verbatim run` from page-aligned allocations of
 * programs that use RDMA (tools/preload/allocator.h). To its user a block behaves as memory of
 * malloc(); the README lists the differences.
 *
 * Rights are seals, which hold against everybody: a block is granted either for reading or for
 * writing, for life. A block that was granted once is never handed out again: block_free() unmaps
 * it, and a peer that still maps it reaches pages that are nobody's.
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
#ifndef VERBATIM_LOCAL_BLOCK_H
#define VERBATIM_LOCAL_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;

/*
 * @bytes (rounded up to whole pages, at least one) of zeros at a multiple of @alignment (a power of
 * two; at least a page). EINVAL: @alignment is no power of two. ENOMEM: no memory, the kernel has
 * no memfds with seals, the budget is used up (block_budget), or a thread is in fork(). errno is
 * kept.
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
 * The block whose pages are exactly those that [@address, +@length) lies in. It stays valid until
 * block_put(), also when its memory is freed before. NULL: there is none.
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
 * For a peer that does not end its access: it may store into the block's pages whenever it goes on, so
 * the block gets others, with the same bytes at the same address, which nobody else maps. First
 * block_withdraw(): the block is not granted any more. Then, when everybody but that peer has been
 * told, block_make_private(): stores of this process's threads go on meanwhile and none is lost, but
 * input that the kernel has under way into pinned pages (O_DIRECT, io_uring's fixed buffers) may be, and
 * mlock() is undone. 0; EINVAL: parts of the block were unmapped or replaced, or it was not withdrawn;
 * EACCES: parts are protected; EBADF: the application closed our descriptor; others from mmap(2). It is
 * as before then.
 */
void block_withdraw(struct block *block);
bool block_is_withdrawn(const struct block *block);
int block_make_private(struct block *block);

/*
 * What applications do to memory by system calls, for whoever stands in front of these.
 *
 * munmap() of whole pages: true: there were blocks in the range, and all of it is unmapped now, as
 * munmap() would. False: there were none, and nothing was done. Cheap when there are none.
 */
bool block_unmap(void *address, size_t length);
/*
 * madvise() of whole pages inside a block, where advice on shared memory would mean something else
 * than on private memory: true: done, with the outcome in *@err. False: the kernel's answer is
 * right.
 */
bool block_advise(void *address, size_t length, int advice, int *err);
/*
 * Something else is about to be mapped over these pages, or they are moved: blocks among them can
 * no longer be granted. False: there are none.
 */
bool block_replaced(const void *address, size_t length);

/*
 * For fork(): before it, and after it in parent and child. A child has its own copy of each block.
 *
 * block_fork.c has them called by handlers of its own (pthread_atfork), from the moment the library
 * is loaded, for blocks exist without an open device, too. Registered that early they run last
 * before fork() and first after it: the copies are taken as late as can be, and no other handler of
 * the child finds the places of blocks empty. No lock is held from one to the other, so that they
 * need no place in the order of locks. A second caller does no harm, and no good.
 */
void block_before_fork(void);
void block_after_fork_parent(void);
void block_after_fork_child(void);

/* What may be used, and what is: for explanations. */
struct block_budget {
	unsigned blocks, blocks_max;
	uint64_t bytes, bytes_max;
};
void block_budget(struct block_budget *budget);

#endif
