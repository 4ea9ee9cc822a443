/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts and some conversations between them. Half of the worlds are merely unkind: the
 * network loses and mixes up, receives come late, but nobody does wrong, and everything has to
 * succeed. In the other half somebody does one thing wrong (a misdeed) at some time; what must
 * hold then is said in check_statuses().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/placement.h"
#include "story.h"

#define TALKS_MAX	3u
#define MESSAGES_MAX	48u
#define MEMORY_BYTES	(2u << 20)
#define LENGTH_MAX	14000u
#define RECEIVE_BYTES	LENGTH_MAX

enum misdeed {
	MISDEED_NONE, MISDEED_CRASH, MISDEED_PARTITION, MISDEED_ERROR, MISDEED_RESET,
	MISDEED_DESTROY, MISDEED_DEREGISTER, MISDEED_SHORT_RECEIVE, MISDEED_BAD_KEY,
	MISDEED_DEAF, MISDEED_NO_RECEIVE, MISDEEDS
};

static const char *const misdeed_names[] = {
	"nothing", "crash", "partition", "to ERR", "to RESET", "destroy", "deregister",
	"short receive", "bad key", "deaf with a small CQ", "no receive, rnr_retry 1"
};

struct story {
	struct sim *sim;
	struct talk *talk[TALKS_MAX];
	unsigned talks;
	enum ibv_qp_type type;
	enum misdeed misdeed;
	unsigned culprit;		/* host or side that does it */
	bool perfect;			/* a network that does nothing to packets */
	char summary[256];
};

/* Mostly small, some around the MTU, some large. */
static uint32_t pick_length(struct story *story)
{
	struct sim *sim = story->sim;
	uint32_t mtu = 128u << story->talk[story->talks]->options.connect.mtu;

	switch (sim_below(sim, 5)) {
	case 0:
		return sim_below(sim, 3) ? sim_below(sim, 64) : 0;
	case 1:
		return mtu * (1 + sim_below(sim, 3)) + sim_below(sim, 5) - 2;
	case 2:
		return sim_below(sim, LENGTH_MAX);
	default:
		return sim_below(sim, 2000);
	}
}

static void draw_rates(struct story *story, struct sim_host *host)
{
	static const uint32_t levels[] = { 0, 0, 0, 1000, 10000, 50000, 100000 };
	struct sim *sim = story->sim;
	struct sim_rates *rates = &host->rates;

	rates->delay_ns = US << sim_below(sim, 12);
	if (story->perfect)
		return;
	rates->loss = levels[sim_below(sim, 7)];
	rates->burst_loss = levels[sim_below(sim, 6)];
	rates->duplicate = levels[sim_below(sim, 7)];
	rates->reorder = levels[sim_below(sim, 7)];
	rates->corrupt = levels[sim_below(sim, 6)];
	rates->truncate = levels[sim_below(sim, 5)];
	rates->reorder_ns = rates->delay_ns * (1 + sim_below(sim, 8));
	rates->jitter_ns = sim_below(sim, 3) ? 0 : rates->delay_ns;
}

static void draw_processor(struct story *story, struct sim_host *host)
{
	struct sim *sim = story->sim;

	if (sim_below(sim, 2))
		host->wake_ns = sim_below(sim, 50000);
	if (sim_below(sim, 2)) {
		host->tx_packet_ns = host->rx_packet_ns = 200 + sim_below(sim, 2000);
		host->tx_byte_ps = host->rx_byte_ps = sim_below(sim, 1000);
	}
	if (!story->perfect && sim_below(sim, 3) == 0)
		host->socket_bytes = 65536u << sim_below(sim, 3);
}

static struct connect_options draw_connection(struct story *story)
{
	struct sim *sim = story->sim;
	struct connect_options options = connect_defaults();
	bool first = !story->talks;
	unsigned i;

	options.mtu = IBV_MTU_256 + sim_below(sim, 5);
	for (i = 0; i < 2; i++)
		options.psn[i] = sim_below(sim, 2) ? 0xffffff - sim_below(sim, 40) :
						     sim_below(sim, 0x1000000);
	options.timeout = (uint8_t)(12 + sim_below(sim, 4));
	options.rd_atomic = (uint8_t)(1 + sim_below(sim, 16));
	options.min_rnr_timer = (uint8_t)(1 + sim_below(sim, 20));
	/* 7 would be to wait for ever for one who posts no receives. */
	if (story->misdeed == MISDEED_DEAF && first)
		options.rnr_retry = 5;
	if (story->misdeed == MISDEED_NO_RECEIVE && first)
		options.rnr_retry = 1;
	return options;
}

