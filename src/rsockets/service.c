/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that looks at sockets while the application does other things: those of datagrams, whose
 * peers ask for them, and streams whose owner wants signals. It is started with the first of them in
 * the process, and sleeps between events. All signals are blocked in it: handlers run elsewhere.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rsockets/rsocket.h"

static struct lock service_lock = LOCK_INITIALIZER;
static int service_fd = -1;
static bool service_is_inherited GUARDED_BY(service_lock);	/* its thread is the parent's */
static rs_serve *servers[RS_SERVE_KINDS];

static void *service_run(void *argument)
{
	int fd = (int)(intptr_t)argument, count;
	struct epoll_event events[16];

	tsan_enter();
	for (;;) {
		count = epoll_wait(fd, events, 16, -1);
		for (int i = 0; i < count; i++)
			servers[events[i].data.u64 >> 32]((int)(uint32_t)events[i].data.u64);
	}
	return NULL;
}

static int start_thread(int fd)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, service_run, (void *)(intptr_t)fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

/* In the child of a fork(): another thread of the parent may have held it. */
void rs_service_after_fork(void)
{
	lock_init(&service_lock);
	service_is_inherited = true;
}

/* The child of a fork() has no thread, and starts its own. */
int rs_service_start(enum rs_serve_kind kind, rs_serve *serve)
{
	int err = 0;

	lock_acquire(&service_lock);
	servers[kind] = serve;
	if (service_fd >= 0 && service_is_inherited) {
		close(service_fd);
		service_fd = -1;
	}
	service_is_inherited = false;
	if (service_fd < 0) {
		service_fd = epoll_create1(EPOLL_CLOEXEC);
		err = service_fd < 0 ? errno : start_thread(service_fd);
		if (err && service_fd >= 0) {
			close(service_fd);
			service_fd = -1;
		}
	}
	lock_release(&service_lock);
	return err;
}

int rs_service_watch(enum rs_serve_kind kind, int fd, int socket)
{
	struct epoll_event event = { .events = EPOLLIN,
				     .data.u64 = (uint64_t)kind << 32 | (uint32_t)socket };

	return epoll_ctl(service_fd, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST ? errno : 0;
}

void rs_service_forget(int fd)
{
	int saved = errno;

	epoll_ctl(service_fd, EPOLL_CTL_DEL, fd, NULL);
	errno = saved;
}
