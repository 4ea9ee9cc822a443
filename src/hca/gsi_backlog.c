/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for connections (REQ, SIDR_REQ) that nobody serves at the moment they come. A server and
 * its client are often started together, and here the client is as fast as the server; many
 * programs take a refusal for final (ib_write_bw -R of perftest crashes). So such a request waits
 * HOLD_NS for a server, and is refused then.
 *
 * What waits is bounded, since peers make it: beyond HOLD_MAX a request is refused at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/gsi_internal.h"
#include "platform/clock.h"

#define HOLD_MAX	32u
#define HOLD_NS		50000000ull
#define HOLD_STEP_NS	1000000ull	/* to the first look; from then on, as long as it waited */
#define HOLD_BYTES	512u		/* a packet with a MAD has 280 */

struct held {
	bool used;
	struct cm_target target;
	struct datagram datagram;
	uint8_t data[HOLD_BYTES];
	size_t mad_at;			/* in data */
	uint64_t since_ns, next_ns;
};

struct gsi_backlog_add {
	struct held held[HOLD_MAX];
};

static struct held *free_place(struct hca *hca) REQUIRES(hca->drive)
{
	unsigned i;

	if (!hca->hold)
		hca->hold = calloc(1, sizeof(*hca->hold));
	for (i = 0; hca->hold && i < HOLD_MAX; i++)
		if (!hca->hold->held[i].used)
			return &hca->hold->held[i];
	return NULL;
}

static void set_deadline(struct hca *hca) REQUIRES(hca->drive)
{
	uint64_t next_ns = TIME_NEVER;
	unsigned i;

	for (i = 0; i < HOLD_MAX; i++)
		if (hca->hold->held[i].used && hca->hold->held[i].next_ns < next_ns)
			next_ns = hca->hold->held[i].next_ns;
	atomic_store(&hca->hold_deadline_ns, next_ns);
	if (next_ns != TIME_NEVER)
		worker_notice(hca, next_ns);
}

bool gsi_backlog_add(struct hca *hca, const struct cm_target *target, const struct datagram *datagram,
	      const uint8_t *mad, uint64_t now_ns)
{
	struct held *held;

	if (datagram->bytes > HOLD_BYTES)
		return false;
	held = free_place(hca);
	if (!held)
		return false;
	held->used = true;
	held->target = *target;
	held->datagram = *datagram;
	memcpy(held->data, datagram->data, datagram->bytes);
	held->datagram.data = held->data;
	held->mad_at = (size_t)(mad - datagram->data);
	held->since_ns = now_ns;
	held->next_ns = now_ns + HOLD_STEP_NS;
	set_deadline(hca);
	return true;
}

/* Whether its time is over, one way or the other. */
static bool is_settled(struct hca *hca, struct held *held, uint64_t now_ns) REQUIRES(hca->drive)
{
	int err = gsi_forward(hca, &held->target, &held->datagram);
	bool ours = gsi_serves(hca, &held->target, &held->datagram);

	if (err != ECONNREFUSED) {
		counter_add(hca->counters, err ? COUNTER_RX_MAD_LOST : COUNTER_RX_MAD_FOREIGN, 1);
		return true;
	}
	if (!ours && now_ns - held->since_ns < HOLD_NS)
		return false;
	gsi_deliver(hca, &held->datagram, held->data + held->mad_at, now_ns);
	return true;
}

void gsi_backlog_turn(struct hca *hca, uint64_t now_ns)
{
	unsigned i;

	if (atomic_load(&hca->hold_deadline_ns) > now_ns)
		return;
	lock_acquire(&hca->drive);
	for (i = 0; i < HOLD_MAX; i++) {
		struct held *held = &hca->hold->held[i];

		if (!held->used || held->next_ns > now_ns)
			continue;
		held->used = !is_settled(hca, held, now_ns);
		held->next_ns = now_ns + (now_ns - held->since_ns);
		if (held->next_ns > held->since_ns + HOLD_NS)
			held->next_ns = held->since_ns + HOLD_NS;
	}
	set_deadline(hca);
	lock_release(&hca->drive);
}
