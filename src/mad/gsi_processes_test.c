/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP1 of several processes of one host, in network namespaces made for it: who gets which MAD, when
 * processes are stopped, killed, of another user, or do without connection management. Each
 * member is a fork()ed process that does what it is told and notes in shared memory what it is called
 * with.
 *
 * Needs a network namespace (root, or unprivileged user namespaces); skipped loudly otherwise.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mad/fake_consumer_test.h"
#include "mad/gsi.h"
#include "device/internal.h"
#include "local/channel/ring.h"
#include "platform/netns_test.h"
#include "platform/rest_test.h"
#include "wire/cm_message.h"

#define MEMBERS_MAX	8
#define SERVICE		0x0000000001067530ull
#define NOBODY		65534
#define FLOOD		4000u

static const uint8_t any[16];
static const uint8_t loopback4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
static const uint8_t loopback6[16] = { [15] = 1 };
static bool real_root;

/* What a member was called with. */
struct report {
	_Atomic uint32_t slot;		/* 0: not ready */
	_Atomic unsigned received, answers, gone, ticks;
	_Atomic uint32_t gone_slot;
	_Atomic unsigned gone_behind;	/* answers that had come when a peer was gone */
	_Atomic uint64_t tick_ns, gone_ns, cpu_ns;
	uint8_t mad[MAD_BYTES];
	struct mad_address from;
	pid_t child;
	_Atomic uint64_t lost, handed_on, nobody, forged;	/* counters */
	_Atomic uint32_t put;		/* cells in the channel that was opened last */
};

struct member {
	pid_t pid;
	int fd;
	struct report *report;
};

struct order {
	enum { DO_CLAIM, DO_SERVE, DO_RELEASE, DO_SEND, DO_WATCH, DO_DEADLINE, DO_FORK, DO_REPORT,
	       DO_HOLD, DO_LET_GO, DO_CLOSE, DO_OPEN_CHANNEL, DO_FLOOD } kind;
	uint64_t number;		/* service, deadline, slot */
	uint8_t address[16];
	int family;
	uint8_t mad[MAD_BYTES];
};

static struct member member[MEMBERS_MAX];
static unsigned member_count;

/* ---- a member ---- */

static enum drop received(void *owner, const struct mad_address *from, const struct mad_header *header,
			  const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct report *report = owner;
	struct cm_target target;

	memcpy(report->mad, mad, MAD_BYTES);
	report->from = *from;
	if (cm_message_target(mad, &target) == CM_TARGET_SERVICE)
		report->received++;
	else
		report->answers++;
	return DROP_NONE;
}

static void tick(void *owner, uint64_t now_ns)
{
	struct report *report = owner;

	report->tick_ns = clock_now_ns();
	report->ticks++;
}

static void peer_gone(void *owner, uint32_t slot, uint64_t now_ns)
{
	struct report *report = owner;

	report->gone_slot = slot;
	report->gone_behind = report->answers;
	report->gone_ns = clock_now_ns();
	report->gone++;
}

static const struct mad_ops member_ops = { .received = received, .tick = tick, .peer_gone = peer_gone };
static const struct mad_key member_key = { .port = MAD_ANY_PORT, .qpn = QPN_GSI, .class = MAD_CLASS_CM,
					   .class_version = MAD_ANY_VERSION, .methods = MAD_ALL_METHODS };

static uint32_t channel_to;	/* the slot of whom */

static void fill_report(struct report *report, struct hca *hca)
{
	uint32_t channel = local_channel(&hca->engine.local, channel_to);
	struct rusage usage;

	report->put = channel == LOCAL_NO_CHANNEL ? 0 : ring_put_count(hca->engine.local.channel_link, channel);
	report->forged = counter_get(hca->engine.counters, COUNTER_RX_FORGED);

	getrusage(RUSAGE_SELF, &usage);
	report->cpu_ns = ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * SECOND +
			 ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
	report->lost = counter_get(hca->engine.counters, COUNTER_RX_MAD_LOST);
	report->handed_on = counter_get(hca->engine.counters, COUNTER_RX_MAD_FOREIGN);
	report->nobody = counter_get(hca->engine.counters, COUNTER_RX_MAD_NOBODY);
}

