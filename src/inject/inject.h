/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose (VERBATIM_FAULT): which packet is lost, damaged, doubled, held back. Pure: packets
 * and the time come in, a verdict comes out; engine/injection.c carries it out. The language of the rules is
 * described in verbatim(7).
 *
 *	parse.c		rules from text; the words are in word.def
 *	kind.c		what kinds a packet is of (kind.def)
 *	decide.c	the verdict on a packet
 *	hold.c		packets that are held back
 *	report.c	the summary at exit
 *
 * The same seed gives the same faults: what chance decides is decided by the seed and by names that each run
 * has in common: the ordinal of the QP (the nth that the process created), the distance of the PSN from the
 * first one, and how often this packet was lost so far. Neither time nor the order in which packets of
 * different QPs come has a part. A packet that has passed once is not lost by chance again: how often it is
 * repeated depends on time, and the number of losses does not.
 */
#ifndef VERBATIM_INJECT_INJECT_H
#define VERBATIM_INJECT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/packet.h"

#define INJECT_RULES_MAX	64u
#define INJECT_TEXT_MAX		16384u		/* bytes of all rules */
#define INJECT_ALWAYS		(1ull << 32)	/* a probability of 1 */
#define INJECT_UNSET		UINT64_MAX
#define INJECT_REORDER_MAX	8u		/* packets that overtake one */
#define INJECT_REORDER_NS	500000u		/* an overtaken packet waits no longer */

enum inject_kind {
#define INJECT_KIND(id, name, about) INJECT_KIND_##id,
#include "inject/kind.def"
#undef INJECT_KIND
	INJECT_KINDS
};

enum inject_action {
#define INJECT_ACTION(id, name, counted) INJECT_##id,
#include "inject/action.def"
#undef INJECT_ACTION
	INJECT_ACTIONS, INJECT_NONE = INJECT_ACTIONS
};

enum inject_direction { INJECT_IN = 1, INJECT_OUT = 2, INJECT_BOTH = 3 };

/* A number of packets, or a time. */
struct inject_span {
	bool is_set, is_time;
	uint64_t value;		/* packets or ns */
};

/*
 * Large: what it does, to which packets, and when are a sentence of the user's, and belong together; its
 * counts are beside it.
 */
struct inject_rule {
	size_t start, length;			/* in injector.text */
	uint32_t given;				/* mask of words */
	/* what is done */
	uint64_t chance[INJECT_REORDER + 1];	/* of INJECT_ALWAYS */
	uint64_t delay_ns, jitter_ns, bits_per_s;
	uint64_t blackhole, rnr, kill;		/* INJECT_UNSET: not at all */
	/* to which packets; 0: any */
	uint32_t kinds, services;		/* masks */
	enum inject_direction direction;
	bool has_peer;
	uint8_t peer[16];
	uint32_t qpn, qp;
	/* when */
	struct { uint32_t first, last; } nth;	/* 0: any */
	struct inject_span from, until, on, off;
	/* since the beginning; [0] in, [1] out */
	uint64_t free_ns[2];			/* the link of that bandwidth has sent all */
	uint64_t last_ns[2];			/* when the last delayed packet is due */
	uint64_t seen;				/* packets that it is for */
	uint64_t count[INJECT_ACTIONS][INJECT_KINDS];	/* by the first kind of the packet */
};

struct inject_packet {
	bool outbound;
	const struct opcode *op;
	uint32_t kinds;			/* inject_kinds() */
	uint32_t qp;			/* the nth QP of the process, from 1; 0: none (QP1, groups) */
	uint32_t psn, first_psn;	/* first_psn: of this direction, where is_sequenced */
	bool is_sequenced;
	bool takes_receive;		/* in sequence, and it begins to use a receive */
	uint32_t own_qpn, peer_qpn;
	uint8_t peer[16];
	size_t bytes;			/* BTH to ICRC */
};

struct inject_verdict {
	bool lost, corrupt, twice, deny_receive, kill;
	uint64_t random;		/* which bit is damaged */
	uint64_t due_ns;		/* when it goes on; 0: at once */
	unsigned overtakers;		/* or after so many others of its QP */
	unsigned rule;			/* the first that did something, from 1; 0: none */
	enum inject_action action;	/* and what */
};

struct inject_seen;
struct inject_tally;
struct inject_flow;

struct injector {
	uint64_t seed, start_ns;
	bool seed_given;
	char *text;
	unsigned count;
	struct inject_rule rule[INJECT_RULES_MAX];
	struct inject_seen *seen;
	uint32_t remembered;			/* packets, in seen */
	struct inject_tally *tally;
	struct inject_flow *flow;
};

/*
 * Rules from @text: separated by ';' or newlines, # begins a comment. @seed: unless the text gives one.
 * 0; ENOMEM; EINVAL: @why (of @size) says what is wrong, where, and what would be right. inject_fini() is due
 * after 0 only.
 */
int inject_init(struct injector *injector, const char *text, uint64_t seed, uint64_t now_ns, char *why,
		size_t size);
void inject_fini(struct injector *injector);

/* Mask of enum inject_kind. @syndrome: of the AETH, if there is one. */
uint32_t inject_kinds(const struct opcode *op, uint32_t dest_qpn, uint8_t syndrome);
const char *inject_kind_name(enum inject_kind kind);
/* The one that the packet is counted as. */
enum inject_kind inject_first_kind(uint32_t kinds);
const char *inject_action_name(enum inject_action action);

/* Serialised by the caller. */
void inject_decide(struct injector *injector, const struct inject_packet *packet, uint64_t now_ns,
		   struct inject_verdict *verdict);
/* There was no room to hold the packet: it is lost. */
void inject_overflowed(struct injector *injector, const struct inject_verdict *verdict, uint32_t kinds);
/* Flip the bit of a packet of BTH to ICRC that the verdict names; one that the ICRC covers. */
void inject_damage(const struct inject_verdict *verdict, uint8_t *data, size_t bytes);

/* "'loss=0.01' 13 of 1340 packets: 13 lost (11 request, 2 ack)"; @rule from 0. Returns its length. */
size_t inject_report(const struct injector *injector, unsigned rule, char *line, size_t size);

#endif
