/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: each work request is checked and copied as a whole, so that no later code reads memory that
 * the application can still change. Keys are not checked: a bad one is an error completion (IBTA
 * 10.8.3, 11.4.1; ibv_post_send(3)).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/copy.h"
#include "base/inline.h"
#include "base/log.h"
#include "ethernet/frame.h"
#include "object/placement.h"
#include "object/qp.h"
#include "wire/packet.h"

#define ATOMIC_BYTES		8u

static void __attribute__((cold, noinline, format(printf, 4, 5)))
qp_post_explain(const char *key, const struct qp *qp, const struct ibv_send_wr *wr, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	explain_vprint(&(const struct explanation){ .key = key, .of = OF_WR(QP, qp->number, wr->wr_id) },
		       format, arguments);
	va_end(arguments);
}

/* Explain and name the error: "return REFUSE(EINVAL, "why")", with qp and wr in scope. */
#define QP_POST_EXPLAIN(...)                         \
	do {                                         \
		if (__builtin_expect(explaining(), 0)) \
			qp_post_explain(__VA_ARGS__); \
		else                                 \
			explain_missed(0);           \
	} while (0)
#define REFUSE(err, format, ...) __extension__ ({                                                \
	QP_POST_EXPLAIN(#err " ibv_post_send", qp, wr, "ibv_post_send: qp 0x%06x wr_id 0x%llx: " \
			format, qp->number, (unsigned long long)wr->wr_id, ##__VA_ARGS__);       \
	(err); })

/* The request is taken, and fails in its turn: "return TAKE_FAULTY(LOC_LEN_ERR, "why")", with qp,
 * wr and wqe in scope. */
