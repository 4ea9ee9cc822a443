/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts: opening, closing and fork(), asynchronous events, the list of devices, and what a device
 * says of itself.
 */
#include "device/device_test.h"

#include <poll.h>
#include <sys/wait.h>

/* ---- opening and closing ---- */

static void contexts_share_the_hca_of_the_process(void **state)
{
	struct hca_context *second, *none = NULL;
	struct hca *again;

	assert_int_equal(hca_open("vb_lo", &second), 0);
	assert_ptr_equal(second->hca, hca);
	assert_ptr_equal(second->port, context->port);
	assert_int_equal(context->port->references, 2);
	assert_int_equal(hca_open("vb_none", &none), ENODEV);
	assert_null(none);
	assert_int_equal(hca_get(&again), 0);
	assert_ptr_equal(again, hca);
	hca_put(again);
	hca_close(second);
	assert_int_equal(context->port->references, 1);
	assert_ptr_equal(hca->contexts.next, &context->node);
	assert_ptr_equal(hca->contexts.prev, &context->node);
	assert_ptr_equal(hca_counters(context), hca->engine.counters);
}

static void each_open_and_close_leaves_the_descriptors_as_they_were(void **state)
{
	struct hca_context *second, *none = NULL;
	unsigned before = fds_open();

	assert_int_equal(hca_open("vb_lo", &second), 0);
	assert_int_equal(fds_open(), before + 2);
	assert_true(fcntl(hca_async_fd(second), F_GETFD) >= 0);
	assert_true(fcntl(hca_command_fd(second), F_GETFD) >= 0);
	hca_close(second);
	assert_int_equal(fds_open(), before);
	assert_int_equal(hca_open("vb_none", &none), ENODEV);
	assert_int_equal(fds_open(), before);
}

/* Verbs refuse such queue pairs; if there is one nevertheless, closing ends and touches nothing freed. */
static void a_close_does_not_wait_for_what_another_context_uses(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4 };
	struct hca_context *second;
	struct cq *foreign;
	struct qp *qp;

	assert_int_equal(hca_open("vb_lo", &second), 0);
	assert_int_equal(hca_create_cq_in(second, &cq_attr, NULL, &foreign), 0);
	attr.send_cq = attr.recv_cq = (struct ibv_cq *)&foreign->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_true(hca_close(second));
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(atomic_load(&foreign->users), 0);
	cq_fini(foreign);
	free(foreign);
}

static void the_last_close_ends_the_hca(void **state)
{
	struct hca_context *first = context;
	uint32_t slot = hca->engine.qps.slot[0].number;
	unsigned open = fds_open(), before;

	hca_close(first);
	assert_false(slot_is_claimed(slot));
	before = fds_open();
	assert_true(before < open);
	assert_int_equal(hca_open("vb_lo", &context), 0);
	hca_close(context);
	assert_int_equal(fds_open(), before);
	assert_int_equal(hca_open("vb_lo", &context), 0);
}

/*
 * ThreadSanitizer ends a child of several threads that starts one. The allocator of AddressSanitizer
 * stays locked in a child if another thread was in it at fork().
 */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STARTS_NO_THREAD true
#elif defined(__has_feature)
#define STARTS_NO_THREAD (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define STARTS_NO_THREAD false
#endif

static int in_child(void)
{
	struct hca_context *own;
	struct pd *made;
	int err;

	if (!context->abandoned || hca_alloc_pd(context, &made) != EIO)
		return 1;
	if (fcntl(hca->engine.qps.slot[0].fd, F_GETFD) >= 0 || fcntl(hca->netdev_fd, F_GETFD) >= 0)
		return 2;
	if (fcntl(hca->engine.waiter.epoll_fd, F_GETFD) >= 0 ||
	    fcntl(hca->engine.waiter.nap_fd, F_GETFD) >= 0)
		return 3;
	hca_close(context);
	if (STARTS_NO_THREAD)
		return 0;
	err = hca_open("vb_lo", &own);
	if (err || own->hca == hca ||
	    own->hca->engine.qps.slot[0].number == hca->engine.qps.slot[0].number)
		return 4;
	hca_close(own);
	return 0;
}

static void a_child_has_none_of_it_and_can_open_its_own(void **state)
{
	struct pd *made;
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(context->abandoned);
	assert_int_equal(hca_alloc_pd(context, &made), 0);
	assert_true(slot_is_claimed(hca->engine.qps.slot[0].number));
}

static void interfaces_are_watched(void **state)
{
	struct pollfd ready = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	assert_int_equal(poll(&ready, 1, 0), 0);
	assert_int_equal(system("ip address add 127.0.0.77/8 dev lo"), 0);
	assert_int_equal(poll(&ready, 1, 10000), 1);
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.element.port_num, 1);
	hca_ack_async_event(&event);
}

/* ---- asynchronous events ---- */