/* ---- messages ---- */

static enum ibv_wr_opcode pick_opcode(struct story *story)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
		(enum ibv_wr_opcode)WR_ATOMIC_WRITE, (enum ibv_wr_opcode)WR_FLUSH,
	};
	unsigned n = story->type == IBV_QPT_RC ? 9 : story->type == IBV_QPT_UC ? 4 : 2;

	return opcodes[sim_below(story->sim, n)];
}

static bool may_be_inline(const struct message *message)
{
	return message->length <= 64 && message->opcode != IBV_WR_RDMA_READ;
}

/* Of a READ or WRITE: a region of its own, so that it can be deregistered alone. */
static void own_region(struct side *side, struct message *message)
{
	struct memory *memory = &side->peer->memory;

	if (!message->length)
		return;
	message->own_mr = host_mr(side->peer->host,
				  (void *)(uintptr_t)span_address(memory, &message->remote),
				  message->length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ);
	message->rkey = message->own_mr->ibv.rkey;
}

static void plan_message(struct story *story, struct talk *talk, unsigned index)
{
	struct sim *sim = story->sim;
	enum ibv_wr_opcode opcode = pick_opcode(story);
	uint32_t length = pick_length(story), mtu = 128u << talk->options.connect.mtu;
	unsigned flags = sim_below(sim, 3) ? IBV_SEND_SIGNALED : 0;
	struct message *message;

	if (story->type == IBV_QPT_UD && length > mtu)
		length = mtu;
	flags |= sim_below(sim, 4) ? 0 : IBV_SEND_SOLICITED;
	if (story->type == IBV_QPT_RC)
		flags |= sim_below(sim, 6) ? 0 : IBV_SEND_FENCE;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		talk_plan_atomic(talk, index, opcode == IBV_WR_ATOMIC_CMP_AND_SWP, flags);
		return;
	}
	if ((int)opcode == WR_FLUSH) {
		talk_plan_flush(talk, index, sim_below(sim, 2), flags);
		return;
	}
	if ((int)opcode == WR_ATOMIC_WRITE)
		length = PLACEMENT_WORD;
	message = talk_plan(talk, index, opcode, length, flags, 1 + sim_below(sim, PIECES_MAX));
	if (may_be_inline(message) && sim_below(sim, 2))
		message->flags |= IBV_SEND_INLINE;
	if (story->misdeed == MISDEED_DEREGISTER && message->remote.count && !story->talks)
		own_region(&talk->side[index], message);
}

static void plan_messages(struct story *story, struct talk *talk, unsigned index)
{
	struct side *side = &talk->side[index];
	uint32_t i, count = 1 + sim_below(story->sim, MESSAGES_MAX);

	for (i = 0; i < count; i++)
		plan_message(story, talk, index);
	side->messages[count - 1].flags |= IBV_SEND_SIGNALED;
	side->depth = 1 + sim_below(story->sim, talk->options.send_wrs);
	/* An unsignaled request is known to be done only by a later one: do not wait for it. */
	for (i = 0; i < count; i++)
		if (i % side->depth == side->depth - 1 || side->depth < 8)
			side->messages[i].flags |= IBV_SEND_SIGNALED;
}

/* ---- misdeeds ---- */

static void deregister_some(struct story *story)
{
	struct talk *talk = story->talk[0];
	struct side *side = &talk->side[!story->culprit];
	uint32_t i;

	for (i = 0; i < side->planned; i++) {
		struct message *message = &side->messages[i];

		if (!message->own_mr || sim_below(story->sim, 4) == 0)
			continue;
		host_mr_free(side->peer->host, message->own_mr);
		message->own_mr = NULL;
		span_freeze(&side->peer->memory, &message->remote);
	}
}

