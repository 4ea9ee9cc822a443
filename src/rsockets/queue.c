/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of a stream, its CQ and memory:
 *
 *	ring		in.size bytes, written by the peer; then RS_CONTROL_BYTES for each receive
 *	send buffer	queue.size bytes, a ring: data from rsend() until the peer's HCA has it
 *
 * Receives go back to the queue as soon as their completion is read: data lies in the ring, a
 * control message is copied. One CQ and one completion channel serve both queues.
 *
 * Few sends are signaled: one in a quarter of the queue or of the buffer, and whatever the end of
 * the connection waits for. A thread that waits for room finds all of it in use, so that a
 * signaled one is always among what it waits for.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "rsockets/rsocket.h"

#define RECEIVE_TAG	((uint64_t)1 << 63)	/* in wr_id, with the slot; else a number */

enum { BATCH = 32 };

struct ibv_pd *rs_pd(struct rsocket *rs)
{
	return rs->stream.qp ? rs->stream.qp->pd : NULL;
}

/* ---- open and close ---- */

static size_t page_round(size_t bytes)
{
	return (bytes + 4095) & ~(size_t)4095;
}

static void *queue_map(size_t bytes)
{
	void *memory = mmap(NULL, page_round(bytes), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* What the device can do bounds what was asked for. */
static int choose_sizes(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;
	struct ibv_device_attr attr;
	uint32_t most;
	int err = ibv_query_device(rs->id->verbs, &attr);

	if (err)
		return err;
	most = (uint32_t)rs_least((size_t)attr.max_qp_wr, (size_t)attr.max_cqe / 2);
	stream->queue.slots = (uint32_t)rs_least(rs->options.send_requests + RS_CONTROL_RESERVE,
						 most);
	stream->receives = (uint32_t)rs_least(rs->options.receive_requests, most);
	stream->queue.size = rs->options.send_bytes;
	stream->in.size = rs->options.receive_bytes;
	if (stream->receives <= RS_CONTROL_RESERVE || stream->queue.slots <= RS_CONTROL_RESERVE)
		return ENOMEM;
	stream->in.limit = stream->receives - RS_CONTROL_RESERVE;
	return 0;
}

static int queue_open_memory(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;

	stream->ring_mapped = page_round(stream->in.size) + stream->receives * RS_CONTROL_BYTES;
	stream->ring = queue_map(stream->ring_mapped);
	stream->queue.memory = queue_map(stream->queue.size);
	stream->queue.ends = calloc(stream->queue.slots, sizeof(*stream->queue.ends));
	if (rs->options.iomaps)
		stream->peer_maps = calloc(rs->options.iomaps, sizeof(*stream->peer_maps));
	if (!stream->ring || !stream->queue.memory || !stream->queue.ends ||
	    (rs->options.iomaps && !stream->peer_maps))
		return ENOMEM;
	stream->ring_mr = ibv_reg_mr(rs_pd(rs), stream->ring, stream->ring_mapped,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!stream->ring_mr)
		return errno;
	stream->send_mr = ibv_reg_mr(rs_pd(rs), stream->queue.memory, stream->queue.size, 0);
	return stream->send_mr ? 0 : errno;
}

static int queue_open_queues(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = stream->queue.slots, .max_recv_wr = stream->receives,
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = rs->options.inline_bytes },
	};

	if (attr.cap.max_inline_data < RS_CONTROL_BYTES)
		attr.cap.max_inline_data = RS_CONTROL_BYTES;
	stream->channel = ibv_create_comp_channel(rs->id->verbs);
	if (!stream->channel)
		return errno;
	if (fcntl(stream->channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	stream->cq = ibv_create_cq(rs->id->verbs, (int)(stream->queue.slots + stream->receives),
				   rs, stream->channel, 0);
	if (!stream->cq)
		return errno;
	attr.send_cq = stream->cq;
	attr.recv_cq = stream->cq;
	if (rdma_create_qp(rs->id, NULL, &attr))
		return errno;
	stream->qp = rs->id->qp;
	rs->options.inline_bytes = attr.cap.max_inline_data;
	return 0;
}

static char *control_slot(struct rs_stream *stream, uint64_t index)
{
	return stream->ring + page_round(stream->in.size) + index * RS_CONTROL_BYTES;
}

/* Posts the receives of these slots. 0 or errno. */
static int post_receives(struct rs_stream *stream, const uint32_t *slots, unsigned count)
{
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];

	for (unsigned i = 0; i < count; i++) {
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)control_slot(stream, slots[i]),
			.length = RS_CONTROL_BYTES, .lkey = stream->ring_mr->lkey };
		wr[i] = (struct ibv_recv_wr){
			.wr_id = RECEIVE_TAG | slots[i], .sg_list = &sge[i], .num_sge = 1,
			.next = i + 1 < count ? &wr[i + 1] : NULL };
	}
	return count ? ibv_post_recv(stream->qp, wr, &bad) : 0;
}