static void an_event_of_a_port_is_for_all_contexts_of_that_port(void **state)
{
	struct port other = { .name = "other" };
	struct ibv_async_event event;
	struct hca_context *second;

	assert_int_equal(hca_open("vb_lo", &second), 0);
	assert_int_equal(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
	contexts_raise(hca, &other, IBV_EVENT_PORT_ERR);
	assert_int_equal(hca_get_async_event(context, &event), EAGAIN);
	contexts_raise(hca, context->port, IBV_EVENT_PORT_ERR);
	assert_true(is_free(&hca->objects));
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(hca_get_async_event(context, &event), EAGAIN);
	assert_int_equal(hca_get_async_event(second, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	contexts_raise(hca, context->port, IBV_EVENT_PORT_ACTIVE);	/* and nobody fetches it */
	hca_close(second);
}

static _Atomic bool destroyed;

static void *destroys(void *qp)
{
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	atomic_store(&destroyed, true);
	return NULL;
}

static void a_qp_waits_for_the_acknowledgement_of_its_event(void **state)
{
	struct ibv_async_event event;
	struct effects effects;
	struct qp *qp = qp_rts(IBV_QPT_RC);
	pthread_t thread;

	effects_init(&effects);
	qp_raise(qp, QP_EVENT_COMM_EST, &effects);
	effects_apply(&effects);
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_COMM_EST);
	assert_ptr_equal(event.element.qp, &qp->ibv.qp_base);
	assert_int_equal(qp->async_events_got, 1);
	atomic_store(&destroyed, false);
	assert_int_equal(pthread_create(&thread, NULL, destroys, qp), 0);
	thread_sleep_ns(50 * MS);
	assert_false(atomic_load(&destroyed));
	hca_ack_async_event(&event);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void events_of_cqs_and_srqs_are_acknowledged_there(void **state)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { 16, 1, 0 }, .pd = &pd->ibv };
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR };
	struct srq *srq;

	assert_int_equal(hca_create_srq(context, &attr, &srq), 0);
	event.element.cq = (struct ibv_cq *)&cq->ibv;
	hca_ack_async_event(&event);
	assert_int_equal(cq->ibv.async_events_completed, 1);
	cq->async_events_got = 1;
	event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	event.element.srq = &srq->ibv;
	hca_ack_async_event(&event);
	assert_int_equal(srq->ibv.events_completed, 1);
	srq->async_events_got = 1;
}

/* ---- what there is ---- */

static void interfaces_that_are_up_are_devices(void **state)
{
	struct hca_device *list;
	int count, i;

	assert_int_equal(system("ip link add va type veth peer name vb; ip link set va up; "
				"ip address add 192.0.2.1/24 dev va; "
				"ip address add 192.0.2.9/24 dev vb"), 0);
	assert_int_equal(hca_device_list(&list, &count), 0);
	assert_int_equal(count, 2);
	assert_string_equal(list[0].name, "vb_va");
	assert_string_equal(list[0].interface, "va");
	assert_int_equal(list[0].interface_index, if_nametoindex("va"));
	assert_string_equal(list[1].name, "vb_lo");
	for (i = 0; i < count; i++)
		assert_int_equal(list[i].index, i);
	assert_int_not_equal(list[0].guid, 0);
	assert_int_not_equal(list[0].guid, list[1].guid);
	free(list);
}

static void settings_that_are_wrong_are_refused_when_devices_are_listed(void **state)
{
	static const char *const wrong[][2] = { { "VERBATIM_FAULT", "los=1" }, { "VERBATIM_TRACE", "" },
						{ "VERBATIM_MEMORY", "fast" }, { "VERBATIM_MTU", "7" } };
	struct hca_device *list;
	int count;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv(wrong[i][0], wrong[i][1], 1);
		assert_int_equal(hca_device_list(&list, &count), EINVAL);
		unsetenv(wrong[i][0]);
	}
	assert_int_equal(hca_device_list(&list, &count), 0);
	free(list);
}

static void a_device_says_what_it_can(void **state)
{
	struct ibv_device_attr_ex attr;
	struct ibv_device_attr *orig = &attr.orig_attr;

	hca->config.max_qp = 1000;
	hca->config.max_mr = 2000;
	hca->config.max_cqe = 3000;
	assert_int_equal(hca_query_device(context, &attr), 0);
	assert_int_equal(orig->max_qp, 1000);
	assert_int_equal(orig->max_mr, 2000);
	assert_int_equal(orig->max_cqe, 3000);
	assert_int_equal(orig->max_sge, LIMIT_SGE);
	assert_int_equal(orig->max_res_rd_atom, LIMIT_RD_ATOMIC * 1000);
	assert_int_equal(orig->phys_port_cnt, 1);
	assert_int_equal(orig->node_guid, context->port->guid);
	/* Not 0 and not 0xffffff, which programs take for rxe; locally administered, not a group. */
	assert_int_equal(orig->vendor_id, 0x565242);
	assert_int_equal(orig->vendor_id >> 16 & 3, 2);
	assert_int_equal(orig->vendor_part_id, 1);
	assert_int_equal(attr.max_dm_size, LIMIT_DM_BYTES);
}

