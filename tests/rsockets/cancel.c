/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are cancelled before or while they wait for a socket: each ends, and leaves the socket to the
 * others, without a lock, a reference or a descriptor of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/select.h>
#include <time.h>

#include "pair.h"

enum { TIMES = 40, ROUNDS = 5, PATIENCE_S = 20, FULL = 4 << 20, HEAD_START_NS = 1000000 };

struct victims {
	int stream, full, listener, datagram;
	char data[FULL];
};

static struct victims victims;

static void *in_rpoll(void *unused)
{
	struct pollfd fds[20];

	for (int i = 0; i < 20; i++)
		fds[i] = (struct pollfd){ .fd = victims.stream, .events = POLLIN };
	rpoll(fds, 20, -1);
	return NULL;
}

static void *in_rselect(void *unused)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(victims.stream, &in);
	rselect(victims.stream + 1, &in, NULL, NULL, NULL);
	return NULL;
}

static void *in_rrecv(void *unused)
{
	char byte;

	rrecv(victims.stream, &byte, 1, 0);
	return NULL;
}

static void *in_rread(void *unused)
{
	char byte;

	rread(victims.stream, &byte, 1);
	return NULL;
}

static void *in_rrecvmsg(void *unused)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	rrecvmsg(victims.stream, &message, 0);
	return NULL;
}

static void *in_rsend(void *unused)
{
	rsend(victims.full, victims.data, FULL, 0);
	return NULL;
}

static void *in_rwritev(void *unused)
{
	struct iovec iov = { victims.data, FULL };

	rwritev(victims.full, &iov, 1);
	return NULL;
}

static void *in_raccept(void *unused)
{
	raccept(victims.listener, NULL, NULL);
	return NULL;
}

static void *in_rrecvfrom(void *unused)
{
	char byte;

	rrecvfrom(victims.datagram, &byte, 1, 0, NULL, NULL);
	return NULL;
}

static const struct {
	const char *name;
	void *(*wait)(void *unused);
} waits[] = {
	{ "rpoll", in_rpoll }, { "rselect", in_rselect }, { "rrecv", in_rrecv }, { "rread", in_rread },
	{ "rrecvmsg", in_rrecvmsg }, { "rsend", in_rsend }, { "rwritev", in_rwritev },
	{ "raccept", in_raccept }, { "rrecvfrom", in_rrecvfrom },
};

static unsigned descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	CHECK(directory, "%m");
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Every other one before it has begun, or nearly. A yield takes long where others want the processor. */
static void cancel_often(const char *name, void *(*wait)(void *unused))
{
	struct timespec until;
	int64_t begin_ns;
	pthread_t thread;
	void *result;

	for (int i = 0; i < TIMES; i++) {
		CHECK(!pthread_create(&thread, NULL, wait, NULL), "no thread");
		begin_ns = now_ns();
		for (int j = 0; j < i % 4 * 10 && now_ns() - begin_ns < HEAD_START_NS; j++)
			sched_yield();
		CHECK(!pthread_cancel(thread), "%s", name);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += PATIENCE_S;
		CHECK(!pthread_timedjoin_np(thread, &result, &until), "%s goes on, time %d", name, i);
		CHECK(result == PTHREAD_CANCELED, "%s returned", name);
	}
}

static int open_datagram(struct pair *pair)
{
	int rs = rsocket(pair->address.ss_family, SOCK_DGRAM, 0);

	OK(rs);
	OK(rbind(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	return rs;
}

static void cancelled_server(struct pair *pair)
{
	unsigned before, after, rounds = 0;

	victims.stream = meet(pair, NULL);
	set_port(pair, 0);
	victims.full = meet(pair, NULL);
	set_port(pair, 0);
	victims.listener = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	OK(victims.listener);
	OK(rlisten(victims.listener, 1));
	victims.datagram = open_datagram(pair);
	while (rsend(victims.full, victims.data, FULL, MSG_DONTWAIT) > 0)
		;
	do {	/* what is opened at its first use, whenever that is, is open in the next round */
		before = descriptors();
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
			cancel_often(waits[i].name, waits[i].wait);
		after = descriptors();
	} while (after != before && ++rounds < ROUNDS);
	CHECK(after == before, "%u descriptors, not %u", after, before);
	tell(pair, 0);
	receive_all(victims.stream, 1, 0, 1000, 0);	/* nobody holds its locks */
	send_all(victims.stream, 2, 0, 1000, 0);
	OK(rclose(victims.listener));
	OK(rclose(victims.datagram));
	hear(pair);
	OK(rclose(victims.stream));
	OK(rclose(victims.full));
}

static void cancelled_client(struct pair *pair)
{
	int rs, full;

	rs = meet(pair, NULL);
	full = meet(pair, NULL);
	hear(pair);
	send_all(rs, 1, 0, 1000, 0);
	receive_all(rs, 2, 0, 1000, 0);
	tell(pair, 0);
	OK(rclose(rs));
	OK(rclose(full));
}

const struct test cancel_tests[] = {
	{ "a thread that is cancelled ends and leaves nothing behind", cancelled_server, cancelled_client },
	{ NULL, NULL, NULL },
};
