/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks in memory: what is in them and between them, and packing. The bytes of a block depend on the
 * seed, the block and the place in it, so that a block in the wrong place, an old one or half a
 * one is found. Packing is what a program would write: a memcpy() a block.
 */
#include <string.h>

#include "noncontig.h"

#define GAP 0xa5

static uint64_t word_at(uint32_t seed, uint32_t block, uint32_t word)
{
	uint64_t mixed = ((uint64_t)seed << 32 | block) * 0x9e3779b97f4a7c15u + word;

	mixed ^= mixed >> 29;
	return mixed * 0xbf58476d1ce4e5b9u;
}

static void block_fill(uint8_t *block, uint32_t bytes, uint32_t seed, uint32_t index)
{
	for (uint32_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		uint64_t word = word_at(seed, index, at);

		memcpy(block + at, &word, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
	}
}

void layout_fill(uint8_t *memory, const struct layout *layout, uint32_t seed)
{
	for (uint32_t i = 0; i < layout->count; i++)
		block_fill(memory + (size_t)i * layout->stride, layout->block, seed, i);
}

void layout_erase(uint8_t *memory, const struct layout *layout)
{
	memset(memory, GAP, layout_span(layout));
}

/* The offset of the first byte that is wrong, or @bytes. */
static uint32_t block_check(const uint8_t *block, uint32_t bytes, uint32_t seed, uint32_t index)
{
	for (uint32_t at = 0; at < bytes; at++) {
		uint64_t word = word_at(seed, index, at & ~7u);

		if (block[at] != ((const uint8_t *)&word)[at & 7u])
			return at;
	}
	return bytes;
}

static uint32_t gap_check(const uint8_t *gap, uint32_t bytes)
{
	uint32_t at = 0;

	while (at < bytes && gap[at] == GAP)
		at++;
	return at;
}

bool layout_verify(const uint8_t *memory, const struct layout *layout, uint32_t seed, size_t *where)
{
	for (uint32_t i = 0; i < layout->count; i++) {
		const uint8_t *block = memory + (size_t)i * layout->stride;
		uint32_t right = block_check(block, layout->block, seed, i);

		if (right == layout->block)
			right += gap_check(block + right, layout->stride - layout->block);
		if (right < layout->stride) {
			*where = (size_t)i * layout->stride + right;
			return false;
		}
	}
	return true;
}

void layout_pack(uint8_t *packed, const uint8_t *memory, const struct layout *layout,
		 uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		memcpy(packed + (size_t)i * layout->block, memory + (size_t)i * layout->stride,
		       layout->block);
}

void layout_unpack(uint8_t *memory, const uint8_t *packed, const struct layout *layout,
		   uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		memcpy(memory + (size_t)i * layout->stride, packed + (size_t)i * layout->block,
		       layout->block);
}
