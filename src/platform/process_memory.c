/* SPDX-License-Identifier: BSD-2-Clause */
/* Copying between address spaces (process_memory.h). */
#include "platform/process_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/fail.h"

#define LAST_BYTES	64u
#define STRETCH		PROCESS_STRETCH
#define STRETCHES	4u		/* in one system call */
#define HERE_MAX	(PROCESS_PIECES_MAX + 3 * STRETCHES)
#define GUARD_TRIES	16u
#define GUARD_SPREAD	(UINT64_C(1) << 36)	/* bytes below where the kernel puts mappings */

typedef ssize_t transfer_fn(pid_t pid, const struct iovec *local, unsigned long local_count,
			    const struct iovec *remote, unsigned long remote_count,
			    unsigned long flags);

/* An address where the kernel would map a page; sanitizers refuse addresses far from it. 0: none. */
static uint64_t usual_place(size_t page)
{
	void *made = fail_now(FAIL_MMAP) ? MAP_FAILED :
		     mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		return 0;
	munmap(made, page);
	return (uintptr_t)made;
}

int process_guard_make(uint64_t *guard)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t top = usual_place(page);
	unsigned i;

	for (i = 0; i < GUARD_TRIES && top > GUARD_SPREAD; i++) {
		uint64_t hint = (top - random_u64() % GUARD_SPREAD) & ~(uint64_t)(page - 1);
		void *made = fail_now(FAIL_MMAP) ? MAP_FAILED :
			     mmap((void *)(uintptr_t)hint, page, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (made == MAP_FAILED)
			continue;
		/* A kernel that does not know the flag takes the address for a hint. */
		if (made != (void *)(uintptr_t)hint) {
			munmap(made, page);
			continue;
		}
		madvise(made, page, MADV_DONTFORK);
		*guard = hint + (random_u64() % page);
		return 0;
	}
	return ENOMEM;
}

void process_guard_free(uint64_t guard)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (guard)
		munmap((void *)(uintptr_t)(guard & ~(uint64_t)(page - 1)), page);
}

void process_guard_shut(uint64_t guard)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (guard)
		mprotect((void *)(uintptr_t)(guard & ~(uint64_t)(page - 1)), page, PROT_NONE);
}

int process_memory_probe(const struct process_memory *process)
{
	char byte;
	struct iovec local = { .iov_base = &byte, .iov_len = 1 };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)process->guard, .iov_len = 1 };

	if (!process->guard || process->pid <= 0)
		return ESRCH;
	if (fail_now(FAIL_PROCESS_VM) ||
	    process_vm_readv(process->pid, &local, 1, &remote, 1, 0) != 1)
		return errno;
	return 0;
}

/* The kernel checks the right before the address, where nothing is mapped. */
int process_access(pid_t pid)
{
	char byte;
	struct iovec local = { .iov_base = &byte, .iov_len = 1 };
	struct iovec remote = { .iov_base = NULL, .iov_len = 1 };

	if (pid <= 0)
		return ESRCH;
	if (fail_now(FAIL_PROCESS_VM))
		return errno;
	return process_vm_readv(pid, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT ? 0 : errno;
}

/*
 * One call: up to STRETCHES stretches of the pieces, of STRETCH bytes, each behind a byte of the guard.
 * The kernel copies in the order of the lists: once the guard is gone or shut, no further stretch begins.
 *
 *	there:	guard | stretch | guard | stretch ...
 *	here:	a byte | pieces, cut at stretches | a byte | ... | the last 64 bytes
 *
 * The last bytes are a piece of their own: a reader that polls the last byte finds all before it. They are
 * cut on our side, since each piece of the other side costs the kernel a walk of its page tables.
 */
struct call {
	struct iovec here[HERE_MAX], there[2 * STRETCHES];
	unsigned heres, theres;
	size_t bytes;
};

static void call_add(struct call *call, uintptr_t at, size_t bytes)
{
	/* As a number: the application's address may be invalid. */
	call->here[call->heres++] = (struct iovec){ .iov_base = (void *)at, .iov_len = bytes };
}

/* @left: bytes of the request from this stretch on. Takes them off the pieces. */
static void call_add_stretch(struct call *call, struct iovec **piece, size_t left, uint8_t *byte,
			     const struct process_memory *process, uint64_t remote)
{
	size_t bytes = left < STRETCH ? left : STRETCH;

	call->there[call->theres++] = (struct iovec){ (void *)(uintptr_t)process->guard, 1 };
	call->there[call->theres++] = (struct iovec){ (void *)(uintptr_t)remote, bytes };
	call_add(call, (uintptr_t)byte, 1);
	call->bytes += bytes;
	while (bytes) {
		size_t part;
		uintptr_t at;
		bool is_last;

		while (!(*piece)->iov_len)
			++*piece;
		part = (*piece)->iov_len < bytes ? (*piece)->iov_len : bytes;
		at = (uintptr_t)(*piece)->iov_base;
		is_last = part == left && part > LAST_BYTES;
		if (is_last)
			call_add(call, at, part - LAST_BYTES);
		call_add(call, is_last ? at + part - LAST_BYTES : at, is_last ? LAST_BYTES : part);
		(*piece)->iov_base = (void *)(at + part);
		(*piece)->iov_len -= part;
		bytes -= part;
		left -= part;
	}
}

/* The kernel stops early where memory is missing; the exact number of bytes is neither known nor needed. */
static int process_memory_transfer(const struct process_memory *process, struct iovec *piece,
				   unsigned count, uint64_t remote, transfer_fn *move)
{
	size_t left = 0;
	struct call call;
	uint8_t byte = 0;

	for (unsigned i = 0; i < count; i++)
		left += piece[i].iov_len;
	while (left) {
		unsigned stretches;
		ssize_t done;

		call.heres = call.theres = 0;
		call.bytes = 0;
		for (stretches = 0; stretches < STRETCHES && call.bytes < left; stretches++)
			call_add_stretch(&call, &piece, left - call.bytes, &byte, process,
					 remote + call.bytes);
		done = fail_now(FAIL_PROCESS_VM) ? -1 :
		       move(process->pid, call.here, call.heres, call.there, call.theres, 0);
		if (done < 0)
			return errno;
		if ((size_t)done != call.bytes + stretches)
			return EFAULT;
		left -= call.bytes;
		remote += call.bytes;
	}
	return 0;
}

/*
 * Not by the functions of libc, which thread sanitizers intercept: they would take a peer's WRITE for a write
 * of this thread, which the application synchronises with its peer only.
 */
static ssize_t vm_write(pid_t pid, const struct iovec *local, unsigned long local_count,
			const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	return syscall(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

static ssize_t vm_read(pid_t pid, const struct iovec *local, unsigned long local_count,
		       const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

int process_memory_write(const struct process_memory *process, struct iovec *piece, unsigned count,
			 uint64_t remote)
{
	return process_memory_transfer(process, piece, count, remote, vm_write);
}

int process_memory_read(const struct process_memory *process, struct iovec *piece, unsigned count,
			uint64_t remote)
{
	return process_memory_transfer(process, piece, count, remote, vm_read);
}
