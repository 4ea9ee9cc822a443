/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes of a stream, in and out. Copying is done with receive_lock or send_lock held, and rs->lock
 * not: a reader, a writer and a thread that handles completions do not wait for each other's
 * copies. No thread sleeps with receive_lock or send_lock held.
 *
 *	rsend():  application -> send buffer -> (RDMA WRITE with immediate) peer's ring
 *	rrecv():  ring -> application
 *
 * What fits in a work request goes inline and saves the first copy.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "rsockets/rsocket.h"

/* A long send goes in pieces, so that the next is copied while the last is on its way. */
enum { PIECE = 64 << 10 };

/* ---- what is true of the connection ---- */

static bool stream_is_settled(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->state != RS_RESOLVING && rs->state != RS_CONNECTING && rs->state != RS_ACCEPTING;
}

int rs_take_error_locked(struct rsocket *rs, int otherwise)
{
	int err = rs->error;

	rs->error = 0;
	return err ? err : otherwise;
}

int rs_stream_ready_locked(struct rsocket *rs, int64_t deadline_ns)
{
	int err;

	if (rs->state == RS_CONNECTED)
		return 0;
	err = rs_wait_locked(rs, stream_is_settled, RS_READ, deadline_ns);
	if (err)
		return err;
	if (rs->state == RS_OPEN || rs->state == RS_LISTENING)
		return ENOTCONN;
	if (rs->state == RS_FAILED)
		return rs_take_error_locked(rs, ENOTCONN);
	return 0;
}

size_t rs_stream_waiting_locked(const struct rsocket *rs)
{
	const struct rs_stream *stream = &rs->stream;

	return rs_flow_in_available(&stream->in) -
	       rs_urgent_is_skipped(&stream->urgent, stream->in.taken, rs->options.oob_inline);
}

bool rs_stream_readable_locked(struct rsocket *rs)
{
	const struct rs_stream *stream = &rs->stream;

	return rs_stream_waiting_locked(rs) || stream->peer_done || stream->read_shut ||
	       (rs->state != RS_CONNECTED && rs->state != RS_ACCEPTING);
}

/* Bytes that could go out now, as one message, from the send buffer. */
static size_t send_room(const struct rs_stream *stream)
{
	const struct rs_send_queue *queue = &stream->queue;

	return rs_least(rs_least(rs_flow_out_room(&stream->out), PIECE),
			rs_least(queue->size - (size_t)(queue->head - queue->tail),
				 rs_contiguous(queue->head, queue->size)));
}

bool rs_stream_writable_locked(struct rsocket *rs)
{
	const struct rs_stream *stream = &rs->stream;

	if (stream->write_shut || stream->peer_gone || rs->state != RS_CONNECTED)
		return rs->state != RS_ACCEPTING;	/* it would fail, and at once */
	return rs_request_room_locked(rs) && send_room(stream);
}

/*
 * Waits with @side (receive_lock or send_lock) dropped as well, so that a call that does not block
 * does not wait behind us.
 */
static int wait_without(struct rsocket *rs, struct lock *side, rs_condition *ready,
			enum rs_interest interest, int64_t deadline_ns) REQUIRES(side, rs->lock)
{
	int err;

	lock_release(side);
	err = rs_wait_locked(rs, ready, interest, deadline_ns);
	lock_release(&rs->lock);
	lock_acquire(side);
	lock_acquire(&rs->lock);
	return err;
}

/* ---- receiving ---- */

/*
 * One round: 0 when something was copied or the end was reached (@count tells). Under both locks;
 * drops rs->lock while it copies. @skip: bytes that MSG_PEEK saw in earlier rounds.
 */
