/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files are read, how much of them, and that none is waited for. */
#include "base/small_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/verbatim-small-XXXXXX";
static char path[64];

static size_t bytes_of(const char *name)
{
	static char text[SMALL_FILE_MAX + 16];
	const char *why = NULL;
	int fd = small_file_open(name, &why);
	FILE *stream;
	size_t bytes;

	assert_true(fd >= 0);
	stream = small_file_stream(fd, &why);
	assert_non_null(stream);
	assert_null(why);
	bytes = fread(text, 1, sizeof(text), stream);
	assert_int_equal(fclose(stream), 0);
	return bytes;
}

static void refused(const char *name, const char *word)
{
	const char *why = NULL;

	assert_int_equal(small_file_open(name, &why), -1);
	assert_int_not_equal(errno, 0);
	assert_non_null(why);
	assert_non_null(strstr(why, word));
}

static void make(size_t bytes)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	while (bytes--)
		fputc('x', file);
	fclose(file);
}

static void a_file_is_read_whole_up_to_the_bound(void **state)
{
	static const size_t sizes[] = { 0, 1, 5000, SMALL_FILE_MAX };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make(sizes[i]);
		assert_int_equal(bytes_of(path), sizes[i]);
	}
	make(SMALL_FILE_MAX + 1);
	refused(path, "larger than 1 MiB");
	assert_int_equal(bytes_of("/dev/null"), 0);
}

static void what_is_no_regular_file_is_refused_at_once(void **state)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	refused("/dev/zero", "a device");
	refused("/dev/random", "a device");
	refused("/", "a directory");
	unlink(path);
	refused(path, "No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(path, "a pipe");
	unlink(path);
	strcpy(name.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	refused(path, "");		/* it cannot be opened */
	close(fd);
}

/* They have no size: what is read counts. */
static void files_of_proc_are_bounded_by_what_is_read(void **state)
{
	assert_true(bytes_of("/proc/self/status") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read_whole_up_to_the_bound),
		cmocka_unit_test(what_is_no_regular_file_is_refused_at_once),
		cmocka_unit_test(files_of_proc_are_bounded_by_what_is_read),
	};
	int failed;

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/file", folder);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(folder);
	return failed;
}
