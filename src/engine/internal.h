/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of engine/ have to do with each other. */
#ifndef VERBATIM_ENGINE_INTERNAL_H
#define VERBATIM_ENGINE_INTERNAL_H

#include "engine/engine.h"

/* tx_run.c: returns false when another thread makes progress. */
bool tx_serve_run_queue(struct engine *engine);
struct tx_batch *tx_batch_new(void);
/* tx.c */
void tx_send(struct engine *engine, struct tx_batch *batch);

/* timers.c: qp cannot be destroyed meanwhile, destroying takes the progress lock. */
void timers_expire(struct engine *engine, uint64_t now_ns) REQUIRES(engine->progress);
/* The next deadline of a QP. */
uint64_t timers_next(struct engine *engine);

/* rx.c: for traces: what identification and DF the IPv4 header of a received packet had. */
bool rx_find_ip_id(const struct datagram *datagram, const uint8_t *packet, size_t bytes, unsigned segment,
		   uint16_t *ip_id, bool *dont_fragment);

/* qp_table.c: a slot more. 0; ENOMEM: no process has more; errno. */
int slots_claim(struct engine *engine);
void slots_release(struct engine *engine);

/* port.c: bind port 4791 and join those who share it, unless done; engine->group tells. */
void port_bind(struct engine *engine) REQUIRES(engine->progress);
/* Returns when the members of the group know our slot. */
void port_settle(struct engine *engine);
/* Packets for others that came to our sockets are forwarded before the sockets go. */
void port_drain(struct engine *engine);

/* worker.c */
int worker_start(struct engine *engine);
void worker_stop(struct engine *engine);

#endif
