/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting to the holder of a slot, and being connected to (handshake.h). */
#include "local/channel/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/name.h"
#include "platform/fail.h"
#include "platform/privilege.h"
#include "platform/process_memory.h"

#define BACKLOG		64
#define FDS_MAX		4u		/* that are examined; a hello has one */
#define HELLO_WAIT_MS	2		/* it follows the connection at once */
#define SEALS		(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int handshake_listen(int channel_fd)
{
	return fail_now(FAIL_LISTEN) || listen(channel_fd, BACKLOG) ? errno : 0;
}

/* ---- trust ---- */

/*
 * Users without a number in this user namespace all look alike: then the kernel's ptrace check
 * tells whether the process is our user's.
 */
static int check_user(const struct ucred *ucred)
{
	int err;

	if (ucred->uid != geteuid())
		return EPERM;
	err = ucred->uid == overflow_uid() ? process_access(ucred->pid) : 0;
	return err == ESRCH ? ECONNRESET : err;	/* it has ended: nobody's, but no stranger */
}

/* Check the process that called listen() or connect(), before waiting for its hello. */
static int check_other_end(int fd)
{
	struct ucred ucred;
	socklen_t bytes = sizeof(ucred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes) ? EPERM : check_user(&ucred);
}

/* ---- hellos ---- */

bool hello_has_slot(const struct hello *hello, uint32_t slot)
{
	unsigned i;

	for (i = 0; i < hello->slot_count; i++)
		if (hello->slot[i] == slot)
			return true;
	return false;
}

static int send_hello(int fd, const struct hello *hello, int side_fd)
{
	struct hello out = *hello;
	struct iovec iov = { .iov_base = &out, .iov_len = sizeof(out) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *header;

	out.magic = HANDSHAKE_MAGIC;
	out.version = HANDSHAKE_VERSION;
	if (side_fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &side_fd, sizeof(int));
	}
	if (fail_now(FAIL_SENDMSG) || sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		return errno;
	return 0;
}

/* Received together with a hello. */
struct attached {
	struct ucred ucred;
	bool has_ucred;
	int fd[FDS_MAX];
	unsigned fds;
};

static void take_attached(struct msghdr *message, struct attached *attached)
{
	struct cmsghdr *header;
	size_t count, i;

	*attached = (struct attached){ .has_ucred = false };
	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET)
			continue;
		if (header->cmsg_type == SCM_RIGHTS) {
			count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			for (i = 0; i < count && attached->fds < FDS_MAX; i++)
				memcpy(&attached->fd[attached->fds++], CMSG_DATA(header) + i * sizeof(int),
				       sizeof(int));
		}
		if (header->cmsg_type == SCM_CREDENTIALS &&
		    header->cmsg_len == CMSG_LEN(sizeof(attached->ucred))) {
			memcpy(&attached->ucred, CMSG_DATA(header), sizeof(attached->ucred));
			attached->has_ucred = true;
		}
	}
}

/* A memfd of @bytes that can be neither resized nor newly mapped for writing. */
static bool is_sealed(int fd, uint64_t bytes)
{
	struct stat stat;
	struct statfs system;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	/* Ordinary pages only: huge ones may run out. */
	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &stat) &&
	       (uint64_t)stat.st_size == bytes && !fstatfs(fd, &system) &&
	       system.f_type == TMPFS_MAGIC;
}

static bool is_sound(const struct hello *hello)
{
	unsigned i;

	if (hello->magic != HANDSHAKE_MAGIC || hello->version != HANDSHAKE_VERSION ||
	    hello->slot_count > HANDSHAKE_SLOTS)
		return false;
	for (i = 0; i < hello->slot_count; i++)
		if (hello->slot[i] == 0 || hello->slot[i] >= SLOT_COUNT - 1)
			return false;
	return true;
}

