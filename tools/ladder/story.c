/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The small programs that `verbatim ladder --demo` shows: server and client of each story, two
 * hosts of the simulated world (sim/), in virtual time. They are programs as users write them, with
 * public verbs alone. Texts: story.def.
 */
#include "ladder/story.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/program/names.h"

#include "sim/program/program.h"
#include "sim/program/record.h"

enum { BUFFER = 4096, MESSAGE = 2500, CLIENT_PSN = 100, SERVER_PSN = 900, QKEY = 0x11111111, SEED = 1 };
/* Of the simulated hosts: a wire between neighbours, processors that take a while. */
enum { WIRE_NS = 4000, PACKET_NS = 400, BYTE_PS = 80, LATER_US = 50 };

/* What a side tells the other. */
struct card {
	uint32_t qpn, psn, rkey;
	uint64_t address;
	union ibv_gid gid;
};

struct side {
	const char *name;
	bool is_server;
	struct side *other;
	unsigned met;			/* how often it came to a meeting */
	bool told;			/* us is set */
	const struct story *story;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct card us, them;
	uint64_t *buffer;		/* [BUFFER / 8] */
};

static void story_fail(const struct side *side, const char *what, const char *why)
{
	sim_fail(sim_here()->sim, "%s: %s: %s", side->name, what, why);
	sim_exit(1);
}

static void must(const struct side *side, int err, const char *what)
{
	if (err)
		story_fail(side, what, strerror(err));
}

static void *need(const struct side *side, void *pointer, const char *what)
{
	must(side, pointer ? 0 : errno, what);
	return pointer;
}

/* ---- the other side: what programs tell each other over TCP ---- */

static void story_tell(struct side *side)
{
	side->told = true;
	sim_happened();
	while (!side->other->told)
		sim_wait();
	side->them = side->other->us;
}

/* Both come to this point before either goes on. */
static void story_meet(struct side *side)
{
	side->met++;
	sim_happened();
	while (side->other->met < side->met)
		sim_wait();
}

static void story_pause(unsigned us)
{
	sim_spend(us * 1000ull);
}

/* ---- queue pairs ---- */

