/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internal interface of endpoints. One lock, agent.lock, guards all endpoints, channels and the
 * protocol: calls are short, and a process has one agent.
 *
 *	application thread                     thread that makes progress (holds engine->progress)
 *	  endpoint_*()                           agent: received, tick, ...
 *	    net_find_*, gsi_claim: no lock         agent_lock()
 *	    agent_lock()                             cm_receive() -> connection_event()
 *	      state, cm_*() -> mad_send()                event into its channel
 *	    agent_unlock(): deadline, wake-ups     agent_unlock()
 *
 * Lock order: start_lock (agent.c), engine->progress, agent.lock, channel->wake. Nothing that may
 * take engine->progress is called with agent.lock held; mad_send() and mad_set_deadline() do not
 * take it.
 */
#ifndef VERBATIM_CM_ENDPOINT_INTERNAL_H
#define VERBATIM_CM_ENDPOINT_INTERNAL_H

#include <infiniband/ib.h>
#include <stdatomic.h>

#include "base/timer_heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "cm/endpoint/endpoint.h"
#include "cm/protocol/protocol.h"
#include "cm/sa/sa.h"
#include "device/hca.h"
#include "mad/mad.h"
#include "net/net.h"
#include "wire/qpn.h"

#define CM_IP_HEADER_BYTES	36u	/* annex A11: before the application's private data */
#define CM_RESPONSE_TIMEOUT	20	/* 4.096 us * 2^20: 4.3 s, as Linux */
#define CM_MAX_RETRIES		15
#define CM_PATIENCE		15	/* 4.096 us * 2^15: 134 ms, until nobody seems to listen */
#define CM_PACKET_LIFETIME	18	/* 4.096 us * 2^18, as Linux takes for RoCE */
#define CM_LOCAL_ACK_DELAY	15	/* 4.096 us * 2^15: 134 ms, what rxe says of itself */
#define CM_BACKLOG_MAX		1024	/* as Linux: net.rdma_ucm.max_backlog */
#define CM_BACKLOG_PATIENCE_NS	500000000u	/* until a full backlog refuses */
#define PATH_SELECTOR_EXACTLY	2	/* path records: "exactly this MTU" (IBTA 15.2.5.16) */
#define QKEY_IPOIB		0x00000b1bu	/* of the broadcast group where nobody set another */
#define WATCH_BUCKETS		64u
#define AGENT_RANDOM		32u	/* numbers of a system call; a connection takes five or so */

/* States, calls and what a connection reports: state.def. */
enum endpoint_state {
#define STATE(id, name, next) STATE_##id,
#define ON_CALL(...)
#define ON_INPUT(...)
#include "cm/endpoint/state.def"
#undef STATE
#undef ON_CALL
#undef ON_INPUT
	STATE_COUNT,
	/* In rows of the table only: refusals of a call, and an event that means nothing. */
	STATE_REFUSE = 0x80, STATE_STANDS, STATE_IGNORE,
};

enum endpoint_call {
	ENDPOINT_CALL_BIND,
	ENDPOINT_CALL_ADDRESS,
	ENDPOINT_CALL_ROUTE,
	ENDPOINT_CALL_PATH,
	ENDPOINT_CALL_LISTEN,
	ENDPOINT_CALL_CONNECT,
	ENDPOINT_CALL_ASK,		/* rdma_connect() of a datagram endpoint */
	ENDPOINT_CALL_ACCEPT,
	ENDPOINT_CALL_REJECT,
	ENDPOINT_CALL_ESTABLISH,
	ENDPOINT_CALL_NOTIFY,
	ENDPOINT_CALL_DISCONNECT,
	ENDPOINT_CALL_JOIN,
	ENDPOINT_CALL_COUNT
};

