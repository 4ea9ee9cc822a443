// SPDX-License-Identifier: BSD-2-Clause
/*
 * Many requests in flight: order, exactly one completion each, right data; atomics from both ends
 * at once; fences; many QPs; messages of up to 2 GiB.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "verify.h"

#define DEPTH 32
#define SLOT 20000
#define MESSAGES 2000

/* Both ends derive message n of either end from n alone. */
static size_t message_size(uint32_t n, bool server)
{
	uint32_t x = (n * 2 + server + 1) * 2654435761u;

	x ^= x >> 15;
	return x % 8 ? x % 3000 : x % SLOT;
}

struct stream {
	struct side *side;
	struct link link;
	struct region out, in;
	uint32_t sent, completed, received;
};

static void stream_send(struct stream *s)
{
	uint32_t n = s->sent++;
	size_t len = message_size(n, s->side->server), at = n % DEPTH * SLOT;

	pattern_fill(s->out.mem + at, len, n);
	send_op(&s->link, &(struct op){ .id = n, .sges = 1, .sge = { sge_of(&s->out, at, len) },
		.opcode = IBV_WR_SEND_WITH_IMM, .imm = n });
}

static void stream_recv(struct stream *s, uint32_t n)
{
	recv_region(&s->link, n, &s->in, n % DEPTH * SLOT, SLOT);
}

static void stream_completion(struct stream *s, const struct ibv_wc *wc)
{
	CHECK(wc->status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc->status));
	if (!(wc->opcode & IBV_WC_RECV)) {
		CHECK(wc->wr_id == s->completed, "send %llu completes, %u is next",
		      (unsigned long long)wc->wr_id, s->completed);
		s->completed++;
		return;
	}
	CHECK(wc->wr_id == s->received && be32toh(wc->imm_data) == s->received,
	      "receive %llu holds message %u, %u is next", (unsigned long long)wc->wr_id,
	      be32toh(wc->imm_data), s->received);
	CHECK(wc->byte_len == message_size(s->received, !s->side->server), "byte_len %u",
	      wc->byte_len);
	pattern_check(s->in.mem + s->received % DEPTH * SLOT, wc->byte_len, s->received,
		      "message of a stream");
	if (s->received + DEPTH < MESSAGES)
		stream_recv(s, s->received + DEPTH);
	s->received++;
}

/* Receives may run out for a moment: RNR is part of it. */
static void rc_stream(struct side *side)
{
	struct stream s = { .side = side };

	region_create(side, &s.out, DEPTH * SLOT, 0);
	region_create(side, &s.in, DEPTH * SLOT, IBV_ACCESS_LOCAL_WRITE);
	link_create(side, &s.link, &(struct link_options){ 0 });
	link_to_init(&s.link, &(struct link_options){ 0 });
	for (uint32_t n = 0; n < DEPTH; n++)
		stream_recv(&s, n);
	link_to_rtr(&s.link, &(struct link_options){ .min_rnr_timer = 1 });
	link_to_rts(&s.link, &(struct link_options){ 0 });
	barrier(side);
	while (s.completed < MESSAGES || s.received < MESSAGES) {
		while (s.sent < MESSAGES && s.sent - s.completed < DEPTH)
			stream_send(&s);
		if (s.received < MESSAGES) {
			struct ibv_wc wc = { 0 };

			if (ibv_poll_cq(s.link.send_cq, 1, &wc) > 0)
				stream_completion(&s, &wc);
			if (ibv_poll_cq(s.link.recv_cq, 1, &wc) > 0)
				stream_completion(&s, &wc);
		} else {
			struct ibv_wc wc = wait_wc(s.link.send_cq);

			stream_completion(&s, &wc);
		}
	}
	expect_no_wc(s.link.recv_cq, 5);
	link_close(&s.link);
	region_destroy(&s.in);
	region_destroy(&s.out);
}

enum { MIXED_LEN = 9000, MIXED_AT_ONCE = 8 };

