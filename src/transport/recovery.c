/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool of what QPs that have met loss know more than others (recovery.h). */
#include "transport/recovery.h"

#include <stdlib.h>

#include "transport/early.h"

struct recovery_pool *recovery_pool_new(void)
{
	struct recovery_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	lock_init(&pool->lock);
	pool->recovery = calloc(RECOVERY_QPS, sizeof(struct recovery));
	pool->place = calloc(EARLY_PLACES, sizeof(struct early_place));
	if (pool->recovery && pool->place)
		return pool;
	recovery_pool_free(pool);
	return NULL;
}

void recovery_pool_free(struct recovery_pool *pool)
{
	if (!pool)
		return;
	free(pool->recovery);
	free(pool->place);
	lock_destroy(&pool->lock);
	free(pool);
}

struct recovery *recovery_need(struct qp *qp)
{
	struct recovery_pool *pool = qp->transport->recoveries;
	uint16_t number;

	if (!pool || qp->requester.recovery)
		return recovery_of(qp);
	lock_acquire(&pool->lock);
	number = pool->recoveries.first;
	if (number)
		pool->recoveries.first = pool->recovery[number - 1].next;
	else if (pool->recoveries.used < RECOVERY_QPS)
		number = ++pool->recoveries.used;
	lock_release(&pool->lock);
	if (!number)
		return NULL;
	pool->recovery[number - 1] = (struct recovery){ .next = 0 };
	qp->requester.recovery = number;
	return recovery_of(qp);
}

void recovery_end(struct qp *qp)
{
	struct recovery_pool *pool = qp->transport->recoveries;
	uint16_t number = qp->requester.recovery;

	if (!number)
		return;
	early_drop(qp);
	qp->requester.recovery = 0;
	lock_acquire(&pool->lock);
	pool->recovery[number - 1].next = pool->recoveries.first;
	pool->recoveries.first = number;
	lock_release(&pool->lock);
}

uint16_t recovery_take_place(struct recovery_pool *pool)
{
	uint16_t number;

	lock_acquire(&pool->lock);
	number = pool->places.first;
	if (number)
		pool->places.first = pool->place[number - 1].next;
	else if (pool->places.used < EARLY_PLACES)
		number = ++pool->places.used;
	lock_release(&pool->lock);
	return number;
}

void recovery_give_places(struct recovery_pool *pool, uint16_t first, uint16_t last)
{
	lock_acquire(&pool->lock);
	pool->place[last - 1].next = pool->places.first;
	pool->places.first = first;
	lock_release(&pool->lock);
}
