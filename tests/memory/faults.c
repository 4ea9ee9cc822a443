/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that ends at any instant, is stopped, or calls exec(): the survivor gets the completions
 * that the specification names, in time; nothing hangs; and it can talk to the next one.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "pair.h"

#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
#define KILLS 10u
#else
#define KILLS 8u
#endif
#define BYTES (1u << 20)
#define DEPTH 16u

/* In traffic, behind the first BYTES: what SENDs bring (its sender's letter), where they go. */
#define SOURCE_AT BYTES
#define RECEIVE_AT (BYTES + BYTES / 2)
#define RECEIVE_BYTES 300000u
#define TRAFFIC_BYTES (RECEIVE_AT + DEPTH * RECEIVE_BYTES)
#define LETTER(side) ((side) == LEFT ? 'l' : 'r')

static uint64_t random_state;
static bool sends_alone; /* all requests are such that messages carry */

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % n;
}

/* ---- traffic ---- */

static void post_something(struct end *end, uint64_t id)
{
	static const enum ibv_wr_opcode kind[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_RDMA_WRITE_WITH_IMM,
						  IBV_WR_ATOMIC_FETCH_AND_ADD};
	static const uint32_t size[] = {8, 64, 2048, 4096, 16384, 20000, 40000, 300000};
	enum ibv_wr_opcode opcode = sends_alone ? IBV_WR_SEND : kind[random_below(5)];
	uint32_t bytes = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : size[random_below(8)];
	uint32_t at = random_below(1000) * 8 + (opcode == IBV_WR_SEND ? SOURCE_AT : 0);

	CHECK(!post(end, opcode, at, bytes, random_below(1000) * 8, id), "%m");
}

/* All of it is the other end's: whole messages, and nothing but. */
static void check_received(const struct end *end, const struct ibv_wc *wc)
{
	const char *data = end->memory + RECEIVE_AT + wc->wr_id % DEPTH * RECEIVE_BYTES;
	uint32_t i;

	if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV)
		return;
	for (i = 0; i < wc->byte_len; i++)
		CHECK(data[i] == LETTER(!end->side), "%d at %u of %u bytes", data[i], i,
		      wc->byte_len);
}

static void give_receive(struct end *end, uint64_t id)
{
	CHECK(!post_receive(end, RECEIVE_AT + id % DEPTH * RECEIVE_BYTES, RECEIVE_BYTES, id), "%m");
}

static bool is_receive(const struct ibv_wc *wc)
{
	return wc->wr_id >= 1000000;
}

/*
 * Both ends send without end and keep receives posted. What ends it is that a request fails; then
 * all that was posted has to come back: in order, the first failed, the others flushed.
 */
static unsigned run_traffic(struct end *end)
{
	uint64_t posted = 0, done = 0, received = 0, given = 0, successes = 0;
	enum ibv_wc_status first = IBV_WC_SUCCESS;
	struct ibv_wc wc;

	for (given = 0; given < DEPTH; given++)
		give_receive(end, 1000000 + given);
	memset(end->memory + SOURCE_AT, LETTER(end->side), RECEIVE_AT - SOURCE_AT);
	meet(end);
	tell(end->test, "r", 1); /* from here on one may be killed */
	for (;;) {
		while (posted - done < DEPTH && first == IBV_WC_SUCCESS)
			post_something(end, posted++);
		if (first != IBV_WC_SUCCESS && done == posted && received == given)
			return (unsigned)successes;
		CHECK(get(end, &wc, LIMIT_S),
		      "no completion: %d of %d requests, %d of %d receives, %s", (int)done,
		      (int)posted, (int)received, (int)given, ibv_wc_status_str(first));
		if (is_receive(&wc)) {
			CHECK(wc.wr_id == 1000000 + received++, "receives out of order");
			check_received(end, &wc);
			if (wc.status == IBV_WC_SUCCESS)
				give_receive(end, 1000000 + given++);
			else
				CHECK(wc.status == IBV_WC_WR_FLUSH_ERR, "receive: %s",
				      ibv_wc_status_str(wc.status));
			continue;
		}
		CHECK(wc.wr_id == done++, "requests out of order");
		successes += wc.status == IBV_WC_SUCCESS;
		if (wc.status == IBV_WC_SUCCESS)
			CHECK(first == IBV_WC_SUCCESS, "a success after a failure");
		else if (first == IBV_WC_SUCCESS)
			first = wc.status;
		else
			CHECK(wc.status == IBV_WC_WR_FLUSH_ERR, "%s", ibv_wc_status_str(wc.status));
		CHECK(first == IBV_WC_SUCCESS || first == IBV_WC_RETRY_EXC_ERR, "%s",
		      ibv_wc_status_str(first));
	}
}

