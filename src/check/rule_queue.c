/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of queues and of their limits: full for ever, too small, beyond what was asked for. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "check/finding.h"

#define GRH_BYTES 40u

void rule_unsignaled_full(struct check_model *model, const struct check_record *post)
{
	const struct check_object *qp = check_find(model, post->object);
	char name[64];

	if (!qp || post->receive || post->error != ENOMEM || qp->sends.count <= post->count)
		return;
	for (uint32_t i = 0; i < qp->sends.count - post->count; i++)
		if (check_queue_at(&qp->sends, i)->signaled)
			return;
	check_report(model, RULE_QUEUE_001, qp, check_queue_at(&qp->sends, 0), 0,
		     "the oldest was posted here",
		     "%s: its send queue is full of %u requests, none of which is signaled: no "
		     "completion can ever free them",
		     check_name(qp, name), qp->sends.count - post->count);
}

void rule_cq_too_small(struct check_model *model, const struct check_record *post)
{
	const struct check_object *object = check_find(model, post->object), *cq;
	bool send = post->what == CHECK_POST_SEND;
	char name[64];

	if (!object || object->kind != CHECK_QP || (send && !post->signaled))
		return;
	cq = check_find(model, send ? object->send_cq : object->recv_cq);
	if (!cq || cq->due != cq->entries)	/* once, where it begins */
		return;
	check_report(model, RULE_QUEUE_002, cq, NULL, cq->made, "made here",
		     "%s has room for %u completions, and with this request %u may come before the "
		     "next poll",
		     check_name(cq, name), cq->entries, cq->due + 1);
}

void rule_beyond_cap(struct check_model *model, const struct check_record *post)
{
	const struct check_object *qp = check_find(model, post->object);
	uint32_t most;
	char name[64];

	if (!qp || post->error != EINVAL)
		return;
	most = post->receive ? qp->max_recv_sge : qp->max_send_sge;
	if (post->sges > most)
		check_report(model, RULE_LIMITS_001, qp, NULL, qp->made, "made here",
			     "%s takes %u SGEs in a %s, and the request has %u",
			     check_name(qp, name), most, post->receive ? "receive" : "send",
			     post->sges);
	else if (!post->receive && post->inlined && check_bytes(post) > qp->max_inline)
		check_report(model, RULE_LIMITS_001, qp, NULL, qp->made, "made here",
			     "%s takes %u bytes inline, and the request has %llu",
			     check_name(qp, name), qp->max_inline,
			     (unsigned long long)check_bytes(post));
}

static const struct check_work *work_of(const struct check_queue *queue, uint64_t wr_id)
{
	for (uint32_t i = 0; i < queue->count; i++)
		if (check_queue_at(queue, i)->wr_id == wr_id)
			return check_queue_at(queue, i);
	return NULL;
}

void rule_receive_too_short(struct check_model *model, const struct check_record *completion)
{
	const struct check_object *qp, *srq;
	const struct check_work *work;
	char name[64];

	if (completion->status != IBV_WC_LOC_LEN_ERR)
		return;
	qp = check_find_qp(model, completion->number);
	srq = qp && qp->srq ? check_find(model, qp->srq) : NULL;
	work = qp ? work_of(srq ? &srq->receives : &qp->receives, completion->wr_id) : NULL;
	if (work)
		check_report(model, RULE_LIMITS_002, qp, work, 0, "posted here",
			     "%s: a message was longer than the receive that took it",
			     check_name(qp, name));
}

void rule_remote_access(struct check_model *model, const struct check_record *completion)
{
	const struct check_object *qp;
	const struct check_work *work;
	char name[64];

	if (completion->status != IBV_WC_REM_ACCESS_ERR)
		return;
	qp = check_find_qp(model, completion->number);
	work = qp ? work_of(&qp->sends, completion->wr_id) : NULL;
	if (work)
		check_report(model, RULE_ACCESS_003, qp, work, 0, "posted here",
			     "%s: the peer refused a request: rkey, range or right is wrong there "
			     "or here",
			     check_name(qp, name));
}

void rule_no_room_for_grh(struct check_model *model, const struct check_record *post)
{
	const struct check_object *qp = check_find(model, post->object);
	char name[64];

	if (!qp || qp->kind != CHECK_QP || qp->type != IBV_QPT_UD || check_bytes(post) >= GRH_BYTES)
		return;
	check_report(model, RULE_DATAGRAM_001, qp, NULL, 0, NULL,
		     "%s: a receive of %llu bytes: no datagram fits, as each has %u bytes of GRH "
		     "in front",
		     check_name(qp, name), (unsigned long long)check_bytes(post), GRH_BYTES);
}

void rule_read_of_failed(struct check_model *model, const struct check_record *read)
{
	const struct check_object *cq = check_find(model, read->object);
	char name[64];

	if (!cq || read->status == IBV_WC_SUCCESS)
		return;
	check_report(model, RULE_WC_002, cq, NULL, 0, NULL,
		     "%s: %s of a completion with status %u (wr_id %llu), which has none",
		     check_name(cq, name), read->call, read->status,
		     (unsigned long long)read->wr_id);
}
