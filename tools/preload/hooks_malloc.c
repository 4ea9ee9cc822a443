/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the C library that allocate page-aligned memory, and those that may be given it.
 * malloc() and calloc() are not among them: what they return is never a block.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"

void free(void *memory)
{
	const struct allocator_calls *calls = allocator_for(memory);
	const struct check_watcher *watcher = memory_watcher();
	void (*next)(void *memory);

	if (watcher && memory)
		watcher->gone("free", memory, malloc_usable_size(memory), CHECK_ALL_POSTS);
	if (calls && memory && calls->free(memory))
		return;
	next = NEXT(free);
	if (next)
		next(memory);	/* else dlsym() frees something: nobody knows whose, it stays */
}

size_t malloc_usable_size(void *memory)
{
	const struct allocator_calls *calls = allocator_for(memory);
	size_t bytes = calls && memory ? calls->size(memory) : 0;

	return bytes ? bytes : NEXT(malloc_usable_size)(memory);
}

/* Where there is no room for another block it becomes ordinary memory. */
static void *resize_block(const struct allocator_calls *calls, void *memory, size_t old,
			  size_t size)
{
	void *moved;
	int saved = errno;

	if (!size) {
		calls->free(memory);
		return NULL;
	}
	moved = calls->resize(memory, size);
	if (moved)
		return moved;
	errno = saved;
	moved = malloc(size);
	if (!moved)
		return NULL;
	memcpy(moved, memory, size < old ? size : old);
	calls->free(memory);
	return moved;
}

static void *resize(void *memory, size_t size)
{
	const struct allocator_calls *calls = allocator_for(memory);
	size_t old = calls && memory ? calls->size(memory) : 0;
	void *(*next)(void *memory, size_t size);

	if (old)
		return resize_block(calls, memory, old, size);
	next = NEXT(realloc);
	if (next)
		return next(memory, size);
	errno = ENOMEM;
	return NULL;
}

/* What was @bytes at @memory is at @moved now, or nowhere. */
static void tell_resized(const struct check_watcher *watcher, const void *memory, size_t bytes,
			 void *moved, uint64_t before)
{
	size_t left = moved == memory ? malloc_usable_size(moved) : 0;

	if (left < bytes)
		watcher->gone("realloc", (const uint8_t *)memory + left, bytes - left, before);
}

void *realloc(void *memory, size_t size)
{
	const struct check_watcher *watcher = memory ? memory_watcher() : NULL;
	size_t bytes = watcher ? malloc_usable_size(memory) : 0;
	uint64_t before = watcher ? watcher->now() : 0;
	void *moved = resize(memory, size);

	if (watcher && (moved || !size))
		tell_resized(watcher, memory, bytes, moved, before);
	return moved;
}

void *reallocarray(void *memory, size_t count, size_t size)
{
	size_t bytes;

	if (!__builtin_mul_overflow(count, size, &bytes))
		return realloc(memory, bytes);
	errno = ENOMEM;
	return NULL;
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	void *served = allocator_serve(alignment, size);

	if (!served)
		return NEXT(posix_memalign)(memory, alignment, size);
	*memory = served;
	return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	void *served = allocator_serve(alignment, size);

	return served ? served : NEXT(aligned_alloc)(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
	void *served = allocator_serve(alignment, size);

	return served ? served : NEXT(memalign)(alignment, size);
}

void *valloc(size_t size)
{
	void *served = allocator_serve(PAGE_BYTES, size);

	return served ? served : NEXT(valloc)(size);
}

void *pvalloc(size_t size)
{
	void *served = allocator_serve(PAGE_BYTES, size);

	return served ? served : NEXT(pvalloc)(size);
}
