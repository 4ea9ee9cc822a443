/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the `verbatim` command share. One file per subcommand; main.c finds the
 * subcommand, help.c describes them all from the same table.
 *
 * Exit status: 0 done; 1 it failed, said on stderr; 2 used wrongly, said with what would be
 * right. `verbatim run` ends with the status of the program, or 126 and 127 as shells do.
 */
#ifndef VERBATIM_TOOLS_TOOL_H
#define VERBATIM_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#define EXIT_USAGE 2

struct command {
	const char *name;
	int (*run)(int argc, char **argv);	/* argv[0] is the name of the subcommand */
	const char *arguments;
	const char *text;			/* one line for `verbatim help` */
};

extern const struct command commands[];		/* ends with a NULL name (main.c) */

int run_command(int argc, char **argv);
int env_command(int argc, char **argv);
int list_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int version_command(int argc, char **argv);
int help_command(int argc, char **argv);

/* To stderr, "verbatim SUBCOMMAND: ..."; returns EXIT_USAGE. */
int usage_error(const char *subcommand, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* For subcommands without arguments: 0, or EXIT_USAGE after saying so. */
int expect_no_arguments(int argc, char **argv);

/* environment.c: the variables that make a program use Verbatim, as they should be. */
enum { VARIABLE_COUNT = 3, VARIABLE_VALUE_MAX = 32768 };

struct variable {
	const char *name;
	char value[VARIABLE_VALUE_MAX];
};

/*
 * @rsockets: stream sockets are to be rsockets. 0; -1 after a line on stderr: the libraries are not
 * where they should be, or a variable is too long.
 */
int environment_make(struct variable variables[VARIABLE_COUNT], bool rsockets);
/* The directory of the libraries that belong to this executable; the same errors. */
int library_directory(char *path, size_t size);

#endif
