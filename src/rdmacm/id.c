/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_id(3), rdma_destroy_id(3), rdma_migrate_id(3). */
#include <stdlib.h>

#include "base/zeroed.h"
#include "rdmacm/rdmacm.h"

struct id *id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space space,
		  enum ibv_qp_type qp_type)
{
	struct id *id = zeroed_new(sizeof(*id));

	if (!id)
		return NULL;
	id->synchronous = !channel;
	id->public.channel = channel ? channel : rdma_create_event_channel();
	if (!id->public.channel) {
		free(id);
		return NULL;
	}
	id->public.context = context;
	id->public.ps = space;
	id->public.qp_type = qp_type;
	lock_init(&id->lock);
	list_init(&id->multicasts);
	return id;
}

void id_drop_event(struct id *id)
{
	if (!id->public.event)
		return;
	rdma_ack_cm_event(id->public.event);
	id->public.event = NULL;
}

void id_free(struct id *id)
{
	id_drop_event(id);
	if (id->endpoint)
		endpoint_destroy(id->endpoint);
	if (id->synchronous)
		rdma_destroy_event_channel(id->public.channel);
	multicasts_free(id);
	if (id->device)
		cm_device_put(id->device);
	free(id->public.route.path_rec);
	free(id->connect_data);
	free(id->qp_template);
	lock_alias(&id->lock);		/* nobody else knows the id any more */
	rdma_freeaddrinfo(id->found);
	lock_destroy(&id->lock);
	free(id);
}

int id_create(struct rdma_event_channel *channel, struct rdma_cm_id **created, void *context,
	      enum rdma_port_space space, enum ibv_qp_type qp_type)
{
	struct id *id;
	int err;

	if (!created)
		return refuse(EINVAL, "rdma_create_id: no place for the id (null pointer)");
	id = id_new(channel, context, space, qp_type);
	if (!id)
		return -1;
	err = endpoint_create(cm_channel_of(id->public.channel), space, qp_type, id,
			      &id->endpoint);
	if (err) {
		id->endpoint = NULL;
		id_free(id);
		return result(err);
	}
	*created = &id->public;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	CALL();
	bool datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
	struct traced traced;
	int rc;

	traced_begin(&traced, NULL, NULL);
	rc = id_create(channel, id, context, ps, datagram ? IBV_QPT_UD : IBV_QPT_RC);
	if (!rc && check_is_on())
		check_take(&(struct check_record){ .what = CHECK_MADE, .kind = CHECK_ID,
						   .call = "rdma_create_id",
						   .object = (uintptr_t)*id });
	traced.id = rc ? NULL : *id;
	return traced_end(&traced, "rdma_create_id", rc);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	CALL();
	struct traced traced;

	if (!id)
		return refuse(EINVAL, "rdma_destroy_id: no id (null pointer)");
	traced_begin(&traced, id, NULL);
	if (check_is_on())
		check_take(&(struct check_record){ .what = CHECK_ENDING, .kind = CHECK_ID,
						   .call = "rdma_destroy_id",
						   .object = (uintptr_t)id });
	if (check_is_on())	/* before the memory may be another id's */
		check_take(&(struct check_record){ .what = CHECK_ENDED, .kind = CHECK_ID,
						   .call = "rdma_destroy_id",
						   .object = (uintptr_t)id });
	id_free(to_id(id));
	return traced_end(&traced, "rdma_destroy_id", 0);
}

int rdma_migrate_id(struct rdma_cm_id *public, struct rdma_event_channel *channel)
{
	CALL();
	struct id *id = to_id(public);
	bool synchronous = !channel;
	uint32_t taken;
	int err;

	if (!id)
		return refuse(EINVAL, "rdma_migrate_id: no id (null pointer)");
	if (id->synchronous && synchronous)
		return refuse(EINVAL, "rdma_migrate_id: the id is synchronous already");
	if (synchronous)
		channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	err = endpoint_migrate(id->endpoint, cm_channel_of(channel), &taken);
	if (err) {
		if (synchronous)
			rdma_destroy_event_channel(channel);
		return result(err);
	}
	if (id->synchronous) {
		id_drop_event(id);
		rdma_destroy_event_channel(id->public.channel);
	}
	id->public.channel = channel;
	id->synchronous = synchronous;
	/* Once it returns, no thread is still at an event that came by the old channel. */
	endpoint_await_acks(id->endpoint, taken);
	return 0;
}
