/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * riomap, riounmap, riowrite: the peer writes into a buffer of ours that we gave an offset.
 * The owner registers the buffer and tells the peer in an IOMAP message, which keeps its place
 * before later data; riowrite is an RDMA WRITE behind earlier data and before later data.
 * The peer's table has as many slots as its RDMA_IOMAPSIZE; the owner numbers them.
 */
#include <errno.h>
#include <stdlib.h>

#include "rsockets/rsocket.h"

static struct rs_iomap *find_overlap(struct rs_stream *stream, uint64_t offset, uint64_t length)
{
	for (uint32_t i = 0; i < stream->local_map_count; i++) {
		struct rs_iomap *map = &stream->local_maps[i];

		if (map->used && map->prot & PROT_WRITE && offset < map->offset + map->length &&
		    map->offset < offset + length)
			return map;
	}
	return NULL;
}

/* A free slot; those below the peer's limit first, as only those can be announced. */
static int find_slot(struct rs_stream *stream, bool remote, uint32_t *slot)
{
	struct rs_iomap *grown;
	uint32_t i;

	/* Local mappings lie beyond the peer's table. */
	for (i = remote ? 0 : stream->peer.iomaps; i < stream->local_map_count; i++) {
		if (remote && i == stream->peer.iomaps)
			return ENOSPC;
		if (!stream->local_maps[i].used) {
			*slot = i;
			return 0;
		}
	}
	if (remote && i >= stream->peer.iomaps)
		return ENOSPC;
	if (i >= UINT16_MAX)
		return ENOSPC;
	grown = reallocarray(stream->local_maps, i + 1, sizeof(*grown));
	if (!grown)
		return ENOMEM;
	for (uint32_t j = stream->local_map_count; j <= i; j++)
		grown[j] = (struct rs_iomap){ 0 };
	stream->local_maps = grown;
	stream->local_map_count = i + 1;
	*slot = i;
	return 0;
}

static bool message_room(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->state != RS_CONNECTED || rs->stream.peer_gone ||
	       (rs_request_room_locked(rs) && rs_flow_out_message(&rs->stream.out));
}

/*
 * Mappings are counted as data is, so that there is a receive for each. This waits, non-blocking
 * socket or not: half a mapping is of no use to anybody.
 */
static int iomap_send_control(struct rsocket *rs, const struct rs_control *control)
	REQUIRES(rs->lock)
{
	int err = rs_wait_locked(rs, message_room, RS_WRITE, RS_FOREVER);

	if (err)
		return err;
	if (rs->state != RS_CONNECTED || rs->stream.peer_gone || rs->stream.write_shut)
		return ENOTCONN;
	err = rs_post_control_locked(rs, control);
	if (!err)
		rs->stream.out.messages++;
	return err;
}

static int add_map(struct rsocket *rs, struct rs_iomap *wanted) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	bool remote = wanted->prot & PROT_WRITE;
	struct rs_control control = { .kind = RS_IOMAP, .offset = wanted->offset,
				      .length = wanted->length };
	uint32_t slot;
	int err;

	if (remote && find_overlap(stream, wanted->offset, wanted->length))
		return EEXIST;
	err = find_slot(stream, remote, &slot);
	if (err)
		return err;
	wanted->mr = ibv_reg_mr(rs_pd(rs), wanted->buffer, wanted->length,
				remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0);
	if (!wanted->mr)
		return errno;
	wanted->used = true;
	wanted->told = remote;
	stream->local_maps[slot] = *wanted;	/* taken, before iomap_send_control() drops the lock */
	if (!remote)
		return 0;
	control.index = (uint16_t)slot;
	control.key = wanted->mr->rkey;
	control.address = (uintptr_t)wanted->buffer;
	err = iomap_send_control(rs, &control);
	stream->local_maps[slot].told = false;
	if (err) {
		ibv_dereg_mr(wanted->mr);
		stream->local_maps[slot].used = false;
	}
	return err;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	struct rs_iomap wanted = { .buffer = buf, .prot = prot, .length = len,
				   .offset = (uint64_t)offset };
	int err = 0;

	if (!rs)
		return -1;
	if (offset == -1 || prot == PROT_NONE)
		wanted.offset = (uintptr_t)buf;
	lock_acquire(&rs->lock);
	if (rs->type != SOCK_STREAM || !len || flags || prot & ~PROT_WRITE || offset < -1 ||
	    wanted.offset + len < wanted.offset)
		err = EINVAL;
	if (!err)
		err = rs_stream_ready_locked(rs, RS_FOREVER);
	if (!err && rs->state != RS_CONNECTED)
		err = ENOTCONN;
	if (!err)
		err = add_map(rs, &wanted);
	lock_release(&rs->lock);
	rs_put(rs);
	return err ? rs_result(err) : (off_t)wanted.offset;
}

/*
 * The peer is informed first; requests that it has under way fail. What another thread takes away, or has not
 * yet given, is none meanwhile.
 */
static int remove_map(struct rsocket *rs, void *buffer, size_t length) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	struct rs_control control = { .kind = RS_IOUNMAP };
	struct rs_iomap *map;
	int err;

	for (uint32_t i = 0; i < stream->local_map_count; i++) {
		map = &stream->local_maps[i];
		if (!map->used || map->told || map->buffer != buffer || map->length != length)
			continue;
		if (map->prot & PROT_WRITE && rs->state == RS_CONNECTED && !stream->peer_gone) {
			control.index = (uint16_t)i;
			map->told = true;
			err = iomap_send_control(rs, &control);
			map = &stream->local_maps[i];	/* may have moved meanwhile */
			map->told = false;
			if (err && err != ENOTCONN)
				return err;
		}
		err = ibv_dereg_mr(map->mr);
		if (!err)
			map->used = false;
		return err;
	}
	return EINVAL;
}