static void must(struct end *end, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	enum ibv_wc_status status = transfer(end, opcode, 0, bytes, 0);

	CHECK(status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(status));
}

/* Give up soon, when the peer is killed at any moment; or later, when that is not to happen first. */
enum { SOON = 14 /* 67 ms, thrice */, LATER = 17 /* 0.5 s, thrice */ };

static void open_for_traffic(struct end *end, uint8_t timeout)
{
	end->timeout = timeout;
	end->retry_count = 2;
	end_open(end, TRAFFIC_BYTES, ALL_ACCESS);
}

static void begin_random(uint64_t seed, uint64_t more)
{
	random_state = seed + more;
	sends_alone = seed % 3 == 0;
}

static void victim(struct end *end, void *argument)
{
	open_for_traffic(end, SOON);
	begin_random((uint64_t)(uintptr_t)argument, 77);
	end_connect(end);
	run_traffic(end);
	for (;;)
		pause();
}

/* It is a child of the survivor, which opens a device of its own. */
static void talk_to_a_new_process(struct end *end)
{
	int between[2], status;
	pid_t pid;

#ifdef THREAD_SANITIZER
	return; /* it knows no threads in a child of a program with threads */
#endif
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, between), "%m");
	pid = fork();
	if (!pid) {
		struct end child = {.side = RIGHT,
				    .peer = between[1],
				    .test = -1,
				    .timeout = PATIENT,
				    .mtu = IBV_MTU_4096,
				    .rnr_retry = 7,
				    .retry_count = 7};

		close(between[0]);
		end_open(&child, BYTES, ALL_ACCESS);
		end_connect(&child);
		must(&child, IBV_WR_RDMA_READ, 100000);
		CHECK(child.memory[99999] == 'n');
		meet(&child);
		end_close(&child);
		_exit(0);
	}
	close(between[1]);
	close(end->peer);
	end->peer = between[0];
	end->timeout = PATIENT;
	end->retry_count = 7;
	memset(end->memory, 'n', BYTES);
	end_connect(end);
	must(end, IBV_WR_RDMA_WRITE, 100000);
	meet(end);
	CHECK(waitpid(pid, &status, 0) == pid && !status, "the new one: 0x%x", status);
}

static void survivor(struct end *end, void *argument)
{
	const char *mode = getenv("VERBATIM_MEMORY");
	unsigned successes;
	double begin_s;

	open_for_traffic(end, SOON);
	begin_random((uint64_t)(uintptr_t)argument, 0);
	end_connect(end);
	successes = run_traffic(end);
	if (sends_alone && successes > 8 * DEPTH && strcmp(mode, "ring") && strcmp(mode, "off"))
		CHECK(counter_here(COUNTER_LOCAL_SEND) > 0, "none of %u SENDs was a message",
		      successes);
	begin_s = now();
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	CHECK(!ibv_dereg_mr(end->mr));
	CHECK(now() - begin_s < 3, "it took %.1f s to let go", now() - begin_s);
	end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
	CHECK(end->mr, "%m");
	talk_to_a_new_process(end);
	end_close(end);
}