int rs_stream_open_locked(struct rsocket *rs, struct rs_hello *hello)
{
	struct rs_stream *stream = &rs->stream;
	int err = choose_sizes(rs);
	uint32_t slots[BATCH];
	unsigned count = 0;

	if (!err)
		err = queue_open_queues(rs);
	if (!err)
		err = queue_open_memory(rs);
	for (uint32_t i = 0; i < stream->receives && !err; i++) {
		slots[count++] = i;
		if (count == BATCH || i + 1 == stream->receives) {
			err = post_receives(stream, slots, count);
			count = 0;
		}
	}
	if (!err)
		err = rs_owner_watch_locked(rs);
	if (err)
		return err;		/* rs_stream_close() takes back what there is */
	*hello = (struct rs_hello){
		.ring_address = (uintptr_t)stream->ring, .ring_key = stream->ring_mr->rkey,
		.ring_bytes = stream->in.size, .messages = stream->in.limit,
		.iomaps = rs->options.iomaps };
	return 0;
}

void rs_stream_start_locked(struct rsocket *rs, const struct rs_hello *peer)
{
	rs->stream.peer = *peer;
	rs->stream.out.size = peer->ring_bytes;
	rs->stream.out.limit = peer->messages;
}

static void queue_unmap(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, page_round(bytes));
}

/* Everything that rs_stream_open_locked() may have made; nobody else has a reference. */
void rs_stream_close(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;

	if (stream->channel)
		rs_service_forget(stream->channel->fd);
	if (stream->qp)
		rdma_destroy_qp(rs->id);
	rs_iomap_free(rs);
	if (stream->ring_mr)
		ibv_dereg_mr(stream->ring_mr);
	if (stream->send_mr)
		ibv_dereg_mr(stream->send_mr);
	if (stream->cq) {
		if (stream->unacknowledged)
			ibv_ack_cq_events(stream->cq, stream->unacknowledged);
		ibv_destroy_cq(stream->cq);
	}
	if (stream->channel)
		ibv_destroy_comp_channel(stream->channel);
	queue_unmap(stream->ring, stream->ring_mapped);
	queue_unmap(stream->queue.memory, stream->queue.size);
	free(stream->queue.ends);
	free(stream->peer_maps);
	stream->qp = NULL;
	stream->ring_mr = stream->send_mr = NULL;
	stream->cq = NULL;
	stream->channel = NULL;
	stream->ring = stream->queue.memory = NULL;
	stream->queue.ends = NULL;
	stream->peer_maps = NULL;
	stream->unacknowledged = stream->armed = 0;
}

/* ---- sending ---- */

static uint32_t requests_under_way(const struct rs_send_queue *queue)
{
	return queue->posted - queue->done;
}

bool rs_request_room_locked(const struct rsocket *rs)
{
	const struct rs_send_queue *queue = &rs->stream.queue;

	return requests_under_way(queue) < queue->slots - RS_CONTROL_RESERVE;
}

/*
 * A reader needs solicited completions only: data and control messages of the peer. A thread that
 * waits for room, or for room to send a credit, needs those of our own sends, too.
 */
void rs_arm_locked(struct rsocket *rs, enum rs_interest interest)
{
	struct rs_stream *stream = &rs->stream;

	if (rs->type == SOCK_DGRAM)
		rs_links_arm_locked(rs);
	if (rs->type == SOCK_DGRAM || !stream->cq)
		return;
	if (rs_flow_in_credit_due(&stream->in))
		interest |= RS_WRITE;
	if ((stream->armed & interest) == interest || stream->armed & RS_WRITE)
		return;
	if (!ibv_req_notify_cq(stream->cq, !(interest & RS_WRITE)))
		stream->armed |= interest;
}

bool rs_all_sent_locked(struct rsocket *rs)
{
	return rs->state != RS_CONNECTED || rs->stream.peer_gone ||
	       !requests_under_way(&rs->stream.queue);
}

int rs_post_locked(struct rsocket *rs, struct ibv_send_wr *wr)
{
	struct rs_send_queue *queue = &rs->stream.queue;
	struct ibv_send_wr *bad;
	int err;

	wr->wr_id = queue->posted;
	if (queue->silent >= (queue->slots - RS_CONTROL_RESERVE) / 4 ||
	    queue->head - queue->signaled_head >= queue->size / 4)
		wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(rs->stream.qp, wr, &bad);
	if (err) {
		rs_end_locked(rs, ECONNRESET);
		return err;
	}
	queue->ends[queue->posted % queue->slots] = queue->head;
	queue->posted++;
	queue->silent++;
	if (wr->send_flags & IBV_SEND_SIGNALED) {
		queue->silent = 0;
		queue->signaled_head = queue->head;
	}
	return 0;
}

/* Control messages are few by construction (flow.h): there is nearly always room. */
int rs_post_control_locked(struct rsocket *rs, const struct rs_control *control)
{
	uint8_t bytes[RS_CONTROL_BYTES];
	struct ibv_sge sge = { .addr = (uintptr_t)bytes, .length = sizeof(bytes) };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED };

	if (requests_under_way(&rs->stream.queue) >= rs->stream.queue.slots)
		return EAGAIN;
	if (control->kind == RS_SHUTDOWN)
		wr.send_flags |= IBV_SEND_SIGNALED;
	rs_control_write(control, bytes);
	return rs_post_locked(rs, &wr);
}

