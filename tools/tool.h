/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the `verbatim` command share. One file per subcommand; commands.c has the table of
 * subcommands and options, from which main.c finds one, options.c reads its options, help.c describes
 * it and complete.c completes it in a shell.
 *
 * Exit status: 0 done; 1 it failed, said on stderr; 2 used wrongly, said with what would be
 * right. `verbatim run` ends with the status of the program, or 126 and 127 as shells do.
 */
#ifndef VERBATIM_TOOLS_TOOL_H
#define VERBATIM_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/nearest.h"

#define EXIT_USAGE 2

struct command_option {
	const char *name;		/* "--json" */
	char letter;			/* 'o': -o is the same; 0: none */
	const char *argument;		/* "FILE"; NULL: takes none */
	const char *text;
};

/* What completion offers where no option is: a program, a file, a subcommand, or the first of words[]. */
enum operand { OPERAND_NONE, OPERAND_PROGRAM, OPERAND_FILE, OPERAND_COMMAND, OPERAND_WORD };

struct command {
	const char *name;
	int (*run)(int argc, char **argv);	/* argv[0] is the name of the subcommand */
	const char *arguments;			/* behind its name in the usage */
	const char *text;			/* for `verbatim help`, a line; NULL: not shown there */
	const char *examples;			/* lines "COMMAND LINE\tWHAT IT DOES", or NULL */
	const struct command_option *options;	/* end with a NULL name; or NULL */
	enum operand operand;
	const char *const *words;		/* of OPERAND_WORD, end with NULL */
	/* Prints what may stand behind @count operands, a line each, for completion; or NULL */
	void (*offer)(int count, char **operand, const char *prefix);
	bool runs_program;			/* from the first operand on the words are the program's */
};

extern const struct command commands[];		/* ends with a NULL name (commands.c) */

const struct command *command_find(const char *name);

/*
 * The options of a command line, one after the other (options.c):
 *
 *	struct option_reader reader = option_read(argc, argv);
 *	while ((word = option_next(&reader)))
 *		if (!strcmp(word, "--json")) ...	reader.value is the argument, if it has one
 *		else if (!*word) ...			reader.value is an operand
 *	if (reader.wrong) return EXIT_USAGE;
 *
 * --name VALUE, --name=VALUE, -n VALUE and -nVALUE are read. After "--", all are operands; argv[reader.at]
 * is the next word. A wrong option ends it, with a line on stderr that has the nearest right one.
 */
struct option_reader {
	const struct command *command;
	int argc, at;
	char **argv;
	const char *value;
	bool only_operands, wrong;
};

struct option_reader option_read(int argc, char **argv);
const char *option_next(struct option_reader *reader);
/* Whether --help is among the options of @command. */
bool option_help(const struct command *command, int argc, char **argv);

/* To stdout: "NAME":"TEXT"END; null for NULL (json.c). */
void print_json_text(const char *name, const char *text, const char *end);

/* Text is coloured on a terminal only, and not with NO_COLOR in the environment. */
bool colour_wanted(int fd);

int run_command(int argc, char **argv);
int check_command(int argc, char **argv);
int env_command(int argc, char **argv);
int list_command(int argc, char **argv);
int link_command(int argc, char **argv);
void link_offer(int count, char **operand, const char *prefix);
/* complete.c: prints @word if it begins with @prefix. */
void offer(const char *word, const char *prefix);
int trace_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int ladder_command(int argc, char **argv);
int version_command(int argc, char **argv);
int help_command(int argc, char **argv);
int complete_command(int argc, char **argv);
int bench_command(int argc, char **argv);
int homework_command(int argc, char **argv);
int stats_command(int argc, char **argv);
int fabric_command(int argc, char **argv);
int cable_command(int argc, char **argv);
int route_command(int argc, char **argv);
/* A line for the console of a fabric that runs; NULL: the setting, or the only one. The exit status. */
int control_say(const char *command, const char *fabric, const char *line);
int node_command(int argc, char **argv);
int top_command(int argc, char **argv);
/* End with NULL. */
extern const char *const bench_studies[], *const homework_verbs[], *const link_verbs[], *const cable_words[],
	*const node_words[];

/* To stdout: usage, options and examples of one. */
void help_describe(const struct command *command);

/* To stderr, "verbatim SUBCOMMAND: ..."; returns EXIT_USAGE. */
int usage_error(const char *subcommand, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, of a name that is no subcommand: the nearest one. */
int unknown_command(const char *subcommand, const char *name);
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