static void story_open(struct side *side, enum ibv_qp_type type)
{
	struct ibv_device **list = need(side, ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_qp_init_attr attr = { .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };

	must(side, *list ? 0 : ENODEV, "the first device");
	side->context = need(side, ibv_open_device(*list), "ibv_open_device");
	side->pd = need(side, ibv_alloc_pd(side->context), "ibv_alloc_pd");
	side->mr = need(side, ibv_reg_mr(side->pd, side->buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE |
					 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_ATOMIC), "ibv_reg_mr");
	side->cq = need(side, ibv_create_cq(side->context, 16, NULL, NULL, 0), "ibv_create_cq");
	attr.send_cq = attr.recv_cq = side->cq;
	side->qp = need(side, ibv_create_qp(side->pd, &attr), "ibv_create_qp");
	side->us = (struct card){ .qpn = side->qp->qp_num, .psn = side->is_server ? SERVER_PSN : CLIENT_PSN,
				  .rkey = side->mr->rkey, .address = (uintptr_t)side->buffer };
	must(side, ibv_query_gid(side->context, 1, 1, &side->us.gid), "ibv_query_gid of index 1");
	story_tell(side);
}

static void story_connect(struct side *side)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = side->them.qpn, .rq_psn = side->them.psn, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 14, .ah_attr = {
			.port_num = 1, .is_global = 1,
			.grh = { .dgid = side->them.gid, .sgid_index = 1, .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = side->us.psn, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = 4 };

	must(side, ibv_modify_qp(side->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS), "ibv_modify_qp to INIT");
	must(side, ibv_modify_qp(side->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "ibv_modify_qp to RTR");
	must(side, ibv_modify_qp(side->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "ibv_modify_qp to RTS");
}

static void story_receive(struct side *side, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)side->buffer, BUFFER, side->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(side, ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

static void story_post(struct side *side, uint64_t id, enum ibv_wr_opcode opcode, uint32_t bytes, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)side->buffer, bytes, side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.imm_data = htobe32(0x2a), .wr.rdma = { side->them.address, rkey } }, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = side->them.address;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 5 : 45;
		wr.wr.atomic.swap = 1000;
	}
	must(side, ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

static void story_expect(struct side *side, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int done;

	while (!(done = ibv_poll_cq(side->cq, 1, &wc)))
		;
	must(side, done < 0 ? EIO : 0, "ibv_poll_cq");
	if (wc.status != status || wc.wr_id != id)
		story_fail(side, "completion", ibv_wc_status_str(wc.status));
}

static void story_begin(struct side *side)
{
	story_open(side, IBV_QPT_RC);
	story_connect(side);
	strcpy((char *)side->buffer, side->is_server ? "the server's memory" : "hello from the client");
}

/* ---- the stories ---- */

static void tell_send(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		story_receive(side, 1);
	story_meet(side);
	if (!side->is_server)
		story_post(side, 10, IBV_WR_SEND, MESSAGE, 0);
	story_expect(side, side->is_server ? 1 : 10, IBV_WC_SUCCESS);
}

static void tell_write(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		story_receive(side, 1);
	story_meet(side);
	if (side->is_server) {
		story_expect(side, 1, IBV_WC_SUCCESS);
		return;
	}
	story_post(side, 10, IBV_WR_RDMA_WRITE, MESSAGE, side->them.rkey);
	story_expect(side, 10, IBV_WC_SUCCESS);
	story_post(side, 11, IBV_WR_RDMA_WRITE_WITH_IMM, 16, side->them.rkey);
	story_expect(side, 11, IBV_WC_SUCCESS);
}

static void tell_read(struct side *side)
{
	story_begin(side);
	story_meet(side);
	if (side->is_server)
		return;
	story_post(side, 10, IBV_WR_RDMA_READ, MESSAGE, side->them.rkey);
	story_expect(side, 10, IBV_WC_SUCCESS);
	story_post(side, 11, IBV_WR_RDMA_READ, 64, side->them.rkey);
	story_expect(side, 11, IBV_WC_SUCCESS);
}

static void tell_atomic(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		side->buffer[0] = 40;
	story_meet(side);
	if (side->is_server)
		return;
	story_post(side, 10, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, side->them.rkey);
	story_expect(side, 10, IBV_WC_SUCCESS);
	story_post(side, 11, IBV_WR_ATOMIC_CMP_AND_SWP, 8, side->them.rkey);
	story_expect(side, 11, IBV_WC_SUCCESS);
	if (side->buffer[0] != 45)
		story_fail(side, "compare-and-swap", "memory did not hold 45");
}

static void tell_lost_packet(struct side *side)
{
	story_begin(side);
	for (uint64_t id = 1; side->is_server && id <= 4; id++)
		story_receive(side, id);
	story_meet(side);
	for (uint64_t id = 10; !side->is_server && id < 14; id++)
		story_post(side, id, IBV_WR_SEND, 64, 0);
	for (uint64_t id = 0; id < 4; id++)
		story_expect(side, (side->is_server ? 1 : 10) + id, IBV_WC_SUCCESS);
}

static void tell_lost_ack(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		story_receive(side, 1);
	story_meet(side);
	if (!side->is_server)
		story_post(side, 10, IBV_WR_SEND, 64, 0);
	story_expect(side, side->is_server ? 1 : 10, IBV_WC_SUCCESS);
}

static void tell_rnr(struct side *side)
{
	story_begin(side);
	story_meet(side);
	if (side->is_server) {
		story_pause(5000);
		story_receive(side, 1);
	} else {
		story_post(side, 10, IBV_WR_SEND, 64, 0);
	}
	story_expect(side, side->is_server ? 1 : 10, IBV_WC_SUCCESS);
}

static void tell_access_error(struct side *side)
{
	story_begin(side);
	story_meet(side);
	if (side->is_server)
		return;
	story_post(side, 10, IBV_WR_RDMA_WRITE, 64, side->them.rkey ^ 0x5a00);
	story_post(side, 11, IBV_WR_RDMA_WRITE, 64, side->them.rkey);
	story_expect(side, 10, IBV_WC_REM_ACCESS_ERR);
	story_expect(side, 11, IBV_WC_WR_FLUSH_ERR);
}

static void story_to_ready(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	must(side, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	     "ibv_modify_qp to INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR };
	must(side, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE), "ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = side->us.psn };
	must(side, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
}

static void tell_datagram(struct side *side)
{
	struct ibv_ah_attr route = { .port_num = 1, .is_global = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } };
	struct ibv_ah *ah;

	story_open(side, IBV_QPT_UD);
	story_to_ready(side);
	for (uint64_t id = 1; side->is_server && id <= 2; id++)
		story_receive(side, id);
	story_meet(side);
	if (side->is_server) {
		story_expect(side, 1, IBV_WC_SUCCESS);
		story_expect(side, 2, IBV_WC_SUCCESS);
		return;
	}
	route.grh.dgid = side->them.gid;
	ah = need(side, ibv_create_ah(side->pd, &route), "ibv_create_ah");
	for (uint64_t id = 10; id < 13; id++) {
		struct ibv_sge sge = { (uintptr_t)side->buffer, 64, side->mr->lkey };
		struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.wr.ud = { ah, side->them.qpn, id == 11 ? 0xbad : QKEY } }, *bad;

		must(side, ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
		story_expect(side, id, IBV_WC_SUCCESS);
		story_pause(500);
	}
}

/* ---- rdma_cm ---- */

static void cm_check(const struct side *side, int result, const char *what)
{
	must(side, result ? errno : 0, what);
}

static struct rdma_cm_id *story_endpoint(struct side *side)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP,
				       .ai_flags = side->is_server ? RAI_PASSIVE : 0 };
	struct ibv_qp_init_attr attr = { .sq_sig_all = 1, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	cm_check(side, rdma_getaddrinfo("127.0.0.1", "18517", &hints, &info), "rdma_getaddrinfo");
	cm_check(side, rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

static void cm_expect(struct side *side, struct ibv_wc *wc, int got)
{
	must(side, got == 1 ? 0 : EIO, "a completion");
	if (wc->status)
		story_fail(side, "completion", ibv_wc_status_str(wc->status));
}

static void cm_serve(struct side *side)
{
	struct rdma_cm_id *listener = story_endpoint(side), *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	cm_check(side, rdma_listen(listener, 1), "rdma_listen");
	story_meet(side);
	cm_check(side, rdma_get_request(listener, &id), "rdma_get_request");
	mr = need(side, rdma_reg_msgs(id, side->buffer, BUFFER), "rdma_reg_msgs");
	cm_check(side, rdma_post_recv(id, NULL, side->buffer, BUFFER, mr), "rdma_post_recv");
	cm_check(side, rdma_accept(id, NULL), "rdma_accept");
	cm_expect(side, &wc, rdma_get_recv_comp(id, &wc));
	story_meet(side);
	cm_check(side, rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void cm_call(struct side *side)
{
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	story_meet(side);
	id = story_endpoint(side);
	mr = need(side, rdma_reg_msgs(id, side->buffer, BUFFER), "rdma_reg_msgs");
	cm_check(side, rdma_connect(id, NULL), "rdma_connect");
	cm_check(side, rdma_post_send(id, NULL, side->buffer, 64, mr, 0), "rdma_post_send");
	cm_expect(side, &wc, rdma_get_send_comp(id, &wc));
	cm_check(side, rdma_disconnect(id), "rdma_disconnect");
	story_meet(side);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

static void tell_connection(struct side *side)
{
	side->is_server ? cm_serve(side) : cm_call(side);
}

/* ---- a run ---- */

static const struct story {
	enum verb loses;
	unsigned nth;			/* 0: none */
	void (*tell)(struct side *side);
} stories[] = {
#define STORY(id, name, title, loses, nth, again, kind, text) { loses, nth, tell_##id },
#include "ladder/story.def"
#undef STORY
};

struct run {
	const struct story *story;
	unsigned seen;			/* of the packets that one is lost of */
};

/* The network, for each packet. */
static void story_lose(struct flight *flight, void *argument)
{
	struct run *run = argument;

	if (run->story->nth && flight->packet.op->verb == run->story->loses)
		flight->drop |= ++run->seen == run->story->nth;
}

static int story_side(void *argument)
{
	struct side *side = argument;

	if (!side->is_server)		/* as it is started: after the server */
		story_pause(LATER_US);
	sim_record_process(sim_here(), "start");
	side->buffer = sim_memory(BUFFER);
	side->story->tell(side);
	story_meet(side);
	/* Late packets are part of the story: answers to duplicates, for one. */
	story_pause(20000);
	if (side->qp)
		ibv_destroy_qp(side->qp);
	sim_record_process(sim_here(), "end");
	return 0;
}

static struct sim_host *story_host(struct sim *sim)
{
	struct sim_host *host = host_create(sim);

	host->rates.delay_ns = WIRE_NS;
	host->tx_packet_ns = host->rx_packet_ns = PACKET_NS;
	host->tx_byte_ps = host->rx_byte_ps = BYTE_PS;
	host->wake_ns = PACKET_NS;
	host->serial = host->deaf = true;
	host->transport.recoveries = NULL;	/* the specification's way to repair a loss */
	return host;
}

bool story_run(unsigned number, FILE *out, char *why, size_t size)
{
	static const char *const names[SIM_HOSTS_MAX] = { "client", "server" };
	struct run run = { .story = &stories[number] };
	struct side client = { .name = "client", .other = NULL, .story = run.story };
	struct side server = { .name = "server", .is_server = true, .other = &client, .story = run.story };
	struct sim *sim = sim_create(SEED);
	bool good;

	client.other = &server;
	sim->rule = story_lose;
	sim->rule_argument = &run;
	sim_record_begin(sim, names);
	sim_program_start(story_host(sim), story_side, &client);
	sim_program_start(story_host(sim), story_side, &server);
	good = sim_programs_run(sim);
	if (!good)
		snprintf(why, size, "%s", sim->failure);
	else if (!(good = sim_record_write(out)))
		snprintf(why, size, "%s", strerror(errno));
	sim_record_end();
	for (unsigned i = 0; i < sim->host_count; i++)
		sim_process_free(sim->host[i]);
	sim_destroy(sim);
	sim_programs_free(sim);
	return good;
}
