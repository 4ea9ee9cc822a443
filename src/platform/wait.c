/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping and waking: the worker's epoll set, event fds, the worker thread. Timeouts are in
 * nanoseconds where the kernel has epoll_pwait2 (5.11), else rounded up to milliseconds.
 */
#include "platform/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX	16
#define STACK_BYTES	(256u * 1024u)
#define SLICE_NS	100000u

int waiter_open(struct waiter *waiter)
{
	int err;

	waiter->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waiter->doorbell_fd < 0)
		return errno;
	waiter->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (waiter->epoll_fd < 0) {
		err = errno;
		goto close_doorbell;
	}
	err = waiter_add(waiter, waiter->doorbell_fd, WAIT_DOORBELL);
	if (err)
		goto close_epoll;
	return 0;
close_epoll:
	close(waiter->epoll_fd);
close_doorbell:
	close(waiter->doorbell_fd);
	waiter->epoll_fd = waiter->doorbell_fd = -1;
	return err;
}

void waiter_close(struct waiter *waiter)
{
	close(waiter->epoll_fd);
	close(waiter->doorbell_fd);
	waiter->epoll_fd = waiter->doorbell_fd = -1;
}

int waiter_add(struct waiter *waiter, int fd, uint32_t tag)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = tag };

	return epoll_ctl(waiter->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

void waiter_remove(struct waiter *waiter, int fd)
{
	epoll_ctl(waiter->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void waiter_ring(struct waiter *waiter)
{
	uint64_t one = 1;
	ssize_t written = write(waiter->doorbell_fd, &one, sizeof(one));

	(void)written;	/* fails only when it is ringing already */
}

static bool silence(struct waiter *waiter)
{
	uint64_t count;

	return read(waiter->doorbell_fd, &count, sizeof(count)) == sizeof(count);
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

static int wait_events(struct waiter *waiter, struct epoll_event *events, uint64_t timeout_ns)
{
	struct timespec timeout = to_timespec(timeout_ns);
	int n;

	if (timeout_ns == UINT64_MAX)
		return epoll_wait(waiter->epoll_fd, events, EVENTS_MAX, -1);
	if (timeout_ns == 0)
		return epoll_wait(waiter->epoll_fd, events, EVENTS_MAX, 0);
	n = epoll_pwait2(waiter->epoll_fd, events, EVENTS_MAX, &timeout, NULL);
	if (n >= 0 || errno == EINTR)
		return n;
	if (timeout_ns > 3600ull * 1000000000u)
		timeout_ns = 3600ull * 1000000000u;
	return epoll_wait(waiter->epoll_fd, events, EVENTS_MAX, (int)((timeout_ns + 999999) / 1000000));
}

uint32_t waiter_wait(struct waiter *waiter, uint64_t timeout_ns)
{
	struct epoll_event events[EVENTS_MAX];
	uint32_t tags = 0;
	int i, n = wait_events(waiter, events, timeout_ns);

	for (i = 0; i < n; i++)
		tags |= events[i].data.u32;
	if (tags & WAIT_DOORBELL)
		silence(waiter);
	return tags;
}

bool waiter_nap(struct waiter *waiter, uint64_t timeout_ns)
{
	struct pollfd doorbell = { .fd = waiter->doorbell_fd, .events = POLLIN };
	struct timespec timeout = to_timespec(timeout_ns);

	return ppoll(&doorbell, 1, &timeout, NULL) == 1 && silence(waiter);
}

int event_fd_open(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
}

void event_fd_raise(int fd)
{
	uint64_t one = 1;
	ssize_t written = write(fd, &one, sizeof(one));

	(void)written;
}

int event_fd_take(int fd)
{
	uint64_t count;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? 0 : errno;
}

/* ---- threads ---- */

struct worker_thread {
	pthread_t thread;
	void (*run)(void *);
	void *argument;
};

/* struct sched_attr of sched_setattr(2), which glibc 2.36 does not have. */
struct slice_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * A short slice of the normal policy: the scheduler then lets the thread run sooner after a
 * wake-up (kernel 6.12 and later; others ignore or refuse it, no harm). Nice is kept as it is.
 */
static void ask_for_short_slice(void)
{
	struct slice_attr attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = SLICE_NS };

	attr.nice = getpriority(PRIO_PROCESS, 0);
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *thread_main(void *argument)
{
	struct worker_thread *thread = argument;

	ask_for_short_slice();
	thread->run(thread->argument);
	return NULL;
}

int worker_thread_start(struct worker_thread **started, const char *name, void (*run)(void *),
			void *argument)
{
	struct worker_thread *thread = malloc(sizeof(*thread));
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	if (!thread)
		return ENOMEM;
	thread->run = run;
	thread->argument = argument;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* Faults in application memory are raised on this thread too: they must stay deliverable. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread->thread, &attr, thread_main, thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err) {
		free(thread);
		return err;
	}
	pthread_setname_np(thread->thread, name);
	*started = thread;
	return 0;
}

void worker_thread_join(struct worker_thread *thread)
{
	pthread_join(thread->thread, NULL);
	free(thread);
}

void thread_yield(void)
{
	sched_yield();
}

void thread_sleep_ns(uint64_t ns)
{
	struct timespec time = to_timespec(ns);

	nanosleep(&time, NULL);
}