#define TAKE_FAULTY(name, format, ...) __extension__ ({                                          \
	QP_POST_EXPLAIN(#name, qp, wr, "ibv_post_send: qp 0x%06x wr_id 0x%llx: " format          \
			"; it completes with IBV_WC_" #name, qp->number,                         \
			(unsigned long long)wr->wr_id, ##__VA_ARGS__);                           \
	take_faulty(wr, wqe, IBV_WC_##name); })

static int take_faulty(const struct ibv_send_wr *wr, struct send_wqe *wqe, enum ibv_wc_status status)
{
	wqe->opcode = WR_FAULTY;
	wqe->imm = (uint32_t)wr->opcode;
	wqe->status = (uint8_t)status;
	return 0;
}

static int check_send_state(const struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock)
{
	switch (qp->state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return 0;
	default:
		return REFUSE(EINVAL, "the qp is in %s: move it to RTS before posting sends",
			      qp_state_name(qp->state));
	}
}

/* Flags that have no effect on what is copied, and those that there are. SEND_BUILT is ours. */
#define FLAGS_PLAIN	(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)
#define FLAGS_KNOWN	(FLAGS_PLAIN | IBV_SEND_INLINE | IBV_SEND_IP_CSUM | SEND_BUILT)

/* As on mlx5, bits that are no flags have no effect. False: EINVAL, explained. */
static APART bool qp_post_flags_fit(const struct qp *qp, const struct ibv_send_wr *wr,
				    const struct wr_row *row)
{
	unsigned unknown = wr->send_flags & ~(unsigned)FLAGS_KNOWN;

	if (unknown)
		explain_of(OF_WR(QP, qp->number, wr->wr_id),
			"ibv_post_send: qp 0x%06x wr_id 0x%llx: send_flags 0x%x: 0x%x is none "
			"of enum ibv_send_flags, and has no effect: is the field initialised?", qp->number,
			(unsigned long long)wr->wr_id, wr->send_flags, unknown);
	if (!(wr->send_flags & IBV_SEND_INLINE) || row->is & WR_MAY_BE_INLINE)
		return true;
	/* LOCAL_INV and BIND_MW have no SGEs that could be inline: as libmlx5 and rxe. */
	if (!(row->is & (WR_HAS_DATA | WR_HAS_RANGE)))
		return true;
	(void)REFUSE(EINVAL, "%s cannot be IBV_SEND_INLINE: use it for sends and RDMA writes only",
		     row->name);
	return false;
}

/* As libmlx5: it looks at the opcode alone; what the QP's type does not have is the adapter's to fail. */
static int check_opcode(const struct qp *qp, const struct ibv_send_wr *wr, const struct wr_row *row,
			struct send_wqe *wqe) REQUIRES(qp->lock)
{
	if (!row)
		return REFUSE(EINVAL, "opcode %d is not supported", (int)wr->opcode);
	if (!(row->services & 1u << qp_types[qp->type % QP_TYPES].kind)) {
		if (row->is & (WR_HAS_RANGE | WR_HAS_WORD))
			return REFUSE(EINVAL, "%s is not possible on a QP of type %s", row->name,
				      qp_type_name(qp->type));
		return TAKE_FAULTY(LOC_QP_OP_ERR, "%s is not possible on a QP of type %s", row->name,
				   qp_type_name(qp->type));
	}
	if (row->is & WR_HAS_RANGE && !(wr->send_flags & SEND_BUILT))
		return REFUSE(EINVAL, "%s can be posted by ibv_wr_flush() only", row->name);
	if (__builtin_expect(wr->send_flags & ~FLAGS_PLAIN, 0) && !qp_post_flags_fit(qp, wr, row))
		return EINVAL;
	/* In ERR it is flushed anyway. */
	if (row->is & WR_TAKES_RESOURCE && !qp->attr.max_rd_atomic && qp->state != IBV_QPS_ERR)
		return REFUSE(EINVAL, "%s needs max_rd_atomic of at least 1: set it in the move to RTS; "
			      "with rdma_cm, initiator_depth of rdma_conn_param, and responder_resources "
			      "at the peer", row->name);
	return 0;
}

static int qp_post_check_length(const struct qp *qp, const struct ibv_send_wr *wr, const struct wr_row *row,
				struct send_wqe *wqe, uint64_t length) REQUIRES(qp->lock)
{
	uint32_t mtu = qp->mtu ? qp->mtu : PATH_MTU_MAX;

	if (qp_is(qp, QP_RAW) && (length < FRAME_HEADER_BYTES || length > qp->mtu))
		return REFUSE(EINVAL,
			      "%llu bytes: a frame has %u to %u, from its destination address to "
			      "the end of its data",
			      (unsigned long long)length, FRAME_HEADER_BYTES, qp->mtu);
	if (wr->send_flags & IBV_SEND_INLINE && length > qp->sq.max_inline)
		return REFUSE(EINVAL, "%llu bytes inline exceed max_inline_data %u of the QP",
			      (unsigned long long)length, qp->sq.max_inline);
	if (row->is & WR_HAS_WORD && length != PLACEMENT_WORD)
		return REFUSE(EINVAL, "%s with %llu bytes: it writes %u", row->name, (unsigned long long)length,
			      PLACEMENT_WORD);
	if (length > MESSAGE_BYTES_MAX)
		return TAKE_FAULTY(LOC_LEN_ERR, "%llu bytes: a message has at most 2^31",
				   (unsigned long long)length);
	if (qp_is(qp, QP_DATAGRAM) && length > mtu)
		return TAKE_FAULTY(LOC_LEN_ERR, "%llu bytes: a UD message has at most the MTU of the port, "
				   "%u", (unsigned long long)length, mtu);
	if (row->is & WR_IS_ATOMIC && length != ATOMIC_BYTES)
		return TAKE_FAULTY(LOC_LEN_ERR, "%s with SGEs of %llu bytes: its result has %u", row->name,
				   (unsigned long long)length, ATOMIC_BYTES);
	return 0;
}

static int copy_inline(const struct qp *qp, const struct ibv_send_wr *wr, uint8_t *to)
{
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (!sge->length)
			continue;
		if (copy_user(to, (const void *)(uintptr_t)sge->addr, sge->length))
			return REFUSE(EFAULT, "inline data at 0x%llx length %u is not readable "
				      "memory", (unsigned long long)sge->addr, sge->length);
		to += sge->length;
	}
	return 0;
}

static int fill_data(const struct qp *qp, const struct ibv_send_wr *wr,
		     const struct wr_row *row, struct send_wqe *wqe) REQUIRES(qp->lock)
{
	uint64_t length = 0;
	int err;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		return REFUSE(EINVAL, "num_sge %d is not in 0..%u (max_send_sge of the QP)",
			      wr->num_sge, qp->sq.max_sge);
	if (wr->num_sge && !wr->sg_list)
		return REFUSE(EINVAL, "num_sge %d but sg_list is NULL", wr->num_sge);
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	err = qp_post_check_length(qp, wr, row, wqe, length);
	if (err)
		return err;
	wqe->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	if (wqe->opcode == WR_FAULTY)
		return 0;
	if (wr->send_flags & IBV_SEND_INLINE)
		return copy_inline(qp, wr, wqe->inline_data);
	wqe->sge_count = (uint32_t)wr->num_sge;
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(wqe->sge[0]));
	return 0;
}

