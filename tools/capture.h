/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads captures: pcapng (draft-ietf-opsawg-pcapng) and pcap, of either byte order, also compressed
 * by gzip. A file is read whole and
 * every length in it is checked before it is believed. Where a file breaks off or makes no sense, what
 * precedes is kept and a warning says so.
 */
#ifndef VERBATIM_TOOLS_CAPTURE_H
#define VERBATIM_TOOLS_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

enum {
	LINKTYPE_NULL = 0, LINKTYPE_ETHERNET = 1, LINKTYPE_RAW_BSD = 12, LINKTYPE_RAW_OPENBSD = 14,
	LINKTYPE_RAW = 101, LINKTYPE_LOOP = 108, LINKTYPE_LINUX_SLL = 113, LINKTYPE_ERF = 197,
	LINKTYPE_IPV4 = 228, LINKTYPE_IPV6 = 229, LINKTYPE_INFINIBAND = 247,
	LINKTYPE_EXPORTED_PDU = 252, LINKTYPE_LINUX_SLL2 = 276,
};

enum capture_direction { CAPTURE_UNKNOWN, CAPTURE_IN, CAPTURE_OUT };

struct capture_record {
	uint64_t time_ns;		/* since 1970 */
	const uint8_t *data;		/* into the file */
	uint32_t bytes, length;		/* captured; as it was on the wire */
	unsigned source;		/* index of a capture_source */
	enum capture_direction direction;
	const char *comment;		/* into the file, not terminated; NULL: none */
	uint16_t comment_bytes;
};

/* An interface of a file: Verbatim has one or two for each process. */
struct capture_source {
	char *name;			/* if_name; NULL: it has none */
	uint16_t linktype;
	unsigned file;
};

struct capture_warning {
	unsigned file;
	char text[160];
};

struct capture {
	struct capture_record *record;
	size_t records, record_room;
	struct capture_source *source;
	unsigned sources, source_room;
	struct capture_warning *warning;
	unsigned warnings, warning_room;
	uint8_t **file;			/* their bytes; records point into them */
	unsigned files;
};

#define CAPTURE_FILE_MAX	(1u << 30)	/* bytes that are read of one file */
#define CAPTURE_RECORDS_MAX	4000000u

/*
 * Adds the records of @path. 0; or errno when nothing of it can be read: EINVAL, it is no capture.
 */
int capture_read(struct capture *capture, const char *path);
/* Of a file that is none: what it is, and what to do; NULL: not known. */
const char *capture_other_form(const char *path);
/* The same of bytes in memory, which capture_free() frees. */
int capture_parse(struct capture *capture, uint8_t *data, size_t bytes);
/* By time; records of equal time stay in the order of the files. */
void capture_sort(struct capture *capture);
void capture_free(struct capture *capture);

/* Makes room for one more in a growing array: false when memory is out. */
int capture_grow(void *array, size_t count, void *room, size_t element);

#endif