static int send_from_here(struct gsi *gsi, const struct order *order)
{
	struct mad_address to = { 0 };

	memcpy(to.local, order->address, 16);
	memcpy(to.remote, order->address, 16);
	to.slot = (uint16_t)order->number;
	return gsi_send(gsi, &to, order->mad);
}

/* Nothing is received meanwhile. */
static void hold_progress(struct hca *hca, bool holds) UNCHECKED_LOCKS
{
	if (holds)
		lock_acquire(&hca->engine.progress);
	else
		lock_release(&hca->engine.progress);
}

static int obey(struct mad_agent *consumer, struct hca *hca, struct report *report, const struct order *order)
{
	struct gsi *gsi = consumer ? mad_gsi(consumer) : NULL;
	static struct gsi_claim *claim;
	pid_t child;

	switch (order->kind) {
	case DO_CLAIM:
		return gsi_claim(gsi, order->number, order->address, order->family, &claim);
	case DO_SERVE:
		return gsi_serve(gsi, claim);
	case DO_RELEASE:
		gsi_release(gsi, claim);
		return 0;
	case DO_SEND:
		return send_from_here(gsi, order);
	case DO_WATCH:
		return gsi_watch_slot(gsi, (uint32_t)order->number);
	case DO_DEADLINE:
		mad_set_deadline(consumer, order->number);
		return 0;
	case DO_FORK:
		child = fork();
		if (!child) {
			alarm(HANGING_S);
			pause();
		}
		report->child = child;
		return 0;
	case DO_REPORT:
		fill_report(report, hca);
		return 0;
	case DO_HOLD:
	case DO_LET_GO:
		hold_progress(hca, order->kind == DO_HOLD);
		return 0;
	case DO_CLOSE:
		mad_close(consumer);
		return 0;
	case DO_FLOOD:		/* as DO_SEND, FLOOD times, whatever becomes of it */
		for (unsigned i = 0; i < FLOOD; i++)
			send_from_here(gsi, order);
		return 0;
	case DO_OPEN_CHANNEL:
		channel_to = (uint32_t)order->number;
		local_connect(&hca->engine.local, channel_to);
		return local_channel(&hca->engine.local, channel_to) == LOCAL_NO_CHANNEL ? ENOTCONN : 0;
	}
	return ENOSYS;
}

