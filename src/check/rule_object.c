/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of the end: of objects, and of the program. */
#include <errno.h>

#include "check/finding.h"

static const char *ended_by(enum check_kind kind)
{
	switch (kind) {
	case CHECK_CONTEXT:
		return "closed";
	case CHECK_MR:
		return "deregistered";
	case CHECK_PD:
	case CHECK_MW:
	case CHECK_TD:
	case CHECK_DOMAIN:
		return "deallocated";
	case CHECK_DM:
		return "freed";
	case CHECK_XRCD:
		return "closed";
	default:
		return "destroyed";
	}
}

/* One finding for all that were made at a place. After a failure a program may end as it likes. */
static void tell_leaks(struct check_model *model, const struct check_record *end,
		       enum check_rule rule)
{
	if (end->error)
		return;
	for (struct check_object *object = check_next(model, NULL); object;
	     object = check_next(model, object)) {
		bool of_manager = object->kind == CHECK_ID || object->kind == CHECK_CM_CHANNEL;
		unsigned others = 0;
		char name[64];

		if (object->told || of_manager != (rule == RULE_CM_004))
			continue;
		for (struct check_object *other = check_next(model, object); other;
		     other = check_next(model, other)) {
			if (other->kind != object->kind || other->made != object->made)
				continue;
			other->told = true;
			others++;
		}
		check_name(object, name);
		if (others)
			check_report(
				model, rule, object, NULL, object->made, "made here",
				"%s and %u others that were made at the same place were never %s",
				name, others, ended_by(object->kind));
		else
			check_report(model, rule, object, NULL, object->made,
				     "made here", "%s was never %s", name, ended_by(object->kind));
	}
}

void rule_leaks(struct check_model *model, const struct check_record *end)
{
	tell_leaks(model, end, RULE_OBJECTS_001);
}

void rule_cm_leaks(struct check_model *model, const struct check_record *end)
{
	tell_leaks(model, end, RULE_CM_004);
}

/* Who still uses @of: the first that is found. */
static const struct check_object *user_of_object(const struct check_model *model,
						 const struct check_object *of)
{
	for (const struct check_object *user = check_next(model, NULL); user;
	     user = check_next(model, user)) {
		const uint64_t uses[] = {
			user->context, user->pd, user->send_cq, user->recv_cq, user->srq,
			user->channel, user->domain, user->other,
		};

		for (unsigned i = 0; i < sizeof(uses) / sizeof(*uses); i++)
			if (uses[i] == of->handle && user != of && !user->ending)
				return user;
	}
	return NULL;
}

void rule_destroyed_too_early(struct check_model *model, const struct check_record *ended)
{
	const struct check_object *object = check_find(model, ended->object), *user;
	char name[64], its[64];

	/*
	 * Of CQs that rdma_create_qp() made: another id may have got them by attributes that were
	 * used again, as cmtime's are; the program itself destroys none.
	 */
	if (!object || ended->error != EBUSY || ended->of_manager)
		return;
	user = user_of_object(model, object);
	if (user)
		check_report(model, RULE_OBJECTS_002, object, NULL, user->made,
			     "its user was made here", "%s was not %s: %s still uses it",
			     check_name(object, name), ended_by(object->kind),
			     check_name(user, its));
}

void rule_device_closed_early(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *context = check_find(model, ending->object), *user;
	unsigned left = 0;
	char its[64];

	if (!context || context->kind != CHECK_CONTEXT)
		return;
	user = user_of_object(model, context);
	if (!user)
		return;
	for (struct check_object *other = check_next(model, NULL); other;
	     other = check_next(model, other)) {
		left += other->context == context->handle;
		other->told |= other->context == context->handle;
	}
	check_report(model, RULE_OBJECTS_003, context, NULL, user->made, "made here",
		     "the device is closed, and %u objects of it are left: %s was not %s", left,
		     check_name(user, its), ended_by(user->kind));
}

void rule_errors_unseen(struct check_model *model, const struct check_record *end)
{
	uint32_t status;
	uint64_t wr_id;
	char name[64];

	if (!model->device || (end->what == CHECK_END && end->error))
		return;
	for (struct check_object *qp = check_next(model, NULL); qp; qp = check_next(model, qp)) {
		if (qp->kind != CHECK_QP ||
		    (end->what == CHECK_ENDING && qp->handle != end->object))
			continue;
		if (!model->device->has_error(qp, &status, &wr_id))
			continue;
		for (uint32_t i = 0; i < qp->sends.count + qp->receives.count; i++) {
			bool send = i < qp->sends.count;
			const struct check_work *work = check_queue_at(
				send ? &qp->sends : &qp->receives, send ? i : i - qp->sends.count);

			if (work->wr_id != wr_id)
				continue;
			check_report(model, RULE_WC_001, qp, work, 0, "posted here",
				     "%s: its request ended with status %u, and nobody polled that",
				     check_name(qp, name), status);
			break;
		}
	}
}
