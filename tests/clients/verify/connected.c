// SPDX-License-Identifier: BSD-2-Clause
/*
 * RC and UC, one message at a time, in both directions at once: each verb at sizes around words,
 * packets and batches, gathered, scattered, inline, with immediate data.
 */
#include <string.h>

#include "verify.h"

#define GREATEST ((4u << 20) + 3)
#define UC_GREATEST 65537u		/* UC has no flow control: not more at once */

static size_t greatest_for(enum ibv_qp_type type)
{
	return type == IBV_QPT_UC ? UC_GREATEST : GREATEST;
}

static void check_recv(const struct ibv_wc *wc, const struct link *link, size_t len, bool imm,
		       uint32_t value)
{
	CHECK(wc->opcode == IBV_WC_RECV || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
	      "opcode %d of a receive", wc->opcode);
	CHECK(wc->byte_len == len, "byte_len %u, not %zu", wc->byte_len, len);
	CHECK(wc->qp_num == link->qp->qp_num, "qp_num 0x%x", wc->qp_num);
	CHECK(!!(wc->wc_flags & IBV_WC_WITH_IMM) == imm, "wc_flags 0x%x", wc->wc_flags);
	CHECK(!imm || be32toh(wc->imm_data) == value, "immediate 0x%x, not 0x%x",
	      be32toh(wc->imm_data), value);
}

/* Messages of every size, with and without immediate data. */
static void sends(struct side *side, enum ibv_qp_type type)
{
	struct region out, in;
	struct link link;
	size_t sizes[32], count = interesting_sizes(side, sizes, greatest_for(type));

	region_create(side, &out, GREATEST, 0);
	region_create(side, &in, GREATEST, IBV_ACCESS_LOCAL_WRITE);
	link_open(side, &link, &(struct link_options){ .type = type });
	for (size_t i = 0; i < 2 * count; i++) {
		size_t len = sizes[i / 2];
		bool imm = i % 2;
		struct ibv_wc wc;

		pattern_fill(out.mem, len, i * 2 + side->server);
		memset(in.mem, 0xee, len + 64 < in.size ? len + 64 : in.size);
		recv_region(&link, i, &in, 0, in.size);
		barrier(side);
		send_op(&link, &(struct op){ .id = i, .sges = 1, .sge = { sge_of(&out, 0, len) },
			.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.imm = 0x10203040 + i });
		wc = good_wc(link.send_cq, i);
		CHECK(wc.opcode == IBV_WC_SEND, "opcode %d of a send", wc.opcode);
		wc = good_wc(link.recv_cq, i);
		check_recv(&wc, &link, len, imm, 0x10203040 + i);
		pattern_check(in.mem, len, i * 2 + !side->server, "received message");
		byte_check(in.mem + len, len + 64 < in.size ? 64 : 0, 0xee, "behind the message");
	}
	link_close(&link);
	region_destroy(&out);
	region_destroy(&in);
}

static void rc_send(struct side *side)
{
	sends(side, IBV_QPT_RC);
}

static void uc_send(struct side *side)
{
	sends(side, IBV_QPT_UC);
}

/* A message of @len in up to four odd pieces with gaps between them; how many. */
static int cut(struct region *region, size_t len, const size_t *pieces, struct ibv_sge *sge)
{
	size_t at = 0, done = 0;
	int count = 0;

	for (int i = 0; i < 4 && done < len; i++) {
		size_t part = i == 3 || pieces[i] > len - done ? len - done : pieces[i];

		sge[count++] = sge_of(region, at, part);
		at += part + 7;
		done += part;
	}
	return count;
}

static void copy_pieces(const struct ibv_sge *sge, int count, uint8_t *flat, bool to_flat)
{
	for (int i = 0; i < count; i++) {
		if (to_flat)
			memcpy(flat, (void *)(uintptr_t)sge[i].addr, sge[i].length);
		else
			memcpy((void *)(uintptr_t)sge[i].addr, flat, sge[i].length);
		flat += sge[i].length;
	}
}

static __thread uint8_t flat[1 << 17];

