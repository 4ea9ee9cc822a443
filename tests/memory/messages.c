/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs between two processes of one host, which go as messages (transport/message.h): what must
 * happen although nobody polls; a receiver that is stopped in the middle of one; memory of the
 * sender's that goes away. The same is demanded of the ways without messages.
 *
 * Unless a test wants it otherwise the QPs have no timeout: what waits for a timer waits for ever.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pair.h"

#define BYTES (1u << 20)

static const char *const modes[] = {"mapped", "copy", "ring", "off"};
#define MODES (sizeof(modes) / sizeof(modes[0]))

/* In each mode; ends that need longer than @limit_s are stuck. */
static bool in_each_mode(end_fn *left, end_fn *right, void *argument, double limit_s)
{
	unsigned i;

	for (i = 0; i < MODES; i++)
		if (!pair_run(modes[i], left, right, argument, limit_s)) {
			printf("# mode %s\n", modes[i]);
			return false;
		}
	return true;
}

/* end_connect(), with @receives posted before the other end sends, each with a part of the memory.
 */
static void connect_ready(struct end *end, unsigned receives)
{
	unsigned i;

	if (!end->qp)
		end_make_qp(end);
	end_exchange(end);
	end_raise(end, IBV_QPS_RTS);
	for (i = 0; i < receives; i++)
		CHECK(!post_receive(end, i * (BYTES / receives), BYTES / receives, i), "%m");
	meet(end);
}

static void open_patiently(struct end *end, unsigned receives)
{
	end_open(end, BYTES, ALL_ACCESS);
	end->timeout = 0;
	connect_ready(end, receives);
}

static void expect(struct end *end, uint64_t wr_id)
{
	struct ibv_wc wc;

	CHECK(get(end, &wc, LIMIT_S), "no completion of %d", (int)wr_id);
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	CHECK(wc.wr_id == wr_id, "%d and not %d", (int)wc.wr_id, (int)wr_id);
}

/* A SEND of which no completion is wanted. */
static void post_quietly(struct end *end, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)end->memory, bytes, end->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	CHECK(!ibv_post_send(end->qp, &wr, &bad), "%m");
}

/* ---- nobody polls ---- */

/* Three requests, one after the other, and no look at the CQ until all have arrived. */
static void posts_and_looks_away(struct end *end, void *argument)
{
	unsigned i;

	open_patiently(end, 0);
	memset(end->memory, 7, BYTES);
	for (i = 0; i < 3; i++) {
		CHECK(!post(end, IBV_WR_SEND, 0, 64, 0, 1), "%m");
		CHECK(!post(end, IBV_WR_SEND, 0, 30000, 0, 2), "%m");
		CHECK(!post(end, IBV_WR_RDMA_WRITE, 0, 64, BYTES / 2, 3), "%m");
		CHECK(!post(end, IBV_WR_SEND, 0, 64, 0, 4), "%m");
		meet(end);
	}
	for (i = 0; i < 12; i++)
		expect(end, 1 + i % 4);
	end_close(end);
}

static void receives_all(struct end *end, void *argument)
{
	unsigned round, i;

	open_patiently(end, 9);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 3; i++)
			expect(end, 3 * round + i);
		CHECK(end->memory[BYTES / 2] == 7, "the WRITE before the last SEND");
		end->memory[BYTES / 2] = 0;
		meet(end);
	}
	end_close(end);
}

static bool requests_leave_although_the_sender_does_not_poll(void)
{
	return in_each_mode(posts_and_looks_away, receives_all, NULL, LIMIT_S);
}

/* It has armed another CQ than that of its SENDs, and sleeps until the reply. */
static void sleeps_for_the_reply(struct end *end, void *argument)
{
	struct ibv_cq *sends, *event_cq, *receives;
	struct pollfd fd;
	void *context;

	end_open(end, BYTES, ALL_ACCESS);
	end->timeout = 0;
	receives = end->cq;
	sends = ibv_create_cq(end->context, 16, NULL, NULL, 0);
	CHECK(sends, "%m");
	end->qp = ibv_create_qp(end->pd, &(struct ibv_qp_init_attr){.send_cq = sends,
								    .recv_cq = receives,
								    .qp_type = IBV_QPT_RC,
								    .cap = {8, 8, 1, 1, 0}});
	CHECK(end->qp, "%m");
	end_connect(end);
	CHECK(!post_receive(end, 0, 100, 1), "%m");
	CHECK(!ibv_req_notify_cq(receives, 0), "%m");
	meet(end);
	post_quietly(end, 64); /* refused: there is no receive for it yet */
	fd = (struct pollfd){.fd = end->channel->fd, .events = POLLIN};
	CHECK(poll(&fd, 1, (int)(LIMIT_S * 1000)) == 1, "the reply did not come");
	CHECK(!ibv_get_cq_event(end->channel, &event_cq, &context), "%m");
	ibv_ack_cq_events(event_cq, 1);
	expect(end, 1);
	meet(end);
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	CHECK(!ibv_destroy_cq(sends));
	end_close(end);
}

