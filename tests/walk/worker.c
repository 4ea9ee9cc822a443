/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process of a walk: does what it is told, line by line, by calls of the public interface, and answers
 * with what they answered; it judges nothing. tests/walk/run says what, and compares.
 *
 *	worker DEVICE [PLANT]
 *
 * Requests are posted in both forms, ibv_post_send() and ibv_wr_...(), by turns, to every other queue pair;
 * completions are polled in both forms, too.
 *
 * PLANT is a lie about what the library did, for the test that lies are found: see plant().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QPS		64
#define MRS		64
#define MEMORY		(1u << 20)
#define QKEY		0x11111u
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)

struct station {
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;		/* it takes both forms of posting; NULL: the older one */
	struct ibv_ah *ah;		/* UD: to its peer */
	uint32_t peer_qpn, peer_srqn;	/* srqn: XRC */
	struct rdma_cm_id *id;		/* by rdma_cm */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq_ex[2];	/* sends, receives */
static struct ibv_cq *cq[2];		/* the same */
static struct ibv_srq *srq, *xrc_srq;
static struct ibv_xrcd *xrcd;
static struct ibv_mr *mrs[MRS];
static struct ibv_mw *mws[MRS];
static struct station stations[QPS];
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static uint8_t *memory;
static const char *planted;
static unsigned completions;

static void answer(int err)
{
	printf("%d\n", err);
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *opened = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			opened = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return opened;
}

/* ---- objects ---- */

static bool is_xrc(const struct ibv_qp *qp)
{
	return qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV;
}

/* What a queue pair of this number and type is asked for. */
static struct ibv_qp_init_attr_ex init_of(unsigned at, int type, bool shared)
{
	struct ibv_qp_init_attr_ex init = { .send_cq = cq[0], .recv_cq = cq[1], .qp_type = type, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .srq = shared ? srq : NULL, .cap = { 64, 64, 2, 2, 128 } };

	if (type == IBV_QPT_XRC_RECV)
		return (struct ibv_qp_init_attr_ex){ .qp_type = type, .xrcd = xrcd,
						     .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	if (type == IBV_QPT_XRC_SEND) {
		init.recv_cq = NULL;
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	}
	if (at % 2) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		if (type != IBV_QPT_UD)
			init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
		if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
			init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
		if (type == IBV_QPT_RC)
			init.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW;
	}
	return init;
}

static void do_qp(unsigned at, int type, bool shared)
{
	struct ibv_qp_init_attr_ex init = init_of(at, type, shared);
	uint32_t srqn = 0;
	union ibv_gid gid;

	stations[at] = (struct station){ .qp = ibv_create_qp_ex(context, &init) };
	if (!stations[at].qp || ibv_query_gid(context, 1, 1, &gid) || ibv_get_srq_num(xrc_srq, &srqn)) {
		answer(errno);
		return;
	}
	if (init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		stations[at].ex = ibv_qp_to_qp_ex(stations[at].qp);
	printf("0 %u ", stations[at].qp->qp_num);
	for (int i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	printf(" %u\n", srqn);
}

/* From whatever state by RESET to RTS. */
static void do_connect(unsigned at, uint32_t qpn, const char *hex, int rnr, int mtu, uint32_t srqn)
{
	struct ibv_qp *qp = stations[at].qp;
	bool ud = qp->qp_type == IBV_QPT_UD, rc = qp->qp_type == IBV_QPT_RC;
	bool asks = rc || qp->qp_type == IBV_QPT_XRC_SEND, answers = rc || qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET, .port_num = 1, .qkey = QKEY,
		.qp_access_flags = rc || is_xrc(qp) ? ACCESS : ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = mtu, .dest_qp_num = qpn, .rq_psn = 77, .sq_psn = 77,
		.max_dest_rd_atomic = 4, .max_rd_atomic = 4, .min_rnr_timer = 1, .timeout = 14,
		.retry_cnt = 4, .rnr_retry = rnr,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64, .sgid_index = 1 } } };
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);

	for (int i = 0; i < 16; i++)
		sscanf(hex + 2 * i, "%2hhx", &attr.ah_attr.grh.dgid.raw[i]);
	attr.qp_state = IBV_QPS_INIT;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
				    (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
				    (asks || answers ? IBV_QP_TIMEOUT : 0) |
				    (asks ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
	if (!err && ud) {
		stations[at].ah = ibv_create_ah(pd, &attr.ah_attr);
		err = stations[at].ah ? 0 : errno;
	}
	stations[at].peer_qpn = qpn;
	stations[at].peer_srqn = srqn;
	answer(err);
}

static void do_state(unsigned at, int state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	answer(ibv_modify_qp(stations[at].qp, &attr, IBV_QP_STATE));
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* From SQD to RTS, when the send queue is drained. */
static void do_resume(unsigned at)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	long long end = now_ms() + 60000;
	int err;

	do
		err = ibv_query_qp(stations[at].qp, &attr, IBV_QP_STATE, &init);
	while (!err && attr.sq_draining && now_ms() < end && !usleep(100));
	attr.qp_state = IBV_QPS_RTS;
	answer(err ? err : ibv_modify_qp(stations[at].qp, &attr, IBV_QP_STATE));
}

static void do_query(unsigned at)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(stations[at].qp, &attr, IBV_QP_STATE, &init);

	printf("%d %d\n", err, attr.qp_state);
}

