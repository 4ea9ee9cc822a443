/* SPDX-License-Identifier: BSD-2-Clause */
/* A link that loses, duplicates, reorders and corrupts on purpose (VERBATIM_FAULT). */
#ifndef VERBATIM_LINK_IMPAIR_H
#define VERBATIM_LINK_IMPAIR_H

#include "link/link.h"

/*
 * If VERBATIM_FAULT is set, replace *link by one that wraps it (and closes it). 0 also when it is
 * not set; EINVAL after a line on stderr that says what is expected; ENOMEM.
 */
int impair_wrap(struct link **link);

#endif
