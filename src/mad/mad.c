/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The consumers of this process (mad.h): rows of one table, called for the MADs that they take and for what
 * happens to ports, peers and QPs. QP1 is open while there is one.
 *
 * Locks, outermost first:
 *
 *	qp1.opening	opening and closing consumers
 *	(engine->progress)
 *	qp1.calls	held while consumers are called
 *	(those of consumers)
 *	qp1.deadlines	of the consumers
 *
 * The table is changed under calls and deadlines, and read under one of them. After fork() the consumers of the
 * parent are memory with nothing behind it: gsi->abandoned.
 */
#include "mad/mad.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/timer_heap.h"
#include "engine/wake.h"
#include "mad/internal.h"

struct mad_agent {
	struct mad_row row;
	struct gsi *gsi;
	const struct mad_ops *ops;
	void *owner;
	uint64_t deadline_ns;		/* under qp1.deadlines */
};

#define agent_of(n) list_entry(n, struct mad_agent, row.node)

/* ---- MADs ---- */

static struct mad_agent *mad_find(struct qp1 *qp1, uint32_t port, uint32_t qpn, const uint8_t mad[MAD_BYTES],
				  struct mad_header *header) REQUIRES(qp1->calls)
{
	struct mad_row *row = mad_parse(mad, MAD_BYTES, header) ?
		mad_table_find(&qp1->consumers, port, qpn, mad) : NULL;

	return row ? container_of(row, struct mad_agent, row) : NULL;
}

enum drop mad_received(struct qp1 *qp1, uint32_t qpn, const struct mad_address *from,
		       const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_header header;
	struct mad_agent *agent;
	enum drop why;

	lock_acquire(&qp1->calls);
	agent = mad_find(qp1, from->ib.port, qpn, mad, &header);
	if (agent)
		why = agent->ops->received(agent->owner, from, &header, mad, now_ns);
	else
		why = qpn == QPN_SMI ? DROP_NO_QP : drop_count(qp1->engine->counters, DROP_MAD_CLASS, 1);
	lock_release(&qp1->calls);
	return why;
}

void mad_unreachable(struct qp1 *qp1, const struct mad_address *to, const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_header header;
	struct mad_agent *agent;

	lock_acquire(&qp1->calls);
	agent = mad_find(qp1, to->ib.port, QPN_GSI, mad, &header);
	if (agent && agent->ops->unreachable)
		agent->ops->unreachable(agent->owner, to, &header, mad, now_ns);
	lock_release(&qp1->calls);
}

/* ---- what happens ---- */

#define TELL(qp1, call, ...) \
	do {                                                                              \
		struct list *node;                                                        \
		lock_acquire(&(qp1)->calls);                                              \
		list_for_each(node, &(qp1)->consumers)                                    \
			if (agent_of(node)->ops->call)                                    \
				agent_of(node)->ops->call(agent_of(node)->owner, __VA_ARGS__); \
		lock_release(&(qp1)->calls);                                              \
	} while (0)

void mad_qp_failed(struct qp1 *qp1, uint32_t qpn, uint64_t now_ns)
{
	TELL(qp1, qp_failed, qpn, now_ns);
}

void mad_peer_gone(struct qp1 *qp1, uint32_t slot, uint64_t now_ns)
{
	TELL(qp1, peer_gone, slot, now_ns);
}

void qp1_interface_changed(struct qp1 *qp1, const struct net_change *change, uint64_t now_ns)
{
	TELL(qp1, interface_changed, change, now_ns);
}

void qp1_remote_gone(struct qp1 *qp1, const struct mad_remote *remote, uint64_t now_ns)
{
	TELL(qp1, remote_gone, remote, now_ns);
}