static void do_destroy(unsigned at)
{
	struct station *station = &stations[at];
	int err;

	if (station->id) {
		rdma_destroy_qp(station->id);
		err = rdma_destroy_id(station->id);
	} else {
		err = ibv_destroy_qp(station->qp);
	}
	if (!err && station->ah)
		err = ibv_destroy_ah(station->ah);
	*station = (struct station){ 0 };
	answer(err);
}

static void do_mr(unsigned at, uint32_t offset, uint32_t length, int access)
{
	mrs[at] = ibv_reg_mr(pd, memory + offset, length, access);
	if (!mrs[at])
		answer(errno);
	else
		printf("0 %u %u %llu\n", mrs[at]->lkey, mrs[at]->rkey, (unsigned long long)(uintptr_t)memory);
}

static bool open_xrc(void)
{
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = -1, .oflags = O_CREAT };
	struct ibv_srq_init_attr_ex init = { .attr = { .max_wr = 64, .max_sge = 2 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			IBV_SRQ_INIT_ATTR_CQ, .pd = pd, .cq = cq[1] };

	init.xrcd = xrcd = ibv_open_xrcd(context, &domain);
	xrc_srq = xrcd ? ibv_create_srq_ex(context, &init) : NULL;
	return xrc_srq;
}

/* ---- requests ---- */

static void fill(uint8_t *at, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		at[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8) * 13);
}

/* A buffer as one element or two, which the other side cannot see. Returns how many. */
static int scatter(struct ibv_sge sge[2], uint32_t offset, uint32_t length, uint32_t lkey, unsigned choice)
{
	uint32_t first = choice % 3 ? length : length / 3;

	sge[0] = (struct ibv_sge){ (uintptr_t)memory + offset, first, lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)memory + offset + first, length - first, lkey };
	return first == length ? 1 : 2;
}

static void do_recv(int at, uint64_t id, uint32_t offset, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge }, *bad;

	wr.num_sge = scatter(sge, offset, length, lkey, (unsigned)id);
	answer(at < 0 ? ibv_post_srq_recv(at == -1 ? srq : xrc_srq, &wr, &bad) :
	       ibv_post_recv(stations[at].qp, &wr, &bad));
}

struct request {
	unsigned at, opcode, flags;
	uint32_t offset, length, lkey, rkey, imm, seed;
	unsigned long long id, address, compare, swap;
};