/* Eight WRITEs, each with a READ of what it wrote behind it; one completion for all. */
static void mixed_round(struct link *link, struct region *out, struct region *in,
			const struct region *target, uint64_t round)
{
	size_t len[MIXED_AT_ONCE];

	for (uint64_t i = 0; i < MIXED_AT_ONCE; i++) {
		struct op op = { .id = round, .sges = 1, .quiet = true, .rkey = target->peer_rkey,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .address = target->peer_address + i * MIXED_LEN + 8 };

		len[i] = 1 + random_next(link->side) % MIXED_LEN;
		op.sge[0] = sge_of(out, i * MIXED_LEN, len[i]);
		pattern_fill(out->mem + i * MIXED_LEN, len[i], round * MIXED_AT_ONCE + i);
		send_op(link, &op);
		op.opcode = IBV_WR_RDMA_READ;
		op.quiet = i != MIXED_AT_ONCE - 1;
		op.sge[0] = sge_of(in, i * MIXED_LEN, len[i]);
		send_op(link, &op);
	}
	good_wc(link->send_cq, round);
	for (int i = 0; i < MIXED_AT_ONCE; i++)
		pattern_check(in->mem + i * MIXED_LEN, len[i], round * MIXED_AT_ONCE + i,
			      "READ behind a WRITE");
}

/* WRITEs, READs of what was written, and atomics in one queue: each sees those before it. */
static void rc_mixed(struct side *side)
{
	enum { ROUNDS = 150, BLOCK = MIXED_LEN * MIXED_AT_ONCE };
	struct region out, in, target;
	struct link link;

	region_create(side, &out, BLOCK, 0);
	region_create(side, &in, BLOCK + 64, IBV_ACCESS_LOCAL_WRITE);
	region_create(side, &target, BLOCK + 8, ALL_ACCESS);
	memset(target.mem, 0, target.size);
	region_exchange(side, &target);
	link_open(side, &link, &(struct link_options){ 0 });
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t old;

		mixed_round(&link, &out, &in, &target, round);
		send_op(&link, &(struct op){ .id = round, .sges = 1, .address = target.peer_address,
			.rkey = target.peer_rkey, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.sge = { sge_of(&in, BLOCK, 8) }, .compare_add = 3 });
		good_wc(link.send_cq, round);
		memcpy(&old, in.mem + BLOCK, 8);
		CHECK(old == round * 3, "counter is %llu after %llu additions of 3",
		      (unsigned long long)old, (unsigned long long)round);
	}
	link_close(&link);
	region_destroy(&target);
	region_destroy(&in);
	region_destroy(&out);
}

static uint64_t atomic(struct link *link, struct region *result, const struct op *op)
{
	struct op full = *op;
	uint64_t old;

	full.sges = 1;
	full.sge[0] = sge_of(result, 0, 8);
	send_op(link, &full);
	CHECK(good_wc(link->send_cq, op->id).byte_len == 8, "byte_len of an atomic");
	memcpy(&old, result->mem, 8);
	return old;
}

/*
 * Each end adds to and swaps a word of the other: every old value is right and the result exact,
 * whatever is lost and repeated.
 */
