/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of pcapng in the host's byte order; an interface is declared before its first packet. ERF (Endace) is
 * the one link type by which tshark 4.0 reads InfiniBand from the LRH on.
 */
#include "fabric/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"

#define BLOCK_SECTION	0x0a0d0d0au
#define BLOCK_INTERFACE	1u
#define BLOCK_PACKET	6u
#define OPTION_NAME	2u
#define LINKTYPE_ERF	197u
#define ERF_INFINIBAND	21u
#define ERF_VARYING	4u	/* flag: records have the length of their packets */
#define ERF_BYTES	16u
#define PACKET_MAX	(FABRIC_PACKET_MAX + 2u)	/* with its VCRC */
#define US_PER_SECOND	1000000u
#define NAME_BYTES	160u
#define PORTS		256u	/* of a node, at most */

struct fabric_trace {
	FILE *file;
	const struct fabric *fabric;
	uint64_t origin_us;		/* of the fabric's clock, since 1970 */
	uint32_t *interfaces;		/* by node and port: number + 1; 0: not declared so far */
	uint32_t count;
};

static void trace_put32(uint8_t **p, uint32_t value)
{
	memcpy(*p, &value, sizeof(value));
	*p += sizeof(value);
}

/* A block of this type around @body, whose length is a multiple of 4. */
static void trace_block(struct fabric_trace *trace, uint32_t type, const uint8_t *body, size_t bytes)
{
	uint8_t head[8], *p = head;
	uint32_t whole = (uint32_t)(bytes + 12);

	trace_put32(&p, type);
	trace_put32(&p, whole);
	fwrite(head, sizeof(head), 1, trace->file);
	fwrite(body, bytes, 1, trace->file);
	fwrite(&whole, sizeof(whole), 1, trace->file);
}

static uint32_t trace_interface(struct fabric_trace *trace, const struct fabric_packet *packet)
{
	uint32_t *number = &trace->interfaces[packet->node * PORTS + packet->port];
	struct fabric_node_info from, to;
	uint8_t body[16 + NAME_BYTES + 8] = { 0 }, *p = body;
	char name[NAME_BYTES];
	int bytes;

	if (*number)
		return *number - 1;
	fabric_node_info(trace->fabric, packet->node, &from);
	fabric_node_info(trace->fabric, packet->peer_node, &to);
	bytes = snprintf(name, sizeof(name), "%.60s[%u] > %.60s[%u]", from.id, packet->port, to.id,
			 packet->peer_port);
	trace_put32(&p, LINKTYPE_ERF);
	trace_put32(&p, 0);		/* no limit of length */
	trace_put32(&p, OPTION_NAME | (uint32_t)bytes << 16);
	memcpy(p, name, (size_t)bytes);
	p += (bytes + 3) / 4 * 4;
	trace_put32(&p, 0);		/* the end of options */
	trace_block(trace, BLOCK_INTERFACE, body, (size_t)(p - body));
	*number = ++trace->count;
	return *number - 1;
}

struct fabric_trace *fabric_trace_open(const char *path, const struct fabric *fabric, uint64_t now_us)
{
	static const uint8_t unknown_length[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };
	struct fabric_trace *trace = calloc(1, sizeof(*trace));
	uint8_t body[16], *p = body;
	struct timespec now;

	if (!trace)
		return NULL;
	trace->fabric = fabric;
	trace->interfaces = calloc((size_t)fabric_nodes(fabric) * PORTS, sizeof(*trace->interfaces));
	trace->file = trace->interfaces ? fopen(path, "wbe") : NULL;
	if (!trace->file) {
		int err = errno;

		free(trace->interfaces);
		free(trace);
		errno = err;
		return NULL;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	trace->origin_us = (uint64_t)now.tv_sec * US_PER_SECOND + (uint64_t)now.tv_nsec / 1000 - now_us;
	trace_put32(&p, 0x1a2b3c4d);	/* the byte order */
	trace_put32(&p, 1);		/* version 1.0 */
	memcpy(p, unknown_length, sizeof(unknown_length));
	trace_block(trace, BLOCK_SECTION, body, sizeof(body));
	return trace;
}

void fabric_trace_packet(struct fabric_trace *trace, const struct fabric_packet *packet)
{
	uint8_t body[20 + ERF_BYTES + PACKET_MAX + 3], *p = body, *erf;
	uint64_t time_us = trace->origin_us + packet->now_us;
	uint64_t erf_time = (time_us / US_PER_SECOND << 32) |
			    ((time_us % US_PER_SECOND << 32) / US_PER_SECOND);
	uint32_t bytes = (uint32_t)(ERF_BYTES + packet->bytes), interface;

	if (packet->bytes > PACKET_MAX)
		return;
	interface = trace_interface(trace, packet);
	trace_put32(&p, interface);
	trace_put32(&p, (uint32_t)(time_us >> 32));
	trace_put32(&p, (uint32_t)time_us);
	trace_put32(&p, bytes);
	trace_put32(&p, bytes);
	erf = p;
	memset(erf, 0, ERF_BYTES);
	memcpy(erf, &erf_time, sizeof(erf_time));	/* little-endian, unlike the rest of it */
	erf[8] = ERF_INFINIBAND;
	erf[9] = ERF_VARYING;
	put_be16(erf + 10, (uint16_t)bytes);
	put_be16(erf + 14, (uint16_t)packet->bytes);
	memcpy(erf + ERF_BYTES, packet->data, packet->bytes);
	memset(erf + ERF_BYTES + packet->bytes, 0, 3);
	trace_block(trace, BLOCK_PACKET, body, 20 + (bytes + 3) / 4 * 4);
}

int fabric_trace_close(struct fabric_trace *trace)
{
	int err;

	errno = 0;
	err = ferror(trace->file) ? EIO : 0;
	if (fclose(trace->file))
		err = errno;
	free(trace->interfaces);
	free(trace);
	return err;
}
