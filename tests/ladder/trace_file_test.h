/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes pcapng files in memory, of either byte order, as `verbatim trace` writes them (docs/trace-format.md). */
#ifndef VERBATIM_TESTS_LADDER_TRACE_FILE_TEST_H
#define VERBATIM_TESTS_LADDER_TRACE_FILE_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/packet.h"

struct trace_file {
	uint8_t bytes[1 << 16];
	size_t used;
	bool swapped;
	unsigned interfaces;
};

static void file_put32(struct trace_file *file, uint32_t value)
{
	value = file->swapped ? __builtin_bswap32(value) : value;
	memcpy(file->bytes + file->used, &value, 4);
	file->used += 4;
}

static void file_put16(struct trace_file *file, uint16_t value)
{
	value = file->swapped ? __builtin_bswap16(value) : value;
	memcpy(file->bytes + file->used, &value, 2);
	file->used += 2;
}

static void file_put(struct trace_file *file, const void *data, size_t bytes)
{
	if (bytes)
		memcpy(file->bytes + file->used, data, bytes);
	memset(file->bytes + file->used + bytes, 0, -bytes & 3);
	file->used += bytes + (-bytes & 3);
}

static void file_option(struct trace_file *file, uint16_t code, const void *data, size_t bytes)
{
	file_put16(file, code);
	file_put16(file, (uint16_t)bytes);
	file_put(file, data, bytes);
}

static size_t file_begin(struct trace_file *file, uint32_t type)
{
	size_t at = file->used;

	file_put32(file, type);
	file_put32(file, 0);
	return at;
}

static void file_end(struct trace_file *file, size_t at)
{
	size_t end = file->used;
	uint32_t bytes = (uint32_t)(end + 4 - at);

	file->used = at + 4;
	file_put32(file, bytes);
	file->used = end;
	file_put32(file, bytes);
}

static void file_section(struct trace_file *file)
{
	size_t at = file_begin(file, 0x0a0d0d0a);

	file_put32(file, 0x1a2b3c4d);
	file_put16(file, 1);
	file_put16(file, 0);
	file_put32(file, 0xffffffff);
	file_put32(file, 0xffffffff);
	file_end(file, at);
}

static unsigned file_interface(struct trace_file *file, uint16_t linktype, const char *name)
{
	size_t at = file_begin(file, 1);
	uint8_t nanoseconds = 9;

	file_put16(file, linktype);
	file_put16(file, 0);
	file_put32(file, 0);
	file_option(file, 2, name, strlen(name));
	file_option(file, 9, &nanoseconds, 1);
	file_option(file, 0, NULL, 0);
	file_end(file, at);
	return file->interfaces++;
}

static void file_block(struct trace_file *file, unsigned interface, uint64_t time_ns, const void *data,
		       size_t bytes, unsigned direction, const char *comment)
{
	size_t at = file_begin(file, 6);

	file_put32(file, interface);
	file_put32(file, (uint32_t)(time_ns >> 32));
	file_put32(file, (uint32_t)time_ns);
	file_put32(file, (uint32_t)bytes);
	file_put32(file, (uint32_t)bytes);
	file_put(file, data, bytes);
	if (comment)
		file_option(file, 1, comment, strlen(comment));
	file_put16(file, 2);
	file_put16(file, 4);
	file_put32(file, direction);
	file_option(file, 0, NULL, 0);
	file_end(file, at);
}

/* IPv4, UDP and the packet, with @payload_bytes of zeros; from 10.0.0.@from to 10.0.0.@to. */
static size_t file_frame(uint8_t *out, const struct packet *packet, uint8_t from, uint8_t to)
{
	uint8_t *bth = out + 28;
	size_t bytes = packet_bytes(packet->op, packet->payload_bytes);

	memset(out, 0, 28 + bytes);
	out[0] = 0x45;
	put_be16(out + 2, (uint16_t)(28 + bytes));
	out[8] = 64;
	out[9] = 17;
	memcpy(out + 12, (uint8_t[]){ 10, 0, 0, from, 10, 0, 0, to }, 8);
	put_be16(out + 20, 50000);
	put_be16(out + 22, 4791);
	put_be16(out + 24, (uint16_t)(8 + bytes));
	packet_write_headers(packet, bth);
	return 28 + bytes;
}

enum { FILE_IN = 1, FILE_OUT = 2 };

static void file_packet(struct trace_file *file, unsigned interface, uint64_t time_ns, unsigned direction,
			const struct packet *packet, uint8_t from, uint8_t to, const char *comment)
{
	uint8_t frame[28 + PACKET_BYTES_MAX];

	file_block(file, interface, time_ns, frame, file_frame(frame, packet, from, to), direction, comment);
}

static void __attribute__((unused))
file_event(struct trace_file *file, unsigned interface, uint64_t time_ns, const char *json)
{
	uint8_t data[1100] = { 0, 12, 0, 4, 'j', 's', 'o', 'n', 0, 0, 0, 0 };

	memcpy(data + 12, json, strlen(json));
	file_block(file, interface, time_ns, data, 12 + strlen(json), 0, NULL);
}

/* A copy that capture_parse() may own. */
static uint8_t *file_copy(const struct trace_file *file, size_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);

	memcpy(copy, file->bytes, bytes);
	return copy;
}

#endif
