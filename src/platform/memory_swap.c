/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private pages for shared ones and back (memory_swap.h).
 *
 * To share: the file's pages are filled at a place of their own and then moved over the old ones by
 * mremap(); what somebody writes in between would be lost. Back: the same pages of the file are mapped
 * privately in one call, so content and addresses stay; then each page is touched by an atomic "or 0",
 * whereupon the kernel makes a private copy. Writes of other threads go before or after that copy and
 * are in it either way.
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

/* Does @fits hold for every area of [@start, +@bytes), and is there no gap? */
static bool all_areas(const void *start, size_t bytes, area_fn *fits, void *context)
{
	uintptr_t at = (uintptr_t)start, end = at + bytes;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct area area;
	char line[512];

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

/* ---- copying what is in use ---- */

/* Pages that the process has touched. A page of a file or of nothing reads as zeros either way. */
static int copy_touched(char *to, const char *from, size_t bytes)
{
	uint64_t entry[PAGEMAP_BATCH];
	size_t pages = bytes / MEMORY_PAGE, first, i;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), err = 0;

	for (first = 0; first < pages && !err; first += PAGEMAP_BATCH) {
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
	return err;
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
	err = copy_touched(made, start, bytes);
	if (!err)
		err = move_over(made, start, bytes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* ---- and back ---- */

#define AREAS_MAX 64u

/* Shared mappings of that part of the file: up to AREAS_MAX of them. */
static unsigned find_shared(const struct file_id *id, uint64_t offset, uint64_t bytes,
			    struct area found[AREAS_MAX])
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned count = 0;
	char line[512];

	while (maps && count < AREAS_MAX && fgets(line, sizeof(line), maps)) {
		struct area *area = &found[count];

		if (parse_area(line, area) && area->rights[3] == 's' && is_area_of(area, id) &&
		    area->offset < offset + bytes &&
		    offset < area->offset + (area->end - area->start))
			count++;
	}
	if (maps)
		fclose(maps);
	return count;
}

/* Make a private copy of each page that the file has. A hole reads as zeros either way. */
static void take_copies(char *start, int fd, uint64_t offset, size_t bytes)
{
	off_t end = (off_t)(offset + bytes), data = lseek(fd, (off_t)offset, SEEK_DATA);

	while (data >= 0 && data < end) {
		off_t hole = lseek(fd, data, SEEK_HOLE);

		if (hole < 0 || hole > end)
			hole = end;
		for (; data < hole; data += MEMORY_PAGE)
			__atomic_fetch_or(start + (data - (off_t)offset), 0, __ATOMIC_RELAXED);
		data = lseek(fd, hole, SEEK_DATA);
	}
}

static int make_private(const struct area *area, int fd, uint64_t offset, uint64_t bytes)
{
	uint64_t first = area->offset > offset ? area->offset : offset;
	uint64_t area_end = area->offset + (area->end - area->start);
	uint64_t end = area_end < offset + bytes ? area_end : offset + bytes;
	char *start = (char *)area->start + (first - area->offset);

	if (fail_now(FAIL_MMAP) ||
	    mmap(start, end - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
		 fd, (off_t)first) == MAP_FAILED)
		return errno;
	take_copies(start, fd, first, end - first);
	return 0;
}

int memory_unshare(int fd, uint64_t offset, uint64_t bytes)
{
	struct area area[AREAS_MAX];
	struct file_id id;
	unsigned count, i;
	int err = identify(fd, &id);

	while (!err && (count = find_shared(&id, offset, bytes, area)))
		for (i = 0; i < count && !err; i++)
			err = make_private(&area[i], fd, offset, bytes);
	return err;
}

void memory_punch(int fd, uint64_t offset, uint64_t bytes)
{
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}
