/* SPDX-License-Identifier: BSD-2-Clause */
/* See memory.h. Nothing here is part of what is tested. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/placement.h"
#include "memory.h"

#define GUARD_BYTE	0xee
#define FILL_BYTE	0x5a
#define GUARD_BYTES	32u

static inline uint8_t key_byte(uint32_t key, size_t offset)
{
	uint32_t x = key * 0x9e3779b1u ^ (uint32_t)(offset >> 2) * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	return (uint8_t)(x >> (8 * (offset & 3)));
}

void memory_init(struct memory *memory, struct sim_host *host, size_t bytes, unsigned regions)
{
	*memory = (struct memory){ .host = host, .bytes = bytes, .capacity = regions,
				   .used = GUARD_BYTES };
	memory->data = malloc(bytes);
	memory->regions = calloc(regions, sizeof(*memory->regions));
	if (!memory->data || !memory->regions)
		abort();
	memset(memory->data, GUARD_BYTE, bytes);
	memory->mr = host_mr(host, memory->data, bytes,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL |
			     IBV_ACCESS_MW_BIND);
	memory->lkey = memory->mr->ibv.lkey;
}

void memory_fini(struct memory *memory)
{
	if (memory->mr)
		host_mr_free(memory->host, memory->mr);
	free(memory->data);
	free(memory->regions);
}

static struct region *take_region(struct memory *memory, size_t bytes, size_t align)
{
	size_t offset = (memory->used + align - 1) / align * align;
	struct region *region = &memory->regions[memory->count];

	if (memory->count == memory->capacity || offset + bytes + GUARD_BYTES > memory->bytes) {
		fprintf(stderr, "a plan needs more memory than its talk_options say: %zu bytes, "
			"%u regions\n", memory->bytes, memory->capacity);
		abort();
	}
	memory->count++;
	memory->used = offset + bytes + GUARD_BYTES;
	region->offset = offset;
	region->bytes = bytes;
	memset(memory->data + offset, FILL_BYTE, bytes);
	return region;
}

struct span memory_take(struct memory *memory, uint32_t bytes, unsigned pieces, size_t align)
{
	struct span span = { .count = pieces, .bytes = bytes };
	size_t done = 0;
	unsigned i;

	for (i = 0; i < pieces; i++) {
		size_t left = bytes - done;
		size_t take = i + 1 == pieces ? left : sim_below(memory->host->sim, (uint32_t)left + 1);

		span.piece[i] = take_region(memory, take, align);
		span.piece[i]->key_offset = done;
		done += take;
	}
	return span;
}

void span_set(struct memory *memory, struct span *span, enum content content, uint32_t key)
{
	unsigned i;

	for (i = 0; i < span->count; i++) {
		span->piece[i]->content = content;
		span->piece[i]->key = key;
	}
}

void span_fill(struct memory *memory, struct span *span, uint32_t key)
{
	unsigned i;
	size_t j;

	span_set(memory, span, CONTENT_EXACT, key);
	for (i = 0; i < span->count; i++) {
		struct region *region = span->piece[i];

		for (j = 0; j < region->bytes; j++)
			memory->data[region->offset + j] = key_byte(key, region->key_offset + j);
	}
}

static uint64_t hash_region(const struct memory *memory, const struct region *region)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	size_t i;

	for (i = 0; i < region->bytes; i++)
		hash = (hash ^ memory->data[region->offset + i]) * 0x100000001b3ull;
	return hash;
}

void span_freeze(struct memory *memory, struct span *span)
{
	unsigned i;

	for (i = 0; i < span->count; i++) {
		span->piece[i]->frozen = true;
		span->piece[i]->hash = hash_region(memory, span->piece[i]);
	}
}

uint64_t span_address(const struct memory *memory, const struct span *span)
{
	return (uintptr_t)(memory->data + span->piece[0]->offset);
}

uint64_t span_read64(const struct memory *memory, const struct span *span)
{
	uint64_t value;

	memcpy(&value, memory->data + span->piece[0]->offset, sizeof(value));
	return value;
}

void span_write64(struct memory *memory, const struct span *span, uint64_t value)
{
	memcpy(memory->data + span->piece[0]->offset, &value, sizeof(value));
}

int span_sges(const struct memory *memory, const struct span *span, struct ibv_sge *sge)
{
	unsigned i;

	for (i = 0; i < span->count; i++)
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)(memory->data + span->piece[i]->offset),
			.length = (uint32_t)span->piece[i]->bytes,
			.lkey = memory->lkey,
		};
	return (int)span->count;
}

long span_mismatch(const struct memory *memory, const struct span *span, uint32_t key,
		   uint32_t bytes)
{
	unsigned i;
	size_t j;

	for (i = 0; i < span->count; i++) {
		const struct region *region = span->piece[i];

		for (j = 0; j < region->bytes; j++) {
			size_t at = region->key_offset + j;
			uint8_t wanted = at < bytes ? key_byte(key, at) : FILL_BYTE;

			if (memory->data[region->offset + j] != wanted)
				return (long)at;
		}
	}
	return -1;
}

bool span_starts(const struct memory *memory, const struct span *span, uint32_t key, uint32_t bytes)
{
	unsigned i;
	size_t j;

	for (i = 0; i < span->count; i++) {
		const struct region *region = span->piece[i];

		for (j = 0; j < region->bytes && region->key_offset + j < bytes; j++)
			if (memory->data[region->offset + j] !=
			    key_byte(key, region->key_offset + j))
				return false;
	}
	return true;
}

static bool byte_is_legal(const struct region *region, uint8_t byte, size_t at)
{
	switch (region->content) {
	case CONTENT_UNTOUCHED:
		return byte == FILL_BYTE;
	case CONTENT_EXACT:
		return byte == key_byte(region->key, region->key_offset + at);
	case CONTENT_EITHER:
		return byte == FILL_BYTE || byte == key_byte(region->key, region->key_offset + at);
	case CONTENT_ANY:
		return true;
	}
	return false;
}

static void check_region(struct memory *memory, const struct region *region, const char *whose)
{
	size_t i;

	if (region->content == CONTENT_ANY && !region->frozen)
		return;
	for (i = 0; i < region->bytes; i++)
		if (!byte_is_legal(region, memory->data[region->offset + i], i)) {
			sim_fail(memory->host->sim, "%s: wrong byte 0x%02x at %zu of a region of %zu "
				 "(content %d, key 0x%x)", whose, memory->data[region->offset + i],
				 i, region->bytes, (int)region->content, region->key);
			return;
		}
	if (region->frozen && region->hash != hash_region(memory, region))
		sim_fail(memory->host->sim, "%s: memory changed after its region was deregistered",
			 whose);
}

static void check_guard(struct memory *memory, size_t from, size_t to, const char *whose)
{
	/* All bytes equal their successors: fast, for the long part behind the last region. */
	if (from == to || (memory->data[from] == GUARD_BYTE &&
			   !memcmp(memory->data + from, memory->data + from + 1, to - from - 1)))
		return;
	for (; from < to; from++)
		if (memory->data[from] != GUARD_BYTE) {
			sim_fail(memory->host->sim, "%s: stray write at offset %zu", whose, from);
			return;
		}
}

void memory_judge(struct memory *memory, const char *whose)
{
	size_t at = 0;
	unsigned i;

	for (i = 0; i < memory->count; i++) {
		const struct region *region = &memory->regions[i];

		check_guard(memory, at, region->offset, whose);
		check_region(memory, region, whose);
		at = region->offset + region->bytes;
	}
	check_guard(memory, at, memory->bytes, whose);
}
