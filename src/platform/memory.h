/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of this process: shared mappings, what is mapped, faults in application memory. */
#ifndef VERBATIM_PLATFORM_MEMORY_H
#define VERBATIM_PLATFORM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A zeroed, sparse, shared mapping of a new memfd in place of what is mapped at @memory. Its size is
 * sealed, and so is writing by others: a process that is given *fd can only read. A fork()ed child does not
 * have it. 0 or errno; EFBIG: RLIMIT_FSIZE forbids it; EINVAL: the kernel (before 5.1) does not know that seal.
 */
int memory_shared(const char *name, size_t bytes, void *memory, int *fd);
/* An empty memfd that can be sealed, not executable, of our user alone; lists show @name. -1: errno. */
int memory_file_open(const char *name);
/* A private, sparse mapping of zeros. 0 or errno. */
int memory_private(size_t bytes, void **memory);
#define MEMORY_PAGE 4096u

/*
 * Two mappings of @bytes, a multiple of MEMORY_REPEAT: of zeros, to be read, and of memory that may be written and
 * takes MEMORY_REPEAT bytes, again and again the same. 0 or errno.
 */
#define MEMORY_REPEAT	(16u << 20)
int memory_null(size_t bytes, void **zeros, void **sink);

/* Address space at a multiple of @alignment (a power of two), not accessible yet. 0 or errno. */
int memory_reserve(size_t bytes, size_t alignment, uint8_t **memory);
/* Private zeros, whole pages, at a multiple of @alignment, a power of two. 0 or errno. */
int memory_aligned(size_t bytes, size_t alignment, uint8_t **memory);
void memory_release(void *memory, size_t bytes, int fd);

/*
 * Map for reading, in place of what is mapped at @memory, a mapping that another process made by
 * memory_shared() and sent to us. A fork()ed child does not have it. 0 or errno.
 */
int memory_map_over(int fd, size_t bytes, void *memory);
/*
 * Map a block that another process sent to us: a memfd of ordinary pages and of exactly that size, sealed
 * against resizing. EPROTO: it is not such a memfd; other errors are the kernel's.
 */
int memory_map_sealed(int fd, size_t bytes, bool writable, void **memory);
/* Private zeros in place of what is mapped there: a thread may still read it. */
int memory_blank(void *memory, size_t bytes);

/*
 * Is all of [@address, @address + @length) mapped for reading, and for writing if @writable? 0; EFAULT: there
 * is a hole; EACCES: a mapping lacks the right; ENOSYS: unknown (no /proc).
 */
int memory_check(const void *address, size_t length, bool writable);
/*
 * Makes the pages of [@address, @address + @length) present, for reading or for writing. 0; ENOMEM, EFAULT: parts
 * are not mapped, or not with that right.
 */
int memory_populate(const void *address, size_t length, bool writable);
/* Close the descriptor that memory_check() keeps: at the last close, and in a fork()ed child. */
void memory_check_end(void);
/* For tests and measurements: as on kernels before 6.11. */
extern bool memory_check_by_text;

/*
 * Claim SIGSEGV and SIGBUS raised inside copy_user() & co (base/copy.h). To be called repeatedly: the
 * application may have installed handlers of its own since, which get all other faults. 0 or errno.
 */
int fault_handler_install(void);

#endif
