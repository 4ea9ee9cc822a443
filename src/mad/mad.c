/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management agents (mad.h): the one consumer of QP1. Dispatches each MAD to the agent of its
 * class. It starts with the first agent and stops with the last.
 *
 * Locks, outermost first:
 *
 *	opening		opening and closing agents
 *	(engine->progress)
 *	calling		held while agents are called
 *	(those of agents)
 *	deadlines	of the agents
 *
 * The list of agents is changed under calling and deadlines, and read under one of them. A
 * fork()ed child starts without agents: those of its parent are memory with nothing behind it.
 */
#include "mad/mad.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/counters.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/timer_heap.h"

struct mad_agent {
	struct list node;
	struct gsi *gsi;
	unsigned class;
	const struct mad_ops *ops;
	void *owner;
	uint64_t deadline_ns;		/* under deadlines */
	unsigned generation;		/* of the process that opened it */
};

static struct lock opening = LOCK_INITIALIZER, calling = LOCK_INITIALIZER,
		   deadlines = LOCK_INITIALIZER;
static struct list agents = { &agents, &agents };
static _Atomic unsigned generation;	/* how many fork()s away from the first process we are */
static struct gsi *the_gsi;		/* while there are agents; set before any call comes */

#define agent_of(n) list_entry(n, struct mad_agent, node)

/* Our parent's: memory with nothing behind it. */
static bool is_abandoned(const struct mad_agent *agent)
{
	return agent->generation != atomic_load(&generation);
}

static struct mad_agent *mad_find(unsigned class)
{
	struct list *node;

	list_for_each(node, &agents)
		if (agent_of(node)->class == class)
			return agent_of(node);
	return NULL;
}

/* ---- calls from the HCA ---- */

static enum drop mad_received(void *consumer, const struct mad_address *from,
			      const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_header header;
	struct mad_agent *agent;
	enum drop why;

	lock_acquire(&calling);
	agent = mad_parse(mad, MAD_BYTES, &header) ? mad_find(header.class) : NULL;
	why = agent ? agent->ops->received(agent->owner, from, &header, mad, now_ns) :
		      gsi_drop(the_gsi, DROP_MAD_CLASS);
	lock_release(&calling);
	return why;
}

static void mad_unreachable(void *consumer, const struct mad_address *to,
			    const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct mad_header header;
	struct mad_agent *agent;

	lock_acquire(&calling);
	agent = mad_parse(mad, MAD_BYTES, &header) ? mad_find(header.class) : NULL;
	if (agent && agent->ops->unreachable)
		agent->ops->unreachable(agent->owner, to, &header, mad, now_ns);
	lock_release(&calling);
}

static void mad_qp_failed(void *consumer, uint32_t qpn, uint64_t now_ns)
{
	struct list *node;

	lock_acquire(&calling);
	list_for_each(node, &agents)
		if (agent_of(node)->ops->qp_failed)
			agent_of(node)->ops->qp_failed(agent_of(node)->owner, qpn, now_ns);
	lock_release(&calling);
}

static void mad_interface_changed(void *consumer, const struct net_change *change, uint64_t now_ns)
{
	struct list *node;

	lock_acquire(&calling);
	list_for_each(node, &agents)
		if (agent_of(node)->ops->interface_changed)
			agent_of(node)->ops->interface_changed(agent_of(node)->owner, change, now_ns);
	lock_release(&calling);
}

static bool mad_may_leave(void *consumer, uint64_t now_ns)
{
	struct list *node;
	bool may = true;

	lock_acquire(&calling);
	list_for_each(node, &agents)
		if (agent_of(node)->ops->may_leave)
			may &= agent_of(node)->ops->may_leave(agent_of(node)->owner, now_ns);
	lock_release(&calling);
	return may;
}

static void mad_peer_gone(void *consumer, uint32_t slot, uint64_t now_ns)
{
	struct list *node;

	lock_acquire(&calling);
	list_for_each(node, &agents)
		if (agent_of(node)->ops->peer_gone)
			agent_of(node)->ops->peer_gone(agent_of(node)->owner, slot, now_ns);
	lock_release(&calling);
}

