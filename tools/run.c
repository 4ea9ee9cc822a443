/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim run [--rsockets] [--] PROGRAM [ARGUMENT]...: becomes the program, with the environment
 * that makes it use Verbatim, and with --rsockets its stream sockets too. No process stays behind to
 * watch it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

int run_command(int argc, char **argv)
{
	static struct variable variables[VARIABLE_COUNT];
	bool rsockets = argc > 1 && !strcmp(argv[1], "--rsockets");
	int first = 1 + rsockets;

	if (first < argc && !strcmp(argv[first], "--"))
		first++;
	else if (first < argc && argv[first][0] == '-')
		return usage_error("run", "has the option --rsockets, but was given '%s'; a program "
				   "of that name: verbatim run -- %s", argv[first], argv[first]);
	if (first >= argc)
		return usage_error("run", "which program? verbatim run [--rsockets] [--] PROGRAM "
				   "[ARGUMENT]...");

	if (environment_make(variables, rsockets))
		return EXIT_FAILURE;
	for (int i = 0; i < VARIABLE_COUNT; i++)
		setenv(variables[i].name, variables[i].value, 1);
	execvp(argv[first], argv + first);
	fprintf(stderr, "verbatim run: %s: %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