/* The same request in the newer form. */
static int post_ex(struct ibv_qp_ex *qp, const struct station *station, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf buffer[2];

	ibv_wr_start(qp);
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(qp, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return ibv_wr_complete(qp);
	default:
		ibv_wr_abort(qp);
		return EINVAL;
	}
	if (station->ah)
		ibv_wr_set_ud_addr(qp, station->ah, station->peer_qpn, QKEY);
	if (station->qp->qp_type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(qp, station->peer_srqn);
	for (int i = 0; i < wr->num_sge; i++)
		buffer[i] = (struct ibv_data_buf){ (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length };
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data_list(qp, (size_t)wr->num_sge, buffer);
	else
		ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
	return ibv_wr_complete(qp);
}

static int post(const struct station *station, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (station->ex && wr->wr_id % 2)
		return post_ex(station->ex, station, wr);
	return ibv_post_send(station->qp, wr, &bad);
}

static void do_send(const struct request *request)
{
	struct station *station = &stations[request->at];
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = request->id, .sg_list = sge, .opcode = request->opcode,
				  .send_flags = request->flags, .imm_data = htonl(request->imm),
				  .qp_type.xrc.remote_srqn = station->peer_srqn };

	wr.num_sge = scatter(sge, request->offset, request->length, request->lkey,
			     request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			     request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : (unsigned)request->id);
	if (request->opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = request->imm;
	if (request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = request->address;
		wr.wr.atomic.rkey = request->rkey;
		wr.wr.atomic.compare_add = request->compare;
		wr.wr.atomic.swap = request->swap;
	} else if (station->ah) {
		wr.wr.ud.ah = station->ah;
		wr.wr.ud.remote_qpn = station->peer_qpn;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = request->address;
		wr.wr.rdma.rkey = request->rkey;
	}
	if (request->seed)
		fill(memory + request->offset, request->length, request->seed);
	answer(post(station, &wr));
}

static void do_bind(unsigned at, unsigned long long id, unsigned mw, unsigned mr, uint32_t offset,
		    uint32_t length, unsigned access)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	if (!mws[mw])
		mws[mw] = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (!mws[mw]) {
		answer(errno);
		return;
	}
	wr.bind_mw.mw = mws[mw];
	wr.bind_mw.rkey = ibv_inc_rkey(mws[mw]->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mrs[mr], (uintptr_t)memory + offset, length, access };
	if (post(&stations[at], &wr)) {
		answer(EIO);
		return;
	}
	mws[mw]->rkey = wr.bind_mw.rkey;
	printf("0 %u\n", wr.bind_mw.rkey);
}

/* ---- completions ---- */

/*
 * Lies, one each: about the third completion, or the next that fits, or about what is in memory. "lost": it is
 * not told; "twice"; "status": a success is a flush; "length"; "imm"; "order": it comes before the one before
 * it; "torn": half of what is looked at is something else.
 */
static bool plant(const char *kind)
{
	return planted && !strcmp(planted, kind) && completions >= 3;
}

static void tell(int queue, const struct ibv_wc *wc)
{
	struct ibv_wc told = *wc;

	completions++;
	if (plant("lost")) {
		planted = NULL;
		return;
	}
	if (plant("status") && told.status == IBV_WC_SUCCESS) {
		told.status = IBV_WC_WR_FLUSH_ERR;
		planted = NULL;
	}
	if (plant("length") && queue == 1 && told.status == IBV_WC_SUCCESS) {
		told.byte_len++;
		planted = NULL;
	}
	if (plant("imm") && (told.wc_flags & IBV_WC_WITH_IMM) && told.status == IBV_WC_SUCCESS) {
		told.imm_data ^= htonl(1);
		planted = NULL;
	}
	for (int times = plant("twice") ? 2 : 1; times; times--)
		printf("%d %llu %u %d %d %u %u %u\n", queue, (unsigned long long)told.wr_id, told.qp_num,
		       told.status, told.status == IBV_WC_SUCCESS ? (int)told.opcode : -1, told.byte_len,
		       told.wc_flags & IBV_WC_WITH_IMM ? ntohl(told.imm_data) : 0,
		       told.wc_flags & IBV_WC_WITH_INV);
	if (plant("twice"))
		planted = NULL;
}

/* One or two completions, by ibv_poll_cq(), or one at a time by the newer form: by turns. */
static int poll_one(int queue, int count, struct ibv_wc wc[2])
{
	static unsigned polls;
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *ex = cq_ex[queue];

	if (++polls % 2)
		return ibv_poll_cq(cq[queue], count, wc);
	if (ibv_start_poll(ex, &none))
		return 0;
	wc[0] = (struct ibv_wc){ .wr_id = ex->wr_id, .status = ex->status, .qp_num = ibv_wc_read_qp_num(ex) };
	if (!ex->status) {
		wc[0].opcode = ibv_wc_read_opcode(ex);
		wc[0].byte_len = ibv_wc_read_byte_len(ex);
		wc[0].wc_flags = ibv_wc_read_wc_flags(ex);
		if (wc[0].wc_flags & IBV_WC_WITH_IMM)
			wc[0].imm_data = ibv_wc_read_imm_data(ex);
	}
	ibv_end_poll(ex);
	return 1;
}

/* Until that many of each have come, at most @patience_ms; and a few looks more, for what should not come. */
static void do_settle(unsigned sends, unsigned receives, int patience_ms)
{
	const unsigned wanted[2] = { sends, receives };
	unsigned got[2] = { 0, 0 };
	long long end = now_ms() + patience_ms;
	struct ibv_wc wc[2], held = { 0 };
	int more = 20;

	while ((got[0] < wanted[0] || got[1] < wanted[1] || more-- > 0) && now_ms() < end) {
		for (int queue = 0; queue < 2; queue++) {
			int count = poll_one(queue, plant("order") ? 2 : 1, wc);

			if (count == 2 && wc[0].qp_num == wc[1].qp_num) {
				held = wc[0];
				wc[0] = wc[1];
				wc[1] = held;
				planted = NULL;
			}
			for (int i = 0; i < count; i++)
				tell(queue, &wc[i]);
			got[queue] += count > 0 ? (unsigned)count : 0;
		}
	}
	printf(".\n");
}

static void do_dump(uint32_t offset, uint32_t length)
{
	completions++;
	if (planted && !strcmp(planted, "torn") && completions > 3 && length > 8) {
		memset(memory + offset + length / 2, 0x5a, length - length / 2);
		planted = NULL;
	}
	printf("0 ");
	for (uint32_t i = 0; i < length; i++)
		printf("%02x", memory[offset + i]);
	printf("\n");
}

/* ---- rdma_cm ---- */

/* Word of connections that have ended may come at any time. */
static struct rdma_cm_event *cm_event(enum rdma_cm_event_type type)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	while (poll(&fd, 1, 60000) == 1 && !rdma_get_cm_event(channel, &event)) {
		if (event->event == type)
			return event;
		if (event->event != RDMA_CM_EVENT_DISCONNECTED && event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			fprintf(stderr, "# walk: event %s instead of %s\n", rdma_event_str(event->event),
				rdma_event_str(type));
		rdma_ack_cm_event(event);
	}
	return NULL;
}

static bool cm_expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = cm_event(type);

	return event && !rdma_ack_cm_event(event);
}

