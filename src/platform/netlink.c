/* SPDX-License-Identifier: BSD-2-Clause */
/* One question and its answers (netlink.h). */
#include "platform/netlink.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/fail.h"

#define BUFFER_BYTES	32768u
#define LEFT_MAX	4096u		/* unread messages of a reply */

static int open_socket(int protocol, struct mnl_socket **opened)
{
	struct mnl_socket *socket = fail_now(FAIL_NETLINK) ? NULL :
				    mnl_socket_open2(protocol, SOCK_CLOEXEC);
	int err;

	if (!socket)
		return errno;
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

static int netlink_converse(struct mnl_socket *socket, struct nlmsghdr *question, unsigned sequence,
			    mnl_cb_t take, void *context)
{
	char buffer[BUFFER_BYTES];
	int more;

	question->nlmsg_seq = sequence;
	if (fail_now(FAIL_NETLINK_SEND) ||
	    mnl_socket_sendto(socket, question, question->nlmsg_len) < 0)
		return errno;
	more = MNL_CB_OK;
	while (more > MNL_CB_STOP) {
		ssize_t got = fail_now(FAIL_NETLINK_RECEIVE) ? -1 :
			      mnl_socket_recvfrom(socket, buffer, sizeof(buffer));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno;
		more = mnl_cb_run(buffer, (size_t)got, sequence, mnl_socket_get_portid(socket),
				  take, context);
		if (more < 0)
			return errno;
	}
	return 0;
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
