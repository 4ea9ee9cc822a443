/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors -> twins. dup() makes several descriptors of one twin; it ends with the last of them,
 * and with the calls that are at work on it.
 *
 * fork(): rsockets are of use in the process that opened them only. In the child, twins that were
 * not connected yet go on as kernel sockets, and connected ones through the parent (relay.c).
 */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd_table.h"
#include "rspreload/rspreload.h"

static struct fd_table table;
static struct lock table_lock = LOCK_INITIALIZER;
static int highest = -1;
const struct fork_handlers *twin_fork_handlers;

void twins_after_fork(void)
{
	lock_init(&table_lock);
	epoll_after_fork();
	for (int fd = 0; fd <= highest; fd++) {
		struct twin *twin = fd_table_peek(&table, fd);

		if (!twin)
			continue;
		lock_init(&twin->lock);
		if (twin->mode == TWIN_BOTH || twin->mode == TWIN_CONNECTING)
			twin->mode = TWIN_KERNEL;
	}
}

struct twin *twin_new(int rs)
{
	struct twin *twin = calloc(1, sizeof(*twin));

	if (!twin)
		return NULL;
	twin->references = 1;
	twin->rs = rs;
	twin->relayed = -1;
	lock_init(&twin->lock);
	return twin;
}

/* A descriptor of it is no more; the reference is the caller's. */
static void twin_lost(struct twin *twin)
{
	/* P2: pairs with itself: what was sent by other descriptors is sent. */
	if (!__atomic_sub_fetch(&twin->descriptors, 1, __ATOMIC_ACQ_REL) && twin->relayed >= 0 && !twin->inherited)
		twin_may_receive(twin);
	twin_put(twin);
}

int twin_add(int fd, struct twin *twin)
{
	void **place = fd_table_make(&table, fd);
	struct twin *old;

	if (!place)
		return ENOMEM;
	fork_register(FORK_PRELOAD, twin_fork_handlers);
	__atomic_fetch_add(&twin->descriptors, 1, __ATOMIC_RELAXED);
	lock_acquire(&table_lock);
	old = fd_table_exchange(place, twin);	/* closed behind our back */
	highest = fd > highest ? fd : highest;
	lock_release(&table_lock);
	if (old)
		twin_lost(old);
	return 0;
}

struct twin *twin_get(int fd)
{
	struct twin *twin;

	if (inside || !fd_table_peek(&table, fd))
		return NULL;
	lock_acquire(&table_lock);
	twin = *fd_table_entry(&table, fd);
	if (twin)
		__atomic_fetch_add(&twin->references, 1, __ATOMIC_RELAXED);
	lock_release(&table_lock);
	return twin;
}

/* The result of the call that ends here stays in errno. */
void twin_put(struct twin *twin)
{
	int saved = errno;

	/* P1: pairs with itself: what others did with it is done before it is freed. */
	if (__atomic_sub_fetch(&twin->references, 1, __ATOMIC_ACQ_REL))
		return;
	twin_to_kernel(twin);
	if (twin->relayed >= 0)
		REAL(close)(twin->relayed);
	lock_destroy(&twin->lock);
	free(twin);
	errno = saved;
}

void twin_held_put(struct twin **twin)
{
	if (*twin)
		twin_put(*twin);
}

void twin_remove(int fd)
{
	struct twin *twin;

	if (inside || !fd_table_peek(&table, fd))
		return;
	lock_acquire(&table_lock);
	twin = fd_table_exchange(fd_table_entry(&table, fd), NULL);
	lock_release(&table_lock);
	if (twin)
		twin_lost(twin);
}

bool twin_is_at(const struct twin *twin, int fd)
{
	return fd_table_peek(&table, fd) == twin;
}

int twin_highest(void)
{
	return __atomic_load_n(&highest, __ATOMIC_RELAXED);
}

void twin_to_kernel(struct twin *twin)
{
	int rs = twin->rs, saved = errno;

	twin->mode = TWIN_KERNEL;
	twin->rs = -1;
	if (rs >= 0)
		RDMA_CALL(rclose(rs));
	errno = saved;
}
