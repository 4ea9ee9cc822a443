/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two voices write, read back through a pipe in place of stderr.
 */
#include "base/lock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char heard[65536], expected[4096];
static int saved_stderr, reader;

static void listen_to_stderr(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	saved_stderr = dup(STDERR_FILENO);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	reader = ends[0];
}

/* Ends listening; what was said is in heard[]. A pipe holds 64 KiB: no test says more. */
static void stop_listening(void)
{
	size_t used = 0;
	ssize_t more;

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	while ((more = read(reader, heard + used, sizeof(heard) - 1 - used)) > 0)
		used += (size_t)more;
	heard[used] = '\0';
	close(reader);
}

/* @text with the prefix of this program before each of its lines. */
static const char *prefixed(const char *text)
{
	char prefix[64];
	size_t used = 0, length = (size_t)snprintf(prefix, sizeof(prefix), "verbatim: %s(%d): ",
						   program_invocation_short_name, (int)getpid());

	for (bool begins = true; *text; begins = *text++ == '\n') {
		if (begins) {
			memcpy(expected + used, prefix, length);
			used += length;
		}
		expected[used++] = *text;
	}
	expected[used] = '\0';
	return expected;
}

static int init_with(const char *log, const char *explanations)
{
	int err;

	unsetenv("VERBATIM_LOG");
	unsetenv("VERBATIM_EXPLAIN");
	if (log)
		setenv("VERBATIM_LOG", log, 1);
	if (explanations)
		setenv("VERBATIM_EXPLAIN", explanations, 1);
	listen_to_stderr();
	err = log_init();
	stop_listening();
	return err;
}

static void both_voices_are_silent_by_default(void **unused)
{
	assert_int_equal(init_with(NULL, NULL), 0);
	assert_int_equal(log_level, LOG_OFF);
	assert_false(explain_enabled);
	assert_string_equal(heard, "");
	listen_to_stderr();
	log_error("no");
	explain("no");
	stop_listening();
	assert_string_equal(heard, "");
}

static void each_level_is_taken_by_its_name(void **unused)
{
	static const struct {
		const char *name;
		enum log_level level;
	} names[] = {
		{ "", LOG_OFF }, { "off", LOG_OFF }, { "error", LOG_ERROR },
		{ "warn", LOG_WARN }, { "info", LOG_INFO }, { "debug", LOG_DEBUG },
		{ "packet", LOG_PACKET },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(init_with(names[i].name, NULL), 0);
		assert_int_equal(log_level, names[i].level);
	}
}

static void explanations_are_switched_by_one_and_zero(void **unused)
{
	assert_int_equal(init_with(NULL, "1"), 0);
	assert_true(explain_enabled);
	assert_int_equal(init_with(NULL, "0"), 0);
	assert_false(explain_enabled);
}

static char listened[256];

/* The record: its object and work request, its key, its words. */
static void note_line(const struct explained *explained)
{
	const struct explain_object *of = &explained->of;
	int used = snprintf(listened, sizeof(listened), "%s %llu", explain_kind_name(of->kind),
			    (unsigned long long)of->number);

	if (of->has_wr_id)
		used += snprintf(listened + used, sizeof(listened) - (size_t)used, " wr_id %llu",
				 (unsigned long long)of->wr_id);
	snprintf(listened + used, sizeof(listened) - (size_t)used, " [%s] %.*s",
		 explained->key ? explained->key : "", (int)explained->bytes, explained->line);
}

