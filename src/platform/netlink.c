/* SPDX-License-Identifier: BSD-2-Clause */
/* One question and its answers (netlink.h). */
#include "platform/netlink.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "platform/fail.h"

#define BUFFER_BYTES	32768u
#define LEFT_MAX	4096u		/* unread messages of a reply */

static const struct timeval answer_time = { .tv_sec = 1 };

static int open_socket(int protocol, struct mnl_socket **opened)
{
	struct mnl_socket *socket = fail_now(FAIL_NETLINK) ? NULL :
				    mnl_socket_open2(protocol, SOCK_CLOEXEC);
	int err;

	if (!socket)
		return errno;
	/* The kernel answers before sendto() returns: only a sandbox that swallows the question lets us wait. */
	(void)setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVTIMEO, &answer_time, sizeof(answer_time));
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID)) {
		err = errno;
		mnl_socket_close(socket);
		return err;
	}
	*opened = socket;
	return 0;
}

void netlink_open(struct netlink *netlink)
{
	lock_init(&netlink->lock);
	netlink->sequence = 0;
	if (open_socket(NETLINK_ROUTE, &netlink->socket))
		netlink->socket = NULL;
}

void netlink_close(struct netlink *netlink)
{
	if (netlink->socket)
		mnl_socket_close(netlink->socket);
	netlink->socket = NULL;
	lock_destroy(&netlink->lock);
}

void netlink_abandon(struct netlink *netlink)
{
	if (netlink->socket)
		close(mnl_socket_get_fd(netlink->socket));
}

/* From the kernel: who may administer the network can send to any socket, and is not heard. -1: errno. */
static ssize_t netlink_receive(struct mnl_socket *socket, char buffer[BUFFER_BYTES])
{
	struct sockaddr_nl sender;
	struct iovec space = { buffer, BUFFER_BYTES };
	struct msghdr message = { .msg_name = &sender, .msg_iov = &space, .msg_iovlen = 1 };
	ssize_t got;

	do {
		message.msg_namelen = sizeof(sender);
		got = fail_now(FAIL_NETLINK_RECEIVE) ? -1 : recvmsg(mnl_socket_get_fd(socket), &message, 0);
	} while (got < 0 ? errno == EINTR : sender.nl_pid != 0);
	if (got >= 0 && message.msg_flags & MSG_TRUNC) {
		errno = ENOSPC;
		return -1;
	}
	return got;
}

/* The end of a dump, also where the kernel says that there is none: libmnl would take it for an empty one. */
static int netlink_take_end(const struct nlmsghdr *header, void *unused)
{
	int result = 0;

	if (mnl_nlmsg_get_payload_len(header) >= sizeof(result))
		memcpy(&result, mnl_nlmsg_get_payload(header), sizeof(result));
	if (result >= 0)
		return MNL_CB_STOP;
	errno = -result;
	return MNL_CB_ERROR;
}

/* An acknowledgement, or the error in its place. */
static int netlink_take_error(const struct nlmsghdr *header, void *unused)
{
	const struct nlmsgerr *error = mnl_nlmsg_get_payload(header);

	if (mnl_nlmsg_get_payload_len(header) < sizeof(*error)) {
		errno = EBADMSG;
		return MNL_CB_ERROR;
	}
	errno = -error->error;
	return error->error ? MNL_CB_ERROR : MNL_CB_STOP;
}

static int netlink_converse(struct mnl_socket *socket, struct nlmsghdr *question, unsigned sequence,
			    mnl_cb_t take, void *context)
{
	mnl_cb_t control[] = { [NLMSG_ERROR] = netlink_take_error, [NLMSG_DONE] = netlink_take_end };
	/* Threads of the application have stacks of any size. */
	char *buffer = fail_now(FAIL_ALLOCATE) ? NULL : malloc(BUFFER_BYTES);
	int more = MNL_CB_OK, err = 0;

	if (!buffer)
		return ENOMEM;
	question->nlmsg_seq = sequence;
	if (fail_now(FAIL_NETLINK_SEND) ||
	    mnl_socket_sendto(socket, question, question->nlmsg_len) < 0)
		more = MNL_CB_ERROR;
	while (more > MNL_CB_STOP) {
		ssize_t got = netlink_receive(socket, buffer);

		more = got < 0 ? MNL_CB_ERROR :
		       mnl_cb_run2(buffer, (size_t)got, sequence, mnl_socket_get_portid(socket), take, context,
				   control, sizeof(control) / sizeof(control[0]));
	}
	if (more < 0)
		err = errno;
	free(buffer);
	return err;
}

/* Unread replies are dropped, so that the next request does not see them. */
static void netlink_discard(struct mnl_socket *socket)
{
	char buffer[256];
	unsigned n;

	for (n = 0; n < LEFT_MAX; n++)
		if (recv(mnl_socket_get_fd(socket), buffer, sizeof(buffer), MSG_DONTWAIT) < 0 &&
		    (errno == EAGAIN || errno == EBADF))
			return;
}

int netlink_ask_once(int protocol, struct nlmsghdr *question, mnl_cb_t take, void *context)
{
	struct mnl_socket *socket = NULL;
	int err = open_socket(protocol, &socket);

	if (err)
		return err;
	err = netlink_converse(socket, question, 1, take, context);
	mnl_socket_close(socket);
	return err;
}

int netlink_ask(struct netlink *netlink, struct nlmsghdr *question, mnl_cb_t take, void *context)
{
	int err;

	if (!netlink || !netlink->socket)
		return netlink_ask_once(NETLINK_ROUTE, question, take, context);
	lock_acquire(&netlink->lock);
	err = netlink_converse(netlink->socket, question, ++netlink->sequence, take, context);
	if (err)
		netlink_discard(netlink->socket);
	lock_release(&netlink->lock);
	return err;
}
