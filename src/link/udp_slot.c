/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ports of this process's slots, from which it sends to peers on its own host: each is bound for
 * all addresses of both families. A socket on one address would not keep the port from others: they
 * could bind it on another address, and name the first as the source of a datagram (IP_PKTINFO).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "link/udp_internal.h"

/* Nothing is sent from where the kernel gives us no such socket, so nothing needs to be proven there. */
static int judge_failure(int err)
{
	return err == EADDRINUSE || err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS ? err : 0;
}

static int open_slot(struct udp_link *udp, enum udp_family family, uint32_t slot, struct udp_sender *sender)
{
	static const uint8_t any[16];
	int err, fd = udp_socket(family);

	if (fd < 0)
		return judge_failure(errno);
	memset(sender->source, 0, sizeof(sender->source));
	sender->port = udp_slot_port(slot);
	sender->hop_limit = UDP_HOP_LIMIT;
	err = udp_set_send_options(fd, family, sender);
	sender->hop_limit = 0;
	sender->unsettled = true;
	if (!err)
		err = udp_bind_to(fd, family, any, sender->port);
	if (err) {
		close(fd);
		return judge_failure(err);
	}
	/* S1: publishes port and unsettled; pairs with S2 in slot_sender_of */
	atomic_store_explicit(&sender->fd, fd, memory_order_release);
	udp_senders_changed(udp);
	return 0;
}

int udp_open_slot(struct link *link, unsigned index, uint32_t slot)
{
	struct udp_link *udp = udp_of(link);
	unsigned family;
	int err = index < UDP_SLOTS ? 0 : ENOMEM;

	lock_acquire(&udp->lock);
	for (family = 0; !err && family < UDP_FAMILY_COUNT; family++)
		err = open_slot(udp, family, slot, &udp->slot_sender[family][index]);
	lock_release(&udp->lock);
	if (err && index < UDP_SLOTS)
		udp_close_slot(link, index);
	return err;
}

void udp_close_slot(struct link *link, unsigned index)
{
	struct udp_link *udp = udp_of(link);
	unsigned family;

	for (family = 0; family < UDP_FAMILY_COUNT; family++) {
		int fd = atomic_exchange(&udp->slot_sender[family][index].fd, -1);

		udp_senders_changed(udp);
		if (fd >= 0)
			close(fd);
	}
}
