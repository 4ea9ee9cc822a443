/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private pages for shared ones and back (memory_swap.h).
 *
 * To share: the file's pages are filled at a place of their own and then moved over the old ones by
 * mremap(); what somebody writes in between would be lost.
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
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "platform/fail.h"

#define PAGEMAP_BATCH	512u
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

struct area {
	uintptr_t start, end;
	char rights[5];
	uint64_t offset;
	unsigned major, minor;
	uint64_t inode;
	char name[64];
};

/* A line of /proc/self/maps. */
static bool parse_area(const char *line, struct area *area)
{
	int fields;

	area->name[0] = '\0';
	fields = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %63s",
			&area->start, &area->end, area->rights, &area->offset, &area->major,
			&area->minor, &area->inode, area->name);
	return fields >= 7;
}

typedef bool area_fn(const struct area *area, void *context);

#define LINE_MAX_BYTES 512u

static FILE *open_maps(void)
{
	return fail_now(FAIL_PROC) ? NULL : fopen("/proc/self/maps", "re");
}

/* Does @fits hold for every area of [@start, +@bytes), and is there no gap? */
static bool all_areas(const void *start, size_t bytes, area_fn *fits, void *context)
{
	uintptr_t at = (uintptr_t)start, end = at + bytes;
	FILE *maps = open_maps();
	struct area area;
	char line[LINE_MAX_BYTES];

	if (!maps)
		return false;
	while (at < end && fgets(line, sizeof(line), maps)) {
		if (!parse_area(line, &area) || area.end <= at)
			continue;
		if (area.start > at || !fits(&area, context))
			break;
		at = area.end;
	}
	fclose(maps);
	return at >= end;
}

/* A file by its device and inode, as maps names it. */
struct file_id {
	unsigned major, minor;
	uint64_t inode;
};

static int identify(int fd, struct file_id *id)
{
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	*id = (struct file_id){ major(status.st_dev), minor(status.st_dev), status.st_ino };
	return 0;
}

static bool is_area_of(const struct area *area, const struct file_id *id)
{
	return area->inode == id->inode && area->major == id->major && area->minor == id->minor;
}

static bool is_ordinary_area(const struct area *area, void *context)
{
	if (strcmp(area->rights, "rw-p"))
		return false;
	if (area->inode)
		return is_area_of(area, context);
	/* "[heap]" and "[anon:...]" are ordinary; "[stack]", "[vvar]" and the like are not. */
	return area->name[0] != '[' || !strcmp(area->name, "[heap]") ||
	       !strncmp(area->name, "[anon", 5);
}

bool memory_is_ordinary(const void *start, size_t bytes, int fd)
{
	struct file_id id;

	return !identify(fd, &id) && all_areas(start, bytes, is_ordinary_area, &id);
}

struct file_place {
	struct file_id id;
	uint64_t offset_minus_address;	/* modulo 2^64 */
};

static bool is_at_place(const struct area *area, void *context)
{
	const struct file_place *place = context;

	return area->rights[3] == 's' && is_area_of(area, &place->id) &&
	       area->offset - area->start == place->offset_minus_address;
}

bool memory_is_shared(const void *start, size_t bytes, int fd, uint64_t offset)
{
	struct file_place place = { .offset_minus_address = offset - (uintptr_t)start };

	return !identify(fd, &place.id) && all_areas(start, bytes, is_at_place, &place);
}

/* ---- copying what is in use ---- */

/* Pages that the process has touched. A page of a file or of nothing reads as zeros either way. */
static void copy_touched(char *to, const char *from, size_t bytes)
{
	uint64_t entry[PAGEMAP_BATCH];
	size_t pages = bytes / MEMORY_PAGE, first, i;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	for (first = 0; first < pages; first += PAGEMAP_BATCH) {
		size_t count = pages - first < PAGEMAP_BATCH ? pages - first : PAGEMAP_BATCH;
		uint64_t at = ((uintptr_t)from / MEMORY_PAGE + first) * sizeof(uint64_t);
		bool known = fd >= 0 && pread(fd, entry, count * sizeof(entry[0]), (off_t)at) ==
					(ssize_t)(count * sizeof(entry[0]));

		for (i = 0; i < count; i++)
			if (!known || (entry[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)))
				memcpy(to + (first + i) * MEMORY_PAGE,
				       from + (first + i) * MEMORY_PAGE, MEMORY_PAGE);
	}
	if (fd >= 0)
		close(fd);
}

/* ---- exchanging ---- */

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

