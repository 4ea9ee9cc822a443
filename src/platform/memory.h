/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of this process: shared mappings, what is mapped, faults in application memory. */
#ifndef VERBATIM_PLATFORM_MEMORY_H
#define VERBATIM_PLATFORM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A zeroed, sparse, shared mapping of a new memfd whose size is sealed; MADV_DONTFORK is not set.
 * 0 or errno.
 */
int memory_shared(const char *name, size_t bytes, void **memory, int *fd);
void memory_release(void *memory, size_t bytes, int fd);

/* Map what another process made so and gave us; a fork()ed child does not have it. 0 or errno. */
int memory_map(int fd, size_t bytes, bool writable, void **memory);

/* Is every page of [@address, @address + @length) mapped, in whatever way? */
bool memory_is_mapped(const void *address, size_t length);

/* Claim SIGSEGV and SIGBUS raised inside copy_user() & co (base/copy.h); once per process. */
int fault_handler_install(void);

#endif
