/* SPDX-License-Identifier: BSD-2-Clause */
/* Every call that waits: with nobody to end its waiting. */
#include "ends.h"
#include "waits.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#define PORT 7473

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static union ibv_gid gid;

static struct rdma_event_channel *events;
static struct rdma_cm_id *id, *other;
static struct rdma_cm_event *event;
static int sock = -1;

/* A call that waits may end by EINTR alone. */
static void interrupted(bool ended)
{
	NEED(ended && errno == EINTR);
}

/* ---- verbs ---- */

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(list && *list);
	NEED(context = ibv_open_device(*list));
	ibv_free_device_list(list);
	for (int i = 0; i < 8 && !*(uint32_t *)(gid.raw + 12); i++)
		NEED(!ibv_query_gid(context, 1, i, &gid));
	NEED(pd = ibv_alloc_pd(context));
	NEED(channel = ibv_create_comp_channel(context));
	NEED(cq = ibv_create_cq(context, 16, NULL, channel, 0));
	NEED(!ibv_req_notify_cq(cq, 0));
}

/* Connected to itself. */
static void make_qp(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.srq = srq, .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
				     .max_recv_sge = 1, .max_inline_data = 16 } };
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } },
	};

	NEED(qp = ibv_create_qp(pd, &init));
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = qp->qp_num;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void to_error(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void wait_for_completion_event(void)
{
	struct ibv_cq *of;
	void *user;

	interrupted(ibv_get_cq_event(channel, &of, &user));
}

static void wait_for_async_event(void)
{
	struct ibv_async_event got;

	interrupted(ibv_get_async_event(context, &got));
}

/* A completion whose event is fetched and not acknowledged. */
static void prepare_destroy_cq(void)
{
	struct ibv_recv_wr *bad, wr = { 0 };
	struct ibv_cq *of;
	void *user;

	open_device();
	make_qp();
	NEED(!ibv_post_recv(qp, &wr, &bad));
	to_error();
	NEED(!ibv_get_cq_event(channel, &of, &user));
	NEED(!ibv_destroy_qp(qp));
}

static void destroy_cq(void)
{
	ibv_destroy_cq(cq);
}

/* The event that says that no more of the SRQ comes to the QP. */
static void prepare_destroy_qp(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_async_event got;

	open_device();
	NEED(srq = ibv_create_srq(pd, &init));
	make_qp();
	to_error();
	NEED(!ibv_get_async_event(context, &got));
	NEED(got.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
}

static void destroy_qp(void)
{
	ibv_destroy_qp(qp);
}

/* The limit is reached by a message. */
static void prepare_destroy_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_send_wr *bad_send, send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad, wr = { 0 };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_async_event got;

	open_device();
	NEED(srq = ibv_create_srq(pd, &init));
	NEED(!ibv_post_srq_recv(srq, &wr, &bad));
	NEED(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	make_qp();
	NEED(!ibv_post_send(qp, &send, &bad_send));
	NEED(!ibv_get_async_event(context, &got));
	while (got.event_type != IBV_EVENT_SRQ_LIMIT_REACHED) {
		ibv_ack_async_event(&got);
		NEED(!ibv_get_async_event(context, &got));
	}
	NEED(!ibv_destroy_qp(qp));
}

static void destroy_srq(void)
{
	ibv_destroy_srq(srq);
}

/* ---- the connection manager ---- */

static void make_channel(void)
{
	NEED(events = rdma_create_event_channel());
}

static void wait_for_cm_event(void)
{
	interrupted(rdma_get_cm_event(events, &event));
}

/* Somebody listens, and never accepts. */
static void make_mute_listener(void)
{
	struct sockaddr_in address = loopback(PORT);

	make_channel();
	NEED(!rdma_create_id(events, &other, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(other, (struct sockaddr *)&address));
	NEED(!rdma_listen(other, 8));
}

static void prepare_connect(void)
{
	struct sockaddr_in address = loopback(PORT);
	struct ibv_qp_init_attr attr = queues();

	make_mute_listener();
	NEED(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000));
	NEED(!rdma_resolve_route(id, 2000));
	NEED(!rdma_create_qp(id, NULL, &attr));
}

/* The second time the connection is under way already: what is left is its event. */
static void connect_id(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	static bool begun;

	if (!begun) {
		begun = true;
		interrupted(rdma_connect(id, &param));
	} else {
		interrupted(rdma_get_cm_event(id->channel, &event));
	}
}

/* Asked for by an id of ours that never reads the answer. */
static void prepare_accept(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct sockaddr_in address = loopback(PORT);
	struct ibv_qp_init_attr attr = queues();

	make_channel();
	NEED(!rdma_create_id(NULL, &other, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(other, (struct sockaddr *)&address));
	NEED(!rdma_listen(other, 8));
	NEED(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000));
	NEED(!rdma_get_cm_event(events, &event) && !rdma_ack_cm_event(event));
	NEED(!rdma_resolve_route(id, 2000));
	NEED(!rdma_get_cm_event(events, &event) && !rdma_ack_cm_event(event));
	NEED(!rdma_create_qp(id, NULL, &attr));
	NEED(!rdma_connect(id, &param));
	NEED(!rdma_get_request(other, &id));
	NEED(!rdma_create_qp(id, NULL, &attr));
}

static void accept_id(void)
{
	struct rdma_conn_param param = { 0 };
	static bool begun;

	if (!begun) {
		begun = true;
		interrupted(rdma_accept(id, &param));
	} else {
		interrupted(rdma_get_cm_event(id->channel, &event));
	}
}

static void prepare_request(void)
{
	struct sockaddr_in address = loopback(PORT);

	NEED(!rdma_create_id(NULL, &other, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(other, (struct sockaddr *)&address));
	NEED(!rdma_listen(other, 8));
}

static void get_request(void)
{
	interrupted(rdma_get_request(other, &id));
}

static void prepare_completions(void)
{
	struct sockaddr_in address = loopback(0);
	struct ibv_qp_init_attr attr = queues();

	NEED(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(id, (struct sockaddr *)&address));
	NEED(!rdma_create_qp(id, NULL, &attr));
}

static void get_send_completion(void)
{
	struct ibv_wc wc;

	interrupted(rdma_get_send_comp(id, &wc) < 0);
}

static void get_receive_completion(void)
{
	struct ibv_wc wc;

	interrupted(rdma_get_recv_comp(id, &wc) < 0);
}

/* An event of the id is fetched and not acknowledged. */
static void prepare_destroy_id(void)
{
	struct sockaddr_in address = loopback(PORT);

	make_channel();
	NEED(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000));
	NEED(!rdma_get_cm_event(events, &event));
}

static void destroy_id(void)
{
	rdma_destroy_id(id);
}

/* ---- rsockets ---- */

static int listen_at(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	NEED(fd >= 0);
	NEED(!rbind(fd, (struct sockaddr *)&address, sizeof(address)));
	NEED(!rlisten(fd, 8));
	return fd;
}

static void prepare_listener(void)
{
	sock = listen_at(PORT);
}

static void *accept_one(void *argument)
{
	raccept((int)(intptr_t)argument, NULL, NULL);
	return NULL;
}

static void prepare_connection(void)
{
	struct sockaddr_in address = loopback(PORT);
	int listener = listen_at(PORT);
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	NEED(!pthread_create(&thread, NULL, accept_one, (void *)(intptr_t)listener));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	NEED((sock = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	NEED(!rconnect(sock, (struct sockaddr *)&address, sizeof(address)));
	pthread_join(thread, NULL);
}

static void prepare_rconnect(void)
{
	make_mute_listener();
	NEED((sock = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
}

static void call_rconnect(void)
{
	struct sockaddr_in address = loopback(PORT);
	struct pollfd fd = { .fd = sock, .events = POLLOUT };
	static bool begun;

	if (!begun) {
		begun = true;
		interrupted(rconnect(sock, (struct sockaddr *)&address, sizeof(address)));
	} else {
		interrupted(rpoll(&fd, 1, -1) < 0);
	}
}

static void call_raccept(void)
{
	interrupted(raccept(sock, NULL, NULL) < 0);
}

static void call_rrecv(void)
{
	char byte;

	interrupted(rrecv(sock, &byte, 1, 0) < 0);
}

/* Until the buffers are full; what went out before a handler ran is a result. */
static void call_rsend(void)
{
	static char bytes[1 << 16];
	ssize_t sent;

	do
		sent = rsend(sock, bytes, sizeof(bytes), 0);
	while (sent == sizeof(bytes));
	if (sent < 0)
		interrupted(true);
}

static void call_rpoll(void)
{
	struct pollfd fd = { .fd = sock, .events = POLLIN };

	interrupted(rpoll(&fd, 1, -1) < 0);
}

static void call_rselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(sock, &set);
	interrupted(rselect(sock + 1, &set, NULL, NULL, NULL) < 0);
}

/* ---- a next hop that answers nothing ---- */

#define SILENT "10.77.0.99"

/*
 * In a network namespace of our own, where nothing but lo is. By that address the link-local GID has the 0xff of
 * an IPv4 one, too.
 */
static const char *silent_missing(void)
{
	static bool made;

	if (!made && (access("/sys/class/net/sig0", F_OK) || geteuid()))
		made = !geteuid() && !system("test \"$(ip -br link | grep -v '^lo ' | wc -l)\" = 0 && "
					     "ip link add sig0 address 02:00:ff:00:00:01 type veth "
					     "peer name sig1 && "
					     "ip address add 10.77.0.1/24 dev sig0 && ip link set sig0 up && "
					     "ip link set sig1 up");
	return made ? NULL : "no interface can be made here";
}

static struct ibv_ah_attr silent = { .is_global = 1, .port_num = 1 };

static void prepare_silent_handle(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **each;

	NEED(list);
	for (each = list; *each && strcmp(ibv_get_device_name(*each), "vb_sig0"); each++)
		;
	NEED(*each && (context = ibv_open_device(*each)));
	ibv_free_device_list(list);
	NEED(pd = ibv_alloc_pd(context));
	for (silent.grh.sgid_index = 0; silent.grh.sgid_index < 8; silent.grh.sgid_index++) {
		NEED(!ibv_query_gid(context, 1, silent.grh.sgid_index, &silent.grh.dgid));
		if (IN6_IS_ADDR_V4MAPPED(silent.grh.dgid.raw))
			break;
	}
	silent.grh.dgid.raw[15] = 99;
}

/* Each takes a second at most. One that a handler ends takes the neighbour for one that answers. */
static void make_silent_handles(void)
{
	struct ibv_ah *ah;

	for (;;) {
		ah = ibv_create_ah(pd, &silent);
		NEED(ah || errno == ETIMEDOUT);
		NEED(!ah || !ibv_destroy_ah(ah));
	}
}

static void prepare_resolve(void)
{
	NEED(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
}

static void resolve(void)
{
	static bool begun;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(7471) };

	NEED(inet_pton(AF_INET, SILENT, &address.sin_addr) == 1);
	if (begun) {	/* the call before has asked already */
		interrupted(rdma_get_cm_event(id->channel, &event));
	} else {
		begun = true;
		interrupted(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, -1));
	}
}

const struct wait waits[] = {
	{ "ibv_get_cq_event", open_device, wait_for_completion_event },
	{ "ibv_get_async_event", open_device, wait_for_async_event },
	{ "ibv_create_ah", prepare_silent_handle, make_silent_handles, .forever = true,
	  .missing = silent_missing },
	{ "ibv_destroy_cq", prepare_destroy_cq, destroy_cq, .forever = true },
	{ "ibv_destroy_qp", prepare_destroy_qp, destroy_qp, .forever = true },
	{ "ibv_destroy_srq", prepare_destroy_srq, destroy_srq, .forever = true },
	{ "rdma_get_cm_event", make_channel, wait_for_cm_event },
	{ "rdma_resolve_addr", prepare_resolve, resolve, .missing = silent_missing },
	{ "rdma_connect", prepare_connect, connect_id },
	{ "rdma_accept", prepare_accept, accept_id },
	{ "rdma_get_request", prepare_request, get_request },
	{ "rdma_get_send_comp", prepare_completions, get_send_completion },
	{ "rdma_get_recv_comp", prepare_completions, get_receive_completion },
	{ "rdma_destroy_id", prepare_destroy_id, destroy_id, .forever = true },
	{ "rconnect", prepare_rconnect, call_rconnect, .as_poll = true },
	{ "raccept", prepare_listener, call_raccept, .as_poll = true },
	{ "rrecv", prepare_connection, call_rrecv, .as_poll = true },
	{ "rsend", prepare_connection, call_rsend, .as_poll = true },
	{ "rpoll", prepare_connection, call_rpoll, .as_poll = true },
	{ "rselect", prepare_listener, call_rselect, .as_poll = true },
	{ 0 },
};
