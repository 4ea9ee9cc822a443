/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Throughput in virtual time: many RDMA WRITEs of one size over a link of a given loss and
 * delay, between processors of a given speed. For scripts and for bench/sim_matrix.c.
 */
#ifndef VERBATIM_SIM_MEASURE_H
#define VERBATIM_SIM_MEASURE_H

#include "talk.h"

struct measure_options {
	enum ibv_wr_opcode opcode;	/* RDMA_WRITE or RDMA_READ */
	uint32_t message_bytes, messages, depth;
	unsigned qps;			/* each moves that many messages */
	unsigned senders;		/* hosts; 0: one */
	enum ibv_mtu mtu;
	uint32_t loss, burst_loss;	/* per million, either way */
	uint64_t delay_ns, seed;
	uint64_t socket_bytes;		/* 0: unbounded */
	uint32_t socket_charge;		/* per packet beyond its bytes; 0: the usual */
};

struct measure_result {
	bool ok;
	char failure[512];
	double seconds;			/* virtual */
	double goodput_gbps;		/* 10^9 bits of messages per virtual second */
	uint64_t sent, needed;		/* packets: data one way; those of a world without loss */
	double ratio;			/* sent / needed */
	uint64_t tail_dropped, retry_exceeded, timeouts, probes, retransmits;
};

struct measure_result measure(const struct measure_options *options);

#endif
