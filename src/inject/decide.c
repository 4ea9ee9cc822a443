/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verdict on a packet. Each rule in turn: is it for this packet, is it its time, and what does chance say?
 *
 * Three tables of fixed size remember what came before:
 *
 *	seen	packets by flow and distance of the PSN: how often lost, and has it passed?
 *	tally	counts of a rule and a QP
 *	flow	datagrams of one source: their first PSN, which nobody else tells
 *
 * A flow is one kind of stream (requests, responses, ACKs, NAKs) of one QP in one direction; of UD, from one
 * source. seen[] forgets the oldest of SEEN_WAYS packets that meet: only a packet that is repeated behind
 * tens of thousands of others counts as not lost before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inject/internal.h"
#include "wire/psn.h"

#define SEEN_WAYS	8u
#define SEEN_SETS	8192u
#define TALLY_SIZE	32768u
#define FLOW_SIZE	4096u
#define PROBES		32u
#define HEADER_BYTES	28u		/* IPv4 and UDP, for bandwidth= */
#define TALLY_ARRIVALS	(INJECT_RULES_MAX + 1)	/* beside the rules: packets without a PSN of use */
#define TALLY_FLOWS	(INJECT_RULES_MAX + 2)	/* flows of a QP */

struct inject_seen {
	uint64_t tag;			/* of flow and distance; 0: free */
	uint32_t number;		/* its place in the order of being remembered */
	uint16_t lost;
	bool has_passed;
};

struct inject_tally {
	uint64_t key;			/* 0: free */
	uint32_t all, fresh;		/* packets; those that are no repeats */
	uint32_t done;			/* rnr=, kill-qp= */
};

struct inject_flow {
	uint64_t key;
	uint32_t first_psn, number;
};

/* A packet by names that each run has in common. */
struct identity {
	uint64_t flow;			/* key in this run's tables */
	uint64_t name;			/* for chance */
	uint32_t distance;
	bool is_fresh;
	struct inject_seen *seen;	/* NULL: no repeats */
};

/* ---- hashing ---- */

