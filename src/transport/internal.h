/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interface between the files of transport/.
 *
 *	struct qp_call	one transport_*() call: the QP, the time, what to do after unlocking
 *	struct transmit	one transport_transmit() call: the batch and what may still be written
 *
 * All functions here are called with the QP's lock held. A function that reaches the QP by two names
 * says with lock_alias() that both are the same.
 */
#ifndef VERBATIM_TRANSPORT_INTERNAL_H
#define VERBATIM_TRANSPORT_INTERNAL_H

#include "base/counters.h"
#include "base/log.h"
#include "transport/fault.h"
#include "transport/message.h"
#include "transport/transport.h"
#include "wire/psn.h"

#define WHY_BYTES 320
#define PATIENCE_NS 1000000000u	/* after which a wait without an end is explained */

struct qp_call {
	struct qp *qp;
	uint64_t now_ns;
	struct effects *effects;
	struct mr_access access;		/* responder: held from the access check to the copy */
	bool accessing;
	bool deny_receive;		/* rx_info.deny_receive */
	char why[WHY_BYTES];		/* reason of the last failure; only with explain_enabled */
};

/*
 * Field by field: @why is large, and only read after set_reason(). For calls after which the next
 * request goes the way of the last one, unless they fail, or say otherwise (qp->shortcut,
 * qp->responder.shortcut).
 */
static inline void qp_call_init_on(struct qp_call *call, struct qp *qp, uint64_t now_ns,
				   struct effects *effects)
	REQUIRES(qp->lock) ASSERTS(call->qp->lock)
{
	call->qp = qp;
	call->now_ns = now_ns;
	call->effects = effects;
	call->accessing = call->deny_receive = false;
	call->why[0] = '\0';
}

/* The same for all other calls. */
static inline void qp_call_init(struct qp_call *call, struct qp *qp, uint64_t now_ns,
				struct effects *effects)
	REQUIRES(qp->lock) ASSERTS(call->qp->lock)
{
	qp_close_shortcuts(qp);
	qp_call_init_on(call, qp, now_ns, effects);
}

/* Ends each call (transport.c). */
void qp_call_end(struct qp_call *call);

/* Note why something fails, for the explanation of the completion. */
#define set_reason(call, ...)                                                                      \
	do {                                                                                       \
		if (__builtin_expect(explain_enabled, 0))                                          \
			reason_print((call), __VA_ARGS__);                                         \
	} while (0)
void reason_print(struct qp_call *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* 1 + enum qp_counter; 0: a QP does not count this. Known to the compiler where the counter is. */
static const uint8_t qp_counter_of[COUNTER_COUNT] = {
#define QP_COUNTER(id, name)
#define QP_COUNTS(id, row) [COUNTER_##row] = QP_COUNTER_##id + 1,
#include "object/qp_counter.def"
#undef QP_COUNTER
#undef QP_COUNTS
};

static inline void count_of(const struct qp *qp, enum counter counter, uint32_t times) REQUIRES(qp->lock)
{
	_Atomic uint32_t *tally;

	counter_add(qp->transport->counters, counter, times);
	if (!qp_counter_of[counter])
		return;
	tally = &qp->access->tally[qp_counter_of[counter] - 1];
	atomic_store_explicit(tally, atomic_load_explicit(tally, memory_order_relaxed) + times,
			      memory_order_relaxed);
}

static inline void count(const struct qp_call *call, enum counter counter) REQUIRES(call->qp->lock)
{
	count_of(call->qp, counter, 1);
}

/* Of keys that requests name. An XRC_RECV QP has the protection domain of the SRQ that the request names. */
static inline struct mr_accessor mr_accessor_of(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct srq *target = qp->responder.target;
	uint32_t pd = qp->pd ? qp->pd->number : target ? target->pd : 0;

	return (struct mr_accessor){ .pd = pd, .qpn = qp->number };
}

/* Of keys in receives: those of an SRQ were posted for its own protection domain. */
static inline struct mr_accessor recv_accessor_of(const struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->srq)
		return (struct mr_accessor){ .pd = qp->srq->pd, .qpn = qp->number, .domain = MR_DOMAIN_SRQ };
	return mr_accessor_of(qp);
}