static void do_misdeed(struct sim *sim, void *argument)
{
	struct story *story = argument;
	struct side *side = &story->talk[0]->side[story->culprit];

	switch (story->misdeed) {
	case MISDEED_CRASH:
		side->host->crashed = true;
		break;
	case MISDEED_PARTITION:
		side->host->rates.partitioned = true;
		break;
	case MISDEED_ERROR:
		host_modify_state(side->host, side->qp, IBV_QPS_ERR);
		break;
	case MISDEED_RESET:
		side->planned = side->posted;	/* nothing can be posted in RESET */
		side->receives_planned = side->receives_posted;
		host_modify_state(side->host, side->qp, IBV_QPS_RESET);
		cq_clean(side->send_cq, side->qp->number);
		cq_clean(side->recv_cq, side->qp->number);
		break;
	case MISDEED_DESTROY:
		side->destroyed = true;
		host_qp_destroy(side->host, side->qp);
		break;
	case MISDEED_DEREGISTER:
		deregister_some(story);
		break;
	default:
		break;
	}
}

/* What has to be prepared before the first message is posted. */
static void prepare_misdeed(struct story *story, struct talk *talk)
{
	struct side *side = &talk->side[story->culprit];
	struct message *message = &side->messages[sim_below(story->sim, side->planned)];

	switch (story->misdeed) {
	case MISDEED_SHORT_RECEIVE:
		talk->side[0].receive_bytes = talk->side[1].receive_bytes = 500;
		break;
	case MISDEED_BAD_KEY:
		if (message->remote.count)
			message->rkey ^= 0x55;
		break;
	case MISDEED_DEAF:
		side->deaf = true;
		break;
	default:
		break;
	}
}

/* What one QP does wrong is no concern of the others, but for the end of a whole host. */
static bool must_succeed(const struct story *story, unsigned number)
{
	bool spared = number && story->misdeed != MISDEED_CRASH && story->misdeed != MISDEED_PARTITION;

	return story->type == IBV_QPT_RC && (spared || story->misdeed == MISDEED_NONE);
}

static struct talk *create_talk(struct story *story)
{
	struct sim *sim = story->sim;
	bool first = !story->talks;
	struct talk_options options = {
		.type = story->type, .connect = draw_connection(story),
		.messages_max = MESSAGES_MAX, .receives_max = MESSAGES_MAX,
		.memory_bytes = MEMORY_BYTES, .receive_bytes = RECEIVE_BYTES,
		.recv_wrs = 1 + sim_below(sim, MESSAGES_MAX),
		.send_wrs = 1 + sim_below(sim, MESSAGES_MAX),	/* rings wrap */
		.use_srq = sim_below(sim, 4) == 0,
		.lossless_semantics = must_succeed(story, story->talks),
	};

	if (story->misdeed == MISDEED_DEAF && first)
		options.cq_size[story->culprit] = 4;
	return talk_create(sim->host[0], sim->host[1], &options);
}

static void draw_talk(struct story *story)
{
	struct talk *talk = create_talk(story);
	unsigned i;

	story->talk[story->talks] = talk;
	for (i = 0; i < 2; i++)
		plan_messages(story, talk, i);
	if (!story->talks)
		prepare_misdeed(story, talk);
	if (story->misdeed != MISDEED_NO_RECEIVE || story->talks)
		talk_plan_all_receives(talk, 1 + sim_below(story->sim, PIECES_MAX));
	for (i = 0; i < 2; i++)
		if (story->type == IBV_QPT_RC && sim_below(story->sim, 4) == 0)
			talk->side[i].late_receives_ns = 1 + sim_below(story->sim, 200000);
	if (story->talks++)
		story->talk[story->talks - 2]->next = talk;
}

static bool misdeed_fits(const struct story *story)
{
	switch (story->misdeed) {
	case MISDEED_DEREGISTER:
	case MISDEED_SHORT_RECEIVE:
	case MISDEED_BAD_KEY:
	case MISDEED_NO_RECEIVE:
		return story->type == IBV_QPT_RC;
	default:
		return true;
	}
}

struct story *story_create(uint64_t seed, bool verbose)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC,
						  IBV_QPT_UC, IBV_QPT_UD };
	struct story *story = calloc(1, sizeof(*story));
	struct sim *sim = sim_create(seed);
	unsigned talks, i;

	if (!story)
		abort();
	story->sim = sim;
	sim->verbose = verbose;
	story->type = types[sim_below(sim, 6)];
	story->perfect = sim_below(sim, 5) == 0;
	story->misdeed = sim_below(sim, 2) ? MISDEED_NONE : sim_below(sim, MISDEEDS);
	if (!misdeed_fits(story))
		story->misdeed = MISDEED_NONE;
	story->culprit = sim_below(sim, 2);
	for (i = 0; i < 2; i++) {
		struct sim_host *host = host_create(sim);

		draw_rates(story, host);
		draw_processor(story, host);
		host->gathers = sim->seed % 4 == 3;	/* not drawn: old seeds keep their story */
	}
	talks = 1 + sim_below(sim, TALKS_MAX);
	for (i = 0; i < talks; i++)
		draw_talk(story);
	sim_call_at(sim, sim->now_ns + (sim_random(sim) % US << sim_below(sim, 14)), do_misdeed, story);
	return story;
}

