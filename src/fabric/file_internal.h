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

/* What a line says of a port, for when the subnet is there. */
struct planted {
	enum { PLANT_COUNTER, PLANT_RISE, PLANT_BIT_ERRORS, PLANT_DEGRADED, PLANT_STUCK,
	       PLANT_ADDRESS } kind;
	uint32_t node;
	unsigned port, line, counter, lanes;
	int speed;			/* enum link_speed; -1: any */
	uint64_t value;
	double rate;
	uint8_t ip[16];
	uint16_t pkey;			/* of the address; 0: it has none */
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
	struct planted *planted;
	size_t plants, plants_room;
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

/* ---- file_words.c; those that read move *p behind it, and complain of what is wrong ---- */

/* Room for one more at @count. False: no memory. */
bool reader_room(struct reader *reader, void **array, size_t room, size_t count, size_t size,
		 size_t *new_room);
const char *file_skip_blanks(const char *p);
bool file_word_is(const char *p, const char *word);
/* False: none, or over @most; not complained of. */
bool file_read_number(const char **p, int base, uint64_t most, uint64_t *value);
/* In quotes, to be freed. NULL: complained of. */
char *file_read_name(struct reader *reader, const char **p, const char *what);
bool file_read_port(struct reader *reader, const char **p, unsigned *port);	/* "[N]" */
bool file_read_option(struct reader *reader, const char **p, char name[16], char value[80]);
int file_speed_of(const char *text);			/* -1: none */
uint8_t file_width_of(const char *text, const char **behind);	/* 0: none */
/* The node that a verb names. NULL: complained of. */
struct draft *file_verb_node(struct reader *reader, const char **p);
uint64_t reader_hash(const char *name);
size_t reader_names_place(const struct reader *reader, const char *name);
bool reader_names_grow(struct reader *reader);		/* false: no memory */

/* ---- file_plant.c ---- */

void file_verb_counter(struct reader *reader, const char *p);
void file_verb_port(struct reader *reader, const char *p);
/* ip= of a port of a host: addresses with commas between them. */
void file_plant_addresses(struct reader *reader, const struct draft *draft, unsigned port,
			  const char *value);
/* ber=, degraded= of a link. False: another option. */
bool file_link_fault(struct reader *reader, const struct draft *draft, unsigned port,
		     const char *name, const char *value);

/* FABRIC_NONE: no such node so far. */
uint32_t reader_find(const struct reader *reader, const char *name);
/* NULL: complained of, or no memory. The subnet takes over what the drafts have allocated. */
struct fabric *file_build(struct reader *reader);

#endif
