/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs as messages to processes of this host (message.h). */
#include "hca/message.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "hca/foreign.h"
#include "hca/limits.h"
#include "hca/mapping.h"
#include "link/memory.h"
#include "object/mr_internal.h"
#include "platform/clock.h"
#include "transport/direct.h"
#include "transport/message.h"

_Static_assert(MESSAGE_WORDS == MEMORY_HEAD_WORDS, "a message's head is that of a cell");
_Static_assert(LIMIT_SGE <= MESSAGE_SGES_MAX, "all SGEs of a request fit its message");

/* Longer messages are fetched: found by bench/run --filter inside. */
#define CARRIED_MAPPED	2048u		/* from pages that are mapped */
#define CARRIED_MAX	32768u		/* else: out of an address space it takes system calls, and */
					/* where neither is possible packets are as good from there on */
#define HEAR_MAX	64u		/* messages in one go ... */
#define HEAR_BYTES	(512u << 10)	/* ... and bytes */

/* ---- telling ---- */

static bool is_mapped(struct hca *hca, const struct send_wqe *wqe)
{
	uint32_t i;

	if (!hca->mappings)
		return false;
	for (i = 0; i < wqe->sge_count; i++) {
		const struct mr_mapping *mapping = arena_mapping(hca->arena) +
						   mr_index_of(wqe->sge[i].lkey);

		if (!atomic_load_explicit(&mapping->bytes, memory_order_relaxed))
			return false;
	}
	return true;
}

enum way { CARRY, FETCH, PACKETS };

static enum way choose_way(struct hca *hca, const struct send_wqe *wqe, unsigned reach)
{
	if ((wqe->flags & IBV_SEND_INLINE) || wqe->length <= CARRIED_MAPPED)
		return CARRY;
	if ((reach & MEMORY_MAPS) && is_mapped(hca, wqe))
		return FETCH;
	if (wqe->length <= CARRIED_MAX)
		return CARRY;
	return reach & MEMORY_COPIES ? FETCH : PACKETS;
}

static uint32_t channel_of(struct hca *hca, const struct qp *qp)
{
	return peers_channel(hca, SLOT_OF_QPN(qp->attr.dest_qp_num));
}

/* Cells are numbered in each channel. */
static uint64_t token_of(uint32_t channel, uint32_t cell)
{
	return (uint64_t)channel << 32 | cell;
}

/* True: told. False with @full: there will be room. */
static bool put(struct hca *hca, struct qp *qp, const struct send_wqe *wqe, uint32_t channel,
		enum way way, bool *full) REQUIRES(qp->lock)
{
	size_t sges = wqe->sge_count * sizeof(wqe->sge[0]), target = message_target_bytes(wqe);
	size_t bytes = way == FETCH ? sges : wqe->length;
	struct memory_room room;
	int err = way == FETCH && !memory_may_fetch(hca->memory_inner, channel, wqe->length) ? EAGAIN :
		  memory_tell_begin(hca->memory_inner, channel, target + bytes, &room);

	*full = err == EAGAIN;
	if (err)
		return false;
	transport_message_head(qp, wqe, way == FETCH, room.head);
	if (target)
		message_write_target(wqe, room.data);
	if (way == FETCH) {
		room.fetched = wqe->length;
		memcpy(room.data + target, wqe->sge, sges);
	} else if (bytes && !transport_gather(qp, wqe, room.data + target)) {
		memory_tell_cancel(&room);
		return false;
	}
	memory_tell(hca->memory_inner, &room, qp->number);
	transport_told(qp, token_of(channel, room.number), clock_coarse_ns());
	return true;
}

bool message_tell(struct hca *hca, struct qp *qp, const struct send_wqe *wqe)
{
	uint32_t channel = channel_of(hca, qp);
	bool told = false, full = false;
	enum way way = PACKETS;
	unsigned reach;

	if (channel != PEER_NO_CHANNEL) {
		reach = memory_reach(hca->memory_inner, channel);
		if (reach & MEMORY_HEARS)
			way = choose_way(hca, wqe, reach);
	}
	if (way != PACKETS)
		told = put(hca, qp, wqe, channel, way, &full);
	transport_direct_prefer(qp, told || full);
	if (told)
		hca_arm(hca, qp);
	return told;
}

void message_look(struct hca *hca, struct qp *qp, uint64_t now_ns)
{
	transport_told_progress(qp, memory_progress(hca->memory_inner, channel_of(hca, qp)), now_ns);
}