static int judge_hello(struct handshake_peer *peer, const struct attached *attached, size_t bytes)
{
	int err;

	if (bytes != sizeof(peer->hello) || !is_sound(&peer->hello))
		return EPROTO;
	err = attached->has_ucred ? check_user(&attached->ucred) : EPERM;
	if (err)
		return err;
	peer->pid = attached->ucred.pid;
	if (peer->hello.verdict)
		return peer->hello.verdict < 4096 && peer->hello.verdict != EAGAIN ?
			       (int)peer->hello.verdict : EPROTO;
	return is_sealed(peer->side_fd, peer->hello.side_bytes) ? 0 : EPROTO;
}

static int receive_hello(struct handshake_peer *peer)
{
	struct iovec iov = { .iov_base = &peer->hello, .iov_len = sizeof(peer->hello) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct attached attached;
	ssize_t got = fail_now(FAIL_RECVMSG) ? -1 : recvmsg(peer->fd, &message, MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno;
	take_attached(&message, &attached);
	/* The first descriptor is the side; a correct peer sends no other. */
	while (attached.fds > 1)
		close(attached.fd[--attached.fds]);
	peer->side_fd = attached.fds ? attached.fd[0] : -1;
	return got ? judge_hello(peer, &attached, (size_t)got) : ECONNRESET;
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

/*
 * Have the kernel attach credentials to everything received and sent from now on: a hello may
 * arrive before its connection is accepted.
 */
static int ask_for_credentials(int fd)
{
	int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? errno : 0;
}

static void init_peer(struct handshake_peer *peer, int fd)
{
	*peer = (struct handshake_peer){ .fd = fd, .side_fd = -1 };
}

void handshake_close(struct handshake_peer *peer)
{
	int fd = peer->fd, side_fd = peer->side_fd;

	peer->fd = peer->side_fd = -1;
	if (fd >= 0)
		name_disconnect(fd);
	if (side_fd >= 0)
		close(side_fd);
}

void handshake_abandon(struct handshake_peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	if (peer->side_fd >= 0)
		close(peer->side_fd);
}

/* ---- both sides ---- */

int handshake_connect(uint32_t slot, struct handshake_peer *peer)
{
	struct abstract_name name = name_of_slot(SLOT_CHANNEL_NAME, slot);
	struct handshake_peer met;
	int fd, err = name_connect(&name, SOCK_SEQPACKET, &fd);

	if (err)
		return err == EAGAIN ? ETIMEDOUT : err;
	init_peer(&met, fd);
	err = check_other_end(fd);
	if (!err)
		err = ask_for_credentials(fd);
	if (err)
		handshake_close(&met);
	else
		*peer = met;
	return err;
}

int handshake_greet(struct handshake_peer *peer, const struct hello *hello, int side_fd)
{
	int err = send_hello(peer->fd, hello, side_fd);

	if (err)
		handshake_close(peer);
	return err == EPIPE ? ECONNRESET : err;
}

int handshake_receive(struct handshake_peer *peer, uint64_t timeout_ns)
{
	int err;

	if (!wait_readable(peer->fd, (int)((timeout_ns + 999999) / 1000000)))
		return EAGAIN;
	err = receive_hello(peer);
	if (err && err != EAGAIN)
		handshake_close(peer);
	return err;
}

bool handshake_is_answered(const struct handshake_peer *peer)
{
	return wait_readable(peer->fd, 0);
}

int handshake_accept(int listen_fd, struct handshake_peer *peer)
{
	struct handshake_peer came;
	int err, fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno;
	init_peer(&came, fd);
	err = check_other_end(fd);
	if (!err)
		err = ask_for_credentials(fd);
	if (!err)
		err = wait_readable(fd, HELLO_WAIT_MS) ? receive_hello(&came) : ETIMEDOUT;
	if (err) {
		handshake_close(&came);
		return err == EAGAIN ? ETIMEDOUT : err;
	}
	*peer = came;
	return 0;
}

int handshake_answer(struct handshake_peer *peer, const struct hello *hello, int verdict, int side_fd)
{
	struct hello answer = *hello;

	answer.verdict = (uint32_t)verdict;
	return send_hello(peer->fd, &answer, verdict ? -1 : side_fd);
}