static void replies_late(struct end *end, void *argument)
{
	open_patiently(end, 0);
	meet(end);
	usleep(50000);
	CHECK(!post_receive(end, 0, 100, 1), "%m");
	expect(end, 1);
	CHECK(!post(end, IBV_WR_SEND, 0, 64, 0, 2), "%m");
	expect(end, 2);
	meet(end);
	end_close(end);
}

static bool what_was_refused_is_sent_while_its_sender_sleeps(void)
{
	return in_each_mode(sleeps_for_the_reply, replies_late, NULL, LIMIT_S);
}

/* Nobody looks at the CQ of the SENDs; the event is waited for. */
static void drains(struct end *end, void *argument)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_async_event event;
	struct pollfd fd;
	unsigned i;

	open_patiently(end, 0);
	for (i = 0; i < 20; i++) {
		CHECK(!post(end, IBV_WR_SEND, 0, i % 2 ? 64 : 50000, 0, i), "%m");
		CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
		      "%m");
		fd = (struct pollfd){.fd = end->context->async_fd, .events = POLLIN};
		CHECK(poll(&fd, 1, (int)(LIMIT_S * 1000)) == 1, "round %u: not drained", i);
		CHECK(!ibv_get_async_event(end->context, &event), "%m");
		CHECK(event.event_type == IBV_EVENT_SQ_DRAINED, "event %d", event.event_type);
		ibv_ack_async_event(&event);
		CHECK(!ibv_modify_qp(end->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS},
				     IBV_QP_STATE),
		      "%m");
	}
	for (i = 0; i < 20; i++)
		expect(end, i);
	meet(end);
	end_close(end);
}

static void takes_twenty(struct end *end, void *argument)
{
	unsigned i;

	open_patiently(end, 20);
	for (i = 0; i < 20; i++)
		expect(end, i);
	meet(end);
	end_close(end);
}

static bool a_send_queue_drains_although_nobody_polls(void)
{
	return in_each_mode(drains, takes_twenty, NULL, LIMIT_S);
}

/* ---- stopped ---- */

#define SHORT_TIMEOUT 12 /* 17 ms */

/* What a message is filled with: its number, in each word. */
static void fill(struct end *end, uint32_t number, uint32_t bytes)
{
	uint32_t *word = (uint32_t *)end->memory, i;

	for (i = 0; i < bytes / 4; i++)
		word[i] = number;
}

/* How large the message @number is: each size as often. */
static uint32_t size_of(uint32_t number, uint32_t most)
{
	static const uint32_t sizes[] = {64, 4096, 20000, 300000, 700000, 1u << 20};
	uint32_t size = sizes[number % 6];

	return size < most ? size : most;
}

/* Of a receiver that is stopped a completion is not waited for any longer than that. */
#define GIVEN_UP_S 0.3

/* By us; or by its timeout, where a receiver that was not stopped yet got no processor for so long. */
static bool is_given_up(enum ibv_wc_status status)
{
	return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR;
}

/*
 * SENDs without end, one at a time. When one does not complete, because the receiver was stopped, the
 * queue pair is moved to ERR, and the memory is written anew at once: that is the application's right.
 */
