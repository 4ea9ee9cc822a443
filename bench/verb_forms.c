/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a request costs in each form that verbs have for it: RDMA WRITEs and SENDs of 8 bytes to another
 * process of this host, posted 16 at a time and polled for. Prints ns a request, of interleaved
 * rounds: median, least, greatest.
 *
 *	ibv_post_send, ibv_poll_cq	the plain form
 *	ibv_wr_*			of ibv_create_qp_ex
 *	ibv_start_poll			of ibv_create_cq_ex; and the same for a single thread
 *	XRC				ibv_post_send on an XRC_SEND QP
 *
 * verb_forms WRITE|SEND FORM BATCHES: one of them alone (FORM is 0 to 4), for a profiler.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH	16
#define ROUNDS	15
#define BATCHES	4000
#define RECEIVES (4 * BATCH)

enum operation { WRITE, SEND, OPERATIONS };
enum form { PLAIN, BUILT, CURSOR, CURSOR_ALONE, XRC, FORMS };

static const char *const operations[OPERATIONS] = { "WRITE", "SEND" };
static const char *const names[FORMS] = {
	"ibv_post_send, ibv_poll_cq", "ibv_wr_*, ibv_poll_cq", "ibv_post_send, ibv_start_poll",
	"ibv_post_send, ibv_start_poll (single-threaded)", "ibv_post_send on XRC_SEND, ibv_poll_cq",
};

/* What each end tells the other of its queue pairs. */
struct end {
	uint32_t qpn[FORMS], rkey, srqn;
	union ibv_gid gid;
};

struct local {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq[FORMS];
	struct ibv_qp *qp[FORMS];
	struct ibv_srq *srq;		/* the target's, of XRC */
	struct ibv_mr *mr;
	int peer;			/* a socket */
	struct end end;
};

static _Alignas(64) char source[64];
static unsigned batches = BATCHES;

static void need(const void *object, const char *what)
{
	if (object)
		return;
	perror(what);
	exit(1);
}

static void expect(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(err));
	exit(1);
}

static void open_device(struct local *local)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list && list[0] ? list : NULL, "a device");
	local->context = ibv_open_device(list[0]);
	need(local->context, "ibv_open_device");
	local->pd = ibv_alloc_pd(local->context);
	need(local->pd, "ibv_alloc_pd");
	expect(ibv_query_gid(local->context, 1, 1, &local->end.gid), "ibv_query_gid");
}

static void make_cq(struct local *local, enum form form)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 * BATCH, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };

	if (form == CURSOR_ALONE) {
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	}
	local->cq[form] = form == CURSOR || form == CURSOR_ALONE ?
		ibv_cq_ex_to_cq(ibv_create_cq_ex(local->context, &attr)) :
		ibv_create_cq(local->context, 8 * BATCH, NULL, NULL, 0);
	need(local->cq[form], "a CQ");
}

static struct ibv_xrcd *open_domain(struct local *local)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_xrcd *domain = ibv_open_xrcd(local->context, &attr);

	need(domain, "ibv_open_xrcd");
	return domain;
}

/* Whose protection domain the WRITEs go by, and where SENDs are received. */
static void make_srq(struct local *local, struct ibv_xrcd *domain)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = RECEIVES, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = local->pd,
		.xrcd = domain, .cq = local->cq[XRC],
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ };

	local->srq = ibv_create_srq_ex(local->context, &attr);
	need(local->srq, "ibv_create_srq_ex");
	expect(ibv_get_srq_num(local->srq, &local->end.srqn), "ibv_get_srq_num");
}

