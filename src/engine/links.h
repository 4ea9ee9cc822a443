/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The links of a process, by the tag that a route has: engine->links. What is done with all of them is here; which
 * ones there are is said where the process starts (engine.c, device/process.c).
 */
#ifndef VERBATIM_ENGINE_LINKS_H
#define VERBATIM_ENGINE_LINKS_H

#include "engine/engine.h"
#include "trace/record.h"

#define LINK_FDS_MAX	64u

/* The one that @datagram names; NULL: there is none. */
static inline struct link *links_find(const struct engine *engine, const struct datagram *datagram)
{
	return engine->links[datagram->link ? datagram->link : ROUTE_ROCE_V2];
}

/* Packets to QPNs of this slot are for this process, by each of them. 0; EADDRINUSE, ENOMEM. */
int links_claim(const struct engine *engine, uint32_t slot);
/* The group comes by any of them. 0 or errno. */
int links_join(struct engine *engine, const struct link_group *group) REQUIRES(engine->progress);
void links_leave(struct engine *engine, const struct link_group *group) REQUIRES(engine->progress);
/* Its descriptors are waited on; those that are already stay so. */
void links_watch(struct engine *engine, struct link *link);
/* In a fork()ed child. */
void links_abandon(const struct engine *engine);
/* What a trace calls the way of packets by the link with that tag. */
enum trace_path links_trace_path(uint8_t link);

#endif
