/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line of text per packet, the same in logs, traces, tests and the golden conversations:
 *	RC_WRITE_FIRST qpn 0x000011 psn 000100 ackreq reth 0x7f..+3074 rkey 0x00001234 payload 1024
 *	CM REP id 0x0e000001 to 0x11c00007 qpn 0x000012 psn 00beef
 * Packets to QP1 have the second kind of line behind their own, and those about gaps what they say:
 *	... payload 48 report by 0x008022 holds 000101-000103 000106
 */
#ifndef VERBATIM_WIRE_DUMP_H
#define VERBATIM_WIRE_DUMP_H

#include <stddef.h>

#include "wire/cm_message.h"
#include "wire/packet.h"

#define DUMP_LINE_MAX 384

/* Writes at most @size bytes including the NUL; returns what snprintf would. */
int packet_dump(const struct packet *packet, char *line, size_t size);
int mad_dump(const uint8_t mad[MAD_BYTES], char *line, size_t size);
int cm_message_dump(const struct cm_message *message, char *line, size_t size);

#endif
