/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs to the fabric and from it. No lock is held while a call sleeps: OpenSM ends its receiver by
 * pthread_cancel(), in umad_recv().
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "ib/parcel.h"
#include "platform/clock.h"
#include "umad/umad.h"

#define NS_PER_MS	1000000ull
#define MAD_BLOCK	256		/* the first segment of any message */
#define MAD_LEAST	36
#define WAITING_MAX	16384u
#define LATE_NS		(10000 * NS_PER_MS)	/* nobody reads: what is that old is forgotten */

enum { METHOD = 3, CLASS = 1, TID = 8, METHOD_RESPONSE = 0x80, METHOD_TRAP_REPRESS = 7 };

static bool transfer_is_answer(const uint8_t *mad)
{
	return (mad[METHOD] & METHOD_RESPONSE) || mad[METHOD] == METHOD_TRAP_REPRESS;
}

/* The lower half of the transaction ID is the program's, the upper one its agent's. */
static struct umad_waiting *waiting_find(struct umad_file *file, uint32_t agent, const uint8_t *mad)
	REQUIRES(file->lock)
{
	for (size_t i = 0; i < file->count; i++)
		if (file->waiting[i].header.agent_id == agent &&
		    file->waiting[i].mad[CLASS] == mad[CLASS] &&
		    !memcmp(file->waiting[i].mad + TID + 4, mad + TID + 4, 4))
			return &file->waiting[i];
	return NULL;
}

static void waiting_remove(struct umad_file *file, struct umad_waiting *waiting)
	REQUIRES(file->lock)
{
	*waiting = file->waiting[--file->count];
}

void umad_file_forget_agent(struct umad_file *file, uint32_t agent)
{
	for (size_t i = 0; i < file->count; )
		if (file->waiting[i].header.agent_id == agent)
			waiting_remove(file, &file->waiting[i]);
		else
			i++;
}

/* 0; EINVAL: it waits already; ENOMEM. */
static int waiting_add(struct umad_file *file, const ib_user_mad_t *header, const uint8_t *mad)
	REQUIRES(file->lock)
{
	uint64_t now_ns = clock_now_ns(), wait_ms;
	struct umad_waiting *waiting;

	waiting = waiting_find(file, header->agent_id, mad);
	if (waiting && waiting->until_ns > now_ns)
		return EINVAL;
	if (waiting)
		waiting_remove(file, waiting);
	if (file->count == file->room) {
		for (size_t i = 0; !file->dead && i < file->count; )
			if (file->waiting[i].until_ns < now_ns && now_ns - file->waiting[i].until_ns > LATE_NS)
				waiting_remove(file, &file->waiting[i]);
			else
				i++;
		if (file->count == WAITING_MAX)
			return ENOBUFS;
	}
	if (file->count == file->room) {
		waiting = reallocarray(file->waiting, file->room + 32, sizeof(*waiting));
		if (!waiting)
			return ENOMEM;
		file->waiting = waiting;
		file->room += 32;
	}
	waiting = &file->waiting[file->count++];
	waiting->header = *header;
	memcpy(waiting->mad, mad, sizeof(waiting->mad));
	/* Of 32 bits both, and a program may mean -1. */
	wait_ms = ((uint64_t)header->retries + 1) * header->timeout_ms;
	waiting->until_ns = wait_ms < (UMAD_NEVER_NS - now_ns) / NS_PER_MS ?
		now_ns + wait_ms * NS_PER_MS : UMAD_NEVER_NS - 1;
	return 0;
}

/* ---- sleeping ---- */

