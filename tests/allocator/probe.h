/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that allocates page-aligned memory in every way that programs do, under `verbatim run`;
 * one TAP line for each test. What is served is seen from outside: blocks are named in
 * /proc/self/maps.
 *
 *	probe.c			before and after the first question for devices; who serves what
 *	probe_memory.c		realloc, madvise, mremap, munmap, limits
 *	probe_process.c		fork, exec, descriptors, threads
 */
#ifndef VERBATIM_TESTS_ALLOCATOR_PROBE_H
#define VERBATIM_TESTS_ALLOCATOR_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#define PAGE 4096u

void report(bool good, const char *name);

/* Is @memory in a block? */
bool is_block(const void *memory);
unsigned count_blocks(void);
/* posix_memalign() at pages. */
void *pages(size_t bytes);
/* Are all @bytes at @memory @byte? */
bool all_are(const void *memory, size_t bytes, int byte);

void test_memory(void);
void test_processes(const char *self);

#endif
