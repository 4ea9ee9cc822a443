/* SPDX-License-Identifier: BSD-2-Clause */
/* Loss detection by time (loss.h). */
#include "transport/loss.h"

#include "base/timer_heap.h"
#include "wire/psn.h"

#define PROBE_SHIFT_MAX		8u	/* the delay of a probe doubles at most so often */
#define SILENCE			3u	/* x probe_min_ns */
#define PROBE_SLOWEST_NS	256000000u

void loss_start(struct loss *loss, uint8_t retry_cnt, uint64_t rto_ns)
{
	loss->retry_left = retry_cnt;
	loss->rto_ns = rto_ns;
}

void loss_stop(struct loss *loss)
{
	loss->probe_due = loss->probing = loss->hold = loss->stopped = false;
}

void loss_answered(struct loss *loss, uint8_t retry_cnt)
{
	loss->retry_left = retry_cnt;
	loss->graces = 0;
	loss->stopped = false;
	loss->probe_shift = 0;
	loss->sent_packets = loss->resent_packets = 0;
}

/*
 * An answer after a probe may be to either copy: it measures nothing (Karn). A second one in a row
 * means that probes may be too early and hide the round trip: so they back off.
 */
void loss_progress(struct loss *loss, uint8_t retry_cnt, uint64_t now_ns)
{
	if (loss->probe_shift && loss->probe_backoff <= PROBE_SHIFT_MAX)
		loss->probe_backoff++;
	loss_answered(loss, retry_cnt);
	loss->progress_ns = now_ns;
	loss->guarded = false;
}

/*
 * Where answers were lost, too, what was lost may be a packet behind the one that was sent again.
 * What comes sooner than half a round trip after the probe answers something older. (Half: a packet
 * alone is faster than messages are, by which round trips are measured.)
 */
enum probe_says loss_probe_answered(struct loss *loss, uint32_t una_psn, uint32_t send_psn,
				    uint64_t rtt_ns, uint64_t now_ns)
{
	if (!loss->probing || psn_before(una_psn, loss->probe_end_psn))
		return PROBE_NOTHING;
	loss->probing = false;
	if (una_psn == send_psn)
		return PROBE_NOTHING;
	if (una_psn == loss->probe_end_psn)
		return PROBE_LOST;
	return rtt_ns && now_ns - loss->sent_ns >= rtt_ns / 2 ? PROBE_AGAIN : PROBE_NOTHING;
}

bool loss_is_new(struct loss *loss, uint32_t una_psn)
{
	if (loss->guarded && loss->guard_psn == una_psn)
		return false;
	loss->guarded = true;
	loss->guard_psn = una_psn;
	return true;
}

void loss_probe_sent(struct loss *loss, uint32_t end_psn, uint64_t now_ns)
{
	loss->probing = true;
	loss->probe_end_psn = end_psn;
	loss->sent_ns = now_ns;
	loss->sent_packets++;
	loss->resent_packets++;
}

void loss_hold(struct loss *loss)
{
	loss->hold = true;
	loss->probe_due = true;
	loss->guarded = false;
}

void loss_stopped(struct loss *loss, uint8_t retry_cnt, uint64_t now_ns)
{
	loss->stopped = true;
	loss->retry_left = retry_cnt;
	loss->progress_ns = now_ns;
}

void loss_runs(struct loss *loss, uint64_t now_ns)
{
	loss->stopped = false;
	loss->probe_shift = 0;
	loss->progress_ns = now_ns;
}

void loss_grace(struct loss *loss, unsigned most, uint64_t now_ns)
{
	if (loss->graces >= most)
		return;
	loss->graces++;
	loss->progress_ns = now_ns;
}

uint64_t loss_ack_deadline(const struct loss *loss, uint64_t timeout_ns)
{
	if (timeout_ns == UINT64_MAX)
		return TIME_NEVER;
	return loss->progress_ns + (loss->stopped ? LOSS_LOOK_NS : timeout_ns);
}

uint64_t loss_probe_deadline(const struct loss *loss)
{
	unsigned backoff = loss->probe_backoff ? loss->probe_backoff - 1u : 0;
	unsigned shift = loss->probe_shift + backoff;
	uint64_t delay_ns = loss->rto_ns << (shift < PROBE_SHIFT_MAX ? shift : PROBE_SHIFT_MAX);
	uint64_t since_ns = loss->sent_ns > loss->progress_ns ? loss->sent_ns : loss->progress_ns;

	if (loss->probe_due || loss->stopped)
		return TIME_NEVER;
	if (delay_ns > PROBE_SLOWEST_NS)
		delay_ns = loss->rto_ns > PROBE_SLOWEST_NS ? loss->rto_ns : PROBE_SLOWEST_NS;
	return since_ns + delay_ns;
}

bool loss_retry(struct loss *loss, uint64_t now_ns)
{
	if (!loss->retry_left)
		return false;
	loss->retry_left--;
	loss->graces = 0;
	loss->progress_ns = now_ns;
	return true;
}

bool loss_probe(struct loss *loss, uint64_t now_ns, uint64_t probe_min_ns)
{
	loss->probe_due = true;
	loss->guarded = false;
	if (loss->probe_shift < PROBE_SHIFT_MAX)
		loss->probe_shift++;
	return loss->probe_shift >= 2 && !loss->hold && now_ns - loss->progress_ns >= SILENCE * probe_min_ns;
}
