/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBTA 10.6.7, 11.2.8.10..11; ibv_bind_mw(3)). Type 1 is guarded by its
 * protection domain and re-bound at will; type 2 is 2B: guarded by the QP it was bound on, bound
 * once, freed by an invalidation. A window holds its region by entry->windows.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "object/mr_internal.h"

#define WINDOW_RIGHTS \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define WINDOW_CHANGES	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

int mw_alloc(struct mr_table *table, struct pd *pd, enum ibv_mw_type type, struct mw *mw)
{
	struct mr_entry *entry;
	uint32_t index, key = 0;
	int err;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		explain_refused("ibv_alloc_mw", EINVAL,
				"ibv_alloc_mw: invalid type %d: expected IBV_MW_TYPE_1 or "
				"IBV_MW_TYPE_2",
			(int)type);
		return EINVAL;
	}
	lock_acquire(&table->lock);
	err = mr_entry_take(table, &index);
	if (!err) {
		entry = &table->entry[index];
		key = mr_key_make(table, index);
		entry->kind = type == IBV_MW_TYPE_1 ? MR_WINDOW_1 : MR_WINDOW_2;
		entry->pd = pd->number;
		mr_entry_publish(entry, key);
	}
	lock_release(&table->lock);
	if (err) {
		explain("ibv_alloc_mw: all %u keys of the process are in use", MR_TABLE_SIZE - 1);
		return err;
	}
	atomic_fetch_add(&pd->users, 1);
	mw->ibv.pd = &pd->ibv;
	mw->ibv.type = type;
	mw->ibv.handle = index;
	mw->ibv.rkey = key;
	mw->index = index;
	return 0;
}

/* Let go of the region; the entry is dead and drained. */
static void mw_unbind(struct mr_table *table, struct mr_entry *entry) REQUIRES(table->lock)
{
	if (entry->parent)
		atomic_fetch_sub_explicit(&table->entry[entry->parent].windows, 1,
					  memory_order_relaxed);
	entry->parent = entry->qpn = entry->access = 0;
	entry->start = entry->length = entry->host = 0;
}

int mw_free(struct mr_table *table, struct mw *mw)
{
	struct mr_entry *entry = &table->entry[mw->index];

	lock_acquire(&table->lock);
	assert(mr_key_of(entry) && entry->kind != MR_REGION);
	mr_entry_kill(entry);
	mr_entry_drain(entry);
	mw_unbind(table, entry);
	mr_entry_give(table, mw->index);
	lock_release(&table->lock);
	atomic_fetch_sub(&to_pd(mw->ibv.pd)->users, 1);
	return 0;
}

/* Why a bind is refused: a fault for the completion, a reason for the explanation. */
struct mw_refusal {
	enum mr_fault fault;
	const char *reason;
};

#define ALLOWED			((struct mw_refusal){ MR_OK, NULL })
#define REFUSED(fault, reason)	((struct mw_refusal){ fault, reason })

