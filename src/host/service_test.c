/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims on services: which collide, in one process and between processes and users, and which
 * process gets a request. Other processes are fork()ed servants that do what they are told over a
 * socket pair.
 *
 * Needs a network namespace (root, or unprivileged user namespaces); skipped loudly otherwise.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/forward.h"
#include "host/name.h"
#include "host/service.h"
#include "host/service_owner.h"
#include "platform/fail.h"
#include "platform/netns_test.h"
#include "platform/wait.h"

#define ID		0x0000000001067530ull
#define NOBODY		65534
#define CLAIMS		1000

static const uint8_t any[16];
static const uint8_t ipv4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
static const uint8_t other_ipv4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 77 };
static const uint8_t ipv6[16] = { [15] = 1 };
static bool real_root;

/* ---- servants ---- */

struct order {
	enum { ORDER_CLAIM, ORDER_SERVE, ORDER_RELEASE, ORDER_TAKE } kind;
	uint64_t id;
	uint8_t address[16];
	int family;
};

struct servant {
	pid_t pid;
	int fd;
};

static int obey(struct services *services, const struct order *order)
{
	static struct service_claim *claim;
	static uint8_t buffer[4096];
	struct datagram datagram;

	switch (order->kind) {
	case ORDER_CLAIM:
		return service_claim(services, order->id, order->address, order->family, &claim);
	case ORDER_SERVE:
		return service_serve(services, claim);
	case ORDER_RELEASE:
		service_release(services, claim);
		return 0;
	case ORDER_TAKE:
		return services_receive(services, &datagram, buffer, sizeof(buffer));
	}
	return ENOSYS;
}

static struct servant hire(uid_t uid)
{
	struct services *services;
	struct servant servant;
	struct order order;
	int pair[2], err;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	servant = (struct servant){ .pid = fork(), .fd = pair[0] };
	if (!servant.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(240);
		if ((uid && setresuid(uid, uid, uid)) || services_open(&services))
			_exit(1);
		while (read(pair[1], &order, sizeof(order)) == (ssize_t)sizeof(order)) {
			err = obey(services, &order);
			if (write(pair[1], &err, sizeof(err)) < 0)
				break;
		}
		_exit(0);
	}
	close(pair[1]);
	return servant;
}

static int tell(struct servant *servant, int kind, uint64_t id, const uint8_t address[16], int family)
{
	struct order order = { .id = id, .family = family };
	int err = -1;

	order.kind = kind;
	memcpy(order.address, address, 16);
	assert_int_equal(write(servant->fd, &order, sizeof(order)), sizeof(order));
	assert_int_equal(read(servant->fd, &err, sizeof(err)), sizeof(err));
	return err;
}

static void dismiss(struct servant *servant)
{
	kill(servant->pid, SIGKILL);
	waitpid(servant->pid, NULL, 0);
	close(servant->fd);
}

static void make_request(struct datagram *datagram)
{
	static uint8_t bytes[300] = "request";

	*datagram = (struct datagram){ .data = bytes, .bytes = sizeof(bytes) };
	memcpy(datagram->destination, ipv4, 16);
}

/* ---- what collides ---- */

static const struct scope {
	const uint8_t *address;
	int family;
	unsigned collides;		/* mask of the rows */
} scopes[] = {
	{ ipv4,		AF_UNSPEC,	0x19 },
	{ other_ipv4,	AF_UNSPEC,	0x1a },
	{ ipv6,		AF_UNSPEC,	0x34 },
	{ any,		AF_INET,	0x1b },
	{ any,		AF_UNSPEC,	0x3f },
	{ any,		AF_INET6,	0x34 },
};
#define SCOPES (sizeof(scopes) / sizeof(scopes[0]))

