/* SPDX-License-Identifier: BSD-2-Clause */
/* verbatim env: prints exports for a POSIX shell, eval "$(verbatim env)". */
#include <stdio.h>
#include <stdlib.h>

#include "tool.h"

/* In single quotes nothing is special but the quote itself: leave, quote it, enter again. */
static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
	putchar('\'');
}

int env_command(int argc, char **argv)
{
	static struct variable variables[VARIABLE_COUNT];

	if (expect_no_arguments(argc, argv))
		return EXIT_USAGE;
	if (environment_make(variables, false))
		return EXIT_FAILURE;
	for (int i = 0; i < VARIABLE_COUNT; i++) {
		printf("export %s=", variables[i].name);
		print_quoted(variables[i].value);
		putchar('\n');
	}
	return 0;
}
