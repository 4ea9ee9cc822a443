/* SPDX-License-Identifier: BSD-2-Clause */
/* Packet sockets: one that only sends, and one that is opened when frames are wanted. */
#include "link/packet_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"

#define FRAME_MAX	65600u		/* 64 KiB of data on lo, and headers */
#define TAG_BYTES	4u
#define ADDRESS_BYTES	12u
#define SLOT_BYTES	(TAG_BYTES + FRAME_MAX)	/* room in front, for the VLAN tag that the kernel took off */
#define RECEIVE_BUFFER	(4 << 20)

static int packet_socket_bound(uint32_t interface, uint16_t protocol)
{
	const struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = (int)interface,
					     .sll_protocol = htons(protocol) };
	/* Without a protocol until it is bound: no other interface's frames get in. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	if (!bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	err = errno;
	close(fd);
	return -err;
}

int packet_socket_open(struct packet_socket *packets, uint32_t interface)
{
	int fd = packet_socket_bound(interface, 0);

	*packets = (struct packet_socket){ .send_fd = fd, .receive_fd = -1, .interface = interface };
	if (fd >= 0)
		return 0;
	packets->send_fd = -1;
	return -fd;
}

int packet_socket_listen(struct packet_socket *packets)
{
	const uint32_t interface = packets->interface;
	const struct packet_mreq all = { .mr_ifindex = (int)interface, .mr_type = PACKET_MR_PROMISC };
	const int bytes = RECEIVE_BUFFER, on = 1;
	int fd;

	if (packets->receive_fd >= 0)
		return 0;
	packets->buffer = malloc((size_t)PACKET_SOCKET_BATCH * SLOT_BYTES);
	if (!packets->buffer)
		return ENOMEM;
	fd = packet_socket_bound(interface, ETH_P_ALL);
	if (fd < 0) {
		free(packets->buffer);
		packets->buffer = NULL;
		return -fd;
	}
	/* Without these less is received, at worst. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)))
		log_info("interface %u: frames for other stations are not received: %s", interface,
			 strerror(errno));
	if (setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)))
		log_info("interface %u: VLAN tags of received frames are not known: %s", interface,
			 strerror(errno));
	packets->receive_fd = fd;
	return 0;
}

void packet_socket_deafen(struct packet_socket *packets)
{
	if (packets->receive_fd >= 0)
		close(packets->receive_fd);
	packets->receive_fd = -1;
	free(packets->buffer);
	packets->buffer = NULL;
}

void packet_socket_close(struct packet_socket *packets)
{
	packet_socket_deafen(packets);
	if (packets->send_fd >= 0)
		close(packets->send_fd);
	packets->send_fd = -1;
}

unsigned packet_socket_send(struct packet_socket *packets, const struct iovec *frames, unsigned count, int *err)
{
	struct mmsghdr message[PACKET_SOCKET_BATCH];
	unsigned done = 0;

	*err = 0;
	while (done < count) {
		unsigned n = count - done < PACKET_SOCKET_BATCH ? count - done : PACKET_SOCKET_BATCH, i;
		int sent;

		memset(message, 0, n * sizeof(message[0]));
		for (i = 0; i < n; i++) {
			message[i].msg_hdr.msg_iov = (struct iovec *)&frames[done + i];
			message[i].msg_hdr.msg_iovlen = 1;
		}
		sent = sendmmsg(packets->send_fd, message, n, MSG_DONTWAIT);
		if (sent < 0) {
			*err = errno;
			return done;
		}
		done += (unsigned)sent;
	}
	return done;
}

/* ---- receiving ---- */

struct slot_control {
	_Alignas(struct cmsghdr) uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

static void complete_frame(struct packet_socket_frame *frame, struct msghdr *header, unsigned bytes)
{
	const struct sockaddr_ll *from = header->msg_name;
	struct tpacket_auxdata aux;
	struct cmsghdr *message;

	memset(&aux, 0, sizeof(aux));
	for (message = CMSG_FIRSTHDR(header); message; message = CMSG_NXTHDR(header, message))
		if (message->cmsg_level == SOL_PACKET && message->cmsg_type == PACKET_AUXDATA)
			memcpy(&aux, CMSG_DATA(message), sizeof(aux));
	frame->bytes = bytes;
	frame->outgoing = from->sll_pkttype == PACKET_OUTGOING;
	frame->checked = aux.tp_status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY);
	if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || bytes < ADDRESS_BYTES)
		return;
	/* The tag back to its place behind the addresses. */
	frame->data -= TAG_BYTES;
	frame->bytes += TAG_BYTES;
	memmove(frame->data, frame->data + TAG_BYTES, ADDRESS_BYTES);
	put_be16(frame->data + ADDRESS_BYTES,
		 aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETHERTYPE_VLAN);
	put_be16(frame->data + ADDRESS_BYTES + 2, aux.tp_vlan_tci);
}

unsigned packet_socket_receive(struct packet_socket *packets, struct packet_socket_frame *frames)
{
	struct mmsghdr message[PACKET_SOCKET_BATCH];
	struct sockaddr_ll from[PACKET_SOCKET_BATCH];
	struct slot_control control[PACKET_SOCKET_BATCH];
	struct iovec space[PACKET_SOCKET_BATCH];
	int received, i;

	if (packets->receive_fd < 0)
		return 0;
	for (i = 0; i < (int)PACKET_SOCKET_BATCH; i++) {
		frames[i].data = packets->buffer + (size_t)i * SLOT_BYTES + TAG_BYTES;
		space[i] = (struct iovec){ .iov_base = frames[i].data, .iov_len = FRAME_MAX };
		message[i].msg_hdr = (struct msghdr){ .msg_name = &from[i], .msg_namelen = sizeof(from[i]),
						      .msg_iov = &space[i], .msg_iovlen = 1,
						      .msg_control = &control[i],
						      .msg_controllen = sizeof(control[i].bytes) };
	}
	received = recvmmsg(packets->receive_fd, message, PACKET_SOCKET_BATCH, MSG_DONTWAIT, NULL);
	for (i = 0; i < received; i++)
		complete_frame(&frames[i], &message[i].msg_hdr, message[i].msg_len);
	return received > 0 ? (unsigned)received : 0;
}
