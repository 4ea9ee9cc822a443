/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings: environment over file, and that everything wrong is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

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

static void roce_is_v2_unless_it_is_asked_for(void **state)
{
	static const struct { const char *value; bool v1, v2; } known[] = {
		{ "", false, true }, { "v2", false, true }, { "v1", true, false }, { "both", true, true },
	};
	struct config config;

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		setenv("VERBATIM_ROCE", known[i].value, 1);
		assert_int_equal(config_load(&config), 0);
		assert_int_equal(config_has_roce_v1(&config), known[i].v1);
		assert_int_equal(config_has_roce_v2(&config), known[i].v2);
	}
	unsetenv("VERBATIM_ROCE");
}

static void wrong_lines_are_refused(void **state)
{
	static const char *const wrong[] = { "mtu\n", "mtu = 1000\n", "mtu = x\n", "mtu = -1\n",
					     "mtu =\n", "max_qp = 200000\n",
					     "malloc = some\n", "roce = v3\n", "roce = V1\n",
					     "colour = blue\n" };
	struct config config;
	unsigned i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_file(wrong[i]);
		assert_int_equal(config_load(&config), EINVAL);
	}
}

static void comments_may_stand_behind_values(void **state)
{
	struct config config;

	write_file("  # all of it\nmtu = 1024  # text\nmax_qp = 5\t# more # text\ndevices = "
			"eth0:a#b # c\n");
	assert_int_equal(config_load(&config), 0);
	assert_int_equal(config.mtu, 1024);
	assert_int_equal(config.max_qp, 5);
	assert_string_equal(config.devices, "eth0:a#b");
	write_file("mtu = # none\n");
	assert_int_equal(config_load(&config), EINVAL);
}

/* Its end is not a line of its own. */
static void too_long_a_line_is_refused(void **state)
{
	struct config config;
	char text[3000];

	memset(text, ' ', sizeof(text));
	text[0] = '#';
	strcpy(text + 2000, "mtu = 512\nmax_qp = 5\n");
	write_file(text);
	assert_int_equal(config_load(&config), EINVAL);
	memset(text + 1, 'x', 1000);
	strcpy(text + 1000, "\nmtu = 512\n");
	write_file(text);
	assert_int_equal(config_load(&config), 0);
	assert_int_equal(config.mtu, 512);
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
	assert_int_equal(config_load(&config), EINVAL);
}

/* ---- set-id programs ---- */

#define NOBODY 65534
enum { OBEYED = 1, NOT_SECURE };

/* What a set-id copy of this program does. */
static int be_set_id(void)
{
	struct config config;

	if (!getauxval(AT_SECURE))
		return NOT_SECURE;
	return config_load(&config) || config.mtu != 4096 ? OBEYED : 0;
}

static void copy_program(const char *to)
{
	char command[200];

	snprintf(command, sizeof(command), "cp -L /proc/%d/exe %s", (int)getpid(), to);
	assert_int_equal(system(command), 0);
	assert_int_equal(chown(to, NOBODY, NOBODY), 0);
	assert_int_equal(chmod(to, 04755), 0);
}

static void a_set_id_program_does_not_obey_who_starts_it(void **state)
{
	char copy[64];
	int status;
	pid_t pid;

	if (getuid()) {
		print_message("SKIPPED: only root can make a program of another user\n");
		skip();
	}
	snprintf(copy, sizeof(copy), "%s-set-id", path);
	copy_program(copy);
	write_file("no such setting = 5\n");
	setenv("VERBATIM_TYPO", "1", 1);
	setenv("VERBATIM_MTU", "512", 1);
	pid = fork();
	if (!pid) {
		execl(copy, copy, "set-id", NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(copy);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_SECURE) {
		print_message("SKIPPED: set-id programs are none here (nosuid)\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(without_settings_the_standard_holds, clear),
		cmocka_unit_test_teardown(the_environment_wins_over_the_file, clear),
		cmocka_unit_test_teardown(roce_is_v2_unless_it_is_asked_for, clear),
		cmocka_unit_test_teardown(wrong_lines_are_refused, clear),
		cmocka_unit_test_teardown(comments_may_stand_behind_values, clear),
		cmocka_unit_test_teardown(too_long_a_line_is_refused, clear),
		cmocka_unit_test_teardown(an_unknown_variable_is_refused, clear),
		cmocka_unit_test_teardown(a_file_that_is_not_there_is_an_error, clear),
		cmocka_unit_test_teardown(a_set_id_program_does_not_obey_who_starts_it, clear),
	};
	int failed;

	if (argc == 2 && !strcmp(argv[1], "set-id"))
		_exit(be_set_id());	/* no leak checker: it would have to trace this */
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);	/* not the file of who runs this */
	close(mkstemp(path));
	clear(NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
