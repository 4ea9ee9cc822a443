/* SPDX-License-Identifier: BSD-2-Clause */
/* The offer of blocks to the preloaded library: see allocator.h. */
#include "local/block/allocator.h"

#include <dlfcn.h>

#include "base/log.h"
#include "local/block/block.h"

static const struct allocator_calls calls = {
	.version = ALLOCATOR_VERSION,
	.alloc = block_alloc,
	.free = block_free,
	.size = block_size,
	.resize = block_resize,
	.unmap = block_unmap,
	.advise = block_advise,
	.replaced = block_replaced,
};

bool allocator_offer(void)
{
	allocator_hook *hook = (allocator_hook *)dlsym(RTLD_DEFAULT, ALLOCATOR_HOOK);
	const char *reason = "";
	enum allocator_answer answer = hook ? hook(&calls, &reason) : ALLOCATOR_REFUSES;

	if (answer == ALLOCATOR_SERVES)
		log_info("page-aligned allocations are shared with peers of this host from now on");
	else if (answer == ALLOCATOR_REFUSES && hook)
		explain("peers of this host copy page-aligned memory of this program, they cannot "
			"map it: %s", reason);
	return answer != ALLOCATOR_LATER;
}
