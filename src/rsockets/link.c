/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD queue pairs of a datagram socket: one on each device that it has used. Memory is a slot for
 * each receive (GRH, header, payload; up to 4096 bytes behind the GRH) and for each send, used in
 * turn.
 *
 * A datagram stays in its slot until the application takes it. When all slots are full, more are
 * dropped by the device, as a full socket buffer drops them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rsockets/rsocket.h"

enum { GRH_BYTES = 40, DATAGRAM_BYTES = 4096, RECEIVE_SLOT = 4160, SLOTS_MIN = 64, SLOTS_MAX = 4096,
	BATCH = 32 };

#define RECEIVE_TAG	((uint64_t)1 << 63)

static char *receive_slot(struct rs_link *link, uint32_t slot)
{
	return link->memory + (size_t)slot * RECEIVE_SLOT;
}

/* ---- making ---- */

static uint32_t slots_for(uint32_t bytes)
{
	uint32_t slots = bytes / DATAGRAM_BYTES;

	return slots < SLOTS_MIN ? SLOTS_MIN : slots > SLOTS_MAX ? SLOTS_MAX : slots;
}

static int link_open_memory(struct rs_link *link, struct ibv_pd *pd)
{
	link->mapped = (size_t)link->receives * RECEIVE_SLOT + (size_t)link->sends * DATAGRAM_BYTES;
	link->memory = mmap(NULL, link->mapped, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->memory == MAP_FAILED)
		link->memory = NULL;
	link->arrivals = calloc(link->receives, sizeof(*link->arrivals));
	if (!link->memory || !link->arrivals)
		return ENOMEM;
	link->mr = ibv_reg_mr(pd, link->memory, link->mapped, IBV_ACCESS_LOCAL_WRITE);
	return link->mr ? 0 : errno;
}

static int link_open_queues(struct rs_link *link, int epoll_fd)
{
	struct ibv_context *verbs = link->id->verbs;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = link->sends, .max_recv_wr = link->receives,
			 .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT, .pkey_index = link->pkey_index,
				     .port_num = link->id->port_num, .qkey = RDMA_UDP_QKEY };
	struct epoll_event event = { .events = EPOLLIN };
	int err;

	link->channel = ibv_create_comp_channel(verbs);
	if (!link->channel)
		return errno;
	if (fcntl(link->channel->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, link->channel->fd, &event))
		return errno;
	link->cq = ibv_create_cq(verbs, (int)(link->sends + link->receives), link, link->channel,
				 0);
	if (!link->cq)
		return errno;
	attr.send_cq = attr.recv_cq = link->cq;
	link->qp = ibv_create_qp(link->id->pd, &attr);
	if (!link->qp)
		return errno;
	/* The QP is not the id's: other ids of this device use it, too. */
	err = ibv_modify_qp(link->qp, &state,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	if (!err) {
		state.qp_state = IBV_QPS_RTR;
		err = ibv_modify_qp(link->qp, &state, IBV_QP_STATE);
	}
	if (!err) {
		state.qp_state = IBV_QPS_RTS;
		state.sq_psn = 0;
		err = ibv_modify_qp(link->qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN);
	}
	return err;
}

static int post_receive(struct rs_link *link, uint32_t slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)receive_slot(link, slot),
			       .length = GRH_BYTES + DATAGRAM_BYTES, .lkey = link->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE_TAG | slot, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(link->qp, &wr, &bad);
}

