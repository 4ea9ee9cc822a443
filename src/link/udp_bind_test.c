/* SPDX-License-Identifier: BSD-2-Clause */
/* Binding port 4791, with others and with what a kernel may lack; and giving up all of it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "link/udp_test.h"

#define NOBODY 65534

static bool real_root;

static void the_port_is_shared_within_a_user_only(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int status;
	pid_t child;

	assert_int_equal(udp_bind(link_), 0);		/* again: nothing happens */
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	link->ops->close(link);
	if (!real_root)
		skip();
	child = fork();
	if (!child)
		_exit(setresuid(NOBODY, NOBODY, NOBODY) || udp_open(&link, &other) ||
		      udp_bind(link) != EADDRINUSE);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

/* A socket as any program opens one, on one address. */
static int stranger(const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT) };
	struct sockaddr_in6 address6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT) };
	bool ipv6 = inet_pton(AF_INET6, text, &address6.sin6_addr) == 1;
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, text, &address.sin_addr);
	assert_int_equal(bind(fd, ipv6 ? (void *)&address6 : (void *)&address,
			      ipv6 ? sizeof(address6) : sizeof(address)), 0);
	return fd;
}

static void another_programs_address_leaves_us_the_others(void **state)
{
	static const uint8_t lo[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, 0, 0, 1 }, lo6[16] = { [15] = 1 };
	static const uint8_t elsewhere[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, 1 };
	struct counters other = { 0 };
	struct link *link;
	struct datagram out = make(false, 3 * SEGMENT - 1, SEGMENT), out6 = make(true, 100, 0);
	int fd4, fd6, fds[40], taken, taken6, all;
	unsigned sent;

	link_->ops->close(link_);		/* else it has them all */
	assert_int_equal(udp_open(&link_, &other), 0);
	taken = stranger("127.0.0.1");
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	udp_bound_fds(link, &fd4, &fd6);
	assert_true(fd4 == -1 && fd6 >= 0);
	assert_true(link->ops->event_fds(link, fds, 40) >= 2);
	assert_true(udp_address_is_taken(link, lo));
	assert_false(udp_address_is_taken(link, lo6));
	assert_false(udp_address_is_taken(link, elsewhere));
	link->ops->prepare(link, &out);
	assert_int_equal(link->ops->send(link, &out, 1, &sent), 0);
	assert_int_equal(counter_get(&other, COUNTER_TX_TAKEN), 3);	/* a run of three packets */
	link->ops->prepare(link, &out6);
	assert_int_equal(link->ops->send(link, &out6, 1, &sent), 0);
	assert_int_equal(counter_get(&other, COUNTER_TX_TAKEN), 3);
	assert_int_equal(udp_bind(link), 0);
	link->ops->close(link);
	taken6 = stranger("::1");
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	assert_true(udp_address_is_taken(link, lo) && udp_address_is_taken(link, lo6));
	link->ops->close(link);
	close(taken);
	close(taken6);
	all = stranger("0.0.0.0");
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), EADDRINUSE);
	assert_null(udp_first_taken(link));
	close(all);
	assert_int_equal(udp_bind(link), 0);
	udp_bound_fds(link, &fd4, &fd6);
	assert_true(fd4 >= 0 && fd6 >= 0);
	link->ops->close(link);
}

/* Its process was about to end when we tried all addresses together, and had ended when we tried each. */
static void a_holder_that_leaves_meanwhile_leaves_us_all_addresses(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, n;

	for (n = 1; n <= 2; n++) {
		assert_int_equal(udp_open(&link, &other), 0);
		fail_set(FAIL_BIND, (unsigned)n, EADDRINUSE);
		assert_int_equal(udp_bind(link), 0);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true(fd4 >= 0 && fd6 >= 0);
		assert_null(udp_first_taken(link));
		link->ops->close(link);
	}
	fail_clear();
}

static void a_kernel_without_ipv6_is_enough(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, fds[4];

	assert_int_equal(udp_open(&link, &other), 0);
	fail_set(FAIL_SOCKET, 2, EAFNOSUPPORT);
	assert_int_equal(udp_bind(link), 0);
	udp_bound_fds(link, &fd4, &fd6);
	assert_true(fd4 >= 0);
	assert_int_equal(fd6, -1);
	assert_int_equal(link->ops->event_fds(link, fds, 4), 1);
	link->ops->close(link);
}

static void each_failure_of_binding_leaves_nothing_behind(void **state)
{
	struct counters other = { 0 };
	struct link *link;
	int fd4, fd6, n, err;

	assert_int_equal(udp_open(&link, &other), 0);
	for (n = 1; n <= 2; n++) {
		fail_set(FAIL_BIND, (unsigned)n, EPERM);
		assert_int_equal(udp_bind(link), EPERM);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true(fd4 == -1 && fd6 == -1);
	}
	for (n = 1; n < 16; n++) {
		fail_set(FAIL_SETSOCKOPT, (unsigned)n, EPERM);
		err = udp_bind(link);
		assert_true(!err || err == EPERM);
		udp_bound_fds(link, &fd4, &fd6);
		assert_true((fd4 >= 0) == !err);
		if (!err) {
			link->ops->close(link);
			fail_clear();
			assert_int_equal(udp_open(&link, &other), 0);
		}
	}
	fail_clear();
	link->ops->close(link);
}

static void abandoning_closes_every_descriptor(void **state)
{
	struct datagram out = make(false, 100, 0), out6 = make(true, 100, 0);
	struct counters other = { 0 };
	struct link *link;
	int before = dup(0), after;

	close(before);
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(udp_bind(link), 0);
	link->ops->prepare(link, &out);
	link->ops->prepare(link, &out6);
	udp_abandon(link);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	link->ops->close(link);
}

/* It says so when asked to open one; packets leave by one that is open. */
static void descriptors_used_up_are_reported_before_packets(void **state)
{
	struct datagram out = make(false, 100, 0), other_slot = out, in;
	struct counters other = { 0 };
	struct rlimit before, none;
	struct link *link;
	uint32_t epoch;
	unsigned sent;
	int next;

	other_slot.spread = out.spread + 1;
	assert_int_equal(udp_open(&link, &other), 0);
	next = dup(0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(udp_open_sender(link, &out), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(udp_open_sender(link, &out), 0);
	none.rlim_cur++;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(udp_open_sender(link, &out), 0);
	assert_int_equal(udp_open_sender(link, &other_slot), EMFILE);
	link->ops->prepare(link, &out);
	link->ops->prepare(link, &other_slot);
	assert_int_equal(other_slot.source_port, out.source_port);
	/* Nobody keeps what it has to do with. */
	epoch = atomic_load(&link->epoch);
	link->ops->prepare(link, &other_slot);
	assert_int_not_equal(atomic_load(&link->epoch), epoch);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	/* Its ICRC was made for that port: it leaves by it, although it could have one of its own by now. */
	assert_int_equal(udp_open_sender(link, &other_slot), 0);
	assert_int_equal(link->ops->send(link, &other_slot, 1, &sent), 0);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.source_port, out.source_port);
	link->ops->close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_port_is_shared_within_a_user_only),
		TEST(another_programs_address_leaves_us_the_others),
		TEST(a_holder_that_leaves_meanwhile_leaves_us_all_addresses),
		TEST(a_kernel_without_ipv6_is_enough),
		TEST(each_failure_of_binding_leaves_nothing_behind),
		TEST(abandoning_closes_every_descriptor),
		TEST(descriptors_used_up_are_reported_before_packets),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
