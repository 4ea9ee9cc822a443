/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command "stats": the process, its devices and objects, as records (record.h; docs/stats.md says what
 * each field means). "stats process" stops behind counters and devices, "stats qps" behind QPs.
 *
 * An answer has a batch of each section at most. The cursor says where the next one begins: section << 40 |
 * number.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/ip_addr.h"
#include "cm/endpoint/endpoint.h"
#include "device/snapshot.h"
#include "inspect/inspect.h"
#include "inspect/record.h"
#include "object/qp.h"
#include "object/qp_type.h"

#define PLACE_BITS	40
#define PLACE_MASK	((UINT64_C(1) << PLACE_BITS) - 1)

/* A batch of objects, of whatever kind. */
union batch {
	struct snapshot_process process;
	struct snapshot_device devices[SNAPSHOT_BATCH];
	struct snapshot_qp qps[SNAPSHOT_BATCH];
	struct snapshot_cq cqs[SNAPSHOT_BATCH];
	struct snapshot_srq srqs[SNAPSHOT_BATCH];
	struct snapshot_mr mrs[SNAPSHOT_BATCH];
	struct endpoint_row ids[SNAPSHOT_BATCH];
};

/* ---- the process ---- */

static bool write_process(const struct snapshot_process *process, struct inspect_answer *answer)
{
	struct record record;

	record_begin(&record, answer, "process");
	record_number(&record, "pid", (uint64_t)getpid());
	record_text(&record, "program", program_invocation_short_name);
	record_number(&record, "user", getuid());
	record_number(&record, "slot", process->slot);
	record_text(&record, "memory", process->memory);
	record_number(&record, "shares_memory_with", process->channels);
	record_number(&record, "context_count", process->contexts);
	record_number(&record, "qp_count", process->qps);
	record_number(&record, "cq_count", process->cqs);
	record_number(&record, "srq_count", process->srqs);
	record_number(&record, "mr_count", process->mrs);
	record_number(&record, "mr_bytes", process->mr_bytes);
	return record_end(&record);
}

static bool write_counters(const struct snapshot_process *process, struct inspect_answer *answer)
{
	struct record record;
	unsigned i;
	bool fits;

	record_begin(&record, answer, "counters");
	for (i = 0; i < COUNTER_COUNT; i++)
		record_number(&record, counter_name(i), process->counter[i]);
	fits = record_end(&record);
	record_begin(&record, answer, "hardware");
	for (i = 0; i < HARDWARE_COUNT; i++)
		record_number(&record, hardware_row(i)->name, hardware_value(i, process->counter));
	return record_end(&record) && fits;
}

static unsigned stats_fetch_process(struct hca *hca, uint64_t *from, union batch *batch)
{
	*from = SNAPSHOT_END;
	hca_snapshot_process(hca, &batch->process);
	return 1;
}

static bool stats_put_process(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	size_t begin = answer->bytes;

	*place = 0;
	if (write_process(&batch->process, answer) && write_counters(&batch->process, answer))
		return true;
	answer->bytes = begin;
	return false;
}

/* ---- devices ---- */

static unsigned stats_fetch_devices(struct hca *hca, uint64_t *from, union batch *batch)
{
	return hca_snapshot_devices(hca, from, batch->devices);
}

static bool stats_put_device(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_device *device = &batch->devices[i];
	struct record record;

	*place = device->place;
	record_begin(&record, answer, "device");
	record_text(&record, "device", device->name);
	record_text(&record, "interface", device->interface);
	record_text(&record, "state", device->active ? "active" : "down");
	record_number(&record, "mtu", device->mtu);
	record_number(&record, "gids", device->gids);
	record_number(&record, "contexts", device->contexts);
	return record_end(&record);
}

/* ---- QPs ---- */

static const char *const tally_names[QP_COUNTERS] = {
#define QP_COUNTER(id, name) [QP_COUNTER_##id] = name,
#define QP_COUNTS(id, row)
#include "object/qp_counter.def"
#undef QP_COUNTER
#undef QP_COUNTS
};

static void stats_put_path(const struct snapshot_path *path, struct record *record)
{
	char address[INET6_ADDRSTRLEN] = "";

	if (!path->way)
		return;
	if (ip_addr_is_ipv4(path->address))
		inet_ntop(AF_INET, path->address + 12, address, sizeof(address));
	else
		inet_ntop(AF_INET6, path->address, address, sizeof(address));
	record_text(record, "peer", address);
	record_hex(record, "peer_qp", 6, path->qpn);
	record_text(record, "path", path->way);
	record_text(record, "why", path->why);
	record_number(record, "window_bytes", path->window_bytes);
	record_number(record, "window_used_bytes", path->in_flight_bytes);
	record_number(record, "round_trip_ns", path->rtt_ns);
}

