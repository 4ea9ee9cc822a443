/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of all processes in the order of time. They are nearly sorted as they come. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

bool sorter_add(struct sorter *sorter, struct source *source, const struct trace_record *record)
{
	struct trace_record *copy;

	if (sorter->count == sorter->room) {
		size_t room = sorter->room ? sorter->room * 2 : 1024;
		struct sorted *entry = realloc(sorter->entry, room * sizeof(*entry));

		if (!entry)
			return false;
		sorter->entry = entry;
		sorter->room = room;
	}
	copy = malloc(record->bytes);
	if (!copy)
		return false;
	memcpy(copy, record, record->bytes);
	sorter->entry[sorter->count++] = (struct sorted){ source, sorter->numbers++, copy };
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct sorted *one = a, *other = b;

	if (one->record->time_ns != other->record->time_ns)
		return one->record->time_ns < other->record->time_ns ? -1 : 1;
	return one->number < other->number ? -1 : 1;
}

void sorter_take(struct sorter *sorter, uint64_t until_ns,
		 void (*take)(void *owner, struct source *source, const struct trace_record *record), void *owner)
{
	size_t n;

	qsort(sorter->entry, sorter->count, sizeof(*sorter->entry), compare);
	for (n = 0; n < sorter->count && sorter->entry[n].record->time_ns <= until_ns; n++) {
		take(owner, sorter->entry[n].source, sorter->entry[n].record);
		free(sorter->entry[n].record);
	}
	sorter->count -= n;
	memmove(sorter->entry, sorter->entry + n, sorter->count * sizeof(*sorter->entry));
}
