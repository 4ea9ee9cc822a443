/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many members share the port, and who: right while other sockets of the namespace come and go, by
 * either way that the kernel is asked.
 */
#include <arpa/inet.h>
#include <errno.h>
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
#include "host/name.h"
#include "platform/fail.h"
#include "platform/netns_test.h"

#define COUNTS	2000u
#define SOCKETS	8u
#define MEMBERS	60u

static _Atomic bool over;

static int bound_at(uint32_t at, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(at) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int bound_to(uint16_t port)
{
	return bound_at(INADDR_ANY, port);
}

/* Which of the two the kernel is asked by, in the next count: the other one fails. */
enum way { BY_DIAG, BY_PROC };

static unsigned count_by(enum way way, unsigned family)
{
	unsigned count;

	fail_set(way == BY_DIAG ? FAIL_PROC : FAIL_NETLINK, 1, EMFILE);
	count = group_socket_count(family);
	fail_clear();
	return count;
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
	enum way way;

	for (way = BY_DIAG; way <= BY_PROC; way++) {
		assert_int_equal(count_by(way, 4), 1);
		assert_int_equal(count_by(way, 6), 0);
		atomic_store(&over, false);
		assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
		for (i = count = 0; i < COUNTS && count <= 1; i++)
			count = count_by(way, 4);
		atomic_store(&over, true);
		pthread_join(thread, NULL);
		/* It may be missed, when those before it go: it is looked again soon. */
		assert_in_range(count, 0, 1);
		second = bound_to(ROCE_UDP_PORT);
		assert_int_equal(count_by(way, 4), 2);
		close(second);
	}
	close(fd);
}

/* More members than one piece of the answer has, and what is no member comes to stand before them between two. */
static void *others_come_and_go(void *unused)
{
	int fd[SOCKETS];
	unsigned i;

	while (!atomic_load(&over)) {
		for (i = 0; i < SOCKETS; i++)
			fd[i] = bound_at(INADDR_LOOPBACK + i, ROCE_UDP_PORT);
		for (i = 0; i < SOCKETS; i++)
			close(fd[i]);
	}
	return NULL;
}

static void sockets_before_many_members_do_not_double_them(void **state)
{
	unsigned i, count;
	pthread_t thread;
	int fd[MEMBERS];
	enum way way;

	for (i = 0; i < MEMBERS; i++)
		fd[i] = bound_to(ROCE_UDP_PORT);
	for (way = BY_DIAG; way <= BY_PROC; way++) {
		assert_int_equal(count_by(way, 4), MEMBERS);
		atomic_store(&over, false);
		assert_int_equal(pthread_create(&thread, NULL, others_come_and_go, NULL), 0);
		for (i = count = 0; i < COUNTS && count <= MEMBERS; i++)
			count = count_by(way, 4);
		atomic_store(&over, true);
		pthread_join(thread, NULL);
		assert_in_range(count, 1, MEMBERS);
		assert_int_equal(count_by(way, 4), MEMBERS);
	}
	for (i = 0; i < MEMBERS; i++)
		close(fd[i]);
}

/* The port on one address is not the port; and where the kernel tells nothing, nothing is known. */
static void only_sockets_on_all_addresses_count(void **state)
{
	int fd = bound_at(INADDR_LOOPBACK + 1, ROCE_UDP_PORT), all;
	enum way way;

	for (way = BY_DIAG; way <= BY_PROC; way++)
		assert_int_equal(count_by(way, 4), 0);
	close(fd);
	all = bound_to(ROCE_UDP_PORT);
	for (way = BY_DIAG; way <= BY_PROC; way++)
		assert_int_equal(count_by(way, 4), 1);
	fail_set(FAIL_PROC, 1, EACCES);
	assert_int_equal(count_by(BY_PROC, 4), 0);
	fail_set(FAIL_PROC, 1, EACCES);
	fail_set(FAIL_NETLINK_RECEIVE, 2, ENOBUFS);	/* not all of it */
	assert_int_equal(group_socket_count(4), 0);
	fail_clear();
	close(all);
}

static int listen_as(const char *text, int type)
{
	struct abstract_name name = name_of(text);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(name_bind(fd, &name), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Who listens by a member's name is one; what is written nearly as one is none. */
static void members_are_those_that_listen_by_a_members_name(void **state)
{
	static const char *const near[] = { "verbatim/port/", "verbatim/port/1024", "verbatim/port/-1",
					    "verbatim/port/7x", "verbatim/port/7 ", "verbatim/port/7/8",
					    "verbatim/portal/9", " verbatim/port/9" };
	struct group_members members;
	struct abstract_name name;
	unsigned i, count;
	enum way way;
	int fd[14], made = 0;

	for (i = 0; i < sizeof(near) / sizeof(near[0]); i++)
		fd[made++] = listen_as(near[i], SOCK_SEQPACKET);
	fd[made++] = listen_as("verbatim/port/3", SOCK_STREAM);
	fd[made++] = listen_as("verbatim/port/0", SOCK_SEQPACKET);
	fd[made++] = listen_as("verbatim/port/1023", SOCK_SEQPACKET);
	name = name_of_slot("verbatim/port/", 0);
	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &fd[made++]), 0);
	for (way = BY_DIAG; way <= BY_PROC; way++) {
		fail_set(way == BY_DIAG ? FAIL_PROC : FAIL_NETLINK, 1, EMFILE);
		assert_int_equal(group_members_list(&members), 0);
		fail_clear();
		for (i = count = 0; i < SLOT_COUNT; i++)
			count += members.is[i];
		assert_int_equal(count, 2);
		assert_true(members.is[0] && members.is[1023]);
	}
	while (made)
		close(fd[--made]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_that_come_and_go_do_not_double_a_member),
		cmocka_unit_test(sockets_before_many_members_do_not_double_them),
		cmocka_unit_test(only_sockets_on_all_addresses_count),
		cmocka_unit_test(members_are_those_that_listen_by_a_members_name),
	};
	bool real_root;

	return netns_enter(&real_root) && netns_renew() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
