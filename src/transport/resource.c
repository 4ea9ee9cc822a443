/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responder resources (IBTA 9.7.5.1.8): the state of the last max_dest_rd_atomic READs and atomics, each under a
 * number. Room for them, and which is next; replay.c answers from them.
 */
#include <errno.h>
#include <stdlib.h>

#include "transport/internal.h"

struct resource *resource_slot(struct responder *responder, uint32_t number)
{
	return &responder->resource[number % responder->resource_count];
}

int transport_reserve(struct transport_room *room, uint32_t reads)
{
	uint32_t count = RD_ATOMIC_FEW;
	struct resource *resource = NULL;

	while (count < reads)
		count *= 2;	/* powers of two: numbers wrap */
	if (count > RD_ATOMIC_FEW) {
		resource = calloc(count, sizeof(*resource));
		if (!resource)
			return ENOMEM;
	}
	*room = (struct transport_room){ .resource = resource, .count = count };
	return 0;
}

void transport_install(struct qp *qp, struct transport_room *room)
{
	struct responder *responder = &qp->responder;
	struct resource *old = responder->resource;
	uint32_t i, oldest = responder->resource_next - responder->resource_count;

	if (room->count <= responder->resource_count)
		return;
	/* Each keeps its number, so requests in progress stay in order. */
	for (i = 0; i < responder->resource_count; i++)
		room->resource[(oldest + i) % room->count] = *resource_slot(responder, oldest + i);
	responder->resource = room->resource;
	responder->resource_count = room->count;
	room->resource = old == responder->few ? NULL : old;
}

void transport_unreserve(struct transport_room *room)
{
	free(room->resource);
	room->resource = NULL;
}

void resources_free(struct responder *responder)
{
	if (responder->resource != responder->few)
		free(responder->resource);
	responder->resource = responder->few;
	responder->resource_count = RD_ATOMIC_FEW;
}

struct resource *resource_new(struct qp *qp)
{
	struct responder *responder = &qp->responder;
	struct resource *resource = resource_slot(responder, responder->resource_next);

	if (responder->unanswered_count >= qp->attr.max_dest_rd_atomic)
		return NULL;
	if (!resource->active)
		return resource;
	/* A repeated answer, which a requester that sends new requests no longer needs. */
	if (!resource->answered)
		return NULL;
	resource->active = false;
	responder->active_count--;
	return resource;
}

static uint32_t resource_number(const struct responder *responder, const struct resource *resource)
{
	uint32_t newest = responder->resource_next - 1;
	uint32_t index = (uint32_t)(resource - responder->resource);

	return newest - ((newest - index) & (responder->resource_count - 1));
}

void resource_activate(struct qp *qp, struct resource *resource, uint32_t psn, uint32_t end)
{
	struct responder *responder = &qp->responder;
	uint32_t number = resource_number(responder, resource);

	if (!responder->active_count || (int32_t)(number - responder->first_active) < 0)
		responder->first_active = number;
	if (!resource->active) {
		responder->active_count++;
		responder->unanswered_count += !resource->answered;
	}
	resource->active = true;
	resource->send_psn = resource->reply_first_psn = psn;
	resource->reply_end = end;
}
