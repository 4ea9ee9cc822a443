/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mappings of this process (memory_check() in memory.h): one query to the kernel for each mapping,
 * ioctl(PROCMAP_QUERY) of Linux 6.11, or else the text of /proc/self/maps. Pages are not looked at.
 */
#include "platform/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/fail.h"

/* struct procmap_query of linux/fs.h, which the headers of a build machine may not have. */
struct query {
	uint64_t size, flags, address;		/* in */
	uint64_t start, end, rights, page_size, offset, inode;	/* out */
	uint32_t major, minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};
_Static_assert(sizeof(struct query) == 104, "the kernel's ABI");

#define ASK _IOWR('f', 17, struct query)
enum { QUERY_READABLE = 1, QUERY_WRITABLE = 2 };

bool memory_check_by_text;

/* A walk over the mappings from @at to @end. */
struct walk {
	uintptr_t at, end;
	bool writable;
};

/* Takes the next mapping into account. 0, EFAULT or EACCES, as memory_check(). */
static int take_mapping(struct walk *walk, uintptr_t start, uintptr_t end, bool readable, bool writable)
{
	if (start > walk->at)
		return EFAULT;
	if (!readable || (walk->writable && !writable))
		return EACCES;
	walk->at = end;
	return 0;
}

/* ENOTTY: the kernel does not know the query. */
static int check_by_query(int fd, struct walk *walk)
{
	int err = 0;

	while (!err && walk->at < walk->end) {
		struct query query = { .size = sizeof(query), .address = walk->at };

		if (ioctl(fd, ASK, &query))
			return errno == ENOENT ? EFAULT : ENOTTY;
		err = take_mapping(walk, query.start, query.end, query.rights & QUERY_READABLE,
				   query.rights & QUERY_WRITABLE);
	}
	return err;
}

/* Lines are in the order of addresses. */
static int check_by_text(FILE *maps, struct walk *walk)
{
	char line[512], rights[5];
	unsigned long start, end;
	int err = 0;

	while (!err && walk->at < walk->end && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && end > walk->at)
			err = take_mapping(walk, start, end, rights[0] == 'r', rights[1] == 'w');
	return err ? err : walk->at < walk->end ? EFAULT : 0;
}

/*
 * The descriptor of the last check, since opening it takes longer than the query. It describes the memory
 * of the process that opened it: a fork()ed child opens its own. If the application closes unknown
 * descriptors (closefrom), the query fails with ENOTTY or EBADF, but the check does not.
 */
static struct {
	/*
	 * memory_check_keep() stores it before process, memory_check() loads process before it: a
	 * child takes none.
	 */
	_Atomic int fd;
	_Atomic pid_t process;
} kept = { .fd = -1 };

/* Two threads may open one each: the later one's is closed. */
static void memory_check_keep(int fd)
{
	int none = -1;

	if (atomic_load(&kept.process) != getpid())
		atomic_store(&kept.fd, -1);	/* the parent's (vfork, clone), or none */
	if (!atomic_compare_exchange_strong(&kept.fd, &none, fd)) {
		close(fd);
		return;
	}
	atomic_store(&kept.process, getpid());
}

static int check_by_new(struct walk *walk)
{
	struct walk begin = *walk;
	int err, fd = fail_now(FAIL_PROC) ? -1 : open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	FILE *maps;

	if (fd < 0)
		return ENOSYS;
	err = memory_check_by_text ? ENOTTY : check_by_query(fd, walk);
	if (err != ENOTTY) {
		memory_check_keep(fd);
		return err;
	}
	maps = fdopen(fd, "r");
	if (!maps) {
		close(fd);
		return ENOSYS;
	}
	*walk = begin;
	err = check_by_text(maps, walk);
	fclose(maps);
	return err;
}

/* The application may have closed the descriptor and have another file at its number: that stays open. */
void memory_check_end(void)
{
	struct query query = { .size = sizeof(query), .address = (uintptr_t)&kept };
	int fd = atomic_exchange(&kept.fd, -1);

	if (fd >= 0 && !ioctl(fd, ASK, &query))
		close(fd);
}

int memory_check(const void *address, size_t length, bool writable)
{
	struct walk walk = { .at = (uintptr_t)address, .end = (uintptr_t)address + length,
			     .writable = writable };
	struct walk begin = walk;
	int fd, err = ENOTTY;

	if (!length)
		return 0;
	fd = atomic_load(&kept.process) == getpid() ? atomic_load(&kept.fd) : -1;
	if (fd >= 0 && !memory_check_by_text)
		err = check_by_query(fd, &walk);
	return err == ENOTTY ? check_by_new(&begin) : err;
}
