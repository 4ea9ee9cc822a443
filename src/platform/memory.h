/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VERBATIM_PLATFORM_MEMORY_H
#define VERBATIM_PLATFORM_MEMORY_H

#include <stddef.h>

/* A zeroed, sparse, shared mapping of a new memfd; MADV_DONTFORK is not set. 0 or errno. */
int memory_shared(const char *name, size_t bytes, void **memory, int *fd);
void memory_release(void *memory, size_t bytes, int fd);

/* Claim SIGSEGV and SIGBUS raised inside copy_user() & co (base/copy.h); once per process. */
int fault_handler_install(void);

#endif
