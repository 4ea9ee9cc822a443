/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions and blocks: a region whose pages are the whole of a block (block.h) can be granted with
 * the block, which the peer then maps. The region's entry in the table remembers the block while
 * the region lives.
 */
#include "local/block/block.h"
#include "local/move/internal.h"

#include <unistd.h>

#include "base/log.h"

void local_add_region(struct local *local, const struct mr *mr)
{
	struct block *block;

	if (!local->direct || local->mode > LOCAL_MAPPED)
		return;
	block = block_get((const void *)(uintptr_t)mr_host(local->mrs, mr), mr->ibv.length);
	if (block)
		mr_set_block(local->mrs, mr, block);
}

void region_forget(void *local, void *block)
{
	block_put(block);
}

void describe_grant(const struct mr_description *region, uint32_t grant, struct control *control)
{
	control->region = grant;
	control->pd = region->pd;
	control->access = region->access;
	control->start = region->start;
	control->length = region->length;
	control->host = region->host;
}

/*
 * May a peer with @rights map the block? A right to write maps it for writing (and so for reading),
 * a right to read for reading. A right to atomics alone is not enough, unless the kernel lets the
 * peer access all of our memory anyway (@trusted).
 */
static bool may_map(unsigned rights, bool trusted, bool *writable)
{
	*writable = (rights & IBV_ACCESS_REMOTE_WRITE) ||
		    (trusted && (rights & IBV_ACCESS_REMOTE_ATOMIC));
	return *writable || trusted || (rights & IBV_ACCESS_REMOTE_READ);
}

static void send_block(struct local *local, struct peer *peer, const struct mr_description *region,
		       bool writable, struct control *answer)
{
	struct block *block = region->block;
	int fd;

	if (block_grant(block, writable, &fd))
		return;
	if (peer_send_block(peer, answer->region, fd)) {
		answer->mapped = writable ? 1 : 2;
		answer->block = (uintptr_t)block_memory(block);
		answer->block_bytes = block_bytes(block);
		grant_set_mapped(&peer->grants, answer->region);
		counter_add(local->counters, COUNTER_MAPPED_REGIONS, 1);
	}
	close(fd);
}

void grant_block(struct local *local, struct peer *peer, const struct mr_description *region,
		 unsigned rights, struct control *answer)
{
	const char *way;
	bool writable;

	if (region->block && may_map(rights, peer_both_copy(local, peer), &writable))
		send_block(local, peer, region, writable, answer);
	/* Once per grant: how the peer accesses the region, and why. */
	way = answer->mapped ? "mapped by" :
	      peer_both_copy(local, peer) ? "copied by" : "sent through the ring to";
	if (region->block || local->mode > LOCAL_MAPPED)
		explain_of(OF(REGION, region->host),
			"region 0x%llx of %llu KiB is %s process %d",
			(unsigned long long)region->host,
			(unsigned long long)(region->length >> 10), way, (int)peer->memory.pid);
	else
		explain_of(OF(REGION, region->host),
			"region 0x%llx of %llu KiB is ordinary memory: %s process %d; to have it "
			"mapped, allocate it page-aligned and as a whole, or use ibv_alloc_dm",
			(unsigned long long)region->host,
			(unsigned long long)(region->length >> 10), way, (int)peer->memory.pid);
}

/* ---- offers ---- */

void grant_offer(struct local *local, struct peer *peer, uint32_t key)
{
	uint32_t none;
	unsigned i;

	if (!mr_block(local->mrs, key) || grant_is_mapped(&peer->grants, GRANT_REGION, key))
		return;
	for (i = 0; i < OFFERS_MAX; i++) {
		none = 0;
		if (atomic_load_explicit(&peer->offer[i], memory_order_relaxed) == key)
			return;
		if (atomic_compare_exchange_strong(&peer->offer[i], &none, key))
			break;
	}
	atomic_store(&local->offers_due, true);
}

/*
 * No peer has presented the key of an offered region. So offers go only to peers that can access
 * our memory anyway; other peers ask by key.
 */
static void make_offer(struct local *local, struct peer *peer, uint32_t key)
{
	struct control offer = { .kind = CONTROL_KEY, .key = key };
	bool writable, trusted = peer_both_copy(local, peer);
	struct mr_description region;

	if (!trusted || !mr_describe(local->mrs, key, &region))
		return;
	if (region.block && may_map(region.access, trusted, &writable)) {
		describe_grant(&region, pairing_grant_region(local, peer, key), &offer);
		if (offer.region && !grant_is_mapped(&peer->grants, GRANT_REGION, key))
			send_block(local, peer, &region, writable, &offer);
	}
	mr_describe_end(&region);
	if (offer.mapped)
		control_send(local, peer, &offer, 0);
}

void grant_make_offers(struct local *local)
{
	unsigned count = ring_channels(local->channel_link), i, n;

	for (i = 0; i < count; i++) {
		struct peer *peer = peer_at(local, i);

		for (n = 0; peer && n < OFFERS_MAX; n++) {
			uint32_t key = atomic_exchange(&peer->offer[n], 0);

			if (key)
				make_offer(local, peer, key);
		}
	}
}