int memory_share(void *start, size_t bytes, int fd, uint64_t offset)
{
	sigset_t all, before;
	void *made;
	int err;

	made = fail_now(FAIL_MMAP) ? MAP_FAILED :
	       mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		    (off_t)offset);
	if (made == MAP_FAILED)
		return errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	copy_touched(made, start, bytes);
	err = move_over(made, start, bytes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* ---- and back ---- */

#define AREAS_MAX 64u

/* Mappings of that part of the file: up to AREAS_MAX of them; the shared ones, or all. */
static int find_areas(const struct file_id *id, uint64_t offset, uint64_t bytes, bool all,
		      struct area found[AREAS_MAX], unsigned *count)
{
	FILE *maps = open_maps();
	char line[LINE_MAX_BYTES];

	*count = 0;
	if (!maps)
		return errno;
	while (*count < AREAS_MAX && fgets(line, sizeof(line), maps)) {
		struct area *area = &found[*count];

		if (parse_area(line, area) && (all || area->rights[3] == 's') &&
		    is_area_of(area, id) && area->offset < offset + bytes &&
		    offset < area->offset + (area->end - area->start))
			++*count;
	}
	fclose(maps);
	return 0;
}

/* The part of an area that lies in [@offset, +@bytes) of the file. */
struct part {
	char *start;
	uint64_t offset;
	size_t bytes;
	int rights;
	bool is_shared;
};

static struct part part_of(const struct area *area, uint64_t offset, uint64_t bytes)
{
	uint64_t first = area->offset > offset ? area->offset : offset;
	uint64_t area_end = area->offset + (area->end - area->start);
	uint64_t end = area_end < offset + bytes ? area_end : offset + bytes;

	return (struct part){ .start = (char *)area->start + (first - area->offset),
			      .offset = first, .bytes = end - first,
			      .rights = (area->rights[0] == 'r' ? PROT_READ : 0) |
					(area->rights[1] == 'w' ? PROT_WRITE : 0) |
					(area->rights[2] == 'x' ? PROT_EXEC : 0),
			      .is_shared = area->rights[3] == 's' };
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

/*
 * Others may be using the memory. To thread sanitizers mmap() is a write to it, which is not what
 * happens here: so they are not told.
 */
static int map_over(const struct part *part, int rights, int flags, int fd, uint64_t offset)
{
	return syscall(SYS_mmap, part->start, part->bytes, rights, flags | MAP_FIXED, fd,
		       (off_t)offset) == -1 ? errno : 0;
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

/* Of a private mapping of the file: what was written there is in the process only. */
static int replace_private(const struct part *part)
{
	void *made = mmap(NULL, part->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (made == MAP_FAILED)
		return errno;
	if (!(part->rights & PROT_READ))
		mprotect(part->start, part->bytes, PROT_READ);
	copy_touched(made, part->start, part->bytes);
	if (part->rights != (PROT_READ | PROT_WRITE))
		mprotect(made, part->bytes, part->rights);
	return move_over(made, part->start, part->bytes);
}

static int leave_part(const struct part *part, int fd, bool quiet)
{
	int err;

	if (!part->is_shared)
		return replace_private(part);
	err = quiet ? make_anonymous(part, fd) : EAGAIN;
	return err ? make_private(part, fd) : 0;
}

/* @quiet: nobody else in this process runs; @all: private mappings of the file go, too. */
static int leave(int fd, uint64_t offset, uint64_t bytes, bool quiet, bool all)
{
	struct area area[AREAS_MAX];
	struct file_id id;
	sigset_t signals, before;
	unsigned count = AREAS_MAX, i;
	int err = identify(fd, &id);

	sigfillset(&signals);
	pthread_sigmask(SIG_SETMASK, &signals, &before);
	while (!err && count == AREAS_MAX) {
		err = find_areas(&id, offset, bytes, all, area, &count);
		for (i = 0; i < count && !err; i++) {
			struct part part = part_of(&area[i], offset, bytes);

			err = leave_part(&part, fd, quiet);
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

int memory_unshare(int fd, uint64_t offset, uint64_t bytes, bool quiet)
{
	return leave(fd, offset, bytes, quiet, false);
}

int memory_leave(int fd)
{
	return leave(fd, 0, INT64_MAX, true, true);
}

int memory_each_mapping(int fd, memory_mapping_fn *use, void *context)
{
	FILE *maps = open_maps();
	struct file_id id;
	struct area area;
	char line[LINE_MAX_BYTES];
	int err = maps ? identify(fd, &id) : errno;

	while (!err && fgets(line, sizeof(line), maps))
		if (parse_area(line, &area) && is_area_of(&area, &id))
			use(context, area.offset, area.end - area.start);
	if (maps)
		fclose(maps);
	return err;
}

void memory_punch(int fd, uint64_t offset, uint64_t bytes)
{
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}
