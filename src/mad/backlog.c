/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests (REQ, SIDR_REQ) that arrive before their server. Server and client are often started
 * together, and many programs take a refusal as final (ib_write_bw -R of perftest crashes). So such
 * a request is held for BACKLOG_NS, then refused.
 *
 * Peers decide how many there are: beyond BACKLOG_MAX a request is refused at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mad/internal.h"
#include "engine/wake.h"
#include "platform/clock.h"

#define BACKLOG_MAX	32u
#define BACKLOG_NS		50000000ull
#define BACKLOG_STEP_NS	1000000ull	/* to the first look; from then on, as long as it waited */
#define BACKLOG_BYTES	512u		/* a packet with a MAD has 280 */

struct pending_request {
	bool used;
	struct cm_target target;
	struct datagram datagram;
	uint8_t data[BACKLOG_BYTES];
	size_t mad_at;			/* in data */
	uint64_t since_ns, next_ns;
};

struct backlog {
	struct pending_request pending[BACKLOG_MAX];
};

static struct pending_request *free_place(struct qp1 *qp1) REQUIRES(qp1->engine->progress)
{
	unsigned i;

	if (!qp1->backlog)
		qp1->backlog = calloc(1, sizeof(*qp1->backlog));
	for (i = 0; qp1->backlog && i < BACKLOG_MAX; i++)
		if (!qp1->backlog->pending[i].used)
			return &qp1->backlog->pending[i];
	return NULL;
}

static void set_deadline(struct qp1 *qp1) REQUIRES(qp1->engine->progress)
{
	uint64_t next_ns = TIME_NEVER;
	unsigned i;

	for (i = 0; i < BACKLOG_MAX; i++)
		if (qp1->backlog->pending[i].used && qp1->backlog->pending[i].next_ns < next_ns)
			next_ns = qp1->backlog->pending[i].next_ns;
	atomic_store(&qp1->backlog_ns, next_ns);
	if (next_ns != TIME_NEVER)
		worker_wake_at(qp1->engine, next_ns);
}

bool backlog_add(struct qp1 *qp1, const struct cm_target *target, const struct datagram *datagram,
	      const uint8_t *mad, uint64_t now_ns)
{
	struct pending_request *pending;

	if (datagram->bytes > BACKLOG_BYTES)
		return false;
	pending = free_place(qp1);
	if (!pending)
		return false;
	pending->used = true;
	pending->target = *target;
	pending->datagram = *datagram;
	memcpy(pending->data, datagram->data, datagram->bytes);
	pending->datagram.data = pending->data;
	pending->mad_at = (size_t)(mad - datagram->data);
	pending->since_ns = now_ns;
	pending->next_ns = now_ns + BACKLOG_STEP_NS;
	set_deadline(qp1);
	return true;
}

/* Forwards or delivers the request if it has a server now, or has waited for long enough. */
static bool is_settled(struct qp1 *qp1, struct pending_request *pending, uint64_t now_ns)
	REQUIRES(qp1->engine->progress)
{
	int err = qp1_forward(qp1, &pending->target, &pending->datagram);
	bool ours = qp1_serves(qp1, &pending->target, &pending->datagram);

	if (err != ECONNREFUSED) {
		qp1_count_forwarded(qp1, err);
		return true;
	}
	if (!ours && now_ns - pending->since_ns < BACKLOG_NS)
		return false;
	qp1_deliver(qp1, &pending->datagram, pending->data + pending->mad_at, now_ns);
	return true;
}

void backlog_turn(struct qp1 *qp1, uint64_t now_ns)
{
	unsigned i;

	if (atomic_load(&qp1->backlog_ns) > now_ns)
		return;
	lock_acquire(&qp1->engine->progress);
	for (i = 0; i < BACKLOG_MAX; i++) {
		struct pending_request *pending = &qp1->backlog->pending[i];

		if (!pending->used || pending->next_ns > now_ns)
			continue;
		pending->used = !is_settled(qp1, pending, now_ns);
		pending->next_ns = now_ns + (now_ns - pending->since_ns);
		if (pending->next_ns > pending->since_ns + BACKLOG_NS)
			pending->next_ns = pending->since_ns + BACKLOG_NS;
	}
	set_deadline(qp1);
	lock_release(&qp1->engine->progress);
}