/* ---- judging ---- */

static bool send_status_is_legal(const struct story *story, const struct side *side)
{
	bool is_culprit = side->index == story->culprit;

	switch (side->send_status) {
	case IBV_WC_WR_FLUSH_ERR:
		/* The QP failed for another reason: its own, or as responder. */
		return is_culprit || story->misdeed == MISDEED_DEREGISTER || side->recv_failed ||
		       story->misdeed == MISDEED_BAD_KEY || story->misdeed == MISDEED_SHORT_RECEIVE;
	case IBV_WC_RETRY_EXC_ERR:
		return true;
	case IBV_WC_REM_ACCESS_ERR:
		return (story->misdeed == MISDEED_DEREGISTER && !is_culprit) ||
		       (story->misdeed == MISDEED_BAD_KEY && is_culprit);
	case IBV_WC_REM_INV_REQ_ERR:
		return story->misdeed == MISDEED_SHORT_RECEIVE;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return story->misdeed == MISDEED_NO_RECEIVE || story->misdeed == MISDEED_DEAF;
	default:
		return false;
	}
}

static bool recv_status_is_legal(const struct story *story, const struct side *side)
{
	switch (side->recv_status) {
	case IBV_WC_WR_FLUSH_ERR:
		return true;
	case IBV_WC_LOC_LEN_ERR:
		return story->misdeed == MISDEED_SHORT_RECEIVE;
	case IBV_WC_LOC_ACCESS_ERR:
		/* A WRITE with immediate has taken its receive when a later packet is refused. */
		return story->misdeed == MISDEED_DEREGISTER || story->misdeed == MISDEED_BAD_KEY;
	default:
		return false;
	}
}

static void check_statuses(struct story *story, struct talk *talk)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		const struct side *side = &talk->side[i];

		if (side->failed && !send_status_is_legal(story, side))
			sim_fail(story->sim, "side %u: first failure has status %d", i,
				 (int)side->send_status);
		if (side->recv_failed && !recv_status_is_legal(story, side))
			sim_fail(story->sim, "side %u: first failed receive has status %d", i,
				 (int)side->recv_status);
	}
}

/* A perfect network and a willing receiver: unreliable services lose nothing either. */
static void check_delivered(struct story *story, struct talk *talk)
{
	unsigned i;
	uint32_t j;

	if (!story->perfect || story->misdeed != MISDEED_NONE || story->type == IBV_QPT_RC ||
	    talk->options.recv_wrs < MESSAGES_MAX)
		return;
	for (i = 0; i < 2; i++)
		for (j = 0; j < talk->side[i].planned; j++) {
			const struct message *message = &talk->side[i].messages[j];

			if (message_consumes(message) && !message->delivered)
				sim_fail(story->sim, "side %u: message %u was lost on a perfect network",
					 i, j);
		}
}

bool story_run(struct story *story)
{
	unsigned i;

	if (talk_run(story->talk[0]))
		for (i = 0; i < story->talks; i++) {
			check_statuses(story, story->talk[i]);
			check_delivered(story, story->talk[i]);
		}
	return !story->sim->failed;
}

const char *story_failure(const struct story *story)
{
	return story->sim->failure;
}

static const char *type_name(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

const char *story_summary(struct story *story)
{
	const struct sim *sim = story->sim;

	snprintf(story->summary, sizeof(story->summary),
		 "%u x %s, mtu %u, %s by %u, loss %u/%u ppm, %llu packets, %.1f ms", story->talks,
		 type_name(story->type), 128u << story->talk[0]->options.connect.mtu,
		 misdeed_names[story->misdeed], story->culprit, sim->host[0]->rates.loss,
		 sim->host[1]->rates.loss, (unsigned long long)sim->sent,
		 (double)(sim->now_ns - SECOND) / 1e6);
	return story->summary;
}

void story_destroy(struct story *story)
{
	unsigned i;

	for (i = 0; i < story->talks; i++)
		talk_destroy(story->talk[i]);
	sim_destroy(story->sim);
	free(story);
}
