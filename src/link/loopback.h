/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of this process to itself: a bounded queue in memory. Full: dropped, like any link. */
#ifndef VERBATIM_LINK_LOOPBACK_H
#define VERBATIM_LINK_LOOPBACK_H

#include "base/counters.h"
#include "link/link.h"

/* event_fds(): none; loopback_pending() tells whether a receive would find something. */
int loopback_open(struct link **link, struct counters *counters);
bool loopback_pending(const struct link *link);

#endif
