/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of a tag-matching SRQ's list (ibv_post_srq_ops(3)). Each is done when the call returns; one that
 * asks for a completion has it in the SRQ's CQ then. The completion is pushed under the queue's lock, so
 * that completions are in the order of the changes.
 */
#include <errno.h>

#include "base/log.h"
#include "object/cq.h"
#include "object/srq.h"
#include "object/tag_list.h"

#define REFUSE_OP(err, format, ...) __extension__ ({                                              \
	explain_about(#err " ibv_post_srq_ops", OF_WR(SRQ, srq->number, wr->wr_id), \
		"post_srq_ops: srq 0x%06x wr_id 0x%llx: " format,  \
		      srq->number, (unsigned long long)wr->wr_id, ##__VA_ARGS__);                  \
	(err); })

static int op_delete(struct srq *srq, const struct ibv_ops_wr *wr, struct ibv_wc *wc)
	REQUIRES(srq->queue.lock)
{
	switch (tag_list_delete(srq->tags, wr->tm.handle)) {
	case TAG_WAITING:
		return 0;
	case TAG_CONSUMED:
		wc->status = IBV_WC_TM_ERR;
		return 0;
	case TAG_DELETED:
		return REFUSE_OP(EINVAL, "the tag of handle 0x%x was deleted before", wr->tm.handle);
	default:
		return REFUSE_OP(EINVAL, "handle 0x%x is of no tag of this SRQ: use tm.handle as "
				 "IBV_WR_TAG_ADD has filled it in", wr->tm.handle);
	}
}

static int op_check(const struct srq *srq, const struct ibv_ops_wr *wr)
{
	if (wqe_slots_used(&srq->tags->ops, srq->tags->posted) >= srq->tags->max_ops)
		return REFUSE_OP(ENOMEM,
				 "%u operations are outstanding (tm_cap.max_ops): one is until its "
				 "completion, or that of a later one with IBV_OPS_SIGNALED, was polled",
				 srq->tags->max_ops);
	if (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC))
		return REFUSE_OP(EINVAL, "flags 0x%x: only IBV_OPS_SIGNALED and IBV_OPS_TM_SYNC are known",
				 (unsigned)wr->flags);
	switch ((int)wr->opcode) {
	case IBV_WR_TAG_ADD:
		if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > (int)TAG_SGE_MAX)
			return REFUSE_OP(EINVAL, "num_sge %d is not in 0..%u (tm_caps.max_sge)",
					 wr->tm.add.num_sge, TAG_SGE_MAX);
		if (wr->tm.add.num_sge && !wr->tm.add.sg_list)
			return REFUSE_OP(EINVAL, "num_sge %d but sg_list is NULL", wr->tm.add.num_sge);
		return 0;
	case IBV_WR_TAG_DEL:
	case IBV_WR_TAG_SYNC:
		return 0;
	default:
		return REFUSE_OP(EINVAL, "opcode %d: expected IBV_WR_TAG_ADD, IBV_WR_TAG_DEL or IBV_WR_TAG_SYNC",
				 (int)wr->opcode);
	}
}

static int op_run(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_wc *wc) REQUIRES(srq->queue.lock)
{
	if (wr->flags & IBV_OPS_TM_SYNC && !tag_list_report(srq->tags, wr->tm.unexpected_cnt))
		return REFUSE_OP(EINVAL, "unexpected_cnt %u, but only %u unexpected messages have come (modulo "
				 "65536): count the completions IBV_WC_TM_RECV without IBV_WC_TM_MATCH and "
				 "IBV_WC_TM_DATA_VALID", wr->tm.unexpected_cnt, srq->tags->unexpected);
	switch ((int)wr->opcode) {
	case IBV_WR_TAG_ADD:
		wc->opcode = IBV_WC_TM_ADD;
		if (tag_list_add(srq->tags, wr))
			return 0;
		return REFUSE_OP(ENOMEM,
				 "the list is full: of its %u tags each waits for a message, or for its "
				 "completion to be polled: poll, delete some, or create the SRQ with a larger "
				 "tm_cap.max_num_tags", srq->tags->size);
	case IBV_WR_TAG_DEL:
		wc->opcode = IBV_WC_TM_DEL;
		return op_delete(srq, wr, wc);
	default:
		wc->opcode = IBV_WC_TM_SYNC;
		return 0;
	}
}

int srq_post_ops(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad, uint64_t now_ns,
		 struct effects *effects)
{
	int err = 0;

	lock_acquire(&srq->queue.lock);
	for (; wr; wr = wr->next) {
		struct ibv_wc wc = { .wr_id = wr->wr_id };

		err = op_check(srq, wr);
		if (!err)
			err = op_run(srq, wr, &wc);
		if (err)
			break;
		if (!tag_list_in_step(srq->tags))
			wc.wc_flags = IBV_WC_TM_SYNC_REQ;
		if (wr->flags & IBV_OPS_SIGNALED)	/* one that is lost ends the CQ, which says so */
			cq_push_slot(srq->cq, &wc, (struct wqe_slot){ &srq->tags->ops, srq->tags->posted, false },
				     false, now_ns, effects);
		srq->tags->posted++;
	}
	lock_release(&srq->queue.lock);
	if (err)
		*bad = wr;
	return err;
}
