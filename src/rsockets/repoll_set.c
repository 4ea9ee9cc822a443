/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of descriptors, and their ends: repoll.h. Nothing here knows what a descriptor is of. */
#include "rsockets/repoll.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lock repoll_lock = LOCK_INITIALIZER;
static struct list repolls GUARDED_BY(repoll_lock) = { &repolls, &repolls };

/* In the child of a fork(): another thread of the parent may have held it. Sets work there as lists. */
void repoll_after_fork(void)
{
	lock_init(&repoll_lock);
}

struct repoll *repoll_find(int fd)
{
	struct list *node;

	list_for_each(node, &repolls)
		if (list_entry(node, struct repoll, node)->fd == fd)
			return list_entry(node, struct repoll, node);
	return NULL;
}

void repoll_put(struct repoll *set)
{
	if (--set->references)
		return;
	close(set->fd);
	free(set->members);
	free(set);
}

int repoll_make(bool cloexec, int *fd)
{
	struct repoll *set = calloc(1, sizeof(*set));

	if (!set)
		return ENOMEM;
	set->fd = eventfd(0, EFD_NONBLOCK | (cloexec ? EFD_CLOEXEC : 0));
	if (set->fd < 0) {
		free(set);
		return errno;
	}
	set->references = 1;
	lock_acquire(&repoll_lock);
	list_add_tail(&repolls, &set->node);
	lock_release(&repoll_lock);
	*fd = set->fd;
	return 0;
}

/* ---- members ---- */

struct repoll_member *repoll_member(struct repoll *set, int fd)
{
	for (unsigned i = 0; i < set->count; i++)
		if (set->members[i].fd == fd)
			return &set->members[i];
	return NULL;
}

/* Whoever waits looks at the list again. */
static void repoll_changed(struct repoll *set) REQUIRES(repoll_lock)
{
	set->generation++;
	set->stale = set->waiting;
	if (set->stale)
		eventfd_write(set->fd, 1);
}

void repoll_remove(struct repoll *set, struct repoll_member *member)
{
	*member = set->members[--set->count];
}

int repoll_control(struct repoll *set, int op, int fd, const struct epoll_event *event)
{
	struct repoll_member *member = repoll_member(set, fd);

	if (op == EPOLL_CTL_ADD && member)
		return EEXIST;
	if (op != EPOLL_CTL_ADD && !member)
		return ENOENT;
	if (op == EPOLL_CTL_ADD && set->count == set->room) {
		unsigned room = set->room ? 2 * set->room : 16;
		struct repoll_member *members = reallocarray(set->members, room, sizeof(*members));

		if (!members)
			return ENOMEM;
		set->members = members;
		set->room = room;
	}
	if (op == EPOLL_CTL_ADD)
		member = &set->members[set->count++];
	if (op == EPOLL_CTL_DEL)
		repoll_remove(set, member);
	else
		*member = (struct repoll_member){ .fd = fd, .event = *event };
	repoll_changed(set);
	return 0;
}

void repoll_woken(struct repoll *set, unsigned generation)
{
	eventfd_t value;

	set->waiting--;
	if (generation != set->generation && set->stale && !--set->stale)
		eventfd_read(set->fd, &value);
}

/* ---- rclose() ---- */

void repoll_forget(int fd)
{
	struct list *node;

	lock_acquire(&repoll_lock);
	list_for_each(node, &repolls) {
		struct repoll *set = list_entry(node, struct repoll, node);
		struct repoll_member *member = repoll_member(set, fd);

		if (!member)
			continue;
		repoll_remove(set, member);
		repoll_changed(set);
	}
	lock_release(&repoll_lock);
}

bool repoll_close(int fd)
{
	struct repoll *set;

	lock_acquire(&repoll_lock);
	set = repoll_find(fd);
	if (set) {
		list_remove(&set->node);
		set->closed = true;
		repoll_changed(set);
		repoll_put(set);
	}
	lock_release(&repoll_lock);
	return set;
}
