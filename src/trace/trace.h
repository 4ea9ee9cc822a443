/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracing of this process by `verbatim trace`: whoever does something worth a record asks trace_wants(), one
 * load and a branch that is predicted, and then calls the function for it. Those may be called under any
 * lock: no system call, no allocation, and when the tracer is slow the record is lost, and counted.
 * trace_throttle() is where a thread without locks waits for it.
 *
 *	process	--record--> ring in a memfd --> verbatim trace: sorts, comments, writes pcapng
 */
#ifndef VERBATIM_TRACE_TRACE_H
#define VERBATIM_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/datagram.h"
#include "base/log.h"
#include "trace/record.h"

/*
 * Begin. @memfd: the share, which cannot shrink (sealed); @connection: hangs up when the tracer ends. Both are
 * the trace's from now on, also after a failure. *tracer: a number for trace_detach(), unless NULL. EBUSY:
 * another tracer is there; EPROTO: of another release; EINVAL: not what it should be; errno.
 */
int trace_attach(int memfd, int connection, uint32_t *tracer);
/* That tracer went, if it still is the one. Waits for threads that are writing a record. */
void trace_detach(uint32_t tracer);
bool trace_is_attached(void);
/*
 * If VERBATIM_TRACER names the socket of one that waits for this process; and VERBATIM_LOG=packet begins, as does
 * VERBATIM_TRACE once its file is open (file.h). No lock is held.
 */
void trace_connect(void);
/*
 * Maps the pages of the ring, or the first record of each would wait for it. It takes milliseconds: not for the
 * worker, to which a tracer comes that attaches to a running process.
 */
void trace_touch(void);

/* Called when a trace begins and ends, without locks: swaps what programs call through. One for the process. */
void trace_set_switch(void (*switch_calls)(bool on));

/* False: exit() may run in a handler that interrupted a record, and another one would wait for ever. */
bool trace_may_end(void);

/* Where all records go, if @want is wanted: @record with @bytes behind it. time_ns 0: now. */
void trace_put(struct trace_record *record, uint32_t want, const void *data, size_t bytes);

/* Fills in what of the datagram is recorded with each of its packets. */
void trace_record_init(struct trace_record *record, enum trace_kind kind, const struct datagram *datagram);
/* By LID, from @slid to @dlid; what it has no GRH for, its addresses, are LIDs. */
void trace_record_lids(struct trace_record *record, uint16_t slid, uint16_t dlid, const struct ib_way *way);
/*
 * A packet of @bytes, BTH to ICRC (if @record says that it has one). time_ns 0: now. @route: the way that it
 * takes, in words, or NULL.
 */
void trace_packet(struct trace_record *record, const uint8_t *data, size_t bytes, const char *route);
void trace_operation(struct trace_record *record, const struct trace_operation *operation);
/* How often a request packet of this PSN was sent before. */
unsigned trace_repetition(uint32_t qpn, uint32_t psn);
/* The QP begins anew: PSNs that it sent before are none of its new connection. */
void trace_forget(uint32_t qpn);

/* The listener of what happens. */
void trace_take(const struct tracepoint_record *point);
/* Of explain(), as an event. */
void trace_explanation(const struct explained *explained);

/* The thread holds no lock: if the ring is nearly full, wait for the tracer a moment. */
void trace_throttle_slowly(void);
static inline void trace_throttle(void)
{
	if (trace_wants(TRACE_KINDS))
		trace_throttle_slowly();
}

#endif
