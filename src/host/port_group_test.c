/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sharing of port 4791 with real processes, in network namespaces made for it. Each member is
 * a fork()ed process with the UDP link, its slots and the port group, driven as the worker of
 * an HCA drives them; it counts in shared memory what it got. The test process sends
 * packets to slots from outside the group and looks at the counts.
 *
 * Needs root (or unprivileged user namespaces); skipped loudly otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/timer_heap.h"
#include "base/log.h"
#include "host/port_group.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "platform/netns_test.h"
#include "platform/rest_test.h"
#include "platform/wait.h"

#define MEMBERS_MAX	40
#define SLOTS_MAX	3
#define TAG_SOCKETS	2u
#define TAG_SLOTS	4u
#define TAG_GROUP	8u
#define TAG_OWNER	16u
#define SECOND		1000000000ull
#define NOBODY		65534

/* What a member tells the test, in shared memory. */
struct report {
	_Atomic bool ready, bound, child_closes, child_ends;
	_Atomic uint32_t slot_count;
	uint32_t slot[SLOTS_MAX];
	_Atomic uint64_t direct;	/* packets for its slots that came by the port */
	_Atomic uint64_t handed;	/* packets for its slots that another member handed on */
	_Atomic uint64_t foreign;	/* packets for others that came by the port */
	_Atomic uint64_t wrong;		/* handed on to it, but not its own */
	struct counters counters;
};

struct member {
	pid_t pid;
	struct report *report;
};

/* ---- a member ---- */

struct process {
	struct report *report;
	struct link *link;
	struct slot slot[SLOTS_MAX];
	struct port_group *group;
	struct waiter waiter;
	int owner_fd;
	uint64_t rebind_ns;
};

static struct slot_proof proof;
static bool is_mine(const struct process *process, uint32_t slot)
{
	unsigned i;

	for (i = 0; i < process->report->slot_count; i++)
		if (process->slot[i].number == slot)
			return true;
	return false;
}

static void take_packet(struct process *process, struct datagram *one)
{
	uint32_t slot = qpn_slot(get_be24(one->data + 5));
	struct report *report = process->report;

	if (is_mine(process, slot)) {
		atomic_fetch_add(one->forwarded ? &report->handed : &report->direct, 1);
		return;
	}
	if (one->forwarded) {
		atomic_fetch_add(&report->wrong, 1);
		return;
	}
	atomic_fetch_add(&report->foreign, 1);
	if (!slot_forward(slot, one))
		port_group_stale(process->group, clock_now_ns());
}

static void take_datagram(struct process *process, const struct datagram *datagram)
{
	size_t size = datagram->segment_bytes ? datagram->segment_bytes : datagram->bytes, done;
	struct datagram one = *datagram;

	if (process->group && port_group_takes(process->group, datagram))
		return;
	one.segment_bytes = 0;
	for (done = 0; done < datagram->bytes; done += one.bytes) {
		one.data = datagram->data + done;
		one.bytes = datagram->bytes - done < size ? datagram->bytes - done : size;
		take_packet(process, &one);
	}
}

static void try_bind(struct process *process)
{
	int fd4, fd6;

	if (process->owner_fd >= 0)
		close(process->owner_fd);	/* leaves the epoll set by that */
	process->owner_fd = -1;
	process->rebind_ns = TIME_NEVER;
	if (udp_bind(process->link)) {
		process->owner_fd = port_owner_watch();
		if (process->owner_fd < 0 ||
		    waiter_add(&process->waiter, process->owner_fd, TAG_OWNER))
			process->rebind_ns = clock_now_ns() + SECOND / 10;
		return;
	}
	udp_bound_fds(process->link, &fd4, &fd6);
	waiter_add(&process->waiter, fd4, TAG_SOCKETS);
	if (fd6 >= 0)
		waiter_add(&process->waiter, fd6, TAG_SOCKETS);
	if (port_group_join(&process->group, fd4, fd6, process->slot, process->report->slot_count,
			    &process->report->counters))
		_exit(3);
	waiter_add(&process->waiter, port_group_event_fd(process->group), TAG_GROUP);
	process->report->bound = true;
}

static void receive_all(struct process *process, uint8_t *buffer, size_t size)
{
	struct datagram datagram[16];
	unsigned i, received;

	do {
		process->link->ops->receive(process->link, datagram, 16, &received);
		for (i = 0; i < received; i++)
			take_datagram(process, &datagram[i]);
	} while (received);
	for (i = 0; i < process->report->slot_count; i++)
		while (!slot_receive(&process->slot[i], &datagram[0], buffer, size, &proof))
			take_datagram(process, &datagram[0]);
}

