/* SPDX-License-Identifier: BSD-2-Clause */
/* More wrong programs and their twins (corpus.c): of paths, events, threads, and adapters. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corpus.h"

/* ---- paths ---- */

/* An address handle, which there is or is not. */
static void path_by(struct pair *pair, struct ibv_ah_attr attr, bool has_gid)
{
	struct ibv_ah *ah;

	attr.grh.hop_limit = 1;
	if (has_gid)
		must(!ibv_query_gid(pair->context, 1, 0, &attr.grh.dgid), "ibv_query_gid");
	ah = ibv_create_ah(pair->pd, &attr);
	if (ah)
		must(!ibv_destroy_ah(ah), "ibv_destroy_ah");
	pair_close(pair);
}

void path_without_grh(void)
{
	path_by(pair_open((struct pair_options){ .type = IBV_QPT_UD }),
		(struct ibv_ah_attr){ .is_global = !wrong, .dlid = 1, .port_num = 1 }, true);
}

void index_without_gid(void)
{
	path_by(pair_open((struct pair_options){ .type = IBV_QPT_UD }),
		(struct ibv_ah_attr){ .is_global = 1, .port_num = 1,
				      .grh = { .sgid_index = wrong ? 200 : 0 } }, true);
}

void port_from_zero(void)
{
	path_by(pair_open((struct pair_options){ .type = IBV_QPT_UD }),
		(struct ibv_ah_attr){ .is_global = 1, .port_num = wrong ? 0 : 1 }, true);
}

void peer_without_gid(void)
{
	path_by(pair_open((struct pair_options){ .type = IBV_QPT_UD }),
		(struct ibv_ah_attr){ .is_global = 1, .port_num = 1 }, !wrong);
}

/* ---- atomics, asynchronous events, fields of a completion ---- */

void counter_misaligned(void)
{
	struct pair *pair = pair_open((struct pair_options){ .atomics = true });
	uint64_t counter = ((uintptr_t)pair->buffer + 71) & ~(uint64_t)63;
	struct ibv_sge sge = { (uintptr_t)pair->buffer, 8, pair->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = { .remote_addr = counter + (wrong ? 4 : 8), .compare_add = 1,
			       .rkey = pair->mr->rkey },
	}, *bad;

	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
	take_one(pair->send_cq);
	read_async_events(pair);
	pair_close(pair);
}

/* A refused write (RV-ACCESS-003 of the sender): an event alone tells the receiver of it. */
static struct pair *failed_receiver(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });

	write_to(pair, (uintptr_t)pair->buffer, pair->mr->rkey ^ 0x100);
	take_one(pair->send_cq);
	rest();
	return pair;
}

void event_unread(void)
{
	struct pair *pair = failed_receiver();

	if (!wrong)
		read_async_events(pair);
	pair_close(pair);
}

void event_kept(void)
{
	struct pair *pair = failed_receiver();
	struct ibv_async_event event;

	must(!ibv_get_async_event(pair->context, &event), "ibv_get_async_event");
	if (wrong)
		end_after_a_moment();	/* ibv_destroy_qp() waits for the acknowledgement */
	else
		ibv_ack_async_event(&event);
	pair_close(pair);
}

void opcode_of_failed(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair->context, &attr);
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp;

	must(cq != NULL, "ibv_create_cq_ex");
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	init.qp_type = IBV_QPT_RC;
	qp = ibv_create_qp(pair->pd, &init);
	must(qp != NULL, "ibv_create_qp");
	must(!ibv_modify_qp(qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 },
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	must(!ibv_modify_qp(qp, &error, IBV_QP_STATE), "ERR");
	must(!ibv_start_poll(cq, &poll), "ibv_start_poll");
	if (wrong)
		ibv_wc_read_opcode(cq);
	else if (cq->status == IBV_WC_SUCCESS)
		ibv_wc_read_opcode(cq);
	ibv_end_poll(cq);
	must(!ibv_destroy_qp(qp), "ibv_destroy_qp");
	must(!ibv_destroy_cq(init.send_cq), "ibv_destroy_cq");
	pair_close(pair);
}

/* ---- threads ---- */