/* Of keys in requests of its own: those that it posts itself read into tagged buffers of its SRQ. */
static inline struct mr_accessor send_accessor_of(const struct qp *qp) REQUIRES(qp->lock)
{
	return (struct mr_accessor){ .pd = qp_send_pd(qp), .qpn = qp->number,
				     .domain = qp->sends_itself ? MR_DOMAIN_SRQ : MR_DOMAIN_QP };
}

/* As drop_count(), and for the QP itself. Returns @why. */
enum drop count_drop(const struct qp_call *call, enum drop why);

/* ---- packets and bytes of a message ---- */

static inline unsigned mtu_shift(const struct qp *qp) REQUIRES(qp->lock)
{
	return (unsigned)__builtin_ctz(qp->mtu);
}

/* How many packets carry @bytes: at least one. */
static inline uint32_t packets_for(const struct qp *qp, uint64_t bytes) REQUIRES(qp->lock)
{
	return bytes ? (uint32_t)((bytes + qp->mtu - 1) >> mtu_shift(qp)) : 1;
}

/* Offset in its message of the packet @psn, the message starting at @first. */
static inline uint64_t offset_of(const struct qp *qp, uint32_t psn, uint32_t first)
	REQUIRES(qp->lock)
{
	return (uint64_t)((psn - first) & PSN_MASK) << mtu_shift(qp);
}

static inline uint64_t sge_total(const struct ibv_sge *sge, uint32_t sge_count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < sge_count; i++)
		total += sge[i].length;
	return total;
}


/* ---- emit.c: packets into the batch ---- */

struct transmit {
	struct qp_call *call;
	struct tx_batch *batch;
	unsigned budget;		/* packets that may still be written */
	bool cut;			/* stopped for the batch or the quantum alone */
	const struct send_wqe *wqe;	/* that is being written, or NULL: an answer */
	struct packet request;		/* the last request written ... */
	int request_index;		/* ... and where, -1: none */
};

static inline bool transmit_has_room(struct transmit *transmit)
{
	if (transmit->budget && tx_batch_has_room(transmit->batch))
		return true;
	transmit->cut = true;
	return false;
}

/* Where the payload of the next packet goes. */
uint8_t *transmit_payload(struct transmit *transmit, const struct opcode *op);
/* Write the headers in front of it and close the packet. */
void transmit_packet(struct transmit *transmit, struct packet *packet, const struct route *route);
struct gaps;
/* What this QP says of gaps, to the connected peer. */
void transmit_gaps(struct transmit *transmit, struct gaps gaps, uint32_t psn)
	REQUIRES(transmit->call->qp->lock);
/*
 * A packet of ours to the connected peer: BTH fields that are always the same. A @code of RC becomes
 * that of the QP's service.
 */
void packet_begin(const struct qp *qp, struct packet *packet, uint8_t code, uint32_t psn)
	REQUIRES(qp->lock);

/* ---- request.c: a work request on the wire ---- */

enum wqe_state { WQE_POSTED, WQE_STARTED, WQE_IN_CHANNEL, WQE_DONE, WQE_FAILED };

/*
 * Cost of a packet to the path's window: its share of a socket buffer. The kernel counts at
 * least some 768 bytes for a datagram, but little beyond the payload in a batch of large ones.
 */
#define PACKET_COST	192u	/* beyond the payload */
#define PACKET_COST_MIN	640u	/* in all */
static inline uint32_t packet_cost(uint32_t payload)
{
	return payload + PACKET_COST > PACKET_COST_MIN ? payload + PACKET_COST : PACKET_COST_MIN;
}
/* A READ is asked for in pieces of at most this, as the window allows; a multiple of any MTU. */
#define READ_CHUNK_MAX (64u * 1024u)

static inline bool wqe_is_local(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_IS_LOCAL);
}

static inline bool wqe_is_atomic(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_IS_ATOMIC);
}

static inline bool wqe_is_write(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_WRITES);
}

static inline bool wqe_is_read_or_atomic(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_SCATTERS);
}

/* FLUSH, ATOMIC_WRITE: answered by a READ response without data (annex A19). */
static inline bool wqe_is_placement(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_HAS_RANGE | WR_HAS_WORD);
}

/* Limited by max_rd_atomic, and answered by a response of its own. */
static inline bool wqe_takes_resource(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_TAKES_RESOURCE);
}

