/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP numbers: a slot of this host and an index (wire/qpn.h). A process has one slot, and more when
 * its QPs do not fit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/links.h"
#include "engine/qp_table.h"
#include "host/slot.h"
#include "link/udp.h"
#include "platform/clock.h"

#define CLAIM_TRIES	256u

/*
 * Claim a slot that can be watched, and whose UDP port is free: the kernel may still be closing sockets of its
 * last holder, and any program may have the port.
 */
static int claim_usable(struct engine *engine, unsigned index, struct slot *slot)
{
	unsigned tries;
	int err = EADDRINUSE;

	for (tries = 0; err == EADDRINUSE && tries < CLAIM_TRIES; tries++) {
		err = slot_claim(slot);
		if (err)
			break;
		err = udp_open_slot(engine->udp, index, slot->number);
		if (!err) {
			err = links_claim(engine, slot->number);
			if (!err)
				err = slot_watch_listen(engine->watch, slot->number);
			if (err)
				udp_close_slot(engine->udp, index);
		}
		if (err)
			slot_release(slot);
	}
	if (err == EADDRINUSE)
		explain("ibv_open_device: other programs have the UDP ports %u to %u: ss -uanp shows who",
			udp_slot_port(1), udp_slot_port(SLOT_COUNT - 2));
	return err;
}

int slots_claim(struct engine *engine)
{
	struct qp_table *qps = &engine->qps;
	unsigned n = qps->slot_count;
	int err;

	if (n == ENGINE_SLOTS_MAX)
		return ENOMEM;
	qps->table[n] = calloc(QP_PER_SLOT, sizeof(**qps->table));
	if (!qps->table[n])
		return ENOMEM;
	err = claim_usable(engine, n, &qps->slot[n]);
	if (err) {
		explain("ibv_open_device: cannot get one of the %u ranges of QP numbers of this "
				"host: %s", SLOT_COUNT,
			strerror(err));
		goto free_table;
	}
	err = source_watch(&engine->source.all, &engine->source.slots, qps->slot[n].fd);
	if (err)
		goto release_slot;
	qps->next[n] = (uint32_t)random_u64() % QP_PER_SLOT;
	qps->slot_count++;
	if (engine->group)
		port_group_add_slot(engine->group, &qps->slot[n]);
	local_add_slot(&engine->local, &qps->slot[n]);
	return 0;
release_slot:
	udp_close_slot(engine->udp, n);
	slot_release(&qps->slot[n]);
free_table:
	free(qps->table[n]);
	qps->table[n] = NULL;
	return err;
}

void slots_release(struct engine *engine)
{
	unsigned i;

	for (i = 0; i < engine->qps.slot_count; i++) {
		slot_release(&engine->qps.slot[i]);
		free(engine->qps.table[i]);
	}
}

struct qp *qp_table_find(struct engine *engine, uint32_t qpn)
{
	unsigned i = qp_table_slot(&engine->qps, qpn_slot(qpn));

	return i < engine->qps.slot_count ? engine->qps.table[i][qpn_index(qpn)] : NULL;
}

bool engine_has_ended(uint32_t qpn)
{
	return !slot_is_claimed(qpn_slot(qpn));
}

/*
 * To ask the host takes six system calls. A process with which there is a channel need not be asked for:
 * it answered at a name of its slot, and holds both names as long as it has the channel.
 */
int engine_peer_has_port(const struct engine *engine, uint32_t slot, const char *who, bool *has)
{
	bool own = engine_has_slot(engine, slot);
	int err;

	*has = !own && local_channel(&engine->local, slot) != LOCAL_NO_CHANNEL;
	err = own || *has ? 0 : slot_has_port(slot, has);
	if (err)
		explain_refused(who, err, "%s: cannot look for the process of the peer: %s%s", who, strerror(err),
				err == EMFILE ? ": raise ulimit -n (RLIMIT_NOFILE)" : "");
	return err;
}

static void note_dropped(struct qp *qp, uint32_t dest_qpn, const struct refusal *refusal)
{
	lock_acquire(&qp->lock);
	if (qp_is(qp, QP_CONNECTED) && qp->attr.dest_qp_num == dest_qpn && transport_peer_is_here(qp))
		transport_refused(qp, refusal);
	lock_release(&qp->lock);
}

/* All QPs are looked at: this comes seldom, as pairing.c sees to. */
void qp_table_dropped(struct engine *engine, uint32_t dest_qpn, const struct refusal *refusal)
{
	unsigned slot, index;

	for (slot = 0; slot < engine->qps.slot_count; slot++)
		for (index = 0; index < QP_PER_SLOT; index++)
			if (engine->qps.table[slot][index])
				note_dropped(engine->qps.table[slot][index], dest_qpn, refusal);
}

static void qp_end_kept(struct qp *qp, uint32_t key)
{
	lock_acquire(&qp->lock);
	mr_kept_clear(&qp_notes(qp)->source, key);
	mr_kept_clear(&qp_notes(qp)->receive, key);
	lock_release(&qp->lock);
}

void qp_table_end_kept(void *keeper, uint32_t qpn, uint32_t key)
{
	struct engine *engine = keeper;
	unsigned slot, index;
	struct qp *qp;

	lock_acquire(&engine->progress);
	for (slot = 0; qpn == MR_KEPT_BY_SOME && slot < engine->qps.slot_count; slot++)
		for (index = 0; index < QP_PER_SLOT; index++)
			if (engine->qps.table[slot][index])
				qp_end_kept(engine->qps.table[slot][index], key);
	qp = qpn == MR_KEPT_BY_SOME ? NULL : qp_table_find(engine, qpn);
	if (qp)
		qp_end_kept(qp, key);
	progress_unlock(engine);
}

/* Indices go round, so that a number is not used again at once. */
static bool number_in_slot(struct qp_table *qps, unsigned slot, uint32_t *qpn)
{
	uint32_t tries;

	if (qps->used[slot] == QP_PER_SLOT)
		return false;
	for (tries = 0; tries < QP_PER_SLOT; tries++) {
		uint32_t index = qps->next[slot];

		qps->next[slot] = (index + 1) % QP_PER_SLOT;
		if (!qps->table[slot][index]) {
			*qpn = qps->slot[slot].number << QP_INDEX_BITS | index;
			return true;
		}
	}
	return false;
}

int qp_table_add(struct engine *engine, struct qp *qp, unsigned *index)
{
	struct qp_table *qps = &engine->qps;
	unsigned slot = 0;
	int err;

	while (slot < qps->slot_count && !number_in_slot(qps, slot, &qp->number))
		slot++;
	if (slot == qps->slot_count) {
		err = slots_claim(engine);
		if (err)
			return err;
		number_in_slot(qps, slot, &qp->number);
	}
	lock_acquire(&engine->timers.lock);
	err = timer_heap_reserve(&engine->timers.heap, qps->count + 1);
	lock_release(&engine->timers.lock);
	if (err)
		return err;
	qps->table[slot][qpn_index(qp->number)] = qp;
	qps->used[slot]++;
	qps->count++;
	qp->ordinal = ++qps->created;
	*index = slot * QP_PER_SLOT + qpn_index(qp->number);
	return 0;
}

void qp_table_remove(struct engine *engine, struct qp *qp)
{
	struct qp_table *qps = &engine->qps;
	unsigned slot = qp_table_slot(qps, qpn_slot(qp->number));

	qps->table[slot][qpn_index(qp->number)] = NULL;
	qps->used[slot]--;
	qps->count--;
}