int rs_link_get_locked(struct rsocket *rs, struct rdma_cm_id *id, struct rs_link **found,
		       bool *kept)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT };
	struct ibv_port_attr attr;
	struct rs_link *link;
	struct list *node;
	int err, mask;

	*kept = false;
	if (rdma_init_qp_attr(id, &init, &mask))
		return errno;
	list_for_each(node, &rs->datagram.links) {
		link = list_entry(node, struct rs_link, node);
		if (link->id->verbs == id->verbs && link->id->port_num == id->port_num &&
		    link->pkey_index == init.pkey_index) {
			*found = link;
			return 0;
		}
	}
	link = calloc(1, sizeof(*link));
	if (!link)
		return ENOMEM;
	link->id = id;
	link->pkey_index = init.pkey_index;
	err = ibv_query_port(link->id->verbs, link->id->port_num, &attr);
	link->mtu = err ? 0 : 128u << attr.active_mtu;
	if (link->mtu > DATAGRAM_BYTES)
		link->mtu = DATAGRAM_BYTES;
	link->has_addresses = !err && attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	link->receives = slots_for(rs->options.receive_bytes);
	link->sends = slots_for(rs->options.send_bytes);
	if (!err)
		err = link_open_queues(link, rs->epoll_fd);
	if (!err)
		err = link_open_memory(link, link->id->pd);
	for (uint32_t i = 0; i < link->receives && !err; i++)
		err = post_receive(link, i);
	if (err) {
		link->id = NULL;		/* the caller's still */
		rs_link_free(link);
		return err;
	}
	list_add_tail(&rs->datagram.links, &link->node);
	rs_wake_all_locked(rs);			/* to arm its CQ, too */
	*kept = true;
	*found = link;
	return 0;
}

void rs_link_free(struct rs_link *link)
{
	if (link->qp)
		ibv_destroy_qp(link->qp);
	if (link->mr)
		ibv_dereg_mr(link->mr);
	if (link->cq)
		ibv_destroy_cq(link->cq);
	if (link->channel)
		ibv_destroy_comp_channel(link->channel);
	if (link->memory)
		munmap(link->memory, link->mapped);
	free(link->arrivals);
	if (link->id)
		rdma_destroy_id(link->id);
	free(link);
}

/* ---- completions ---- */

static unsigned link_progress(struct rs_link *link)
{
	struct ibv_wc wc[BATCH];
	unsigned total = 0;
	uint32_t slot;
	int count;

	do {
		count = ibv_poll_cq(link->cq, BATCH, wc);
		for (int i = 0; i < count; i++) {
			slot = (uint32_t)(wc[i].wr_id & ~RECEIVE_TAG);
			if (!(wc[i].wr_id & RECEIVE_TAG))
				link->done++;
			else if (wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len > GRH_BYTES)
				link->arrivals[link->arrived++ % link->receives] = (struct rs_arrival){
					.slot = slot, .bytes = wc[i].byte_len - GRH_BYTES };
			else if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
				post_receive(link, slot);
		}
		total += count > 0 ? (unsigned)count : 0;
	} while (count == BATCH);
	return total;
}

unsigned rs_links_progress_locked(struct rsocket *rs)
{
	unsigned total = 0;
	struct list *node;

	list_for_each(node, &rs->datagram.links)
		total += link_progress(list_entry(node, struct rs_link, node));
	return total;
}

void rs_links_arm_locked(struct rsocket *rs)
{
	struct list *node;

	list_for_each(node, &rs->datagram.links) {
		struct rs_link *link = list_entry(node, struct rs_link, node);

		if (!link->armed)
			link->armed = !ibv_req_notify_cq(link->cq, 0);
	}
}

void rs_links_take_events_locked(struct rsocket *rs)
{
	struct list *node;
	struct ibv_cq *cq;
	void *context;

	list_for_each(node, &rs->datagram.links) {
		struct rs_link *link = list_entry(node, struct rs_link, node);

		while (!ibv_get_cq_event(link->channel, &cq, &context)) {
			ibv_ack_cq_events(cq, 1);
			link->armed = false;
		}
	}
}

char *rs_link_arrival(struct rs_link *link)
{
	return receive_slot(link, link->arrivals[link->taken % link->receives].slot);
}

void rs_link_take(struct rs_link *link)
{
	post_receive(link, link->arrivals[link->taken % link->receives].slot);
	link->taken++;
}

/* ---- sending ---- */

char *rs_link_send_slot(struct rs_link *link)
{
	if (link->posted - link->done >= link->sends)
		return NULL;
	return link->memory + (size_t)link->receives * RECEIVE_SLOT +
	       (size_t)(link->posted % link->sends) * DATAGRAM_BYTES;
}

int rs_link_send(struct rs_link *link, const struct rs_destination *to, size_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rs_link_send_slot(link),
			       .length = (uint32_t)bytes, .lkey = link->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = to->ah, .remote_qpn = to->qpn, .remote_qkey = to->qkey } }, *bad;
	int err = ibv_post_send(link->qp, &wr, &bad);

	link->posted += !err;
	return err;
}
