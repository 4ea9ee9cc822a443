/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the command that a client has sent (command.def), and writes answers. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inspect/inspect.h"

#define COMMAND(name) extern const struct inspect_command inspect_##name;
#include "inspect/command.def"
#undef COMMAND

static const struct inspect_command *const inspect_commands[] = {
#define COMMAND(name) &inspect_##name,
#include "inspect/command.def"
#undef COMMAND
};

bool inspect_print(struct inspect_answer *answer, const char *format, ...)
{
	size_t room = answer->size - answer->bytes;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(answer->text + answer->bytes, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		return false;
	answer->bytes += (size_t)length;
	return true;
}

static const struct inspect_command *command_find(const char *name)
{
	for (size_t i = 0; i < sizeof(inspect_commands) / sizeof(inspect_commands[0]); i++)
		if (!strcmp(inspect_commands[i]->name, name))
			return inspect_commands[i];
	return NULL;
}

int inspect_run(struct inspect_session *session, char *text, struct inspect_request *request,
		struct inspect_answer *answer)
{
	const struct inspect_command *command;
	char *space = strchr(text, ' ');

	request->arguments = space ? space + 1 : "";
	if (space)
		*space = '\0';
	command = command_find(text);
	if (command)
		return command->answer(session, request, answer);
	inspect_print(answer, "the libraries of this process know no command '%.32s': they are of another "
		      "release", text);
	return EOPNOTSUPP;
}
