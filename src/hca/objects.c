/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, regions, windows and address handles of a context (device memory: dm.c). Their rules are in
 * object/; here they are allocated, listed (so that closing the context finds them) and counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hca/internal.h"
#include "platform/memory.h"

static void enlist(struct hca_context *context, struct list *head, struct list *node)
{
	lock_acquire(&context->hca->objects);
	list_add_tail(head, node);
	lock_release(&context->hca->objects);
}

static void delist(struct hca_context *context, struct list *node)
{
	lock_acquire(&context->hca->objects);
	list_remove(node);
	lock_release(&context->hca->objects);
}

uint32_t hca_next_number(struct hca *hca)
{
	uint32_t number;

	lock_acquire(&hca->objects);
	number = ++hca->next_number;
	if (!number)
		number = ++hca->next_number;
	lock_release(&hca->objects);
	return number;
}

int hca_alloc_pd(struct hca_context *context, struct pd **allocated)
{
	struct pd *pd;

	if (context_is_dead(context, "alloc_pd"))
		return EIO;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return ENOMEM;
	pd->number = hca_next_number(context->hca);
	pd->ibv.handle = pd->number;
	enlist(context, &context->pds, &pd->node);
	*allocated = pd;
	return 0;
}

int hca_dealloc_pd(struct hca_context *context, struct pd *pd)
{
	uint32_t users = atomic_load(&pd->users);

	if (context_is_dead(context, "dealloc_pd"))
		return EIO;
	if (users) {
		explain("dealloc_pd: pd %u is in use by %u objects (MRs, MWs, QPs, SRQs, AHs): destroy "
			"them first", pd->number, users);
		return EBUSY;
	}
	delist(context, &pd->node);
	free(pd);
	return 0;
}

/* As Linux, which pins the pages for writing where the region may be written to: EFAULT. */
static int check_memory(const void *address, size_t length, unsigned access)
{
	bool writable = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_ATOMIC);

	if ((access & IBV_ACCESS_ON_DEMAND) || (uintptr_t)address + length < (uintptr_t)address)
		return 0;
	switch (memory_check(address, length, writable)) {
	case EFAULT:
		explain("reg_mr: [%p, +%zu) is not all mapped memory of this process: allocate it first "
			"(or use IBV_ACCESS_ON_DEMAND)", address, length);
		return EFAULT;
	case EACCES:
		explain("reg_mr: [%p, +%zu) is not all %s: map it so%s", address, length,
			writable ? "readable and writable" : "readable",
			writable ? ", or leave out IBV_ACCESS_LOCAL_WRITE" : "");
		return EFAULT;
	default:
		return 0;
	}
}

int hca_reg_mr(struct hca_context *context, struct pd *pd, void *address, size_t length,
	       uint64_t iova, unsigned access, struct mr **registered)
{
	struct mr *mr;
	int err;

	if (context_is_dead(context, "reg_mr"))
		return EIO;
	err = check_memory(address, length, access);
	if (err)
		return err;
	fault_handler_install();	/* the application may have installed its own since */
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	err = mr_register(&context->hca->mrs, pd, address, length, iova, access, mr);
	if (err) {
		free(mr);
		return err;
	}
	local_add_region(&context->hca->local, mr);
	enlist(context, &context->mrs, &mr->node);
	*registered = mr;
	return 0;
}

