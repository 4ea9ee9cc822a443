/* SPDX-License-Identifier: BSD-2-Clause */
/* Which file has the settings, when it is believed, and the parts of its lines. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

#define NOBODY 65534

static char home[] = "/tmp/verbatim-home-XXXXXX";
static char path[128];

static void write_settings(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, 0644), 0);
}

static int set_up(void **state)
{
	unsetenv("VERBATIM_CONFIG");
	unsetenv("VERBATIM_MTU");
	setenv("XDG_CONFIG_HOME", home, 1);
	unlink(path);
	return 0;
}

static unsigned loaded_mtu(void)
{
	struct config config;

	assert_int_equal(config_load(&config), 0);
	return config.mtu;
}

static void the_users_file_is_read_when_no_other_is_named(void **state)
{
	write_settings("mtu = 512\n");
	assert_int_equal(loaded_mtu(), 512);
	setenv("VERBATIM_MTU", "256", 1);
	assert_int_equal(loaded_mtu(), 256);
}

static void below_home_it_is_in_config(void **state)
{
	char directory[160], below[200];
	FILE *file;

	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", home, 1);
	snprintf(directory, sizeof(directory), "%s/.config", home);
	snprintf(below, sizeof(below), "%s/verbatim.conf", directory);
	assert_int_equal(mkdir(directory, 0700), 0);
	file = fopen(below, "w");
	assert_non_null(file);
	fputs("mtu = 1024\n", file);
	fclose(file);
	assert_int_equal(loaded_mtu(), 1024);
	setenv("HOME", ".", 1);		/* is nowhere in particular */
	assert_int_equal(loaded_mtu(), 4096);
	unlink(below);
	rmdir(directory);
}

static void it_need_not_be_there(void **state)
{
	assert_int_equal(loaded_mtu(), 4096);
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	assert_int_equal(loaded_mtu(), 4096);
}

static void an_empty_name_means_no_file(void **state)
{
	write_settings("mtu = 512\n");
	setenv("VERBATIM_CONFIG", "", 1);
	assert_int_equal(loaded_mtu(), 4096);
}

static void what_is_wrong_in_it_is_refused(void **state)
{
	struct config config;

	write_settings("mtu = 17\n");
	assert_int_equal(config_load(&config), EINVAL);
}

static void it_is_not_read_where_others_may_write_to_it(void **state)
{
	write_settings("mtu = 512\n");
	assert_int_equal(chmod(path, 0664), 0);
	assert_int_equal(loaded_mtu(), 4096);
	assert_int_equal(chmod(path, 0646), 0);
	assert_int_equal(loaded_mtu(), 4096);
	setenv("VERBATIM_CONFIG", path, 1);	/* who names it, wants it */
	assert_int_equal(loaded_mtu(), 512);
}

static void the_file_of_another_user_is_not_read(void **state)
{
	if (getuid()) {
		print_message("SKIPPED: only root can make a file of another user\n");
		skip();
	}
	write_settings("mtu = 512\n");
	assert_int_equal(chown(path, NOBODY, NOBODY), 0);
	assert_int_equal(loaded_mtu(), 4096);
}

static void refuse_named(const char *name)
{
	struct config config;

	setenv("VERBATIM_CONFIG", name, 1);
	assert_int_not_equal(config_load(&config), 0);
}

static void nobody_waits_at_a_fifo(void **state)
{
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(loaded_mtu(), 4096);
	setenv("VERBATIM_CONFIG", path, 1);	/* nor who names it: that is refused */
	refuse_named(path);
}

static void a_named_file_is_a_regular_one(void **state)
{
	refuse_named("/dev/zero");
	refuse_named("/");
	setenv("VERBATIM_CONFIG", "/dev/null", 1);
	assert_int_equal(loaded_mtu(), 4096);
	write_settings("mtu = 512\n");
	assert_int_equal(truncate(path, 2 << 20), 0);
	refuse_named(path);
	unsetenv("VERBATIM_CONFIG");	/* the user's own is passed over */
	assert_int_equal(loaded_mtu(), 4096);
}

static void expect_parts(const char *text, const char *key, const char *value)
{
	struct config_line line;

	assert_true(config_line_parse(text, &line));
	assert_int_equal(line.key_end - line.key, strlen(key));
	assert_memory_equal(text + line.key, key, strlen(key));
	assert_int_equal(line.has_value, value != NULL);
	if (value) {
		assert_int_equal(line.value_end - line.value, strlen(value));
		assert_memory_equal(text + line.value, value, strlen(value));
	}
}

static void a_line_has_a_key_and_a_value(void **state)
{
	struct config_line line;

	expect_parts("mtu=512\n", "mtu", "512");
	expect_parts(" devices =\teth0:a#b  # text = 3\n", "devices", "eth0:a#b");
	expect_parts("devices =", "devices", "");
	expect_parts("a b = c d", "a b", "c d");
	expect_parts("mtu # = 3\n", "mtu", NULL);
	expect_parts("= 3", "", "3");
	assert_false(config_line_parse("", &line));
	assert_false(config_line_parse(" \t\r\n", &line));
	assert_false(config_line_parse("  # mtu = 3", &line));
	assert_false(config_line_parse("#", &line));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_users_file_is_read_when_no_other_is_named, set_up),
		cmocka_unit_test_setup(below_home_it_is_in_config, set_up),
		cmocka_unit_test_setup(it_need_not_be_there, set_up),
		cmocka_unit_test_setup(an_empty_name_means_no_file, set_up),
		cmocka_unit_test_setup(what_is_wrong_in_it_is_refused, set_up),
		cmocka_unit_test_setup(it_is_not_read_where_others_may_write_to_it, set_up),
		cmocka_unit_test_setup(the_file_of_another_user_is_not_read, set_up),
		cmocka_unit_test_setup(nobody_waits_at_a_fifo, set_up),
		cmocka_unit_test_setup(a_named_file_is_a_regular_one, set_up),
		cmocka_unit_test_setup(a_line_has_a_key_and_a_value, set_up),
	};
	int failed;

	if (!mkdtemp(home))
		return 1;
	snprintf(path, sizeof(path), "%s/verbatim.conf", home);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(home);
	return failed;
}