enum endpoint_input {
	INPUT_REP, INPUT_RTU, INPUT_REJ, INPUT_TIMEOUT, INPUT_DREQ, INPUT_TIMEWAIT_EXIT,
	INPUT_SIDR_REP, INPUT_SIDR_FAILED,
	INPUT_REQ, INPUT_SIDR_REQ,	/* the endpoint was made for a request */
	INPUT_HOP_AWAITED, INPUT_RESOLVED, INPUT_UNRESOLVED,
	INPUT_PATH_AWAITED, INPUT_ROUTED, INPUT_UNROUTED,
	INPUT_UNSERVED,			/* no requests can come to the listener */
	INPUT_COUNT
};

/* state.c */
enum endpoint_state state_after_call(enum endpoint_state state, enum endpoint_call call);
enum endpoint_state state_after_input(enum endpoint_state state, enum endpoint_input input);
int state_errno(enum endpoint_state cell);	/* 0: not a refusal */
const char *state_name(enum endpoint_state state);
/* Which call or event comes next, as advice. */
const char *state_next(enum endpoint_state state);

/* Kinds of events: more than there are in event.def. */
#define ENDPOINT_EVENTS 20u
#define EXPLAIN_AFTER_MS	1000	/* of a wait that is explained then */

/* An address of any of the three families. */
struct endpoint_address {
	uint8_t bytes[16];		/* IPv4: v4-mapped; AF_IB: the GID */
	uint64_t service_id, mask;	/* AF_IB, host order */
	uint32_t scope;			/* IPv6 link-local: interface index */
	uint32_t flow_info;		/* as given, network order */
	uint16_t family;		/* AF_UNSPEC: none */
	uint16_t port;			/* host order; AF_IB: the low bits of service_id */
	uint16_t pkey;			/* AF_IB, host order */
};

/* A port that endpoints are bound to; shared by them. */
struct bound_port {
	struct list node;		/* in agent.ports */
	struct list endpoints;		/* struct endpoint */
	unsigned references;
	uint64_t checked_ns;		/* when net_find_gid() last gave it */
	uint8_t asked[16];		/* for this address, */
	uint8_t asked_link;		/* and packets by this link */
	struct net_gid gid;
};

/* How to reach the peer, and how the QP is to do it. */
struct endpoint_path {
	union ibv_gid dgid;
	uint8_t remote[16];		/* the peer's IP address, v4-mapped */
	uint8_t link;			/* passive: by which its request came */
	uint32_t flow_label;
	uint16_t pkey;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t rate, hop_limit, traffic_class, service_level, lifetime;
	uint16_t dlid, slid;		/* by a fabric; slid with the path bits. RoCE: 0 */
};

/* What two QPs agree on, as this side sees it. */
struct endpoint_terms {
	uint32_t remote_qpn, remote_psn;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint8_t ack_timeout;		/* of our QP, 4.096 us * 2^n */
};

struct membership {			/* in a multicast group */
	struct membership *next;
	struct endpoint *endpoint;
	struct endpoint_address address;
	union ibv_gid mgid;
	void *user;			/* of endpoint_join() */
	/* of a port of a fabric */
	struct sa_query *query;		/* to join; NULL: not now */
	struct ib_mc_member_record *record;	/* what is asked, then what was joined; NULL: RoCE */
	bool joined;
	void (*answered)(void *group, const struct sa_answer *answer);	/* a join was */
};

/*
 * What an rdma_cm_id refers to. Addresses, path and terms are structs of their own.
 * Large: the rest is its state, its options, and references to everything that it must release.
 */