/* The child of a fork() in a member: drops what it inherited, and lives on. */
static void fork_child_that_closes(struct process *process)
{
	unsigned i;

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, 0);
	udp_abandon(process->link);
	port_group_abandon(process->group);
	for (i = 0; i < process->report->slot_count; i++)
		close(process->slot[i].fd);
	close(process->waiter.epoll_fd);
	for (i = 0; i < 1000 && !process->report->child_ends; i++)
		thread_sleep_ns(SECOND / 100);
	_exit(0);
}

static void run_member(struct report *report, unsigned slots, uid_t uid)
{
	struct process process = { .report = report, .owner_fd = -1, .rebind_ns = TIME_NEVER };
	static uint8_t buffer[65536];
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_init();
	alarm(HANGING_S);
	if ((uid && setresuid(uid, uid, uid)) || udp_open(&process.link, &report->counters) ||
	    waiter_open(&process.waiter))
		_exit(1);
	for (i = 0; i < slots; i++) {
		if (slot_claim(&process.slot[i]) ||
		    waiter_add(&process.waiter, process.slot[i].fd, TAG_SLOTS))
			_exit(2);
		report->slot[i] = process.slot[i].number;
	}
	report->slot_count = slots;
	try_bind(&process);
	report->ready = true;
	if (report->child_closes)
		fork_child_that_closes(&process);
	for (;;) {
		uint64_t now_ns = clock_now_ns(), due_ns = process.rebind_ns;
		uint32_t ready;

		if (process.group && port_group_deadline(process.group) < due_ns)
			due_ns = port_group_deadline(process.group);
		ready = waiter_wait(&process.waiter, due_ns == TIME_NEVER ? UINT64_MAX :
						     due_ns > now_ns ? due_ns - now_ns : 0);
		now_ns = clock_now_ns();
		receive_all(&process, buffer, sizeof(buffer));
		if (process.group &&
		    ((ready & TAG_GROUP) || port_group_deadline(process.group) <= now_ns))
			port_group_tick(process.group, now_ns);
		if ((ready & TAG_OWNER) || process.rebind_ns <= now_ns)
			try_bind(&process);
	}
}

/* ---- the test process ---- */

static bool real_root;
static struct member member[MEMBERS_MAX];
static unsigned member_count;
static struct link *sender;
static struct counters sender_counters;

static bool all_rest(void)
{
	unsigned i;

	for (i = 0; i < member_count; i++)
		if (member[i].pid && !process_rests(member[i].pid))
			return false;
	return true;
}

/* Lets time pass in which members do what they have to; it is not over while one of them wants a processor. */
static void settle(uint64_t time_ns)
{
	thread_sleep_ns(time_ns);
	assert_true(comes_true(all_rest()));
}

/* After @timeout_ns nothing will come of what is not there while all members rest: it is lost. */
static bool wait_until(bool (*done)(void), uint64_t timeout_ns)
{
	uint64_t rest_ns = clock_now_ns() + timeout_ns, end_ns = rest_ns + PATIENCE_NS;

	while (!done()) {
		uint64_t now_ns = clock_now_ns();

		if (now_ns > end_ns || (now_ns > rest_ns && all_rest()))
			return done();
		thread_sleep_ns(SECOND / 1000);
	}
	return true;
}

static bool all_ready(void)
{
	unsigned i;

	for (i = 0; i < member_count; i++)
		if (member[i].pid && !member[i].report->ready)
			return false;
	return true;
}

static struct member *start_member(unsigned slots, uid_t uid, bool child_closes)
{
	struct member *made = &member[member_count++];

