/* SPDX-License-Identifier: BSD-2-Clause */
/* repoll_*: epoll over rsockets and other descriptors (rdma-core 65; our header may be older). */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

#include "pair.h"

extern int repoll_create(int flags);
extern int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
extern int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

#define PATIENCE_MS 40000

static void watch(int set, int op, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	OK(repoll_ctl(set, op, fd, &event));
}

/* One event is there, of @fd. */
static uint32_t expect_one(int set, int fd, int timeout_ms)
{
	struct epoll_event events[4];
	int ready = repoll_wait(set, events, 4, timeout_ms);

	CHECK(ready == 1, "%d events (%m)", ready);
	CHECK(events[0].data.fd == fd, "of %d", events[0].data.fd);
	return events[0].events;
}

static void expect_none(int set)
{
	struct epoll_event event;

	CHECK(repoll_wait(set, &event, 1, 0) == 0, "0x%x", event.events);
}

static void echo_server(struct pair *pair)
{
	int listener = open_listener(pair, NULL), set = repoll_create(EPOLL_CLOEXEC), rs, got;
	char data[64];

	OK(set);
	watch(set, EPOLL_CTL_ADD, listener, EPOLLIN);
	CHECK(expect_one(set, listener, PATIENCE_MS) == EPOLLIN, "the listener");
	rs = raccept(listener, NULL, NULL);
	OK(rs);
	watch(set, EPOLL_CTL_ADD, rs, EPOLLIN);
	for (int i = 0; i < 100; i++) {
		expect_one(set, rs, PATIENCE_MS);
		got = (int)rrecv(rs, data, sizeof(data), 0);
		CHECK(got == 5, "%d bytes", got);
		CHECK(rsend(rs, data, 5, 0) == 5, "%m");
	}
	CHECK(expect_one(set, rs, PATIENCE_MS) & EPOLLIN, "the end of it");
	CHECK(rrecv(rs, data, sizeof(data), 0) == 0, "no end of file");
	OK(rclose(rs));
	expect_none(set);		/* it was taken out */
	OK(rclose(set));
	OK(rclose(listener));
}

static void echo_client(struct pair *pair)
{
	int rs = connect_to(pair, NULL), set = repoll_create(0), ends[2];
	struct epoll_event events[4];
	char data[64];

	OK(set);
	CHECK(!pipe(ends), "%m");
	watch(set, EPOLL_CTL_ADD, ends[0], EPOLLIN);
	watch(set, EPOLL_CTL_ADD, rs, EPOLLOUT);
	CHECK(expect_one(set, rs, PATIENCE_MS) == EPOLLOUT, "not writable");
	expect_one(set, rs, 0);		/* as long as it lasts */
	watch(set, EPOLL_CTL_MOD, rs, EPOLLIN);
	expect_none(set);
	for (int i = 0; i < 100; i++) {
		CHECK(rsend(rs, "hello", 5, 0) == 5, "%m");
		CHECK(expect_one(set, rs, PATIENCE_MS) == EPOLLIN, "not readable");
		CHECK(rrecv(rs, data, sizeof(data), 0) == 5 && !memcmp(data, "hello", 5), "other data");
	}
	/* Both kinds of descriptors, each in its turn. */
	watch(set, EPOLL_CTL_MOD, rs, EPOLLOUT);
	CHECK(write(ends[1], "x", 1) == 1, "%m");
	CHECK(repoll_wait(set, events, 4, PATIENCE_MS) == 2, "%m");
	for (int i = 0, seen = 0; i < 2; i++) {
		CHECK(repoll_wait(set, events, 1, PATIENCE_MS) == 1, "%m");
		CHECK(!i || events[0].data.fd != seen, "twice the same");
		seen = events[0].data.fd;
	}
	watch(set, EPOLL_CTL_DEL, ends[0], 0);
	expect_one(set, rs, 0);
	/* Once, and again after a change. */
	watch(set, EPOLL_CTL_MOD, rs, EPOLLOUT | EPOLLONESHOT);
	expect_one(set, rs, 0);
	expect_none(set);
	watch(set, EPOLL_CTL_MOD, rs, EPOLLOUT | EPOLLONESHOT);
	expect_one(set, rs, 0);
	OK(rclose(rs));
	OK(rclose(set));
}

static void *adds_later(void *argument)
{
	int *fds = argument;

	usleep(20000);			/* it may sleep already: either way has to do */
	watch(fds[0], EPOLL_CTL_ADD, fds[1], EPOLLOUT);
	return NULL;
}

static void woken_server(struct pair *pair)
{
	int listener = open_listener(pair, NULL), rs = raccept(listener, NULL, NULL);

	OK(rs);
	hear(pair);
	OK(rclose(rs));
	OK(rclose(listener));
}

/* A thread that waits sees what others add. */
static void woken_client(struct pair *pair)
{
	int fds[2] = { repoll_create(0), connect_to(pair, NULL) };
	pthread_t thread;

	OK(fds[0]);
	CHECK(!pthread_create(&thread, NULL, adds_later, fds), "%m");
	CHECK(expect_one(fds[0], fds[1], PATIENCE_MS) == EPOLLOUT, "not writable");
	pthread_join(thread, NULL);
	OK(rclose(fds[1]));
	OK(rclose(fds[0]));
	tell(pair, 1);
}

static void mistakes_server(struct pair *pair)
{
	struct epoll_event event = { .events = EPOLLIN };
	int rs = rsocket(AF_INET, SOCK_STREAM, 0), set = repoll_create(0), other = repoll_create(0);

	FAILS(repoll_create(1), EINVAL);
	FAILS(repoll_ctl(set, EPOLL_CTL_MOD, rs, &event), ENOENT);
	FAILS(repoll_ctl(set, EPOLL_CTL_DEL, rs, &event), ENOENT);
	OK(repoll_ctl(set, EPOLL_CTL_ADD, rs, &event));
	FAILS(repoll_ctl(set, EPOLL_CTL_ADD, rs, &event), EEXIST);
	FAILS(repoll_ctl(set, 77, rs, &event), EINVAL);
	FAILS(repoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
	FAILS(repoll_ctl(set, EPOLL_CTL_ADD, other, &event), EINVAL);
	FAILS(repoll_ctl(set, EPOLL_CTL_MOD, rs, NULL), EFAULT);
	FAILS(repoll_ctl(set, EPOLL_CTL_ADD, 1 << 20, &event), EBADF);
	FAILS(repoll_ctl(rs, EPOLL_CTL_ADD, 0, &event), EINVAL);
	FAILS(repoll_wait(set, &event, 0, 0), EINVAL);
	FAILS(repoll_wait(set, NULL, 1, 0), EFAULT);
	FAILS(repoll_wait(1 << 20, &event, 1, 0), EBADF);
	OK(rclose(set));
	FAILS(repoll_wait(set, &event, 1, 0), EBADF);
	OK(rclose(other));
	OK(rclose(rs));
}

static void mistakes_client(struct pair *pair)
{
}

const struct test repoll_tests[] = {
	{ "repoll: rsockets and other descriptors, as long as they are ready", echo_server, echo_client },
	{ "repoll: a thread that waits sees what is added", woken_server, woken_client },
	{ "repoll: mistakes are refused as by epoll", mistakes_server, mistakes_client },
	{ 0 }
};
