/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of rsockets. A call holds a reference to its socket; rclose() takes it out of the
 * table, the last reference frees it.
 *
 * fork(): the child has copies of the descriptors, but the devices behind them are the parent's
 * alone. There an inherited socket can be closed, all else is refused with EBADF.
 */
#include <errno.h>

#include "base/fd_table.h"
#include "base/fork.h"
#include "base/log.h"
#include "rsockets/repoll.h"
#include "rsockets/rsocket.h"

enum { LOCKS = 64 };

static struct fd_table table;
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
static void rs_table_after_fork(void)
{
	generation++;
	for (int i = 0; i < LOCKS; i++)
		lock_init(&entry_locks[i]);
	rs_service_after_fork();
	repoll_after_fork();
}

static const struct fork_handlers fork_handlers = { .child = rs_table_after_fork };

static struct lock *entry_lock(int fd)
{
	return &entry_locks[fd % LOCKS];
}

int rs_table_add(struct rsocket *rs)
{
	void **place = fd_table_make(&table, rs->fd);

	if (!place)
		return ENOMEM;
	fork_register(FORK_RSOCKETS, &fork_handlers);
	rs->generation = rs_generation();
	lock_acquire(entry_lock(rs->fd));
	fd_table_exchange(place, rs);
	lock_release(entry_lock(rs->fd));
	return 0;
}

struct rsocket *rs_get(int fd)
{
	struct rsocket *rs = NULL;

	if (fd_table_peek(&table, fd)) {
		lock_acquire(entry_lock(fd));
		rs = *fd_table_entry(&table, fd);
		if (rs && rs_is_inherited(rs)) {
			explain_of(OF(RSOCKET, (unsigned)fd),
				"rsocket %d: opened before fork(), it works in the parent only: "
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

	/* T1: pairs with itself: what others did with the socket is done before it is freed. */
	if (__atomic_sub_fetch(&rs->references, 1, __ATOMIC_ACQ_REL) == 0)
		rs_free(rs);
	errno = saved;
}

struct rsocket *rs_table_remove(int fd)
{
	void **place = fd_table_entry(&table, fd);
	struct rsocket *rs = NULL;

	if (place) {
		lock_acquire(entry_lock(fd));
		rs = fd_table_exchange(place, NULL);
		lock_release(entry_lock(fd));
	}
	if (!rs)
		errno = EBADF;
	return rs;
}
