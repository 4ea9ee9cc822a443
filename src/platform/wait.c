/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping and being woken: epoll with a doorbell, and event fds. The timeouts are
 * in nanoseconds where the kernel has epoll_pwait2 (5.11); elsewhere, and in sandboxes that do
 * not know it, they are rounded up to milliseconds.
 */
#include "platform/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/call.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define EVENTS_MAX 16
#define NS_PER_S 1000000000u

static const struct waiter closed_waiter = { .epoll_fd = -1, .doorbell_fd = -1, .nap_fd = -1,
					     .signal_fd = -1 };

int waiter_open(struct waiter *waiter)
{
	int epoll_fd, doorbell_fd, nap_fd, err;

	epoll_fd = fail_now(FAIL_EPOLL) ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return errno;
	doorbell_fd = fail_now(FAIL_EVENTFD) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (doorbell_fd < 0) {
		err = errno;
		goto close_epoll;
	}
	nap_fd = fail_now(FAIL_EVENTFD) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (nap_fd < 0) {
		err = errno;
		goto close_doorbell;
	}
	*waiter = (struct waiter){ .epoll_fd = epoll_fd, .doorbell_fd = doorbell_fd,
				   .nap_fd = nap_fd, .signal_fd = -1 };
	err = waiter_add(waiter, doorbell_fd, WAIT_DOORBELL);
	if (!err)
		return 0;
	close(nap_fd);
close_doorbell:
	close(doorbell_fd);
close_epoll:
	close(epoll_fd);
	*waiter = closed_waiter;
	return err;
}

void waiter_close(struct waiter *waiter)
{
	close(waiter->epoll_fd);
	close(waiter->doorbell_fd);
	close(waiter->nap_fd);
	if (waiter->signal_fd >= 0)
		close(waiter->signal_fd);
	*waiter = closed_waiter;
}

int waiter_add(struct waiter *waiter, int fd, uint32_t tag)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = tag };

	if (fail_now(FAIL_EPOLL_ADD) || epoll_ctl(waiter->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return errno;
	return 0;
}

void waiter_remove(struct waiter *waiter, int fd)
{
	epoll_ctl(waiter->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void waiter_ring(struct waiter *waiter)
{
	event_fd_raise(waiter->doorbell_fd);
}

void waiter_wake_nap(struct waiter *waiter)
{
	event_fd_raise(waiter->nap_fd);
}

static void wait_silence(int fd)
{
	uint64_t rings;
	ssize_t got;

	call_shield();
	do
		got = read(fd, &rings, sizeof(rings));
	while (got < 0 && errno == EINTR);
}

static int wait_milliseconds(uint64_t timeout_ns)
{
	uint64_t ms = timeout_ns / 1000000u + (timeout_ns % 1000000u != 0);

	if (timeout_ns == UINT64_MAX)
		return -1;
	return ms > 3600000u ? 3600000 : (int)ms;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

/* Number of events; -1 with errno. */
static int wait_events(int epoll_fd, struct epoll_event *events, uint64_t timeout_ns)
{
	static _Atomic bool coarse;	/* no epoll_pwait2 here */

	if (fail_now(FAIL_EPOLL_WAIT))
		return -1;
#ifdef SYS_epoll_pwait2
	if (timeout_ns && timeout_ns != UINT64_MAX &&
	    !atomic_load_explicit(&coarse, memory_order_relaxed)) {
		struct timespec timeout = to_timespec(timeout_ns);
		long n = syscall(SYS_epoll_pwait2, epoll_fd, events, EVENTS_MAX, &timeout, NULL, 0);

		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return (int)n;
		atomic_store_explicit(&coarse, true, memory_order_relaxed);
	}
#endif
	return epoll_wait(epoll_fd, events, EVENTS_MAX, wait_milliseconds(timeout_ns));
}

uint32_t waiter_wait(struct waiter *waiter, uint64_t timeout_ns)
{
	struct epoll_event events[EVENTS_MAX];
	uint32_t ready = 0;
	int i, count = wait_events(waiter->epoll_fd, events, timeout_ns);

	/* A failure looks like a wake-up for nothing: the caller looks around and sleeps again. */
	for (i = 0; i < count; i++)
		ready |= events[i].data.u32;
	if (ready & WAIT_DOORBELL)
		wait_silence(waiter->doorbell_fd);
	return ready;
}

bool waiter_idle_wait(struct waiter *waiter, bool doorbell, uint64_t timeout_ns)
{
	struct pollfd rung[2] = { { .fd = waiter->nap_fd, .events = POLLIN },
				  { .fd = waiter->doorbell_fd, .events = POLLIN } };
	struct timespec timeout = to_timespec(timeout_ns);

	if (ppoll(rung, doorbell ? 2 : 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
		return false;
	wait_silence(waiter->nap_fd);
	if (doorbell)
		wait_silence(waiter->doorbell_fd);
	return true;
}

int event_fd_open(void)
{
	return fail_now(FAIL_EVENTFD) ? -1 : eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
}

int event_fd_open_level(void)
{
	return fail_now(FAIL_EVENTFD) ? -1 : eventfd(0, EFD_CLOEXEC);
}

void event_fd_raise(int fd)
{
	uint64_t one = 1;
	ssize_t put;

	call_shield();
	do
		put = write(fd, &one, sizeof(one));
	while (put < 0 && errno == EINTR);
}

int event_fd_take(int fd)
{
	uint64_t value;

	ssize_t got;

	call_bare();
	got = read(fd, &value, sizeof(value));
	call_cover();
	return got < 0 ? errno : 0;
}

int event_fd_take_now(int fd)
{
	uint64_t value;
	struct iovec iov = { .iov_base = &value, .iov_len = sizeof(value) };

	return fail_now(FAIL_NOWAIT) || preadv2(fd, &iov, 1, -1, RWF_NOWAIT) < 0 ? errno : 0;
}

/*
 * The event is taken inside the call, where no handler can leave with it. So sleeping and reading are two
 * steps. Where a read cannot be made non-blocking, it follows a sleep that found the descriptor readable; if
 * another thread was faster, handlers wait for the next event.
 */
int event_fd_wait(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	bool may_block;
	int err, count, flags;

	flags = call_guarded ? fcntl(fd, F_GETFL) : -1;
	if (flags < 0 || flags & O_NONBLOCK)
		return event_fd_take(fd);
	err = event_fd_take_now(fd);
	may_block = err == EOPNOTSUPP || err == ENOSYS || err == EINVAL;
	if (err != EAGAIN && !may_block)
		return err;
	count = call_poll(&readable, 1, -1);
	if (count < 0 && errno != EINTR)
		return errno;
	if (count > 0 && may_block && !call_is_owed())
		return event_fd_take(fd);
	return call_pause() ? EINTR : ERESTART;
}

void thread_yield(void)
{
	sched_yield();
}

void thread_sleep_ns(uint64_t ns)
{
	struct timespec duration = to_timespec(ns);

	call_shield();
	nanosleep(&duration, NULL);
}
