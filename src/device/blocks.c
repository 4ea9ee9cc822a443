/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Page-aligned allocations become blocks, which other processes can map, at the application's first
 * request for devices or for an event channel, unless the settings forbid it.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "device/hca.h"
#include "local/block/allocator.h"

void hca_enable_blocks(void)
{
	static _Atomic bool settled;
	struct config config;
	bool is_of_use;

	if (atomic_load_explicit(&settled, memory_order_relaxed) || log_init() ||
	    config_load(&config))
		return;
	/* Peers map memory in these two modes only (VERBATIM_MEMORY). */
	is_of_use = !config.memory[0] || !strcmp(config.memory, "auto") || !strcmp(config.memory, "mapped");
	if (!is_of_use || !strcmp(config.malloc, "private") || allocator_offer())
		atomic_store_explicit(&settled, true, memory_order_relaxed);
}
