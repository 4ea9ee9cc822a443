/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3). A join is finished
 * when its event is taken: then the QP of the id is attached to the group.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rdmacm.h"

struct multicast {
	struct list node;		/* in id->multicasts, under its lock */
	void *context;			/* the application's */
	bool send_only;
	bool attached;
	struct sockaddr_storage group;
};

/* The join that @wanted stands for, if it is still there. */
static struct multicast *id_multicast_find(struct id *id, const void *wanted) REQUIRES(id->lock)
{
	struct list *node;

	list_for_each(node, &id->multicasts)
		if (list_entry(node, struct multicast, node) == wanted)
			return list_entry(node, struct multicast, node);
	return NULL;
}

/* The application left the group while the event waited: nothing is to be known of it. */
bool multicast_joined(struct id *id, struct event *event)
{
	struct rdma_ud_param *ud = &event->public.param.ud;
	struct multicast *multicast;
	int err = 0;

	lock_acquire(&id->lock);
	multicast = id_multicast_find(id, event->taken.multicast);
	if (multicast) {
		*ud = event->taken.ud;
		ud->private_data = multicast->context;
		if (event->taken.kind == RDMA_CM_EVENT_MULTICAST_JOIN && id->public.qp &&
		    !multicast->send_only) {
			err = ibv_attach_mcast(id->public.qp, &ud->ah_attr.grh.dgid,
					       ud->ah_attr.dlid);
			multicast->attached = !err;
		}
	}
	lock_release(&id->lock);
	if (err) {
		event->public.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->public.status = -err;
	}
	return multicast;
}

static int id_multicast_join(struct rdma_cm_id *public, const struct sockaddr *group,
			     uint16_t flags, void *context)
{
	struct id *id = to_id(public);
	socklen_t bytes = address_bytes(group);
	struct multicast *multicast;
	int err;

	if (!id || !bytes)
		return refuse(EINVAL, "rdma_join_multicast: %s", id ?
			      "the group address is not of IPv4, IPv6 or AF_IB" :
			      "no id (null pointer)");
	multicast = calloc(1, sizeof(*multicast));
	if (!multicast)
		return -1;
	multicast->context = context;
	multicast->send_only = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	memcpy(&multicast->group, group, bytes);
	lock_acquire(&id->lock);
	list_add_tail(&id->multicasts, &multicast->node);
	lock_release(&id->lock);
	err = endpoint_join(id->endpoint, group, flags, multicast);
	if (err) {
		lock_acquire(&id->lock);
		list_remove(&multicast->node);
		lock_release(&id->lock);
		free(multicast);
		return result(err);
	}
	return id_complete(id);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	CALL();

	return id_multicast_join(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	CALL();
	const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (!attr)
		return refuse(EINVAL, "rdma_join_multicast_ex: no attributes (null pointer)");
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return refuse(ENOTSUP, "rdma_join_multicast_ex: comp_mask 0x%x has unknown bits",
			      attr->comp_mask);
	if (attr->comp_mask != needed || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return refuse(EINVAL, "rdma_join_multicast_ex: invalid comp_mask 0x%x or "
			      "join_flags %u: expected both address and join_flags, and a known "
			      "flag", attr->comp_mask, attr->join_flags);
	return id_multicast_join(id, attr->addr, attr->join_flags, context);
}

/* The newest join of this group, out of the list; NULL: none. */
static struct multicast *take_group(struct id *id, const struct sockaddr *group, socklen_t bytes)
{
	struct multicast *found = NULL;
	struct list *node;

	lock_acquire(&id->lock);
	list_for_each(node, &id->multicasts) {
		struct multicast *multicast = list_entry(node, struct multicast, node);

		if (!memcmp(&multicast->group, group, bytes))
			found = multicast;
	}
	if (found)
		list_remove(&found->node);
	lock_release(&id->lock);
	return found;
}

int rdma_leave_multicast(struct rdma_cm_id *public, struct sockaddr *addr)
{
	CALL();
	struct id *id = to_id(public);
	socklen_t bytes = address_bytes(addr);
	struct multicast *multicast;
	union ibv_gid gid;
	uint16_t lid;
	int err;

	if (!id || !bytes)
		return refuse(EINVAL, "rdma_leave_multicast: %s", id ?
			      "the group address is not of IPv4, IPv6 or AF_IB" :
			      "no id (null pointer)");
	multicast = take_group(id, addr, bytes);
	if (!multicast)
		return refuse(EADDRNOTAVAIL, "rdma_leave_multicast: the id did not join this group");
	err = endpoint_leave(id->endpoint, addr, &gid, &lid);
	if (!err && multicast->attached && public->qp)
		ibv_detach_mcast(public->qp, &gid, lid);
	free(multicast);
	return result(err);
}

void multicasts_free(struct id *id)
{
	struct list *node;

	while ((node = list_pop(&id->multicasts)))
		free(list_entry(node, struct multicast, node));
}
