/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim check [OPTION]... [--] PROGRAM [ARGUMENT]...: runs the program, with its children, so
 * that what it calls is checked (src/check/), and sums up what they found, however they ended.
 *
 *	program and children --lines--> a temporary file --> summary and formats
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "tool.h"

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

struct options {
	/* NULL: not given */
	const char *json, *sarif, *junit, *suppress, *max_reports, *device;
	bool github, strict;
	int error_exitcode;	/* 0: the program's */
	int first;		/* of argv: the program */
};

static bool read_exitcode(const char *text, int *code)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*end || end == text || number < 1 || number > 255) {
		usage_error("check", "--error-exitcode %s: expected a number from 1 to 255", text);
		return false;
	}
	*code = (int)number;
	return true;
}

static bool device_is_good(const struct options *options)
{
	const char *device = options->device;
	bool known = !device;

#define PROFILE(name, named, about) known |= device && !strcmp(device, named);
#include "check/profile.def"
	if (!known) {
		usage_error("check", "--device %s: expected one of"
#define PROFILE(name, named, about) " " named
#include "check/profile.def"
			    ,
			    device);
		return false;
	}
	if (!options->strict || (device && strcmp(device, "ib")))
		return true;
	usage_error("check", "--strict: refuses what --device would not take, and ib reports only");
	return false;
}

/* False after a line on stderr. */
static bool parse(struct options *options, int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;

	options->first = argc;
	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--json"))
			options->json = reader.value;
		else if (!strcmp(word, "--sarif"))
			options->sarif = reader.value;
		else if (!strcmp(word, "--junit"))
			options->junit = reader.value;
		else if (!strcmp(word, "--github"))
			options->github = true;
		else if (!strcmp(word, "--suppress"))
			options->suppress = reader.value;
		else if (!strcmp(word, "--max-reports"))
			options->max_reports = reader.value;
		else if (!strcmp(word, "--device"))
			options->device = reader.value;
		else if (!strcmp(word, "--seed")) {
			usage_error("check",
				    "--seed %s: it is for tiers that change the order and the time "
				    "of what happens; state, the only one, changes neither",
				    reader.value);
			return false;
		} else if (!strcmp(word, "--strict"))
			options->strict = true;
		else if (!strcmp(word, "--error-exitcode")) {
			if (!read_exitcode(reader.value, &options->error_exitcode))
				return false;
		} else if (!strcmp(word, "--tier")) {
			if (strcmp(reader.value, "state")) {
				usage_error("check", "--tier %s: there is one: state",
					    reader.value);
				return false;
			}
		} else {
			options->first = reader.at - 1;
			break;
		}
	}
	if (reader.wrong || !device_is_good(options))
		return false;
	if (options->first < argc)
		return true;
	usage_error("check",
		    "no program given: verbatim check [OPTION]... [--] PROGRAM [ARGUMENT]...");
	return false;
}

/* The value of VERBATIM_CHECK: what follows it may not have a comma. */
static int setting_make(const struct options *options, const char *report, char *value, size_t size)
{
	char suppress[4096] = "";
	int length;

	if (options->suppress && !realpath(options->suppress, suppress)) {
		fprintf(stderr, "verbatim check: %s: %s\n", options->suppress, strerror(errno));
		return -1;
	}
	length = snprintf(value, size, "tier=state,report=%s%s%s%s%s%s%s%s", report,
			  options->device ? ",device=" : "", options->device ? options->device : "",
			  options->strict ? ",strict" : "", *suppress ? ",suppress=" : "", suppress,
			  options->max_reports ? ",max-reports=" : "",
			  options->max_reports ? options->max_reports : "");
	if (strchr(suppress, ',') || length < 0 || (size_t)length >= size) {
		fprintf(stderr, "verbatim check: %s: a path is too long, or has a comma\n",
			suppress);
		return -1;
	}
	return 0;
}

static _Noreturn void become_program(char **argv)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	execvp(argv[0], argv);
	fprintf(stderr, "verbatim check: %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

static volatile pid_t program_pid;

static void forward(int number)
{
	if (program_pid > 0)
		kill(program_pid, number);
}

/* As shells have it; a terminal sends SIGINT and SIGQUIT to the program, too: that decides whether
 * it ends. */
static int run_program(char **argv)
{
	int status;

	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	program_pid = fork();
	if (program_pid == 0)
		become_program(argv);
	if (program_pid < 0) {
		perror("verbatim check: fork");
		return EXIT_FAILURE;
	}
	signal(SIGTERM, forward);
	signal(SIGHUP, forward);
	while (waitpid(program_pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILURE;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* 0; -1 after a line on stderr. */
static int write_to(const char *path, const struct check_results *results,
		    void (*format)(FILE *file, const struct check_results *results))
{
	FILE *file;
	bool good;

	if (!path)
		return 0;
	file = fopen(path, "w");
	if (!file) {
		fprintf(stderr, "verbatim check: %s: %s\n", path, strerror(errno));
		return -1;
	}
	format(file, results);
	good = !ferror(file);
	good = !fclose(file) && good;
	if (!good)
		fprintf(stderr, "verbatim check: %s: it cannot be written: %s\n", path,
			strerror(errno));
	return good ? 0 : -1;
}

static int write_results(const struct options *options, const struct check_results *results)
{
	int err = write_to(options->json, results, check_write_json);

	err |= write_to(options->sarif, results, check_write_sarif);
	err |= write_to(options->junit, results, check_write_junit);
	if (options->github)
		check_write_github(stdout, results);
	return err;
}

int check_command(int argc, char **argv)
{
	static struct variable variables[VARIABLE_COUNT];
	struct options options = { 0 };
	struct check_results results = { 0 };
	const char *temporary = getenv("TMPDIR");
	char report[256], value[8192];
	int fd, status, err = EXIT_FAILURE;

	if (!parse(&options, argc, argv))
		return EXIT_USAGE;
	if (environment_make(variables, false))
		return EXIT_FAILURE;
	snprintf(report, sizeof(report), "%s/verbatim-check-XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	fd = mkstemp(report);
	if (fd < 0) {
		fprintf(stderr, "verbatim check: %s: %s\n", report, strerror(errno));
		return EXIT_FAILURE;
	}
	close(fd);
	if (!setting_make(&options, report, value, sizeof(value))) {
		for (int i = 0; i < VARIABLE_COUNT; i++)
			setenv(variables[i].name, variables[i].value, 1);
		setenv("VERBATIM_CHECK", value, 1);
		status = run_program(argv + options.first);
		err = check_read(report, &results) || write_results(&options, &results)
			      ? EXIT_FAILURE
			      : 0;
		check_summary(&results);
		if (results.count && options.error_exitcode)
			status = options.error_exitcode;
		err = status ? status : err;
		check_results_free(&results);
	}
	unlink(report);
	return err;
}
