// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tag-matching shared receive queues (ibv_post_srq_ops(3)): the server adds tags in one order, the client's
 * messages come in another; eager ones, and rendezvous, whose data the server's device fetches by itself.
 */
#include <endian.h>
#include <infiniband/tm_types.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

#define TAGS 8			/* of a round */
#define ROUNDS 12
#define LONGEST 100000u
#define PART (1u << 17)		/* of a region, for a message */
#define HEADER sizeof(struct ibv_tmh)
#define REQUEST (HEADER + sizeof(struct ibv_rvh))
#define TAG(i) (0xfeed000000000000ull + (i))
#define NO_TAG_ID 500		/* wr_id of a receive without tag */

/* Both ends draw the same. */
struct message {
	uint32_t bytes;
	bool rendezvous;
};

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void plan_round(uint32_t *state, struct message *message, unsigned *order)
{
	static const uint32_t edge[] = { 0, 1, 4, 64, 1023, 1024, 4096, 4097, 33000 };

	for (unsigned i = 0; i < TAGS; i++) {
		message[i].rendezvous = draw(state) % 2;
		message[i].bytes = draw(state) % 2 ? edge[draw(state) % 9] : draw(state) % LONGEST;
		order[i] = i;
	}
	for (unsigned i = TAGS - 1; i; i--) {
		unsigned other = draw(state) % (i + 1), kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
}

/* ---- the client ---- */

static void write_head(uint8_t *at, enum ibv_tmh_op opcode, uint64_t number)
{
	struct ibv_tmh head = { .opcode = opcode, .app_ctx = htobe32((uint32_t)number),
				.tag = htobe64(TAG(number)) };

	memcpy(at, &head, sizeof(head));
}

static void send_bytes(struct link *link, struct region *region, size_t bytes, uint64_t id)
{
	send_op(link, &(struct op){ .id = id, .opcode = IBV_WR_SEND, .sges = 1,
				    .sge = { sge_of(region, 0, bytes) } });
	good_wc(link->send_cq, id);
}

/* Its place is told; the FIN says that it was fetched. */
static void send_request(struct link *link, struct region *region, const struct message *message,
			 uint64_t number)
{
	struct ibv_rvh where = { .va = htobe64((uintptr_t)region->mem + PART), .rkey = htobe32(region->mr->rkey),
				 .len = htobe32(message->bytes) };
	uint8_t *fin = region->mem + 2 * PART;
	struct ibv_wc wc;

	pattern_fill(region->mem + PART, message->bytes, (uint32_t)number);
	recv_region(link, number, region, 2 * PART, REQUEST);
	write_head(region->mem, IBV_TMH_RNDV, number);
	memcpy(region->mem + HEADER, &where, sizeof(where));
	send_bytes(link, region, REQUEST, number);
	wc = good_wc(link->recv_cq, number);
	CHECK(wc.byte_len == REQUEST && fin[0] == IBV_TMH_FIN, "a FIN of %u bytes", wc.byte_len);
	memset(region->mem + PART, 0, message->bytes);		/* it is ours again */
}

static void send_message(struct link *link, struct region *region, const struct message *message,
			 uint64_t number)
{
	if (message->rendezvous) {
		send_request(link, region, message, number);
		return;
	}
	write_head(region->mem, IBV_TMH_EAGER, number);
	pattern_fill(region->mem + HEADER, message->bytes, (uint32_t)number);
	send_bytes(link, region, HEADER + message->bytes, number);
}

static void send_tagged(struct side *side, struct link *link, uint32_t state)
{
	struct message message[TAGS];
	struct region region;
	unsigned order[TAGS];

	region_create(side, &region, 3 * PART, ALL_ACCESS);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		plan_round(&state, message, order);
		barrier(side);			/* the tags are there */
		for (unsigned i = 0; i < TAGS; i++)
			send_message(link, &region, &message[order[i]], round * TAGS + order[i]);
		/* One that nobody expects. */
		send_message(link, &region, &(struct message){ .bytes = 40 }, 10000 + round);
		barrier(side);
	}
	region_destroy(&region);
}

/* ---- the server ---- */

struct matcher {
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct region region;		/* a part for each tag, one for messages without */
	uint32_t unexpected;
};

struct match {
	uint64_t id, tag;
	enum ibv_wc_opcode opcode;
	unsigned flags;
	uint32_t bytes;
};

static struct match next_match(struct matcher *matcher)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = matcher->cq;
	struct ibv_wc_tm_info info;
	struct match match;
	int waited_ms = 0;

	while (ibv_start_poll(cq, &attr)) {
		CHECK(waited_ms++ < PATIENCE_MS, "no completion");
		pause_ms(1);
	}
	CHECK(!cq->status, "%s", ibv_wc_status_str(cq->status));
	ibv_wc_read_tm_info(cq, &info);
	match = (struct match){ .id = cq->wr_id, .tag = info.tag, .opcode = ibv_wc_read_opcode(cq),
				.flags = ibv_wc_read_wc_flags(cq), .bytes = ibv_wc_read_byte_len(cq) };
	ibv_end_poll(cq);
	return match;
}

