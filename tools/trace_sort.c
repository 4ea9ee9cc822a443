/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of all processes in the order of time. They are nearly sorted as they come. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define CHUNK_BYTES	(1u << 20)
#define MOVES		8u	/* of a record, on average, for which it is sorted by insertion */

/* Records by the thousand, not by malloc(). */
struct chunk {
	size_t used;
	unsigned records;	/* that were not taken yet */
	uint8_t bytes[CHUNK_BYTES] __attribute__((aligned(8)));
};

/* NULL: no memory. */
static struct trace_record *sorter_room(struct sorter *sorter, size_t bytes)
{
	struct chunk *chunk = sorter->filling;

	if (!chunk || CHUNK_BYTES - chunk->used < bytes) {
		chunk = sorter->spare ? sorter->spare : malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->used = chunk->records = 0;
		sorter->spare = NULL;
		sorter->filling = chunk;
	}
	chunk->records++;
	chunk->used += bytes;
	return (struct trace_record *)(chunk->bytes + chunk->used - bytes);
}

static void sorter_leave(struct sorter *sorter, struct chunk *chunk)
{
	if (--chunk->records)
		return;
	if (chunk == sorter->filling) {
		chunk->used = 0;
	} else if (!sorter->spare) {
		sorter->spare = chunk;
	} else {
		free(chunk);
	}
}

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
	copy = sorter_room(sorter, record->bytes);
	if (!copy)
		return false;
	memcpy(copy, record, record->bytes);
	sorter->entry[sorter->count++] =
		(struct sorted){ source, copy->time_ns, sorter->numbers++, copy, sorter->filling };
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct sorted *one = a, *other = b;

	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns ? -1 : 1;
	return one->number < other->number ? -1 : 1;
}

/* Each process' records come nearly in order. False: these do not, and are in some order now. */
static bool sort_by_insertion(struct sorted *entry, size_t count)
{
	size_t moves = count * MOVES;

	for (size_t i = 1; i < count; i++) {
		const struct sorted moved = entry[i];
		size_t to = i;

		while (to && moves && compare(&entry[to - 1], &moved) > 0) {
			entry[to] = entry[to - 1];
			to--;
			moves--;
		}
		entry[to] = moved;
	}
	return moves;
}

/* What came since, sorted, goes between what was: only the end of that is younger than the oldest of it. */
static void sorter_merge(struct sorter *sorter)
{
	size_t at = sorter->count, old = sorter->sorted, more = sorter->count - sorter->sorted;
	struct sorted *entry = sorter->entry, *come = entry + old, *copy;

	if (!sort_by_insertion(come, more))
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
		sorter_leave(sorter, next->chunk);
	}
	if (sorter->first < sorter->count / 2)
		return;
	sorter->count -= sorter->first;
	memmove(sorter->entry, sorter->entry + sorter->first, sorter->count * sizeof(*sorter->entry));
	sorter->sorted = sorter->count;
	sorter->first = 0;
}

void sorter_close(struct sorter *sorter)
{
	while (sorter->first < sorter->count)
		sorter_leave(sorter, sorter->entry[sorter->first++].chunk);
	free(sorter->filling);
	free(sorter->spare);
	free(sorter->entry);
	*sorter = (struct sorter){ 0 };
}
