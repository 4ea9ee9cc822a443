/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private pages for shared ones and back (memory_swap.h).
 *
 * To share: what the process has touched is written to the file, which is then mapped over the old
 * pages; what somebody writes in between would be lost.
 *
 * Back, where nobody writes: anonymous memory is mapped over the old and filled from the file. It is as
 * it was, and the kernel joins it to its neighbours: nothing of us remains.
 *
 * Back, where others may write: the same pages of the file are mapped privately in one call, so content
 * and addresses stay; then each page that the file has is touched by an atomic exchange of a byte for
 * itself, whereupon the kernel makes a private copy. Writes of other threads go before or after that
 * copy and are in it either way. What was never touched is still read from the file, and so is what
 * madvise() drops: its place must stay a hole while anybody maps it (memory_each_mapping).
 */
#include "platform/memory_swap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/fail.h"
#include "platform/memory_areas.h"

#define PAGEMAP_BATCH	512u
#define PAGES_FEW	4u
#define PAGEMAP_PRESENT	(UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED	(UINT64_C(1) << 62)

/* ---- what is there ---- */

unsigned memory_thread_count(void)
{
	struct stat status;

	/* One link for ".", one for "..", one for each thread. */
	return stat("/proc/self/task", &status) || status.st_nlink < 3 ? 0 :
									 (unsigned)status.st_nlink - 2;
}

typedef bool area_fn(const struct area *area, void *context);

/* Does @fits hold for every area of [@start, +@bytes), and is there no gap? */
static bool all_areas(const void *start, size_t bytes, area_fn *fits, void *context)
{
	uintptr_t at = (uintptr_t)start, end = at + bytes;
	struct areas areas;
	struct area area;

	if (!areas_open(&areas, AREAS_ALL, at))
		while (at < end && areas_next(&areas, &area)) {
			if (area.start > at || !fits(&area, context))
				break;
			at = area.end;
		}
	return !areas_close(&areas) && at >= end;
}

static bool is_ordinary_area(const struct area *area, void *context)
{
	if (area->shared || area->rights != (PROT_READ | PROT_WRITE))
		return false;
	if (area->inode)
		return area_is_of(area, context);
	/* "[heap]" and "[anon:...]" are ordinary; "[stack]", "[vvar]" and the like are not. */
	return area->name[0] != '[' || !strcmp(area->name, "[heap]") ||
	       !strncmp(area->name, "[anon", 5);
}

bool memory_is_ordinary(const void *start, size_t bytes, int fd)
{
	struct file_id id;

	return !file_identify(fd, &id) && all_areas(start, bytes, is_ordinary_area, &id);
}

struct file_place {
	struct file_id id;
	uint64_t offset_minus_address;	/* modulo 2^64 */
};

static bool is_at_place(const struct area *area, void *context)
{
	const struct file_place *place = context;

	return area->shared && area_is_of(area, &place->id) &&
	       area->offset - area->start == place->offset_minus_address;
}

bool memory_is_shared(const void *start, size_t bytes, int fd, uint64_t offset)
{
	struct file_place place = { .offset_minus_address = offset - (uintptr_t)start };

	return !file_identify(fd, &place.id) && all_areas(start, bytes, is_at_place, &place);
}

/* The part of an area that lies in [@offset, +@bytes) of the file. */
struct part {
	char *start;
	uint64_t offset;
	size_t bytes;
	int rights;
	bool is_shared;
};

/* ---- what is in use ---- */

typedef int run_fn(void *context, size_t skip, size_t bytes);