static inline bool wqe_needs_receive(const struct send_wqe *wqe)
{
	return wr_is(wqe->opcode, WR_TAKES_RECEIVE);
}

const char *wqe_name(const struct send_wqe *wqe);
/* PSNs that the request takes (of the responses, for READ). */
uint32_t wqe_psns(const struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock);
/* One past the last PSN of the READ request that @psn belongs to. */
uint32_t wqe_chunk_end(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn)
	REQUIRES(qp->lock);
/* Cost to the path of the PSNs [@from, @to) of the request. */
uint32_t wqe_cost(const struct qp *qp, const struct send_wqe *wqe, uint32_t from, uint32_t to)
	REQUIRES(qp->lock);
/* The request of @psn, from *number on, which it becomes. NULL: it cannot be sent now. */
struct send_wqe *request_at(const struct qp *qp, uint32_t *number, uint32_t psn) REQUIRES(qp->lock);
/* Fill @packet for the request packet @psn; returns one past the PSNs that it takes. */
uint32_t wqe_packet(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
		    struct packet *packet) REQUIRES(qp->lock);

/* ---- finish.c: completions, flushing, the error state ---- */

/* Complete the oldest request of the send queue and remove it. */
void finish_send(struct qp_call *call, enum ibv_wc_status status) REQUIRES(call->qp->lock);
/* The same, with success, of a WRITE of one SGE that takes the next place of the queue now; none waits there. */
void finish_at_once(struct qp_call *call, const struct ibv_send_wr *wr) REQUIRES(call->qp->lock);
/* For statistics, before it: the oldest request has failed by itself, it is not flushed. */
void note_failure(struct qp_call *call, enum ibv_wc_status status) REQUIRES(call->qp->lock);
/* A completion; one that has no room is noted (completion_lost). */
void finish_push(struct qp_call *call, struct cq *cq, const struct completion *completion, bool solicited)
	REQUIRES(call->qp->lock);
/* A message that has taken a receive, and has come. */
struct work {
	uint32_t bytes;
	uint32_t imm;			/* host order; or the rkey to invalidate */
	bool is_write, has_imm, has_inv, solicited;
	bool is_single;			/* was one packet, or one message */
};

/* Invalidate what it says, and complete the receive. FAULT_INVALIDATE. */
enum fault finish_message(struct qp_call *call, const struct work *work) REQUIRES(call->qp->lock);
/* Complete the receive that the responder holds; opcode, length and flags are in @wc. */
void finish_recv(struct qp_call *call, struct ibv_wc *wc, bool solicited) REQUIRES(call->qp->lock);
void finish_recv_error(struct qp_call *call, enum ibv_wc_status status) REQUIRES(call->qp->lock);
/* Flush in order: send queue, receive queue. */
void flush_sends(struct qp_call *call) REQUIRES(call->qp->lock);
void flush_recvs(struct qp_call *call) REQUIRES(call->qp->lock);
/* Move to ERR, once, and flush. Answers that the responder still owes are kept. */
void enter_error(struct qp_call *call);
/* The oldest request fails with @status, the QP with it; explained from call->why. */
void fail_request(struct qp_call *call, enum ibv_wc_status status, const char *advice)
	REQUIRES(call->qp->lock);
void explain_request(struct qp_call *call, const struct send_wqe *wqe, enum ibv_wc_status status,
		     const char *advice) REQUIRES(call->qp->lock);
/* "192.0.2.1", in a buffer of 46. */
const char *address_text(const uint8_t address[16], char *buffer);

/* ---- requester.c ---- */

#define PSNS_IN_FLIGHT_MAX	(1 << 22)

void requester_reset(struct qp *qp) REQUIRES(qp->lock);
void requester_start(struct qp *qp) REQUIRES(qp->lock);	/* at RTS: PSNs, retry counts */
void requester_stop(struct qp_call *call) REQUIRES(call->qp->lock);	/* at ERR: give the path back */
void requester_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);
void requester_way_changed(struct qp_call *call) REQUIRES(call->qp->lock);
/* Has the requester something to transmit? */
bool requester_ready(const struct qp *qp) REQUIRES(qp->lock);
/* May the request posted last leave later, together with others? */
bool requester_may_gather(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);
/* Send again from una_psn on: all packets in flight are lost. */
void requester_go_back(struct qp_call *call) REQUIRES(call->qp->lock);
/* A sign that una_psn was lost; acted upon once per loss. */
void requester_lost(struct qp_call *call) REQUIRES(call->qp->lock);
void requester_check_drained(struct qp_call *call) REQUIRES(call->qp->lock);
/* Run LOCAL_INV or BIND_MW at its turn. */
void requester_local(struct qp_call *call, struct send_wqe *wqe) REQUIRES(call->qp->lock);
void requester_give_acked(struct qp_call *call, uint64_t rtt_ns) REQUIRES(call->qp->lock);

