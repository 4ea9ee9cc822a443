/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer whose process is stopped, as by a debugger: an adapter goes on for it. So nothing fails while it is
 * stopped, however short timeout and retry_cnt are; when it goes on all arrives, and when it is killed the
 * requests fail. In every mode; cold: the two have not spoken before; warm: they have for a while.
 */
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#define BYTES	(1u << 20)
#define LIMIT_S	60
#define STOPPED_S 3.5
#define SHORT_TIMEOUT 8		/* 1 ms: the least that the library takes is far more than that */
#define RECEIVES 32
#define AT_THERE 512		/* what is written to, and read from */

struct course {
	bool warm, killed;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
};

/* On return all of its threads are. */
static void stop(pid_t pid)
{
	siginfo_t info;

	kill(pid, SIGSTOP);
	waitid(P_PID, (id_t)pid, &info, WSTOPPED);
}

static double processor_s(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static void open_with_receives(struct end *end)
{
	unsigned i;

	end->timeout = SHORT_TIMEOUT;
	end->retry_count = 1;
	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_exchange(end);
	end_raise(end, IBV_QPS_RTS);
	for (i = 0; i < RECEIVES; i++)
		CHECK(!post_receive(end, BYTES / 2, BYTES / 2, i), "%m");
	meet(end);
}

static void stopped(struct end *end, void *argument)
{
	const struct course *course = argument;
	struct ibv_wc wc;
	char byte;

	open_with_receives(end);
	memset(end->memory + AT_THERE, 'r', course->bytes);
	meet(end);
	CHECK(hear(end->peer, &byte, 1)); /* it has gone on, and all has been sent */
	if (course->opcode == IBV_WR_SEND) {
		CHECK(get(end, &wc, LIMIT_S), "no message");
		CHECK(!wc.status && wc.byte_len == course->bytes, "%s", ibv_wc_status_str(wc.status));
		CHECK(end->memory[BYTES / 2] == 's' && end->memory[BYTES / 2 + course->bytes - 1] == 's');
	} else if (course->opcode == IBV_WR_RDMA_WRITE) {
		CHECK(end->memory[AT_THERE] == 's' && end->memory[AT_THERE + course->bytes - 1] == 's');
	}
	CHECK(!get(end, &wc, 0.02), "one too many: %s", ibv_wc_status_str(wc.status));
	meet(end);
	end_close(end);
}

static void warm_up(struct end *end)
{
	double until_s = now() + 0.5;

	while (now() < until_s)
		CHECK(!transfer(end, IBV_WR_RDMA_WRITE, 0, 8, BYTES / 4));
}

static void speaks_to_one_that_is_stopped(struct end *end, void *argument)
{
	const struct course *course = argument;
	double used_s;
	struct ibv_wc wc;
	bool done;
	char byte;

	open_with_receives(end);
	meet(end);
	if (course->warm)
		warm_up(end);
	tell(end->test, "s", 1);
	CHECK(hear(end->test, &byte, 1)); /* it is stopped */
	memset(end->memory, 's', course->bytes);
	CHECK(!post(end, course->opcode, 0, course->bytes, AT_THERE, 7), "%m");
	done = get(end, &wc, 0.5);
	used_s = processor_s();
	if (!done) {
		/* Nobody polls: whoever waits costs nothing. */
		usleep((useconds_t)(STOPPED_S * 1e6));
		used_s = processor_s() - used_s;
		CHECK(used_s < 0.05 * STOPPED_S, "%.3f s of the processor", used_s);
		done = get(end, &wc, 0);
	}
	CHECK(!done || !wc.status, "failed: %s", ibv_wc_status_str(wc.status));
	tell(end->test, done ? "d" : "w", 1);
	CHECK(hear(end->test, &byte, 1)); /* it has gone on, or was killed */
	if (!done) {
		CHECK(get(end, &wc, course->killed ? 10 : LIMIT_S), "nothing, in the end");
		CHECK(wc.status == (course->killed ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS), "%s",
		      ibv_wc_status_str(wc.status));
	}
	if (course->opcode == IBV_WR_RDMA_READ && !wc.status)
		CHECK(end->memory[0] == 'r' && end->memory[course->bytes - 1] == 'r');
	if (course->killed) {
		_exit(0);
	}
	tell(end->peer, "g", 1);
	meet(end);
	end_close(end);
}

/* False: it failed. *done: the request was completed meanwhile. */
static bool stop_once(const char *mode, const struct course *course, bool *done)
{
	struct course copy = *course;
	struct pair pair;
	char byte = 0;
	bool good;

	pair_start(&pair, mode, speaks_to_one_that_is_stopped, stopped, &copy);
	good = hear(pair.socket[LEFT], &byte, 1);
	stop(pair.pid[RIGHT]);
	if (good)
		tell(pair.socket[LEFT], "t", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	*done = byte == 'd';
	kill(pair.pid[RIGHT], course->killed ? SIGKILL : SIGCONT);
	if (good)
		tell(pair.socket[LEFT], "g", 1);
	if (course->killed) {
		good = pair_wait(&pair, LEFT, 30) == 0 && good;
		pair_wait(&pair, RIGHT, 30);
	} else {
		good = pair_end(&pair, 30) && good;
	}
	if (!good)
		printf("# mode %s, opcode %d of %u bytes, %s%s\n", mode, course->opcode, course->bytes,
		       course->warm ? "warm" : "cold", course->killed ? ", killed" : "");
	return good;
}

static const char *const modes[] = {"auto", "mapped", "copy", "ring", "off"};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static bool cold_requests_wait_until_it_goes_on(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct course course = {.bytes = 3000};
	bool done;
	unsigned i;

	for (i = 0; i < MODES; i++) {
		course.opcode = opcodes[i % 3];
		if (!stop_once(modes[i], &course, &done) || done)
			return false;
	}
	return true;
}

static bool warm_writes_and_reads_are_done_meanwhile(void)
{
	struct course course = {.bytes = 3000, .warm = true};
	unsigned i;
	bool done;

	for (i = 0; i < 6; i++) {
		course.opcode = i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		if (!stop_once(modes[i / 2], &course, &done) || !done)
			return false;
	}
	return true;
}

static bool who_is_killed_then_fails_the_request_soon(void)
{
	struct course course = {.bytes = 64, .killed = true, .opcode = IBV_WR_RDMA_WRITE};
	unsigned i;
	bool done;

	for (i = 0; i < MODES; i++)
		if (!stop_once(modes[i], &course, &done) || done)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
#define TEST(name) {#name, name}
		TEST(cold_requests_wait_until_it_goes_on),
		TEST(warm_writes_and_reads_are_done_meanwhile),
		TEST(who_is_killed_then_fails_the_request_soon),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
