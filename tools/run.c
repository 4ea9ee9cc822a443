/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim run [--] PROGRAM [ARGUMENT]...: becomes the program, with the environment that makes
 * it use Verbatim. No process stays behind to watch it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

int run_command(int argc, char **argv)
{
	static struct variable variables[VARIABLE_COUNT];
	int first = 1;

	if (argc > 1 && !strcmp(argv[1], "--"))
		first = 2;
	else if (argc > 1 && argv[1][0] == '-')
		return usage_error("run", "takes no options, but was given '%s'; a program of "
				   "that name: verbatim run -- %s", argv[1], argv[1]);
	if (first >= argc)
		return usage_error("run", "which program? verbatim run [--] PROGRAM [ARGUMENT]...");

	if (environment_make(variables))
		return EXIT_FAILURE;
	for (int i = 0; i < VARIABLE_COUNT; i++)
		setenv(variables[i].name, variables[i].value, 1);
	execvp(argv[first], argv + first);
	fprintf(stderr, "verbatim run: %s: %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
