/* SPDX-License-Identifier: BSD-2-Clause */
/* Which ports take a privilege, as the user of the test and as one who has none. */
#include "platform/privilege.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned first_free_port(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
	unsigned port = 1024;

	if (file && fscanf(file, "%u", &port) != 1)
		port = 1024;
	if (file)
		fclose(file);
	return port;
}

static bool may_as_nobody(uint16_t port)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(!getuid() && setresuid(65534, 65534, 65534) ? 2 : may_bind_port(port));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status);
}

static void high_ports_are_for_all(void **state)
{
	assert_true(may_bind_port(0) && may_bind_port(1024) && may_bind_port(65535));
	assert_true(may_as_nobody(1024) && may_as_nobody(7471));
}

static void low_ports_take_a_privilege(void **state)
{
	if (first_free_port() <= 1023) {
		print_message("SKIPPED: net.ipv4.ip_unprivileged_port_start allows all ports\n");
		skip();
	}
	assert_false(may_as_nobody(1) || may_as_nobody(1023));
	if (!getuid())
		assert_true(may_bind_port(1) && may_bind_port(1023));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(high_ports_are_for_all),
		cmocka_unit_test(low_ports_take_a_privilege),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
