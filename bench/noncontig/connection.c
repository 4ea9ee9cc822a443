/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection of the study: one RC queue pair by rdma_cm, three regions, and control messages. One
 * CQ for both queues, polled by the one thread there is. Every wait ends after TIMEOUT_S with a line
 * that says what did not come.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "noncontig.h"

#define DEPTH_MAX	4096u
#define PAGE		4096u
#define WR_RECEIVE	1u
#define WR_SEND		2u

static int failed(const char *what)
{
	fprintf(stderr, "noncontig: %s: %s\n", what, strerror(errno));
	return -1;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static double now_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- what a queue pair needs ---- */

static int region_make(struct connection *c, struct region *region, size_t bytes, int access)
{
	region->bytes = (bytes + PAGE - 1) / PAGE * PAGE;
	region->memory = aligned_alloc(PAGE, region->bytes);
	if (!region->memory)
		return failed("memory");
	memset(region->memory, 0, region->bytes);
	region->mr = ibv_reg_mr(c->id->pd, region->memory, region->bytes, access);
	return region->mr ? 0 : failed("ibv_reg_mr");
}

static void region_release(struct region *region)
{
	if (region->mr)
		ibv_dereg_mr(region->mr);
	free(region->memory);
	memset(region, 0, sizeof(*region));
}

/* Adapters have less room for long lists: half the depth until the queue pair can be made. */
static int queue_pair_make(struct connection *c, const struct ibv_device_attr *device)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	c->depth = least(DEPTH_MAX, (unsigned)device->max_qp_wr);
	c->depth = least(c->depth, (unsigned)device->max_cqe / 2);
	for (; c->depth >= 16; c->depth /= 2) {
		c->cq = ibv_create_cq(c->id->verbs, (int)c->depth * 2, NULL, NULL, 0);
		if (!c->cq)
			return failed("ibv_create_cq");
		attr.send_cq = attr.recv_cq = c->cq;
		attr.cap = (struct ibv_qp_cap){ c->depth, c->depth, c->send_sge, c->recv_sge, 0 };
		if (!rdma_create_qp(c->id, NULL, &attr))
			return 0;
		ibv_destroy_cq(c->cq);
		c->cq = NULL;
	}
	return failed("rdma_create_qp");
}

static int resources_make(struct connection *c, size_t bytes, unsigned sge)
{
	struct ibv_device_attr device;

	if ((errno = ibv_query_device(c->id->verbs, &device)))
		return failed("ibv_query_device");
	c->send_sge = c->recv_sge = least(least(sge, SGE_MAX), (unsigned)device.max_sge);
	c->read_sge = least(c->send_sge, (unsigned)device.max_sge_rd);
	if (queue_pair_make(c, &device) ||
	    region_make(c, &c->blocks, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ) ||
	    region_make(c, &c->staging, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ) ||
	    region_make(c, &c->control, 2 * SLOTS * SLOT_BYTES, IBV_ACCESS_LOCAL_WRITE))
		return -1;
	return 0;
}

/* ---- the connection ---- */

static int await_event(struct connection *c, enum rdma_cm_event_type wanted, const char *step)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	int status;

	if (rdma_get_cm_event(c->channel, &event))
		return failed("rdma_get_cm_event");
	type = event->event;
	status = event->status;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		c->id = event->id;
		if (event->param.conn.private_data_len >= sizeof(c->hello))
			memcpy(&c->hello, event->param.conn.private_data, sizeof(c->hello));
	}
	rdma_ack_cm_event(event);
	if (type == wanted)
		return 0;
	fprintf(stderr, "noncontig: %s: %s, status %d\n", step, rdma_event_str(type), status);
	return -1;
}

static int address_parse(const char *text, uint16_t port, struct sockaddr_storage *address)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	errno = EHOSTUNREACH;
	if (rdma_getaddrinfo(text, service, &hints, &info))
		return failed(text);
	memset(address, 0, sizeof(*address));
	memcpy(address, info->ai_dst_addr, info->ai_dst_len);
	rdma_freeaddrinfo(info);
	return 0;
}