static int remaining_ms(uint64_t now_ns, uint64_t until_ns)
{
	uint64_t ms = until_ns > now_ns ? (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;

	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static uint64_t transfer_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UMAD_NEVER_NS : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

/*
 * Of a fabric that ended, @hung_up if that was seen just now: when it has to be looked for again,
 * in *next_ns. 0; EBADF: the descriptor is none of ours; EMFILE: nothing can take the place of its
 * socket.
 */
static int file_look(int fd, bool hung_up, uint64_t *next_ns)
{
	struct umad_file *file = umad_file_get(fd);
	int err = 0;

	*next_ns = UMAD_NEVER_NS;
	if (!file)
		return hung_up ? EBADF : 0;
	lock_acquire(&file->lock);
	if (hung_up)
		umad_file_lost(file, fd);
	if (file->dead)
		*next_ns = umad_file_revive(file, fd, clock_now_ns());
	else if (hung_up)
		err = EMFILE;
	lock_release(&file->lock);
	umad_file_put(file);
	return err;
}

/*
 * Until @fd is readable: 0, ETIMEDOUT, EINTR, EBADF, EMFILE. That a fabric ended is not readable.
 */
static int transfer_wait(int fd, uint64_t until_ns)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	uint64_t next_ns;
	bool hung_up = false;
	int ready, err;

	for (;;) {
		err = file_look(fd, hung_up, &next_ns);
		if (err)
			return err;
		if (next_ns > until_ns)
			next_ns = until_ns;
		ready = call_poll(&pollfd, 1,
				  next_ns == UMAD_NEVER_NS ? -1
							   : remaining_ms(clock_now_ns(), next_ns));
		if (ready < 0 && errno == EINTR) {
			call_pause();
			return EINTR;
		}
		if (ready < 0)
			return errno;
		if (ready && (pollfd.revents & POLLNVAL))
			return EBADF;
		/* At its end a socket is readable, too, with nothing in it. */
		hung_up = ready && (pollfd.revents & (POLLHUP | POLLERR)) &&
			  recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT) <= 0;
		if (ready && !hung_up)
			return 0;
		if (until_ns != UMAD_NEVER_NS && clock_now_ns() >= until_ns) {
			file_look(fd, hung_up, &next_ns);
			return ETIMEDOUT;
		}
	}
}

/* ---- umad_recv(), umad_poll() ---- */

/* The whole of a message whose beginning the socket has. 0 or errno. */
static int message_unpack(int fd, ib_user_mad_t *umad, size_t mad)
{
	uint8_t head[PARCEL_HEAD];
	int file, err;

	if (parcel_receive(fd, head, sizeof(head), &file) < 0)
		return errno;
	err = file < 0 ? EBADF : parcel_read(file, umad, sizeof(*umad) + mad);
	if (!err)
		memcpy(umad, head, sizeof(head));
	if (file >= 0)
		close(file);
	return err ? EIO : 0;
}

/* 0; EAGAIN: nothing is there; ENOSPC and EINVAL: it does not fit; EIO. *length: of the MAD. */
static int message_take(struct umad_file *file, int fd, ib_user_mad_t *umad, int *length)
	REQUIRES(file->lock)
{
	size_t room = *length > 0 ? (size_t)*length : 0, mad;
	uint8_t *data = (uint8_t *)umad + sizeof(*umad);
	struct iovec iov[2] = { { .iov_base = umad, .iov_len = sizeof(*umad) },
				{ .iov_base = data, .iov_len = room } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	struct umad_waiting *waiting;
	ib_user_mad_t header;
	ssize_t bytes = recv(fd, &header, sizeof(header), MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	bool parcel, whole;
	int err = 0;

	if (bytes < 0 && errno == EAGAIN)
		return EAGAIN;
	if (bytes < (ssize_t)sizeof(header))
		return bytes < 0 && errno != ECONNRESET ? errno : ENODEV;
	parcel = bytes == PARCEL_HEAD && header.length > PARCEL_INLINE_MAX;
	mad = (parcel ? header.length : (size_t)bytes) - sizeof(header);
	/* The first segment has to have room in any case. */
	if (room < mad && room < MAD_BLOCK) {
		*length = (int)mad;
		return EINVAL;
	}
	whole = mad <= room;
	/* What is too long stays the first one: the program comes back with more room. */
	if (!whole)
		iov[1].iov_len = MAD_BLOCK;
	if (whole && parcel)
		err = message_unpack(fd, umad, mad);
	else if (recvmsg(fd, &message, MSG_DONTWAIT | (whole ? 0 : MSG_PEEK)) < 0)
		err = errno;
	if (err)
		return err;
	*length = (int)mad;
	if (!whole)
		return ENOSPC;
	waiting = mad >= sizeof(waiting->mad) ? waiting_find(file, umad->agent_id, data) : NULL;
	if (waiting && (umad->status || transfer_is_answer(data)))
		waiting_remove(file, waiting);
	return 0;
}

static int message_receive(int fd, ib_user_mad_t *umad, int *length)
{
	struct umad_file *file = umad_file_get(fd);
	int err;

	if (!file)
		return EBADF;
	lock_acquire(&file->lock);
	err = message_take(file, fd, umad, length);
	if (err == ENODEV) {
		umad_file_lost(file, fd);
		err = EAGAIN;
	}
	lock_release(&file->lock);
	umad_file_put(file);
	return err;
}

/*
 * The ID of the agent that it is for, or a negative errno. @timeout_ms: -1: for ever; 0: what is
 * there.
 */
int umad_recv(int fd, void *umad, int *length, int timeout_ms)
{
	CALL_POINT();
	uint64_t until_ns = transfer_deadline(timeout_ms);
	int err;

	if (!umad || !length)
		return umad_fail(EINVAL);
	for (;;) {
		err = message_receive(fd, umad, length);
		if (err != EAGAIN || !timeout_ms)
			break;
		err = transfer_wait(fd, until_ns);
		if (err)
			break;
	}
	if (err == EINTR) {
		errno = EINTR;
		return -EIO;
	}
	if (err)
		return umad_fail(err);
	return (int)((ib_user_mad_t *)umad)->agent_id;
}

int umad_poll(int fd, int timeout_ms)
{
	CALL_POINT();
	int err = transfer_wait(fd, transfer_deadline(timeout_ms));

	if (!err)
		return 0;
	errno = err;
	return err == ETIMEDOUT ? -ETIMEDOUT : -EIO;
}

/* ---- umad_send() ---- */

/* 0; EAGAIN: there is no room now; ENODEV: it ended. */
static int message_write(int fd, const ib_user_mad_t *umad, size_t bytes)
{
	ib_user_mad_t header = *umad;
	const struct iovec pieces[2] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (uint8_t *)(uintptr_t)umad + sizeof(header), .iov_len = bytes - sizeof(header) },
	};
	int err;

	if (bytes > PARCEL_INLINE_MAX)		/* how much there is */
		header.length = (uint32_t)bytes;
	err = parcel_send(fd, pieces, 2);
	return err == EPIPE || err == ECONNRESET || err == ENOTCONN ? ENODEV : err;
}