void rs_give_credit_locked(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;
	struct rs_control credit = { .kind = RS_CREDIT, .bytes = stream->in.taken,
				     .messages = stream->in.messages };

	if (rs->state != RS_CONNECTED || stream->peer_gone || stream->leaving ||
	    !rs_flow_in_credit_due(&stream->in))
		return;
	if (!rs_post_control_locked(rs, &credit))
		rs_flow_in_credit_sent(&stream->in);
}

/* ---- completions ---- */

static int queue_take_control(struct rsocket *rs, const struct ibv_wc *wc) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;
	struct rs_control control;
	int err = rs_control_read((uint8_t *)control_slot(stream, wc->wr_id & ~RECEIVE_TAG),
				  wc->byte_len, &control);

	if (err)
		return err;
	switch (control.kind) {
	case RS_CREDIT:
		return rs_flow_out_credit(&stream->out, control.bytes, control.messages) ?
			0 : EPROTO;
	case RS_SHUTDOWN:
		stream->peer_done = true;
		stream->peer_gone |= control.how == RS_GONE;
		return 0;
	case RS_IOMAP:
	case RS_IOUNMAP:
		stream->in.messages++;
		return rs_iomap_message_locked(rs, &control);
	}
	return EPROTO;
}

/* 0, or EPROTO: the peer breaks the rules. */
static int take_receive(struct rsocket *rs, const struct ibv_wc *wc) REQUIRES(rs->lock)
{
	struct rs_stream *stream = &rs->stream;

	if (rs->state == RS_ACCEPTING)		/* the RTU is late or lost */
		rs->state = RS_CONNECTED;
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		return queue_take_control(rs, wc);
	if (stream->peer_done || (ntohl(wc->imm_data) & ~RS_URGENT) != wc->byte_len ||
	    !rs_flow_in_arrived(&stream->in, wc->byte_len))
		return EPROTO;
	if (ntohl(wc->imm_data) & RS_URGENT) {
		/* As TCP: who stands at the mark never reads that byte; elsewhere it becomes one like others. */
		if (rs_urgent_is_skipped(&stream->urgent, stream->in.taken, rs->options.oob_inline))
			stream->in.taken++;
		rs_urgent_arrived(&stream->urgent, &stream->in);
		rs_owner_signal_locked(rs, SIGURG);
	}
	if (stream->read_shut)
		stream->in.taken = stream->in.arrived;
	return 0;
}

/* Flushes after the end are its consequence; before it, a failed request is the end. */
static void take_failure(struct rsocket *rs, const struct ibv_wc *wc) REQUIRES(rs->lock)
{
	if (rs->state == RS_CLOSED)
		return;
	if (rs->stream.peer_gone) {
		rs_end_locked(rs, 0);
		return;
	}
	explain_about("ECONNRESET", OF(RSOCKET, (unsigned)rs->fd),
		"rsocket %d: connection lost (%s): the peer or the route to it is gone",
		      rs->fd, ibv_wc_status_str(wc->status));
	rs_end_locked(rs, ECONNRESET);
}

unsigned rs_completions_locked(struct rsocket *rs)
{
	struct rs_stream *stream = &rs->stream;
	struct rs_send_queue *queue = &stream->queue;
	uint32_t slots[BATCH], sequence;	/* slots: to post again */
	struct ibv_wc wc[BATCH];
	unsigned total = 0, again;
	int count;

	if (!stream->cq || rs->closing)
		return 0;
	do {
		count = ibv_poll_cq(stream->cq, BATCH, wc);
		if (count <= 0)
			break;
		total += (unsigned)count;
		again = 0;
		for (int i = 0; i < count; i++) {
			if (wc[i].status != IBV_WC_SUCCESS) {
				take_failure(rs, &wc[i]);
				continue;
			}
			if (!(wc[i].wr_id & RECEIVE_TAG)) {
				sequence = (uint32_t)wc[i].wr_id;
				queue->tail = queue->ends[sequence % queue->slots];
				queue->done = sequence + 1;
				continue;
			}
			if (rs->state != RS_CLOSED && take_receive(rs, &wc[i])) {
				explain_of(OF(RSOCKET, (unsigned)rs->fd),
					"rsocket %d: the peer violates the rsocket protocol: "
					"disconnecting", rs->fd);
				rs_end_locked(rs, ECONNRESET);
			}
			slots[again++] = (uint32_t)(wc[i].wr_id & ~RECEIVE_TAG);
		}
		if (again)
			rs_owner_signal_locked(rs, SIGIO);
		if (rs->state != RS_CLOSED && post_receives(stream, slots, again))
			rs_end_locked(rs, ECONNRESET);
	} while (count == BATCH);
	if (total)
		rs_give_credit_locked(rs);
	return total;
}
