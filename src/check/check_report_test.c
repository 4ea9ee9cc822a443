/* SPDX-License-Identifier: BSD-2-Clause */
/* What VERBATIM_CHECK takes and refuses, and the files that it names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/small_file.h"
#include "check/report.h"
#include "object/test_support.h"

static char folder[] = "/tmp/check_report_test.XXXXXX";
static char path[sizeof(folder) + 8];

static const char *refusal_of(const char *text)
{
	struct listening heard;
	struct check_options options;

	explanation_begin(&heard);
	assert_int_equal(check_options_read(text, &options), EINVAL);
	return explanation_end(&heard);
}

static void a_number_of_reports_is_one(void **state)
{
	struct check_options options;

	assert_int_equal(check_options_read("max-reports=4294967295", &options), 0);
	assert_int_equal(options.max_reports, UINT32_MAX);
	assert_mentions(refusal_of("max-reports=4294967297"), "'max-reports=4294967297' is not understood");
	refusal_of("max-reports=18446744073709551617");
	refusal_of("max-reports=0");
	refusal_of("max-reports=");
	refusal_of("max-reports=-1");
	refusal_of("max-reports=1x");
}

/* What is said of the file at @path that has suppressions; "": nothing, and it is taken. */
static const char *said_of_suppressions(void)
{
	struct check_options options;
	struct listening heard;
	char word[64];
	const char *said;
	int err;

	snprintf(word, sizeof(word), "suppress=%s", path);
	assert_int_equal(check_options_read(word, &options), 0);
	explanation_begin(&heard);
	err = check_report_start(&options);
	said = explanation_end(&heard);
	assert_int_equal(err, *said ? EINVAL : 0);
	unlink(path);
	return said;
}

static void write_file(const char *text, size_t bytes)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void suppressions_are_read_whole(void **state)
{
	static char text[SMALL_FILE_MAX + 1];

	memset(text, '#', sizeof(text));
	memcpy(text + SMALL_FILE_MAX - 8, "\nRV-X a", 7);
	write_file(text, SMALL_FILE_MAX);
	assert_mentions(said_of_suppressions(), "line 2: expected function=");
	write_file(text, sizeof(text));
	assert_mentions(said_of_suppressions(), "larger than 1 MiB");
	write_file("RV-WC-001\n\0RV-X a\n", 18);
	assert_mentions(said_of_suppressions(), "no text");
	write_file("", 0);
	assert_string_equal(said_of_suppressions(), "");
}

static void what_is_no_file_is_not_waited_for(void **state)
{
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_mentions(said_of_suppressions(), "it is a pipe");
	assert_mentions(said_of_suppressions(), "No such file");
}

static void lost_findings_are_told_once(void **state)
{
	struct check_options options;
	struct listening heard;
	const char *said;
	char word[64];

	snprintf(word, sizeof(word), "report=%s", path);
	assert_int_equal(check_options_read(word, &options), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	explanation_begin(&heard);
	assert_int_equal(check_report_start(&options), 0);
	check_report_begin();
	check_report_end();
	said = explanation_end(&heard);
	assert_mentions(said, "findings are lost");
	assert_null(strstr(strstr(said, "findings are lost") + 1, "findings are lost"));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_of_reports_is_one),
		cmocka_unit_test(suppressions_are_read_whole),
		cmocka_unit_test(what_is_no_file_is_not_waited_for),
		cmocka_unit_test(lost_findings_are_told_once),
	};
	int failed;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
