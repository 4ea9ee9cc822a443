/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses, ports, channels and the life of endpoints, on a host that is faked. */
#include "cm/endpoint/fake_peers_test.h"

/* ---- bind ---- */

static void a_bound_address_finds_its_device(void **test)
{
	struct endpoint *endpoint = create();
	struct endpoint_info info;

	assert_int_equal(endpoint_bind(endpoint, ip("10.0.0.1", 7000)), 0);
	endpoint_query(endpoint, &info);
	assert_string_equal(info.device, "vb_eth0");
	assert_int_equal(info.port, 1);
	assert_int_equal(((struct sockaddr_in *)&info.source)->sin_port, htons(7000));
	assert_false(info.has_route);
	endpoint_destroy(endpoint);
}

static void a_wildcard_is_of_no_device(void **test)
{
	struct endpoint *endpoint = create();
	struct endpoint_info info;

	assert_int_equal(endpoint_bind(endpoint, ip("0.0.0.0", 7000)), 0);
	endpoint_query(endpoint, &info);
	assert_string_equal(info.device, "");
	assert_int_equal(info.port, 0);
	endpoint_destroy(endpoint);
}

static void port_0_becomes_one_that_is_claimed(void **test)
{
	struct endpoint *endpoint = create();
	struct endpoint_info info;

	assert_int_equal(endpoint_bind(endpoint, ip("0.0.0.0", 0)), 0);
	endpoint_query(endpoint, &info);
	assert_in_range(ntohs(((struct sockaddr_in *)&info.source)->sin_port), 32768, 60999);
	assert_int_equal(fake.claims, 1);
	endpoint_destroy(endpoint);
}

static void refused_addresses_have_the_errno_of_the_kernel(void **test)
{
	struct sockaddr odd = { .sa_family = AF_UNIX };
	struct endpoint *endpoint = create();

	assert_int_equal(endpoint_bind(endpoint, ip("10.9.9.9", 1)), ENODEV);
	assert_int_equal(endpoint_bind(endpoint, ip("192.0.2.1", 1)), EADDRNOTAVAIL);
	assert_int_equal(endpoint_bind(endpoint, ip("fe80::1", 1)), EINVAL);
	assert_int_equal(endpoint_bind(endpoint, &odd), EAFNOSUPPORT);
	assert_int_equal(endpoint_bind(endpoint, ip("10.0.0.1", 1)), 0);
	assert_int_equal(endpoint_bind(endpoint, ip("10.0.0.1", 2)), EINVAL);
	endpoint_destroy(endpoint);
}

static void a_port_is_taken_once(void **test)
{
	struct endpoint *first = create(), *second = create();

	assert_int_equal(endpoint_bind(first, ip("10.0.0.1", 7000)), 0);
	assert_int_equal(endpoint_bind(second, ip("10.0.0.1", 7000)), EADDRINUSE);
	assert_int_equal(endpoint_bind(second, ip("0.0.0.0", 7000)), EADDRINUSE);
	assert_int_equal(endpoint_bind(second, ip("127.0.0.1", 7000)), 0);
	endpoint_destroy(first);
	endpoint_destroy(second);
	first = create();
	assert_int_equal(endpoint_bind(first, ip("0.0.0.0", 7000)), 0);
	endpoint_destroy(first);
}

static void port_spaces_do_not_meet(void **test)
{
	struct endpoint *tcp = create(), *udp = create_ud();

	assert_int_equal(endpoint_bind(tcp, ip("10.0.0.1", 7000)), 0);
	assert_int_equal(endpoint_bind(udp, ip("10.0.0.1", 7000)), 0);
	endpoint_destroy(tcp);
	endpoint_destroy(udp);
}

static void a_port_of_another_process_is_in_use(void **test)
{
	static const uint8_t any[16];
	struct endpoint *endpoint = create();
	struct gsi_claim *claim = NULL;

	assert_int_equal(gsi_claim(NULL, 0x1060000 + 7000, any, AF_INET, &claim), 0);
	assert_int_equal(endpoint_bind(endpoint, ip("0.0.0.0", 7000)), EADDRINUSE);
	gsi_release(NULL, claim);
	assert_int_equal(endpoint_bind(endpoint, ip("0.0.0.0", 7000)), 0);
	endpoint_destroy(endpoint);
}