static void sends_to_one_that_is_stopped(struct end *end, void *argument)
{
	struct ibv_qp_attr to_err = {.qp_state = IBV_QPS_ERR};
	uint32_t most = *(uint32_t *)argument, number = 0;
	struct ibv_wc wc;
	char byte;

	end->timeout = SHORT_TIMEOUT;
	end->retry_count = 1;
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	tell(end->test, "r", 1);
	for (wc.status = IBV_WC_SUCCESS; wc.status == IBV_WC_SUCCESS; number++) {
		fill(end, number, size_of(number, most));
		CHECK(!post(end, IBV_WR_SEND, 0, size_of(number, most), 0, number), "%m");
		if (get(end, &wc, GIVEN_UP_S))
			continue;
		CHECK(!ibv_modify_qp(end->qp, &to_err, IBV_QP_STATE), "%m");
		CHECK(get(end, &wc, LIMIT_S), "no completion");
	}
	memset(end->memory, 0xee, BYTES);
	CHECK(is_given_up(wc.status), "%s", ibv_wc_status_str(wc.status));
	number--;
	tell(end->peer, &number, sizeof(number));
	tell(end->test, "f", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	meet(end);
	end_close(end);
}

/* Each message is whole and the next one; the last that came may be the one that failed there. */
static void is_stopped(struct end *end, void *argument)
{
	uint32_t most = *(uint32_t *)argument, got = 0, failed, i;
	double until = now() + LIMIT_S;
	bool knows = false;
	struct ibv_wc wc;

	end->timeout = SHORT_TIMEOUT;
	end->retry_count = 1;
	end_open(end, BYTES, ALL_ACCESS);
	connect_ready(end, 1);
	while (now() < until) {
		if (!get(end, &wc, 0.05)) {
			struct pollfd fd = {.fd = end->peer, .events = POLLIN};

			if (knows)
				break;
			if (poll(&fd, 1, 0) == 1)
				knows = hear(end->peer, &failed, sizeof(failed));
			continue;
		}
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		CHECK(wc.byte_len == size_of(got, most), "message %u: %u bytes", got, wc.byte_len);
		for (i = 0; i < wc.byte_len / 4; i++)
			CHECK(((uint32_t *)end->memory)[i] == got,
			      "message %u of %u bytes: at %u is 0x%x", got, wc.byte_len, 4 * i,
			      ((uint32_t *)end->memory)[i]);
		if (!got++)
			tell(end->test, "r", 1);
		CHECK(!post_receive(end, 0, BYTES, got), "%m");
	}
	CHECK(knows, "the sender has not failed");
	if (!got) /* it gave up on us before we were stopped: the test waits for us */
		tell(end->test, "r", 1);
	CHECK(got == failed || got == failed + 1, "%u messages, and number %u failed", got, failed);
	meet(end);
	end_close(end);
}

static bool stop_once(const char *mode, end_fn *left, end_fn *right, unsigned delay_us,
		      uint32_t most)
{
	struct pair pair;
	char byte;
	bool good;

	pair_start(&pair, mode, left, right, &most);
	good = hear(pair.socket[LEFT], &byte, 1) && hear(pair.socket[RIGHT], &byte, 1);
	usleep(delay_us);
	pair_stop(&pair, RIGHT);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	kill(pair.pid[RIGHT], SIGCONT);
	if (good)
		tell(pair.socket[LEFT], "g", 1);
	good = pair_end(&pair, 30) && good;
	if (!good)
		printf("# mode %s, %u us, up to %u bytes\n", mode, delay_us, most);
	return good;
}

static bool a_receiver_that_was_stopped_gets_nothing_torn_or_twice(void)
{
	unsigned i, stops = long_run ? 120 : 6;

	for (i = 0; i < stops; i++)
		if (!stop_once(modes[i % 3], sends_to_one_that_is_stopped, is_stopped,
			       i * 7919 % 5000, i % 2 ? 1u << 20 : 4096))
			return false;
	return true;
}

/*
 * The same for what can be seen in the middle of a long copy only: no time is lost for anything
 * else. Messages alternate between two places; the last that came is to be all of one kind.
 */
static void sends_long_ones(struct end *end, void *argument)
{
	struct ibv_qp_attr to_err = {.qp_state = IBV_QPS_ERR};
	uint32_t number = 0;
	struct ibv_wc wc;
	char byte;

	end->timeout = SHORT_TIMEOUT;
	end->retry_count = 1;
	end_open(end, BYTES, ALL_ACCESS);
	memset(end->memory, 0x11, BYTES);
	end_connect(end);
	CHECK(hear(end->peer, &byte, 1)); /* a receive is posted */
	tell(end->test, "r", 1);
	do {
		CHECK(!post(end, IBV_WR_SEND, 0, BYTES, 0, number++), "%m");
		if (get(end, &wc, GIVEN_UP_S))
			continue;
		CHECK(!ibv_modify_qp(end->qp, &to_err, IBV_QP_STATE), "%m");
		CHECK(get(end, &wc, LIMIT_S), "no completion");
	} while (wc.status == IBV_WC_SUCCESS);
	memset(end->memory, 0xee, BYTES);
	CHECK(is_given_up(wc.status), "%s", ibv_wc_status_str(wc.status));
	tell(end->peer, &number, sizeof(number));
	tell(end->test, "f", 1);
	CHECK(hear(end->test, &byte, 1)); /* it goes on */
	meet(end);
	end_close(end);
}

static void takes_long_ones(struct end *end, void *argument)
{
	struct pollfd fd = {.fd = end->peer, .events = POLLIN};
	uint32_t got = 0, posted, i;
	struct ibv_wc wc;
	char *last;

	end_open(end, 2 * BYTES, ALL_ACCESS);
	connect_ready(end, 0);
	CHECK(!post_receive(end, 0, BYTES, 0), "%m");
	tell(end->peer, "r", 1);
	while (true) {
		if (!get(end, &wc, 0.05)) {
			if (poll(&fd, 1, 0) == 1)
				break;
			continue;
		}
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		if (!got++)
			tell(end->test, "r", 1);
		CHECK(!post_receive(end, got % 2 * BYTES, BYTES, got), "%m");
	}
	if (!got) /* the sender gave up before we were stopped: the test waits for us */
		tell(end->test, "r", 1);
	CHECK(hear(end->peer, &posted, sizeof(posted)));
	CHECK(got == posted || got == posted - 1, "%u of %u came", got, posted);
	last = end->memory + (got + 1) % 2 * BYTES;
	for (i = 0; i < BYTES && got; i++) /* on a slow machine none may come before the stop */
		CHECK(last[i] == 0x11, "message %u of %u: 0x%x at %u", got, posted,
		      (uint8_t)last[i], i);
	meet(end);
	end_close(end);
}

static bool a_receiver_stopped_in_the_middle_of_a_copy_tears_nothing(void)
{
	unsigned i, stops = long_run ? 60 : 5;

	for (i = 0; i < stops; i++)
		if (!stop_once(modes[i % 2], sends_long_ones, takes_long_ones, i * 7919 % 3000, 0))
			return false;
	return true;
}

/* ---- a former life ---- */

#define LIVES 12u
#define FIRST 8u /* SENDs until both ends agree that they go as messages */

static void agree(struct end *end)
{
	uint64_t before = counter_here(COUNTER_LOCAL_SEND), messages;
	unsigned i;

	for (i = 0; i < FIRST; i++) {
		CHECK(!post(end, IBV_WR_SEND, 0, 64, 0, i), "%m");
		expect(end, i);
		usleep(2000);
	}
	messages = counter_here(COUNTER_LOCAL_SEND) - before;
	CHECK(messages, "none of %u SENDs was a message", FIRST);
	end->psn += FIRST - (uint32_t)messages; /* of the next packet */
}

/*
 * Told to one that is stopped; then the QP is reset, and connected again with the same numbers. The
 * other end is not, so that nothing but the messages themselves says which life they are of.
 */
static void lives_twice(struct end *end, void *argument)
{
	struct ibv_qp_attr to_err = {.qp_state = IBV_QPS_ERR};
	unsigned round, i;
	struct ibv_wc wc;
	char byte;

	end_open(end, BYTES, ALL_ACCESS);
	end->retry_count = 1;
	for (round = 0; round < LIVES; round++) {
		end->timeout = SHORT_TIMEOUT;
		end_connect(end);
		agree(end);
		tell(end->test, "s", 1); /* stop it */
		CHECK(hear(end->test, &byte, 1));
		fill(end, 2 * round, BYTES);
		for (i = 0; i < 4; i++)
			CHECK(!post(end, IBV_WR_SEND, 0, i % 2 ? 200000 : 64, 0, i), "%m");
		if (round % 2) { /* half of them are flushed first */
			CHECK(!ibv_modify_qp(end->qp, &to_err, IBV_QP_STATE), "%m");
			CHECK(get(end, &wc, LIMIT_S) && wc.status == IBV_WC_WR_FLUSH_ERR);
		}
		end->timeout = PATIENT;
		end_raise(end, IBV_QPS_RTS);
		while (ibv_poll_cq(end->cq, 1, &wc))
			;
		fill(end, 2 * round + 1, BYTES);
		for (i = 0; i < 4; i++)
			CHECK(!post(end, IBV_WR_SEND, 0, i % 2 ? 200000 : 64, 0, 10 + i), "%m");
		tell(end->test, "c", 1); /* let it go on */
		for (i = 0; i < 4; i++)
			expect(end, 10 + i);
	}
	close(end->test);
	end_close(end);
}

static void hears_the_second(struct end *end, void *argument)
{
	unsigned round, i, k;
	uint32_t *word;
	struct ibv_wc wc;

	end_open(end, BYTES, ALL_ACCESS);
	for (round = 0; round < LIVES; round++) {
		if (!end->qp)
			end_make_qp(end);
		end_exchange(end);
		end_raise(end, IBV_QPS_RTS);
		for (i = 0; i < FIRST; i++)
			CHECK(!post_receive(end, 0, 64, i), "%m");
		for (i = 0; i < 4; i++)
			CHECK(!post_receive(end, i * (BYTES / 4), BYTES / 4, i), "%m");
		meet(end);
		for (i = 0; i < FIRST; i++)
			expect(end, i);
		for (i = 0; i < 4; i++) {
			CHECK(get(end, &wc, LIMIT_S), "round %u: %u of 4 came", round, i);
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			CHECK(wc.byte_len == (i % 2 ? 200000 : 64), "%u bytes", wc.byte_len);
			word = (uint32_t *)(end->memory + i * (BYTES / 4));
			for (k = 0; k < wc.byte_len / 4; k++)
				CHECK(word[k] == 2 * round + 1, "round %u: a message of number %u",
				      round, word[k]);
		}
	}
	end_close(end);
}

static bool live_twice(const char *mode)
{
	bool good, stopped = false;
	struct pair pair;
	char byte;

	pair_start(&pair, mode, lives_twice, hears_the_second, NULL);
	while (hear(pair.socket[LEFT], &byte, 1)) {
		stopped = byte != 'c';
		if (!stopped) {
			kill(pair.pid[RIGHT], SIGCONT);
			continue;
		}
		pair_stop(&pair, RIGHT);
		tell(pair.socket[LEFT], "s", 1);
	}
	/* Not otherwise: LeakSanitizer stops an ending process's threads, and hangs if they go on. */
	if (stopped)
		kill(pair.pid[RIGHT], SIGCONT);
	good = pair_end(&pair, 30);
	if (!good)
		printf("# mode %s\n", mode);
	return good;
}

/* Packets, which have nothing but their PSNs to tell them apart, are told by new PSNs. */
static bool no_message_of_a_former_life_is_heard(void)
{
	return live_twice("mapped") && live_twice("copy");
}

/* ---- memory that goes away ---- */

/*
 * The buffer of a SEND is unmapped although it is registered. A NIC has pinned the pages and sends
 * what is in them; so does who has them mapped. Else it is an error of the sender's.
 */
static void unmaps(struct end *end, void *argument)
{
	uint32_t bytes = *(uint32_t *)argument;
	struct ibv_wc wc;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	memset(end->memory, 3, BYTES);
	CHECK(!munmap(end->memory, BYTES));
	CHECK(!post(end, IBV_WR_SEND, 0, bytes, 0, 1), "%m");
	CHECK(!post(end, IBV_WR_SEND, 0, 0, 0, 2), "%m");
	CHECK(get(end, &wc, LIMIT_S) && wc.wr_id == 1, "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR, "%s",
	      ibv_wc_status_str(wc.status));
	tell(end->peer, &wc.status, sizeof(wc.status));
	CHECK(get(end, &wc, LIMIT_S) && wc.wr_id == 2, "no completion");
	meet(end);
	end_close(end);
}

static void gets_it_or_nothing(struct end *end, void *argument)
{
	uint32_t bytes = *(uint32_t *)argument, i;
	enum ibv_wc_status status;
	struct ibv_wc wc;
	bool came;

	end_open(end, BYTES, ALL_ACCESS);
	connect_ready(end, 2);
	meet(end);
	CHECK(hear(end->peer, &status, sizeof(status)));
	came = get(end, &wc, status ? 0.02 : LIMIT_S);
	CHECK(came == !status, "the sender has %s", ibv_wc_status_str(status));
	for (i = 0; came && i < bytes; i++)
		CHECK(end->memory[i] == 3, "byte %u is %d", i, end->memory[i]);
	meet(end);
	end_close(end);
}

static bool a_send_out_of_unmapped_memory_is_whole_or_fails(void)
{
	static uint32_t sizes[] = {64, 30000, BYTES / 2};
	unsigned i;

	for (i = 0; i < 3; i++)
		if (!in_each_mode(unmaps, gets_it_or_nothing, &sizes[i], LIMIT_S))
			return false;
	return true;
}

/*
 * A region is deregistered while SENDs out of it are on their way: the message is whole, or the
 * request fails. And once ibv_dereg_mr() has returned nobody reads there.
 */
static void deregisters_under_way(struct end *end, void *argument)
{
	unsigned round, successes = 0;
	struct ibv_wc wc;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	for (round = 0; round < 60; round++) {
		fill(end, round, BYTES);
		meet(end);
		CHECK(!post(end, IBV_WR_SEND, 0, BYTES, 0, round), "%m");
		usleep(round * 37 % 400);
		CHECK(!ibv_dereg_mr(end->mr), "%m");
		memset(end->memory, 0xee, BYTES);
		CHECK(get(end, &wc, LIMIT_S), "no completion");
		CHECK(wc.wr_id == round);
		CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR, "%s",
		      ibv_wc_status_str(wc.status));
		successes += wc.status == IBV_WC_SUCCESS;
		tell(end->peer, &wc.status, sizeof(wc.status));
		end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
		CHECK(end->mr, "%m");
		end_connect(end);
	}
	printf("# %u of 60 were sent\n", successes);
	fflush(stdout);
	end_close(end);
}

