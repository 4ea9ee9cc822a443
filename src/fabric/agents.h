/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kernel's ib_mad and ib_umad do for the programs of a port: agents by class and method,
 * transaction IDs, requests that wait for their answers, timeouts and retries. Pure, as the fabric
 * is.
 *
 *	program --message--> agents_write   TID gets the agent's upper half --> fabric_send
 *	program <--message-- ops->receive   answers by TID, requests by     <-- agents_deliver
 *	                                    class, version, method and OUI
 *
 * A descriptor has up to 32 agents. Which methods of a class are taken is a matter of the *port*:
 * all descriptors on it are asked, of whichever process. Requests for which nobody is registered
 * are answered with status 0x000c if they are Get or Set; all else is dropped and counted.
 *
 * Agents with RMPP read and write whole messages, of up to RMPP_MESSAGE_MAX bytes (rmpp.h): what is
 * read is the first MAD as it came, and behind it the data of the others. Of those a descriptor has
 * on their way no more than AGENTS_MEMORY_MAX bytes. A segment without an ACK is sent again after
 * two seconds, or the program's timeout if that is less; a message of which no more comes is given
 * up after 40 s, and for 10 s after the last segment its segments are acknowledged again.
 */
#ifndef VERBATIM_FABRIC_AGENTS_H
#define VERBATIM_FABRIC_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

#define AGENTS_PER_FILE		32u
#define AGENTS_ANY		UINT32_MAX
#define AGENTS_REQUESTS_MAX	16384u		/* of a descriptor, unanswered */
#define AGENTS_MEMORY_MAX	(64u << 20)
#define AGENT_USER_RMPP		1u		/* flag: segments are the program's */

/*
 * Before each MAD between a program and its descriptor: struct ib_user_mad of libibumad, in the
 * host's order where nothing else is said.
 */
struct agent_header {
	uint32_t agent;
	uint32_t status;		/* errno; 0: a MAD was received */
	uint32_t timeout_ms, retries;
	uint32_t length;		/* of header and MAD */
	uint8_t qpn[4], qkey[4], lid[2];	/* big-endian */
	uint8_t sl, path_bits, grh_present, gid_index, hop_limit, traffic_class;
	uint8_t gid[16], flow_label[4];	/* big-endian */
	uint16_t pkey_index;
	uint8_t reserved[6];
};

_Static_assert(sizeof(struct agent_header) == 64, "programs were compiled with this size");

struct agent_request {
	uint8_t class, class_version, rmpp_version;
	uint32_t flags;
	uint32_t oui;			/* of the classes 0x30 to 0x4f */
	uint64_t methods[2]; /* bit m: requests of method m; all 0: only its own answers */
};

struct agents;
struct agents_file;
struct rmpp_sealed;

struct agents_ops {
	/* To the program that has the descriptor: header, and a MAD of @bytes, of a long message with all data. */
	void (*receive)(void *user, const struct agent_header *header, const uint8_t *mad, size_t bytes);
	/*
	 * The same of a message that came by agents_write_sealed(): it has what is behind the first MAD.
	 */
	void (*receive_sealed)(void *user, const struct agent_header *header, const uint8_t first[MAD_BYTES],
			       struct rmpp_sealed *rest);
};

struct agents_statistics {
	uint64_t written, received;
	uint64_t timeouts, retries;
	uint64_t late;			/* answers to nothing that waits */
	uint64_t refused;		/* requests answered with status 0x000c */
	uint64_t unserved;		/* others that nobody is registered for */
	uint64_t segments;		/* RMPP: sent, but for the first of each message */
	uint64_t aborted;		/* messages that an end gave up */
};

struct agents *agents_new(struct fabric *fabric,
			  const struct agents_ops *ops); /* NULL: no memory */
void agents_free(struct agents *agents);		/* with all its files */

/* A program opens the umad device of a port, and closes it, or ends. NULL: no memory. */
struct agents_file *agents_open(struct agents *agents, uint32_t node, uint32_t port, void *user);
void agents_close(struct agents_file *file);

/*
 * @id: the one that it gets, or AGENTS_ANY, then *id is the lowest free one. 0; EINVAL: no such
 * class, version, flag, OUI, or RMPP with that class; EBUSY: a method is taken on this port;
 * ENOMEM: 32 are there.
 */
int agents_register(struct agents_file *file, const struct agent_request *request, uint32_t *id);
/* Requests of the agent end without an answer. EINVAL: there is none. */
int agents_unregister(struct agents_file *file, uint32_t id);

/*
 * A message that the program wrote. 0; EINVAL: no such agent, too short, or another request with
 * this TID and class waits, or an answer with it is on its way there; too long, or there is no such
 * P_Key, GID or QP: then a request times out; ENOBUFS: too many wait. Of a long message the first
 * segment is sent; the deadline says when agents_timer() has to send more.
 */
int agents_write(struct agents_file *file, const uint8_t *message, size_t bytes, uint64_t now_us);

/*
 * The same of a long message that nobody changes any more (rmpp.h): @first is its header and first MAD, which
 * stand for those of the message. It is held, not copied; receivers are given it by receive_sealed().
 */
int agents_write_sealed(struct agents_file *file, const uint8_t first[sizeof(struct agent_header) + MAD_BYTES],
			struct rmpp_sealed *sealed, uint64_t now_us);

/* From fabric_ops.deliver. */
void agents_deliver(struct agents *agents, uint32_t node, uint32_t port,
		    const uint8_t mad[MAD_BYTES], const struct fabric_address *from,
		    uint64_t now_us);

/* From fabric_ops.deliver_train. */
bool agents_deliver_train(struct agents *agents, uint32_t node, uint32_t port,
			  const struct fabric_train *train, const struct fabric_address *from);

uint64_t agents_deadline_us(const struct agents *agents);	/* FABRIC_NEVER: nothing waits */
void agents_timer(struct agents *agents, uint64_t now_us);
void agents_statistics(const struct agents *agents, struct agents_statistics *statistics);

/* Is @class one of those that have RMPP? Where the data of its MADs begin. */
bool agents_class_has_rmpp(uint8_t class);
unsigned agents_data_offset(uint8_t class);

#endif
