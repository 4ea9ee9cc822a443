/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths: congestion windows shared by the QPs of this process that talk to one peer process.
 * Accounting is in bytes of cost, given by the caller that reserves; see path.h for the rules of
 * the window.
 *
 * Lock order: table->lock, path->lock, run queue.
 */
#include "transport/path.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "object/qp.h"
#include "wire/packet.h"
#include "transport/run_queue.h"

/* Growth above slow start: 4 KiB per round trip, or as much per 32 us on longer ones. */
#define GROWTH_BYTES	4096u
#define GROWTH_NS	32768u
#define GROWTHS_MAX	4u
#define SHORT_NS	50000u		/* round trips that leave time for batching */

void path_table_init(struct path_table *table)
{
	size_t i;

	lock_init(&table->lock);
	table->window_bytes = PATH_WINDOW_START;
	table->window_max_bytes = PATH_WINDOW_MAX;
	for (i = 0; i < sizeof(table->bucket) / sizeof(table->bucket[0]); i++)
		list_init(&table->bucket[i]);
}

static void path_free(struct path *path)
{
	list_remove(&path->node);
	lock_destroy(&path->lock);
	free(path);
}

void path_table_fini(struct path_table *table)
{
	struct list *node, *following;
	size_t i;

	lock_destroy(&table->lock);
	for (i = 0; i < sizeof(table->bucket) / sizeof(table->bucket[0]); i++)
		list_for_each_safe(node, following, &table->bucket[i])
			path_free(list_entry(node, struct path, node));
}

uint32_t path_group(const uint8_t address[16])
{
	uint32_t hash = ip_addr_hash(address);

	return hash ? hash : 1;
}

/* No process has the slot of QPN_MULTICAST. */
struct path_key path_key_of_group(uint32_t group)
{
	struct path_key key = { .slot = qpn_slot(QPN_MULTICAST) };

	memcpy(key.destination + 12, &group, sizeof(group));
	return key;
}

static struct list *path_bucket_of(struct path_table *table, const struct path_key *key)
{
	uint32_t hash = ip_addr_hash(key->destination) ^ key->slot * 2654435761u;

	return &table->bucket[hash >> 24];
}

static struct path *path_find(struct list *bucket, const struct path_key *key)
{
	struct list *node;

	list_for_each(node, bucket) {
		struct path *path = list_entry(node, struct path, node);

		if (path->key.slot == key->slot &&
		    !memcmp(path->key.destination, key->destination, sizeof(key->destination)))
			return path;
	}
	return NULL;
}

static struct path *path_new(struct path_table *table, const struct path_key *key)
{
	struct path *path = calloc(1, sizeof(*path));

	if (!path)
		return NULL;
	path->key = *key;
	lock_init(&path->lock);
	list_init(&path->waiting);
	path->window_bytes = table->window_bytes;
	path->window_max_bytes = table->window_max_bytes;
	path->slow_start_bytes = PATH_WINDOW_CAUTIOUS;
	flow_init(&path->flow);
	return path;
}

struct path *path_get(struct path_table *table, const struct path_key *key)
{
	struct list *bucket = path_bucket_of(table, key);
	struct path *path;

	lock_acquire(&table->lock);
	path = path_find(bucket, key);
	if (!path) {
		path = path_new(table, key);
		if (path)
			list_add_tail(bucket, &path->node);
	}
	if (path)
		path->references++;
	lock_release(&table->lock);
	return path;
}

struct path *path_get_known(struct path_table *table, const struct path_key *key)
{
	struct path *path;

	lock_acquire(&table->lock);
	path = path_find(path_bucket_of(table, key), key);
	if (path)
		path->references++;
	lock_release(&table->lock);
	return path;
}

void path_put(struct path_table *table, struct path *path)
{
	lock_acquire(&table->lock);
	assert(path->references > 0);
	if (--path->references == 0)
		path_free(path);
	lock_release(&table->lock);
}

static bool is_waiting(const struct qp *qp)
{
	return !list_empty(&qp->wait_node);
}

