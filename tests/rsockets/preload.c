/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ordinary sockets over librspreload.so: this program once more, with the library preloaded (meson
 * names it in LIBRSPRELOAD). An echo server with epoll, whose clients come over RDMA or, without
 * the library, over TCP; and a client that falls back to TCP. Which way a connection went shows
 * in TCP_INFO: the kernel's socket is not connected when RDMA carries the data.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "pair.h"

enum { CLIENTS = 3, BYTES = 3000000 };

/* ---- what runs as a program of its own ---- */

static void to_address(const char *text, uint16_t port, struct sockaddr_storage *address,
		       socklen_t *length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		*length = sizeof(*v4);
	} else {
		CHECK(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1, "%s", text);
		v6->sin6_family = AF_INET6;
		*length = sizeof(*v6);
	}
	v4->sin_port = htons(port);
}

static bool over_tcp(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	OK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
	return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}

struct echo {
	int fd;
	char data[50000];
	size_t filled, sent;
	bool end;
};

/* Moves what can be moved; false: done with it. */
static bool echo_once(struct echo *echo)
{
	ssize_t n;

	if (echo->sent == echo->filled && !echo->end) {
		n = read(echo->fd, echo->data, sizeof(echo->data));
		CHECK(n >= 0 || errno == EAGAIN, "%m");
		echo->end = n == 0;
		echo->filled = n > 0 ? (size_t)n : 0;
		echo->sent = 0;
	}
	if (echo->sent < echo->filled) {
		n = send(echo->fd, echo->data + echo->sent, echo->filled - echo->sent,
			 MSG_NOSIGNAL);
		CHECK(n >= 0 || errno == EAGAIN, "%m");
		echo->sent += n > 0 ? (size_t)n : 0;
	}
	return !echo->end || echo->sent < echo->filled;
}

static void watch(int epfd, int op, int fd, uint32_t events, void *data)
{
	struct epoll_event event = { .events = events, .data.ptr = data };

	OK(epoll_ctl(epfd, op, fd, &event));
}

static void welcome(int epfd, int listener, int *tcp)
{
	struct echo *echo = calloc(1, sizeof(*echo));

	CHECK(echo, "no memory");
	echo->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	OK(echo->fd);
	*tcp += over_tcp(echo->fd);
	watch(epfd, EPOLL_CTL_ADD, echo->fd, EPOLLIN, echo);
}

