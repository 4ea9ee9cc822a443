/* SPDX-License-Identifier: BSD-2-Clause */
/* The bar of work that takes long, on a pseudo-terminal of 80 and of 12 columns, and where there is none. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "progress.h"

static char seen[4096];

/* Half of it takes longer than one waits without a bar, the rest is done at once. */
static void work(void)
{
	static const char what[] = "reading";
	const struct timespec nap = { .tv_nsec = 20000000 };

	for (unsigned i = 0; i < 40; i++) {
		progress_show(what, i, 80);
		nanosleep(&nap, NULL);
	}
	progress_show(what, 80, 80);
	progress_hide();
}

static void work_on_terminal(unsigned short columns)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	int terminal = posix_openpt(O_RDWR | O_NOCTTY), other, kept = dup(STDERR_FILENO);
	size_t bytes = 0;
	ssize_t got;

	assert_true(terminal >= 0 && kept >= 0);
	assert_int_equal(grantpt(terminal) || unlockpt(terminal), 0);
	other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_true(other >= 0);
	assert_int_equal(ioctl(other, TIOCSWINSZ, &size), 0);
	assert_int_equal(dup2(other, STDERR_FILENO), STDERR_FILENO);
	work();
	fflush(stderr);
	assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(write(other, "\n", 1), 1);
	do {
		got = read(terminal, seen + bytes, sizeof(seen) - 1 - bytes);
		assert_true(got > 0);
		bytes += (size_t)got;
	} while (!memchr(seen, '\n', bytes));
	seen[bytes] = '\0';
	close(other);
	close(terminal);
	close(kept);
}

static void a_bar_says_how_much_is_done_and_goes(void **state)
{
	const char *first;

	work_on_terminal(80);
	first = strstr(seen, "\rreading [");
	assert_ptr_equal(first, seen);
	assert_non_null(strstr(seen, "#"));
	assert_non_null(strstr(seen, ".] "));
	assert_non_null(strstr(seen, "\r\033[K"));
	assert_null(strstr(strstr(seen, "\r\033[K") + 4, "reading"));
}

static void it_fits_a_narrow_terminal(void **state)
{
	char *line, *rest = seen;

	work_on_terminal(12);
	assert_non_null(strchr(seen, '%'));
	while ((line = strsep(&rest, "\r\n")))
		assert_true(strlen(line) < 12);
}

static void where_there_is_no_terminal_there_is_none(void **state)
{
	int pair[2], kept = dup(STDERR_FILENO);
	char byte;

	assert_int_equal(pipe2(pair, O_NONBLOCK), 0);
	assert_int_equal(dup2(pair[1], STDERR_FILENO), STDERR_FILENO);
	work();
	fflush(stderr);
	assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(read(pair[0], &byte, 1), -1);
	close(pair[0]);
	close(pair[1]);
	close(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bar_says_how_much_is_done_and_goes),
		cmocka_unit_test(it_fits_a_narrow_terminal),
		cmocka_unit_test(where_there_is_no_terminal_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
