/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the region table that only mr.c, mw.c and access.c share. */
#ifndef VERBATIM_OBJECT_MR_INTERNAL_H
#define VERBATIM_OBJECT_MR_INTERNAL_H

#include "object/mr.h"

#define MR_TAG_BITS	(32 - MR_INDEX_BITS)

static inline uint32_t mr_index_of(uint32_t key)
{
	return key >> MR_TAG_BITS;
}

static inline uint32_t mr_key_of(const struct mr_entry *entry)
{
	return atomic_load_explicit(&entry->key, memory_order_relaxed);
}

/* An unused index, its entry zeroed but for last_key; ENOMEM when there is none. */
int mr_entry_take(struct mr_table *table, uint32_t *index) REQUIRES(table->lock);
/* Give back a dead entry. */
void mr_entry_give(struct mr_table *table, uint32_t index) REQUIRES(table->lock);
/* A key for @index that is not, in its upper bits, the one of its latest use. */
uint32_t mr_key_make(struct mr_table *table, uint32_t index) REQUIRES(table->lock);

/* Publish: everything else of the entry is written before. */
void mr_entry_publish(struct mr_entry *entry, uint32_t key);
/* No access begins from here on. */
void mr_entry_kill(struct mr_entry *entry);
/* Wait until none is in progress in this process. The caller holds no access. */
void mr_entry_drain(const struct mr_entry *entry);

/* "IBV_ACCESS_REMOTE_READ|..." into @text, "nothing" for 0; returns @text. */
const char *mr_access_text(unsigned access, char *text, size_t size);
#define MR_ACCESS_TEXT_MAX 256

#endif
