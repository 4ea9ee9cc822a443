/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that is connected, for visitor.c and data.c: what it asks, and what it has not read. */
#ifndef VERBATIM_TOOLS_FABRIC_VISITOR_H
#define VERBATIM_TOOLS_FABRIC_VISITOR_H

#include "fabric/room.h"

#define LETTER_BYTES	128u		/* that each costs, beside its own */

/* What a program has not read. */
struct letter {
	struct list node;
	size_t bytes;
	uint8_t data[];
};

struct visitor {
	struct list node;
	struct watch watch;
	struct room *room;
	int fd;
	unsigned events;		/* that its socket is watched for */
	bool gone;			/* closed at the end of the turn */
	bool told;			/* that it loses MADs or packets */
	bool paused;			/* not read: a receiver of what it sends has no room */
	bool hung;			/* paused, and it hung up: not watched */
	pid_t pid;
	uid_t uid;
	bool owner;			/* of the fabric, or root */
	char program[32];
	/* of a port that it has open */
	struct agents_file *file;
	uint64_t token;
	uint32_t at, port;		/* node and port */
	char device[CTL_DEVICE_MAX];
	uint64_t lost;
	struct attached *attached;	/* its QPs are at HCAs of a node (data.c); or NULL */
	/* what it has not read */
	struct list queue;
	unsigned letters;
	size_t queued;
};

/* ---- visitor.c ---- */

/* Closes it at the end of the turn. */
void visitor_leave(struct visitor *visitor);
/* After a change of its queue or of paused: for what its socket is watched. */
void visitor_watch(struct visitor *visitor);
/* A letter joins what it has not read: it is written by visitor_flush(). */
void visitor_queue(struct visitor *visitor, struct letter *letter);
/* Writes what it has not read, as far as there is room in its socket. */
void visitor_flush(struct visitor *visitor);
void visitor_answer(struct visitor *visitor, enum ctl_kind kind, int status, uint64_t value,
		    const void *body, size_t bytes);
/* @why: the text of an error. */
void visitor_end(struct visitor *visitor, int status, uint64_t value, const char *why);

/* ---- sealed.c ---- */

/*
 * The message of @bytes that came with @file, and began so. *file: -1 if it is kept. NULL: it is none, or there is
 * no memory.
 */
struct rmpp_sealed *sealed_open(struct room *room, const uint8_t *first, size_t bytes, int *file);
/* The file that has it, but for its header and first MAD; -1: none. */
int sealed_file(const struct rmpp_sealed *sealed);
/*
 * Closes it with the next one, or when nothing is left to be sent: it may be the last descriptor of a file, and to
 * give back its pages takes longer than to send it on. -1: what is left.
 */
void sealed_close_later(struct room *room, int file);

/* ---- data.c ---- */

void data_attach(struct visitor *visitor, uint32_t host);
/* One batch of an attached program's messages. False: there is nothing more, or it has gone. */
bool data_read(struct visitor *visitor);
/* Its queue has been written, as far as it could be, or not at all: senders that wait may go on. */
void data_drained(struct visitor *visitor, bool some);
void data_detach(struct visitor *visitor);
/* gmp.c: questions about addresses, claims on services. */
void gmp_address(struct visitor *visitor, const struct ctl_address *asked);
void gmp_service(struct visitor *visitor, uint32_t host, const struct ctl_service *asked);
/* Of an attached program, for the console. */
void data_describe(const struct visitor *visitor, FILE *out);

#endif
