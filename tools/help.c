/* SPDX-License-Identifier: BSD-2-Clause */
/* verbatim help, and --help behind a subcommand: from the table in commands.c. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

/* Each line of @text, with @indent spaces before it. */
static void print_lines(const char *text, int indent)
{
	while (*text) {
		size_t length = strcspn(text, "\n");

		printf("%*s%.*s\n", indent, "", (int)length, text);
		text += length + (text[length] == '\n');
	}
}

static void print_usage(const struct command *command, int indent)
{
	printf("%*sverbatim %s%s%s\n", indent, "", command->name, *command->arguments ? " " : "",
	       command->arguments);
	if (command->text)
		print_lines(command->text, indent + 6);
}

/* Two columns; what is wider than the first has its text on the next line. */
static void print_row(const char *left, int left_length, const char *right, int width)
{
	printf("  %.*s", left_length, left);
	if (*right && left_length > width)
		printf("\n  %*s  %s", width, "", right);
	else if (*right)
		printf("%*s  %s", width - left_length, "", right);
	putchar('\n');
}

static void print_options(const struct command_option *options)
{
	char left[80];

	printf("\nOptions:\n");
	for (const struct command_option *option = options; option && option->name; option++) {
		char letter[8] = "";

		if (option->letter)
			snprintf(letter, sizeof(letter), "-%c, ", option->letter);
		snprintf(left, sizeof(left), "%s%s%s%s", letter, option->name, option->argument ? " " : "",
			 option->argument ? option->argument : "");
		print_row(left, (int)strlen(left), option->text, 22);
	}
	print_row("--help", 6, "this text", 22);
}

static void print_examples(const char *line)
{
	printf("\nExamples:\n");
	while (*line) {
		int length = (int)strcspn(line, "\n"), left = (int)strcspn(line, "\t\n");
		char right[120];

		snprintf(right, sizeof(right), "%.*s", left < length ? length - left - 1 : 0,
			 line + left + 1);
		print_row(line, left, right, 40);
		line += length + (line[length] == '\n');
	}
}

void help_describe(const struct command *command)
{
	print_usage(command, 0);
	print_options(command->options);
	if (command->examples)
		print_examples(command->examples);
	if (command->text)
		printf("\nMan page: verbatim-%s(1)\n", command->name);
}

int help_command(int argc, char **argv)
{
	const struct command *command;

	if (argc > 2)
		return usage_error("help", "expected at most one subcommand");
	if (argc == 2) {
		command = command_find(argv[1]);
		if (!command)
			return unknown_command("help", argv[1]);
		help_describe(command);
		return 0;
	}
	printf("Verbatim: RDMA in user space. Runs programs for InfiniBand and RoCE unmodified on\n"
	       "machines without either.\n\n");
	for (command = commands; command->name; command++)
		if (command->text)
			print_usage(command, 2);
	printf("\nOptions and examples: verbatim SUBCOMMAND --help. Man pages: verbatim(1), and verbatim(7)\n"
	       "for the environment variables.\n");
	return 0;
}
