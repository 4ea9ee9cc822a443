/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchanging the pages behind addresses of this process: private ones for those of a shared file
 * (a pool), and back, with their content. To the process nothing changes; whoever maps the pool sees
 * the same pages. docs/decisions/0010 has the argument why this is safe.
 */
#ifndef VERBATIM_PLATFORM_MEMORY_SWAP_H
#define VERBATIM_PLATFORM_MEMORY_SWAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_PAGE 4096u

/* Threads of this process, as the kernel counts them; 0: cannot be known. */
unsigned memory_thread_count(void);

/*
 * Is [@start, +@bytes) ordinary memory: private, anonymous or once of @fd, readable and writable, no
 * stack?
 */
bool memory_is_ordinary(const void *start, size_t bytes, int fd);

/*
 * Whole pages [@start, +@bytes) become those of @fd at @offset (which are holes before). Pages that
 * were never touched stay holes. Nobody may write to them meanwhile. 0 or errno: nothing has changed.
 */
int memory_share(void *start, size_t bytes, int fd, uint64_t offset);
/*
 * All mappings of [@offset, +@bytes) of @fd, wherever in this process they are by now, become private,
 * with their content. Other threads may go on reading and writing. Then nobody needs the file's pages:
 * memory_punch(). 0 or errno: some are shared still.
 */
int memory_unshare(int fd, uint64_t offset, uint64_t bytes);
/* Give the file's pages back to the system. */
void memory_punch(int fd, uint64_t offset, uint64_t bytes);

#endif