static void run_member(struct report *report, int fd, uid_t uid, bool consumes)
{
	struct mad_agent *consumer = NULL;
	struct order order;
	struct hca *hca;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(HANGING_S);
	if ((uid && setresuid(uid, uid, uid)) || hca_get(&hca) ||
	    (consumes && mad_open(&hca->qp1, &member_key, &member_ops, report, &consumer)))
		_exit(1);
	report->slot = hca->engine.qps.slot[0].number;
	while (read(fd, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		err = obey(consumer, hca, report, &order);
		if (write(fd, &err, sizeof(err)) < 0)
			break;
	}
	_exit(0);
}

/* ---- the test process ---- */

static struct member *start(uid_t uid, bool consumes)
{
	struct member *made = &member[member_count++];
	int pair[2];

	assert_true(member_count <= MEMBERS_MAX);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	made->report = mmap(NULL, sizeof(*made->report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(made->report, MAP_FAILED);
	made->fd = pair[0];
	made->pid = fork();
	if (!made->pid)
		run_member(made->report, pair[1], uid, consumes);
	close(pair[1]);
	assert_true(comes_true(made->report->slot));
	return made;
}

static int tell(struct member *told, struct order order)
{
	int err = -1;

	assert_int_equal(write(told->fd, &order, sizeof(order)), sizeof(order));
	assert_int_equal(read(told->fd, &err, sizeof(err)), sizeof(err));
	return err;
}

static int claim(struct member *by, uint64_t id, const uint8_t address[16], int family)
{
	struct order order = { .kind = DO_CLAIM, .number = id, .family = family };

	memcpy(order.address, address, 16);
	return tell(by, order);
}

static void serve(struct member *by, uint64_t id)
{
	assert_int_equal(claim(by, id, any, AF_UNSPEC), 0);
	assert_int_equal(tell(by, (struct order){ .kind = DO_SERVE }), 0);
}

/* @slot: as in a struct mad_address. */
static void send_request_to(struct member *by, uint64_t id, const uint8_t address[16], uint32_t slot)
{
	struct cm_message message = { .kind = CM_MESSAGE_REQ, .transaction_id = 77 };
	struct order order = { .kind = DO_SEND, .number = slot };

	message.req.service_id = id;
	message.req.local_comm_id = by->report->slot << COMM_ID_SLOT_SHIFT | 5;
	memcpy(order.address, address, 16);
	cm_message_write(&message, order.mad);
	assert_int_equal(tell(by, order), 0);
}

static void send_request(struct member *by, uint64_t id, const uint8_t address[16])
{
	send_request_to(by, id, address, 0);
}

/* A DREQ for a connection of the holder of @slot, in the name of the holder of @sender. */
static void send_answer_as(struct member *by, uint32_t sender, uint32_t slot, const uint8_t address[16])
{
	struct cm_message message = { .kind = CM_MESSAGE_DREQ };
	struct order order = { .kind = DO_SEND };

	message.dreq.local_comm_id = sender << COMM_ID_SLOT_SHIFT | 5;
	message.dreq.remote_comm_id = slot << COMM_ID_SLOT_SHIFT | 9;
	memcpy(order.address, address, 16);
	cm_message_write(&message, order.mad);
	assert_int_equal(tell(by, order), 0);
}

static void send_answer(struct member *by, uint32_t slot, const uint8_t address[16])
{
	send_answer_as(by, by->report->slot, slot, address);
}

static unsigned sum(bool answers)
{
	unsigned i, all = 0;

	for (i = 0; i < member_count; i++)
		all += answers ? member[i].report->answers : member[i].report->received;
	return all;
}

static bool comes_to(unsigned wanted, bool answers)
{
	bool came = comes_true(sum(answers) >= wanted);

	thread_sleep_ns(2 * MS);	/* and no more than that */
	return came && sum(answers) == wanted;
}

static void end(struct member *ended)
{
	if (!ended->pid)
		return;
	kill(ended->pid, SIGKILL);
	waitpid(ended->pid, NULL, 0);
	close(ended->fd);
	ended->pid = 0;
}

static int setup(void **state)
{
	member_count = 0;
	return netns_renew() ? 0 : -1;
}

static int teardown(void **state)
{
	unsigned i;

	for (i = 0; i < member_count; i++) {
		end(&member[i]);
		munmap(member[i].report, sizeof(*member[i].report));
	}
	return 0;
}

static bool all_rest(void)
{
	unsigned i;

	for (i = 0; i < member_count; i++)
		if (member[i].pid && !process_rests(member[i].pid))
			return false;
	return true;
}

/* What nobody serves waits 50 ms for somebody; then it is whose turn it is. */
static void settle(void)
{
	thread_sleep_ns(150 * MS);
	assert_true(comes_true(all_rest()));
}

/* ---- tests ---- */

static void a_request_reaches_who_serves_it(void **state)
{
	const uint8_t *const address[] = { loopback4, loopback6 };
	unsigned i, n, f, all = 0;

	for (i = 0; i < 4; i++)
		start(0, true);
	for (i = 0; i < 3; i++)
		serve(&member[i], SERVICE + i);
	for (n = 0; n < 10; n++)
		for (f = 0; f < 2; f++)
			for (i = 0; i < 3; i++) {
				send_request(&member[3], SERVICE + i, address[f]);
				assert_true(comes_to(++all, false));
				assert_int_equal(member[i].report->received, n * 2 + f + 1);
				assert_memory_equal(member[i].report->from.remote, address[f], 16);
				assert_memory_equal(member[i].report->from.local, address[f], 16);
			}
	assert_int_equal(member[3].report->received, 0);
}

static void what_nobody_serves_reaches_somebody_to_be_refused(void **state)
{
	unsigned i;

	for (i = 0; i < 3; i++)
		start(0, true);
	for (i = 0; i < 20; i++) {
		send_request(&member[0], SERVICE, loopback4);
		assert_true(comes_to(i + 1, false));
	}
	/* Claimed is not served. */
	assert_int_equal(claim(&member[1], SERVICE, any, AF_INET), 0);
	for (; i < 40; i++) {
		send_request(&member[0], SERVICE, loopback4);
		assert_true(comes_to(i + 1, false));
	}
	/* No longer served. */
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_SERVE }), 0);
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_RELEASE }), 0);
	send_request(&member[0], SERVICE, loopback4);
	assert_true(comes_to(++i, false));
}

