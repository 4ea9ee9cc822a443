/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting with ibv_wr_*() (ibv_wr_post(3)): the calls between wr_start and wr_complete fill an
 * array of ordinary work requests, which wr_complete posts as one list, or not at all.
 *
 *	wr_start (lock) -> wr_send ... (next request) -> wr_set_sge ... (its data) -> wr_complete
 *
 * The calls in between return nothing, so the first error is kept and returned by wr_complete.
 * Inline data is copied by its setter, as the caller may reuse the buffer at once. All room is
 * made at creation, for as many requests as the send queue holds; pages that are never used
 * cost nothing.
 */
#include <stdlib.h>

#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

struct wr_builder {
	struct list node;		/* in context->builders, until freed */
	struct lock lock;		/* held from wr_start to wr_complete or wr_abort */
	int err GUARDED_BY_MEMBER(lock);			/* the first, of this batch */
	uint64_t operations;		/* IBV_QP_EX_WITH_*: what may be built */
	uint32_t count GUARDED_BY_MEMBER(lock), capacity;	/* requests */
	uint32_t max_sge, max_inline;	/* of each */
	struct ibv_send_wr *wr;		/* [capacity] */
	struct ibv_sge *sge;		/* [capacity * max_sge] */
	uint8_t *data;			/* [capacity * max_inline] */
};

#define SENDS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define WINDOWS (IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RELIABLE (IBV_QP_EX_WITH_SEND_WITH_INV | \
		  IBV_QP_EX_WITH_RDMA_READ | \
		  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
		  QP_EX_WITH_FLUSH | QP_EX_WITH_ATOMIC_WRITE)

/* What each service offers: ibv_wr_post(3) without TSO, and SEND with invalidate on RC only. */
int wr_builder_check(enum ibv_qp_type type, uint64_t operations)
{
	uint64_t offered = 0, excess;

	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		offered = SENDS | WRITES | WINDOWS | RELIABLE;
		break;
	case IBV_QPT_UC:
		offered = SENDS | WRITES | WINDOWS;
		break;
	case IBV_QPT_UD:
		offered = SENDS;
		break;
	case IBV_QPT_RAW_PACKET:
		offered = IBV_QP_EX_WITH_SEND;
		break;
	default:
		break;
	}
	excess = operations & ~offered;
	if (!excess)
		return 0;
	explain_refused("ibv_create_qp_ex", EOPNOTSUPP,
			"ibv_create_qp_ex: send_ops_flags 0x%llx are not supported by this type "
		"of QP", (unsigned long long)excess);
	return EOPNOTSUPP;
}

static struct wr_builder *to_builder(struct ibv_qp_ex *ibv)
{
	return to_qp(&ibv->qp_base)->wr_builder;
}

/* What follows is called from wr_start on, with the lock that it took. */

static void qp_ex_latch(struct wr_builder *builder, int err)
{
	lock_alias(&builder->lock);
	if (!builder->err)
		builder->err = err;
}

/* The request that setters add to; NULL after an error. */
static struct ibv_send_wr *qp_ex_current(struct wr_builder *builder, const char *setter)
{
	lock_alias(&builder->lock);
	if (builder->err)
		return NULL;
	if (builder->count)
		return &builder->wr[builder->count - 1];
	explain("%s: begin a work request first (ibv_wr_send() ...)", setter);
	qp_ex_latch(builder, EINVAL);
	return NULL;
}

/* Begin the next request; NULL after an error. @operation is the flag that has to be declared. */
static struct ibv_send_wr *qp_ex_begin(struct ibv_qp_ex *ibv, uint64_t operation,
				       enum ibv_wr_opcode opcode)
{
	struct wr_builder *builder = to_builder(ibv);
	struct ibv_send_wr *wr;

