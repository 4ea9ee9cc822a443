/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two processes of one user on one host come to share memory. Each listens on abstract Unix
 * sockets named after its slots; who wants to talk to the holder of a slot connects there. Both look
 * at the other's credentials (the kernel vouches for them), then exchange cards, with descriptors:
 *
 *	connector -> listener	card, arena, doorbell, pool, channel (memory for both directions)
 *	listener -> connector	verdict, card, arena, doorbell, pool
 *
 * The connection stays open: its hang-up says that the other process has ended.
 * Memory is taken only with seals that forbid to change its size, so that it cannot be pulled away.
 */
#ifndef VERBATIM_HOST_RENDEZVOUS_H
#define VERBATIM_HOST_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/slot.h"

#define RENDEZVOUS_NAME		"verbatim/memory/"	/* and the number of the slot */
#define RENDEZVOUS_SLOTS	4u
#define RENDEZVOUS_MAGIC	0x56624d52u	/* "VbMR" */
/*
 * To be raised when anything changes that two processes share: the card, channels and messages in them
 * (link/memory_internal.h, transport/message.h), hazards, arenas. Who has another one uses UDP.
 */
#define RENDEZVOUS_VERSION	3u

/* What a process says of itself; on the socket as it is here (one host, one byte order). */
struct rendezvous_card {
	uint32_t magic, version;		/* filled in by the calls below */
	uint32_t slot_count, slot[RENDEZVOUS_SLOTS];
	uint32_t verdict;			/* errno; of the listener's card */
	uint64_t arena_bytes, channel_bytes, pool_bytes;	/* no pool: 0 */
	uint64_t guard_address;			/* a byte that only this image has there; 0: none */
	uint64_t late;				/* 1: packets may have gone another way before */
	uint64_t reserved[6];
};

struct rendezvous_peer {
	int fd;				/* the connection; or -1 */
	pid_t pid;			/* as seen here; 0: not visible */
	struct rendezvous_card card;
	int arena_fd, doorbell_fd, pool_fd, channel_fd;	/* ours to close; -1: none came */
};

/* What is handed over with a card. */
struct rendezvous_gifts {
	int arena_fd, doorbell_fd;
	int pool_fd;			/* pages of regions that peers may map; -1: none */
	int channel_fd;			/* connector: memory for both directions */
};

/* Listen for @slot; readable when rendezvous_take() has something to do. 0 or errno. */
int rendezvous_listen(uint32_t slot, int *fd);

/*
 * Go to the holder of @slot and show it our card; does not block. The channel's memory is made by the
 * caller. 0: peer->fd becomes readable when rendezvous_hear() has something to do; ECONNREFUSED: nobody
 * listens there; ECONNRESET: it did not want us; EPERM: of another user; ETIMEDOUT: too many wait there.
 */
int rendezvous_connect(uint32_t slot, const struct rendezvous_card *card,
		       const struct rendezvous_gifts *gifts, struct rendezvous_peer *peer);
/*
 * Its answer: blocks, up to @timeout_ns. 0: *peer is filled; EAGAIN: none yet. Others, and *peer is
 * parted from: ECONNRESET: it did not want us, or came too late to hear us; EPROTO: of another version,
 * or its memory is not sealed; else the verdict of the other side, EALREADY: it is about to connect to
 * us.
 */
int rendezvous_hear(struct rendezvous_peer *peer, uint64_t timeout_ns);
/* It would not have to wait. */
bool rendezvous_is_answered(const struct rendezvous_peer *peer);

/* Take a connection. 0; EAGAIN: none (more); others: one was turned away, ask again. */
int rendezvous_take(int listen_fd, struct rendezvous_peer *peer);
/* Answer it: @verdict 0 or errno (then call rendezvous_part()). 0 or errno. */
int rendezvous_answer(struct rendezvous_peer *peer, const struct rendezvous_card *card, int verdict,
		      const struct rendezvous_gifts *gifts);

/* Close what is open of it. */
void rendezvous_part(struct rendezvous_peer *peer);

#endif