int connection_listen(struct connection *c, const char *address, uint16_t *port)
{
	struct sockaddr_storage local;

	c->channel = rdma_create_event_channel();
	if (!c->channel)
		return failed("rdma_create_event_channel");
	if (address_parse(address, *port, &local))
		return -1;
	if (rdma_create_id(c->channel, &c->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(c->listener, (struct sockaddr *)&local) || rdma_listen(c->listener, 1))
		return failed(address);
	*port = ntohs(rdma_get_src_port(c->listener));
	return 0;
}

int connection_accept(struct connection *c)
{
	struct rdma_conn_param param = { .responder_resources = 16, .initiator_depth = 16,
					 .rnr_retry_count = 7 };

	if (await_event(c, RDMA_CM_EVENT_CONNECT_REQUEST, "waiting for a client"))
		return -1;
	if (c->hello.magic != HELLO_MAGIC || c->hello.bytes > BYTES_MAX || !c->hello.sge) {
		fprintf(stderr, "noncontig: a client of another kind was rejected\n");
		rdma_reject(c->id, NULL, 0);
		return -1;
	}
	if (resources_make(c, c->hello.bytes, c->hello.sge) || connection_expect(c, SLOT_ORDER))
		return -1;
	if (rdma_accept(c->id, &param))
		return failed("rdma_accept");
	return await_event(c, RDMA_CM_EVENT_ESTABLISHED, "rdma_accept");
}

int connection_connect(struct connection *c, const char *address, uint16_t port, size_t bytes,
		       unsigned sge)
{
	struct hello hello = { HELLO_MAGIC, sge, bytes };
	struct rdma_conn_param param = { .responder_resources = 16, .initiator_depth = 16,
					 .retry_count = 7, .rnr_retry_count = 7,
					 .private_data = &hello, .private_data_len = sizeof(hello) };
	struct sockaddr_storage server;

	c->channel = rdma_create_event_channel();
	if (!c->channel || rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP))
		return failed("rdma_create_id");
	if (address_parse(address, port, &server))
		return -1;
	if (rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&server, 2000))
		return failed("rdma_resolve_addr");
	if (await_event(c, RDMA_CM_EVENT_ADDR_RESOLVED, "rdma_resolve_addr"))
		return -1;
	if (rdma_resolve_route(c->id, 2000))
		return failed("rdma_resolve_route");
	if (await_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED, "rdma_resolve_route") ||
	    resources_make(c, bytes, sge))
		return -1;
	if (rdma_connect(c->id, &param))
		return failed("rdma_connect");
	return await_event(c, RDMA_CM_EVENT_ESTABLISHED, "rdma_connect");
}

void connection_close(struct connection *c)
{
	if (c->id && c->id->qp) {
		rdma_disconnect(c->id);
		rdma_destroy_qp(c->id);
	}
	region_release(&c->blocks);
	region_release(&c->staging);
	region_release(&c->control);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->id)
		rdma_destroy_id(c->id);
	if (c->listener)
		rdma_destroy_id(c->listener);
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	memset(c, 0, sizeof(*c));
}

/* ---- requests and completions ---- */

static int poll_once(struct connection *c, unsigned *found)
{
	struct ibv_wc wc[32];
	int count = ibv_poll_cq(c->cq, 32, wc);

	if (count < 0)
		return failed("ibv_poll_cq");
	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "noncontig: a %s failed: %s\n",
				wc[i].wr_id == WR_SEND ? "request" : "receive",
				ibv_wc_status_str(wc[i].status));
			return -1;
		}
		if (wc[i].wr_id == WR_SEND)
			c->outstanding--;
		else
			c->receives++;
	}
	*found = (unsigned)count;
	return 0;
}

/* Until at most @outstanding requests are without a completion, and @receives have come. */
static int await_completions(struct connection *c, unsigned outstanding, unsigned receives)
{
	double end = now_s() + TIMEOUT_S;
	unsigned found, empty = 0;

	while (c->outstanding > outstanding || c->receives < receives) {
		if (poll_once(c, &found))
			return -1;
		if (found || ++empty % 64)
			continue;
		sched_yield();
		if (now_s() > end) {
			fprintf(stderr, "noncontig: %s after %d s\n", c->receives < receives ?
				"no message from the peer" : "a request is without completion",
				TIMEOUT_S);
			return -1;
		}
	}
	c->receives -= receives;
	return 0;
}

int connection_post(struct connection *c, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (c->outstanding >= c->depth && await_completions(c, c->depth - 1, 0))
		return -1;
	wr->wr_id = WR_SEND;
	if ((errno = ibv_post_send(c->id->qp, wr, &bad)))
		return failed("ibv_post_send");
	c->outstanding++;
	return 0;
}

int connection_post_receive(struct connection *c, struct ibv_sge *sge, int count)
{
	struct ibv_recv_wr wr = { .wr_id = WR_RECEIVE, .sg_list = sge, .num_sge = count }, *bad;

	if ((errno = ibv_post_recv(c->id->qp, &wr, &bad)))
		return failed("ibv_post_recv");
	return 0;
}

int connection_drain(struct connection *c)
{
	return await_completions(c, 0, 0);
}

int connection_receive(struct connection *c, unsigned count)
{
	return await_completions(c, UINT32_MAX, count);
}

/* ---- control messages ---- */

int connection_expect(struct connection *c, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)c->control.memory + slot * SLOT_BYTES, SLOT_BYTES,
			       c->control.mr->lkey };

	return connection_post_receive(c, &sge, 1);
}

void connection_message(const struct connection *c, unsigned slot, void *message, size_t bytes)
{
	memcpy(message, c->control.memory + slot * SLOT_BYTES, bytes);
}

int connection_send(struct connection *c, unsigned slot, const void *message, size_t bytes)
{
	uint8_t *memory = c->control.memory + (SLOTS + slot) * SLOT_BYTES;
	struct ibv_sge sge = { (uintptr_t)memory, (uint32_t)bytes, c->control.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	memcpy(memory, message, bytes);
	return connection_post(c, &wr);
}