	assert_true(member_count <= MEMBERS_MAX);
	made->report = mmap(NULL, sizeof(*made->report), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(made->report, MAP_FAILED);
	made->report->child_closes = child_closes;
	made->pid = fork();
	assert_true(made->pid >= 0);
	if (!made->pid)
		run_member(made->report, slots, uid);
	return made;
}

static void start_members(unsigned count, unsigned slots)
{
	while (count--)
		start_member(slots, 0, false);
	assert_true(comes_true(all_ready()));
}

static void kill_member(struct member *killed)
{
	if (!killed->pid)
		return;
	kill(killed->pid, SIGKILL);
	waitpid(killed->pid, NULL, 0);
	killed->pid = 0;
}

static void make_packet(uint8_t packet[64], uint32_t slot)
{
	memset(packet, 0, 64);
	packet[0] = 0x04;		/* RC SEND ONLY */
	put_be24(packet + 5, slot << 14 | 0x11);
}

static bool from_outside;	/* the test process is in another network namespace */

static void set_addresses(struct datagram *datagram, bool ipv6)
{
	static const uint8_t ipv4_loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	static const uint8_t ipv6_loopback[16] = { [15] = 1 };
	static const uint8_t outside[16] = { [10] = 0xff, 0xff, 10, 9, 0, 2 };
	static const uint8_t inside[16] = { [10] = 0xff, 0xff, 10, 9, 0, 1 };

	datagram->hop_limit = 64;
	if (from_outside) {
		memcpy(datagram->source, outside, 16);
		memcpy(datagram->destination, inside, 16);
		return;
	}
	memcpy(datagram->source, ipv6 ? ipv6_loopback : ipv4_loopback, 16);
	memcpy(datagram->destination, ipv6 ? ipv6_loopback : ipv4_loopback, 16);
}

static void send_packet(uint32_t slot, bool ipv6)
{
	uint8_t packet[64];
	struct datagram datagram = { .data = packet, .bytes = sizeof(packet), .spread = slot };
	unsigned sent;

	make_packet(packet, slot);
	set_addresses(&datagram, ipv6);
	sender->ops->prepare(sender, &datagram);
	assert_int_equal(sender->ops->send(sender, &datagram, 1, &sent), 0);
	assert_int_equal(sent, 1);
}

static uint64_t got(const struct member *of)
{
	return of->report->direct + of->report->handed;
}

static uint64_t sum_foreign(void)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < member_count; i++)
		sum += member[i].report->foreign + member[i].report->wrong;
	return sum;
}

static void clear_counts(void)
{
	unsigned i;

	for (i = 0; i < member_count; i++) {
		struct report *report = member[i].report;

		report->direct = report->handed = report->foreign = report->wrong = 0;
	}
}

static uint64_t expected[MEMBERS_MAX];

static bool all_got(void)
{
	unsigned i;

	for (i = 0; i < member_count; i++)
		if (got(&member[i]) < expected[i])
			return false;
	return true;
}

/* @each packets to each slot of each living member that @takes; waits until they are there. */
static bool send_round(unsigned each, bool ipv6, bool (*takes)(const struct member *))
{
	unsigned i, s, n;

	clear_counts();
	memset(expected, 0, sizeof(expected));
	for (n = 0; n < each; n++)
		for (i = 0; i < member_count; i++) {
			if (!member[i].pid || (takes && !takes(&member[i])))
				continue;
			for (s = 0; s < member[i].report->slot_count; s++)
				send_packet(member[i].report->slot[s], ipv6);
			expected[i] += member[i].report->slot_count;
			if (n % 8 == 7 && i == member_count - 1)
				wait_until(all_got, SECOND / 2);	/* queues are short */
		}
	return wait_until(all_got, SECOND / 2);
}

/* Rounds until one reaches every member directly. */
static void assert_converges(bool ipv6, bool (*takes)(const struct member *))
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	while (!send_round(1, ipv6, takes) || sum_foreign()) {
		if (clock_now_ns() > end_ns)
			fail_msg("IPv%d: the members do not agree on a map", ipv6 ? 6 : 4);
		thread_sleep_ns(SECOND / 200);
	}
}

/* Every member got all of a round of 32, directly. */
static bool is_exact(bool ipv6, bool (*takes)(const struct member *))
{
	unsigned i;

	if (!send_round(32, ipv6, takes))
		return false;
	for (i = 0; i < member_count; i++)
		if (expected[i] && (member[i].report->direct != expected[i] || member[i].report->handed))
			return false;
	return !sum_foreign();
}

/*
 * Where members get no processor for a while one may answer a probe too late; it is left out of the map then,
 * until a member notices. That costs a detour, whose queues are short, so another round tells.
 */
static void assert_exact(bool ipv6, bool (*takes)(const struct member *))
{
	unsigned rounds = 20;

	while (!is_exact(ipv6, takes))
		if (!--rounds)
			fail_msg("IPv%d: packets take detours", ipv6 ? 6 : 4);
}

