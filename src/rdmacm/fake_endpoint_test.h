/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager as the unit tests of this folder want it: endpoints that note what is
 * asked of them and fail on demand, channels whose events the test puts in. Verbs are real, on
 * vb_lo: a QP is connected to itself.
 */
#ifndef VERBATIM_RDMACM_FAKE_ENDPOINT_TEST_H
#define VERBATIM_RDMACM_FAKE_ENDPOINT_TEST_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
/* After those that it needs. */
#include <cmocka.h>

#include "rdmacm/rdmacm.h"

#define EVENTS_MAX 16

struct cm_channel {
	int fd;
	unsigned count;
	struct endpoint_event events[EVENTS_MAX];
};

struct endpoint {
	struct cm_channel *channel;
	void *user;
	enum ibv_qp_type qp_type;
	struct endpoint_info info;
	unsigned held;
	struct rdma_conn_param parameters;	/* of the last connect or accept */
	uint8_t private_data[256];
	struct endpoint_ece ece;
	enum ibv_qp_state state_at_accept;
	unsigned established, disconnects;
	uint16_t reject_reason;
	void *multicast;
	bool muted;
};

/* What the next calls answer, and what there is. */
static struct {
	int open_channels, endpoints;
	int attributes_error, accept_error, join_error, raise_error;
	enum rdma_cm_event_type answer;	/* put in by calls that an event follows */
	int answer_status;
	bool answers;
	bool without_device;
	struct ibv_qp *qp;		/* connected to itself, watched by accept */
} fake;

static inline void put_event(struct endpoint *endpoint, struct endpoint_event event)
{
	struct cm_channel *channel = endpoint->channel;
	uint64_t one = 1;

	assert_true(channel->count < EVENTS_MAX);
	if (!event.listener)
		event.user = endpoint->user;
	event.endpoint = event.listener ? event.endpoint : endpoint;
	channel->events[channel->count++] = event;
	assert_int_equal(write(channel->fd, &one, sizeof(one)), sizeof(one));
}

static inline void tell(struct rdma_cm_id *id, enum rdma_cm_event_type kind, int status)
{
	put_event(to_id(id)->endpoint, (struct endpoint_event){ .kind = kind, .status = status });
}

static inline int answer_with(struct endpoint *endpoint, enum rdma_cm_event_type kind)
{
	if (fake.answers)
		put_event(endpoint, (struct endpoint_event){
			.kind = fake.answer_status ? fake.answer : kind,
			.status = fake.answer_status });
	return 0;
}

int cm_channel_open(struct cm_channel **channel)
{
	*channel = calloc(1, sizeof(**channel));
	assert_non_null(*channel);
	(*channel)->fd = eventfd(0, EFD_SEMAPHORE);
	fake.open_channels++;
	return 0;
}

void cm_channel_close(struct cm_channel *channel)
{
	close(channel->fd);
	free(channel);
	fake.open_channels--;
}

int cm_channel_fd(const struct cm_channel *channel)
{
	return channel->fd;
}

int cm_channel_take(struct cm_channel *channel, struct endpoint_event *event)
{
	uint64_t one;

	if (!channel->count)
		return EAGAIN;
	assert_int_equal(read(channel->fd, &one, sizeof(one)), sizeof(one));
	*event = channel->events[0];
	memmove(channel->events, channel->events + 1, --channel->count * sizeof(*event));
	(event->listener ? event->listener : event->endpoint)->held++;
	return 0;
}

bool cm_channel_has_failure(const struct cm_channel *channel, enum rdma_cm_event_type *kind)
{
	*kind = RDMA_CM_EVENT_REJECTED;
	return false;
}

bool endpoint_has_failure(const struct endpoint *endpoint, enum rdma_cm_event_type *kind)
{
	*kind = RDMA_CM_EVENT_REJECTED;
	return false;
}

/* A test that would sleep for ever fails instead. */
int cm_channel_wait(struct cm_channel *channel)
{
	return channel->count ? 0 : EAGAIN;
}

void endpoint_event_ack(struct endpoint_event *event)
{
	(event->listener ? event->listener : event->endpoint)->held--;
}

int endpoint_create(struct cm_channel *channel, enum rdma_port_space space,
		    enum ibv_qp_type qp_type, void *user, struct endpoint **endpoint)
{
	if (space == RDMA_PS_IB + 1)
		return EPROTONOSUPPORT;
	*endpoint = calloc(1, sizeof(**endpoint));
	assert_non_null(*endpoint);
	(*endpoint)->channel = channel;
	(*endpoint)->user = user;
	(*endpoint)->qp_type = qp_type;
	fake.endpoints++;
	return 0;
}

void endpoint_set_user(struct endpoint *endpoint, void *user)
{
	endpoint->user = user;
}

void endpoint_destroy(struct endpoint *endpoint)
{
	assert_int_equal(endpoint->held, 0);	/* or the real one would wait for ever */
	free(endpoint);
	fake.endpoints--;
}

int endpoint_migrate(struct endpoint *endpoint, struct cm_channel *channel, uint32_t *taken)
{
	endpoint->channel = channel;
	*taken = 0;
	return 0;
}

void endpoint_await_acks(struct endpoint *endpoint, uint32_t taken)
{
	assert_int_equal(endpoint->held, 0);	/* or the real one would wait for ever */
}