/* The device that ids are of is ours, if it is the same one: else other objects cannot be used with them. */
static int cm_qp(unsigned at, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex init = init_of(at, IBV_QPT_RC, false);

	if (rdma_create_qp_ex(id, &init))
		return errno;
	stations[at] = (struct station){ .qp = id->qp, .id = id,
					 .ex = init.send_ops_flags ? ibv_qp_to_qp_ex(id->qp) : NULL };
	return 0;
}

static void do_cm_listen(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (!listener && (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
			  rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 8))) {
		answer(errno);
		return;
	}
	printf("0 %u\n", ntohs(rdma_get_src_port(listener)));
}

static void do_cm_connect(unsigned at, unsigned port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				       .sin_port = htons((uint16_t)port) };
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4, .retry_count = 2,
					 .rnr_retry_count = 7 };
	struct rdma_cm_id *id;
	int err = rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ? errno : 0;

	if (!err && rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 5000))
		err = errno;
	if (!err && !cm_expect(RDMA_CM_EVENT_ADDR_RESOLVED))
		err = EIO;
	if (!err && rdma_resolve_route(id, 5000))
		err = errno;
	if (!err && !cm_expect(RDMA_CM_EVENT_ROUTE_RESOLVED))
		err = EIO;
	if (!err)
		err = cm_qp(at, id);
	if (!err && rdma_connect(id, &param))
		err = errno;
	if (err)
		answer(err);
	else
		printf("0 %u\n", id->qp->qp_num);
}

static void do_cm_accept(unsigned at)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7 };
	struct rdma_cm_event *event = cm_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event ? event->id : NULL;
	int err = event ? cm_qp(at, id) : EIO;

	if (event)
		rdma_ack_cm_event(event);
	if (!err && rdma_accept(id, &param))
		err = errno;
	if (err)
		answer(err);
	else
		printf("0 %u\n", id->qp->qp_num);
}

