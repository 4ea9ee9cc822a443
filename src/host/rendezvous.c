/* SPDX-License-Identifier: BSD-2-Clause */
/* Meeting the holder of a slot (rendezvous.h). */
#include "host/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/name.h"
#include "platform/fail.h"

#define BACKLOG		64
#define FDS_MAX		4u
#define CARD_WAIT_MS	2		/* the card follows the connection at once */
#define SEALS		(F_SEAL_SHRINK | F_SEAL_GROW)

int rendezvous_listen(uint32_t slot, int *fd)
{
	struct name name = name_of_slot(RENDEZVOUS_NAME, slot);

	return name_listen(&name, BACKLOG, fd);
}

/* ---- cards ---- */

static int send_card(int fd, const struct rendezvous_card *card, const int *fds, unsigned count)
{
	struct rendezvous_card out = *card;
	struct iovec iov = { .iov_base = &out, .iov_len = sizeof(out) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *header;

	out.magic = RENDEZVOUS_MAGIC;
	out.version = RENDEZVOUS_VERSION;
	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	if (fail_now(FAIL_SENDMSG) || sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		return errno;
	return 0;
}

/* Who has no pool (its card says 0 bytes) fills the place with what is to hand. */
static int pool_or_other(const struct rendezvous_gifts *gifts)
{
	return gifts->pool_fd >= 0 ? gifts->pool_fd : gifts->arena_fd;
}

static void take_fds(struct msghdr *message, int fds[FDS_MAX])
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	size_t count, i;

	for (i = 0; i < FDS_MAX; i++)
		fds[i] = -1;
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return;
	count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(header), (count < FDS_MAX ? count : FDS_MAX) * sizeof(int));
}

/* Is @fd a memfd of @bytes that nobody can shrink? Of ordinary pages: of huge ones there may be none. */
static bool is_sealed(int fd, uint64_t bytes)
{
	struct stat stat;
	struct statfs system;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &stat) &&
	       (uint64_t)stat.st_size == bytes && !fstatfs(fd, &system) &&
	       system.f_type == TMPFS_MAGIC;
}

/* Writing to a pipe or socket instead could block, or raise SIGPIPE. */
static bool is_event_fd(int fd)
{
	char path[32], target[32];
	ssize_t length;

	if (fd < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return true;	/* no /proc: believed */
	target[length] = '\0';
	return !strcmp(target, "anon_inode:[eventfd]");
}

static bool is_sound(const struct rendezvous_card *card)
{
	unsigned i;

	if (card->magic != RENDEZVOUS_MAGIC || card->version != RENDEZVOUS_VERSION ||
	    card->slot_count > RENDEZVOUS_SLOTS)
		return false;
	for (i = 0; i < card->slot_count; i++)
		if (card->slot[i] == 0 || card->slot[i] >= SLOT_COUNT - 1)
			return false;
	return true;
}

static int receive_card(struct rendezvous_peer *peer)
{
	struct iovec iov = { .iov_base = &peer->card, .iov_len = sizeof(peer->card) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	int fds[FDS_MAX];
	ssize_t got = fail_now(FAIL_RECVMSG) ? -1 : recvmsg(peer->fd, &message, MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno;
	take_fds(&message, fds);
	peer->arena_fd = fds[0];
	peer->doorbell_fd = fds[1];
	peer->pool_fd = fds[2];
	peer->channel_fd = fds[3];
	if (got == 0)
		return ECONNRESET;
	if (got != sizeof(peer->card) || !is_sound(&peer->card))
		return EPROTO;
	if (peer->card.verdict)
		return peer->card.verdict < 4096 && peer->card.verdict != EAGAIN ?
			       (int)peer->card.verdict : EPROTO;
	return is_sealed(peer->arena_fd, peer->card.arena_bytes) && is_event_fd(peer->doorbell_fd) &&
	       (!peer->card.pool_bytes || is_sealed(peer->pool_fd, peer->card.pool_bytes)) ?
		       0 : EPROTO;
}

static bool is_same_user(struct rendezvous_peer *peer)
{
	struct ucred ucred;
	socklen_t bytes = sizeof(ucred);

	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes))
		return false;
	peer->pid = ucred.pid;
	return ucred.uid == geteuid();
}

static bool wait_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	int ready;

	do
		ready = poll(&pollfd, 1, timeout_ms);
	while (ready < 0 && errno == EINTR);
	return ready == 1;
}

static void init_peer(struct rendezvous_peer *peer, int fd)
{
	*peer = (struct rendezvous_peer){ .fd = fd, .arena_fd = -1, .doorbell_fd = -1, .pool_fd = -1,
					  .channel_fd = -1 };
}

void rendezvous_part(struct rendezvous_peer *peer)
{
	int *const fds[] = { &peer->fd, &peer->arena_fd, &peer->doorbell_fd, &peer->pool_fd,
			     &peer->channel_fd };
	unsigned i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* ---- both sides ---- */

int rendezvous_connect(uint32_t slot, const struct rendezvous_card *card,
		       const struct rendezvous_gifts *gifts, struct rendezvous_peer *peer)
{
	const int fds[FDS_MAX] = { gifts->arena_fd, gifts->doorbell_fd, pool_or_other(gifts),
				   gifts->channel_fd };
	struct name name = name_of_slot(RENDEZVOUS_NAME, slot);
	struct rendezvous_peer met;
	int fd, err = name_connect(&name, SOCK_SEQPACKET, &fd);

	if (err)
		return err == EAGAIN ? ETIMEDOUT : err;
	init_peer(&met, fd);
	err = is_same_user(&met) ? send_card(met.fd, card, fds, FDS_MAX) : EPERM;
	if (err) {
		rendezvous_part(&met);
		return err == EPIPE ? ECONNRESET : err;
	}
	*peer = met;
	return 0;
}

int rendezvous_hear(struct rendezvous_peer *peer, uint64_t timeout_ns)
{
	int err;

	if (!wait_readable(peer->fd, (int)((timeout_ns + 999999) / 1000000)))
		return EAGAIN;
	err = receive_card(peer);
	if (err && err != EAGAIN)
		rendezvous_part(peer);
	return err;
}

bool rendezvous_is_answered(const struct rendezvous_peer *peer)
{
	return wait_readable(peer->fd, 0);
}

int rendezvous_take(int listen_fd, struct rendezvous_peer *peer)
{
	struct rendezvous_peer came;
	int err, fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno;
	init_peer(&came, fd);
	if (!is_same_user(&came))
		err = EPERM;
	else if (!wait_readable(fd, CARD_WAIT_MS))
		err = ETIMEDOUT;
	else
		err = receive_card(&came);
	if (!err && !is_sealed(came.channel_fd, came.card.channel_bytes))
		err = EPROTO;
	if (err) {
		rendezvous_part(&came);
		return err == EAGAIN ? ETIMEDOUT : err;
	}
	*peer = came;
	return 0;
}

int rendezvous_answer(struct rendezvous_peer *peer, const struct rendezvous_card *card, int verdict,
		      const struct rendezvous_gifts *gifts)
{
	const int fds[] = { gifts->arena_fd, gifts->doorbell_fd, pool_or_other(gifts) };
	struct rendezvous_card answer = *card;

	answer.verdict = (uint32_t)verdict;
	return send_card(peer->fd, &answer, fds, verdict ? 0 : 3);
}
