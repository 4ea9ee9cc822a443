/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the processes of a host share is set up and taken down with the HCA: VERBATIM_MEMORY, the slots at
 * which we listen, the table of peers.
 */
#include "local/move/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"
#include "platform/fail.h"

int local_mode_of(const char *text, enum local_mode *mode)
{
	static const char *const names[] = { "auto", "mapped", "copy", "ring", "off" };
	unsigned i;

	*mode = LOCAL_AUTO;
	if (!text[0])
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i])) {
			*mode = (enum local_mode)i;
			return 0;
		}
	complain("VERBATIM_MEMORY: invalid value '%s': expected auto, mapped (the same), copy (one "
		 "copy between processes), ring (packets through shared memory) or off (UDP, as "
		 "between hosts)", text);
	return EINVAL;
}

void local_add_slot(struct local *local, const struct slot *slot)
{
	struct peers *peers = local->peers;
	unsigned count;
	int err;

	if (!peers)
		return;
	count = peers_slots(peers);
	if (count == HANDSHAKE_SLOTS)
		return;
	err = waiter_add(local->waiter, slot->channel_fd, local->connect_tag);
	if (!err) {
		err = handshake_listen(slot->channel_fd);
		if (err)	/* to epoll, a socket that does not listen has hung up */
			waiter_remove(local->waiter, slot->channel_fd);
	}
	if (err) {
		log_info("slot %u cannot listen for processes of this host, no memory is shared: "
			 "error %d", slot->number, err);
		return;
	}
	peers->slot[count] = slot;
	atomic_store_explicit(&peers->slots, count + 1, memory_order_release);
}

static void move_receive(struct local *local)
{
	local_receive(local, NULL);
}

static const struct channel_ops channel_ops = { .receive = move_receive, .lost = messages_lost };

int local_open(struct local *local)
{
	struct peers *peers;
	int err;

	/* A program that runs with other rights than its user's shares no memory. */
	if (local->mode == LOCAL_OFF || getauxval(AT_SECURE))
		return 0;
	peers = calloc(1, sizeof(*peers));
	if (!peers)
		return ENOMEM;
	err = ring_open(&local->channel_link, local->counters, peer_send_bell);
	if (err)
		goto free_peers;
	local->bells_fd = fail_now(FAIL_EPOLL) ? -1 : epoll_create1(EPOLL_CLOEXEC);
	err = local->bells_fd < 0 ? errno : waiter_add(local->waiter, local->bells_fd, local->bells_tag);
	if (err)
		goto close_ring;
	peers->ops = &channel_ops;
	lock_init(&peers->lock);
	atomic_init(&peers->later_ns, TIME_NEVER);
	peers->spare_fd = fcntl(local->bells_fd, F_DUPFD_CLOEXEC, 0);
	local->peers = peers;
	local->direct = local->mode != LOCAL_RING;
	atomic_store(&local->epoch, 1);
	local->mrs->drain_peers = drain_region;
	local->mrs->forget = region_forget;
	local->mrs->peers = local;
	return 0;
close_ring:
	local->channel_link->ops->close(local->channel_link);
	local->channel_link = NULL;
free_peers:
	free(peers);
	return err;
}

void local_close(struct local *local)
{
	struct peers *peers = local->peers;
	struct peer *peer;
	unsigned i;

	if (!peers)
		return;
	attempts_abandon(peers);
	for (i = 0; i < CHANNELS_MAX; i++)
		if (peer_at(local, i))
			peer_dismiss(local, peer_at(local, i));
	for (i = 0; i < CHANNELS_MAX; i++) {
		peer = atomic_load(&peers->peer[i]);
		if (peer)
			peer_free(peer);
	}
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	close(local->bells_fd);
	local->channel_link->ops->close(local->channel_link);
	local->mrs->drain_peers = NULL;
	local->mrs->forget = NULL;
	lock_destroy(&peers->lock);
	free(peers);
	local->peers = NULL;
	local->direct = false;
	local->channel_link = NULL;
}

void local_abandon(struct local *local)
{
	struct peers *peers = local->peers;
	unsigned i;

	if (!peers)
		return;
	if (peers->spare_fd >= 0)
		close(peers->spare_fd);
	close(local->bells_fd);
	attempts_abandon(peers);
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = atomic_load(&peers->peer[i]);

		if (peer)
			handshake_abandon(&peer->process);
	}
}
