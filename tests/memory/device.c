/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory (ibv_alloc_dm(3)) of one process, used by another: WRITE, READ and atomics into it,
 * SENDs from and to it, in each mode of the memory path. Regions that are the whole of it are mapped by
 * peers, however many threads the application has; others go by copies, rings or packets.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pair.h"

#define BYTES	50000u
#define SKIP	1000u	/* where a region begins that is a part: no page's beginning */
#define DM_RIGHTS (ALL_ACCESS | IBV_ACCESS_ZERO_BASED)

/* Memory of the left end's device, with a region in it. */
struct held {
	struct ibv_dm *dm;
	struct ibv_mr *mr;
};

static struct held hold(struct end *end, size_t bytes, uint64_t skip, size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = bytes, .log_align_req = 3};
	struct held held = {.dm = ibv_alloc_dm(end->context, &attr)};

	CHECK(held.dm, "%m");
	held.mr = ibv_reg_dm_mr(end->pd, held.dm, skip, length, DM_RIGHTS);
	CHECK(held.mr, "%m");
	return held;
}

static void let_go(struct held *held)
{
	CHECK(!ibv_dereg_mr(held->mr));
	CHECK(!ibv_free_dm(held->dm));
}

struct plan {
	bool whole; /* the region is all of the device memory */
	bool threads;
};

static struct held hold_as(struct end *end, const struct plan *plan)
{
	return plan->whole ? hold(end, BYTES, 0, BYTES) : hold(end, 2 * BYTES, SKIP, BYTES);
}

/* Is a region mapped by peers in this mode? */
static bool is_mapped(const struct plan *plan)
{
	const char *mode = getenv("VERBATIM_MEMORY");

	return plan->whole && (!strcmp(mode, "auto") || !strcmp(mode, "mapped"));
}

/* Of the other end's device memory, besides our own. */
static void await_mappings(const struct end *end, unsigned count, double limit_s)
{
	double until_s = now() + limit_s;
	unsigned lines;

	while ((lines = map_lines(BLOCK_MAPPING) - end->has_blocks) != count) {
		CHECK(now() < until_s, "%u blocks are mapped and not %u", lines, count);
		usleep(1000);
	}
}

/* ---- one-sided ---- */

static void *sleep_long(void *unused)
{
	pause();
	return unused;
}

static uint8_t byte_at(size_t at, unsigned round)
{
	return (uint8_t)(at * 13 + at / 251 + round * 59 + 1);
}

static void check_held(const struct held *held, uint64_t skip, unsigned round)
{
	static uint8_t bytes[BYTES];
	size_t at;

	CHECK(!ibv_memcpy_from_dm(bytes, held->dm, skip, BYTES));
	for (at = 0; at < BYTES; at++)
		CHECK(bytes[at] == byte_at(at, round), "byte %zu: %u", at, bytes[at]);
}

static void target(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	uint64_t sum, skip = plan->whole ? 0 : SKIP;
	struct held held;
	pthread_t thread;

	if (plan->threads)
		CHECK(!pthread_create(&thread, NULL, sleep_long, NULL));
	end_open(end, 0, 0);
	held = hold_as(end, plan);
	end->mr = held.mr;	/* of which end_exchange() tells the key; addresses begin at 0 */
	end_connect(end);
	meet(end);
	check_held(&held, skip, 1);
	CHECK(!counter_here(COUNTER_MAPPED_REGIONS) == !is_mapped(plan), "%llu mapped",
	      (unsigned long long)counter_here(COUNTER_MAPPED_REGIONS));
	/* Now the other way. */
	CHECK(!ibv_memcpy_to_dm(held.dm, skip, "device", 7));
	meet(end);
	meet(end);
	CHECK(!ibv_memcpy_from_dm(&sum, held.dm, skip + 8, 8));
	CHECK(sum == 42, "%llu", (unsigned long long)sum);
	end->mr = NULL;
	let_go(&held);
	meet(end);
	meet(end);
	end_close(end);
}

static enum ibv_wc_status atomic(struct end *end, enum ibv_wr_opcode opcode, uint64_t compare_add,
				 uint64_t swap)
{
	struct ibv_sge sge = {.addr = (uintptr_t)end->memory, .length = 8, .lkey = end->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	wr.wr.atomic.remote_addr = 8;
	wr.wr.atomic.rkey = end->there.rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	CHECK(!ibv_post_send(end->qp, &wr, &bad));
	CHECK(get(end, &wc, LIMIT_S));
	return wc.status;
}

/* The key is asked for behind the first request; until the answer is there packets go. */
static void write_again_and_again(struct end *end)
{
	unsigned i;

	for (i = 0; i < 200; i++)
		CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 7, 0) == IBV_WC_SUCCESS);
}

