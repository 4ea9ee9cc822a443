/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The variables that make a program use Verbatim, for `verbatim run` and `verbatim env`:
 *
 *	LD_LIBRARY_PATH	our libraries are found before the system's of the same names
 *	LD_PRELOAD	libverbatim-preload.so answers /sys/class/infiniband; last, so that
 *			whatever the user preloads keeps its place
 *	ASAN_OPTIONS	a program built with gcc's AddressSanitizer ends under any LD_PRELOAD
 *			unless it is told not to mind
 *
 * What the user has set is kept; what is there already is not added again, so that `verbatim
 * run` may be nested.
 */
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define PRELOAD_NAME	"libverbatim-preload.so"
#define ASAN_OPTION	"verify_asan_link_order=0"

/* Where they are relative to the executable: as installed, or as others may have moved them. */
static const char *const library_places[] = { "../lib/verbatim", "../lib" };

static bool holds_libraries(const char *directory)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" PRELOAD_NAME, directory) < (int)sizeof(path) &&
	       access(path, R_OK) == 0;
}

int library_directory(char *path, size_t size)
{
	char executable[PATH_MAX], place[PATH_MAX + 32], *directory, *real;
	ssize_t length = readlink("/proc/self/exe", executable, sizeof(executable) - 1);

	if (length < 0) {
		perror("verbatim: /proc/self/exe");
		return -1;
	}
	executable[length] = '\0';
	directory = dirname(executable);
	for (size_t i = 0; i < sizeof(library_places) / sizeof(library_places[0]); i++) {
		snprintf(place, sizeof(place), "%s/%s", directory, library_places[i]);
		if (!holds_libraries(place))
			continue;
		real = realpath(place, NULL);
		if (real && strlen(real) < size && !strchr(real, ':')) {
			strcpy(path, real);
			free(real);
			return 0;
		}
		fprintf(stderr, "verbatim: the libraries cannot be used from %s: LD_LIBRARY_PATH "
			"cannot name a directory with a colon\n", real ? real : place);
		free(real);
		return -1;
	}
	fprintf(stderr, "verbatim: no " PRELOAD_NAME " in %s/../lib/verbatim or %s/../lib: not "
		"built or not installed whole\n", directory, directory);
	return -1;
}

/* Is @item one of the items of @list, which are separated by the characters of @separators? */
static bool list_has(const char *list, const char *separators, const char *item)
{
	size_t length = strlen(item);

	for (const char *at = list; at && *at; at += strspn(at, separators)) {
		size_t n = strcspn(at, separators);

		if (n == length && !strncmp(at, item, n))
			return true;
		at += n;
	}
	return false;
}

/* @variable becomes what it is in the environment, with @item before or behind it. */
static int extend(struct variable *variable, const char *name, const char *item,
		  const char *separators, bool before)
{
	const char *old = getenv(name);
	int length;

	variable->name = name;
	if (!old || !*old)
		length = snprintf(variable->value, sizeof(variable->value), "%s", item);
	else if (list_has(old, separators, item))
		length = snprintf(variable->value, sizeof(variable->value), "%s", old);
	else
		length = snprintf(variable->value, sizeof(variable->value), "%s:%s",
				  before ? item : old, before ? old : item);
	if (length < (int)sizeof(variable->value))
		return 0;
	fprintf(stderr, "verbatim: %s is longer than %d bytes\n", name, VARIABLE_VALUE_MAX);
	return -1;
}

int environment_make(struct variable variables[VARIABLE_COUNT])
{
	char directory[PATH_MAX], preload[PATH_MAX + sizeof(PRELOAD_NAME) + 1];

	if (library_directory(directory, sizeof(directory)))
		return -1;
	/* LD_PRELOAD cannot name a path with spaces: then its search finds the bare name. */
	if (strpbrk(directory, " \t\n"))
		strcpy(preload, PRELOAD_NAME);
	else
		snprintf(preload, sizeof(preload), "%s/" PRELOAD_NAME, directory);

	if (extend(&variables[0], "LD_LIBRARY_PATH", directory, ":", true) ||
	    extend(&variables[1], "LD_PRELOAD", preload, ": ", false) ||
	    extend(&variables[2], "ASAN_OPTIONS", ASAN_OPTION, ":", false))
		return -1;
	return 0;
}
