/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs (pair.h). */
#include "pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

void must(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(3);
}

static struct ibv_qp *make_qp(struct pair *pair, const struct pair_options *options,
			      struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.qp_type = options->type ? options->type : IBV_QPT_RC,
					.sq_sig_all = !options->unsignaled,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 2,
						.max_recv_sge = 1,
						.max_inline_data = options->inline_bytes ?
						   options->inline_bytes : 64,},};
	struct ibv_qp *qp = ibv_create_qp(pair->pd, &attr);

	must(qp != NULL, "ibv_create_qp");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid,
		       const struct pair_options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1234,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (options->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0),
	};
	const uint8_t rd_atomic = options->rd_atomic ? options->rd_atomic : 1;
	bool ud = qp->qp_type == IBV_QPT_UD;

	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
	     "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = rd_atomic,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .dlid = options->lid,
			     .grh = { .dgid = *gid, .hop_limit = 1 } },
	};
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE |
				    (ud ? 0
					: IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
						     IBV_QP_MIN_RNR_TIMER)),
	     "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = RNR_FOR_EVER,
		.max_rd_atomic = rd_atomic,
	};
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN |
				    (ud ? 0
					: IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						     IBV_QP_MAX_QP_RD_ATOMIC)),
	     "RTS");
}

struct pair *pair_open(struct pair_options options)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	struct ibv_device **list = ibv_get_device_list(NULL);
	int entries = options.entries ? options.entries : 32;
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	must(pair && list && *list, "a device");
	pair->context = ibv_open_device(*list);
	ibv_free_device_list(list);
	must(pair->context != NULL, "ibv_open_device");
	must(!ibv_query_gid(pair->context, 1, 0, &gid), "ibv_query_gid");
	if (options.looks)
		must(!ibv_query_gid_ex(pair->context, 1, 0, &entry, 0), "ibv_query_gid_ex");
	pair->pd = ibv_alloc_pd(pair->context);
	must(pair->pd != NULL, "ibv_alloc_pd");
	pair->channel = ibv_create_comp_channel(pair->context);
	must(pair->channel != NULL, "ibv_create_comp_channel");
	pair->send_cq = ibv_create_cq(pair->context, entries, NULL, NULL, 0);
	pair->recv_cq = ibv_create_cq(pair->context, entries, NULL, pair->channel, 0);
	must(pair->send_cq && pair->recv_cq, "ibv_create_cq");
	pair->mr = ibv_reg_mr(pair->pd, pair->buffer, BYTES,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      (options.atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0));
	must(pair->mr != NULL, "ibv_reg_mr");
	pair->sender = make_qp(pair, &options, pair->send_cq);
	pair->receiver = make_qp(pair, &options, pair->recv_cq);
	connect_qp(pair->sender, pair->receiver->qp_num, &gid, &options);
	connect_qp(pair->receiver, pair->sender->qp_num, &gid, &options);
	return pair;
}

void pair_close(struct pair *pair)
{
	if (pair->sender)
		must(!ibv_destroy_qp(pair->sender), "ibv_destroy_qp");
	if (pair->receiver)
		must(!ibv_destroy_qp(pair->receiver), "ibv_destroy_qp");
	if (pair->mr)
		must(!ibv_dereg_mr(pair->mr), "ibv_dereg_mr");
	must(!ibv_destroy_cq(pair->send_cq), "ibv_destroy_cq");
	must(!ibv_destroy_cq(pair->recv_cq), "ibv_destroy_cq");
	must(!ibv_destroy_comp_channel(pair->channel), "ibv_destroy_comp_channel");
	must(!ibv_dealloc_pd(pair->pd), "ibv_dealloc_pd");
	must(!ibv_close_device(pair->context), "ibv_close_device");
	free(pair);
}

struct ibv_ah *pair_ah(struct pair *pair)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };
	struct ibv_ah *ah;

	must(!ibv_query_gid(pair->context, 1, 0, &attr.grh.dgid), "ibv_query_gid");
	ah = ibv_create_ah(pair->pd, &attr);
	must(ah != NULL, "ibv_create_ah");
	return ah;
}

void send_some(struct pair *pair, uint64_t wr_id, uint32_t bytes, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)pair->buffer, bytes, pair->mr->lkey };
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = flags,},
			   *bad;

	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
}

void read_async_events(struct pair *pair)
{
	struct ibv_async_event event;

	must(!fcntl(pair->context->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	while (!ibv_get_async_event(pair->context, &event))
		ibv_ack_async_event(&event);
}

void receive_some(struct pair *pair, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)pair->buffer, bytes, pair->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(!ibv_post_recv(pair->receiver, &wr, &bad), "ibv_post_recv");
}

enum ibv_wc_status take_one(struct ibv_cq *cq)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct ibv_wc wc;

	for (int i = 0; i < 2000; i++) {
		if (ibv_poll_cq(cq, 1, &wc) > 0)
			return wc.status;
		nanosleep(&nap, NULL);
	}
	must(false, "a completion within two seconds");
	return IBV_WC_GENERAL_ERR;
}

void take(struct ibv_cq *cq, int count)
{
	while (count--)
		must(take_one(cq) == IBV_WC_SUCCESS, "a good completion");
}

void event(struct pair *pair)
{
	struct ibv_cq *cq;
	void *context;

	must(!ibv_get_cq_event(pair->channel, &cq, &context), "ibv_get_cq_event");
}

void rest(void)
{
	usleep(30000);
}

void end_after_a_moment(void)
{
	const struct itimerval moment = { .it_value = { .tv_usec = 300000 } };

	setitimer(ITIMER_REAL, &moment, NULL);
}