static bool kill_once(const char *mode, unsigned seed)
{
	struct pair pair;
	char ready;
	bool good;

	random_state = seed * 1000003u;
	pair_start(&pair, mode, survivor, victim, (void *)(uintptr_t)seed);
	good = hear(pair.socket[LEFT], &ready, 1) && hear(pair.socket[RIGHT], &ready, 1);
	usleep(random_below(15000));
	kill(pair.pid[RIGHT], SIGKILL);
	pair_wait(&pair, RIGHT, 5);
	good = pair_wait(&pair, LEFT, 60) == 0 && good;
	if (!good)
		printf("# mode %s seed %u\n", mode, seed);
	return good;
}

static bool a_peer_may_be_killed_at_any_instant(void)
{
	static const char *const mode[] = {"auto", "copy", "ring", "mapped", "off"};
	unsigned i, kills = long_run ? 400 : KILLS;

	for (i = 0; i < kills; i++)
		if (!kill_once(mode[i % 5], i))
			return false;
	return true;
}

/* ---- stopped ---- */

/* Writes without end: wherever it is stopped, it most likely names a key of ours. */
static void writer(struct end *end, void *argument)
{
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	tell(end->test, "r", 1);
	for (i = 0;; i++) {
		enum ibv_wc_status status = transfer(
			end, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, BYTES / 2, 0);

		if (status)
			break;
	}
	tell(end->test, "e", 1);
	(void)hear(end->peer, &i, 1);
}

/*
 * Meanwhile the survivor deregisters what it writes to: that returns when it goes on, or after a second
 * if it does not (then 'D' is told before it goes on).
 */
static void written(struct end *end, void *argument)
{
	struct ibv_mr *other;
	double begin_s;
	char go;
	uint32_t i;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	tell(end->test, "r", 1);
	CHECK(hear(end->test, &go, 1)); /* it is stopped now */
	/* Nothing else is held up: registering, destroying, other queue pairs. */
	begin_s = now();
	other = ibv_reg_mr(end->pd, &go, 1, ALL_ACCESS);
	CHECK(other && !ibv_dereg_mr(other));
	CHECK(now() - begin_s < 1, "%.1f s", now() - begin_s);
	tell(end->test, "d", 1);
	CHECK(!ibv_dereg_mr(end->mr));
	CHECK(now() - begin_s < 3, "%.1f s", now() - begin_s);
	end->mr = NULL;
	memset(end->memory, 0, BYTES);
	tell(end->test, "D", 1);
	CHECK(hear(end->test, &go, 1)); /* it goes on, and has failed */
	for (i = 0; i < BYTES; i++)
		CHECK(!end->memory[i], "byte %u was written after deregistration", i);
	close(end->peer);
	end_close(end);
}

static bool stop_once(const char *mode, unsigned seed, bool goes_on)
{
	struct pair pair;
	char byte;
	bool good;

	random_state = seed * 7919u;
	pair_start(&pair, mode, written, writer, NULL);
	good = hear(pair.socket[LEFT], &byte, 1) && hear(pair.socket[RIGHT], &byte, 1);
	usleep(2000 + random_below(8000));
	pair_stop(&pair, RIGHT);
	tell(pair.socket[LEFT], "s", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1) && byte == 'd';
	usleep(20000);
	if (goes_on)
		kill(pair.pid[RIGHT], SIGCONT);
	good = good && hear(pair.socket[LEFT], &byte, 1) && byte == 'D';
	kill(pair.pid[RIGHT], SIGCONT);
	good = good && hear(pair.socket[RIGHT], &byte, 1) && byte == 'e';
	tell(pair.socket[LEFT], "g", 1);
	good = pair_end(&pair, 30) && good;
	if (!good)
		printf("# mode %s seed %u%s\n", mode, seed, goes_on ? "" : ", long stopped");
	return good;
}

static bool no_byte_is_written_after_deregistration(void)
{
	static const char *const mode[] = {"auto", "copy", "mapped", "ring", "off"};
	unsigned i, stops = long_run ? 200 : 6;

	for (i = 0; i < stops; i++)
		if (!stop_once(mode[i % 5], i, true))
			return false;
	return true;
}

