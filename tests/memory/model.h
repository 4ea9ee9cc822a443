/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two connected queue pairs must do, written down as simply as can be: both ends' memory as
 * byte arrays, regions as a table, receives as a queue. Each end keeps the same model of both, so
 * that the ends need not tell each other what to do (differential.c).
 */
#ifndef VERBATIM_TESTS_MEMORY_MODEL_H
#define VERBATIM_TESTS_MEMORY_MODEL_H

#include "pair.h"

#define KIB 1024u
#define MESSAGE_MAX (68 * KIB)
#define BATCH_MAX 4u
#define RECEIVES_MAX 8u
#define SGES_MAX 4u
#define RECEIVE_SGES_MAX 3u

/* SENDs of this size are seldom: more than one piece of what is fetched at a time. */
#define LARGE_MIN (1000 * KIB)
#define LARGE_MAX (1300 * KIB)

/*
 * Memory of an end: what the peer accesses | sources | results of READs and atomics | receives |
 * one receive of a large message.
 */
#define TARGET_BYTES (160 * KIB)
#define SOURCE_AT TARGET_BYTES
#define SOURCE_BYTES LARGE_MAX
#define RESULT_AT (SOURCE_AT + SOURCE_BYTES)
#define RECEIVE_AT (RESULT_AT + BATCH_MAX * MESSAGE_MAX)
#define LARGE_RECEIVE_AT (RECEIVE_AT + RECEIVES_MAX * MESSAGE_MAX)
#define MODEL_BYTES (LARGE_RECEIVE_AT + LARGE_MAX)

enum region_name { FULL, READ_ONLY, OTHER_PD, ODD, WINDOW, DEAD, REGIONS };

struct region {
	bool alive, other_pd;
	uint32_t start, bytes;
	unsigned access; /* IBV_ACCESS_REMOTE_* */
};

struct piece {
	uint32_t at, bytes;
};

struct op {
	enum ibv_wr_opcode opcode;
	struct piece piece[SGES_MAX];
	unsigned pieces;
	uint32_t bytes, imm;
	enum region_name region;
	uint32_t there; /* in the peer's memory */
	uint64_t compare_add, swap;
	bool is_inline, is_signaled, is_solicited, is_fenced, bad_lkey;
};

struct receive {
	uint64_t id;
	struct piece piece[RECEIVE_SGES_MAX];
	unsigned pieces;
};

struct completion {
	uint64_t id;
	enum ibv_wc_status status;
	bool or_flushed;	   /* it was posted while the request was refused: or behind that */
	enum ibv_wc_opcode opcode; /* the rest: of successes */
	uint32_t bytes;		   /* UINT32_MAX: not defined */
	bool has_imm, has_invalidated;
	uint32_t imm;
};

struct model_end {
	uint8_t *memory;
	struct region region[REGIONS];
	struct receive receive[RECEIVES_MAX];
	unsigned receives;
	bool failed;				  /* the queue pair is in the error state */
	struct completion sent[64], received[64]; /* expected now */
	unsigned sents, receiveds;
};

struct model {
	uint64_t random;
	struct model_end end[2];
	uint8_t rnr_retry; /* 0 or 7 */
	bool has_srq;	   /* receives belong to both ends' SRQs, and outlive a failure */
	uint64_t next_id;
	bool is_late;	/* receives of this batch are posted while it runs */
	bool ambiguous; /* memory is not defined: write it anew */
};

uint32_t model_random(struct model *model, uint32_t below);
void model_init(struct model *model, uint64_t seed);
/* New content everywhere, as after a failure. */
void model_fill(struct model *model);
void model_reset(struct model *model); /* of the queue pairs */

struct op model_random_op(struct model *model, enum side from, unsigned number);
struct receive model_random_receive(struct model *model, enum side side);
/* A SEND that is large, and a receive for it: there is room for one at a time. */
struct op model_large_op(struct model *model);
struct receive model_large_receive(struct model *model);
bool op_takes_receive(const struct op *op);

/* Carry it out: completions are noted at both ends. False: it failed, what follows is flushed. */
bool model_run(struct model *model, enum side from, const struct op *op, uint64_t id);
void model_flush_receives(struct model *model, enum side side);
void model_note_send(struct model *model, enum side side, uint64_t id, enum ibv_wc_status status,
		     enum ibv_wc_opcode opcode, uint32_t bytes);

#endif
