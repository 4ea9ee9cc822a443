/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of rsockets: a table of two levels by number, which grows, so that the limit is that
 * of the process (RLIMIT_NOFILE) and of no other. Who works with a socket holds a reference;
 * rclose() takes it out of the table, the last reference frees it.
 *
 * fork(): the child has copies of the descriptors, but the devices behind them are the parent's
 * alone. There an inherited socket can be closed, all else is refused with EBADF.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/fork.h"
#include "base/log.h"
#include "rsockets/rsocket.h"

enum { PAGE_BITS = 10, PAGE = 1 << PAGE_BITS, PAGES = 1 << 14, LOCKS = 64 };

struct page {
	struct rsocket *sockets[PAGE];
};

static struct page *pages[PAGES];		/* written once, under grow_lock */
static struct lock grow_lock = LOCK_INITIALIZER;
/* Guard the entries: that of a descriptor is found by its number. */
static struct lock entry_locks[LOCKS] = { [0 ... LOCKS - 1] = LOCK_INITIALIZER };
static unsigned generation = 1;			/* changes in the child of a fork() */

unsigned rs_generation(void)
{
	return __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

bool rs_is_inherited(const struct rsocket *rs)
{
	return rs->generation != rs_generation();
}

/* Another thread of the parent may have held any of them at that moment. */
static void after_fork(void)
{
	generation++;
	lock_init(&grow_lock);
	for (int i = 0; i < LOCKS; i++)
		lock_init(&entry_locks[i]);
	rs_service_after_fork();
}

static const struct fork_handlers fork_handlers = { .child = after_fork };

static struct lock *entry_lock(int fd)
{
	return &entry_locks[fd % LOCKS];
}

static struct rsocket **entry(int fd)
{
	struct page *page;

	if (fd < 0 || fd >> PAGE_BITS >= PAGES)
		return NULL;
	/* T1: pairs with T2 in make_entry */
	page = __atomic_load_n(&pages[fd >> PAGE_BITS], __ATOMIC_ACQUIRE);
	return page ? &page->sockets[fd % PAGE] : NULL;
}

static struct rsocket **make_entry(int fd)
{
	struct page *page;

	if (fd < 0 || fd >> PAGE_BITS >= PAGES)
		return NULL;
	lock_acquire(&grow_lock);
	if (!pages[fd >> PAGE_BITS]) {
		page = calloc(1, sizeof(*page));
		/* T2: pairs with T1 in entry */
		__atomic_store_n(&pages[fd >> PAGE_BITS], page, __ATOMIC_RELEASE);
	}
	lock_release(&grow_lock);
	return entry(fd);
}

int rs_table_add(struct rsocket *rs)
{
	struct rsocket **place = make_entry(rs->fd);

	if (!place)
		return ENOMEM;
	fork_register(FORK_RSOCKETS, &fork_handlers);
	rs->generation = rs_generation();
	lock_acquire(entry_lock(rs->fd));
	__atomic_store_n(place, rs, __ATOMIC_RELAXED);	/* read without the lock, too */
	lock_release(entry_lock(rs->fd));
	return 0;
}

struct rsocket *rs_get(int fd)
{
	struct rsocket **place = entry(fd), *rs = NULL;

	if (place && __atomic_load_n(place, __ATOMIC_RELAXED)) {
		lock_acquire(entry_lock(fd));
		rs = *place;
		if (rs && rs_is_inherited(rs)) {
			explain("rsocket %d: opened before fork(), it works in the parent only: "
				"open another one in the child", fd);
			rs = NULL;
		}
		if (rs)
			__atomic_fetch_add(&rs->references, 1, __ATOMIC_RELAXED);
		lock_release(entry_lock(fd));
	}
	if (!rs)
		errno = EBADF;
	return rs;
}

/* The result of the call that ends here stays in errno. */
void rs_put(struct rsocket *rs)
{
	int saved = errno;

	/* T3: pairs with itself: what others did with the socket is done before it is freed. */
	if (__atomic_sub_fetch(&rs->references, 1, __ATOMIC_ACQ_REL) == 0)
		rs_free(rs);
	errno = saved;
}

struct rsocket *rs_table_remove(int fd)
{
	struct rsocket **place = entry(fd), *rs = NULL;

	if (place) {
		lock_acquire(entry_lock(fd));
		rs = *place;
		__atomic_store_n(place, NULL, __ATOMIC_RELAXED);
		lock_release(entry_lock(fd));
	}
	if (!rs)
		errno = EBADF;
	return rs;
}