/* ---- single.c ---- */

/*
 * Write the one request that is posted and was not begun, if it is plain, and leave the QP as requester_transmit()
 * would. False: nothing has changed, and the requester is asked.
 */
bool single_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);

/* ---- requester_time.c ---- */

uint64_t requester_deadline(const struct qp *qp) REQUIRES(qp->lock);
void requester_timeout(struct qp_call *call) REQUIRES(call->qp->lock);
/* The local ACK timeout; UINT64_MAX: none. */
uint64_t requester_ack_timeout(const struct qp *qp) REQUIRES(qp->lock);
/*
 * So many timeouts in a row do not count where the peer's process, on this host, is alive and has refused
 * nothing: it may not have had a processor, and an adapter needs none of the host's.
 */
unsigned requester_graces(struct qp *qp) REQUIRES(qp->lock);
/* Send the oldest packet again, and hold all others until the peer is heard. */
void requester_hold(struct qp_call *call) REQUIRES(call->qp->lock);
/* Give up: the peer answered none of the retries. */
void requester_exceeded(struct qp_call *call) REQUIRES(call->qp->lock);

/* ---- message.c ---- */

#define STREAM_BEGINS	16u		/* requests in a row, as packets */

/* Must the next request go as packets? */
static inline bool request_needs_packets(const struct qp *qp) REQUIRES(qp->lock)
{
	return (int32_t)(qp->requester.packets_until - qp->sq.sent) > 0;
}

void message_timeout(struct qp_call *call) REQUIRES(call->qp->lock);

/* ---- completer.c ---- */

enum drop completer_receive(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock);
/* A packet of wire/gaps.h: a question, its answer, a report. */
enum drop completer_receive_gaps(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock);
/* Complete the answered requests, from the oldest on. */
void completer_retire(struct qp_call *call) REQUIRES(call->qp->lock);

/* ---- responder.c ---- */

void responder_reset(struct qp *qp) REQUIRES(qp->lock);
enum drop responder_receive(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock);
/*
 * Write READ responses and atomic results that are due, and an ACK that had to wait; true when none
 * is left. Requests follow, then the ACK: it is not longer than any request, so that a reply leaves
 * in one datagram with the ACK of the message that it replies to.
 */
bool responder_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);
void responder_acknowledge(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);
/* Have the last ACK sent once more. False: there was none, or an answer is due anyway. */
bool responder_repeat_ack(struct qp *qp) REQUIRES(qp->lock);
/* Is an answer due, and may it leave now: is it no ACK that waits for a reply? */
bool responder_owes(const struct qp *qp) REQUIRES(qp->lock);
bool responder_ready(const struct qp *qp) REQUIRES(qp->lock);
/* An ACK waits for a reply: until when. */
uint64_t responder_deadline(const struct qp *qp) REQUIRES(qp->lock);
void responder_timeout(struct qp_call *call) REQUIRES(call->qp->lock);
/* responder_check.c: may the request be executed? */
enum fault responder_check(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock);
/* Whether @packet needs a responder resource (IBTA 9.7.5.1.8). */
static inline bool responder_takes_resource(const struct packet *packet)
{
	return packet->op->verb >= VERB_READ && packet->op->verb <= VERB_ATOMIC_WRITE;
}

