/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways that the kernel was asked for before: address handles are made by the thousand, and most lead to a few
 * destinations. The cache has a socket of its own for rtnetlink's notifications. It is looked at by each search,
 * so that a thread which has changed a route finds the new one; any change empties the cache.
 */
#ifndef VERBATIM_NET_ROUTE_CACHE_H
#define VERBATIM_NET_ROUTE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

#define ROUTE_CACHE_SIZE 256u

struct cached_route {
	uint8_t source[16], destination[16];
	uint32_t interface;		/* of the port */
	bool valid, local;		/* local: @destination is an address of this host */
};

struct route_cache {
	struct lock lock;		/* leaf; held while the socket is looked at */
	int fd;				/* -1: no notifications, nothing is kept */
	uint64_t changes GUARDED_BY_MEMBER(lock);
	struct cached_route route[ROUTE_CACHE_SIZE] GUARDED_BY_MEMBER(lock);
};

void route_cache_open(struct route_cache *cache);
void route_cache_close(struct route_cache *cache);
void route_cache_abandon(struct route_cache *cache);	/* in a fork()ed child */

/* Is the way of @route (its addresses and interface) known? Sets @route->local if so; else
 * *changes, for the add. */
bool route_cache_find(struct route_cache *cache, struct cached_route *route, uint64_t *changes);
/* Keep what the kernel has said of @route, unless anything changed since the search. */
void route_cache_add(struct route_cache *cache, const struct cached_route *route, uint64_t changes);

#endif