/* A request is written down before it leaves: its answer may be quicker than we are. */
static int message_send(struct umad_file *file, int fd, const ib_user_mad_t *umad, size_t bytes,
			bool *noted) REQUIRES(file->lock)
{
	const uint8_t *mad = (const uint8_t *)umad + sizeof(*umad);
	struct umad_waiting *waiting;
	int err;

	if (!file->agent[umad->agent_id].used)
		return EINVAL;
	if (umad->timeout_ms && !transfer_is_answer(mad) && !*noted) {
		err = waiting_add(file, umad, mad);
		if (err)
			return err;
		*noted = true;
	}
	err = file->dead ? ENODEV : message_write(fd, umad, bytes);
	if (err == ENODEV) {
		/* It is lost on a wire without power: its timeout comes. */
		umad_file_lost(file, fd);
		return 0;
	}
	if (err && err != EAGAIN && *noted) {
		waiting = waiting_find(file, umad->agent_id, mad);
		if (waiting)
			waiting_remove(file, waiting);
		*noted = false;
	}
	return err;
}

/* 0, or -EIO and errno. It waits for room. */
int umad_send(int fd, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	CALL();
	ib_user_mad_t *header = umad;
	struct umad_file *file = umad_file_get(fd);
	struct pollfd pollfd = { .fd = fd, .events = POLLOUT };
	bool noted = false;
	int err = EINVAL;

	if (umad) {
		header->timeout_ms = (uint32_t)timeout_ms;
		header->retries = (uint32_t)retries;
		header->agent_id = (uint32_t)agentid;
	}
	while (file && umad && length >= MAD_LEAST && agentid >= 0 &&
	       agentid < UMAD_CA_MAX_AGENTS) {
		lock_acquire(&file->lock);
		err = message_send(file, fd, header, sizeof(*header) + (size_t)length, &noted);
		lock_release(&file->lock);
		if (err != EAGAIN)
			break;
		if (call_poll(&pollfd, 1, -1) < 0)
			call_pause();
	}
	if (!file)
		err = EBADF;
	else
		umad_file_put(file);
	if (!err)
		return 0;
	if (err == EINVAL)
		explain_refused(
			"umad_send", err,
			"umad_send: no such agent, less than %d bytes, or a request with this "
			"transaction ID waits for its answer",
			MAD_LEAST);
	errno = err;
	return -EIO;
}
