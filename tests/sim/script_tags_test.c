/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tag-matching SRQ over a network that loses, duplicates and reorders: each message is matched once, has its
 * data, and each rendezvous is finished once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object/tag_list.h"
#include "sim/world/sim.h"
#include "wire/tag_header.h"

#define MESSAGES 40u
#define PART 8192u		/* of either memory, for a message */
#define FIN_PART 64u
#define TAG(i) (0x100u + (i))

struct world {
	struct sim *sim;
	struct sim_host *a, *b;
	struct cq *sends, *fins, *matches;
	struct qp *left, *right;
	struct srq *srq;
	struct mr *left_mr, *right_mr;
	uint8_t *left_memory, *right_memory;
	uint32_t bytes[MESSAGES];	/* of data */
	bool rendezvous[MESSAGES], unexpected[MESSAGES];
	unsigned matched[MESSAGES], valid[MESSAGES], finished[MESSAGES], came[MESSAGES], sent;
};

static uint8_t byte_of(unsigned message, uint32_t i)
{
	return (uint8_t)(message * 13 + i * 7 + 1);
}

static void take(struct sim *sim, void *argument)
{
	struct world *world = argument;
	struct ibv_wc wc;

	while (cq_take(world->sends, 1, &wc)) {
		world->sent++;
		if (wc.status)
			sim_fail(sim, "a send failed: %d", wc.status);
	}
	while (cq_take(world->fins, 1, &wc)) {
		const uint8_t *fin = world->left_memory + MESSAGES * PART + wc.wr_id * FIN_PART;

		if (wc.status || wc.byte_len != TAG_RENDEZVOUS_BYTES || fin[0] != TAG_FIN)
			sim_fail(sim, "no FIN: status %d", wc.status);
		else
			world->finished[get_be64(fin + 8) - TAG(0)]++;
	}
	while (cq_take(world->matches, 1, &wc)) {
		if (wc.status || wc.opcode != IBV_WC_TM_RECV)
			sim_fail(sim, "wr_id %u: status %d", (unsigned)wc.wr_id, wc.status);
		else if (!(wc.wc_flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID)))
			world->came[get_be64(world->right_memory + (MESSAGES + wc.wr_id) * PART + 8) - TAG(0)]++;
		world->matched[wc.wr_id] += (wc.wc_flags & IBV_WC_TM_MATCH) != 0;
		world->valid[wc.wr_id] += (wc.wc_flags & IBV_WC_TM_DATA_VALID) != 0;
	}
}

static void open_world(struct world *world, uint64_t seed)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct qp_options left = { .type = IBV_QPT_RC }, right = { .type = IBV_QPT_RC, .inline_bytes = 64 };
	struct connect_options connect = connect_defaults();

	memset(world, 0, sizeof(*world));
	world->sim = sim_create(seed);
	world->sim->application = take;
	world->sim->application_argument = world;
	world->a = host_create(world->sim);
	world->b = host_create(world->sim);
	world->sends = host_cq(world->a, 256);
	world->fins = host_cq(world->a, 256);
	world->matches = host_cq(world->b, 256);
	left.send_cq = world->sends;
	left.recv_cq = world->fins;
	world->srq = host_srq(world->b, MESSAGES, 1);
	world->srq->tags = tag_list_new(MESSAGES, MESSAGES);
	world->srq->cq = world->matches;
	right.send_cq = right.recv_cq = world->matches;
	right.srq = world->srq;
	right.send_wrs = 4;		/* two rendezvous at a time: the others wait */
	world->left = host_qp(world->a, &left);
	world->right = host_qp(world->b, &right);
	world->right->sends_itself = true;
	world->left_memory = calloc(2 * MESSAGES, PART);
	world->right_memory = calloc(2 * MESSAGES, PART);
	world->left_mr = host_mr(world->a, world->left_memory, (size_t)2 * MESSAGES * PART, access);
	world->right_mr = host_mr(world->b, world->right_memory, (size_t)2 * MESSAGES * PART, access);
	connect.rnr_retry = 7;
	host_connect(world->a, world->left, world->b, world->right->number, &connect, 0);
	host_connect(world->b, world->right, world->a, world->left->number, &connect, 1);
}

static void close_world(struct world *world)
{
	host_qp_destroy(world->a, world->left);
	host_qp_destroy(world->b, world->right);
	free(world->srq->tags);
	srq_destroy(world->srq);
	host_mr_free(world->a, world->left_mr);
	host_mr_free(world->b, world->right_mr);
	cq_destroy(world->sends);
	cq_destroy(world->fins);
	cq_destroy(world->matches);
	sim_destroy(world->sim);
	free(world->left_memory);
	free(world->right_memory);
}

