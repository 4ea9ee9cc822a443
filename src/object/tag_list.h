/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffers of a tag-matching SRQ that wait for a message of their tag (ibv_post_srq_ops(3)), in the order
 * in which they were added, and the count that keeps them true: a message without a buffer (unexpected) is
 * software's, which may hold others of the same tag; a buffer that is added before software has counted
 * it could match a later message first. So such a buffer sleeps until software reports the count of unexpected
 * messages that the device has.
 *
 * No locks: all of it is under the queue's lock of the SRQ. Counts are compared modulo 2^16.
 */
#ifndef VERBATIM_OBJECT_TAG_LIST_H
#define VERBATIM_OBJECT_TAG_LIST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "object/wqe_slots.h"

struct recv_wqe;

#define TAG_SGE_MAX	4u
#define TAG_NONE	UINT32_MAX

enum tag_state { TAG_UNUSED, TAG_WAITING, TAG_CONSUMED, TAG_DELETED };

struct tag_entry {
	uint64_t tag, mask, wr_id;
	uint32_t next, previous;	/* in the list, or (next) among the free */
	uint32_t handle;		/* as given out last: where it is, and how often that was used */
	uint16_t sge_count;
	uint8_t state;			/* enum tag_state */
	bool sleeps;			/* until the counts agree; all behind one that sleeps do */
	struct ibv_sge sge[TAG_SGE_MAX];
};

struct tag_list {
	uint32_t size;			/* entries */
	uint32_t max_ops;		/* outstanding */
	uint32_t first, last;		/* TAG_NONE: empty */
	uint32_t free_first, free_last;
	uint16_t unexpected;		/* messages so far */
	uint16_t handled;		/* of those, as software reported last */
	uint32_t added;			/* so far: what the next one is for its slot ... */
	struct wqe_slots slots;		/* ... which is free when its data's completion was polled */
	uint32_t posted;		/* operations so far */
	struct wqe_slots ops;		/* of them at most max_ops are outstanding */
	struct tag_entry entry[];
};

struct tag_list *tag_list_new(uint32_t size, uint32_t max_ops);	/* NULL: no memory; free() it */

static inline bool tag_list_in_step(const struct tag_list *list)
{
	return list->unexpected == list->handled;
}

/* How many unexpected messages software has not reported yet. */
static inline uint16_t tag_list_behind(const struct tag_list *list)
{
	return (uint16_t)(list->unexpected - list->handled);
}

/* Software has handled @count. False, and nothing changes: there were not so many. */
bool tag_list_report(struct tag_list *list, uint32_t count);
/* At the end; fills wr->tm.handle. False: full, of those in the list and those whose completion was not polled. */
bool tag_list_add(struct tag_list *list, struct ibv_ops_wr *wr);
/*
 * TAG_WAITING: removed. TAG_CONSUMED: a message was faster. TAG_DELETED: removed before. TAG_UNUSED: never
 * given out.
 */
enum tag_state tag_list_delete(struct tag_list *list, uint32_t handle);
/* The oldest that is awake and that @tag matches; NULL: none. */
struct tag_entry *tag_list_find(struct tag_list *list, uint64_t tag);
/* Move it to @recv, which has room for TAG_SGE_MAX SGEs. */
void tag_list_consume(struct tag_list *list, struct tag_entry *entry, struct recv_wqe *recv);
void tag_list_unexpected(struct tag_list *list);
/* One that software will not see, as its QP failed while it came. */
void tag_list_forget(struct tag_list *list);

#endif
