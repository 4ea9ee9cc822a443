/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim top [--batch ROUNDS] [--delay SECONDS] [PID | PROGRAM | DEVICE]: what processes do, live (top.h). Of
 * one process its queue pairs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "top.h"

#define LINE_BYTES 1024u

struct options {
	const char *what;
	unsigned delay_ms, rounds;	/* rounds: 0: on the terminal */
};

static void sleep_ms(unsigned ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&left, &left))
		;
}

static bool is_process(const char *what)
{
	return what && *what && strspn(what, "0123456789") == strlen(what);
}

static void print_table(const struct top_table *table, const struct top_order *order, unsigned round)
{
	char line[LINE_BYTES];
	unsigned room = output_columns();

	printf("%sround %u, %s %u\n", round > 1 ? "\n" : "", round, table->kind == TOP_QPS ? "QPs" : "processes",
	       table->rows);
	top_line(table, NULL, order, room, line, sizeof(line));
	printf("%s\n", line);
	for (unsigned i = 0; i < table->rows; i++) {
		top_line(table, &table->row[i], order, room, line, sizeof(line));
		printf("%s\n", line);
	}
	fflush(stdout);
}

/* 0 or 1, said on stderr. */
static int print_round(enum top_kind kind, struct top_sample *now,
		       const struct top_sample *before, unsigned round)
{
	struct top_order order = top_order_default(kind);
	struct top_table table;

	if (now->err || !top_table_make(&table, kind, now, before, "", &order)) {
		fprintf(stderr, "verbatim top: %s\n", now->err ? now->observed.why : "out of memory");
		return EXIT_FAILURE;
	}
	if (kind == TOP_QPS && !now->observed.shown) {
		fprintf(stderr, "verbatim top: %s\n", now->observed.process[0].process.why);
		top_table_free(&table);
		return EXIT_FAILURE;
	}
	print_table(&table, &order, round);
	top_table_free(&table);
	if (!ferror(stdout))
		return 0;
	fprintf(stderr, "verbatim top: the output cannot be written: %m\n");
	return EXIT_FAILURE;
}

/* The rates of the first round are of the delay before it. */
static int top_batch(const struct options *options)
{
	enum top_kind kind = is_process(options->what) ? TOP_QPS : TOP_PROCESSES;
	struct top_sample before = { .time_ns = 0 }, now = { .time_ns = 0 };
	int status = 0;

	top_sample_take(&before, kind, options->what);
	if (before.err)
		status = print_round(kind, &before, &before, 1);
	for (unsigned round = 1; !status && round <= options->rounds; round++) {
		sleep_ms(options->delay_ms);
		top_sample_take(&now, kind, options->what);
		status = print_round(kind, &now, &before, round);
		top_sample_free(&before);
		before = now;
		now = (struct top_sample){ .time_ns = 0 };
	}
	top_sample_free(&before);
	return status;
}

static bool read_value(const char *text, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && *value >= least && *value <= most;
}

/* 0, or EXIT_USAGE after a line on stderr. */
static int parse(int argc, char **argv, struct options *options)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;
	double value;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--batch")) {
			if (!read_value(reader.value, 1, 1e9, &value))
				return usage_error("top", "--batch '%s': expected a number of rounds",
						   reader.value);
			options->rounds = (unsigned)value;
		} else if (!strcmp(word, "--delay")) {
			if (!read_value(reader.value, 0.1, 3600, &value))
				return usage_error("top", "--delay '%s': expected seconds, 0.1 to 3600",
						   reader.value);
			options->delay_ms = (unsigned)(value * 1000);
		} else if (options->what) {
			return usage_error("top", "one PID, PROGRAM or DEVICE at most, not '%s' as well",
					   reader.value);
		} else {
			options->what = reader.value;
		}
	}
	return reader.wrong ? EXIT_USAGE : 0;
}

int top_command(int argc, char **argv)
{
	struct options options = { .delay_ms = 1000 };

	if (parse(argc, argv, &options))
		return EXIT_USAGE;
	if (options.rounds)
		return top_batch(&options);
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return top_screen(options.what, options.delay_ms);
	fprintf(stderr, "verbatim top: it needs a terminal; for text: verbatim top --batch ROUNDS, or verbatim "
		"stats\n");
	return EXIT_FAILURE;
}
