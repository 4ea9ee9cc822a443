/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two processes of one user on one host come to share memory. Each listens on the abstract Unix
 * sockets of its slots; a process connects to the one named after the slot that it wants to reach:
 *
 *	connector -> listener	hello, and the connector's side of the channel
 *	listener -> connector	verdict, hello, and the listener's side
 *
 * A side is memory that its owner alone can write (a memfd sealed against resizing and against new
 * writable mappings); it holds nothing but what is meant for this one peer. The connection stays open: bells
 * and blocks go over it (peer.h), and its hang-up says that the other process has ended.
 *
 * Trust is the kernel's word: the credentials that it attaches to each hello, not those of listen() time.
 * An unmapped user (the overflow uid) is trusted only where ptrace access shows that it is the same one.
 */
#ifndef VERBATIM_LOCAL_HANDSHAKE_H
#define VERBATIM_LOCAL_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/slot.h"

#define HANDSHAKE_SLOTS	4u
#define HANDSHAKE_MAGIC	0x56624d52u	/* "VbMR" */
/*
 * To be raised when anything changes that two processes share: hellos, sides (local/ring_internal.h),
 * messages (transport/message.h), grants, control messages. Processes of different versions use UDP.
 */
#define HANDSHAKE_VERSION	5u

/* What a process says of itself; on the socket as it is here (one host, one byte order). */
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

struct handshake_peer {
	int fd;				/* the connection; or -1 */
	pid_t pid;			/* as seen here; 0: not visible */
	struct hello hello;
	int side_fd;			/* ours to close; -1: none came */
};

/* Listen on the second socket of a slot; readable when handshake_accept() has something to do. 0 or errno. */
int handshake_listen(int channel_fd);

/*
 * Connect to the holder of @slot; does not block. Say hello soon: it is not waited for long. 0;
 * ECONNREFUSED: nobody listens there; EPERM: not to be trusted; ETIMEDOUT: too many wait there.
 */
int handshake_connect(uint32_t slot, struct handshake_peer *peer);
/*
 * Our hello. 0: peer->fd becomes readable when handshake_receive() has something to do; ECONNRESET: it did not
 * want us; errno: *peer is closed.
 */
int handshake_greet(struct handshake_peer *peer, const struct hello *hello, int side_fd);
/*
 * Its answer: blocks, up to @timeout_ns. 0: *peer is filled; EAGAIN: none yet. Others, and *peer is
 * closed: ECONNRESET: it did not want us, or ended; EPROTO: of another version, or its side is not
 * sealed; EPERM; else the verdict of the other side, EALREADY: it is about to connect to us.
 */
int handshake_receive(struct handshake_peer *peer, uint64_t timeout_ns);
/* handshake_receive() would not have to wait. */
bool handshake_is_answered(const struct handshake_peer *peer);

/* Accept a connection. 0; EAGAIN: none (more); others: one was turned away, ask again. */
int handshake_accept(int listen_fd, struct handshake_peer *peer);
/* Answer it: @verdict 0 or errno (then call handshake_close()). 0 or errno. */
int handshake_answer(struct handshake_peer *peer, const struct hello *hello, int verdict, int side_fd);

/* End the connection, close what is open of it. */
void handshake_close(struct handshake_peer *peer);
/* In a child of fork(): only close. */
void handshake_abandon(struct handshake_peer *peer);

#endif