struct endpoint {
	struct cm_channel *channel;	/* NULL while offered */
	struct list events;		/* in the channel, ours (a listener's: its requests) */
	struct queued_event *request;	/* offered: the CONNECT_REQUEST, until it is taken; else NULL */
	struct list same_port;		/* ports.c */
	struct list same_peer;		/* agent.c: endpoints that watch a process of this host */
	struct list node;		/* in agent.endpoints */
	uint32_t number;		/* for statistics: ever-growing */
	struct gsi_claim *claim;
	struct cm_listener *listener;
	struct cm_connection *connection;
	struct bound_port *port;
	struct list of_port;		/* in port->endpoints */
	struct membership *groups;
	struct search *search;		/* RESOLVING: for the next hop (resolve.c); else NULL */
	struct route_question *question;	/* ROUTING: to subnet administration */
	void *user;
	struct endpoint_address source, destination;
	struct endpoint_path path;
	struct endpoint_terms terms;
	uint32_t qp_num, starting_psn, qkey;
	unsigned generation;		/* agent.generation when it was made */
	uint32_t held;			/* events taken and not acknowledged */
	uint8_t held_of[ENDPOINT_EVENTS];	/* of them, by kind: to explain; stays at 255 */
	uint32_t acknowledged;		/* events so far; wraps */
	/* LISTENING: how many requests may wait, how many more may now, since when none may. */
	int backlog, room;
	uint64_t full_ns;
	uint16_t space;			/* enum rdma_port_space */
	uint16_t watched_slot;		/* 0: none */
	uint16_t came_by;		/* the port of a fabric by which its request came; 0: RoCE */
	uint8_t state;			/* enum endpoint_state; of state.c */
	uint8_t qp_type;		/* enum ibv_qp_type */
	uint8_t tos, ack_timeout;
	bool tos_set, ack_timeout_set;
	bool reuse, afonly, afonly_set;
	bool busy;			/* a call is on its way without the lock */
	bool offered;			/* waits in the channel as a CONNECT_REQUEST */
	bool peer_local;		/* the peer is a process of this host */
	bool unaccepted;		/* came with a request: nothing is told before it is accepted */
	bool muted;			/* the application was told that it failed: no end of it is news */
	bool srq;
};

/* An event on its way to the application. */
struct queued_event {
	struct list in_channel, in_owner;
	struct endpoint *endpoint, *listener;
	enum rdma_cm_event_type kind;
	int status;
	union {
		struct rdma_conn_param connection;
		struct rdma_ud_param ud;
	};
	uint32_t ece_vendor_id, ece_options;
	void *multicast;
	uint64_t argument;
	uint8_t private_bytes;
	uint8_t private_data[];
};

/* ---- agent.c ---- */

struct agent {
	struct lock lock;
	struct cm_protocol *protocol;
	struct qp1 *qp1;		/* while there is mad: a reference to the HCA */
	struct mad_agent *mad;
	struct mad_agent *sa_mad;	/* where there is a fabric; else NULL, as sa */
	struct sa *sa;
	struct gsi *gsi;
	uint64_t armed_ns;		/* deadline last set by mad_set_deadline() */
	uint32_t random[AGENT_RANDOM];	/* the first random_left are not used up yet */
	unsigned random_left;
	unsigned generation;		/* counts fork(): what is of another one is dead memory */
	struct condition progress;	/* an event was acknowledged, a new endpoint looked at */
	struct list woken;		/* channels to be updated by agent_unlock() */
	struct list ports;		/* struct bound_port */
	struct list endpoints;		/* all of them, by number */
	struct list searches;		/* of endpoints that are RESOLVING */
	uint32_t last_number;
	struct list watchers[WATCH_BUCKETS];	/* endpoints by the slot that they watch */
};

extern struct agent agent;

int agent_get(void);
void agent_put(void);
void agent_lock(void) ACQUIRES(agent.lock);
/* Also sets the next deadline, sends queued messages, and wakes readers of channels. */
void agent_unlock(void) RELEASES(agent.lock);
uint32_t agent_random(void) REQUIRES(agent.lock);
/* Waits for agent.progress until @until_ns (TIME_NEVER: no limit); may return early. */
void agent_wait(uint64_t until_ns) REQUIRES(agent.lock);

/* A message joins those that agent_unlock() sends. False: no memory. */
bool agent_send(const struct mad_address *to, const uint8_t mad[MAD_BYTES]) REQUIRES(agent.lock);