static void a_listener_hears_what_is_not_printed(void **unused)
{
	assert_int_equal(init_with(NULL, NULL), 0);
	log_listen(note_line);
	listen_to_stderr();
	explain_of(OF(CQ, 7), "one %d", 1);
	assert_string_equal(listened, "cq 7 [] one 1");
	explain_refused_of("ibv_post_recv", ENOMEM, OF_WR(SRQ, 3, 99), "full");
	assert_string_equal(listened, "srq 3 wr_id 99 [ENOMEM ibv_post_recv] full "
				      "(verbatim explain ENOMEM ibv_post_recv)");
	stop_listening();
	assert_string_equal(heard, "");
	/* Another device is opened: it still listens. */
	assert_int_equal(init_with(NULL, NULL), 0);
	assert_true(explain_enabled);
	assert_int_equal(init_with(NULL, "1"), 0);
	listen_to_stderr();
	explain_about("RNR", OF(QP, 0x12), "two");
	stop_listening();
	assert_string_equal(listened, "qp 18 [RNR] two (verbatim explain RNR)");
	assert_non_null(strstr(heard, "two (verbatim explain RNR)"));
	log_listen(NULL);
	assert_true(explain_enabled);
	assert_int_equal(init_with(NULL, NULL), 0);
	assert_false(explain_enabled);
}

static void wrong_values_are_refused_and_the_right_ones_named(void **unused)
{
	assert_int_equal(init_with("verbose", "yes"), EINVAL);
	assert_string_equal(heard, prefixed(
		"VERBATIM_LOG: invalid value 'verbose': expected off, error, warn, info,"
		" debug or packet\nVERBATIM_EXPLAIN: invalid value 'yes': expected 0 or 1\n"));
	assert_int_equal(init_with("warn", NULL), 0);
	assert_int_equal(init_with("Error", NULL), EINVAL);
	assert_int_equal(log_level, LOG_WARN);
}

static void an_explanation_is_one_line_with_errno_as_it_was(void **unused)
{
	init_with(NULL, "1");
	listen_to_stderr();
	errno = ENOENT;
	explain("reg_mr: %m\nand \x1b more");
	assert_int_equal(errno, ENOENT);
	stop_listening();
	assert_string_equal(heard, prefixed("reg_mr: No such file or directory?and ? more\n"));
}

static void a_log_line_names_process_level_and_message(void **unused)
{
	char level[16], message[32];
	int pid;

	init_with("info", NULL);
	listen_to_stderr();
	log_debug("more than was asked for");
	errno = EBUSY;
	log_warn("qpn 0x%06x: %m", 17);
	assert_int_equal(errno, EBUSY);
	stop_listening();
	assert_int_equal(sscanf(heard, "verbatim: log_test(%d): %*d.%*d %15[a-z]: %31[^\n]", &pid,
				level, message), 3);
	assert_int_equal(pid, getpid());
	assert_string_equal(level, "warn");
	assert_string_equal(message, "qpn 0x000011: Device or resourc");
	assert_ptr_equal(strchr(heard, '\n'), heard + strlen(heard) - 1);
}

static void too_long_a_line_is_cut_with_dots(void **unused)
{
	char text[3000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	init_with(NULL, "1");
	listen_to_stderr();
	explain("%s", text);
	stop_listening();
	assert_in_range(strlen(heard), 1000, 1024);
	assert_string_equal(heard + strlen(heard) - 5, "x...\n");
}

static void *speak(void *word)
{
	for (int i = 0; i < 100; i++)
		explain_of(OF(QP, (unsigned)i), "%s %s %s %d", (char *)word, (char *)word, (char *)word, i);
	return NULL;
}

static void lines_of_several_threads_do_not_mix(void **unused)
{
	static char words[][4] = { "one", "two", "six" };
	pthread_t thread[3];
	int lines = 0, number;

	init_with(NULL, "1");
	listen_to_stderr();
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, speak, words[i]), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	stop_listening();
	for (char *line = strtok(heard, "\n"); line; line = strtok(NULL, "\n"), lines++)
		assert_true(sscanf(line, "verbatim: log_test(%*d): one one one %d", &number) == 1 ||
			    sscanf(line, "verbatim: log_test(%*d): two two two %d", &number) == 1 ||
			    sscanf(line, "verbatim: log_test(%*d): six six six %d", &number) == 1);
	assert_int_equal(lines, 300);
}

/* What waits in stderr is in heard[], and listening goes on. */
static void hear_so_far(void)
{
	stop_listening();
	listen_to_stderr();
}

