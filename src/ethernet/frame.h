/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of an Ethernet frame that flow rules and receive hashing look at (IEEE 802.3, 802.1Q, RFC 791, 8200,
 * 9293, 768, 4303, 7348, 2784, 3032): found, not judged.
 */
#ifndef VERBATIM_ETHERNET_FRAME_H
#define VERBATIM_ETHERNET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_BYTES	14u	/* of a frame: addresses and type */
#define FRAME_VLAN_BYTES	4u

enum frame_layer {
	LAYER_ETHERNET,			/* destination, source, VLAN tag (0: none), type behind it: 16 bytes */
	LAYER_IPV4,
	LAYER_IPV6,
	LAYER_TCP,
	LAYER_UDP,
	LAYER_ESP,
	LAYER_VXLAN,
	LAYER_GRE,			/* flags and version, protocol, key (0: none): 8 bytes */
	LAYER_MPLS,			/* first label */
	LAYERS
};

/* Headers of one stack. NULL: the frame has none such; a later fragment has none of TCP, UDP or ESP. */
struct frame_stack {
	const uint8_t *layer[LAYERS];
	bool tagged;			/* with a VLAN tag */
	uint8_t ethernet[16], gre[8];	/* in the form above */
};

/* Points into itself: not to be copied. */
struct frame {
	const uint8_t *data;
	size_t bytes;
	struct frame_stack outer, inner;	/* inner: what VXLAN, GRE or IP in IP carries */
};

/* The frame may be cut or malformed: headers that it has not in full are not found. */
void frame_dissect(const uint8_t *data, size_t bytes, struct frame *frame);

/* Are the checksums of the outer IPv4 header, and of TCP or UDP, right, or absent? False also of other frames. */
bool frame_checksums_are_good(const struct frame *frame);
/* Writes them into the frame, which frame->data is of. */
void frame_write_checksums(const struct frame *frame, uint8_t *data);

#endif
