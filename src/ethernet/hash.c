/* SPDX-License-Identifier: BSD-2-Clause */
/* The Toeplitz hash: for each bit of the input that is set, the 32 bits of the key from there on. */
#include "ethernet/hash.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "base/bytes.h"

uint32_t hash_toeplitz(const uint8_t key[HASH_KEY_BYTES], const uint8_t *data, size_t bytes)
{
	uint32_t window = get_be32(key), hash = 0;

	for (size_t i = 0; i < bytes && i + 4 < HASH_KEY_BYTES; i++)
		for (int bit = 7; bit >= 0; bit--) {
			if (data[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	return hash;
}

/* The field that a frame of the kind has: its bit, the header, where it is, its bytes. */
static const struct {
	uint32_t bit;
	enum frame_layer layer;
	uint8_t offset, bytes;
} fields_of[] = {
	{ IBV_RX_HASH_SRC_IPV4, LAYER_IPV4, 12, 4 },
	{ IBV_RX_HASH_DST_IPV4, LAYER_IPV4, 16, 4 },
	{ IBV_RX_HASH_SRC_IPV6, LAYER_IPV6, 8, 16 },
	{ IBV_RX_HASH_DST_IPV6, LAYER_IPV6, 24, 16 },
	{ IBV_RX_HASH_SRC_PORT_TCP, LAYER_TCP, 0, 2 },
	{ IBV_RX_HASH_DST_PORT_TCP, LAYER_TCP, 2, 2 },
	{ IBV_RX_HASH_SRC_PORT_UDP, LAYER_UDP, 0, 2 },
	{ IBV_RX_HASH_DST_PORT_UDP, LAYER_UDP, 2, 2 },
	{ IBV_RX_HASH_IPSEC_SPI, LAYER_ESP, 0, 4 },
};

uint32_t hash_frame(const uint8_t key[HASH_KEY_BYTES], uint64_t fields, const struct frame *frame)
{
	const struct frame_stack *stack = fields & IBV_RX_HASH_INNER ? &frame->inner : &frame->outer;
	uint8_t input[HASH_KEY_BYTES];
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof(fields_of) / sizeof(fields_of[0]); i++) {
		const uint8_t *header = stack->layer[fields_of[i].layer];

		if (!(fields & fields_of[i].bit) || !header || bytes + fields_of[i].bytes > sizeof(input))
			continue;
		memcpy(input + bytes, header + fields_of[i].offset, fields_of[i].bytes);
		bytes += fields_of[i].bytes;
	}
	return hash_toeplitz(key, input, bytes);
}
