/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of a few keys each, the newest first (recent.h). */
#include <string.h>

#include "base/recent.h"

enum { ROW_SHIFT = 64 - 13 };

_Static_assert(RECENT_ROWS == 1u << (64 - ROW_SHIFT), "rows are numbered by the upper bits of the hash");

int64_t *recent_value(struct recent *recent, uint64_t key)
{
	struct recent_entry *row = recent->row[(key * 0x9e3779b97f4a7c15u) >> ROW_SHIFT];
	struct recent_entry found = { .key = key };
	unsigned way = 0;

	while (way < RECENT_WAYS - 1 && row[way].key && row[way].key != key)
		way++;
	if (row[way].key == key)
		found = row[way];
	memmove(row + 1, row, way * sizeof(*row));
	row[0] = found;
	return &row[0].value;
}

void recent_forget(struct recent *recent, uint64_t mask, uint64_t bits)
{
	for (unsigned i = 0; i < RECENT_ROWS; i++) {
		struct recent_entry *row = recent->row[i];
		unsigned kept = 0;

		/* Entries behind it move up, so that the free ones are the last of a row. */
		for (unsigned way = 0; way < RECENT_WAYS && row[way].key; way++)
			if ((row[way].key & mask) != bits)
				row[kept++] = row[way];
		memset(row + kept, 0, (RECENT_WAYS - kept) * sizeof(*row));
	}
}
