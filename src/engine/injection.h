/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose (VERBATIM_FAULT), carried out. What is decided, inject/ says; where:
 *
 *	out	injection_send.c, between the batch and the link: UDP, loopback, memory alike
 *	in	rx.c, when a packet is known to be for a QP of this process: whatever way it came, also
 *		handed on by another process of the host. Management datagrams: mad/dispatch.c,
 *		where they are known to be ours
 *
 * So nothing is done to what another process is to get, nor to the probes of the port's group. While there
 * are rules, nothing goes without packets inside the host.
 */
#ifndef VERBATIM_ENGINE_INJECTION_H
#define VERBATIM_ENGINE_INJECTION_H

#include "engine/engine.h"
#include "inject/hold.h"
#include "inject/inject.h"

struct injection;

/* Is the variable's value understood? 0; EINVAL, said on stderr; ENOMEM. */
int injection_check(void);
/* Reads the variable: engine->injection. 0, also when it is not set; EINVAL, said on stderr; ENOMEM. */
int injection_open(struct engine *engine);
/* The summary on stderr, once. */
void injection_report(struct engine *engine);
/* The same, and the end. */
void injection_close(struct engine *engine);

/* Calls below: only where engine->injection is not NULL. */

/* The packet as it came; @qp: whose it is, NULL: none. */
void injection_describe(const struct packet *packet, const struct datagram *datagram, const struct qp *qp,
			struct inject_packet *what);
/* The verdict on a packet; a trace says so where it is more than to let it pass. The QP's lock may be held. */
void injection_judge(struct engine *engine, const struct inject_packet *what, uint64_t now_ns,
		     struct inject_verdict *verdict);
/* Is it to wait? */
static inline bool injection_delays(const struct inject_verdict *verdict, uint64_t now_ns)
{
	return verdict->overtakers || verdict->due_ns > now_ns;
}
/*
 * Keep a copy of @one, which is one packet, as the verdict says; @again: a second one of what passes now. When
 * it is due, it comes by injection_take(). engine_after_unlock() is due.
 */
void injection_hold(struct engine *engine, const struct datagram *one, const struct inject_packet *what,
		    const struct inject_verdict *verdict, bool again, struct link *way, uint64_t now_ns);
/* The next packet that is due, until injection_release(); NULL: none. */
struct held *injection_take(struct engine *engine, bool outbound, uint64_t now_ns) REQUIRES(engine->progress);
void injection_release(struct engine *engine, struct held *held);
/* When a packet is due; TIME_NEVER: none is held. */
uint64_t injection_next(struct engine *engine);
/* Are packets held back, in either direction? False without rules. */
bool injection_holds(struct engine *engine);
/* A damaged copy of a packet that came, valid until the next call. */
uint8_t *injection_damaged(struct engine *engine, const struct inject_verdict *verdict, const uint8_t *data,
			   size_t bytes) REQUIRES(engine->progress);
/*
 * A management datagram of this process, received. False: it is lost, damaged (@why: a drop, counted), or
 * comes again later, exempt from faults.
 */
bool injection_admit_management(struct engine *engine, const struct arrival *arrival,
				uint64_t now_ns, enum drop *why)
	REQUIRES(engine->progress);

/* ---- injection_send.c ---- */

/* As tx_send(), packet by packet. */
void injection_send(struct engine *engine, struct qp *qp, struct tx_batch *batch);
/* A sealed management datagram. False: it does not leave now. */
bool injection_passes_management(struct engine *engine, struct datagram *datagram);
/* Those that were held back and are due. */
void injection_send_held(struct engine *engine, uint64_t now_ns) REQUIRES(engine->progress);
/* The process ends: what it has sent is on its way, and leaves now. */
void injection_flush(struct engine *engine) REQUIRES(engine->progress);

#endif
