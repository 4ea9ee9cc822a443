/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim bench [--hardware] STUDY [OPTION]...: becomes a program of lib/verbatim/bench, which measures
 * something that courses and papers ask about. They are verbs programs like any other, and run on Verbatim;
 * with --hardware on what the system's libibverbs finds.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

const char *const bench_studies[] = { "noncontig", NULL };

static bool is_study(const char *name)
{
	for (const char *const *study = bench_studies; *study; study++)
		if (!strcmp(*study, name))
			return true;
	return false;
}

static int unknown_study(const char *name)
{
	struct nearest_word nearest = nearest_begin(name);

	for (const char *const *study = bench_studies; *study; study++)
		nearest_offer(&nearest, *study);
	return usage_error("bench", "no study '%s'%s%s; there is: %s", name,
			   nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
			   bench_studies[0]);
}

static int become(const char *study, char **argv, bool on_hardware)
{
	static struct variable variables[VARIABLE_COUNT];
	char directory[PATH_MAX], path[PATH_MAX + 64];

	if (library_directory(directory, sizeof(directory)) ||
	    (!on_hardware && environment_make(variables, false)))
		return EXIT_FAILURE;
	for (int i = 0; i < VARIABLE_COUNT && !on_hardware; i++)
		setenv(variables[i].name, variables[i].value, 1);
	snprintf(path, sizeof(path), "%s/bench/%s", directory, study);
	execv(path, argv);
	fprintf(stderr, "verbatim bench: %s: %s\n", path, strerror(errno));
	return EXIT_FAILURE;
}

int bench_command(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	bool on_hardware = false;
	const char *word;

	while ((word = option_next(&reader)) && *word)
		on_hardware |= !strcmp(word, "--hardware");
	if (reader.wrong)
		return EXIT_USAGE;
	if (!word)
		return usage_error("bench", "no study given: verbatim bench %s", bench_studies[0]);
	if (!is_study(reader.value))
		return unknown_study(reader.value);
	return become(reader.value, argv + reader.at - 1, on_hardware);
}
