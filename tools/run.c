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

#include "program.h"
#include "tool.h"

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

struct options {
	bool rsockets, no_shared_malloc;
	const char *fault;		/* or NULL */
};

/* The index of the program in @argv, argc if there is none, or -1 after a line on stderr. */
static int parse(int argc, char **argv, struct options *options)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--rsockets"))
			options->rsockets = true;
		else if (!strcmp(word, "--no-shared-malloc"))
			options->no_shared_malloc = true;
		else if (!strcmp(word, "--fault"))
			options->fault = reader.value;
		else
			return reader.at - 1;
	}
	return reader.wrong ? -1 : argc;
}

/* Said before the program starts: afterwards it would only find no device. */
static void warn_of(const char *name)
{
	static struct program program;
	enum program_obstacle obstacle;
	char text[PATH_MAX + 64];

	if (program_read(name, &program))
		return;		/* execvp() says it */
	obstacle = program_obstacle(&program);
	if (obstacle == PROGRAM_FINE || obstacle == PROGRAM_BROKEN)
		return;
	fprintf(stderr, "verbatim run: warning: %s %s: %s; %s\n", program.path,
		program_found(&program, text, sizeof(text)), program_consequence(obstacle),
		program_remedy(obstacle));
}

/* rdma(8) of iproute2 asks the kernel by netlink, which knows none of our devices: it would print nothing. */
static void name_ours(char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	char **word = argv + 1;
	bool counts;

	if (strcmp(name, "rdma"))
		return;
	while (*word && **word == '-')
		word++;
	counts = *word && (!strncmp(*word, "res", 3) || !strncmp(*word, "st", 2));
	fprintf(stderr, "verbatim run: rdma asks the kernel, which has no device of Verbatim: use verbatim %s\n",
		counts ? "stats" : "link");
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
	warn_of(argv[first]);
	name_ours(argv + first);
	execvp(argv[first], argv + first);
	fprintf(stderr, "verbatim run: %s: %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