static int setup(void **state)
{
	if (!netns_renew())
		return -1;
	member_count = 0;
	return udp_open(&sender, &sender_counters);
}

static int teardown(void **state)
{
	unsigned i;

	for (i = 0; i < member_count; i++) {
		kill_member(&member[i]);
		member[i].report->child_ends = true;
		munmap(member[i].report, sizeof(*member[i].report));
	}
	sender->ops->close(sender);
	return 0;
}

/* ---- tests ---- */

static void each_member_gets_exactly_the_packets_of_its_slots(void **state)
{
	start_members(6, 2);
	assert_converges(false, NULL);
	assert_converges(true, NULL);
	assert_exact(false, NULL);
	assert_exact(true, NULL);
}

static void a_lone_member_needs_no_program(void **state)
{
	start_members(1, 1);
	assert_true(send_round(8, false, NULL));
	assert_int_equal(sum_foreign(), 0);
	assert_int_equal(counter_get(&member[0].report->counters, COUNTER_GROUP_REMAP), 0);
}

/*
 * One packet per slot at a time, for the queues of slot sockets are short and the answers to
 * probes wait there too: on a loaded machine a packet may be lost, but not again and again.
 */
static void packets_reach_their_slots_while_members_join(void **state)
{
	unsigned i, n, lost = 0;

	start_members(1, 1);
	for (i = 0; i < 7; i++) {
		start_member(1, 0, false);
		assert_true(comes_true(all_ready()));
		for (n = 0; n < 4; n++)
			lost += !send_round(1, false, NULL);
	}
	assert_in_range(lost, 0, 3);
	assert_converges(false, NULL);
}

static void the_map_follows_when_members_are_killed(void **state)
{
	start_members(6, 1);
	assert_converges(false, NULL);
	kill_member(&member[0]);
	kill_member(&member[3]);
	settle(SECOND / 10);	/* without a packet in between: noticed by hang-up */
	assert_true(send_round(1, false, NULL));
	assert_int_equal(sum_foreign(), 0);
	assert_exact(false, NULL);
	assert_converges(true, NULL);
}

static const struct member *stopped;

static bool is_running(const struct member *of)
{
	return of != stopped;
}

static void a_stopped_member_does_not_disturb_the_others(void **state)
{
	start_members(6, 1);
	assert_converges(false, NULL);
	stopped = &member[2];
	kill(stopped->pid, SIGSTOP);
	assert_exact(false, is_running);
	/* The order of indices changes with it stopped: the hash may not choose it. */
	kill_member(&member[0]);
	settle(SECOND / 5);
	assert_converges(false, is_running);
	assert_exact(false, is_running);
	start_members(1, 1);
	assert_converges(false, is_running);
	assert_exact(false, is_running);
	kill(stopped->pid, SIGCONT);
	settle(SECOND / 20);
	assert_converges(false, NULL);
	assert_exact(false, NULL);
}

static bool nobody_is_bound(void)
{
	return member[member_count - 1].report->bound;
}

static void another_user_is_served_and_takes_over_the_port(void **state)
{
	struct member *nobody;

	if (!real_root)
		skip();
	start_members(2, 1);
	assert_converges(false, NULL);
	nobody = start_member(1, NOBODY, false);
	assert_true(comes_true(all_ready()));
	assert_false(nobody->report->bound);
	assert_true(send_round(8, false, NULL));
	assert_int_equal(nobody->report->handed, 8);
	kill_member(&member[0]);
	settle(SECOND / 20);
	assert_false(nobody->report->bound);
	assert_true(send_round(8, false, NULL));
	kill_member(&member[1]);
	assert_true(comes_true(nobody_is_bound()));
	assert_true(send_round(8, false, NULL));
	assert_int_equal(nobody->report->direct, 8);
}

static void a_child_that_closes_is_no_black_hole(void **state)
{
	uint32_t slot;

	start_member(1, 0, true);
	start_members(2, 1);
	assert_converges(false, NULL);
	assert_exact(false, NULL);
	slot = member[0].report->slot[0];
	assert_true(slot_is_claimed(slot));
	kill_member(&member[0]);	/* its child lives on */
	assert_false(slot_is_claimed(slot));
	settle(SECOND / 10);
	assert_exact(false, NULL);
}

static void thirty_members_agree(void **state)
{
	start_members(30, 1);
	assert_converges(false, NULL);
	assert_converges(true, NULL);
	assert_exact(false, NULL);
}

