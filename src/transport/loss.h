/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss detection by time: decides when a probe is due and when the ACK timeout has passed. Pure: no
 * packets, no QP; requester.c carries the decisions out.
 *
 * After silence for a round trip and some, a probe is sent: the oldest packet once more. Each probe
 * without an answer doubles the delay of the next. After two, and silence for longer than any round
 * trip takes, the requester holds everything but probes. Silence for the local ACK timeout counts
 * as a retry, unless the process of the peer is known not to run: then it is looked at again and again.
 */
#ifndef VERBATIM_TRANSPORT_LOSS_H
#define VERBATIM_TRANSPORT_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp_transport.h"

#define LOSS_LOOK_NS	200000000u	/* between two looks at a peer that does not run */

void loss_start(struct loss *loss, uint8_t retry_cnt, uint64_t rto_ns);
/* Nothing is in flight any more. */
void loss_stop(struct loss *loss);

/* Any answer restores retry_cnt, which counts silence only. */
void loss_answered(struct loss *loss, uint8_t retry_cnt);
/* The answer acknowledges something new. */
void loss_progress(struct loss *loss, uint8_t retry_cnt, uint64_t now_ns);

enum probe_says {
	PROBE_NOTHING,
	PROBE_LOST,		/* it alone was answered: the rest is lost */
	PROBE_AGAIN,		/* more was answered, not all: another one tells whether that is lost */
};

/*
 * Answered up to @una_psn, in flight up to @send_psn. @rtt_ns: the shortest round trip; 0: not known.
 */
enum probe_says loss_probe_answered(struct loss *loss, uint32_t una_psn, uint32_t send_psn,
				    uint64_t rtt_ns, uint64_t now_ns);
/* A sign of loss at @una_psn. False: a further sign of a loss already being repaired. */
bool loss_is_new(struct loss *loss, uint32_t una_psn);

void loss_probe_sent(struct loss *loss, uint32_t end_psn, uint64_t now_ns);
/* Hold everything but probes. */
void loss_hold(struct loss *loss);

/* The peer does not run: nothing counts and nothing is sent, until loss_answered() or loss_runs(). */
void loss_stopped(struct loss *loss, uint8_t retry_cnt, uint64_t now_ns);
/* It runs again: it has all its time. */
void loss_runs(struct loss *loss, uint64_t now_ns);

/* The peer is alive and may not have had a processor: this timeout does not count, @most such in a row. */
void loss_grace(struct loss *loss, unsigned most, uint64_t now_ns);

/* TIME_NEVER: none. @timeout_ns: UINT64_MAX: for ever. */
uint64_t loss_ack_deadline(const struct loss *loss, uint64_t timeout_ns);
uint64_t loss_probe_deadline(const struct loss *loss);
/* The ACK timeout has passed. False: retry_cnt is used up. */
bool loss_retry(struct loss *loss, uint64_t now_ns);
/* A probe is due. True: the silence is so long that everything but probes should be held. */
bool loss_probe(struct loss *loss, uint64_t now_ns, uint64_t probe_min_ns);

#endif
