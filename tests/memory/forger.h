/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another process of this host, of another user where there is one, that sends to queue pairs of an end what
 * their peers might send: it knows addresses, numbers, and which PSN is due.
 */
#ifndef VERBATIM_TESTS_MEMORY_FORGER_H
#define VERBATIM_TESTS_MEMORY_FORGER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum forger_kind {
	FORGER_UDP,	/* to port 4791, from the address of both ends */
	FORGER_OWNER,	/* has port 4791, and hands on what never came there */
};

struct forger;

/* @type: of the queue pairs, RC or UC. */
struct forger *forger_start(enum forger_kind kind, enum ibv_qp_type type);
/*
 * To the queue pair @qpn, which expects requests from @request_psn on, and answers from @answer_psn on. By one of
 * the two ends (0 or 1); they are processes that were forked since.
 */
void forger_aim(struct forger *forger, unsigned end, uint32_t qpn, uint32_t request_psn, uint32_t answer_psn);
/* How many PSNs it tries from there on. */
void forger_try(struct forger *forger, uint32_t psns);
uint64_t forger_sent(const struct forger *forger);
/* False: it has ended before. */
bool forger_end(struct forger *forger);

#endif
