/* SPDX-License-Identifier: BSD-2-Clause */
/* Data of streams: every byte, once, in order, however it is sent, received and waited for. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "pair.h"

enum { MIB = 1 << 20 };

/* Lengths of calls: mostly short, sometimes longer than any buffer. */
static size_t some_length(unsigned *random, size_t most)
{
	size_t scale = (size_t)1 << rand_r(random) % 19;
	size_t length = 1 + (size_t)rand_r(random) % scale;

	return length < most ? length : most;
}

struct flow {
	int rs;
	uint32_t seed;
	size_t total;
	unsigned random;
};

static void *send_flow(void *argument)
{
	struct flow *flow = argument;

	for (size_t done = 0; done < flow->total;) {
		size_t n = some_length(&flow->random, flow->total - done);

		send_all(flow->rs, flow->seed, done, n, 0);
		done += n;
	}
	return NULL;
}

static void *receive_flow(void *argument)
{
	struct flow *flow = argument;

	for (size_t done = 0; done < flow->total;) {
		size_t n = some_length(&flow->random, flow->total - done);

		receive_all(flow->rs, flow->seed, done, n,
			    rand_r(&flow->random) % 2 ? MSG_WAITALL : 0);
		done += n;
	}
	return NULL;
}

/* Both ways at once, a thread for each. */
static void exchange(struct pair *pair, void (*prepare)(int rs), size_t total)
{
	int rs = meet(pair, prepare);
	struct flow out = { rs, pair->server ? 1 : 2, total, 11 };
	struct flow in = { rs, pair->server ? 2 : 1, total, 12 };
	pthread_t sender, receiver;

	CHECK(!pthread_create(&sender, NULL, send_flow, &out), "no thread");
	CHECK(!pthread_create(&receiver, NULL, receive_flow, &in), "no thread");
	pthread_join(sender, NULL);
	pthread_join(receiver, NULL);
	OK(rshutdown(rs, SHUT_WR));
	expect_end(rs);
	OK(rclose(rs));
}

static void both_ways(struct pair *pair)
{
	exchange(pair, NULL, 24 * MIB);
}

static void set_number(int rs, int level, int option, int value)
{
	OK(rsetsockopt(rs, level, option, &value, sizeof(value)));
}

static void make_small(int rs)
{
	set_number(rs, SOL_SOCKET, SO_RCVBUF, 5000);
	set_number(rs, SOL_SOCKET, SO_SNDBUF, 7001);
	set_number(rs, SOL_RDMA, RDMA_SQSIZE, 16);
	set_number(rs, SOL_RDMA, RDMA_RQSIZE, 17);
	set_number(rs, SOL_RDMA, RDMA_INLINE, 40);
}

static void small_buffers(struct pair *pair)
{
	exchange(pair, make_small, 4 * MIB);
}

/* Many short messages fill the queue of receives long before the ring. */
static void short_messages(struct pair *pair)
{
	int rs = meet(pair, make_small);

	for (int i = 0; i < 20000; i++) {
		if (!pair->server)
			send_all(rs, 3, (uint64_t)i, 1, 0);
		else if (i % 500 == 0)
			receive_all(rs, 3, (uint64_t)i, 500, 0);
	}
	tell(pair, 0);
	hear(pair);
	OK(rclose(rs));
}

static void ping_pong(struct pair *pair)
{
	int rs = meet(pair, NULL);

	for (unsigned i = 0; i < 3000; i++) {
		size_t n = 1 + i % 700;

		if (!pair->server)
			send_all(rs, 4, i, n, 0);
		receive_all(rs, 4, i, n, MSG_WAITALL);
		if (pair->server)
			send_all(rs, 4, i, n, 0);
	}
	OK(rclose(rs));
}

/* ---- one thread, non-blocking, rpoll ---- */

struct position {
	uint64_t sent, received;
};

static void take_what_is_there(int rs, uint32_t seed, struct position *at, size_t total)
{
	char data[10000];
	ssize_t n = rrecv(rs, data, sizeof(data), 0);

	CHECK(n > 0, "ready to read, but %zd: %m", n);
	check_fill(seed, at->received, data, (size_t)n);
	at->received += (uint64_t)n;
	CHECK(at->received <= total, "more than was sent");
}