static void make_qp(struct local *local, enum form form, int target)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC,
					   .send_cq = local->cq[form],
					   .recv_cq = local->cq[form],
					   .cap = {4 * BATCH, RECEIVES, 1, 1, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = local->pd};

	if (form == BUILT && !target) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
	}
	if (form == XRC && target)
		attr = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV, .xrcd = open_domain(local),
						     .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	else if (form == XRC)
		attr.qp_type = IBV_QPT_XRC_SEND;
	if (attr.xrcd)
		make_srq(local, attr.xrcd);
	local->qp[form] = ibv_create_qp_ex(local->context, &attr);
	need(local->qp[form], "ibv_create_qp_ex");
	local->end.qpn[form] = local->qp[form]->qp_num;
}

static void make_queues(struct local *local, int target)
{
	for (int form = 0; form < FORMS; form++) {
		make_cq(local, form);
		make_qp(local, form, target);
	}
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	expect(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	       "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 64}}};
	expect(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	       "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void connect_all(struct local *local, int fd)
{
	struct end peer;
	char go = 0;

	need(write(fd, &local->end, sizeof(local->end)) == sizeof(local->end) ? local : NULL, "the peer");
	need(read(fd, &peer, sizeof(peer)) == sizeof(peer) ? local : NULL, "the peer");
	for (int form = 0; form < FORMS; form++)
		connect_qp(local->qp[form], peer.qpn[form], &peer.gid);
	local->end.rkey = peer.rkey;
	local->end.srqn = peer.srqn;
	need(write(fd, &go, 1) == 1 && read(fd, &go, 1) == 1 ? local : NULL, "the peer");
}

/* ---- the target ---- */

static void give_receives(struct local *local, enum form form, int count)
{
	struct ibv_sge sge = { (uintptr_t)source, 8, local->mr->lkey };
	struct ibv_recv_wr wr[RECEIVES], *bad;

	for (int i = 0; i < count; i++)
		wr[i] = (struct ibv_recv_wr){ .sg_list = &sge, .num_sge = 1,
					      .next = i + 1 < count ? &wr[i + 1] : NULL };
	expect(form == XRC ? ibv_post_srq_recv(local->srq, wr, &bad) : ibv_post_recv(local->qp[form], wr, &bad),
	       "a receive");
}

/* SENDs of one form, until all have come. */
static void receive(struct local *local, enum form form)
{
	struct ibv_wc wc[BATCH];
	unsigned got = 0;

	while (got < batches * BATCH) {
		int count = ibv_poll_cq(local->cq[form], BATCH, wc);

		for (int i = 0; i < count; i++)
			expect(wc[i].status, "a receive");
		if (count > 0)
			give_receives(local, form, count);
		got += count > 0 ? (unsigned)count : 0;
	}
}

/* Device memory, into which WRITEs of its host go as stores. */
static void serve(int fd)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct local local = { .context = NULL };
	struct ibv_mr *dm_mr;
	struct ibv_dm *dm;
	char form;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_device(&local);
	dm = ibv_alloc_dm(local.context, &attr);
	need(dm, "ibv_alloc_dm");
	dm_mr = ibv_reg_dm_mr(local.pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
			      IBV_ACCESS_REMOTE_WRITE);
	need(dm_mr, "ibv_reg_dm_mr");
	local.mr = ibv_reg_mr(local.pd, source, sizeof(source), IBV_ACCESS_LOCAL_WRITE);
	need(local.mr, "ibv_reg_mr");
	local.end.rkey = dm_mr->rkey;
	make_queues(&local, 1);
	connect_all(&local, fd);
	for (int i = 0; i < FORMS; i++)
		give_receives(&local, i, RECEIVES);
	while (read(fd, &form, 1) > 0)
		receive(&local, (enum form)form);
	_exit(0);
}

/* ---- the driver ---- */

static void post_built(struct local *local, enum operation operation)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(local->qp[BUILT]);

	for (int i = 0; i < BATCH; i++) {
		ibv_wr_start(qp);
		qp->wr_id = (uint64_t)i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		if (operation == WRITE)
			ibv_wr_rdma_write(qp, local->end.rkey, 0);
		else
			ibv_wr_send(qp);
		ibv_wr_set_sge(qp, local->mr->lkey, (uintptr_t)source, 8);
		expect(ibv_wr_complete(qp), "ibv_wr_complete");
	}
}

static void post_plain(struct local *local, enum operation operation, enum form form)
{
	struct ibv_sge sge = { (uintptr_t)source, 8, local->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				  .opcode = operation == WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED, .wr.rdma.rkey = local->end.rkey,
				  .qp_type.xrc.remote_srqn = local->end.srqn }, *bad;

	for (int i = 0; i < BATCH; i++)
		expect(ibv_post_send(local->qp[form], &wr, &bad), "ibv_post_send");
}

static int poll_cursor(struct ibv_cq *plain)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 0 };
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)plain;
	int got = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do {
		expect(cq->status, "a completion");
		got++;
	} while (!ibv_next_poll(cq));
	ibv_end_poll(cq);
	return got;
}

