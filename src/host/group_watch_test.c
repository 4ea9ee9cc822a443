/* SPDX-License-Identifier: BSD-2-Clause */
/* How many members share the port: counted right while other sockets of the namespace come and go. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/datagram.h"
#include "host/group_watch.h"
#include "platform/netns_test.h"

#define COUNTS	20000u
#define SOCKETS	8u

static _Atomic bool over;

static int bound_to(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* In the kernel's list before the port of RoCE, in which ports stand modulo a power of two. */
static void *come_and_go(void *unused)
{
	int fd[SOCKETS];
	unsigned i;

	while (!atomic_load(&over)) {
		for (i = 0; i < SOCKETS; i++)
			fd[i] = bound_to((uint16_t)(ROCE_UDP_PORT - 1 - i));
		for (i = 0; i < SOCKETS; i++)
			close(fd[i]);
	}
	return NULL;
}

static void sockets_that_come_and_go_do_not_double_a_member(void **state)
{
	int fd = bound_to(ROCE_UDP_PORT), second;
	pthread_t thread;
	unsigned i, count;

	assert_int_equal(group_socket_count(4), 1);
	assert_int_equal(group_socket_count(6), 0);
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	for (i = count = 0; i < COUNTS && count <= 1; i++)
		count = group_socket_count(4);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	assert_in_range(count, 0, 1);	/* it may be missed, when those before it go: it is looked again soon */
	second = bound_to(ROCE_UDP_PORT);
	assert_int_equal(group_socket_count(4), 2);
	close(second);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_that_come_and_go_do_not_double_a_member),
	};
	bool real_root;

	return netns_enter(&real_root) && netns_renew() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
