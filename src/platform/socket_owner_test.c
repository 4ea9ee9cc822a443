/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose an abstract socket is: ours, another user's, nobody's. */
#include "platform/socket_owner.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/fail.h"

#define STRANGER 4321u

static char name[60];

/* The descriptor, or -1. */
static int bind_as(const char *text, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path + 1, text);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text))))
		return fd;
	close(fd);
	return -1;
}

static void ours_is_ours(void **state)
{
	uid_t uid = 77;
	int fd, longer;
	char text[80];

	snprintf(text, sizeof(text), "%s-and-more", name);
	longer = bind_as(text, SOCK_DGRAM);
	assert_int_equal(socket_owner(name, &uid), ENOENT);
	fd = bind_as(name, SOCK_DGRAM);
	assert_true(fd >= 0 && longer >= 0);
	assert_int_equal(socket_owner(name, &uid), 0);
	assert_int_equal(uid, geteuid());
	close(fd);
	assert_int_equal(socket_owner(name, &uid), ENOENT);
	close(longer);
}

/* Another one's stream of that name is something else. */
static void another_users_is_theirs(void **state)
{
	uid_t uid = 77;
	int ready[2], fd;
	char byte;
	pid_t pid;

	if (getuid()) {
		print_message("SKIPPED: takes root, to become another user\n");
		skip();
	}
	assert_int_equal(pipe(ready), 0);
	fd = bind_as(name, SOCK_SEQPACKET);
	assert_int_equal(socket_owner(name, &uid), ENOENT);
	pid = fork();
	if (!pid) {
		close(ready[0]);
		if (setresuid(STRANGER, STRANGER, STRANGER) || bind_as(name, SOCK_DGRAM) < 0 ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		alarm(30);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(socket_owner(name, &uid), 0);
	assert_int_equal(uid, STRANGER);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(fd);
}

static void what_the_kernel_refuses_is_passed_on(void **state)
{
	uid_t uid;

	fail_set(FAIL_NETLINK, 1, EPROTONOSUPPORT);
	assert_int_equal(socket_owner(name, &uid), EPROTONOSUPPORT);
	fail_clear();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ours_is_ours),
		cmocka_unit_test(another_users_is_theirs),
		cmocka_unit_test(what_the_kernel_refuses_is_passed_on),
	};

	snprintf(name, sizeof(name), "socket-owner-test/%u", (unsigned)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
