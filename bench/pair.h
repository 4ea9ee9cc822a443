/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes that have a socket between them connect a queue pair each, for programs whose requests callgrind
 * counts: request_cost.c, trace_cost.c. A failure ends the program.
 */
#ifndef PAIR_H
#define PAIR_H

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What each end tells the other. */
struct end {
	uint32_t qpn, rkey;
	union ibv_gid gid;
};

static inline void expect(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* Tells the other end of @own, and returns when both are in RTS. */
static inline void connect_to(struct ibv_qp *qp, int fd, const struct end *own, struct end *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	char go = 0;

	expect(write(fd, own, sizeof(*own)) == sizeof(*own) && read(fd, peer, sizeof(*peer)) == sizeof(*peer),
	       "the other end");
	expect(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	       "INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = peer->gid, .sgid_index = 1, .hop_limit = 64 } } };
	expect(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	expect(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	expect(write(fd, &go, 1) == 1 && read(fd, &go, 1) == 1, "the other end");
}

#endif