	lock_alias(&builder->lock);
	if (builder->err)
		return NULL;
	if (!(builder->operations & operation)) {
		explain_of(OF(QP, ibv->qp_base.qp_num),
			"ibv_wr_*: qp 0x%06x: operation 0x%llx is not in send_ops_flags: name "
			"it when creating the QP", ibv->qp_base.qp_num, (unsigned long long)operation);
		qp_ex_latch(builder, EINVAL);
		return NULL;
	}
	if (builder->count == builder->capacity) {
		explain_of(OF(QP, ibv->qp_base.qp_num),
			"ibv_wr_*: qp 0x%06x: more than %u work requests in one batch: the "
			"send queue (max_send_wr) is full", ibv->qp_base.qp_num, builder->capacity);
		qp_ex_latch(builder, ENOMEM);
		return NULL;
	}
	wr = &builder->wr[builder->count++];
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = ibv->wr_id;
	wr->opcode = opcode;
	wr->send_flags = ibv->wr_flags & ~(unsigned)IBV_SEND_INLINE;	/* the data setter says */
	return wr;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr *wr =
		qp_ex_begin(ibv, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP);

	if (!wr)
		return;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct ibv_send_wr *wr =
		qp_ex_begin(ibv, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD);

	if (!wr)
		return;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = add;
}

/* Of the release's header that has them; see object/placement.h. */
static struct ibv_send_wr *begin_placement(struct ibv_qp_ex *ibv, uint64_t operation, int opcode,
					   uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = qp_ex_begin(ibv, operation, (enum ibv_wr_opcode)opcode);

	if (!wr)
		return NULL;
	wr->send_flags |= SEND_BUILT;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	return wr;
}

static void wr_atomic_write(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
			    const void *value)
{
	struct ibv_send_wr *wr = begin_placement(ibv, QP_EX_WITH_ATOMIC_WRITE, WR_ATOMIC_WRITE,
						 rkey, remote_addr);

	if (!wr)
		return;
	if (!value) {
		qp_ex_latch(to_builder(ibv), refuse_null("ibv_wr_atomic_write", "atomic_wr"));
		return;
	}
	memcpy(&wr->wr.atomic.compare_add, value, PLACEMENT_WORD);
}

static void wr_flush(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr, size_t bytes,
		     uint8_t type, uint8_t level)
{
	struct ibv_send_wr *wr = begin_placement(ibv, QP_EX_WITH_FLUSH, WR_FLUSH, rkey,
						 remote_addr);

	if (!wr)
		return;
	wr->wr.atomic.compare_add = bytes;
	wr->wr.atomic.swap = (uint64_t)level << 8 | type;
}

