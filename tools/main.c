/* SPDX-License-Identifier: BSD-2-Clause */
/* The `verbatim` command: finds the subcommand in the table (commands.c) and runs it. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rxe_cfg.h"
#include "tool.h"

int usage_error(const char *subcommand, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "verbatim%s%s: ", *subcommand ? " " : "", subcommand);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

int expect_no_arguments(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);

	if (!option_next(&reader))
		return reader.wrong ? EXIT_USAGE : 0;
	return usage_error(argv[0], "unexpected argument '%s'", reader.value);
}

int unknown_command(const char *subcommand, const char *name)
{
	struct nearest_word nearest = nearest_begin(name);

	for (const struct command *command = commands; command->name; command++)
		if (command->text)
			nearest_offer(&nearest, command->name);
	return usage_error(subcommand, "no subcommand '%s'%s%s; to run a program: verbatim run %s; "
			   "see 'verbatim help'", name, nearest.best ? "; the nearest: verbatim " : "",
			   nearest.best ? nearest.best : "", name);
}

/* -h and the like are asked for by habit. */
static const char *without_dashes(const char *word)
{
	if (!strcmp(word, "-h") || !strcmp(word, "--help"))
		return "help";
	if (!strcmp(word, "-V") || !strcmp(word, "--version"))
		return "version";
	return word;
}

/* On a full disk what was printed shows at the end. A command that failed has said why. */
static int finish_output(const char *subcommand, int status)
{
	bool good = !fflush(stdout) && !ferror(stdout);

	if (good || status)
		return status;
	fprintf(stderr, "verbatim %s: the output cannot be written: %m\n", subcommand);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static char help[] = "help";
	const struct command *command;
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;

	if (argc && !strcmp(slash ? slash + 1 : argv[0], "rxe_cfg"))
		return finish_output("rxe_cfg", rxe_cfg(argc, argv));
	if (argc < 2) {
		help_command(1, (char *[]){ help, NULL });
		return EXIT_USAGE;
	}
	command = command_find(without_dashes(argv[1]));
	if (command && option_help(command, argc - 1, argv + 1)) {
		help_describe(command);
		return finish_output(command->name, 0);
	}
	if (command)
		return finish_output(command->name, command->run(argc - 1, argv + 1));
	if (argv[1][0] == '-')
		return usage_error("", "no option '%s'; options: --help, --version; "
				   "see 'verbatim help'", argv[1]);
	return unknown_command("", argv[1]);
}