static int stream_receive_some(struct rsocket *rs, struct rs_cursor *to, bool peek, size_t skip,
			       size_t *count) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	uint64_t position = stream->in.taken + skip;
	size_t available, wanted, n;

	*count = 0;
	if (stream->read_shut)
		return 0;
	available = rs_flow_in_available(&stream->in);
	if (available <= skip) {
		if (rs->error)
			return rs_take_error_locked(rs, 0);
		return stream->peer_done || rs->state != RS_CONNECTED ? 0 : EAGAIN;
	}
	available = rs_urgent_limit(&stream->urgent, position, available - skip);
	lock_release(&rs->lock);
	for (wanted = rs_least(to->left, available); *count < wanted; *count += n, position += n) {
		n = rs_least(wanted - *count, rs_contiguous(position, stream->in.size));
		rs_cursor_scatter(to, stream->ring + position % stream->in.size, n);
	}
	lock_acquire(&rs->lock);
	/* rshutdown() may have thrown the rest away meanwhile. */
	if (!peek && !stream->read_shut) {
		stream->in.taken += *count;
		rs_give_credit_locked(rs);
	}
	return 0;
}

/* A read that begins at the urgent byte passes it; one that has begun ends in front of it. */
static size_t pass_urgent(struct rsocket *rs, bool peek) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;

	if (stream->read_shut || !rs_urgent_is_skipped(&stream->urgent, stream->in.taken, rs->options.oob_inline))
		return 0;
	if (peek)
		return 1;
	stream->urgent.there = false;
	stream->in.taken++;
	rs_give_credit_locked(rs);
	return 0;
}

/* MSG_OOB, as of TCP: EINVAL where there is no urgent byte, it was taken, or stays in the stream. */
static ssize_t receive_urgent(struct rsocket *rs, struct rs_cursor *to, bool peek)
{
	struct rs_stream *stream = &rs->stream;
	ssize_t count = 1;

	lock_acquire(&rs->receive_lock);
	lock_acquire(&rs->lock);
	rs_progress_locked(rs, false);
	if (rs->options.oob_inline || !rs_urgent_waits(&stream->urgent, stream->in.taken)) {
		count = rs_result(EINVAL);
	} else {
		rs_cursor_scatter(to, stream->ring + stream->urgent.at % stream->in.size, 1);
		stream->urgent.taken = !peek;
	}
	lock_release(&rs->lock);
	lock_release(&rs->receive_lock);
	return count;
}

ssize_t rs_stream_receive(struct rsocket *rs, struct rs_cursor *to, int flags)
{
	int64_t deadline_ns = rs_deadline_ns(rs, flags, rs->options.receive_timeout_ms);
	size_t total = 0, count, passed;
	bool peek = flags & MSG_PEEK;
	uint64_t at;
	int err;

	lock_acquire(&rs->lock);
	err = rs_stream_ready_locked(rs, deadline_ns);
	lock_release(&rs->lock);
	if (err)
		return rs_result(err);
	if (flags & MSG_OOB)
		return receive_urgent(rs, to, peek);
	lock_acquire(&rs->receive_lock);
	lock_acquire(&rs->lock);
	do {
		passed = total ? 0 : pass_urgent(rs, peek);
		err = stream_receive_some(rs, to, peek, peek ? total + passed : 0, &count);
		if (!err && !count)
			break;			/* the end of the stream */
		total += count;
		at = rs->stream.in.taken + (peek ? total + passed : 0);
		/* MSG_PEEK does not wait for more than there is, not even with MSG_WAITALL. */
		if (!to->left || (total && rs_urgent_is_next(&rs->stream.urgent, at)) ||
		    (total && (peek || !(flags & MSG_WAITALL))))
			break;
		if (err == EAGAIN)
			err = wait_without(rs, &rs->receive_lock, rs_stream_readable_locked, RS_READ,
					   deadline_ns);
	} while (!err);
	lock_release(&rs->lock);
	lock_release(&rs->receive_lock);
	return total || !err ? (ssize_t)total : rs_result(err);
}

/* ---- sending ---- */

