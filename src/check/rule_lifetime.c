/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of what must live until a request has completed: regions, address handles, QPs. */
#include <infiniband/verbs.h>

#include "check/finding.h"

/* Its device may still read or write what its requests name. */
static bool qp_is_at_work(const struct check_object *qp)
{
	return qp->kind == CHECK_QP && !qp->ending && !qp->failed &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD);
}

/*
 * The oldest request that names it. Behind the last signaled request others may be done, and a
 * program cannot know: those are left out.
 */
static const struct check_work *user_of(const struct check_queue *queue, uint32_t lkey,
					bool signaled)
{
	for (uint32_t i = 0; i < queue->count; i++) {
		const struct check_work *work = check_queue_at(queue, i);

		if (work->inlined || (signaled && !work->signaled))
			continue;
		for (uint32_t j = 0; j < work->sges; j++)
			if (work->sge[j].lkey == lkey && work->sge[j].bytes)
				return work;
	}
	return NULL;
}

void rule_region_in_use(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *mr = check_find(model, ending->object);
	char name[64], its[64];

	if (!mr || mr->kind != CHECK_MR)
		return;
	for (struct check_object *qp = check_next(model, NULL); qp; qp = check_next(model, qp)) {
		const struct check_object *srq;
		const struct check_work *work;

		if (!qp_is_at_work(qp))
			continue;
		srq = qp->srq ? check_find(model, qp->srq) : NULL;
		work = user_of(&qp->sends, mr->number, true);
		if (!work)
			work = user_of(srq ? &srq->receives : &qp->receives, mr->number, false);
		if (!work)
			continue;
		check_report(
			model, RULE_LIFETIME_001, mr, work, 0, "posted here",
			"%s is deregistered, and a request of %s that names it has not completed",
			check_name(mr, name), check_name(qp, its));
		return;
	}
}

void rule_address_in_use(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *ah = check_find(model, ending->object);
	char name[64];

	if (!ah || ah->kind != CHECK_AH)
		return;
	for (struct check_object *qp = check_next(model, NULL); qp; qp = check_next(model, qp)) {
		if (!qp_is_at_work(qp))
			continue;
		for (uint32_t i = 0; i < qp->sends.count; i++) {
			const struct check_work *work = check_queue_at(&qp->sends, i);

			if (work->ah != ah->handle || !work->signaled)
				continue;
			check_report(model, RULE_LIFETIME_002, ah, work, 0, "posted here",
				     "an address handle is destroyed, and a send of %s that names "
				     "it has not completed",
				     check_name(qp, name));
			return;
		}
	}
}

void rule_qp_in_use(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *qp = check_find(model, ending->object);
	uint32_t status;
	uint64_t wr_id;
	char name[64];

	if (!qp || !qp_is_at_work(qp) || !qp->sends.signaled)
		return;
	if (model->device &&
	    model->device->has_error(qp, &status, &wr_id)) /* rule_errors_unseen() says more */
		return;
	for (uint32_t i = 0; i < qp->sends.count; i++) {
		const struct check_work *work = check_queue_at(&qp->sends, i);

		if (!work->signaled)
			continue;
		check_report(model, RULE_LIFETIME_003, qp, work, 0, "posted here",
			     "%s is destroyed in RTS, and completions of %u signaled requests were "
			     "not polled",
			     check_name(qp, name), qp->sends.signaled);
		return;
	}
}

static const struct check_work *work_in(const struct check_queue *queue, bool signaled,
					const struct check_record *gone)
{
	for (uint32_t i = 0; i < queue->count; i++) {
		const struct check_work *work = check_queue_at(queue, i);

		if (work->inlined || (signaled && !work->signaled) ||
		    work->sequence > gone->sequence)
			continue;
		for (uint32_t j = 0; j < work->sges; j++)
			if (work->sge[j].address < gone->address + gone->bytes &&
			    gone->address < work->sge[j].address + work->sge[j].bytes)
				return work;
	}
	return NULL;
}

void rule_memory_gone(struct check_model *model, const struct check_record *gone)
{
	char name[64];

	for (struct check_object *qp = check_next(model, NULL); qp; qp = check_next(model, qp)) {
		const struct check_object *srq;
		const struct check_work *work;

		if (!qp_is_at_work(qp))
			continue;
		srq = qp->srq ? check_find(model, qp->srq) : NULL;
		work = work_in(&qp->sends, true, gone);
		if (!work)
			work = work_in(srq ? &srq->receives : &qp->receives, false, gone);
		if (!work)
			continue;
		check_report(model, RULE_LIFETIME_004, qp, work, 0, "posted here",
			     "%s of %llu bytes at 0x%llx, and a request of %s that names them "
			     "has not completed", gone->call, (unsigned long long)gone->bytes,
			     (unsigned long long)gone->address, check_name(qp, name));
		return;
	}
}
