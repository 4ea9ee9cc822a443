/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as blocks of a pcapng file, and as lines of text. Pure. */
#ifndef VERBATIM_TRACE_BLOCK_H
#define VERBATIM_TRACE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/pcapng.h"
#include "trace/record.h"

#define TRACE_BLOCK_MAX		(TRACE_RECORD_MAX + 1024u)
#define TRACE_COMMENT_MAX	PCAPNG_COMMENT_MAX

/* "path udp; qp 0x000123; ...", as docs/trace-format.md says. */
void trace_comment(const struct trace_record *record, char comment[TRACE_COMMENT_MAX]);
/*
 * A packet of @bytes captured of @length between the addresses of @record. Returns the bytes written.
 */
size_t trace_packet_block(const struct trace_record *record, uint32_t interface, bool outbound, bool twin,
			  const uint8_t *data, size_t bytes, size_t length, uint8_t out[TRACE_BLOCK_MAX]);
/* The JSON object of an event, with what all have. Returns its length; 0: too long. */
size_t trace_event_json(const struct trace_record *record, const char *members, size_t bytes, char *out,
			size_t size);
const char *trace_path_name(unsigned path);

#endif
