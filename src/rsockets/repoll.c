/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repoll_create, repoll_ctl, repoll_wait (rdma-core 65, RDMACM_1.5): epoll over rsockets and other
 * descriptors. A set is a list of descriptors that rpoll() is called with; its own descriptor, an eventfd,
 * is polled beside them, and wakes those that wait when the list changes. rclose() ends a set, and takes
 * a socket that is closed out of all sets.
 *
 * Events are reported as long as they last: EPOLLET is taken and has no effect. A set cannot be watched by
 * another one. Errors are -1 and errno, as epoll's; rdma-core's answer some as positive numbers.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "rsockets/repoll.h"
#include "rsockets/rsocket.h"

/* Of enum EPOLL_EVENTS, what poll() has by the same numbers. */
#define POLL_EVENTS	(EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDNORM | EPOLLRDBAND | EPOLLWRNORM | EPOLLWRBAND | \
			 EPOLLRDHUP)
#define EVENTS_MAX	(INT_MAX / (int)sizeof(struct epoll_event))

int repoll_create(int flags)
{
	CALL_HOLDING();
	int fd, err;

	if (flags & ~EPOLL_CLOEXEC)
		return rs_result(EINVAL);
	err = repoll_make(flags & EPOLL_CLOEXEC, &fd);
	return err ? rs_result(err) : fd;
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	CALL_HOLDING();
	struct rsocket *rs;
	struct repoll *set;
	int err;

	if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return rs_result(EINVAL);
	if (op != EPOLL_CTL_DEL && !event)
		return rs_result(EFAULT);
	/* Is it open: an rsocket, or a descriptor of the kernel? */
	rs = rs_get(fd);
	if (rs)
		rs_put(rs);
	else if (fcntl(fd, F_GETFD) < 0)
		return rs_result(EBADF);
	lock_acquire(&repoll_lock);
	set = repoll_find(epfd);
	if (!set)
		err = fcntl(epfd, F_GETFD) < 0 ? EBADF : EINVAL;
	else
		err = repoll_find(fd) ? EINVAL : repoll_control(set, op, fd, event);
	lock_release(&repoll_lock);
	return rs_result(err);
}

/* ---- waiting ---- */

struct repoll_waiter {
	struct repoll *set;		/* with a reference */
	struct pollfd *fds;		/* the members, then the set */
	nfds_t count;
	unsigned generation;
};

/* The members that are looked at, at this moment. */
static int repoll_list(struct repoll_waiter *wait) REQUIRES(repoll_lock)
{
	const struct repoll *set = wait->set;
	struct pollfd *fds = reallocarray(wait->fds, set->count + 1, sizeof(*fds));

	if (!fds)
		return ENOMEM;
	wait->fds = fds;
	wait->count = 0;
	for (unsigned i = 0; i < set->count; i++) {
		const struct repoll_member *member = &set->members[i];

		if (!member->reported)
			fds[wait->count++] = (struct pollfd){
				.fd = member->fd, .events = (short)(member->event.events & POLL_EVENTS) };
	}
	fds[wait->count++] = (struct pollfd){ .fd = set->fd, .events = POLLIN };
	wait->generation = set->generation;
	return 0;
}

static int repoll_report(struct repoll_waiter *wait, struct epoll_event *events, int most) REQUIRES(repoll_lock)
{
	const nfds_t members = wait->count - 1;
	struct repoll *set = wait->set;
	const unsigned from = members ? set->next % (unsigned)members : 0;
	int ready = 0;

	for (nfds_t i = 0; i < members && ready < most; i++) {
		const struct pollfd *polled = &wait->fds[(from + i) % members];
		struct repoll_member *member = polled->revents ? repoll_member(set, polled->fd) : NULL;

		/* A descriptor of the kernel that was closed: epoll forgets it. */
		if (member && (polled->revents & POLLNVAL)) {
			repoll_remove(set, member);
			continue;
		}
		if (!member || member->reported)
			continue;
		events[ready].events = (uint32_t)(unsigned short)polled->revents;
		events[ready++].data = member->event.data;
		member->reported = member->event.events & EPOLLONESHOT;
		set->next = from + (unsigned)i + 1;
	}
	return ready;
}

/* The thread is cancelled in its sleep. */
static void repoll_cancelled(void *cancelled)
{
	struct repoll_waiter *wait = cancelled;

	lock_acquire(&repoll_lock);
	repoll_woken(wait->set, wait->generation);
	repoll_put(wait->set);
	lock_release(&repoll_lock);
	free(wait->fds);
}

/* One look. The number of events; -1 and errno: it failed. */
static int repoll_once(struct repoll_waiter *wait, struct epoll_event *events, int most, int timeout_ms)
{
	int ready, err;

	lock_acquire(&repoll_lock);
	err = wait->set->closed ? EBADF : repoll_list(wait);
	if (!err)
		wait->set->waiting++;
	lock_release(&repoll_lock);
	if (err)
		return rs_result(err);
	pthread_cleanup_push(repoll_cancelled, wait);
	ready = rpoll(wait->fds, wait->count, timeout_ms);
	pthread_cleanup_pop(0);
	err = ready < 0 ? errno : 0;
	lock_acquire(&repoll_lock);
	repoll_woken(wait->set, wait->generation);
	if (ready > 0)
		ready = repoll_report(wait, events, most);
	lock_release(&repoll_lock);
	return err ? rs_result(err) : ready;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	CALL_BLOCKING();
	struct repoll_waiter wait = { 0 };
	int64_t deadline_ns = rs_now_ns() + (int64_t)timeout * 1000000, left_ns;
	int ready, left_ms = timeout;

	if (maxevents <= 0 || maxevents > EVENTS_MAX)
		return rs_result(EINVAL);
	if (!events)
		return rs_result(EFAULT);
	lock_acquire(&repoll_lock);
	wait.set = repoll_find(epfd);
	if (wait.set)
		wait.set->references++;
	lock_release(&repoll_lock);
	if (!wait.set)
		return rs_result(fcntl(epfd, F_GETFD) < 0 ? EBADF : EINVAL);
	do {
		if (timeout > 0) {
			left_ns = deadline_ns - rs_now_ns();
			left_ms = left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
		}
		ready = repoll_once(&wait, events, maxevents, left_ms);
	} while (!ready && left_ms);
	lock_acquire(&repoll_lock);
	repoll_put(wait.set);
	lock_release(&repoll_lock);
	free(wait.fds);
	return ready;
}
