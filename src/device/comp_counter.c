/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters of a context (ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3)). What is counted is
 * decided where operations complete (object/comp_counter.h, transport/).
 *
 * A counter that is read without a change makes progress, as a poll of an empty CQ does: programs that wait
 * on counters need not poll any CQ.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"

uint32_t hca_max_comp_counters(void)
{
	return LIMIT_COMP_COUNTERS;
}

int hca_create_comp_counter(struct hca_context *context, bool bytes, struct comp_counter **created)
{
	struct comp_counter *counter;
	int err;

	if (context_is_dead(context, "ibv_create_comp_cntr"))
		return EIO;
	err = object_reserve(context->hca, OBJECT_COMP_COUNTER, "ibv_create_comp_cntr");
	if (err)
		return err;
	counter = calloc(1, sizeof(*counter));
	if (!counter) {
		object_unreserve(context->hca, OBJECT_COMP_COUNTER);
		return ENOMEM;
	}
	counter->bytes = bytes;
	counter->owner = context;
	counter->ibv.handle = object_number(context->hca);
	object_enlist(context, &context->comp_counters, &counter->node);
	*created = counter;
	return 0;
}

int hca_destroy_comp_counter(struct hca_context *context, struct comp_counter *counter)
{
	uint32_t users = atomic_load(&counter->users);

	if (context_is_dead(context, "ibv_destroy_comp_cntr"))
		return EIO;
	if (users) {
		explain_refused_of("ibv_destroy_comp_cntr", EBUSY, OF(COUNTER, counter->ibv.handle),
				"ibv_destroy_comp_cntr: counter %u is attached for %u operations of QPs: "
				"destroy those first", counter->ibv.handle, users);
		return EBUSY;
	}
	object_delist(context, &counter->node);
	free(counter);
	object_unreserve(context->hca, OBJECT_COMP_COUNTER);
	return 0;
}

/* Why the counter cannot be attached to the QP; NULL: it can. Sets *err. */
static const char *comp_counter_objection(const struct qp *qp, const struct comp_counter *counter,
					  uint32_t operations, int *err) REQUIRES(qp->lock)
{
	*err = EINVAL;
	if (((const struct hca_context *)counter->owner)->file != ((const struct hca_context *)qp->owner)->file)
		return "the counter and the QP are of different devices";
	if (!operations)
		return "op_mask is 0: say which operations are to be counted";
	if (qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT)
		return "the QP is not in RESET or INIT: attach counters before the move to RTR";
	*err = EBUSY;
	for (unsigned i = 0; qp->counted && i < COMP_OPERATIONS; i++)
		if (operations & 1u << i && qp->counted->of[i])
			return "an operation of op_mask has a counter already: each has at most one";
	*err = 0;
	return NULL;
}

int hca_attach_comp_counter(struct qp *qp, struct comp_counter *counter, uint32_t operations)
{
	const char *objection;
	int err;

	if (context_is_dead(qp->owner, "ibv_qp_attach_comp_cntr"))
		return EIO;
	if (operations >> COMP_OPERATIONS) {
		explain_refused("ibv_qp_attach_comp_cntr", EOPNOTSUPP,
				"ibv_qp_attach_comp_cntr: op_mask 0x%x has operations beyond 0x%x "
				"(ibv_query_comp_cntr_caps)", operations, (1u << COMP_OPERATIONS) - 1);
		return EOPNOTSUPP;
	}
	lock_acquire(&qp->lock);
	objection = comp_counter_objection(qp, counter, operations, &err);
	if (!objection && !qp->counted) {
		qp->counted = calloc(1, sizeof(*qp->counted));
		err = qp->counted ? 0 : ENOMEM;
	}
	for (unsigned i = 0; !err && i < COMP_OPERATIONS; i++)
		if (operations & 1u << i) {
			qp->counted->of[i] = counter;
			atomic_fetch_add(&counter->users, 1);
		}
	lock_release(&qp->lock);
	if (objection)
		explain_refused_of("ibv_qp_attach_comp_cntr", err, OF(QP, qp->number),
				"ibv_qp_attach_comp_cntr: qp 0x%06x, counter %u, op_mask 0x%x: %s", qp->number,
				counter->ibv.handle, operations, objection);
	return err;
}

void comp_counters_detach(struct qp *qp)
{
	struct comp_counters *counters = qp->counted;

	for (unsigned i = 0; counters && i < COMP_OPERATIONS; i++)
		if (counters->of[i])
			atomic_fetch_sub(&counters->of[i]->users, 1);
	free(counters);
}

static _Atomic uint64_t *comp_counter_value(struct comp_counter *counter, bool failed)
{
	return failed ? &counter->failed : &counter->done;
}

int hca_set_comp_counter(struct comp_counter *counter, bool failed, uint64_t value)
{
	if (context_is_dead(counter->owner, "ibv_set_comp_cntr"))
		return EIO;
	atomic_store(comp_counter_value(counter, failed), value);
	return 0;
}

int hca_increase_comp_counter(struct comp_counter *counter, bool failed, uint64_t amount)
{
	if (context_is_dead(counter->owner, "ibv_inc_comp_cntr"))
		return EIO;
	atomic_fetch_add(comp_counter_value(counter, failed), amount);
	return 0;
}

int hca_read_comp_counter(struct comp_counter *counter, bool failed, uint64_t *value)
{
	struct hca_context *context = counter->owner;
	uint64_t sum;
	unsigned packets;

	if (context_is_dead(context, "ibv_read_comp_cntr"))
		return EIO;
	sum = atomic_load(&counter->done) + atomic_load(&counter->failed);
	if (sum == atomic_load_explicit(&counter->seen, memory_order_relaxed))
		engine_progress(&context->hca->engine, NULL, &packets);
	atomic_store_explicit(&counter->seen, sum, memory_order_relaxed);
	*value = atomic_load_explicit(comp_counter_value(counter, failed), memory_order_acquire);	/* C1 */
	return 0;
}
