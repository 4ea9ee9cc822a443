/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are wrong as programs in the field were, each beside a twin that is right:
 *
 *	corpus NAME wrong|right
 *	corpus			a line for each: NAME, what is found, where it comes from,
 *				options of verbatim check
 *
 * The reports are public; no code of theirs is here, only what was wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corpus.h"
#include "pair.h"

bool wrong;	/* which of the two */

/* ---- notification ---- */

/* A server: @count messages have come, and raised one event. */
static struct pair *server(int count)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	for (int i = 0; i < 4; i++)
		receive_some(pair, (uint64_t)i, 64);
	must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	for (int i = 0; i < count; i++)
		send_some(pair, (uint64_t)i, 8, 0);
	take(pair->send_cq, count);
	rest();
	event(pair);
	ibv_ack_cq_events(pair->recv_cq, 1);
	return pair;
}

static void next_message(struct pair *pair)
{
	send_some(pair, 9, 8, 0);
	take(pair->send_cq, 1);
	rest();
}

static void drain(struct pair *pair)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(pair->recv_cq, 1, &wc) > 0)
		;
}

static void arm_behind_drain(void)
{
	struct pair *pair = server(1);

	drain(pair);
	if (!wrong)
		next_message(pair);
	must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	if (wrong) {
		end_after_a_moment();	/* what came before the arming is not noticed */
		event(pair);
	}
	drain(pair);
	pair_close(pair);
}

static void wait_without_arming(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	receive_some(pair, 1, 64);
	if (wrong)
		end_after_a_moment();
	else
		must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	send_some(pair, 1, 8, 0);
	take(pair->send_cq, 1);
	event(pair);
	ibv_ack_cq_events(pair->recv_cq, 1);
	drain(pair);
	pair_close(pair);
}

static void armed_once(void)
{
	struct pair *pair = server(1);

	if (!wrong)
		must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	else
		end_after_a_moment();
	drain(pair);
	next_message(pair);
	event(pair);
	ibv_ack_cq_events(pair->recv_cq, 1);
	drain(pair);
	pair_close(pair);
}

static void one_of_several(void)
{
	struct pair *pair = server(3);

	must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	take(pair->recv_cq, 1);
	if (!wrong)
		drain(pair);
	if (wrong)
		end_after_a_moment();
	else
		next_message(pair);
	event(pair);
	ibv_ack_cq_events(pair->recv_cq, 1);
	drain(pair);
	pair_close(pair);
}

/* ---- events ---- */

static void never_acknowledged(void)
{
	struct pair *pair = server(1);

	must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	drain(pair);
	next_message(pair);
	event(pair);
	drain(pair);
	if (wrong)
		end_after_a_moment();
	else
		ibv_ack_cq_events(pair->recv_cq, 1);
	pair_close(pair);
}

static void acknowledged_twice(void)
{
	struct pair *pair = server(1);

	drain(pair);
	must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	drain(pair);
	next_message(pair);
	event(pair);
	ibv_ack_cq_events(pair->recv_cq, wrong ? 2 : 1);
	if (wrong)
		alarm(1);	/* ibv_destroy_cq() would wait for ever */
	drain(pair);
	pair_close(pair);
}

/* ---- lifetime ---- */

static void region_under_receive(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	receive_some(pair, 5, 64);
	if (!wrong) {
		must(!ibv_destroy_qp(pair->receiver), "ibv_destroy_qp");
		pair->receiver = NULL;
	}
	must(!ibv_dereg_mr(pair->mr), "ibv_dereg_mr");
	pair->mr = NULL;
	pair_close(pair);
}

static void flush_sender(struct pair *pair)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	must(!ibv_modify_qp(pair->sender, &attr, IBV_QP_STATE), "ERR");
	take_one(pair->send_cq);
}

static void region_under_send(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	send_some(pair, 5, 64, 0);	/* nobody receives: it waits */
	if (!wrong)
		flush_sender(pair);
	must(!ibv_dereg_mr(pair->mr), "ibv_dereg_mr");
	pair->mr = NULL;
	if (wrong)
		flush_sender(pair);
	pair_close(pair);
}