static void stats_put_queues(const struct snapshot_qp *qp, struct record *record)
{
	record_number(record, "send_size", qp->sends.size);
	record_number(record, "send_posted", qp->sends.posted);
	record_number(record, "sends_completed", qp->sends.done);
	record_number(record, "recv_size", qp->receives.size);
	record_number(record, "recv_posted", qp->receives.posted);
	record_number(record, "receives_taken", qp->receives.done);
	record_number(record, "in_flight_bytes", qp->in_flight_bytes);
	record_number(record, "reads_in_flight", qp->reads_in_flight);
	record_number(record, "messages_in_flight", qp->messages_in_flight);
	record_text(record, "waits_for", qp->waits_for_receiver ? "receiver" :
		    qp->waits_for_window ? "window" : "");
}

static bool stats_put_qp(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_qp *qp = &batch->qps[i];
	struct record record;

	*place = qp->place;
	record_begin(&record, answer, "qp");
	record_hex(&record, "qp", 6, qp->number);
	record_text(&record, "device", qp->device);
	record_text(&record, "type", qp_type_name(qp->type));
	record_text(&record, "state", qp_state_name(qp->state));
	stats_put_path(&qp->path, &record);
	stats_put_queues(qp, &record);
	for (i = 0; i < QP_COUNTERS; i++)
		record_number(&record, tally_names[i], qp->tally[i]);
	record_number(&record, "last_error", (uint64_t)qp->last_error);
	record_number(&record, "mtu", qp->mtu);
	record_number(&record, "next_psn", qp->next_psn);
	record_number(&record, "expected_psn", qp->expected_psn);
	record_number(&record, "pd", qp->pd);
	record_number(&record, "send_cq", qp->send_cq);
	record_number(&record, "recv_cq", qp->recv_cq);
	record_number(&record, "srq", qp->srq);
	return record_end(&record);
}

static unsigned stats_fetch_qps(struct hca *hca, uint64_t *from, union batch *batch)
{
	return hca_snapshot_qps(hca, from, batch->qps);
}

/* ---- CQs, SRQs, MRs ---- */

static unsigned stats_fetch_cqs(struct hca *hca, uint64_t *from, union batch *batch)
{
	return hca_snapshot_cqs(hca, from, batch->cqs);
}

static bool stats_put_cq(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_cq *cq = &batch->cqs[i];
	struct record record;

	*place = cq->place;
	record_begin(&record, answer, "cq");
	record_number(&record, "cq", cq->number);
	record_text(&record, "device", cq->device);
	record_number(&record, "size", cq->queue.size);
	record_number(&record, "waiting", cq->queue.posted);
	record_number(&record, "polled", cq->queue.done);
	record_number(&record, "users", cq->users);
	record_text(&record, "armed", cq->armed);
	record_bool(&record, "overflowed", cq->overflowed);
	return record_end(&record);
}

static unsigned stats_fetch_srqs(struct hca *hca, uint64_t *from, union batch *batch)
{
	return hca_snapshot_srqs(hca, from, batch->srqs);
}

static bool stats_put_srq(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_srq *srq = &batch->srqs[i];
	struct record record;

	*place = srq->place;
	record_begin(&record, answer, "srq");
	record_number(&record, "srq", srq->number);
	record_text(&record, "device", srq->device);
	record_number(&record, "size", srq->queue.size);
	record_number(&record, "posted", srq->queue.posted);
	record_number(&record, "taken", srq->queue.done);
	record_number(&record, "limit", srq->limit);
	record_number(&record, "users", srq->users);
	record_number(&record, "pd", srq->pd);
	return record_end(&record);
}

static unsigned stats_fetch_mrs(struct hca *hca, uint64_t *from, union batch *batch)
{
	return hca_snapshot_mrs(hca, from, batch->mrs);
}

static void stats_put_rights(unsigned access, struct record *record)
{
	char text[6];

	snprintf(text, sizeof(text), "%s%s%s%s%s", access & IBV_ACCESS_LOCAL_WRITE ? "l" : "",
		 access & IBV_ACCESS_REMOTE_READ ? "r" : "", access & IBV_ACCESS_REMOTE_WRITE ? "w" : "",
		 access & IBV_ACCESS_REMOTE_ATOMIC ? "a" : "", access & IBV_ACCESS_MW_BIND ? "b" : "");
	record_text(record, "access", text);
}