static void do_cm_established(void)
{
	answer(cm_expect(RDMA_CM_EVENT_ESTABLISHED) ? 0 : EIO);
}

/* ---- lines ---- */

static bool obey(const char *line)
{
	struct request r = { 0 };
	unsigned a, b, c, d, e;
	unsigned long long id;
	char hex[64];
	int at;

	if (sscanf(line, "qp %u %u %u", &a, &b, &c) == 3)
		do_qp(a, (int)b, c);
	else if (sscanf(line, "connect %u %u %63s %u %u %u", &a, &b, hex, &c, &d, &e) == 6)
		do_connect(a, b, hex, (int)c, (int)d, e);
	else if (sscanf(line, "state %u %u", &a, &b) == 2)
		do_state(a, (int)b);
	else if (sscanf(line, "resume %u", &a) == 1)
		do_resume(a);
	else if (sscanf(line, "query %u", &a) == 1)
		do_query(a);
	else if (sscanf(line, "destroy %u", &a) == 1)
		do_destroy(a);
	else if (sscanf(line, "mr %u %u %u %u", &a, &b, &c, &d) == 4)
		do_mr(a, b, c, (int)d);
	else if (sscanf(line, "dereg %u", &a) == 1)
		answer(ibv_dereg_mr(mrs[a]));
	else if (sscanf(line, "bind %u %llu %u %u %u %u %u", &a, &id, &b, &c, &d, &e, &r.flags) == 7)
		do_bind(a, id, b, c, d, e, r.flags);
	else if (sscanf(line, "recv %d %llu %u %u %u", &at, &id, &a, &b, &c) == 5)
		do_recv(at, id, a, b, c);
	else if (sscanf(line, "send %u %llu %u %u %u %u %u %llu %u %u %llu %llu %u", &r.at, &r.id, &r.opcode,
			&r.flags, &r.offset, &r.length, &r.lkey, &r.address, &r.rkey, &r.imm, &r.compare, &r.swap,
			&r.seed) == 13)
		do_send(&r);
	else if (sscanf(line, "fill %u %u %u", &a, &b, &c) == 3)
		fill(memory + a, b, c), answer(0);
	else if (sscanf(line, "settle %u %u %u", &a, &b, &c) == 3)
		do_settle(a, b, (int)c);
	else if (sscanf(line, "dump %u %u", &a, &b) == 2)
		do_dump(a, b);
	else if (sscanf(line, "cm_connect %u %u", &a, &b) == 2)
		do_cm_connect(a, b);
	else if (sscanf(line, "cm_accept %u", &a) == 1)
		do_cm_accept(a);
	else if (!strcmp(line, "cm_established\n"))
		do_cm_established();
	else if (!strcmp(line, "cm_listen\n"))
		do_cm_listen();
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 2 } };
	const char *name = argc > 1 ? argv[1] : "vb_lo";
	struct ibv_context **list;
	char line[512];

	planted = argc > 2 ? argv[2] : NULL;
	channel = rdma_create_event_channel();
	/* That of librdmacm, so that its ids and our objects fit each other. */
	list = channel ? rdma_get_devices(NULL) : NULL;
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]->device), name))
			context = list[i];
	if (list)
		rdma_free_devices(list);
	if (!context)
		context = open_named(name);
	pd = context ? ibv_alloc_pd(context) : NULL;
	memory = aligned_alloc(4096, MEMORY);
	if (!pd || !memory)
		return 77;
	memset(memory, 0, MEMORY);
	for (int i = 0; i < 2; i++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 2048, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
			IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM };

		cq_ex[i] = ibv_create_cq_ex(context, &attr);
		cq[i] = cq_ex[i] ? ibv_cq_ex_to_cq(cq_ex[i]) : NULL;
	}
	srq = ibv_create_srq(pd, &init);
	if (!cq[0] || !cq[1] || !srq || !open_xrc())
		return 77;
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	while (fgets(line, sizeof(line), stdin)) {
		if (!obey(line)) {
			fprintf(stderr, "# walk: not understood: %s", line);
			return 1;
		}
		fflush(stdout);
	}
	return 0;
}
