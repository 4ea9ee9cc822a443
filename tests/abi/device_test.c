/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, contexts and what they say of themselves: the list, GIDs, attribute files, sizes of
 * structures of other releases, parent domains, names and rates; threads and fork().
 */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern const char *ibv_get_sysfs_path(void);
extern int ibv_read_sysfs_file(const char *dir, const char *file, char *buffer, size_t size);
extern const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
/* Headers of rdma-core 44 do not know these. */
struct ibv_buf;
extern int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
extern int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
extern void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
extern void ibv_free_buf(struct ibv_buf *buf);
extern struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *address, size_t length,
				     int access);
extern int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);

#undef ibv_query_port

static void a_device_has_one_address_in_every_list(void **state)
{
	struct ibv_device *device = context_of(state)->device;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int found = 0;

	for (int i = 0; list[i]; i++)
		found += list[i] == device;
	assert_int_equal(found, 1);
	ibv_free_device_list(list);
}

/* The kernel would answer for another one. */
static void no_device_has_an_index_of_the_kernel(void **state)
{
	assert_int_equal(ibv_get_device_index(context_of(state)->device), -1);
}

static void a_device_may_be_opened_after_its_list_was_freed(void **state)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *device = list[0];
	struct ibv_context *context;

	assert_true(count >= 0);
	ibv_free_device_list(list);
	if (!device)
		skip();
	context = ibv_open_device(device);
	assert_non_null(context);
	assert_ptr_equal(context->device, device);
	assert_int_equal(ibv_close_device(context), 0);
}

/* mlx5dv_is_supported() and its like compare it with a table of theirs. */
static void behind_a_device_stands_a_pointer_into_our_library(void **state)
{
	struct ibv_device *device = context_of(state)->device;
	const char *pointer = *(const char **)(device + 1);

	assert_string_equal(pointer, "verbatim");
}

static void a_context_has_real_descriptors(void **state)
{
	struct ibv_context *context = context_of(state);
	int copy = dup(context->async_fd), command = dup(context->cmd_fd);

	assert_true(copy >= 0 && command >= 0);
	assert_ptr_equal(context->abi_compat, __VERBS_ABI_IS_EXTENDED);
	assert_int_equal(context->num_comp_vectors, sysconf(_SC_NPROCESSORS_ONLN));
	close(copy);
	close(command);
}