static void accessor(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	uint64_t *value;
	size_t at;

	end_open(end, BYTES, ALL_ACCESS);
	value = (uint64_t *)end->memory;
	end_connect(end);
	for (at = 0; at < BYTES; at++)
		end->memory[at] = (char)byte_at(at, 1);
	write_again_and_again(end);
	await_mappings(end, is_mapped(plan), LIMIT_S);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 7, BYTES - 7, 7) == IBV_WC_SUCCESS);
	memset(end->memory, 0, BYTES);
	CHECK(transfer(end, IBV_WR_RDMA_READ, 0, BYTES, 0) == IBV_WC_SUCCESS);
	for (at = 0; at < BYTES; at++)
		CHECK((uint8_t)end->memory[at] == byte_at(at, 1));
	meet(end);
	meet(end);
	CHECK(transfer(end, IBV_WR_RDMA_READ, 0, 7, 0) == IBV_WC_SUCCESS);
	CHECK(!strcmp(end->memory, "device"));
	*value = 40;
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 8) == IBV_WC_SUCCESS);
	CHECK(atomic(end, IBV_WR_ATOMIC_CMP_AND_SWP, 40, 41) == IBV_WC_SUCCESS && *value == 40);
	CHECK(atomic(end, IBV_WR_ATOMIC_CMP_AND_SWP, 40, 99) == IBV_WC_SUCCESS && *value == 41);
	CHECK(atomic(end, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0) == IBV_WC_SUCCESS && *value == 41);
	CHECK(!counter_here(COUNTER_LOCAL_ATOMIC) == !is_mapped(plan), "%llu atomics",
	      (unsigned long long)counter_here(COUNTER_LOCAL_ATOMIC));
	meet(end);
	meet(end);
	/* It is gone, and so is our mapping. */
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_REM_ACCESS_ERR);
	await_mappings(end, 0, 2);
	meet(end);
	end_close(end);
}

static const char *const modes[] = {"auto", "mapped", "copy", "ring", "off"};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static bool in_each_mode(bool whole)
{
	struct plan plan = {.whole = whole};
	bool good = true;
	unsigned i;

	for (i = 0; i < MODES && good; i++)
		good = pair_run(modes[i], target, accessor, &plan, LIMIT_S);
	return good;
}

static bool peers_write_read_and_change_all_of_it(void)
{
	return in_each_mode(true);
}

static bool peers_write_read_and_change_a_part_of_it(void)
{
	return in_each_mode(false);
}

static bool threads_do_not_keep_it_from_being_mapped(void)
{
	struct plan plan = {.whole = true, .threads = true};

	return pair_run("auto", target, accessor, &plan, LIMIT_S);
}

/* ---- bounds: the region, not its pages ---- */

static void narrow_target(struct end *end, void *argument)
{
	struct held held;
	uint8_t bytes[128];
	unsigned i;

	end_open(end, 0, 0);
	held = hold(end, 8192, 64, 32);
	end->mr = held.mr;
	end_connect(end);
	meet(end);
	end_connect(end);
	meet(end);
	CHECK(!ibv_memcpy_from_dm(bytes, held.dm, 0, sizeof(bytes)));
	for (i = 0; i < sizeof(bytes); i++)
		CHECK(bytes[i] == (i >= 64 && i < 96 ? 7 : 0), "byte %u: %u", i, bytes[i]);
	end->mr = NULL;
	let_go(&held);
	end_close(end);
}

static void narrow_accessor(struct end *end, void *argument)
{
	end_open(end, 64, ALL_ACCESS);
	memset(end->memory, 7, 64);
	end_connect(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 32, 0) == IBV_WC_SUCCESS);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 33, 0) == IBV_WC_REM_ACCESS_ERR);
	meet(end);
	end_connect(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, (size_t)-8) == IBV_WC_REM_ACCESS_ERR);
	meet(end);
	end_close(end);
}

static bool what_lies_beside_a_region_is_out_of_reach(void)
{
	bool good = true;
	unsigned i;

	for (i = 0; i < MODES && good; i++)
		good = pair_run(modes[i], narrow_target, narrow_accessor, NULL, LIMIT_S);
	return good;
}

/* ---- as local memory ---- */

static void sends(struct end *end, void *argument)
{
	uint64_t skip = ((const struct plan *)argument)->whole ? 0 : SKIP;
	struct held held;
	uint8_t bytes[BYTES];
	struct ibv_wc wc;
	unsigned round;
	size_t at;

	end_open(end, 0, 0);
	held = hold_as(end, argument);
	end->mr = held.mr;
	end_connect(end);
	for (round = 0; round < 4; round++) {
		bool mine = (round + (end->side == LEFT)) % 2;

		if (mine) {
			for (at = 0; at < BYTES; at++)
				bytes[at] = byte_at(at, round);
			CHECK(!ibv_memcpy_to_dm(held.dm, skip, bytes, BYTES));
			meet(end);
			CHECK(transfer(end, IBV_WR_SEND, 0, BYTES, 0) == IBV_WC_SUCCESS);
		} else {
			CHECK(!post_receive(end, 0, BYTES, round));
			meet(end);
			CHECK(get(end, &wc, LIMIT_S) && wc.status == IBV_WC_SUCCESS);
			CHECK(wc.byte_len == BYTES);
			check_held(&held, skip, round);
		}
	}
	meet(end);
	end->mr = NULL;
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	let_go(&held);
	end_close(end);
}