static void wr_bind_mw(struct ibv_qp_ex *ibv, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = qp_ex_begin(ibv, IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW);

	if (!wr)
		return;
	if (!mw || !info) {
		qp_ex_latch(to_builder(ibv), refuse_null("ibv_wr_bind_mw", mw ? "bind_info" : "mw"));
		return;
	}
	if (mw->type != IBV_MW_TYPE_2) {
		explain_of(OF(QP, ibv->qp_base.qp_num),
			"ibv_wr_bind_mw: qp 0x%06x: the window is of type 1: use ibv_bind_mw",
			ibv->qp_base.qp_num);
		qp_ex_latch(to_builder(ibv), EINVAL);
		return;
	}
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void wr_local_inv(struct ibv_qp_ex *ibv, uint32_t rkey)
{
	struct ibv_send_wr *wr = qp_ex_begin(ibv, IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV);

	if (wr)
		wr->invalidate_rkey = rkey;
}

static struct ibv_send_wr *begin_rdma(struct ibv_qp_ex *ibv, uint64_t operation,
				      enum ibv_wr_opcode opcode, uint32_t rkey,
				      uint64_t remote_addr)
{
	struct ibv_send_wr *wr = qp_ex_begin(ibv, operation, opcode);

	if (wr) {
		wr->wr.rdma.rkey = rkey;
		wr->wr.rdma.remote_addr = remote_addr;
	}
	return wr;
}

static void wr_rdma_read(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ibv, IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ibv, IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct ibv_send_wr *wr = begin_rdma(ibv, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
					    IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wr)
		wr->imm_data = imm_data;
}

static void wr_send(struct ibv_qp_ex *ibv)
{
	qp_ex_begin(ibv, IBV_QP_EX_WITH_SEND, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ibv, __be32 imm_data)
{
	struct ibv_send_wr *wr =
		qp_ex_begin(ibv, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ibv, uint32_t rkey)
{
	struct ibv_send_wr *wr =
		qp_ex_begin(ibv, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV);

	if (wr)
		wr->invalidate_rkey = rkey;
}

/* No QP can be created with these (wr_builder_check): reached by mistake only. */
static void wr_send_tso(struct ibv_qp_ex *ibv, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	qp_ex_latch(to_builder(ibv), refuse_verb("ibv_wr_send_tso", "TCP segmentation"));
}

/* Whatever later headers have behind wr_flush. */
static void wr_newer(struct ibv_qp_ex *ibv)
{
	qp_ex_latch(to_builder(ibv),
		    refuse_verb("ibv_wr_*", "work requests that were added after rdma-core 64"));
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ibv, uint32_t remote_srqn)
{
	struct ibv_send_wr *wr = qp_ex_current(to_builder(ibv), "ibv_wr_set_xrc_srqn");

	if (!wr)
		return;
	if (ibv->qp_base.qp_type != IBV_QPT_XRC_SEND) {
		explain_of(OF(QP, ibv->qp_base.qp_num),
			"ibv_wr_set_xrc_srqn: qp 0x%06x is not an XRC_SEND QP",
			ibv->qp_base.qp_num);
		qp_ex_latch(to_builder(ibv), EINVAL);
		return;
	}
	wr->qp_type.xrc.remote_srqn = remote_srqn;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ibv, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct ibv_send_wr *wr = qp_ex_current(to_builder(ibv), "ibv_wr_set_ud_addr");

	if (!wr)
		return;
	if (!ah || ibv->qp_base.qp_type != IBV_QPT_UD) {
		explain_of(OF(QP, ibv->qp_base.qp_num),
			"ibv_wr_set_ud_addr: qp 0x%06x: %s", ibv->qp_base.qp_num,
			ah ? "it is not a UD QP" : "no address handle given (null pointer)");
		qp_ex_latch(to_builder(ibv), EINVAL);
		return;
	}
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = remote_qpn;
	wr->wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ibv, size_t count, const struct ibv_sge *list)
{
	struct wr_builder *builder = to_builder(ibv);
	struct ibv_send_wr *wr = qp_ex_current(builder, "ibv_wr_set_sge_list");

	if (!wr)
		return;
	lock_alias(&builder->lock);
	if (count > builder->max_sge) {
		explain_of(OF(QP, ibv->qp_base.qp_num),
			"ibv_wr_set_sge_list: qp 0x%06x: %zu SGEs exceed max_send_sge %u",
			ibv->qp_base.qp_num, count, builder->max_sge);
		qp_ex_latch(builder, EINVAL);
		return;
	}
	wr->sg_list = builder->sge + (size_t)(builder->count - 1) * builder->max_sge;
	wr->num_sge = (int)count;
	if (count)
		memcpy(wr->sg_list, list, count * sizeof(*list));
}

static void wr_set_sge(struct ibv_qp_ex *ibv, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	/* As hardware does it: no SGE for no data, so that lkey may be anything then. */
	wr_set_sge_list(ibv, length ? 1 : 0, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibv, size_t count,
				    const struct ibv_data_buf *list)
{
	struct wr_builder *builder = to_builder(ibv);
	struct ibv_send_wr *wr = qp_ex_current(builder, "ibv_wr_set_inline_data_list");
	uint8_t *data;
	size_t length = 0;

	if (!wr)
		return;
	lock_alias(&builder->lock);
	data = builder->data + (size_t)(builder->count - 1) * builder->max_inline;
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > builder->max_inline - length) {
			explain_of(OF(QP, ibv->qp_base.qp_num),
				"ibv_wr_set_inline_data: qp 0x%06x: the data exceeds "
				"max_inline_data %u", ibv->qp_base.qp_num, builder->max_inline);
			qp_ex_latch(builder, EINVAL);
			return;
		}
		if (list[i].length)
			memcpy(data + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	wr->sg_list = builder->sge + (size_t)(builder->count - 1) * builder->max_sge;
	wr->num_sge = length ? 1 : 0;
	if (length)
		*wr->sg_list = (struct ibv_sge){ .addr = (uintptr_t)data,
						 .length = (uint32_t)length };
	wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ibv, void *addr, size_t length)
{
	const struct ibv_data_buf data = { .addr = addr, .length = length };

	wr_set_inline_data_list(ibv, 1, &data);
}

static void wr_start(struct ibv_qp_ex *ibv) ACQUIRES(to_builder(ibv)->lock)
{
	struct wr_builder *builder = to_builder(ibv);

	call_enter(1);		/* until wr_complete or wr_abort: so long is the lock held */
	lock_acquire(&to_builder(ibv)->lock);
	builder->count = 0;
	builder->err = 0;
}

static void wr_abort(struct ibv_qp_ex *ibv) RELEASES(to_builder(ibv)->lock)
{
	lock_release(&to_builder(ibv)->lock);
	call_leave(1);
}

/* For a trace and a check, which are asked about together: without them this costs one load twice.
 */
static int wr_told_before(struct ibv_qp_ex *ibv, uint64_t *began_ns)
{
	*began_ns = tracepoint_began_ns();
	return check_is_on() ? verbs_check_sends("ibv_wr_complete", &ibv->qp_base,
						 to_builder(ibv)->wr, __builtin_return_address(0),
						 __builtin_frame_address(0)) : 0;
}

static void wr_told_behind(struct ibv_qp_ex *ibv, uint64_t began_ns, int err)
{
	const struct ibv_send_wr *wr = to_builder(ibv)->wr;

	if (err && check_is_on())
		verbs_check_sends_failed("ibv_wr_complete", &ibv->qp_base, wr, err);
	if (check_is_on())
		check_leave();
	if (trace_wants(TRACE_CALLS))
		verbs_trace_sends("ibv_wr_complete", &ibv->qp_base, wr, NULL, began_ns, err);
}

typedef int post_all(struct qp *qp, struct ibv_send_wr *wr);

static inline int wr_post(struct ibv_qp_ex *ibv, post_all *post) REQUIRES(to_builder(ibv)->lock)
{
	struct wr_builder *builder = to_builder(ibv);
	uint64_t began_ns = 0;
	int err = 0;

	if (builder->err || !builder->count)
		return builder->err;
	for (uint32_t i = 0; i + 1 < builder->count; i++)
		builder->wr[i].next = &builder->wr[i + 1];
	if (trace_wants(TRACE_CALLS | TRACE_CHECK))
		err = wr_told_before(ibv, &began_ns);
	if (!err)
		err = post(to_qp(&ibv->qp_base), builder->wr);
	if (trace_wants(TRACE_CALLS | TRACE_CHECK))
		wr_told_behind(ibv, began_ns, err);
	return err;
}

static int wr_complete(struct ibv_qp_ex *ibv) RELEASES(to_builder(ibv)->lock)
{
	int err = wr_post(ibv, hca_post_send_all);

	lock_release(&to_builder(ibv)->lock);
	call_leave(1);
	return verb_result(err);
}

/* The same in a thread domain, where no other thread builds. */
static void wr_start_alone(struct ibv_qp_ex *ibv)
{
	lock_alias(&to_builder(ibv)->lock);
	call_enter(1);
	to_builder(ibv)->count = 0;
	to_builder(ibv)->err = 0;
}

static void wr_abort_alone(struct ibv_qp_ex *ibv)
{
	call_leave(1);
}

static int wr_complete_alone(struct ibv_qp_ex *ibv)
{
	int err;

	lock_alias(&to_builder(ibv)->lock);
	err = wr_post(ibv, hca_post_send_all);

	call_leave(1);
	return verb_result(err);
}

/*
 * Twins for a program with ThreadSanitizer, which sees what the application does between them, and what ours copy
 * there. One thread may use them, too.
 */

static void wr_start_tsan(struct ibv_qp_ex *ibv) ACQUIRES(to_builder(ibv)->lock)
{
	wr_start(ibv);
	tsan_after(to_builder(ibv));
}

static void wr_abort_tsan(struct ibv_qp_ex *ibv) RELEASES(to_builder(ibv)->lock)
{
	tsan_before(to_builder(ibv));
	wr_abort(ibv);
}

static int wr_complete_tsan(struct ibv_qp_ex *ibv) RELEASES(to_builder(ibv)->lock)
{
	int err;

	tsan_enter_from(__builtin_return_address(0));
	err = wr_post(ibv, hca_tsan_post_send_all);
	tsan_before(to_builder(ibv));
	lock_release(&to_builder(ibv)->lock);
	tsan_leave();
	call_leave(1);
	return verb_result(err);
}

/* wr_flush is behind wr_atomic_write, whether our header has it or not. */
#define SLOT_FLUSH	(offsetof(struct ibv_qp_ex, wr_atomic_write) / sizeof(void *) + 1)
static_assert(sizeof(struct ibv_qp_ex) <= QP_EX_SLOTS * sizeof(void *),
	      "there is room for the calls of this release's headers");

static void qp_ex_fill(struct qp *qp, bool of_one_thread)
{
	struct ibv_qp_ex *ibv = &qp->ibv;

	ibv->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ibv->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ibv->wr_bind_mw = wr_bind_mw;
	ibv->wr_local_inv = wr_local_inv;
	ibv->wr_rdma_read = wr_rdma_read;
	ibv->wr_rdma_write = wr_rdma_write;
	ibv->wr_rdma_write_imm = wr_rdma_write_imm;
	ibv->wr_send = wr_send;
	ibv->wr_send_imm = wr_send_imm;
	ibv->wr_send_inv = wr_send_inv;
	ibv->wr_send_tso = wr_send_tso;
	ibv->wr_set_ud_addr = wr_set_ud_addr;
	ibv->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ibv->wr_set_inline_data = wr_set_inline_data;
	ibv->wr_set_inline_data_list = wr_set_inline_data_list;
	ibv->wr_set_sge = wr_set_sge;
	ibv->wr_set_sge_list = wr_set_sge_list;
	ibv->wr_start = of_one_thread ? wr_start_alone : wr_start;
	ibv->wr_complete = of_one_thread ? wr_complete_alone : wr_complete;
	ibv->wr_abort = of_one_thread ? wr_abort_alone : wr_abort;
	if (tsan_is_on()) {
		ibv->wr_start = wr_start_tsan;
		ibv->wr_complete = wr_complete_tsan;
		ibv->wr_abort = wr_abort_tsan;
	}
	ibv->wr_atomic_write = wr_atomic_write;
	qp->ibv_slots[SLOT_FLUSH] = wr_flush;
	for (size_t i = SLOT_FLUSH + 1; i < QP_EX_SLOTS; i++)
		qp->ibv_slots[i] = wr_newer;
}

static void builder_free(struct wr_builder *builder)
{
	free(builder->wr);
	free(builder->sge);
	free(builder->data);
	lock_destroy(&builder->lock);
	free(builder);
}

int wr_builder_create(struct context *context, struct qp *qp, uint64_t operations, bool of_one_thread)
{
	struct wr_builder *builder = calloc(1, sizeof(*builder));

	if (!builder)
		return ENOMEM;
	lock_init(&builder->lock);
	builder->operations = operations;
	builder->capacity = qp->cap.max_send_wr;
	/* Inline data is posted as one SGE. */
	builder->max_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
	builder->max_inline = qp->cap.max_inline_data;
	builder->wr = calloc((size_t)builder->capacity + 1, sizeof(*builder->wr));
	builder->sge = calloc((size_t)builder->capacity + 1,
			      builder->max_sge * sizeof(*builder->sge));
	builder->data = calloc((size_t)builder->capacity + 1, (size_t)builder->max_inline + 1);
	if (!builder->wr || !builder->sge || !builder->data) {
		builder_free(builder);
		return ENOMEM;
	}
	lock_acquire(&context->lock);
	list_add_tail(&context->builders, &builder->node);
	lock_release(&context->lock);
	qp->wr_builder = builder;
	qp_ex_fill(qp, of_one_thread);
	return 0;
}

void wr_builder_destroy(struct context *context, struct wr_builder *builder)
{
	if (!builder)
		return;
	lock_acquire(&context->lock);
	list_remove(&builder->node);
	lock_release(&context->lock);
	builder_free(builder);
}

void wr_builders_free(struct context *context)
{
	struct list *node;

	while ((node = list_pop(&context->builders)))
		builder_free(list_entry(node, struct wr_builder, node));
}

/* Only QPs that were created for it (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) can be posted to so. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	if (!ibv || !to_qp(ibv)->wr_builder)
		return NULL;
	return &to_qp(ibv)->ibv;
}