static void rc_atomics(struct side *side)
{
	enum { COUNT = 500 };
	struct region word, result;
	struct link link;
	uint64_t address, rkey, last = 0, old;

	region_create(side, &word, 4096, ALL_ACCESS);
	region_create(side, &result, 8, IBV_ACCESS_LOCAL_WRITE);
	memset(word.mem, 0, word.size);
	region_exchange(side, &word);
	address = word.peer_address;
	rkey = word.peer_rkey;
	link_open(side, &link, &(struct link_options){ 0 });
	for (uint64_t i = 0; i < COUNT; i++) {
		old = atomic(&link, &result, &(struct op){ .id = i, .rkey = rkey,
			.address = address, .compare_add = 1ull << 33,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD });
		CHECK(old == i << 33, "old value 0x%llx at addition %u", (unsigned long long)old,
		      (unsigned)i);
	}
	for (uint64_t i = 0; i < COUNT; i++) {	/* every second one must not swap */
		uint64_t value = i ? last : (uint64_t)COUNT << 33;

		old = atomic(&link, &result, &(struct op){ .id = i, .rkey = rkey,
			.address = address, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
			.swap = i + 7,
			.compare_add = i % 2 ? value + 1 : value });
		CHECK(old == value, "old value 0x%llx at swap %u", (unsigned long long)old,
		      (unsigned)i);
		last = i % 2 ? value : i + 7;
	}
	barrier(side);
	memcpy(&old, word.mem, 8);
	CHECK(old == last, "memory holds 0x%llx, not 0x%llx", (unsigned long long)old,
	      (unsigned long long)last);
	byte_check(word.mem + 8, word.size - 8, 0, "beside an atomic");
	link_close(&link);
	region_destroy(&word);
	region_destroy(&result);
}

/* Several QPs of the client on one word: additions do not get lost between QPs. */
static void rc_atomics_contended(struct side *side)
{
	enum { QPS = 4, EACH = 200 };
	struct region word, result;
	struct link link[QPS];
	uint64_t value;

	region_create(side, &word, 8, ALL_ACCESS);
	region_create(side, &result, 8 * QPS, IBV_ACCESS_LOCAL_WRITE);
	memset(word.mem, 0, 8);
	region_exchange(side, &word);
	for (int q = 0; q < QPS; q++)
		link_open(side, &link[q], &(struct link_options){ .wr = EACH });
	for (int i = 0; i < EACH; i++)
		for (int q = 0; q < QPS; q++)
			send_op(&link[q], &(struct op){ .id = i, .sges = 1, .compare_add = 1,
				.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				.sge = { sge_of(&result, 8 * q, 8) },
				.address = word.peer_address, .rkey = word.peer_rkey });
	for (int q = 0; q < QPS; q++)
		for (int i = 0; i < EACH; i++)
			good_wc(link[q].send_cq, i);
	barrier(side);
	memcpy(&value, word.mem, 8);
	CHECK(value == QPS * EACH, "%llu additions of %d", (unsigned long long)value, QPS * EACH);
	for (int q = 0; q < QPS; q++)
		link_close(&link[q]);
	region_destroy(&word);
	region_destroy(&result);
}

/* A fenced SEND of a buffer that a READ fills carries what was read. */
static void rc_fence(struct side *side)
{
	enum { LEN = 50000, ROUNDS = 30 };
	struct region source, bounce, in;
	struct link link;

	region_create(side, &source, LEN, ALL_ACCESS);
	region_create(side, &bounce, LEN, IBV_ACCESS_LOCAL_WRITE);
	region_create(side, &in, LEN, IBV_ACCESS_LOCAL_WRITE);
	region_exchange(side, &source);
	link_open(side, &link, &(struct link_options){ 0 });
	for (int i = 0; i < ROUNDS; i++) {
		pattern_fill(source.mem, LEN, i * 2 + side->server);
		memset(bounce.mem, 0, LEN);
		recv_region(&link, i, &in, 0, LEN);
		barrier(side);
		send_op(&link, &(struct op){ .id = 1000, .sges = 1, .opcode = IBV_WR_RDMA_READ,
			.sge = { sge_of(&bounce, 0, LEN) }, .address = source.peer_address,
			.rkey = source.peer_rkey });
		send_op(&link, &(struct op){ .id = 1001, .sges = 1, .opcode = IBV_WR_SEND,
			.sge = { sge_of(&bounce, 0, LEN) }, .flags = IBV_SEND_FENCE });
		good_wc(link.send_cq, 1000);
		good_wc(link.send_cq, 1001);
		good_wc(link.recv_cq, i);	/* our own data, through the peer's bounce buffer */
		pattern_check(in.mem, LEN, i * 2 + side->server, "fenced SEND");
		barrier(side);
	}
	link_close(&link);
	region_destroy(&in);
	region_destroy(&bounce);
	region_destroy(&source);
}

