/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer whose process is stopped, as by a debugger: an adapter goes on for it. So nothing fails while it is
 * stopped, however short timeout and retry_cnt are; when it goes on all arrives, and when it is killed the
 * requests fail. In every mode; cold: the two have not spoken before; warm: they have for a while.
 */
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define BYTES	(1u << 20)

#define STOPPED_S (long_run ? 3.5 : 1.5)
/* 134 ms, three times: far less than it is stopped, and time to answer on a busy machine. */
#define SHORT_TIMEOUT 15
#define RECEIVES 31	/* the last SEND is of no bytes: only that it has no receive keeps it */
#define AT_THERE 512		/* what is written to, and read from */

struct course {
	bool warm, killed;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
};

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
	end->retry_count = 2;
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
	pair_stop(&pair, RIGHT);
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

/* ---- SENDs to a process that is stopped ---- */

#define SIZES 5
static const uint32_t sizes[SIZES] = {0, 8, 64, 2000, 30000};
#define SLOT (32u << 10)

enum way_out { GOES_ON, SENDER_LEAVES, TOO_SHORT, NO_KEY };

static uint32_t size_of(unsigned number)
{
	return sizes[number % SIZES];
}

/* One SEND each way to begin with, so that both ends agree on messages; each receive has a slot of its own. */
static void warm_sends(struct end *end)
{
	struct ibv_wc wc;
	unsigned i;

	for (i = 0; i < 16; i++) {
		if (end->side == RIGHT)
			CHECK(!post_receive(end, 0, 64, i), "%m");
		meet(end);
		if (end->side == LEFT)
			CHECK(!post(end, IBV_WR_SEND, 0, 8, 0, i), "%m");
		CHECK(get(end, &wc, LIMIT_S) && !wc.status, "%s", ibv_wc_status_str(wc.status));
		usleep(2000);
	}
}

static int post_receive_of(struct end *end, unsigned slot, uint32_t bytes, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)end->memory + SLOT * slot, bytes, lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

static void stopped_with_receives(struct end *end, void *argument)
{
	const enum way_out way_out = *(enum way_out *)argument;
	struct ibv_wc wc;
	unsigned i, k;
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	for (i = 0; i < RECEIVES - 1; i++)
		CHECK(!post_receive_of(end, i, i == 1 && way_out == TOO_SHORT ? 4 : SLOT,
				       i == 1 && way_out == NO_KEY ? 0xdead : end->mr->lkey), "%m");
	meet(end);
	CHECK(hear(end->peer, &byte, 1)); /* it has gone on */
	CHECK(!post_receive_of(end, i, SLOT, end->mr->lkey), "%m");
	for (i = 0; i < RECEIVES; i++) {
		CHECK(get(end, &wc, LIMIT_S), "%u messages", i);
		if (i == 1 && (way_out == TOO_SHORT || way_out == NO_KEY)) {
			CHECK(wc.status == (way_out == TOO_SHORT ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR),
			      "%s", ibv_wc_status_str(wc.status));
			break;
		}
		CHECK(!wc.status, "%u: %s", i, ibv_wc_status_str(wc.status));
		CHECK(wc.wr_id == i && wc.byte_len == size_of(i), "%u: %u bytes", i, wc.byte_len);
		for (k = 0; k < wc.byte_len; k++)
			CHECK(end->memory[SLOT * i + k] == (char)(i + 1), "message %u, byte %u", i, k);
		/* The last but one were completed to one that may have ended. */
		if (way_out == SENDER_LEAVES && i == RECEIVES - 2)
			break;
	}
	if (way_out == GOES_ON)
		meet(end);
	end_close(end);
}

