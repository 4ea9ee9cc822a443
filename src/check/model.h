/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program has, as its calls say: objects, requests under way, armed CQs. Rules look at it
 * when a record comes, before the record changes it, and report. No clock, no thread, no input or
 * output: a test feeds records and gets findings.
 */
#ifndef VERBATIM_CHECK_MODEL_H
#define VERBATIM_CHECK_MODEL_H

#include <stddef.h>

#include "check/profile.h"
#include "check/record.h"
#include "check/work.h"

#define CHECK_TEXT_MAX 400u
#define CHECK_TABLE 4096u

/* Large: what each kind of object has is beside the others', in one table. */
struct check_object {
	struct check_object *next;	/* in its place of the table */
	struct check_object *by_number;	/* of QPs */
	uint64_t handle;
	enum check_kind kind;
	uint32_t number, made;	/* made: stack */
	bool ending;		/* its destruction was tried, and not yet refused */
	bool told;		/* a leak of it was told, or is none of the program's */
	uint64_t context, pd, send_cq, recv_cq, srq, channel, domain, other;
	/* cq */
	uint32_t entries, due;	/* due: completions that can come, of QPs without an SRQ */
	bool armed, ever_armed, emptied, emptied_at_arm, polled_since_arm, due_at_arm,
		posted_since_arm;
	uint32_t standing; /* that stood in it when it was armed, and were not polled since */
	bool alone, used;  /* one thread has armed it and polled it so far: that one; any has */
	uint64_t thread;
	uint32_t arm_stack, got, acknowledged;
	uint64_t got_thread;
	bool several_got;	/* more than one thread took events */
	/* qp, srq */
	uint32_t type, state, max_send_wr, max_send_sge, max_recv_sge, max_inline;
	bool signal_all, failed;	/* failed: an error completion was polled */
	struct check_queue sends, receives;
	/* mr */
	uint64_t address, bytes;
	uint32_t rkey, access;
	uint32_t dest_rd_atomic;	/* qp */
	bool one_thread, told_threads;
	/* Asynchronous events of it. */
	uint32_t async_got, async_acknowledged;
	uint64_t async_thread;
	/* rdma_cm_id: events that were got, and acknowledged; how far it is (enum check_step). */
	uint32_t step;
	bool reads_async;	/* context: somebody asks for such events */
};

/* How far an rdma_cm_id is. */
enum check_step {
	CHECK_STEP_NEW,		/* or bound */
	CHECK_STEP_ADDRESS,	/* its address is being resolved, or was */
	CHECK_STEP_ADDRESS_IS,
	CHECK_STEP_ROUTE,
	CHECK_STEP_ROUTE_IS,
	CHECK_STEP_LISTENS,
	CHECK_STEP_REQUESTED,	/* by a peer */
	CHECK_STEP_BEYOND,
};

struct check_finding {
	unsigned rule;				/* enum check_rule */
	char text[CHECK_TEXT_MAX];		/* what was done, with which objects */
	const struct check_object *object;	/* or NULL */
	bool has_wr_id;
	uint64_t wr_id;
	uint32_t cause;		/* stack; 0: none */
	const char *cause_is;	/* "posted here"; NULL: none */
	bool at_cause;		/* it is told at the end: the place is the cause */
};

struct check_model;

/* What only the device knows. */
struct check_device {
	/* An error that waits in a CQ of @qp, other than IBV_WC_WR_FLUSH_ERR. */
	bool (*has_error)(const struct check_object *qp, uint32_t *status, uint64_t *wr_id);
	/* The name of an event of a failure of @object, or in a context, that waits; NULL: none. */
	const char *(*unread_event)(const struct check_object *object);
};

/* What only librdmacm knows: the same of an id, or of an event channel. */
typedef const char *check_manager(const struct check_object *object);

struct check_model {
	struct check_object *table[CHECK_TABLE], *qps[CHECK_TABLE], *regions[CHECK_TABLE];
	void (*look)(struct check_model *model, const struct check_record *record); /* the rules */
	void (*report)(struct check_model *model, const struct check_finding *finding);
	uint32_t made[CHECK_KIND_COUNT];	/* so far: numbers of those that have none */
	const struct check_device *device;	/* NULL: nobody knows */
	check_manager *manager;			/* the same */
	bool at_end;
	/* The adapter that the program is meant for; NULL: any. */
	const struct check_profile *profile;
	bool strict;	/* it refuses what would not fit */
	int refusal;	/* of the record at hand: 0, or the errno that the adapter would give */
	bool has_looked_at_gids;
	uint64_t own[CHECK_FACTS];	/* limits of our device that it was told; 0: not */
	uint64_t registered;		/* bytes of regions */
};

void check_model_take(struct check_model *model, const struct check_record *record);
void check_model_free(struct check_model *model);

/* Where @key stands in the tables. */
size_t check_place(uint64_t key);
struct check_object *check_find(const struct check_model *model, uint64_t handle);
struct check_object *check_find_qp(const struct check_model *model, uint32_t number);
struct check_object *check_find_region(const struct check_model *model, uint32_t lkey);
/* Each object: @next is NULL at the beginning, and what it returned. */
struct check_object *check_next(const struct check_model *model, const struct check_object *object);
/* "qp 0x000012" */
const char *check_name(const struct check_object *object, char text[64]);
const char *check_kind_name(enum check_kind kind);

#endif