static void gets_it_whole_or_not(struct end *end, void *argument)
{
	enum ibv_wc_status status;
	struct ibv_wc wc;
	struct pollfd fd = {.fd = end->peer, .events = POLLIN};
	unsigned round, i;
	bool came;

	end_open(end, BYTES, ALL_ACCESS);
	connect_ready(end, 1);
	for (round = 0; round < 60; round++) {
		meet(end);
		while (!(came = get(end, &wc, 0.001)) && poll(&fd, 1, 0) != 1)
			;
		CHECK(hear(end->peer, &status, sizeof(status)));
		/* It may have arrived, and the sender have failed to send it again. */
		came = came || get(end, &wc, status ? 0 : LIMIT_S);
		CHECK(came || status, "round %u: the sender has %s", round,
		      ibv_wc_status_str(status));
		CHECK(!came || wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		for (i = 0; i < BYTES / 4 && came; i++)
			CHECK(((uint32_t *)end->memory)[i] == round, "round %u: 0x%x at %u", round,
			      ((uint32_t *)end->memory)[i], 4 * i);
		connect_ready(end, 1);
	}
	end_close(end);
}

static bool a_region_deregistered_under_way_is_read_whole_or_not_at_all(void)
{
	return in_each_mode(deregisters_under_way, gets_it_whole_or_not, NULL, 30);
}

/* ---- several at once ---- */

#define FLOOD 3000u

/* One that sends without pause does not keep another one waiting (each has a process of its own).
 */
static void floods(struct end *end, void *argument)
{
	unsigned posted = 0, done = 0;
	char byte;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	tell(end->test, "r", 1);
	CHECK(hear(end->test, &byte, 1));
	while (done < FLOOD) {
		while (posted < FLOOD && posted - done < 60)
			CHECK(!post(end, IBV_WR_SEND, 0, 200000, 0, posted++), "%m");
		expect(end, done++);
	}
	end_close(end);
}

static void is_flooded(struct end *end, void *argument)
{
	unsigned given = 0, got = 0;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	tell(end->test, "r", 1);
	while (got < FLOOD) {
		while (given < FLOOD && given - got < 50)
			CHECK(!post_receive(end, 0, BYTES, given++), "%m");
		expect(end, got++);
	}
	end_close(end);
}

static bool a_flood_is_no_silence(void)
{
	unsigned i;

	for (i = 0; i < MODES; i++) {
		struct pair pair;
		char byte;
		bool good;

		pair_start(&pair, modes[i], floods, is_flooded, NULL);
		good = hear(pair.socket[LEFT], &byte, 1) && hear(pair.socket[RIGHT], &byte, 1);
		if (good)
			tell(pair.socket[LEFT], "g", 1);
		if (!pair_end(&pair, 60) || !good) {
			printf("# mode %s\n", modes[i]);
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(requests_leave_although_the_sender_does_not_poll),
		TEST(what_was_refused_is_sent_while_its_sender_sleeps),
		TEST(a_send_queue_drains_although_nobody_polls),
		TEST(a_receiver_that_was_stopped_gets_nothing_torn_or_twice),
		TEST(a_receiver_stopped_in_the_middle_of_a_copy_tears_nothing),
		TEST(no_message_of_a_former_life_is_heard),
		TEST(a_send_out_of_unmapped_memory_is_whole_or_fails),
		TEST(a_region_deregistered_under_way_is_read_whole_or_not_at_all),
		TEST(a_flood_is_no_silence),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