static void an_answer_reaches_whose_communication_id_it_answers(void **state)
{
	unsigned i, n, all = 0;

	for (i = 0; i < 4; i++)
		start(0, true);
	for (n = 0; n < 20; n++)
		for (i = 0; i < 4; i++) {
			send_answer(&member[n % 4], member[i].report->slot,
				    n & 1 ? loopback4 : loopback6);
			assert_true(comes_to(++all, true));
			assert_int_equal(member[i].report->answers, n + 1);
		}
	/* For a process that ended: to somebody, who can answer that. */
	end(&member[3]);
	send_answer(&member[0], member[3].report->slot, loopback4);
	assert_true(comes_to(++all, true));
	assert_int_equal(member[3].report->answers, 20);
}

static void claims_collide_across_processes_until_they_end(void **state)
{
	start(0, true);
	start(0, true);
	assert_int_equal(claim(&member[0], SERVICE, loopback4, 0), 0);
	assert_int_equal(claim(&member[1], SERVICE, loopback4, 0), EADDRINUSE);
	assert_int_equal(claim(&member[1], SERVICE, any, AF_UNSPEC), EADDRINUSE);
	assert_int_equal(claim(&member[1], SERVICE, any, AF_INET6), 0);
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_RELEASE }), 0);
	end(&member[0]);
	assert_int_equal(claim(&member[1], SERVICE, any, AF_UNSPEC), 0);
}

/* Messages that a member has put in its channel to the one before. */
static uint32_t put_by(struct member *by)
{
	assert_int_equal(tell(by, (struct order){ .kind = DO_REPORT }), 0);
	return by->report->put;
}

static void open_channel(struct member *by, const struct member *to)
{
	assert_int_equal(tell(by, (struct order){ .kind = DO_OPEN_CHANNEL, .number = to->report->slot }), 0);
}

/* What both say to each other when the channel is new is in it before. */
static void an_answer_goes_through_the_channel_to_its_process(void **state)
{
	unsigned i, all = 0;
	uint32_t put;

	for (i = 0; i < 3; i++)
		start(0, true);
	open_channel(&member[0], &member[1]);
	settle();
	put = put_by(&member[0]);
	for (i = 1; i <= 20; i++) {
		const uint8_t *address = i & 1 ? loopback4 : loopback6;

		send_answer(&member[0], member[1].report->slot, address);
		assert_true(comes_to(++all, true));
		assert_int_equal(member[1].report->answers, i);
		assert_memory_equal(member[1].report->from.remote, address, 16);
		assert_memory_equal(member[1].report->from.local, address, 16);
		assert_int_equal(put_by(&member[0]), put + i);
		/* There is no channel to others. */
		send_answer(&member[0], member[2].report->slot, address);
		assert_true(comes_to(++all, true));
		assert_int_equal(member[2].report->answers, i);
		assert_int_equal(put_by(&member[0]), put + i);
	}
	/* For one that ended: to somebody, once that is known. */
	end(&member[1]);
	settle();
	send_answer(&member[0], member[1].report->slot, loopback4);
	assert_true(comes_to(++all, true));
}

