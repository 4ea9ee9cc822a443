/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's progress lock: one thread receives at a time. */
#ifndef VERBATIM_LOCAL_CHANNEL_PROGRESS_H
#define VERBATIM_LOCAL_CHANNEL_PROGRESS_H

#include "base/lock.h"
#include "local/local.h"

static inline void progress_take(struct local *local) ACQUIRES(local->progress)
{
	lock_acquire(local->progress);
}

/* Unchecked: the engine's function releases it, called by a pointer. */
static inline void progress_drop(struct local *local) RELEASES(local->progress) UNCHECKED_LOCKS
{
	local->ops->unlock(local->owner);
}

#endif