static void give_what_fits(int rs, uint32_t seed, struct position *at, size_t total)
{
	char data[30000];
	size_t left = total - at->sent < sizeof(data) ? total - at->sent : sizeof(data);
	ssize_t n;

	fill(seed, at->sent, data, left);
	n = rsend(rs, data, left, 0);
	CHECK(n > 0, "ready to write, but %zd: %m", n);
	at->sent += (uint64_t)n;
}

static void non_blocking(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct position at = { 0, 0 };
	size_t total = 8 * MIB;
	char byte;

	OK(rfcntl(rs, F_SETFL, O_NONBLOCK));
	CHECK(rfcntl(rs, F_GETFL) & O_NONBLOCK, "not set");
	tell(pair, 0);
	hear(pair);
	FAILS(rrecv(rs, &byte, 1, 0), EAGAIN);
	tell(pair, 0);
	hear(pair);
	while (at.sent < total || at.received < total) {
		struct pollfd fds = { .fd = rs };

		fds.events = (short)((at.sent < total ? POLLOUT : 0) |
				     (at.received < total ? POLLIN : 0));
		CHECK(rpoll(&fds, 1, 20000) == 1, "nothing is ready");
		CHECK(!(fds.revents & (POLLERR | POLLNVAL)), "revents 0x%x", fds.revents);
		if (fds.revents & POLLIN)
			take_what_is_there(rs, pair->server, &at, total);
		if (fds.revents & POLLOUT)
			give_what_fits(rs, !pair->server, &at, total);
	}
	tell(pair, 0);
	hear(pair);
	OK(rclose(rs));
}

/* The sender stops when all is full, and goes on when there is room. */
static void full_then_room(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct pollfd fds = { .fd = rs, .events = POLLOUT };
	size_t sent = 0;
	ssize_t n;
	char data[4096];

	if (pair->server) {
		sent = hear(pair);
		receive_all(rs, 5, 0, sent, 0);
		receive_all(rs, 5, sent, 100000, 0);
		OK(rclose(rs));
		return;
	}
	for (;;) {
		fill(5, sent, data, sizeof(data));
		n = rsend(rs, data, sizeof(data), MSG_DONTWAIT);
		if (n < 0)
			break;
		sent += (size_t)n;
		CHECK(sent < 64 * MIB, "no end of room");
	}
	CHECK(errno == EAGAIN, "%m");
	CHECK(rpoll(&fds, 1, 100) == 0, "room to write, but no room");
	tell(pair, (uint32_t)sent);
	CHECK(rpoll(&fds, 1, 10000) == 1 && fds.revents == POLLOUT, "revents 0x%x", fds.revents);
	send_all(rs, 5, sent, 100000, 0);
	OK(rclose(rs));
}

/* ---- the other calls ---- */