/* Ports that endpoints share. NULL: no memory. */
struct bound_port *bound_port_get(const struct net_gid *port, uint8_t link, const uint8_t asked[16],
				  uint64_t now_ns) REQUIRES(agent.lock);
/* One that had @address for @link a moment ago, with a reference; NULL: ask net_find_gid_of(). */
struct bound_port *bound_port_recent(uint8_t link, const uint8_t address[16], uint64_t now_ns)
	REQUIRES(agent.lock);
void bound_port_put(struct bound_port *port) REQUIRES(agent.lock);
/* The endpoint's reference becomes that to @port (NULL: none), which it takes over. */
void endpoint_set_port(struct endpoint *endpoint, struct bound_port *port) REQUIRES(agent.lock);

/* Detects the end of the peer's process, once its QPN is known. Takes the lock. */
void agent_watch(struct endpoint *endpoint) EXCLUDES(agent.lock);
void agent_unwatch(struct endpoint *endpoint) EXCLUDES(agent.lock);

/* ---- channel.c ---- */

struct cm_channel {
	struct rdma_event_channel public;	/* first: programs hold pointers to it */
	struct list queue;		/* of queued_event */
	struct list woken;		/* in agent.woken */
	unsigned references;		/* the application's and one of each endpoint */
	atomic_uint pins;		/* threads updating the fd without agent.lock; +1 while referenced */
	unsigned generation;
	bool closed;
	uint8_t patience;		/* how often a request may still be held back (channel.c) */
	const struct endpoint *shown;	/* the last new endpoint, untouched yet; or NULL */
	int fd;				/* public.fd, which a program may overwrite */
	atomic_uint waiting;		/* events in the queue; changes under agent.lock */
	atomic_uint posted;		/* events that came; changes under agent.lock */
	struct lock wake;		/* the two that follow, and who writes to the fd */
	bool raised;			/* false: the fd's count is 0 */
	unsigned told;			/* events for which the fd was written to */
};

/* False: made by the parent of a fork(); then it must not be used. */
bool channel_is_ours(const struct cm_channel *channel);
bool endpoint_is_ours(const struct endpoint *endpoint);
void channels_forget(void);	/* in the child of a fork() */
void channel_ref(struct cm_channel *channel) REQUIRES(agent.lock);
/* Drops a reference; the last one of a process stops the agent. */
void channel_unref(struct cm_channel *channel) EXCLUDES(agent.lock);
void channel_update_fd(struct cm_channel *channel);
void channel_unpin(struct cm_channel *channel);

/* NULL: no memory, or the channel is closed. The caller fills it in, then calls event_post(). */
struct queued_event *event_new(struct endpoint *endpoint, enum rdma_cm_event_type kind,
			       const void *private_data, size_t bytes) REQUIRES(agent.lock);
void event_post(struct queued_event *event) REQUIRES(agent.lock);
/* An event that consists of its kind and status. */
void event_post_status(struct endpoint *endpoint, enum rdma_cm_event_type kind, int status)
	REQUIRES(agent.lock);
/* The application has begun to use @endpoint. */
void channel_touch(struct endpoint *endpoint) REQUIRES(agent.lock);
/* The peer of an endpoint that nobody has seen gave up: CONNECT_REQUEST and endpoint go. */
void event_withdraw_request(struct endpoint *endpoint) REQUIRES(agent.lock);
/* Drop those of @endpoint that @is_meant picks. */
void events_withdraw(struct endpoint *endpoint,
		     bool (*is_meant)(const struct queued_event *event, const void *key), const void *key)
	REQUIRES(agent.lock);
/* Drop all of them; the new endpoints of CONNECT_REQUESTs go with them. */
void events_drop(struct endpoint *endpoint) REQUIRES(agent.lock);

/* ---- endpoint.c ---- */

