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
	pool->congestion = calloc(CONGESTION_QPS, sizeof(struct congestion));
	pool->place = calloc(EARLY_PLACES, sizeof(struct early_place));
	if (!pool->recovery || !pool->congestion || !pool->place) {
		recovery_pool_free(pool);
		return NULL;
	}
	pool->recoveries = (struct recovery_free){ .size = RECOVERY_QPS, .next = &pool->recovery->next,
						   .stride = sizeof(struct recovery) };
	pool->congestions = (struct recovery_free){ .size = CONGESTION_QPS, .next = &pool->congestion->next,
						    .stride = sizeof(struct congestion) };
	pool->places = (struct recovery_free){ .size = EARLY_PLACES, .next = &pool->place->next,
					       .stride = sizeof(struct early_place) };
	return pool;
}

void recovery_pool_free(struct recovery_pool *pool)
{
	if (!pool)
		return;
	free(pool->recovery);
	free(pool->congestion);
	free(pool->place);
	lock_destroy(&pool->lock);
	free(pool);
}

static uint16_t *recovery_next(const struct recovery_free *free, uint16_t number)
{
	return (uint16_t *)(void *)((char *)free->next + (number - 1) * free->stride);
}

/* 1 + number; 0: there is none left. */
static uint16_t recovery_take(struct recovery_pool *pool, struct recovery_free *free)
{
	uint16_t number;

	lock_acquire(&pool->lock);
	number = free->first;
	if (number)
		free->first = *recovery_next(free, number);
	else if (free->used < free->size)
		number = ++free->used;
	lock_release(&pool->lock);
	return number;
}

/* A list of them. */
static void recovery_give(struct recovery_pool *pool, struct recovery_free *free, uint16_t first,
			  uint16_t last)
{
	lock_acquire(&pool->lock);
	*recovery_next(free, last) = free->first;
	free->first = first;
	lock_release(&pool->lock);
}

struct recovery *recovery_need(struct qp *qp)
{
	struct recovery_pool *pool = qp->transport->recoveries;
	uint16_t number;

	if (!pool || qp->requester.recovery)
		return recovery_of(qp);
	number = recovery_take(pool, &pool->recoveries);
	if (!number)
		return NULL;
	pool->recovery[number - 1] = (struct recovery){ .next = 0 };
	qp->requester.recovery = number;
	return recovery_of(qp);
}

struct congestion *congestion_need(struct qp *qp)
{
	struct recovery_pool *pool = qp->transport->recoveries;
	uint16_t number;

	if (!pool || qp->requester.congestion)
		return congestion_of(qp);
	number = recovery_take(pool, &pool->congestions);
	if (!number)
		return NULL;
	pool->congestion[number - 1] = (struct congestion){ .next = 0 };
	qp->requester.congestion = number;
	return congestion_of(qp);
}

void recovery_end(struct qp *qp)
{
	struct recovery_pool *pool = qp->transport->recoveries;
	uint16_t number = qp->requester.recovery;

	if (number) {
		early_drop(qp);
		qp->requester.recovery = 0;
		recovery_give(pool, &pool->recoveries, number, number);
	}
	number = qp->requester.congestion;
	if (number) {
		qp->requester.congestion = 0;
		recovery_give(pool, &pool->congestions, number, number);
	}
}

uint16_t recovery_take_place(struct recovery_pool *pool)
{
	return recovery_take(pool, &pool->places);
}

void recovery_give_places(struct recovery_pool *pool, uint16_t first, uint16_t last)
{
	recovery_give(pool, &pool->places, first, last);
}