/* And on from there, as from the port. */
static void a_request_goes_through_the_channel_to_who_had_served_it(void **state)
{
	unsigned i, all = 0;
	uint32_t put, slot;

	for (i = 0; i < 3; i++)
		start(0, true);
	for (i = 1; i < 3; i++)
		serve(&member[i], SERVICE + i);
	open_channel(&member[0], &member[1]);
	settle();
	put = put_by(&member[0]);
	slot = member[1].report->slot;
	for (i = 1; i <= 10; i++) {
		const uint8_t *address = i & 1 ? loopback4 : loopback6;

		send_request_to(&member[0], SERVICE + 1, address, slot);
		assert_true(comes_to(++all, false));
		assert_int_equal(member[1].report->received, i);
		assert_memory_equal(member[1].report->from.remote, address, 16);
		/* Of another process by now. */
		send_request_to(&member[0], SERVICE + 2, address, slot);
		assert_true(comes_to(++all, false));
		assert_int_equal(member[2].report->received, i);
		assert_memory_equal(member[2].report->from.remote, address, 16);
	}
	assert_int_equal(put_by(&member[0]), put + all);
	/* Of nobody: it waits for a server, and is refused. */
	send_request_to(&member[0], SERVICE, loopback4, slot);
	assert_true(comes_to(++all, false));
	assert_int_equal(member[1].report->received, i);
	assert_int_equal(put_by(&member[0]), put + all);
	/* There is no channel to whom it names. */
	send_request_to(&member[0], SERVICE + 1, loopback4, member[2].report->slot);
	assert_true(comes_to(++all, false));
	assert_int_equal(member[1].report->received, i + 1);
}

static void what_has_no_room_in_the_channel_goes_by_the_network(void **state)
{
	unsigned i, answers = CHANNEL_CELLS + 20;
	uint32_t put;

	start(0, true);
	start(0, true);
	open_channel(&member[0], &member[1]);
	settle();
	put = put_by(&member[0]);
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_HOLD }), 0);
	for (i = 0; i < answers; i++)
		send_answer(&member[0], member[1].report->slot, loopback4);
	assert_in_range(put_by(&member[0]), put + 1, put + CHANNEL_CELLS);
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_LET_GO }), 0);
	assert_true(comes_to(answers, true));
}

/* A process of our user may write what it likes into its channel. */
static void nobody_speaks_for_another_process_through_its_channel(void **state)
{
	unsigned i;

	for (i = 0; i < 3; i++)
		start(0, true);
	open_channel(&member[0], &member[1]);
	for (i = 0; i < 5; i++)
		send_answer_as(&member[0], member[2].report->slot, member[1].report->slot, loopback4);
	send_answer(&member[0], member[1].report->slot, loopback4);
	assert_true(comes_to(1, true));
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_REPORT }), 0);
	assert_int_equal(member[1].report->forged, 5);
}

static void flood(struct member *by, const struct member *to, struct cm_message *message)
{
	struct order order = { .kind = DO_FLOOD, .number = to->report->slot };

	memcpy(order.address, loopback4, 16);
	cm_message_write(message, order.mad);
	assert_int_equal(tell(by, order), 0);
}

static void a_flood_through_a_channel_keeps_nobody_from_a_server(void **state)
{
	struct cm_message dreq = { .kind = CM_MESSAGE_DREQ }, req = { .kind = CM_MESSAGE_REQ };
	unsigned i, answers;

	for (i = 0; i < 3; i++)
		start(0, true);
	serve(&member[1], SERVICE + 1);
	open_channel(&member[0], &member[1]);
	dreq.dreq.local_comm_id = req.req.local_comm_id = member[0].report->slot << COMM_ID_SLOT_SHIFT;
	dreq.dreq.remote_comm_id = member[1].report->slot << COMM_ID_SLOT_SHIFT;
	flood(&member[0], &member[1], &dreq);
	/* Repeated, as the protocol does: its socket may be full of what had no room in the channel. */
	for (i = 0; i < SOON_TRIES && !member[1].report->received; i++) {
		send_request(&member[2], SERVICE + 1, loopback4);
		thread_sleep_ns(MS);
	}
	assert_true(comes_true(member[1].report->received));
	settle();
	answers = member[1].report->answers;
	assert_in_range(answers, 1, FLOOD);
	/* Of those that nobody serves a few wait for a server, and the others are refused. */
	req.req.service_id = SERVICE;
	flood(&member[0], &member[1], &req);
	for (i = 0; i < SOON_TRIES && member[1].report->answers == answers; i++) {
		send_answer(&member[2], member[1].report->slot, loopback6);
		thread_sleep_ns(MS);
	}
	assert_true(comes_true(member[1].report->answers > answers));
	assert_true(comes_true(member[1].report->received > 1));
}