static int fill_flush(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe)
{
	uint64_t type = wr->wr.atomic.swap & 0xff, level = wr->wr.atomic.swap >> 8;

	if (!type || type & ~(uint64_t)(FLUSH_GLOBAL | FLUSH_PERSISTENT) || level > FLUSH_LEVEL_MR)
		return REFUSE(EINVAL, "IBV_WR_FLUSH: type 0x%llx level %llu: expected IBV_FLUSH_GLOBAL (1), "
			      "IBV_FLUSH_PERSISTENT (2) or both, and IBV_FLUSH_RANGE (0) or IBV_FLUSH_MR (1)",
			      (unsigned long long)type, (unsigned long long)level);
	if (level == FLUSH_LEVEL_RANGE && wr->wr.atomic.compare_add > MESSAGE_BYTES_MAX)
		return REFUSE(EINVAL, "IBV_WR_FLUSH of %llu bytes: a range has at most 2^31",
			      (unsigned long long)wr->wr.atomic.compare_add);
	wqe->remote_address = wr->wr.atomic.remote_addr;
	wqe->rkey = wr->wr.atomic.rkey;
	wqe->flush.bytes = (uint32_t)wr->wr.atomic.compare_add;
	wqe->flush.type = (uint8_t)type;
	wqe->flush.level = (uint8_t)level;
	return 0;
}

static int fill_ud(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe)
{
	struct ah *ah;

	if (!wr->wr.ud.ah)
		return REFUSE(EINVAL, "a UD send needs an address handle in wr.ud.ah");
	ah = to_ah(wr->wr.ud.ah);
	if (ah->ibv.pd && ah->ibv.pd != &qp->pd->ibv)	/* C10-10 */
		return TAKE_FAULTY(LOC_QP_OP_ERR, "the address handle is of another protection domain than the "
				   "QP: create both with one ibv_pd");
	if (wr->wr.ud.remote_qpn > QPN_MASK)
		return REFUSE(EINVAL, "remote_qpn 0x%x exceeds 24 bits", wr->wr.ud.remote_qpn);
	wqe->ah = ah;
	wqe->remote_qpn = wr->wr.ud.remote_qpn;
	wqe->remote_qkey = wr->wr.ud.remote_qkey;
	return 0;
}

static int fill_bind(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe)
{
	if (!wr->bind_mw.mw)
		return REFUSE(EINVAL, "IBV_WR_BIND_MW needs a window in bind_mw.mw");
	if (wr->bind_mw.bind_info.length && !wr->bind_mw.bind_info.mr)
		return REFUSE(EINVAL, "IBV_WR_BIND_MW needs a region in bind_mw.bind_info.mr");
	if (wr->bind_mw.bind_info.length > WINDOW_BYTES_MAX)
		return REFUSE(EOPNOTSUPP, "IBV_WR_BIND_MW of %llu bytes: a window has at most 2 GiB, as on mlx5",
			      (unsigned long long)wr->bind_mw.bind_info.length);
	wqe->mw = to_mw(wr->bind_mw.mw);
	wqe->rkey = wr->bind_mw.rkey;
	wqe->bind = wr->bind_mw.bind_info;
	return 0;
}

