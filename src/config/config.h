/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from the environment and a file (config.def). Wrong values and unknown VERBATIM_*
 * variables are refused with a line that says what would be right. LOG and EXPLAIN are read by base/log.c,
 * FAULT and TRACE by link/.
 */
#ifndef VERBATIM_CONFIG_CONFIG_H
#define VERBATIM_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "config/file.h"

#define CONFIG_TEXT_MAX 1024

struct config {
#define CONFIG_NUMBER(field, key, variable, least, greatest, standard, text) uint32_t field;
#define CONFIG_TEXT(field, key, variable, text) char field[CONFIG_TEXT_MAX];
#include "config/config.def"
#undef CONFIG_NUMBER
#undef CONFIG_TEXT
};

/* Which GIDs an Ethernet interface has: VERBATIM_ROCE. */
bool config_has_roce_v1(const struct config *config);
bool config_has_roce_v2(const struct config *config);

/* Reads anew. 0; EINVAL after a line on stderr; ENOENT when VERBATIM_CONFIG names no file. */
int config_load(struct config *config);
/* What one file says, without the environment: the same errors. */
int config_load_file(struct config *config, const struct config_file *file);

#endif