static void check_all_pairs(struct services *services, struct servant *servant)
{
	struct service_claim *mine, *second;
	unsigned a, b;
	int err;

	for (a = 0; a < SCOPES; a++)
		for (b = 0; b < SCOPES; b++) {
			int wanted = scopes[a].collides >> b & 1 ? EADDRINUSE : 0;

			assert_int_equal(service_claim(services, ID, scopes[a].address,
						       scopes[a].family, &mine), 0);
			err = service_claim(services, ID, scopes[b].address, scopes[b].family,
					    &second);
			if (!err)
				service_release(services, second);
			if (err != wanted)
				fail_msg("%u against %u: %d, not %d", b, a, err, wanted);
			err = tell(servant, ORDER_CLAIM, ID, scopes[b].address, scopes[b].family);
			if (!err)
				tell(servant, ORDER_RELEASE, 0, any, 0);
			assert_int_equal(err, wanted);
			service_release(services, mine);
		}
}

static void addresses_collide_with_themselves_and_with_all_of_their_family(void **state)
{
	struct services *services;
	struct servant servant = hire(0);

	assert_int_equal(services_open(&services), 0);
	check_all_pairs(services, &servant);
	services_close(services);
	dismiss(&servant);
}

static void without_a_list_of_names_the_addresses_of_the_host_are_looked_up(void **state)
{
	struct service_claim *claim, *second;
	struct services *services;

	assert_int_equal(services_open(&services), 0);
	assert_int_equal(service_claim(services, ID, ipv6, 0, &claim), 0);
	fail_set(FAIL_NETLINK, 1, EPERM);
	fail_set(FAIL_PROC, 1, ENOENT);
	assert_int_equal(service_claim(services, ID, any, AF_INET6, &second), EADDRINUSE);
	assert_int_equal(atomic_load(&fail_table[FAIL_PROC].countdown), 0);
	fail_set(FAIL_NETLINK, 1, EPERM);
	fail_set(FAIL_PROC, 1, ENOENT);
	assert_int_equal(service_claim(services, ID, any, AF_INET, &second), 0);
	assert_int_equal(atomic_load(&fail_table[FAIL_PROC].countdown), 0);
	fail_clear();
	services_close(services);
}

static void services_with_other_numbers_do_not_collide(void **state)
{
	struct service_claim *claim;
	struct services *services;

	assert_int_equal(services_open(&services), 0);
	assert_int_equal(service_claim(services, ID, any, AF_UNSPEC, &claim), 0);
	assert_int_equal(service_claim(services, ID + 1, any, AF_UNSPEC, &claim), 0);
	assert_int_equal(service_claim(services, ID << 32, any, AF_UNSPEC, &claim), 0);
	services_close(services);
}