static void nothing_is_written_while_a_lock_is_held(void **unused)
{
	struct lock outer = LOCK_INITIALIZER, inner = LOCK_INITIALIZER;

	init_with("info", "1");
	listen_to_stderr();
	lock_acquire(&outer);
	explain("first");
	if (lock_try(&inner)) {
		errno = ENOENT;
		explain("second: %m");
		lock_release(&inner);
	}
	explain("third");
	hear_so_far();
	assert_string_equal(heard, "");
	lock_release(&outer);
	assert_int_equal(errno, ENOENT);
	hear_so_far();
	assert_string_equal(heard, prefixed("first\nsecond: No such file or directory\nthird\n"));
	explain("fourth");
	stop_listening();
	assert_string_equal(heard, prefixed("fourth\n"));
}

/* More than can be kept: none is lost, in their order. */
static void many_lines_do_not_wait(void **unused)
{
	char *line, *rest = heard;
	struct lock lock = LOCK_INITIALIZER;
	unsigned i, n;

	init_with(NULL, "1");
	listen_to_stderr();
	lock_acquire(&lock);
	for (i = 0; i < 500; i++)
		explain_of(OF(CQ, i), "%u", i);
	lock_release(&lock);
	stop_listening();
	for (i = 0; (line = strtok_r(rest, "\n", &rest)); i++)
		assert_true(sscanf(line, "verbatim: log_test(%*d): %u", &n) == 1 && n == i);
	assert_int_equal(i, 500);
}