static int qp_post_fill(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	const struct wr_row *row = wr_row_of_post(wr->opcode);
	int err;

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags | (qp->signal_all ? IBV_SEND_SIGNALED : 0);
	err = check_opcode(qp, wr, row, wqe);
	if (err || wqe->opcode == WR_FAULTY)
		return err;
	if (row->is & WR_HAS_TARGET) {
		wqe->remote_address = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (row->is & WR_IS_ATOMIC) {
		wqe->remote_address = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	}
	if (row->is & WR_HAS_IMM)
		wqe->imm = ntohl(wr->imm_data);
	if (row->is & WR_HAS_INV)
		wqe->imm = wr->invalidate_rkey;
	if (row->is & WR_BINDS)
		err = fill_bind(qp, wr, wqe);
	if (row->is & WR_HAS_RANGE) {
		err = fill_flush(qp, wr, wqe);
	} else if (row->is & WR_HAS_WORD && wr->send_flags & SEND_BUILT) {
		/* The word of ibv_wr_atomic_write(): there is room for it whatever max_inline_data is. */
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->length = PLACEMENT_WORD;
		wqe->flags |= IBV_SEND_INLINE;
		memcpy(wqe->inline_data, &wr->wr.atomic.compare_add, PLACEMENT_WORD);
	} else if (row->is & WR_HAS_DATA) {
		err = fill_data(qp, wr, row, wqe);
	}
	if (!err && qp_is(qp, QP_DATAGRAM))
		err = fill_ud(qp, wr, wqe);
	if (!err && qp_is(qp, QP_XRC)) {
		if (wr->qp_type.xrc.remote_srqn > QPN_MASK)
			return REFUSE(EINVAL, "qp_type.xrc.remote_srqn 0x%x exceeds 24 bits: use the number that "
				      "ibv_get_srq_num() gives at the peer", wr->qp_type.xrc.remote_srqn);
		wqe->remote_srqn = wr->qp_type.xrc.remote_srqn;
	}
	return err;
}

/* Will polling ever free a slot? Newest first: programs that signal do so now and then. */
static bool any_is_signaled(const struct send_queue *sq)
{
	for (uint32_t n = 1; n <= wqe_slots_used(&sq->slots, sq->head); n++)
		if (send_queue_at(sq, sq->head - n)->flags & IBV_SEND_SIGNALED)
			return true;
	return false;
}

static int refuse_full(const struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock)
{
	const struct send_queue *sq = &qp->sq;
	uint32_t executed = sq->size - (sq->head - sq->tail);

	if (explaining() && !any_is_signaled(sq))
		return REFUSE(ENOMEM,
			      "the send queue is full: %u requests are outstanding (executed: %u), "
			      "and none is signaled: no completion will free a slot: post at least every "
			      "max_send_wr-th with IBV_SEND_SIGNALED, and poll it",
			      sq->size, executed);
	return REFUSE(ENOMEM,
		      "the send queue is full: %u requests are outstanding (executed: %u); a slot "
		      "is free when the completion of its request, or of a later one, was polled: poll, or "
		      "create the QP with a larger max_send_wr",
		      sq->size, executed);
}

static int qp_post_one(struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock)
{
	struct send_queue *sq = &qp->sq;
	struct send_wqe *wqe = send_queue_at(sq, sq->head);
	int err;

	if (wqe_slots_used(&sq->slots, sq->head) >= sq->size)
		return refuse_full(qp, wr);
	err = qp_post_fill(qp, wr, wqe);
	if (err)
		return err;
	if (wqe->ah)
		ah_get(wqe->ah);
	/* ibv_bind_mw(3): a window has its new rkey as soon as the call returns; imm keeps the old one. */
	if (wqe->mw) {
		wqe->imm = wqe->mw->ibv.rkey;
		wqe->rkey = wqe->mw->ibv.rkey = mw_rkey(wqe->imm, wqe->rkey);
	}
	sq->head++;
	return 0;
}

/* A header of the program's own goes before its data (UCX). */
static bool copy_plain_inline(const struct qp *qp, const struct ibv_send_wr *wr, struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->sq.max_inline - wqe->length ||
		    copy_user(wqe->inline_data + wqe->length, (const void *)(uintptr_t)sge->addr, sge->length))
			return false;
		wqe->length += sge->length;
	}
	return true;
}