static void a_killed_process_holds_nothing(void **state)
{
	struct servant servant = hire(0);
	struct service_claim *claim;
	struct services *services;

	assert_int_equal(services_open(&services), 0);
	assert_int_equal(tell(&servant, ORDER_CLAIM, ID, any, AF_UNSPEC), 0);
	assert_int_equal(tell(&servant, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(service_claim(services, ID, ipv4, 0, &claim), EADDRINUSE);
	dismiss(&servant);
	assert_int_equal(service_claim(services, ID, ipv4, 0, &claim), 0);
	services_close(services);
}

/* Many rounds: a barrier opens, two threads claim what collides. */
static pthread_barrier_t barrier;
#define ROUNDS 300

struct rival {
	struct services *services;
	const uint8_t *address;
	struct service_claim *claim;
	int err;
};

static void *compete(void *argument)
{
	struct rival *rival = argument;
	unsigned i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		rival->err = service_claim(rival->services, ID, rival->address, AF_UNSPEC,
					   &rival->claim);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void of_two_at_the_same_time_one_wins_at_most(void **state)
{
	struct rival rival[2] = { { .address = ipv4 }, { .address = any } };
	unsigned i, r, winners, won = 0;
	pthread_t thread[2];

	pthread_barrier_init(&barrier, NULL, 3);
	for (r = 0; r < 2; r++) {
		assert_int_equal(services_open(&rival[r].services), 0);
		assert_int_equal(pthread_create(&thread[r], NULL, compete, &rival[r]), 0);
	}
	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		winners = !rival[0].err + !rival[1].err;
		won += winners;
		assert_in_range(winners, 0, 1);
		for (r = 0; r < 2; r++) {
			assert_true(!rival[r].err || rival[r].err == EADDRINUSE);
			if (!rival[r].err)
				service_release(rival[r].services, rival[r].claim);
		}
		pthread_barrier_wait(&barrier);
	}
	for (r = 0; r < 2; r++) {
		pthread_join(thread[r], NULL);
		services_close(rival[r].services);
	}
	pthread_barrier_destroy(&barrier);
	assert_in_range(won, 1, ROUNDS);
}

/* ---- requests ---- */

/* Sends one request to the claim, as soon as that takes it, each time the barrier opens. */
static void *ask_until_taken(void *argument)
{
	const struct abstract_name claim = name_of("verbatim/service/0000000001067530/any");
	uint8_t data[] = "request";
	struct datagram request = { .data = data, .bytes = sizeof(data) };
	int fd = name_socket(SOCK_DGRAM);
	unsigned i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		while (forward_send(fd, &claim, &request))
			;
		pthread_barrier_wait(&barrier);
	}
	close(fd);
	return NULL;
}

/* It was sent while the claim was made, or later: it is there. */
static void a_request_that_was_taken_is_received(void **state)
{
	struct service_claim *claim;
	struct services *services;
	struct datagram request;
	uint8_t buffer[4096];
	unsigned i, lost = 0;
	pthread_t thread;

	assert_int_equal(services_open(&services), 0);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, ask_until_taken, NULL), 0);
	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		assert_int_equal(service_claim(services, ID, any, AF_UNSPEC, &claim), 0);
		assert_int_equal(service_serve(services, claim), 0);
		pthread_barrier_wait(&barrier);
		lost += services_receive(services, &request, buffer, sizeof(buffer)) != 0;
		service_release(services, claim);
	}
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	services_close(services);
	assert_int_equal(lost, 0);
}

