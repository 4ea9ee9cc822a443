/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run directory of a fabric: where its socket and its FIFOs are.
 *
 *	$XDG_RUNTIME_DIR/verbatim/NAME/		if there is such a directory; else
 *	/tmp/verbatim-UID/NAME/			as in containers; TMPDIR instead of /tmp
 *
 * It is a path, and no abstract name, so that containers and network namespaces reach it by a bind
 * mount. Everything above NAME that is made here belongs to one user, and no link is followed
 * there: who can write into it could be the fabric. A fabric may also be named by its directory
 * itself, "./run/lab"; whoever does that means its owner, another user, too.
 */
#ifndef VERBATIM_IB_PLACE_H
#define VERBATIM_IB_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define PLACE_WHY_MAX	512
#define PLACE_MODE	0700u

/* Letters, digits, '.', '_' and '-', at most 64; not "." or "..". */
bool place_name_is_right(const char *name);
/*
 * The directory of the fabric @fabric, a name or, if it has a slash, a path. 0; EINVAL, EACCES,
 * ENOENT: *why says what is wrong, and what would be right.
 */
int place_find(const char *fabric, char path[PATH_MAX], char why[PLACE_WHY_MAX]);
/* The same, made if it is not there. @mode: what others may do, of a path alone, or PLACE_MODE. */
int place_make(const char *fabric, unsigned mode, char path[PATH_MAX], char why[PLACE_WHY_MAX]);
/* The names of the fabrics that have a directory, ", " between them; "" if there is none. */
void place_list(char *names, size_t size);

#endif