/* Programs that use verbs alone share the port, and hand on what is for others. */
static void processes_without_a_consumer_hand_on(void **state)
{
	unsigned i, refused = 0;

	for (i = 0; i < 3; i++)
		start(0, false);
	start(0, true);
	start(0, true);
	serve(&member[3], SERVICE);
	settle();
	for (i = 0; i < 30; i++) {
		send_request(&member[4], SERVICE, loopback4);
		assert_true(comes_to(i + 1, false));
	}
	assert_int_equal(member[3].report->received, 30);
	assert_int_equal(member[4].report->answers, 0);
	/* And refuse what nobody serves: the answer is for who asked. */
	for (i = 0; i < 30; i++)
		send_request(&member[4], SERVICE + 1, loopback4);
	settle();
	refused = sum(true);
	assert_in_range(refused, 1, 30);
	assert_int_equal(refused + sum(false), 60);
	assert_int_equal(member[4].report->answers, refused);
}

/* No process with connection management is there but the one that asks. */
static void a_program_that_uses_verbs_alone_says_that_nobody_listens(void **state)
{
	struct cm_message answer;
	unsigned i, dreqs;

	start(0, false);
	start(0, true);
	for (i = 0; i < 20; i++)
		send_request(&member[1], SERVICE, loopback6);
	settle();
	assert_in_range(member[1].report->answers, 1, 20);
	assert_true(cm_message_parse(member[1].report->mad, &answer));
	assert_int_equal(sum(false) + sum(true), 20);
	/* And of a dead process's connection that it is over: DREP. */
	for (i = 1; i == member[0].report->slot || i == member[1].report->slot;)
		i++;
	for (dreqs = 0; dreqs < 20; dreqs++)
		send_answer(&member[1], i, dreqs & 1 ? loopback4 : loopback6);
	settle();
	assert_int_equal(sum(false) + sum(true), 40);
	tell(&member[0], (struct order){ .kind = DO_REPORT });
	assert_int_equal(member[0].report->nobody, 0);
}

/* A server that begins a little later than its client is not missed. */
static void a_request_waits_a_moment_for_its_server(void **state)
{
	unsigned round, in_time = 0, served = 0;
	uint64_t begin_ns;

	start(0, true);
	start(0, true);
	start(0, false);
	for (round = 0; in_time < 10; round++) {
		assert_in_range(round, 0, SOON_TRIES);
		begin_ns = clock_now_ns();
		send_request(&member[0], SERVICE + round, loopback4);
		thread_sleep_ns(5 * MS);
		serve(&member[1], SERVICE + round);
		in_time += clock_now_ns() - begin_ns < 30 * MS;
		assert_true(comes_true(sum(true) + sum(false) == round + 1));
		served = member[1].report->received;
		assert_int_equal(tell(&member[1], (struct order){ .kind = DO_RELEASE }), 0);
	}
	/* Where all of it was late, too late for who had the request, it was refused. */
	assert_in_range(served, in_time, round);
	assert_in_range(sum(true) + sum(false), round, round);
}

static bool hundred_all_come(void)
{
	unsigned i, came = sum(false);

	for (i = 0; i < 100; i++)
		send_request(&member[0], SERVICE + 7, loopback4);
	settle();
	return sum(false) == came + 100;
}