struct send_wqe *qp_post_plain(struct qp *qp, const struct ibv_send_wr *wr)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE, is_write = wr->opcode == IBV_WR_RDMA_WRITE;
	struct send_queue *sq = &qp->sq;
	struct send_wqe *wqe;

	if (wr->next || (wr->opcode != IBV_WR_SEND && !is_write) || wr->num_sge < 1 ||
	    (uint32_t)wr->num_sge > (is_inline ? sq->max_sge : 1) || !wr->sg_list || !sq->max_sge ||
	    wr->send_flags & ~(FLAGS_PLAIN | IBV_SEND_INLINE | SEND_BUILT) ||
	    (!is_inline && wr->sg_list->length > MESSAGE_BYTES_MAX) ||
	    wqe_slots_used(&sq->slots, sq->head) >= sq->size)
		return NULL;
	wqe = send_queue_at(sq, sq->head);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags | (qp->signal_all ? IBV_SEND_SIGNALED : 0);
	if (is_write) {
		wqe->remote_address = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (!is_inline) {
		wqe->length = wr->sg_list->length;
		wqe->sge_count = 1;
		wqe->sge[0] = *wr->sg_list;
	} else if (!copy_plain_inline(qp, wr, wqe)) {
		return NULL;
	}
	sq->head++;
	return wqe;
}

bool qp_post_is_write(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_RDMA_WRITE && !wr->next && wr->num_sge == 1 && wr->sg_list && qp->sq.max_sge &&
	       !(wr->send_flags & ~(FLAGS_PLAIN | SEND_BUILT)) && wr->sg_list->length <= MESSAGE_BYTES_MAX &&
	       wqe_slots_used(&qp->sq.slots, qp->sq.head) < qp->sq.size;
}

/* Its send queue is not the application's, or it has none. */
static int refuse_all(const struct qp *qp, const struct ibv_send_wr *wr)
{
	if (qp->type == IBV_QPT_XRC_RECV)
		return REFUSE(EINVAL, "a QP of type XRC_RECV has no send queue: send with an XRC_SEND one");
	if (qp->sends_itself)
		return REFUSE(EINVAL, "the qp has a tag-matching SRQ and max_send_wr 0: the device sends, to "
			      "fetch the data of matched requests; create it with max_send_wr, or send "
			      "with another one");
	return REFUSE(EINVAL, "the qp has a table of work queues, to receive: send with another one");
}

int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	if (wr)
		err = qp->hash || qp->sends_itself || qp->type == IBV_QPT_XRC_RECV ? refuse_all(qp, wr) :
										     check_send_state(qp, wr);
	while (wr && !err) {
		err = qp_post_one(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err)
		*bad = wr;
	return err;
}

int qp_post_send_all(struct qp *qp, struct ibv_send_wr *wr)
{
	uint32_t head = qp->sq.head;
	struct ibv_send_wr *bad;
	int err = qp_post_send(qp, wr, &bad);

	if (err) {
		/* Withdraw the requests from @head on. Nothing has seen them: the lock was never dropped. */
		while (qp->sq.head != head) {
			struct send_wqe *wqe = send_queue_at(&qp->sq, --qp->sq.head);

			if (wqe->mw)
				wqe->mw->ibv.rkey = wqe->imm;
			if (wqe->ah)
				ah_put(wqe->ah);
		}
	}
	return err;
}

/* Why it takes none: EINVAL, explained. */
static APART int refuse_receive(const struct qp *qp)
{
	if (!qp_receives(qp))
		explain_of(OF(QP, qp->number),
			"ibv_post_recv: qp 0x%06x is of type %s%s: use %s", qp->number,
				qp_type_name(qp->type),
			qp->hash ? " with a table of work queues" : ", which has no receive queue",
			qp->hash ? "ibv_post_wq_recv with those" : "ibv_post_srq_recv with the XRC SRQ");
	else if (qp->srq)
		explain_of(OF(QP, qp->number),
			"ibv_post_recv: qp 0x%06x takes its receives from an SRQ: use "
			"ibv_post_srq_recv", qp->number);
	else
		explain_of(OF(QP, qp->number),
			"ibv_post_recv: qp 0x%06x is in RESET again: move it to INIT before "
			"posting receives",
			qp->number);
	return EINVAL;
}

int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!wr)	/* eRPC asks so, in RESET too, whose driver this is */
		return 0;
	/*
	 * Drivers of adapters did not look at RESET, and programs post to a QP that is new: those receives
	 * wait for INIT. A QP that has come back to RESET takes none with libmlx5, and rdma-core tests that.
	 */
	if (!qp_receives(qp) || qp->srq || atomic_load_explicit(&qp->was_reset, memory_order_acquire)) {
		*bad = wr;
		return refuse_receive(qp);
	}
	return recv_queue_post_for(&qp->rq, wr, bad, EXPLAIN_QP, qp->number);
}