int endpoint_raise(struct endpoint *endpoint, enum rdma_cm_event_type kind, int status, uint64_t argument)
{
	if (fake.raise_error)
		return fake.raise_error;
	put_event(endpoint, (struct endpoint_event){ .kind = kind, .status = status, .argument = argument });
	return 0;
}

static inline void bind_device(struct endpoint *endpoint)
{
	struct sockaddr_in *source = (struct sockaddr_in *)&endpoint->info.source;

	source->sin_family = AF_INET;
	source->sin_port = htons(7471);
	source->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fake.without_device)
		return;
	strcpy(endpoint->info.device, "vb_lo");
	endpoint->info.port = 1;
	endpoint->info.pkey = 0xffff;
}

int endpoint_bind(struct endpoint *endpoint, const struct sockaddr *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;

	if (in->sin_addr.s_addr == htonl(INADDR_ANY))
		memcpy(&endpoint->info.source, address, sizeof(*in));
	else
		bind_device(endpoint);
	return 0;
}

int endpoint_resolve_address(struct endpoint *endpoint, const struct sockaddr *source,
			     const struct sockaddr *destination, int timeout_ms)
{
	bind_device(endpoint);
	memcpy(&endpoint->info.destination, destination, address_bytes(destination));
	return answer_with(endpoint, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int endpoint_resolve_route(struct endpoint *endpoint, int timeout_ms)
{
	endpoint->info.has_route = true;
	endpoint->info.path.mtu = 5;
	return answer_with(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int endpoint_listen(struct endpoint *endpoint, int backlog)
{
	return 0;
}

void endpoint_query(struct endpoint *endpoint, struct endpoint_info *info)
{
	*info = endpoint->info;
}

static inline void note(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
			const struct endpoint_ece *ece)
{
	endpoint->parameters = *parameters;
	if (parameters->private_data)
		memcpy(endpoint->private_data, parameters->private_data,
		       parameters->private_data_len);
	endpoint->ece = *ece;
}

int endpoint_connect(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		     const struct endpoint_ece *ece)
{
	note(endpoint, parameters, ece);
	return answer_with(endpoint, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

int endpoint_accept(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		    uint32_t qkey, const struct endpoint_ece *ece)
{
	note(endpoint, parameters, ece);
	endpoint->state_at_accept = fake.qp ? fake.qp->state : IBV_QPS_RESET;
	return fake.accept_error ? fake.accept_error :
				   answer_with(endpoint, RDMA_CM_EVENT_ESTABLISHED);
}

int endpoint_reject(struct endpoint *endpoint, const void *private_data, uint8_t bytes,
		    uint16_t reason)
{
	endpoint->reject_reason = reason;
	return 0;
}

int endpoint_established(struct endpoint *endpoint)
{
	endpoint->established++;
	return 0;
}

int endpoint_notify(struct endpoint *endpoint, enum ibv_event_type event)
{
	return event == IBV_EVENT_COMM_EST ? 0 : EINVAL;
}

void endpoint_mute(struct endpoint *endpoint)
{
	endpoint->muted = true;
}

int endpoint_disconnect(struct endpoint *endpoint)
{
	endpoint->disconnects++;
	return answer_with(endpoint, RDMA_CM_EVENT_DISCONNECTED);
}

/* Index of the GID of 127.0.0.1. */
static inline uint8_t own_gid(struct ibv_context *verbs, union ibv_gid *gid)
{
	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid(verbs, 1, i, gid) && IN6_IS_ADDR_V4MAPPED(gid->raw) && gid->raw[12] == 127)
			return i;
	fail_msg("vb_lo has no GID of 127.0.0.1");
	return 0;
}

static inline void peer_attributes(struct ibv_qp_attr *attr)
{
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = fake.qp->qp_num;
	attr->max_dest_rd_atomic = 7;
	attr->min_rnr_timer = 12;
	attr->ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	attr->ah_attr.grh.hop_limit = 64;
	attr->ah_attr.grh.sgid_index = own_gid(fake.qp->context, &attr->ah_attr.grh.dgid);
}

int endpoint_qp_attributes(struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;

	if (fake.attributes_error && state != IBV_QPS_INIT)
		return fake.attributes_error;
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	attr->port_num = 1;
	attr->qkey = RDMA_UDP_QKEY;
	*mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT)
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 (endpoint->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (state == IBV_QPS_RTR) {
		peer_attributes(attr);
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	if (state == IBV_QPS_RTS) {
		attr->retry_cnt = attr->rnr_retry = 7;
		attr->timeout = 14;
		attr->max_rd_atomic = 7;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return 0;
}

uint32_t endpoint_qkey(struct endpoint *endpoint)
{
	return RDMA_UDP_QKEY;
}

int endpoint_set_option(struct endpoint *endpoint, int level, int option, const void *value,
			size_t bytes)
{
	return level == RDMA_OPTION_ID ? 0 : ENOSYS;
}

int endpoint_join(struct endpoint *endpoint, const struct sockaddr *group, uint16_t flags,
		  void *user)
{
	endpoint->multicast = user;
	return fake.join_error;
}

static const union ibv_gid group_gid = {
	.raw = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 9, [14] = 9, [15] = 9 },
};

int endpoint_leave(struct endpoint *endpoint, const struct sockaddr *group, union ibv_gid *gid,
		   uint16_t *lid)
{
	*gid = group_gid;
	*lid = 0;
	return 0;
}

#endif
