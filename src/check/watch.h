/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that a program frees or unmaps: libverbatim-preload.so, unlinked to us, tells it. */
#ifndef VERBATIM_CHECK_WATCH_H
#define VERBATIM_CHECK_WATCH_H

#include <stdint.h>

#define CHECK_WATCH_HOOK "verbatim_preload_watch"

typedef void check_gone(const char *call, const void *address, uint64_t bytes);
/* The type of the hook: from now on @gone is called before memory goes. */
typedef void check_watch(check_gone *gone);

#endif
