/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Areas of this process's address space (memory_areas.h), by ioctl(PROCMAP_QUERY) or from text. What
 * the kernel's headers of a build machine may not have is declared here.
 */
#include "platform/memory_areas.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "platform/fail.h"

bool areas_by_text;

int file_identify(int fd, struct file_id *id)
{
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	*id = (struct file_id){ major(status.st_dev), minor(status.st_dev), status.st_ino };
	return 0;
}

/* ---- asking the kernel ---- */

/* struct procmap_query of linux/fs.h. */
struct query {
	uint64_t size, flags, address;		/* in */
	uint64_t start, end, area_flags, page_size, offset, inode;	/* out */
	uint32_t major, minor;
	uint32_t name_size, build_id_size;	/* in: of the buffers; out: of what is in them */
	uint64_t name, build_id;
};
static_assert(sizeof(struct query) == 104, "the kernel's ABI");

#define ASK _IOWR('f', 17, struct query)

enum {	/* in area_flags; in flags: only areas that have them */
	QUERY_READABLE = 1, QUERY_WRITABLE = 2, QUERY_EXECUTABLE = 4, QUERY_SHARED = 8,
	QUERY_OR_NEXT = 16,	/* the one at that address, or the first behind it */
	QUERY_OF_FILE = 32,
};

static const uint64_t flags_of_kind[] = {
	[AREAS_ALL]	 = QUERY_OR_NEXT,
	[AREAS_OF_FILES] = QUERY_OR_NEXT | QUERY_OF_FILE,
	[AREAS_SHARED]	 = QUERY_OR_NEXT | QUERY_OF_FILE | QUERY_SHARED,
};

/* Files' names are not asked for: they may be long, and finding them takes time. */
static void ask_name(struct areas *areas, uintptr_t start)
{
	struct query query = { .size = sizeof(query), .address = start,
			       .name = (uintptr_t)areas->name, .name_size = AREA_NAME_MAX };

	areas->name[0] = '\0';
	if (ioctl(areas->fd, ASK, &query))
		memcpy(areas->name, "[?]", sizeof("[?]"));
	else if (!query.name_size)
		areas->name[0] = '\0';
}

static bool next_by_query(struct areas *areas, struct area *area)
{
	struct query query = { .size = sizeof(query), .flags = flags_of_kind[areas->kind],
			       .address = areas->from };

	if (ioctl(areas->fd, ASK, &query)) {
		areas->err = errno == ENOENT ? 0 : errno;	/* none behind it */
		return false;
	}
	*area = (struct area){
		.start = query.start, .end = query.end,
		.rights = (query.area_flags & QUERY_READABLE ? PROT_READ : 0) |
			  (query.area_flags & QUERY_WRITABLE ? PROT_WRITE : 0) |
			  (query.area_flags & QUERY_EXECUTABLE ? PROT_EXEC : 0),
		.shared = query.area_flags & QUERY_SHARED,
		.offset = query.offset, .major = query.major, .minor = query.minor,
		.inode = query.inode, .name = "" };
	if (!area->inode) {
		ask_name(areas, area->start);
		area->name = areas->name;
	}
	areas->from = area->end;
	return true;
}

/* Any answer will do; ENOENT: nothing is mapped there. */
static bool can_ask(int fd)
{
	struct query query = { .size = sizeof(query), .flags = QUERY_OR_NEXT };

	return !areas_by_text && (!ioctl(fd, ASK, &query) || errno == ENOENT);
}

/* ---- reading ---- */

static bool take_number(const char **at, unsigned base, char end, uint64_t *value)
{
	const char *begin = *at;

	for (*value = 0;; ++*at) {
		unsigned digit = (unsigned char)**at - '0';

		if (digit > 9)
			digit = (unsigned char)**at - 'a' + 10u;
		if (digit >= base)
			break;
		*value = *value * base + digit;
	}
	return *at > begin && *(*at)++ == end;
}

/* "start-end rwxp offset major:minor inode     name", and a 0. */
static bool parse_line(struct areas *areas, const char *line, struct area *area)
{
	uint64_t start, end, major, minor;
	const char *at = line, *rights;

	if (!take_number(&at, 16, '-', &start) || !take_number(&at, 16, ' ', &end))
		return false;
	rights = at;
	if (strnlen(at, 5) < 5)
		return false;
	at += 5;
	*area = (struct area){ .start = start, .end = end, .shared = rights[3] == 's',
			       .rights = (rights[0] == 'r' ? PROT_READ : 0) |
					 (rights[1] == 'w' ? PROT_WRITE : 0) |
					 (rights[2] == 'x' ? PROT_EXEC : 0) };
	if (!take_number(&at, 16, ' ', &area->offset) || !take_number(&at, 16, ':', &major) ||
	    !take_number(&at, 16, ' ', &minor) || !take_number(&at, 10, ' ', &area->inode))
		return false;
	area->major = (unsigned)major;
	area->minor = (unsigned)minor;
	at += strspn(at, " ");
	areas->name[0] = '\0';
	if (!area->inode)
		strncat(areas->name, at, AREA_NAME_MAX - 1);
	area->name = areas->name;
	return true;
}

/* The next line, ended by 0; NULL: there is none. */
static char *next_line(struct areas *areas)
{
	char *line = areas->text + areas->used, *end;

	while (!(end = memchr(line, '\n', areas->filled - areas->used))) {
		ssize_t got;

		areas->filled -= areas->used;
		memmove(areas->text, line, areas->filled);
		areas->used = 0;
		line = areas->text;
		if (areas->filled == AREAS_TEXT) {
			areas->err = EPROTO;
			return NULL;
		}
		got = read(areas->fd, areas->text + areas->filled, AREAS_TEXT - areas->filled);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			areas->err = got ? errno : 0;
			return NULL;
		}
		areas->filled += (size_t)got;
	}
	*end = '\0';
	areas->used = (size_t)(end + 1 - areas->text);
	return line;
}

static bool is_wanted(const struct areas *areas, const struct area *area)
{
	return area->end > areas->from && (areas->kind == AREAS_ALL || area->inode) &&
	       (areas->kind != AREAS_SHARED || area->shared);
}

static bool next_by_text(struct areas *areas, struct area *area)
{
	char *line;

	while ((line = next_line(areas))) {
		if (!parse_line(areas, line, area)) {
			areas->err = EPROTO;
			return false;
		}
		if (is_wanted(areas, area))
			return true;
	}
	return false;
}

/* ---- either ---- */

int areas_open(struct areas *areas, enum areas_kind kind, uintptr_t from)
{
	areas->kind = kind;
	areas->from = from;
	areas->err = 0;
	areas->filled = areas->used = 0;
	areas->fd = fail_now(FAIL_PROC) ? -1 : open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (areas->fd < 0)
		return areas->err = errno;
	areas->by_text = !can_ask(areas->fd);
	return 0;
}

bool areas_next(struct areas *areas, struct area *area)
{
	return areas->by_text ? next_by_text(areas, area) : next_by_query(areas, area);
}

int areas_close(struct areas *areas)
{
	if (areas->fd >= 0)
		close(areas->fd);
	return areas->err;
}
