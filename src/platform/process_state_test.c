/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of another process: a child that is stopped, goes on, and ends. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/fail.h"
#include "platform/process_state.h"

/* Its name would be taken for a state by who looks for the first parenthesis. */
static pid_t child_start(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "a) T (b");
		for (;;)
			pause();
	}
	return pid;
}

static void a_stopped_process_is_told_from_one_that_runs(void **state)
{
	pid_t pid = child_start();

	assert_int_equal(process_state(pid), PROCESS_RUNS);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_equal(process_state(pid), PROCESS_STOPPED);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, NULL, WCONTINUED), pid);
	assert_int_equal(process_state(pid), PROCESS_RUNS);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* As where /proc hides it: whether there is such a process is known from elsewhere. */
	assert_int_equal(process_state(pid), PROCESS_UNKNOWN);
}

static void what_is_hidden_is_unknown(void **state)
{
	assert_int_equal(process_state(0), PROCESS_UNKNOWN);
	assert_int_equal(process_state(-1), PROCESS_UNKNOWN);
	fail_set(FAIL_PROC, 1, EACCES);
	assert_int_equal(process_state(getpid()), PROCESS_UNKNOWN);
	fail_clear();
	assert_int_equal(process_state(getpid()), PROCESS_RUNS);
}

static void every_state_has_words(void **state)
{
	int each;

	for (each = PROCESS_UNKNOWN; each <= PROCESS_ENDED; each++)
		assert_true(strlen(process_state_name((enum process_state)each)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stopped_process_is_told_from_one_that_runs),
		cmocka_unit_test(what_is_hidden_is_unknown),
		cmocka_unit_test(every_state_has_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
