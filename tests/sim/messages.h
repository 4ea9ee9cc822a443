/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages (transport/message.h) of a simulated host's QP, as if its peer were on the same host. */
#ifndef VERBATIM_TESTS_SIM_MESSAGES_H
#define VERBATIM_TESTS_SIM_MESSAGES_H

#include "sim.h"
#include "transport/message.h"

/* What is told goes nowhere by itself: hearing and answering is up to the caller. */
enum message_fate host_hear(struct sim_host *host, struct qp *qp, const struct message *message);
/* After MESSAGE_FETCH: the next part of its data, which @copy writes (false: it cannot be had). */
enum message_fate host_fetch(struct sim_host *host, struct qp *qp, const struct message *message,
			     bool (*copy)(void *context, void *to, size_t bytes), void *context);
/* The next request, if it may be told; its answer is to name @token. */
bool host_tell(struct sim_host *host, struct qp *qp, uint64_t token);
void host_settle(struct sim_host *host, struct qp *qp, uint64_t token, bool refused);

#endif
