/* SPDX-License-Identifier: BSD-2-Clause */
/* The stories of `verbatim ladder --demo` as traces, the same to the byte wherever they are made. */
#ifndef VERBATIM_TOOLS_LADDER_STORY_H
#define VERBATIM_TOOLS_LADDER_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Row @number of story.def, as pcapng. False: *why says why not. */
bool story_run(unsigned number, FILE *out, char *why, size_t size);

#endif
