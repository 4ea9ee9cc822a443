/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of what is known of the objects of this process (snapshot.h). */
#include "device/snapshot.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device/internal.h"
#include "engine/qp_table.h"
#include "platform/clock.h"

#define PLACES		16384u	/* of a table that are looked at in one call */

static void copy_name(char to[SNAPSHOT_NAME], const struct hca_context *context)
{
	snprintf(to, SNAPSHOT_NAME, "%s", context->port->name);
}

/* ---- of a list: the objects with the smallest numbers from @from on ---- */

struct chosen {
	uint64_t from;
	unsigned count;
	uint64_t number[SNAPSHOT_BATCH];
	void *object[SNAPSHOT_BATCH];
};

static void snapshot_choose(struct chosen *chosen, uint64_t number, void *object)
{
	unsigned at;

	if (number < chosen->from ||
	    (chosen->count == SNAPSHOT_BATCH && number >= chosen->number[SNAPSHOT_BATCH - 1]))
		return;
	if (chosen->count < SNAPSHOT_BATCH)
		chosen->count++;
	for (at = chosen->count - 1; at && chosen->number[at - 1] > number; at--) {
		chosen->number[at] = chosen->number[at - 1];
		chosen->object[at] = chosen->object[at - 1];
	}
	chosen->number[at] = number;
	chosen->object[at] = object;
}

/* Of the objects in the lists at @list_offset of all contexts. */
static void snapshot_choose_from(struct hca *hca, size_t list_offset,
				 void *(*object_of)(struct list *node, uint64_t *number), struct chosen *chosen)
	REQUIRES(hca->objects)
{
	struct list *context_node, *node;

	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);
		struct list *head = (struct list *)((char *)context + list_offset);

		list_for_each(node, head) {
			uint64_t number;
			void *object = object_of(node, &number);

			snapshot_choose(chosen, number, object);
		}
	}
}

static uint64_t snapshot_place_behind(const struct chosen *chosen)
{
	return chosen->count < SNAPSHOT_BATCH ? SNAPSHOT_END : chosen->number[SNAPSHOT_BATCH - 1] + 1;
}

/* ---- devices ---- */

static unsigned count_contexts(struct hca *hca, const struct port *port) REQUIRES(hca->objects)
{
	unsigned count = 0;
	struct list *node;

	list_for_each(node, &hca->contexts) {
		const struct hca_context *context = list_entry(node, struct hca_context, node);

		count += context_port(context, port->number) == port && !context->closed;
	}
	return count;
}

unsigned hca_snapshot_devices(struct hca *hca, uint64_t *from, struct snapshot_device *devices)
{
	struct chosen chosen = { .from = *from };
	struct list *node;
	unsigned i;

	lock_acquire(&hca->net.lock);
	lock_acquire(&hca->objects);
	list_for_each(node, &hca->net.ports) {
		struct port *port = list_entry(node, struct port, node);

		snapshot_choose(&chosen, port->interface_index, port);
	}
	for (i = 0; i < chosen.count; i++) {
		const struct port *port = chosen.object[i];
		struct snapshot_device *out = &devices[i];

		*out = (struct snapshot_device){ .place = port->interface_index, .active = port_is_active(port),
						 .mtu = 128u << port_active_mtu(port),
						 .contexts = count_contexts(hca, port) };
		snprintf(out->name, sizeof(out->name), "%s", port->name);
		snprintf(out->interface, sizeof(out->interface), "%s", port->netdev.name);
		for (unsigned gid = 0; gid < GID_TABLE_SIZE; gid++)
			out->gids += gid_table_get(port, gid) != NULL;
	}
	lock_release(&hca->objects);
	lock_release(&hca->net.lock);
	*from = snapshot_place_behind(&chosen);
	return chosen.count;
}

/* ---- QPs ---- */

static const char *const way_names[WAYS] = {
	[WAY_UDP] = "udp", [WAY_RING] = "ring", [WAY_COPIED] = "copied", [WAY_MAPPED] = "mapped",
};