/* Prints its port, serves so many clients, and ends with how many of them came over TCP. */
static int echo_main(const char *address, int clients)
{
	int listener, epfd = epoll_create1(0), tcp = 0, one = 1;
	struct sockaddr_storage bound;
	struct epoll_event events[8];
	socklen_t length;

	to_address(address, 0, &bound, &length);
	listener = socket(bound.ss_family, SOCK_STREAM, 0);
	OK(listener);
	OK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	OK(bind(listener, (struct sockaddr *)&bound, length));
	OK(listen(listener, 10));
	OK(getsockname(listener, (struct sockaddr *)&bound, &length));
	printf("%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	fflush(stdout);
	watch(epfd, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
	while (clients) {
		int count = epoll_wait(epfd, events, 8, 20000);

		CHECK(count > 0, "nothing in 20 s");
		for (int i = 0; i < count; i++) {
			struct echo *echo = events[i].data.ptr;

			if (!echo) {
				welcome(epfd, listener, &tcp);
			} else if (!echo_once(echo)) {
				OK(close(echo->fd));
				free(echo);
				clients--;
			} else {
				watch(epfd, EPOLL_CTL_MOD, echo->fd,
				      echo->sent < echo->filled ? EPOLLOUT : EPOLLIN, echo);
			}
		}
	}
	return 10 + tcp;
}

static void swap_data(int fd)
{
	char *out = malloc(BYTES), *in = malloc(BYTES);
	size_t sent = 0, received = 0;
	ssize_t n;

	CHECK(out && in, "no memory");
	fill(1, 0, out, BYTES);
	while (received < BYTES) {
		struct pollfd fds = { .fd = fd, .events = POLLIN };

		fds.events = (short)(POLLIN | (sent < BYTES ? POLLOUT : 0));
		CHECK(poll(&fds, 1, 20000) == 1, "nothing in 20 s");
		if (fds.revents & POLLOUT) {
			n = write(fd, out + sent, BYTES - sent);
			CHECK(n > 0 || errno == EAGAIN, "%m");
			sent += n > 0 ? (size_t)n : 0;
			if (sent == BYTES)
				OK(shutdown(fd, SHUT_WR));
		}
		if (fds.revents & POLLIN) {
			n = recv(fd, in + received, BYTES - received, 0);
			CHECK(n > 0, "%zd: %m", n);
			received += (size_t)n;
		}
	}
	check_fill(1, 0, in, BYTES);
	CHECK(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 20000) == 1, "no end");
	CHECK(recv(fd, in, 1, 0) == 0, "more than was sent");
	free(out);
	free(in);
}

/* Ends with 10, or 11 over TCP. @non_blocking: connects so. */
static int client_main(const char *address, uint16_t port, bool non_blocking)
{
	struct sockaddr_storage there;
	int fd, copy, error, tcp;
	socklen_t length;

	to_address(address, port, &there, &length);
	fd = socket(there.ss_family, SOCK_STREAM | (non_blocking ? SOCK_NONBLOCK : 0), 0);
	OK(fd);
	if (connect(fd, (struct sockaddr *)&there, length)) {
		struct pollfd fds = { .fd = fd, .events = POLLOUT };

		CHECK(non_blocking && errno == EINPROGRESS, "%m");
		CHECK(poll(&fds, 1, 20000) == 1, "nothing in 20 s");
		length = sizeof(error);
		OK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
		CHECK(!error, "%s", strerror(error));
	}
	OK(fcntl(fd, F_SETFL, O_NONBLOCK));
	tcp = over_tcp(fd);
	copy = dup(fd);
	OK(copy);
	OK(close(fd));
	swap_data(copy);
	OK(close(copy));
	return 10 + tcp;
}

/* Reads until the end, and sends it back. */
static void echo_blocking(int fd)
{
	static char data[50000];
	ssize_t n, sent;

	while ((n = read(fd, data, sizeof(data))) > 0)
		for (ssize_t done = 0; done < n; done += sent) {
			sent = write(fd, data + done, (size_t)(n - done));
			CHECK(sent > 0, "%m");
		}
	CHECK(!n, "%m");
}

/* In the child of the server: the names are those of the connection, and options can be set. */
static void check_inherited(int fd, const struct sockaddr_storage *peer)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	int one = 1;

	OK(getpeername(fd, (struct sockaddr *)&name, &length));
	CHECK(name.ss_family == peer->ss_family && ((struct sockaddr_in *)&name)->sin_port ==
	      ((const struct sockaddr_in *)peer)->sin_port, "another peer's name");
	length = sizeof(name);
	OK(getsockname(fd, (struct sockaddr *)&name, &length));
	CHECK(name.ss_family == peer->ss_family, "family %d", name.ss_family);
	OK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
}

static int serve_one(int listener)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	int fd = accept(listener, (struct sockaddr *)&peer, &length), tcp;
	pid_t pid;

	OK(fd);
	tcp = over_tcp(fd);
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid) {
		OK(close(listener));
		check_inherited(fd, &peer);
		echo_blocking(fd);
		OK(close(fd));
		_exit(0);
	}
	OK(close(fd));
	return tcp;
}