/*
 * Begins a call that queries the HCA: refused by the state, or exclusive on its endpoint until
 * endpoint_exit(). 0 or errno. The lock is not held in between.
 */
int endpoint_enter(struct endpoint *endpoint, enum endpoint_call call) EXCLUDES(agent.lock);
/* End it; @err 0: the state becomes what the table says. Returns @err. */
int endpoint_exit(struct endpoint *endpoint, enum endpoint_call call, int err)
	EXCLUDES(agent.lock);
/* The same for calls that need nothing but the lock. */
int endpoint_allowed(const struct endpoint *endpoint, enum endpoint_call call)
	REQUIRES(agent.lock);

/*
 * state.c: @call was made, or @input came: the state becomes what the table says. False: it has no
 * row.
 */
bool endpoint_move(struct endpoint *endpoint, enum endpoint_call call) REQUIRES(agent.lock);
bool endpoint_take(struct endpoint *endpoint, enum endpoint_input input) REQUIRES(agent.lock);

/* Without a channel. NULL: no memory. */
struct endpoint *endpoint_new(uint16_t space, uint8_t qp_type, void *user) REQUIRES(agent.lock);
/* Waits, as calls do that owe handlers (base/call.h). The lock is dropped meanwhile. */
void endpoint_wait_for_acks(uint64_t until_ns) REQUIRES(agent.lock);
/* explain.c: @call has waited for a second for acknowledgements. */
void explain_held(const struct endpoint *endpoint, const char *call) REQUIRES(agent.lock);
/* Whether all ids of the channel wait for a call of the application. */
bool channel_waits_for_calls(const struct cm_channel *channel, char *words, size_t size) REQUIRES(agent.lock);
/* One that has no claim, listener, watch, events. Its connection is abandoned. */
void endpoint_free(struct endpoint *endpoint) REQUIRES(agent.lock);

/* ---- address.c ---- */

extern const uint8_t mapped_prefix[12];	/* of IPv4 addresses */
int address_read(const struct sockaddr *address, struct endpoint_address *out);
void address_write(const struct endpoint_address *address, struct sockaddr_storage *out);
bool address_is_any(const struct endpoint_address *address);
/* The service ID that requests to it carry. */
uint64_t address_service_id(const struct endpoint_address *address, uint16_t space);
/* The device and port of @address are @endpoint's; @claim: on the whole host. */
int address_bind(struct endpoint *endpoint, const struct endpoint_address *address, bool claim)
	EXCLUDES(agent.lock);

/* ---- resolve.c ---- */

/* Is it an address of this host? Asks the kernel, not too often. */
bool address_is_here(const uint8_t address[16], uint32_t scope) EXCLUDES(agent.lock);
/* When a next hop is to be looked for again: TIME_NEVER if none is. */
uint64_t resolve_deadline(void) REQUIRES(agent.lock);
/* Look for those that are due; their endpoints are told. */
void resolve_tick(uint64_t now_ns) EXCLUDES(agent.lock);
void resolve_cancel(struct endpoint *endpoint) REQUIRES(agent.lock);
void route_cancel(struct endpoint *endpoint) REQUIRES(agent.lock);
/* Fills in endpoint->path as Linux does for a RoCE port. */
void path_fill(struct endpoint *endpoint);

/* ---- ib.c: ports of a virtual fabric ---- */

static inline bool endpoint_is_ib(const struct endpoint *endpoint)
{
	return endpoint->port && endpoint->port->gid.ib_port;
}

/* What is asked about the path, but for the service. 0; EINVAL: not in the partition, explained; ENODEV. */
int ib_path_ask(const struct endpoint *endpoint, struct ib_path_record *asked, uint64_t *components)
	REQUIRES(agent.lock);
/* The path is taken. 0; ETIMEDOUT, EINVAL, explained. */
int ib_path_answered(struct endpoint *endpoint, const struct ib_path_record *asked,
		     const struct sa_answer *answer) REQUIRES(agent.lock);
