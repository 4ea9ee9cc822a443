/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The main program of the tests of rsockets: rsocket_test [-a ADDRESS] [NAME...]. Each test gets
 * two fresh processes and a time limit; those that have not ended by then are killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "pair.h"

enum { LIMIT_S = 60 };

static const struct test *const groups[] = {stream_tests,  end_tests,	   connect_tests,
					    iomap_tests,   datagram_tests, process_tests,
					    manager_tests, cancel_tests,   preload_tests, repoll_tests};
static const char *address = "127.0.0.1";

/* ---- what tests use ---- */

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

void tell(struct pair *pair, uint32_t number)
{
	CHECK(write(pair->to_peer, &number, sizeof(number)) == sizeof(number), "%m");
}

uint32_t hear(struct pair *pair)
{
	uint32_t number;

	CHECK(read(pair->from_peer, &number, sizeof(number)) == sizeof(number),
	      "the other side has ended");
	return number;
}

socklen_t address_bytes(const struct pair *pair)
{
	return pair->address.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
		sizeof(struct sockaddr_in6);
}

void set_port(struct pair *pair, uint16_t port)
{
	/* At the same place in both. */
	((struct sockaddr_in *)&pair->address)->sin_port = htons(port);
}

uint16_t bound_port(int rs)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);

	OK(rgetsockname(rs, (struct sockaddr *)&bound, &length));
	return ntohs(((struct sockaddr_in *)&bound)->sin_port);
}

int open_listener(struct pair *pair, void (*prepare)(int rs))
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);

	OK(rs);
	if (prepare)
		prepare(rs);
	OK(rbind(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	OK(rlisten(rs, 128));
	set_port(pair, bound_port(rs));
	tell(pair, bound_port(rs));
	return rs;
}

int accept_one(struct pair *pair, void (*prepare)(int rs))
{
	int listener = open_listener(pair, prepare), rs = raccept(listener, NULL, NULL);

	OK(rs);
	OK(rclose(listener));
	return rs;
}

int connect_to(struct pair *pair, void (*prepare)(int rs))
{
	int rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);

	OK(rs);
	if (prepare)
		prepare(rs);
	set_port(pair, (uint16_t)hear(pair));
	OK(rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	return rs;
}

int meet(struct pair *pair, void (*prepare)(int rs))
{
	return pair->server ? accept_one(pair, prepare) : connect_to(pair, prepare);
}

/* Eight bytes at a time, from the place alone: splitmix64's finish. */
static uint64_t word(uint32_t seed, uint64_t index)
{
	uint64_t z = (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)seed << 17;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void fill(uint32_t seed, uint64_t offset, void *to, size_t length)
{
	uint8_t *byte = to;

	for (size_t i = 0; i < length;) {
		uint64_t at = offset + i, value = word(seed, at / 8);
		size_t skip = at % 8, n = 8 - skip < length - i ? 8 - skip : length - i;

		memcpy(byte + i, (uint8_t *)&value + skip, n);
		i += n;
	}
}

void check_fill(uint32_t seed, uint64_t offset, const void *data, size_t length)
{
	uint8_t wanted[4096];

	for (size_t i = 0; i < length; i += sizeof(wanted)) {
		size_t n = length - i < sizeof(wanted) ? length - i : sizeof(wanted);

		fill(seed, offset + i, wanted, n);
		CHECK(!memcmp((const uint8_t *)data + i, wanted, n),
		      "other bytes within %zu of offset %llu", n, (unsigned long long)(offset + i));
	}
}

void send_all(int rs, uint32_t seed, uint64_t offset, size_t length, int flags)
{
	char *data = malloc(length + 1);
	ssize_t n;

	CHECK(data, "no memory");
	fill(seed, offset, data, length);
	for (size_t done = 0; done < length; done += (size_t)n) {
		n = rsend(rs, data + done, length - done, flags);
		CHECK(n > 0, "%zd: %m, after %llu bytes", n, (unsigned long long)(offset + done));
	}
	free(data);
}

void receive_all(int rs, uint32_t seed, uint64_t offset, size_t length, int flags)
{
	char *data = malloc(length + 1);
	ssize_t n;

	CHECK(data, "no memory");
	for (size_t done = 0; done < length; done += (size_t)n) {
		n = rrecv(rs, data + done, length - done, flags);
		CHECK(n > 0, "%zd: %m, after %llu bytes", n, (unsigned long long)(offset + done));
	}
	check_fill(seed, offset, data, length);
	free(data);
}

void expect_end(int rs)
{
	char byte;
	ssize_t n = rrecv(rs, &byte, 1, 0);

	CHECK(n == 0, "%zd: %m", n);
}

/* ---- running ---- */

static void parse_address(struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
	else
		CHECK(false, "'%s' is no address", address);
}

static pid_t start(side *run_side, struct pair *pair, const int unused[2])
{
	pid_t pid = fork();

	CHECK(pid >= 0, "%m");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(unused[0]);
	close(unused[1]);
	run_side(pair);
	_exit(0);
}

/* True: it has ended by itself, with status 0. */
static bool wait_for(pid_t pid, double until, const char *who)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now() > until) {
			printf("# the %s has not ended\n", who);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return false;
		}
		usleep(2000);
	}
	if (WIFSIGNALED(status))
		printf("# the %s was ended by signal %d\n", who, WTERMSIG(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool run(const struct test *test)
{
	struct pair server = { .server = true }, client = { .server = false };
	double until = now() + LIMIT_S;
	int up[2], down[2], status;
	bool good;

	CHECK(!pipe(up) && !pipe(down), "%m");
	parse_address(&server.address);
	client.address = server.address;
	server.from_peer = up[0];
	client.to_peer = up[1];
	client.from_peer = down[0];
	server.to_peer = down[1];
	fflush(stdout);
	pid_t first = start(test->server, &server, (int[]){ up[1], down[0] });

	client.peer = first;
	pid_t second = start(test->client, &client, (int[]){ up[0], down[1] });

	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(down[1]);
	good = wait_for(second, until, "client");
	if (test->killed) {
		kill(first, SIGKILL);
		waitpid(first, &status, 0);
		return good && WIFSIGNALED(status);
	}
	/* One whose partner has failed may wait for ever. */
	return wait_for(first, good ? until : now() + 1, "server") && good;
}

static bool chosen(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 0;
}

static bool has_device(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(rsocket(AF_INET, SOCK_STREAM, 0) < 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

int main(int argc, char **argv)
{
	int number = 0, failed = 0, first = 1;

	if (argc > 2 && !strcmp(argv[1], "-a")) {
		address = argv[2];
		first = 3;
	}
	signal(SIGPIPE, SIG_IGN);
	if (!has_device()) {
		printf("ok 1 - rsockets # SKIP no RDMA device here\n1..1\n");
		return 0;
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (const struct test *test = groups[i]; test->name; test++) {
			if (!chosen(test->name, argc - first, argv + first))
				continue;
			bool good = run(test);

			printf("%sok %d - %s\n", good ? "" : "not ", ++number, test->name);
			failed += !good;
		}
	printf("1..%d\n", number);
	return failed || !number;
}
