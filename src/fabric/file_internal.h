/* SPDX-License-Identifier: BSD-2-Clause */
/* Between file.c, which reads the lines of a file, and build.c, which makes a subnet of what they
 * say. */
#ifndef VERBATIM_FABRIC_FILE_INTERNAL_H
#define VERBATIM_FABRIC_FILE_INTERNAL_H

#include "fabric/internal.h"

/* Of switches, if no line says otherwise. */
#define PKEYS_SWITCH	32u
#define LFT_MAX		49152u
#define MFT_DEFAULT	1024u
#define VLS_DEFAULT	8u

/* One end of a cable, as a line has it. */
struct cable_end {
	uint32_t node;
	char *peer_name;
	unsigned port, peer_port, line;
	uint64_t guid;			/* of the local port; 0: not given */
	int speed;			/* enum link_speed; -1: not given */
	uint8_t width;			/* 0: not given */
	bool pulled;
};

struct draft {
	struct fabric_node node;
	unsigned line;
	uint64_t first_port_guid;	/* of a switch, in parentheses behind switchguid= */
	struct switch_options options;
};

/* Large: what lines have said for those that follow. */
struct reader {
	struct fabric_errors *errors;
	unsigned line;
	bool no_memory;
	struct draft *draft;
	uint32_t drafts, drafts_room;
	struct cable_end *end;
	size_t ends, ends_room;
	uint32_t *names;		/* hash: draft + 1 */
	size_t names_room;
	uint32_t current;		/* the node whose ports follow; FABRIC_NONE: none */
	bool skips;			/* that node was refused: its ports are not looked at */
	uint32_t vendor_id;
	uint16_t device_id;
	uint64_t system_guid, guid, port_guid;	/* of the next node */
	struct switch_options options;
	/* Of all that follow, if nothing else is said: ibsim's switchguids=, width= and so on. */
	uint64_t switch_guids, hca_guids;	/* the next one; 0: none */
	uint8_t width;			/* 0: none */
	int speed;			/* -1: none */
	bool makes;			/* lines of a recipe, which stand in one line of the file */
	const struct fabric_files *files;	/* for include; or NULL */
	unsigned includes, included_files;	/* files within files; all so far */
	const char *included;		/* name of the innermost, or NULL */
	unsigned included_line;
};

/* Of the line that is read; within an included file by its name, too. */
void reader_complain(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
#define COMPLAIN(reader, ...) reader_complain(reader, __VA_ARGS__)

/* FABRIC_NONE: no such node so far. */
uint32_t reader_find(const struct reader *reader, const char *name);
/* NULL: complained of, or no memory. The subnet takes over what the drafts have allocated. */
struct fabric *file_build(struct reader *reader);

#endif
