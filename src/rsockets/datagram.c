/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams, in and out. Each has a small header with the address and port that it comes from
 * (wire.h); over RoCE the address must be the one that the packet really came from. What is longer
 * than the path MTU less the header is refused with EMSGSIZE: there are no fragments.
 *
 * As with UDP, a datagram to a port without a socket is lost; a connected socket receives the
 * error.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "rsockets/rsocket.h"

enum { GRH_BYTES = 40, IPV4_IN_GRH = 20 };

/* ---- receiving ---- */

static struct rs_link *first_arrival(struct rsocket *rs)
{
	struct list *node;

	list_for_each(node, &rs->datagram.links) {
		struct rs_link *link = list_entry(node, struct rs_link, node);

		if (link->arrived != link->taken)
			return link;
	}
	return NULL;
}

/* The source address of the packet, from the GRH that precedes it, is the header's? */
static bool is_true(const uint8_t *grh, const struct sockaddr_storage *said)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)said;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)said;

	if (said->ss_family == AF_INET)
		return !memcmp(grh + IPV4_IN_GRH + 12, &v4->sin_addr, 4);
	return grh[0] >> 4 == 6 && !memcmp(grh + 8, &v6->sin6_addr, 16);
}

/* The next datagram that is for us; those that are not go. */
static struct rs_link *next_arrival(struct rsocket *rs, struct sockaddr_storage *from)
{
	struct rs_link *link;

	while ((link = first_arrival(rs))) {
		const uint8_t *grh = (const uint8_t *)rs_link_arrival(link);
		size_t bytes = link->arrivals[link->taken % link->receives].bytes;

		if (!rs_datagram_header_read(grh + GRH_BYTES, bytes, from) &&
		    (!link->has_addresses || is_true(grh, from)) &&
		    (!rs->datagram.connected || rs_address_same(from, (struct sockaddr *)&rs->datagram.peer)))
			return link;
		rs_link_take(link);
	}
	return NULL;
}

bool rs_datagram_readable_locked(struct rsocket *rs)
{
	struct sockaddr_storage from;

	return rs->error || next_arrival(rs, &from);
}

ssize_t rs_datagram_receive(struct rsocket *rs, struct rs_cursor *to, int flags,
			    struct sockaddr_storage *from, bool *truncated)
{
	int64_t deadline_ns = rs_deadline_ns(rs, flags, rs->options.receive_timeout_ms);
	struct sockaddr_storage source;
	struct rs_link *link = NULL;
	size_t bytes, copied;
	ssize_t count = 0;
	int err;

	lock_acquire(&rs->lock);
	do {
		err = rs_wait_locked(rs, rs_datagram_readable_locked, RS_READ, deadline_ns);
		if (!err)
			err = rs_take_error_locked(rs, 0);
		if (!err)
			link = next_arrival(rs, &source);
	} while (!err && !link);
	if (!err) {
		bytes = link->arrivals[link->taken % link->receives].bytes - RS_DATAGRAM_HEADER_BYTES;
		copied = rs_least(bytes, to->left);
		rs_cursor_scatter(to, rs_link_arrival(link) + GRH_BYTES + RS_DATAGRAM_HEADER_BYTES, copied);
		if (truncated)
			*truncated = copied < bytes;
		if (!(flags & MSG_PEEK))
			rs_link_take(link);
		count = (ssize_t)(flags & MSG_TRUNC ? bytes : copied);
		if (from)
			*from = source;
	}
	lock_release(&rs->lock);
	return err ? rs_result(err) : count;
}

/* ---- sending ---- */

bool rs_datagram_writable_locked(struct rsocket *rs)
{
	struct list *node;

	if (rs->datagram.looking)
		return false;
	list_for_each(node, &rs->datagram.links)
		if (!rs_link_send_slot(list_entry(node, struct rs_link, node)))
			return false;
	return true;
}

/* The destination, once it is known whether it is there: 0, or EAGAIN, EINTR ... */
static int find_destination(struct rsocket *rs, const struct sockaddr *to, int64_t deadline_ns,
			    struct rs_destination **destination) REQUIRES(rs->lock)
{
	int err = rs_datagram_autobind_locked(rs);

	while (!err) {
		/* Again after each wait: others may have made it go. */
		err = rs_destination_get_locked(rs, to, destination);
		if (err || (*destination)->state != RS_LOOKING)
			return err;
		err = rs_wait_locked(rs, rs_datagram_writable_locked, RS_WRITE, deadline_ns);
	}
	return err;
}

static int send_locked(struct rsocket *rs, struct rs_cursor *from, const struct sockaddr *to,
		       int64_t deadline_ns) REQUIRES(rs->lock)
{
	struct rs_destination *destination;
	size_t bytes = RS_DATAGRAM_HEADER_BYTES + from->left;
	char *slot;
	int err;

	for (;;) {
		err = find_destination(rs, to, deadline_ns, &destination);
		if (err)
			return err;
		if (destination->state == RS_UNKNOWN)
			return destination->remote && !rs->datagram.connected ?
				0 : destination->error;
		rs_links_progress_locked(rs);
		if (bytes > destination->link->mtu)
			return EMSGSIZE;
		slot = rs_link_send_slot(destination->link);
		if (slot) {
			rs_datagram_header_write(&destination->source, (uint8_t *)slot);
			rs_cursor_gather(from, slot + RS_DATAGRAM_HEADER_BYTES, from->left);
			return rs_link_send(destination->link, destination, bytes);
		}
		err = rs_wait_locked(rs, rs_datagram_writable_locked, RS_WRITE, deadline_ns);
		if (err)
			return err;
	}
}

ssize_t rs_datagram_send(struct rsocket *rs, struct rs_cursor *from, int flags,
			 const struct sockaddr *to)
{
	int64_t deadline_ns = rs_deadline_ns(rs, flags, rs->options.send_timeout_ms);
	size_t bytes = from->left;
	int err = 0;

	lock_acquire(&rs->lock);
	if (!to && !rs->datagram.connected)
		err = EDESTADDRREQ;
	if (!err)
		err = rs_take_error_locked(rs, 0);
	if (!err && !to)
		to = (struct sockaddr *)&rs->datagram.peer;
	if (!err)
		err = send_locked(rs, from, to, deadline_ns);
	lock_release(&rs->lock);
	return err ? rs_result(err) : (ssize_t)bytes;
}

int rs_datagram_connect(struct rsocket *rs, const struct sockaddr *address)
{
	struct rs_destination *destination;
	int err = 0;

	lock_acquire(&rs->lock);
	rs->datagram.connected = false;
	if (address->sa_family != AF_UNSPEC) {
		/* Ask now; nobody waits for the answer but the first send. */
		err = rs_datagram_autobind_locked(rs);
		if (!err)
			err = rs_destination_get_locked(rs, address, &destination);
		if (!err) {
			memset(&rs->datagram.peer, 0, sizeof(rs->datagram.peer));
			memcpy(&rs->datagram.peer, address, address_bytes(address));
			rs->datagram.connected = true;
		}
	}
	lock_release(&rs->lock);
	return rs_result(err);
}