static void a_request_reaches_who_serves_and_nobody_else(void **state)
{
	struct servant exact = hire(0), all = hire(0), idle = hire(0);
	struct datagram request;

	make_request(&request);
	assert_int_equal(service_forward(ID, ipv4, &request), ECONNREFUSED);
	assert_int_equal(tell(&exact, ORDER_CLAIM, ID, ipv4, 0), 0);
	assert_int_equal(tell(&all, ORDER_CLAIM, ID, any, AF_INET6), 0);
	assert_int_equal(tell(&idle, ORDER_CLAIM, ID + 1, any, AF_UNSPEC), 0);
	/* Claimed but not served: as if unclaimed. */
	assert_int_equal(service_forward(ID, ipv4, &request), ECONNREFUSED);
	assert_int_equal(service_forward(ID + 1, ipv4, &request), ECONNREFUSED);
	assert_int_equal(tell(&exact, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(tell(&all, ORDER_SERVE, 0, any, 0), 0);

	assert_int_equal(service_forward(ID, ipv4, &request), 0);
	assert_int_equal(service_forward(ID, other_ipv4, &request), ECONNREFUSED);
	assert_int_equal(service_forward(ID, ipv6, &request), 0);
	assert_int_equal(tell(&exact, ORDER_TAKE, 0, any, 0), 0);
	assert_int_equal(tell(&exact, ORDER_TAKE, 0, any, 0), EAGAIN);
	assert_int_equal(tell(&all, ORDER_TAKE, 0, any, 0), 0);
	assert_int_equal(tell(&all, ORDER_TAKE, 0, any, 0), EAGAIN);

	assert_int_equal(tell(&idle, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(service_forward(ID + 1, other_ipv4, &request), 0);
	assert_int_equal(tell(&idle, ORDER_TAKE, 0, any, 0), 0);
	assert_int_equal(tell(&idle, ORDER_RELEASE, 0, any, 0), 0);
	assert_int_equal(service_forward(ID + 1, other_ipv4, &request), ECONNREFUSED);
	dismiss(&exact);
	dismiss(&all);
	dismiss(&idle);
}

static void a_stopped_server_keeps_its_requests_and_nobody_elses(void **state)
{
	struct servant stopped = hire(0), running = hire(0);
	struct datagram request;
	unsigned sent = 0;
	int err;

	make_request(&request);
	assert_int_equal(tell(&stopped, ORDER_CLAIM, ID, any, AF_UNSPEC), 0);
	assert_int_equal(tell(&stopped, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(tell(&running, ORDER_CLAIM, ID + 1, any, AF_UNSPEC), 0);
	assert_int_equal(tell(&running, ORDER_SERVE, 0, any, 0), 0);
	kill(stopped.pid, SIGSTOP);
	do
		err = service_forward(ID, ipv4, &request);
	while (!err && ++sent < 10000);
	assert_int_equal(err, EAGAIN);
	assert_int_equal(service_forward(ID + 1, ipv4, &request), 0);
	assert_int_equal(tell(&running, ORDER_TAKE, 0, any, 0), 0);
	kill(stopped.pid, SIGCONT);
	while (sent--)
		assert_int_equal(tell(&stopped, ORDER_TAKE, 0, any, 0), 0);
	dismiss(&stopped);
	dismiss(&running);
}

static void other_users_are_excluded_and_served(void **state)
{
	struct service_claim *claim;
	struct services *services;
	struct datagram request;
	struct servant nobody;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	make_request(&request);
	nobody = hire(NOBODY);
	assert_int_equal(services_open(&services), 0);
	assert_int_equal(tell(&nobody, ORDER_CLAIM, ID, any, AF_INET), 0);
	assert_int_equal(service_claim(services, ID, ipv4, 0, &claim), EADDRINUSE);
	assert_int_equal(tell(&nobody, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(service_forward(ID, ipv4, &request), 0);
	assert_int_equal(tell(&nobody, ORDER_TAKE, 0, any, 0), 0);
	services_close(services);
	dismiss(&nobody);
}

/* A socket with the name of a claim, by a program that does not look what else there is. */
static int squat(uint64_t id, const char *suffix)
{
	char text[80];
	struct abstract_name name;
	int fd = name_socket(SOCK_DGRAM);

	snprintf(text, sizeof(text), "verbatim/service/%016llx/%s", (unsigned long long)id, suffix);
	name = name_of(text);
	return fd >= 0 && !name_bind(fd, &name) ? fd : -1;
}

/* In a process of another user, until it is killed. */
static pid_t squatter(uint64_t id, const char *suffix)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresuid(1234, 1234, 1234) || squat(id, suffix) < 0 || write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void dismiss_squatter(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define IPV4_DIGITS "00000000000000000000ffff7f000001"

/*
 * Binding the name of one address, without looking for a claim on all of them, takes nothing; nor
 * the reverse.
 */
static void a_claim_beside_anothers_takes_nothing(void **state)
{
	static const struct {
		const uint8_t *address;
		const char *squatted;
	} cases[] = { { any, IPV4_DIGITS }, { any, "any" }, { ipv4, "4" }, { ipv4, "any" } };
	struct datagram request;
	struct servant server;
	unsigned i;
	pid_t thief;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	make_request(&request);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		server = hire(0);
		assert_int_equal(tell(&server, ORDER_CLAIM, ID, cases[i].address, AF_INET), 0);
		assert_int_equal(tell(&server, ORDER_SERVE, 0, any, 0), 0);
		thief = squatter(ID, cases[i].squatted);
		assert_int_equal(service_forward(ID, ipv4, &request), 0);
		assert_int_equal(tell(&server, ORDER_TAKE, 0, any, 0), 0);
		dismiss_squatter(thief);
		dismiss(&server);
	}
}

/* Of two strangers the wider claim. */
static void a_strangers_address_takes_nothing_of_a_strangers_listener(void **state)
{
	struct datagram request;
	struct servant nobody;
	pid_t thief;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	make_request(&request);
	nobody = hire(NOBODY);
	assert_int_equal(tell(&nobody, ORDER_CLAIM, ID, any, AF_INET), 0);
	assert_int_equal(tell(&nobody, ORDER_SERVE, 0, any, 0), 0);
	thief = squatter(ID, IPV4_DIGITS);
	assert_int_equal(service_forward(ID, ipv4, &request), 0);
	assert_int_equal(tell(&nobody, ORDER_TAKE, 0, any, 0), 0);
	assert_int_equal(tell(&nobody, ORDER_TAKE, 0, any, 0), EAGAIN);
	dismiss_squatter(thief);
	dismiss(&nobody);
}

/* rdma_bind_addr refuses them to strangers; a program that does not ask is not believed. */
static void low_ports_are_roots_and_our_own(void **state)
{
	static const uint64_t low = 0x0000000001060000ull | 80;
	struct datagram request;
	struct servant servant;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	make_request(&request);
	servant = hire(NOBODY);
	assert_int_equal(tell(&servant, ORDER_CLAIM, low, any, AF_INET), 0);
	assert_int_equal(tell(&servant, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(service_forward(low, ipv4, &request), ECONNREFUSED);
	assert_int_equal(tell(&servant, ORDER_TAKE, 0, any, 0), EAGAIN);
	dismiss(&servant);
	servant = hire(0);
	assert_int_equal(tell(&servant, ORDER_CLAIM, low, any, AF_INET), 0);
	assert_int_equal(tell(&servant, ORDER_SERVE, 0, any, 0), 0);
	assert_int_equal(service_forward(low, ipv4, &request), 0);
	assert_int_equal(tell(&servant, ORDER_TAKE, 0, any, 0), 0);
	dismiss(&servant);
}

/* A stranger who has the name first keeps nobody from it; root and root collide as ever, beside it too. */
static void a_strangers_claim_on_a_low_port_collides_with_none(void **state)
{
	static const uint64_t low = 0x0000000001060000ull | 80;
	static const struct {
		const uint8_t *address;
		const char *squatted;
	} cases[] = { { any, "4" }, { any, "any" }, { any, IPV4_DIGITS }, { ipv4, IPV4_DIGITS }, { ipv4, "4" } };
	struct servant server, second;
	struct datagram request;
	pid_t thief;

	if (!real_root) {
		print_message("SKIPPED: there are no other users in a user namespace\n");
		skip();
	}
	make_request(&request);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		thief = squatter(low, cases[i].squatted);
		server = hire(0);
		second = hire(0);
		assert_int_equal(tell(&server, ORDER_CLAIM, low, cases[i].address, AF_INET), 0);
		assert_int_equal(tell(&second, ORDER_CLAIM, low, any, AF_INET), EADDRINUSE);
		assert_int_equal(tell(&second, ORDER_CLAIM, low, ipv4, AF_INET), EADDRINUSE);
		assert_int_equal(tell(&server, ORDER_SERVE, 0, any, 0), 0);
		service_owners_forget();
		assert_int_equal(service_forward(low, ipv4, &request), 0);
		assert_int_equal(tell(&server, ORDER_TAKE, 0, any, 0), 0);
		dismiss(&server);
		dismiss(&second);
		dismiss_squatter(thief);
	}
}

/* ---- many, and what fails ---- */

static void a_process_may_have_a_thousand(void **state)
{
	struct rlimit limit = { CLAIMS + 100, CLAIMS + 100 };
	static struct service_claim *claim[CLAIMS];
	static uint64_t ids[CLAIMS];
	struct services *services;
	struct datagram request;
	uint8_t buffer[512];
	unsigned i;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(services_open(&services), 0);
	make_request(&request);
	for (i = 0; i < CLAIMS; i++) {
		assert_int_equal(service_claim(services, ID + i, any, AF_UNSPEC, &claim[i]), 0);
		assert_int_equal(service_serve(services, claim[i]), 0);
	}
	assert_int_equal(services_list(services, ids, CLAIMS), CLAIMS);
	assert_int_equal(services_list(services, ids, 7), 7);
	for (i = 0; i < CLAIMS; i++) {
		assert_true(service_is_ours(services, ID + i, ipv6));
		assert_int_equal(service_forward(ID + i, ipv6, &request), 0);
		assert_int_equal(services_receive(services, &request, buffer, sizeof(buffer)), 0);
		assert_true(request.forwarded);
		make_request(&request);
	}
	assert_int_equal(services_receive(services, &request, buffer, sizeof(buffer)), EAGAIN);
	assert_false(service_is_ours(services, ID + CLAIMS, ipv6));
	services_close(services);
}

static void what_fails_leaves_no_claim_behind(void **state)
{
	static const struct {
		enum fail_point point;
		unsigned calls;
	} points[] = { { FAIL_ALLOCATE, 1 }, { FAIL_SOCKET, 3 }, { FAIL_BIND, 1 },
		       { FAIL_CONNECT, 3 } };
	struct service_claim *claim;
	struct services *services;
	unsigned i, n;

	assert_int_equal(services_open(&services), 0);
	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (n = 1; n <= points[i].calls; n++) {
			fail_set(points[i].point, n, ENOMEM);
			assert_int_equal(service_claim(services, ID, any, AF_UNSPEC, &claim), ENOMEM);
			fail_clear();
			assert_int_equal(service_claim(services, ID, any, AF_UNSPEC, &claim), 0);
			service_release(services, claim);
		}
	assert_int_equal(service_claim(services, ID, any, AF_UNSPEC, &claim), 0);
	fail_set(FAIL_EPOLL_ADD, 1, ENOSPC);
	assert_int_equal(service_serve(services, claim), ENOSPC);
	fail_set(FAIL_CONNECT, 1, EIO);
	assert_int_equal(service_serve(services, claim), EIO);
	fail_clear();
	assert_false(service_is_ours(services, ID, ipv4));
	assert_int_equal(service_serve(services, claim), 0);
	assert_true(service_is_ours(services, ID, ipv4));
	services_close(services);
	fail_set(FAIL_EPOLL, 1, EMFILE);
	assert_int_equal(services_open(&services), EMFILE);
	fail_set(FAIL_ALLOCATE, 1, 0);
	assert_int_equal(services_open(&services), ENOMEM);
	fail_clear();
}

static int setup(void **state)
{
	return netns_renew() ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(addresses_collide_with_themselves_and_with_all_of_their_family,
				       setup),
		cmocka_unit_test_setup(without_a_list_of_names_the_addresses_of_the_host_are_looked_up,
				       setup),
		cmocka_unit_test_setup(services_with_other_numbers_do_not_collide, setup),
		cmocka_unit_test_setup(a_killed_process_holds_nothing, setup),
		cmocka_unit_test_setup(of_two_at_the_same_time_one_wins_at_most, setup),
		cmocka_unit_test_setup(a_request_that_was_taken_is_received, setup),
		cmocka_unit_test_setup(a_request_reaches_who_serves_and_nobody_else, setup),
		cmocka_unit_test_setup(a_stopped_server_keeps_its_requests_and_nobody_elses, setup),
		cmocka_unit_test_setup(other_users_are_excluded_and_served, setup),
		cmocka_unit_test_setup(a_claim_beside_anothers_takes_nothing, setup),
		cmocka_unit_test_setup(a_strangers_address_takes_nothing_of_a_strangers_listener, setup),
		cmocka_unit_test_setup(low_ports_are_roots_and_our_own, setup),
		cmocka_unit_test_setup(a_strangers_claim_on_a_low_port_collides_with_none, setup),
		cmocka_unit_test_setup(a_process_may_have_a_thousand, setup),
		cmocka_unit_test_setup(what_fails_leaves_no_claim_behind, setup),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
