/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory (ibv_alloc_dm(3)): memory of the device, which the application accesses by
 * ibv_memcpy_to_dm() & co and by regions named by offsets. device/dm.c allocates it.
 */
#ifndef VERBATIM_OBJECT_DM_H
#define VERBATIM_OBJECT_DM_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "object/handle.h"

struct dm {
	struct ibv_dm ibv;		/* first */
	uint8_t *memory;		/* whole pages, of which the application has @length bytes */
	size_t length, bytes;
	bool is_block;			/* local/block/block.h */
	_Atomic uint32_t regions;	/* registered in it */
	struct handle handle;
};

static inline struct dm *to_dm(struct ibv_dm *ibv)
{
	return (struct dm *)ibv;
}

/* Does [@offset, +@length) lie in it? No sum is formed, so nothing can wrap. */
static inline bool dm_has(const struct dm *dm, uint64_t offset, uint64_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

#endif