bool qp1_may_leave(struct qp1 *qp1, uint64_t now_ns)
{
	struct list *node;
	bool may = true;

	lock_acquire(&qp1->engine->progress);
	lock_acquire(&qp1->calls);
	list_for_each(node, &qp1->consumers)
		if (agent_of(node)->ops->may_leave)
			may &= agent_of(node)->ops->may_leave(agent_of(node)->owner, now_ns);
	lock_release(&qp1->calls);
	lock_release(&qp1->engine->progress);
	return may;
}

/* ---- deadlines ---- */

static void mad_arm_locked(struct qp1 *qp1) REQUIRES(qp1->deadlines)
{
	uint64_t next_ns = TIME_NEVER;
	struct list *node;

	list_for_each(node, &qp1->consumers)
		if (agent_of(node)->deadline_ns < next_ns)
			next_ns = agent_of(node)->deadline_ns;
	atomic_store(&qp1->deadline_ns, next_ns);
	worker_wake_at(qp1->engine, next_ns);
}

void mad_set_deadline(struct mad_agent *agent, uint64_t deadline_ns)
{
	struct qp1 *qp1 = agent->gsi->qp1;

	if (atomic_load(&agent->gsi->abandoned))
		return;
	lock_acquire(&qp1->deadlines);
	agent->deadline_ns = deadline_ns;
	mad_arm_locked(qp1);
	lock_release(&qp1->deadlines);
}

void mad_tick(struct qp1 *qp1, uint64_t now_ns)
{
	struct list *node;

	lock_acquire(&qp1->calls);
	list_for_each(node, &qp1->consumers) {
		struct mad_agent *agent = agent_of(node);
		bool due;

		lock_acquire(&qp1->deadlines);
		due = agent->deadline_ns <= now_ns;
		if (due)
			agent->deadline_ns = TIME_NEVER;
		lock_release(&qp1->deadlines);
		if (due)
			agent->ops->tick(agent->owner, now_ns);
	}
	lock_acquire(&qp1->deadlines);
	mad_arm_locked(qp1);
	lock_release(&qp1->deadlines);
	lock_release(&qp1->calls);
}

/* ---- opening and closing ---- */

static void mad_change_table(struct qp1 *qp1, struct mad_agent *agent, bool add)
{
	lock_acquire(&qp1->calls);
	lock_acquire(&qp1->deadlines);
	if (add)
		list_add_tail(&qp1->consumers, &agent->row.node);
	else
		list_remove(&agent->row.node);
	mad_arm_locked(qp1);
	lock_release(&qp1->deadlines);
	lock_release(&qp1->calls);
}

int mad_open(struct qp1 *qp1, const struct mad_key *key, const struct mad_ops *ops, void *owner,
	     struct mad_agent **agent)
{
	struct mad_agent *made = malloc(sizeof(*made));
	int err = 0;

	if (!made)
		return ENOMEM;
	lock_acquire(&qp1->opening);
	if (mad_table_is_taken(&qp1->consumers, key))
		err = EBUSY;
	else if (list_empty(&qp1->consumers))
		err = gsi_open(qp1);
	if (err) {
		free(made);
	} else {
		*made = (struct mad_agent){ .row.key = *key, .gsi = qp1->gsi, .ops = ops, .owner = owner,
					    .deadline_ns = TIME_NEVER };
		mad_change_table(qp1, made, true);
		*agent = made;
	}
	lock_release(&qp1->opening);
	return err;
}

void mad_close(struct mad_agent *agent)
{
	struct qp1 *qp1 = agent->gsi->qp1;

	if (!atomic_load(&agent->gsi->abandoned)) {	/* else: the locks may be held for ever */
		lock_acquire(&qp1->opening);
		mad_change_table(qp1, agent, false);
		if (list_empty(&qp1->consumers))
			gsi_close(qp1);
		lock_release(&qp1->opening);
	}
	free(agent);
}

int mad_send(struct mad_agent *agent, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	return gsi_send(agent->gsi, to, mad);
}

struct gsi *mad_gsi(struct mad_agent *agent)
{
	return agent->gsi;
}