static void snapshot_describe_path(struct hca *hca, struct qp *qp, struct snapshot_path *path) REQUIRES(qp->lock)
{
	if (!qp_is(qp, QP_CONNECTED) || qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT ||
	    !(qp->path || qp->attr.dest_qp_num))
		return;
	path->qpn = qp->attr.dest_qp_num;
	memcpy(path->address, qp->route.destination, sizeof(path->address));
	if (qp->route.loopback && engine_has_slot(&hca->engine, qpn_slot(path->qpn))) {
		path->way = "itself";
		path->why = "a QP of the same process";
	} else if (qp->route.link == ROUTE_IB) {
		const struct subnet_sends sends = { .way = qp->route.ib, .dest_qpn = path->qpn,
						    .pkey = qp->pkey, .mtu = qp->mtu };
		const char *why = subnet_relays_why(hca->subnet, &sends);

		path->way = why ? "fabric" : "ring";
		path->why = why ? why : "by LID: its packets are counted at each port that they cross";
	} else {
		path->way = way_names[local_way(&hca->engine.local, qp, &path->why)];
		if (qp->state != IBV_QPS_RTS)
			path->why = "it sends in RTS only";
	}
	if (qp->path) {
		lock_acquire(&qp->path->lock);
		path->window_bytes = atomic_load(&qp->path->window_bytes);
		path->in_flight_bytes = qp->path->in_flight_bytes;
		path->rtt_ns = qp->path->rtt_ns;
		lock_release(&qp->path->lock);
	}
}

static void snapshot_describe_qp(struct hca *hca, struct qp *qp, struct snapshot_qp *out)
{
	*out = (struct snapshot_qp){ .number = qp->number, .type = qp->type, .pd = qp->pd ? qp->pd->number : 0,
				     .send_cq = qp->send_cq ? qp->send_cq->number : 0,
				     .recv_cq = qp->recv_cq ? qp->recv_cq->number : 0,
				     .srq = qp->srq ? qp->srq->number : 0 };
	copy_name(out->device, qp->owner);
	lock_acquire(&qp->lock);
	out->state = qp->state;
	out->mtu = qp->mtu;
	out->expected_psn = qp->responder.expected_psn;
	out->sends = (struct snapshot_queue){ .size = qp->cap.max_send_wr, .posted = qp->sq.head - qp->sq.tail,
					      .done = qp->sq.tail };
	out->in_flight_bytes = qp->requester.flight_bytes;
	out->reads_in_flight = qp->requester.rd_outstanding;
	out->messages_in_flight = qp->requester.local_messages;
	out->next_psn = qp->requester.next_psn;
	out->waits_for_receiver = qp->requester.rnr_until_ns != 0;
	out->waits_for_window = qp->requester.blocked != NULL || !list_empty(&qp->wait_node);
	snapshot_describe_path(hca, qp, &out->path);
	lock_release(&qp->lock);
	if (!qp->srq && qp_receives(qp))
		out->receives = (struct snapshot_queue){ .size = qp->rq.size,
							 .posted = recv_queue_count(&qp->rq),
							 .done = atomic_load(&qp->rq.tail) };
	for (unsigned i = 0; i < QP_COUNTERS; i++)
		out->tally[i] = atomic_load_explicit(&qp->access->tally[i], memory_order_relaxed);
	out->last_error = (enum ibv_wc_status)atomic_load_explicit(&qp->access->last_error,
								   memory_order_relaxed);
}

unsigned hca_snapshot_qps(struct hca *hca, uint64_t *from, struct snapshot_qp *qps)
{
	unsigned count = 0, looked;
	uint64_t end;

	lock_acquire(&hca->objects);
	end = (uint64_t)hca->engine.qps.slot_count * QP_PER_SLOT;
	for (looked = 0; *from < end && looked < PLACES && count < SNAPSHOT_BATCH; looked++, ++*from) {
		/* The table changes under hca->objects (and engine.progress). */
		struct qp *qp = hca->engine.qps.table[*from / QP_PER_SLOT][*from % QP_PER_SLOT];

		if (!qp)
			continue;
		snapshot_describe_qp(hca, qp, &qps[count]);
		qps[count++].place = *from;
	}
	lock_release(&hca->objects);
	if (*from >= end)
		*from = SNAPSHOT_END;
	return count;
}

/* ---- CQs and SRQs ---- */

static void *cq_of(struct list *node, uint64_t *number)
{
	struct cq *cq = list_entry(node, struct cq, node);

	*number = cq->number;
	return cq;
}

