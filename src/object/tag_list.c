/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tag list: entries are linked by their numbers, in order. A handle has the number of the entry in its low
 * bits and a count of uses above: a handle of a former use deletes nothing else.
 */
#include "object/tag_list.h"

#include <stdlib.h>
#include <string.h>

#include "object/recv_queue.h"

#define HANDLE_BITS	12u		/* for the number */
#define HANDLE_NUMBER	((1u << HANDLE_BITS) - 1)

struct tag_list *tag_list_new(uint32_t size, uint32_t max_ops)
{
	struct tag_list *list;
	uint32_t i;

	if (!size || size > HANDLE_NUMBER)
		return NULL;
	list = calloc(1, sizeof(*list) + size * sizeof(list->entry[0]));
	if (!list)
		return NULL;
	for (i = 0; i < size; i++) {
		list->entry[i].next = i + 1 < size ? i + 1 : TAG_NONE;
		list->entry[i].handle = i;
	}
	list->size = size;
	list->max_ops = max_ops;
	wqe_slots_init(&list->slots);
	wqe_slots_init(&list->ops);
	list->first = list->last = TAG_NONE;
	list->free_last = size - 1;
	return list;
}

/* Whatever sleeps awakes if the counts agree. Those that sleep are the last ones. */
static void tag_list_awake(struct tag_list *list)
{
	uint32_t i;

	if (!tag_list_in_step(list))
		return;
	for (i = list->last; i != TAG_NONE && list->entry[i].sleeps; i = list->entry[i].previous)
		list->entry[i].sleeps = false;
}

bool tag_list_report(struct tag_list *list, uint32_t count)
{
	if ((uint16_t)(list->unexpected - (uint16_t)count) > INT16_MAX)
		return false;
	list->handled = (uint16_t)count;
	tag_list_awake(list);
	return true;
}

bool tag_list_add(struct tag_list *list, struct ibv_ops_wr *wr)
{
	uint32_t i = list->free_first;
	struct tag_entry *entry;

	if (i == TAG_NONE || wqe_slots_used(&list->slots, list->added) >= list->size)
		return false;
	list->added++;
	entry = &list->entry[i];
	list->free_first = entry->next;
	if (list->free_first == TAG_NONE)
		list->free_last = TAG_NONE;
	/* Uses begin at 1: a handle of 0 was never given out. */
	entry->handle += 1u << HANDLE_BITS;
	if (!(entry->handle >> HANDLE_BITS))
		entry->handle += 1u << HANDLE_BITS;
	entry->tag = wr->tm.add.tag;
	entry->mask = wr->tm.add.mask;
	entry->wr_id = wr->tm.add.recv_wr_id;
	entry->sge_count = (uint16_t)wr->tm.add.num_sge;
	if (entry->sge_count)
		memcpy(entry->sge, wr->tm.add.sg_list, entry->sge_count * sizeof(entry->sge[0]));
	entry->state = TAG_WAITING;
	entry->sleeps = !tag_list_in_step(list);
	entry->next = TAG_NONE;
	entry->previous = list->last;
	if (list->last == TAG_NONE)
		list->first = i;
	else
		list->entry[list->last].next = i;
	list->last = i;
	wr->tm.handle = entry->handle;
	return true;
}

/* Out of the list, to the end of the free ones: its handle is old for as long as possible. */
static void tag_list_remove(struct tag_list *list, struct tag_entry *entry, enum tag_state state)
{
	uint32_t i = (uint32_t)(entry - list->entry);

	if (entry->previous == TAG_NONE)
		list->first = entry->next;
	else
		list->entry[entry->previous].next = entry->next;
	if (entry->next == TAG_NONE)
		list->last = entry->previous;
	else
		list->entry[entry->next].previous = entry->previous;
	entry->state = (uint8_t)state;
	entry->next = TAG_NONE;
	if (list->free_last == TAG_NONE)
		list->free_first = i;
	else
		list->entry[list->free_last].next = i;
	list->free_last = i;
}

enum tag_state tag_list_delete(struct tag_list *list, uint32_t handle)
{
	uint32_t i = handle & HANDLE_NUMBER, use = handle >> HANDLE_BITS;
	struct tag_entry *entry;

	if (i >= list->size || !use || use > list->entry[i].handle >> HANDLE_BITS)
		return TAG_UNUSED;
	entry = &list->entry[i];
	if (entry->handle != handle)
		return TAG_CONSUMED;	/* or deleted, long ago: nobody remembers */
	if (entry->state != TAG_WAITING)
		return (enum tag_state)entry->state;
	tag_list_remove(list, entry, TAG_DELETED);
	wqe_slot_free(&(struct wqe_slot){ .of = &list->slots, .shared = true });
	return TAG_WAITING;
}

struct tag_entry *tag_list_find(struct tag_list *list, uint64_t tag)
{
	uint32_t i;

	for (i = list->first; i != TAG_NONE && !list->entry[i].sleeps; i = list->entry[i].next)
		if ((tag & list->entry[i].mask) == list->entry[i].tag)
			return &list->entry[i];
	return NULL;
}

void tag_list_consume(struct tag_list *list, struct tag_entry *entry, struct recv_wqe *recv)
{
	recv->wr_id = entry->wr_id;
	recv->sge_count = entry->sge_count;
	memcpy(recv->sge, entry->sge, entry->sge_count * sizeof(recv->sge[0]));
	tag_list_remove(list, entry, TAG_CONSUMED);
}

void tag_list_unexpected(struct tag_list *list)
{
	list->unexpected++;
}

void tag_list_forget(struct tag_list *list)
{
	list->unexpected--;
	tag_list_awake(list);
}
