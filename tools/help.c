/* SPDX-License-Identifier: BSD-2-Clause */
/* verbatim help: the subcommands, from the table in main.c. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

static void describe(const struct command *command)
{
	printf("  verbatim %s%s%s\n        %s\n", command->name, *command->arguments ? " " : "",
	       command->arguments, command->text);
}

static int describe_one(const char *name)
{
	for (const struct command *command = commands; command->name; command++) {
		if (strcmp(command->name, name))
			continue;
		describe(command);
		return 0;
	}
	return usage_error("help", "no subcommand '%s'; see 'verbatim help'", name);
}

int help_command(int argc, char **argv)
{
	if (argc > 2)
		return usage_error("help", "expected at most one subcommand");
	if (argc == 2)
		return describe_one(argv[1]);
	printf("Verbatim: RDMA in user space. Runs programs for InfiniBand and RoCE unmodified on\n"
	       "machines without either.\n\n");
	for (const struct command *command = commands; command->name; command++)
		describe(command);
	printf("\nMan pages: verbatim(1), and verbatim(7) for the environment variables.\n");
	return 0;
}