/*
 * A block is left to the peer that maps it: what one writes that was stopped in the middle goes there
 * still. Nothing else is written.
 */
static bool nor_by_who_is_stopped_for_longer_than_it_waits(void)
{
	static const char *const mode[] = {"auto", "copy", "auto", "ring"};
	unsigned i, stops = long_run ? 60 : 6;

	for (i = 0; i < stops; i++)
		if (!stop_once(mode[i % 4], i, false))
			return false;
	return true;
}

/* ---- exec ---- */

static void becomes_another(struct end *end, void *argument)
{
	unsigned i;

	open_for_traffic(end, LATER);
	end_connect(end);
	for (i = 0; i < 100; i++)
		must(end, IBV_WR_RDMA_WRITE, 1000);
	for (i = 0; i < 16; i++)
		CHECK(!post_receive(end, 0, BYTES, i), "%m");
	meet(end);
	execl("/bin/sleep", "sleep", "30", NULL);
	CHECK(false, "%m");
}

static void stays(struct end *end, void *argument)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	double until = now() + LIMIT_S;
	char byte;

	open_for_traffic(end, LATER);
	end_connect(end);
	meet(end);
	CHECK(!hear(end->peer, &byte, 1)); /* closed by exec() */
	/* Pages that it shared are there until its hang-up is seen: as if it had ended a bit later.
	 */
	while (status == IBV_WC_SUCCESS && now() < until)
		status = transfer(end, argument ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 0, 100000, 0);
	CHECK(status == IBV_WC_RETRY_EXC_ERR, "%s", ibv_wc_status_str(status));
	talk_to_a_new_process(end);
	end_close(end);
	tell(end->test, "x", 1);
}

static bool a_peer_may_call_exec(void)
{
	static const char *const mode[] = {"mapped", "copy", "ring"};
	unsigned i;

	/* Each mode, each opcode; all six in the long run. */
	for (i = 0; i < 6; i += long_run ? 1 : 2) {
		struct pair pair;
		int status;

		pair_start(&pair, mode[i % 3], stays, becomes_another, i < 3 ? NULL : &pair);
		status = pair_wait(&pair, LEFT, 60);
		kill(pair.pid[RIGHT], SIGKILL);
		pair_wait(&pair, RIGHT, 5);
		if (status) {
			printf("# mode %s, %s: 0x%x\n", mode[i % 3], i < 3 ? "WRITE" : "SEND",
			       status);
			return false;
		}
	}
	return true;
}

/* ---- a peer forks ---- */

static void forks(struct end *end, void *argument)
{
	int status, i;
	pid_t pid;

	open_for_traffic(end, LATER);
	end_connect(end);
	memset(end->memory, 3, BYTES);
	for (i = 0; i < 5; i++) {
		pid = fork();
		if (!pid) {
			memset(end->memory, 9, BYTES);
			_exit(0); /* its end is not the peer's */
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
		meet(end);
		must(end, IBV_WR_SEND, i % 2 ? 1000 : BYTES);
		meet(end);
	}
	pid = fork();
	if (!pid) {
		sleep(30); /* the parent's end is not put off by it */
		_exit(0);
	}
	tell(end->test, &pid, sizeof(pid));
	meet(end);
	raise(SIGKILL);
}

static void sees_forks(struct end *end, void *argument)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct ibv_wc wc;
	double until;
	uint32_t k;
	int i;

	open_for_traffic(end, LATER);
	end_connect(end);
	for (i = 0; i < 5; i++) {
		memset(end->memory, 0, 2 * BYTES);
		CHECK(!post_receive(end, BYTES, BYTES, 7), "%m");
		meet(end);
		CHECK(get(end, &wc, LIMIT_S) && wc.wr_id == 7 && wc.status == IBV_WC_SUCCESS);
		must(end, IBV_WR_RDMA_READ, BYTES);
		for (k = 0; k < BYTES; k++) {
			CHECK(end->memory[k] == 3);
			CHECK(k >= wc.byte_len || end->memory[BYTES + k] == 3);
		}
		meet(end);
	}
	meet(end);
	until = now() + LIMIT_S;
	while (status == IBV_WC_SUCCESS && now() < until)
		status = transfer(end, IBV_WR_RDMA_WRITE, 0, 1000, 0);
	CHECK(status == IBV_WC_RETRY_EXC_ERR, "%s", ibv_wc_status_str(status));
	CHECK(!ibv_dereg_mr(end->mr));
	end->mr = NULL;
	end_close(end);
}