/* As echo_main(), with a process for each client. */
static int forking_main(const char *address, int clients)
{
	struct sockaddr_storage bound;
	int listener, tcp = 0, status;
	socklen_t length;

	to_address(address, 0, &bound, &length);
	listener = socket(bound.ss_family, SOCK_STREAM, 0);
	OK(listener);
	OK(bind(listener, (struct sockaddr *)&bound, length));
	OK(listen(listener, 10));
	OK(getsockname(listener, (struct sockaddr *)&bound, &length));
	printf("%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	fflush(stdout);
	for (int i = 0; i < clients; i++)
		tcp += serve_one(listener);
	for (int i = 0; i < clients; i++)
		CHECK(wait(&status) > 0 && !status, "a child: status 0x%x", status);
	return 10 + tcp;
}

static void read_all(int fd)
{
	char *in = malloc(BYTES);
	size_t received = 0;
	ssize_t n;

	CHECK(in, "no memory");
	while ((n = read(fd, in + received, BYTES - received)) > 0)
		received += (size_t)n;
	CHECK(!n && received == BYTES, "%zu bytes: %m", received);
	check_fill(1, 0, in, BYTES);
	free(in);
}

/* One process sends, its child receives, and another child does neither. */
static int two_main(const char *address, uint16_t port)
{
	int fd, tcp, status, children = 0;
	char *out = malloc(BYTES);
	struct sockaddr_storage there;
	socklen_t length;

	to_address(address, port, &there, &length);
	fd = socket(there.ss_family, SOCK_STREAM, 0);
	OK(fd);
	OK(connect(fd, (struct sockaddr *)&there, length));
	tcp = over_tcp(fd);
	if (!fork())
		_exit(0);
	CHECK(wait(&status) > 0 && !status, "0x%x", status);
	if (!fork()) {
		read_all(fd);
		_exit(0);
	}
	fill(1, 0, out, BYTES);
	for (size_t sent = 0; sent < BYTES;) {
		ssize_t n = write(fd, out + sent, BYTES - sent);

		CHECK(n > 0, "%m");
		sent += (size_t)n;
	}
	OK(shutdown(fd, SHUT_WR));
	while (wait(&status) > 0)
		children += status == 0;
	CHECK(children == 1, "the child: status 0x%x", status);
	OK(close(fd));
	free(out);
	return 10 + tcp;
}

/* ---- urgent data ---- */

static volatile sig_atomic_t urgent_signals;

static void count_urgent(int signal)
{
	(void)signal;
	urgent_signals++;
}

static void await_urgent(int least)
{
	for (int ms = 0; urgent_signals < least && ms < 10000; ms++)
		usleep(1000);
	CHECK(urgent_signals >= least, "%d signals", (int)urgent_signals);
}

/* As telnetd and rlogin do: SIGURG, then what is in front of the mark is thrown away. */
static int urgent_server_main(const char *address)
{
	struct sockaddr_storage bound;
	socklen_t length;
	int listener, fd, tcp = 0, mark;
	char byte, skipped = 0;

	to_address(address, 0, &bound, &length);
	listener = socket(bound.ss_family, SOCK_STREAM, 0);
	OK(listener);
	OK(bind(listener, (struct sockaddr *)&bound, length));
	OK(listen(listener, 10));
	OK(getsockname(listener, (struct sockaddr *)&bound, &length));
	printf("%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	fflush(stdout);
	for (int i = 0; i < CLIENTS; i++) {
		urgent_signals = 0;
		skipped = 0;
		fd = accept(listener, NULL, NULL);
		OK(fd);
		tcp += over_tcp(fd);
		CHECK(signal(SIGURG, count_urgent) != SIG_ERR, "%m");
		OK(fcntl(fd, F_SETOWN, getpid()));
		CHECK(write(fd, "g", 1) == 1, "%m");
		await_urgent(1);
		while (!(mark = sockatmark(fd))) {
			CHECK(read(fd, &byte, 1) == 1, "%m");
			skipped++;
		}
		CHECK(mark == 1 && skipped == 5, "mark %d behind %d bytes", mark, skipped);
		CHECK(recv(fd, &byte, 1, MSG_OOB) == 1 && byte == '!', "%m");
		OK(ioctl(fd, SIOCATMARK, &mark));
		CHECK(mark == 1, "mark %d", mark);
		CHECK(read(fd, &byte, 1) == 1 && byte == 'b', "%m");
		CHECK(sockatmark(fd) == 0, "behind it");
		OK(close(fd));
	}
	return 10 + tcp;
}

static int urgent_client_main(const char *address, uint16_t port)
{
	struct sockaddr_storage there;
	socklen_t length;
	char byte;
	int fd, tcp;

	to_address(address, port, &there, &length);
	fd = socket(there.ss_family, SOCK_STREAM, 0);
	OK(fd);
	OK(connect(fd, (struct sockaddr *)&there, length));
	tcp = over_tcp(fd);
	CHECK(read(fd, &byte, 1) == 1, "%m");
	CHECK(send(fd, "aaaaa!", 6, MSG_OOB) == 6, "%m");
	CHECK(send(fd, "b", 1, 0) == 1, "%m");
	CHECK(read(fd, &byte, 1) == 0, "%m");
	OK(close(fd));
	return 10 + tcp;
}

/* An ordinary socket: it is made whatever the settings say. */
static int socket_main(const char *address)
{
	struct sockaddr_storage here;
	socklen_t length;

	to_address(address, 0, &here, &length);
	OK(socket(here.ss_family, SOCK_STREAM, 0));
	return 10;
}

/* Before main(): the tests start this program anew by names in the environment. */
static void __attribute__((constructor)) run_as_told(void)
{
	const char *role = getenv("ROLE"), *address = getenv("ADDRESS"), *number = getenv("NUMBER");

	if (!role || !address || !number)
		return;
	if (!strcmp(role, "echo"))
		exit(echo_main(address, atoi(number)));
	if (!strcmp(role, "forking"))
		exit(forking_main(address, atoi(number)));
	if (!strcmp(role, "two"))
		exit(two_main(address, (uint16_t)atoi(number)));
	if (!strcmp(role, "urgent server"))
		exit(urgent_server_main(address));
	if (!strcmp(role, "urgent client"))
		exit(urgent_client_main(address, (uint16_t)atoi(number)));
	if (!strcmp(role, "socket"))
		exit(socket_main(address));
	exit(client_main(address, (uint16_t)atoi(number), !strcmp(role, "non-blocking")));
}

/* ---- the tests ---- */

static void set_environment(struct pair *pair, const char *role, int number, bool preload)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(pair->address.ss_family, pair->address.ss_family == AF_INET ?
		  (void *)&((struct sockaddr_in *)&pair->address)->sin_addr :
		  (void *)&((struct sockaddr_in6 *)&pair->address)->sin6_addr, text, sizeof(text));
	setenv("ROLE", role, 1);
	setenv("ADDRESS", text, 1);
	snprintf(text, sizeof(text), "%d", number);
	setenv("NUMBER", text, 1);
	if (preload)
		setenv("LD_PRELOAD", getenv("LIBRSPRELOAD"), 1);
	else
		unsetenv("LD_PRELOAD");
}

/* Its standard output goes to @output, if >= 0. */
static pid_t start(struct pair *pair, const char *role, int number, bool preload, int output)
{
	pid_t pid = fork();

	CHECK(pid >= 0, "%m");
	if (pid)
		return pid;
	set_environment(pair, role, number, preload);
	if (output >= 0)
		dup2(output, 1);
	execl("/proc/self/exe", "rsocket_test", NULL);
	_exit(1);
}

static int status_of(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "status 0x%x", status);
	return WEXITSTATUS(status);
}