static void *wait_for_event(void *of)
{
	struct ibv_comp_channel *channel = of;
	struct ibv_cq *cq;
	void *context;

	if (!ibv_get_cq_event(channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	return NULL;
}

void channel_under_wait(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	pthread_t thread;

	must(!ibv_req_notify_cq(pair->recv_cq, 0), "ibv_req_notify_cq");
	must(!pthread_create(&thread, NULL, wait_for_event, pair->channel), "pthread_create");
	rest();
	if (wrong) {
		end_after_a_moment();
	} else {	/* the event that ends it */
		receive_some(pair, 1, 64);
		send_some(pair, 1, 8, 0);
		take(pair->send_cq, 1);
		must(!pthread_join(thread, NULL), "pthread_join");
		take(pair->recv_cq, 1);
	}
	pair_close(pair);
	if (wrong)
		pthread_join(thread, NULL);
}

/* Each offers its core in some of so many, and the other one polls meanwhile. */
#define POLLS_ENOUGH 10000

static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint polling_threads;

static void *poll_often(void *of)
{
	struct ibv_cq *cq = of;
	struct ibv_wc wc;
	int polls = 0;

	/* Until both have. */
	while (atomic_load(&polling_threads)) {
		if (polls++ == POLLS_ENOUGH)
			atomic_fetch_sub(&polling_threads, 1);
		if (!wrong)
			pthread_mutex_lock(&polling);
		ibv_poll_cq(cq, 1, &wc);
		if (!wrong)
			pthread_mutex_unlock(&polling);
	}
	return NULL;
}

void one_thread_cq(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair->context, &attr);
	pthread_t threads[2];

	must(cq != NULL, "ibv_create_cq_ex");
	atomic_store(&polling_threads, 2);
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&threads[i], NULL, poll_often, ibv_cq_ex_to_cq(cq)),
		     "pthread_create");
	for (int i = 0; i < 2; i++)
		must(!pthread_join(threads[i], NULL), "pthread_join");
	must(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "ibv_destroy_cq");
	pair_close(pair);
}

/* ---- objects besides ---- */

void window_left(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);

	must(mw != NULL, "ibv_alloc_mw");
	if (wrong)
		exit(0);
	must(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
	pair_close(pair);
}

void thread_domain_first(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	struct ibv_td_init_attr attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(pair->context, &attr);
	struct ibv_parent_domain_init_attr init = { .pd = pair->pd, .td = td };
	struct ibv_pd *domain = ibv_alloc_parent_domain(pair->context, &init);

	must(td && domain, "ibv_alloc_parent_domain");
	if (wrong)
		ibv_dealloc_td(td);	/* EBUSY */
	must(!ibv_dealloc_pd(domain), "ibv_dealloc_pd");
	must(!ibv_dealloc_td(td), "ibv_dealloc_td");
	pair_close(pair);
}

/* ---- librdmacm ---- */

struct client {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

static struct rdma_cm_event *expect(struct client *client, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	must(!rdma_get_cm_event(client->channel, &event), "rdma_get_cm_event");
	must(event->event == type, "the event");
	return event;
}

/* Its address is resolved, and the event of that is still to be acknowledged. */
static struct rdma_cm_event *client_open(struct client *client)
{
	struct sockaddr_in peer = {
		.sin_family = AF_INET, .sin_port = htons(7), .sin_addr.s_addr = htonl(0x7f000001),
	};

