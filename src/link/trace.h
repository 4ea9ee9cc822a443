/* SPDX-License-Identifier: BSD-2-Clause */
/* A link that writes each packet to a pcapng file (VERBATIM_TRACE). */
#ifndef VERBATIM_LINK_TRACE_H
#define VERBATIM_LINK_TRACE_H

#include "link/link.h"

/*
 * If VERBATIM_TRACE is set, replace *link by one that wraps it (and closes it). Several links of
 * a process write to one file. 0 also when it is not set; else errno, said on stderr.
 */
int trace_wrap(struct link **link);

#endif