/* Gathered from pieces here, scattered into other pieces there; a READ the same way back. */
static void rc_pieces(struct side *side)
{
	static const size_t cuts[][3] = { { 1, 63, 1000 }, { 3, 1, 1 }, { 4096, 1, 4095 },
					  { 1023, 2, 1024 }, { 0, 5, 0 } };
	struct region out, in, source;
	struct link link;
	struct ibv_sge sge[4];
	uint64_t id = 0;

	region_create(side, &out, 1 << 17, 0);
	region_create(side, &in, 1 << 17, IBV_ACCESS_LOCAL_WRITE);
	region_create(side, &source, 1 << 17, ALL_ACCESS);
	region_exchange(side, &source);
	link_open(side, &link, &(struct link_options){ .sge = 4 });
	pattern_fill(source.mem, source.size, 77 + side->server);
	for (size_t len = 2; len < 1 << 16; len = len * 3 + 1) {
		for (size_t c = 0; c < 5; c++, id++) {
			struct op op = { .id = id, .opcode = IBV_WR_SEND };
			int pieces = cut(&in, len, cuts[(c + 2) % 5], sge);

			op.sges = cut(&out, len, cuts[c], op.sge);
			pattern_fill(flat, len, id);
			copy_pieces(op.sge, op.sges, flat, false);
			recv_op(&link, id, sge, pieces);
			barrier(side);
			send_op(&link, &op);
			good_wc(link.send_cq, id);
			good_wc(link.recv_cq, id);
			copy_pieces(sge, pieces, flat, true);
			pattern_check(flat, len, id, "scattered message");

			op = (struct op){ .id = id, .opcode = IBV_WR_RDMA_READ, .sges = pieces,
					  .address = source.peer_address,
					  .rkey = source.peer_rkey };
			memcpy(op.sge, sge, sizeof(sge));
			send_op(&link, &op);
			good_wc(link.send_cq, id);
			copy_pieces(sge, pieces, flat, true);
			pattern_check(flat, len, 77 + !side->server, "scattered READ");
			barrier(side);
		}
	}
	link_close(&link);
	region_destroy(&source);
	region_destroy(&out);
	region_destroy(&in);
}

/* Inline data may be overwritten as soon as post_send returns, and needs no key. */
static void rc_inline(struct side *side)
{
	struct region target;
	struct link link;
	uint8_t data[256];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t most;

	region_create(side, &target, 4096, ALL_ACCESS);
	region_exchange(side, &target);
	link_open(side, &link, &(struct link_options){ .inline_bytes = 64 });
	OK(ibv_query_qp(link.qp, &attr, IBV_QP_CAP, &init));
	most = init.cap.max_inline_data;
	CHECK(most >= 64, "max_inline_data %u, asked for 64", most);
	if (most > sizeof(data))
		most = sizeof(data);
	for (uint32_t len = 0; len <= most; len++) {
		struct op op = { .id = len, .sges = 1, .flags = IBV_SEND_INLINE,
				 .opcode = len % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM,
				 .address = target.peer_address, .rkey = target.peer_rkey };

		op.sge[0] = (struct ibv_sge){ (uintptr_t)data, len, 0xdeadbeef };
		pattern_fill(data, len, len);
		memset(target.mem, 0, target.size);
		recv_region(&link, len, &target, 0, target.size);
		barrier(side);
		send_op(&link, &op);
		memset(data, 0xdd, sizeof(data));
		good_wc(link.send_cq, len);
		CHECK(good_wc(link.recv_cq, len).byte_len == len, "byte_len, not %u", len);
		pattern_check(target.mem, len, len, "inline message");
		byte_check(target.mem + len, 64, 0, "behind an inline message");
	}
	link_close(&link);
	region_destroy(&target);
}