static void vectors(struct pair *pair)
{
	int rs = meet(pair, NULL);
	char a[1000], b[70000], c[3];
	struct iovec iov[] = { { a, sizeof(a) }, { NULL, 0 }, { b, sizeof(b) }, { c, sizeof(c) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 4 };
	size_t total = sizeof(a) + sizeof(b) + sizeof(c);

	if (pair->server) {
		receive_all(rs, 6, 0, total, 0);
		receive_all(rs, 6, 0, total, 0);
		send_all(rs, 6, 0, total, 0);
	} else {
		fill(6, 0, a, sizeof(a));
		fill(6, sizeof(a), b, sizeof(b));
		fill(6, sizeof(a) + sizeof(b), c, sizeof(c));
		CHECK(rwritev(rs, iov, 4) == (ssize_t)total, "%m");
		CHECK(rsendmsg(rs, &msg, 0) == (ssize_t)total, "%m");
		memset(a, 0, sizeof(a));
		memset(b, 0, sizeof(b));
		memset(c, 0, sizeof(c));
		CHECK(rrecvmsg(rs, &msg, MSG_WAITALL) == (ssize_t)total, "%m");
		check_fill(6, 0, a, sizeof(a));
		check_fill(6, sizeof(a), b, sizeof(b));
		check_fill(6, sizeof(a) + sizeof(b), c, sizeof(c));
	}
	OK(rclose(rs));
}

static void peek(struct pair *pair)
{
	int rs = meet(pair, NULL);
	char data[100];

	if (!pair->server) {
		send_all(rs, 7, 0, 300000, 0);
		expect_end(rs);
		OK(rclose(rs));
		return;
	}
	for (int i = 0; i < 3; i++) {
		CHECK(rrecv(rs, data, 10, MSG_PEEK) == 10, "%m");
		check_fill(7, 0, data, 10);
	}
	receive_all(rs, 7, 0, 299999, 0);
	CHECK(rrecv(rs, data, sizeof(data), MSG_PEEK) == 1, "%m");
	receive_all(rs, 7, 299999, 1, 0);
	FAILS(rrecv(rs, data, 1, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
	OK(rclose(rs));
}

static void time_outs(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct timeval limit = { .tv_usec = 200000 };
	socklen_t length = sizeof(limit);
	char *data = calloc(1, 64 * MIB);
	double start;
	ssize_t n;

	CHECK(data, "no memory");
	if (pair->server) {
		hear(pair);
		_exit(0);
	}
	OK(rsetsockopt(rs, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	OK(rsetsockopt(rs, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	OK(rgetsockopt(rs, SOL_SOCKET, SO_RCVTIMEO, &limit, &length));
	CHECK(limit.tv_usec == 200000 && !limit.tv_sec, "another value");
	start = now();
	FAILS(rrecv(rs, data, 1, 0), EAGAIN);
	CHECK(now() - start > 0.19 && now() - start < 5, "%f s", now() - start);
	start = now();
	n = rsend(rs, data, 64 * MIB, 0);
	CHECK(n > 0 && n < 64 * MIB, "%zd: %m", n);
	CHECK(now() - start > 0.19 && now() - start < 5, "%f s", now() - start);
	FAILS(rsend(rs, data, 1000, 0), EAGAIN);
	tell(pair, 0);
}

/* Blocked in rrecv() and in rpoll(): nothing runs. */
static void sleeping(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct pollfd fds = { .fd = rs, .events = POLLIN };
	double cpu;
	char byte;

	if (pair->server) {
		usleep(1000000);
		OK(rsend(rs, "a", 1, 0));
		hear(pair);
		usleep(1000000);
		OK(rsend(rs, "b", 1, 0));
		hear(pair);
		OK(rclose(rs));
		return;
	}
	cpu = cpu_seconds();
	CHECK(rrecv(rs, &byte, 1, 0) == 1 && byte == 'a', "%m");
	CHECK(cpu_seconds() - cpu < 0.05, "%f s of CPU in rrecv", cpu_seconds() - cpu);
	tell(pair, 0);
	cpu = cpu_seconds();
	CHECK(rpoll(&fds, 1, -1) == 1, "%m");
	CHECK(cpu_seconds() - cpu < 0.05, "%f s of CPU in rpoll", cpu_seconds() - cpu);
	tell(pair, 0);
	CHECK(rrecv(rs, &byte, 1, 0) == 1 && byte == 'b', "%m");
	expect_end(rs);
	OK(rclose(rs));
}

/* One thread polls, one reads, on one socket: whoever takes an event wakes the other. */
static void *poll_forever(void *argument)
{
	struct pollfd fds = { .fd = *(int *)argument, .events = POLLIN };

	for (;;) {
		if (rpoll(&fds, 1, 1000) < 0 || fds.revents & (POLLHUP | POLLNVAL))
			return NULL;
	}
}

static void poller_and_reader(struct pair *pair)
{
	int rs = meet(pair, NULL);
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, poll_forever, &rs), "no thread");
	for (unsigned i = 0; i < 1000; i++) {
		double start = now();

		if (i % 50 == 0)
			usleep(1000);		/* let the others fall asleep */
		if (!pair->server)
			send_all(rs, 8, i, 1, 0);
		receive_all(rs, 8, i, 1, 0);
		if (pair->server)
			send_all(rs, 8, i, 1, 0);
		CHECK(now() - start < 3, "a wake-up was lost: %f s", now() - start);
	}
	tell(pair, 0);
	hear(pair);
	OK(rclose(rs));
	pthread_join(thread, NULL);
}

/* ---- urgent data: what TCP does ---- */

static void await(int rs, short event)
{
	struct pollfd entry = { .fd = rs, .events = event };

	CHECK(rpoll(&entry, 1, 10000) == 1 && entry.revents & event, "revents 0x%x", entry.revents);
}

static bool is_ready(int rs, short event)
{
	struct pollfd entry = { .fd = rs, .events = event };

	return rpoll(&entry, 1, 0) == 1 && entry.revents & event;
}

static void send_urgent(struct pair *pair)
{
	int rs = meet(pair, NULL);

	CHECK(rsend(rs, "abcU", 4, MSG_OOB) == 4, "%m");	/* the last byte */
	CHECK(rsend(rs, "def", 3, 0) == 3, "%m");
	hear(pair);
	CHECK(rsend(rs, "V", 1, MSG_OOB) == 1, "%m");
	hear(pair);
	CHECK(rsend(rs, "ghW", 3, MSG_OOB) == 3, "%m");
	hear(pair);
	OK(rclose(rs));
}

static void receive_urgent(struct pair *pair)
{
	int rs = meet(pair, NULL), on = 1;
	char bytes[16];

	await(rs, POLLPRI);
	CHECK(rrecv(rs, bytes, 8, MSG_PEEK) == 3 && !memcmp(bytes, "abc", 3), "up to the mark");
	CHECK(rrecv(rs, bytes, 1, MSG_OOB | MSG_PEEK) == 1 && bytes[0] == 'U', "%m");
	CHECK(rrecv(rs, bytes, 1, MSG_OOB) == 1 && bytes[0] == 'U', "%m");
	FAILS(rrecv(rs, bytes, 1, MSG_OOB), EINVAL);
	CHECK(!is_ready(rs, POLLPRI), "it was taken");
	CHECK(rrecv(rs, bytes, 8, MSG_WAITALL) == 3 && !memcmp(bytes, "abc", 3), "up to the mark");
	CHECK(rrecv(rs, bytes, 3, MSG_WAITALL) == 3 && !memcmp(bytes, "def", 3), "and behind it");
	/* An urgent byte alone is nothing to read. */
	tell(pair, 0);
	await(rs, POLLPRI);
	CHECK(!is_ready(rs, POLLIN), "there is no other byte");
	FAILS(rrecv(rs, bytes, 1, MSG_DONTWAIT), EAGAIN);
	FAILS(rrecv(rs, bytes, 1, MSG_OOB), EINVAL);	/* passed, and gone */
	/* A byte like others, with a mark. */
	OK(rsetsockopt(rs, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	tell(pair, 0);
	await(rs, POLLPRI);
	FAILS(rrecv(rs, bytes, 1, MSG_OOB), EINVAL);
	CHECK(rrecv(rs, bytes, 8, 0) == 2 && !memcmp(bytes, "gh", 2), "up to the mark");
	CHECK(rrecv(rs, bytes, 8, 0) == 1 && bytes[0] == 'W', "the byte");
	CHECK(!is_ready(rs, POLLPRI), "it was read");
	tell(pair, 0);
	CHECK(rrecv(rs, bytes, 8, 0) == 0, "the end");
	OK(rclose(rs));
}

/* ---- signals to the owner ---- */

static volatile sig_atomic_t urgent_signals, io_signals;

static void count_signal(int signal)
{
	if (signal == SIGURG)
		urgent_signals++;
	else
		io_signals++;
}

/* Without a call of rsockets: it computes. */
static void await_signals(volatile sig_atomic_t *signals, int least)
{
	double start = now();

	while (*signals < least && now() - start < 10)
		usleep(1000);
	CHECK(*signals >= least, "%d signals", (int)*signals);
}

/* What sockatmark(3) returns of a socket. */
static int at_mark(int rs)
{
	socklen_t length = sizeof(int);
	int answer = -1;

	return rgetsockopt(rs, SOL_RDMA, SIOCATMARK, &answer, &length) ? -1 : answer;
}

static void watch_urgent(struct pair *pair)
{
	int rs = meet(pair, NULL);
	char bytes[8];

	signal(SIGURG, count_signal);
	signal(SIGIO, count_signal);
	CHECK(rfcntl(rs, F_GETOWN) == 0, "it has no owner");
	OK(rfcntl(rs, F_SETOWN, (long)getpid()));
	CHECK(rfcntl(rs, F_GETOWN) == getpid(), "%m");
	tell(pair, 0);
	await_signals(&urgent_signals, 1);
	CHECK(!io_signals, "O_ASYNC is not set");
	CHECK(!at_mark(rs), "abc are in front of it");
	CHECK(rrecv(rs, bytes, 8, 0) == 3, "%m");
	CHECK(at_mark(rs) == 1, "the next is the urgent one");
	CHECK(rrecv(rs, bytes, 1, MSG_OOB) == 1 && bytes[0] == 'U', "%m");
	CHECK(at_mark(rs) == 1, "it was read beside the stream");
	tell(pair, 0);
	await_signals(&urgent_signals, 2);		/* in each message anew */
	CHECK(rrecv(rs, bytes, 8, 0) == 1 && bytes[0] == 'd', "%m");
	CHECK(at_mark(rs) == 1, "the newer one");
	OK(rfcntl(rs, F_SETFL, (long)O_ASYNC));
	CHECK(rfcntl(rs, F_GETFL) == (O_RDWR | O_ASYNC), "%m");
	tell(pair, 0);
	await_signals(&io_signals, 1);
	CHECK(rrecv(rs, bytes, 8, 0) == 1 && bytes[0] == 'e' && !at_mark(rs), "behind it");
	OK(rfcntl(rs, F_SETOWN, 0L));
	io_signals = urgent_signals = 0;
	tell(pair, 0);
	CHECK(rrecv(rs, bytes, 8, 0) == 1 && bytes[0] == 'f', "%m");
	CHECK(!io_signals && !urgent_signals, "it has no owner any more");
	OK(rclose(rs));
}

static void send_watched(struct pair *pair)
{
	int rs = meet(pair, NULL);

	hear(pair);
	CHECK(rsend(rs, "abcU", 4, MSG_OOB) == 4, "%m");
	hear(pair);
	CHECK(rsend(rs, "dV", 2, MSG_OOB) == 2, "%m");
	hear(pair);
	CHECK(rsend(rs, "e", 1, 0) == 1, "%m");
	hear(pair);
	CHECK(rsend(rs, "fW", 2, MSG_OOB) == 2, "%m");
	expect_end(rs);
	OK(rclose(rs));
}

/* Owners that are threads or groups, and what is none. */
static void wrong_owners(struct pair *pair)
{
	struct f_owner_ex who = { .type = F_OWNER_TID, .pid = gettid() }, read = { 0 };
	int rs = meet(pair, NULL), datagram = rsocket(AF_INET, SOCK_DGRAM, 0);

	OK(rfcntl(rs, F_SETOWN_EX, (long)&who));
	OK(rfcntl(rs, F_GETOWN_EX, (long)&read));
	CHECK(read.type == F_OWNER_TID && read.pid == gettid(), "%d %d", read.type, read.pid);
	OK(rfcntl(rs, F_SETOWN, (long)-getpgrp()));
	OK(rfcntl(rs, F_GETOWN_EX, (long)&read));
	CHECK(read.type == F_OWNER_PGRP && read.pid == getpgrp(), "%d %d", read.type, read.pid);
	FAILS(rfcntl(rs, F_SETOWN, 0x7ffffff0L), ESRCH);
	FAILS(rfcntl(rs, F_SETOWN, (long)INT_MIN), EINVAL);
	FAILS(rfcntl(rs, F_SETOWN_EX, 0L), EFAULT);
	who.type = 7;
	FAILS(rfcntl(rs, F_SETOWN_EX, (long)&who), EINVAL);
	OK(datagram);
	FAILS(rfcntl(datagram, F_SETFL, (long)O_ASYNC), EOPNOTSUPP);
	FAILS(at_mark(datagram), EINVAL);
	OK(rclose(datagram));
	OK(rclose(rs));
}

const struct test stream_tests[] = {
	{ "random data both ways at once arrives whole", both_ways, both_ways },
	{ "buffers and queues may be tiny", small_buffers, small_buffers },
	{ "short messages do not outrun the receives", short_messages, short_messages },
	{ "messages go to and fro", ping_pong, ping_pong },
	{ "one thread moves data both ways with rpoll", non_blocking, non_blocking },
	{ "a full socket is not writable until it is read", full_then_room, full_then_room },
	{ "vectors and messages are gathered and scattered", vectors, vectors },
	{ "MSG_PEEK leaves the data where it is", peek, peek },
	{ "timeouts of both directions are kept", time_outs, time_outs },
	{ "who is blocked uses no CPU", sleeping, sleeping },
	{ "a poller and a reader do not rob each other", poller_and_reader, poller_and_reader },
	{ "urgent data are marked, and read beside the stream or in it", receive_urgent, send_urgent },
	{ "the owner gets SIGURG, and SIGIO if it wants to", watch_urgent, send_watched },
	{ "owners are processes, groups or threads that there are", wrong_owners, wrong_owners },
	{ NULL, NULL, NULL },
};
