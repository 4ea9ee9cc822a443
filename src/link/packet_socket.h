/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet frames of an interface, both ways, by a packet socket (packet(7)). The kernel has them,
 * too: nothing that is received here is kept from it.
 */
#ifndef VERBATIM_LINK_PACKET_SOCKET_H
#define VERBATIM_LINK_PACKET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKET_SOCKET_BATCH	16u

struct iovec;

struct packet_socket {
	int send_fd, receive_fd;	/* -1: not open */
	uint32_t interface;
	uint8_t *buffer;		/* of received frames */
};

struct packet_socket_frame {
	uint8_t *data;			/* valid until the next receive */
	size_t bytes;
	bool outgoing;			/* sent by this host */
	bool checked;			/* the kernel vouches for its checksums, or has yet to write them */
};

/* To send. 0; EPERM: needs CAP_NET_RAW in the network namespace; errno. */
int packet_socket_open(struct packet_socket *packets, uint32_t interface);
/* To receive, too: from now on, and frames for other stations as well. 0 or errno. */
int packet_socket_listen(struct packet_socket *packets);
/* Not to receive any more. */
void packet_socket_deafen(struct packet_socket *packets);
void packet_socket_close(struct packet_socket *packets);

/*
 * Sends frames, in order. Returns how many left: fewer than @count with *err EAGAIN (no room now) or the errno for
 * the next one.
 */
unsigned packet_socket_send(struct packet_socket *packets, const struct iovec *frames, unsigned count, int *err);
/* Without blocking: up to PACKET_SOCKET_BATCH frames, whole, with their VLAN tags. Returns how many. */
unsigned packet_socket_receive(struct packet_socket *packets, struct packet_socket_frame *frames);

#endif
