// SPDX-License-Identifier: BSD-2-Clause
/*
 * Completion counters of rdma-core 65 (ibv_create_comp_cntr): what both ends count of the same
 * operations. Looked up by name: the header and library of the distribution may be older.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "verify.h"

enum { OP_RECV = 2, OPS = 6 };	/* of enum ibv_qp_attach_comp_cntr_op; there are six */

struct create_attr { uint32_t comp_mask, type, flags; };
struct attach_attr { uint32_t comp_mask, op_mask; };

static _Thread_local struct {		/* both sides may be threads of one process */
	void *(*create)(struct ibv_context *, struct create_attr *);
	int (*destroy)(void *);
	int (*attach)(struct ibv_qp *, void *, struct attach_attr *);
	int (*read)(void *, uint64_t *), (*read_err)(void *, uint64_t *);
} call;

static void counters_find(struct side *side)
{
	call.create = dlsym(RTLD_DEFAULT, "ibv_create_comp_cntr");
	call.destroy = dlsym(RTLD_DEFAULT, "ibv_destroy_comp_cntr");
	call.attach = dlsym(RTLD_DEFAULT, "ibv_qp_attach_comp_cntr");
	call.read = dlsym(RTLD_DEFAULT, "ibv_read_comp_cntr");
	call.read_err = dlsym(RTLD_DEFAULT, "ibv_read_err_comp_cntr");
	if (exchange_u64(side, call.create != NULL) != 1 || !call.create)
		skip(side, "the library has no completion counters (rdma-core 65)");
}

/* A counter for each operation, of work requests and of bytes: the latter on a second QP. */
struct counted {
	struct link link;
	void *counter[OPS];
};

static void counter_attach(struct counted *counted, unsigned index, uint32_t operations, int expected)
{
	struct attach_attr attr = { .op_mask = operations };

	REFUSED(call.attach(counted->link.qp, counted->counter[index], &attr), expected);
}

static void counted_open(struct side *side, struct counted *counted, uint32_t type)
{
	const struct link_options options = { 0 };

	link_create(side, &counted->link, &options);
	for (unsigned i = 0; i < OPS; i++) {
		counted->counter[i] = call.create(side->context, &(struct create_attr){ .type = type });
		CHECK(counted->counter[i], "ibv_create_comp_cntr: %m");
		counter_attach(counted, i, 1u << i, 0);
	}
	counter_attach(counted, 0, OP_RECV, EBUSY);
	link_to_init(&counted->link, &options);
	link_to_rtr(&counted->link, &options);
	counter_attach(counted, 0, OP_RECV, EINVAL);
	link_to_rts(&counted->link, &options);
	barrier(side);
}

static void counted_close(struct counted *counted)
{
	REFUSED(call.destroy(counted->counter[0]), EBUSY);
	link_close(&counted->link);
	for (unsigned i = 0; i < OPS; i++)
		OK(call.destroy(counted->counter[i]));
}

static uint64_t counter_value(void *counter, bool failed)
{
	uint64_t value = UINT64_MAX;

	OK((failed ? call.read_err : call.read)(counter, &value));
	return value;
}

/* Reading alone has to be enough: no CQ is polled meanwhile. */
static void counter_wait(void *counter, bool failed, uint64_t value, const char *what)
{
	for (int i = 0; i < PATIENCE_MS && counter_value(counter, failed) != value; i++)
		pause_ms(1);
	CHECK(counter_value(counter, failed) == value, "%s: %llu, not %llu", what,
	      (unsigned long long)counter_value(counter, failed), (unsigned long long)value);
}

static const char *const names[OPS] = { "SEND", "RECV", "RDMA_READ", "REMOTE_RDMA_READ", "RDMA_WRITE",
					"REMOTE_RDMA_WRITE" };

static void counted_expect(struct counted *counted, const uint64_t expected[OPS], bool failed)
{
	for (unsigned i = 0; i < OPS; i++)
		counter_wait(counted->counter[i], failed, expected[i], names[i]);
}

enum { SENDS = 10, LARGE = 300000 };

