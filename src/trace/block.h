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

/* "v" of docs/trace-format.md: what went through memory as packets that it stands for, or as what it is. */
enum trace_version { TRACE_AS_PACKETS = 1, TRACE_AS_OPERATIONS };

/* "path udp; qp 0x000123; ...", as docs/trace-format.md says. */
/* @route: its characters, as many as the record says, or NULL. */
void trace_comment(const struct trace_record *record, const char *route, char comment[TRACE_COMMENT_MAX]);
/*
 * A packet of @bytes captured of @length between the addresses of @record; its route stands behind them. Returns
 * the bytes written.
 */
size_t trace_packet_block(const struct trace_record *record, uint32_t interface, bool outbound, bool twin,
			  const uint8_t *data, size_t bytes, size_t length, uint8_t out[TRACE_BLOCK_MAX]);
/* The members of the JSON object of an event. Returns their length; 0: it is none. */
size_t trace_event_members(const struct trace_record *record, const void *data,
			   char out[TRACE_TEXT_MAX]);
/*
 * An event of these @members, with what all have. Returns the bytes written; 0: too long.
 */
size_t trace_event_block(const struct trace_record *record, enum trace_version version,
			 uint32_t interface, const char *members, size_t bytes,
			 uint8_t out[TRACE_BLOCK_MAX]);
/* A request through memory, or (VERB_ACK) that it was consumed, as an event. Returns the bytes written. */
size_t trace_operation_block(const struct trace_record *record,
			     const struct trace_operation *operation, uint32_t interface,
			     uint8_t out[TRACE_BLOCK_MAX]);
const char *trace_path_name(unsigned path);

#endif