/* The entries of @count pages from @start on; false: they cannot be known. */
static bool read_pagemap(int fd, const char *start, size_t count, uint64_t entry[PAGEMAP_BATCH])
{
	uint64_t at = (uintptr_t)start / MEMORY_PAGE * sizeof(uint64_t);
	size_t bytes = count * sizeof(uint64_t);

	return fd >= 0 && pread(fd, entry, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Runs of touched pages among @count, which begin @skip bytes behind the beginning of all. */
static int each_run(const uint64_t *entry, size_t count, size_t skip, run_fn *use, void *context)
{
	size_t first = 0, end;
	int err = 0;

	while (first < count && !err) {
		for (end = first; end < count && entry[end] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED); end++)
			;
		if (end > first)
			err = use(context, skip + first * MEMORY_PAGE, (end - first) * MEMORY_PAGE);
		first = end + 1;
	}
	return err;
}

/*
 * Call @use for the pages that the process has touched. A page of a file or of nothing reads as zeros
 * either way; of so few pages that asking costs more than they do, all are taken.
 */
static int each_touched(const char *start, size_t bytes, run_fn *use, void *context)
{
	uint64_t entry[PAGEMAP_BATCH];
	size_t pages = bytes / MEMORY_PAGE, first;
	int fd = pages <= PAGES_FEW ? -1 : open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), err = 0;

	for (first = 0; first < pages && !err; first += PAGEMAP_BATCH) {
		size_t count = pages - first < PAGEMAP_BATCH ? pages - first : PAGEMAP_BATCH;
		size_t skip = first * MEMORY_PAGE;

		err = read_pagemap(fd, start + skip, count, entry) ?
			      each_run(entry, count, skip, use, context) :
			      use(context, skip, count * MEMORY_PAGE);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

/* ---- exchanging ---- */

/*
 * Others may be using the memory. To thread sanitizers mmap() is a write to it, which is not what
 * happens here: so they are not told.
 */
static int map_over(const struct part *part, int rights, int flags, int fd, uint64_t offset)
{
	return syscall(SYS_mmap, part->start, part->bytes, rights, flags | MAP_FIXED, fd,
		       (off_t)offset) == -1 ? errno : 0;
}

typedef int data_fn(const struct part *part, int fd, size_t skip, size_t bytes);

/* Call @use for each piece of @part that the file has pages of. A hole reads as zeros. */
static int each_data(const struct part *part, int fd, data_fn *use)
{
	off_t begin = (off_t)part->offset, end = begin + (off_t)part->bytes;
	off_t data = lseek(fd, begin, SEEK_DATA);
	int err = 0;

	while (data >= 0 && data < end && !err) {
		off_t hole = lseek(fd, data, SEEK_HOLE);

		if (hole < 0 || hole > end)
			hole = end;
		err = use(part, fd, (size_t)(data - begin), (size_t)(hole - data));
		data = lseek(fd, hole, SEEK_DATA);
	}
	return err;
}

/* One call for many page faults. Where the kernel cannot, they happen one by one. */
static void populate(const struct part *part, size_t skip, size_t bytes, int advice)
{
	madvise(part->start + skip, bytes, advice);
}

static int populate_shared(const struct part *part, int fd, size_t skip, size_t bytes)
{
	populate(part, skip, bytes, MADV_POPULATE_READ);
	return 0;
}

struct file_copy {
	const char *from;
	int fd;
	uint64_t offset;
};

static int write_run(void *context, size_t skip, size_t bytes)
{
	const struct file_copy *copy = context;
	size_t end = skip + bytes;

	while (skip < end) {
		ssize_t put = fail_now(FAIL_PWRITE) ? -1 :
			      pwrite(copy->fd, copy->from + skip, end - skip,
				     (off_t)(copy->offset + skip));

		if (put > 0)
			skip += (size_t)put;
		else if (put == 0 || errno != EINTR)
			return put ? errno : EIO;
	}
	return 0;
}

/* Who writes to a file beyond this limit gets a signal that ends it. */
static bool may_write(uint64_t end)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= end;
}

int memory_share(void *start, size_t bytes, int fd, uint64_t offset)
{
	struct part part = { .start = start, .offset = offset, .bytes = bytes };
	struct file_copy copy = { .from = start, .fd = fd, .offset = offset };
	sigset_t all, before;
	int err;

	if (!may_write(offset + bytes))
		return EFBIG;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = each_touched(start, bytes, write_run, &copy);
	if (!err)
		err = fail_now(FAIL_MMAP) ? errno :
		      map_over(&part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
	if (!err)
		each_data(&part, fd, populate_shared);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* ---- and back ---- */

#define AREAS_MAX 64u

/* Mappings of that part of the file: up to AREAS_MAX of them; the shared ones, or all. */
static int find_areas(const struct file_id *id, uint64_t offset, uint64_t bytes, bool all,
		      struct area found[AREAS_MAX], unsigned *count)
{
	struct areas areas;

	*count = 0;
	if (!areas_open(&areas, all ? AREAS_OF_FILES : AREAS_SHARED, 0))
		while (*count < AREAS_MAX && areas_next(&areas, &found[*count])) {
			const struct area *area = &found[*count];

			*count += area_is_of(area, id) && area->offset < offset + bytes &&
				  offset < area->offset + (area->end - area->start);
		}
	return areas_close(&areas);
}

static struct part part_of(const struct area *area, uint64_t offset, uint64_t bytes)
{
	uint64_t first = area->offset > offset ? area->offset : offset;
	uint64_t area_end = area->offset + (area->end - area->start);
	uint64_t end = area_end < offset + bytes ? area_end : offset + bytes;

	return (struct part){ .start = (char *)area->start + (first - area->offset),
			      .offset = first, .bytes = end - first, .rights = area->rights,
			      .is_shared = area->shared };
}

/*
 * Write a byte without changing it, whatever others write at the same time. In assembly, because
 * clang makes a mere load of an atomic "or 0", and thread sanitizers would call it a race.
 */
static void touch(volatile char *byte)
{
#if defined(__x86_64__)
	__asm__ volatile("lock; orb $0, %0" : "+m"(*byte) : : "memory", "cc");
#else
	char same = *byte;

	/* One that is not the same any more was written by somebody: then the page is private. */
	__atomic_compare_exchange_n(byte, &same, same, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

static int take_copies(const struct part *part, int fd, size_t skip, size_t bytes)
{
	size_t at;

	for (at = skip; at < skip + bytes; at += MEMORY_PAGE)
		touch(part->start + at);
	return 0;
}

static int restore_rights(const struct part *part)
{
	return part->rights != (PROT_READ | PROT_WRITE) &&
	       mprotect(part->start, part->bytes, part->rights) ? errno : 0;
}

static int make_private(const struct part *part, int fd)
{
	int err = fail_now(FAIL_MMAP) ? errno :
		  map_over(part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, part->offset);

	if (err)
		return err;
	each_data(part, fd, take_copies);
	return restore_rights(part);
}

static int read_data(const struct part *part, int fd, size_t skip, size_t bytes)
{
	size_t end = skip + bytes;

	populate(part, skip, bytes, MADV_POPULATE_WRITE);
	while (skip < end) {
		ssize_t got = pread(fd, part->start + skip, end - skip,
				    (off_t)(part->offset + skip));

		if (got > 0)
			skip += (size_t)got;
		else if (got == 0 || errno != EINTR)
			return got ? errno : EIO;
	}
	return 0;
}

/* New memory over the old, which is in the file still and read from there. */
static int make_anonymous(const struct part *part, int fd)
{
	int err = fail_now(FAIL_MMAP) ? errno :
		  map_over(part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (err)
		return err;
	err = each_data(part, fd, read_data);
	if (err)	/* as it was: nothing is lost */
		map_over(part, part->rights, MAP_SHARED | MAP_NORESERVE, fd, part->offset);
	return err ? err : restore_rights(part);
}

struct pages_copy {
	const char *from;
	char *to;
};

static int copy_run(void *context, size_t skip, size_t bytes)
{
	const struct pages_copy *copy = context;

	memcpy(copy->to + skip, copy->from + skip, bytes);
	return 0;
}

static int move_over(void *made, void *start, size_t bytes)
{
	if (fail_now(FAIL_MREMAP) ||
	    mremap(made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == MAP_FAILED) {
		int err = errno;

		munmap(made, bytes);
		return err;
	}
	return 0;
}

/* Of a private mapping of the file: what was written there is in the process only. */
static int replace_private(const struct part *part)
{
	void *made = mmap(NULL, part->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct pages_copy copy = { .from = part->start, .to = made };

	if (made == MAP_FAILED)
		return errno;
	if (!(part->rights & PROT_READ))
		mprotect(part->start, part->bytes, PROT_READ);
	each_touched(part->start, part->bytes, copy_run, &copy);
	if (part->rights != (PROT_READ | PROT_WRITE))
		mprotect(made, part->bytes, part->rights);
	return move_over(made, part->start, part->bytes);
}

/* *@stays: the file is still mapped there, privately. */
static int leave_part(const struct part *part, int fd, bool quiet, bool *stays)
{
	int err;

	if (!part->is_shared)
		return replace_private(part);
	err = quiet ? make_anonymous(part, fd) : EAGAIN;
	if (!err)
		return 0;
	*stays = true;
	return make_private(part, fd);
}

/* @quiet: nobody else in this process runs; @all: private mappings of the file go, too. */
static int leave(int fd, uint64_t offset, uint64_t bytes, bool quiet, bool all, bool *stays)
{
	struct area area[AREAS_MAX];
	struct file_id id;
	sigset_t signals, before;
	unsigned count = AREAS_MAX, i;
	int err = file_identify(fd, &id);

	sigfillset(&signals);
	pthread_sigmask(SIG_SETMASK, &signals, &before);
	while (!err && count == AREAS_MAX) {
		err = find_areas(&id, offset, bytes, all, area, &count);
		for (i = 0; i < count && !err; i++) {
			struct part part = part_of(&area[i], offset, bytes);

			err = leave_part(&part, fd, quiet, stays);
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

int memory_unshare(int fd, uint64_t offset, uint64_t bytes, bool quiet, bool *stays)
{
	*stays = false;
	return leave(fd, offset, bytes, quiet, false, stays);
}

int memory_leave(int fd)
{
	bool stays;

	return leave(fd, 0, INT64_MAX, true, true, &stays);
}

int memory_each_mapping(int fd, memory_mapping_fn *use, void *context)
{
	struct areas areas;
	struct file_id id;
	struct area area;
	int err = file_identify(fd, &id);

	if (err)
		return err;
	if (!areas_open(&areas, AREAS_OF_FILES, 0))
		while (areas_next(&areas, &area))
			if (area_is_of(&area, &id))
				use(context, area.offset, area.end - area.start);
	return areas_close(&areas);
}

void memory_punch(int fd, uint64_t offset, uint64_t bytes)
{
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}
