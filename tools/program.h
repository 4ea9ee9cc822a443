/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands between a program and Verbatim's libraries (program.c), for `verbatim doctor PROGRAM` and
 * the warning of `verbatim run`. The program is read, never run.
 */
#ifndef VERBATIM_TOOLS_PROGRAM_H
#define VERBATIM_TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "elf_file.h"

struct program {
	char path[PATH_MAX];		/* as found in PATH */
	char script[PATH_MAX];		/* "": it is none; else the script, and path its interpreter */
	bool set_id, capabilities;
	struct elf_file elf;
	char rpath_library[PATH_MAX];	/* a libibverbs or librdmacm that its DT_RPATH leads to; "": none */
};

enum program_obstacle {
	PROGRAM_FINE,
	PROGRAM_STATIC, PROGRAM_GO, PROGRAM_SET_ID, PROGRAM_CAPABILITIES, PROGRAM_RPATH, PROGRAM_MUSL,
	PROGRAM_FOREIGN, PROGRAM_BROKEN,
};

/* Finds @name as execvp() would and reads it; a script: its interpreter. 0 or errno. */
int program_read(const char *name, struct program *program);
enum program_obstacle program_obstacle(const struct program *program);
/*
 * Sentences without a full stop: what is so, what follows from it, what to do. @text: room for the first
 * where it has a name in it.
 */
const char *program_found(const struct program *program, char *text, size_t size);
const char *program_consequence(enum program_obstacle obstacle);
const char *program_remedy(enum program_obstacle obstacle);

#endif
