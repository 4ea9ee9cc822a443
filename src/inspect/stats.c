/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command "stats": the process, its devices and objects, as records (record.h; docs/stats.md says what
 * each field means). "stats process" stops behind counters and devices, "stats qps" behind QPs.
 *
 * An answer has a batch of each section at most. The cursor says where the next one begins: section << 40 |
 * number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
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

/* A row of stats.def, in a function that has the snapshot of its kind. */
#define ROW(type, name, value, ...) record_##type(&record, #name, value);

/* ---- the process ---- */

static unsigned stats_fetch_process(struct hca *hca, uint64_t *from, union batch *batch)
{
	*from = SNAPSHOT_END;
	hca_snapshot_process(hca, &batch->process);
	return 1;
}

static bool stats_put_process(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_process *process = &batch->process;
	size_t begin = answer->bytes;
	struct record record;
	unsigned n;
	bool fits;

	*place = 0;
	record_begin(&record, answer, "process");
#define PROCESS ROW
#include "inspect/stats.def"
	fits = record_end(&record);
	record_begin(&record, answer, "counters");
	for (n = 0; n < COUNTER_COUNT; n++)
		record_number(&record, counter_name(n), process->counter[n]);
	fits &= record_end(&record);
	record_begin(&record, answer, "hardware");
	for (n = 0; n < HARDWARE_COUNT; n++)
		record_number(&record, hardware_row(n)->name, hardware_value(n, process->counter));
	fits &= record_end(&record);
	if (!fits)
		answer->bytes = begin;
	return fits;
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
#define DEVICE ROW
#include "inspect/stats.def"
	return record_end(&record);
}

/* ---- QPs ---- */

static bool stats_put_qp(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_qp *qp = &batch->qps[i];
	struct record record;

	*place = qp->place;
	record_begin(&record, answer, "qp");
#define QP ROW
#define QP_IF(condition, ...) if (condition) { QP(__VA_ARGS__) }
#include "inspect/stats.def"
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
#define CQ ROW
#include "inspect/stats.def"
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
#define SRQ ROW
#include "inspect/stats.def"
	return record_end(&record);
}

static unsigned stats_fetch_mrs(struct hca *hca, uint64_t *from, union batch *batch)
{
	return hca_snapshot_mrs(hca, from, batch->mrs);
}

static bool stats_put_mr(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct snapshot_mr *mr = &batch->mrs[i];
	struct record record;

	*place = mr->place;
	record_begin(&record, answer, "mr");
#define MR ROW
#include "inspect/stats.def"
	return record_end(&record);
}

/* ---- ids of the connection manager ---- */

static unsigned stats_fetch_ids(struct hca *hca, uint64_t *from, union batch *batch)
{
	unsigned count = endpoint_list(*from, batch->ids, SNAPSHOT_BATCH);

	*from = count < SNAPSHOT_BATCH ? SNAPSHOT_END : batch->ids[count - 1].number + UINT64_C(1);
	return count;
}

static bool stats_put_id(const union batch *batch, unsigned i, struct inspect_answer *answer, uint64_t *place)
{
	const struct endpoint_row *id = &batch->ids[i];
	struct record record;

	*place = id->number;
	record_begin(&record, answer, "cm_id");
#define CM_ID ROW
#include "inspect/stats.def"
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
	unsigned end = 0;		/* there is no such argument */
	union batch *batch;

	for (size_t i = 0; i < sizeof(extents) / sizeof(extents[0]); i++)
		if (!strcmp(request->arguments, extents[i].argument))
			end = extents[i].sections;
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
