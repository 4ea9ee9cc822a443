/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table of intrusive nodes, for keys that peers choose: the hash is seeded, the table grows
 * with what is in it and a failed allocation only makes it slower. Callers compare
 * the whole key.
 */
#ifndef VERBATIM_CM_PROTOCOL_ID_TABLE_H
#define VERBATIM_CM_PROTOCOL_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct id_node {
	struct id_node *next;
	uint64_t hash;		/* 0: in no table */
};

struct id_table {
	struct id_node **bucket;
	size_t buckets, count;
};

/* Of @value, going on from @hash (at first the seed). Never 0. */
uint64_t id_hash(uint64_t hash, uint64_t value);

int id_table_init(struct id_table *table);	/* 0 or ENOMEM */
void id_table_free(struct id_table *table);	/* the nodes are their owners' */
void id_table_insert(struct id_table *table, struct id_node *node, uint64_t hash);
/* Harmless for a node that is in no table. */
void id_table_remove(struct id_table *table, struct id_node *node);
/* First node of @hash, or the next one behind @after. */
struct id_node *id_table_find(const struct id_table *table, uint64_t hash,
			      const struct id_node *after);

#endif
