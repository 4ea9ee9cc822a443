/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages between two processes of a channel: how a requester gets grants (grant.h). They
 * go through the ring, in order with everything else; the ring's answer bit tells that the peer
 * could not take one, which is then sent again.
 *
 *	requester					owner
 *	ASK_QP	may my QP use yours directly?	->	connected, same PSNs, same path MTU?
 *						<-	QP	your grant of it, or 0
 *	ASK_KEY	which region is this key's?	->	of that QP's protection domain, for remote access?
 *						<-	KEY	your grant of it, or 0
 *						<-	KEY_GONE	it was deregistered
 *	ASK_SRQ	whose is the SRQ that XRC names?	->	of the domain of that QP?
 *						<-	SRQ	its protection domain, if it is
 *	a packet to a QP			<-	DROPPED	it was dropped, without an answer: why
 *	OPENED	the channel is open here: my packets for you come by it alone (agree.c); both ends say so,
 *		and again when the virtual fabric that they are at is another one
 *	BEHIND	packets by the fabric's process precede those of the fabric behind this
 */
#ifndef VERBATIM_LOCAL_GRANT_CONTROL_H
#define VERBATIM_LOCAL_GRANT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_kind {
	CONTROL_ASK_QP = 1,
	CONTROL_QP,
	CONTROL_ASK_KEY,
	CONTROL_KEY,
	CONTROL_KEY_GONE,
	CONTROL_ASK_SRQ,
	CONTROL_SRQ,
	CONTROL_DROPPED,
	CONTROL_OPENED,
	CONTROL_BEHIND,
	CONTROL_KINDS
};

/* Memory layout; fields that a kind does not use are 0. */
struct control {
	uint32_t kind;			/* enum control_kind */
	uint32_t qpn;			/* ASK_QP, QP, ASK_SRQ, SRQ: the requester's */
	uint32_t owner_qpn;		/* ASK_QP, QP, ASK_SRQ, SRQ, DROPPED */
	uint32_t qp;			/* QP, SRQ: the owner's grant; ASK_KEY, ASK_SRQ: the same, as a proof */
	uint32_t requester_qp;		/* ASK_QP, QP: the requester's own grant, for fetching from it */
	uint32_t key;			/* ASK_KEY, KEY, KEY_GONE */
	uint32_t region;		/* KEY, KEY_GONE: the grant; 0: none */
	uint32_t pd;			/* QP, KEY, SRQ: number of the owner's protection domain; SRQ: 0: none */
	uint32_t access;		/* QP: qp_access_flags; KEY: of the region */
	uint32_t psn;			/* ASK_QP, QP: the requester's next; DROPPED: of the packet */
	uint32_t mtu;			/* ASK_QP: path MTU, bytes */
	uint32_t refusal, value;	/* DROPPED, QP without a grant: enum drop, its value; */
					/* OPENED: value: QPs that send by UDP nevertheless */
	uint32_t type;			/* ASK_QP: of the requester's QP, enum ibv_qp_type */
	uint32_t mapped;		/* KEY: 1: the block's descriptor was sent before; 2: for reading */
	uint32_t srqn;			/* ASK_SRQ, SRQ; ASK_KEY of XRC: that the request names */
	uint64_t start, length;		/* KEY: addresses as named by requests, bytes */
	uint64_t host;			/* KEY: where @start lies in the owner's address space */
	uint64_t block, block_bytes;	/* KEY, mapped: the block's place there */
	uint64_t place, layout;		/* QP: where the owner's QP lies; how such things are laid out there */
	uint64_t fabric;		/* OPENED: which fabric the process is at (local_set_fabric()) */
};

#define CONTROL_BYTES sizeof(struct control)

/* Parse @bytes at @data, which may change meanwhile. False: not a control message. */
bool control_parse(const uint8_t *data, size_t bytes, struct control *control);

#endif