static int poll_plain(struct ibv_cq *cq)
{
	struct ibv_wc wc[BATCH];
	int got = ibv_poll_cq(cq, BATCH, wc);

	for (int i = 0; i < got; i++)
		expect(wc[i].status, "a completion");
	return got;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double measure(struct local *local, enum operation operation, enum form form)
{
	const char told = (char)form;
	double begin = now_ns();

	if (operation == SEND)
		need(write(local->peer, &told, 1) == 1 ? local : NULL, "the target");
	for (unsigned n = 0; n < batches; n++) {
		if (form == BUILT)
			post_built(local, operation);
		else
			post_plain(local, operation, form);
		for (int got = 0; got < BATCH;)
			got += form == CURSOR || form == CURSOR_ALONE ? poll_cursor(local->cq[form]) :
									poll_plain(local->cq[form]);
	}
	return (now_ns() - begin) / batches / BATCH;
}

static int by_value(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static void measure_all(struct local *local, enum operation operation)
{
	static double ns[FORMS][ROUNDS];

	for (int form = 0; form < FORMS; form++)
		measure(local, operation, form);
	for (int round = 0; round < ROUNDS; round++)
		for (int form = 0; form < FORMS; form++)
			ns[form][round] = measure(local, operation, form);
	for (int form = 0; form < FORMS; form++) {
		qsort(ns[form], ROUNDS, sizeof(double), by_value);
		printf("%s: %-50s %8.1f (%.1f .. %.1f) ns\n", operations[operation], names[form],
		       ns[form][ROUNDS / 2], ns[form][0], ns[form][ROUNDS - 1]);
	}
}

/* The words of a command line: one operation and form, or (-1) all of them. False: none such. */
static bool parse_words(int argc, char **argv, int *operation, int *form)
{
	*operation = *form = -1;
	if (argc == 1)
		return true;
	if (argc != 4)
		return false;
	for (int i = 0; i < OPERATIONS; i++)
		if (!strcmp(argv[1], operations[i]))
			*operation = i;
	*form = atoi(argv[2]);
	batches = (unsigned)atoi(argv[3]);
	return *operation >= 0 && *form >= 0 && *form < FORMS && batches;
}

int main(int argc, char **argv)
{
	struct local local = { .context = NULL };
	int fds[2], operation, form;

	if (!parse_words(argc, argv, &operation, &form)) {
		fprintf(stderr, "usage: verb_forms [WRITE|SEND FORM BATCHES], FORM 0 to %d\n", FORMS - 1);
		return 2;
	}
	expect(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	if (!fork())
		serve(fds[1]);
	open_device(&local);
	local.peer = fds[0];
	local.mr = ibv_reg_mr(local.pd, source, sizeof(source), IBV_ACCESS_LOCAL_WRITE);
	need(local.mr, "ibv_reg_mr");
	make_queues(&local, 0);
	connect_all(&local, fds[0]);
	if (form >= 0) {
		printf("%.1f ns\n", measure(&local, operation, form));
		return 0;
	}
	for (operation = 0; operation < OPERATIONS; operation++)
		measure_all(&local, operation);
	return 0;
}
