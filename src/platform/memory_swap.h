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
 * were never touched stay holes, but for very few. Nobody may write to them meanwhile. 0 or errno:
 * nothing has changed (but the file may have pages: memory_punch()).
 */
int memory_share(void *start, size_t bytes, int fd, uint64_t offset);
/* Is that what @start is: @fd at @offset, shared? (The process may have mapped something else there.) */
bool memory_is_shared(const void *start, size_t bytes, int fd, uint64_t offset);

/*
 * All shared mappings of [@offset, +@bytes) of @fd, wherever in this process they are by now, become
 * private, with their content and rights. Then nobody needs the file's pages: memory_punch().
 *
 * @quiet: no other thread touches them meanwhile. Then nothing maps the file there any more. Else others
 * may go on reading and writing, and the file stays mapped there, privately (*@stays): until that ends
 * (memory_each_mapping) that place in the file must stay a hole.
 * 0 or errno: some are shared still, and nothing is lost.
 */
int memory_unshare(int fd, uint64_t offset, uint64_t bytes, bool quiet, bool *stays);
/* In a fork()ed child: memory of its own in place of all mappings of @fd, private ones too. */
int memory_leave(int fd);

typedef void memory_mapping_fn(void *context, uint64_t offset, uint64_t bytes);
/* Call @use for each mapping of @fd in this process. 0, or errno: some were not seen. */
int memory_each_mapping(int fd, memory_mapping_fn *use, void *context);

/* Give the file's pages back to the system. */
void memory_punch(int fd, uint64_t offset, uint64_t bytes);

#endif
