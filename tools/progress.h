/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bar on stderr for work that takes long: on a terminal only, from half a second on, and gone when it is done.
 * One at a time, of one thread.
 *
 *	reading [##########..............................]  26%
 */
#ifndef VERBATIM_TOOLS_PROGRESS_H
#define VERBATIM_TOOLS_PROGRESS_H

#include <stdint.h>

/*
 * @done of @total, of work that another @what begins anew; may be called for every item. @total 0: not known, and
 * nothing is shown. @what is compared as a pointer.
 */
void progress_show(const char *what, uint64_t done, uint64_t total);
/* Before anything else is written to the terminal, and in the end. */
void progress_hide(void);

#endif