/* Runs of two slots, by one process, at once; then one run with packets of both. */
static void runs_of_two_slots_are_told_apart(void **state)
{
	static uint8_t bytes[2][16 * 64];
	struct datagram run[2] = { 0 };
	unsigned i, s, sent, round;

	start_members(2, 1);
	assert_converges(false, NULL);
	clear_counts();
	for (s = 0; s < 2; s++) {
		for (i = 0; i < 16; i++)
			make_packet(bytes[s] + i * 64, member[s].report->slot[0]);
		run[s] = (struct datagram){ .data = bytes[s], .bytes = sizeof(bytes[s]),
					    .segment_bytes = 64,
					    .spread = member[s].report->slot[0] };
		set_addresses(&run[s], false);
		assert_int_equal(sender->ops->prepare(sender, &run[s]), LINK_SEGMENTS_MAX);
	}
	assert_int_not_equal(run[0].source_port, run[1].source_port);
	for (round = 0; round < 20; round++)
		assert_int_equal(sender->ops->send(sender, run, 2, &sent), 0);
	expected[0] = expected[1] = 20 * 16;
	assert_true(wait_until(all_got, SECOND));
	assert_int_equal(sum_foreign(), 0);

	clear_counts();
	for (i = 0; i < 8; i++)
		make_packet(bytes[0] + i * 2 * 64, member[1].report->slot[0]);
	assert_int_equal(sender->ops->send(sender, run, 1, &sent), 0);
	expected[0] = expected[1] = 8;
	assert_true(wait_until(all_got, SECOND));
	assert_int_equal(member[0].report->direct + member[1].report->direct, 8);
	assert_int_equal(member[0].report->handed + member[1].report->handed, 8);
}

/* The members stay where they are; the test process goes to the other end of a veth pair. */
static bool move_outside(void)
{
	char command[200];
	bool moved;
	int ns;
	pid_t holder = fork();

	if (!holder) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(HANGING_S);
		if (unshare(CLONE_NEWNET))
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(comes_true(process_rests(holder)));
	snprintf(command, sizeof(command),
		 "ip link add pa type veth peer name pb && ip link set pb netns %d && "
		 "ip address add 10.9.0.1/24 dev pa && ip link set pa up",
		 (int)holder);
	moved = !system(command);
	snprintf(command, sizeof(command), "/proc/%d/ns/net", (int)holder);
	ns = open(command, O_RDONLY | O_CLOEXEC);
	moved = moved && !setns(ns, CLONE_NEWNET) &&
		!system("ip address add 10.9.0.2/24 dev pb && ip link set pb up");
	close(ns);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	sender->ops->close(sender);	/* its sockets would be in the old one */
	return !udp_open(&sender, &sender_counters) && moved;
}

/* No probe gets anywhere then: packets take detours, but they arrive. */
static void without_lo_packets_are_handed_on(void **state)
{
	unsigned i, arrived = 0;

	if (system("ip link set lo down") != 0) {
		print_message("SKIPPED: iproute2 is missing\n");
		skip();
	}
	start_members(4, 1);
	from_outside = move_outside();
	if (!from_outside) {
		print_message("SKIPPED: no veth pair can be made here\n");
		skip();
	}
	for (i = 0; i < 10 && !send_round(1, false, NULL); i++)
		;		/* the veth pair comes up */
	for (i = 0; i < 10; i++)
		arrived += send_round(1, false, NULL);
	from_outside = false;
	assert_int_equal(arrived, 10);
	for (i = 0; i < member_count; i++)
		assert_int_equal(counter_get(&member[i].report->counters, COUNTER_GROUP_REMAP), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lone_member_needs_no_program, setup, teardown),
		cmocka_unit_test_setup_teardown(each_member_gets_exactly_the_packets_of_its_slots,
						setup, teardown),
		cmocka_unit_test_setup_teardown(packets_reach_their_slots_while_members_join, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_map_follows_when_members_are_killed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_stopped_member_does_not_disturb_the_others, setup,
						teardown),
		cmocka_unit_test_setup_teardown(another_user_is_served_and_takes_over_the_port,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_that_closes_is_no_black_hole, setup,
						teardown),
		cmocka_unit_test_setup_teardown(thirty_members_agree, setup, teardown),
		cmocka_unit_test_setup_teardown(without_lo_packets_are_handed_on, setup, teardown),
		cmocka_unit_test_setup_teardown(runs_of_two_slots_are_told_apart, setup, teardown),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
