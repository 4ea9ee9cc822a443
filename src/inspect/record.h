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
struct sockaddr_storage;

struct record {
	struct inspect_answer *answer;
	size_t begin;			/* of it in the answer */
	bool full;
};

void record_begin(struct record *record, struct inspect_answer *answer, const char *kind);
void record_text(struct record *record, const char *name, const char *value);
void record_number(struct record *record, const char *name, uint64_t value);
void record_flag(struct record *record, const char *name, bool value);
/* As text: 0x000123, 0x00000123, 0x123. */
void record_qpn(struct record *record, const char *name, uint32_t value);
void record_key(struct record *record, const char *name, uint32_t value);
void record_pointer(struct record *record, const char *name, uint64_t value);
/* "lrw", of access flags. */
void record_rights(struct record *record, const char *name, unsigned access);
/* "192.0.2.1" */
void record_address(struct record *record, const char *name, const uint8_t address[16]);
/* "192.0.2.1:7471", "[fe80::1]:7471", "*:7471", "" where there is none. */
void record_socket(struct record *record, const char *name, const struct sockaddr_storage *storage);
/* False: it did not fit. */
bool record_end(struct record *record);

#endif