/* A WRITE, then a SEND that tells of it: the data is there when the SEND is. */
static void writes(struct side *side, enum ibv_qp_type type, bool imm)
{
	struct region out, target;
	struct link link;
	size_t sizes[32], count = interesting_sizes(side, sizes, greatest_for(type));

	region_create(side, &out, GREATEST, 0);
	region_create(side, &target, GREATEST + 128, ALL_ACCESS);
	region_exchange(side, &target);
	link_open(side, &link, &(struct link_options){ .type = type });
	for (size_t i = 0; i < count; i++) {
		size_t len = sizes[i], offset = i % 64;
		struct op op = { .id = i, .sges = 1, .sge = { sge_of(&out, 0, len) }, .imm = i,
				 .opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
				 .address = target.peer_address + offset,
				 .rkey = target.peer_rkey };
		struct ibv_wc wc;

		pattern_fill(out.mem, len, i * 2 + side->server);
		memset(target.mem, 0xcc, len + 128);
		recv_op(&link, i, NULL, 0);
		barrier(side);
		send_op(&link, &op);
		wc = good_wc(link.send_cq, i);
		CHECK(wc.opcode == IBV_WC_RDMA_WRITE, "opcode %d of a write", wc.opcode);
		if (!imm) {
			send_op(&link, &(struct op){ .id = i, .opcode = IBV_WR_SEND });
			good_wc(link.send_cq, i);
		}
		wc = good_wc(link.recv_cq, i);
		check_recv(&wc, &link, imm ? len : 0, imm, i);
		CHECK(!imm || wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "opcode %d", wc.opcode);
		byte_check(target.mem, offset, 0xcc, "before a write");
		pattern_check(target.mem + offset, len, i * 2 + !side->server, "write");
		byte_check(target.mem + offset + len, 128 - offset, 0xcc, "behind a write");
		barrier(side);
	}
	link_close(&link);
	region_destroy(&target);
	region_destroy(&out);
}

static void rc_write(struct side *side)
{
	writes(side, IBV_QPT_RC, false);
}

static void rc_write_imm(struct side *side)
{
	writes(side, IBV_QPT_RC, true);
}

static void uc_write(struct side *side)
{
	writes(side, IBV_QPT_UC, false);
}

static void uc_write_imm(struct side *side)
{
	writes(side, IBV_QPT_UC, true);
}

static void rc_read(struct side *side)
{
	struct region in, source;
	struct link link;
	size_t sizes[32], count = interesting_sizes(side, sizes, GREATEST);

	region_create(side, &in, GREATEST + 64, IBV_ACCESS_LOCAL_WRITE);
	region_create(side, &source, GREATEST + 64, IBV_ACCESS_REMOTE_READ);
	region_exchange(side, &source);
	link_open(side, &link, &(struct link_options){ 0 });
	for (size_t i = 0; i < count; i++) {
		size_t len = sizes[i], offset = i % 64;
		struct ibv_wc wc;

		pattern_fill(source.mem + offset, len, i * 2 + side->server);
		memset(in.mem, 0xbb, len + 64);
		barrier(side);
		send_op(&link, &(struct op){ .id = i, .sges = 1, .sge = { sge_of(&in, 0, len) },
			.opcode = IBV_WR_RDMA_READ, .address = source.peer_address + offset,
			.rkey = source.peer_rkey });
		wc = good_wc(link.send_cq, i);
		CHECK(wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == len,
		      "opcode %d, byte_len %u of a read of %zu", wc.opcode, wc.byte_len, len);
		pattern_check(in.mem, len, i * 2 + !side->server, "read");
		byte_check(in.mem + len, 64, 0xbb, "behind a read");
		barrier(side);
	}
	link_close(&link);
	region_destroy(&source);
	region_destroy(&in);
}

/* Zero bytes may be written to or read from anywhere, with any key. */
static void rc_zero_length_ignores_key(struct side *side)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct link link;

	link_open(side, &link, &(struct link_options){ 0 });
	for (int i = 0; i < 2; i++) {
		send_op(&link, &(struct op){ .id = i, .opcode = opcodes[i],
			.address = 0x1234567, .rkey = 0x76543210 });
		good_wc(link.send_cq, i);
	}
	link_close(&link);
}

const struct test connected_tests[] = {
	{ "rc_send", rc_send, TAG_DATA },
	{ "rc_pieces", rc_pieces, TAG_DATA },
	{ "rc_inline", rc_inline, TAG_DATA },
	{ "rc_write", rc_write, TAG_DATA },
	{ "rc_write_imm", rc_write_imm, TAG_DATA },
	{ "rc_read", rc_read, TAG_DATA },
	{ "rc_zero_length_ignores_key", rc_zero_length_ignores_key, 0 },
	{ "uc_send", uc_send, TAG_DATA | TAG_LOSSLESS },
	{ "uc_write", uc_write, TAG_DATA | TAG_LOSSLESS },
	{ "uc_write_imm", uc_write_imm, TAG_DATA | TAG_LOSSLESS },
	{ 0 }
};
