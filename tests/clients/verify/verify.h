/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verbs client that checks what it moves. It uses nothing but the public verbs API, so it runs
 * on any RDMA stack. Both ends run the same test function at the same time and meet over a TCP
 * connection: exchange() and barrier() are the only ways to wait for the peer.
 *
 * A check that fails prints why and ends the process at once; the peer sees the connection close
 * and fails too. So helpers return nothing but what was asked for.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One end of the conversation. */
struct side {
	bool server;
	bool local;			/* the peer is a thread of this process */
	int sock;
	int gid_index;
	const char *test;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	union ibv_gid gid, peer_gid;
	enum ibv_mtu mtu;		/* the lesser of both ends */
	size_t mtu_bytes;
	uint32_t random;
};

enum {
	TAG_DATA = 1,			/* moves data: worth repeating under loss */
	TAG_LOSSLESS = 2,		/* cannot work when packets are lost */
	TAG_LONG = 4,			/* takes long, or much memory */
};

struct test {
	const char *name;
	void (*run)(struct side *side);
	unsigned tags;
};

/* Lists of tests end with a row without name. */
extern const struct test connected_tests[], stream_tests[], datagram_tests[], window_tests[],
	remote_error_tests[], local_error_tests[], queue_tests[], event_tests[], object_tests[],
	process_tests[], tag_tests[], counter_tests[];

#define CHECK(condition, ...)						\
	do {								\
		if (!(condition))					\
			check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);	\
	} while (0)
/* For calls that return 0 or an errno (or -1 and errno). */
#define OK(call)							\
	do {								\
		int err_ = (call);					\
									\
		if (err_)						\
			call_failed(__FILE__, __LINE__, #call, err_);	\
	} while (0)
/* The call must fail with this errno. */
#define REFUSED(call, expected)						\
	do {								\
		int err_ = (call);					\
									\
		CHECK(err_ == (expected), "%s gave %d, not %s", #call, err_, #expected);	\
	} while (0)

void check_failed(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
void call_failed(const char *file, int line, const char *what, int err)
	__attribute__((noreturn));
/* End this test as skipped, at both ends (both must reach the same decision). */
void skip(struct side *side, const char *why) __attribute__((noreturn));

/* peer.c */
int peer_listen(int port);
int peer_accept(int listening);
int peer_connect(const char *host, int port);
void exchange(struct side *side, const void *mine, void *theirs, size_t len);
void barrier(struct side *side);
uint64_t exchange_u64(struct side *side, uint64_t mine);

/* memory.c: a registered buffer with guard bytes around it */
struct region {
	uint8_t *mem;
	size_t size;
	uint8_t *allocation;
	size_t allocated;
	struct ibv_mr *mr;
	uint64_t peer_address;		/* after region_exchange */
	uint32_t peer_rkey;
};

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC)

/* By aligned_alloc, whole pages, as programs that care do; else with guard bytes on both sides. */
extern bool regions_are_aligned;
void region_create(struct side *side, struct region *region, size_t size, unsigned access);
void region_exchange(struct side *side, struct region *region);
/* Also checks that nobody wrote outside it. */
void region_destroy(struct region *region);
void region_check_guards(const struct region *region);
void pattern_fill(uint8_t *at, size_t len, uint32_t seed);
void pattern_check(const uint8_t *at, size_t len, uint32_t seed, const char *what);
void byte_check(const uint8_t *at, size_t len, uint8_t value, const char *what);
uint32_t random_next(struct side *side);

/* link.c: a queue pair with its queues, joined to one of the peer */
struct link {
	struct side *side;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	uint32_t peer_qpn, psn, peer_psn;
	struct ibv_ah *ah;		/* UD */
};

#define QKEY 0x1234567u

/* What a link is made of; zero means the usual. */
struct link_options {
	enum ibv_qp_type type;		/* default RC */
	struct ibv_srq *srq;
	struct ibv_cq *send_cq, *recv_cq;	/* default: own ones */
	struct ibv_comp_channel *channel;
	int wr, sge, inline_bytes;	/* default 64, 4, 0 */
	int access;			/* default ALL_ACCESS; -1: none */
	int timeout, retry, rnr_retry, min_rnr_timer;	/* default 16, 7, 7, 12; -1: 0 */
	int cqe;			/* of own CQs; default twice wr */
	bool sig_all;
	bool no_rts;			/* stop in RTR */
};

void link_open(struct side *side, struct link *link, const struct link_options *options);
/* The steps of link_open. */
void link_create(struct side *side, struct link *link, const struct link_options *options);
void link_to_init(struct link *link, const struct link_options *options);
void link_to_rtr(struct link *link, const struct link_options *options);
void link_to_rts(struct link *link, const struct link_options *options);
void link_close(struct link *link);
enum ibv_qp_state link_state(struct link *link);
/* Wait until a peer's answer or our own error has moved the QP to ERR. */
void link_wait_error(struct link *link);

/* One work request to send. */
struct op {
	uint64_t id;
	enum ibv_wr_opcode opcode;
	unsigned flags;			/* IBV_SEND_SIGNALED is added unless quiet */
	bool quiet;
	struct ibv_sge sge[8];
	int sges;
	uint32_t imm;
	uint64_t address;
	uint32_t rkey;
	uint64_t compare_add, swap;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
};

int try_send(struct link *link, const struct op *op);
void send_op(struct link *link, const struct op *op);
int try_recv(struct link *link, uint64_t id, const struct ibv_sge *sge, int sges);
void recv_op(struct link *link, uint64_t id, const struct ibv_sge *sge, int sges);
void recv_region(struct link *link, uint64_t id, struct region *region, size_t offset, size_t len);
struct ibv_sge sge_of(struct region *region, size_t offset, size_t len);

/* How long a completion may take: longer than any retry under the losses we test with. */
#define PATIENCE_MS 25000
#define LONG_PATIENCE_MS 250000		/* TAG_LONG: gigabytes, on a machine that does other things */
extern __thread int patience_ms;
/* Wait for one completion; for one with this status and id; a good one; n good ones. */
struct ibv_wc wait_wc(struct ibv_cq *cq);
struct ibv_wc expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);
struct ibv_wc good_wc(struct ibv_cq *cq, uint64_t id);
void expect_no_wc(struct ibv_cq *cq, int milliseconds);
/* The work requests first..last are flushed, in order. */
void expect_flush(struct ibv_cq *cq, uint64_t first, uint64_t last);
void expect_event(struct side *side, enum ibv_event_type type);
bool wait_readable(int fd, int milliseconds);
void pause_ms(int milliseconds);	/* all of it, whatever signals come */

/* Sizes around what can go wrong: words, packets, batches. Returns how many, at most 32. */
size_t interesting_sizes(const struct side *side, size_t *sizes, size_t greatest);

#endif
