/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program as the kernel and the dynamic linker would see it. The order in which they decide: a set-id
 * bit or capabilities make the linker ignore LD_LIBRARY_PATH; DT_RPATH goes before it, DT_RUNPATH after.
 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SCRIPT_LINE_MAX = 256, SCRIPT_DEPTH_MAX = 4 };

static const struct obstacle_text {
	const char *found, *consequence, *remedy;
} obstacle_texts[] = {
	[PROGRAM_FINE] = { "loads the libraries that LD_LIBRARY_PATH names", NULL, NULL },
	[PROGRAM_STATIC] = { "is linked statically", "it loads no library, so never Verbatim's",
		"link it dynamically: without -static" },
	[PROGRAM_GO] = { "is a static Go program", "it loads no library, so never Verbatim's",
		"build it with CGO_ENABLED=1 and a binding of libibverbs" },
	[PROGRAM_SET_ID] = { "is set-user-ID or set-group-ID of another",
		"the dynamic linker ignores LD_LIBRARY_PATH and LD_PRELOAD: it gets the system's libibverbs",
		"run a copy without the bit: cp PROGRAM /tmp/ && verbatim run /tmp/PROGRAM" },
	[PROGRAM_CAPABILITIES] = { "has file capabilities",
		"the dynamic linker ignores LD_LIBRARY_PATH and LD_PRELOAD: it gets the system's libibverbs",
		"run a copy, which has none: cp PROGRAM /tmp/ && verbatim run /tmp/PROGRAM" },
	[PROGRAM_RPATH] = { "has a DT_RPATH that leads to another library",
		"DT_RPATH goes before LD_LIBRARY_PATH: that library is loaded, and not Verbatim's",
		"remove it from a copy: patchelf --remove-rpath PROGRAM" },
	[PROGRAM_MUSL] = { "is linked with musl", "Verbatim's libraries need glibc and cannot be loaded",
		"build it against glibc" },
	[PROGRAM_FOREIGN] = { "is of another machine", "it cannot load the libraries of this one",
		"build it for this machine, or install Verbatim built for that one" },
	[PROGRAM_BROKEN] = { "begins as an ELF file and is none", "the kernel will not start it",
		"build or copy it again" },
};

/* As execvp(): the first file in PATH that may be executed. */
static int find_program(const char *name, char path[PATH_MAX])
{
	const char *search = getenv("PATH"), *at = search ? search : "/usr/local/bin:/usr/bin:/bin";
	int err = ENOENT;
	struct stat status;

	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		if (strlen(name) >= PATH_MAX)
			return ENAMETOOLONG;
		strcpy(path, name);
		return access(path, F_OK) ? errno : 0;
	}
	for (;; at++) {
		int length = (int)strcspn(at, ":");

		if (snprintf(path, PATH_MAX, "%.*s%s%s", length, at, length ? "/" : "", name) < PATH_MAX &&
		    !stat(path, &status) && S_ISREG(status.st_mode)) {
			if (!access(path, X_OK))
				return 0;
			err = EACCES;
		}
		at += length;
		if (!*at)
			return err;
	}
}

/* The next libibverbs or librdmacm that a list of directories has; $ORIGIN is that of the program. */
static void search_rpath(struct program *program)
{
	static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1" };
	char origin[PATH_MAX], directory[2 * PATH_MAX], path[2 * PATH_MAX + 32];

	if (!realpath(program->path, origin))
		return;
	dirname(origin);
	for (const char *at = program->elf.rpath; *at;) {
		int length = (int)strcspn(at, ":");
		const char *rest = at;

		if (!strncmp(at, "$ORIGIN", 7) || !strncmp(at, "${ORIGIN}", 9)) {
			rest += at[1] == '{' ? 9 : 7;
			snprintf(directory, sizeof(directory), "%s%.*s", origin, length - (int)(rest - at), rest);
		} else {
			snprintf(directory, sizeof(directory), "%.*s", length, at);
		}
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
			if (!program->rpath_library[0] && length && !access(path, R_OK) &&
			    strlen(path) < PATH_MAX)
				strcpy(program->rpath_library, path);
		}
		at += length + (at[length] == ':');
	}
}