/* Nobody answered the question for a path, or to join a group: why. */
void ib_explain_silence(bool joining, const struct endpoint *endpoint,
			const struct sa_answer *answer) REQUIRES(agent.lock);
/* Where messages of connection management go to. */
void ib_describe_way(const struct endpoint *endpoint, struct mad_address *to) REQUIRES(agent.lock);
/* False: the port lacks the partition of a request, which is refused, and that is explained. */
bool ib_request_is_of_member(const struct cm_event *event) REQUIRES(agent.lock);
/* The way back of a request, and its path as the peer has it (NULL: a datagram's). */
void ib_request_take(struct endpoint *endpoint, const struct mad_address *from,
		     const struct cm_req *req) REQUIRES(agent.lock);
/* Asks about a group; @done has the membership. 0 or errno. */
int ib_group_ask(struct membership *group, uint8_t method, const struct ib_mc_member_record *record,
		 uint64_t components, void (*done)(void *owner, const struct sa_answer *answer))
	REQUIRES(agent.lock);
/* Joins it; group->answered is told. 0 or errno. */
int ib_group_join(struct membership *group) REQUIRES(agent.lock);
/* Leaves it, if it was joined. */
void ib_group_free(struct membership *group) REQUIRES(agent.lock);
/* No answer about one comes any more. */
void ib_groups_quiet(struct endpoint *endpoint) REQUIRES(agent.lock);
/* The subnet manager has forgotten the port's groups. */
void ib_groups_join_again(struct endpoint *endpoint) REQUIRES(agent.lock);
void ib_ah(const struct endpoint *endpoint, struct ibv_ah_attr *attr) REQUIRES(agent.lock);
/* 0; EINVAL: the port is not in the endpoint's partition, explained. */
int ib_pkey_index(const struct endpoint *endpoint, uint16_t *index) REQUIRES(agent.lock);
/* The endpoint's P_Key as the port's table has it. */
uint16_t ib_member_pkey(const struct endpoint *endpoint) REQUIRES(agent.lock);

/* ---- ports.c ---- */

/*
 * Take source.port (0: one is chosen) for @endpoint, in this process; @claim: and on this host.
 * EADDRINUSE; EADDRNOTAVAIL: all are taken; EPROTONOSUPPORT: not a port space for the family.
 */
int ports_take(struct endpoint *endpoint, bool claim) EXCLUDES(agent.lock);
/* Nobody else may listen where @endpoint wants to; claims it. */
int ports_take_to_listen(struct endpoint *endpoint) EXCLUDES(agent.lock);
void ports_drop(struct endpoint *endpoint) REQUIRES(agent.lock);
/* Family that a wildcard address stands for: AF_UNSPEC: IPv4 and IPv6. */
int ports_family(const struct endpoint *endpoint);
/* In the child of a fork(): all are free. */
void ports_forget(void);

/* ---- ip_cm.c ---- */

void ip_cm_write(const struct endpoint *endpoint, uint8_t out[CM_IP_HEADER_BYTES]);
/* How many bytes of private data the header takes: 0 or CM_IP_HEADER_BYTES. */
size_t ip_cm_bytes(const struct endpoint *endpoint);
/* Source and destination of a request to @listener become those of @endpoint. False: refuse it. */
bool ip_cm_read(const struct endpoint *listener, const struct cm_message *message,
		const struct mad_address *from, struct endpoint *endpoint);

/* ---- providers of connections ---- */

/*
 * What the calls on an endpoint do, by what its QP is: connections of the CM (provider_cm.c), or an
 * exchange of service ID resolution (datagram.c). All with the agent's lock, in states in which
 * state.def allows them; 0 or errno.
 */
