/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner's table of grants of one channel (grant.h). */
#include "local/grant/grant.h"

#include <assert.h>
#include <string.h>

#define SERIAL_MAX ((1u << (32 - GRANT_INDEX_BITS)) - 1)

static unsigned grant_bucket_of(enum grant_kind kind, uint32_t name)
{
	return ((name ^ (uint32_t)kind << 29) * 0x9e3779b1u) >> 24;
}
_Static_assert(GRANT_BUCKETS == 256, "grant_bucket_of() gives 8 bits");

void grants_init(struct grants *grants, struct grant_page *page)
{
	memset(grants, 0, sizeof(*grants));
	lock_init(&grants->lock);
	grants->page = page;
}

void grants_reset(struct grants *grants)
{
	unsigned i;

	lock_acquire(&grants->lock);
	memset(grants->bucket, 0, sizeof(grants->bucket));
	for (i = 0; i < grants->fresh; i++)
		grants->grant[i] = (struct grant){ .id = grants->grant[i].id };
	grants->free = grants->fresh = 0;
	atomic_store_explicit(&grants->last_qp, 0, memory_order_relaxed);
	grants->count = 0;
	lock_release(&grants->lock);
}

void grants_fini(struct grants *grants)
{
	lock_destroy(&grants->lock);
}

/* The link to the live grant of @name: in its bucket, or in the grant before it. */
static uint16_t *grant_link(struct grants *grants, enum grant_kind kind, uint32_t name)
	REQUIRES(grants->lock)
{
	uint16_t *link = &grants->bucket[grant_bucket_of(kind, name)];

	while (*link) {
		const struct grant *grant = &grants->grant[*link - 1];

		if (grant->kind == kind && grant->name == name)
			break;
		link = &grants->grant[*link - 1].next;
	}
	return link;
}

static uint32_t grant_make(struct grants *grants, enum grant_kind kind, uint32_t name)
	REQUIRES(grants->lock)
{
	uint16_t *bucket = &grants->bucket[grant_bucket_of(kind, name)];
	struct grant *grant;
	uint32_t serial;

	if (grants->fresh < GRANTS_MAX) {
		grant = &grants->grant[grants->fresh++];
	} else if (grants->free) {
		grant = &grants->grant[grants->free - 1];
		grants->free = grant->next;
	} else {
		return 0;
	}
	serial = (grant->id >> GRANT_INDEX_BITS) + 1;
	*grant = (struct grant){ .id = (serial > SERIAL_MAX ? 1 : serial) << GRANT_INDEX_BITS |
				       (uint32_t)(grant - grants->grant),
				 .name = name, .kind = (uint8_t)kind, .next = *bucket };
	*bucket = (uint16_t)(grant_index(grant->id) + 1);
	grants->count++;
	atomic_store_explicit(&grants->page->alive[grant_index(grant->id)], grant->id,
			      memory_order_release);
	return grant->id;
}

uint32_t grant_get(struct grants *grants, enum grant_kind kind, uint32_t name, bool *fresh)
{
	uint16_t *link;
	uint32_t id;

	lock_acquire(&grants->lock);
	link = grant_link(grants, kind, name);
	*fresh = !*link;
	id = *link ? grants->grant[*link - 1].id : grant_make(grants, kind, name);
	/* Ended by its QP, and not freed yet. */
	if (id && !grant_is_alive(grants->page, id))
		id = 0;
	lock_release(&grants->lock);
	return id;
}

static struct grant *grant_living(struct grants *grants, uint32_t id) REQUIRES(grants->lock)
{
	struct grant *grant = &grants->grant[grant_index(id)];

	return id && grant->id == id && grant->kind != GRANT_NONE && !grant->dying &&
	       grant_is_alive(grants->page, id) ? grant : NULL;
}

bool grant_find(struct grants *grants, enum grant_kind kind, uint32_t id, uint32_t *name)
{
	const struct grant *grant;

	lock_acquire(&grants->lock);
	grant = grant_living(grants, id);
	if (grant && grant->kind != kind)
		grant = NULL;
	if (grant)
		*name = grant->name;
	lock_release(&grants->lock);
	return grant;
}

bool grant_find_qp(struct grants *grants, uint32_t id, uint32_t *qpn)
{
	uint64_t last = atomic_load_explicit(&grants->last_qp, memory_order_relaxed);

	if (id && last >> 32 == id && grant_is_alive(grants->page, id)) {
		*qpn = (uint32_t)last;
		return true;
	}
	if (!grant_find(grants, GRANT_QP, id, qpn))
		return false;
	atomic_store_explicit(&grants->last_qp, (uint64_t)id << 32 | *qpn, memory_order_relaxed);
	return true;
}

bool grant_set_mapped(struct grants *grants, uint32_t id)
{
	struct grant *grant;
	bool before = false;

	lock_acquire(&grants->lock);
	grant = grant_living(grants, id);
	if (grant) {
		before = grant->mapped;
		grant->mapped = true;
	}
	lock_release(&grants->lock);
	return before;
}

bool grant_is_mapped(struct grants *grants, enum grant_kind kind, uint32_t name)
{
	uint16_t *link;
	bool mapped;

	lock_acquire(&grants->lock);
	link = grant_link(grants, kind, name);
	mapped = *link && grants->grant[*link - 1].mapped;
	lock_release(&grants->lock);
	return mapped;
}

bool grant_next_mapped(struct grants *grants, unsigned *at, uint32_t *name)
{
	bool found = false;

	lock_acquire(&grants->lock);
	for (; *at < grants->fresh && !found; (*at)++) {
		const struct grant *grant = &grants->grant[*at];

		found = grant->kind == GRANT_REGION && !grant->dying && grant->mapped;
		if (found)
			*name = grant->name;
	}
	lock_release(&grants->lock);
	return found;
}

bool grant_next_ended(struct grants *grants, unsigned *at, uint32_t *name)
{
	bool found = false;

	lock_acquire(&grants->lock);
	for (; *at < grants->fresh && !found; (*at)++) {
		const struct grant *grant = &grants->grant[*at];

		found = grant->kind == GRANT_QP && !grant->dying &&
			!grant_is_alive(grants->page, grant->id);
		if (found)
			*name = grant->name;
	}
	lock_release(&grants->lock);
	return found;
}

uint32_t grant_kill(struct grants *grants, enum grant_kind kind, uint32_t name)
{
	struct grant *grant;
	uint16_t *link;
	uint32_t id = 0;

	lock_acquire(&grants->lock);
	link = grant_link(grants, kind, name);
	if (*link) {
		grant = &grants->grant[*link - 1];
		*link = grant->next;
		grant->dying = true;
		id = grant->id;
		atomic_store_explicit(&grants->page->alive[grant_index(id)], 0,
				      memory_order_seq_cst);
	}
	lock_release(&grants->lock);
	return id;
}

void grant_free(struct grants *grants, uint32_t id)
{
	struct grant *grant = &grants->grant[grant_index(id)];

	lock_acquire(&grants->lock);
	if (grant->id == id && grant->dying) {
		grant->kind = GRANT_NONE;
		grant->dying = false;
		grant->next = grants->free;
		grants->free = (uint16_t)(grant_index(id) + 1);
		grants->count--;
	}
	lock_release(&grants->lock);
}