static void the_three_ways_to_ask_for_gids_agree(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_gid_entry table[256], entry;
	ssize_t count = ibv_query_gid_table(context, table, 256, 0);
	union ibv_gid gid;

	assert_true(count > 0);
	for (ssize_t i = 0; i < count; i++) {
		int type;

		assert_int_equal(ibv_query_gid_ex(context, 1, table[i].gid_index, &entry, 0), 0);
		assert_memory_equal(&entry, &table[i], sizeof(entry));
		assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_true(entry.ndev_ifindex > 0);
		assert_int_equal(ibv_query_gid(context, 1, (int)entry.gid_index, &gid), 0);
		assert_memory_equal(&gid, &entry.gid, sizeof(gid));
		assert_int_equal(ibv_query_gid_type(context, 1, entry.gid_index, &type), 0);
		assert_int_equal(type, 1);
	}
	assert_int_equal(ibv_query_gid_table(context, table, (size_t)count, 0), count);
	assert_int_equal(ibv_query_gid_table(context, table, (size_t)count - 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(context, table, 256, 1), -EINVAL);
}

static void an_empty_gid_reads_as_zeros_or_no_data(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_gid_entry entry;
	union ibv_gid gid, zero = { { 0 } };

	memset(&gid, 0xff, sizeof(gid));
	assert_int_equal(ibv_query_gid(context, 1, 255, &gid), 0);
	assert_memory_equal(&gid, &zero, sizeof(gid));
	assert_int_equal(ibv_query_gid_ex(context, 1, 255, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(context, 1, 256, &entry, 0), EINVAL);
	assert_minus_one(ibv_query_gid(context, 1, 256, &gid), EINVAL);
	assert_minus_one(ibv_query_gid(context, 1, -1, &gid), EINVAL);
	assert_minus_one(ibv_query_gid(context, 2, 0, &gid), EINVAL);
}

static void structures_of_other_releases_are_filled_as_far_as_they_go(void **state)
{
	struct ibv_context *context = context_of(state);
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct { struct ibv_device_attr_ex attr; uint8_t newer[64]; } large;
	struct { struct ibv_port_attr attr; uint8_t newer[8]; } port;
	struct ibv_device_attr_ex small;
	const size_t old = sizeof(struct ibv_device_attr);
	const size_t old_port = offsetof(struct ibv_port_attr, port_cap_flags2);
	const uint8_t *newer;

	memset(&large, 0xff, sizeof(large));
	assert_int_equal(verbs->query_device_ex(context, NULL, &large.attr, sizeof(large)), 0);
	for (size_t i = 0; i < sizeof(large.newer); i++)
		assert_int_equal(large.newer[i], 0);
	memset(&small, 0xff, sizeof(small));
	assert_int_equal(verbs->query_device_ex(context, NULL, &small, old), 0);
	assert_memory_equal(&small, &large.attr, old);
	assert_int_equal(((uint8_t *)&small)[old], 0xff);
	memset(&port, 0xff, sizeof(port));
	assert_int_equal(ibv_query_port(context, 1, (struct _compat_ibv_port_attr *)&port.attr), 0);
	assert_int_equal(port.attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(((uint8_t *)&port)[old_port], 0xff);
	assert_int_equal(verbs->query_port(context, 1, &port.attr, sizeof(port)), 0);
	/* active_speed_ex, which older headers have not: no more than NDR here */
	newer = (const uint8_t *)&port + 52;
	assert_int_equal(newer[0], port.attr.active_speed);
	assert_int_equal(newer[1], 0);
	assert_int_equal(newer[4], 0);
	for (size_t size = 52; size <= 56; size += 4) {		/* of rdma-core 44, and of 49 */
		memset(&port, 0xff, sizeof(port));
		assert_int_equal(verbs->query_port(context, 1, &port.attr, size), 0);
		assert_int_equal(port.attr.port_cap_flags2, 0);
		assert_int_equal(((uint8_t *)&port)[size - 1], 0);
		assert_int_equal(((uint8_t *)&port)[size], 0xff);
	}
}

static void a_port_has_a_speed_in_steps_of_100_megabits(void **state)
{
	struct ibv_context *context = context_of(state);
	uint64_t speed = 0;

	assert_int_equal(ibv_query_port_speed(context, 1, &speed), 0);
	assert_in_range(speed, 1, 8000);
	assert_int_equal(ibv_query_port_speed(context, 2, &speed), EINVAL);
	assert_int_equal(ibv_query_port_speed(context, 1, NULL), EINVAL);
}

static void a_buffer_is_pages_that_can_be_registered(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context_of(state)), *other = ibv_alloc_pd(context_of(state));
	struct ibv_buf *buf = NULL;
	uint8_t *address = ibv_alloc_buf(pd, 5000, &buf);
	struct ibv_mr *mr;

	assert_non_null(address);
	assert_int_equal((uintptr_t)address % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	memset(address, 1, 5000);
	mr = ibv_reg_buf_mr(pd, buf, address + 1000, 4000, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, address + 1000);
	assert_refused(ibv_reg_buf_mr(pd, buf, address + 1000, 4001, 0), EINVAL);
	assert_refused(ibv_reg_buf_mr(pd, buf, address - 1, 1, 0), EINVAL);
	assert_refused(ibv_reg_buf_mr(other, buf, address, 1, 0), EINVAL);
	assert_refused(ibv_alloc_buf(pd, 0, &buf), EINVAL);
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);	/* ibv_alloc_buf(3): ordinary memory */
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	ibv_free_buf(NULL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void attribute_files_say_what_queries_say(void **state)
{
	struct ibv_context *context = context_of(state);
	const char *dir = context->device->ibdev_path;
	struct ibv_device_attr attr;
	char text[128], wanted[128];
	union ibv_gid gid;
	__be64 guid = ibv_get_device_guid(context->device);
	const uint8_t *byte = (const uint8_t *)&guid;

	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_int_equal(attr.node_guid, guid);
	snprintf(wanted, sizeof(wanted), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", byte[0], byte[1],
		 byte[2], byte[3], byte[4], byte[5], byte[6], byte[7]);
	assert_int_equal(ibv_read_sysfs_file(dir, "node_guid", text, sizeof(text)), 19);
	assert_string_equal(text, wanted);
	assert_true(ibv_read_sysfs_file(dir, "fw_ver", text, sizeof(text)) > 0);
	assert_string_equal(text, attr.fw_ver);
	assert_true(ibv_read_sysfs_file(dir, "node_type", text, sizeof(text)) > 0);
	assert_string_equal(text, "1: CA");
	assert_true(ibv_read_sysfs_file(dir, "ports/1/state", text, sizeof(text)) > 0);
	assert_string_equal(text, "4: ACTIVE");
	assert_true(ibv_read_sysfs_file(dir, "ports/1/gid_attrs/types/0", text, sizeof(text)) > 0);
	assert_string_equal(text, "RoCE v2");
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	assert_int_equal(ibv_read_sysfs_file(dir, "ports/1/gids/0", text, sizeof(text)), 39);
	snprintf(wanted, sizeof(wanted), "%02x%02x:%02x%02x:", gid.raw[0], gid.raw[1], gid.raw[2],
		 gid.raw[3]);
	assert_memory_equal(text, wanted, 10);
	assert_true(ibv_read_sysfs_file(dir, "ports/1/counters/port_xmit_data", text,
					sizeof(text)) > 0);
	assert_true(ibv_read_sysfs_file(dir, "ports/1/hw_counters/rcvd_pkts", text,
					sizeof(text)) > 0);
	assert_true(ibv_read_sysfs_file(context->device->dev_path, "ibdev", text, sizeof(text)) > 0);
	assert_string_equal(text, ibv_get_device_name(context->device));
}

static void attribute_files_that_are_not_there_are_absent(void **state)
{
	const char *dir = context_of(state)->device->ibdev_path;
	char text[64];

	assert_minus_one(ibv_read_sysfs_file(dir, "nonsense", text, sizeof(text)), ENOENT);
	assert_minus_one(ibv_read_sysfs_file(dir, "ports/2/state", text, sizeof(text)), ENOENT);
	assert_minus_one(ibv_read_sysfs_file(dir, "ports/1/gids/256", text, sizeof(text)), ENOENT);
	assert_minus_one(ibv_read_sysfs_file(dir, "ports/1/gids/x", text, sizeof(text)), ENOENT);
	assert_minus_one(ibv_read_sysfs_file(dir, "ports/1/gid_attrs/types/255", text, sizeof(text)),
			 ENOENT);
	assert_minus_one(ibv_read_sysfs_file("/sys/class/infiniband/none0", "node_type", text,
					     sizeof(text)), ENOENT);
}

static void other_files_are_read_as_they_are(void **state)
{
	char name[] = "/tmp/verbatim-abi-XXXXXX", text[8] = "xxxxxxx";
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "12345\n", 6), 6);
	close(fd);
	assert_int_equal(ibv_read_sysfs_file("/tmp", name + 5, text, sizeof(text)), 5);
	assert_string_equal(text, "12345");
	assert_int_equal(ibv_read_sysfs_file("/tmp", name + 5, text, 3), 3);
	assert_memory_equal(text, "123", 3);
	unlink(name);
	assert_minus_one(ibv_read_sysfs_file("/tmp", name + 5, text, sizeof(text)), ENOENT);
}

static void a_parent_domain_stands_for_its_protection_domain(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = ibv_alloc_pd(context), .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	static uint64_t memory[8];
	struct ibv_qp *made;
	struct ibv_mr *mr;

	assert_non_null(parent);
	assert_int_equal(ibv_dealloc_pd(attr.pd), EBUSY);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	mr = ibv_reg_mr(parent, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	qp.send_cq = qp.recv_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	made = ibv_create_qp(parent, &qp);
	assert_non_null(made);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_qp(made), 0);
	assert_int_equal(ibv_destroy_cq(qp.send_cq), 0);
	attr.td = NULL;
	attr.comp_mask = 1u << 20;
	assert_refused(ibv_alloc_parent_domain(context, &attr), EINVAL);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
}

/* rdma-core 66: for confidential guests. Libmlx5 allows it on all machines. */
static void a_parent_domain_may_allow_memory_shared_with_the_host(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_parent_domain_init_attr attr = { .pd = ibv_alloc_pd(context), .comp_mask = 1u << 2 };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_buf *buf = NULL;
	uint8_t *address;
	struct ibv_mr *mr;

	assert_non_null(parent);
	address = ibv_alloc_buf(parent, 4096, &buf);
	assert_non_null(address);
	mr = ibv_reg_buf_mr(parent, buf, address, 4096, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_refused(ibv_reg_buf_mr(attr.pd, buf, address, 4096, 0), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
}

static void closing_a_context_frees_what_was_left(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_td_init_attr td = { 0 };
	struct ibv_parent_domain_init_attr parent = { .pd = ibv_alloc_pd(context) };
	struct ibv_qp_init_attr_ex qp = {
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	qp.pd = ibv_alloc_parent_domain(context, &parent);
	qp.send_cq = qp.recv_cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	assert_non_null(ibv_alloc_td(context, &td));
	assert_non_null(ibv_create_qp_ex(context, &qp));
	/* The teardown closes it; leaks are for the address sanitizer to see. */
}

static void rates_convert_both_ways(void **state)
{
	int known = 0;

	for (int rate = -3; rate < 64; rate++) {
		int mult = ibv_rate_to_mult(rate), mbps = ibv_rate_to_mbps(rate);

		if (mult != -1)
			assert_int_equal(mult_to_ibv_rate(mult), rate);
		if (mbps == -1)
			continue;
		assert_int_equal(mbps_to_ibv_rate(mbps), rate);
		known++;
	}
	assert_int_equal(known, 23);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_5_GBPS), 2);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(-1), IBV_RATE_MAX);
}

static void every_value_has_a_name(void **state)
{
	for (int i = IBV_WC_SUCCESS; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		assert_string_not_equal(ibv_wc_status_str(i), "unknown");
	/* Behind the last of our header: DEVICE_SPEED_CHANGE of rdma-core 63. */
	for (int i = IBV_EVENT_CQ_ERR; i <= IBV_EVENT_WQ_FATAL + 1; i++)
		assert_string_not_equal(ibv_event_type_str(i), "unknown");
	for (int i = IBV_PORT_NOP; i <= IBV_PORT_ACTIVE_DEFER; i++)
		assert_string_not_equal(ibv_port_state_str(i), "unknown");
	for (int i = IBV_NODE_CA; i <= IBV_NODE_UNSPECIFIED; i++)
		assert_string_not_equal(ibv_node_type_str(i), "unknown");
	for (int i = IBV_WR_RDMA_WRITE; i <= IBV_WR_DRIVER1; i++)
		assert_string_not_equal(ibv_wr_opcode_str(i), "unknown");
	assert_string_equal(ibv_wr_opcode_str(14), "flush");
	for (int i = -2; i < 200; i += 101) {
		assert_string_equal(ibv_wr_opcode_str(i == 99 ? 13 : i), "unknown");
		assert_string_equal(ibv_wc_status_str(i == 99 ? 24 : i), "unknown");
		assert_string_equal(ibv_event_type_str(i == 99 ? 21 : i), "unknown");
	}
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
			    "transport retry counter exceeded");
}

static void *open_and_close(void *unused)
{
	static char failed[] = "failed";

	for (int i = 0; i < 10; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context = ibv_open_device(list[0]);
		char text[64];

		ibv_free_device_list(list);
		if (!context || ibv_read_sysfs_file(context->device->ibdev_path, "fw_ver", text,
						    sizeof(text)) <= 0)
			return failed;
		ibv_close_device(context);
	}
	return NULL;
}

static void many_threads_may_open_and_close(void **state)
{
	pthread_t thread[4];
	void *result;

	context_of(state);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &result);
		assert_null(result);
	}
}

