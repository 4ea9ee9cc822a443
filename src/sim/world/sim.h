/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: hosts that run the transport in virtual time over a network that loses,
 * duplicates, reorders, delays, corrupts and truncates packets, as told by rates and a seed or
 * packet by packet by a rule. One thread, no clock: a run is a function of its inputs. The tests of
 * tests/sim have conversations in it, and `verbatim ladder --demo` its stories.
 *
 *	world.c		time, events, randomness, failure
 *	net.c		what happens to a packet between two hosts
 *	host.c		one process: its tables, its QPs, its sockets' buffer, its processor
 *
 * Programs that run on them, and records of all of it: sim/program.
 *
 *	transmit -> [rates, rule] -> wire (delay) -> socket buffer (bounded) -> ICRC -> transport
 */
#ifndef VERBATIM_SIM_WORLD_SIM_H
#define VERBATIM_SIM_WORLD_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer_heap.h"
#include "object/arena.h"
#include "object/mr.h"
#include "object/qp.h"
#include "transport/recovery.h"
#include "transport/transport.h"

/* Sanitizers take ten times as long and look for other things: fewer worlds do. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SIM_SANITIZED
#endif
#endif

#define SIM_HOSTS_MAX	4u
#define SIM_QPS_MAX	128u
#define MILLION		1000000u	/* rates are in parts per million */
#define US		1000ull
#define MS		1000000ull
#define SECOND		1000000000ull

struct sim;
struct sim_host;

/* One packet on its way. A rule may change all but @sim, @number and the bytes. */
struct flight {
	struct sim *sim;
	struct sim_host *from, *to;
	uint64_t number;		/* of all packets sent in this world, from 0 */
	struct packet packet;		/* parsed; its payload is in @data */
	uint8_t *data;
	size_t bytes;			/* with ICRC */
	bool drop;
	unsigned copies;		/* 1 */
	uint64_t delay_ns;
	unsigned corrupt_bits;
	size_t truncate_bytes;		/* cut off at the end */
};

/* What the network does to the packets that leave a host. */
struct sim_rates {
	uint32_t loss, burst_loss, duplicate, reorder, corrupt, truncate;	/* per million */
	uint64_t delay_ns, jitter_ns, reorder_ns;
	bool partitioned;
};

enum sim_event_kind { EVENT_ARRIVE, EVENT_SERVE, EVENT_PUMP, EVENT_CALL };

struct sim_event {
	uint64_t at_ns, order;
	enum sim_event_kind kind;
	struct sim_host *host, *from;
	uint8_t *data;
	size_t bytes;
	bool damaged;			/* corrupted or truncated: must not pass the checks */
	bool marked;			/* congestion experienced (ECN) */
	void (*call)(struct sim *sim, void *argument);
	void *argument;
};

struct sim {
	uint64_t now_ns, random, seed;
	struct sim_event *heap;
	size_t event_count, event_capacity;
	uint64_t order, handled, sent;
	uint64_t handled_max, end_ns;	/* a run that needs more does not terminate */
	struct sim_host *host[SIM_HOSTS_MAX];
	unsigned host_count;
	struct tx_batch *batch;
	void (*rule)(struct flight *flight, void *argument);
	void *rule_argument;
	/* After each event: the applications take their completions. */
	void (*application)(struct sim *sim, void *argument);
	void *application_argument;
	struct sim_host *running;	/* whose code runs: records are its own */
	bool stopped;			/* sim_run() is to return */
	bool verbose;
	bool failed;
	char failure[512];
};

struct sim_statistics {
	uint64_t packets, bytes;		/* sent */
	uint64_t batches;			/* of packets that left together */
	uint64_t lost, tail_dropped, damaged_dropped, no_qp;
};

/* Large: a process with its tables, its processor and the socket that it reads are one thing here. */
struct sim_host {
	struct sim *sim;
	unsigned index;
	uint8_t address[16];
	struct arena *arena;
	struct mr_table mrs;
	struct counters *counters;
	struct run_queue run_queue;
	struct path_table paths;
	struct recovery_pool *recoveries;
	struct transport transport;
	struct pd pd;			/* for who needs but one */
	struct timer_heap timers;
	struct event_queue async;
	struct qp *qp[SIM_QPS_MAX];
	unsigned qp_count, qps_alive;
	uint32_t events[32];		/* asynchronous events seen, by enum ibv_event_type */
	struct sim_process *process;	/* verbs of the program on it (verbs.c); NULL: none */
	/* Both may be NULL: an asynchronous event was taken; a packet for QP1 came. */
	void (*told)(struct sim_host *host, struct async_event *event);
	enum drop (*management)(struct sim_host *host, struct sim_host *from, const struct packet *packet);

	struct sim_rates rates;		/* of what it sends */
	struct sim_statistics statistics;
	bool crashed;			/* neither sends nor receives any more */

