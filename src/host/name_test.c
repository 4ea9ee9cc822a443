/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of sockets, in a network namespace of the test. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/name.h"
#include "platform/fail.h"
#include "platform/netns_test.h"

static void a_name_is_free_when_its_socket_is_closed(void **state)
{
	struct abstract_name name = name_of_slot("verbatim/test/", 17),
			     same = name_of("verbatim/test/17");
	int fd = -1, other = -1;

	assert_int_equal(name.bytes, same.bytes);
	assert_memory_equal(&name.address, &same.address, name.bytes);
	assert_int_equal(name.address.sun_path[0], 0);
	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &other), ECONNREFUSED);
	assert_int_equal(name_listen(&name, 1, &fd), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(name_listen(&same, 1, &other), EADDRINUSE);
	assert_int_equal(name_connect(&same, SOCK_SEQPACKET, &other), 0);
	close(other);
	close(fd);
	assert_int_equal(name_listen(&name, 1, &fd), 0);
	close(fd);
}

static void who_waits_in_a_full_backlog_does_not_block(void **state)
{
	struct abstract_name name = name_of("verbatim/test/full");
	int fd, waiting[16], count = 0, err;

	assert_int_equal(name_listen(&name, 1, &fd), 0);
	while (!(err = name_connect(&name, SOCK_SEQPACKET, &waiting[count])))
		assert_in_range(count++, 0, 14);
	assert_int_equal(err, EAGAIN);
	while (count)
		close(waiting[--count]);
	close(fd);
}

static void a_text_that_is_too_long_is_cut(void **state)
{
	struct abstract_name name;
	char text[300];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	name = name_of(text);
	assert_int_equal(name.bytes, sizeof(name.address));
	assert_int_equal(name.address.sun_path[sizeof(name.address.sun_path) - 1], 'x');
}

static void failures_are_passed_on(void **state)
{
	static const enum fail_point point[] = { FAIL_SOCKET, FAIL_BIND, FAIL_LISTEN };
	struct abstract_name name = name_of("verbatim/test/failing");
	int fd = -7, other;
	unsigned i;

	for (i = 0; i < 3; i++) {
		fail_set(point[i], 1, EMFILE);
		assert_int_equal(name_listen(&name, 1, &fd), EMFILE);
		assert_int_equal(fd, -7);
	}
	assert_int_equal(name_listen(&name, 1, &fd), 0);
	fail_set(FAIL_CONNECT, 1, EPERM);
	assert_int_equal(name_connect(&name, SOCK_SEQPACKET, &other), EPERM);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_free_when_its_socket_is_closed),
		cmocka_unit_test(who_waits_in_a_full_backlog_does_not_block),
		cmocka_unit_test(a_text_that_is_too_long_is_cut),
		cmocka_unit_test(failures_are_passed_on),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
