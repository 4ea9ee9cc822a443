/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots: which process of this host (of this network namespace) a QPN belongs to. QPN bits 23..14
 * are the slot. A process claims one by binding an abstract unix datagram socket whose name holds
 * the slot number: released by the kernel when the last holder closes it, no files, no daemon. Slot
 * 0 and 1023 are reserved. The same socket takes packets for us that another process received on
 * port 4791, and proofs, which only the holder of the sending slot can have sent.
 *
 * With a slot comes a second name, at which peers ask for shared memory (local/channel/handshake.h). It is
 * always claimed, so that no other process answers there.
 */
#ifndef VERBATIM_HOST_SLOT_H
#define VERBATIM_HOST_SLOT_H

#include "base/datagram.h"
#include "wire/qpn.h"

#define SLOT_NAME	"verbatim/slot/"	/* and the number: the abstract name */
/* Likewise; of holders that send from the UDP port of their slot. */
#define SLOT_CHANNEL_NAME "verbatim/channel/"

struct slot {
	uint32_t number;
	int fd;			/* the bound socket: readable when a packet was forwarded to us */
	int channel_fd;		/* SOCK_SEQPACKET, bound and not listening */
};

struct slot_proof {
	uint32_t number;	/* of the slot whose holder sent it */
	uint64_t nonce;
};

/* Claim a free slot, chosen at random. 0; EUSERS: all are taken; errno of the socket calls. */
int slot_claim(struct slot *slot);
void slot_release(struct slot *slot);
/* Is @number claimed by a living process of this network namespace? */
bool slot_is_claimed(uint32_t number);
/*
 * Does its holder send UDP to peers on this host from the port of the slot alone (link/udp.h)? Older versions
 * do not. 0 or errno of the socket calls.
 */
int slot_has_port(uint32_t number, bool *has);

/*
 * Forward a datagram (one packet or a run; all its fields but sealed arrive with it, forwarded set)
 * to the holder of @number, of any user. Never blocks. Its queue may hold as few as 10 datagrams,
 * so forward a run as one. 0; ECONNREFUSED: no process holds it; EAGAIN: its queue is full.
 */
int slot_forward(uint32_t number, const struct datagram *datagram);
/*
 * Send @nonce to the holder of @number, as only the holder of @slot can. Never blocks. 0;
 * ECONNREFUSED: no process holds it; EAGAIN: its queue is full.
 */
int slot_prove(const struct slot *slot, uint32_t number, uint64_t nonce);
/*
 * Take a datagram that was forwarded to us: data goes to @buffer. 0; EAGAIN: none; EBADMSG:
 * malformed; EPERM: of a user that may not forward; ENOMSG: *proof came instead.
 */
int slot_receive(struct slot *slot, struct datagram *datagram, uint8_t *buffer, size_t size,
		 struct slot_proof *proof);

#endif
