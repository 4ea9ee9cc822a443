/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The classic BPF program that selects the socket of the group for a packet, and the messages by
 * which the members learn the kernel's order. Pure: no sockets here.
 *
 * The program sees the UDP payload. Packets go by the slot in their destination QPN. Those to QP1
 * hold a management datagram: of connection management, answers go by the slot in the communication
 * ID that they answer; requests go to the member that serves the service ID, if known; else, like
 * all other datagrams, to a random member: a stopped one must not swallow every retransmission.
 *
 * A probe names the index it wants:
 *
 *	byte 0		0xff: no BTH opcode (0xe0 and above belong to manufacturers)
 *	     1..3	kind, version, family (4 or 6)
 *	     4..7	magic
 *	     8..11	index
 *	    12..15	asker's slot (probe) or answerer's first slot; flags
 *	    16..23	nonce of the derivation
 *	    24..	answer only: how many slots, then the slots, 2 bytes each; if there are any, how
 *			many services, 2 bytes, then their service IDs, 8 bytes each
 */
#ifndef VERBATIM_HOST_GROUP_PROGRAM_H
#define VERBATIM_HOST_GROUP_PROGRAM_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/slot.h"

#define GROUP_HASH	0xffffu		/* in a map: let the kernel hash over the members */
#define GROUP_OPCODE	0xffu
#define GROUP_SERVICES	128u		/* known to a program, and to an answer, at most */
#define GROUP_SILENT	16u

/*
 * The member for each slot and service, by its index in the group; GROUP_HASH: the kernel's choice.
 */
struct group_map {
	uint16_t index[SLOT_COUNT];	/* by slot */
	uint16_t size;			/* members, to choose a random one; 0: GROUP_HASH */
	uint16_t rest;			/* gets the packets of silent members; GROUP_HASH, too */
	uint16_t silent_count, silent[GROUP_SILENT];
	uint16_t service_count, service_index[GROUP_SERVICES];
	uint64_t service_id[GROUP_SERVICES];
};

/* An empty map: the kernel chooses. */
void group_map_clear(struct group_map *map);

/* Writes the program, at most BPF_MAXINSNS instructions (any map fits); returns how many. */
unsigned group_program_build(const struct group_map *map, struct sock_filter *program);

enum group_kind { GROUP_PROBE = 1, GROUP_ANSWER = 2 };

#define GROUP_PROBE_BYTES	24u
#define GROUP_MESSAGE_MAX	(28u + 2 * SLOT_COUNT + 8 * GROUP_SERVICES)

struct group_message {
	enum group_kind kind;
	uint8_t family;			/* 4 or 6 */
	bool program_known;		/* the sender knows that a program is attached */
	uint16_t slot;			/* of the sender */
	uint32_t index;
	uint64_t nonce;
	unsigned slot_count;		/* answer: all slots of the sender */
	uint16_t slots[SLOT_COUNT];
	unsigned service_count;		/* answer: services of the sender */
	uint64_t services[GROUP_SERVICES];
};

/* Returns the number of bytes written. */
size_t group_message_write(const struct group_message *message, uint8_t out[GROUP_MESSAGE_MAX]);
/* 0 or EBADMSG. group_message_is() tells whether it looks like one at all. */
int group_message_parse(const uint8_t *data, size_t bytes, struct group_message *message);
bool group_message_is(const uint8_t *data, size_t bytes);

#endif
