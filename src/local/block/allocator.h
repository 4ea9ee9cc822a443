/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks under malloc's names. libverbatim-preload.so (`verbatim run`) stands in front of the C
 * library's allocator and does not link to the core: programs that never ask for a device never
 * load it. When one does, the core looks for the library's function ALLOCATOR_HOOK and hands it
 * these calls; from then on page-aligned allocations are blocks.
 */
#ifndef VERBATIM_LOCAL_BLOCK_ALLOCATOR_H
#define VERBATIM_LOCAL_BLOCK_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#define ALLOCATOR_VERSION	1u
#define ALLOCATOR_HOOK		"verbatim_preload_serve"

/* The functions block_* of block.h. */
struct allocator_calls {
	unsigned version;		/* ALLOCATOR_VERSION */
	int (*alloc)(size_t bytes, size_t alignment, void **memory);
	bool (*free)(void *memory);
	size_t (*size)(const void *memory);
	void *(*resize)(void *memory, size_t bytes);
	bool (*unmap)(void *address, size_t length);
	bool (*advise)(void *address, size_t length, int advice, int *err);
	bool (*replaced)(const void *address, size_t length);
};

enum allocator_answer {
	ALLOCATOR_SERVES,	/* the calls are in use until the process ends */
	ALLOCATOR_REFUSES,	/* never: *reason says why, until the next call */
	ALLOCATOR_LATER,	/* the library itself has asked for devices: ask again */
};

/* The type of the hook. */
typedef enum allocator_answer allocator_hook(const struct allocator_calls *calls,
					     const char **reason);

/*
 * The application has asked for devices: offer blocks to the preloaded library, if there is one.
 * False: offer them again next time.
 */
bool allocator_offer(void);

#endif
