/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of a queue pair whose packets congest the network, as DCQCN has it (Zhu et al.,
 * Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3.2; names and
 * defaults as mlx5's where it has them). Pure: notifications, bytes and the time come in, and leave
 * to send comes out.
 *
 *	notification	target = current; current falls by alpha / 2; alpha rises
 *	none for ALPHA_NS	alpha falls
 *	each INCREASE_NS, and each INCREASE_BYTES	a step up:
 *		steps of either up to RATE_FAST	current goes half the way to the target
 *		of one more than that		and the target rises by RATE_ADD
 *		of both				or by RATE_HYPER, for each step beyond
 *
 * The rate begins as what left before the first notification, and ends, as no limit, at twice that.
 * It does not fall below what the caller says: who forges notifications stops nobody.
 */
#ifndef VERBATIM_TRANSPORT_RATE_H
#define VERBATIM_TRANSPORT_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_ALPHA_ONE		1024u
#define RATE_ALPHA_NS		55000u			/* K of the paper */
#define RATE_INCREASE_NS	300000u		/* rpg_time_reset */
#define RATE_INCREASE_BYTES	10000000u
#define RATE_FAST		5u		/* rpg_threshold */
#define RATE_ADD		625000u		/* bytes a second, 5 Mb/s: rpg_ai_rate */
#define RATE_HYPER		6250000u	/* 50 Mb/s: rpg_hai_rate */
#define RATE_MIN		125000u		/* 1 Mb/s: rpg_min_rate */
#define RATE_BURST_NS		100000u		/* may leave at once: what software is late by */
#define RATE_BURST_BYTES	65536u

struct rate {
	uint64_t current, target, end;	/* bytes a second; 0: no limit */
	uint64_t cut_ns;		/* the last notification */
	uint64_t alpha_ns, increase_ns;	/* when the next step is due */
	uint64_t due_ns;		/* when what has left would be over, at that rate */
	uint64_t held_until_ns;		/* nothing leaves until then; 0: not held */
	uint32_t alpha;			/* of RATE_ALPHA_ONE */
	uint32_t bytes;			/* since the last step for them */
	uint8_t time_steps, byte_steps;
};

/*
 * A notification came. @before: bytes a second until now, where there is no limit yet; @least: that
 * are left in any case.
 */
void rate_cut(struct rate *rate, uint64_t before, uint64_t least, uint64_t now_ns);
/* May @bytes leave now? If not, held_until_ns is when. */
bool rate_allows(struct rate *rate, uint32_t bytes, uint64_t now_ns);

#endif
