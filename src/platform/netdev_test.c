/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interfaces, in a network namespace of the test: lo, and a veth pair with addresses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/fail.h"
#include "platform/netdev.h"
#include "platform/netns_test.h"
#include "platform/patience_test.h"

static bool have_veth;

static void address(const char *text, uint8_t out[16])
{
	memset(out, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, out), 1);
		return;
	}
	memset(out + 10, 0xff, 2);
	assert_int_equal(inet_pton(AF_INET, text, out + 12), 1);
}

/*
 * The kernel notices the carrier of a veth pair a moment after both ends are up (linkwatch); until
 * then the addresses of IPv6 are not in use, whatever "nodad" says.
 */
static bool wait_until_in_use(const char *text)
{
	uint8_t wanted[16];

	address(text, wanted);
	return comes_true(netdev_is_local(NULL, wanted, 0));
}

static int setup(void **state)
{
	if (!netns_renew())
		return -1;
	have_veth = !system("ip link add vt0 address 02:00:00:00:00:01 mtu 9000 "
			    "type veth peer name vt1 && "
			    "ip address add 10.77.0.1/24 dev vt0 && "
			    "ip address add 10.78.0.1 peer 10.78.0.2/32 dev vt0 && "
			    "ip address add fd77::1/64 dev vt0 nodad && "
			    "ip link set vt0 up && ip link set vt1 up");
	if (!have_veth)
		print_message("SKIPPED in part: no veth pair can be made here\n");
	return have_veth && !wait_until_in_use("fd77::1") ? -1 : 0;
}

static int teardown(void **state)
{
	fail_clear();
	return 0;
}

static struct netdev *find(struct netdev *list, int count, const char *name)
{
	int i;

