/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watching the members of the port group (group_watch.h), and port_owner_watch(), which is the
 * same thing from outside the group.
 */
#include "host/group_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "host/name.h"
#include "host/port_group.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/socket_list.h"

#define MEMBER_NAME	"verbatim/port/"
#define BACKLOG		128

/* ---- lists of the kernel ---- */

static void group_note_member(void *context, const struct socket_seen *seen)
{
	struct group_members *members = context;
	const char *number = seen->name + strlen(MEMBER_NAME);
	uint64_t slot;

	if (text_scan_number(&number, SLOT_COUNT - 1, &slot) && !*number)
		members->is[slot] = true;
}

int group_members_list(struct group_members *members)
{
	memset(members, 0, sizeof(*members));
	return socket_list_names(SOCK_SEQPACKET, MEMBER_NAME, group_note_member, members);
}

/*
 * The kernel gives its list in pieces: a socket that comes to stand in front between two of them shows the last
 * ones of the first piece again.
 */
#define REPEATED_MAX 16u

struct group_sockets {
	uint32_t last[REPEATED_MAX];	/* inodes */
	unsigned count;
};

static void group_count_socket(void *context, const struct udp_seen *seen)
{
	struct group_sockets *sockets = context;
	unsigned i;

	if (!seen->any)
		return;
	for (i = 0; i < REPEATED_MAX && i < sockets->count; i++)
		if (sockets->last[i] == seen->inode)
			return;
	sockets->last[sockets->count++ % REPEATED_MAX] = seen->inode;
}

unsigned group_socket_count(unsigned family)
{
	struct group_sockets sockets = { .count = 0 };
	int err = socket_list_udp(family == 4 ? AF_INET : AF_INET6, ROCE_UDP_PORT, group_count_socket, &sockets);

	return err ? 0 : sockets.count;
}

/* ---- sockets ---- */

/* A connection that hangs up when the member ends; -1: there is no such member. */
static int group_connect_to(uint32_t slot)
{
	struct abstract_name name = name_of_slot(MEMBER_NAME, slot);
	int fd;

	return name_connect(&name, SOCK_SEQPACKET, &fd) ? -1 : fd;
}

static int watch_fd(struct group_watch *watch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.fd = fd };

	if (fail_now(FAIL_EPOLL_ADD) || epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return errno;
	return 0;
}

static void unwatch_fd(struct group_watch *watch, int fd)
{
	epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int group_watch_open(struct group_watch *watch, uint32_t self)
{
	struct abstract_name name = name_of_slot(MEMBER_NAME, self);
	int err;

	*watch = (struct group_watch){ .self = self, .epoll_fd = -1, .listen_fd = -1 };
	watch->epoll_fd = fail_now(FAIL_EPOLL) ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll_fd < 0)
		return errno;
	err = name_listen(&name, BACKLOG, &watch->listen_fd);
	if (!err)
		err = watch_fd(watch, watch->listen_fd);
	if (err)
		group_watch_close(watch);
	else
		watch->listening = true;
	return err;
}

/* Only closes: also called in a fork()ed child, where the epoll set is the parent's. */
void group_watch_close(struct group_watch *watch)
{
	unsigned i;

	for (i = 0; i < watch->watched_count; i++)
		close(watch->watched[i].fd);
	for (i = 0; i < watch->watcher_count; i++)
		close(watch->watcher[i]);
	if (watch->listen_fd >= 0)
		close(watch->listen_fd);
	if (watch->epoll_fd >= 0)
		close(watch->epoll_fd);
	watch->watched_count = watch->watcher_count = 0;
	watch->listen_fd = watch->epoll_fd = -1;
}

/* ---- being watched ---- */

static void group_accept_watchers(struct group_watch *watch)
{
	while (watch->watcher_count < GROUP_WATCHERS) {
		int fd = accept4(watch->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (watch_fd(watch, fd))
			close(fd);
		else
			watch->watcher[watch->watcher_count++] = fd;
	}
	unwatch_fd(watch, watch->listen_fd);
	watch->listening = false;
}

/* ---- watching ---- */

static void drop_watched(struct group_watch *watch, unsigned i)
{
	int fd = watch->watched[i].fd;

	watch->watched_count--;
	memmove(&watch->watched[i], &watch->watched[i + 1],
		(watch->watched_count - i) * sizeof(watch->watched[0]));
	unwatch_fd(watch, fd);
	name_disconnect(fd);
}

/* True when a member that we watched left. */
static bool group_handle(struct group_watch *watch, int fd)
{
	unsigned i;

	if (fd == watch->listen_fd)
		group_accept_watchers(watch);
	for (i = 0; i < watch->watcher_count; i++)
		if (watch->watcher[i] == fd) {
			watch->watcher[i] = watch->watcher[--watch->watcher_count];
			unwatch_fd(watch, fd);
			name_disconnect(fd);
			if (!watch->listening && !watch_fd(watch, watch->listen_fd))
				watch->listening = true;
			return false;
		}
	for (i = 0; i < watch->watched_count; i++)
		if (watch->watched[i].fd == fd) {
			drop_watched(watch, i);
			return true;
		}
	return false;
}

bool group_watch_turn(struct group_watch *watch)
{
	struct epoll_event events[16];
	bool left = false;
	int i, count;

	do {
		count = epoll_wait(watch->epoll_fd, events, 16, 0);
		for (i = 0; i < count; i++)
			left |= group_handle(watch, events[i].data.fd);
	} while (count == 16);
	return left;
}

void group_watch_consider(struct group_watch *watch, uint32_t slot)
{
	uint32_t distance = (slot - watch->self) % SLOT_COUNT;
	unsigned i = 0;
	int fd;

	if (slot == watch->self || slot >= SLOT_COUNT)
		return;
	while (i < watch->watched_count &&
	       (watch->watched[i].slot - watch->self) % SLOT_COUNT < distance)
		i++;
	if (i == GROUP_WATCHED || (i < watch->watched_count && watch->watched[i].slot == slot))
		return;
	fd = group_connect_to(slot);
	if (fd < 0)
		return;
	if (watch_fd(watch, fd)) {
		close(fd);
		return;
	}
	if (watch->watched_count == GROUP_WATCHED)
		drop_watched(watch, GROUP_WATCHED - 1);
	memmove(&watch->watched[i + 1], &watch->watched[i],
		(watch->watched_count - i) * sizeof(watch->watched[0]));
	watch->watched[i] = (struct watched){ .slot = slot, .fd = fd };
	watch->watched_count++;
}

void group_watch_choose(struct group_watch *watch, const struct group_members *members)
{
	uint32_t i, found = 0;

	for (i = 1; i < SLOT_COUNT && found < GROUP_WATCHED; i++) {
		uint32_t slot = (watch->self + i) % SLOT_COUNT;

		if (members->is[slot]) {
			group_watch_consider(watch, slot);
			found++;
		}
	}
}

/* ---- from outside ---- */

int port_owner_watch(void)
{
	struct group_members members;
	uint32_t i, start = (uint32_t)random_u64() % SLOT_COUNT;

	if (group_members_list(&members))
		return -1;
	for (i = 0; i < SLOT_COUNT; i++) {
		uint32_t slot = (start + i) % SLOT_COUNT;
		int fd = members.is[slot] ? group_connect_to(slot) : -1;

		if (fd >= 0)
			return fd;
	}
	return -1;
}
