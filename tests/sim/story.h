/* SPDX-License-Identifier: BSD-2-Clause */
/* A random world: drawn from its seed, run, and judged. For random.c. */
#ifndef VERBATIM_SIM_STORY_H
#define VERBATIM_SIM_STORY_H

#include "talk.h"

struct story;

struct story *story_create(uint64_t seed, bool verbose);
bool story_run(struct story *story);		/* false: see story_failure() */
const char *story_failure(const struct story *story);
const char *story_summary(struct story *story);	/* one line: what kind of world it is */
void story_destroy(struct story *story);

#endif
