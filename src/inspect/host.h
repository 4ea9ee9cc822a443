/* SPDX-License-Identifier: BSD-2-Clause */
/* What other processes of this host have counted. */
#ifndef VERBATIM_INSPECT_HOST_H
#define VERBATIM_INSPECT_HOST_H

#include <stdint.h>

/*
 * Adds to @values (by enum counter) what other processes have counted that have @device open, as far as the
 * kernel lets us look at them. Those that do not answer cost a quarter of a second, all of them together.
 */
void host_add_counters(const char *device, uint64_t *values);

#endif
