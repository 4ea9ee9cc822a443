/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (IBTA annex A14; ibv_open_xrcd(3)): requests to an XRC_RECV QP of a domain may name any
 * XRC SRQ of it. A domain is of one device and one inode; each open of it has a handle.
 */
#ifndef VERBATIM_OBJECT_XRCD_H
#define VERBATIM_OBJECT_XRCD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/lock.h"

struct srq;

struct xrc_domain {
	struct lock lock;
	struct list srqs GUARDED_BY_MEMBER(lock);	/* struct srq, by domain_node */
	const void *port;		/* of the device */
	bool has_inode;			/* else it is of one handle alone */
	dev_t device;			/* of the inode */
	ino_t inode;
	uint32_t handles;		/* under hca.objects */
	struct list node;		/* in hca.xrc_domains, under hca.objects */
};

/* What ibv_open_xrcd() gives. */
struct xrcd {
	struct ibv_xrcd ibv;		/* first */
	struct xrc_domain *domain;
	_Atomic uint32_t users;		/* QPs and SRQs: close gives EBUSY unless 0 */
	struct list node;		/* in its context's objects */
};

static inline struct xrcd *to_xrcd(struct ibv_xrcd *ibv)
{
	return (struct xrcd *)ibv;
}

/*
 * The SRQ of that number, or NULL. The caller holds the lock of an XRC_RECV QP of the domain: the SRQ stays
 * until the QP has been told to forget it (hca_destroy_srq()).
 */
struct srq *xrc_domain_find(struct xrc_domain *domain, uint32_t number);
void xrc_domain_add(struct xrc_domain *domain, struct srq *srq);
void xrc_domain_remove(struct xrc_domain *domain, struct srq *srq);

#endif
