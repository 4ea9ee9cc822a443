/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate of DCQCN (rate.h). */
#include "transport/rate.h"

#define SECOND_NS	1000000000u
#define ALPHA_SHIFT	4u		/* alpha moves by 1/16 of what it may */
#define STEPS_MAX	200u
#define CATCH_UP	64u		/* steps that are made up for after a pause */

static void rate_step(struct rate *rate, uint8_t *steps)
{
	unsigned most, least;

	if (*steps < STEPS_MAX)
		++*steps;
	most = rate->time_steps > rate->byte_steps ? rate->time_steps : rate->byte_steps;
	least = rate->time_steps > rate->byte_steps ? rate->byte_steps : rate->time_steps;
	if (least > RATE_FAST)
		rate->target += (uint64_t)RATE_HYPER * (least - RATE_FAST);
	else if (most > RATE_FAST)
		rate->target += RATE_ADD;
	rate->current = (rate->current + rate->target) / 2;
}

/* Steps whose time has come. */
static void rate_advance(struct rate *rate, uint64_t now_ns)
{
	unsigned n;

	for (n = 0; n < CATCH_UP && rate->alpha_ns <= now_ns; n++) {
		rate->alpha -= rate->alpha >> ALPHA_SHIFT;
		rate->alpha_ns += RATE_ALPHA_NS;
	}
	if (rate->alpha_ns <= now_ns)
		rate->alpha_ns = now_ns + RATE_ALPHA_NS;
	for (n = 0; n < CATCH_UP && rate->increase_ns <= now_ns; n++) {
		rate_step(rate, &rate->time_steps);
		rate->increase_ns += RATE_INCREASE_NS;
	}
	if (rate->increase_ns <= now_ns)
		rate->increase_ns = now_ns + RATE_INCREASE_NS;
	if (rate->current >= rate->end)
		rate->current = 0;
}

void rate_cut(struct rate *rate, uint64_t before, uint64_t least, uint64_t now_ns)
{
	if (least < RATE_MIN)
		least = RATE_MIN;
	if (rate->current)
		rate_advance(rate, now_ns);
	if (!rate->current) {
		*rate = (struct rate){ .current = before < least ? least : before,
				       .alpha = RATE_ALPHA_ONE, .due_ns = now_ns };
		rate->end = 2 * rate->current;
	}
	rate->cut_ns = now_ns;
	rate->target = rate->current;
	rate->current -= rate->current * rate->alpha / (2 * RATE_ALPHA_ONE);
	if (rate->current < least)
		rate->current = least;
	rate->alpha += (RATE_ALPHA_ONE - rate->alpha) >> ALPHA_SHIFT;
	rate->alpha_ns = now_ns + RATE_ALPHA_NS;
	rate->increase_ns = now_ns + RATE_INCREASE_NS;
	rate->bytes = 0;
	rate->time_steps = rate->byte_steps = 0;
}

bool rate_allows(struct rate *rate, uint32_t bytes, uint64_t now_ns)
{
	uint64_t burst_ns;

	rate->held_until_ns = 0;
	if (!rate->current)
		return true;
	rate_advance(rate, now_ns);
	if (!rate->current)
		return true;
	burst_ns = (uint64_t)RATE_BURST_BYTES * SECOND_NS / rate->current;
	if (burst_ns > RATE_BURST_NS)
		burst_ns = RATE_BURST_NS;
	if (rate->due_ns < now_ns)
		rate->due_ns = now_ns;
	if (rate->due_ns > now_ns + burst_ns) {
		rate->held_until_ns = rate->due_ns - burst_ns;
		return false;
	}
	rate->due_ns += (uint64_t)bytes * SECOND_NS / rate->current;
	rate->bytes += bytes;
	if (rate->bytes >= RATE_INCREASE_BYTES) {
		rate->bytes = 0;
		rate_step(rate, &rate->byte_steps);
	}
	return true;
}
