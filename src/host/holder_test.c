/* SPDX-License-Identifier: BSD-2-Clause */
/* Who has names: counted by user, with a process where one may be seen. */
#include "host/holder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/name.h"

static char prefix[40];

static int take(unsigned number, int type)
{
	struct abstract_name name = name_of_slot(prefix, number);
	int fd = name_socket(type);

	return fd >= 0 && !name_bind(fd, &name) ? fd : -1;
}

static void nobody_has_nothing(void **state)
{
	char text[256] = "x";

	assert_string_equal(holders_describe(prefix, text, sizeof(text)), "");
}

static void a_holder_is_named_with_its_process(void **state)
{
	int first = take(1, SOCK_DGRAM), second;
	char text[256], wanted[64];

	snprintf(wanted, sizeof(wanted), "user %u has 1 (process %d, ", (unsigned)geteuid(), (int)getpid());
	assert_non_null(strstr(holders_describe(prefix, text, sizeof(text)), wanted));
	second = take(2, SOCK_SEQPACKET);
	snprintf(wanted, sizeof(wanted), "user %u has 2 (one of them: process %d, ", (unsigned)geteuid(),
		 (int)getpid());
	assert_non_null(strstr(holders_describe(prefix, text, sizeof(text)), wanted));
	close(first);
	close(second);
}

/* In a process of another user, until it is killed. */
static pid_t stranger(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresuid(4321, 4321, 4321))
			_exit(1);
		for (unsigned i = 10; i < 15; i++)
			if (take(i, SOCK_DGRAM) < 0)
				_exit(1);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void who_has_most_comes_first_and_what_is_too_long_is_cut(void **state)
{
	char text[256], wanted[64], small[20];
	int ours;
	pid_t pid;

	if (geteuid()) {
		print_message("SKIPPED: other users take root\n");
		skip();
	}
	ours = take(1, SOCK_DGRAM);
	pid = stranger();
	holders_describe(prefix, text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "process %d, ", (int)pid);
	assert_ptr_equal(strstr(text, "user 4321 has 5"), text);
	assert_non_null(strstr(text, wanted));
	assert_non_null(strstr(text, "), user 0 has 1"));
	assert_int_equal(strlen(holders_describe(prefix, small, sizeof(small))), sizeof(small) - 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_has_nothing),
		cmocka_unit_test(a_holder_is_named_with_its_process),
		cmocka_unit_test(who_has_most_comes_first_and_what_is_too_long_is_cut),
	};

	snprintf(prefix, sizeof(prefix), "verbatim-holder-test-%d/", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
