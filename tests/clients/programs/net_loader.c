/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs as NCCL's network layer uses them: not linked to libibverbs, but loaded by dlopen(3), each symbol by
 * the version that it was written for; polling and posting through the operations of the context; what it
 * reads of a device in sysfs; its questions about DMA-BUFs and relaxed ordering. Then bytes go from one
 * queue pair to another as it sends them, WRITEs and one with immediate, and are compared.
 * net_loader DEVICE. Exit status 0: all as expected.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES	(1u << 20)
#define PARTS	8

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

#undef ibv_query_port
#undef ibv_reg_mr
static struct {
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	int (*get_async_event)(struct ibv_context *, struct ibv_async_event *);
	void (*ack_async_event)(struct ibv_async_event *);
	int (*query_device)(struct ibv_context *, struct ibv_device_attr *);
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	int (*dealloc_pd)(struct ibv_pd *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *, void *, size_t, uint64_t, unsigned);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
	int (*dereg_mr)(struct ibv_mr *);
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
	int (*destroy_cq)(struct ibv_cq *);
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*destroy_qp)(struct ibv_qp *);
	int (*fork_init)(void);
	const char *(*event_type_str)(enum ibv_event_type);
	int (*query_ece)(struct ibv_qp *, struct ibv_ece *);
	int (*set_ece)(struct ibv_qp *, struct ibv_ece *);
} verbs;

static const struct {
	void *place;
	const char *name, *version;
} symbols[] = {
#define SYMBOL(name, version) { &verbs.name, "ibv_" #name, version }
	SYMBOL(get_device_list, "IBVERBS_1.1"), SYMBOL(free_device_list, "IBVERBS_1.1"),
	SYMBOL(get_device_name, "IBVERBS_1.1"), SYMBOL(open_device, "IBVERBS_1.1"),
	SYMBOL(close_device, "IBVERBS_1.1"), SYMBOL(get_async_event, "IBVERBS_1.1"),
	SYMBOL(ack_async_event, "IBVERBS_1.1"), SYMBOL(query_device, "IBVERBS_1.1"),
	SYMBOL(query_port, "IBVERBS_1.1"), SYMBOL(query_gid, "IBVERBS_1.1"),
	SYMBOL(query_qp, "IBVERBS_1.1"), SYMBOL(alloc_pd, "IBVERBS_1.1"),
	SYMBOL(dealloc_pd, "IBVERBS_1.1"), SYMBOL(reg_mr, "IBVERBS_1.1"),
	SYMBOL(reg_mr_iova2, "IBVERBS_1.8"), SYMBOL(reg_dmabuf_mr, "IBVERBS_1.12"),
	SYMBOL(dereg_mr, "IBVERBS_1.1"), SYMBOL(create_cq, "IBVERBS_1.1"),
	SYMBOL(destroy_cq, "IBVERBS_1.1"), SYMBOL(create_qp, "IBVERBS_1.1"),
	SYMBOL(modify_qp, "IBVERBS_1.1"), SYMBOL(destroy_qp, "IBVERBS_1.1"),
	SYMBOL(fork_init, "IBVERBS_1.1"), SYMBOL(event_type_str, "IBVERBS_1.1"),
	SYMBOL(query_ece, "IBVERBS_1.10"), SYMBOL(set_ece, "IBVERBS_1.10"),
};

static void load(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);

	if (!library)
		fail("%s", dlerror());
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = dlvsym(library, symbols[i].name, symbols[i].version);

		if (!found)
			fail("no %s@%s", symbols[i].name, symbols[i].version);
		memcpy(symbols[i].place, &found, sizeof(found));
	}
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = verbs.get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(verbs.get_device_name(list[i]), name))
			context = verbs.open_device(list[i]);
	if (!context)
		fail("no device %s", name);
	verbs.free_device_list(list);
	return context;
}

/* The last GID of type RoCE v2 that is an IPv4 address; of sysfs the types. */
static int choose_gid(struct ibv_context *context, const char *name, int entries, union ibv_gid *chosen)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	int found = -1;

	for (int i = 0; i < entries; i++) {
		char path[PATH_MAX], type[32] = "";
		union ibv_gid gid;
		FILE *file;

		if (verbs.query_gid(context, 1, i, &gid))
			fail("ibv_query_gid of index %d of %d: %s", i, entries, strerror(errno));
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", name, i);
		file = fopen(path, "r");
		if (!file || !fgets(type, sizeof(type), file))
			type[0] = 0;		/* an empty entry cannot be read */
		if (file)
			fclose(file);
		if (strcmp(type, "RoCE v2\n") || memcmp(gid.raw, mapped, sizeof(mapped)))
			continue;
		found = i;
		*chosen = gid;
	}
	if (found < 0)
		fail("no GID of type RoCE v2 that is an IPv4 address");
	return found;
}

static void ask_for_dma_buf(struct ibv_pd *pd)
{
	errno = 0;
	if (verbs.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0))
		fail("a DMA-BUF of descriptor -1 was registered");
	if (errno != EOPNOTSUPP && errno != EPROTONOSUPPORT)
		fail("a DMA-BUF of descriptor -1: errno %d, which says that there is support", errno);
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 2 * PARTS, .max_recv_wr = PARTS,
						  .max_send_sge = 1, .max_recv_sge = 1,
						  .max_inline_data = 64 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp *qp = verbs.create_qp(pd, &init);

	if (!qp)
		fail("ibv_create_qp: %s", strerror(errno));
	if (verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("ibv_modify_qp to INIT");
	return qp;
}

