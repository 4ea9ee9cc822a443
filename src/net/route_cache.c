/* SPDX-License-Identifier: BSD-2-Clause */
/* Ways that the kernel was asked for before, by their addresses; of two in one place the later stays. */
#include "net/route_cache.h"

#include <string.h>
#include <unistd.h>

#include "base/ip_addr.h"
#include "platform/netdev.h"

void route_cache_open(struct route_cache *cache)
{
	memset(cache, 0, sizeof(*cache));
	lock_init(&cache->lock);
	if (netdev_monitor_routes(&cache->fd))
		cache->fd = -1;
}

void route_cache_close(struct route_cache *cache)
{
	route_cache_abandon(cache);
	lock_destroy(&cache->lock);
}

void route_cache_abandon(struct route_cache *cache)
{
	if (cache->fd >= 0)
		close(cache->fd);
	cache->fd = -1;
}

static struct cached_route *route_cache_place(struct route_cache *cache, const struct cached_route *route)
	REQUIRES(cache->lock)
{
	uint32_t hash = ip_addr_hash(route->destination) ^ 31 * ip_addr_hash(route->source) ^ route->interface;

	return &cache->route[hash % ROUTE_CACHE_SIZE];
}

static void route_cache_renew(struct route_cache *cache) REQUIRES(cache->lock)
{
	if (!netdev_monitor_drain(cache->fd))
		return;
	cache->changes++;
	memset(cache->route, 0, sizeof(cache->route));
}

bool route_cache_find(struct route_cache *cache, struct cached_route *route, uint64_t *changes)
{
	const struct cached_route *kept;
	bool found;

	*changes = 0;
	if (cache->fd < 0)
		return false;
	lock_acquire(&cache->lock);
	route_cache_renew(cache);
	kept = route_cache_place(cache, route);
	found = kept->valid && kept->interface == route->interface && !memcmp(kept->source, route->source, 16) &&
		!memcmp(kept->destination, route->destination, 16);
	if (found)
		route->local = kept->local;
	*changes = cache->changes;
	lock_release(&cache->lock);
	return found;
}

void route_cache_add(struct route_cache *cache, const struct cached_route *route, uint64_t changes)
{
	struct cached_route *kept;

	if (cache->fd < 0)
		return;
	lock_acquire(&cache->lock);
	route_cache_renew(cache);
	if (cache->changes == changes) {
		kept = route_cache_place(cache, route);
		*kept = *route;
		kept->valid = true;
	}
	lock_release(&cache->lock);
}
