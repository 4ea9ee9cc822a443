// SPDX-License-Identifier: BSD-2-Clause
/*
 * Registered buffers between guard bytes, and the patterns that fill them. A pattern depends on
 * its seed and on every bit of the position, so that data of another message, or from another
 * offset, does not pass for it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "verify.h"

#define GUARD 256
#define GUARD_BYTE 0xa5
#define PAGE 4096

bool regions_are_aligned;

/* The region lies in the middle of it, or begins with it and has the rest of its last page as guard. */
static void allocate(struct region *region)
{
	if (regions_are_aligned) {
		region->allocated = region->size / PAGE * PAGE + PAGE;
		region->allocation = region->mem = aligned_alloc(PAGE, region->allocated);
		CHECK(region->allocation, "aligned_alloc of %zu: %m", region->allocated);
		return;
	}
	region->allocated = region->size + 2 * GUARD;
	region->allocation = mmap(NULL, region->allocated, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(region->allocation != MAP_FAILED, "mmap of %zu: %m", region->allocated);
	region->mem = region->allocation + GUARD;
}

static size_t guard_before(const struct region *region)
{
	return region->mem - region->allocation;
}

static size_t guard_behind(const struct region *region)
{
	return region->allocated - guard_before(region) - region->size;
}

void region_create(struct side *side, struct region *region, size_t size, unsigned access)
{
	memset(region, 0, sizeof(*region));
	region->size = size;
	allocate(region);
	if (regions_are_aligned)
		memset(region->mem, 0, size);
	memset(region->allocation, GUARD_BYTE, guard_before(region));
	memset(region->mem + size, GUARD_BYTE, guard_behind(region));
	region->mr = ibv_reg_mr(side->pd, region->mem, size, access);
	CHECK(region->mr, "ibv_reg_mr of %zu bytes, access 0x%x: %m", size, access);
}

void region_exchange(struct side *side, struct region *region)
{
	region->peer_address = exchange_u64(side, (uintptr_t)region->mem);
	region->peer_rkey = exchange_u64(side, region->mr->rkey);
}

void region_check_guards(const struct region *region)
{
	byte_check(region->allocation, guard_before(region), GUARD_BYTE, "guard before a region");
	byte_check(region->mem + region->size, guard_behind(region), GUARD_BYTE, "guard behind a region");
}

void region_destroy(struct region *region)
{
	region_check_guards(region);
	if (region->mr)
		OK(ibv_dereg_mr(region->mr));
	if (regions_are_aligned)
		free(region->allocation);
	else
		munmap(region->allocation, region->allocated);
}

static uint8_t pattern_byte(size_t at, uint32_t seed)
{
	uint32_t x = ((uint32_t)(at >> 2) + seed * 2654435761u) * 2246822519u;

	return (x >> 24) ^ (at & 3) * 0x35;
}

void pattern_fill(uint8_t *at, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = pattern_byte(i, seed);
}

void pattern_check(const uint8_t *at, size_t len, uint32_t seed, const char *what)
{
	for (size_t i = 0; i < len; i++)
		CHECK(at[i] == pattern_byte(i, seed), "%s: byte %zu of %zu is 0x%02x, not 0x%02x",
		      what, i, len, at[i], pattern_byte(i, seed));
}

void byte_check(const uint8_t *at, size_t len, uint8_t value, const char *what)
{
	for (size_t i = 0; i < len; i++)
		CHECK(at[i] == value, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, len,
		      at[i], value);
}

/* xorshift32: the same on every machine; seeded by -S. */
uint32_t random_next(struct side *side)
{
	uint32_t x = side->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	side->random = x;
	return x;
}

size_t interesting_sizes(const struct side *side, size_t *sizes, size_t greatest)
{
	size_t mtu = side->mtu_bytes, count = 0;
	const size_t all[] = { 0, 1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 257, mtu - 1, mtu, mtu + 1,
			       2 * mtu - 1, 2 * mtu, 3 * mtu + 2, 65535, 65536, 65537, 1000003,
			       (4u << 20) + 3 };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] <= greatest)
			sizes[count++] = all[i];
	return count;
}
