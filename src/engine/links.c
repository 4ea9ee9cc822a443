/* SPDX-License-Identifier: BSD-2-Clause */
/* What is done with all links of a process (links.h). */
#include "engine/links.h"

#include <errno.h>

int links_claim(const struct engine *engine, uint32_t slot)
{
	int err = 0;

	for (unsigned i = 0; !err && i < ROUTE_LINK_COUNT; i++) {
		struct link *link = engine->links[i];

		if (link && link->ops->claim)
			err = link->ops->claim(link, slot);
	}
	return err;
}

int links_join(struct engine *engine, const struct link_group *group)
{
	bool joined = false;
	int err = ENODEV;

	for (unsigned i = 0; i < ROUTE_LINK_COUNT; i++) {
		struct link *link = engine->links[i];
		int one = link && link->ops->join ? link->ops->join(link, group) : ENODEV;

		joined |= !one;
		if (one != ENODEV)
			err = one;
	}
	return joined ? 0 : err;
}

void links_leave(struct engine *engine, const struct link_group *group)
{
	for (unsigned i = 0; i < ROUTE_LINK_COUNT; i++) {
		struct link *link = engine->links[i];

		if (link && link->ops->leave)
			link->ops->leave(link, group);
	}
}

enum trace_path links_trace_path(uint8_t link)
{
	return link == ROUTE_IB ? TRACE_FABRIC : TRACE_UDP;
}
