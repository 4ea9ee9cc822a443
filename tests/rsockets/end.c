/* SPDX-License-Identifier: BSD-2-Clause */
/* How connections end: in order, half, by reset, by a peer that dies; and what is owed then. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "pair.h"

static void half_close(struct pair *pair)
{
	int rs = meet(pair, NULL);

	if (pair->server) {
		receive_all(rs, 1, 0, 100000, 0);
		expect_end(rs);
		expect_end(rs);
		send_all(rs, 2, 0, 500000, 0);
	} else {
		send_all(rs, 1, 0, 100000, 0);
		OK(rshutdown(rs, SHUT_WR));
		FAILS(rsend(rs, "x", 1, 0), EPIPE);
		receive_all(rs, 2, 0, 500000, 0);
		expect_end(rs);
	}
	OK(rclose(rs));
}

static void shut_reader(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct pollfd fds = { .fd = rs };

	if (pair->server) {
		OK(rshutdown(rs, SHUT_RD));
		expect_end(rs);
		/* Rsockets move in calls only; this one waits until the peer closes. */
		CHECK(rpoll(&fds, 1, 20000) == 1 && fds.revents & POLLHUP, "0x%x", fds.revents);
		hear(pair);
	} else {
		/* More than all buffers: nobody reads, and nobody is blocked. */
		for (int i = 0; i < 40; i++)
			send_all(rs, 3, 0, 100000, 0);
		tell(pair, 0);
	}
	OK(rclose(rs));
}

/* The sender closes and exits while the reader sleeps: all is there afterwards. */
static void close_delivers(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct pollfd fds = { .fd = rs, .events = POLLIN | POLLRDHUP };
	unsigned tries;

	if (!pair->server) {
		send_all(rs, 4, 0, 200000, 0);
		OK(rclose(rs));
		tell(pair, 0);
		return;
	}
	hear(pair);
	for (tries = 0; tries < 6000 && rpoll(&fds, 1, 0) >= 0 && !(fds.revents & POLLRDHUP); tries++)
		usleep(10000);
	CHECK(fds.revents & POLLIN && fds.revents & POLLRDHUP, "revents 0x%x", fds.revents);
	receive_all(rs, 4, 0, 200000, 0);
	expect_end(rs);
	FAILS(rsend(rs, "x", 1, 0), EPIPE);
	OK(rclose(rs));
}

static void both_close_at_once(struct pair *pair)
{
	int rs = meet(pair, NULL);
	double start;

	send_all(rs, 5, 0, 1000, 0);
	tell(pair, 0);
	hear(pair);
	start = now();
	OK(rclose(rs));
	CHECK(now() - start < 3, "rclose took %f s", now() - start);
}

static void reset(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	char byte;

	if (pair->server) {
		hear(pair);
		OK(rsetsockopt(rs, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
		OK(rclose(rs));
	} else {
		tell(pair, 0);
		FAILS(rrecv(rs, &byte, 1, 0), ECONNRESET);
		expect_end(rs);
		FAILS(rsend(rs, "x", 1, 0), EPIPE);
		OK(rclose(rs));
	}
}

/* What the dead had sent is whole up to some point; then the error, and quickly. */
static void until_reset(struct pair *pair, int rs)
{
	static char data[1000000];
	uint64_t done = 0;
	ssize_t n;
	double start = now();

	while ((n = rrecv(rs, data, sizeof(data), 0)) > 0) {
		check_fill(6, done, data, (size_t)n);
		done += (uint64_t)n;
		if (done > 1000000 && pair->peer) {
			kill(pair->peer, SIGKILL);
			pair->peer = 0;
			start = now();
		}
	}
	CHECK(n < 0 && errno == ECONNRESET, "%zd: %m", n);
	CHECK(now() - start < 40, "%f s", now() - start);
	OK(rclose(rs));
}

static void peer_dies_sending(struct pair *pair)
{
	int rs = meet(pair, NULL);

	if (pair->server)
		for (uint64_t at = 0;; at += 65536)
			send_all(rs, 6, at, 65536, 0);
	until_reset(pair, rs);
}

/* The writer finds out, too. */
static void peer_dies_reading(struct pair *pair)
{
	int rs = meet(pair, NULL);
	static char data[100000];
	double start = now();
	ssize_t n = 1;

	if (pair->server)
		for (;;)
			rrecv(rs, data, sizeof(data), 0);
	for (int i = 0; n > 0; i++) {
		n = rsend(rs, data, sizeof(data), 0);
		if (i == 20) {
			kill(pair->peer, SIGKILL);
			start = now();
		}
	}
	CHECK(errno == ECONNRESET || errno == EPIPE, "%m");
	CHECK(now() - start < 40, "%f s", now() - start);
	OK(rclose(rs));
}

/* It waits, idle, in rpoll(): POLLHUP or POLLERR comes by itself. */
static void peer_dies_idle(struct pair *pair)
{
	int rs = meet(pair, NULL);
	struct pollfd fds = { .fd = rs, .events = POLLIN };
	char byte;

	if (pair->server) {
		tell(pair, 0);
		pause();
	}
	hear(pair);
	kill(pair->peer, SIGKILL);
	CHECK(rpoll(&fds, 1, 40000) == 1, "nothing in 40 s");
	CHECK(fds.revents & (POLLHUP | POLLERR), "revents 0x%x", fds.revents);
	FAILS(rrecv(rs, &byte, 1, 0), ECONNRESET);
	OK(rclose(rs));
}

const struct test end_tests[] = {
	{ "half of a connection may be closed", half_close, half_close },
	{ "a closed reader throws data away", shut_reader, shut_reader },
	{ "rclose delivers what was sent", close_delivers, close_delivers },
	{ "both sides may close at once", both_close_at_once, both_close_at_once },
	{ "SO_LINGER of 0 resets the connection", reset, reset },
	{ "a reader learns that its peer was killed", peer_dies_sending, peer_dies_sending, true },
	{ "a writer learns that its peer was killed", peer_dies_reading, peer_dies_reading, true },
	{ "an idle socket learns that its peer was killed", peer_dies_idle, peer_dies_idle, true },
	{ NULL, NULL, NULL },
};
