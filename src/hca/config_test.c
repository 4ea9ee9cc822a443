/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings: environment over file, and that everything wrong is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hca/config.h"

static char path[] = "/tmp/verbatim-config-XXXXXX";

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	setenv("VERBATIM_CONFIG", path, 1);
}

static int clear(void **state)
{
	unsetenv("VERBATIM_CONFIG");
	unsetenv("VERBATIM_MTU");
	unsetenv("VERBATIM_TYPO");
	unsetenv("VERBATIM_DEVICES");
	return 0;
}

static void without_settings_the_standard_holds(void **state)
{
	struct config config;

	assert_int_equal(config_load(&config), 0);
	assert_int_equal(config.mtu, 4096);
	assert_string_equal(config.devices, "");
}

static void the_environment_wins_over_the_file(void **state)
{
	struct config config;

	write_file("# comment\n\n  devices = eth0 \nmtu=1024\nmax_qp = 7\nmalloc = private");
	assert_int_equal(config_load(&config), 0);
	assert_int_equal(config.mtu, 1024);
	assert_int_equal(config.max_qp, 7);
	assert_string_equal(config.malloc, "private");
	assert_string_equal(config.devices, "eth0");
	setenv("VERBATIM_MTU", "512", 1);
	assert_int_equal(config_load(&config), 0);
	assert_int_equal(config.mtu, 512);
}

static void wrong_lines_are_refused(void **state)
{
	static const char *const wrong[] = { "mtu\n", "mtu = 1000\n", "mtu = x\n", "mtu = -1\n",
					     "mtu =\n", "max_qp = 70000\n", "malloc = some\n", "colour = blue\n" };
	struct config config;
	unsigned i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_file(wrong[i]);
		assert_int_equal(config_load(&config), EINVAL);
	}
}

static void an_unknown_variable_is_refused(void **state)
{
	struct config config;

	setenv("VERBATIM_TYPO", "1", 1);
	assert_int_equal(config_load(&config), EINVAL);
}

static void a_file_that_is_not_there_is_an_error(void **state)
{
	struct config config;

	setenv("VERBATIM_CONFIG", "/nonexistent/verbatim.conf", 1);
	assert_int_equal(config_load(&config), ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(without_settings_the_standard_holds, clear),
		cmocka_unit_test_teardown(the_environment_wins_over_the_file, clear),
		cmocka_unit_test_teardown(wrong_lines_are_refused, clear),
		cmocka_unit_test_teardown(an_unknown_variable_is_refused, clear),
		cmocka_unit_test_teardown(a_file_that_is_not_there_is_an_error, clear),
	};
	int failed;

	close(mkstemp(path));
	clear(NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
