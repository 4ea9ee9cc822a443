/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seven methods. What they differ in: who copies (pack, unpack), how many requests there are,
 * and how long their lists are.
 *
 *			client copies	requests			server copies
 *	pack		all, first	1 WRITE				all, at the end
 *	pieces		64 KiB, sends	a WRITE per 64 KiB		each piece as it comes
 *	gather-write	nothing		a WRITE per list of blocks	all, at the end
 *	scatter-read	all, first	a READ per list of blocks	nothing
 *	gather-send	nothing		a SEND per list, into lists	nothing
 *	write-each	nothing		a WRITE per block		nothing
 *	read-each	nothing		a READ per block		nothing
 *
 * A list names scattered memory on the side of its queue pair alone: the remote side of a WRITE or
 * READ is one range. So gather-write and scatter-read have to copy on the other side.
 */
#include "noncontig.h"

static uint32_t groups(uint32_t count, uint32_t each)
{
	return (count + each - 1) / each;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Elements for the blocks from @first on, at most @most; returns how many. */
static int list_blocks(const struct connection *c, const struct layout *layout, uint32_t first,
		       uint32_t most, struct ibv_sge *list)
{
	uint32_t count = least(most, layout->count - first);

	for (uint32_t i = 0; i < count; i++)
		list[i] = (struct ibv_sge){
			(uintptr_t)c->blocks.memory + (size_t)(first + i) * layout->stride,
			layout->block, c->blocks.mr->lkey };
	return (int)count;
}

/* The last WRITE of a transfer tells the server, which has a receive for it. */
static int post_write(struct connection *c, struct ibv_sge *list, int count, uint64_t address,
		      uint32_t rkey, bool tells)
{
	struct ibv_send_wr wr = { .opcode = tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
				  .sg_list = list, .num_sge = count,
				  .wr.rdma = { address, rkey } };

	return connection_post(c, &wr);
}

static int post_read(struct connection *c, struct ibv_sge *list, int count, uint64_t address,
		     uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .sg_list = list, .num_sge = count,
				  .wr.rdma = { address, rkey } };

	return connection_post(c, &wr);
}

/* A SEND without data: "it is packed", "read it now". */
static int post_go(struct connection *c)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	return connection_post(c, &wr);
}

/* ---- clients ---- */

static int pieces_send_each(struct connection *c, const struct order *order,
			    const struct answer *ready, uint32_t blocks)
{
	const struct layout *layout = &order->layout;

	for (uint32_t first = 0; first < layout->count; first += blocks) {
		uint32_t count = least(blocks, layout->count - first);
		size_t begin = (size_t)first * layout->block;
		struct ibv_sge sge = { (uintptr_t)c->staging.memory + begin, count * layout->block,
				       c->staging.mr->lkey };

		layout_pack(c->staging.memory, c->blocks.memory, layout, first, count);
		if (post_write(c, &sge, 1, ready->staging_address + begin, ready->staging_rkey, true))
			return -1;
	}
	return 0;
}

static int pack_send(struct connection *c, const struct order *order, const struct answer *ready)
{
	return pieces_send_each(c, order, ready, order->layout.count);
}

static uint32_t piece_blocks(const struct layout *layout)
{
	return layout->block < STAGING_PIECE ? STAGING_PIECE / layout->block : 1;
}

static int pieces_send(struct connection *c, const struct order *order, const struct answer *ready)
{
	return pieces_send_each(c, order, ready, piece_blocks(&order->layout));
}

static int gather_write_send(struct connection *c, const struct order *order,
			     const struct answer *ready)
{
	struct ibv_sge list[SGE_MAX];

	for (uint32_t first = 0; first < order->layout.count; first += order->sge) {
		int count = list_blocks(c, &order->layout, first, order->sge, list);
		uint64_t begin = (uint64_t)first * order->layout.block;

		if (post_write(c, list, count, ready->staging_address + begin, ready->staging_rkey,
			       first + (uint32_t)count == order->layout.count))
			return -1;
	}
	return 0;
}

static int scatter_read_send(struct connection *c, const struct order *order,
			     const struct answer *ready)
{
	(void)ready;
	layout_pack(c->staging.memory, c->blocks.memory, &order->layout, 0, order->layout.count);
	return post_go(c);
}

static int gather_send_send(struct connection *c, const struct order *order,
			    const struct answer *ready)
{
	struct ibv_sge list[SGE_MAX];

	(void)ready;
	for (uint32_t first = 0; first < order->layout.count; first += order->sge) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = list };

		wr.num_sge = list_blocks(c, &order->layout, first, order->sge, list);
		if (connection_post(c, &wr))
			return -1;
	}
	return 0;
}