void message_await(struct hca *hca, struct qp *qp)
{
	if (cq_is_armed(qp->send_cq) || qp->sq.sent != qp->sq.head || qp->state == IBV_QPS_SQD)
		if (memory_await_answers(hca->memory_inner, channel_of(hca, qp)))
			worker_notice(hca, 0);
}

/* ---- fetching ---- */

struct fetch {
	struct peer *peer;
	const struct message *message;
	struct ibv_sge sge[MESSAGE_SGES_MAX];
};

/* The sender's QP is there still, the one that told, and its request not flushed. */
static bool is_current(const struct fetch *fetch, uint32_t *pd)
{
	const struct message *message = fetch->message;
	const struct qp_access *access = foreign_qp(fetch->peer, message->source_qpn);
	uint32_t state;

	if (!access)
		return false;
	state = atomic_load_explicit(&access->state, memory_order_seq_cst);
	*pd = *(const volatile uint32_t *)&access->pd;
	return atomic_load_explicit(&access->qpn, memory_order_seq_cst) == message->source_qpn &&
	       (state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       (uint8_t)atomic_load_explicit(&access->generation, memory_order_seq_cst) ==
		       message->generation;
}

static int copy_fetched(struct fetch *fetch, uint32_t lkey, uint64_t host, void *to, size_t bytes,
			bool last)
{
	const uint8_t *mapped = foreign_find(fetch->peer, lkey, host, bytes);
	struct iovec piece[2];

	if (mapped && last)
		return copy_user_ordered(to, mapped, bytes);
	if (mapped)
		return copy_user(to, mapped, bytes);
	if (!fetch->peer->direct)
		return EOPNOTSUPP;
	piece[1] = (struct iovec){ .iov_base = to, .iov_len = bytes };
	return process_memory_read(&fetch->peer->memory, piece, 2, host);
}

/* From one SGE of the sender's, checked as its own HCA would. */
static int fetch_piece(struct fetch *fetch, const struct ibv_sge *sge, uint64_t skip, void *to,
		       size_t bytes, bool last)
{
	const struct message *message = fetch->message;
	struct mr_asker asker = { .qpn = message->source_qpn };
	uint64_t host;
	unsigned hazard;
	int err = EACCES;

	if (!hazard_begin(fetch->peer->hazards, sge->lkey, message->source_qpn, message->dest_qpn,
			  &hazard))
		return EAGAIN;
	if (is_current(fetch, &asker.pd) &&
	    mr_check_foreign(fetch->peer->mr, &asker, sge->lkey, 0, sge->addr + skip, bytes, &host) ==
		    MR_OK)
		err = copy_fetched(fetch, sge->lkey, host, to, bytes, last);
	hazard_end(fetch->peer->hazards, hazard);
	return err;
}

static int fetch_data(void *context, void *to, uint64_t offset, size_t bytes, bool last)
{
	struct fetch *fetch = context;
	uint8_t *at = to;
	uint32_t pd;
	unsigned i;
	int err = 0;

	for (i = 0; i < fetch->message->sge_count && bytes && !err; i++) {
		const struct ibv_sge *sge = &fetch->sge[i];
		size_t piece;

		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		piece = sge->length - offset < bytes ? sge->length - offset : bytes;
		err = fetch_piece(fetch, sge, offset, at, piece, last && piece == bytes);
		at += piece;
		bytes -= piece;
		offset = 0;
	}
	if (err || bytes)
		return err ? err : EPROTO;
	/* If the sender gave up meanwhile its application may have written there since. */
	atomic_thread_fence(memory_order_seq_cst);
	return last && !is_current(fetch, &pd) ? EACCES : 0;
}

/* ---- hearing ---- */

/* A QP stays locked over the messages and answers that are for it. */
struct hearer {
	struct qp *qp;
	struct effects effects;
};

static void hearer_init(struct hearer *hearer)
{
	hearer->qp = NULL;
	effects_init(&hearer->effects);
}

static void let_go(struct hearer *hearer) UNCHECKED_LOCKS
{
	if (hearer->qp)
		lock_release(&hearer->qp->lock);
	hearer->qp = NULL;
	effects_apply(&hearer->effects);
}

static struct qp *take_hold(struct hca *hca, struct hearer *hearer, uint32_t qpn)
	REQUIRES(hca->drive) UNCHECKED_LOCKS
{
	struct qp *qp;

	if (hearer->qp && hearer->qp->number == qpn && !effects_full(&hearer->effects))
		return hearer->qp;
	let_go(hearer);
	qp = hca_find_qp(hca, qpn);
	if (qp)
		lock_acquire(&qp->lock);
	hearer->qp = qp;
	return qp;
}

/* Told by a QP that was reset since? One that is gone may have said this before. */
static bool is_stale(const struct peer *peer, const struct message *message)
{
	const struct qp_access *access = foreign_qp(peer, message->source_qpn);

	return !access || (atomic_load_explicit(&access->qpn, memory_order_acquire) ==
			   message->source_qpn &&
			   (uint8_t)atomic_load_explicit(&access->generation, memory_order_acquire) !=
			   message->generation);
}

static uint64_t time_for(const struct cq *cq)
{
	return cq->stamped ? clock_now_ns() : 0;
}

static enum message_fate refuse(struct hca *hca, enum counter why)
{
	counter_add(hca->counters, why, 1);
	return MESSAGE_REFUSED;
}

static enum message_fate execute(struct hca *hca, struct hearer *hearer, struct peer *peer,
				 struct message *message) REQUIRES(hca->drive) UNCHECKED_LOCKS
{
	struct qp *qp = take_hold(hca, hearer, message->dest_qpn);
	struct fetch fetch;

	if (!peer)
		return refuse(hca, COUNTER_RX_MALFORMED);
	if (!qp)
		return refuse(hca, COUNTER_RX_QPN);
	if (is_stale(peer, message))
		return refuse(hca, COUNTER_RX_QP_STATE);
	if (message->flags & MESSAGE_PULL) {
		fetch.peer = peer;
		fetch.message = message;
		memcpy(fetch.sge, message->data, message->sge_count * sizeof(fetch.sge[0]));
		message->pull = fetch_data;
		message->context = &fetch;
	}
	return transport_hear(qp, message, time_for(qp->recv_cq), &hearer->effects);
}

static unsigned hear(struct hca *hca, struct hearer *hearer) REQUIRES(hca->drive)
{
	struct link *link = hca->memory_inner;
	struct memory_message heard;
	struct message message;
	uint32_t left = HEAR_BYTES;
	unsigned n;

	for (n = 0; n < HEAR_MAX && left && memory_hear(link, &heard); n++) {
		enum message_fate fate =
			!message_parse(heard.head, heard.data, heard.bytes, &message) ?
				refuse(hca, COUNTER_RX_MALFORMED) :
				execute(hca, hearer, peer_at(hca, heard.channel), &message);

		if (fate == MESSAGE_UNFINISHED)
			memory_progresses(link, &heard);
		else
			memory_heard(link, &heard, fate == MESSAGE_REFUSED);
		left -= message.length < left ? message.length : left;
	}
	hca->heard_bytes += HEAR_BYTES - left;
	if (n)
		memory_answered(link);
	return n;
}

/* ---- settling ---- */

static void settle_one(struct hca *hca, struct hearer *hearer, unsigned channel,
		       const struct memory_answer *answer) REQUIRES(hca->drive) UNCHECKED_LOCKS
{
	struct qp *qp = take_hold(hca, hearer, answer->owner);

	if (!qp)
		return;
	transport_settle(qp, token_of(channel, answer->cell), answer->refused,
			 qp->send_cq->stamped ? clock_now_ns() : clock_coarse_ns(),
			 &hearer->effects);
	if (qp->sq.sent != qp->sq.head)
		run_queue_add(&hca->run_queue, qp);
}

static void settle(struct hca *hca, struct hearer *hearer) REQUIRES(hca->drive)
{
	struct link *link = hca->memory_inner;
	unsigned count = memory_channels(link), i;
	struct memory_answer answer;

	for (i = 0; i < count; i++)
		while (memory_settle(link, i, &answer))
			settle_one(hca, hearer, i, &answer);
}

unsigned messages_receive(struct hca *hca)
{
	struct hearer hearer;
	unsigned heard;

	if (!hca->memory)
		return 0;
	hearer_init(&hearer);
	heard = hear(hca, &hearer);
	settle(hca, &hearer);
	let_go(&hearer);
	return heard;
}

void messages_lost(struct hca *hca, unsigned channel)
{
	struct memory_answer answer;
	struct hearer hearer;

	hearer_init(&hearer);
	while (memory_settle_lost(hca->memory_inner, channel, &answer))
		settle_one(hca, &hearer, channel, &answer);
	let_go(&hearer);
}

/* ---- waiting ---- */

bool messages_wait(const struct hca *hca)
{
	return hca->memory && memory_any_can_settle(hca->memory_inner);
}

void messages_await(struct hca *hca)
{
	unsigned count, i;

	if (!hca->memory)
		return;
	count = memory_channels(hca->memory_inner);
	for (i = 0; i < count; i++)
		if (memory_await_answers(hca->memory_inner, i))
			worker_notice(hca, 0);
}