static int set(struct endpoint *endpoint, int option, int value)
{
	return endpoint_set_option(endpoint, RDMA_OPTION_ID, option, &value, sizeof(value));
}

static void reuseaddr_shares_a_port_until_one_listens(void **test)
{
	struct endpoint *first = create(), *second = create();

	assert_int_equal(set(first, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	assert_int_equal(set(second, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	assert_int_equal(endpoint_bind(first, ip("10.0.0.1", 7000)), 0);
	assert_int_equal(endpoint_bind(second, ip("10.0.0.1", 7000)), 0);
	assert_int_equal(endpoint_listen(first, 1), 0);
	assert_int_equal(endpoint_listen(second, 1), EADDRINUSE);
	endpoint_destroy(first);
	assert_int_equal(endpoint_listen(second, 1), 0);
	endpoint_destroy(second);
}

static void ipv6_only_leaves_the_port_of_ipv4_alone(void **test)
{
	struct endpoint *v4 = create(), *v6 = create(), *both = create();

	assert_int_equal(endpoint_bind(v4, ip("0.0.0.0", 7000)), 0);
	assert_int_equal(endpoint_bind(both, ip("::", 7000)), EADDRINUSE);
	assert_int_equal(set(v6, RDMA_OPTION_ID_AFONLY, 1), 0);
	assert_int_equal(endpoint_bind(v6, ip("::", 7000)), 0);
	endpoint_destroy(v4);
	endpoint_destroy(v6);
	endpoint_destroy(both);
}

static void a_service_id_of_af_ib_is_a_port_of_its_space(void **test)
{
	struct endpoint *tcp = create(), *any = create_as(RDMA_PS_IB, IBV_QPT_RC), *wrong = create();
	struct endpoint_info info;
	struct sockaddr_ib *ib = (struct sockaddr_ib *)&info.source;

	assert_int_equal(endpoint_bind(tcp, gid("10.0.0.1", 0x1060000 + 7000, UINT64_MAX)), 0);
	endpoint_query(tcp, &info);
	assert_int_equal(ib->sib_family, AF_IB);
	assert_int_equal(be64toh(ib->sib_sid), 0x1060000 + 7000);
	assert_string_equal(info.device, "vb_eth0");
	assert_int_equal(endpoint_bind(any, gid(NULL, 0, 0)), 0);
	endpoint_query(any, &info);
	assert_int_equal(be64toh(ib->sib_sid) >> 16, 0x13f);
	assert_true(be64toh(ib->sib_sid) & 0xffff);
	assert_int_equal(endpoint_bind(wrong, gid(NULL, 0x1110000 + 1, UINT64_MAX)),
			 EPROTONOSUPPORT);
	endpoint_destroy(tcp);
	endpoint_destroy(any);
	endpoint_destroy(wrong);
}

/* ---- resolve ---- */

static void loopback_goes_over_vb_lo_and_own_addresses_over_their_device(void **test)
{
	static const char *const ways[][3] = {
		{ "127.0.0.1", "vb_lo", "127.0.0.1" }, { "10.0.0.1", "vb_eth0", "10.0.0.1" },
		{ "10.0.0.2", "vb_eth0", "10.0.0.1" }, { "0.0.0.0", "vb_lo", "127.0.0.1" },
	};
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct endpoint *endpoint = create();
		struct endpoint_info info;
		char source[INET_ADDRSTRLEN];

		resolve_to(endpoint, ip(ways[i][0], 7471));
		endpoint_query(endpoint, &info);
		assert_string_equal(info.device, ways[i][1]);
		inet_ntop(AF_INET, &((struct sockaddr_in *)&info.source)->sin_addr, source,
			  sizeof(source));
		assert_string_equal(source, ways[i][2]);
		assert_int_not_equal(((struct sockaddr_in *)&info.source)->sin_port, 0);
		endpoint_destroy(endpoint);
	}
}

static void what_cannot_be_reached_fails_the_call_or_is_an_address_error(void **test)
{
	struct endpoint *endpoint = create();

	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("192.0.2.1", 1), 1), ENETUNREACH);
	assert_int_equal(endpoint_resolve_route(endpoint, 1), EINVAL);
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.9.9.9", 1), 1), 0);
	assert_int_equal(take(RDMA_CM_EVENT_ADDR_ERROR).status, -ENODEV);
	resolve_to(endpoint, ip("10.0.0.2", 1));
	endpoint_destroy(endpoint);
}

/* As Linux: the event waits for ARP, and tells all that wait for one host. */
static void a_silent_neighbour_is_waited_for(void **test)
{
	struct endpoint *first = create(), *second = create();
	struct endpoint_info info;

	fake.silent = true;
	assert_int_equal(endpoint_resolve_address(first, NULL, ip("10.0.0.66", 1), 2000), 0);
	assert_int_equal(endpoint_resolve_address(second, NULL, ip("10.0.0.66", 2), 5000), 0);
	assert_int_equal(endpoint_resolve_address(first, NULL, ip("10.0.0.2", 1), 1), EINVAL);
	assert_int_equal(endpoint_resolve_route(first, 1), EINVAL);
	assert_in_range(fake.deadline_ns, 1, clock_now_ns() + SECOND);
	fake_tick(SECOND);
	expect_none();
	fake.silent = false;
	fake_tick(SECOND + SECOND / 2);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	expect_none();
	endpoint_query(first, &info);
	assert_string_equal(info.device, "vb_eth0");
	assert_int_equal(endpoint_resolve_route(first, 1), 0);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	endpoint_destroy(first);
	endpoint_destroy(second);
}

static void a_neighbour_that_stays_silent_is_an_address_error(void **test)
{
	struct endpoint *endpoint = create(), *patient = create();
	struct endpoint_info info;
	unsigned looks;

	fake.silent = true;
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.66", 1), 2000), 0);
	assert_int_equal(endpoint_resolve_address(patient, NULL, ip("10.0.0.66", 1), 1000000), 0);
	fake_tick(SECOND);
	expect_none();
	fake_tick(2 * SECOND);
	assert_int_equal(take(RDMA_CM_EVENT_ADDR_ERROR).status, -ETIMEDOUT);
	expect_none();
	endpoint_query(endpoint, &info);
	assert_string_equal(info.device, "");
	resolve_to(endpoint, ip("10.0.0.2", 1));	/* the id is bound, and may try another address */
	endpoint_destroy(endpoint);
	endpoint_destroy(patient);
	looks = fake.looks;
	fake_tick(5 * SECOND);
	assert_int_equal(fake.looks, looks);
}

static void resolving_checks_its_source(void **test)
{
	struct endpoint *endpoint = create();

	assert_int_equal(endpoint_resolve_address(endpoint, ip("192.0.2.1", 0), ip("10.0.0.2", 1),
						  1), EADDRNOTAVAIL);
	assert_int_equal(endpoint_resolve_address(endpoint, ip("::", 0), ip("10.0.0.2", 1), 1),
			 EINVAL);
	assert_int_equal(endpoint_resolve_route(endpoint, 1), EINVAL);
	assert_int_equal(endpoint_resolve_address(endpoint, ip("10.0.0.1", 4000),
						  ip("10.0.0.2", 1), 1), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(fake.claims, 1);
	endpoint_destroy(endpoint);
}

static void the_path_is_as_linux_makes_it(void **test)
{
	struct endpoint *endpoint = create();
	struct endpoint_info info;
	uint8_t tos = 0x20, timeout = 14;

	assert_int_equal(endpoint_set_option(endpoint, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
					     1), 0);
	assert_int_equal(endpoint_set_option(endpoint, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					     &timeout, 1), 0);
	resolve_to(endpoint, ip("10.0.0.2", 9999));
	endpoint_query(endpoint, &info);
	assert_true(info.has_route);
	assert_int_equal(info.path.mtu, IBV_MTU_1024);
	assert_int_equal(info.path.mtu_selector, 2);
	assert_int_equal(info.path.hop_limit, 64);
	assert_int_equal(info.path.traffic_class, 0x20);
	assert_int_equal(info.path.packet_life_time, 13);
	assert_int_equal(info.path.pkey, htons(0xffff));
	assert_int_equal(info.path.reversible, 1);
	assert_memory_equal(&info.path.sgid, &info.sgid, 16);
	assert_memory_equal(&info.path.dgid, &info.dgid, 16);
	endpoint_destroy(endpoint);
}

static void options_have_their_sizes_and_times(void **test)
{
	struct endpoint *endpoint = create(), *datagram = create_ud();
	uint64_t value = 0;

	assert_int_equal(endpoint_set_option(endpoint, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value,
					     4), EINVAL);
	assert_int_equal(endpoint_set_option(endpoint, RDMA_OPTION_ID, 77, &value, 4), ENOSYS);
	assert_int_equal(endpoint_set_option(endpoint, 7, 0, &value, 4), ENOSYS);
	assert_int_equal(endpoint_set_option(endpoint, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &value,
					     8), EINVAL);
	assert_int_equal(endpoint_set_option(datagram, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					     &value, 1), EINVAL);
	assert_int_equal(endpoint_bind(endpoint, ip("10.0.0.1", 1)), 0);
	assert_int_equal(set(endpoint, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
	assert_int_equal(set(endpoint, RDMA_OPTION_ID_AFONLY, 0), 0);
	endpoint_destroy(endpoint);
	endpoint_destroy(datagram);
}

static void a_path_can_be_given_instead_of_resolved(void **test)
{
	struct endpoint *endpoint = create();
	struct ibv_path_data data = {
		.path = { .mtu = 2 << 6 | IBV_MTU_512, .packetlifetime = 2 << 6 | 9,
			  .flowlabel_hoplimit = htobe32(0x12345 << 8 | 7), .tclass = 3 },
	};
	struct endpoint_info info;

	resolve_by(endpoint, "10.0.0.2", 1, &data);
	endpoint_query(endpoint, &info);
	assert_int_equal(info.path.mtu, IBV_MTU_512);
	assert_int_equal(info.path.packet_life_time, 9);
	assert_int_equal(be32toh(info.path.flow_label), 0x12345);
	assert_int_equal(info.path.hop_limit, 7);
	endpoint_destroy(endpoint);
}

/* ---- channels ---- */

static void the_fd_is_readable_while_an_event_waits(void **test)
{
	struct endpoint *endpoint = create();

	assert_false(is_readable(channel));
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	assert_int_equal(endpoint_resolve_route(endpoint, 1), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	expect_none();
	endpoint_destroy(endpoint);
}

/* Of the application's: kinds that our header may not have. */
static void raised_events_bring_their_argument_in_turn(void **test)
{
	struct endpoint *endpoint = create();
	struct endpoint_event event;

	assert_int_equal(endpoint_raise(endpoint, 18, -5, UINT64_MAX - 1), 0);
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	event = take(18);
	assert_ptr_equal(event.endpoint, endpoint);
	assert_int_equal(event.status, -5);
	assert_true(event.argument == UINT64_MAX - 1);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	expect_none();
	assert_int_equal(endpoint_raise(endpoint, 18, 0, 0), 0);
	endpoint_destroy(endpoint);	/* drops it */
	expect_none();
}

static void destroying_drops_waiting_events(void **test)
{
	struct endpoint *endpoint = create(), *other = create();

	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	assert_int_equal(endpoint_resolve_address(other, NULL, ip("10.0.0.2", 1), 1), 0);
	endpoint_destroy(endpoint);
	assert_ptr_equal(take(RDMA_CM_EVENT_ADDR_RESOLVED).endpoint, other);
	expect_none();
	endpoint_destroy(other);
}

static void waiting_events_migrate(void **test)
{
	struct endpoint *endpoint = create();
	struct cm_channel *old = channel, *new;
	uint32_t taken;

	assert_int_equal(cm_channel_open(&new), 0);
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	assert_int_equal(endpoint_migrate(endpoint, new, &taken), 0);
	expect_none();
	channel = new;
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	channel = old;
	assert_int_equal(endpoint_migrate(endpoint, old, &taken), 0);
	cm_channel_close(new);
	assert_int_equal(endpoint_resolve_route(endpoint, 1), 0);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	endpoint_destroy(endpoint);
}

static void an_endpoint_outlives_its_channel(void **test)
{
	struct endpoint *endpoint;
	struct cm_channel *own;

	assert_int_equal(cm_channel_open(&own), 0);
	assert_int_equal(endpoint_create(own, RDMA_PS_TCP, IBV_QPT_RC, NULL, &endpoint), 0);
	cm_channel_close(own);
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	endpoint_destroy(endpoint);
}

static void a_closed_channel_says_so(void **test)
{
	struct cm_channel *closed;
	struct endpoint_event event;

	assert_int_equal(cm_channel_open(&closed), 0);
	cm_channel_close(closed);
	assert_int_equal(cm_channel_take(closed, &event), EBADF);
}

static void *acknowledge_late(void *event)
{
	struct timespec nap = { .tv_nsec = 20000000 };

	nanosleep(&nap, NULL);
	endpoint_event_ack(event);
	return NULL;
}

static void destroying_waits_for_acknowledgements(void **test)
{
	struct endpoint *endpoint = create();
	struct endpoint_event event;
	pthread_t thread;
	uint64_t before_ns;

	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	assert_int_equal(cm_channel_take(channel, &event), 0);
	before_ns = clock_now_ns();
	pthread_create(&thread, NULL, acknowledge_late, &event);
	endpoint_destroy(endpoint);
	assert_true(clock_now_ns() - before_ns >= 15000000);
	pthread_join(thread, NULL);
}

struct migration {
	struct endpoint *endpoint;
	uint32_t taken;
	_Atomic bool over;
};

static void *await_acks(void *argument)
{
	struct migration *migration = argument;

	endpoint_await_acks(migration->endpoint, migration->taken);
	migration->over = true;
	return NULL;
}

/* An event of the new channel that is held meanwhile does not matter. */
static void migrating_waits_for_acknowledgements_of_what_was_taken_before(void **test)
{
	struct migration migration = { .endpoint = create() };
	struct cm_channel *old = channel, *new;
	struct endpoint_event before, after;
	pthread_t thread;

	assert_int_equal(cm_channel_open(&new), 0);
	assert_int_equal(endpoint_resolve_address(migration.endpoint, NULL, ip("10.0.0.2", 1), 1), 0);
	assert_int_equal(cm_channel_take(old, &before), 0);
	assert_int_equal(endpoint_migrate(migration.endpoint, new, &migration.taken), 0);
	assert_int_equal(endpoint_resolve_route(migration.endpoint, 1), 0);
	assert_int_equal(cm_channel_take(new, &after), 0);
	pthread_create(&thread, NULL, await_acks, &migration);
	sched_yield();
	assert_false(migration.over);
	endpoint_event_ack(&before);
	pthread_join(thread, NULL);
	assert_true(migration.over);
	endpoint_await_acks(migration.endpoint, migration.taken);	/* at once */
	endpoint_event_ack(&after);
	endpoint_destroy(migration.endpoint);
	cm_channel_close(new);
}

static void a_new_agent_starts_after_the_last_channel(void **test)
{
	assert_int_equal(fake.opened, 1);
	cm_channel_close(channel);
	assert_int_equal(fake.opened, 0);
	assert_int_equal(cm_channel_open(&channel), 0);
	assert_int_equal(fake.opened, 1);
}

static void an_endpoint_is_small(void **test)
{
	assert_in_range(sizeof(struct endpoint), 1, 448);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		channel_test(a_bound_address_finds_its_device),
		channel_test(a_wildcard_is_of_no_device),
		channel_test(port_0_becomes_one_that_is_claimed),
		channel_test(refused_addresses_have_the_errno_of_the_kernel),
		channel_test(a_port_is_taken_once),
		channel_test(port_spaces_do_not_meet),
		channel_test(a_port_of_another_process_is_in_use),
		channel_test(reuseaddr_shares_a_port_until_one_listens),
		channel_test(ipv6_only_leaves_the_port_of_ipv4_alone),
		channel_test(a_service_id_of_af_ib_is_a_port_of_its_space),
		channel_test(loopback_goes_over_vb_lo_and_own_addresses_over_their_device),
		channel_test(what_cannot_be_reached_fails_the_call_or_is_an_address_error),
		channel_test(a_silent_neighbour_is_waited_for),
		channel_test(a_neighbour_that_stays_silent_is_an_address_error),
		channel_test(resolving_checks_its_source),
		channel_test(the_path_is_as_linux_makes_it),
		channel_test(options_have_their_sizes_and_times),
		channel_test(a_path_can_be_given_instead_of_resolved),
		channel_test(the_fd_is_readable_while_an_event_waits),
		channel_test(raised_events_bring_their_argument_in_turn),
		channel_test(destroying_drops_waiting_events),
		channel_test(waiting_events_migrate),
		channel_test(an_endpoint_outlives_its_channel),
		channel_test(a_closed_channel_says_so),
		channel_test(destroying_waits_for_acknowledgements),
		channel_test(migrating_waits_for_acknowledgements_of_what_was_taken_before),
		channel_test(a_new_agent_starts_after_the_last_channel),
		cmocka_unit_test(an_endpoint_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