/* "#!/usr/bin/python3": the interpreter; `env NAME` is looked up. False: no script. */
static bool script_interpreter(int fd, char path[PATH_MAX])
{
	char line[SCRIPT_LINE_MAX], *word, *rest;
	ssize_t length = pread(fd, line, sizeof(line) - 1, 0);

	if (length < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[length] = '\0';
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line + 2, " \t", &rest);
	if (!word || strlen(word) >= PATH_MAX)
		return false;
	strcpy(path, word);
	word = strtok_r(NULL, " \t", &rest);
	if (word && !strcmp(word, "-S"))
		word = strtok_r(NULL, " \t", &rest);
	if (word && strlen(path) >= 4 && !strcmp(path + strlen(path) - 4, "/env"))
		return find_program(word, path) == 0;
	return true;
}

static void read_rights(int fd, const struct stat *status, struct program *program)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)	/* the kernel ignores both */
		return;
	program->set_id = ((status->st_mode & S_ISUID) && status->st_uid != getuid()) ||
			  ((status->st_mode & S_ISGID) && (status->st_mode & S_IXGRP) &&
			   status->st_gid != getgid());
	/* Root has them all anyway: then the kernel does not call it a gain. */
	program->capabilities = fgetxattr(fd, "security.capability", NULL, 0) > 0 && getuid();
}

/* 0 or errno; *next: the interpreter to go on with, of a script. */
static int read_one(struct program *program, char next[PATH_MAX])
{
	struct stat status;
	int err = 0, fd = open(program->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	next[0] = '\0';
	if (fd < 0)
		return errno;
	if (fstat(fd, &status))
		err = errno;
	else if (!S_ISREG(status.st_mode))
		err = S_ISDIR(status.st_mode) ? EISDIR : ENOEXEC;
	else if (status.st_size <= 0)
		err = ENOEXEC;
	if (!err) {
		program->set_id = program->capabilities = false;
		read_rights(fd, &status, program);
		elf_read(fd, (size_t)status.st_size, &program->elf);
		if (program->elf.kind == ELF_NONE && !script_interpreter(fd, next))
			err = ENOEXEC;
	}
	close(fd);
	return err;
}

int program_read(const char *name, struct program *program)
{
	char next[PATH_MAX];
	int err;

	memset(program, 0, sizeof(*program));
	err = find_program(name, program->path);
	for (int depth = 0; !err && depth < SCRIPT_DEPTH_MAX; depth++) {
		err = read_one(program, next);
		if (err || !next[0])
			break;
		if (!program->script[0])
			strcpy(program->script, program->path);
		strcpy(program->path, next);
		err = depth == SCRIPT_DEPTH_MAX - 1 ? ELOOP : 0;
	}
	/* DT_RUNPATH switches DT_RPATH off. */
	if (!err && program->elf.kind == ELF_DYNAMIC && !program->elf.runpath[0])
		search_rpath(program);
	return err;
}

enum program_obstacle program_obstacle(const struct program *program)
{
	const struct elf_file *elf = &program->elf;

	switch (elf->kind) {
	case ELF_STATIC:
		return elf->go ? PROGRAM_GO : PROGRAM_STATIC;
	case ELF_FOREIGN:
		return PROGRAM_FOREIGN;
	case ELF_NONE:
	case ELF_BROKEN:
		return PROGRAM_BROKEN;
	case ELF_DYNAMIC:
		break;
	}
	if (strstr(elf->interpreter, "/ld-musl"))
		return PROGRAM_MUSL;
	if (program->set_id)
		return PROGRAM_SET_ID;
	if (program->capabilities)
		return PROGRAM_CAPABILITIES;
	return program->rpath_library[0] ? PROGRAM_RPATH : PROGRAM_FINE;
}

const char *program_found(const struct program *program, char *text, size_t size)
{
	enum program_obstacle obstacle = program_obstacle(program);
	char machine[32], own[32];

	if (obstacle == PROGRAM_RPATH)
		snprintf(text, size, "has a DT_RPATH that leads to %s", program->rpath_library);
	else if (obstacle == PROGRAM_FOREIGN)
		snprintf(text, size, "is of another machine: %d bits, %s; this one is %s",
			 program->elf.is_64 ? 64 : 32, elf_machine_name(program->elf.machine, machine),
			 elf_machine_name(elf_own_machine(), own));
	else
		snprintf(text, size, "%s", obstacle_texts[obstacle].found);
	return text;
}

const char *program_consequence(enum program_obstacle obstacle)
{
	return obstacle_texts[obstacle].consequence;
}

const char *program_remedy(enum program_obstacle obstacle)
{
	return obstacle_texts[obstacle].remedy;
}
