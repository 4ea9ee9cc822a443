/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and QPs of a peer process (foreign.h). */
#include "hca/foreign.h"

#include "hca/mapping.h"
#include "object/mr_internal.h"

const struct qp_access *foreign_qp(const struct peer *peer, uint32_t qpn)
{
	const struct rendezvous_card *card = &peer->process.card;
	unsigned i;

	for (i = 0; i < card->slot_count; i++)
		if (card->slot[i] == SLOT_OF_QPN(qpn))
			return peer->qp + i * QP_PER_SLOT + (qpn & (QP_PER_SLOT - 1));
	return NULL;
}

uint8_t *foreign_find(const struct peer *peer, uint32_t key, uint64_t host, uint64_t length)
{
	const struct mr_mapping *mapping = peer->mapping + mr_index_of(key);
	uint64_t bytes, first, skip, pool;

	if (!peer->pool)
		return NULL;
	bytes = atomic_load_explicit(&mapping->bytes, memory_order_acquire);
	first = *(const volatile uint64_t *)&mapping->first;
	skip = host - first;
	if (host < first || skip > bytes || length > bytes - skip)
		return NULL;
	pool = *(const volatile uint64_t *)&mapping->pool + skip;
	return length <= POOL_BYTES && pool <= POOL_BYTES - length ? peer->pool + pool : NULL;
}