	client->channel = rdma_create_event_channel();
	must(client->channel != NULL, "rdma_create_event_channel");
	must(!rdma_create_id(client->channel, &client->id, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(!rdma_resolve_addr(client->id, NULL, (struct sockaddr *)&peer, 1000),
	     "rdma_resolve_addr");
	return expect(client, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void client_connect(struct client *client, bool resolves, uint8_t bytes)
{
	static const char data[255];
	struct rdma_conn_param parameters = {
		.qp_num = 4711, .private_data = data, .private_data_len = bytes,
	};

	if (resolves) {
		must(!rdma_resolve_route(client->id, 1000), "rdma_resolve_route");
		must(!rdma_ack_cm_event(expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED)),
		     "rdma_ack_cm_event");
	}
	if (!rdma_connect(client->id, &parameters))	/* nobody listens */
		must(!rdma_ack_cm_event(expect(client, RDMA_CM_EVENT_REJECTED)), "rdma_ack_cm_event");
	must(!rdma_destroy_id(client->id), "rdma_destroy_id");
	rdma_destroy_event_channel(client->channel);
}

void private_data_too_long(void)
{
	struct client client;

	must(!rdma_ack_cm_event(client_open(&client)), "rdma_ack_cm_event");
	client_connect(&client, true, wrong ? 57 : 56);
}

void connect_without_route(void)
{
	struct client client;

	must(!rdma_ack_cm_event(client_open(&client)), "rdma_ack_cm_event");
	client_connect(&client, !wrong, 0);
}

void cm_event_kept(void)
{
	struct client client;
	struct rdma_cm_event *event = client_open(&client);

	if (wrong)
		end_after_a_moment();	/* rdma_destroy_id() waits for the acknowledgement */
	else
		must(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
	must(!rdma_destroy_id(client.id), "rdma_destroy_id");
	rdma_destroy_event_channel(client.channel);
}

static void client_end(struct client *client)
{
	must(!rdma_destroy_id(client->id), "rdma_destroy_id");
	rdma_destroy_event_channel(client->channel);
}

void cm_id_left(void)
{
	struct client client;

	must(!rdma_ack_cm_event(client_open(&client)), "rdma_ack_cm_event");
	if (!wrong)
		client_end(&client);
}

/* Nobody listens: the answer is a rejection. */
void cm_rejection_unread(void)
{
	struct client client;
	struct pollfd answer = { .events = POLLIN };
	struct rdma_conn_param parameters = { .qp_num = 4711 };

	must(!rdma_ack_cm_event(client_open(&client)), "rdma_ack_cm_event");
	must(!rdma_resolve_route(client.id, 1000), "rdma_resolve_route");
	must(!rdma_ack_cm_event(expect(&client, RDMA_CM_EVENT_ROUTE_RESOLVED)), "rdma_ack_cm_event");
	must(!rdma_connect(client.id, &parameters), "rdma_connect");
	answer.fd = client.channel->fd;
	must(poll(&answer, 1, 5000) == 1, "an answer");
	if (!wrong)
		must(!rdma_ack_cm_event(expect(&client, RDMA_CM_EVENT_REJECTED)), "rdma_ack_cm_event");
	client_end(&client);
}

/* ---- memory that goes ---- */

/* @keep leaves alone what was posted, the first 64 bytes of @memory; @drop does not. */
static void receive_into(struct pair *pair, void *memory, void (*keep)(void *memory), void (*drop)(void *memory))
{
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, memory, 8192, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr ? mr->lkey : 0 };
	struct ibv_recv_wr wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(mr != NULL, "ibv_reg_mr");
	must(!ibv_post_recv(pair->receiver, &wr, &bad), "ibv_post_recv");
	if (keep)
		keep(memory);
	if (wrong)
		drop(memory);
	must(!ibv_destroy_qp(pair->receiver), "ibv_destroy_qp");
	pair->receiver = NULL;
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	if (!wrong)
		drop(memory);
	pair_close(pair);
}

/* What a handler of pthread_atfork() frees, behind all that the library does before fork(). */
static void *freed_at_fork;

static void free_before_fork(void)
{
	free(freed_at_fork);
	freed_at_fork = NULL;
}

/* That memory lies between regions. */
static void fork_between_regions(struct pair *pair)
{
	char *block[3];
	struct ibv_mr *mr[2];
	pid_t child;

	for (int i = 0; i < 3; i++)
		must((block[i] = malloc(4096)) != NULL, "malloc");
	must((block[0] < block[1]) == (block[1] < block[2]), "blocks in their order");
	mr[0] = ibv_reg_mr(pair->pd, block[0], 4096, IBV_ACCESS_LOCAL_WRITE);
	mr[1] = ibv_reg_mr(pair->pd, block[2], 4096, IBV_ACCESS_LOCAL_WRITE);
	must(mr[0] && mr[1], "ibv_reg_mr");
	freed_at_fork = block[1];
	child = fork();
	if (!child)
		_exit(0);
	must(child > 0 && waitpid(child, NULL, 0) == child && !freed_at_fork, "fork");
	must(!ibv_dereg_mr(mr[0]) && !ibv_dereg_mr(mr[1]), "ibv_dereg_mr");
	free(block[0]);
	free(block[2]);
}

void memory_freed(void)
{
	struct pair *pair;
	void *memory = malloc(8192);

	must(memory && !pthread_atfork(free_before_fork, NULL, NULL), "pthread_atfork");
	pair = pair_open((struct pair_options){ 0 });
	fork_between_regions(pair);
	receive_into(pair, memory, NULL, free);
}

static void shrink(void *memory)
{
	must(realloc(memory, 4096) == memory, "realloc where it is");
}

static void grow(void *memory)
{
	void *moved = realloc(memory, 64 << 20);

	must(moved != NULL, "realloc");
	free(moved);
}

void memory_reallocated(void)
{
	struct pair *pair = pair_open((struct pair_options){ 0 });
	void *memory = malloc(8192);

	must(memory != NULL, "malloc");
	receive_into(pair, memory, shrink, grow);
}

static void unmap_in_vain(void *memory)
{
	must(munmap((char *)memory + 1, 8192) && errno == EINVAL, "munmap of no page");
}

static void unmap(void *memory)
{
	must(!munmap(memory, 8192), "munmap");
}

static void *map_some(void)
{
	void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "mmap");
	return memory;
}

void memory_unmapped(void)
{
	receive_into(pair_open((struct pair_options){ 0 }), map_some(), unmap_in_vain, unmap);
}

static void shrink_mapping(void *memory)
{
	must(mremap(memory, 8192, 4096, 0) == memory, "mremap where it is");
}

static void move_mapping(void *memory)
{
	void *to = map_some();

	must(mremap(memory, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
	unmap(to);
}

void memory_remapped(void)
{
	receive_into(pair_open((struct pair_options){ 0 }), map_some(), shrink_mapping, move_mapping);
}

static void map_over(void *memory)
{
	must(mmap(memory, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
}

static void map_behind(void *memory)
{
	map_over((char *)memory + 4096);
}

void memory_mapped_over(void)
{
	receive_into(pair_open((struct pair_options){ 0 }), map_some(), map_behind, map_over);
}

/* ---- adapters: each fits Verbatim's own ---- */

void more_inline(void)
{
	pair_close(pair_open((struct pair_options){ .inline_bytes = wrong ? 256 : 96 }));
}

void more_reads(void)
{
	pair_close(pair_open((struct pair_options){ .rd_atomic = wrong ? 32 : 16, .looks = true }));
}

void read_into_two(void)
{
	struct pair *pair = pair_open((struct pair_options){ .looks = true });
	struct ibv_mr *target = ibv_reg_mr(pair->pd, pair->buffer, BYTES, IBV_ACCESS_REMOTE_READ);
	struct ibv_sge sge[2] = { { (uintptr_t)pair->buffer + 64, 8, pair->mr->lkey },
				  { (uintptr_t)pair->buffer + 72, 8, pair->mr->lkey } };
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = wrong ? 2 : 1, .opcode = IBV_WR_RDMA_READ },
			   *bad;

	must(target != NULL, "ibv_reg_mr");
	wr.wr.rdma.remote_addr = (uintptr_t)pair->buffer;
	wr.wr.rdma.rkey = target->rkey;
	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
	take(pair->send_cq, 1);
	must(!ibv_dereg_mr(target), "ibv_dereg_mr");
	pair_close(pair);
}

void long_message(void)
{
	struct pair *pair = pair_open((struct pair_options){ .looks = true });
	const uint32_t most = 8 << 20;
	char *memory = calloc(2, most);
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, memory, 2 * (size_t)most,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_sge sge = { (uintptr_t)memory, wrong ? most + 1 : most, 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE },
			   *bad;

	must(memory && mr, "ibv_reg_mr");
	sge.lkey = mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = mr->rkey;
	must(!ibv_post_send(pair->sender, &wr, &bad), "ibv_post_send");
	take(pair->send_cq, 1);
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	free(memory);
	pair_close(pair);
}

void datagrams_of_iwarp(void)
{
	pair_close(pair_open((struct pair_options){ .type = wrong ? IBV_QPT_UD : IBV_QPT_RC }));
}

void path_without_lid(void)
{
	pair_close(pair_open((struct pair_options){ .lid = wrong ? 0 : 7 }));
}

void index_of_gid(void)
{
	pair_close(pair_open((struct pair_options){ .looks = !wrong }));
}

/* An ordinary user's: root may lock all. */
void memory_unlocked(void)
{
	const struct rlimit limit = { 65536, 65536 };
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	static char memory[1 << 20];
	struct ibv_mr *mr;
	struct pair *pair;

	must(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit");
	pair = pair_open((struct pair_options){ 0 });
	must(!syscall(SYS_capset, &header, none), "capset");
	mr = ibv_reg_mr(pair->pd, memory, wrong ? sizeof(memory) : 4096, 0);
	must(mr && !ibv_dereg_mr(mr), "ibv_reg_mr");
	pair_close(pair);
}