static int write_each_send(struct connection *c, const struct order *order,
			   const struct answer *ready)
{
	struct ibv_sge sge;

	for (uint32_t i = 0; i < order->layout.count; i++) {
		list_blocks(c, &order->layout, i, 1, &sge);
		if (post_write(c, &sge, 1, ready->target_address + (uint64_t)i * order->layout.stride,
			       ready->target_rkey, i + 1 == order->layout.count))
			return -1;
	}
	return 0;
}

static int read_each_send(struct connection *c, const struct order *order,
			  const struct answer *ready)
{
	(void)order;
	(void)ready;
	return post_go(c);
}

/* ---- servers ---- */

/* A receive without memory, for a message without data or the end of a WRITE. */
static int notice_prepare(struct connection *c, const struct order *order)
{
	(void)order;
	return connection_post_receive(c, NULL, 0);
}

static unsigned notice_receives(const struct connection *c, const struct layout *layout)
{
	(void)c;
	(void)layout;
	return 1;
}

static int unpack_receive(struct connection *c, const struct order *order)
{
	if (connection_receive(c, 1))
		return -1;
	layout_unpack(c->blocks.memory, c->staging.memory, &order->layout, 0, order->layout.count);
	return 0;
}

static unsigned pieces_receives(const struct connection *c, const struct layout *layout)
{
	(void)c;
	return groups(layout->count, piece_blocks(layout));
}

static int pieces_prepare(struct connection *c, const struct order *order)
{
	for (unsigned i = 0; i < pieces_receives(c, &order->layout); i++)
		if (notice_prepare(c, order))
			return -1;
	return 0;
}

static int pieces_receive(struct connection *c, const struct order *order)
{
	const struct layout *layout = &order->layout;
	uint32_t blocks = piece_blocks(layout);

	for (uint32_t first = 0; first < layout->count; first += blocks) {
		if (connection_receive(c, 1))
			return -1;
		layout_unpack(c->blocks.memory, c->staging.memory, layout, first,
			      least(blocks, layout->count - first));
	}
	return 0;
}

static int scatter_read_receive(struct connection *c, const struct order *order)
{
	struct ibv_sge list[SGE_MAX];

	if (connection_receive(c, 1))
		return -1;
	for (uint32_t first = 0; first < order->layout.count; first += c->read_sge) {
		int count = list_blocks(c, &order->layout, first, c->read_sge, list);

		if (post_read(c, list, count, order->staging_address +
			      (uint64_t)first * order->layout.block, order->staging_rkey))
			return -1;
	}
	return connection_drain(c);
}

static unsigned gather_send_receives(const struct connection *c, const struct layout *layout)
{
	return groups(layout->count, c->send_sge);
}

static int gather_send_prepare(struct connection *c, const struct order *order)
{
	struct ibv_sge list[SGE_MAX];

	for (uint32_t first = 0; first < order->layout.count; first += order->sge) {
		int count = list_blocks(c, &order->layout, first, order->sge, list);

		if (connection_post_receive(c, list, count))
			return -1;
	}
	return 0;
}

static int gather_send_receive(struct connection *c, const struct order *order)
{
	return connection_receive(c, groups(order->layout.count, order->sge));
}

static int notice_receive(struct connection *c, const struct order *order)
{
	(void)order;
	return connection_receive(c, 1);
}

static int read_each_receive(struct connection *c, const struct order *order)
{
	struct ibv_sge sge;

	if (connection_receive(c, 1))
		return -1;
	for (uint32_t i = 0; i < order->layout.count; i++) {
		list_blocks(c, &order->layout, i, 1, &sge);
		if (post_read(c, &sge, 1, order->source_address + (uint64_t)i * order->layout.stride,
			      order->source_rkey))
			return -1;
	}
	return connection_drain(c);
}

const struct method methods[METHOD_COUNT] = {
	{ "pack", "pack all, one WRITE, unpack all",
	  pack_send, notice_prepare, unpack_receive, notice_receives },
	{ "pieces", "pack, WRITE and unpack in pieces of 64 KiB",
	  pieces_send, pieces_prepare, pieces_receive, pieces_receives },
	{ "gather-write", "WRITEs that gather blocks; the server unpacks",
	  gather_write_send, notice_prepare, unpack_receive, notice_receives },
	{ "scatter-read", "the client packs; READs that scatter to blocks",
	  scatter_read_send, notice_prepare, scatter_read_receive, notice_receives },
	{ "gather-send", "SENDs that gather, receives that scatter: no copy",
	  gather_send_send, gather_send_prepare, gather_send_receive, gather_send_receives },
	{ "write-each", "a WRITE for each block: no copy",
	  write_each_send, notice_prepare, notice_receive, notice_receives },
	{ "read-each", "a READ for each block: no copy",
	  read_each_send, notice_prepare, read_each_receive, notice_receives },
};
