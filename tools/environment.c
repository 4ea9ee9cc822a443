/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The variables that make a program use Verbatim, for `verbatim run` and `verbatim env`:
 *
 *	LD_LIBRARY_PATH	our libraries are found before the system's of the same names
 *	LD_PRELOAD	libverbatim-preload.so answers /sys/class/infiniband; last, so that
 *			whatever the user preloads keeps its place; on request librspreload.so,
 *			which puts sockets on RDMA
 *	ASAN_OPTIONS	a program built with gcc's AddressSanitizer ends under any LD_PRELOAD
 *			unless it is told not to mind
 *
 * What the user has set is kept; what is there already is not added again, so that `verbatim
 * run` may be nested.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "tool.h"

#define PRELOAD_NAME	"libverbatim-preload.so"
#define RSOCKET_NAME	"librspreload.so"
#define RSOCKET_PLACE	"rsocket"	/* below the libraries, where nobody finds it by mistake */
#define ASAN_OPTION	"verify_asan_link_order=0"

/* Where they are relative to the executable: as installed, or as others may have moved them. */
static const char *const library_places[] = { "../lib/verbatim", "../lib" };

static bool holds_libraries(const char *directory)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" PRELOAD_NAME, directory) < (int)sizeof(path) &&
	       access(path, R_OK) == 0;
}

/* Without /proc: the path that it was executed by, which is a path even if a shell searched for it. */
static int executable_path(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	const char *executed = (const char *)getauxval(AT_EXECFN);

	if (length >= 0) {
		path[length] = '\0';
		return 0;
	}
	if (executed && realpath(executed, path))
		return 0;
	fprintf(stderr, "verbatim: cannot find its own path: neither /proc/self/exe nor %s: %s\n",
		executed ? executed : "its name", strerror(errno));
	return -1;
}

int library_directory(char *path, size_t size)
{
	char executable[PATH_MAX], place[PATH_MAX + 32], *directory, *real;

	if (executable_path(executable))
		return -1;
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
		fprintf(stderr, "verbatim: cannot use the libraries in %s: LD_LIBRARY_PATH cannot "
			"name a directory with a colon\n", real ? real : place);
		free(real);
		return -1;
	}
	fprintf(stderr, "verbatim: no " PRELOAD_NAME " in %s/../lib/verbatim or %s/../lib: build "
		"(make) or install (make install) all of Verbatim\n", directory, directory);
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

static int too_long(const char *name)
{
	fprintf(stderr, "verbatim: %s is longer than %d bytes\n", name, VARIABLE_VALUE_MAX);
	return -1;
}

/* @variable becomes what it is in the environment. */
static int inherit(struct variable *variable, const char *name)
{
	const char *old = getenv(name);

	variable->name = name;
	if (old && strlen(old) >= sizeof(variable->value))
		return too_long(name);
	strcpy(variable->value, old ? old : "");
	return 0;
}

/* Adds @item before or behind the others, unless it is there. */
static int add(struct variable *variable, const char *item, const char *separators, bool before)
{
	size_t old = strlen(variable->value), length = strlen(item);

	if (list_has(variable->value, separators, item))
		return 0;
	if (old + 1 + length >= sizeof(variable->value))
		return too_long(variable->name);
	if (!old) {
		strcpy(variable->value, item);
	} else if (before) {
		memmove(variable->value + length + 1, variable->value, old + 1);
		memcpy(variable->value, item, length);
		variable->value[length] = ':';
	} else {
		variable->value[old] = ':';
		strcpy(variable->value + old + 1, item);
	}
	return 0;
}

/* A library to preload. LD_PRELOAD cannot name a path with spaces: then its search finds the name. */
static int add_preload(struct variable *variable, const char *directory, const char *name)
{
	char path[PATH_MAX + 64];

	if (strpbrk(directory, " \t\n"))
		snprintf(path, sizeof(path), "%s", name);
	else
		snprintf(path, sizeof(path), "%s/%s", directory, name);
	return add(variable, path, ": ", false);
}

int environment_make(struct variable variables[VARIABLE_COUNT], bool rsockets)
{
	struct variable *search = &variables[0], *preload = &variables[1], *asan = &variables[2];
	char directory[PATH_MAX], rsocket_directory[PATH_MAX + 16];

	if (library_directory(directory, sizeof(directory)))
		return -1;
	if (inherit(search, "LD_LIBRARY_PATH") || inherit(preload, "LD_PRELOAD") ||
	    inherit(asan, "ASAN_OPTIONS"))
		return -1;
	snprintf(rsocket_directory, sizeof(rsocket_directory), "%s/" RSOCKET_PLACE, directory);
	if (rsockets && (add(search, rsocket_directory, ":", true) ||
			 add_preload(preload, rsocket_directory, RSOCKET_NAME)))
		return -1;
	if (add(search, directory, ":", true) || add_preload(preload, directory, PRELOAD_NAME) ||
	    add(asan, ASAN_OPTION, ":", false))
		return -1;
	return 0;
}
