/* SPDX-License-Identifier: BSD-2-Clause */
/* Compressed captures, as `tcpdump | gzip` and Wireshark write them; and what other programs compress, by name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "capture_gzip.h"

#define GZIP_WINDOW	(15 + 16)	/* of zlib: the largest, with the header of gzip */

bool gzip_begins(const uint8_t *data, size_t bytes)
{
	return bytes >= 3 && data[0] == 0x1f && data[1] == 0x8b && data[2] == 8;
}

/* Room for more, up to @most. False: there is none. */
static bool gzip_grow(uint8_t **out, size_t *room, size_t most)
{
	size_t want = *room * 2 < most ? *room * 2 : most;
	uint8_t *larger = want > *room ? realloc(*out, want) : NULL;

	if (!larger)
		return false;
	*out = larger;
	*room = want;
	return true;
}

int gzip_expand(const uint8_t *data, size_t bytes, size_t most, uint8_t **expanded, size_t *expanded_bytes,
		bool *whole)
{
	z_stream stream = { .next_in = (Bytef *)data, .avail_in = (uInt)bytes };
	size_t room = bytes * 4 + 4096 < most ? bytes * 4 + 4096 : most, used = 0;
	uint8_t *out = malloc(room);
	int result = Z_OK;

	if (!out || inflateInit2(&stream, GZIP_WINDOW) != Z_OK) {
		free(out);
		return ENOMEM;
	}
	while (result == Z_OK) {
		if (used == room && !gzip_grow(&out, &room, most))
			break;
		stream.next_out = out + used;
		stream.avail_out = (uInt)(room - used);
		result = inflate(&stream, Z_NO_FLUSH);
		used = room - stream.avail_out;
		/* Several files one behind the other are one. */
		if (result == Z_STREAM_END && gzip_begins(stream.next_in, stream.avail_in) &&
		    inflateReset(&stream) == Z_OK)
			result = Z_OK;
	}
	inflateEnd(&stream);
	*whole = result == Z_STREAM_END;
	*expanded = out;
	*expanded_bytes = used;
	return 0;
}

const char *gzip_other_form(const uint8_t *data, size_t bytes)
{
	static const struct { const char *magic; size_t bytes; const char *what; } forms[] = {
		{ "\x28\xb5\x2f\xfd", 4, "compressed by zstd: 'zstd -d' first" },
		{ "\xfd" "7zXZ", 5, "compressed by xz: 'unxz' first" },
		{ "BZh", 3, "compressed by bzip2: 'bunzip2' first" },
		{ "\x04\x22\x4d\x18", 4, "compressed by lz4: 'lz4 -d' first" },
		{ "PK\x03\x04", 4, "a ZIP archive: unpack it first" },
		{ "snoop", 6, "a capture of snoop: 'editcap -F pcapng' makes it readable" },
		{ "GMBU", 4, "a capture of Network Monitor: 'editcap -F pcapng' makes it readable" },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		if (bytes >= forms[i].bytes && !memcmp(data, forms[i].magic, forms[i].bytes))
			return forms[i].what;
	return NULL;
}
