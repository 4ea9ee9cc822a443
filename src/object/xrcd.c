/* SPDX-License-Identifier: BSD-2-Clause */
/* The SRQs of an XRC domain, by number. */
#include "object/xrcd.h"

#include "object/srq.h"

struct srq *xrc_domain_find(struct xrc_domain *domain, uint32_t number)
{
	struct srq *found = NULL;
	struct list *node;

	lock_acquire(&domain->lock);
	list_for_each(node, &domain->srqs) {
		struct srq *srq = list_entry(node, struct srq, domain_node);

		if (srq->number == number)
			found = srq;
	}
	lock_release(&domain->lock);
	return found;
}

void xrc_domain_add(struct xrc_domain *domain, struct srq *srq)
{
	lock_acquire(&domain->lock);
	list_add_tail(&domain->srqs, &srq->domain_node);
	lock_release(&domain->lock);
}

void xrc_domain_remove(struct xrc_domain *domain, struct srq *srq)
{
	lock_acquire(&domain->lock);
	list_remove(&srq->domain_node);
	lock_release(&domain->lock);
}
