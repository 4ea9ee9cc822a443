/* SPDX-License-Identifier: BSD-2-Clause */
/* Rsockets. A thread without signals is the server: it sends back what it gets. */
#include "ends.h"
#include "storm.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#define PORT	7472
#define BYTES	4096

static int listening = -1, idle = -1;

/* What steps make; -1: nothing. */
static volatile int connected = -1;
static char data[BYTES], back[BYTES];

static void *echo(void *argument)
{
	int fd = (int)(intptr_t)argument;
	char bytes[BYTES];
	ssize_t got;

	while ((got = rrecv(fd, bytes, sizeof(bytes), 0)) > 0)
		if (rsend(fd, bytes, (size_t)got, 0) != got)
			break;
	rclose(fd);
	return NULL;
}

static void *serve(void *unused)
{
	pthread_t thread;
	int fd;

	for (;;) {	/* a request whose sender has left meanwhile fails */
		fd = raccept(listening, NULL, NULL);
		if (fd >= 0 && !pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd))
			pthread_detach(thread);
	}
	return unused;
}

static int listen_at(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	NEED(fd >= 0);
	NEED(!rbind(fd, (struct sockaddr *)&address, sizeof(address)));
	NEED(!rlisten(fd, 64));
	return fd;
}

void sockets_open(void)
{
	sigset_t all, before;
	pthread_t thread;

	if (listening >= 0)
		return;
	listening = listen_at(PORT);
	idle = listen_at(0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	NEED(!pthread_create(&thread, NULL, serve, NULL));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- steps ---- */

static void hang_up(void)
{
	int fd = connected;

	connected = -1;
	if (fd >= 0)
		rclose(fd);
}

static bool is_connected(void)
{
	struct sockaddr_in address = loopback(PORT);

	if (connected >= 0)
		return true;
	connected = rsocket(AF_INET, SOCK_STREAM, 0);
	return connected >= 0 && !rconnect(connected, (struct sockaddr *)&address, sizeof(address));
}

static void step_connect(void)
{
	hang_up();
	is_connected();
}

static void step_send(void)
{
	if (is_connected() && rsend(connected, data, 1 + storm_random() % BYTES, 0) <= 0)
		hang_up();
	rrecv(connected, back, BYTES, MSG_DONTWAIT);
}

static void step_receive(void)
{
	if (is_connected() && rrecv(connected, back, BYTES, 0) == 0)
		hang_up();
}

static void step_poll(void)
{
	struct pollfd fds[2] = { { .fd = idle, .events = POLLIN },
				 { .fd = connected, .events = POLLIN } };

	rpoll(fds, connected < 0 ? 1 : 2, -1);
	step_send();
}

static void step_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(idle, &set);
	rselect(idle + 1, &set, NULL, NULL, NULL);
}

static void step_accept(void)
{
	raccept(idle, NULL, NULL);
}

static void step_options(void)
{
	int size = 1 << 16;
	socklen_t length = sizeof(size);

	if (!is_connected())
		return;
	rsetsockopt(connected, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	rgetsockopt(connected, SOL_SOCKET, SO_SNDBUF, &size, &length);
	rfcntl(connected, F_GETFL);
}

static void step_shutdown(void)
{
	if (is_connected())
		rshutdown(connected, SHUT_WR);
	hang_up();
}

static void step_datagram(void)
{
	struct sockaddr_in address = loopback(9);

	hang_up();
	connected = rsocket(AF_INET, SOCK_DGRAM, 0);
	if (connected >= 0)
		rsendto(connected, data, 100, 0, (struct sockaddr *)&address, sizeof(address));
	hang_up();
}

const struct step socket_steps[] = {
	{ "rconnect", step_connect }, { "rsend", step_send }, { "rrecv", step_receive },
	{ "rpoll", step_poll }, { "rselect", step_select }, { "raccept", step_accept },
	{ "rsetsockopt", step_options }, { "rshutdown", step_shutdown }, { "rsendto", step_datagram },
	{ NULL, NULL },
};

void sockets_check(void)
{
	size_t got = 0;

	hang_up();
	memset(data, 0x5a, sizeof(data));
	memset(back, 0, sizeof(back));
	NEED(is_connected());
	NEED(rsend(connected, data, BYTES, 0) == BYTES);
	while (got < BYTES) {
		ssize_t more = rrecv(connected, back + got, BYTES - got, 0);

		NEED(more > 0);
		got += (size_t)more;
	}
	NEED(!memcmp(data, back, BYTES));
	hang_up();
}

void sockets_close(void)
{
}