/* Check and execute one packet that is in sequence; advances the message, not the PSN. */
enum fault responder_message(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock);
/* Act on @fault at @psn as fault.def says. DROP_NONE: the QP has failed. */
enum drop responder_fault(struct qp_call *call, enum fault fault, uint32_t psn) REQUIRES(call->qp->lock);
/* The part at this end: completion or event, explanation, the error state. */
void responder_fail(struct qp_call *call, enum fault fault) REQUIRES(call->qp->lock);
void responder_answer(struct qp *qp, enum answer_kind kind, uint8_t syndrome, uint32_t psn);
void note_established(struct qp_call *call) REQUIRES(call->qp->lock); /* transport.c: in RTR */
/* Syndrome of an ACK: end-to-end credits, but none with an SRQ (IBTA 9.7.7.2). */
uint8_t responder_ack_syndrome(const struct qp *qp) REQUIRES(qp->lock);
void responder_drop_recv(struct qp *qp) REQUIRES(qp->lock);
bool responder_take(struct qp_call *call) REQUIRES(call->qp->lock);	/* a receive, unless one is held */
/* The SRQ that receives come from; NULL: the QP's own queue. */
static inline struct srq *responder_srq(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->srq ? qp->srq : qp->responder.target;
}

/* Of the SRQ's queue, or of its list of tags: wherever the receive in use is from (tags.c). */
struct wqe_slot tags_slot(const struct qp *qp) REQUIRES(qp->lock);
/* Of the queue that the receive of the message in progress is from. */
static inline struct wqe_slot recv_slot(struct qp *qp) REQUIRES(qp->lock)
{
	struct srq *srq = responder_srq(qp);

	if (__builtin_expect(qp->responder.tagged, 0))
		return tags_slot(qp);
	return (struct wqe_slot){ srq ? &srq->queue.slots : &qp->rq.slots, qp->responder.recv->number, srq };
}

/*
 * XRC_RECV: the SRQ of that number in the QP's domain; NULL: none. As long as a receive of one waits for the
 * rest or the repetition of its message, no other one has a turn.
 */
struct srq *responder_find_target(const struct qp *qp, uint32_t number) REQUIRES(qp->lock);

/* ---- tags.c: a tag-matching SRQ ---- */

static inline bool takes_tags(const struct qp *qp)
{
	return qp->srq && __builtin_expect(qp->srq->tags != NULL, 0);
}

/* A receive for a SEND that begins with @bytes at @data, unless one is held. False: none now. */
bool tags_take(struct qp_call *call, const uint8_t *data, size_t bytes) REQUIRES(call->qp->lock);
/* Has the receive room for so much of the message? */
bool tags_fit(const struct responder *responder, uint64_t bytes);
/* The next bytes of the message, and where in the receive's buffer they go. */
struct tags_part {
	const uint8_t *data;
	uint32_t bytes;
	uint64_t offset;
};
/* @part has the bytes as they came; false: they are not to be copied. */
bool tags_part(struct responder *responder, struct tags_part *part);
/* Behind the first of several packets: a match is reported at once. False: there is none. */
bool tags_matched(const struct qp *qp, struct completion *completion) REQUIRES(qp->lock);
/* The end of the message, of a @single packet: the completion to push; a READ of rendezvous is posted. */
void tags_complete(struct qp *qp, const struct ibv_wc *wc, bool single, struct completion *completion)
	REQUIRES(qp->lock);
/* A request of the device's own is over. True: there is a completion to push. */
bool tags_sent(struct qp_call *call, const struct ibv_wc *sent, struct completion *completion)
	REQUIRES(call->qp->lock);
/* The receive that is held will not complete, or not well: an unexpected message did not come. */
void tags_drop(struct qp *qp) REQUIRES(qp->lock);

/* ---- resource.c ---- */

/* Back to the few that are part of the QP. */
void resources_free(struct responder *responder);
struct resource *resource_slot(struct responder *responder, uint32_t number);
/* A resource for a new request; NULL: the peer has too many in progress. */
struct resource *resource_new(struct qp *qp) REQUIRES(qp->lock);
/* Answers are due from @psn on; of a READ, up to @end in it. */
void resource_activate(struct qp *qp, struct resource *resource, uint32_t psn, uint32_t end);

/* ---- replay.c ---- */

/* A request with a PSN before the expected one. */
void replay_duplicate(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock);
/* Drop the responses that are due. */
void replay_drop(struct responder *responder);
/* Write the responses that are due; false when the batch is full. */
bool replay_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);

/* ---- unreliable.c ---- */

/* The QP stops, or is destroyed: leave the path's flow, drop the echoes due. */
void unreliable_stop(struct qp *qp) REQUIRES(qp->lock);

#endif
