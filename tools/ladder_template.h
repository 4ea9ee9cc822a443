/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of `verbatim ladder`, made by tools/ladder/embed.py at build time: before the data, and behind. */
#ifndef VERBATIM_TOOLS_LADDER_TEMPLATE_H
#define VERBATIM_TOOLS_LADDER_TEMPLATE_H

#include <stddef.h>

extern const char ladder_template_begin[], ladder_template_end[];
extern const size_t ladder_template_begin_bytes, ladder_template_end_bytes;
/* The index of the stories, around their cards. */
extern const char ladder_index_begin[], ladder_index_end[];
extern const size_t ladder_index_begin_bytes, ladder_index_end_bytes;

#endif
