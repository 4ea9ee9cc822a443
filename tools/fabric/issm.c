/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /dev/infiniband/issmN of a kernel: as long as a subnet manager has it open, the capability mask
 * of its port says IsSM, and other managers find it. Here it is a FIFO in the run directory, which
 * anybody can open for reading without a writer; inotify tells that somebody did. The room then
 * opens it for writing, which fails when nobody reads, and its end tells when the last reader has
 * gone, by whatever way.
 */
#include "fabric/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

static void issm_full_path(const struct issm *issm, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.3900s/%s", issm->room->directory, issm->name);
}

static void issm_look(struct issm *issm);

/* The readers have gone: POLLERR, and nothing else ever shows at this end. */
static void issm_ready(struct watch *watch, uint32_t events)
{
	struct issm *issm = container_of(watch, struct issm, watch);
	struct room *room = issm->room;

	room_unwatch(room, issm->fd);
	close(issm->fd);
	issm->fd = -1;
	fabric_set_is_sm(room->fabric, issm->place, issm->port, false, room->now_us);
	issm_look(issm);	/* one that came meanwhile */
}

static void issm_look(struct issm *issm)
{
	struct room *room = issm->room;
	char path[PATH_MAX];

	if (issm->fd >= 0)
		return;		/* it was our own opening, or there are readers already */
	issm_full_path(issm, path);
	issm->fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (issm->fd < 0)
		return;
	if (room_watch(room, issm->fd, &issm->watch, 0)) {
		close(issm->fd);
		issm->fd = -1;
		return;
	}
	fabric_set_is_sm(room->fabric, issm->place, issm->port, true, room->now_us);
}

static void inotify_ready(struct watch *watch, uint32_t events)
{
	struct room *room = container_of(watch, struct room, inotify_watch);
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t got = read(room->inotify, buffer, sizeof(buffer));
	struct list *at;

	/* Whatever happened in the directory: each is looked at, they are few. */
	if (got > 0)
		list_for_each(at, &room->issms)
			issm_look(list_entry(at, struct issm, node));
}

int issm_open(struct room *room)
{
	room->inotify_watch.ready = inotify_ready;
	room->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (room->inotify < 0)
		return errno;
	if (inotify_add_watch(room->inotify, room->directory, IN_OPEN | IN_ONLYDIR) < 0)
		return errno;
	return room_watch(room, room->inotify, &room->inotify_watch, EPOLLIN);
}

int issm_path(struct room *room, uint32_t node, uint32_t port, char path[PATH_MAX])
{
	char host[CTL_NODE_MAX];
	struct issm *issm;
	struct list *at;

	list_for_each(at, &room->issms) {
		issm = list_entry(at, struct issm, node);
		if (issm->place == node && issm->port == port) {
			issm_full_path(issm, path);
			return 0;
		}
	}
	issm = calloc(1, sizeof(*issm));
	if (!issm)
		return ENOMEM;
	issm->room = room;
	issm->place = node;
	issm->port = port;
	issm->fd = -1;
	issm->watch.ready = issm_ready;
	room_host_name(room, node, host);
	for (char *c = host; *c; c++)
		if (*c == '/' || *c < '!' || *c > '~')
			*c = '_';
	snprintf(issm->name, sizeof(issm->name), "issm.%.32s.%u.%u", host, node, port);
	issm_full_path(issm, path);
	unlink(path);
	if (mkfifo(path, 0600)) {
		int err = errno;

		free(issm);
		return err;
	}
	list_add_tail(&room->issms, &issm->node);
	return 0;
}

void issm_close(struct room *room)
{
	char path[PATH_MAX];

	while (!list_empty(&room->issms)) {
		struct issm *issm = list_entry(room->issms.next, struct issm, node);

		issm_full_path(issm, path);
		unlink(path);
		if (issm->fd >= 0)
			close(issm->fd);
		list_remove(&issm->node);
		free(issm);
	}
	if (room->inotify >= 0)
		close(room->inotify);
}