static bool a_peer_may_fork(void)
{
	static const char *const mode[] = {"mapped", "copy", "ring"};
	unsigned i;

	for (i = 0; i < 3; i++) {
		struct pair pair;
		pid_t left_over = 0;
		int status;

		pair_start(&pair, mode[i], sees_forks, forks, NULL);
		hear(pair.socket[RIGHT], &left_over, sizeof(left_over));
		status = pair_wait(&pair, LEFT, 60);
		if (left_over > 0)
			kill(left_over, SIGKILL);
		pair_wait(&pair, RIGHT, 5);
		if (status) {
			printf("# mode %s: 0x%x\n", mode[i], status);
			return false;
		}
	}
	return true;
}

/* ---- a queue pair that is gone ---- */

#define GONE_TIMEOUT	15u	/* 134 ms, and once more */

/* Its process lives: it has received what it wanted, and destroyed the queue pair. */
static void has_received(struct end *end, void *argument)
{
	struct ibv_wc wc;
	char byte;

	end_open(end, 4096, ALL_ACCESS);
	end_connect(end);
	CHECK(!post_receive(end, 0, 64, 1), "%m");
	meet(end);
	CHECK(get(end, &wc, LIMIT_S) && !wc.status, "the first message");
	meet(end);
	CHECK(!ibv_destroy_qp(end->qp), "%m");
	end->qp = NULL;
	meet(end);
	CHECK(hear(end->peer, &byte, 1));
	end_close(end);
}

/* An adapter is silent about it: who ends meanwhile, as this one may, never learns of it. */
static void sends_once_more(struct end *end, void *argument)
{
	const enum ibv_wr_opcode opcode = *(enum ibv_wr_opcode *)argument;
	struct ibv_wc wc;
	double begin, took;

	end->timeout = GONE_TIMEOUT;
	end->retry_count = 1;
	end_open(end, 4096, ALL_ACCESS);
	end_connect(end);
	meet(end);
	CHECK(!transfer(end, IBV_WR_SEND, 0, 8, 0), "the first message");
	meet(end);
	meet(end);
	begin = now();
	CHECK(!post(end, opcode, 0, 8, 0, 2), "%m");
	CHECK(get(end, &wc, LIMIT_S), "no completion");
	took = now() - begin;
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR, "%s", ibv_wc_status_str(wc.status));
	CHECK(took > 2 * 4.096e-6 * (1 << GONE_TIMEOUT), "given up after %.3f s", took);
	tell(end->peer, "g", 1);
	end_close(end);
}

static bool a_queue_pair_that_is_gone_is_given_up_after_the_timeouts(void)
{
	enum ibv_wr_opcode opcode = IBV_WR_SEND;
	bool good = pair_run_in_each_mode(sends_once_more, has_received, &opcode, 30);

	opcode = IBV_WR_RDMA_WRITE;
	return pair_run_in_each_mode(sends_once_more, has_received, &opcode, 30) && good;
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(a_peer_may_be_killed_at_any_instant),
		TEST(no_byte_is_written_after_deregistration),
		TEST(nor_by_who_is_stopped_for_longer_than_it_waits),
		TEST(a_queue_pair_that_is_gone_is_given_up_after_the_timeouts),
		TEST(a_peer_may_call_exec),
		TEST(a_peer_may_fork),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
