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
	sorter->entry[sorter->count++] =
		(struct sorted){ source, copy->time_ns, sorter->numbers++, copy };
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct sorted *one = a, *other = b;

	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns ? -1 : 1;
	return one->number < other->number ? -1 : 1;
}

/* What came since, sorted, goes between what was: only the end of that is younger than the oldest of it. */
static void sorter_merge(struct sorter *sorter)
{
	size_t at = sorter->count, old = sorter->sorted, more = sorter->count - sorter->sorted;
	struct sorted *entry = sorter->entry, *come = entry + old, *copy;

	qsort(come, more, sizeof(*come), compare);
	sorter->sorted = sorter->count;
	if (!more || old == sorter->first || compare(&entry[old - 1], come) < 0)
		return;
	copy = malloc(more * sizeof(*copy));
	if (!copy) {
		qsort(entry + sorter->first, sorter->count - sorter->first, sizeof(*entry), compare);
		return;
	}
	memcpy(copy, come, more * sizeof(*copy));
	while (more)
		entry[--at] = old > sorter->first && compare(&entry[old - 1], &copy[more - 1]) > 0 ?
				      entry[--old] : copy[--more];
	free(copy);
}

void sorter_take(struct sorter *sorter, uint64_t until_ns,
		 void (*take)(void *owner, struct source *source, const struct trace_record *record), void *owner)
{
	sorter_merge(sorter);
	for (; sorter->first < sorter->count; sorter->first++) {
		const struct sorted *next = &sorter->entry[sorter->first];

		if (next->time_ns > until_ns)
			break;
		take(owner, next->source, next->record);
		free(next->record);
	}
	if (sorter->first < sorter->count / 2)
		return;
	sorter->count -= sorter->first;
	memmove(sorter->entry, sorter->entry + sorter->first, sorter->count * sizeof(*sorter->entry));
	sorter->sorted = sorter->count;
	sorter->first = 0;
}
