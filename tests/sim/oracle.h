/* SPDX-License-Identifier: BSD-2-Clause */
/* What a conversation's completions and memory must be; each call fails the simulation if not. */
#ifndef VERBATIM_SIM_ORACLE_H
#define VERBATIM_SIM_ORACLE_H

#include "talk.h"

void oracle_posted(struct side *side, struct message *message);
void oracle_sent(struct side *side, const struct ibv_wc *wc);
void oracle_received(struct side *side, const struct ibv_wc *wc);

#endif
