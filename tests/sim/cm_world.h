/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world for connection management: hosts with a protocol each, a network that loses, doubles and
 * delays their messages, applications that want something, virtual time. Everything that a protocol
 * tells an application is checked when it is told; what is left behind is checked at the end.
 *
 * An end is one application's side of a connection. Ends know each other by tokens in private data,
 * so that the checks do not depend on what the protocol believes.
 */
#ifndef VERBATIM_TESTS_CM_WORLD_H
#define VERBATIM_TESTS_CM_WORLD_H

#include "cm/protocol/internal.h"

#define CM_HOSTS	3u
#define CM_ENDS_MAX	160u
#define CM_FLIGHTS_MAX	512u
#define CM_SERVICE	UINT64_C(0x0000000001061c06)
#define MILLISECOND	UINT64_C(1000000)
#define SECOND		UINT64_C(1000000000)

/* What becomes of a message. */
enum cm_fate { CM_FATE_PASS, CM_FATE_LOSS, CM_FATE_TWICE, CM_FATE_LATE, CM_FATES };

/* What an application knows of its side. */
enum cm_knows {
	KNOWS_ASKED, KNOWS_ANSWERED,			/* active: REQ sent, REP told */
	KNOWS_REQUESTED, KNOWS_ACCEPTED,		/* passive: REQ told, REP sent */
	KNOWS_UP, KNOWS_LEAVING, KNOWS_DOWN,		/* DOWN: timewait */
	KNOWS_OVER,
	KNOWS_NOTHING,					/* let go, or crashed */
};

/* What it wants. */
struct cm_plan {
	bool refuse;		/* the REQ, REP or SIDR_REQ */
	bool walk_away;		/* lets go where it should answer */
	bool forget_first;	/* has no room the first time that it is asked */
	bool let_go;		/* in the end lets go instead of disconnecting */
	bool regret;		/* passive: ends what it accepted without waiting for an RTU */
	uint64_t think_ns;	/* before it answers */
	uint64_t hold_ns;	/* before it ends the connection; TIME_NEVER: the peer will */
	uint64_t patience_ns;	/* active: before it lets go of a REQ without answer */
};

struct cm_world;

struct cm_end {
	struct cm_host *host;
	struct cm_connection *connection;
	struct cm_plan plan;
	bool active, datagram;
	enum cm_knows knows;
	uint32_t token, peer_token;	/* peer_token 0: not known */
	uint32_t qpn;
	uint64_t act_ns;		/* when the application does something next */
	bool was_up, was_refused, timed_out, was_unreachable, was_resolved;
	bool gave_up;			/* its DREQ had no answer */
	bool lost_patience;
	unsigned requests;		/* passive ends made by its REQ or SIDR_REQ */
};

/* How a host is dead. */
enum cm_death { CM_SILENT, CM_CLOSED_PORT, CM_RESTARTED };

struct cm_host {
	struct cm_world *world;
	unsigned index;
	struct cm_protocol *protocol;	/* NULL: crashed */
	enum cm_death death;
	struct cm_listener *listener;
	uint8_t address[16];
	uint32_t next_qpn;
	uint64_t counts[COUNTER_COUNT];
};

struct cm_flight {
	uint64_t at_ns;
	struct cm_host *from, *to;
	bool bounced;			/* comes back to @to: it cannot arrive at @from */
	uint8_t mad[MAD_BYTES];
};

struct cm_world {
	uint64_t now_ns, random;
	struct cm_host host[CM_HOSTS];
	struct cm_end end[CM_ENDS_MAX];
	unsigned ends;
	struct cm_flight flight[CM_FLIGHTS_MAX];
	unsigned flights;
	unsigned sent;			/* messages so far */
	unsigned steps;
	uint64_t done_ns;		/* when an application let go at last */
	/* The fate of message number world->sent; NULL: they pass. */
	enum cm_fate (*fate)(struct cm_world *world);
	uint64_t fates;			/* for it: two bits a message */
	unsigned loss_percent, twice_percent, late_percent;
	/* What a passive end wants. */
	struct cm_plan passive;
	bool random_plans;
	bool speak;			/* print what happens */
	char failure[256];		/* "": all is well */
};

void cm_world_init(struct cm_world *world, uint64_t seed);
/* What must be where nobody crashed and not too much was lost: every exchange had its answer. */
void cm_world_check_answered(struct cm_world *world);
/* All ends must have come to rest: then nothing may be left. Frees everything. */
void cm_world_finish(struct cm_world *world);
/* NULL: no more ends. */
struct cm_end *cm_world_connect(struct cm_world *world, unsigned from, unsigned to,
				const struct cm_plan *plan);
struct cm_end *cm_world_resolve(struct cm_world *world, unsigned from, unsigned to,
				const struct cm_plan *plan);
/* One thing happens. False: nothing will. */
bool cm_world_step(struct cm_world *world);
/* To the end of all, or until @until_ns. */
void cm_world_run(struct cm_world *world, uint64_t until_ns);
/* Ends that would wait for ever end their connections. */
void cm_world_wind_down(struct cm_world *world);
void cm_world_crash(struct cm_world *world, struct cm_host *host, enum cm_death death);
struct cm_end *cm_world_peer(struct cm_world *world, const struct cm_end *end);
void cm_world_fail(struct cm_world *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Fates by two bits a message, the first 32 messages. */
enum cm_fate cm_fate_by_mask(struct cm_world *world);
/* Fates by the world's percentages. */
enum cm_fate cm_fate_by_chance(struct cm_world *world);

#endif
