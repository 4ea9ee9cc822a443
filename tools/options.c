/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a command line by the table of options (commands.c), and what is said of a wrong one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const struct command_option no_options[] = { { NULL, 0, NULL, NULL } };

static const struct command_option *options_of(const struct command *command)
{
	return command && command->options ? command->options : no_options;
}

/* The option that @word names, alone, with "=VALUE" behind it, or as -nVALUE; *value: what is in it. */
static const struct command_option *option_find(const struct command *command, const char *word,
						const char **value)
{
	for (const struct command_option *option = options_of(command); option->name; option++) {
		size_t length = strlen(option->name);

		*value = NULL;
		if (!strncmp(word, option->name, length) && (!word[length] || word[length] == '=')) {
			*value = word[length] ? word + length + 1 : NULL;
			return option;
		}
		if (!option->letter || word[0] != '-' || word[1] != option->letter)
			continue;
		if (word[2] && !option->argument)
			continue;
		*value = word[2] ? word + 2 : NULL;
		return option;
	}
	return NULL;
}

/* "--json, --peer ADDRESS" */
static void list_options(const struct command *command, char *text, size_t size)
{
	size_t used = 0;

	snprintf(text, size, "--help");
	for (const struct command_option *option = options_of(command); option->name; option++) {
		int length = snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "",
				      option->name, option->argument ? " " : "",
				      option->argument ? option->argument : "");

		if (length < 0 || (size_t)length >= size - used)
			return;
		used += (size_t)length;
	}
}

static void refuse_option(const struct command *command, const char *word)
{
	struct nearest_word nearest = nearest_begin(word);
	char all[512], meant[128] = "", program[160] = "";

	for (const struct command_option *option = options_of(command); option->name; option++)
		nearest_offer(&nearest, option->name);
	nearest_offer(&nearest, "--help");
	if (nearest.best)
		snprintf(meant, sizeof(meant), "; the nearest: %s", nearest.best);
	if (command->runs_program)
		snprintf(program, sizeof(program), "; to run a program of that name: verbatim %s -- %.80s",
			 command->name, word);
	list_options(command, all, sizeof(all));
	usage_error(command->name, "no option '%s'%s; options: %s%s; see 'verbatim %s --help'", word, meant,
		    all, program, command->name);
}

struct option_reader option_read(int argc, char **argv)
{
	return (struct option_reader){ .command = command_find(argv[0]), .argc = argc, .argv = argv,
				       .at = 1 };
}

/* A dash alone and a negative number are operands. */
static bool is_option(const char *word)
{
	return word[0] == '-' && word[1] && !(word[1] >= '0' && word[1] <= '9');
}

static const char *wrong(struct option_reader *reader)
{
	reader->wrong = true;
	return NULL;
}

const char *option_next(struct option_reader *reader)
{
	const struct command_option *option;
	const char *word;

	if (reader->at >= reader->argc)
		return NULL;
	word = reader->argv[reader->at];
	if (!reader->only_operands && !strcmp(word, "--")) {
		reader->only_operands = true;
		reader->at++;
		return option_next(reader);
	}
	if (reader->only_operands || !is_option(word)) {
		reader->value = word;
		reader->at++;
		return "";
	}
	option = option_find(reader->command, word, &reader->value);
	if (!option) {
		refuse_option(reader->command, word);
		return wrong(reader);
	}
	reader->at++;
	if (reader->value && !option->argument) {
		usage_error(reader->command->name, "option %s takes no value: '%s'", option->name, word);
		return wrong(reader);
	}
	if (option->argument && !reader->value) {
		if (reader->at >= reader->argc) {
			usage_error(reader->command->name, "option %s needs a value: %s %s", word,
				    option->name, option->argument);
			return wrong(reader);
		}
		reader->value = reader->argv[reader->at++];
	}
	return option->name;
}

bool option_help(const struct command *command, int argc, char **argv)
{
	const struct command_option *option;
	const char *value;

	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
		if (!is_option(argv[i])) {
			if (command->runs_program)
				return false;
			continue;
		}
		option = option_find(command, argv[i], &value);
		i += option && option->argument && !value;
	}
	return false;
}

bool colour_wanted(int fd)
{
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(fd) && !(no && *no) && terminal && strcmp(terminal, "dumb");
}