static void path_wake_next(struct path *path, struct run_queue *queue) REQUIRES(path->lock)
{
	struct list *node;
	struct qp *qp;

	if (path->in_flight_bytes && path->in_flight_bytes >= path->window_bytes)
		return;
	node = list_pop(&path->waiting);
	if (!node)
		return;
	qp = list_entry(node, struct qp, wait_node);
	qp->requester.path_turn = true;
	run_queue_add(queue, qp);
}

/* A QP that had its turn but found too little room keeps its place. */
static void path_wait_for_room(struct path *path, struct qp *qp) REQUIRES(path->lock)
{
	if (is_waiting(qp))
		return;
	if (qp->requester.path_turn)
		list_add_tail(path->waiting.next, &qp->wait_node);
	else
		list_add_tail(&path->waiting, &qp->wait_node);
	qp->requester.path_turn = false;
}

uint32_t path_reserve(struct path *path, struct qp *qp, uint32_t least, uint32_t wanted)
{
	uint32_t granted = 0, room = 0;

	lock_acquire(&path->lock);
	if (path->in_flight_bytes < path->window_bytes)
		room = path->window_bytes - path->in_flight_bytes;
	if (!qp->requester.path_turn && !list_empty(&path->waiting))
		path_wait_for_room(path, qp);
	else if (room >= least)
		granted = room < wanted ? room : wanted;
	else if (path->in_flight_bytes == 0)
		granted = least;
	else
		path_wait_for_room(path, qp);
	path->in_flight_bytes += granted;
	lock_release(&path->lock);
	return granted;
}

uint64_t path_shortest(const struct path *path)
{
	return atomic_load_explicit(&path->rtt_min_ns, memory_order_relaxed);
}

uint32_t path_piece(const struct path *path)
{
	uint64_t rtt_ns = path_shortest(path);
	uint32_t window = atomic_load_explicit(&path->window_bytes, memory_order_relaxed);

	return window > PATH_WINDOW_CAUTIOUS && rtt_ns && rtt_ns < SHORT_NS ? window / 4 : 0;
}

static void give_back(struct path *path, uint32_t bytes) REQUIRES(path->lock)
{
	assert(bytes <= path->in_flight_bytes);
	path->in_flight_bytes -= bytes;
}

/* RFC 6298's smoothing; the variance starts at half the first sample. */
static void learn_rtt(struct path *path, uint64_t sample_ns) REQUIRES(path->lock)
{
	uint64_t delta_ns;

	if (!path->rtt_min_ns || sample_ns < path->rtt_min_ns)
		path->rtt_min_ns = sample_ns;
	if (!path->rtt_ns) {
		path->rtt_ns = sample_ns;
		path->rtt_var_ns = sample_ns / 2;
		return;
	}
	delta_ns = sample_ns > path->rtt_ns ? sample_ns - path->rtt_ns : path->rtt_ns - sample_ns;
	path->rtt_var_ns += delta_ns / 4 - path->rtt_var_ns / 4;
	path->rtt_ns += sample_ns / 8 - path->rtt_ns / 8;
}

static uint64_t growth_per_round(const struct path *path) REQUIRES(path->lock)
{
	uint64_t growths = path->rtt_ns / GROWTH_NS;

	if (growths > GROWTHS_MAX)
		growths = GROWTHS_MAX;
	return growths > 1 ? growths * GROWTH_BYTES : GROWTH_BYTES;
}

/* Only a window that was needed grows. */
static void path_grow(struct path *path, uint32_t bytes) REQUIRES(path->lock)
{
	uint64_t window = path->window_bytes, limit = path->window_max_bytes;

	path->cautious_bytes -= bytes < path->cautious_bytes ? bytes : path->cautious_bytes;
	if (path->cautious_bytes && limit > PATH_WINDOW_CAUTIOUS)
		limit = PATH_WINDOW_CAUTIOUS;
	if (path->in_flight_bytes + (uint64_t)bytes < window / 2)
		return;
	if (window < path->slow_start_bytes)
		window += bytes;
	else
		window += growth_per_round(path) * bytes / window + 1;
	if (window > limit)
		window = limit;
	path->window_bytes = (uint32_t)window;
}

