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
	check_gone *gone = memory_watcher();
	void (*next)(void *memory);

	if (gone && memory)
		gone("free", memory, malloc_usable_size(memory));
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

void *realloc(void *memory, size_t size)
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