	for (i = 0; i < count; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

static void lo_is_listed_as_it_is(void **state)
{
	uint8_t ipv4[16], ipv6[16] = { [15] = 1 };
	struct netdev *list, *lo;
	int count, i;

	address("127.0.0.1", ipv4);
	assert_int_equal(netdev_list(&list, &count), 0);
	lo = find(list, count, "lo");
	assert_non_null(lo);
	assert_true(lo->loopback && lo->up && lo->running);
	assert_int_equal(lo->mtu, 65536);
	assert_int_equal(lo->index, if_nametoindex("lo"));
	assert_int_equal(lo->speed_mbps, 0);
	assert_int_equal(lo->address_count, 2);
	assert_memory_equal(lo->address[0].address, ipv4, 16);
	assert_int_equal(lo->address[0].prefix_bits, 8);
	assert_memory_equal(lo->address[1].address, ipv6, 16);
	for (i = 1; i < count; i++)
		assert_true(list[i].index > list[i - 1].index);
	free(list);
}

static void addresses_of_an_interface_are_its_own_ends(void **state)
{
	uint8_t wanted[3][16];
	struct netdev *list, *vt0;
	int count, i, link_local = 0;

	if (!have_veth)
		skip();
	address("10.77.0.1", wanted[0]);
	address("10.78.0.1", wanted[1]);	/* not the peer's 10.78.0.2 */
	address("fd77::1", wanted[2]);
	assert_int_equal(netdev_list(&list, &count), 0);
	vt0 = find(list, count, "vt0");
	assert_non_null(vt0);
	assert_false(vt0->loopback);
	assert_int_equal(vt0->mtu, 9000);
	assert_int_equal(vt0->mac[0], 2);
	assert_int_equal(vt0->mac[5], 1);
	assert_int_equal(vt0->speed_mbps, 10000);
	assert_memory_equal(vt0->address[0].address, wanted[0], 16);
	assert_int_equal(vt0->address[0].prefix_bits, 24);
	assert_memory_equal(vt0->address[1].address, wanted[1], 16);
	for (i = 2; i < (int)vt0->address_count; i++) {
		link_local += vt0->address[i].link_local;
		if (!vt0->address[i].link_local) {
			assert_memory_equal(vt0->address[i].address, wanted[2], 16);
			assert_false(vt0->address[i].tentative);
		}
	}
	assert_int_equal(vt0->address_count, 3 + link_local);
	free(list);
}

/* The kernel tells of the carrier in its own time. */
static bool is_quiet(struct pollfd *monitor)
{
	netdev_monitor_drain(monitor->fd);
	return poll(monitor, 1, 20) == 0;
}

static void a_change_makes_the_monitor_readable(void **state)
{
	struct pollfd monitor = { .events = POLLIN };
	static const char *const change[] = {
		"ip link set vt1 down", "ip address add 10.79.0.1/24 dev vt0",
		"ip address del 10.79.0.1/24 dev vt0", "ip link set vt0 mtu 1500",
		"ip address add fd79::1/64 dev vt0 nodad", "ip link del vt0",
	};
	unsigned i;

	if (!have_veth)
		skip();
	assert_int_equal(netdev_monitor_open(&monitor.fd), 0);
	assert_true(comes_true(is_quiet(&monitor)));
	for (i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
		assert_int_equal(system(change[i]), 0);
		if (poll(&monitor, 1, PATIENCE_S * 1000) != 1)
			fail_msg("'%s' was not noticed", change[i]);
		assert_true(comes_true(is_quiet(&monitor)));
	}
	close(monitor.fd);
}

static void own_addresses_are_local_and_others_not(void **state)
{
	static const char *const local[] = { "127.0.0.1", "127.9.9.9", "::1", "10.77.0.1",
					     "fd77::1" };
	static const char *const remote[] = { "10.77.0.2", "10.78.0.2", "fd77::2", "8.8.8.8",
					      "2001:db8::1", "239.1.2.3", "ff02::1",
					      "10.77.0.255" };
	struct netdev *list, *vt0;
	uint8_t a[16];
	int count;
	unsigned i;

	if (!have_veth)
		skip();
	for (i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
		address(local[i], a);
		if (!netdev_is_local(NULL, a, 0))
			fail_msg("%s is local", local[i]);
	}
	for (i = 0; i < sizeof(remote) / sizeof(remote[0]); i++) {
		address(remote[i], a);
		if (netdev_is_local(NULL, a, 0))
			fail_msg("%s is not local", remote[i]);
	}
	assert_int_equal(netdev_list(&list, &count), 0);
	vt0 = find(list, count, "vt0");
	for (i = 0; i < vt0->address_count; i++)
		if (vt0->address[i].link_local && !vt0->address[i].tentative) {
			assert_true(netdev_is_local(NULL, vt0->address[i].address, vt0->index));
			assert_true(netdev_is_local(NULL, vt0->address[i].address, 0));
			assert_false(netdev_is_local(NULL, vt0->address[i].address,
						     if_nametoindex("vt1")));
		}
	free(list);
}

static void failures_of_netlink_are_passed_on(void **state)
{
	static const enum fail_point point[] = { FAIL_NETLINK, FAIL_NETLINK_SEND,
						 FAIL_NETLINK_RECEIVE, FAIL_ALLOCATE };
	struct netdev *list;
	int count = -7, fd = -7;
	unsigned i, nth;

	for (i = 0; i < sizeof(point) / sizeof(point[0]); i++)
		for (nth = 1; nth <= (point[i] == FAIL_ALLOCATE ? 1u : 2u); nth++) {
			int error = point[i] == FAIL_ALLOCATE ? ENOMEM : EPERM;

			fail_set(point[i], nth, error);
			assert_int_equal(netdev_list(&list, &count), error);
			assert_int_equal(count, -7);
		}
	fail_set(FAIL_NETLINK, 1, EPERM);
	assert_int_equal(netdev_monitor_open(&fd), EPERM);
	fail_set(FAIL_BIND, 1, EPERM);
	assert_int_equal(netdev_monitor_open(&fd), EPERM);
	assert_int_equal(fd, -7);
	fail_set(FAIL_NETLINK_RECEIVE, 1, EPERM);
	assert_false(netdev_is_local(NULL, (uint8_t[16]){ [15] = 1 }, 0));
}

static void routes_are_asked_of_the_kernel(void **state)
{
	static const uint8_t any[16], loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	static const uint8_t inside[16] = { [10] = 0xff, 0xff, 127, 9, 9, 9 };
	static const uint8_t outside[16] = { [10] = 0xff, 0xff, 10, 9, 9, 9 };
	struct netdev_route route;

	assert_int_equal(netdev_route(NULL, inside, any, 0, &route), 0);
	assert_true(route.local);
	assert_int_equal(route.interface, if_nametoindex("lo"));
	assert_int_equal(netdev_route(NULL, inside, loopback, 0, &route), 0);
	assert_int_equal(netdev_route(NULL, (uint8_t[16]){ [15] = 1 }, any, 0, &route), 0);
	assert_true(route.local);
	assert_int_equal(netdev_route(NULL, outside, any, 0, &route), ENETUNREACH);
	assert_int_not_equal(netdev_route(NULL, inside, outside, 0, &route), 0);
	assert_int_equal(system("ip route add 10.9.9.0/24 dev lo src 127.0.0.1 && "
				"ip route add unreachable 10.9.8.0/24"), 0);
	assert_int_equal(netdev_route(NULL, outside, any, 0, &route), 0);
	assert_false(route.local);
	assert_memory_equal(route.source, loopback, 16);
	assert_int_equal(netdev_route(NULL, (uint8_t[16]){ [10] = 0xff, 0xff, 10, 9, 8, 1 }, any, 0,
				      &route), EHOSTUNREACH);
	fail_set(FAIL_NETLINK_SEND, 1, EPERM);
	assert_int_equal(netdev_route(NULL, inside, any, 0, &route), EPERM);
	fail_clear();
}

/* ---- a socket that is kept ---- */

static const uint8_t nowhere[16];

static int ask(struct netlink *netlink, const char *text)
{
	struct netdev_route route;
	uint8_t destination[16];

	address(text, destination);
	return netdev_route(netlink, destination, nowhere, 0, &route);
}

static void a_kept_socket_answers_for_where_it_was_opened(void **state)
{
	struct netlink kept;

	netlink_open(&kept);
	assert_non_null(kept.socket);
	assert_int_equal(system("ip route add 10.9.9.0/24 dev lo src 127.0.0.1"), 0);
	assert_int_equal(ask(&kept, "10.9.9.1"), 0);
	assert_true(netns_renew());
	assert_int_equal(ask(&kept, "10.9.9.1"), 0);
	assert_int_equal(ask(NULL, "10.9.9.1"), ENETUNREACH);
	assert_int_equal(ask(&kept, "10.9.8.1"), ENETUNREACH);
	assert_int_equal(ask(&kept, "10.9.9.1"), 0);
	netlink_close(&kept);
}

static void an_answer_that_was_not_taken_is_not_the_next_ones(void **state)
{
	uint8_t link_local[16], own[16];
	struct netlink kept;

	address("fe80::99", link_local);
	address("127.0.0.1", own);
	netlink_open(&kept);
	fail_set(FAIL_NETLINK_RECEIVE, 1, EPERM);	/* of a dump */
	assert_false(netdev_is_local(&kept, link_local, 0));
	assert_true(netdev_is_local(&kept, own, 0));
	fail_set(FAIL_NETLINK_RECEIVE, 1, EPERM);
	assert_int_equal(ask(&kept, "127.0.0.1"), EPERM);
	assert_int_equal(ask(&kept, "10.9.8.1"), ENETUNREACH);
	assert_int_equal(ask(&kept, "127.0.0.1"), 0);
	netlink_close(&kept);
}

/* Whoever may administer the network can send to a socket of another program, as if it were the kernel. */
static void what_others_send_is_no_answer(void **state)
{
	struct { struct nlmsghdr header; struct nlmsgerr error; } forged = {
		.header = { .nlmsg_len = sizeof(forged), .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = 1 },
		.error = { .error = -EPERM },
	};
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	struct netlink kept;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	netlink_open(&kept);
	to.nl_pid = forged.header.nlmsg_pid = mnl_socket_get_portid(kept.socket);
	assert_int_equal(sendto(fd, &forged, sizeof(forged), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(forged));
	assert_int_equal(ask(&kept, "127.0.0.1"), 0);
	netlink_close(&kept);
	close(fd);
}

static int count_message(const struct nlmsghdr *header, void *count)
{
	++*(unsigned *)count;
	return MNL_CB_OK;
}

/* In the message that ends a dump the kernel says that there was none: no handler of this protocol. */
static void a_dump_of_what_there_is_none_of_fails(void **state)
{
	char buffer[MNL_NLMSG_HDRLEN + sizeof(struct inet_diag_req_v2)];
	struct nlmsghdr *question = mnl_nlmsg_put_header(buffer);
	struct inet_diag_req_v2 *request;
	unsigned count = 0;

	question->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	question->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request = mnl_nlmsg_put_extra_header(question, sizeof(*request));
	request->sdiag_family = AF_INET;
	request->sdiag_protocol = 250;
	assert_int_equal(netlink_ask_once(NETLINK_SOCK_DIAG, question, count_message, &count), ENOENT);
	assert_int_equal(count, 0);
}

static void without_a_kept_socket_each_question_opens_one(void **state)
{
	struct netlink kept;

	fail_set(FAIL_NETLINK, 1, EMFILE);
	netlink_open(&kept);
	assert_null(kept.socket);
	assert_int_equal(ask(&kept, "127.0.0.1"), 0);
	fail_set(FAIL_NETLINK, 1, EMFILE);
	assert_int_equal(ask(&kept, "127.0.0.1"), EMFILE);
	netlink_close(&kept);
}

static void *ask_often(void *kept)
{
	unsigned i;

	for (i = 0; i < 2000; i++)
		if (ask(kept, "127.0.0.1") || ask(kept, "10.9.8.1") != ENETUNREACH)
			return (void *)"wrong";
	return NULL;
}

static void threads_share_a_kept_socket(void **state)
{
	pthread_t thread[4];
	struct netlink kept;
	void *wrong;
	unsigned i;

	netlink_open(&kept);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask_often, &kept), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	netlink_close(&kept);
}

static void a_child_leaves_the_kept_socket_to_its_parent(void **state)
{
	struct netlink kept;
	int status, fd;
	pid_t pid;

	netlink_open(&kept);
	fd = mnl_socket_get_fd(kept.socket);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	pid = fork();
	if (!pid) {
		netlink_abandon(&kept);
		_exit(fcntl(fd, F_GETFD) >= 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ask(&kept, "127.0.0.1"), 0);
	netlink_close(&kept);
}

/* The kernel says when a dump was overtaken by a change: asked again, then given up. */
static void an_interrupted_dump_is_repeated(void **state)
{
	struct netdev *list;
	int count;

	fail_set(FAIL_NETLINK_SEND, 1, EINTR);
	assert_int_equal(netdev_list(&list, &count), 0);
	assert_true(count >= 1);
	free(list);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	bool real_root;
	const struct CMUnitTest tests[] = {
		TEST(lo_is_listed_as_it_is),
		TEST(addresses_of_an_interface_are_its_own_ends),
		TEST(a_change_makes_the_monitor_readable),
		TEST(own_addresses_are_local_and_others_not),
		TEST(failures_of_netlink_are_passed_on),
		TEST(routes_are_asked_of_the_kernel),
		TEST(a_kept_socket_answers_for_where_it_was_opened),
		TEST(an_answer_that_was_not_taken_is_not_the_next_ones),
		TEST(what_others_send_is_no_answer),
		TEST(a_dump_of_what_there_is_none_of_fails),
		TEST(without_a_kept_socket_each_question_opens_one),
		TEST(threads_share_a_kept_socket),
		TEST(a_child_leaves_the_kept_socket_to_its_parent),
		TEST(an_interrupted_dump_is_repeated),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