static void qp_under_send(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	send_some(pair, 5, 64, 0);
	if (!wrong)
		flush_sender(pair);
	pair_close(pair);
}

/* The last message of a program that ends: was it sent? */
static void last_send(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	receive_some(pair, 1, 64);
	send_some(pair, 7, 64, 0);
	if (!wrong)
		take(pair->send_cq, 1);
	pair_close(pair);
}

static void send_datagram(struct pair *pair, struct ibv_ah *ah)
{
	struct ibv_sge sge = { (uintptr_t)pair->buffer, 8, pair->mr->lkey };
	struct ibv_send_wr wr = {.wr_id = 3,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .wr.ud = {ah, pair->receiver->qp_num, 0x1234},},
			   *bad;

	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
}

static void address_under_send(void)
{
	struct pair *pair = pair_open((struct pair_options){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = pair_ah(pair);

	receive_some(pair, 1, 40 + 64);
	send_datagram(pair, ah);
	if (!wrong)
		take(pair->send_cq, 1);
	must(!ibv_destroy_ah(ah), "ibv_destroy_ah");
	if (wrong)
		take(pair->send_cq, 1);
	pair_close(pair);
}

/* ---- queues ---- */

static void nothing_signaled(void)
{
	struct pair *pair = pair_open((struct pair_options){ .unsignaled = true });
	struct ibv_sge sge = { (uintptr_t)pair->buffer, 8, pair->mr->lkey };
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)pair->buffer + 64, pair->mr->rkey},},
			   *bad;
	int err = 0;

	for (wr.wr_id = 0; !err && wr.wr_id < 4 * DEPTH; wr.wr_id++) {
		wr.send_flags = !wrong && wr.wr_id % DEPTH == DEPTH - 1 ? IBV_SEND_SIGNALED : 0;
		err = ibv_post_send(pair->sender, &wr, &bad);
		if (wr.send_flags)
			take(pair->send_cq, 1);
	}
	pair_close(pair);
}

static void small_cq_of_receives(void)
{
	struct pair *pair = pair_open((struct pair_options){ .entries = 4 });

	for (int i = 0; i < (wrong ? 5 : 4); i++)
		receive_some(pair, (uint64_t)i, 64);
	pair_close(pair);
}

static void polled_too_late(void)
{
	struct pair *pair = pair_open((struct pair_options){ .entries = 4 });
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)pair->buffer, pair->mr->rkey},},
			   *bad;

	for (int i = 0; i < 5; i++) {
		must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
		if (!wrong)
			take(pair->send_cq, 1);
	}
	if (wrong) {	/* the CQ is in error, as nobody has polled */
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

		must(!ibv_modify_qp(pair->sender, &attr, IBV_QP_STATE), "RESET");
		read_async_events(pair);
	}
	pair_close(pair);
}

/* ---- completions ---- */

void write_to(struct pair *pair, uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)pair->buffer, 8, pair->mr->lkey };
	struct ibv_send_wr wr = {.wr_id = 11,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {address, rkey},},
			   *bad;

	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
}

static void error_unseen(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	write_to(pair, (uintptr_t)pair->buffer + (wrong ? BYTES : 0), pair->mr->rkey);
	rest();
	read_async_events(pair);
	if (!wrong)
		take(pair->send_cq, 1);
	pair_close(pair);
}

/* ---- memory ---- */

/* A send of @bytes at @address, which fails or not. */
static void send_from(struct pair *pair, const void *address, uint32_t bytes, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)address, bytes, lkey };
	struct ibv_send_wr wr = { .wr_id = 4,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND, },
			   *bad;

	receive_some(pair, 1, 64);
	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
	take_one(pair->send_cq);
}

static void no_lkey(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	send_from(pair, pair->buffer, 8, wrong ? 0 : pair->mr->lkey);
	pair_close(pair);
}

static void over_the_end(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	send_from(pair, pair->buffer + BYTES - 8, wrong ? 16 : 8, pair->mr->lkey);
	pair_close(pair);
}

