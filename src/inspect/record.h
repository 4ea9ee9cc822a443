/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of an answer: a flat JSON object on a line for each, beginning with its kind:
 *
 *	{"record":"cq","number":3,"device":"vb_eth0","size":256}
 *
 * A record that does not fit leaves nothing behind.
 */
#ifndef VERBATIM_INSPECT_RECORD_H
#define VERBATIM_INSPECT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inspect_answer;

struct record {
	struct inspect_answer *answer;
	size_t begin;			/* of it in the answer */
	bool full;
};

void record_begin(struct record *record, struct inspect_answer *answer, const char *kind);
void record_text(struct record *record, const char *name, const char *value);
void record_number(struct record *record, const char *name, uint64_t value);
void record_bool(struct record *record, const char *name, bool value);
/* As text, with so many digits: QP numbers and keys. */
void record_hex(struct record *record, const char *name, unsigned digits, uint64_t value);
/* False: it did not fit. */
bool record_end(struct record *record);

#endif
