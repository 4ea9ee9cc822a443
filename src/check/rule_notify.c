/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of notification: that no completion stands in a CQ while its program sleeps. They are found
 * by the order of calls, since on a device that raises the event all the same nothing ever hangs.
 *
 *	poll: empty --- a completion comes --- arm --- wait: no event for it
 */
#include "check/finding.h"

static const char *at_arming(const struct check_model *model)
{
	bool silent = check_profile_knows(model->profile, CHECK_FACT_ARM_RAISES) &&
		      !model->profile->fact[CHECK_FACT_ARM_RAISES].value;

	return silent ? ", nor does this adapter raise one when the CQ is armed" : "";
}

void rule_armed_unpolled(struct check_model *model, const struct check_record *wait)
{
	char name[64];

	for (struct check_object *cq = check_next(model, NULL); cq; cq = check_next(model, cq)) {
		if (cq->kind != CHECK_CQ || cq->channel != wait->object || !cq->armed)
			continue;
		/* What was posted behind the arming raises the event when it completes. */
		if (cq->polled_since_arm || !cq->emptied_at_arm || !cq->due_at_arm ||
		    cq->posted_since_arm)
			continue;
		check_report(model, RULE_NOTIFY_001, cq, NULL, cq->arm_stack, "armed here",
			     "%s was polled until it was empty, then armed, and not polled again "
			     "before %s: a completion that comes between poll and arming raises no "
			     "event%s",
			     check_name(cq, name), wait->call, at_arming(model));
	}
}

void rule_wait_unarmed(struct check_model *model, const struct check_record *wait)
{
	const struct check_object *one = NULL;
	char name[64];

	if (wait->nonblocking || wait->has_event)
		return;
	for (struct check_object *cq = check_next(model, NULL); cq; cq = check_next(model, cq)) {
		if (cq->kind != CHECK_CQ || cq->channel != wait->object)
			continue;
		/* Another thread may arm it later. */
		if (cq->armed || !cq->alone || (cq->used && cq->thread != wait->thread))
			return;
		one = cq;
	}
	if (one)
		check_report(model, RULE_NOTIFY_002, one, NULL, one->arm_stack,
			     one->ever_armed ? "last armed here" : NULL,
			     "%s waits for an event, and %s %s: none can come", wait->call,
			     check_name(one, name),
			     one->ever_armed ? "was not armed again since its last one"
					     : "was never armed");
}

void rule_drain_ended_early(struct check_model *model, const struct check_record *wait)
{
	char name[64];

	for (struct check_object *cq = check_next(model, NULL); cq; cq = check_next(model, cq)) {
		if (cq->kind != CHECK_CQ || cq->channel != wait->object || !cq->armed ||
		    !cq->standing)
			continue;
		if (cq->posted_since_arm)
			continue;
		check_report(model, RULE_NOTIFY_003, cq, NULL, cq->arm_stack, "armed here",
			     "%s: of the completions that stood in it when it was armed %u were "
			     "not polled before %s: no event is raised for them%s",
			     check_name(cq, name), cq->standing, wait->call, at_arming(model));
	}
}

void rule_events_unacknowledged(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *cq = check_find(model, ending->object);
	char name[64];

	if (!cq || cq->kind != CHECK_CQ || cq->got <= cq->acknowledged)
		return;
	if (cq->several_got ||
	    cq->got_thread != ending->thread) /* another thread may still do it */
		return;
	check_report(model, RULE_EVENTS_001, cq, NULL, cq->made, "made here",
		     "%s: of %u events %u were acknowledged: %s waits for the others, for ever",
		     check_name(cq, name), cq->got, cq->acknowledged, ending->call);
}

void rule_events_overacknowledged(struct check_model *model, const struct check_record *ack)
{
	const struct check_object *cq = check_find(model, ack->object);
	char name[64];

	if (!cq || ack->count <= cq->got - cq->acknowledged)
		return;
	check_report(
		model, RULE_EVENTS_002, cq, NULL, 0, NULL,
		"%s: %u events are acknowledged, of %u that were taken and not yet acknowledged",
		check_name(cq, name), ack->count, cq->got - cq->acknowledged);
}

void rule_async_unacknowledged(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *object = check_find(model, ending->object);
	char name[64];

	if (!object || object->async_got <= object->async_acknowledged ||
	    object->async_thread != ending->thread)	/* another thread may still do it */
		return;
	check_report(model, RULE_EVENTS_004, object, NULL, object->made, "made here",
		     "%s: of %u asynchronous events %u were acknowledged: %s waits for the others, "
		     "for ever", check_name(object, name), object->async_got,
		     object->async_acknowledged, ending->call);
}

/* Of a program that asks for none: one that does may be about to read it, in another thread. */
static void look_for_unread(struct check_model *model, const struct check_object *object)
{
	const struct check_object *context =
		object->kind == CHECK_CONTEXT ? object : check_find(model, object->context);
	const char *event;
	char name[64];

	if (object->kind != CHECK_CONTEXT && object->kind != CHECK_QP && object->kind != CHECK_CQ &&
	    object->kind != CHECK_SRQ && object->kind != CHECK_WQ)	/* others have no such events */
		return;
	if (!context || context->reads_async)
		return;
	event = model->device->unread_event(object);
	if (event)
		check_report(model, RULE_EVENTS_003, object, NULL, object->made, "made here",
			     "%s: '%s' was never read", check_name(object, name), event);
}

void rule_async_unread(struct check_model *model, const struct check_record *end)
{
	const struct check_object *object = check_find(model, end->object);

	if (!model->device || !model->device->unread_event ||
	    (end->what == CHECK_END && end->error))
		return;
	if (end->what == CHECK_ENDING && object)
		look_for_unread(model, object);
	if (end->what == CHECK_ENDING)
		return;
	for (object = check_next(model, NULL); object; object = check_next(model, object))
		if (object->kind == CHECK_CONTEXT)
			look_for_unread(model, object);
}
