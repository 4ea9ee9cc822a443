/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /dev/infiniband/issmN of a kernel: as long as a subnet manager has it open, the capability mask
 * of its port says IsSM, and other managers find it. Here it is a FIFO in the run directory, which
 * anybody can open for reading without a writer; inotify tells that somebody did. The room then
 * opens it for writing, which fails when nobody reads, and its end tells when the last reader has
 * gone, by whatever way.
 */
#include "fabric/room.h"

#include <dirent.h>
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

static void issm_name(const struct room *room, uint32_t node, uint32_t port, char name[64])
{
	char host[CTL_NODE_MAX];

	room_host_name(room, node, host);
	for (char *c = host; *c; c++)
		if (*c == '/' || *c < '!' || *c > '~')
			*c = '_';
	snprintf(name, 64, "issm.%.32s.%u.%u", host, node, port);
}

/* NULL: no memory. */
static struct issm *issm_new(struct room *room, uint32_t node, uint32_t port)
{
	struct issm *issm = calloc(1, sizeof(*issm));

	if (!issm)
		return NULL;
	issm->room = room;
	issm->place = node;
	issm->port = port;
	issm->fd = -1;
	issm->watch.ready = issm_ready;
	issm_name(room, node, port, issm->name);
	list_add_tail(&room->issms, &issm->node);
	return issm;
}

/*
 * A FIFO that a fabric which was killed has left: a subnet manager may have it open still, and is
 * one again.
 */
static void issm_adopt(struct room *room, const char *name)
{
	char path[PATH_MAX], expected[64];
	struct fabric_port_info info;
	unsigned node, port;
	const char *numbers = name + strlen(name);
	struct issm *issm;
	struct stat status;

	for (unsigned dots = 0; numbers > name && dots < 2; )
		dots += *--numbers == '.';
	if (sscanf(numbers, ".%u.%u", &node, &port) != 2 ||
	    !fabric_port_info(room->fabric, node, port, &info))
		return;
	issm_name(room, node, port, expected);
	if (strcmp(name, expected))
		return;
	issm = issm_new(room, node, port);
	if (!issm)
		return;
	issm_full_path(issm, path);
	if (!lstat(path, &status) && S_ISFIFO(status.st_mode))
		issm_look(issm);
	if (issm->fd < 0) {		/* nobody: it is made anew when somebody asks for it */
		unlink(path);
		list_remove(&issm->node);
		free(issm);
	}
}

static void issm_adopt_all(struct room *room)
{
	DIR *directory = opendir(room->directory);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (!strncmp(entry->d_name, "issm.", 5))
			issm_adopt(room, entry->d_name);
	if (directory)
		closedir(directory);
}

int issm_open(struct room *room)
{
	room->inotify_watch.ready = inotify_ready;
	room->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (room->inotify < 0)
		return errno;
	issm_adopt_all(room);
	if (inotify_add_watch(room->inotify, room->directory, IN_OPEN | IN_ONLYDIR) < 0)
		return errno;
	return room_watch(room, room->inotify, &room->inotify_watch, EPOLLIN);
}

int issm_path(struct room *room, uint32_t node, uint32_t port, char path[PATH_MAX])
{
	struct issm *issm;
	struct list *at;

	list_for_each(at, &room->issms) {
		issm = list_entry(at, struct issm, node);
		if (issm->place == node && issm->port == port) {
			issm_full_path(issm, path);
			return 0;
		}
	}
	issm = issm_new(room, node, port);
	if (!issm)
		return ENOMEM;
	issm_full_path(issm, path);
	unlink(path);
	if (mkfifo(path, 0600) || chmod(path, 0600 | (room->mode & 0044))) {
		int err = errno;

		list_remove(&issm->node);
		free(issm);
		return err;
	}
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