/* Rules about the window itself. */
static struct mw_refusal mw_check_window(const struct mr_entry *window,
				      const struct mr_accessor *accessor,
				      const struct ibv_mw_bind_info *info)
{
	bool second = window->kind == MR_WINDOW_2;

	if (window->pd != accessor->pd)
		return REFUSED(MR_PD, "the window and the QP are of different protection domains");
	/* LOCAL_WRITE means nothing for a window, but programs give it as they do for regions. */
	if (info->mw_access_flags &
	    ~(unsigned)(WINDOW_RIGHTS | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE))
		return REFUSED(MR_ACCESS, "a window takes only remote rights and "
			       "IBV_ACCESS_ZERO_BASED");
	if (!second && info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return REFUSED(MR_ACCESS, "a type 1 window cannot be zero based");
	if (second && window->parent)
		return REFUSED(MR_ACCESS, "a type 2 window that is bound must be invalidated "
			       "before it is bound again");
	if (second && !info->length)
		return REFUSED(MR_BOUNDS, "length 0 does not unbind a type 2 window: use "
			       "IBV_WR_LOCAL_INV");
	return ALLOWED;
}

/* Rules about the region under it. */
static struct mw_refusal check_region(const struct mr_entry *region,
				   const struct mr_accessor *accessor,
				   const struct ibv_mw_bind_info *info)
{
	uint64_t offset = info->addr - region->start;

	if (region->pd != accessor->pd)
		return REFUSED(MR_PD, "the region is of another protection domain");
	if (!(region->access & IBV_ACCESS_MW_BIND))
		return REFUSED(MR_ACCESS, "the region was registered without IBV_ACCESS_MW_BIND");
	if (info->mw_access_flags & WINDOW_CHANGES && !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return REFUSED(MR_ACCESS, "a window that peers may write needs a region with "
			       "IBV_ACCESS_LOCAL_WRITE");
	if (info->addr < region->start || offset > region->length ||
	    info->length > region->length - offset)
		return REFUSED(MR_BOUNDS, "address and length are outside the region");
	return ALLOWED;
}

static struct mw_refusal mw_try_bind(struct mr_table *table, const struct mr_accessor *accessor,
				  const struct mw *mw, uint32_t new_rkey,
				  const struct ibv_mw_bind_info *info) REQUIRES(table->lock)
{
	/* The application may have freed @mw while the bind was queued: nothing of it is trusted. */
	struct mr_entry *window = &table->entry[mw->index % MR_TABLE_SIZE], *region = NULL;
	struct mw_refusal refusal;
	uint32_t window_key;

	if (window->kind != MR_WINDOW_1 && window->kind != MR_WINDOW_2)
		return REFUSED(MR_KEY, "the window was deallocated");
	refusal = mw_check_window(window, accessor, info);
	if (refusal.fault == MR_OK && info->length) {
		region = info->mr ? &table->entry[mr_index_of(info->mr->lkey)] : NULL;
		if (!region || mr_key_of(region) != info->mr->lkey || region->kind != MR_REGION)
			return REFUSED(MR_KEY, "the region is not registered");
		refusal = check_region(region, accessor, info);
	}
	if (refusal.fault != MR_OK)
		return refusal;
	window_key = mr_key_of(window);
	mr_entry_kill(window);
	mr_entry_drain(window);
	mw_unbind(table, window);
	if (region) {
		window->access = info->mw_access_flags & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;
		window->start = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
		window->length = info->length;
		window->host = region->host + (info->addr - region->start);
		window->qpn = window->kind == MR_WINDOW_2 ? accessor->qpn : 0;
		window->parent = mr_index_of(mr_key_of(region));
		atomic_fetch_add_explicit(&region->windows, 1, memory_order_relaxed);
	}
	mr_entry_publish(window, mw_rkey(window_key, new_rkey));
	return ALLOWED;
}

enum mr_fault mw_bind(struct mr_table *table, const struct mr_accessor *accessor, struct mw *mw,
		      uint32_t new_rkey, const struct ibv_mw_bind_info *info)
{
	struct mw_refusal refusal;

	lock_acquire(&table->lock);
	refusal = mw_try_bind(table, accessor, mw, new_rkey, info);
	lock_release(&table->lock);
	if (refusal.fault != MR_OK)
		explain_of(OF(QP, accessor->qpn),
			"ibv_bind_mw: window with rkey 0x%08x on qp 0x%06x, address 0x%llx length "
			"%llu: %s", new_rkey, accessor->qpn, (unsigned long long)info->addr,
			(unsigned long long)info->length, refusal.reason);
	return refusal.fault;
}

enum mr_fault mr_invalidate(struct mr_table *table, const struct mr_accessor *accessor,
			    uint32_t rkey)
{
	struct mr_entry *entry = &table->entry[mr_index_of(rkey)];
	enum mr_fault fault = MR_KEY;

	lock_acquire(&table->lock);
	if (rkey && mr_key_of(entry) == rkey)
		fault = entry->pd != accessor->pd   ? MR_PD :
			entry->kind != MR_WINDOW_2  ? MR_ACCESS :
			!entry->parent		    ? MR_UNBOUND :
			entry->qpn != accessor->qpn ? MR_QP :
						      MR_OK;
	if (fault == MR_OK) {
		mr_entry_kill(entry);
		mr_entry_drain(entry);
		mw_unbind(table, entry);
		mr_entry_publish(entry, rkey);
	}
	lock_release(&table->lock);
	if (fault != MR_OK && explain_enabled) {
		char line[512] = "the key is of a region or a type 1 window: only type 2 windows can be "
			"invalidated";

		if (fault != MR_ACCESS)
			mr_explain(table, accessor, rkey, 0, 0, 0, fault, line, sizeof(line));
		explain_of(OF(QP, accessor->qpn),
			"IBV_WR_LOCAL_INV or IBV_WR_SEND_WITH_INV: qp 0x%06x rkey 0x%08x: %s",
				accessor->qpn, rkey, line);
	}
	return fault;
}