static void other_pd(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_pd *pd = ibv_alloc_pd(pair->context);
	static char other[64];
	struct ibv_mr *mr = ibv_reg_mr(wrong ? pd : pair->pd, other, sizeof(other), 0);

	must(pd && mr, "ibv_reg_mr");
	send_from(pair, other, 8, mr->lkey);
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	must(!ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	pair_close(pair);
}

static void key_of_before(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	static char other[64];
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, other, sizeof(other), 0);
	uint32_t lkey = mr->lkey;

	if (wrong)
		must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	send_from(pair, other, 8, lkey);
	if (!wrong)
		must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(pair);
}

static void receive_unwritable(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	static char other[64];
	struct ibv_mr *mr =
		ibv_reg_mr(pair->pd, other, sizeof(other), wrong ? 0 : IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)other, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(!ibv_post_recv(pair->receiver, &wr, &bad), "ibv_post_recv");
	must(!ibv_destroy_qp(pair->receiver), "ibv_destroy_qp");
	pair->receiver = NULL;
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(pair);
}

static void read_unwritable(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	static char other[64];
	struct ibv_mr *target = ibv_reg_mr(pair->pd, pair->buffer, BYTES, IBV_ACCESS_REMOTE_READ),
		      *mr = ibv_reg_mr(pair->pd, other, sizeof(other),
				       wrong ? 0 : IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)other, 8, mr->lkey };
	struct ibv_send_wr wr = {.wr_id = 8,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .wr.rdma = {(uintptr_t)pair->buffer, target->rkey},},
			   *bad;

	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
	take_one(pair->send_cq);
	must(!ibv_dereg_mr(mr) && !ibv_dereg_mr(target), "ibv_dereg_mr");
	pair_close(pair);
}

static void wrong_rkey(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	write_to(pair, (uintptr_t)pair->buffer, pair->mr->rkey ^ (wrong ? 0x100 : 0));
	take_one(pair->send_cq);
	read_async_events(pair);
	pair_close(pair);
}

static void write_without_the_right(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	static char other[64];
	struct ibv_mr *mr =
		ibv_reg_mr(pair->pd, other, sizeof(other),
			   IBV_ACCESS_LOCAL_WRITE | (wrong ? 0 : IBV_ACCESS_REMOTE_WRITE));

	write_to(pair, (uintptr_t)other, mr->rkey);
	take_one(pair->send_cq);
	read_async_events(pair);
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(pair);
}

/* ---- limits ---- */

static void three_sges(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_sge sge[3] = { { (uintptr_t)pair->buffer, 8, pair->mr->lkey },
				  { (uintptr_t)pair->buffer, 8, pair->mr->lkey },
				  { (uintptr_t)pair->buffer, 8, pair->mr->lkey } };
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = wrong ? 3 : 2, .opcode = IBV_WR_SEND },
			   *bad;

	receive_some(pair, 1, 64);
	if (!ibv_post_send(pair->sender, &wr, &bad))
		take(pair->send_cq, 1);
	pair_close(pair);
}

static void long_inline(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_sge sge = { (uintptr_t)pair->buffer, wrong ? 2048 : 64, 0 };
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,},
			   *bad;

	receive_some(pair, 1, 64);
	if (!ibv_post_send(pair->sender, &wr, &bad))
		take(pair->send_cq, 1);
	pair_close(pair);
}

static void short_receive(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	receive_some(pair, 2, 64);
	send_some(pair, 1, wrong ? 65 : 64, 0);
	take_one(pair->send_cq);
	take_one(pair->recv_cq);
	pair_close(pair);
}

/* ---- datagrams ---- */