int riounmap(int socket, void *buf, size_t len)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	int err = EINVAL;

	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	if (rs->type == SOCK_STREAM)
		err = remove_map(rs, buf, len);
	lock_release(&rs->lock);
	rs_put(rs);
	return rs_result(err);
}

/* The peer's mappings, as announced in IOMAP messages. */
int rs_iomap_message_locked(struct rsocket *rs, const struct rs_control *control)
{
	struct rs_iomap *map;

	if (control->index >= rs->options.iomaps || !rs->stream.peer_maps)
		return EPROTO;
	map = &rs->stream.peer_maps[control->index];
	if (control->kind == RS_IOUNMAP)
		*map = (struct rs_iomap){ 0 };
	else
		*map = (struct rs_iomap){ .used = true, .offset = control->offset,
					  .length = control->length, .address = control->address,
					  .key = control->key };
	return 0;
}

void rs_iomap_free(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;

	for (uint32_t i = 0; i < stream->local_map_count; i++)
		if (stream->local_maps[i].used)
			ibv_dereg_mr(stream->local_maps[i].mr);
	free(stream->local_maps);
	stream->local_maps = NULL;
	stream->local_map_count = 0;
}

/* ---- riowrite ---- */

static const struct rs_iomap *find_peer_map(const struct rsocket *rs, uint64_t offset)
{
	for (uint32_t i = 0; rs->stream.peer_maps && i < rs->options.iomaps; i++) {
		const struct rs_iomap *map = &rs->stream.peer_maps[i];

		if (map->used && offset >= map->offset && offset - map->offset < map->length)
			return map;
	}
	return NULL;
}

static size_t write_room(const struct rs_send_queue *queue)
{
	return rs_least(queue->size - (size_t)(queue->head - queue->tail),
			rs_contiguous(queue->head, queue->size));
}

static bool can_write(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->state != RS_CONNECTED || rs->stream.peer_gone ||
	       (rs_request_room_locked(rs) && write_room(&rs->stream.queue));
}

/* One RDMA WRITE of what fits into the send buffer and the mapping. Returns bytes; 0: *@failure. */
static size_t write_piece(struct rsocket *rs, const char *from, size_t count, uint64_t offset,
			  int *failure) REQUIRES(rs->send_lock, rs->lock)
{
	struct rs_send_queue *queue = &rs->stream.queue;
	const struct rs_iomap *map = find_peer_map(rs, offset);
	struct ibv_sge sge = { 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 };

	*failure = EINVAL;
	if (!map)
		return 0;
	count = rs_least(count, map->length - (offset - map->offset));
	wr.wr.rdma.remote_addr = map->address + (offset - map->offset);
	wr.wr.rdma.rkey = map->key;
	sge.addr = (uintptr_t)from;
	if (count <= rs->options.inline_bytes) {
		wr.send_flags = IBV_SEND_INLINE;
	} else {
		count = rs_least(count, rs_least(write_room(queue), 64 << 10));
		sge.addr = (uintptr_t)queue->memory + queue->head % queue->size;
		sge.lkey = rs->stream.send_mr->lkey;
		lock_release(&rs->lock);
		memcpy((char *)(uintptr_t)sge.addr, from, count);
		lock_acquire(&rs->lock);
		*failure = rs_take_error_locked(rs, EPIPE);
		if (rs->state != RS_CONNECTED || rs->closing)
			return 0;
		queue->head += count;
	}
	sge.length = (uint32_t)count;
	*failure = rs_post_locked(rs, &wr);
	return *failure ? 0 : count;
}

static int write_all(struct rsocket *rs, const char *from, size_t count, uint64_t offset,
		     int flags, size_t *done) REQUIRES(rs->send_lock, rs->lock)
{
	int64_t deadline_ns = rs_deadline_ns(rs, flags, rs->options.send_timeout_ms);
	int err = rs_stream_ready_locked(rs, deadline_ns);
	size_t n;

	while (!err && *done < count) {
		lock_release(&rs->send_lock);
		err = rs_wait_locked(rs, can_write, RS_WRITE, deadline_ns);
		lock_release(&rs->lock);
		lock_acquire(&rs->send_lock);
		lock_acquire(&rs->lock);
		if (err)
			break;
		if (rs->state != RS_CONNECTED || rs->stream.write_shut || rs->stream.peer_gone)
			return rs_take_error_locked(rs, EPIPE);
		if (!rs_request_room_locked(rs) || !write_room(&rs->stream.queue))
			continue;		/* another thread was faster */
		n = write_piece(rs, from + *done, count - *done, offset + *done, &err);
		*done += n;
	}
	return err;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	size_t done = 0;
	int err = EINVAL;

	if (!rs)
		return (size_t)-1;
	lock_acquire(&rs->send_lock);
	lock_acquire(&rs->lock);
	if (rs->type == SOCK_STREAM && offset >= 0)
		err = write_all(rs, buf, count, (uint64_t)offset, flags, &done);
	lock_release(&rs->lock);
	lock_release(&rs->send_lock);
	rs_put(rs);
	return done || !err ? done : (size_t)rs_result(err);
}