static bool stats_put_mr(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_mr *mr = &batch->mrs[i];
	struct record record;

	*place = mr->place;
	record_begin(&record, answer, "mr");
	record_hex(&record, "key", 8, mr->key);
	record_text(&record, "device", mr->device);
	record_hex(&record, "address", 1, mr->address);
	record_number(&record, "bytes", mr->bytes);
	stats_put_rights(mr->access, &record);
	record_text(&record, "kind", mr->kind);
	record_number(&record, "age_ms", mr->age_ns / 1000000);
	record_number(&record, "pd", mr->pd);
	return record_end(&record);
}

/* ---- ids of the connection manager ---- */

static unsigned stats_fetch_ids(struct hca *hca, uint64_t *from, union batch *batch)
{
	unsigned count = endpoint_list(*from, batch->ids, SNAPSHOT_BATCH);

	*from = count < SNAPSHOT_BATCH ? SNAPSHOT_END : batch->ids[count - 1].number + UINT64_C(1);
	return count;
}

/* "192.0.2.1:7471", "[fe80::1]:7471", "*:7471", "" where there is none. */
static void stats_put_address(const char *name, const struct sockaddr_storage *storage, struct record *record)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)storage;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)storage;
	char address[INET6_ADDRSTRLEN] = "", text[INET6_ADDRSTRLEN + 16] = "";

	if (storage->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "%s:%u", in->sin_addr.s_addr ? address : "*", ntohs(in->sin_port));
	} else if (storage->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "[%s]:%u", address, ntohs(in6->sin6_port));
	} else if (storage->ss_family) {
		snprintf(text, sizeof(text), "AF_IB");
	}
	record_text(record, name, text);
}

static bool stats_put_id(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct endpoint_row *id = &batch->ids[i];
	struct record record;

	*place = id->number;
	record_begin(&record, answer, "cm_id");
	record_number(&record, "id", id->number);
	record_text(&record, "device", id->device);
	record_text(&record, "space", id->space);
	record_text(&record, "state", id->state);
	stats_put_address("source", &id->source, &record);
	stats_put_address("destination", &id->destination, &record);
	record_hex(&record, "qp", 6, id->qp_num);
	return record_end(&record);
}

/* ---- all of them ---- */

static const struct section {
	unsigned (*fetch)(struct hca *hca, uint64_t *from, union batch *batch);	/* as device/snapshot.h */
	/* False: it does not fit. *place: of that object. */
	bool (*put)(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place);
} sections[] = {
	{ stats_fetch_process, stats_put_process }, { stats_fetch_devices, stats_put_device },
	{ stats_fetch_qps, stats_put_qp }, { stats_fetch_cqs, stats_put_cq }, { stats_fetch_srqs, stats_put_srq },
	{ stats_fetch_mrs, stats_put_mr }, { stats_fetch_ids, stats_put_id },
};
#define SECTIONS	(sizeof(sections) / sizeof(sections[0]))

static const struct {
	const char *argument;
	unsigned sections;
} extents[] = { { "", SECTIONS }, { "process", 2 }, { "qps", 3 } };

/* 0: there is no such argument. */
static unsigned sections_of(const char *argument)
{
	for (size_t i = 0; i < sizeof(extents) / sizeof(extents[0]); i++)
		if (!strcmp(argument, extents[i].argument))
			return extents[i].sections;
	return 0;
}

/* True: the section is complete. Else *from is where to go on. */
static bool stats_section(struct hca *hca, const struct section *section, union batch *batch, uint64_t *from,
			  struct inspect_answer *answer)
{
	while (*from != SNAPSHOT_END) {
		uint64_t next = *from, place;
		unsigned count = section->fetch(hca, &next, batch), i;

		for (i = 0; i < count; i++)
			if (!section->put(batch, i, answer, &place)) {
				*from = place;
				return false;
			}
		*from = next;
	}
	return true;
}

static int stats_answer(struct inspect_session *session, struct inspect_request *request,
			struct inspect_answer *answer)
{
	uint64_t section = request->cursor >> PLACE_BITS, from = request->cursor & PLACE_MASK;
	unsigned end = sections_of(request->arguments);
	union batch *batch;

	if (!end) {
		inspect_print(answer, "stats has no argument '%.32s': process, qps, or none", request->arguments);
		return EINVAL;
	}
	batch = malloc(sizeof(*batch));
	if (!batch)
		return ENOMEM;
	for (; section < end; section++, from = 0)
		if (!stats_section(session->hca, &sections[section], batch, &from, answer))
			break;
	free(batch);
	answer->cursor = section < end ? section << PLACE_BITS | from : 0;
	return 0;
}

const struct inspect_command inspect_stats = { .name = "stats", .answer = stats_answer };