static void no_room_for_grh(void)
{
	struct pair *pair = pair_open((struct pair_options){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = pair_ah(pair);

	receive_some(pair, 1, wrong ? 8 : 40 + 8);
	send_datagram(pair, ah);
	take(pair->send_cq, 1);
	if (!wrong)
		take(pair->recv_cq, 1);
	must(!ibv_destroy_ah(ah), "ibv_destroy_ah");
	pair_close(pair);
}

/* ---- objects ---- */

static void region_left(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	static char other[64];
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, other, sizeof(other), 0);

	must(mr != NULL, "ibv_reg_mr");
	if (wrong)
		exit(0);
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(pair);
}

static void addresses_left(void)
{
	struct pair *pair = pair_open((struct pair_options){ .type = IBV_QPT_UD });

	for (int i = 0; i < 5; i++) {
		struct ibv_ah *ah = pair_ah(pair);

		if (!wrong)
			must(!ibv_destroy_ah(ah), "ibv_destroy_ah");
	}
	if (wrong)
		exit(0);
	pair_close(pair);
}

static void cq_before_qp(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	if (wrong)
		ibv_destroy_cq(pair->send_cq);	/* EBUSY */
	pair_close(pair);
}

static void pd_before_region(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	if (wrong)
		ibv_dealloc_pd(pair->pd);	/* EBUSY */
	pair_close(pair);
}

static void device_first(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	if (wrong)
		must(!ibv_close_device(pair->context), "ibv_close_device");
	else
		pair_close(pair);
}

static const struct program {
	const char *name;
	void (*run)(void);
	const char *found, *from, *options;	/* NULL: none */
} programs[] = {
	{ "arm_behind_drain", arm_behind_drain, "RV-NOTIFY-001", "brpc#3415" },
	{ "wait_without_arming", wait_without_arming, "RV-NOTIFY-002", "libfabric#795" },
	{ "armed_once", armed_once, "RV-NOTIFY-002", "perftest#137" },
	{ "one_of_several", one_of_several, "RV-NOTIFY-003", "nbs#449" },
	{ "never_acknowledged", never_acknowledged, "RV-EVENTS-001", "ucx#1039, perftest#60" },
	{ "acknowledged_twice", acknowledged_twice, "RV-EVENTS-002", "rdma-core#657" },
	{ "region_under_receive", region_under_receive, "RV-LIFETIME-001", "rdma-core#1526" },
	{ "region_under_send", region_under_send, "RV-LIFETIME-001", "aws-ofi-nccl#921" },
	{ "qp_under_send", qp_under_send, "RV-LIFETIME-003", "spdk#3830" },
	{ "last_send", last_send, "RV-LIFETIME-003", "ceph#25447" },
	{ "address_under_send", address_under_send, "RV-LIFETIME-002", "ompi#5195" },
	{ "nothing_signaled", nothing_signaled, "RV-QUEUE-001", "brpc#3132" },
	{ "small_cq_of_receives", small_cq_of_receives, "RV-QUEUE-002", "spdk#3195" },
	{ "polled_too_late", polled_too_late, "RV-QUEUE-002", "libfabric#1802" },
	{ "error_unseen", error_unseen, "RV-WC-001", "rpma#1170" },
	{ "no_lkey", no_lkey, "RV-ACCESS-001", "ucx#9771" },
	{ "over_the_end", over_the_end, "RV-ACCESS-001", "ompi#1101" },
	{ "other_pd", other_pd, "RV-ACCESS-001", "libevpl#89" },
	{ "key_of_before", key_of_before, "RV-ACCESS-001", "Mooncake#1903" },
	{ "receive_unwritable", receive_unwritable, "RV-ACCESS-002", "ompi#1101" },
	{ "read_unwritable", read_unwritable, "RV-ACCESS-001", "ompi#1101" },
	{ "wrong_rkey", wrong_rkey, "RV-ACCESS-003", "ucx#9771" },
	{ "write_without_the_right", write_without_the_right, "RV-ACCESS-003", "libevpl#89" },
	{ "three_sges", three_sges, "RV-LIMITS-001", "libfabric#3790" },
	{ "long_inline", long_inline, "RV-LIMITS-001", "perftest#139, llama.cpp#22111" },
	{ "short_receive", short_receive, "RV-LIMITS-002", "spdk#2261" },
	{ "no_room_for_grh", no_room_for_grh, "RV-DATAGRAM-001", "rdma-core#462" },
	{ "region_left", region_left, "RV-OBJECTS-001", "spead2#134" },
	{ "addresses_left", addresses_left, "RV-OBJECTS-001", "nvshmem#81" },
	{ "cq_before_qp", cq_before_qp, "RV-OBJECTS-002", "perftest#77" },
	{ "pd_before_region", pd_before_region, "RV-OBJECTS-002", "perftest#77" },
	{ "device_first", device_first, "RV-OBJECTS-003", "perftest#77" },
	{ "path_without_grh", path_without_grh, "RV-ADDRESS-001", "ucx#3919" },
	{ "index_without_gid", index_without_gid, "RV-ADDRESS-002", "-" },
	{ "port_from_zero", port_from_zero, "RV-ADDRESS-002", "-" },
	{ "peer_without_gid", peer_without_gid, "RV-ADDRESS-003", "-" },
	{ "counter_misaligned", counter_misaligned, "RV-ACCESS-004", "-" },
	{ "event_unread", event_unread, "RV-EVENTS-003", "-", "--suppress refused" },
	{ "event_kept", event_kept, "RV-EVENTS-004", "-", "--suppress refused" },
	{ "opcode_of_failed", opcode_of_failed, "RV-WC-002",
	  "tensorpipe#416, libfabric#7365, phoenix#25" },
	{ "channel_under_wait", channel_under_wait, "RV-THREADS-001", "-" },
	{ "one_thread_cq", one_thread_cq, "RV-THREADS-002", "-" },
	{ "window_left", window_left, "RV-OBJECTS-001", "-" },
	{ "thread_domain_first", thread_domain_first, "RV-OBJECTS-002", "-" },
	{ "path_without_lid", path_without_lid, "RV-DEVICE-005", "pegaflow#230, sideway#104",
	  "--device ib" },
	{ "private_data_too_long", private_data_too_long, "RV-CM-001", "ldms#2259" },
	{ "connect_without_route", connect_without_route, "RV-CM-002", "-" },
	{ "cm_event_kept", cm_event_kept, "RV-CM-003", "-" },
	{ "cm_id_left", cm_id_left, "RV-CM-004", "-" },
	{ "cm_rejection_unread", cm_rejection_unread, "RV-CM-005", "-" },
	{ "memory_freed", memory_freed, "RV-LIFETIME-004", "-" },
	{ "memory_unmapped", memory_unmapped, "RV-LIFETIME-004", "-" },
	{ "memory_reallocated", memory_reallocated, "RV-LIFETIME-004", "-" },
	{ "memory_remapped", memory_remapped, "RV-LIFETIME-004", "-" },
	{ "memory_mapped_over", memory_mapped_over, "RV-LIFETIME-004", "-" },
	{ "more_inline", more_inline, "RV-DEVICE-001", "perftest#110", "--device bnxt" },
	{ "more_reads", more_reads, "RV-DEVICE-002", "perftest#114, Mooncake#3977", "--device connectx-5" },
	{ "read_into_two", read_into_two, "RV-DEVICE-001", "-", "--device siw" },
	{ "long_message", long_message, "RV-DEVICE-003", "-", "--device rxe" },
	{ "datagrams_of_iwarp", datagrams_of_iwarp, "RV-DEVICE-004", "-", "--device siw" },
	{ "index_of_gid", index_of_gid, "RV-DEVICE-005", "uccl#803, nccl#769",
	  "--device connectx-5" },
	{ "memory_unlocked", memory_unlocked, "RV-DEVICE-006", "-", "--device irdma" },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		if (argc == 1) {
			printf("%s\t%s\t%s\t%s\n", programs[i].name, programs[i].found,
			       programs[i].from, programs[i].options ? programs[i].options : "");
			continue;
		}
		if (argc != 3 || strcmp(argv[1], programs[i].name))
			continue;
		wrong = !strcmp(argv[2], "wrong");
		programs[i].run();
		return 0;
	}
	return argc == 1 ? 0 : 2;
}
