/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll over twins. The kernel's epoll cannot watch an rsocket, so twins in an epoll set are kept
 * here, beside the kernel's set: epoll_wait() polls them and the epoll descriptor itself, then
 * takes what the kernel has.
 *
 * EPOLLET: EPOLLOUT is reported once, and again after a send that found no room. EPOLLIN is
 * reported as long as there is data; programs must expect repeated edges anyway. A set with twins
 * cannot be watched by another set, or by poll().
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "rspreload/rspreload.h"

struct member {
	struct list node;
	int fd;
	struct twin *twin;		/* a reference */
	struct epoll_event event;
	bool reported;			/* EPOLLONESHOT: until modified */
};

struct set {
	struct list node;
	int epfd;
	int kick;			/* in the kernel's set: wakes those that wait already */
	struct list members;
	unsigned count;
};

static struct lock sets_lock = LOCK_INITIALIZER;
static struct list sets GUARDED_BY(sets_lock) = { &sets, &sets };
/* Changed under sets_lock, read without: usually 0, and then no lock is taken. */
static _Atomic unsigned set_count;

/* In the child of a fork(): another thread of the parent may have held it. */
void epoll_after_fork(void)
{
	lock_init(&sets_lock);
}

static struct set *find_set(int epfd) REQUIRES(sets_lock)
{
	struct list *node;

	list_for_each(node, &sets)
		if (list_entry(node, struct set, node)->epfd == epfd)
			return list_entry(node, struct set, node);
	return NULL;
}

static struct member *find_member(struct set *set, int fd)
{
	struct list *node;

	list_for_each(node, &set->members)
		if (list_entry(node, struct member, node)->fd == fd)
			return list_entry(node, struct member, node);
	return NULL;
}

static struct set *make_set(int epfd) REQUIRES(sets_lock)
{
	struct set *set = calloc(1, sizeof(*set));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = set };

	if (!set)
		return NULL;
	set->epfd = epfd;
	set->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (set->kick < 0 || REAL(epoll_ctl)(epfd, EPOLL_CTL_ADD, set->kick, &event)) {
		if (set->kick >= 0)
			REAL(close)(set->kick);
		free(set);
		return NULL;
	}
	list_init(&set->members);
	list_add_tail(&sets, &set->node);
	set_count++;
	return set;
}

/* The reference to the twin is the caller's to give back, without the lock. */
static struct twin *remove_member(struct set *set, struct member *member)
{
	struct twin *twin = member->twin;

	list_remove(&member->node);
	set->count--;
	free(member);
	return twin;
}

/* 0 or errno. Takes the reference to @twin when it returns 0 for ADD; *old is to be put. */
static int control_locked(int epfd, int op, int fd, struct twin *twin,
			  const struct epoll_event *event, struct twin **old) REQUIRES(sets_lock)
{
	struct set *set = find_set(epfd);
	struct member *member;

	if (!set && op == EPOLL_CTL_ADD)
		set = make_set(epfd);
	if (!set)
		return op == EPOLL_CTL_ADD ? EBADF : ENOENT;
	member = find_member(set, fd);
	if (op == EPOLL_CTL_ADD) {
		if (member)
			return EEXIST;
		eventfd_write(set->kick, 1);
		member = calloc(1, sizeof(*member));
		if (!member)
			return ENOMEM;
		*member = (struct member){ .fd = fd, .twin = twin, .event = *event };
		list_add_tail(&set->members, &member->node);
		set->count++;
		return 0;
	}
	if (!member)
		return ENOENT;
	if (op == EPOLL_CTL_DEL) {
		*old = remove_member(set, member);
		return 0;
	}
	member->event = *event;
	member->reported = false;
	twin->out_reported = false;
	eventfd_write(set->kick, 1);
	return 0;
}

/* A set is the kernel's, and gets its list of twins with the first of them. */
int epoll_create1(int flags)
{
	return REAL(epoll_create1)(flags);
}