static void mad_remote_gone(void *consumer, const struct gsi_remote *remote, uint64_t now_ns)
{
	struct list *node;

	lock_acquire(&calling);
	list_for_each(node, &agents)
		if (agent_of(node)->ops->remote_gone)
			agent_of(node)->ops->remote_gone(agent_of(node)->owner, remote, now_ns);
	lock_release(&calling);
}

/* ---- deadlines ---- */

static void arm_locked(struct gsi *gsi) REQUIRES(deadlines)
{
	uint64_t next_ns = TIME_NEVER;
	struct list *node;

	list_for_each(node, &agents)
		if (agent_of(node)->deadline_ns < next_ns)
			next_ns = agent_of(node)->deadline_ns;
	gsi_set_deadline(gsi, next_ns);
}

void mad_set_deadline(struct mad_agent *agent, uint64_t deadline_ns)
{
	lock_acquire(&deadlines);
	agent->deadline_ns = deadline_ns;
	if (!is_abandoned(agent))
		arm_locked(agent->gsi);
	lock_release(&deadlines);
}

static bool takes_deadline(struct mad_agent *agent, uint64_t now_ns)
{
	bool due;

	lock_acquire(&deadlines);
	due = agent->deadline_ns <= now_ns;
	if (due)
		agent->deadline_ns = TIME_NEVER;
	lock_release(&deadlines);
	return due;
}

static void mad_tick(void *consumer, uint64_t now_ns)
{
	struct list *node;

	lock_acquire(&calling);
	list_for_each(node, &agents)
		if (takes_deadline(agent_of(node), now_ns))
			agent_of(node)->ops->tick(agent_of(node)->owner, now_ns);
	lock_acquire(&deadlines);
	arm_locked(the_gsi);
	lock_release(&deadlines);
	lock_release(&calling);
}

/* ---- opening and closing ---- */

static const struct gsi_ops consumer_ops = {
	.received = mad_received,
	.unreachable = mad_unreachable,
	.tick = mad_tick,
	.qp_failed = mad_qp_failed,
	.peer_gone = mad_peer_gone,
	.remote_gone = mad_remote_gone,
	.interface_changed = mad_interface_changed,
	.may_leave = mad_may_leave,
};

/* The list may be half changed, and the locks held by threads that are no more. */
static void mad_after_fork_child(void)
{
	atomic_fetch_add(&generation, 1);
	list_init(&agents);
	the_gsi = NULL;
	lock_init(&opening);
	lock_init(&calling);
	lock_init(&deadlines);
}

static const struct fork_handlers fork_handlers = { .child = mad_after_fork_child };

static void change_list(struct list *to, struct mad_agent *agent)
{
	lock_acquire(&calling);
	lock_acquire(&deadlines);
	if (to)
		list_add_tail(to, &agent->node);
	else
		list_remove(&agent->node);
	lock_release(&deadlines);
	lock_release(&calling);
}

static int mad_open_locked(struct qp1 *qp1, struct mad_agent *agent) REQUIRES(opening)
{
	int err = 0;

	if (mad_find(agent->class))
		return EBUSY;
	if (list_empty(&agents))
		err = gsi_open(qp1, &consumer_ops, NULL, &the_gsi);
	if (err) {
		the_gsi = NULL;
		return err;
	}
	agent->gsi = the_gsi;
	change_list(&agents, agent);
	return 0;
}

int mad_open(struct qp1 *qp1, unsigned class, const struct mad_ops *ops, void *owner,
	     struct mad_agent **agent)
{
	struct mad_agent *made = malloc(sizeof(*made));
	int err;

	if (!made)
		return ENOMEM;
	fork_register(FORK_MAD, &fork_handlers);
	*made = (struct mad_agent){ .class = class, .ops = ops, .owner = owner,
				    .deadline_ns = TIME_NEVER,
				    .generation = atomic_load(&generation) };
	lock_acquire(&opening);
	err = mad_open_locked(qp1, made);
	lock_release(&opening);
	if (err)
		free(made);
	else
		*agent = made;
	return err;
}

void mad_close(struct mad_agent *agent)
{
	if (!is_abandoned(agent)) {
		lock_acquire(&opening);
		change_list(NULL, agent);
		if (list_empty(&agents)) {
			gsi_close(the_gsi);
			the_gsi = NULL;
		}
		lock_release(&opening);
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
