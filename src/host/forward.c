/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The format on the socket (forward.h): a header of fixed layout, then the packet.
 */
#include "host/forward.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "host/port_owner.h"
#include "platform/clock.h"
#include "platform/fail.h"

#define HEADER_MAGIC	0x5662534cu	/* "VbSL" */
#define HEADER_VERSION	1u
#define HEADER_BYTES	64u
#define FORWARD_LINK_MAX	15u	/* as many as a route has room for */
#define NONCE_MAGIC	0x56624e4fu	/* "VbNO" */

/* Sent as is: all on one host. */
struct nonce_message {
	uint32_t magic, version;
	uint64_t nonce;
};

enum header_field {
	/* The link's tag (0: UDP) and the version were one number: who knows no tags refuses one. */
	FORWARD_MAGIC = 0, FORWARD_LINK = 4, FORWARD_VERSION = 5, FORWARD_TRAFFIC_CLASS = 6, FORWARD_HOP_LIMIT = 7,
	FORWARD_SOURCE = 8, FORWARD_DESTINATION = 24, FORWARD_INTERFACE = 40, FORWARD_SOURCE_PORT = 44,
	FORWARD_SEGMENT_NUMBER = 46, FORWARD_SEGMENT_BYTES = 48, FORWARD_BYTES = 52,
	FORWARD_FLOW_LABEL = 56, FORWARD_SPREAD = 60,
};

static void write_header(uint8_t header[HEADER_BYTES], const struct datagram *datagram)
{
	put_be32(header + FORWARD_MAGIC, HEADER_MAGIC);
	header[FORWARD_LINK] = datagram->link;
	header[FORWARD_VERSION] = HEADER_VERSION;
	header[FORWARD_TRAFFIC_CLASS] = datagram->traffic_class;
	header[FORWARD_HOP_LIMIT] = datagram->hop_limit;
	memcpy(header + FORWARD_SOURCE, datagram->source, 16);
	memcpy(header + FORWARD_DESTINATION, datagram->destination, 16);
	put_be32(header + FORWARD_INTERFACE, datagram->interface);
	put_be16(header + FORWARD_SOURCE_PORT, datagram->source_port);
	put_be16(header + FORWARD_SEGMENT_NUMBER, (uint16_t)datagram->segment_number);
	put_be32(header + FORWARD_SEGMENT_BYTES, (uint32_t)datagram->segment_bytes);
	put_be32(header + FORWARD_BYTES, (uint32_t)datagram->bytes);
	put_be32(header + FORWARD_FLOW_LABEL, datagram->flow_label);
	put_be32(header + FORWARD_SPREAD, datagram->spread);
}

/* @bytes: how many came after the header. Any local process can write here: check everything. */
static int read_header(const uint8_t header[HEADER_BYTES], size_t bytes, struct datagram *datagram)
{
	struct datagram read = {
		.link = header[FORWARD_LINK],
		.checked = header[FORWARD_LINK],	/* whoever forwards it has read it: mad/dispatch.c */
		.traffic_class = header[FORWARD_TRAFFIC_CLASS],
		.hop_limit = header[FORWARD_HOP_LIMIT],
		.interface = get_be32(header + FORWARD_INTERFACE),
		.source_port = get_be16(header + FORWARD_SOURCE_PORT),
		.segment_number = get_be16(header + FORWARD_SEGMENT_NUMBER),
		.segment_bytes = get_be32(header + FORWARD_SEGMENT_BYTES),
		.bytes = get_be32(header + FORWARD_BYTES),
		.flow_label = get_be32(header + FORWARD_FLOW_LABEL),
		.spread = get_be32(header + FORWARD_SPREAD),
		.forwarded = true,
	};

	if (get_be32(header + FORWARD_MAGIC) != HEADER_MAGIC ||
	    header[FORWARD_VERSION] != HEADER_VERSION || read.link > FORWARD_LINK_MAX ||
	    read.bytes != bytes || !bytes || read.segment_bytes > bytes)
		return EBADMSG;
	memcpy(read.source, header + FORWARD_SOURCE, 16);
	memcpy(read.destination, header + FORWARD_DESTINATION, 16);
	*datagram = read;
	return 0;
}

int forward_send(int fd, const struct abstract_name *name, const struct datagram *datagram)
{
	uint8_t header[HEADER_BYTES];
	struct sockaddr_un to = name->address;
	struct iovec iov[2] = {
		{ .iov_base = header, .iov_len = sizeof(header) },
		{ .iov_base = datagram->data, .iov_len = datagram->bytes },
	};
	struct msghdr message = { .msg_name = &to, .msg_namelen = name->bytes,
				  .msg_iov = iov, .msg_iovlen = 2 };

	write_header(header, datagram);
	if (fail_now(FAIL_SENDMSG) || sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return errno == EWOULDBLOCK || errno == ENOBUFS ? EAGAIN : errno;
	return 0;
}

int forward_send_nonce(int fd, const struct abstract_name *name, uint64_t nonce)
{
	const struct nonce_message message = { NONCE_MAGIC, HEADER_VERSION, nonce };

	if (fail_now(FAIL_SENDMSG) ||
	    sendto(fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&name->address, name->bytes) < 0)
		return errno == EWOULDBLOCK || errno == ENOBUFS ? EAGAIN : errno;
	return 0;
}

int forward_prepare(int fd)
{
	int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? errno : 0;
}

static bool is_believed(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	struct ucred sender;

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS ||
	    header->cmsg_len != CMSG_LEN(sizeof(sender)))
		return false;
	memcpy(&sender, CMSG_DATA(header), sizeof(sender));
	return port_owner_may_forward(sender.uid, clock_now_ns());
}

int forward_receive(int fd, struct datagram *datagram, uint8_t *buffer, size_t size,
		    struct abstract_name *sender, uint64_t *nonce)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	uint8_t header[HEADER_BYTES];
	struct iovec iov[2] = {
		{ .iov_base = header, .iov_len = sizeof(header) },
		{ .iov_base = buffer, .iov_len = size },
	};
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct nonce_message proof;
	ssize_t got;
	int err;

	if (sender) {
		message.msg_name = &sender->address;
		message.msg_namelen = sizeof(sender->address);
	}
	got = fail_now(FAIL_RECVMSG) ? -1 : recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EINTR || errno == EWOULDBLOCK ? EAGAIN : errno;
	if (sender)
		sender->bytes = message.msg_namelen;
	if (got == sizeof(proof)) {
		memcpy(&proof, header, sizeof(proof));
		if (!nonce || proof.magic != NONCE_MAGIC || proof.version != HEADER_VERSION)
			return EBADMSG;
		*nonce = proof.nonce;
		return ENOMSG;
	}
	if ((size_t)got <= sizeof(header) || (message.msg_flags & MSG_TRUNC))
		return EBADMSG;
	if (!is_believed(&message))
		return EPERM;
	err = read_header(header, (size_t)got - sizeof(header), datagram);
	if (!err)
		datagram->data = buffer;
	return err;
}
