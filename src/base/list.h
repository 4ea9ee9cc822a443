/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive doubly linked list, and container_of(). A node that is in no list points to
 * itself, so removing twice is harmless and "is it queued?" needs no flag.
 */
#ifndef VERBATIM_BASE_LIST_H
#define VERBATIM_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

#define list_entry(node, type, member) container_of(node, type, member)

#define list_for_each(node, head) \
	for ((node) = (head)->next; (node) != (head); (node) = (node)->next)

/* As list_for_each, but @node may be removed (and freed) by the body. */
#define list_for_each_safe(node, following, head)                     \
	for ((node) = (head)->next, (following) = (node)->next;       \
	     (node) != (head); (node) = (following), (following) = (node)->next)

static inline void list_init(struct list *node)
{
	node->next = node->prev = node;
}

static inline bool list_empty(const struct list *node)
{
	return node->next == node;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* The first node, taken out; NULL if there is none. */
static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

#endif
