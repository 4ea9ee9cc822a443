/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A captured frame -> the packet of RDMA in it: RoCEv2 (UDP port 4791 over IPv4 or IPv6), RoCE of version 1
 * (Ethernet type 0x8915), or InfiniBand itself (ERF). Below: Ethernet with VLANs, Linux cooked, loopback or
 * raw IP, each inside of VXLAN or Geneve, too; then wire/packet.c. Captures are often cut: the headers have
 * to be there, the payload not. Of a fragmented datagram the first fragment is read.
 */
#ifndef VERBATIM_TOOLS_FRAME_H
#define VERBATIM_TOOLS_FRAME_H

#include "capture.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

enum frame_kind {
	FRAME_OTHER,		/* no RDMA */
	FRAME_LINK,		/* of a link type that is not read here */
	FRAME_REST,		/* a later fragment of an IP datagram */
	FRAME_CUT,		/* RDMA, but its headers were not captured whole */
	FRAME_UNKNOWN,		/* RDMA, but no packet of this specification: probes of Verbatim's port map */
	FRAME_PACKET,
};

enum frame_form { FRAME_ROCE_V2, FRAME_ROCE_V1, FRAME_INFINIBAND };

enum { FRAME_LAYER_NONE = -1 };

struct frame {
	/* Offsets into the record's bytes; FRAME_LAYER_NONE: there is none. ip: the GRH, too. */
	int ethernet, lrh, ip, udp, bth;
	enum frame_form form;
	bool ipv6, is_fragment;
	uint8_t source[16], destination[16];	/* IPv4: v4-mapped; frame_lid_address() */
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

/* Of a packet of InfiniBand without GRH the address is a LID; -1: it is none. */
int frame_lid_of(const uint8_t address[16]);

#endif
