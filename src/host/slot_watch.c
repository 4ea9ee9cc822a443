/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watching slots (slot_watch.h). All connections are in one epoll set, of which the process's
 * worker waits for the descriptor.
 *
 * A connection works as soon as it waits in the backlog: a stopped process can be watched. It is
 * accepted nevertheless, so that the backlog has room for the next, and kept until the watcher
 * hangs up.
 *
 * Each connection costs us a descriptor. A user other than ours (and root) has at most 128 of them,
 * and an eighth of those that we may have; all such users together twice as many. A watcher beyond
 * that gets a byte before we hang up: then it watches nothing, and no process has ended.
 *
 * A slot that is gone may have a new holder at once, which may be watched before all watches of the
 * old one are removed. These are counted apart (ended), so that removing them does not end the new
 * watch.
 *
 * A few unused connections are kept for later watches: programs that connect to one peer again and
 * again would otherwise wake it twice each time.
 */
#include "host/slot_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lock.h"
#include "host/name.h"
#include "host/slot.h"
#include "platform/fail.h"

#define ALIVE_NAME	"verbatim/alive/"
#define BACKLOG		1024
#define OWN_MAX		8u
#define EVENTS		16
#define ACCEPTS_MAX	64u
#define ROUNDS_MAX	8u
#define IDLE_MAX	8u		/* unused watches */
/* Limits of watchers of one other user, and of all other users; each also a share of RLIMIT_NOFILE. */
#define OF_USER_MAX	128u
#define OF_STRANGERS_MAX 256u
#define USER_SHARE	8u
#define STRANGERS_SHARE	4u

enum kind { KIND_LISTENER, KIND_WATCHER, KIND_WATCHED };	/* kind of an fd in the epoll set */

struct watched_slot {
	int fd;				/* -1: not watched */
	unsigned count, ended;
};

struct slot_watch {
	struct lock lock;
	int epoll_fd;
	unsigned own_count GUARDED_BY_MEMBER(lock);
	struct {
		uint32_t slot;
		int fd;
		bool listening;		/* it is in the epoll set */
	} own[OWN_MAX] GUARDED_BY_MEMBER(lock);
	unsigned watcher_count GUARDED_BY_MEMBER(lock);
	struct {
		int fd;
		uid_t uid;
	} watcher[SLOT_COUNT] GUARDED_BY_MEMBER(lock);
	unsigned idle_count GUARDED_BY_MEMBER(lock);
	/* slots that are watched with a count of 0, oldest first */
	uint32_t idle[IDLE_MAX] GUARDED_BY_MEMBER(lock);
	struct watched_slot watched[SLOT_COUNT] GUARDED_BY_MEMBER(lock);	/* by slot */
};

static int slot_watch_wait_for(struct slot_watch *watch, enum kind kind, int fd, uint32_t which)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP,
				     .data.u64 = (uint64_t)kind << 32 | which };

	if (fail_now(FAIL_EPOLL_ADD) || epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return errno;
	return 0;
}

/* ---- being watched ---- */

int slot_watch_listen(struct slot_watch *watch, uint32_t slot)
{
	struct abstract_name name = name_of_slot(ALIVE_NAME, slot);
	unsigned n;
	int fd = -1, err = name_listen(&name, BACKLOG, &fd);

	if (err)
		return err;
	lock_acquire(&watch->lock);
	n = watch->own_count;
	err = n == OWN_MAX ? ENOSPC : slot_watch_wait_for(watch, KIND_LISTENER, fd, n);
	if (!err) {
		watch->own[n].slot = slot;
		watch->own[n].fd = fd;
		watch->own[n].listening = true;
		watch->own_count++;
	}
	lock_release(&watch->lock);
	if (err)
		close(fd);
	return err;
}

static bool is_stranger(uid_t uid)
{
	return uid && uid != geteuid();
}

static bool has_room_for(const struct slot_watch *watch, uid_t uid) REQUIRES(watch->lock)
{
	unsigned of_user = 0, of_strangers = 0, i;
	struct rlimit limit;

	if (!is_stranger(uid))
		return true;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	for (i = 0; i < watch->watcher_count; i++) {
		of_user += watch->watcher[i].uid == uid;
		of_strangers += is_stranger(watch->watcher[i].uid);
	}
	return of_user < OF_USER_MAX && of_user < limit.rlim_cur / USER_SHARE &&
	       of_strangers < OF_STRANGERS_MAX && of_strangers < limit.rlim_cur / STRANGERS_SHARE;
}