static void echo_test(struct pair *pair, const char *role, bool server_preloads, const char *clients_role,
		      const bool *client_preloads, int expected_tcp)
{
	int ends[2], tcp = 0, status;
	pid_t server, clients[CLIENTS];
	FILE *output;
	unsigned port;

	if (!getenv("LIBRSPRELOAD")) {
		fprintf(stderr, "# LIBRSPRELOAD does not name the library\n");
		_exit(1);
	}
	OK(pipe(ends));
	server = start(pair, role, CLIENTS, server_preloads, ends[1]);
	close(ends[1]);
	output = fdopen(ends[0], "r");
	CHECK(output && fscanf(output, "%u", &port) == 1, "the server has no port");
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = start(pair, clients_role ? clients_role : i % 2 ? "non-blocking" : "blocking",
				   (int)port, client_preloads[i], -1);
	for (int i = 0; i < CLIENTS; i++) {
		status = status_of(clients[i]);
		CHECK(status == 10 || status == 11, "client %d: status %d", i, status);
		tcp += status - 10;
	}
	CHECK(tcp == expected_tcp, "%d clients over TCP", tcp);
	status = status_of(server);
	CHECK(status == 10 + expected_tcp, "server: status %d", status);
}

static void over_rdma(struct pair *pair)
{
	echo_test(pair, "echo", true, NULL, (bool[]){ true, true, true }, 0);
}

/* Their servers' children move the data through them. */
static void with_a_process_for_each(struct pair *pair)
{
	echo_test(pair, "forking", true, NULL, (bool[]){ true, false, true }, 1);
}

static void by_two_processes_each(struct pair *pair)
{
	echo_test(pair, "forking", true, "two", (bool[]){ true, true, true }, 0);
}

static void over_both(struct pair *pair)
{
	echo_test(pair, "echo", true, NULL, (bool[]){ false, true, false }, 2);
}

static void over_tcp_only(struct pair *pair)
{
	echo_test(pair, "echo", false, NULL, (bool[]){ true, true, false }, 3);
}

static void urgent_over_rdma(struct pair *pair)
{
	echo_test(pair, "urgent server", true, "urgent client", (bool[]){ true, true, true }, 0);
}

/* The same program on TCP of the kernel: nothing else is expected of rsockets. */
static void urgent_over_tcp(struct pair *pair)
{
	const bool nobody[CLIENTS] = { false };

	echo_test(pair, "urgent server", false, "urgent client", nobody, CLIENTS);
}