static void sends_to_stopped(struct end *end, void *argument)
{
	const enum way_out way_out = *(enum way_out *)argument;
	const unsigned sure = way_out == TOO_SHORT || way_out == NO_KEY ? 1 : RECEIVES - 1;
	struct ibv_wc wc;
	unsigned i;
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	meet(end);
	tell(end->test, "s", 1);
	CHECK(hear(end->test, &byte, 1)); /* it is stopped */
	for (i = 0; i < sure; i++) {
		memset(end->memory, (char)(i + 1), SLOT);
		CHECK(!post(end, IBV_WR_SEND, 0, size_of(i), 0, i), "%m");
		CHECK(get(end, &wc, 10), "SEND %u to a stopped process", i);
		CHECK(!wc.status && wc.wr_id == i, "%u: %s", i, ibv_wc_status_str(wc.status));
	}
	memset(end->memory, 0xee, SLOT);
	CHECK(counter_here(COUNTER_MESSAGE_EARLY) == sure, "%llu",
	      (unsigned long long)counter_here(COUNTER_MESSAGE_EARLY));
	if (way_out != SENDER_LEAVES) {
		/* What it has no receive for, or would refuse, is not completed. A READ comes behind. */
		memset(end->memory, (char)(i + 1), SLOT);
		CHECK(!post(end, IBV_WR_SEND, 0, size_of(i), 0, i), "%m");
		CHECK(!post(end, IBV_WR_RDMA_READ, SLOT, 8, SLOT, RECEIVES), "%m");
		CHECK(!get(end, &wc, 0.7), "%llu: %s", (unsigned long long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
	} else {
		CHECK(!ibv_destroy_qp(end->qp), "%m");
		end->qp = NULL;
		end_close(end);
	}
	tell(end->test, "c", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	tell(end->peer, "g", 1);
	if (way_out == SENDER_LEAVES)
		return;
	CHECK(get(end, &wc, LIMIT_S) && wc.wr_id == i, "nothing");
	CHECK(wc.status == (way_out == TOO_SHORT ? IBV_WC_REM_INV_REQ_ERR :
			    way_out == NO_KEY	 ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS), "%s",
	      ibv_wc_status_str(wc.status));
	if (way_out == GOES_ON) {
		CHECK(get(end, &wc, LIMIT_S) && !wc.status && wc.wr_id == RECEIVES, "the READ");
		CHECK(end->memory[SLOT] == 2, "the READ has overtaken the SEND before it");
		meet(end);
	}
	end_close(end);
}

/* RIGHT is stopped where it listens to LEFT: from when LEFT is ready until it has done. */
static bool stop_right(const char *mode, void (*left)(struct end *, void *), void (*right)(struct end *, void *),
		       void *argument)
{
	struct pair pair;
	bool good;
	char byte;

	pair_start(&pair, mode, left, right, argument);
	good = hear(pair.socket[LEFT], &byte, 1);
	pair_stop(&pair, RIGHT);
	if (good)
		tell(pair.socket[LEFT], "t", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	kill(pair.pid[RIGHT], SIGCONT);
	if (good)
		tell(pair.socket[LEFT], "g", 1);
	good = pair_end(&pair, 30) && good;
	if (!good)
		printf("# mode %s\n", mode);
	return good;
}

static bool send_to_stopped(const char *mode, enum way_out way_out)
{
	bool good = stop_right(mode, sends_to_stopped, stopped_with_receives, &way_out);

	if (!good)
		printf("# way %d\n", way_out);
	return good;
}

/* ---- WRITEs behind SENDs, and with immediate, to a process that is stopped ---- */

#define MIXED 24u

static enum ibv_wr_opcode mixed_opcode(unsigned number)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE};

	return opcodes[number % 4];
}

/* Each has a slot: WRITEs of what they write; receives are consumed in order. */
static void stopped_and_written_to(struct end *end, void *argument)
{
	const bool without_right = *(bool *)argument;
	unsigned access = without_right ? ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE : ALL_ACCESS;
	unsigned i, receives = 0;
	struct ibv_wc wc;
	char byte;

	end_open(end, SLOT * RECEIVES, access);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	memset(end->memory, 0, SLOT * RECEIVES);
	for (i = 0; i < MIXED; i++)
		if (mixed_opcode(i) != IBV_WR_RDMA_WRITE)
			CHECK(!post_receive_of(end, i, SLOT, end->mr->lkey), "%m");
	meet(end);
	CHECK(hear(end->peer, &byte, 1)); /* it has gone on */
	for (i = 0; i < MIXED; i++) {
		if (mixed_opcode(i) == IBV_WR_RDMA_WRITE)
			continue;
		CHECK(get(end, &wc, LIMIT_S), "%u of them", receives);
		receives++;
		if (without_right && i) {
			CHECK(wc.status, "WRITEs without a right");
			break;
		}
		CHECK(!wc.status && wc.wr_id == i, "%u: %s, wr_id %llu", i,
		      ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id);
		CHECK(wc.opcode == (i % 4 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
		CHECK(end->memory[SLOT * i] == (char)(i + 1), "message %u", i);
		CHECK(i < 1 || end->memory[SLOT * (i - 1)] == (char)i, "the WRITE before %u", i);
	}
	meet(end);
	end_close(end);
}

static void writes_to_stopped(struct end *end, void *argument)
{
	const bool without_right = *(bool *)argument;
	const unsigned sure = without_right ? 1 : MIXED;
	struct ibv_wc wc;
	unsigned i;
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	for (i = 0; i < 4; i++)		/* its key is known: the READ below could be done */
		CHECK(!transfer(end, IBV_WR_RDMA_READ, 0, 8, 0), "a READ before");
	meet(end);
	tell(end->test, "s", 1);
	CHECK(hear(end->test, &byte, 1)); /* it is stopped */
	for (i = 0; i < MIXED; i++) {
		memset(end->memory + SLOT * i, (char)(i + 1), 64);
		CHECK(!post(end, mixed_opcode(i), SLOT * i, 64, SLOT * i, i), "%m");
	}
	for (i = 0; i < sure; i++) {
		CHECK(get(end, &wc, 10), "request %u to a stopped process", i);
		CHECK(!wc.status && wc.wr_id == i, "%u: %s", i, ibv_wc_status_str(wc.status));
	}
	CHECK(counter_here(COUNTER_MESSAGE_EARLY) == sure, "%llu",
	      (unsigned long long)counter_here(COUNTER_MESSAGE_EARLY));
	/* What follows may not overtake a WRITE that lies in the ring. */
	if (without_right) {
		CHECK(!get(end, &wc, 0.7), "%llu: %s", (unsigned long long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
	} else {
		CHECK(!post(end, IBV_WR_RDMA_READ, 0, 8, SLOT * (MIXED - 1), MIXED), "%m");
		CHECK(!get(end, &wc, 0.7), "the READ: %s", ibv_wc_status_str(wc.status));
	}
	tell(end->test, "c", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	tell(end->peer, "g", 1);
	CHECK(get(end, &wc, LIMIT_S), "nothing");
	CHECK(wc.status == (without_right ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS), "%s",
	      ibv_wc_status_str(wc.status));
	CHECK(without_right || end->memory[0] == (char)MIXED,
	      "the READ has overtaken the WRITE before it");
	meet(end);
	end_close(end);
}

static bool write_to_stopped(const char *mode, bool without_right)
{
	bool good = stop_right(mode, writes_to_stopped, stopped_and_written_to, &without_right);

	if (!good && without_right)
		printf("# without the right\n");
	return good;
}

/* ---- a WRITE to where a SEND goes that was posted before it ---- */

/* Between them both ends have met, so that each post may take the shortest way there is. */
static void takes_both(struct end *end, void *argument)
{
	struct ibv_wc wc;
	pid_t pid = getpid();
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	tell(end->peer, &pid, sizeof(pid));
	CHECK(!post_receive_of(end, 1, SLOT, end->mr->lkey), "%m");
	CHECK(!post_receive_of(end, 1, SLOT, end->mr->lkey), "%m");
	meet(end);
	CHECK(hear(end->peer, &byte, 1)); /* it has gone on, and both requests are done */
	CHECK(get(end, &wc, LIMIT_S) && !wc.status, "the first SEND");
	CHECK(get(end, &wc, LIMIT_S) && !wc.status, "the second SEND");
	CHECK(end->memory[SLOT] == 'w' && end->memory[SLOT + 63] == 'w', "the WRITE was there before the SEND");
	CHECK(end->memory[SLOT + 64] == 's', "the SEND is not there");
	meet(end);
	end_close(end);
}

/* What the SEND has left where it ends is looked at first: it may be on its way. */
static bool write_is_ahead(const struct end *end, pid_t peer)
{
	char sent = 0, written = 0;
	struct iovec ours[] = {{&sent, 1}, {&written, 1}};
	struct iovec theirs[] = {{(void *)(uintptr_t)(end->there.memory + SLOT + 64), 1},
				 {(void *)(uintptr_t)(end->there.memory + SLOT), 1}};

	CHECK(process_vm_readv(peer, ours, 2, theirs, 2, 0) == 2, "process_vm_readv: %m");
	return written == 'w' && sent != 's';
}

static void sends_and_writes(struct end *end, void *argument)
{
	struct ibv_wc wc;
	unsigned i;
	pid_t peer;
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	CHECK(hear(end->peer, &peer, sizeof(peer)));
	memset(end->memory, 's', SLOT);
	memset(end->memory + SLOT, 'w', SLOT);
	meet(end);
	for (i = 0; i < 4; i++)		/* its key is known, and nothing goes as packets */
		CHECK(!transfer(end, IBV_WR_RDMA_WRITE, SLOT, 64, SLOT * 2), "a WRITE before");
	tell(end->test, "s", 1);
	CHECK(hear(end->test, &byte, 1)); /* it is stopped */
	CHECK(!post(end, IBV_WR_SEND, 0, 128, 0, 0), "%m");
	CHECK(!post(end, IBV_WR_SEND, 0, 128, 0, 1), "%m");
	CHECK(!post(end, IBV_WR_RDMA_WRITE, SLOT, 64, SLOT, 2), "%m");
	CHECK(!write_is_ahead(end, peer), "the WRITE was there before the SEND");
	tell(end->test, "c", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	for (i = 0; i < 3; i++)
		CHECK(get(end, &wc, LIMIT_S) && !wc.status && wc.wr_id == i, "request %u", i);
	tell(end->peer, "g", 1);
	meet(end);
	end_close(end);
}

static bool a_write_is_not_there_before_the_sends_before_it(void)
{
	return stop_right("mapped", sends_and_writes, takes_both, NULL) &&
	       stop_right("auto", sends_and_writes, takes_both, NULL) &&
	       stop_right("copy", sends_and_writes, takes_both, NULL);
}

enum first_call { CHANGES_ACCESS, DEREGISTERS, DESTROYS, FIRST_CALLS };
#define EARLY 8u
/* The worker may be faster than the call, or in the middle of the last message. */
#define ROUNDS (long_run ? 20u : 5u)

/* Whatever it does first when it goes on, what was completed is there. */
static void stops_itself(struct end *end, void *argument)
{
	const enum first_call call = *(enum first_call *)argument;
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
	unsigned i;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	for (i = 0; i < EARLY; i++)
		CHECK(!post_receive_of(end, i, SLOT, end->mr->lkey), "%m");
	memset(end->memory, 0, SLOT * EARLY);
	meet(end);
	raise(SIGSTOP);
	if (call == CHANGES_ACCESS)
		CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_ACCESS_FLAGS), "%m");
	else if (call == DEREGISTERS)
		CHECK(!ibv_dereg_mr(end->mr), "%m");
	else
		CHECK(!ibv_destroy_qp(end->qp), "%m");
	for (i = 0; i < EARLY; i++)
		CHECK(end->memory[SLOT * i] == (char)(i + 1), "call %d: message %u is not there", call, i);
	meet(end);
	_exit(0);
}

static void sends_early(struct end *end, void *argument)
{
	struct ibv_wc wc;
	unsigned i;
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end->timeout = SHORT_TIMEOUT;
	end_connect(end);
	warm_sends(end);
	meet(end);
	tell(end->test, "s", 1);
	CHECK(hear(end->test, &byte, 1));
	for (i = 0; i < EARLY; i++) {
		memset(end->memory + SLOT * i, (char)(i + 1), 8);
		CHECK(!post(end, IBV_WR_SEND, SLOT * i, 8, 0, i), "%m");
	}
	for (i = 0; i < EARLY; i++)
		CHECK(get(end, &wc, 10) && !wc.status, "SEND %u", i);
	tell(end->test, "c", 1);
	meet(end);
	end_close(end);
}

/* Behind messages of a QP that is gone, those of another one come through the same ring. */
static void finds_messages_of_no_sender(struct end *end, void *argument)
{
	struct ibv_qp *old;
	struct ibv_wc wc;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end_connect(end);
	warm_sends(end);
	meet(end);
	raise(SIGSTOP);
	old = end->qp;
	end->qp = NULL;
	end_connect(end);
	CHECK(!post_receive(end, 0, 64, 1), "%m");
	meet(end);
	CHECK(get(end, &wc, LIMIT_S) && !wc.status, "%s", ibv_wc_status_str(wc.status));
	CHECK(!counter_here(COUNTER_RX_QP_STATE) && !counter_here(COUNTER_RX_QPN), "%s", counters_here());
	meet(end);
	CHECK(!ibv_destroy_qp(old), "%m");
	end_close(end);
}

static void gives_up_what_it_sent(struct end *end, void *argument)
{
	struct ibv_wc wc;
	unsigned i;
	char byte;

	end_open(end, SLOT * RECEIVES, ALL_ACCESS);
	end_connect(end);
	warm_sends(end);
	meet(end);
	tell(end->test, "s", 1);
	CHECK(hear(end->test, &byte, 1));
	for (i = 0; i < EARLY; i++)	/* for which there is no receive */
		CHECK(!post(end, IBV_WR_SEND, SLOT * i, 8, 0, i), "%m");
	CHECK(!ibv_destroy_qp(end->qp), "%m");
	end->qp = NULL;
	tell(end->test, "c", 1);
	end_connect(end);
	meet(end);
	CHECK(!post(end, IBV_WR_SEND, 0, 8, 0, 0), "%m");
	CHECK(get(end, &wc, LIMIT_S) && !wc.status, "%s", ibv_wc_status_str(wc.status));
	meet(end);
	end_close(end);
}

/* @right stops itself while @left does something. */
static bool stop_while(void (*left)(struct end *, void *), void (*right)(struct end *, void *), void *argument)
{
	struct pair pair;
	siginfo_t info;
	bool good;
	char byte;

	pair_start(&pair, "copy", left, right, argument);
	good = hear(pair.socket[LEFT], &byte, 1);
	waitid(P_PID, (id_t)pair.pid[RIGHT], &info, WSTOPPED | WEXITED | WNOWAIT);
	if (good)
		tell(pair.socket[LEFT], "t", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	kill(pair.pid[RIGHT], SIGCONT);
	return pair_end(&pair, 30) && good;
}

static bool warm_sends_are_completed_meanwhile(void)
{
#ifdef THREAD_SANITIZER
	return skip("locks of the sanitizer cannot be read in another process");
#else
	return send_to_stopped("copy", GOES_ON) && send_to_stopped("auto", GOES_ON);
#endif
}

static bool warm_writes_behind_sends_are_completed_meanwhile(void)
{
#ifdef THREAD_SANITIZER
	return skip("locks of the sanitizer cannot be read in another process");
#else
	return write_to_stopped("copy", false) && write_to_stopped("auto", false);
#endif
}

static bool writes_that_would_fail_are_not_completed(void)
{
#ifdef THREAD_SANITIZER
	return skip("locks of the sanitizer cannot be read in another process");
#else
	return write_to_stopped("copy", true);
#endif
}

static bool and_arrive_although_their_sender_is_gone(void)
{
#ifdef THREAD_SANITIZER
	return skip("locks of the sanitizer cannot be read in another process");
#else
	return send_to_stopped("copy", SENDER_LEAVES);
#endif
}

static bool and_arrive_before_what_it_calls_next(void)
{
#ifdef THREAD_SANITIZER
	return skip("locks of the sanitizer cannot be read in another process");
#else
	enum first_call call;
	unsigned round;

	for (round = 0; round < ROUNDS; round++)
		for (call = 0; call < FIRST_CALLS; call++)
			if (!stop_while(sends_early, stops_itself, &call))
				return false;
	return true;
#endif
}

static bool what_its_sender_gave_up_is_no_drop(void)
{
	return stop_while(gives_up_what_it_sent, finds_messages_of_no_sender, NULL);
}

static bool sends_that_would_fail_are_not_completed(void)
{
#ifdef THREAD_SANITIZER
	return skip("locks of the sanitizer cannot be read in another process");
#else
	return send_to_stopped("copy", TOO_SHORT) && send_to_stopped("copy", NO_KEY);
#endif
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
#define TEST(name) {#name, name}
		TEST(cold_requests_wait_until_it_goes_on),
		TEST(warm_writes_and_reads_are_done_meanwhile),
		TEST(who_is_killed_then_fails_the_request_soon),
		TEST(warm_sends_are_completed_meanwhile),
		TEST(and_arrive_although_their_sender_is_gone),
		TEST(warm_writes_behind_sends_are_completed_meanwhile),
		TEST(a_write_is_not_there_before_the_sends_before_it),
		TEST(writes_that_would_fail_are_not_completed),
		TEST(and_arrive_before_what_it_calls_next),
		TEST(what_its_sender_gave_up_is_no_drop),
		TEST(sends_that_would_fail_are_not_completed),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