static bool messages_come_from_it_and_go_to_it(void)
{
	struct plan plan;
	bool good = true;
	unsigned i;

	for (i = 0; i < 2 * MODES && good; i++) {
		plan = (struct plan){.whole = i % 2};
		good = pair_run(modes[i / 2], sends, sends, &plan, LIMIT_S);
	}
	return good;
}

/* ---- fork, faults ---- */

static void forks(struct end *end, void *argument)
{
	char *gone = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct held held;
	int go[2], status;
	char byte;
	pid_t pid;

	CHECK(!pipe(go));
	end_open(end, 0, 0);
	held = hold(end, BYTES, 0, BYTES);
	CHECK(!ibv_memcpy_to_dm(held.dm, 0, "a", 1));
	end->mr = held.mr;
	end_connect(end);
	pid = fork();
	if (!pid) {
		CHECK(!map_lines(BLOCK_MAPPING) && !map_lines(CHANNEL_MAPPING));
		CHECK(read(go[0], &byte, 1) == 1);	/* the peer has written */
		CHECK(!ibv_memcpy_from_dm(&byte, held.dm, 0, 1) && byte == 'a');
		CHECK(!ibv_memcpy_to_dm(held.dm, 0, "c", 1));
		CHECK(ibv_free_dm(held.dm) == EIO);
		_exit(0);
	}
	meet(end);
	meet(end);
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && !status, "0x%x", status);
	CHECK(!ibv_memcpy_from_dm(&byte, held.dm, 0, 1) && byte == 'b');
#if defined(__x86_64__)
	CHECK(ibv_memcpy_to_dm(held.dm, 0, gone, BYTES) == EFAULT);
	CHECK(ibv_memcpy_from_dm(gone, held.dm, 0, BYTES) == EFAULT);
#endif
	munmap(gone, BYTES);
	end->mr = NULL;
	let_go(&held);
	end_close(end);
}

static void writes_b(struct end *end, void *argument)
{
	end_open(end, 64, ALL_ACCESS);
	end->memory[0] = 'b';
	end_connect(end);
	meet(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 1, 0) == IBV_WC_SUCCESS);
	meet(end);
	end_close(end);
}

static bool a_child_has_a_copy_of_its_own(void)
{
	return pair_run("auto", forks, writes_b, NULL, LIMIT_S) &&
	       pair_run("copy", forks, writes_b, NULL, LIMIT_S);
}

/* ---- what statistics say ---- */

/* One end's memory is a block; the other writes to it, and looks at itself. */
static void is_written(struct end *end, void *argument)
{
	struct held held;

	end_open(end, 0, 0);
	held = hold(end, BYTES, 0, BYTES);
	end->mr = held.mr;
	end_connect(end);
	meet(end);
	end->mr = NULL;
	let_go(&held);
	end_close(end);
}

static void writes_and_looks(struct end *end, void *argument)
{
	const char *mode = getenv("VERBATIM_MEMORY"), *expected, *why, *way;
	double until_s = now() + LIMIT_S;

	expected = !strcmp(mode, "off") ? "udp" :
		   !strcmp(mode, "copy") ? "copied" :
		   !strcmp(mode, "ring") ? "ring" : "mapped";
	end_open(end, 64, ALL_ACCESS);
	end_connect(end);
	do {
		CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 64, 0) == IBV_WC_SUCCESS);
		way = way_here(&why);
		CHECK(now() < until_s, "%s (%s) and not %s", way, why, expected);
	} while (strcmp(way, expected));
	CHECK(!*why == !strcmp(expected, "mapped"), "'%s'", why);
	meet(end);
	end_close(end);
}

static bool statistics_say_where_requests_go(void)
{
	return pair_run_in_each_mode(is_written, writes_and_looks, NULL, LIMIT_S);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(peers_write_read_and_change_all_of_it),
		TEST(peers_write_read_and_change_a_part_of_it),
		TEST(threads_do_not_keep_it_from_being_mapped),
		TEST(what_lies_beside_a_region_is_out_of_reach),
		TEST(messages_come_from_it_and_go_to_it),
		TEST(a_child_has_a_copy_of_its_own),
		TEST(statistics_say_where_requests_go),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