/* The code of width and speed that is nearest, from below. */
static void a_port_says_its_speed(void **state)
{
	static const struct { uint32_t gbps; uint8_t width, speed; uint32_t extended; } rows[] = {
		{ 1, 1, 1 }, { 10, 1, 4 }, { 24, 1, 16 }, { 25, 1, 32 }, { 100, 2, 32 },
		{ 200, 2, 64 }, { 300, 2, 64 }, { 400, 4, 64 },
		{ 800, 2, 128, 256 },
	};
	struct ibv_port_attr attr;
	uint32_t code;
	uint64_t speed;
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hca->config.speed = rows[i].gbps;
		assert_int_equal(hca_query_port(context, 1, &attr, &code), 0);
		assert_int_equal(attr.active_width, rows[i].width);
		assert_int_equal(attr.active_speed, rows[i].speed);
		assert_int_equal(code, rows[i].extended ? rows[i].extended : rows[i].speed);
		assert_int_equal(hca_query_port_speed(context, 1, &speed), 0);
		assert_int_equal(speed, rows[i].gbps * 10);
	}
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.gid_tbl_len, GID_TABLE_SIZE);
	assert_int_equal(hca_query_port(context, 0, &attr, NULL), EINVAL);
	assert_int_equal(hca_query_port(context, 2, &attr, NULL), EINVAL);
	/* That of lo is the memory's; beside another device lo must not look the faster one. */
	hca->config.speed = 0;
	assert_int_equal(hca_query_port_speed(context, 1, &speed), 0);
	assert_int_equal(speed, 4000);
	assert_int_equal(hca_query_port(context, 1, &attr, NULL), 0);
	assert_int_equal(attr.active_width, 4);
	assert_int_equal(attr.active_speed, 64);
	context->port->alone = false;
	assert_int_equal(hca_query_port_speed(context, 1, &speed), 0);
	assert_int_equal(speed, 25);
	context->port->netdev.loopback = false;
	assert_int_equal(hca_query_port_speed(context, 1, &speed), 0);
	assert_int_equal(speed, 100);	/* one that does not say its own */
	context->port->netdev.loopback = true;
	assert_int_equal(hca_query_port_speed(context, 2, &speed), EINVAL);
	assert_true(is_free(&hca->net.lock));
}

static void another_speed_raises_an_event(void **state)
{
	struct ibv_async_event event;
	struct net_change change;

	assert_int_equal(fcntl(hca_async_fd(context), F_SETFL, O_NONBLOCK), 0);
	context->port->netdev.speed_mbps = 1234;
	net_refresh(&hca->net, &change, 1);
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, EVENT_SPEED_CHANGE);
	hca_ack_async_event(&event);
	net_refresh(&hca->net, &change, 1);
	assert_int_equal(hca_get_async_event(context, &event), EAGAIN);
	/* The user's word stands. */
	hca->config.speed = 100;
	context->port->netdev.speed_mbps = 1234;
	net_refresh(&hca->net, &change, 1);
	assert_int_equal(hca_get_async_event(context, &event), EAGAIN);
}

static void tables_have_an_end(void **state)
{
	struct hca_gid gid = { .index = 77 };
	__be16 pkey = 0;

	assert_int_equal(hca_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(hca_query_pkey(context, 1, 1, &pkey), EINVAL);
	assert_int_equal(hca_query_pkey(context, 2, 0, &pkey), EINVAL);
	assert_int_equal(hca_query_gid(context, 1, 0, &gid), 0);
	assert_int_equal(gid.index, 0);
	assert_int_equal(gid.interface_index, if_nametoindex("lo"));
	assert_int_equal(hca_query_gid(context, 1, GID_TABLE_SIZE - 1, &gid), ENODATA);
	assert_int_equal(hca_query_gid(context, 1, GID_TABLE_SIZE, &gid), EINVAL);
	assert_int_equal(hca_query_gid(context, 2, 0, &gid), EINVAL);
	assert_true(is_free(&hca->net.lock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(contexts_share_the_hca_of_the_process),
		DEVICE_TEST(each_open_and_close_leaves_the_descriptors_as_they_were),
		DEVICE_TEST(a_close_does_not_wait_for_what_another_context_uses),
		DEVICE_TEST(the_last_close_ends_the_hca),
		DEVICE_TEST(a_child_has_none_of_it_and_can_open_its_own),
		DEVICE_TEST(interfaces_are_watched),
		DEVICE_TEST(an_event_of_a_port_is_for_all_contexts_of_that_port),
		DEVICE_TEST(a_qp_waits_for_the_acknowledgement_of_its_event),
		DEVICE_TEST(events_of_cqs_and_srqs_are_acknowledged_there),
		DEVICE_TEST(interfaces_that_are_up_are_devices),
		DEVICE_TEST(settings_that_are_wrong_are_refused_when_devices_are_listed),
		DEVICE_TEST(a_device_says_what_it_can),
		DEVICE_TEST(a_port_says_its_speed),
		DEVICE_TEST(another_speed_raises_an_event),
		DEVICE_TEST(tables_have_an_end),
	};

	DEVICE_TESTS(tests);
}
