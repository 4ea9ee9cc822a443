/* SPDX-License-Identifier: BSD-2-Clause */
/* Binding port 4791, with others and with what a kernel may lack; and giving up all of it. */
#include <errno.h>
#include <sys/wait.h>

#include "link/udp_test.h"

#define NOBODY 65534

static bool real_root;

static void the_port_is_shared_within_a_user_only(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int status;
	pid_t child;

	assert_int_equal(udp_bind(link_), 0);		/* again: nothing happens */
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	link->ops->close(link);
	if (!real_root)
		skip();
	child = fork();
	if (!child)
		_exit(setresuid(NOBODY, NOBODY, NOBODY) || udp_open(&link, &other) ||
		      udp_bind(link) != EADDRINUSE);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static void a_kernel_without_ipv6_is_enough(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, fds[4];

	assert_int_equal(udp_open(&link, &other), 0);
	fail_set(FAIL_SOCKET, 2, EAFNOSUPPORT);
	assert_int_equal(udp_bind(link), 0);
	udp_bound_fds(link, &fd4, &fd6);
	assert_true(fd4 >= 0);
	assert_int_equal(fd6, -1);
	assert_int_equal(link->ops->event_fds(link, fds, 4), 1);
	link->ops->close(link);
}

static void each_failure_of_binding_leaves_nothing_behind(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, n, err;

	assert_int_equal(udp_open(&link, &other), 0);
	for (n = 1; n <= 2; n++) {
		fail_set(FAIL_BIND, (unsigned)n, EADDRINUSE);
		assert_int_equal(udp_bind(link), EADDRINUSE);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true(fd4 == -1 && fd6 == -1);
	}
	for (n = 1; n < 16; n++) {
		fail_set(FAIL_SETSOCKOPT, (unsigned)n, EPERM);
		err = udp_bind(link);
		assert_true(!err || err == EPERM);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true((fd4 >= 0) == !err);
		if (!err) {
			link->ops->close(link);
			fail_clear();
			assert_int_equal(udp_open(&link, &other), 0);
		}
	}
	fail_clear();
	link->ops->close(link);
}

static void abandoning_closes_every_descriptor(void **state)
{
	struct datagram out = make(false, 100, 0), out6 = make(true, 100, 0);
	struct counters other = { 0 };
	struct link *link;
	int before = dup(0), after;

	close(before);
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	link->ops->prepare(link, &out);
	link->ops->prepare(link, &out6);
	udp_abandon(link);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	link->ops->close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_port_is_shared_within_a_user_only),
		TEST(a_kernel_without_ipv6_is_enough),
		TEST(each_failure_of_binding_leaves_nothing_behind),
		TEST(abandoning_closes_every_descriptor),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