int epoll_create(int size)
{
	return REAL(epoll_create)(size);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct twin *twin = twin_get(fd), *old = NULL;
	bool kernel;
	int err;

	/* A kernel socket now may have been added when it was more. */
	if (!twin || (twin->mode == TWIN_KERNEL && op == EPOLL_CTL_ADD)) {
		if (twin)
			twin_put(twin);
		return REAL(epoll_ctl)(epfd, op, fd, event);
	}
	lock_acquire(&sets_lock);
	err = control_locked(epfd, op, fd, twin, event, &old);
	lock_release(&sets_lock);
	if (old)
		twin_put(old);
	kernel = twin->mode == TWIN_KERNEL;
	if (err || op != EPOLL_CTL_ADD)
		twin_put(twin);
	if (err == ENOENT && kernel)
		return REAL(epoll_ctl)(epfd, op, fd, event);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* Its descriptors go when the program closes them; the kernel's set goes by itself. */
void epoll_forget(int fd)
{
	struct list *node, *following;
	struct twin *twin = NULL;
	struct set *gone = NULL;
	struct member *member;

	if (!atomic_load_explicit(&set_count, memory_order_relaxed))
		return;
	lock_acquire(&sets_lock);
	list_for_each_safe(node, following, &sets) {
		struct set *set = list_entry(node, struct set, node);

		if (set->epfd == fd) {
			list_remove(node);
			set_count--;
			gone = set;
		} else if ((member = find_member(set, fd))) {
			twin = remove_member(set, member);
			twin_put(twin);		/* not the last: the descriptor holds one */
		}
	}
	lock_release(&sets_lock);
	if (!gone)
		return;
	while ((node = list_pop(&gone->members))) {
		twin_put(list_entry(node, struct member, node)->twin);
		free(list_entry(node, struct member, node));
	}
	REAL(close)(gone->kick);
	free(gone);
}

/* ---- waiting ---- */

static short poll_events(const struct member *member)
{
	uint32_t events = member->event.events & (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP |
						  EPOLLRDNORM | EPOLLWRNORM);

	if (member->reported)
		return -1;			/* not watched */
	if (member->event.events & EPOLLET &&
	    __atomic_load_n(&member->twin->out_reported, __ATOMIC_RELAXED))
		events &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM);
	return (short)events;			/* poll() and epoll have the same numbers */
}

/* The members as poll() wants them, behind the epoll descriptor. NULL: no memory. */
static struct pollfd *list_members(int epfd, nfds_t *count)
{
	struct pollfd *fds = NULL;
	struct list *node;
	struct set *set;

	*count = 0;
	lock_acquire(&sets_lock);
	set = find_set(epfd);
	fds = reallocarray(NULL, set ? set->count + 1 : 1, sizeof(*fds));
	if (fds)
		fds[(*count)++] = (struct pollfd){ .fd = epfd, .events = POLLIN };
	if (fds && set)
		list_for_each(node, &set->members) {
			struct member *member = list_entry(node, struct member, node);
			short events = poll_events(member);

			if (events >= 0 && twin_is_at(member->twin, member->fd))
				fds[(*count)++] = (struct pollfd){ .fd = member->fd,
								   .events = events };
		}
	lock_release(&sets_lock);
	return fds;
}

/* What is ready of the members. Returns how many were put into @events. */
static int report_members(int epfd, const struct pollfd *fds, nfds_t count,
			  struct epoll_event *events, int most)
{
	struct member *member;
	struct set *set;
	int ready = 0;

	lock_acquire(&sets_lock);
	set = find_set(epfd);
	for (nfds_t i = 1; set && i < count && ready < most; i++) {
		if (!fds[i].revents)
			continue;
		member = find_member(set, fds[i].fd);
		if (!member || member->reported)
			continue;
		events[ready].events = (uint32_t)(unsigned short)fds[i].revents;
		events[ready++].data = member->event.data;
		member->reported = member->event.events & EPOLLONESHOT;
		if (fds[i].revents & POLLOUT)
			__atomic_store_n(&member->twin->out_reported, true, __ATOMIC_RELAXED);
	}
	lock_release(&sets_lock);
	return ready;
}

