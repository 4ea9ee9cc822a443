/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim doctor: what this machine, container or sandbox allows, and what follows from it.
 * Status 0 unless something will not work.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "doctor.h"
#include "tool.h"

static unsigned found[VERDICT_BAD + 1];

void report(enum verdict verdict, const char *what, const char *format, ...)
{
	static const char *const names[] = { "good", "note", "BAD " };
	va_list arguments;

	found[verdict]++;
	printf("%s  %s: ", names[verdict], what);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

int doctor_command(int argc, char **argv)
{
	struct utsname kernel;

	if (expect_no_arguments(argc, argv))
		return EXIT_USAGE;
	if (!uname(&kernel))
		printf("verbatim %s on %s %s %s\n\n", VERBATIM_VERSION, kernel.sysname,
		       kernel.release, kernel.machine);
	doctor_port();
	doctor_network();
	doctor_host();
	printf("\n%u good, %u to know, %u bad\n", found[VERDICT_GOOD], found[VERDICT_NOTE],
	       found[VERDICT_BAD]);
	return found[VERDICT_BAD] ? EXIT_FAILURE : 0;
}
