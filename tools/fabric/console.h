/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the console have in common: nodes and ports by name, and words in files of their own. */
#ifndef VERBATIM_TOOLS_FABRIC_CONSOLE_H
#define VERBATIM_TOOLS_FABRIC_CONSOLE_H

#include "fabric/room.h"

struct end {
	uint32_t node, port;		/* port: FABRIC_NONE: none was given */
};

/* sw1[3], "sw1"[3], sw1, "a name with blanks". Quotes have been taken off. 0 or EINVAL. */
int console_end_parse(struct room *room, const char *text, struct end *end, FILE *out);
/* A node is one, too. False: it was said. */
bool console_end_exists(const struct room *room, const struct end *end, FILE *out);
const char *console_node_name(const struct room *room, uint32_t node);

/* console_counter.c */
int console_word_counter(struct room *room, int count, char **word, FILE *out);
/* Counters and states of all ports in the exposition format of Prometheus. */
int console_word_metrics(struct room *room, int count, char **word, FILE *out);

/* console_fault.c */
/* Decimal, or 0x. */
bool console_number(const char *text, uint64_t least, uint64_t most, uint64_t *value);
int console_cable_fault(struct room *room, char **word, FILE *out);
int console_word_port(struct room *room, int count, char **word, FILE *out);
int console_word_lft(struct room *room, int count, char **word, FILE *out);
int console_word_pkey(struct room *room, int count, char **word, FILE *out);
int console_word_guid(struct room *room, int count, char **word, FILE *out);
int console_word_baselid(struct room *room, int count, char **word, FILE *out);

#endif