static void a_stopped_process_does_not_disturb_the_others(void **state)
{
	unsigned i, came;

	for (i = 0; i < 5; i++)
		start(0, true);
	serve(&member[1], SERVICE);
	settle();
	kill(member[4].pid, SIGSTOP);
	for (i = 0; i < 50; i++)
		send_request(&member[0], SERVICE, loopback4);
	for (i = 0; i < 50; i++)
		send_answer(&member[0], member[2].report->slot, loopback4);
	assert_true(comes_to(50, false));
	assert_true(comes_to(50, true));
	assert_int_equal(member[1].report->received, 50);
	assert_int_equal(member[2].report->answers, 50);
	/* One of five gets nothing done: repetitions find another. */
	for (i = 0; i < 100; i++)
		send_request(&member[0], SERVICE + 7, loopback4);
	settle();
	came = sum(false) - 50;
	assert_in_range(came, 50, 100);
	/* Once the map is derived without it, it gets no more. */
	end(&member[3]);
	assert_true(comes_true(hundred_all_come()));
	kill(member[4].pid, SIGCONT);
}

static void another_user_serves_and_asks(void **state)
{
	struct member *nobody;
	unsigned i;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	start(0, true);
	start(0, true);
	nobody = start(NOBODY, true);
	serve(nobody, SERVICE);
	serve(&member[1], SERVICE + 1);
	assert_int_equal(claim(&member[0], SERVICE, loopback4, 0), EADDRINUSE);
	for (i = 0; i < 10; i++) {
		send_request(&member[0], SERVICE, loopback4);
		assert_true(comes_to(2 * i + 1, false));
		send_request(nobody, SERVICE + 1, loopback4);
		assert_true(comes_to(2 * i + 2, false));
		send_answer(&member[0], nobody->report->slot, loopback4);
		assert_true(comes_to(i + 1, true));
	}
	assert_int_equal(nobody->report->received, 10);
	assert_int_equal(nobody->report->answers, 10);
	assert_int_equal(member[1].report->received, 10);
	assert_int_equal(tell(&member[0], (struct order){ .kind = DO_WATCH,
							  .number = nobody->report->slot }), 0);
	end(nobody);
	assert_true(comes_true(member[0].report->gone == 1));
}

/* Of one that does without connection management, too. */
static uint64_t time_to_hear_of_a_kill(unsigned heard)
{
	struct member *watched = start(0, false);
	struct order order = { .kind = DO_WATCH, .number = watched->report->slot };
	uint64_t then_ns;

	assert_int_equal(tell(&member[0], order), 0);
	assert_int_equal(tell(&member[0], order), 0);
	thread_sleep_ns(20 * MS);
	assert_int_equal(member[0].report->gone, heard);
	then_ns = clock_now_ns();
	end(watched);
	assert_true(comes_true(member[0].report->gone == heard + 1));
	assert_int_equal(member[0].report->gone_slot, order.number);
	assert_int_equal(tell(&member[0], order), ESRCH);
	munmap(watched->report, sizeof(*watched->report));
	member_count--;
	return member[0].report->gone_ns - then_ns;
}

static void a_killed_peer_is_told_of_at_once(void **state)
{
	unsigned tries = 0;

	start(0, true);
	while (time_to_hear_of_a_kill(tries) > 200 * MS)
		assert_in_range(++tries, 0, SOON_TRIES);
}

/* What it had sent is there, and nobody has looked yet. */
static void what_a_peer_sent_comes_before_its_end(void **state)
{
	start(0, true);
	start(0, true);
	assert_int_equal(tell(&member[0], (struct order){ .kind = DO_WATCH,
							  .number = member[1].report->slot }), 0);
	send_answer(&member[1], member[0].report->slot, loopback4);
	assert_true(comes_to(1, true));
	assert_int_equal(tell(&member[0], (struct order){ .kind = DO_HOLD }), 0);
	send_answer(&member[1], member[0].report->slot, loopback4);
	end(&member[1]);
	settle();
	assert_int_equal(tell(&member[0], (struct order){ .kind = DO_LET_GO }), 0);
	assert_true(comes_true(member[0].report->gone == 1));
	assert_int_equal(member[0].report->gone_behind, 2);
}

