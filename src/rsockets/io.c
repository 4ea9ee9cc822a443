/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that move data, all of them front ends of two functions for streams and two for
 * datagrams. Flags that change what a call means, and are not there, are refused; those that are a
 * hint are ignored.
 */
#include <errno.h>
#include <stdlib.h>

#include "rsockets/rsocket.h"

#define RECEIVE_FLAGS	(MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL | MSG_NOSIGNAL | MSG_TRUNC | \
			 MSG_CMSG_CLOEXEC)
#define SEND_FLAGS	(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_CONFIRM | MSG_DONTROUTE | \
			 MSG_EOR | MSG_WAITALL)

struct transfer {
	struct rsocket *rs;
	struct rs_cursor data;
};

/* 0; or an errno, also where transfer->rs is NULL: there is no such socket, before all else. */
static int io_begin(struct transfer *transfer, int socket, const struct iovec *iov, size_t count,
		    int unknown_flags)
{
	int err = rs_cursor_init(&transfer->data, iov, count);

	transfer->rs = rs_get(socket);
	if (!transfer->rs)
		return errno;
	if (unknown_flags & (transfer->rs->type == SOCK_STREAM ? ~MSG_OOB : ~0))
		return EOPNOTSUPP;
	return err;
}

static ssize_t io_receive(int socket, const struct iovec *iov, size_t count, int flags,
			  struct sockaddr_storage *from, bool *truncated)
{
	struct transfer transfer;
	int err = io_begin(&transfer, socket, iov, count, flags & ~RECEIVE_FLAGS);
	struct rsocket *rs RS_HELD = transfer.rs;

	if (!rs)
		return -1;
	if (err)
		return rs_result(err);
	if (rs->type == SOCK_DGRAM)
		return rs_datagram_receive(rs, &transfer.data, flags, from, truncated);
	return transfer.data.left ? rs_stream_receive(rs, &transfer.data, flags) : 0;
}

static ssize_t io_transmit(int socket, const struct iovec *iov, size_t count, int flags,
			   const struct sockaddr *to)
{
	struct transfer transfer;
	int err = io_begin(&transfer, socket, iov, count, flags & ~SEND_FLAGS);
	struct rsocket *rs RS_HELD = transfer.rs;

	if (!rs)
		return -1;
	if (err)
		return rs_result(err);
	if (rs->type == SOCK_DGRAM)
		return rs_datagram_send(rs, &transfer.data, flags, to);
	return rs_stream_send(rs, &transfer.data, flags);
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	CALL_BLOCKING();
	struct iovec iov = { buf, len };

	return io_receive(socket, &iov, 1, flags, NULL, NULL);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	CALL_BLOCKING();

	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	CALL_BLOCKING();

	if (iovcnt < 0 || iovcnt > IOV_MAX)
		return rs_result(EINVAL);
	return io_receive(socket, iov, (size_t)iovcnt, 0, NULL, NULL);
}

/* Of a stream, the address stays as it is and its length becomes 0. */
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	CALL_BLOCKING();
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	struct iovec iov = { buf, len };
	ssize_t count = io_receive(socket, &iov, 1, flags, &from, NULL);

	if (count >= 0 && src_addr && addrlen)
		rs_address_out((struct sockaddr *)&from, src_addr, addrlen);
	return count;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	CALL_BLOCKING();
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	bool truncated = false;
	ssize_t count = io_receive(socket, msg->msg_iov, msg->msg_iovlen, flags, &from, &truncated);

	if (count < 0)
		return count;
	if (msg->msg_name)
		rs_address_out((struct sockaddr *)&from, msg->msg_name, &msg->msg_namelen);
	msg->msg_controllen = 0;
	msg->msg_flags = truncated ? MSG_TRUNC : 0;
	return count;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	CALL_BLOCKING();
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return io_transmit(socket, &iov, 1, flags, NULL);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	CALL_BLOCKING();

	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	CALL_BLOCKING();

	if (iovcnt < 0 || iovcnt > IOV_MAX)
		return rs_result(EINVAL);
	return io_transmit(socket, iov, (size_t)iovcnt, 0, NULL);
}

/* 0: @to is an address of a length that goes with its family, or none. */
static int check_destination(const struct sockaddr *to, socklen_t length)
{
	if (!to)
		return 0;
	if (length < sizeof(to->sa_family))
		return EINVAL;
	if (!address_bytes(to))
		return EAFNOSUPPORT;
	return length < address_bytes(to) ? EINVAL : 0;
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	CALL_BLOCKING();
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	int err = check_destination(dest_addr, addrlen);

	if (err)
		return rs_result(err);
	return io_transmit(socket, &iov, 1, flags, dest_addr);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	CALL_BLOCKING();
	int err = check_destination(msg->msg_name, msg->msg_namelen);

	if (!err && msg->msg_control && msg->msg_controllen)
		err = EOPNOTSUPP;
	if (err)
		return rs_result(err);
	return io_transmit(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name);
}
