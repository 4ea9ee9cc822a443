/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim run [OPTION]... [--] PROGRAM [ARGUMENT]...: becomes the program, with the environment
 * that makes it use Verbatim. No process stays behind to watch it.
 *
 *	--rsockets		its stream sockets use it, too
 *	--no-shared-malloc	its page-aligned memory stays ordinary: VERBATIM_MALLOC=private
 *	--fault RULES		faults on purpose: VERBATIM_FAULT=RULES
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

struct options {
	bool rsockets, no_shared_malloc;
	const char *fault;		/* or NULL */
};

/* The index of the program in @argv, or -1 after a line on stderr. */
static int parse(int argc, char **argv, struct options *options)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--rsockets")) {
			options->rsockets = true;
		} else if (!strcmp(argv[i], "--no-shared-malloc")) {
			options->no_shared_malloc = true;
		} else if (!strcmp(argv[i], "--fault") && i + 1 < argc) {
			options->fault = argv[++i];
		} else if (!strncmp(argv[i], "--fault=", 8)) {
			options->fault = argv[i] + 8;
		} else if (!strcmp(argv[i], "--fault")) {
			usage_error("run", "--fault needs rules: verbatim run --fault loss=0.01 PROGRAM; verbatim(7), "
				    "FAULTS ON PURPOSE");
			return -1;
		} else {
			usage_error("run", "no option '%s'; options: --rsockets, "
				    "--no-shared-malloc, --fault RULES; to run a program of that name: verbatim "
				    "run -- %s", argv[i], argv[i]);
			return -1;
		}
	}
	return i;
}

int run_command(int argc, char **argv)
{
	static struct variable variables[VARIABLE_COUNT];
	struct options options = { 0 };
	int first = parse(argc, argv, &options);

	if (first < 0)
		return EXIT_USAGE;
	if (first >= argc)
		return usage_error("run", "no program given: verbatim run [--rsockets] "
				   "[--no-shared-malloc] [--fault RULES] [--] PROGRAM [ARGUMENT]...");

	if (environment_make(variables, options.rsockets))
		return EXIT_FAILURE;
	for (int i = 0; i < VARIABLE_COUNT; i++)
		setenv(variables[i].name, variables[i].value, 1);
	if (options.no_shared_malloc)
		setenv("VERBATIM_MALLOC", "private", 1);
	if (options.fault)
		setenv("VERBATIM_FAULT", options.fault, 1);
	execvp(argv[first], argv + first);
	fprintf(stderr, "verbatim run: %s: %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
