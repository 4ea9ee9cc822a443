/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which libibverbs and librdmacm a program would load under `verbatim run`, and why: by reading it
 * (program.c), and where the dynamic linker is the system's own, by asking that (--list). The program is
 * never run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "program.h"
#include "tool.h"

enum { LINKER_SECONDS = 5 };

/* Run as the system's: root's alone to change. */
static bool is_systems(const char *path)
{
	struct stat status;

	return path[0] == '/' && !strstr(path, "/../") && !stat(path, &status) && S_ISREG(status.st_mode) &&
	       !status.st_uid && !(status.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (!strncmp(path, "/lib", 4) || !strncmp(path, "/usr/lib", 8));
}

/* In the child: becomes ld.so, with the environment of verbatim run. */
static int linker_child(const void *argument)
{
	static struct variable variables[VARIABLE_COUNT];
	const struct program *program = argument;
	char option[] = "--list";

	if (environment_make(variables, false))
		return 1;
	for (int i = 0; i < VARIABLE_COUNT; i++)
		setenv(variables[i].name, variables[i].value, 1);
	unsetenv("LD_PRELOAD");
	unsetenv("LD_AUDIT");
	unsetenv("LD_DEBUG_OUTPUT");
	execl(program->elf.interpreter, program->elf.interpreter, option, program->path, (char *)NULL);
	return 1;
}

/* "libibverbs.so.1 => /usr/lib/libibverbs.so.1 (0x...)": the path; "not found"; "": not among them. */
static void library_in(const char *output, const char *name, char *path, size_t size)
{
	char wanted[64];
	const char *at;

	snprintf(wanted, sizeof(wanted), "%s => ", name);
	at = strstr(output, wanted);
	path[0] = '\0';
	if (!at)
		return;
	at += strlen(wanted);
	snprintf(path, size, "%.*s", (int)strcspn(at, "(\n"), at);
	path[strcspn(path, " ")] = '\0';
}

static bool report_library(const char *output, const char *name)
{
	char path[PATH_MAX], ours[PATH_MAX], expected[PATH_MAX + 64], *real, *real_expected;
	bool same;

	library_in(output, name, path, sizeof(path));
	if (!path[0])
		return false;
	if (library_directory(ours, sizeof(ours)))
		return true;
	snprintf(expected, sizeof(expected), "%s/%s", ours, name);
	real = realpath(path, NULL);
	real_expected = realpath(expected, NULL);
	same = real && real_expected && !strcmp(real, real_expected);
	free(real);
	free(real_expected);
	report(same ? VERDICT_GOOD : VERDICT_BAD, "library", name, "%s%s", path,
	       same ? "" : ": not Verbatim's");
	if (!same) {
		report_consequence("the program gets that library, under verbatim run, too");
		report_remedy("readelf -d PROGRAM | grep -E 'RPATH|RUNPATH|NEEDED'    what leads there");
	}
	return true;
}

static void ask_linker(const struct program *program)
{
	bool any = false;
	char *output;
	int status;

	if (!is_systems(program->elf.interpreter)) {
		report(VERDICT_NOTE, "library", "dynamic linker", "%s is not asked: it is not the system's",
		       program->elf.interpreter);
		return;
	}
	status = run_child(linker_child, program, LINKER_SECONDS, &output);
	if (status) {
		report(VERDICT_UNKNOWN, "library", "dynamic linker", "%s --list %s failed (%d)",
		       program->elf.interpreter, program->path, status);
	} else {
		any |= report_library(output, "libibverbs.so.1");
		any |= report_library(output, "librdmacm.so.1");
		if (!any)
			report(VERDICT_GOOD, "library", "libibverbs and librdmacm", "not among the libraries that "
			       "it is linked with; what it opens later is Verbatim's by LD_LIBRARY_PATH");
	}
	free(output);
}

void doctor_program(const char *name)
{
	static struct program program;
	enum program_obstacle obstacle;
	char text[PATH_MAX + 64];
	int err = program_read(name, &program);

	if (err) {
		report(VERDICT_UNKNOWN, "program", name, "cannot be read: %s", strerror(err));
		return;
	}
	obstacle = program_obstacle(&program);
	if (program.script[0])
		report(VERDICT_GOOD, "program", program.script, "is a script of %s", program.path);
	report(obstacle == PROGRAM_FINE ? VERDICT_GOOD : VERDICT_BAD, "program", program.path, "%s%s%s",
	       program_found(&program, text, sizeof(text)), program.elf.runpath[0] ? "; its DT_RUNPATH "
	       "comes after that: " : "", program.elf.runpath);
	if (obstacle != PROGRAM_FINE) {
		report_consequence("%s", program_consequence(obstacle));
		report_remedy("%s", program_remedy(obstacle));
	}
	/* The linker would obey LD_LIBRARY_PATH here, and not when the program is started. */
	if (program.elf.kind == ELF_DYNAMIC && obstacle != PROGRAM_SET_ID &&
	    obstacle != PROGRAM_CAPABILITIES && obstacle != PROGRAM_MUSL)
		ask_linker(&program);
}