	/* The processor: what a packet costs, and how long work waits for it to wake up. */
	uint64_t tx_packet_ns, rx_packet_ns, wake_ns;
	uint32_t tx_byte_ps, rx_byte_ps;
	uint64_t tx_free_ns, rx_free_ns;
	uint64_t late_ns;		/* of the batch that leaves: how much later its next packet does */
	bool pump_planned;
	bool serial;			/* the packets of a batch leave one after the other, as each costs */
	bool deaf;			/* no Verbatim: gives no echoes of UC and UD, and knows nothing of gaps */
	bool gathers;			/* requests that may wait do: for the next event that makes it transmit */

	/* The socket buffer: what does not fit is lost. 0: unbounded. */
	uint64_t socket_bytes, socket_used, socket_most;
	uint64_t mark_bytes;			/* with more in it packets are marked (ECN); 0: never */
	bool marked;				/* the packet that is received now */
	uint32_t socket_charge;			/* per packet, beyond its bytes */
};

/* ---- world.c ---- */

struct sim *sim_create(uint64_t seed);
void sim_destroy(struct sim *sim);
uint64_t sim_random(struct sim *sim);
uint32_t sim_below(struct sim *sim, uint32_t n);		/* 0 .. n-1 */
bool sim_chance(struct sim *sim, uint32_t per_million);
void sim_event_add(struct sim *sim, struct sim_event event);	/* at event.at_ns */
void sim_call_at(struct sim *sim, uint64_t at_ns, void (*call)(struct sim *, void *), void *argument);
/* Runs until nothing is left to happen, or @until_ns. False: it failed, or does not terminate. */
bool sim_run(struct sim *sim, uint64_t until_ns);
/* The first failure is kept. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- net.c ---- */

/* NULL: none has that address. */
struct sim_host *net_find_host(struct sim *sim, const uint8_t address[16]);
void net_send(struct sim_host *from, struct tx_batch *batch);
/* One packet of no QP: @data without ICRC, with room for it. */
void net_send_management(struct sim_host *from, struct sim_host *to, uint8_t *data, size_t bytes);
/* As the sender of a packet seals it, and its receiver checks it. */
struct icrc_header net_icrc_header(const struct sim_host *from, const struct sim_host *to);
void net_arrive(struct sim *sim, struct sim_event *event);
void net_serve(struct sim *sim, struct sim_event *event);

/* ---- host.c ---- */

struct qp_options {
	enum ibv_qp_type type;
	struct pd *pd;			/* NULL: the host's */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct xrcd *xrcd;		/* XRC_RECV: of host_xrcd() */
	uint32_t send_wrs, recv_wrs, sges, inline_bytes;	/* 0: 64, 64, 4, 64 */
	bool signal_all;
};

struct connect_options {
	enum ibv_mtu mtu;
	uint32_t psn[2];		/* first PSN of either side's requests */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
	uint32_t qkey;
};

struct sim_host *host_create(struct sim *sim);
void host_destroy(struct sim_host *host);
struct cq *host_cq(struct sim_host *host, uint32_t size);
struct srq *host_srq(struct sim_host *host, uint32_t size, uint32_t sges);
/* A domain with one SRQ in it, of host_srq(), whose completions go to @cq. */
struct xrcd *host_xrcd(struct srq *srq, uint32_t number, struct cq *cq);
void xrcd_destroy(struct xrcd *xrcd, struct srq *srq);
void cq_destroy(struct cq *cq);
void srq_destroy(struct srq *srq);
struct qp *host_qp(struct sim_host *host, const struct qp_options *options);
void host_qp_destroy(struct sim_host *host, struct qp *qp);
int host_modify(struct sim_host *host, struct qp *qp, struct ibv_qp_attr *attr, int mask);
int host_modify_state(struct sim_host *host, struct qp *qp, enum ibv_qp_state state);
/* RESET to RTS; @peer NULL for UD. @side: which of options->psn is ours. */
void host_connect(struct sim_host *host, struct qp *qp, struct sim_host *peer, uint32_t peer_qpn,
		  const struct connect_options *options, unsigned side);
struct connect_options connect_defaults(void);
int host_post_send(struct sim_host *host, struct qp *qp, struct ibv_send_wr *wr);
int host_post_send_list(struct sim_host *host, struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int host_post_recv(struct sim_host *host, struct qp *qp, struct ibv_recv_wr *wr);
int host_post_recv_list(struct sim_host *host, struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int host_post_srq(struct sim_host *host, struct srq *srq, struct ibv_recv_wr *wr);
struct ah *host_ah(struct sim_host *host, struct sim_host *to);
struct mr *host_mr(struct sim_host *host, void *address, size_t length, unsigned access);
void host_mr_free(struct sim_host *host, struct mr *mr);

/* What calls of object/ and transport/ leave to be done. */
void host_apply(struct sim_host *host, struct effects *effects);

/* For world.c and net.c. */
/* Returns why it was dropped, if its QP or none did. */
enum drop host_receive(struct sim_host *host, struct sim_host *from, uint8_t *data, size_t bytes,
		       bool damaged);
void host_pump(struct sim_host *host);
void host_wake(struct sim_host *host);		/* transmits when the processor gets to it */
void host_expire(struct sim_host *host);
uint64_t host_deadline(const struct sim_host *host);
/* Paths empty, no QP in a list: what must be so when all is answered. */
void host_check_idle(struct sim_host *host);

#endif