static void a_child_keeps_nothing_of_its_parents(void **state)
{
	struct order order = { .kind = DO_WATCH };
	int err;

	start(0, true);
	start(0, true);
	serve(&member[1], SERVICE);
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_FORK }), 0);
	order.number = member[1].report->slot;
	assert_int_equal(tell(&member[0], order), 0);
	send_request(&member[0], SERVICE, loopback4);
	assert_true(comes_to(1, false));
	end(&member[1]);		/* the child lives on */
	assert_true(comes_true(member[0].report->gone));
	assert_int_equal(member[0].report->gone, 1);
	/* The kernel closes its descriptors one by one. */
	assert_true(comes_true((err = claim(&member[0], SERVICE, any, AF_UNSPEC)) != EADDRINUSE));
	assert_int_equal(err, 0);
	kill(member[1].report->child, SIGKILL);
}

static void deadlines_are_kept_and_idling_costs_nothing(void **state)
{
	struct order order = { .kind = DO_DEADLINE };
	unsigned i, in_time = 0;
	uint64_t before_ns;

	start(0, true);
	start(0, true);
	serve(&member[0], SERVICE);
	settle();
	for (i = 1; in_time < 5; i++) {
		assert_in_range(i, 1, SOON_TRIES);
		order.number = clock_now_ns() + in_time * 4 * MS;
		assert_int_equal(tell(&member[0], order), 0);
		assert_true(comes_true(member[0].report->ticks == i));
		assert_true(member[0].report->tick_ns >= order.number);
		in_time += member[0].report->tick_ns <= order.number + 25 * MS;
	}
	order.number = TIME_NEVER;
	tell(&member[0], order);
	tell(&member[0], (struct order){ .kind = DO_REPORT });
	before_ns = member[0].report->cpu_ns;
	thread_sleep_ns(SECOND);
	tell(&member[0], (struct order){ .kind = DO_REPORT });
	assert_in_range(member[0].report->cpu_ns - before_ns, 0, 3 * MS);
	assert_int_equal(member[0].report->ticks, i - 1);
}

static void a_closed_consumer_hears_no_more(void **state)
{
	start(0, true);
	start(0, true);
	serve(&member[1], SERVICE);
	assert_int_equal(tell(&member[1], (struct order){ .kind = DO_CLOSE }), 0);
	assert_int_equal(claim(&member[0], SERVICE, loopback4, 0), 0);
	/* Its connections are over: the process says so by itself (DREP). */
	send_answer(&member[0], member[1].report->slot, loopback4);
	assert_true(comes_to(1, true));
	assert_int_equal(member[0].report->answers, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_reaches_who_serves_it),
		TEST(what_nobody_serves_reaches_somebody_to_be_refused),
		TEST(an_answer_reaches_whose_communication_id_it_answers),
		TEST(an_answer_goes_through_the_channel_to_its_process),
		TEST(a_request_goes_through_the_channel_to_who_had_served_it),
		TEST(what_has_no_room_in_the_channel_goes_by_the_network),
		TEST(nobody_speaks_for_another_process_through_its_channel),
		TEST(a_flood_through_a_channel_keeps_nobody_from_a_server),
		TEST(claims_collide_across_processes_until_they_end),
		TEST(processes_without_a_consumer_hand_on),
		TEST(a_program_that_uses_verbs_alone_says_that_nobody_listens),
		TEST(a_request_waits_a_moment_for_its_server),
		TEST(a_stopped_process_does_not_disturb_the_others),
		TEST(another_user_serves_and_asks),
		TEST(a_killed_peer_is_told_of_at_once),
		TEST(what_a_peer_sent_comes_before_its_end),
		TEST(a_child_keeps_nothing_of_its_parents),
		TEST(deadlines_are_kept_and_idling_costs_nothing),
		TEST(a_closed_consumer_hears_no_more),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
