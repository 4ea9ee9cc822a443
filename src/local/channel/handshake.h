/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two processes of one user on one host come to share memory. Each listens on the abstract Unix
 * sockets of its slots; a process connects to the one named after the slot that it wants to reach:
 *
 *	connector -> listener	hello, and the connector's side of the channel
 *	listener -> connector	verdict, hello, and the listener's side
 *
 * A side is memory that only its owner can write (a memfd sealed against resizing and against new
 * writable mappings); it holds data for this one peer only. The connection stays open: it carries
 * bells and blocks (peer.h), and its hang-up means that the other process has ended.
 *
 * Trust rests on the credentials that the kernel attaches to each hello, not on those of listen().
 * An unmapped user (the overflow uid) is trusted only if ptrace access shows that it is our user.
 */
#ifndef VERBATIM_LOCAL_CHANNEL_HANDSHAKE_H
#define VERBATIM_LOCAL_CHANNEL_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/slot.h"

#define HANDSHAKE_SLOTS	4u
#define HANDSHAKE_MAGIC	0x56624d52u	/* "VbMR" */
/*
 * Raise it when anything that two processes share changes: hellos, sides (local/channel/ring_internal.h),
 * messages (transport/message.h), grants, control messages. Processes of different versions use
 * UDP.
 */
#define HANDSHAKE_VERSION	14u

/* A process's description of itself; sent as is (one host, one byte order). */
struct hello {
	uint32_t magic, version;		/* filled in by the calls below */
	uint32_t slot_count, slot[HANDSHAKE_SLOTS];
	uint32_t verdict;			/* errno; of the listener's hello */
	uint64_t side_bytes;
	uint64_t guard;				/* address of this channel's guard; 0: no copies */
	uint64_t late;				/* 1: packets may have gone another way before */
	uint64_t nonce;				/* the connector's choice, odd; to be proven (proof.c) */
	uint64_t reserved[7];
};
bool hello_has_slot(const struct hello *hello, uint32_t slot);

struct handshake_peer {
	int fd;				/* the connection; or -1 */
	pid_t pid;			/* as seen here; 0: not visible */
	struct hello hello;
	int side_fd;			/* ours to close; -1: none came */
};

/*
 * Listen on the second socket of a slot; readable when handshake_accept() has something to do. 0 or
 * errno.
 */
int handshake_listen(int channel_fd);

/*
 * Connect to the holder of @slot; does not block. Send the hello soon: the listener waits only
 * briefly. 0; ECONNREFUSED: no listener; EPERM: not trusted; ETIMEDOUT: the listener's queue is
 * full.
 */
int handshake_connect(uint32_t slot, struct handshake_peer *peer);
/*
 * Send our hello. 0: peer->fd becomes readable when handshake_receive() has something to do. On
 * errors *peer is closed; ECONNRESET: the listener refused us.
 */
int handshake_greet(struct handshake_peer *peer, const struct hello *hello, int side_fd);
/*
 * Wait for the listener's answer, up to @timeout_ns. 0: *peer is filled; EAGAIN: none yet. On other
 * errors *peer is closed: ECONNRESET: the listener refused us, or ended; EPROTO: another version,
 * or its side is not sealed; EPERM: not trusted; else the listener's verdict, EALREADY: it is about
 * to connect to us.
 */
int handshake_receive(struct handshake_peer *peer, uint64_t timeout_ns);
/* handshake_receive() would not have to wait. */
bool handshake_is_answered(const struct handshake_peer *peer);

/* Accept a connection. 0; EAGAIN: none (left); others: one was refused, call again. */
int handshake_accept(int listen_fd, struct handshake_peer *peer);
/* Answer it: @verdict 0 or errno (then call handshake_close()). 0 or errno. */
int handshake_answer(struct handshake_peer *peer, const struct hello *hello, int verdict, int side_fd);

/* End the connection, close its descriptors. */
void handshake_close(struct handshake_peer *peer);
/* In a child of fork(): only close. */
void handshake_abandon(struct handshake_peer *peer);

#endif