/* A bounded number per turn, so that a flood does not starve others. */
static void slot_accept_watchers(struct slot_watch *watch, unsigned own) REQUIRES(watch->lock)
{
	unsigned n;
	struct ucred who;
	socklen_t bytes;

	for (n = 0; n < ACCEPTS_MAX; n++) {
		int fd = watch->watcher_count == SLOT_COUNT || fail_now(FAIL_SOCKET) ? -1 :
			 accept4(watch->own[own].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) &&
		    watch->watcher_count < SLOT_COUNT)
			return;
		if (fd < 0) {
			/*
			 * No room for more: watchers wait in the backlog, where their watch
			 * works as well.
			 */
			epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watch->own[own].fd, NULL);
			watch->own[own].listening = false;
			return;
		}
		who = (struct ucred){ .uid = (uid_t)-1 };
		bytes = sizeof(who);
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
		if (!has_room_for(watch, who.uid)) {
			send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
			close(fd);
		} else if (slot_watch_wait_for(watch, KIND_WATCHER, fd, (uint32_t)fd)) {
			close(fd);
		} else {
			watch->watcher[watch->watcher_count].fd = fd;
			watch->watcher[watch->watcher_count++].uid = who.uid;
		}
	}
}

static void slot_drop_watcher(struct slot_watch *watch, int fd) REQUIRES(watch->lock)
{
	unsigned i;

	for (i = 0; i < watch->watcher_count && watch->watcher[i].fd != fd; i++)
		;
	if (i == watch->watcher_count)
		return;
	close(fd);			/* leaves the epoll set by that */
	watch->watcher[i] = watch->watcher[--watch->watcher_count];
	for (i = 0; i < watch->own_count; i++)
		if (!watch->own[i].listening)
			watch->own[i].listening =
				!slot_watch_wait_for(watch, KIND_LISTENER, watch->own[i].fd, i);
}

/* ---- watching ---- */

static bool slot_watch_is_own(const struct slot_watch *watch, uint32_t slot) REQUIRES(watch->lock)
{
	unsigned i;

	for (i = 0; i < watch->own_count; i++)
		if (watch->own[i].slot == slot)
			return true;
	return false;
}

static int slot_connect_to(struct slot_watch *watch, uint32_t slot, int *connected)
{
	struct abstract_name name = name_of_slot(ALIVE_NAME, slot);
	int fd, err = name_connect(&name, SOCK_SEQPACKET, &fd);

	if (err)
		return err == ECONNREFUSED ? ESRCH : err;
	err = slot_watch_wait_for(watch, KIND_WATCHED, fd, slot);
	if (err)
		close(fd);
	else
		*connected = fd;
	return err;
}

/* A child that was forked and did not close it yet would keep it in the epoll set. */
static void stop_watching(struct slot_watch *watch, struct watched_slot *watched)
{
	epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watched->fd, NULL);
	close(watched->fd);
	watched->fd = -1;
	watched->count = 0;
}

static void forget_idle(struct slot_watch *watch, uint32_t slot) REQUIRES(watch->lock)
{
	unsigned i, kept = 0;

	for (i = 0; i < watch->idle_count; i++)
		if (watch->idle[i] != slot)
			watch->idle[kept++] = watch->idle[i];
	watch->idle_count = kept;
}

