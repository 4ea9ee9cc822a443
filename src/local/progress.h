/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress lock, which is the device's: one thread at a time receives. */
#ifndef VERBATIM_LOCAL_PROGRESS_H
#define VERBATIM_LOCAL_PROGRESS_H

#include "base/lock.h"
#include "local/local.h"

static inline void progress_take(struct local *local) ACQUIRES(local->progress)
{
	lock_acquire(local->progress);
}

/* Unchecked: the device's function releases it, called by a pointer. */
static inline void progress_drop(struct local *local) RELEASES(local->progress) UNCHECKED_LOCKS
{
	local->ops->unlock(local->device);
}

#endif
