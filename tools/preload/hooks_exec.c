/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * execve(2) and its family, posix_spawn(3): a program that is started from one of our directories has to
 * know that it is there, as shells start cat and ls, and the kernel does not. The path goes with it in its
 * environment, and is taken from there before its main(). Not from execl(3) and its like.
 *
 * Between vfork() and execve() nothing may be allocated: the environment is copied to the stack.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload.h"

#define CWD_VARIABLE	"LIBVERBATIM_CWD"	/* no setting: the libraries refuse VERBATIM_* that are none */
#define VARIABLES_MAX	8192u		/* of an environment that is copied */

struct given {
	char variable[sizeof(CWD_VARIABLE) + NODE_PATH_MAX + 1];
	size_t count;			/* variables of the environment, without the last NULL */
};

/* False: we are in none of our directories, or the environment is too large. */
static bool give_directory(struct given *given, char *const *environment)
{
	char path[NODE_PATH_MAX];

	if (!path_inside(path))
		return false;
	snprintf(given->variable, sizeof(given->variable), CWD_VARIABLE "=%s", path);
	for (given->count = 0; environment && environment[given->count]; given->count++)
		;
	return given->count < VARIABLES_MAX;
}

/* The environment with ours in front, on the stack of the caller. */
#define ENVIRONMENT(given, environment)                                                    \
	({                                                                                 \
		char **copy = __builtin_alloca(((given)->count + 2) * sizeof(*copy));      \
		copy[0] = (given)->variable;                                               \
		if ((given)->count)                                                        \
			memcpy(copy + 1, environment, (given)->count * sizeof(*copy));     \
		copy[(given)->count + 1] = NULL;                                           \
		copy;                                                                      \
	})

int execve(const char *path, char *const *arguments, char *const *environment)
{
	struct given given;

	if (!give_directory(&given, environment))
		return REAL(execve)(path, arguments, environment);
	return REAL(execve)(path, arguments, ENVIRONMENT(&given, environment));
}

int execv(const char *path, char *const *arguments)
{
	return execve(path, arguments, environ);
}

int execvpe(const char *file, char *const *arguments, char *const *environment)
{
	struct given given;

	if (!give_directory(&given, environment))
		return REAL(execvpe)(file, arguments, environment);
	return REAL(execvpe)(file, arguments, ENVIRONMENT(&given, environment));
}

int execvp(const char *file, char *const *arguments)
{
	return execvpe(file, arguments, environ);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment)
{
	struct given given;

	if (!give_directory(&given, environment))
		return REAL(posix_spawn)(pid, path, actions, attributes, arguments, environment);
	return REAL(posix_spawn)(pid, path, actions, attributes, arguments, ENVIRONMENT(&given, environment));
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment)
{
	struct given given;

	if (!give_directory(&given, environment))
		return REAL(posix_spawnp)(pid, file, actions, attributes, arguments, environment);
	return REAL(posix_spawnp)(pid, file, actions, attributes, arguments, ENVIRONMENT(&given, environment));
}

/* Its value in the environment, which it leaves; getenv() and unsetenv() may be a shell's own. NULL: none. */
static const char *take_variable(void)
{
	size_t length = strlen(CWD_VARIABLE "=");
	const char *value = NULL;
	char **from = environ, **to = environ;

	for (; from && *from; from++) {
		if (strncmp(*from, CWD_VARIABLE "=", length))
			*to++ = *from;
		else
			value = *from + length;
	}
	if (value)
		*to = NULL;
	return value;
}

/* Where the variable came from does not matter: it counts only where chdir() would have led. */
__attribute__((constructor)) static void take_directory(void)
{
	const char *path = take_variable();
	char ours[NODE_PATH_MAX], here[NODE_PATH_MAX];

	if (path && path[0] == '/' && path_is_ours(AT_FDCWD, &path, ours) && REAL(getcwd)(here, sizeof(here)) &&
	    !strcmp(here, path_nearest(ours)))
		path_enter(ours);
}