/* 64 QPs at full rate towards one process: all into its default-sized socket buffer. */
static void rc_many_qps(struct side *side)
{
	enum { QPS = 64, EACH = 16, LEN = 65536 };
	struct region out, target;
	struct link *link = calloc(QPS, sizeof(*link));

	region_create(side, &out, LEN, 0);
	region_create(side, &target, (size_t)QPS * LEN, ALL_ACCESS);
	region_exchange(side, &target);
	pattern_fill(out.mem, LEN, 5);
	for (int q = 0; q < QPS; q++)
		link_open(side, &link[q], &(struct link_options){ .wr = EACH });
	for (int i = 0; i < EACH; i++)
		for (int q = 0; q < QPS; q++)
			send_op(&link[q], &(struct op){ .id = i, .opcode = IBV_WR_RDMA_WRITE,
				.sges = 1, .sge = { sge_of(&out, 0, LEN) },
				.address = target.peer_address + (uint64_t)q * LEN,
				.rkey = target.peer_rkey });
	for (int q = 0; q < QPS; q++)
		for (int i = 0; i < EACH; i++)
			good_wc(link[q].send_cq, i);
	barrier(side);
	for (int q = 0; q < QPS; q++)
		pattern_check(target.mem + (size_t)q * LEN, LEN, 5, "write of one of many QPs");
	for (int q = 0; q < QPS; q++)
		link_close(&link[q]);
	region_destroy(&target);
	region_destroy(&out);
	free(link);
}

/* One WRITE, one READ and one SEND of 2^31 bytes, of untouched memory but for both its ends. */
static void rc_two_gib(struct side *side)
{
	const size_t len = 1ull << 31;
	struct region region;
	struct link link;

	region_create(side, &region, len, ALL_ACCESS);
	region_exchange(side, &region);
	link_open(side, &link, &(struct link_options){ 0 });
	pattern_fill(region.mem, 4096, 9);
	pattern_fill(region.mem + len - 4096, 4096, 10);
	if (!side->server) {
		static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
							      IBV_WR_SEND };

		for (int i = 0; i < 3; i++) {
			barrier(side);
			send_op(&link, &(struct op){ .id = i, .sges = 1, .opcode = opcodes[i],
				.sge = { sge_of(&region, 0, len) }, .rkey = region.peer_rkey,
				.address = region.peer_address });
			good_wc(link.send_cq, i);
			pattern_check(region.mem, 4096, 9, "first page");
			pattern_check(region.mem + len - 4096, 4096, 10, "last page");
			barrier(side);
		}
	} else {
		for (int i = 0; i < 3; i++) {
			if (i != 1)
				memset(region.mem, 0, 4096);
			recv_region(&link, i, &region, 0, len);
			barrier(side);
			barrier(side);
			pattern_check(region.mem, 4096, 9, "first page");
			pattern_check(region.mem + len - 4096, 4096, 10, "last page");
		}
		CHECK(good_wc(link.recv_cq, 0).byte_len == 1u << 31, "byte_len of 2 GiB");
	}
	link_close(&link);
	region_destroy(&region);
}

const struct test stream_tests[] = {
	{ "rc_stream", rc_stream, TAG_DATA },
	{ "rc_mixed", rc_mixed, TAG_DATA },
	{ "rc_atomics", rc_atomics, TAG_DATA },
	{ "rc_atomics_contended", rc_atomics_contended, TAG_DATA },
	{ "rc_fence", rc_fence, TAG_DATA },
	{ "rc_many_qps", rc_many_qps, TAG_DATA },
	{ "rc_two_gib", rc_two_gib, TAG_LONG },
	{ 0 }
};
