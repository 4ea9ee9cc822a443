/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is mapped where in this process. Asked of the kernel area by area where it can be (since
 * Linux 6.11), which costs microseconds; else read from the text of /proc/self/maps, which grows with
 * the number of mappings.
 *
 *	err = areas_open(&areas, AREAS_SHARED, 0);
 *	while (!err && areas_next(&areas, &area))
 *		...
 *	err = areas_close(&areas);
 */
#ifndef VERBATIM_PLATFORM_MEMORY_AREAS_H
#define VERBATIM_PLATFORM_MEMORY_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct area {
	uintptr_t start, end;
	int rights;			/* PROT_READ ... */
	bool shared;
	uint64_t offset;		/* in the file */
	unsigned major, minor;		/* the file's device ... */
	uint64_t inode;			/* ... and inode; 0: anonymous memory */
	const char *name;		/* of anonymous memory: "", "[stack]"; until the next area */
};

/* Those of files, or shared mappings of files alone. (Shared memory without a name is a file, too.) */
enum areas_kind { AREAS_ALL, AREAS_OF_FILES, AREAS_SHARED };

#define AREA_NAME_MAX	96u		/* the kernel's longest is shorter; longer ones are cut */
#define AREAS_TEXT	8192u		/* a line has at most PATH_MAX and some bytes */

struct areas {
	enum areas_kind kind;
	int fd, err;
	bool by_text;
	uintptr_t from;			/* of what ends behind it */
	char name[AREA_NAME_MAX];
	size_t filled, used;		/* of the text */
	char text[AREAS_TEXT];
};

/* Those that end behind @from, in order. 0 or errno. */
int areas_open(struct areas *areas, enum areas_kind kind, uintptr_t from);
bool areas_next(struct areas *areas, struct area *area);
/* 0; errno: not all were seen. */
int areas_close(struct areas *areas);

/* A file by its device and inode, as areas name it. */
struct file_id {
	unsigned major, minor;
	uint64_t inode;
};

int file_identify(int fd, struct file_id *id);

static inline bool area_is_of(const struct area *area, const struct file_id *id)
{
	return area->inode == id->inode && area->major == id->major && area->minor == id->minor;
}

/* For tests: as on kernels that cannot be asked. */
extern bool areas_by_text;

#endif
