/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A captured frame -> the RoCEv2 packet in it: Ethernet (VLANs), Linux cooked or raw IP; IPv4 without
 * fragments, or IPv6; UDP port 4791; then wire/packet.c. Captures are often cut: the headers have to
 * be there, the payload not.
 */
#ifndef VERBATIM_TOOLS_FRAME_H
#define VERBATIM_TOOLS_FRAME_H

#include "capture.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

enum frame_kind {
	FRAME_OTHER,		/* no UDP to port 4791 */
	FRAME_CUT,		/* it is, but its headers were not captured whole */
	FRAME_UNKNOWN,		/* it is, but no packet of this specification: probes of Verbatim's port map */
	FRAME_PACKET,
};

enum { FRAME_LAYER_NONE = -1 };

struct frame {
	/* Offsets into the record's bytes; FRAME_LAYER_NONE: there is none. */
	int ethernet, ip, udp, bth;
	bool ipv6;
	uint8_t source[16], destination[16];	/* IPv4: v4-mapped */
	uint16_t source_port;
	uint32_t roce_bytes;			/* BTH to ICRC, on the wire */
	uint32_t captured;			/* of these */
	struct packet packet;			/* payload: not to be looked at beyond captured bytes */
	uint32_t payload_captured;
	enum parse verdict;			/* FRAME_UNKNOWN: why */
};

enum frame_kind frame_parse(const struct capture_record *record, uint16_t linktype, struct frame *frame);

/* The message of connection management in it, when there is a whole one. */
bool frame_cm(const struct frame *frame, struct cm_message *message);

#endif
