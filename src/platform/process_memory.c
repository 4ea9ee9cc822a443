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
#define GUARD_TRIES	16u
#define GUARD_SPREAD	(UINT64_C(1) << 36)	/* bytes below where the kernel puts mappings */

typedef ssize_t transfer_fn(pid_t pid, const struct iovec *local, unsigned long local_count,
			    const struct iovec *remote, unsigned long remote_count,
			    unsigned long flags);

/* Where the kernel would put a page; sanitizers refuse places far from there. 0: it has none. */
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

static size_t total_of(const struct iovec *piece, unsigned count)
{
	size_t total = 0;
	unsigned i;

	for (i = 0; i < count; i++)
		total += piece[i].iov_len;
	return total;
}

/* Drop @bytes from the beginning of the pieces. */
static void advance(struct iovec **piece, unsigned *count, size_t bytes)
{
	while (bytes && bytes >= (*piece)->iov_len) {
		bytes -= (*piece)->iov_len;
		(*piece)++;
		(*count)--;
	}
	if (bytes) {
		(*piece)->iov_base = (char *)(*piece)->iov_base + bytes;
		(*piece)->iov_len -= bytes;
	}
}

/*
 * All pieces, of which the last is cut before its last bytes: the kernel copies piece by piece, and who
 * waits for the last byte finds all before it. Here and not on the other side, since each piece of the
 * other side costs the kernel a look at its page tables.
 */
static unsigned cut_last(struct iovec cut[PROCESS_PIECES_MAX + 1], const struct iovec *piece,
			 unsigned count)
{
	struct iovec *last = &cut[count - 1];

	memcpy(cut, piece, count * sizeof(*piece));
	if (last->iov_len <= LAST_BYTES)
		return count;
	last->iov_len -= LAST_BYTES;
	/* As a number: what an application calls memory may be none. */
	last[1] = (struct iovec){ .iov_base = (void *)((uintptr_t)last->iov_base + last->iov_len),
				  .iov_len = LAST_BYTES };
	return count + 1;
}

/* The kernel moves at most 2 GiB at once; it may also stop early where memory is missing. */
static int transfer(const struct process_memory *process, struct iovec *piece, unsigned count,
		    uint64_t remote, transfer_fn *move)
{
	size_t left = total_of(piece + 1, count - 1);
	struct iovec here[PROCESS_PIECES_MAX + 1];
	char byte = 0;

	while (left) {
		struct iovec there[2] = {
			{ .iov_base = (void *)(uintptr_t)process->guard, .iov_len = 1 },
			{ .iov_base = (void *)(uintptr_t)remote, .iov_len = left },
		};
		unsigned pieces;
		ssize_t done;

		piece[0] = (struct iovec){ .iov_base = &byte, .iov_len = 1 };
		pieces = cut_last(here, piece, count);
		done = fail_now(FAIL_PROCESS_VM) ? -1 :
		       move(process->pid, here, pieces, there, 2, 0);
		if (done < 0)
			return errno;
		if (done <= 1)
			return EFAULT;
		done--;
		left -= (size_t)done;
		remote += (size_t)done;
		if (left) {
			piece++;
			count--;
			advance(&piece, &count, (size_t)done);
			piece--;
			count++;
		}
	}
	return 0;
}

/*
 * Not by the functions of libc, which thread sanitizers know: they would take what a peer's WRITE brings for
 * a write of this thread's, and the application learns of it from its peer only.
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
	return transfer(process, piece, count, remote, vm_write);
}

int process_memory_read(const struct process_memory *process, struct iovec *piece, unsigned count,
			uint64_t remote)
{
	return transfer(process, piece, count, remote, vm_read);
}

bool process_is_stopped(pid_t pid)
{
	char path[64], line[256];
	const char *name_end;
	FILE *status;
	bool known;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	status = fail_now(FAIL_PROC) ? NULL : fopen(path, "re");
	if (!status)
		return true;
	known = fgets(line, sizeof(line), status);
	fclose(status);
	/* pid (name) state: the name may hold anything. */
	name_end = known ? strrchr(line, ')') : NULL;
	return !name_end || strchr("Tt", name_end[2]);
}
