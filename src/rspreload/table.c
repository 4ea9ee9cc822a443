/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors -> twins: two levels by number, grown as needed. dup() makes several descriptors of
 * one twin; it ends with the last of them, and with the calls that are at work on it.
 *
 * fork(): rsockets are of use in the process that opened them only. In the child, twins that were
 * not connected yet go on as kernel sockets; connected ones answer EBADF.
 */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/fork.h"
#include "rspreload/rspreload.h"

enum { PAGE_BITS = 10, PAGE = 1 << PAGE_BITS, PAGES = 1 << 14 };

struct page {
	struct twin *twins[PAGE];
};

static struct page *pages[PAGES];
static struct lock table_lock = LOCK_INITIALIZER;
static int highest = -1;

static struct twin **entry(int fd)
{
	struct page *page;

	if (fd < 0 || fd >> PAGE_BITS >= PAGES)
		return NULL;
	/* P1: pairs with P2 in make_page */
	page = __atomic_load_n(&pages[fd >> PAGE_BITS], __ATOMIC_ACQUIRE);
	return page ? &page->twins[fd % PAGE] : NULL;
}

static void make_page(int fd)
{
	if (!pages[fd >> PAGE_BITS])
		/* P2: pairs with P1 in entry */
		__atomic_store_n(&pages[fd >> PAGE_BITS], calloc(1, sizeof(struct page)),
				 __ATOMIC_RELEASE);
}

static void after_fork(void)
{
	lock_init(&table_lock);
	epoll_after_fork();
	for (int fd = 0; fd <= highest; fd++) {
		struct twin **place = entry(fd);

		if (!place || !*place)
			continue;
		lock_init(&(*place)->lock);
		if ((*place)->mode == TWIN_BOTH || (*place)->mode == TWIN_CONNECTING)
			(*place)->mode = TWIN_KERNEL;
	}
}

static const struct fork_handlers fork_handlers = { .child = after_fork };

struct twin *twin_new(int rs)
{
	struct twin *twin = calloc(1, sizeof(*twin));

	if (!twin)
		return NULL;
	twin->references = 1;
	twin->rs = rs;
	lock_init(&twin->lock);
	return twin;
}

int twin_add(int fd, struct twin *twin)
{
	struct twin **place, *old = NULL;
	int err = ENOMEM;

	fork_register(FORK_PRELOAD, &fork_handlers);
	lock_acquire(&table_lock);
	if (fd >= 0 && fd >> PAGE_BITS < PAGES)
		make_page(fd);
	place = entry(fd);
	if (place) {
		old = *place;		/* closed behind our back */
		__atomic_store_n(place, twin, __ATOMIC_RELAXED);
		highest = fd > highest ? fd : highest;
		err = 0;
	}
	lock_release(&table_lock);
	if (old)
		twin_put(old);
	return err;
}

struct twin *twin_get(int fd)
{
	struct twin **place, *twin;

	if (inside)
		return NULL;
	place = entry(fd);
	if (!place || !__atomic_load_n(place, __ATOMIC_RELAXED))
		return NULL;
	lock_acquire(&table_lock);
	twin = *place;
	if (twin)
		__atomic_fetch_add(&twin->references, 1, __ATOMIC_RELAXED);
	lock_release(&table_lock);
	return twin;
}

/* The result of the call that ends here stays in errno. */
void twin_put(struct twin *twin)
{
	int saved = errno;

	/* P3: pairs with itself: what others did with it is done before it is freed. */
	if (__atomic_sub_fetch(&twin->references, 1, __ATOMIC_ACQ_REL))
		return;
	twin_to_kernel(twin);
	lock_destroy(&twin->lock);
	free(twin);
	errno = saved;
}

void twin_remove(int fd)
{
	struct twin **place = inside ? NULL : entry(fd), *twin = NULL;

	if (!place || !__atomic_load_n(place, __ATOMIC_RELAXED))
		return;
	lock_acquire(&table_lock);
	twin = *place;
	__atomic_store_n(place, NULL, __ATOMIC_RELAXED);
	lock_release(&table_lock);
	if (twin)
		twin_put(twin);
}

bool twin_is_at(const struct twin *twin, int fd)
{
	struct twin **place = entry(fd);

	return place && __atomic_load_n(place, __ATOMIC_RELAXED) == twin;
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