static void add_tag(struct matcher *matcher, unsigned slot, uint64_t number)
{
	struct ibv_sge sge = sge_of(&matcher->region, slot * PART, LONGEST);
	struct ibv_ops_wr *bad, wr = { .wr_id = 1000 + slot, .opcode = IBV_WR_TAG_ADD,
				       .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC };

	wr.tm.unexpected_cnt = matcher->unexpected;
	wr.tm.add.recv_wr_id = slot;
	wr.tm.add.sg_list = &sge;
	wr.tm.add.num_sge = 1;
	wr.tm.add.tag = TAG(number);
	wr.tm.add.mask = UINT64_MAX;
	OK(ibv_post_srq_ops(matcher->srq, &wr, &bad));
	CHECK(next_match(matcher).opcode == IBV_WC_TM_ADD, "the tag was not added");
}

static void post_untagged(struct matcher *matcher)
{
	struct ibv_sge sge = sge_of(&matcher->region, TAGS * PART, 4096);
	struct ibv_recv_wr *bad, wr = { .wr_id = NO_TAG_ID, .sg_list = &sge, .num_sge = 1 };

	OK(ibv_post_srq_recv(matcher->srq, &wr, &bad));
}

/* A match and its data are one completion or two; those of several messages do not mix. */
static void expect_tagged(struct matcher *matcher, uint64_t slot, uint64_t number,
			  const struct message *message)
{
	struct match match = next_match(matcher);

	CHECK(match.opcode == IBV_WC_TM_RECV && match.id == slot && match.tag == TAG(number),
	      "opcode %d wr_id %d tag %llx, not %llx", match.opcode, (int)match.id, (unsigned long long)match.tag,
	      (unsigned long long)TAG(number));
	CHECK(match.flags & IBV_WC_TM_MATCH, "no match");
	if (!(match.flags & IBV_WC_TM_DATA_VALID))
		match = next_match(matcher);
	CHECK(match.id == slot && match.flags & IBV_WC_TM_DATA_VALID, "no data");
	CHECK(match.bytes == message->bytes, "%u bytes, not %u", match.bytes, message->bytes);
	pattern_check(matcher->region.mem + slot * PART, message->bytes, (uint32_t)number, "data of a tag");
}

static void expect_unexpected(struct matcher *matcher, uint64_t number)
{
	struct match match = next_match(matcher);

	CHECK(match.opcode == IBV_WC_TM_RECV && match.id == NO_TAG_ID && !match.flags, "opcode %d wr_id %d",
	      match.opcode, (int)match.id);
	CHECK(match.bytes == HEADER + 40, "%u bytes", match.bytes);
	pattern_check(matcher->region.mem + TAGS * PART + HEADER, 40, (uint32_t)number, "data without a tag");
	matcher->unexpected++;
}

static void match_tags(struct side *side, struct matcher *matcher, uint32_t state)
{
	struct message message[TAGS];
	unsigned order[TAGS];

	for (uint64_t round = 0; round < ROUNDS; round++) {
		plan_round(&state, message, order);
		for (unsigned i = 0; i < TAGS; i++)
			add_tag(matcher, i, round * TAGS + i);
		post_untagged(matcher);
		barrier(side);
		for (unsigned i = 0; i < TAGS; i++)
			expect_tagged(matcher, order[i], round * TAGS + order[i], &message[order[i]]);
		expect_unexpected(matcher, 10000 + round);
		barrier(side);
	}
}

static void matcher_open(struct side *side, struct matcher *matcher)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO };
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = 16, .max_sge = 1 }, .srq_type = IBV_SRQT_TM, .pd = side->pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.tm_cap = { .max_num_tags = TAGS, .max_ops = TAGS } };

	memset(matcher, 0, sizeof(*matcher));
	matcher->cq = ibv_create_cq_ex(side->context, &cq);
	CHECK(matcher->cq, "ibv_create_cq_ex: %m");
	srq.cq = ibv_cq_ex_to_cq(matcher->cq);
	matcher->srq = ibv_create_srq_ex(side->context, &srq);
	CHECK(matcher->srq, "ibv_create_srq_ex: %m");
	region_create(side, &matcher->region, (TAGS + 1) * PART, ALL_ACCESS);
}

static void matcher_close(struct matcher *matcher)
{
	OK(ibv_destroy_srq(matcher->srq));
	OK(ibv_destroy_cq(ibv_cq_ex_to_cq(matcher->cq)));
	region_destroy(&matcher->region);
}

static void rc_tags(struct side *side)
{
	struct ibv_device_attr_ex device;
	struct matcher matcher;
	struct link link;
	uint32_t state, theirs;

	OK(ibv_query_device_ex(side->context, NULL, &device));
	if (!(exchange_u64(side, device.tm_caps.flags) & device.tm_caps.flags & IBV_TM_CAP_RC))
		skip(side, "the device matches no tags of RC");
	state = random_next(side);
	theirs = (uint32_t)exchange_u64(side, state);
	state ^= theirs;		/* both have the same */
	if (!side->server) {
		link_open(side, &link, &(struct link_options){ 0 });
		send_tagged(side, &link, state);
		link_close(&link);
		return;
	}
	matcher_open(side, &matcher);
	/* Without a send queue of the program's own: it is the device's, for READs and FINs. */
	link_open(side, &link, &(struct link_options){ .srq = matcher.srq, .wr = -1, .sge = -1, .cqe = 64 });
	match_tags(side, &matcher, state);
	link_close(&link);
	matcher_close(&matcher);
}

const struct test tag_tests[] = {
	{ "rc_tags", rc_tags, TAG_DATA },
	{ 0 },
};
