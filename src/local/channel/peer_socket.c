/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket of a channel (peer.h): bells, blocks as descriptors, and the end of the peer. */
#include "local/channel/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/call.h"
#include "platform/fail.h"

#define BELL_BYTES	1u
#define READS_MAX	16u		/* messages read from a socket in one go */
#define EVENTS_MAX	32
#define TURNS_ALONE	16u		/* of local_silence_bells(): one in so many looks at all */

void peer_send_bell(int fd)
{
	call_shield();
	/* A full queue means that a bell is pending. */
	while (send(fd, "", BELL_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

bool peer_send_block(struct peer *peer, uint32_t region, int fd)
{
	struct iovec iov = { .iov_base = &region, .iov_len = sizeof(region) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	call_shield();
	return !fail_now(FAIL_SENDMSG) &&
	       sendmsg(peer->process.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(region);
}

/* Remove a block and return its descriptor. Later blocks move up. */
static int passed_remove(struct peer *peer, unsigned i) REQUIRES(peer->inbox)
{
	int fd = peer->passed[i].fd;

	memmove(&peer->passed[i], &peer->passed[i + 1], (PASSED_MAX - 1 - i) * sizeof(peer->passed[0]));
	peer->passed[PASSED_MAX - 1].region = 0;
	return fd;
}

void peer_drop_blocks(struct peer *peer) REQUIRES(peer->inbox)
{
	while (peer->passed[0].region)
		close(passed_remove(peer, 0));
}

/* PASSED_MAX: there is none. */
static unsigned find_passed(const struct peer *peer, uint32_t region) REQUIRES(peer->inbox)
{
	unsigned i;

	for (i = 0; i < PASSED_MAX && peer->passed[i].region != region; i++)
		;
	return i;
}

/*
 * Replaces the previous descriptor if the block was sent again because the message behind it found
 * no room. If there is no place left, the oldest block not asked for is dropped.
 */
static void keep_block(struct peer *peer, uint32_t region, int fd) REQUIRES(peer->inbox)
{
	unsigned before = find_passed(peer, region);

	if (!region) {
		close(fd);
		return;
	}
	if (before < PASSED_MAX)
		close(passed_remove(peer, before));
	else if (peer->passed[PASSED_MAX - 1].region)
		close(passed_remove(peer, 0));
	peer->passed[find_passed(peer, 0)] = (struct passed_block){ region, fd };
}

/*
 * Take the descriptors of a message. True: one block, as @region announces, or none if none is
 * announced.
 */
static bool peer_take_fds(struct peer *peer, struct msghdr *message, uint32_t region)
	REQUIRES(peer->inbox)
{
	struct cmsghdr *header;
	unsigned blocks = 0, others = 0;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int), i;
		int fd;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			/* Blocks are memfds; anything else, such as the peer's end of this, is not kept. */
			if (region && !blocks && fcntl(fd, F_GET_SEALS) >= 0) {
				keep_block(peer, region, fd);
				blocks++;
			} else {
				close(fd);
				others++;
			}
		}
	}
	return !others && blocks == (region ? 1u : 0u);
}

/* READ_NONE: the socket is empty, or the peer has ended: it hung up or broke the protocol. */
enum read_result { READ_NONE, READ_BLOCK, READ_BELL };

static enum read_result read_one(struct peer *peer) REQUIRES(peer->inbox)
{
	uint32_t region = 0;
	struct iovec iov = { .iov_base = &region, .iov_len = sizeof(region) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t got;

	call_shield();
	got = recvmsg(peer->process.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got > 0) {
		bool block = got == sizeof(region) && region, bell = got == BELL_BYTES;

		if (!peer_take_fds(peer, &message, block ? region : 0) || !(block || bell) ||
		    (message.msg_flags & MSG_TRUNC))
			peer->ended = true;
		peer->rung |= bell;
		return peer->ended ? READ_NONE : bell ? READ_BELL : READ_BLOCK;
	}
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		peer->ended = true;
	return READ_NONE;
}

void peer_read_socket(struct peer *peer)
{
	unsigned n;

	lock_acquire(&peer->inbox);
	for (n = 0; n < READS_MAX && peer->process.fd >= 0 && read_one(peer) != READ_NONE; n++)
		;
	lock_release(&peer->inbox);
}

bool peer_read_bell(struct peer *peer)
{
	enum read_result got = READ_BLOCK;
	unsigned n;

	lock_acquire(&peer->inbox);
	for (n = 0; n < READS_MAX && peer->process.fd >= 0 && got == READ_BLOCK; n++)
		got = read_one(peer);
	lock_release(&peer->inbox);
	return got == READ_BELL;
}

bool peer_took_bell(struct peer *peer)
{
	bool rung;

	lock_acquire(&peer->inbox);
	rung = peer->rung;
	peer->rung = false;
	lock_release(&peer->inbox);
	return rung;
}

int peer_take_block(struct peer *peer, uint32_t region)
{
	unsigned i;
	int fd = -1;

	peer_read_socket(peer);
	lock_acquire(&peer->inbox);
	i = find_passed(peer, region);
	if (region && i < PASSED_MAX)
		fd = passed_remove(peer, i);
	lock_release(&peer->inbox);
	return fd;
}

void peer_end(struct peer *peer)
{
	lock_acquire(&peer->inbox);
	peer->ended = true;
	lock_release(&peer->inbox);
}

bool peer_has_ended(struct peer *peer)
{
	bool ended;

	lock_acquire(&peer->inbox);
	ended = peer->ended;
	lock_release(&peer->inbox);
	return ended;
}

void local_silence_bells(struct local *local)
{
	struct epoll_event event[EVENTS_MAX];
	struct peers *peers = local->peers;
	struct peer *peer;
	uint32_t turn;
	int i, count;

	if (!peers)
		return;
	/*
	 * Mostly it is the peer that rang last: a bell then costs one system call and not three. The
	 * others are looked at when it did not ring, and all of them every so often, as it may ring for
	 * ever.
	 */
	turn = atomic_fetch_add_explicit(&peers->turns, 1, memory_order_relaxed);
	peer = peer_at(local, atomic_load_explicit(&peers->rang, memory_order_relaxed));
	if (peer && turn % TURNS_ALONE && peer_read_bell(peer))
		return;
	call_shield();
	count = epoll_wait(local->bells_fd, event, EVENTS_MAX, 0);
	for (i = 0; i < count; i++) {
		peer = peer_at(local, event[i].data.u32);
		if (!peer)
			continue;
		if (peer_read_bell(peer))
			atomic_store_explicit(&peers->rang, peer->channel, memory_order_relaxed);
		if (!peer_has_ended(peer))
			continue;
		/* The worker dismisses it; until then it need not be looked at again. */
		epoll_ctl(local->bells_fd, EPOLL_CTL_DEL, peer->process.fd, NULL);
		atomic_store(&local->peers_due, true);
	}
}

void local_ring_bells(struct local *local)
{
	if (local->channel_link && ring_bells_are_due(local->channel_link))
		ring_wake_peers(local->channel_link);
}
