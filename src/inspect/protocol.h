/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the control socket, on which a process that uses Verbatim can be looked at: between server.c,
 * in that process, and src/inspect/client.c. Both are of one machine: numbers are the host's.
 *
 *	client					process
 *	HELLO			->
 *				<-	HELLO		value: where a nonce stands in its memory
 *	(process_vm_readv)
 *	PROOF: the nonce	->
 *				<-	PROOF		status 0: the client may look
 *	COMMAND "NAME ARGUMENTS" ->				perhaps with descriptors (SCM_RIGHTS)
 *				<-	COMMAND		text; cursor: more follows when it is sent back
 *
 * Who can read the nonce can read all of the process, and so may see what commands tell: the kernel judges,
 * by its ptrace check. The socket is an abstract one of type SOCK_SEQPACKET: a message is a datagram. Its
 * name is in decimal the process ID, as the process itself knows it; if another socket has that name, a
 * hyphen and a number from 1 to INSPECT_NAMES - 1 follow. SO_PEERCRED tells the real one.
 */
#ifndef VERBATIM_INSPECT_PROTOCOL_H
#define VERBATIM_INSPECT_PROTOCOL_H

#include <stdint.h>

#define INSPECT_PREFIX		"verbatim-inspect-"
#define INSPECT_NAMES		8u
#define INSPECT_MAGIC		0x76624953u
#define INSPECT_VERSION		1u
#define INSPECT_NONCE_BYTES	32u
#define INSPECT_COMMAND_MAX	4096u	/* bytes of a command with its arguments */
#define INSPECT_ANSWER_MAX	32768u	/* bytes of text in one answer */
#define INSPECT_FDS		4u	/* descriptors with one command */

enum inspect_kind { INSPECT_HELLO = 1, INSPECT_PROOF, INSPECT_COMMAND };

/* Before the text, in both directions. */
struct inspect_head {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t status;		/* of answers: 0 or errno; then the text says why */
	uint32_t bytes;			/* of the text */
	uint64_t cursor;		/* 0: the beginning; in an answer: the end */
	uint64_t value;
};

_Static_assert(sizeof(struct inspect_head) == 32, "the same in libraries and command, whoever compiled them");

#endif