int slot_watch_add(struct slot_watch *watch, uint32_t slot)
{
	struct watched_slot *watched = &watch->watched[slot % SLOT_COUNT];
	int err = 0;
	char byte;

	if (slot >= SLOT_COUNT)
		return ESRCH;
	lock_acquire(&watch->lock);
	if (!slot_watch_is_own(watch, slot)) {
		if (watched->fd >= 0 && !watched->count) {
			forget_idle(watch, slot);
			/* It may belong to an earlier holder of the slot. */
			if (recv(watched->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
				stop_watching(watch, watched);
		}
		if (watched->fd < 0)
			err = slot_connect_to(watch, slot, &watched->fd);
		if (!err)
			watched->count++;
	}
	lock_release(&watch->lock);
	return err;
}

void slot_watch_remove(struct slot_watch *watch, uint32_t slot)
{
	struct watched_slot *watched = &watch->watched[slot % SLOT_COUNT];
	uint32_t oldest;

	lock_acquire(&watch->lock);
	oldest = watch->idle[0];
	if (watched->ended) {
		watched->ended--;
	} else if (watched->count && --watched->count == 0) {
		if (watch->idle_count == IDLE_MAX) {
			forget_idle(watch, oldest);
			stop_watching(watch, &watch->watched[oldest]);
		}
		watch->idle[watch->idle_count++] = slot;
	}
	lock_release(&watch->lock);
}

int slot_watch_pid(struct slot_watch *watch, uint32_t slot, pid_t *pid)
{
	struct ucred who = { .pid = 0 };
	socklen_t bytes = sizeof(who);
	int err = slot_watch_add(watch, slot);

	if (err)
		return err;
	lock_acquire(&watch->lock);
	if (slot_watch_is_own(watch, slot))
		who.pid = getpid();
	else if (getsockopt(watch->watched[slot].fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes))
		err = watch->watched[slot].fd < 0 ? ESRCH : errno;
	lock_release(&watch->lock);
	slot_watch_remove(watch, slot);
	*pid = who.pid;
	return err;
}

/* ---- turns ---- */

/* True: the slot @which is gone. */
static bool slot_handle(struct slot_watch *watch, enum kind kind, uint32_t which)
	REQUIRES(watch->lock)
{
	struct watched_slot *watched = &watch->watched[which % SLOT_COUNT];
	bool refused;
	char byte;

	if (kind == KIND_LISTENER)
		slot_accept_watchers(watch, which);
	else if (kind == KIND_WATCHER)
		slot_drop_watcher(watch, (int)which);
	if (kind != KIND_WATCHED || watched->fd < 0)
		return false;
	if (!watched->count) {
		forget_idle(watch, which);
		stop_watching(watch, watched);
		return false;
	}
	refused = recv(watched->fd, &byte, 1, MSG_DONTWAIT) == 1;
	watched->ended += watched->count;
	stop_watching(watch, watched);
	return !refused;
}

unsigned slot_watch_turn(struct slot_watch *watch, uint32_t *gone, unsigned max)
{
	struct epoll_event events[EVENTS];
	unsigned found = 0, round = 0;
	int i, count;

	lock_acquire(&watch->lock);
	do {
		count = max - found < EVENTS ? (int)(max - found) : EVENTS;
		count = count ? epoll_wait(watch->epoll_fd, events, count, 0) : 0;
		for (i = 0; i < count; i++) {
			uint32_t which = (uint32_t)events[i].data.u64;

			if (slot_handle(watch, (enum kind)(events[i].data.u64 >> 32), which))
				gone[found++] = which;
		}
	} while (count > 0 && ++round < ROUNDS_MAX);
	lock_release(&watch->lock);
	return found;
}

/* ---- all of it ---- */

int slot_watch_open(struct slot_watch **opened)
{
	struct slot_watch *watch = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*watch));
	unsigned i;
	int err;

	if (!watch)
		return ENOMEM;
	watch->epoll_fd = fail_now(FAIL_EPOLL) ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll_fd < 0) {
		err = errno;
		free(watch);
		return err;
	}
	lock_init(&watch->lock);
	for (i = 0; i < SLOT_COUNT; i++)
		watch->watched[i].fd = -1;
	*opened = watch;
	return 0;
}

void slot_watch_abandon(struct slot_watch *watch)
{
	unsigned i;

	lock_init(&watch->lock);
	for (i = 0; i < watch->own_count; i++)
		close(watch->own[i].fd);
	for (i = 0; i < watch->watcher_count; i++)
		close(watch->watcher[i].fd);
	for (i = 0; i < SLOT_COUNT; i++)
		if (watch->watched[i].fd >= 0)
			close(watch->watched[i].fd);
	close(watch->epoll_fd);
}

void slot_watch_close(struct slot_watch *watch)
{
	slot_watch_abandon(watch);
	lock_destroy(&watch->lock);
	free(watch);
}

int slot_watch_event_fd(const struct slot_watch *watch)
{
	return watch->epoll_fd;
}

void slot_watch_before_fork(struct slot_watch *watch) ACQUIRES(watch->lock)
{
	lock_acquire(&watch->lock);
}

void slot_watch_after_fork(struct slot_watch *watch) RELEASES(watch->lock)
{
	lock_release(&watch->lock);
}
