/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pointers by descriptor: a table of two levels that grows, so that the limit is that of the process
 * (RLIMIT_NOFILE) and of no other. It is found, and grows, without a lock, and never shrinks.
 *
 * Entries are its user's: who may change one, who reads one without a lock, and what happens to
 * them after fork().
 */
#ifndef VERBATIM_BASE_FD_TABLE_H
#define VERBATIM_BASE_FD_TABLE_H

#include <stdlib.h>

enum { FD_PAGE_BITS = 10, FD_PAGE = 1 << FD_PAGE_BITS, FD_PAGES = 1 << 14 };

struct fd_page {
	void *entry[FD_PAGE];
};

struct fd_table {
	struct fd_page *pages[FD_PAGES];	/* each is set once */
};

/* NULL: nothing was ever put there, or near. */
static inline void **fd_table_entry(struct fd_table *table, int fd)
{
	struct fd_page *page;

	if (fd < 0 || fd >> FD_PAGE_BITS >= FD_PAGES)
		return NULL;
	/* D1: pairs with D2 in fd_table_make */
	page = __atomic_load_n(&table->pages[fd >> FD_PAGE_BITS], __ATOMIC_ACQUIRE);
	return page ? &page->entry[fd % FD_PAGE] : NULL;
}

/* The same, made if need be. NULL: no memory, or no descriptor has that number. */
static inline void **fd_table_make(struct fd_table *table, int fd)
{
	void **entry = fd_table_entry(table, fd);
	struct fd_page *made, *none = NULL;

	if (entry || fd < 0 || fd >> FD_PAGE_BITS >= FD_PAGES)
		return entry;
	made = calloc(1, sizeof(*made));
	/* D2: pairs with D1 in fd_table_entry; whoever comes second takes the first one's */
	if (made && !__atomic_compare_exchange_n(&table->pages[fd >> FD_PAGE_BITS], &none, made, 0,
						 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		free(made);
	return fd_table_entry(table, fd);
}

/* A hint, of an entry that others may be changing. */
static inline void *fd_table_peek(struct fd_table *table, int fd)
{
	void **entry = fd_table_entry(table, fd);

	return entry ? __atomic_load_n(entry, __ATOMIC_RELAXED) : NULL;
}

/* With what guards the entry held; fd_table_peek() sees the old one or the new one. */
static inline void *fd_table_exchange(void **entry, void *new)
{
	void *old = *entry;

	__atomic_store_n(entry, new, __ATOMIC_RELAXED);
	return old;
}

#endif
