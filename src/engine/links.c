/* SPDX-License-Identifier: BSD-2-Clause */
/* What is done with all links of a process (links.h). */
#include "engine/links.h"

#include <errno.h>

#include "base/log.h"

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

void links_watch(struct engine *engine, struct link *link)
{
	int fds[LINK_FDS_MAX];
	unsigned i, count = link->ops->event_fds(link, fds, LINK_FDS_MAX);

	for (i = 0; i < count; i++) {
		int err = source_watch(&engine->source.all, &engine->source.sockets, fds[i]);

		if (err && err != EEXIST)
			log_error("cannot wait on socket %d: error %d", fds[i], err);
	}
}

void links_abandon(const struct engine *engine)
{
	for (unsigned i = 0; i < ROUTE_LINK_COUNT; i++) {
		struct link *link = engine->links[i];

		if (link && link->ops->abandon)
			link->ops->abandon(link);
	}
}

int links_join(struct engine *engine, const struct link_group *group)
{
	bool joined = false;
	int err = ENODEV;

	for (unsigned i = 0; i < ROUTE_LINK_COUNT; i++) {
		struct link *link = engine->links[i];
		int one = link && link->ops->join ? link->ops->join(link, group) : ENODEV;

		joined |= !one;
		if (!one)
			links_watch(engine, link);	/* it may have opened a socket for groups */
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
	return link == ROUTE_IB ? TRACE_FABRIC : link == ROUTE_ROCE_V1 ? TRACE_ETHERNET : TRACE_UDP;
}
