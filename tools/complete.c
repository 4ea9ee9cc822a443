/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim complete [WORD]... PREFIX: what may stand at PREFIX behind `verbatim WORD...`, a line each, for
 * the scripts of shells in tools/completion. A line "@program" or "@file" asks the shell for those;
 * "@rest N" says that the words from the Nth on are the command line of another program.
 */
#include <stdio.h>
#include <string.h>

#include "tool.h"

enum { OPERANDS_MAX = 16 };

void offer(const char *word, const char *prefix)
{
	if (!strncmp(word, prefix, strlen(prefix)))
		printf("%s\n", word);
}

static void offer_commands(const char *prefix)
{
	for (const struct command *command = commands; command->name; command++)
		if (command->text)
			offer(command->name, prefix);
}

static void offer_options(const struct command *command, const char *prefix)
{
	for (const struct command_option *option = command->options; option && option->name; option++)
		offer(option->name, prefix);
	offer("--help", prefix);
}

static void offer_operands(const struct command *command, const char *prefix)
{
	switch (command->operand) {
	case OPERAND_PROGRAM:
		printf("@program\n");
		break;
	case OPERAND_FILE:
		printf("@file\n");
		break;
	case OPERAND_COMMAND:
		offer_commands(prefix);
		break;
	case OPERAND_WORD:
		for (const char *const *word = command->words; *word; word++)
			offer(*word, prefix);
		break;
	case OPERAND_NONE:
		break;
	}
}

/* The option that @word is and that takes the next word as its value. */
static const struct command_option *wants_value(const struct command *command, const char *word)
{
	for (const struct command_option *option = command->options; option && option->name; option++)
		if (option->argument && (!strcmp(word, option->name) ||
					 (option->letter && word[0] == '-' && word[1] == option->letter &&
					  !word[2])))
			return option;
	return NULL;
}

static void complete_behind(const struct command *command, int argc, char **argv)
{
	const struct command_option *value = NULL;
	const char *prefix = argv[argc - 1];
	bool only_operands = false;
	char *operand[OPERANDS_MAX];
	int operands = 0;

	for (int i = 1; i < argc - 1; i++) {
		if (value) {
			value = NULL;
		} else if (!only_operands && !strcmp(argv[i], "--")) {
			only_operands = true;
		} else if (!only_operands && argv[i][0] == '-') {
			value = wants_value(command, argv[i]);
		} else {
			if (command->runs_program) {
				printf("@rest %d\n", i + 1);
				return;
			}
			if (operands < OPERANDS_MAX)
				operand[operands++] = argv[i];
		}
	}
	if (value)
		printf("@file\n");
	else if (prefix[0] == '-' && !only_operands)
		offer_options(command, prefix);
	else if (!operands || command->operand == OPERAND_FILE)
		offer_operands(command, prefix);
	else if (command->offer)
		command->offer(operands, operand, prefix);
}

int complete_command(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2)
		return usage_error("complete", "no word to complete: verbatim complete [WORD]... PREFIX");
	if (argc == 2) {
		offer_commands(argv[1]);
		return 0;
	}
	command = command_find(argv[1]);
	if (command)
		complete_behind(command, argc - 1, argv + 1);
	return 0;
}