unsigned hca_snapshot_cqs(struct hca *hca, uint64_t *from, struct snapshot_cq *cqs)
{
	static const char *const armed[] = { [CQ_UNARMED] = "no", [CQ_ARMED_SOLICITED] = "solicited",
					     [CQ_ARMED_ANY] = "any" };
	struct chosen chosen = { .from = *from };
	unsigned i;

	lock_acquire(&hca->objects);
	snapshot_choose_from(hca, offsetof(struct hca_context, cqs), cq_of, &chosen);
	for (i = 0; i < chosen.count; i++) {
		struct cq *cq = chosen.object[i];
		struct snapshot_cq *out = &cqs[i];

		*out = (struct snapshot_cq){ .place = cq->number, .number = cq->number,
					     .users = atomic_load(&cq->users),
					     .armed = armed[atomic_load(&cq->armed)] };
		copy_name(out->device, cq->owner);
		lock_acquire(&cq->lock);
		out->queue = (struct snapshot_queue){ .size = cq->size, .done = atomic_load(&cq->tail) };
		out->queue.posted = atomic_load(&cq->head) - out->queue.done;
		out->overflowed = cq->overflowed;
		lock_release(&cq->lock);
	}
	lock_release(&hca->objects);
	*from = snapshot_place_behind(&chosen);
	return chosen.count;
}

static void *srq_of(struct list *node, uint64_t *number)
{
	struct srq *srq = list_entry(node, struct srq, node);

	*number = srq->number;
	return srq;
}

unsigned hca_snapshot_srqs(struct hca *hca, uint64_t *from, struct snapshot_srq *srqs)
{
	struct chosen chosen = { .from = *from };
	unsigned i;

	lock_acquire(&hca->objects);
	snapshot_choose_from(hca, offsetof(struct hca_context, srqs), srq_of, &chosen);
	for (i = 0; i < chosen.count; i++) {
		struct srq *srq = chosen.object[i];
		struct snapshot_srq *out = &srqs[i];

		*out = (struct snapshot_srq){ .place = srq->number, .number = srq->number,
					      .users = atomic_load(&srq->users), .pd = srq->pd };
		copy_name(out->device, srq->owner);
		lock_acquire(&srq->queue.lock);
		out->limit = srq->limit;
		out->queue = (struct snapshot_queue){ .size = srq->queue.size,
						      .posted = recv_queue_count(&srq->queue),
						      .done = atomic_load(&srq->queue.tail) };
		lock_release(&srq->queue.lock);
	}
	lock_release(&hca->objects);
	*from = snapshot_place_behind(&chosen);
	return chosen.count;
}

/* ---- MRs ---- */

/* Of the region only what was set before it was registered. False: its key is dead. */
static bool snapshot_describe_mr(const struct mr_table *table, uint64_t index, struct snapshot_mr *out)
	REQUIRES(table->lock)
{
	const struct mr_entry *entry = &table->entry[index];
	const struct mr *mr = table->mr[index];
	uint32_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);

	if (!mr || !key)
		return false;
	*out = (struct snapshot_mr){ .place = index, .key = key, .pd = entry->pd, .access = entry->access,
				     .address = entry->start, .bytes = entry->length,
				     .age_ns = clock_coarse_ns() - mr->made_ns,
				     .kind = entry->kind == MR_NULL ? "null" :
					     mr->dm ? "device" : mr_block(table, key) ? "block" : "memory" };
	copy_name(out->device, mr->owner);
	return true;
}

unsigned hca_snapshot_mrs(struct hca *hca, uint64_t *from, struct snapshot_mr *mrs)
{
	struct mr_table *table = &hca->mrs;
	unsigned count = 0, looked;

	lock_acquire(&table->lock);
	for (looked = 0; *from < MR_TABLE_SIZE && looked < PLACES && count < SNAPSHOT_BATCH; looked++, ++*from)
		count += snapshot_describe_mr(table, *from, &mrs[count]);
	lock_release(&table->lock);
	if (*from >= MR_TABLE_SIZE)
		*from = SNAPSHOT_END;
	return count;
}

/* ---- the process ---- */

void hca_snapshot_process(struct hca *hca, struct snapshot_process *process)
{
	unsigned i;
	struct list *node;

	*process = (struct snapshot_process){ .slot = hca->engine.qps.slot[0].number,
					      .channels = local_channel_count(&hca->engine.local),
					      .memory = hca->config.memory[0] ? hca->config.memory : "auto" };
	for (i = 0; i < COUNTER_COUNT; i++)
		process->counter[i] = counter_get(hca->engine.counters, i);
	lock_acquire(&hca->objects);
	list_for_each(node, &hca->contexts)
		process->contexts += !list_entry(node, struct hca_context, node)->closed;
	process->qps = hca->engine.qps.count;
	process->cqs = hca->counts[OBJECT_CQ];
	process->srqs = hca->counts[OBJECT_SRQ];
	lock_release(&hca->objects);
	lock_acquire(&hca->mrs.lock);
	process->mrs = hca->mrs.regions;
	process->mr_bytes = hca->mrs.region_bytes;
	lock_release(&hca->mrs.lock);
}