/* What the kernel has, without the kick. */
static int report_kernel(int epfd, struct epoll_event *events, int most)
{
	int count = most > 0 ? REAL(epoll_wait)(epfd, events, most, 0) : 0, kept = 0;
	struct set *set;

	lock_acquire(&sets_lock);
	set = find_set(epfd);
	for (int i = 0; i < count; i++) {
		if (set && events[i].data.ptr == set) {
			eventfd_t value;

			eventfd_read(set->kick, &value);
		} else {
			events[kept++] = events[i];
		}
	}
	lock_release(&sets_lock);
	return count < 0 ? count : kept;
}

static int preload_epoll_wait_once(int epfd, struct epoll_event *events, int most,
				   int64_t deadline_ns)
{
	nfds_t count;
	struct pollfd *fds __attribute__((cleanup(poll_free))) = list_members(epfd, &count);
	int ready, kernel;

	if (!fds)
		return -1;
	ready = poll_until(fds, count, deadline_ns);
	if (ready > 0) {
		ready = report_members(epfd, fds, count, events, most);
		if (fds[0].revents) {
			kernel = report_kernel(epfd, events + ready, most - ready);
			ready += kernel > 0 ? kernel : 0;
		}
	}
	return ready;
}

static bool has_members(int epfd)
{
	struct set *set;
	bool found;

	if (inside || !atomic_load_explicit(&set_count, memory_order_relaxed))
		return false;
	lock_acquire(&sets_lock);
	set = find_set(epfd);
	found = set != NULL;
	lock_release(&sets_lock);
	return found;
}

static int preload_epoll_wait_for(int epfd, struct epoll_event *events, int most, int timeout_ms,
				  const sigset_t *mask)
{
	int64_t deadline_ns = poll_deadline_ns(timeout_ms);
	int ready = 0;
	sigset_t old;

	if (most <= 0) {
		errno = EINVAL;
		return -1;
	}
	pthread_sigmask(SIG_SETMASK, mask, &old);
	pthread_cleanup_push(poll_unmask, &old);
	do
		ready = preload_epoll_wait_once(epfd, events, most, deadline_ns);
	while (!ready && poll_left_ms(deadline_ns));
	pthread_cleanup_pop(1);
	return ready;
}

int epoll_pwait(int epfd, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
	int64_t deadline_ns;
	int count, kept = 0;
	struct set *set;

	if (inside)
		return REAL(epoll_pwait)(epfd, events, most, timeout, mask);
	if (has_members(epfd))
		return preload_epoll_wait_for(epfd, events, most, timeout, mask);
	/* A wait on the kernel's set alone, which may find that it is no longer alone. */
	deadline_ns = poll_deadline_ns(timeout);
	count = REAL(epoll_pwait)(epfd, events, most, timeout, mask);
	if (count <= 0 || !has_members(epfd))
		return count;
	lock_acquire(&sets_lock);
	set = find_set(epfd);
	for (int i = 0; i < count; i++)
		if (!set || events[i].data.ptr != set)
			events[kept++] = events[i];
	lock_release(&sets_lock);
	return kept ? kept
		    : preload_epoll_wait_for(epfd, events, most, poll_left_ms(deadline_ns), mask);
}

int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
	return epoll_pwait(epfd, events, most, timeout, NULL);
}

int epoll_pwait2(int epfd, struct epoll_event *events, int most, const struct timespec *timeout,
		 const sigset_t *mask)
{
	int timeout_ms = -1;

	if (timeout)
		timeout_ms = timeout->tv_sec >= INT_MAX / 1000 ? INT_MAX :
			(int)(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000);
	return epoll_pwait(epfd, events, most, timeout_ms, mask);
}
