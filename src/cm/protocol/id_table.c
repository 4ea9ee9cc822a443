/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chained buckets, a power of two of them, at least as many as nodes while memory lasts.
 */
#include "cm/protocol/id_table.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS_MIN 16u

uint64_t id_hash(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
	hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	hash ^= hash >> 33;
	return hash ? hash : 1;
}

int id_table_init(struct id_table *table)
{
	table->bucket = calloc(BUCKETS_MIN, sizeof(struct id_node *));
	table->buckets = BUCKETS_MIN;
	table->count = 0;
	return table->bucket ? 0 : ENOMEM;
}

void id_table_free(struct id_table *table)
{
	free(table->bucket);
	table->bucket = NULL;
}

static struct id_node **id_table_bucket_of(const struct id_table *table, uint64_t hash)
{
	return &table->bucket[hash & (table->buckets - 1)];
}

static void link_node(struct id_table *table, struct id_node *node)
{
	struct id_node **bucket = id_table_bucket_of(table, node->hash);

	node->next = *bucket;
	*bucket = node;
}

static void id_table_grow(struct id_table *table)
{
	struct id_table larger = { .buckets = 2 * table->buckets };
	struct id_node *node, *next;

	larger.bucket = calloc(larger.buckets, sizeof(struct id_node *));
	if (!larger.bucket)
		return;
	for (size_t i = 0; i < table->buckets; i++)
		for (node = table->bucket[i]; node; node = next) {
			next = node->next;
			link_node(&larger, node);
		}
	free(table->bucket);
	table->bucket = larger.bucket;
	table->buckets = larger.buckets;
}

void id_table_insert(struct id_table *table, struct id_node *node, uint64_t hash)
{
	if (table->count >= table->buckets)
		id_table_grow(table);
	node->hash = hash;
	link_node(table, node);
	table->count++;
}

void id_table_remove(struct id_table *table, struct id_node *node)
{
	struct id_node **link;

	if (!node->hash)
		return;
	for (link = id_table_bucket_of(table, node->hash); *link != node; link = &(*link)->next)
		;
	*link = node->next;
	node->hash = 0;
	node->next = NULL;
	table->count--;
}

struct id_node *id_table_find(const struct id_table *table, uint64_t hash,
			      const struct id_node *after)
{
	struct id_node *node = after ? after->next : *id_table_bucket_of(table, hash);

	while (node && node->hash != hash)
		node = node->next;
	return node;
}