int hca_rereg_mr(struct hca_context *context, struct mr *mr, int flags, struct pd *pd,
		 void *address, size_t length, unsigned access)
{
	int err;

	if (context_is_dead(context, "rereg_mr"))
		return EIO;
	if (mr->dm) {
		explain("rereg_mr: lkey 0x%08x is of device memory, which is registered once: deregister it "
			"and use ibv_reg_dm_mr", mr->ibv.lkey);
		return EINVAL;
	}
	err = mr_reregister(&context->hca->mrs, mr, flags, pd, address, length, access);
	if (!err && (flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		local_add_region(&context->hca->local, mr);
	return err;
}

int hca_dereg_mr(struct hca_context *context, struct mr *mr)
{
	int err;

	if (context_is_dead(context, "dereg_mr"))
		return EIO;
	err = mr_deregister(&context->hca->mrs, mr);
	if (err)
		return err;
	delist(context, &mr->node);
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->regions, 1);
	free(mr);
	return 0;
}

int hca_alloc_mw(struct hca_context *context, struct pd *pd, enum ibv_mw_type type,
		 struct mw **allocated)
{
	struct mw *mw;
	int err;

	if (context_is_dead(context, "alloc_mw"))
		return EIO;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return ENOMEM;
	err = mw_alloc(&context->hca->mrs, pd, type, mw);
	if (err) {
		free(mw);
		return err;
	}
	enlist(context, &context->mws, &mw->node);
	*allocated = mw;
	return 0;
}

int hca_dealloc_mw(struct hca_context *context, struct mw *mw)
{
	int err;

	if (context_is_dead(context, "dealloc_mw"))
		return EIO;
	err = mw_free(&context->hca->mrs, mw);
	if (err)
		return err;
	delist(context, &mw->node);
	free(mw);
	return 0;
}

int hca_create_ah(struct hca_context *context, struct pd *pd, const struct ibv_ah_attr *attr,
		  struct ah **created)
{
	struct ah *ah;
	int err;

	if (context_is_dead(context, "create_ah"))
		return EIO;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return ENOMEM;
	list_init(&ah->node);
	atomic_init(&ah->references, 1);
	ah->attr = *attr;
	err = route_resolve(&context->hca->net, context->port, attr, "create_ah", &ah->av);
	if (err) {
		free(ah);
		return err;
	}
	enlist(context, &context->ahs, &ah->node);
	atomic_fetch_add(&pd->users, 1);
	ah->ibv.pd = &pd->ibv;
	*created = ah;
	return 0;
}

int hca_destroy_ah(struct hca_context *context, struct ah *ah)
{
	if (context_is_dead(context, "destroy_ah"))
		return EIO;
	delist(context, &ah->node);
	atomic_fetch_sub(&to_pd(ah->ibv.pd)->users, 1);
	ah_put(ah);
	return 0;
}

/*
 * Source and destination of a received UD message: a GRH for IPv6; for IPv4 the IP header lies in
 * the last 20 of the 40 bytes (annex A17.4.5.2), told apart by the version field of the first.
 */
static void grh_addresses(const struct ibv_grh *grh, uint8_t source[16], uint8_t destination[16])
{
	const uint8_t *bytes = (const uint8_t *)grh;

	if (bytes[0] >> 4 == 6) {
		memcpy(source, grh->sgid.raw, 16);
		memcpy(destination, grh->dgid.raw, 16);
		return;
	}
	memset(source, 0, 16);
	source[10] = source[11] = 0xff;
	memcpy(destination, source, 16);
	memcpy(source + 12, bytes + 20 + 12, 4);
	memcpy(destination + 12, bytes + 20 + 16, 4);
}

/* Without the ECN bits: congestion that one packet met is no property of the answers. */
static uint8_t grh_traffic_class(const struct ibv_grh *grh)
{
	const uint8_t *bytes = (const uint8_t *)grh;
	uint8_t whole = bytes[0] >> 4 == 6 ? (uint8_t)(bytes[0] << 4 | bytes[1] >> 4) : bytes[21];

	return whole & (uint8_t)~ECN_BITS;
}

int hca_ah_attr_from_wc(struct hca_context *context, uint32_t port, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct hca *hca = context->hca;
	uint8_t source[16], destination[16];
	uint32_t index;

	if (!(wc->wc_flags & IBV_WC_GRH)) {
		explain("init_ah_from_wc: the completion has no GRH (wc_flags lacks IBV_WC_GRH): only UD "
			"receives have one");
		return EINVAL;
	}
	grh_addresses(grh, source, destination);
	lock_acquire(&hca->net.lock);
	index = gid_table_find(context->port, destination);
	lock_release(&hca->net.lock);
	if (index == GID_TABLE_SIZE) {
		/* Sent to a multicast group: answer from the first GID of the family. */
		struct hca_gid gid;

		for (index = 1; index < GID_TABLE_SIZE; index++)
			if (!hca_query_gid(context, port, index, &gid) &&
			    ip_addr_is_ipv4(gid.gid.raw) == ip_addr_is_ipv4(source))
				break;
	}
	if (index == GID_TABLE_SIZE) {
		explain("init_ah_from_wc: the message came to an address that is not in the GID table of "
			"%s (any more)", context->port->name);
		return EINVAL;
	}
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = (uint8_t)port;
	/* wc->sl is the kind of packet (transport/unreliable.c), not a service level: sl stays 0. */
	memcpy(attr->grh.dgid.raw, source, 16);
	attr->grh.traffic_class = grh_traffic_class(grh);
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = 0xff;
	return 0;
}
