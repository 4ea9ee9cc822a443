/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of one process, connected to each other, for programs that do something wrong
 * with them. */
#ifndef VERBATIM_TESTS_CHECK_PAIR_H
#define VERBATIM_TESTS_CHECK_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { BYTES = 4096, DEPTH = 8, RNR_FOR_EVER = 7 };

struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;	/* of the receiver's CQ */
	struct ibv_cq *send_cq, *recv_cq;	/* the sender's, the receiver's */
	struct ibv_qp *sender, *receiver;
	struct ibv_mr *mr;	/* of buffer[] */
	char buffer[BYTES];
};

struct pair_options {
	enum ibv_qp_type type;	/* 0: RC */
	bool unsignaled;	/* sq_sig_all is 0 */
	int entries;		/* of both CQs; 0: 32 */
	uint32_t inline_bytes;	/* 0: 64 */
	uint8_t rd_atomic;	/* 0: 1 */
	bool looks;		/* at the table of GIDs, as programs should */
	uint16_t lid;		/* of the peer; 0: none */
	bool atomics;		/* may be done to the receiver */
};

/* Each ends the program with status 3 if it fails: that is the device's, and no test. */
struct pair *pair_open(struct pair_options options);
void pair_close(struct pair *pair);
/* The same without the last steps: what a case has done itself is NULL. */
void must(bool good, const char *what);
struct ibv_ah *pair_ah(struct pair *pair);
void send_some(struct pair *pair, uint64_t wr_id, uint32_t bytes, unsigned flags);
void read_async_events(struct pair *pair);	/* all that are there, and acknowledges them */
void receive_some(struct pair *pair, uint64_t wr_id, uint32_t bytes);
/* Polls until @count completions came, which are good; at most two seconds. */
void take(struct ibv_cq *cq, int count);
/* The same of one, whatever its status is. */
enum ibv_wc_status take_one(struct ibv_cq *cq);
void event(struct pair *pair);	/* ibv_get_cq_event */
void rest(void);		/* a moment, in which all that was sent arrives */
void end_after_a_moment(void);	/* the program, which is going to hang */

#endif
