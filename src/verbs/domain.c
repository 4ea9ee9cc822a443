/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains (ibv_alloc_td(3), ibv_alloc_parent_domain(3)). A parent domain
 * is accepted in place of its protection domain, and counts as a user of it and of its thread
 * domain. The rings of what is created in it are in memory of its allocators
 * (object/ring_memory.h). With a thread domain, cq_ex polling and ibv_wr_*() take no locks; queue
 * pairs keep theirs, since other threads of ours send for them.
 *
 * A struct pd numbered 0 is a parent domain: real ones are numbered from 1 (object/pd.h).
 */
#include <stdlib.h>

#include "verbs/check.h"
#include "verbs/verbs.h"

struct td {
	struct ibv_td ibv;	/* first */
	struct list node;	/* in context->thread_domains */
	_Atomic uint32_t users;	/* parent domains */
};

struct parent_domain {
	struct pd base;		/* first; number 0 */
	struct pd *pd;
	struct td *td;		/* or NULL */
	struct ring_allocator allocator;	/* counts rings, also without alloc */
};

static void domain_list(struct context *context, struct list *head, struct list *node)
{
	lock_acquire(&context->lock);
	list_add_tail(head, node);
	lock_release(&context->lock);
}

static void domain_unlist(struct context *context, struct list *node)
{
	lock_acquire(&context->lock);
	list_remove(node);
	lock_release(&context->lock);
}

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	CALL();
	struct td *td;

	if (!context || !attr)
		return fail(refuse_null("ibv_alloc_td", context ? "attr" : "context"));
	if (attr->comp_mask) {
		explain("ibv_alloc_td: comp_mask 0x%x must be 0",
			attr->comp_mask);
		return fail(EINVAL);
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return fail(ENOMEM);
	td->ibv.context = context;
	domain_list(to_context(context), &to_context(context)->thread_domains, &td->node);
	verbs_checked_made(TD, "ibv_alloc_td", td, .context = CHECK_HANDLE(context));
	return &td->ibv;
}

int td_dealloc(struct ibv_td *ibv)
{
	CALL();
	struct td *td = (struct td *)ibv;

	if (!ibv)
		return refuse_null("ibv_dealloc_td", "td");
	verbs_checked_ending(TD, "ibv_dealloc_td", td);
	if (atomic_load(&td->users)) {
		verbs_checked_ended(TD, "ibv_dealloc_td", td, EBUSY);
		explain_refused("ibv_dealloc_td", EBUSY,
				"ibv_dealloc_td: a parent domain uses the td: deallocate that first");
		return EBUSY;
	}
	verbs_checked_ended(TD, "ibv_dealloc_td", td, 0);
	domain_unlist(to_context(ibv->context), &td->node);
	free(td);
	return 0;
}

struct ibv_pd *parent_domain_alloc(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr)
{
	CALL();
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | NEWER_PARENT_DOMAIN_SHARED_ALLOC;
	struct parent_domain *domain;
	struct pd *pd;
	int err;

	if (!context || !attr || !attr->pd)
		return fail(refuse_null("ibv_alloc_parent_domain",
					!context ? "context" : attr ? "pd" : "attr"));
	if (attr->comp_mask & ~known) {
		explain("ibv_alloc_parent_domain: comp_mask 0x%x has unknown bits",
			attr->comp_mask);
		return fail(EINVAL);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS && (!attr->alloc || !attr->free)) {
		explain("ibv_alloc_parent_domain: IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS needs "
				"both alloc and free");
		return fail(EINVAL);
	}
	if (domain_is_parent(attr->pd)) {
		explain("ibv_alloc_parent_domain: the pd is a parent domain itself");
		return fail(EINVAL);
	}
	err = domain_pd("ibv_alloc_parent_domain", attr->pd, &pd);
	if (err)
		return fail(err);
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return fail(ENOMEM);
	domain->pd = pd;
	domain->allocator.pd = &domain->base.ibv;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		domain->allocator.alloc = attr->alloc;
		domain->allocator.free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		domain->allocator.context = attr->pd_context;
	domain->td = (struct td *)attr->td;
	domain->base.ibv.context = context;
	domain->base.ibv.handle = attr->pd->handle;
	atomic_fetch_add(&domain->pd->users, 1);
	if (domain->td)
		atomic_fetch_add(&domain->td->users, 1);
	domain_list(to_context(context), &to_context(context)->parent_domains, &domain->base.handle.node);
	verbs_checked_made(DOMAIN, "ibv_alloc_parent_domain", domain,
			   .context = CHECK_HANDLE(context), .pd = CHECK_HANDLE(pd),
			   .other = CHECK_HANDLE(domain->td));
	return &domain->base.ibv;
}

bool domain_is_parent(const struct ibv_pd *ibv)
{
	return ((const struct pd *)ibv)->number == 0;
}

struct ring_allocator *domain_allocator(struct ibv_pd *ibv)
{
	struct parent_domain *domain = (struct parent_domain *)ibv;

	return ibv && domain_is_parent(ibv) ? &domain->allocator : NULL;
}

bool domain_is_of_one_thread(const struct ibv_pd *ibv)
{
	return domain_is_parent(ibv) && ((const struct parent_domain *)ibv)->td;
}

int domain_pd(const char *call, struct ibv_pd *ibv, struct pd **pd)
{
	struct pd *handle = to_pd(ibv);

	return hca_pd_of(call, domain_is_parent(ibv) ? ((struct parent_domain *)handle)->pd : handle, pd);
}

int parent_domain_dealloc(struct ibv_pd *ibv)
{
	struct parent_domain *domain = (struct parent_domain *)ibv;
	uint32_t rings = atomic_load(&domain->allocator.users);

	if (rings) {
		explain_refused("ibv_dealloc_pd", EBUSY,
				"ibv_dealloc_pd: QPs, SRQs and CQs of the parent domain still have "
				"%u rings: destroy those first",
			rings);
		return EBUSY;
	}
	domain_unlist(to_context(ibv->context), &domain->base.handle.node);
	atomic_fetch_sub(&domain->pd->users, 1);
	if (domain->td)
		atomic_fetch_sub(&domain->td->users, 1);
	free(domain);
	return 0;
}

void domains_free(struct context *context)
{
	struct list *node;

	while ((node = list_pop(&context->parent_domains)))
		free(list_entry(node, struct parent_domain, base.handle.node));
	while ((node = list_pop(&context->thread_domains)))
		free(list_entry(node, struct td, node));
}
