/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gather and scatter: between packets and the memory that lists of SGEs name. The keys are
 * checked at each packet, so that a region that dies in the middle of a message is noticed, and
 * a retransmission reads the memory as it is then (IBTA allows both).
 */
#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "transport/internal.h"

uint64_t sge_total(const struct ibv_sge *sge, uint32_t sge_count)
{
	uint64_t total = 0;
	uint32_t i;

	for (i = 0; i < sge_count; i++)
		total += sge[i].length;
	return total;
}

static void sge_refuse(struct call *call, uint32_t key, unsigned need, uint64_t address,
		       uint32_t bytes, enum mr_fault fault)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);

	if (explain_enabled)
		mr_explain(call->qp->transport->mrs, &accessor, key, need, address, bytes, fault,
			   call->why, sizeof(call->why));
}

/* What is at the other end of a list: memory, or a part of a message that is to be fetched, or nothing yet. */
struct other {
	uint8_t *data;			/* or NULL */
	uint64_t done;			/* bytes of it */
	struct message_fetch *fetch;	/* or NULL */
};

static int copy_other(void *host, struct other *other, uint32_t bytes, unsigned need, bool last)
{
	if (!other->data)
		return 0;
	if (!need)
		return copy_user(other->data + other->done, host, bytes);
	if (last)
		return copy_user_ordered(host, other->data + other->done, bytes);
	return copy_user(host, other->data + other->done, bytes);
}

/* False: more pieces than any list has. */
static bool fetch_add(struct message_fetch *fetch, struct mr_access *access, uint32_t bytes)
{
	if (fetch->pieces == MESSAGE_PIECES_MAX) {
		mr_access_end(access);
		return false;
	}
	fetch->piece[fetch->pieces] = (struct iovec){ .iov_base = access->host, .iov_len = bytes };
	fetch->access[fetch->pieces++] = *access;
	return true;
}

void fetch_release(struct message_fetch *fetch)
{
	while (fetch->pieces)
		mr_access_end(&fetch->access[--fetch->pieces]);
}

/* One piece of one SGE, to the other end (@need 0) or from it. */
static enum sge_result sge_copy_piece(struct call *call, const struct ibv_sge *sge, uint32_t skip,
				      struct other *other, uint32_t bytes, unsigned need, bool last)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	uint64_t address = sge->addr + skip;
	struct mr_access access;
	enum mr_fault fault;
	int err;

	fault = mr_access_begin(call->qp->transport->mrs, &accessor, sge->lkey, need, address,
				bytes, &access);
	if (fault != MR_OK) {
		sge_refuse(call, sge->lkey, need, address, bytes, fault);
		return SGE_PROTECTION;
	}
	if (other->fetch)
		return fetch_add(other->fetch, &access, bytes) ? SGE_OK : SGE_PROTECTION;
	err = copy_other(access.host, other, bytes, need, last);
	mr_access_end(&access);
	if (!err)
		return SGE_OK;
	because(call, "memory at 0x%llx (%u bytes, lkey 0x%08x) is registered but no longer mapped",
		(unsigned long long)address, bytes, sge->lkey);
	return SGE_PROTECTION;
}

static enum sge_result sge_walk(struct call *call, const struct ibv_sge *sge, uint32_t sge_count,
				uint64_t offset, struct other *other, uint32_t bytes, unsigned need,
				bool last)
{
	uint32_t i;

	for (i = 0; bytes && i < sge_count; i++) {
		uint32_t piece;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		piece = sge[i].length - (uint32_t)offset;
		if (piece > bytes)
			piece = bytes;
		if (sge_copy_piece(call, &sge[i], (uint32_t)offset, other, piece, need,
				   last && piece == bytes))
			return SGE_PROTECTION;
		other->done += piece;
		bytes -= piece;
		offset = 0;
	}
	return SGE_OK;
}

enum sge_result sge_gather(struct call *call, const struct send_wqe *wqe, uint64_t offset,
			   uint8_t *out, uint32_t bytes)
{
	struct other other = { .data = out };

	if (!bytes)
		return SGE_OK;
	if (wqe->flags & IBV_SEND_INLINE) {
		memcpy(out, wqe->inline_data + offset, bytes);
		return SGE_OK;
	}
	return sge_walk(call, wqe->sge, wqe->sge_count, offset, &other, bytes, 0, false);
}

enum sge_result sge_scatter(struct call *call, const struct ibv_sge *sge, uint32_t sge_count,
			    uint64_t offset, const uint8_t *data, uint32_t bytes, bool last)
{
	struct other other = { .data = (uint8_t *)(uintptr_t)data };

	return sge_walk(call, sge, sge_count, offset, &other, bytes, IBV_ACCESS_LOCAL_WRITE, last);
}

enum sge_result sge_check(struct call *call, const struct ibv_sge *sge, uint32_t sge_count,
			  uint32_t bytes)
{
	struct other none = { .data = NULL };

	return sge_walk(call, sge, sge_count, 0, &none, bytes, IBV_ACCESS_LOCAL_WRITE, false);
}

enum sge_result sge_locate(struct call *call, const struct ibv_sge *sge, uint32_t sge_count,
			   uint64_t offset, uint32_t bytes, struct message_fetch *fetch)
{
	struct other other = { .fetch = fetch };

	return sge_walk(call, sge, sge_count, offset, &other, bytes, IBV_ACCESS_LOCAL_WRITE, false);
}