/* The finalizer of splitmix64. */
static uint64_t hash_one(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t hash_two(uint64_t a, uint64_t b)
{
	return hash_one(a ^ hash_one(b));
}

static struct inject_tally *find_tally(struct injector *injector, unsigned rule, uint64_t what)
{
	uint64_t key = hash_two(rule + 1, what) | 1;
	unsigned i;

	for (i = 0; i < PROBES; i++) {
		struct inject_tally *tally = &injector->tally[(key + i) % TALLY_SIZE];

		if (tally->key == key)
			return tally;
		if (!tally->key) {
			tally->key = key;
			return tally;
		}
	}
	injector->tally[key % TALLY_SIZE] = (struct inject_tally){ .key = key };
	return &injector->tally[key % TALLY_SIZE];
}

/* ---- who is it? ---- */

/* Requests, responses, ACKs and NAKs have PSNs of their own; so it is for the rest. */
static uint64_t qp_name(const struct inject_packet *packet)
{
	return (uint64_t)packet->qp << 8 | (unsigned)inject_first_kind(packet->kinds) << 1 | packet->outbound;
}

static struct inject_seen *find_seen(struct injector *injector, struct identity *identity)
{
	uint64_t tag = hash_two(identity->flow, identity->distance) | 1;
	struct inject_seen *set = &injector->seen[(tag >> 1) % SEEN_SETS * SEEN_WAYS], *oldest = set;

	for (struct inject_seen *seen = set; seen < set + SEEN_WAYS; seen++) {
		if (seen->tag == tag)
			return seen;
		if (injector->remembered - seen->number > injector->remembered - oldest->number)
			oldest = seen;
	}
	identity->is_fresh = true;
	*oldest = (struct inject_seen){ .tag = tag, .number = ++injector->remembered };
	return oldest;
}

static void judge_identify(struct injector *injector, const struct inject_packet *packet,
			   struct identity *identity)
{
	bool has_psn = !opcode_is_notice(packet->op) && !(packet->kinds & 1u << INJECT_KIND_CM);
	uint32_t first = packet->first_psn, number = 0;

	identity->flow = hash_two(qp_name(packet), (uint64_t)packet->own_qpn << 32 | first);
	if (has_psn && !packet->is_sequenced) {
		struct inject_flow *flow;
		uint64_t half[2];

		memcpy(half, packet->peer, 16);
		identity->flow = hash_two(identity->flow,
					  hash_two(hash_two(half[0], half[1]), packet->peer_qpn));
		flow = &injector->flow[(identity->flow | 1) % FLOW_SIZE];
		if (flow->key != (identity->flow | 1)) {
			flow->key = identity->flow | 1;
			flow->first_psn = packet->psn;
			flow->number = find_tally(injector, TALLY_FLOWS, qp_name(packet))->all++;
		}
		first = flow->first_psn;
		number = flow->number;
	}
	identity->distance = has_psn ? (packet->psn - first) & PSN_MASK :
				       find_tally(injector, TALLY_ARRIVALS, qp_name(packet))->all++;
	identity->name = hash_two(injector->seed, hash_two(qp_name(packet),
							   (uint64_t)number << 32 | identity->distance));
	identity->is_fresh = !has_psn;
	identity->seen = has_psn ? find_seen(injector, identity) : NULL;
}

/* ---- is the rule for it, and now? ---- */

static bool is_for(const struct inject_rule *rule, const struct inject_packet *packet)
{
	return (rule->direction & (packet->outbound ? INJECT_OUT : INJECT_IN)) &&
	       (!rule->kinds || (rule->kinds & packet->kinds)) &&
	       (!rule->services || (rule->services & 1u << packet->op->service)) &&
	       (!rule->qp || rule->qp == packet->qp) &&
	       (!rule->qpn || rule->qpn == packet->own_qpn || rule->qpn == packet->peer_qpn) &&
	       (!rule->has_peer || !memcmp(rule->peer, packet->peer, 16));
}

/* @packets: how many came, this one included; @since_ns: since the beginning. */
static uint64_t span_position(const struct inject_span *span, uint64_t packets, uint64_t since_ns)
{
	return span->is_time ? since_ns : packets;
}

static bool is_its_time(const struct inject_rule *rule, uint64_t packets, uint64_t since_ns)
{
	uint64_t at, begin;

	if (rule->from.is_set && span_position(&rule->from, packets, since_ns) < rule->from.value)
		return false;
	if (rule->until.is_set && span_position(&rule->until, packets, since_ns) > rule->until.value)
		return false;
	if (!rule->on.is_set)
		return true;
	begin = rule->from.is_set && rule->from.is_time == rule->on.is_time ? rule->from.value : !rule->on.is_time;
	at = span_position(&rule->on, packets, since_ns);
	return at >= begin && (at - begin) % (rule->on.value + rule->off.value) < rule->on.value;
}

/* ---- what is done ---- */

struct judge {
	struct injector *injector;
	const struct inject_packet *packet;
	struct identity identity;
	uint64_t now_ns;
	struct inject_rule *rule;
	unsigned number;		/* of the rule, from 0 */
	struct inject_tally *tally;	/* of rule and QP */
	struct inject_verdict *verdict;
};

static void judge_did(struct judge *judge, enum inject_action action)
{
	judge->rule->count[action][inject_first_kind(judge->packet->kinds)]++;
	if (!judge->verdict->rule) {
		judge->verdict->rule = judge->number + 1;
		judge->verdict->action = action;
	}
}

static uint64_t random_of(const struct judge *judge, unsigned what)
{
	uint32_t lost = judge->identity.seen ? judge->identity.seen->lost : 0;

	return hash_two(judge->identity.name, (uint64_t)lost << 32 | judge->number << 8 | what);
}

/* What has passed is not decided again, unless the answer is certain. */
static bool chance_says(struct judge *judge, enum inject_action action)
{
	uint64_t chance = judge->rule->chance[action];

	if (chance == INJECT_ALWAYS)
		return true;
	return chance && !(judge->identity.seen && judge->identity.seen->has_passed) &&
	       random_of(judge, action) >> 32 < chance;
}

static void judge_loss(struct judge *judge)
{
	struct inject_rule *rule = judge->rule;
	struct inject_verdict *verdict = judge->verdict;

	if (rule->blackhole != INJECT_UNSET && judge->tally->all > rule->blackhole) {
		verdict->lost = true;
		judge_did(judge, INJECT_BLACKHOLE);
	} else if (chance_says(judge, INJECT_LOSS)) {
		verdict->lost = true;
		judge_did(judge, INJECT_LOSS);
	} else if (!verdict->corrupt && chance_says(judge, INJECT_CORRUPT)) {
		verdict->corrupt = true;
		verdict->random = random_of(judge, INJECT_ACTIONS);
		judge_did(judge, INJECT_CORRUPT);
	}
}

static void judge_qp(struct judge *judge)
{
	struct inject_rule *rule = judge->rule;

	if (rule->kill != INJECT_UNSET && judge->packet->qp && judge->tally->all > rule->kill &&
	    !judge->tally->done) {
		judge->tally->done = 1;
		judge->verdict->kill = true;
		judge_did(judge, INJECT_KILL);
	}
	if (rule->rnr != INJECT_UNSET && judge->packet->takes_receive && judge->tally->done < rule->rnr) {
		judge->tally->done++;
		judge->verdict->deny_receive = true;
		judge_did(judge, INJECT_RNR);
	}
}

/* Packets that wait keep their order: each is due after the one before. */
static void judge_delay(struct judge *judge)
{
	struct inject_rule *rule = judge->rule;
	uint64_t bits = (judge->packet->bytes + HEADER_BYTES) * 8, due_ns = judge->verdict->due_ns;
	unsigned way = judge->packet->outbound;

	if (due_ns < judge->now_ns)
		due_ns = judge->now_ns;
	if (rule->bits_per_s) {
		if (rule->free_ns[way] > due_ns) {
			due_ns = rule->free_ns[way];
			judge_did(judge, INJECT_BANDWIDTH);
		}
		due_ns += bits * 1000000000u / rule->bits_per_s;
		rule->free_ns[way] = due_ns;
	}
	if (rule->delay_ns || rule->jitter_ns) {
		due_ns += rule->delay_ns;
		due_ns += rule->jitter_ns ? random_of(judge, INJECT_DELAY) % rule->jitter_ns : 0;
		judge_did(judge, INJECT_DELAY);
	}
	if (due_ns <= rule->last_ns[way])
		due_ns = rule->last_ns[way] + 1;
	rule->last_ns[way] = due_ns;
	judge->verdict->due_ns = due_ns;
}

static void judge_order(struct judge *judge)
{
	struct inject_rule *rule = judge->rule;

	if (chance_says(judge, INJECT_DUPLICATE)) {
		judge->verdict->twice = true;
		judge_did(judge, INJECT_DUPLICATE);
	}
	if (chance_says(judge, INJECT_REORDER)) {
		judge->verdict->overtakers = 1 + (unsigned)(random_of(judge, INJECT_REORDER + INJECT_ACTIONS) %
							    INJECT_REORDER_MAX);
		judge_did(judge, INJECT_REORDER);
	} else if (rule->bits_per_s || rule->delay_ns || rule->jitter_ns) {
		judge_delay(judge);
	}
}

static void judge_by_rule(struct judge *judge)
{
	const struct inject_rule *rule = judge->rule;

	judge->rule->seen++;
	judge->tally = find_tally(judge->injector, judge->number,
				  (uint64_t)judge->packet->qp << 1 | judge->packet->outbound);
	judge->tally->all++;
	judge->tally->fresh += judge->identity.is_fresh;
	if (rule->nth.first && (!judge->identity.is_fresh || judge->tally->fresh < rule->nth.first ||
				judge->tally->fresh > rule->nth.last))
		return;
	if (judge->verdict->lost ||
	    !is_its_time(rule, judge->tally->all, judge->now_ns - judge->injector->start_ns))
		return;
	judge_loss(judge);
	if (judge->verdict->lost)
		return;
	judge_qp(judge);
	judge_order(judge);
}

void inject_decide(struct injector *injector, const struct inject_packet *packet, uint64_t now_ns,
		   struct inject_verdict *verdict)
{
	struct judge judge = { .injector = injector, .packet = packet, .now_ns = now_ns, .verdict = verdict };

	memset(verdict, 0, sizeof(*verdict));
	verdict->action = INJECT_NONE;
	judge_identify(injector, packet, &judge.identity);
	for (judge.number = 0; judge.number < injector->count; judge.number++) {
		judge.rule = &injector->rule[judge.number];
		if (is_for(judge.rule, packet))
			judge_by_rule(&judge);
	}
	if (verdict->overtakers)
		verdict->due_ns = 0;
	if (judge.identity.seen && (verdict->lost || verdict->corrupt))
		judge.identity.seen->lost += judge.identity.seen->lost < UINT16_MAX;
	else if (judge.identity.seen)
		judge.identity.seen->has_passed = true;
}

void inject_overflowed(struct injector *injector, const struct inject_verdict *verdict, uint32_t kinds)
{
	if (verdict->rule)
		injector->rule[verdict->rule - 1].count[INJECT_OVERFLOW][inject_first_kind(kinds)]++;
}

/* Byte 4 of the BTH (FECN, BECN) is not covered by the ICRC. */
void inject_damage(const struct inject_verdict *verdict, uint8_t *data, size_t bytes)
{
	size_t byte = verdict->random / 8 % bytes;

	data[byte == 4 ? 5 : byte] ^= (uint8_t)(1u << verdict->random % 8);
}

/* ---- beginning and end ---- */

int inject_init(struct injector *injector, const char *text, uint64_t seed, uint64_t now_ns, char *why,
		size_t size)
{
	int err = ENOMEM;

	memset(injector, 0, sizeof(*injector));
	injector->seed = seed;
	injector->start_ns = now_ns;
	injector->text = strdup(text);
	injector->seen = calloc(SEEN_SETS * SEEN_WAYS, sizeof(*injector->seen));
	injector->tally = calloc(TALLY_SIZE, sizeof(*injector->tally));
	injector->flow = calloc(FLOW_SIZE, sizeof(*injector->flow));
	if (injector->text && injector->seen && injector->tally && injector->flow)
		err = inject_parse(injector, why, size);
	if (err)
		inject_fini(injector);
	return err;
}

void inject_fini(struct injector *injector)
{
	free(injector->text);
	free(injector->seen);
	free(injector->tally);
	free(injector->flow);
}
