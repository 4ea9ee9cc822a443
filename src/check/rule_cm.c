/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of librdmacm: private data, the order of calls, events. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "check/finding.h"

/* What a message of the CM has room for, besides what librdmacm puts there. */
static const struct private_room {
	const char *call;
	unsigned connected, datagram;
} rooms[] = {
	{ "rdma_connect", 56, 180 },
	{ "rdma_accept", 196, 136 },
	{ "rdma_reject", 148, 136 },
};

static const struct private_room *room_of(const char *call)
{
	for (unsigned i = 0; i < sizeof(rooms) / sizeof(*rooms); i++)
		if (!strcmp(rooms[i].call, call))
			return &rooms[i];
	return NULL;
}

static bool is_too_long(const struct check_record *call)
{
	const struct private_room *room = room_of(call->call);

	return room && call->bytes > (call->type == IBV_QPT_UD ? room->datagram : room->connected);
}

void rule_private_data(struct check_model *model, const struct check_record *call)
{
	const struct check_object *id = check_find(model, call->object);
	const struct private_room *room = room_of(call->call);

	if (is_too_long(call))
		check_report(model, RULE_CM_001, id, NULL, 0, NULL,
			     "%s: %llu bytes of private data, and its message has room for %u",
			     call->call, (unsigned long long)call->bytes,
			     call->type == IBV_QPT_UD ? room->datagram : room->connected);
}

/* What must have been before; only of a call that was refused. */
void rule_cm_order(struct check_model *model, const struct check_record *call)
{
	static const struct {
		const char *call, *words;
		enum check_step step;
	} orders[] = {
		{ "rdma_resolve_route", "RDMA_CM_EVENT_ADDR_RESOLVED", CHECK_STEP_ADDRESS_IS },
		{ "rdma_connect", "RDMA_CM_EVENT_ROUTE_RESOLVED", CHECK_STEP_ROUTE_IS },
		{ "rdma_accept", "RDMA_CM_EVENT_CONNECT_REQUEST, whose id it takes",
		  CHECK_STEP_REQUESTED },
	};
	const struct check_object *id = check_find(model, call->object);
	char name[64];

	if (!id || call->error != EINVAL || is_too_long(call))
		return;
	for (unsigned i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (!strcmp(orders[i].call, call->call) && id->step != orders[i].step)
			check_report(model, RULE_CM_002, id, NULL, id->made, "made here",
				     "%s: %s is for an id that has had %s and not gone on since",
				     check_name(id, name), call->call, orders[i].words);
}

void rule_cm_unacknowledged(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *id = check_find(model, ending->object);
	char name[64];

	if (!id || id->kind != CHECK_ID || id->got <= id->acknowledged || id->several_got ||
	    id->got_thread != ending->thread)	/* another thread may still do it */
		return;
	check_report(model, RULE_CM_003, id, NULL, id->made, "made here",
		     "%s: of %u events %u were acknowledged: %s waits for the others, for ever",
		     check_name(id, name), id->got, id->acknowledged, ending->call);
}

static void cm_look_for_unread(struct check_model *model, const struct check_object *object)
{
	const char *event = object->told ? NULL : model->manager(object);
	char name[64];

	if (event)
		check_report(model, RULE_CM_005, object, NULL, object->made, "made here",
			     "%s: %s was never read", check_name(object, name), event);
}

/* Of an id that is destroyed nobody can read it any more; a channel has what is left of ids. */
void rule_cm_unread(struct check_model *model, const struct check_record *end)
{
	const struct check_object *object = check_find(model, end->object);

	if (!model->manager || (end->what == CHECK_END && end->error))
		return;
	if (end->what == CHECK_ENDING && object &&
	    (object->kind == CHECK_ID || object->kind == CHECK_CM_CHANNEL))
		cm_look_for_unread(model, object);
	if (end->what == CHECK_ENDING)
		return;
	for (object = check_next(model, NULL); object; object = check_next(model, object))
		if (object->kind == CHECK_CM_CHANNEL)
			cm_look_for_unread(model, object);
}