/* All that is said through the pipe @ends, to whose end for writing we have no further use. */
static void listen_to(int ends[2], char said[1000])
{
	size_t used = 0;
	ssize_t n;

	OK(close(ends[1]));
	while ((n = read(ends[0], said + used, 999 - used)) > 0)
		used += (size_t)n;
	said[used] = '\0';
	OK(close(ends[0]));
}

/* What a program says on standard error that opens a socket under these settings. */
static void complaints(struct pair *pair, const char *entries, const char *inline_bytes, char said[1000])
{
	int ends[2];
	pid_t pid;

	OK(pipe(ends));
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid) {
		set_environment(pair, "socket", 0, true);
		setenv("RS_SQ_SIZE", entries, 1);
		setenv("RS_INLINE", inline_bytes, 1);
		dup2(ends[1], 2);
		execl("/proc/self/exe", "rsocket_test", NULL);
		_exit(1);
	}
	listen_to(ends, said);
	CHECK(status_of(pid) == 10, "no socket");
}

static void wrong_settings(struct pair *pair)
{
	static const char *const wrong[] = { "64k", "x", "-64", " 64", "4294967360", "0x40" };
	char said[1000], expected[200];

	complaints(pair, "64", "0", said);
	CHECK(!*said, "%s", said);
	complaints(pair, "", "", said);
	CHECK(!*said, "%s", said);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(expected, sizeof(expected), "librspreload: RS_SQ_SIZE: invalid value \"%s\", ignored\n"
			 "librspreload: RS_INLINE: invalid value \"%s\", ignored\n", wrong[i], wrong[i]);
		complaints(pair, wrong[i], wrong[i], said);
		CHECK(!strcmp(said, expected), "%s", said);
	}
}

/* A folder /etc of this process alone, whose file of rsocket(7) holds @text. False: not permitted. */
static bool private_setting(const char *text)
{
	FILE *file;

	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "/etc", "tmpfs", 0, NULL))
		return false;
	OK(mkdir("/etc/rdma", 0755));
	OK(mkdir("/etc/rdma/rsocket", 0755));
	file = fopen("/etc/rdma/rsocket/sqsize_default", "w");
	CHECK(file && fputs(text, file) >= 0 && !fclose(file), "%m");
	return true;
}

/* What is said of a file that holds @text, by a program that opens an rsocket. */
static void read_setting(const char *text, char said[1000])
{
	int ends[2];
	pid_t pid;

	OK(pipe(ends));
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid) {
		if (!private_setting(text)) {
			fprintf(stderr, "# not permitted: mounts of one's own\n");
			_exit(11);
		}
		dup2(ends[1], 2);
		OK(rsocket(AF_INET, SOCK_STREAM, 0));
		_exit(10);
	}
	listen_to(ends, said);
	CHECK(status_of(pid) == 10 || !*said, "no socket");
}

static void wrong_files(struct pair *pair)
{
	static const char *const wrong[] = { "64k", "64 128", "", "-64", "15", "32769", "4294967360", "0x40" };
	char said[1000];

	(void)pair;
	read_setting("64\n", said);
	CHECK(!*said, "%s", said);
	read_setting("  64\t\n\n", said);
	CHECK(!*said, "%s", said);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		read_setting(wrong[i], said);
		CHECK(strstr(said, "sqsize_default: expected an integer from 16 to 32768, using 384") ||
		      geteuid(), "%s: %s", wrong[i], said);
	}
}

static void nothing(struct pair *pair)
{
}

const struct test preload_tests[] = {
	{ "SIGURG and sockatmark over RDMA", urgent_over_rdma, nothing },
	{ "SIGURG and sockatmark over TCP, as over RDMA", urgent_over_tcp, nothing },
	{ "ordinary sockets with epoll and poll run over RDMA", over_rdma, nothing },
	{ "a server takes clients over RDMA and TCP", over_both, nothing },
	{ "clients fall back to TCP, blocking or not", over_tcp_only, nothing },
	{ "a server with a process for each client runs over RDMA", with_a_process_for_each, nothing },
	{ "a connection is shared by a process that sends and its child that receives",
	  by_two_processes_each, nothing },
	{ "settings that are no numbers are ignored, and said to be", wrong_settings, nothing },
	{ "a file of settings is a number in range, and nothing else", wrong_files, nothing },
	{ NULL, NULL, NULL },
};
