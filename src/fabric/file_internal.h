/* SPDX-License-Identifier: BSD-2-Clause */
/* Between file.c, which reads the lines of a file, and build.c, which makes a subnet of what they
 * say. */
#ifndef VERBATIM_FABRIC_FILE_INTERNAL_H
#define VERBATIM_FABRIC_FILE_INTERNAL_H

#include "fabric/internal.h"

#define PKEYS_SWITCH	32u		/* if no line says otherwise */

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
	unsigned depth;			/* of make lines */
};

#define COMPLAIN(reader, ...) fabric_error_add((reader)->errors, (reader)->line, __VA_ARGS__)

/* FABRIC_NONE: no such node so far. */
uint32_t reader_find(const struct reader *reader, const char *name);
/* NULL: complained of, or no memory. The subnet takes over what the drafts have allocated. */
struct fabric *file_build(struct reader *reader);

#endif
