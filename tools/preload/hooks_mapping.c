/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mmap(2), munmap(2), mremap(2) and madvise(2): anonymous MAP_HUGETLB memory is served by blocks,
 * and what programs do to parts of blocks means what it means for private memory.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "allocator.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25		/* Linux 6.1 */
#endif

#define HUGE_SHIFT_STANDARD 21u

/* Inside dlsym() an allocator of others may want memory: then from the kernel. */
static void *next_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	void *(*next)(void *, size_t, int, int, int, off_t) = NEXT(mmap);

	return next ? next(address, length, protection, flags, fd, offset) :
		      (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

static int next_munmap(void *address, size_t length)
{
	int (*next)(void *, size_t) = NEXT(munmap);

	return next ? next(address, length) : (int)syscall(SYS_munmap, address, length);
}

static int next_madvise(void *address, size_t length, int advice)
{
	int (*next)(void *, size_t, int) = NEXT(madvise);

	return next ? next(address, length, advice) :
		      (int)syscall(SYS_madvise, address, length, advice);
}

static void *next_mremap(void *old, size_t old_length, size_t length, int flags, void *wanted)
{
	void *(*next)(void *, size_t, size_t, int, ...) = NEXT(mremap);

	return next ? next(old, old_length, length, flags, wanted) :
		      (void *)syscall(SYS_mremap, old, old_length, length, flags, wanted);
}

/* Flags that memory has to have, and those that a block can do justice to. */
#define WANTED_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB)
#define SERVED_FLAGS                                                                    \
	((int)(WANTED_FLAGS | MAP_NORESERVE | MAP_POPULATE | MAP_STACK |                \
	       (MAP_HUGE_MASK << MAP_HUGE_SHIFT)))

/*
 * Memory that was to be of huge pages. The kernel makes them of a block when it is asked to, and
 * fills them with it; a program that has not reserved them (MAP_NORESERVE) may not mean to use all.
 */
static void *serve_huge(size_t length, int protection, int flags)
{
	unsigned wanted = (unsigned)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
	size_t huge = (size_t)1 << (wanted ? wanted : HUGE_SHIFT_STANDARD);
	size_t bytes = (length + huge - 1) & ~(huge - 1);
	void *memory;

	if ((flags & WANTED_FLAGS) != WANTED_FLAGS || (flags & ~SERVED_FLAGS) ||
	    protection != (PROT_READ | PROT_WRITE) || !length || bytes < length)
		return NULL;
	memory = allocator_serve(huge, bytes);
	if (memory && !(flags & MAP_NORESERVE)) {
		int saved = errno;

		next_madvise(memory, bytes, MADV_COLLAPSE);
		errno = saved;
	}
	return memory;
}

static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	const struct allocator_calls *calls = allocator();
	void *served = calls ? serve_huge(length, protection, flags) : NULL;

	if (served)
		return served;
	if (calls && (flags & MAP_FIXED) && (flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE)
		calls->replaced(address, length);
	return next_mmap(address, length, protection, flags, fd, offset);
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	bool replaces = (flags & MAP_FIXED) && (flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE;
	const struct check_watcher *watcher = replaces ? memory_watcher() : NULL;
	uint64_t before = watcher ? watcher->now() : 0;
	void *mapped = map(address, length, protection, flags, fd, offset);

	if (watcher && mapped != MAP_FAILED)
		watcher->gone("mmap", mapped, whole_pages(length), before);
	return mapped;
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	return mmap(address, length, protection, flags, fd, offset);
}

int munmap(void *address, size_t length)
{
	const struct allocator_calls *calls = allocator_for(address);
	const struct check_watcher *watcher = memory_watcher();
	uint64_t before = watcher ? watcher->now() : 0;
	int rc = calls && calls->unmap(address, length) ? 0 : next_munmap(address, length);

	if (watcher && !rc)
		watcher->gone("munmap", address, whole_pages(length), before);
	return rc;
}

int madvise(void *address, size_t length, int advice)
{
	const struct allocator_calls *calls = allocator_for(address);
	int err;

	if (!calls || !calls->advise(address, length, advice, &err))
		return next_madvise(address, length, advice);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* To another block, if it is a whole one, or to ordinary memory. */
static void *move_block(const struct allocator_calls *calls, void *old, size_t old_length,
			size_t length, int flags, void *wanted)
{
	bool fixed = flags & MREMAP_FIXED, whole = calls->size(old) == old_length;
	void *moved = whole && !fixed ? calls->resize(old, length) : NULL;

	if (moved)
		return moved;
	moved = map(wanted, length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
	if (moved == MAP_FAILED)
		return MAP_FAILED;
	memcpy(moved, old, old_length < length ? old_length : length);
	calls->unmap(old, old_length);
	return moved;
}

/* mremap() of a block or a part of one, as of private memory that cannot grow where it is. */
static void *remap_block(const struct allocator_calls *calls, void *old, size_t old_length,
			 size_t length, int flags, void *wanted)
{
	bool fixed = flags & MREMAP_FIXED, may_move = flags & MREMAP_MAYMOVE;

	if (!old_length || !length || (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) ||
	    (fixed && (!may_move || (uintptr_t)wanted & (PAGE_BYTES - 1)))) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	if (!fixed && length <= old_length) {
		if (length < old_length)
			calls->unmap((uint8_t *)old + length, old_length - length);
		return old;
	}
	if (may_move)
		return move_block(calls, old, old_length, length, flags, wanted);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* All of a block, which may be granted again when it has moved, or something of one. */
static bool is_of_block(const struct allocator_calls *calls, void *old, size_t length)
{
	return (length && calls->size(old) == length) || calls->replaced(old, length ? length : 1);
}

static void *remap(void *old, size_t old_length, size_t length, int flags, void *wanted)
{
	const struct allocator_calls *calls = allocator_for(old);

	if (calls && is_of_block(calls, old, whole_pages(old_length)))
		return remap_block(calls, old, whole_pages(old_length), whole_pages(length), flags,
				   wanted);
	if (calls && (flags & MREMAP_FIXED))
		calls->replaced(wanted, length);
	return next_mremap(old, old_length, length, flags, wanted);
}

/* What was at @old is at @moved now; what was there is gone. */
static void tell_remapped(const struct check_watcher *watcher, const void *old, size_t old_length,
			  const void *moved, size_t length, uint64_t before)
{
	if (moved != old) {
		watcher->gone("mremap", old, old_length, before);
		watcher->gone("mremap", moved, length, before);
	} else if (length < old_length) {
		watcher->gone("mremap", (const uint8_t *)old + length, old_length - length, before);
	}
}

void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	const struct check_watcher *watcher = memory_watcher();
	uint64_t before = watcher ? watcher->now() : 0;
	void *wanted = NULL, *moved;

	if (flags & MREMAP_FIXED) {
		va_list arguments;

		va_start(arguments, flags);
		wanted = va_arg(arguments, void *);
		va_end(arguments);
	}
	moved = remap(old, old_length, length, flags, wanted);
	if (watcher && moved != MAP_FAILED)
		tell_remapped(watcher, old, whole_pages(old_length), moved, whole_pages(length),
			      before);
	return moved;
}
