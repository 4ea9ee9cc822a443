/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The members of the group, and noticing that one left.
 *
 * Each member listens on an abstract Unix socket named after its first slot. A watcher is connected
 * to it: the kernel hangs up when the process ends, for any reason. Each member watches the two
 * that follow it in the order of slots (cyclic): one of the watchers may be stopped.
 *
 * Internal to host/.
 */
#ifndef VERBATIM_HOST_GROUP_WATCH_H
#define VERBATIM_HOST_GROUP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "host/slot.h"

#define GROUP_WATCHED	2u
#define GROUP_WATCHERS	64u	/* connections accepted; more wait in the backlog */

struct group_watch {
	uint32_t self;			/* our first slot */
	int epoll_fd;			/* readable: group_watch_turn() has something to do */
	int listen_fd;
	bool listening;			/* listen_fd is in the epoll set */
	unsigned watched_count, watcher_count;
	struct watched {
		uint32_t slot;
		int fd;
	} watched[GROUP_WATCHED];	/* the nearest first */
	int watcher[GROUP_WATCHERS];
};

/* The members, by first slot. */
struct group_members {
	bool is[SLOT_COUNT];
};

int group_watch_open(struct group_watch *watch, uint32_t self);
void group_watch_close(struct group_watch *watch);
/* Accept, drop, notice; never blocks. True: a member that we watched left. */
bool group_watch_turn(struct group_watch *watch);
/* A member was heard of: watch it if it is one of the next two. */
void group_watch_consider(struct group_watch *watch, uint32_t slot);
void group_watch_choose(struct group_watch *watch, const struct group_members *members);

/* Members that have the port, of any user, as the kernel lists their names. 0 or errno. */
int group_members_list(struct group_members *members);
/* Sockets bound to port 4791 of 0.0.0.0 (@family 4) or [::] (6); 0: cannot be known. */
unsigned group_socket_count(unsigned family);

#endif