/* A lock that fork() finds held is initialised anew by the child; its parent's lines are its parent's. */
static void a_child_starts_with_nothing_to_say(void **unused)
{
	struct lock lock = LOCK_INITIALIZER;
	char lines[256];
	int status;
	pid_t pid;

	init_with(NULL, "1");
	listen_to_stderr();
	lock_acquire(&lock);
	explain("parent");
	pid = fork();
	if (!pid) {
		lock_init(&lock);
		explain("child");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	lock_release(&lock);
	stop_listening();
	snprintf(lines, sizeof(lines), "verbatim: %1$s(%2$d): child\nverbatim: %1$s(%3$d): parent\n",
		 program_invocation_short_name, (int)pid, (int)getpid());
	assert_string_equal(heard, lines);
}

/* What a child process writes that runs @speech and exits, on a terminal of its own. */
static void hear_from_child(const char *explanations, void (*speech)(void))
{
	int status, terminal = posix_openpt(O_RDWR | O_NOCTTY), side;
	size_t used = 0;
	ssize_t more;
	pid_t pid;

	assert_true(terminal >= 0);
	assert_int_equal(grantpt(terminal), 0);
	assert_int_equal(unlockpt(terminal), 0);
	side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_true(side >= 0);
	init_with(NULL, explanations);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(side, STDERR_FILENO);
		speech();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(side);
	while ((more = read(terminal, heard + used, sizeof(heard) - 1 - used)) > 0)
		used += (size_t)more;
	heard[used] = '\0';
	close(terminal);
}

static void refuse_twice(void)
{
	explain_refused("ibv_modify_qp", EINVAL, "no");
	explain_about("RNR", OF_NOTHING, "no");
}

static void look_around(void)
{
	explain("not there");
}

static void repeat_a_line(void)
{
	for (int i = 0; i < 119; i++)
		explain("wr_id 0x%x: full", i);
}

static void a_terminal_gets_one_hint_when_nothing_is_explained(void **unused)
{
	hear_from_child(NULL, refuse_twice);
	assert_non_null(strstr(heard, "): RDMA calls or requests failed: VERBATIM_EXPLAIN=1 says why"));
	assert_ptr_equal(strchr(heard, '\n'), heard + strlen(heard) - 1);
	hear_from_child("0", refuse_twice);
	assert_string_equal(heard, "");
	hear_from_child(NULL, look_around);
	assert_string_equal(heard, "");
	hear_from_child("1", refuse_twice);
	assert_null(strstr(heard, "VERBATIM_EXPLAIN"));
}

static void repeated_lines_are_counted_until_another_comes_or_the_end(void **unused)
{
	init_with(NULL, "1");
	listen_to_stderr();
	repeat_a_line();
	explain("another");
	stop_listening();
	assert_string_equal(heard, prefixed("wr_id 0x0: full\nrepeated 118 times: wr_id 0x0: "
			"full\nanother\n"));
	hear_from_child("1", repeat_a_line);
	assert_non_null(strstr(heard, "): repeated 118 times: wr_id 0x0: full"));
}

/* Other digits are no other explanation: what it is about makes one, whether or not the words name it. */
static void a_rule_is_said_once_of_each_object(void **unused)
{
	init_with(NULL, "1");
	listen_to_stderr();
	for (unsigned wr_id = 1; wr_id <= 3; wr_id++)
		explain_about("RNR", OF_WR(QP, 1, wr_id), "wr_id %u: %u waiting", wr_id, 10 * wr_id);
	explain_about("RNR", OF_WR(QP, 2, 1), "wr_id 1: 10 waiting");
	explain_about("RNR", OF_WR(QP, 2, 1), "wr_id %u: %u waiting", 1, 10);
	explain_about("RNR", OF_WR(SRQ, 2, 1), "wr_id %u: %u waiting", 1, 10);
	explain_about("RNR", OF_WR(SRQ, 2, 1), "wr_id %u: %u waiting for %s", 1, 10, "a");
	explain_about("RNR", OF_WR(SRQ, 2, 1), "wr_id %u: %u waiting for %s", 2, 20, "b");
	/* By a rule of its own, whatever the words are. */
	explain_print(&(const struct explanation){ .rule = "full", .of = OF(CQ, 1) }, "%s", "one");
	explain_print(&(const struct explanation){ .rule = "full", .of = OF(CQ, 1) }, "%s", "two");
	explain_print(&(const struct explanation){ .rule = "full", .of = OF(CQ, 2) }, "%s", "two");
	complain("of %u", 1);		/* to the letter */
	complain("of %u", 2);
	complain("of %u", 2);
	complain("the end");
	stop_listening();
#define RNR " (verbatim explain RNR)\n"
	assert_string_equal(heard, prefixed("wr_id 1: 10 waiting" RNR
		"repeated 2 times: wr_id 1: 10 waiting" RNR "wr_id 1: 10 waiting" RNR "wr_id 1: 10 waiting" RNR
		"wr_id 1: 10 waiting" RNR
		"wr_id 1: 10 waiting for a" RNR "wr_id 2: 20 waiting for b" RNR
		"one\nrepeated 1 time: one\ntwo\nof 1\nof 2\nrepeated 1 time: of 2\nthe end\n"));
}

static void *read_settings_often(void *refused)
{
	for (int i = 0; i < 200; i++)
		*(int *)refused |= log_init();
	return NULL;
}

/* ThreadSanitizer says what is wrong here. */
static void threads_read_the_settings_at_once(void **state)
{
	int refused[2] = { 0, 0 };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, read_settings_often, &refused[0]), 0);
	read_settings_often(&refused[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(refused[0] | refused[1], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_voices_are_silent_by_default),
		cmocka_unit_test(each_level_is_taken_by_its_name),
		cmocka_unit_test(explanations_are_switched_by_one_and_zero),
		cmocka_unit_test(a_listener_hears_what_is_not_printed),
		cmocka_unit_test(wrong_values_are_refused_and_the_right_ones_named),
		cmocka_unit_test(an_explanation_is_one_line_with_errno_as_it_was),
		cmocka_unit_test(a_log_line_names_process_level_and_message),
		cmocka_unit_test(too_long_a_line_is_cut_with_dots),
		cmocka_unit_test(lines_of_several_threads_do_not_mix),
		cmocka_unit_test(nothing_is_written_while_a_lock_is_held),
		cmocka_unit_test(many_lines_do_not_wait),
		cmocka_unit_test(a_child_starts_with_nothing_to_say),
		cmocka_unit_test(a_terminal_gets_one_hint_when_nothing_is_explained),
		cmocka_unit_test(a_rule_is_said_once_of_each_object),
		cmocka_unit_test(repeated_lines_are_counted_until_another_comes_or_the_end),
		cmocka_unit_test(threads_read_the_settings_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
