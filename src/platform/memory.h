/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of this process: shared mappings, what is mapped, faults in application memory. */
#ifndef VERBATIM_PLATFORM_MEMORY_H
#define VERBATIM_PLATFORM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A zeroed, sparse, shared mapping of a new memfd whose size is sealed; MADV_DONTFORK is not set.
 * 0 or errno; EFBIG: RLIMIT_FSIZE forbids it.
 */
int memory_shared(const char *name, size_t bytes, void **memory, int *fd);
/* The same, but nobody can be given it: for where memfds are refused. 0 or errno. */
int memory_private(size_t bytes, void **memory);
/*
 * Whole pages of the file @fd at @offset, shared, or private zeros where @fd is -1; at a multiple of
 * @alignment, a power of two. 0 or errno.
 */
int memory_aligned(int fd, uint64_t offset, size_t bytes, size_t alignment, uint8_t **memory);
void memory_release(void *memory, size_t bytes, int fd);

/* Map what another process made so and gave us; a fork()ed child does not have it. 0 or errno. */
int memory_map(int fd, size_t bytes, bool writable, void **memory);

/* The same, in place of what is mapped at @memory. */
int memory_map_over(int fd, size_t bytes, bool writable, void *memory);
/* Zeros of our own in place of what is mapped there: a thread may be about to look at it. */
int memory_blank(void *memory, size_t bytes);

/* Is every page of [@address, @address + @length) mapped, in whatever way? */
bool memory_is_mapped(const void *address, size_t length);

/* Claim SIGSEGV and SIGBUS raised inside copy_user() & co (base/copy.h); once per process. */
int fault_handler_install(void);

#endif
