/* SPDX-License-Identifier: BSD-2-Clause */
/* The `verbatim` command: finds the subcommand and runs it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

const struct command commands[] = {
	{ "run",	run_command,	"[--rsockets] [--no-shared-malloc] [--fault RULES] [--] PROGRAM [ARGUMENT]...",
	  "run a program on Verbatim; --rsockets: its TCP connections, too;\n"
	  "        --no-shared-malloc: peers of this host never map its malloc'ed memory;\n"
	  "        --fault: loss=0.01 and the like on purpose, as VERBATIM_FAULT: verbatim(7)" },
	{ "env",	env_command,	"",
	  "print the environment of verbatim run for a shell: eval \"$(verbatim env)\"" },
	{ "list",	list_command,	"",
	  "list the devices: interface, state, path MTU, GIDs" },
	{ "doctor",	doctor_command,	"",
	  "check what this machine supports, and explain what is missing" },
	{ "explain",	explain_command, "[WORD | NUMBER | KIND NUMBER | ERROR CALL]",
	  "what an error, event or state means, its causes, and what to do;\n"
	  "        without a word: all that it knows" },
	{ "version",	version_command, "",
	  "print the version" },
	{ "help",	help_command,	"[SUBCOMMAND]",
	  "print this text" },
	{ NULL, NULL, NULL, NULL },
};

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
	if (argc <= 1)
		return 0;
	return usage_error(argv[0], "unexpected argument '%s'", argv[1]);
}

static const struct command *find_command(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
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

int main(int argc, char **argv)
{
	static char help[] = "help";
	const struct command *command;

	if (argc < 2) {
		help_command(1, (char *[]){ help, NULL });
		return EXIT_USAGE;
	}
	command = find_command(without_dashes(argv[1]));
	if (command)
		return command->run(argc - 1, argv + 1);
	if (argv[1][0] == '-')
		return usage_error("", "no option '%s'; options: --help, --version; "
				   "see 'verbatim help'", argv[1]);
	return usage_error("", "no subcommand '%s'; to run a program: verbatim run %s; "
			   "see 'verbatim help'", argv[1], argv[1]);
}
