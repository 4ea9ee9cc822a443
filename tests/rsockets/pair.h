/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of rsockets with two processes, a server and a client, on one address. Each test is two
 * functions; pair.c forks a process for each, before either has opened anything, and judges by
 * how they end. Prints TAP. The programs use the public <rdma/rsocket.h> only.
 */
#ifndef VERBATIM_TESTS_RSOCKETS_PAIR_H
#define VERBATIM_TESTS_RSOCKETS_PAIR_H

#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Ends the process: the test has failed. */
#define CHECK(condition, ...)                                                           \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "# %s:%d: %s: ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__);                                   \
			fputc('\n', stderr);                                            \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)
#define OK(call)	CHECK((call) >= 0, "%m")
/* The call fails, with this errno. */
#define FAILS(call, number)                                                             \
	do {                                                                            \
		errno = 0;                                                              \
		CHECK((call) == -1 && errno == (number), "errno %d (%m)", errno);       \
	} while (0)

struct pair {
	bool server;
	int to_peer, from_peer;			/* pipes, for what is not to be tested */
	pid_t peer;				/* client: the server's; else 0 */
	struct sockaddr_storage address;	/* of the server; port 0 until listening */
};

typedef void side(struct pair *pair);

struct test {
	const char *name;			/* a sentence */
	side *server, *client;
	bool killed;				/* the server ends by our signal */
};

/* The tests, each ends with a NULL name. */
extern const struct test stream_tests[], end_tests[], connect_tests[], iomap_tests[],
	datagram_tests[], process_tests[], manager_tests[], cancel_tests[],
	preload_tests[], repoll_tests[];

/* Pipes: tell the other side a number; wait for one. */
void tell(struct pair *pair, uint32_t number);
uint32_t hear(struct pair *pair);

/* Server: bind and listen, tell the port. Options of @prepare (may be NULL) are set before. */
int open_listener(struct pair *pair, void (*prepare)(int rs));
int accept_one(struct pair *pair, void (*prepare)(int rs));	/* and close the listener */
/* Client: hear of the port, connect. */
int connect_to(struct pair *pair, void (*prepare)(int rs));
/* Either. */
int meet(struct pair *pair, void (*prepare)(int rs));
socklen_t address_bytes(const struct pair *pair);
void set_port(struct pair *pair, uint16_t port);
uint16_t bound_port(int rs);

/* Data of a stream that can be checked at any place: byte @offset of stream @seed. */
void fill(uint32_t seed, uint64_t offset, void *to, size_t length);
void check_fill(uint32_t seed, uint64_t offset, const void *data, size_t length);
/* All of it, or the test fails. */
void send_all(int rs, uint32_t seed, uint64_t offset, size_t length, int flags);
void receive_all(int rs, uint32_t seed, uint64_t offset, size_t length, int flags);
void expect_end(int rs);
double now(void);
double cpu_seconds(void);			/* of this process, all threads */

#endif