/* The same from both ends, so that each counts its own and the peer's. */
static void counted_traffic(struct side *side, struct counted *counted, struct region *region)
{
	struct link *link = &counted->link;

	for (int i = 0; i <= SENDS; i++)
		recv_region(link, i, region, 0, 64);
	barrier(side);
	for (int i = 0; i < SENDS; i++)		/* one is signaled: all are counted */
		send_op(link, &(struct op){ .id = i, .opcode = IBV_WR_SEND, .quiet = i < SENDS - 1, .sges = 1,
			.sge = { sge_of(region, 4096, 50) } });
	for (int i = 0; i < 3; i++)
		send_op(link, &(struct op){ .id = 20 + i, .opcode = IBV_WR_RDMA_WRITE, .sges = 1,
			.sge = { sge_of(region, 4096, i == 2 ? LARGE : 100) },
			.address = region->peer_address + 4096, .rkey = region->peer_rkey });
	send_op(link, &(struct op){ .id = 23, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sges = 1,
		.sge = { sge_of(region, 4096, 30) }, .address = region->peer_address + 4096,
		.rkey = region->peer_rkey });
	for (int i = 0; i < 2; i++)
		send_op(link, &(struct op){ .id = 30 + i, .opcode = IBV_WR_RDMA_READ, .sges = 1,
			.sge = { sge_of(region, 400000, i ? LARGE : 200) },
			.address = region->peer_address + 4096, .rkey = region->peer_rkey });
	/* Of no operation of the interface. */
	send_op(link, &(struct op){ .id = 40, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sges = 1,
		.sge = { sge_of(region, 800000, 8) }, .address = region->peer_address + 800000,
		.rkey = region->peer_rkey, .compare_add = 1 });
}

static void completion_counters(struct side *side)
{
	static const uint64_t requests[OPS] = { SENDS, SENDS + 1, 2, 2, 4, 4 };
	static const uint64_t bytes[OPS] = { SENDS * 50, SENDS * 50 + 30, LARGE + 200, LARGE + 200, LARGE + 230,
					     LARGE + 230 };
	static const uint64_t none[OPS] = { 0 };
	struct region region;

	counters_find(side);
	region_create(side, &region, 900000, ALL_ACCESS);
	region_exchange(side, &region);
	for (uint32_t type = 0; type < 2; type++) {
		struct counted counted;

		counted_open(side, &counted, type);
		counted_traffic(side, &counted, &region);
		counted_expect(&counted, type ? bytes : requests, false);
		counted_expect(&counted, none, true);
		barrier(side);
		counted_close(&counted);
		barrier(side);
	}
	region_destroy(&region);
}

/* A WRITE that is refused fails at both ends; what is behind it is flushed, and is counted as an error. */
static void completion_counter_errors(struct side *side)
{
	static const uint64_t requester[OPS] = { 2, 3, 0, 0, 1, 0 }, responder[OPS] = { 0, 3, 0, 0, 0, 1 };
	static const uint64_t written[OPS] = { 0, 0, 0, 0, 1, 0 }, taken[OPS] = { 0, 0, 0, 0, 0, 1 };
	struct counted counted;
	struct region region;

	counters_find(side);
	region_create(side, &region, 8192, ALL_ACCESS);
	region_exchange(side, &region);
	counted_open(side, &counted, 0);
	for (int i = 0; i < 3; i++)
		recv_region(&counted.link, i, &region, 0, 64);
	barrier(side);
	if (!side->server) {
		for (int i = 0; i < 2; i++)
			send_op(&counted.link, &(struct op){ .id = i, .opcode = IBV_WR_RDMA_WRITE, .sges = 1,
				.sge = { sge_of(&region, 0, 100) }, .address = region.peer_address,
				.rkey = region.peer_rkey ^ (i ? 0x5500 : 0) });
		for (int i = 2; i < 4; i++)
			send_op(&counted.link, &(struct op){ .id = i, .opcode = IBV_WR_SEND, .quiet = true });
		expect_wc(counted.link.send_cq, 0, IBV_WC_SUCCESS);
		expect_wc(counted.link.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	}
	counted_expect(&counted, side->server ? responder : requester, true);
	counted_expect(&counted, side->server ? taken : written, false);
	barrier(side);
	counted_close(&counted);
	region_destroy(&region);
}

const struct test counter_tests[] = {
	{ "completion_counters", completion_counters, TAG_DATA },
	{ "completion_counter_errors", completion_counter_errors, 0 },
	{ 0 }
};