/* Posts @sge as the next message; @urgent: its last byte is. 0 or errno. */
static int post_data(struct rsocket *rs, struct ibv_sge *sge, unsigned flags, bool urgent)
	REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags | IBV_SEND_SOLICITED,
		.imm_data = htonl(sge->length | (urgent ? RS_URGENT : 0)),
		.wr.rdma = { .remote_addr = stream->peer.ring_address + stream->out.sent % stream->out.size,
			     .rkey = stream->peer.ring_key },
	};
	size_t bytes = sge->length;
	int err = rs_post_locked(rs, &wr);

	if (!err)
		rs_flow_out_sent(&stream->out, bytes);
	return err;
}

/* A short message, inline. EAGAIN: no room for it. */
static int send_inline(struct rsocket *rs, struct rs_cursor *from, bool urgent) REQUIRES(rs->lock)
{
	struct ibv_sge sge;
	size_t bytes = from->left;
	char *at;
	int err;

	if (rs_flow_out_room(&rs->stream.out) < bytes)
		return EAGAIN;
	rs_cursor_piece(from, &at);
	sge = (struct ibv_sge){ .addr = (uintptr_t)at, .length = (uint32_t)bytes };
	err = post_data(rs, &sge, IBV_SEND_INLINE, urgent);
	if (!err)
		rs_cursor_skip(from, bytes);
	return err;
}

/* A piece of at most @room bytes through the send buffer. Drops rs->lock while it copies. */
static int send_piece(struct rsocket *rs, struct rs_cursor *from, size_t room, bool urgent)
	REQUIRES(rs->send_lock, rs->lock)
{
	struct rs_send_queue *queue = &rs->stream.queue;
	size_t bytes = rs_least(room, from->left);
	const bool last = bytes == from->left;
	struct ibv_sge sge = {
		.addr = (uintptr_t)queue->memory + queue->head % queue->size,
		.length = (uint32_t)bytes, .lkey = rs->stream.send_mr->lkey };

	lock_release(&rs->lock);
	rs_cursor_gather(from, (char *)(uintptr_t)sge.addr, bytes);
	lock_acquire(&rs->lock);
	if (rs->state != RS_CONNECTED || rs->closing)
		return rs_take_error_locked(rs, EPIPE);
	queue->head += bytes;
	return post_data(rs, &sge, 0, urgent && last);
}

static int stream_send_some(struct rsocket *rs, struct rs_cursor *from, bool urgent)
	REQUIRES(rs->send_lock, rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	size_t room;
	char *at;
	int err = EAGAIN;

	if (rs->state != RS_CONNECTED || stream->write_shut || stream->peer_gone)
		return rs_take_error_locked(rs, EPIPE);
	if (!rs_request_room_locked(rs))
		return EAGAIN;
	if (from->left <= rs->options.inline_bytes && rs_cursor_piece(from, &at) == from->left)
		err = send_inline(rs, from, urgent);
	room = send_room(stream);
	if (err == EAGAIN && room)
		err = send_piece(rs, from, room, urgent);
	return err;
}

ssize_t rs_stream_send(struct rsocket *rs, struct rs_cursor *from, int flags)
{
	int64_t deadline_ns = rs_deadline_ns(rs, flags, rs->options.send_timeout_ms);
	size_t total = from->left;
	int err;

	lock_acquire(&rs->lock);
	err = rs_stream_ready_locked(rs, deadline_ns);
	lock_release(&rs->lock);
	if (err)
		return rs_result(err);
	lock_acquire(&rs->send_lock);
	lock_acquire(&rs->lock);
	while (!err && from->left) {
		err = stream_send_some(rs, from, flags & MSG_OOB);
		if (err == EAGAIN)
			err = wait_without(rs, &rs->send_lock, rs_stream_writable_locked, RS_WRITE,
					   deadline_ns);
	}
	lock_release(&rs->lock);
	lock_release(&rs->send_lock);
	total -= from->left;
	return total || !err ? (ssize_t)total : rs_result(err);
}
