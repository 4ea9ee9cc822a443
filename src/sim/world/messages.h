/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages (transport/message.h) of a simulated host's QP, as if its peer were on the same host. */
#ifndef VERBATIM_SIM_WORLD_MESSAGES_H
#define VERBATIM_SIM_WORLD_MESSAGES_H

#include "sim/world/sim.h"
#include "transport/message.h"

/* Nothing is carried: the caller has each message received and answered. */
enum message_fate host_receive_message(struct sim_host *host, struct qp *qp,
				       const struct local_message *message);
/* After MESSAGE_FETCH: the next part of its data, which @copy writes (false: it cannot be had). */
enum message_fate host_fetch(struct sim_host *host, struct qp *qp,
			     const struct local_message *message,
			     bool (*copy)(void *context, void *to, size_t bytes), void *context);
/* Send the next request as a message, if it may be one; its answer is to name @token. */
bool host_send_message(struct sim_host *host, struct qp *qp, uint64_t token);
void host_answer_message(struct sim_host *host, struct qp *qp, uint64_t token, bool refused);

#endif
