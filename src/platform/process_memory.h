/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of another process of this user: process_vm_readv(2) and process_vm_writev(2), which
 * sandboxes may forbid (seccomp, Yama): probe first.
 *
 * A process ID is not enough: its process may have called exec(), or have ended and the ID be in use
 * again. So each process that gives others access keeps guards, one for each peer: bytes at addresses of
 * its own choice. Each 256 KiB of a transfer begin with that byte: in another image it is missing, and the
 * transfer fails before memory is touched. By shutting the guard its owner stops a peer whose thread is
 * held up in mid-transfer.
 */
#ifndef VERBATIM_PLATFORM_PROCESS_MEMORY_H
#define VERBATIM_PLATFORM_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define PROCESS_PIECES_MAX 34u

struct process_memory {
	pid_t pid;
	uint64_t guard;			/* address of its guard; 0: it has none */
};

/* A guard of this process. 0 or errno. A fork()ed child does not have it. */
int process_guard_make(uint64_t *guard);
void process_guard_free(uint64_t guard);
/* No further transfer that names it begins; the address stays in use until process_guard_free(). */
void process_guard_shut(uint64_t guard);

/*
 * Would the kernel let us reach the memory of that process (its ptrace check)? 0, or why not: EPERM, ENOSYS,
 * ESRCH (it has ended, too).
 */
int process_access(pid_t pid);

/* Can we read its memory? 0, or why not: EPERM, ENOSYS, ESRCH, EFAULT. */
int process_memory_probe(const struct process_memory *process);

#define PROCESS_STRETCH 262144u	/* bytes between two reads of the guard */

/*
 * Copy the pieces (local, at most PROCESS_PIECES_MAX; they are used up) to or from @remote of the
 * process: as many bytes as the pieces have. The last 64 bytes (or as many as the last piece has) become
 * visible last. 0; EFAULT: something is not mapped, here or there, or the guard is shut; ESRCH; EPERM.
 */
int process_memory_write(const struct process_memory *process, struct iovec *piece, unsigned count,
			 uint64_t remote);
int process_memory_read(const struct process_memory *process, struct iovec *piece, unsigned count,
			uint64_t remote);

#endif