uint64_t path_answered(struct path *path, struct run_queue *queue, uint32_t bytes, uint64_t rtt_ns)
{
	uint64_t rto_ns;

	lock_acquire(&path->lock);
	path_grow(path, bytes);
	give_back(path, bytes);
	if (rtt_ns)
		learn_rtt(path, rtt_ns);
	if (!list_empty(&path->waiting))
		path_wake_next(path, queue);
	rto_ns = path->rtt_ns + 4 * path->rtt_var_ns;
	lock_release(&path->lock);
	return rto_ns;
}

void path_release(struct path *path, struct run_queue *queue, uint32_t bytes)
{
	lock_acquire(&path->lock);
	give_back(path, bytes);
	if (!list_empty(&path->waiting))
		path_wake_next(path, queue);
	lock_release(&path->lock);
}

void path_served(struct path *path, struct run_queue *queue, struct qp *qp)
{
	if (!atomic_load_explicit(&qp->requester.path_turn, memory_order_relaxed))
		return;
	lock_acquire(&path->lock);
	qp->requester.path_turn = false;
	if (!is_waiting(qp) && !list_empty(&path->waiting))
		path_wake_next(path, queue);
	lock_release(&path->lock);
}

void path_leave(struct path *path, struct run_queue *queue, struct qp *qp)
{
	lock_acquire(&path->lock);
	if (is_waiting(qp))
		list_remove(&qp->wait_node);
	if (qp->requester.path_turn)
		path_wake_next(path, queue);
	qp->requester.path_turn = false;
	lock_release(&path->lock);
}

uint64_t path_least_round(struct path *path)
{
	uint64_t rtt_ns;

	lock_acquire(&path->lock);
	rtt_ns = path->window_bytes > PATH_WINDOW_MIN ? 0 : path->rtt_ns;
	lock_release(&path->lock);
	return rtt_ns;
}

void path_lost(struct path *path, uint32_t bytes, uint64_t now_ns)
{
	uint32_t window;

	lock_acquire(&path->lock);
	window = path->window_bytes;
	if (bytes > window / 2)
		bytes = window / 2;
	window -= bytes;
	path->window_bytes = window < PATH_WINDOW_MIN ? PATH_WINDOW_MIN : window;
	path->slow_start_bytes = path->window_bytes;
	path->cautious_bytes = 0;
	path->reduced_at_ns = now_ns;
	lock_release(&path->lock);
}

void path_forgives(struct path *path)
{
	lock_acquire(&path->lock);
	if (path->slow_start_bytes < PATH_WINDOW_CAUTIOUS)
		path->slow_start_bytes = PATH_WINDOW_CAUTIOUS;
	path->cautious_bytes = 0;
	lock_release(&path->lock);
}

void path_reduce(struct path *path, enum path_trouble trouble, uint64_t now_ns)
{
	uint32_t window;

	lock_acquire(&path->lock);
	window = path->window_bytes;
	if (trouble == PATH_SILENT)
		window = PATH_WINDOW_MIN;
	else if (!path->reduced_at_ns || now_ns - path->reduced_at_ns >= path->rtt_ns)
		window = trouble == PATH_LOSS ? window - window / 8 : window / 2;
	if (window != path->window_bytes) {
		if (window > PATH_WINDOW_CAUTIOUS)
			window = PATH_WINDOW_CAUTIOUS;
		path->window_bytes = window < PATH_WINDOW_MIN ? PATH_WINDOW_MIN : window;
		path->slow_start_bytes = path->window_bytes;
		path->reduced_at_ns = now_ns;
	}
	if (trouble == PATH_SILENT)
		path->slow_start_bytes = PATH_WINDOW_START;
	path->cautious_bytes = PATH_CAUTIOUS_BYTES;
	lock_release(&path->lock);
}