struct connection_provider {
	enum endpoint_call connects;	/* rdma_connect() in state.def */
	bool is_watched;		/* the peer's process may be: it has a QP */
	int (*connect)(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		       const struct endpoint_ece *ece);
	int (*accept)(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		      uint32_t qkey, const struct endpoint_ece *ece);
	int (*reject)(struct endpoint *endpoint, const void *private_data, uint8_t bytes,
		      uint16_t reason);
	/* Reject what the application has not seen, in the words of the protocol. */
	void (*refuse)(struct endpoint *endpoint, uint16_t reason);
	int (*establish)(struct endpoint *endpoint);
	int (*notify)(struct endpoint *endpoint, enum ibv_event_type event);
	int (*disconnect)(struct endpoint *endpoint);
	void (*peer_died)(struct endpoint *endpoint, uint64_t now_ns);
	/* The connection is nobody's from now on. */
	void (*abandon)(struct endpoint *endpoint);
};

extern const struct connection_provider provider_cm, provider_sidr;

static inline const struct connection_provider *provider_of(const struct endpoint *endpoint)
{
	return endpoint->qp_type == IBV_QPT_UD ? &provider_sidr : &provider_cm;
}

/* provider_cm.c, for both. */
void provider_describe_way(const struct endpoint *endpoint, struct mad_address *way) REQUIRES(agent.lock);
void provider_peer_died(struct endpoint *endpoint, uint64_t now_ns) REQUIRES(agent.lock);
void provider_abandon(struct endpoint *endpoint) REQUIRES(agent.lock);

/* ---- provider_cm.c, request.c, datagram.c ---- */

void connection_event(void *host, const struct cm_event *event) REQUIRES(agent.lock);
void connection_request(const struct cm_event *event) REQUIRES(agent.lock);
void datagram_request(const struct cm_event *event) REQUIRES(agent.lock);
void datagram_reply(struct endpoint *endpoint, const struct cm_event *event) REQUIRES(agent.lock);
/* A request of @listener that counted in its backlog waits no more. */
void request_waits_no_more(struct endpoint *listener) REQUIRES(agent.lock);
/* What requests have in common: room, a new endpoint, its addresses. NULL: dealt with. */
struct endpoint *request_endpoint(const struct cm_event *event, uint8_t qp_type)
	REQUIRES(agent.lock);
/* The queued CONNECT_REQUEST gets its device when it is taken. EINVAL, ...: it was refused. */
int request_find_port(struct endpoint *endpoint) EXCLUDES(agent.lock);
/* Refuse what the application has not seen yet, in the words of the protocol. */
void request_refuse(struct endpoint *endpoint, uint16_t reason) REQUIRES(agent.lock);

/* ---- attributes.c, multicast.c ---- */

void attributes_ah(const struct endpoint *endpoint, struct ibv_ah_attr *attr) REQUIRES(agent.lock);
uint32_t qkey_default(struct endpoint *endpoint);
/* 0; EINVAL: it has another one. */
int qkey_set(struct endpoint *endpoint, uint32_t qkey);

/* ---- explain.c: no-ops unless explanations are enabled ---- */

/* Why @what ("rdma_bind_addr") of @address gave @err; returns @err. Not with a lock held. */
int explain_address(const char *what, const struct endpoint_address *address, int err)
	EXCLUDES(agent.lock);
/* A request is refused because too many wait. */
void explain_backlog(const struct endpoint *listener) REQUIRES(agent.lock);
/* @call was refused with @err (0: it was not) for the endpoint's state. Returns @err. */
int explain_out_of_turn(enum endpoint_call call, const struct endpoint *endpoint, int err);
/* The peer's process, of this host, has ended: DISCONNECTED or another event follows. */
void explain_peer_ended(const struct endpoint *endpoint);
/* 0, or EINVAL: @bytes of private data are more than @limit. */
int explain_too_long(const char *call, size_t bytes, size_t limit);
/* An event that the application is about to see. */
void explain_event(const struct endpoint *endpoint, const struct queued_event *event)
	EXCLUDES(agent.lock);

#endif