static void a_forked_child_may_open_the_device_anew(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd;
	int status = -1;
	pid_t child = fork();

	if (!child) {
		alarm(20);
		_exit(open_and_close(NULL) ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pd = ibv_alloc_pd(context);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

struct parts {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	char memory[64];
};

static void make_parts(struct ibv_context *context, struct parts *parts)
{
	struct ibv_ah_attr way = { .is_global = 1, .port_num = 1 };
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr queues = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };

	assert_int_equal(ibv_query_gid(context, 1, 0, &way.grh.dgid), 0);
	parts->pd = ibv_alloc_pd(context);
	parts->mr = ibv_reg_mr(parts->pd, parts->memory, sizeof(parts->memory), IBV_ACCESS_LOCAL_WRITE);
	parts->ah = ibv_create_ah(parts->pd, &way);
	parts->channel = ibv_create_comp_channel(context);
	parts->cq = ibv_create_cq(context, 4, NULL, parts->channel, 0);
	parts->srq = ibv_create_srq(parts->pd, &shared);
	queues.send_cq = queues.recv_cq = parts->cq;
	parts->qp = ibv_create_qp(parts->pd, &queues);
	assert_true(parts->pd && parts->mr && parts->ah && parts->channel && parts->cq && parts->srq &&
		    parts->qp);
}

/* How many went, each with @err. */
static int destroy_parts(struct parts *parts, int err)
{
	return (ibv_destroy_qp(parts->qp) == err) + (ibv_destroy_srq(parts->srq) == err) +
	       (ibv_destroy_cq(parts->cq) == err) + (ibv_destroy_comp_channel(parts->channel) == err) +
	       (ibv_destroy_ah(parts->ah) == err) + (ibv_dereg_mr(parts->mr) == err) +
	       (ibv_dealloc_pd(parts->pd) == err);
}

/* Twice: what the first round has changed, the second one would stumble on. */
static void a_forked_child_leaves_the_parents_objects_alone(void **state)
{
	struct ibv_context *context = context_of(state);
	struct parts parts;
	int status = -1;
	pid_t child;

	make_parts(context, &parts);
	child = fork();
	if (!child) {
		alarm(20);
		_exit(destroy_parts(&parts, EIO) + destroy_parts(&parts, EIO));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 14);
	assert_int_equal(destroy_parts(&parts, 0), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(a_device_has_one_address_in_every_list),
		test_with_device(no_device_has_an_index_of_the_kernel),
		cmocka_unit_test(a_device_may_be_opened_after_its_list_was_freed),
		test_with_device(behind_a_device_stands_a_pointer_into_our_library),
		test_with_device(a_context_has_real_descriptors),
		test_with_device(the_three_ways_to_ask_for_gids_agree),
		test_with_device(an_empty_gid_reads_as_zeros_or_no_data),
		test_with_device(structures_of_other_releases_are_filled_as_far_as_they_go),
		test_with_device(a_port_has_a_speed_in_steps_of_100_megabits),
		test_with_device(a_buffer_is_pages_that_can_be_registered),
		test_with_device(attribute_files_say_what_queries_say),
		test_with_device(attribute_files_that_are_not_there_are_absent),
		cmocka_unit_test(other_files_are_read_as_they_are),
		test_with_device(a_parent_domain_stands_for_its_protection_domain),
		test_with_device(a_parent_domain_may_allow_memory_shared_with_the_host),
		test_with_device(closing_a_context_frees_what_was_left),
		cmocka_unit_test(rates_convert_both_ways),
		cmocka_unit_test(every_value_has_a_name),
		test_with_device(many_threads_may_open_and_close),
		test_with_device(a_forked_child_may_open_the_device_anew),
		test_with_device(a_forked_child_leaves_the_parents_objects_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
