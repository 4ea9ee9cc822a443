/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sets behind repoll_wait(): lists of descriptors (repoll_set.c), without rsockets. The calls that
 * programs make are in repoll.c.
 *
 * Waiters that have seen an older list are counted (@stale): the last of them to come back clears the eventfd,
 * so that none sleeps on with a list that is not the newest.
 */
#ifndef VERBATIM_RSOCKETS_REPOLL_H
#define VERBATIM_RSOCKETS_REPOLL_H

#include <stdbool.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/lock.h"

struct repoll_member {
	int fd;
	bool reported;			/* EPOLLONESHOT: until it is modified */
	struct epoll_event event;
};

struct repoll {
	struct list node;
	int fd;
	unsigned references;		/* the list of sets, and waiters; under repoll_lock, as is all below */
	bool closed;
	struct repoll_member *members;
	unsigned count, room;
	unsigned next;			/* where the next report begins: each has its turn */
	unsigned generation, waiting, stale;
};

extern struct lock repoll_lock;

struct repoll *repoll_find(int fd) REQUIRES(repoll_lock);
/* A new set, with its descriptor. 0 or errno. */
int repoll_make(bool cloexec, int *fd);
void repoll_put(struct repoll *set) REQUIRES(repoll_lock);
struct repoll_member *repoll_member(struct repoll *set, int fd) REQUIRES(repoll_lock);
void repoll_remove(struct repoll *set, struct repoll_member *member) REQUIRES(repoll_lock);
/* As epoll_ctl(): 0 or errno. */
int repoll_control(struct repoll *set, int op, int fd, const struct epoll_event *event) REQUIRES(repoll_lock);
/* A waiter that began with @generation is back from its sleep. */
void repoll_woken(struct repoll *set, unsigned generation) REQUIRES(repoll_lock);

void repoll_forget(int fd);		/* a member is closed */
bool repoll_close(int fd);		/* was it a set? It is closed */
void repoll_after_fork(void);

#endif
