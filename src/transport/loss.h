/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss, as time shows it: when a probe is due, when the ACK timeout has passed, and what follows. Pure: no
 * packets, no QP; requester.c does what it says.
 *
 * Silence for a round trip and some: a probe, the oldest packet once more. Each one without an answer
 * doubles the delay of the next. After two, and silence for longer than a round trip takes anywhere, the
 * requester holds all but probes. Silence for the local ACK timeout counts as a retry.
 */
#ifndef VERBATIM_TRANSPORT_LOSS_H
#define VERBATIM_TRANSPORT_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp_transport.h"

void loss_start(struct loss *loss, uint8_t retry_cnt, uint64_t rto_ns);
/* Nothing is in flight any more. */
void loss_stop(struct loss *loss);

/* The peer has answered, whatever: retry_cnt is for one that is silent. */
void loss_answered(struct loss *loss, uint8_t retry_cnt);
/* It has answered something new. */
void loss_progress(struct loss *loss, uint8_t retry_cnt, uint64_t now_ns);
/* Answered up to @una_psn, in flight up to @send_psn: was it the probe alone? Then the rest is lost. */
bool loss_probe_says_lost(struct loss *loss, uint32_t una_psn, uint32_t send_psn);
/* A sign of loss at @una_psn: false: it is one more of a loss that is dealt with. */
bool loss_is_new(struct loss *loss, uint32_t una_psn);

void loss_probe_sent(struct loss *loss, uint32_t end_psn, uint64_t now_ns);
/* From now on nothing but probes. */
void loss_hold(struct loss *loss);

/* TIME_NEVER: none. @timeout_ns: UINT64_MAX: for ever. */
uint64_t loss_ack_deadline(const struct loss *loss, uint64_t timeout_ns);
uint64_t loss_probe_deadline(const struct loss *loss);
/* The ACK timeout has passed. False: retry_cnt is used up. */
bool loss_retry(struct loss *loss, uint64_t now_ns);
/* A probe's time has come. True: the peer is silent for so long that all but probes should be held. */
bool loss_probe(struct loss *loss, uint64_t now_ns, uint64_t probe_min_ns);

#endif
