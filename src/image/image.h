/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a fabric's switches and ports would do with a packet of data, as memory that its process
 * writes and programs may read alone: the image. A program walks it before it hands a packet to
 * another one itself, and counts in a tally (tally.h). It knows the good case only: what a port
 * would discard, lose, or does not send yet goes by the fabric's process, which discards and counts.
 *
 *	| head | nodes | ports, 0 to n of each node | LFTs, MFTs, SL to VL, P_Keys, names, by offset |
 *
 * The process of the fabric changes it at any time, and moves the epoch afterwards: a walk that has
 * read half of a change is one of a switch whose tables are being written, and is repeated for the
 * next packet. It may be another user's: whoever reads believes no number in it.
 */
#ifndef VERBATIM_IMAGE_IMAGE_H
#define VERBATIM_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAGIC		0x76624969u
#define IMAGE_VERSION		3u	/* raise CTL_VERSION, too: of another image a program says nothing */
#define IMAGE_NONE		UINT32_MAX
#define IMAGE_SLOTS		1024u
#define IMAGE_CROSSINGS		30u	/* of a path; longer ones go by the fabric's process */
#define IMAGE_ENDS		30u	/* of a group */
#define IMAGE_MFT_WORDS		4u	/* a bit a port */
#define IMAGE_ACTIVE		4u	/* PortInfo:PortState */
#define IMAGE_NAME_MAX		128u	/* with its 0 */
#define IMAGE_TEXT_MAX		256u	/* of a path in words */

struct image_head {
	uint32_t magic, version;
	uint32_t nodes, ports;
	uint64_t bytes;
	uint64_t node_offset, port_offset;
	_Atomic uint32_t epoch;		/* moves after each change */
	_Atomic uint32_t relay;		/* all goes by the fabric's process: it shows packets */
	/* The host + 1 of the program that has a slot, or had it last; 0: nobody; IMAGE_NONE: several have it. */
	_Atomic uint32_t slot[IMAGE_SLOTS];
};

struct image_node {
	uint32_t first_port;		/* the number of its port 0 among all */
	uint32_t host;
	uint16_t lids, mlids;		/* rows of its tables in force; of a switch */
	uint8_t is_switch, powered, ports;	/* ports: without port 0 */
	uint8_t mft_primary, mft_other;	/* where packets to MLIDs without a row go; 255: nowhere */
	uint8_t reserved[3];
	uint64_t lft;			/* a byte a LID: 255 - port, so that 0 is none */
	uint64_t mft;			/* IMAGE_MFT_WORDS words an MLID */
	uint64_t name;			/* up to a 0 */
};

struct image_port {
	uint32_t node, peer;		/* peer: a port, or IMAGE_NONE */
	uint16_t lid, pkeys;
	uint8_t lmc, state, vls, mtu;	/* vls: how many are operational; mtu: 128 << mtu bytes */
	uint8_t enforces_in, enforces_out, loses, reserved;
	uint64_t sl_to_vl;		/* 8 bytes for each port of entry of a switch */
	uint64_t pkey;
};

_Static_assert(sizeof(struct image_node) == 48 && sizeof(struct image_port) == 40,
	       "the same in libraries and command, whoever compiled them");

/* One that is mapped. */
struct image {
	const struct image_head *head;
	const uint8_t *base;
	uint64_t bytes;
	uint32_t nodes, ports;
	uint64_t node_offset, port_offset;
};

/* False: these bytes are no image. */
bool image_open(struct image *image, const void *base, size_t bytes);
/* The number of a port by its node's; IMAGE_NONE: there is none. */
uint32_t image_port_number(const struct image *image, uint32_t node, uint32_t port);

struct image_question {
	uint32_t port;			/* of an HCA, that sends */
	uint16_t slid, dlid, pkey;
	uint8_t sl;
	unsigned payload;		/* bytes */
};

struct image_path {
	uint32_t epoch;			/* of the image, before it was walked */
	uint8_t vl;			/* of the last cable */
	unsigned crossings, ends;
	uint32_t exit[IMAGE_CROSSINGS];	/* ports that send it, each over a cable to its peer */
	uint32_t end[IMAGE_ENDS];	/* ports where it arrives; of a LID one */
};

/* False: the fabric's process has to carry it. Within one HCA port there are no crossings. */
bool image_walk(const struct image *image, const struct image_question *question,
		struct image_path *path);
/*
 * The way that such a packet takes, whoever carries it: "host1[1], sw1[1>3], host2[2]": nodes with the ports
 * that it comes to and leaves by. Of a group all cables that it crosses, and then all ends. Cut to the room with
 * "..."; "": it does not arrive, or the fabric's process alone knows.
 */
void image_show(const struct image *image, const struct image_question *question,
		char text[IMAGE_TEXT_MAX]);
uint32_t image_epoch(const struct image *image);
/* The host of the node that has a port. */
uint32_t image_host(const struct image *image, uint32_t port);
uint32_t image_slot(const struct image *image, uint32_t slot);
/* Has a program of that host the slot, and no other host's? A host without programs is IMAGE_NONE. */
bool image_host_has(const struct image *image, uint32_t host, uint32_t slot);
/* Is the LID one of that port? */
bool image_port_has(const struct image *image, uint32_t port, uint16_t lid);

#endif
