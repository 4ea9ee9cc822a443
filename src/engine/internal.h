/* SPDX-License-Identifier: BSD-2-Clause */
/* Interface between the files of engine/. */
#ifndef VERBATIM_ENGINE_INTERNAL_H
#define VERBATIM_ENGINE_INTERNAL_H

#include "engine/arrival.h"
#include "engine/engine.h"
#include "trace/trace.h"
#include "tracepoint/drop.h"

/* tx_run.c: returns false when another thread makes progress. */
bool tx_serve_run_queue(struct engine *engine);
struct tx_batch *tx_batch_new(void);
/* tx.c */
void tx_send(struct engine *engine, struct tx_batch *batch);
/* Packet @index of @batch as a datagram of its own, sealed, and the link for it. */
struct link *tx_prepare_one(struct engine *engine, struct tx_batch *batch, unsigned index,
			    struct datagram *datagram);
/* Send it, once or again. */
void tx_send_one(struct engine *engine, struct link *link, struct datagram *datagram);
/* What a trace says of a packet that is about to leave; trace_wants() is the caller's. @lost: on purpose. */
struct tx_seen {
	const struct datagram *datagram;	/* which it is one of */
	struct link *way;
	const uint8_t *data;
	size_t bytes;
	uint32_t qpn;			/* that sends it */
	unsigned segment;
	const struct tx_note *note;	/* NULL: of no request */
};
void tx_trace_packet(const struct engine *engine, const struct tx_seen *seen, bool lost);

/* timers.c: neither QPs nor moderated CQs are destroyed meanwhile: that takes the progress lock. */
void timers_expire(struct engine *engine, uint64_t now_ns) REQUIRES(engine->progress);
/* The next deadline of a QP or CQ. */
uint64_t timers_next(struct engine *engine);

/* rx_trace.c: a received packet, recorded when it is known whether it was dropped. */
struct rx_traced {
	struct trace_record record;
	uint8_t data[PACKET_BYTES_MAX];	/* as it came: the transport may not change it, a peer may */
	size_t bytes;
};

void rx_trace_begin(struct rx_traced *traced, const struct engine *engine,
		    const struct arrival *arrival);
void rx_trace_end(struct rx_traced *traced, enum drop why);

/* qp_table.c: claim one more slot. 0; ENOMEM: the process has all that it may; errno. */
int slots_claim(struct engine *engine);
void slots_release(struct engine *engine);
/* Of struct mr_table: QPs forget the region of @key, which they use under their locks. */
void qp_table_end_kept(void *engine, uint32_t qpn, uint32_t key);
/* Note @refusal at all QPs that are connected to the QP @dest_qpn of this host. */
void qp_table_dropped(struct engine *engine, uint32_t dest_qpn, const struct refusal *refusal)
	REQUIRES(engine->progress);

/* port.c: bind port 4791 and join the processes that share it, unless done; sets engine->group. */
/* 0, also when the port is taken: then packets come by other ways. EMFILE, ENFILE. */
int port_bind(struct engine *engine) REQUIRES(engine->progress);
/* Wait until the members of the group know the slot of this process. */
void port_settle(struct engine *engine);
/* Forward the packets for other processes that wait in the sockets, before these are closed. */
void port_drain(struct engine *engine);

extern const struct source_ops source_of_port_group;

/* worker.c */
extern const struct source_ops source_of_port;
int worker_start(struct engine *engine);
void worker_stop(struct engine *engine);

#endif