/* Enhanced connection establishment is asked for, and done without where there is none. */
static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *peer, const union ibv_gid *gid, int gid_index,
		       enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer->qp_num,
				    .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				    .ah_attr = { .is_global = 1, .port_num = 1,
						 .grh = { .dgid = *gid, .sgid_index = (uint8_t)gid_index,
							  .hop_limit = 255 } } };
	struct ibv_ece ece = { 0 };
	int err = verbs.query_ece(qp, &ece);

	if (!err)
		err = verbs.set_ece(qp, &ece);
	if (err && err != EOPNOTSUPP)
		fail("ECE: error %d", err);
	if (verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	if (verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("ibv_modify_qp to RTS");
}

static void await(struct ibv_cq *cq, unsigned sent, unsigned received, uint32_t imm)
{
	const time_t end = time(NULL) + 20;
	struct ibv_wc wc;

	while (sent || received) {
		int count = cq->context->ops.poll_cq(cq, 1, &wc);

		if (count < 0 || time(NULL) > end)
			fail("no completion");
		if (!count)
			continue;
		if (wc.status != IBV_WC_SUCCESS)
			fail("completion with status %d", wc.status);
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == imm)
			received--;
		else
			sent--;
	}
}

static void write_all(struct ibv_qp *from, struct ibv_qp *to, struct ibv_cq *cq, struct ibv_mr *source,
		      struct ibv_mr *target)
{
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr wrs[PARTS + 1], *bad;
	struct ibv_sge sges[PARTS];

	if (to->context->ops.post_recv(to, &recv, &bad_recv))
		fail("post_recv");
	for (unsigned i = 0; i < PARTS; i++) {
		const uint64_t at = (uint64_t)i * (BYTES / PARTS);

		sges[i] = (struct ibv_sge){ (uintptr_t)source->addr + at, BYTES / PARTS, source->lkey };
		wrs[i] = (struct ibv_send_wr){ .wr_id = i, .next = &wrs[i + 1], .sg_list = &sges[i],
					       .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
		wrs[i].wr.rdma.remote_addr = (uintptr_t)target->addr + at;
		wrs[i].wr.rdma.rkey = target->rkey;
	}
	wrs[PARTS] = (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = BYTES,
					   .send_flags = IBV_SEND_SIGNALED };
	if (from->context->ops.post_send(from, wrs, &bad))
		fail("post_send");
	await(cq, 1, 1, BYTES);
}

int main(int argc, char **argv)
{
	char path[PATH_MAX], real[PATH_MAX];
	struct ibv_mr *source, *target;
	struct ibv_device_attr device;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_qp *one, *two;
	union ibv_gid gid;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint8_t *memory;
	int gid_index;

	if (argc != 2)
		fail("usage: %s DEVICE", argv[0]);
	load();
	verbs.fork_init();
	context = open_named(argv[1]);
	if (verbs.query_device(context, &device) || verbs.query_port(context, 1, &port))
		fail("the device or its port cannot be queried");
	if (port.state != IBV_PORT_ACTIVE || port.link_layer != IBV_LINK_LAYER_ETHERNET)
		fail("port state %d, link layer %d", port.state, port.link_layer);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", argv[1]);
	if (!realpath(path, real))
		printf("%s: %s (a device that is no PCI function: NCCL goes on)\n", path, strerror(errno));
	gid_index = choose_gid(context, argv[1], port.gid_tbl_len, &gid);
	pd = verbs.alloc_pd(context);
	cq = verbs.create_cq(context, 4 * PARTS, NULL, NULL, 0);
	memory = aligned_alloc(4096, 2 * BYTES);
	if (!pd || !cq || !memory)
		fail("no protection domain, no CQ or no memory");
	ask_for_dma_buf(pd);
	for (unsigned i = 0; i < BYTES; i++)
		memory[i] = (uint8_t)(i * 7 + i / 251);
	memset(memory + BYTES, 0, BYTES);
	source = verbs.reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	target = verbs.reg_mr_iova2(pd, memory + BYTES, BYTES, (uintptr_t)memory + BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_RELAXED_ORDERING);
	if (!source || !target)
		fail("registration: %s", strerror(errno));
	one = make_qp(pd, cq);
	two = make_qp(pd, cq);
	connect_qp(one, two, &gid, gid_index, port.active_mtu);
	connect_qp(two, one, &gid, gid_index, port.active_mtu);
	write_all(one, two, cq, source, target);
	if (memcmp(memory, memory + BYTES, BYTES))
		fail("the bytes that arrived differ");
	if (verbs.destroy_qp(one) || verbs.destroy_qp(two) || verbs.dereg_mr(source) || verbs.dereg_mr(target) ||
	    verbs.destroy_cq(cq) || verbs.dealloc_pd(pd) || verbs.close_device(context))
		fail("something cannot be destroyed");
	free(memory);
	printf("%u bytes: right, GID %d of %d, vendor 0x%x\n", BYTES, gid_index, port.gid_tbl_len,
	       device.vendor_id);
	return 0;
}