/* Buffers for tags are in the order of messages; those without a tag are behind them. */
static void prepare(struct world *world)
{
	struct effects effects;

	effects_init(&effects);
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)world->right_memory + i * PART, .length = PART,
				       .lkey = world->right_mr->ibv.lkey };
		struct ibv_ops_wr ops = { .opcode = IBV_WR_TAG_ADD, .tm.add = { .recv_wr_id = i, .sg_list = &sge,
					  .num_sge = 1, .tag = TAG(i), .mask = UINT64_MAX } }, *bad;
		struct ibv_recv_wr recv = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		world->rendezvous[i] = sim_below(world->sim, 3) == 0;
		world->unexpected[i] = !world->rendezvous[i] && sim_below(world->sim, 4) == 0;
		world->bytes[i] = sim_below(world->sim, PART - 64);
		if (!world->unexpected[i])
			assert_int_equal(srq_post_ops(world->srq, &ops, &bad, 1, &effects), 0);
		sge.addr += (uint64_t)MESSAGES * PART;
		assert_int_equal(host_post_srq(world->b, world->srq, &recv), 0);
		sge = (struct ibv_sge){ .addr = (uintptr_t)world->left_memory + MESSAGES * PART + i * FIN_PART,
					.length = FIN_PART, .lkey = world->left_mr->ibv.lkey };
		assert_int_equal(host_post_recv(world->a, world->left, &recv), 0);
	}
}

static void send_message(struct world *world, unsigned i)
{
	uint8_t *message = world->left_memory + i * PART;
	bool rendezvous = world->rendezvous[i];
	uint32_t head = rendezvous ? TAG_RENDEZVOUS_BYTES : TAG_HEADER_BYTES;
	struct ibv_sge sge = { .addr = (uintptr_t)message, .length = head + (rendezvous ? 0 : world->bytes[i]),
			       .lkey = world->left_mr->ibv.lkey };
	struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	message[0] = rendezvous ? TAG_RENDEZVOUS : TAG_EAGER;
	put_be64(message + 8, TAG(i));
	if (rendezvous) {
		put_be64(message + 16, (uintptr_t)message + head);
		put_be32(message + 24, world->left_mr->ibv.rkey);
		put_be32(message + 28, world->bytes[i]);
	}
	for (uint32_t at = 0; at < world->bytes[i]; at++)
		message[head + at] = byte_of(i, at);
	assert_int_equal(host_post_send(world->a, world->left, &wr), 0);
}

static void check_message(const struct world *world, unsigned i)
{
	const uint8_t *data = world->right_memory + i * PART;

	assert_int_equal(world->finished[i], world->rendezvous[i]);
	assert_int_equal(world->came[i], world->unexpected[i]);
	if (world->unexpected[i])
		return;
	assert_int_equal(world->matched[i], 1);
	assert_int_equal(world->valid[i], 1);
	for (uint32_t at = 0; at < world->bytes[i]; at++)
		assert_int_equal(data[at], byte_of(i, at));
}

static void run_world(uint64_t seed, const struct sim_rates *rates)
{
	struct world world;
	unsigned unexpected = 0;

	open_world(&world, seed);
	world.a->rates = world.b->rates = *rates;
	prepare(&world);
	for (unsigned i = 0; i < MESSAGES; i++)
		send_message(&world, i);
	if (!sim_run(world.sim, UINT64_MAX))
		fail_msg("seed %llu: %s", (unsigned long long)seed, world.sim->failure);
	assert_int_equal(world.sent, MESSAGES);
	for (unsigned i = 0; i < MESSAGES; i++) {
		check_message(&world, i);
		unexpected += world.unexpected[i];
	}
	assert_int_equal(tag_list_behind(world.srq->tags), unexpected);
	assert_int_equal(world.right->sq.head, world.right->sq.tail);
	close_world(&world);
}

static void every_message_is_matched_once(void **state)
{
	const struct sim_rates rates = { .delay_ns = 10 * US };

	run_world(1, &rates);
}

static void also_over_a_bad_network(void **state)
{
	const struct sim_rates rates = { .loss = 30000, .duplicate = 10000, .reorder = 20000, .corrupt = 5000,
					 .delay_ns = 10 * US, .jitter_ns = 5 * US, .reorder_ns = 100 * US };

	for (uint64_t seed = 1; seed <= 100; seed++)
		run_world(seed, &rates);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_is_matched_once),
		cmocka_unit_test(also_over_a_bad_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
