/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents, requests and long messages as data, for agents.c and agents_rmpp.c. */
#ifndef VERBATIM_FABRIC_AGENTS_INTERNAL_H
#define VERBATIM_FABRIC_AGENTS_INTERNAL_H

#include "base/list.h"
#include "base/timer_heap.h"
#include "fabric/agents.h"
#include "fabric/rmpp.h"
#include "wire/mad_table.h"

#define PORT_BUCKETS	256u
#define REQUEST_BUCKETS	64u
#define NS_PER_US	1000u
#define US_PER_MS	1000u

struct sending;

/* What has to happen at a time. */
struct agent_timer {
	struct timer timer;
	void (*expire)(struct agent_timer *timer, uint64_t now_us);
};

/* A request that waits for its answer. */
struct request {
	struct agent_timer timer;	/* the first */
	struct list of_tid;		/* in its agent's waiting[] */
	struct agent *agent;
	struct sending *sending;	/* of its segments, not all acknowledged; or NULL */
	uint32_t retries;		/* left */
	struct agent_header header;
	uint8_t mad[MAD_BYTES];
};

struct agent {
	struct mad_row row;		/* its transaction is never 0 */
	struct agents_file *file;
	uint32_t id;			/* in its file */
	struct agent_request request;
	struct list waiting[REQUEST_BUCKETS];
	struct list sendings, assemblies;	/* RMPP: agents_rmpp.c */
};

/* A port that some descriptor is open on. */
struct agents_port {
	struct list of_bucket;
	uint32_t node, port;
	unsigned files;
	struct list table;		/* of agents */
};

struct agents_file {
	struct list of_all;
	struct agents *all;
	struct agents_port *port;
	void *user;
	unsigned waiting, sendings, assemblies;
	size_t memory;			/* bytes of long messages, both ways */
	struct agent *agent[AGENTS_PER_FILE];
};

struct agents {
	struct fabric *fabric;
	struct agents_ops ops;
	uint32_t last_tid;
	size_t timed;			/* timers that there are */
	struct timer_heap timers;
	struct list files, ports[PORT_BUCKETS];
	struct list ready;		/* sendings that may send more, in their order */
	struct sending *current;	/* at work in agents_timer(); NULL: it ended meanwhile */
	struct agents_statistics statistics;
};

/* ---- agents.c ---- */

/* False: no memory. What is timed may be armed from then on, until agent_untimed(). */
bool agent_timed(struct agents *agents, struct agent_timer *timer,
		 void (*expire)(struct agent_timer *timer, uint64_t now_us));
void agent_untimed(struct agents *agents, struct agent_timer *timer);
void agent_arm(struct agents *agents, struct agent_timer *timer, uint64_t now_us, uint64_t ms);
/* Header and MAD to the program. */
void agent_receive(struct agent *agent, const struct agent_header *header, const uint8_t *mad,
		   size_t length);
void agent_address(const struct agent_header *header, struct fabric_address *to);
int agent_send(struct agents_file *file, const struct agent_header *header,
	       const uint8_t mad[MAD_BYTES], uint64_t now_us);
/* The program is told that there is no answer, and the request is forgotten. */
void request_fail(struct request *request);
void request_arm(struct request *request, uint64_t now_us);

/* ---- agents_rmpp.c ---- */

/* Of a program, behind its header. */
struct agent_message {
	const uint8_t *mad;		/* whole; with @sealed the first MAD alone */
	size_t bytes;
	struct rmpp_sealed *sealed;	/* or NULL */
};
/*
 * A message that goes in segments, the first now. @request: waits for the answer to it, or NULL. 0;
 * EINVAL: one with this TID is on its way there; ENOBUFS: there are too many, or no memory.
 */
int sending_begin(struct agent *agent, const struct agent_header *header, const struct agent_message *from,
		  struct request *request, uint64_t now_us);
void sending_end(struct sending *sending);
/* What may be sent of those that are ready, a window of each. */
void sendings_go_on(struct agents *agents, uint64_t now_us);
/*
 * A part of a transaction came. True: a message is whole, *message, the assembly's own until
 * agent_rmpp_taken().
 */
bool agent_rmpp(struct agent *agent, const uint8_t mad[MAD_BYTES],
		const struct fabric_address *from, uint64_t now_us, struct agent_message *message);
/* Segments together, none of which is answered. False: one by one. */
bool agent_rmpp_train(struct agent *agent, const uint8_t *mad, const struct fabric_address *from,
		      const struct rmpp_train *train);
void agent_rmpp_taken(struct agent *agent, const uint8_t *message);
void agent_rmpp_end(struct agent *agent);

#endif
