/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes records (record.h). */
#include "inspect/record.h"

#include <inttypes.h>

#include "inspect/inspect.h"

static void record_add(struct record *record, bool fits)
{
	record->full |= !fits;
}

void record_begin(struct record *record, struct inspect_answer *answer, const char *kind)
{
	*record = (struct record){ .answer = answer, .begin = answer->bytes };
	record_add(record, inspect_print(answer, "{\"record\":\"%s\"", kind));
}

/* Names of programs and devices are chosen by others: quotes and control characters become escapes. */
void record_text(struct record *record, const char *name, const char *value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":\"", name));
	for (; *value; value++) {
		unsigned char letter = (unsigned char)*value;

		if (letter == '"' || letter == '\\' || letter < 0x20 || letter >= 0x7f)
			record_add(record, inspect_print(record->answer, "\\u%04x", letter));
		else
			record_add(record, inspect_print(record->answer, "%c", letter));
	}
	record_add(record, inspect_print(record->answer, "\""));
}

void record_number(struct record *record, const char *name, uint64_t value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":%" PRIu64, name, value));
}

void record_bool(struct record *record, const char *name, bool value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":%s", name, value ? "true" : "false"));
}

void record_hex(struct record *record, const char *name, unsigned digits, uint64_t value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":\"0x%0*" PRIx64 "\"", name, (int)digits, value));
}

bool record_end(struct record *record)
{
	record_add(record, inspect_print(record->answer, "}\n"));
	if (record->full)
		record->answer->bytes = record->begin;
	return !record->full;
}
