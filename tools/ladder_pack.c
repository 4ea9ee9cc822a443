/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data of large pages: columns of numbers, each as the difference from the one before, and texts in pieces that
 * a page expands when it shows them. All compressed (RFC 1951) and in base64, since they stand in a script.
 * tools/ladder/pack.js reads it.
 */
#include "ladder_pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define RAW_WINDOW	(-15)	/* of zlib: the largest, and no header around */
#define PACK_LEVEL	3	/* 6 takes twice the time for a tenth of the bytes */

void pack_bytes(struct pack *pack, const void *data, size_t bytes)
{
	if (pack->room - pack->bytes < bytes) {
		size_t want = pack->room * 2 > pack->bytes + bytes ? pack->room * 2 : pack->bytes + bytes + 4096;
		uint8_t *larger = pack->failed ? NULL : realloc(pack->data, want);

		if (!larger) {
			pack->failed = true;
			return;
		}
		pack->data = larger;
		pack->room = want;
	}
	if (bytes)
		memcpy(pack->data + pack->bytes, data, bytes);
	pack->bytes += bytes;
}

/* Seven bits at a time, the lowest first; bit 7: more follow. */
static void pack_varint(struct pack *pack, uint64_t value)
{
	uint8_t digits[10];
	size_t count = 0;

	for (; value >= 0x80; value >>= 7)
		digits[count++] = (uint8_t)(value | 0x80);
	digits[count++] = (uint8_t)value;
	pack_bytes(pack, digits, count);
}

/* Small ones of either sign are short. */
static uint64_t pack_folded(uint64_t delta)
{
	return delta << 1 ^ (uint64_t)-(int64_t)(delta >> 63);
}

void pack_number(struct pack *pack, int64_t value)
{
	uint64_t delta = (uint64_t)value - (uint64_t)pack->before;

	pack->before = value;
	pack_varint(pack, pack_folded(delta));
}

void pack_step(struct pack *pack, int64_t step, unsigned list)
{
	pack_varint(pack, pack_folded((uint64_t)step) << 2 | list);
}

void pack_text(struct pack *pack, const char *text, size_t bytes)
{
	pack_varint(pack, text ? bytes + 1 : 0);
	pack_bytes(pack, text, text ? bytes : 0);
}

static void pack_base64(const uint8_t *data, size_t bytes, FILE *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char line[4096];
	size_t used = 0;

	for (size_t i = 0; i < bytes; i += 3) {
		size_t left = bytes - i;
		uint32_t bits = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
				(left > 2 ? data[i + 2] : 0);

		line[used++] = digits[bits >> 18];
		line[used++] = digits[bits >> 12 & 63];
		line[used++] = left > 1 ? digits[bits >> 6 & 63] : '=';
		line[used++] = left > 2 ? digits[bits & 63] : '=';
		if (used == sizeof(line)) {
			fwrite(line, 1, used, out);
			used = 0;
		}
	}
	fwrite(line, 1, used, out);
}

int pack_write(struct pack *pack, FILE *out)
{
	uLong room = compressBound(pack->bytes) + 16;
	uint8_t *small = malloc(room);
	z_stream stream = { .next_in = pack->data, .avail_in = (uInt)pack->bytes, .next_out = small,
			    .avail_out = (uInt)room };
	int err = pack->failed || !small ? ENOMEM : 0;

	if (!err && deflateInit2(&stream, PACK_LEVEL, Z_DEFLATED, RAW_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		err = ENOMEM;
	if (!err) {
		deflate(&stream, Z_FINISH);
		deflateEnd(&stream);
		fprintf(out, "[%zu,\"", pack->bytes);
		pack_base64(small, stream.total_out, out);
		fputs("\"]", out);
	}
	free(small);
	pack->bytes = 0;
	pack->before = 0;
	return err;
}

void pack_free(struct pack *pack)
{
	free(pack->data);
}
