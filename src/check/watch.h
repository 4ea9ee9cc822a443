/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that a program frees, moves or unmaps: libverbatim-preload.so, unlinked to us, tells it.
 *
 * free() is told before it is called, as the memory may be somebody else's behind it. Other calls may
 * fail, or leave the memory where it is: they are told behind, with what now() was in front of them,
 * and requests that were posted since are not meant.
 */
#ifndef VERBATIM_CHECK_WATCH_H
#define VERBATIM_CHECK_WATCH_H

#include <stdint.h>

#define CHECK_WATCH_HOOK "verbatim_preload_watcher"
#define CHECK_ALL_POSTS UINT64_MAX

struct check_watcher {
	uint64_t (*now)(void);
	/* @before: what now() was, or CHECK_ALL_POSTS. */
	void (*gone)(const char *call, const void *address, uint64_t bytes, uint64_t before);
};
/* The type of the hook: from now on @watcher is told. */
typedef void check_watch(const struct check_watcher *watcher);

#endif
